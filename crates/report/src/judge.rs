//! The verdict on a run.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_topo::Topology;
use plexus_topo::assertion::{FlowMetric, Subject};

use crate::named::NamedAccount;
use crate::outcome::Outcome;
use crate::report::{Account, AssertionReport, Facts, Outage, Quota, RunReport};

/// A gap that begins this long before a cut may still be due to it: the next packet was not due
/// before.
const BEFORE: Duration = Duration::from_millis(100);
/// A gap that begins later than this after a cut has another cause.
const AFTER: Duration = Duration::from_secs(2);

/// The nodes' counters during a run, by node, and their drops by reason.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// The fate of every packet; empty if no account is kept.
    pub accounts: BTreeMap<String, Account>,
    /// Packets dropped by all nodes, by reason.
    pub drops: BTreeMap<String, u64>,
    /// The fraction of a core that each node used.
    pub cpu: BTreeMap<String, f64>,
    /// The fraction of each node's packets that went by its fast table, of nodes that have one.
    pub fast: BTreeMap<String, f64>,
    /// The quota of each node that has one.
    pub cpu_quota: BTreeMap<String, Quota>,
    /// Interests that each node answered out of its content store, of nodes that have one.
    pub cached: BTreeMap<String, u64>,
    /// The account of each node that forwards named data; empty if none is kept.
    pub named: BTreeMap<String, NamedAccount>,
}

/// Something that failed during a run.
#[derive(Clone, Debug)]
pub struct Cut {
    /// How, as files call it.
    pub kind: &'static str,
    /// How long after the start of the run.
    pub at: Duration,
    /// Why it did not after all.
    pub problem: Option<String>,
}

/// The verdict: whether every flow did as expected, every assertion holds, and every fault was
/// made. `unchecked` says of an assertion why it cannot be checked here, if so.
pub fn judge(
    topology: &Topology,
    outcomes: &[Outcome],
    counted: Counted,
    cuts: &[Cut],
    unchecked: impl Fn(&Subject) -> Option<String>,
) -> RunReport {
    let measured = Measured { topology, outcomes, counted: &counted };
    let (mut assertions, mut notes) = (Vec::new(), Vec::new());
    for (flow, outcome) in topology.traffic.iter().zip(outcomes) {
        let (passed, text) = outcome.meets(flow);
        // In the unit of a loss, as "none" is 0 and "all" is 1.
        let value = Some(outcome.loss);
        assertions.push(AssertionReport { text, passed, value });
        if !passed && let Some(problem) = &outcome.problem {
            notes.push(format!("{}: {problem}", flow.name));
        }
        notes.extend(outcome.note.clone());
    }
    for assertion in &topology.assertions {
        if let Some(why) = assertion.subjects.iter().find_map(&unchecked) {
            notes.push(format!("{}: not checked, {why}", assertion.text));
            continue;
        }
        let verdict = assertion.evaluate(|subject| measured.value(subject));
        assertions.push(AssertionReport {
            text: assertion.text.clone(),
            passed: verdict.passed,
            value: verdict.value.filter(|v| v.is_finite()),
        });
    }
    let (made, not_made): (Vec<&Cut>, _) = cuts.iter().partition(|cut| cut.problem.is_none());
    for cut in not_made {
        // Without its fault a run shows nothing about it.
        let text = format!("{} at {:?} is made", cut.kind, cut.at);
        assertions.push(AssertionReport { text, passed: false, value: Some(0.0) });
        notes.extend(cut.problem.iter().map(|p| format!("{} not made: {p}", cut.kind)));
    }
    let flows = topology.traffic.iter().zip(outcomes).map(|(f, o)| o.report(f, topology));
    let facts = Facts {
        lab: topology.name.clone(),
        passed: assertions.iter().all(|a| a.passed),
        flows: flows.collect(),
        assertions,
        outages: outages(&made, outcomes),
        drops: counted.drops,
        cpu: counted.cpu,
        cpu_quota: counted.cpu_quota,
        fast: counted.fast,
        stalled_ms: None,
    };
    RunReport { facts, accounts: counted.accounts, named: counted.named, notes }
}

/// How long traffic stood still after each cut: the longest gap of any flow that is this cut's.
fn outages(cuts: &[&Cut], outcomes: &[Outcome]) -> Vec<Outage> {
    let mut longest = vec![Duration::ZERO; cuts.len()];
    for &(begun, gap) in outcomes.iter().flat_map(|o| &o.gaps) {
        if let Some(cut) = cause(cuts, begun, gap) {
            longest[cut] = longest[cut].max(gap);
        }
    }
    let outage = |(cut, gap): (&&Cut, Duration)| Outage {
        kind: cut.kind.into(),
        ms: gap.as_secs_f64() * 1e3,
    };
    cuts.iter().zip(longest).map(outage).collect()
}

/// The cut that made a gap: of those during it or before, the one nearest to its beginning, and the
/// first in the file of those in the same instant.
fn cause(cuts: &[&Cut], begun: Duration, gap: Duration) -> Option<usize> {
    let is_near = |at: Duration| at <= begun + gap.min(BEFORE) && begun <= at + AFTER;
    let near = cuts.iter().enumerate().filter(|(_, cut)| is_near(cut.at));
    near.min_by_key(|(_, cut)| cut.at.abs_diff(begun)).map(|(number, _)| number)
}

/// The values that assertions can use.
struct Measured<'a> {
    topology: &'a Topology,
    outcomes: &'a [Outcome],
    counted: &'a Counted,
}

impl Measured<'_> {
    /// The subject's value in its unit; `None` where nothing was measured.
    fn value(&self, subject: &Subject) -> Option<f64> {
        // Without accounts nothing is known.
        let counted = !self.counted.accounts.is_empty();
        match subject {
            Subject::Flow { flow, metric } => {
                let outcome = self.outcomes.get(*flow)?;
                match metric {
                    FlowMetric::Received => Some(outcome.received_bits_per_s),
                    FlowMetric::Sent => Some(outcome.sent_bits_per_s),
                    FlowMetric::Loss => Some(outcome.loss),
                    FlowMetric::LatencyP50 => outcome.latency_us_p50,
                    FlowMetric::LatencyP99 => outcome.latency_us_p99,
                    FlowMetric::First => outcome.latency_us_first,
                    FlowMetric::Reordered => outcome.reordered.map(|n| n as f64),
                    FlowMetric::Duplicates => outcome.duplicates.map(|n| n as f64),
                    FlowMetric::Transactions => outcome.transactions_per_s,
                }
            }
            Subject::DropsTotal => counted.then(|| self.counted.drops.values().sum::<u64>() as f64),
            Subject::Drops(reason) => {
                counted.then(|| self.counted.drops.get(reason).copied().unwrap_or(0) as f64)
            }
            Subject::Conserved => counted.then(|| {
                let balanced = self.counted.accounts.values().all(|a| a.balances());
                let adds_up = self.counted.named.values().all(|n| n.adds_up());
                f64::from(u8::from(balanced && adds_up))
            }),
            Subject::Cpu { node } => {
                self.counted.cpu.get(&self.topology.nodes.get(*node)?.name).copied()
            }
            Subject::Fast { node } => {
                self.counted.fast.get(&self.topology.nodes.get(*node)?.name).copied()
            }
            Subject::Cached { node } => {
                let name = &self.topology.nodes.get(*node)?.name;
                self.counted.cached.get(name).map(|n| *n as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMELESS: &str = "name = \"t\"\n[[node]]\nname = \"n1\"\n";

    fn cut(ms: u64) -> Cut {
        Cut { kind: "carrier", at: Duration::from_millis(ms), problem: None }
    }

    /// The outages in milliseconds for given cuts and, for each flow, gaps: both in milliseconds,
    /// gaps as beginning and length.
    fn told(cuts: &[Cut], flows: &[&[(u64, u64)]]) -> Vec<f64> {
        let ms = Duration::from_millis;
        let outcome = |gaps: &&[(u64, u64)]| Outcome {
            gaps: gaps.iter().map(|&(at, len)| (ms(at), ms(len))).collect(),
            ..Outcome::default()
        };
        let outcomes: Vec<Outcome> = flows.iter().map(outcome).collect();
        let topology = Topology::parse("t", NAMELESS).unwrap();
        let report = judge(&topology, &outcomes, Counted::default(), cuts, |_| None);
        report.facts.outages.iter().map(|o| o.ms).collect()
    }

    #[test]
    fn a_silence_is_the_doing_of_the_one_fault_that_is_nearest() {
        // The second cut was within two seconds of the first, which had no effect.
        assert_eq!(told(&[cut(1000), cut(2000)], &[&[(2001, 500)]]), [0.0, 500.0]);
        // A cut during a silence did not begin it, and one right after it did not either.
        assert_eq!(told(&[cut(1000), cut(1400)], &[&[(1003, 600)]]), [600.0, 0.0]);
        assert_eq!(told(&[cut(1000), cut(1050)], &[&[(1001, 40)]]), [40.0, 0.0]);
        // The last packet came before the cut: the next was not due yet.
        assert_eq!(told(&[cut(1000)], &[&[(995, 300)], &[(1002, 200)]]), [300.0]);
        assert_eq!(told(&[cut(1000)], &[&[(995, 3)], &[(3500, 200)]]), [0.0]);
        // Of two cuts at the same instant, the first in the file gets the outage.
        assert_eq!(told(&[cut(1000), cut(1000)], &[&[(1001, 40)]]), [40.0, 0.0]);
    }

    #[test]
    fn a_run_whose_fault_was_not_made_has_failed() {
        let topology = Topology::parse("t", NAMELESS).unwrap();
        let judged = |cuts: &[Cut]| judge(&topology, &[], Counted::default(), cuts, |_| None);
        assert!(judged(&[cut(1000)]).facts.passed);
        let problem = Some("no such cable".to_string());
        let report = judged(&[cut(900), Cut { problem, ..cut(1000) }]);
        assert!(!report.facts.passed);
        assert_eq!(report.facts.assertions[0].text, "carrier at 1s is made");
        assert_eq!(report.notes, ["carrier not made: no such cable"]);
    }

    #[test]
    fn a_fault_that_was_not_made_has_no_outage() {
        let problem = Some("no such cable".to_string());
        let cuts = [Cut { problem, ..cut(1000) }, cut(900)];
        assert_eq!(told(&cuts, &[&[(1001, 40)]]), [40.0]);
    }
}
