//! A chart of lines.

use super::font::{broken, width};
use super::frame::{Frame, Head, LINE, SMALL, Size, mark, text};
use super::picture::{Anchor, Paint, Picture, Point, Shape};
use super::scale::{Scale, number};
use super::{Key, Lines, keys};

/// A line of more points has no marks.
const MARKS: usize = 40;
/// Room between two numbers below the axis.
const BETWEEN: f64 = 6.0;

pub(super) fn picture(chart: &Lines, size: Size) -> Picture {
    let keys = keys(chart.series.iter().map(|s| (&*s.name, s.paper)));
    let points = || chart.series.iter().flat_map(|s| &s.points);
    let x = Scale::around(points().map(|p| p.0), chart.x.is_log);
    let y = Scale::around(points().map(|p| p.1), chart.y.is_log);
    let half = |tick: f64| width(&number(tick), SMALL, false) / 2.0;
    let left = x.ticks.first().map_or(0.0, |tick| half(*tick));
    let head = Head { title: &chart.title, axis: &chart.y.name, keys: &keys, left };
    let mut frame = Frame::new(size, &head, &y, |(x, y), key| {
        let line = stroke(vec![(x, y), (x + 20.0, y)], key);
        vec![line, mark((x + 10.0, y), key, String::new())]
    });
    let across = |frame: &Frame, value: f64| {
        x.place(value).map(|part| frame.left + part * (frame.right - frame.left))
    };
    // Where the last number ends.
    let mut written = f64::NEG_INFINITY;
    for tick in &x.ticks {
        let Some(at) = across(&frame, *tick) else { continue };
        let points = vec![(at, frame.floor), (at, frame.floor + 5.0)];
        frame.shapes.push(Shape::Stroke { points, paint: Paint::Muted, width: 1.0, dashed: false });
        if at - half(*tick) < written + BETWEEN {
            continue;
        }
        written = at + half(*tick);
        let at = (at, frame.floor + 19.0);
        frame.shapes.push(text(at, Anchor::Middle, Paint::Muted, number(*tick)));
    }
    let middle = (frame.left + frame.right) / 2.0;
    let names = broken(&chart.x.name, SMALL, false, frame.right - frame.left);
    let below = 37.0 + names.len() as f64 * LINE;
    for (i, name) in names.into_iter().enumerate() {
        let at = (middle, frame.floor + 40.0 + i as f64 * LINE);
        frame.shapes.push(text(at, Anchor::Middle, Paint::Muted, name));
    }
    for (line, key) in chart.series.iter().zip(&keys) {
        let placed = |(x, y_value): &(f64, f64)| -> Option<Point> {
            Some((across(&frame, *x)?, frame.up(&y, *y_value)?))
        };
        let placed: Vec<_> = line.points.iter().filter_map(|p| Some((placed(p)?, p))).collect();
        if placed.len() > 1 {
            frame.shapes.push(stroke(placed.iter().map(|(at, _)| *at).collect(), key));
        }
        if placed.len() <= MARKS {
            for (at, (x, y)) in placed {
                let hint = format!("{}: {}, {}", key.label, number(*x), number(*y));
                frame.shapes.push(mark(at, key, hint));
            }
        }
    }
    let series: Vec<&str> = keys.iter().map(|k| &*k.label).collect();
    let series = series.join("; ");
    let Lines { title, x, y, .. } = chart;
    let alt =
        format!("Lines: {title}. Up: {}. To the right: {}. Series: {series}.", y.name, x.name);
    frame.picture(below, alt)
}

fn stroke(points: Vec<Point>, key: &Key) -> Shape {
    Shape::Stroke { points, paint: Paint::Series(key.colour), width: 2.0, dashed: key.paper }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Line};

    #[test]
    fn points_stand_where_their_values_are_and_the_papers_are_hollow() {
        let series = vec![
            Line::ours("torus", vec![(0.0, 1.0), (1.0, 0.0), (10.0, 5.0), (100.0, 10.0)]),
            Line::paper("torus", vec![(100.0, 10.0)]),
        ];
        let (x, y) = (Axis::log("hosts"), Axis::linear("%"));
        let chart = Lines { title: "t".into(), x, y, series };
        let picture = picture(&chart, Size::WHOLE);
        let discs: Vec<(Point, bool)> = picture
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Disc { centre, fill, hint, .. } if !hint.is_empty() => {
                    Some((*centre, *fill == Paint::Ground))
                }
                _ => None,
            })
            .collect();
        // Zero hosts have no place on a logarithmic axis.
        let [((a, low), false), ((b, mid), false), ((c, high), false), (paper, true)] = discs[..]
        else {
            panic!("{discs:?}")
        };
        assert!((b - a - (c - b)).abs() < 1e-9 && (low - mid - (mid - high)).abs() < 1e-9);
        assert_eq!((paper, low - high), ((c, high), 320.0));
        assert!(picture.svg().contains("torus, paper"));
    }
}
