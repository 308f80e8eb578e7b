//! What an experiment found: the JSON of DESIGN ("JSON answers: experiment run"), and the table
//! for a person.

use std::fmt::Write as _;

use serde::Serialize;

use super::plot::Chart;

/// What an experiment hands over.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) rows: Vec<Row>,
    /// Where random choices began; 0 where there were none.
    pub(super) seed: u64,
    /// Every single run, as CSV with a head line.
    pub(super) runs: String,
    /// What to see of them, the most telling first.
    pub(super) charts: Vec<Chart>,
    /// Lines for a person: the short of it, and why a difference is there.
    pub(super) remarks: Vec<String>,
    /// Why the figures are not to be trusted.
    pub(super) doubts: Vec<String>,
}

/// The paper's figure beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) quantity: String,
    pub(super) unit: &'static str,
    /// Null where the paper gives none.
    pub(super) paper: Option<f64>,
    pub(super) ours: f64,
    pub(super) note: String,
    /// Ours beside the paper's, for a person.
    #[serde(skip)]
    pub(super) beside: String,
}

impl Row {
    /// A figure of ours.
    pub(super) fn new(quantity: impl Into<String>, unit: &'static str, ours: f64) -> Row {
        let ours = rounded(ours);
        let (quantity, note, beside) = (quantity.into(), String::new(), String::new());
        Row { quantity, unit, paper: None, ours, note, beside }
    }

    /// With the paper's figure, in the same unit and of the same scale. Percentages are compared
    /// by their difference, all else by its ratio.
    pub(super) fn paper(self, paper: f64) -> Row {
        self.paper_at(paper, 1.0, 1.0)
    }

    /// With the paper's figure at another scale: what is compared is each divided by its scale.
    pub(super) fn paper_at(mut self, paper: f64, paper_scale: f64, our_scale: f64) -> Row {
        let (theirs, ours) = (paper / paper_scale, self.ours / our_scale);
        self.beside = match self.unit {
            "%" => format!("{:+.1} points", ours - theirs),
            _ if theirs != 0.0 => format!("x {:.2}", ours / theirs),
            _ => String::new(),
        };
        self.paper = Some(paper);
        self
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Row {
        self.note = note.into();
        self
    }
}

/// To six digits: what is beyond them is noise of the last bit.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// The result in the shape of DESIGN.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) name: &'static str,
    pub(super) rows: Vec<Row>,
    pub(super) seed: u64,
    pub(super) commit: &'static str,
    pub(super) mode: &'static str,
}

impl Report {
    pub(super) fn new(name: &'static str, findings: &Findings, quick: bool) -> Report {
        let mode = if quick { "quick" } else { "full" };
        let commit = env!("PLEXUS_COMMIT");
        Report { name, rows: findings.rows.clone(), seed: findings.seed, commit, mode }
    }

    /// For a person.
    pub(super) fn text(&self, findings: &Findings) -> String {
        let heads = ["QUANTITY", "UNIT", "PAPER", "OURS", "", "NOTE"].map(String::from);
        let number = |value: f64| match value.abs() {
            v if v >= 100.0 => format!("{value:.0}"),
            v if v >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        };
        let mut cells = vec![heads];
        cells.extend(self.rows.iter().map(|row| {
            let paper = row.paper.map_or("-".into(), number);
            let (beside, note) = (row.beside.clone(), row.note.clone());
            [row.quantity.clone(), row.unit.into(), paper, number(row.ours), beside, note]
        }));
        let width = |i: usize| cells.iter().map(|c| c[i].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        let mut text = String::new();
        for row in &cells {
            let mut line = String::new();
            for (i, cell) in row.iter().enumerate() {
                let width = widths[i];
                let _ = match i {
                    2 | 3 => write!(line, "{cell:>width$}  "),
                    _ => write!(line, "{cell:<width$}  "),
                };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for remark in &findings.remarks {
            let _ = writeln!(text, "{remark}");
        }
        for doubt in &findings.doubts {
            let _ = writeln!(text, "not to be trusted: {doubt}");
        }
        let (name, mode, commit, seed) = (self.name, self.mode, self.commit, self.seed);
        let _ = writeln!(text, "{name}, {mode}, commit {commit}, seed {seed}");
        text
    }
}

/// The median with the smallest and the largest of some values, which must be numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// The median of an even number is the lower one of the two in the middle, as in `plexus
    /// bench`; all zero for no values.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Spread::default();
        };
        Spread { median: values[(values.len() - 1) / 2], min, max }
    }

    /// Smallest and largest, for a note.
    pub(super) fn text(&self, runs: usize) -> String {
        match runs {
            1 => "1 run".into(),
            _ => format!("{:.1} to {:.1} in {runs} runs", self.min, self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_shape_of_the_contract() {
        let rows =
            vec![Row::new("a", "Mbit/s", 275.8).paper(2906.0).note("n"), Row::new("b", "B", 1.0)];
        let findings = Findings { rows, seed: 7, ..Findings::default() };
        let json = serde_json::to_value(Report::new("x", &findings, true)).unwrap();
        let keys = |v: &serde_json::Value| -> Vec<String> {
            v.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(&json), ["commit", "mode", "name", "rows", "seed"]);
        assert_eq!(keys(&json["rows"][0]), ["note", "ours", "paper", "quantity", "unit"]);
        assert_eq!(json["rows"][0]["ours"], 275.8);
        assert!(json["rows"][1]["paper"].is_null());
        assert_eq!((&json["mode"], &json["seed"]), (&"quick".into(), &7.into()));
        assert!(!json["commit"].as_str().unwrap().is_empty());
        assert_eq!(Report::new("x", &findings, false).mode, "full");
    }

    #[test]
    fn figures_are_compared_at_their_own_scales() {
        // 2.906 links of 1,000 Mbit/s beside 2.758 of 50.
        let row = Row::new("udp", "Mbit/s", 137.9).paper_at(2906.0, 1000.0, 50.0);
        assert_eq!((row.paper, row.beside.as_str()), (Some(2906.0), "x 0.95"));
        assert_eq!(Row::new("gain", "%", 94.0).paper(96.0).beside, "-2.0 points");
        assert_eq!(Row::new("none", "B", 0.0).paper(0.0).beside, "");
        let findings = Findings {
            rows: vec![row],
            remarks: vec!["because".into()],
            doubts: vec!["busy".into()],
            ..Findings::default()
        };
        let text = Report::new("x", &findings, true).text(&findings);
        assert!(text.contains("udp       Mbit/s   2906   138  x 0.95\n"), "{text}");
        assert!(text.contains("\nbecause\nnot to be trusted: busy\nx, quick, commit"), "{text}");
    }

    #[test]
    fn a_spread_is_the_middle_and_the_ends() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        assert_eq!(
            (spread.text(3).as_str(), spread.text(1).as_str()),
            ("1.0 to 3.0 in 3 runs", "1 run")
        );
        assert_eq!(Spread::of([4.0, 1.0]).median, 1.0);
        assert_eq!(Spread::of([]), Spread::default());
        assert_eq!(rounded(123_456.789), 123_457.0);
        assert_eq!(rounded(-0.012_345_678), -0.012_345_7);
        assert_eq!((rounded(0.0), rounded(6.5)), (0.0, 6.5));
    }
}
