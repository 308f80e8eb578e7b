//! The charts of experiments: bars and lines, as a picture that is written as SVG or PNG.
//!
//! An experiment says what is to be seen; how it is drawn is decided here, once, so that all look
//! alike. What the paper gives is always drawn hollow, dashed where it is a line, in the colour of
//! ours of the same name.

mod bars;
mod frame;
mod lines;
mod picture;
mod scale;

pub(super) use picture::Picture;

/// A chart, of whichever kind.
#[derive(Clone, Debug)]
pub(super) enum Chart {
    Bars(Bars),
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
    pub(super) title: String,
    /// What goes to the right, with its unit.
    pub(super) x: String,
    /// What goes up, with its unit.
    pub(super) y: String,
    pub(super) log_x: bool,
    pub(super) log_y: bool,
    pub(super) series: Vec<Line>,
}

/// One line of [`Lines`].
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What it is. The legend says itself whose it is, where there are both.
    pub(super) name: String,
    /// From left to right. Those that have no place, as zero on a logarithmic axis, are left out.
    pub(super) points: Vec<(f64, f64)>,
    /// Whether the paper reports it; one of a single point is just a mark.
    pub(super) paper: bool,
}

impl Chart {
    /// The chart, drawn.
    pub(super) fn picture(&self) -> Picture {
        match self {
            Chart::Bars(chart) => bars::picture(chart),
            Chart::Lines(chart) => lines::picture(chart),
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
/// colour.
fn keys<'a>(series: impl Iterator<Item = (&'a str, bool)>) -> Vec<Key> {
    let series: Vec<_> = series.collect();
    let both = series.iter().any(|(_, paper)| *paper) && series.iter().any(|(_, paper)| !paper);
    let mut names: Vec<&str> = Vec::new();
    let mut keys = Vec::new();
    for (name, paper) in series {
        let colour = names.iter().position(|n| *n == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        let whose = if paper { "paper" } else { "ours" };
        let label = match (both, name.is_empty()) {
            (false, _) => name.to_string(),
            (true, true) => whose.to_string(),
            (true, false) => format!("{name}, {whose}"),
        };
        keys.push(Key { label, colour, paper });
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_series_has_the_colour_of_ours_and_says_whose_it_is() {
        let series = [("line", true), ("line", false), ("ring", true), ("ring", false)];
        let keys = keys(series.into_iter());
        let colours: Vec<usize> = keys.iter().map(|k| k.colour).collect();
        assert_eq!(colours, [0, 0, 1, 1]);
        assert_eq!((&*keys[0].label, &*keys[3].label), ("line, paper", "ring, ours"));
        let alone = super::keys([("a", false), ("b", false)].into_iter());
        assert_eq!((&*alone[0].label, alone[1].colour), ("a", 1));
    }
}
