//! What bars and lines have around them: title, legend, axes and their names.

use super::Key;
use super::font::{broken, width};
use super::picture::{Anchor, Paint, Picture, Point, Shape};
use super::scale::{Scale, number};

/// Room for half a number at the right.
const RIGHT: f64 = 24.0;
/// Between a number and its axis.
const GAP: f64 = 8.0;
const TITLE: f64 = 22.0;
const TITLE_SIZE: f64 = 16.0;
/// From the left of a legend's sample to its name.
const SAMPLE: f64 = 26.0;
const LEGEND_LINE: f64 = 20.0;
/// From line to line of one text.
pub(super) const LINE: f64 = 15.0;
pub(super) const SMALL: f64 = 12.0;

/// How large a chart is: its width, and the height of the part where values stand.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Size {
    width: f64,
    field: f64,
}

impl Size {
    /// On a page of its own.
    pub(in super::super) const WHOLE: Size = Size { width: 860.0, field: 320.0 };
    /// Beside others, and on a telephone; with text of the same size.
    pub(in super::super) const NARROW: Size = Size { width: 340.0, field: 200.0 };
}

/// A frame with room for values.
pub(super) struct Frame {
    width: f64,
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

/// What stands over the values.
pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    /// What goes up.
    pub(super) axis: &'a str,
    pub(super) keys: &'a [Key],
    /// Room at the left that the numbers below need.
    pub(super) left: f64,
}

impl Frame {
    /// With a title, a legend (none for a single name) and the upright axis.
    pub(super) fn new(
        size: Size,
        head: &Head<'_>,
        y: &Scale,
        sample: impl Fn(Point, &Key) -> Vec<Shape>,
    ) -> Frame {
        let mut shapes = Vec::new();
        let mut line = 0.0;
        for text in broken(head.title, TITLE_SIZE, true, size.width) {
            line += TITLE;
            let (at, anchor, paint) = ((0.0, line - 6.0), Anchor::Start, Paint::Ink);
            shapes.push(Shape::Text { at, anchor, size: TITLE_SIZE, bold: true, paint, text });
        }
        line += LEGEND_LINE;
        if head.keys.len() > 1 {
            let mut x = 0.0;
            for key in head.keys {
                let names = broken(&key.label, SMALL, false, size.width - SAMPLE);
                let wide = names.iter().map(|name| width(name, SMALL, false)).fold(0.0, f64::max);
                if x > 0.0 && (names.len() > 1 || x + SAMPLE + wide > size.width) {
                    (x, line) = (0.0, line + LEGEND_LINE);
                }
                shapes.extend(sample((x, line - 4.0), key));
                for (i, name) in names.into_iter().enumerate() {
                    line += if i > 0 { LINE } else { 0.0 };
                    shapes.push(text((x + SAMPLE, line), Anchor::Start, Paint::Ink, name));
                }
                x += SAMPLE + wide + 18.0;
            }
            line += LEGEND_LINE;
        }
        for (i, axis) in broken(head.axis, SMALL, false, size.width).into_iter().enumerate() {
            line += if i > 0 { LINE } else { 0.0 };
            shapes.push(text((0.0, line + 4.0), Anchor::Start, Paint::Muted, axis));
        }
        let top = line + 22.0;
        let numbers = y.ticks.iter().map(|tick| width(&number(*tick), SMALL, false));
        let left = numbers.fold(0.0, f64::max) + GAP;
        let left = left.max(head.left);
        let (right, floor) = (size.width - RIGHT, top + size.field);
        Frame { width: size.width, left, right, top, floor, shapes }.with_grid(y)
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
            shapes.push(text((self.left - GAP, at + 4.0), Anchor::End, Paint::Muted, number));
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
        Picture { width: self.width, height: self.floor + below, alt, shapes: self.shapes }
    }
}
