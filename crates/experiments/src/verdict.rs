//! Whether a paper's claim holds by our figures: one rule for all claims that have figures. A claim
//! without them (an order, a trend) is judged by its experiment, which says what it compares in
//! [`Findings::verdict`].

use std::fmt;

use super::report::{Findings, Row};
use super::{Experiment, Kind};

/// Ours agrees with a figure of the paper's if neither is more than this many times the other.
const NEAR: f64 = 1.25;
/// Percentages that differ by no more than this agree whatever their ratio: 0 has none.
const NEAR_POINTS: f64 = 0.05;
/// Figures that a verdict names, at most.
const NAMED: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Holds,
    DoesNotHold,
    CannotBeTold,
}

impl Answer {
    /// For a person, and in recorded results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Answer::Holds => "holds",
            Answer::DoesNotHold => "does not hold",
            Answer::CannotBeTold => "cannot be told",
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Answer::Holds => "holds",
            Answer::DoesNotHold => "fails",
            Answer::CannotBeTold => "open",
        }
    }
}

/// The answer and its reason.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) answer: Answer,
    pub(super) why: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.answer.name(), self.why)
    }
}

impl Verdict {
    /// The claim holds, or does not, for this reason.
    pub(super) fn new(holds: bool, why: impl Into<String>) -> Verdict {
        let answer = if holds { Answer::Holds } else { Answer::DoesNotHold };
        Verdict { answer, why: why.into() }
    }

    /// No figure of ours decides it.
    pub(super) fn open(why: impl Into<String>) -> Verdict {
        Verdict { answer: Answer::CannotBeTold, why: why.into() }
    }

    /// The verdict on an experiment's findings. Doubtful figures decide nothing, nor does a quick
    /// look at what a machine's speed decides.
    pub(super) fn of(experiment: &Experiment, findings: &Findings, quick: bool) -> Verdict {
        if let Some(doubt) = findings.doubts.first() {
            return Verdict::open(format!("the figures are doubtful: {doubt}"));
        }
        if quick && matches!(experiment.kind, Kind::Lab | Kind::Bench) {
            return Verdict::open("a quick run is too short for a measurement");
        }
        let found = findings.verdict.clone().unwrap_or_else(|| Verdict::of_rows(&findings.rows));
        match quick && found.answer != Answer::CannotBeTold {
            true => Verdict { why: format!("{} (quick run)", found.why), ..found },
            false => found,
        }
    }

    /// By the rows that have a figure or a bound of the paper's and are no mere detail.
    fn of_rows(rows: &[Row]) -> Verdict {
        let judged: Vec<(&Row, bool)> =
            rows.iter().filter_map(|row| Some((row, agrees(row)?))).collect();
        let missed: Vec<&Row> = judged.iter().filter(|(_, ok)| !ok).map(|(row, _)| *row).collect();
        match (judged.len(), missed.len()) {
            (0, _) => Verdict::open("this run has no figure that the paper gives as well"),
            (1, 0) => Verdict::new(true, named(judged[0].0)),
            (all, 0) => Verdict::new(true, format!("all {all} figures of the paper are met")),
            (all, count) => {
                let mut why: Vec<String> =
                    missed.iter().take(NAMED).map(|row| named(row)).collect();
                if count > NAMED {
                    why.push(format!("{} more", count - NAMED));
                }
                let why = why.join("; ");
                Verdict::new(false, format!("{count} of {all} figures are missed: {why}"))
            }
        }
    }
}

/// A row in words: its quantity, the paper's figure and ours.
fn named(row: &Row) -> String {
    let unit = if row.unit.is_empty() { String::new() } else { format!(" {}", row.unit) };
    format!("{}: {}, paper {}{unit}", row.quantity, row.ours_text(), row.paper_text())
}

/// Whether a row agrees with the paper; `None` where it decides nothing.
fn agrees(row: &Row) -> Option<bool> {
    let (theirs, ours) = row.compared()?;
    if row.is_detail {
        return None;
    }
    let near = ours == theirs
        || (row.unit == "%" && (ours - theirs).abs() <= NEAR_POINTS)
        || (1.0 / NEAR..=NEAR).contains(&(ours / theirs));
    Some(row.keeps_bound().unwrap_or(near))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EXPERIMENTS;

    fn answer(rows: Vec<Row>) -> (Answer, String) {
        let Verdict { answer, why } = Verdict::of_rows(&rows);
        (answer, why)
    }

    #[test]
    fn figures_agree_within_a_fourth_and_bounds_without_any_allowance() {
        let row = |ours: f64| Row::new("a", "Mbit/s", ours);
        assert_eq!(answer(vec![row(81.0).paper(100.0)]).0, Answer::Holds);
        assert_eq!(answer(vec![row(79.0).paper(100.0)]).0, Answer::DoesNotHold);
        assert_eq!(answer(vec![row(0.26).at_most(0.25)]).0, Answer::DoesNotHold);
        assert_eq!(answer(vec![row(0.01).at_most(0.25)]).0, Answer::Holds);
        assert_eq!(answer(vec![row(50.0).at_least(10.0)]).0, Answer::Holds);
        assert_eq!(answer(vec![row(1.4).between(1.5, 2.0)]).0, Answer::DoesNotHold);
        assert_eq!(answer(vec![row(1.6).between(1.5, 2.0)]).0, Answer::Holds);
        let percent = |ours: f64| Row::new("lost", "%", ours).paper(0.0);
        assert_eq!(answer(vec![percent(0.0), percent(0.04)]).0, Answer::Holds);
        assert_eq!(answer(vec![percent(0.41)]).0, Answer::DoesNotHold);
    }

    #[test]
    fn what_is_put_in_and_details_decide_nothing() {
        let rows = vec![
            Row::new("a", "ns", 520.0).put_in(520.0),
            Row::new("b", "%", 9.0).paper(1.0).detail(),
            Row::new("c", "ns", 1.0),
        ];
        assert_eq!(answer(rows).0, Answer::CannotBeTold);
    }

    #[test]
    fn a_verdict_names_what_is_missed_and_a_doubt_or_a_quick_lab_decides_nothing() {
        let missed = |name: &str| Row::new(name, "Mbit/s", 1.0).paper(2.0);
        let rows: Vec<Row> = ["a", "b", "c", "d"].map(missed).into();
        let why = answer(rows.clone()).1;
        assert!(why.starts_with("4 of 4 figures are missed: a: 1.00, paper 2.00 Mbit/s"), "{why}");
        assert!(why.ends_with("; 1 more"), "{why}");
        let of = |kind: Kind, quick: bool, doubts: &[&str]| {
            let experiment = EXPERIMENTS.iter().find(|e| e.kind == kind).unwrap();
            let doubts = doubts.iter().map(ToString::to_string).collect();
            let findings = Findings { rows: rows.clone(), doubts, ..Findings::default() };
            Verdict::of(experiment, &findings, quick).answer
        };
        assert_eq!(of(Kind::Lab, false, &[]), Answer::DoesNotHold);
        assert_eq!(of(Kind::Lab, false, &["busy"]), Answer::CannotBeTold);
        assert_eq!(of(Kind::Lab, true, &[]), Answer::CannotBeTold);
        assert_eq!(of(Kind::Sim, true, &[]), Answer::DoesNotHold);
    }
}
