//! A chart of bars.

use super::font::{broken, width};
use super::frame::{Frame, Head, LINE, SMALL, Size, bar, text};
use super::picture::{Anchor, Paint, Picture, Shape};
use super::scale::{Scale, figure, number};
use super::{Bars, keys};

/// The part of a group's width that its bars have.
const FULL: f64 = 0.82;
/// A bar is at most this wide.
const WIDEST: f64 = 56.0;
/// The size of the number over a bar.
const TINY: f64 = 11.0;

/// Bars side by side, or one upon the other.
pub(super) fn picture(chart: &Bars, stacked: bool, size: Size) -> Picture {
    let keys = keys(chart.series.iter().map(|s| (&*s.name, s.paper)));
    // What stands over each column: the values, or their sum.
    let tops: Vec<Vec<f64>> = chart.groups.iter().map(|(_, bars)| tops(bars, stacked)).collect();
    let y = Scale::from_zero(tops.iter().flatten().copied());
    let head = Head { title: &chart.title, axis: &chart.axis, keys: &keys, left: 0.0 };
    let mut frame = Frame::new(size, &head, &y, |(x, y), key| {
        vec![bar(x, y - 6.0, x + 18.0, y + 6.0, key, String::new())]
    });
    let wide = (frame.right - frame.left) / chart.groups.len().max(1) as f64;
    let columns = if stacked { 1 } else { keys.len() };
    let pitch = (wide * FULL / columns.max(1) as f64).min(WIDEST);
    // Where none of them is wider than its column.
    let values = tops.iter().flatten().filter(|v| v.is_finite());
    let labelled = values.copied().all(|v| width(&figure(v), TINY, false) < pitch);
    let mut lines = 1;
    for (g, ((name, bars), tops)) in chart.groups.iter().zip(&tops).enumerate() {
        let middle = frame.left + wide * (g as f64 + 0.5);
        let left = middle - pitch * columns as f64 / 2.0;
        let ends = |column: usize| {
            (left + pitch * (column as f64 + 0.06), left + pitch * (column as f64 + 0.94))
        };
        let mut below = 0.0;
        for (i, (value, key)) in bars.iter().zip(&keys).enumerate() {
            let base = if stacked { below } else { 0.0 };
            let (Some(top), Some(floor)) = (frame.up(&y, base + value), frame.up(&y, base)) else {
                continue;
            };
            below += value;
            let (from, to) = ends(if stacked { 0 } else { i });
            let hint = format!("{name}: {}: {}", key.label, number(*value));
            frame.shapes.push(bar(from, top, to, floor, key, hint));
        }
        for (column, value) in tops.iter().enumerate().filter(|_| labelled) {
            let Some(top) = frame.up(&y, *value) else { continue };
            let (from, to) = ends(column);
            let (at, text) = (((from + to) / 2.0, top - 4.0), figure(*value));
            let (anchor, paint) = (Anchor::Middle, Paint::Muted);
            frame.shapes.push(Shape::Text { at, anchor, size: TINY, bold: false, paint, text });
        }
        let broken = broken(name, SMALL, false, wide * 0.96);
        lines = lines.max(broken.len());
        for (i, line) in broken.into_iter().enumerate() {
            let at = (middle, frame.floor + 18.0 + i as f64 * LINE);
            frame.shapes.push(text(at, Anchor::Middle, Paint::Ink, line));
        }
    }
    let series: Vec<&str> = keys.iter().map(|k| &*k.label).collect();
    let groups: Vec<&str> = chart.groups.iter().map(|(name, _)| &**name).collect();
    let (series, groups) = (series.join("; "), groups.join("; "));
    let alt =
        format!("Bars: {}. Up: {}. Series: {series}. Groups: {groups}.", chart.title, chart.axis);
    frame.picture(14.0 + lines as f64 * LINE, alt)
}

/// How high the columns of a group are.
fn tops(bars: &[f64], stacked: bool) -> Vec<f64> {
    match stacked {
        true => vec![bars.iter().filter(|v| v.is_finite()).sum()],
        false => bars.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Series;

    fn chart(groups: Vec<(String, Vec<f64>)>) -> Bars {
        let series = vec![Series::paper("line"), Series::ours("line")];
        Bars { title: "t".into(), axis: "links".into(), series, groups }
    }

    /// Bottom and top of each bar, where the floor is 0.
    fn heights(picture: &Picture) -> Vec<(f64, f64)> {
        let bars = picture.shapes.iter().filter_map(|shape| match shape {
            Shape::Area { points, hint, .. } if !hint.is_empty() => {
                Some((points[2].1, points[1].1))
            }
            _ => None,
        });
        let bars: Vec<_> = bars.collect();
        let floor = bars.iter().map(|b| b.0).fold(0.0, f64::max);
        bars.iter().map(|(bottom, top)| ((floor - bottom).round(), (floor - top).round())).collect()
    }

    #[test]
    fn every_bar_is_as_high_as_its_value() {
        let nan = f64::NAN;
        let groups = vec![("UDP".into(), vec![1.0, 2.0]), ("TCP & more".into(), vec![nan, 4.0])];
        let picture = picture(&chart(groups), false, Size::WHOLE);
        // The axis ends at 4, 320 high; the paper's edge is inside its bar.
        assert_eq!(heights(&picture), [(0.0, 79.0), (0.0, 160.0), (0.0, 320.0)]);
        let svg = picture.svg();
        assert!(svg.contains("TCP &amp; more") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn bars_that_are_parts_stand_one_upon_the_other() {
        let series = ["a", "b", "c"].map(Series::ours).into();
        let groups =
            vec![("x".into(), vec![1.0, 2.0, 1.0]), ("y".into(), vec![0.0, f64::NAN, 2.0])];
        let chart = Bars { title: "t".into(), axis: "links".into(), series, groups };
        let picture = picture(&chart, true, Size::WHOLE);
        let x = [(0.0, 80.0), (80.0, 240.0), (240.0, 320.0)];
        assert_eq!(heights(&picture), [&x[..], &[(0.0, 0.0), (0.0, 160.0)]].concat());
        let over = picture.shapes.iter().filter_map(|shape| match shape {
            Shape::Text { text, size, .. } if *size == TINY => Some(text.clone()),
            _ => None,
        });
        // The sum, once for each group.
        assert_eq!(over.collect::<Vec<_>>(), [4.0, 2.0].map(figure));
    }

    #[test]
    fn long_names_are_broken_and_nothing_at_all_is_drawn_too() {
        let broken = |wide| broken("request and response", SMALL, false, wide);
        assert_eq!(broken(60.0), ["request", "and", "response"]);
        assert_eq!(broken(600.0), ["request and response"]);
        // Never wider than its place, even where a word is.
        assert_eq!(broken(35.0).concat().replace(' ', ""), "requestandresponse");
        assert!(broken(35.0).iter().all(|line| width(line, SMALL, false) <= 35.0));
        assert!(picture(&chart(Vec::new()), false, Size::NARROW).svg().contains("<svg"));
    }
}
