//! The verdict on a run.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_topo::Topology;
use plexus_topo::assertion::{FlowMetric, Subject};

use crate::outcome::Outcome;
use crate::report::{Account, AssertionReport, Facts, Outage, RunReport};

/// A gap that begins so long before a cut is the cut's: the last packet had been under way.
const BEFORE: Duration = Duration::from_millis(100);
/// A gap that begins later than this after a cut has another cause.
const AFTER: Duration = Duration::from_secs(2);

/// What the nodes counted during a run, by node, and their drops by reason.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Where every packet went; empty where nobody keeps an account.
    pub accounts: BTreeMap<String, Account>,
    /// Packets dropped by all nodes, by reason.
    pub drops: BTreeMap<String, u64>,
    /// The fraction of a core that each node used.
    pub cpu: BTreeMap<String, f64>,
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

/// The verdict: whether every flow did as expected and every assertion holds. `unchecked` says of
/// an assertion why it cannot be checked here, if so.
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
        if let Some(why) = unchecked(&assertion.subject) {
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
    let mut outages = Vec::new();
    for cut in cuts {
        match &cut.problem {
            Some(problem) => notes.push(format!("{} not made: {problem}", cut.kind)),
            None => outages.push(outage(cut, outcomes)),
        }
    }
    let flows = topology.traffic.iter().zip(outcomes).map(|(f, o)| o.report(f, topology));
    let facts = Facts {
        lab: topology.name.clone(),
        passed: assertions.iter().all(|a| a.passed),
        flows: flows.collect(),
        assertions,
        outages,
        drops: counted.drops,
        cpu: counted.cpu,
    };
    RunReport { facts, accounts: counted.accounts, notes }
}

/// How long traffic stood still after a cut: the longest gap of any flow that began with it.
fn outage(cut: &Cut, outcomes: &[Outcome]) -> Outage {
    let of_it = |begun: Duration| begun + BEFORE >= cut.at && begun <= cut.at + AFTER;
    let gaps = outcomes.iter().flat_map(|o| &o.gaps);
    let longest = gaps.filter(|(begun, _)| of_it(*begun)).map(|(_, gap)| *gap).max();
    let ms = longest.map_or(0.0, |gap| gap.as_secs_f64() * 1e3);
    Outage { kind: cut.kind.into(), ms }
}

/// What assertions can ask for.
struct Measured<'a> {
    topology: &'a Topology,
    outcomes: &'a [Outcome],
    counted: &'a Counted,
}

impl Measured<'_> {
    /// The subject's value in its unit; `None` where nothing was measured.
    fn value(&self, subject: &Subject) -> Option<f64> {
        // Where nobody keeps an account nothing is known.
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
                f64::from(u8::from(balanced))
            }),
            Subject::Cpu { node } => {
                self.counted.cpu.get(&self.topology.nodes.get(*node)?.name).copied()
            }
        }
    }
}
