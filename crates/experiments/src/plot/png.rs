//! A picture as PNG, on paper.

use tiny_skia::{
    Color, FillRule, LineJoin, Paint as Brush, Path, PathBuilder, Pixmap, Stroke, StrokeDash,
    Transform,
};

use super::font;
use super::picture::{Anchor, DASHES, MARGIN, Paint, Picture, Point, Shape};

/// Dots for each unit of the picture, so that it is sharp in print.
const SCALE: f32 = 2.0;

impl Picture {
    /// As PNG.
    ///
    /// # Errors
    /// When the picture's size is beyond all memory.
    pub(in super::super) fn png(&self) -> Result<Vec<u8>, String> {
        let size = |length: f64| ((length + 2.0 * MARGIN) * f64::from(SCALE)).ceil() as u32;
        let (width, height) = (size(self.width), size(self.height));
        let mut canvas = Pixmap::new(width, height)
            .ok_or_else(|| format!("a picture of {width} by {height} dots cannot be drawn"))?;
        canvas.fill(colour(Paint::Ground));
        for shape in &self.shapes {
            draw(&mut canvas, shape);
        }
        canvas.encode_png().map_err(|e| e.to_string())
    }
}

fn colour(paint: Paint) -> Color {
    let [_, red, green, blue] = paint.light().to_be_bytes();
    Color::from_rgba8(red, green, blue, 255)
}

fn brush(paint: Paint) -> Brush<'static> {
    let mut brush = Brush { anti_alias: true, ..Brush::default() };
    brush.set_color(colour(paint));
    brush
}

fn draw(canvas: &mut Pixmap, shape: &Shape) {
    match shape {
        Shape::Area { points, fill, edge, .. } => {
            filled(canvas, polygon(points, true), *fill, *edge);
        }
        Shape::Disc { centre: (x, y), radius, fill, edge, .. } => {
            let (x, y, radius) = (*x as f32, *y as f32, *radius as f32);
            filled(canvas, PathBuilder::from_circle(x, y, radius), *fill, *edge);
        }
        Shape::Stroke { points, paint, width, dashed } => {
            let dash = dashed.then(|| StrokeDash::new(DASHES.map(|d| d as f32).into(), 0.0));
            stroked(canvas, polygon(points, false), *paint, *width, dash.flatten());
        }
        Shape::Text { at, anchor, size, bold, paint, text } => {
            let wide = font::width(text, *size, *bold);
            let left = match anchor {
                Anchor::Start => at.0,
                Anchor::Middle => at.0 - wide / 2.0,
                Anchor::End => at.0 - wide,
            };
            filled(canvas, font::outline(text, *size, *bold, (left, at.1)), *paint, None);
        }
    }
}

fn polygon(points: &[Point], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (i, (x, y)) in points.iter().map(|(x, y)| (*x as f32, *y as f32)).enumerate() {
        if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    if closed {
        path.close();
    }
    path.finish()
}

fn placed() -> Transform {
    Transform::from_translate(MARGIN as f32, MARGIN as f32).post_scale(SCALE, SCALE)
}

fn filled(canvas: &mut Pixmap, path: Option<Path>, fill: Paint, edge: Option<(Paint, f64)>) {
    let Some(path) = path else { return };
    canvas.fill_path(&path, &brush(fill), FillRule::Winding, placed(), None);
    if let Some((paint, width)) = edge {
        stroked(canvas, Some(path), paint, width, None);
    }
}

fn stroked(
    canvas: &mut Pixmap,
    path: Option<Path>,
    paint: Paint,
    width: f64,
    dash: Option<StrokeDash>,
) {
    let Some(path) = path else { return };
    let stroke =
        Stroke { width: width as f32, line_join: LineJoin::Round, dash, ..Stroke::default() };
    canvas.stroke_path(&path, &brush(paint), &stroke, placed(), None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_text_are_where_they_belong() {
        let square = |left: f64, paint| Shape::Area {
            points: vec![(left, 0.0), (left + 10.0, 0.0), (left + 10.0, 10.0), (left, 10.0)],
            fill: paint,
            edge: None,
            hint: String::new(),
        };
        let text = Shape::Text {
            at: (50.0, 30.0),
            anchor: Anchor::End,
            size: 20.0,
            bold: false,
            paint: Paint::Ink,
            text: "MM".into(),
        };
        let shapes = vec![square(0.0, Paint::Series(0)), square(20.0, Paint::Series(1)), text];
        let picture = Picture { width: 60.0, height: 40.0, alt: String::new(), shapes };
        let canvas = Pixmap::decode_png(&picture.png().unwrap()).unwrap();
        let margin = 32;
        assert_eq!((canvas.width(), canvas.height()), (120 + 2 * margin, 80 + 2 * margin));
        let at = |x: u32, y: u32| {
            let c = canvas.pixel(margin + x, margin + y).unwrap();
            u32::from_be_bytes([0, c.red(), c.green(), c.blue()])
        };
        assert_eq!((at(10, 10), at(50, 10)), (0x0072b2, 0xd55e00));
        assert_eq!(at(30, 10), 0xffffff);
        // Ink between the base line and the height of a capital, to the left of the end.
        let dark = |x: std::ops::Range<u32>, y: std::ops::Range<u32>| {
            x.flat_map(|x| y.clone().map(move |y| (x, y)))
                .filter(|(x, y)| at(*x, *y) < 0x808080)
                .count()
        };
        assert!(dark(30..100, 32..60) > 100, "{}", dark(30..100, 32..60));
        assert_eq!(dark(0..120, 62..80) + dark(101..120, 0..80), 0);
        let vast = Picture { width: 1e9, height: 1e9, alt: String::new(), shapes: vec![] };
        assert!(vast.png().unwrap_err().contains("cannot be drawn"));
    }
}
