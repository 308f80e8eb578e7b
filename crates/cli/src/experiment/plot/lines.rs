//! A chart of lines.

use super::frame::{Frame, mark, text};
use super::picture::{Anchor, Paint, Picture, Point, Shape};
use super::scale::{Scale, number};
use super::{Key, Lines, keys};

/// A line of more points has no marks.
const MARKS: usize = 40;

pub(super) fn picture(chart: &Lines) -> Picture {
    let keys = keys(chart.series.iter().map(|s| (&*s.name, s.paper)));
    let points = || chart.series.iter().flat_map(|s| &s.points);
    let x = Scale::around(points().map(|p| p.0), chart.log_x);
    let y = Scale::around(points().map(|p| p.1), chart.log_y);
    let mut frame = Frame::new(&chart.title, &chart.y, &y, &keys, |(x, y), key| {
        let line = stroke(vec![(x, y), (x + 20.0, y)], key);
        vec![line, mark((x + 10.0, y), key, String::new())]
    });
    let across = |frame: &Frame, value: f64| {
        x.place(value).map(|part| frame.left + part * (frame.right - frame.left))
    };
    for tick in &x.ticks {
        let Some(at) = across(&frame, *tick) else { continue };
        let points = vec![(at, frame.floor), (at, frame.floor + 5.0)];
        frame.shapes.push(Shape::Stroke { points, paint: Paint::Muted, width: 1.0, dashed: false });
        let at = (at, frame.floor + 19.0);
        frame.shapes.push(text(at, Anchor::Middle, Paint::Muted, number(*tick)));
    }
    let at = ((frame.left + frame.right) / 2.0, frame.floor + 40.0);
    frame.shapes.push(text(at, Anchor::Middle, Paint::Muted, &*chart.x));
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
    let alt = format!("Lines: {}. {} by {}.", chart.title, chart.y, chart.x);
    frame.picture(52.0, alt)
}

fn stroke(points: Vec<Point>, key: &Key) -> Shape {
    Shape::Stroke { points, paint: Paint::Series(key.colour), width: 2.0, dashed: key.paper }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::plot::Line;

    #[test]
    fn points_stand_where_their_values_are_and_the_papers_are_hollow() {
        let line = |points: &[(f64, f64)], paper| Line {
            name: "torus".into(),
            points: points.into(),
            paper,
        };
        let chart = Lines {
            title: "t".into(),
            x: "hosts".into(),
            y: "%".into(),
            log_x: true,
            log_y: false,
            series: vec![
                line(&[(0.0, 1.0), (1.0, 0.0), (10.0, 5.0), (100.0, 10.0)], false),
                line(&[(100.0, 10.0)], true),
            ],
        };
        let picture = picture(&chart);
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
