//! The charts of experiments: bars and lines, as a picture that is written as SVG or PNG.
//!
//! An experiment says what is to be seen; how it is drawn is decided here, once, so that all look
//! alike. What the paper gives is always drawn hollow, dashed where it is a line, in the colour of
//! ours of the same name.

mod bars;
mod font;
mod frame;
mod lines;
mod picture;
mod png;
mod scale;

pub(super) use frame::Size;
pub(super) use picture::{Paint, Picture, escaped};
pub(super) use scale::{figure, thousands};

/// A chart, of whichever kind.
#[derive(Clone, Debug)]
pub(super) enum Chart {
    Bars(Bars),
    /// The bars of a group are parts of a whole, one upon the other, the first at the bottom.
    Stacked(Bars),
    Lines(Lines),
}

/// Bars in groups, every group with one bar of each series.
#[derive(Clone, Debug)]
pub(super) struct Bars {
    pub(super) title: String,
    /// What the height of a bar is, with its unit.
    pub(super) axis: String,
    pub(super) series: Vec<Series>,
    /// Names of the groups, with a height for each series: not negative, not a number where there
    /// is none.
    pub(super) groups: Vec<(String, Vec<f64>)>,
}

/// Which bars of the groups are of a kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    /// What it is. The legend says itself whose it is, where there are both.
    name: String,
    paper: bool,
}

impl Series {
    pub(super) fn ours(name: impl Into<String>) -> Series {
        Series { name: name.into(), paper: false }
    }

    /// What the paper reports; as a rule just before ours of the same name.
    pub(super) fn paper(name: impl Into<String>) -> Series {
        Series { name: name.into(), paper: true }
    }
}

/// Lines through points, each with a mark.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    title: String,
    /// The horizontal axis.
    x: Axis,
    /// The vertical axis.
    y: Axis,
    series: Vec<Line>,
}

#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// What it is of, with its unit.
    name: String,
    is_log: bool,
}

impl Axis {
    pub(super) fn linear(name: &str) -> Axis {
        Axis { name: name.into(), is_log: false }
    }

    pub(super) fn log(name: &str) -> Axis {
        Axis { name: name.into(), is_log: true }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What it is. The legend says itself whose it is, where there are both.
    pub(super) name: String,
    /// From left to right. Those that have no place, as zero on a logarithmic axis, are left out.
    pub(super) points: Vec<(f64, f64)>,
    /// Whether the paper reports it; one of a single point is just a mark.
    pub(super) paper: bool,
}

impl Line {
    pub(super) fn ours(name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line { name: name.into(), points, paper: false }
    }

    pub(super) fn paper(name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line { name: name.into(), points, paper: true }
    }
}

impl Chart {
    pub(super) fn lines(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Line>) -> Chart {
        Chart::Lines(Lines { title: title.into(), x, y, series })
    }

    /// The chart, drawn.
    pub(super) fn picture(&self, size: Size) -> Picture {
        match self {
            Chart::Bars(chart) => bars::picture(chart, false, size),
            Chart::Stacked(chart) => bars::picture(chart, true, size),
            Chart::Lines(chart) => lines::picture(chart, size),
        }
    }

    /// What is drawn, as numbers: one row of text for each, below a row of heads.
    pub(super) fn table(&self) -> Vec<[String; 4]> {
        let whose = |paper: bool| if paper { "paper" } else { "ours" }.to_string();
        match self {
            Chart::Bars(chart) | Chart::Stacked(chart) => {
                let heads = ["group", "series", "whose", &chart.axis].map(String::from);
                let bars = chart.groups.iter().flat_map(|(group, bars)| {
                    let bars = chart.series.iter().zip(bars).filter(|(_, v)| v.is_finite());
                    bars.map(|(s, value)| {
                        [group.clone(), s.name.clone(), whose(s.paper), value.to_string()]
                    })
                });
                [heads].into_iter().chain(bars).collect()
            }
            Chart::Lines(chart) => {
                let heads = ["series", "whose", &chart.x.name, &chart.y.name].map(String::from);
                let points = chart.series.iter().flat_map(|s| {
                    s.points.iter().map(|(x, y)| {
                        [s.name.clone(), whose(s.paper), x.to_string(), y.to_string()]
                    })
                });
                [heads].into_iter().chain(points).collect()
            }
        }
    }
}

/// A name for the legend, and the number of its colour.
struct Key {
    label: String,
    colour: usize,
    paper: bool,
}

/// Those of some series, each a name and whether it is the paper's. Series of one name share a
/// colour; whose it is stands beside those of the paper, and those of ours that it has too.
fn keys<'a>(series: impl Iterator<Item = (&'a str, bool)>) -> Vec<Key> {
    let series: Vec<_> = series.collect();
    let mut names: Vec<&str> = Vec::new();
    let mut keys = Vec::new();
    for &(name, paper) in &series {
        let colour = names.iter().position(|n| *n == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        let whose = match (paper, series.contains(&(name, true))) {
            (true, _) => "paper",
            (false, true) => "ours",
            (false, false) => "",
        };
        let parts: Vec<&str> = [name, whose].into_iter().filter(|part| !part.is_empty()).collect();
        keys.push(Key { label: parts.join(", "), colour, paper });
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_series_has_the_colour_of_ours_and_says_whose_it_is() {
        let series = [("line", true), ("line", false), ("ring", false), ("", true)];
        let keys = keys(series.into_iter());
        let keys: Vec<_> = keys.iter().map(|k| (&*k.label, k.colour)).collect();
        assert_eq!(keys, [("line, paper", 0), ("line, ours", 0), ("ring", 1), ("paper", 2)]);
    }

    #[test]
    fn the_numbers_of_a_chart_are_those_that_are_drawn() {
        let series = vec![Series::paper("a"), Series::ours("a")];
        let groups = vec![("g, h".into(), vec![f64::NAN, 0.5])];
        let bars = Chart::Bars(Bars { title: "t".into(), axis: "%".into(), series, groups });
        let table = [["group", "series", "whose", "%"], ["g, h", "a", "ours", "0.5"]];
        assert_eq!(bars.table(), table.map(|row| row.map(String::from)));
    }
}
