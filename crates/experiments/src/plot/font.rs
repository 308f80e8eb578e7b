//! The font of the pictures: how wide a text is, and the outlines of its glyphs. Embedded, so that
//! a PNG has text on a machine without fonts; see `font/README.md`.

use std::sync::LazyLock;

use tiny_skia::{Path, PathBuilder};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::picture::Point;

static REGULAR: LazyLock<Option<Face<'static>>> =
    LazyLock::new(|| Face::parse(include_bytes!("font/roboto-regular.ttf"), 0).ok());
static MEDIUM: LazyLock<Option<Face<'static>>> =
    LazyLock::new(|| Face::parse(include_bytes!("font/roboto-medium.ttf"), 0).ok());

fn face(bold: bool) -> Option<&'static Face<'static>> {
    if bold { MEDIUM.as_ref() } else { REGULAR.as_ref() }
}

/// The glyphs of a text, those that are missing as question marks, each with its advance in ems.
fn glyphs(face: &Face<'_>, text: &str) -> impl Iterator<Item = (GlyphId, f64)> {
    let em = f64::from(face.units_per_em());
    text.chars().filter_map(move |c| {
        let glyph = face.glyph_index(c).or_else(|| face.glyph_index('?'))?;
        Some((glyph, f64::from(face.glyph_hor_advance(glyph).unwrap_or(0)) / em))
    })
}

pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let Some(face) = face(bold) else { return 0.0 };
    glyphs(face, text).map(|(_, advance)| advance * size).sum()
}

/// A text in lines of some width: between words if they fit, else within them.
pub(super) fn broken(text: &str, size: f64, bold: bool, wide: f64) -> Vec<String> {
    let fits = |text: &str| width(text, size, bold) <= wide;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if fits(&format!("{line} {word}")) => {
                line.push(' ');
                line.push_str(word);
                continue;
            }
            _ => lines.push(String::new()),
        }
        for c in word.chars() {
            match lines.last_mut() {
                Some(line) if line.is_empty() || fits(&format!("{line}{c}")) => line.push(c),
                _ => lines.push(c.into()),
            }
        }
    }
    lines
}

/// The outlines of a text of a size that begins at a place of its base line; `None` where there is
/// nothing to be seen.
pub(super) fn outline(text: &str, size: f64, bold: bool, (x, y): Point) -> Option<Path> {
    let face = face(bold)?;
    let scale = (size / f64::from(face.units_per_em())) as f32;
    let mut pen = Pen { path: PathBuilder::new(), x: 0.0, y: y as f32, scale };
    let mut at = x;
    for (glyph, advance) in glyphs(face, text) {
        pen.x = at as f32;
        face.outline_glyph(glyph, &mut pen);
        at += advance * size;
    }
    pen.path.finish()
}

/// Puts a glyph's outline, upwards in units of the font, in its place in a picture.
struct Pen {
    path: PathBuilder,
    x: f32,
    y: f32,
    scale: f32,
}

impl Pen {
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, self.y - y * self.scale)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) =
            (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fonts_have_what_reports_are_written_in() {
        for bold in [false, true] {
            let face = face(bold).unwrap();
            let needed = (' '..='~').chain("\u{2212}×µ²≤≥≈–—äéαΩ…’".chars());
            for c in needed {
                assert!(face.glyph_index(c).is_some(), "{c:?}");
            }
        }
        assert!(width("iii", 12.0, false) < width("mmm", 12.0, false));
        assert!((width("ab", 24.0, true) - 2.0 * width("ab", 12.0, true)).abs() < 1e-9);
        // What is not there has the width of a question mark.
        assert_eq!(width("\u{4e00}", 12.0, false), width("?", 12.0, false));
    }
}
