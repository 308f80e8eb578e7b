//! What bars and lines have around them: title, legend, axes and their names.

use super::Key;
use super::font::width;
use super::picture::{Anchor, Paint, Picture, Point, Shape};
use super::scale::{Scale, number};

const WIDTH: f64 = 860.0;
/// The part where values stand.
const FIELD: f64 = 320.0;
/// Room for the numbers of the upright axis, and for half a name at the right.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TITLE: f64 = 24.0;
const LEGEND_LINE: f64 = 20.0;
pub(super) const SMALL: f64 = 12.0;

/// A frame with room for values.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) floor: f64,
    pub(super) shapes: Vec<Shape>,
}

pub(super) fn text(at: Point, anchor: Anchor, paint: Paint, text: impl Into<String>) -> Shape {
    Shape::Text { at, anchor, size: SMALL, bold: false, paint, text: text.into() }
}

/// A rectangle, hollow where it is the paper's.
pub(super) fn bar(left: f64, top: f64, right: f64, floor: f64, key: &Key, hint: String) -> Shape {
    let (paint, inset) = (Paint::Series(key.colour), if key.paper { 0.75 } else { 0.0 });
    let (left, right, top) = (left + inset, right - inset, (top + inset).min(floor));
    let points = vec![(left, top), (right, top), (right, floor), (left, floor)];
    let fill = if key.paper { Paint::Ground } else { paint };
    let edge = key.paper.then_some((paint, 1.5));
    Shape::Area { points, fill, edge, hint }
}

/// The mark of a series, of a form of its own; hollow where it is the paper's.
pub(super) fn mark((x, y): Point, key: &Key, hint: String) -> Shape {
    let paint = Paint::Series(key.colour);
    let fill = if key.paper { Paint::Ground } else { paint };
    let edge = Some((paint, 1.5));
    let radius = if key.paper { 4.0 } else { 3.25 };
    let polygon = |corners: &[Point]| {
        let points = corners.iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius)).collect();
        Shape::Area { points, fill, edge, hint: hint.clone() }
    };
    match key.colour % 4 {
        0 => Shape::Disc { centre: (x, y), radius, fill, edge, hint },
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)]),
        _ => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
    }
}

impl Frame {
    /// With a title, a legend (none for a single name) and the upright axis.
    pub(super) fn new(
        title: &str,
        axis: &str,
        y: &Scale,
        keys: &[Key],
        sample: impl Fn(Point, &Key) -> Vec<Shape>,
    ) -> Frame {
        let mut shapes = vec![Shape::Text {
            at: (0.0, TITLE - 6.0),
            anchor: Anchor::Start,
            size: 16.0,
            bold: true,
            paint: Paint::Ink,
            text: title.into(),
        }];
        let mut line = TITLE + LEGEND_LINE;
        if keys.len() > 1 {
            let mut x = 0.0;
            for key in keys {
                let wide = 26.0 + width(&key.label, SMALL, false);
                if x > 0.0 && x + wide > WIDTH {
                    (x, line) = (0.0, line + LEGEND_LINE);
                }
                shapes.extend(sample((x, line - 4.0), key));
                shapes.push(text((x + 26.0, line), Anchor::Start, Paint::Ink, &*key.label));
                x += wide + 18.0;
            }
            line += LEGEND_LINE;
        }
        shapes.push(text((0.0, line + 4.0), Anchor::Start, Paint::Muted, axis));
        let top = line + 22.0;
        let frame = Frame { left: LEFT, right: WIDTH - RIGHT, top, floor: top + FIELD, shapes };
        frame.with_grid(y)
    }

    fn with_grid(mut self, y: &Scale) -> Frame {
        let rule = |at: f64, paint| {
            let points = vec![(self.left, at), (self.right, at)];
            Shape::Stroke { points, paint, width: 1.0, dashed: false }
        };
        let mut shapes = Vec::new();
        for tick in &y.ticks {
            let Some(at) = self.up(y, *tick) else { continue };
            shapes.push(rule(at, Paint::Grid));
            let number = number(*tick);
            shapes.push(text((self.left - 8.0, at + 4.0), Anchor::End, Paint::Muted, number));
        }
        // Zero is the floor of bars; where lines go below it, it is seen as well.
        shapes.push(rule(self.up(y, 0.0).unwrap_or(self.floor), Paint::Muted));
        self.shapes.extend(shapes);
        self
    }

    /// The height of a value, in the picture.
    pub(super) fn up(&self, y: &Scale, value: f64) -> Option<f64> {
        y.place(value).map(|part| self.floor - part * (self.floor - self.top))
    }

    /// The whole, with `below` for what is under the floor.
    pub(super) fn picture(self, below: f64, alt: String) -> Picture {
        Picture { width: WIDTH, height: self.floor + below, alt, shapes: self.shapes }
    }
}
