//! What is drawn, apart from how it is written: shapes of named paints, so that a page can put
//! other colours in the place of ours.

use std::fmt::Write as _;

use super::font::width;

/// A place in a picture: to the right and down from its upper left corner.
pub(super) type Point = (f64, f64);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Paint {
    /// Text and axes.
    Ink,
    /// What is read second.
    Muted,
    /// Lines to read values by.
    Grid,
    /// What lies behind everything.
    Ground,
    /// A series, by number.
    Series(usize),
}

/// On white, distinct for the colour-blind as well, after Okabe and Ito.
const SERIES: [u32; 8] =
    [0x0072b2, 0xd55e00, 0x009e73, 0xaa4499, 0x56b4e9, 0xe69f00, 0x555555, 0x8c6d1f];
/// The same on black.
const SERIES_DARK: [u32; 8] =
    [0x4f9fe6, 0xff9a52, 0x3ecf9f, 0xe08fd0, 0xb9e6ff, 0xf5c542, 0xbbbbbb, 0xd0b060];

impl Paint {
    /// Every paint there is.
    pub(in super::super) fn all() -> impl Iterator<Item = Paint> {
        let series = (0..SERIES.len()).map(Paint::Series);
        [Paint::Ink, Paint::Muted, Paint::Grid, Paint::Ground].into_iter().chain(series)
    }

    /// Its name as a CSS class.
    pub(in super::super) fn class(self) -> String {
        match self {
            Paint::Ink => "ink".into(),
            Paint::Muted => "muted".into(),
            Paint::Grid => "grid".into(),
            Paint::Ground => "ground".into(),
            Paint::Series(number) => format!("s{}", number % SERIES.len()),
        }
    }

    /// Its colour on paper: red, green, blue from the highest byte of three.
    pub(in super::super) fn light(self) -> u32 {
        match self {
            Paint::Ink => 0x1c1b19,
            Paint::Muted => 0x5c5a55,
            Paint::Grid => 0xdedcd6,
            Paint::Ground => 0xffffff,
            Paint::Series(number) => SERIES[number % SERIES.len()],
        }
    }

    /// Its colour on a dark screen.
    pub(in super::super) fn dark(self) -> u32 {
        match self {
            Paint::Ink => 0xe9e7e2,
            Paint::Muted => 0xaaa69d,
            Paint::Grid => 0x3b3935,
            Paint::Ground => 0x1b1a18,
            Paint::Series(number) => SERIES_DARK[number % SERIES.len()],
        }
    }

    /// An attribute of SVG with the colour on paper; a page may put another in its place by the
    /// class, which goes before it.
    fn attribute(self, name: &str) -> String {
        format!(" {name}=\"#{:06x}\"", self.light())
    }
}

/// Which point of a text is where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// One thing in a picture.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// A polygon, filled, with an edge of some width around.
    Area { points: Vec<Point>, fill: Paint, edge: Option<(Paint, f64)>, hint: String },
    /// A circle, likewise.
    Disc { centre: Point, radius: f64, fill: Paint, edge: Option<(Paint, f64)>, hint: String },
    /// From point to point.
    Stroke { points: Vec<Point>, paint: Paint, width: f64, dashed: bool },
    /// Text on its base line.
    Text { at: Point, anchor: Anchor, size: f64, bold: bool, paint: Paint, text: String },
}

/// Room around a picture that stands alone.
pub(super) const MARGIN: f64 = 16.0;

/// Lengths of a dash and of the gap behind it.
pub(super) const DASHES: [f64; 2] = [7.0, 4.0];

/// Shapes, the later before the earlier.
#[derive(Clone, Debug)]
pub(in super::super) struct Picture {
    pub(super) width: f64,
    pub(super) height: f64,
    /// What it shows, for those who do not see it.
    pub(super) alt: String,
    pub(super) shapes: Vec<Shape>,
}

impl Picture {
    /// As a file of SVG, one shape a line.
    pub(in super::super) fn svg(&self) -> String {
        self.with_margin(MARGIN, "alone")
    }

    /// As SVG of a class within a page, which has margins of its own.
    pub(in super::super) fn inline_svg(&self, class: &str) -> String {
        self.with_margin(0.0, class)
    }

    fn with_margin(&self, margin: f64, class: &str) -> String {
        let (width, height) = (self.width + 2.0 * margin, self.height + 2.0 * margin);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" \
             viewBox=\"{0} {0} {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\" aria-label=\"{1}\" \
             font-family=\"Roboto, Helvetica, Arial, sans-serif\">\n\
             <rect x=\"{0}\" y=\"{0}\" width=\"100%\" height=\"100%\"{2} class=\"f-ground\"/>\n",
            0.0 - margin,
            escaped(&self.alt),
            Paint::Ground.attribute("fill")
        );
        for shape in &self.shapes {
            let _ = writeln!(text, "{}", element(shape));
        }
        text + "</svg>\n"
    }
}

fn element(shape: &Shape) -> String {
    match shape {
        Shape::Area { points, fill, edge, hint } => {
            format!("<path d=\"{}Z\"{}", path(points), filled(*fill, *edge, hint, "path"))
        }
        Shape::Disc { centre: (x, y), radius, fill, edge, hint } => {
            let rest = filled(*fill, *edge, hint, "circle");
            format!("<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius:.2}\"{rest}")
        }
        Shape::Stroke { points, paint, width, dashed } => {
            let [on, off] = DASHES;
            let dashes =
                if *dashed { format!(" stroke-dasharray=\"{on} {off}\"") } else { String::new() };
            let (path, colour) = (path(points), paint.attribute("stroke"));
            format!(
                "<path d=\"{path}\" fill=\"none\"{colour} stroke-width=\"{width}\" \
                 stroke-linejoin=\"round\"{dashes} class=\"k-{}\"/>",
                paint.class()
            )
        }
        Shape::Text { at: (x, y), anchor, size, bold, paint, text } => {
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let weight = if *bold { " font-weight=\"600\"" } else { "" };
            // As wide as it was laid out, whichever font there is.
            let wide = format!(
                " textLength=\"{:.2}\" lengthAdjust=\"spacingAndGlyphs\"",
                width(text, *size, *bold)
            );
            let wide = if text.is_empty() { String::new() } else { wide };
            let (colour, text) = (paint.attribute("fill"), escaped(text));
            format!(
                "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\"{weight}{anchor}{wide}\
                 {colour} class=\"f-{}\">{text}</text>",
                paint.class()
            )
        }
    }
}

/// The end of an element that is filled.
fn filled(fill: Paint, edge: Option<(Paint, f64)>, hint: &str, name: &str) -> String {
    let mut text = fill.attribute("fill");
    let mut class = format!("f-{}", fill.class());
    if let Some((paint, width)) = edge {
        let _ = write!(text, "{} stroke-width=\"{width}\"", paint.attribute("stroke"));
        let _ = write!(class, " k-{}", paint.class());
    }
    let _ = write!(text, " class=\"{class}\"");
    match hint {
        "" => text + "/>",
        hint => format!("{text}><title>{}</title></{name}>", escaped(hint)),
    }
}

fn path(points: &[Point]) -> String {
    let mut text = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(text, "{}{x:.2} {y:.2}", if i == 0 { "M" } else { "L" });
    }
    text
}

/// Text between tags or in an attribute, of HTML and of XML: without characters that the latter
/// cannot have.
pub(in super::super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        let text = Shape::Text {
            at: (1.0, 2.0),
            anchor: Anchor::Start,
            size: 12.0,
            bold: false,
            paint: Paint::Ink,
            text: "</text><script>\u{1}".into(),
        };
        let alt = "\" onload=\"x".to_string();
        let picture = Picture { width: 10.0, height: 10.0, alt, shapes: vec![text] };
        let svg = picture.svg();
        let document = roxmltree::Document::parse(&svg).unwrap();
        assert_eq!(document.root_element().attribute("onload"), None);
        let text = document.descendants().find(|n| n.has_tag_name("text")).unwrap();
        assert_eq!(text.text(), Some("</text><script>\u{fffd}"));
    }

    #[test]
    fn every_paint_can_be_read_on_its_ground() {
        for paint in Paint::all().filter(|p| !matches!(p, Paint::Grid | Paint::Ground)) {
            // WCAG 2.2, 1.4.3 for text and 1.4.11 for what is drawn; the lightest two of the eight
            // on white have their marks' form besides.
            let wanted = match paint {
                Paint::Series(4 | 5) => 2.0,
                Paint::Series(_) => 3.0,
                _ => 4.5,
            };
            for colour in [Paint::light as fn(Paint) -> u32, Paint::dark] {
                let contrast = contrast(colour(paint), colour(Paint::Ground));
                assert!(contrast >= wanted, "{paint:?}: {contrast:.2}");
            }
        }
    }

    /// The ratio of WCAG 2.2.
    fn contrast(a: u32, b: u32) -> f64 {
        let luminance = |colour: u32| -> f64 {
            let parts = [(16, 0.2126), (8, 0.7152), (0, 0.0722)];
            let linear = |shift: u32| {
                let part = f64::from(colour >> shift & 0xff) / 255.0;
                if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
            };
            parts.iter().map(|(shift, weight)| linear(*shift) * weight).sum()
        };
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }
}
