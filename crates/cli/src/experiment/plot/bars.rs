//! A chart of bars.

use super::font::width;
use super::frame::{Frame, SMALL, bar, text};
use super::picture::{Anchor, Paint, Picture, Shape};
use super::scale::{Scale, number};
use super::{Bars, keys};

/// The part of a group's width that its bars have.
const FULL: f64 = 0.82;
/// A bar is at most this wide.
const WIDEST: f64 = 56.0;
/// The size of the number over a bar.
const TINY: f64 = 11.0;

pub(super) fn picture(chart: &Bars) -> Picture {
    let keys = keys(chart.series.iter().map(|s| (&*s.name, s.paper)));
    let y = Scale::from_zero(chart.groups.iter().flat_map(|(_, bars)| bars).copied());
    let mut frame = Frame::new(&chart.title, &chart.axis, &y, &keys, |(x, y), key| {
        vec![bar(x, y - 6.0, x + 18.0, y + 6.0, key, String::new())]
    });
    let wide = (frame.right - frame.left) / chart.groups.len().max(1) as f64;
    let pitch = (wide * FULL / keys.len().max(1) as f64).min(WIDEST);
    // Over each bar, where none of them is wider than its bar.
    let label = |value: f64| number(short(value));
    let values = chart.groups.iter().flat_map(|(_, bars)| bars).filter(|v| v.is_finite());
    let labelled = values.copied().all(|v| width(&label(v), TINY, false) < pitch);
    let mut lines = 1;
    for (g, (name, bars)) in chart.groups.iter().enumerate() {
        let middle = frame.left + wide * (g as f64 + 0.5);
        let left = middle - pitch * keys.len() as f64 / 2.0;
        for (i, (value, key)) in bars.iter().zip(&keys).enumerate() {
            let Some(top) = frame.up(&y, *value) else { continue };
            let (from, to) = (left + pitch * (i as f64 + 0.06), left + pitch * (i as f64 + 0.94));
            let hint = format!("{name}: {}: {}", key.label, number(*value));
            frame.shapes.push(bar(from, top, to, frame.floor, key, hint));
            if labelled {
                let (at, text) = (((from + to) / 2.0, top - 4.0), label(*value));
                let (anchor, paint) = (Anchor::Middle, Paint::Muted);
                frame.shapes.push(Shape::Text { at, anchor, size: TINY, bold: false, paint, text });
            }
        }
        let broken = broken(name, wide * 0.96);
        lines = lines.max(broken.len());
        for (i, line) in broken.into_iter().enumerate() {
            let at = (middle, frame.floor + 18.0 + i as f64 * 15.0);
            frame.shapes.push(text(at, Anchor::Middle, Paint::Ink, line));
        }
    }
    let alt = format!("Bars: {}. {}.", chart.title, chart.axis);
    frame.picture(14.0 + lines as f64 * 15.0, alt)
}

/// Three digits.
fn short(value: f64) -> f64 {
    let decimals = match value.abs() {
        v if v >= 100.0 => 1.0,
        v if v >= 10.0 => 10.0,
        _ => 100.0,
    };
    (value * decimals).round() / decimals
}

/// A name in lines of some width, as far as its words allow.
fn broken(name: &str, wide: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), SMALL, false) <= wide => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::plot::Series;

    fn chart(groups: Vec<(String, Vec<f64>)>) -> Bars {
        let series = vec![Series::paper("line"), Series::ours("line")];
        Bars { title: "t".into(), axis: "links".into(), series, groups }
    }

    #[test]
    fn every_bar_is_as_high_as_its_value() {
        let nan = f64::NAN;
        let groups = vec![("UDP".into(), vec![1.0, 2.0]), ("TCP & more".into(), vec![nan, 4.0])];
        let picture = picture(&chart(groups));
        let heights: Vec<f64> = picture
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Area { points, hint, .. } if !hint.is_empty() => {
                    Some((points[2].1 - points[1].1).round())
                }
                _ => None,
            })
            .collect();
        // The axis ends at 4, 320 high; the paper's edge is inside its bar.
        assert_eq!(heights, [79.0, 160.0, 320.0]);
        let svg = picture.svg();
        assert!(svg.contains("TCP &amp; more") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn long_names_are_broken_and_nothing_at_all_is_drawn_too() {
        assert_eq!(broken("request and response", 60.0), ["request", "and", "response"]);
        assert_eq!(broken("request and response", 600.0), ["request and response"]);
        assert!(picture(&chart(Vec::new())).svg().contains("<svg"));
    }
}
