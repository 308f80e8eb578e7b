//! What an experiment found: the JSON of DESIGN ("JSON answers: experiment run"), and the table
//! for a person.

use std::fmt::Write as _;

use serde::Serialize;

use super::Experiment;
use super::plot::{Chart, figure};
use super::verdict::Verdict;

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
    /// Whether the claim holds, where the rows' figures alone do not tell; else they do.
    pub(super) verdict: Option<Verdict>,
}

impl Findings {
    /// None yet; `head` is that of the CSV.
    pub(super) fn new(seed: u64, head: &str) -> Findings {
        Findings { seed, runs: head.into(), ..Findings::default() }
    }

    /// The row of a quantity, which is there.
    #[cfg(test)]
    pub(super) fn row(&self, quantity: &str) -> &Row {
        let row = self.rows.iter().find(|row| row.quantity == quantity);
        row.unwrap_or_else(|| panic!("{quantity} is not there"))
    }
}

/// What the paper's figure in a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Meant {
    /// A figure; or there is none.
    #[default]
    Figure,
    /// Ours shall be no more than it.
    AtMost,
    /// Ours shall be no less than it.
    AtLeast,
    /// Ours shall be between it and this.
    UpTo(f64),
    /// A parameter of the run, which ours follows from: no comparison says anything.
    PutIn,
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
    #[serde(skip)]
    meant: Meant,
    /// By what the paper's figure and ours are divided before they are compared.
    #[serde(skip)]
    scales: [f64; 2],
    /// Whether the true figure is this or more: the run did not go further.
    #[serde(skip)]
    is_least: bool,
    /// Decides nothing and is not among the first rows of a page.
    #[serde(skip)]
    pub(super) is_detail: bool,
}

impl Row {
    /// A figure of ours.
    pub(super) fn new(quantity: impl Into<String>, unit: &'static str, ours: f64) -> Row {
        Row {
            quantity: quantity.into(),
            unit,
            paper: None,
            ours: rounded(ours),
            note: String::new(),
            beside: String::new(),
            meant: Meant::Figure,
            scales: [1.0; 2],
            is_least: false,
            is_detail: false,
        }
    }

    /// With the paper's figure, in the same unit and of the same scale. Percentages are compared
    /// by their difference, all else by its ratio.
    pub(super) fn paper(self, paper: f64) -> Row {
        self.paper_at(paper, 1.0, 1.0)
    }

    /// With the paper's figure at another scale: what is compared is each divided by its scale.
    pub(super) fn paper_at(mut self, paper: f64, paper_scale: f64, our_scale: f64) -> Row {
        self.scales = [paper_scale, our_scale];
        self.beside_paper(paper, Meant::Figure)
    }

    /// With a bound of the paper's: no more than this.
    pub(super) fn at_most(self, paper: f64) -> Row {
        self.beside_paper(paper, Meant::AtMost)
    }

    /// With a bound of the paper's: no less than this.
    pub(super) fn at_least(self, paper: f64) -> Row {
        self.beside_paper(paper, Meant::AtLeast)
    }

    /// With two bounds of the paper's.
    pub(super) fn between(self, least: f64, most: f64) -> Row {
        self.beside_paper(least, Meant::UpTo(most))
    }

    /// With the paper's figure, which was put into the run and is therefore not compared.
    pub(super) fn put_in(self, paper: f64) -> Row {
        self.beside_paper(paper, Meant::PutIn)
    }

    /// Ours is a lower bound: the run did not go further.
    pub(super) fn or_more(mut self) -> Row {
        self.is_least = true;
        self
    }

    /// A figure that decides nothing about the claim.
    pub(super) fn detail(mut self) -> Row {
        self.is_detail = true;
        self
    }

    fn beside_paper(mut self, paper: f64, meant: Meant) -> Row {
        (self.paper, self.meant) = (Some(paper), meant);
        let [theirs, ours] = [paper / self.scales[0], self.ours / self.scales[1]];
        let bound = match meant {
            Meant::UpTo(most) if ours > most => most,
            _ => theirs,
        };
        self.beside = match (meant, self.keeps_bound()) {
            (Meant::PutIn, _) => "put in".into(),
            (_, Some(true)) => "within".into(),
            _ if self.unit == "%" => format!("{:+.1} points", ours - bound),
            _ if bound == 0.0 => String::new(),
            _ if self.scales[0] != self.scales[1] => format!("x {:.2} to scale", ours / bound),
            _ => format!("x {:.2}", ours / bound),
        };
        self
    }

    /// The paper's figure and ours, to scale; `None` where nothing is to be compared.
    pub(super) fn compared(&self) -> Option<(f64, f64)> {
        let paper = self.paper.filter(|_| self.meant != Meant::PutIn)?;
        Some((paper / self.scales[0], self.ours / self.scales[1]))
    }

    /// Whether ours keeps the paper's bound; `None` where the paper's figure is none.
    pub(super) fn keeps_bound(&self) -> Option<bool> {
        let (theirs, ours) = self.compared()?;
        match self.meant {
            Meant::AtMost => Some(ours <= theirs),
            Meant::AtLeast => Some(ours >= theirs),
            Meant::UpTo(most) => Some((theirs..=most).contains(&ours)),
            Meant::Figure | Meant::PutIn => None,
        }
    }

    /// The paper's figure for a person, as the bound that it is.
    pub(super) fn paper_text(&self) -> String {
        let Some(paper) = self.paper else { return "-".into() };
        match self.meant {
            Meant::AtMost => format!("\u{2264} {}", figure(paper)),
            Meant::AtLeast => format!("\u{2265} {}", figure(paper)),
            Meant::UpTo(most) => format!("{} to {}", figure(paper), figure(most)),
            Meant::Figure | Meant::PutIn => figure(paper),
        }
    }

    /// Ours for a person.
    pub(super) fn ours_text(&self) -> String {
        let sign = if self.is_least { "\u{2265} " } else { "" };
        format!("{sign}{}", figure(self.ours))
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
pub struct Report {
    pub(super) name: &'static str,
    pub(super) rows: Vec<Row>,
    pub(super) seed: u64,
    pub(super) commit: &'static str,
    pub(super) mode: &'static str,
    #[serde(skip)]
    pub(super) verdict: Verdict,
}

impl Report {
    pub(super) fn new(
        experiment: &Experiment,
        findings: &Findings,
        quick: bool,
        commit: &'static str,
    ) -> Report {
        let mode = if quick { "quick" } else { "full" };
        let name = experiment.name;
        let verdict = Verdict::of(experiment, findings, quick);
        Report { name, rows: findings.rows.clone(), seed: findings.seed, commit, mode, verdict }
    }

    /// For a person.
    pub(super) fn text(&self, findings: &Findings) -> String {
        let heads = ["QUANTITY", "UNIT", "PAPER", "OURS", "", "NOTE"].map(String::from);
        let mut cells = vec![heads];
        cells.extend(self.rows.iter().map(|row| {
            let (beside, note) = (row.beside.clone(), row.note.clone());
            let (paper, ours) = (row.paper_text(), row.ours_text());
            [row.quantity.clone(), row.unit.into(), paper, ours, beside, note]
        }));
        let mut text = format!("the claim {}\n", self.verdict);
        // The columns of the paper and of ours hold numbers.
        text += &plexus_report::aligned(&cells, |column| matches!(column, 2 | 3));
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

/// The geometric mean; 1 if there are no values.
pub(super) fn geometric_mean(values: &[f64]) -> f64 {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (logs / values.len().max(1) as f64).exp()
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
    use crate::EXPERIMENTS;

    #[test]
    fn the_json_has_the_shape_of_the_contract() {
        let rows =
            vec![Row::new("a", "Mbit/s", 275.8).paper(2906.0).note("n"), Row::new("b", "B", 1.0)];
        let findings = Findings { rows, seed: 7, ..Findings::default() };
        let json =
            serde_json::to_value(Report::new(&EXPERIMENTS[0], &findings, true, "c")).unwrap();
        let keys = |v: &serde_json::Value| -> Vec<String> {
            v.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(&json), ["commit", "mode", "name", "rows", "seed"]);
        assert_eq!(keys(&json["rows"][0]), ["note", "ours", "paper", "quantity", "unit"]);
        assert_eq!(json["rows"][0]["ours"], 275.8);
        assert!(json["rows"][1]["paper"].is_null());
        assert_eq!((&json["mode"], &json["seed"]), (&"quick".into(), &7.into()));
        assert_eq!(json["commit"], "c");
        assert_eq!(Report::new(&EXPERIMENTS[0], &findings, false, "c").mode, "full");
    }

    #[test]
    fn figures_are_compared_at_their_own_scales() {
        // 2.906 links of 1,000 Mbit/s beside 2.758 of 50.
        let row = Row::new("udp", "Mbit/s", 137.9).paper_at(2906.0, 1000.0, 50.0);
        assert_eq!((row.paper, row.beside.as_str()), (Some(2906.0), "x 0.95 to scale"));
        assert_eq!(Row::new("gain", "%", 94.0).paper(96.0).beside, "-2.0 points");
        assert_eq!(Row::new("none", "B", 0.0).paper(0.0).beside, "");
        let findings = Findings {
            rows: vec![row],
            remarks: vec!["because".into()],
            doubts: vec!["busy".into()],
            ..Findings::default()
        };
        let text = Report::new(&EXPERIMENTS[0], &findings, true, "c").text(&findings);
        assert!(text.starts_with("the claim cannot be told: the figures are doubtful: busy\n"));
        assert!(text.contains("udp       Mbit/s  2,906   138  x 0.95 to scale\n"), "{text}");
        assert!(
            text.contains("\nbecause\nnot to be trusted: busy\naxon-table1, quick, commit"),
            "{text}"
        );
    }

    #[test]
    fn bounds_are_shown_as_bounds_and_what_is_put_in_gets_no_ratio() {
        let row = |ours: f64| Row::new("a", "Mbit/s", ours);
        let shown = |row: Row| [row.paper_text(), row.ours_text(), row.beside];
        assert_eq!(shown(row(0.2).at_most(0.25)), ["\u{2264} 0.25", "0.20", "within"]);
        assert_eq!(shown(row(0.5).at_most(0.25)), ["\u{2264} 0.25", "0.50", "x 2.00"]);
        assert_eq!(shown(row(5.0).at_least(10.0)), ["\u{2265} 10.0", "5.00", "x 0.50"]);
        assert_eq!(shown(row(1.6).between(1.5, 2.0)), ["1.50 to 2.00", "1.60", "within"]);
        assert_eq!(shown(row(4.0).between(1.5, 2.0)), ["1.50 to 2.00", "4.00", "x 2.00"]);
        assert_eq!(shown(row(520.0).put_in(520.0)), ["520", "520", "put in"]);
        assert_eq!(shown(row(1000.0).or_more()), ["-", "\u{2265} 1,000", ""]);
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
