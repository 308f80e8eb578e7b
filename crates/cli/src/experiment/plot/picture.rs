//! What is drawn, apart from how it is written: shapes of named paints, so that a page can put
//! other colours in the place of ours.

use std::fmt::Write as _;

/// A place in a picture: to the right and down from its upper left corner.
pub(super) type Point = (f64, f64);

/// What a shape is painted with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Paint {
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
const SERIES: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#aa4499", "#56b4e9", "#e69f00", "#555555", "#117733"];

impl Paint {
    /// Its colour on paper.
    fn colour(self) -> &'static str {
        match self {
            Paint::Ink => "#1a1a1a",
            Paint::Muted => "#595959",
            Paint::Grid => "#dddddd",
            Paint::Ground => "#ffffff",
            Paint::Series(number) => SERIES[number % SERIES.len()],
        }
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
    /// As SVG, one shape a line.
    pub(in super::super) fn svg(&self) -> String {
        let Picture { width, height, alt, .. } = self;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
            escaped(alt),
            Paint::Ground.colour()
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
            let dashes = if *dashed { " stroke-dasharray=\"6 4\"" } else { "" };
            let (path, colour) = (path(points), paint.colour());
            format!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
                 stroke-linejoin=\"round\"{dashes}/>"
            )
        }
        Shape::Text { at: (x, y), anchor, size, bold, paint, text } => {
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let weight = if *bold { " font-weight=\"bold\"" } else { "" };
            let (colour, text) = (paint.colour(), escaped(text));
            format!(
                "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\"{weight}{anchor} \
                 fill=\"{colour}\">{text}</text>"
            )
        }
    }
}

/// The end of an element that is filled.
fn filled(fill: Paint, edge: Option<(Paint, f64)>, hint: &str, name: &str) -> String {
    let mut text = format!(" fill=\"{}\"", fill.colour());
    if let Some((paint, width)) = edge {
        let _ = write!(text, " stroke=\"{}\" stroke-width=\"{width}\"", paint.colour());
    }
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

/// Text between tags or in an attribute of XML.
pub(in super::super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}
