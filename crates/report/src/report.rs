//! The report of a run: the JSON of DESIGN, and the table for display.

use std::collections::BTreeMap;
use std::fmt;

use plexus_config::units::format_rate;
use serde::{Deserialize, Serialize};

use crate::named::NamedAccount;
use crate::table::columns;

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The facts, in the shape of DESIGN ("JSON answers: lab run").
    pub facts: Facts,
    /// Where every packet of every node went.
    pub accounts: BTreeMap<String, Account>,
    /// The account of each node that forwards named data, if it is kept.
    #[serde(default)]
    pub named: BTreeMap<String, NamedAccount>,
    /// Further notes for the reader.
    pub notes: Vec<String>,
}

/// The facts of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The lab.
    pub lab: String,
    /// Whether every assertion holds.
    pub passed: bool,
    /// What was sent, in the order of the file.
    pub flows: Vec<FlowReport>,
    /// Expectations: first that every flow did as expected, then the file's assertions.
    pub assertions: Vec<AssertionReport>,
    /// Times without service.
    pub outages: Vec<Outage>,
    /// Packets dropped by the nodes during the run, by reason.
    pub drops: BTreeMap<String, u64>,
    /// The fraction of a core that each node used.
    pub cpu: BTreeMap<String, f64>,
    /// The quota of each node that has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_quota: BTreeMap<String, Quota>,
    /// The fraction of each node's packets that went by its fast table, of nodes that have one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fast: BTreeMap<String, f64>,
    /// The longest time in milliseconds for which a processor did not run a thread of the lab that
    /// was due. None of a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_ms: Option<f64>,
}

/// A node's quota of processor time, and the kernel's account of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// Processors that the node may use.
    pub cpu: f64,
    /// Periods of the quota in which the node ran.
    pub periods: u64,
    /// Of these, the periods in which the kernel stopped it because its quota was used up.
    pub throttled: u64,
}

impl Quota {
    /// What was counted since `before`.
    #[must_use]
    pub fn since(self, before: Quota) -> Quota {
        Quota {
            cpu: self.cpu,
            periods: self.periods.saturating_sub(before.periods),
            throttled: self.throttled.saturating_sub(before.throttled),
        }
    }
}

/// A flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// The sender.
    pub from: String,
    /// The receiver, as the file names it.
    pub to: String,
    /// `tcp`, `udp`, `icmp` or `request`.
    pub proto: String,
    /// Payload bits/s that were sent.
    pub sent_bits_per_s: f64,
    /// Payload bits/s that arrived during the flow's own time, duplicates apart.
    pub received_bits_per_s: f64,
    /// The fraction that did not arrive, 0 to 1: packets, or bytes for TCP.
    pub loss: f64,
    /// Latency of the first packet in microseconds: one way for UDP, round trip for ICMP and
    /// requests, none for TCP. It includes the resolution of addresses and routes.
    #[serde(default)]
    pub latency_us_first: Option<f64>,
    /// Median latency, likewise.
    pub latency_us_p50: Option<f64>,
    /// Its 99th percentile.
    pub latency_us_p99: Option<f64>,
    /// Packets that came after a later one; none for TCP.
    pub reordered: Option<u64>,
    /// Packets that came more than once, which no other figure counts; none for TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<u64>,
    /// Answered requests per second; there for requests only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions_per_s: Option<f64>,
}

/// Something that had to hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssertionReport {
    /// As the file says it.
    pub text: String,
    /// Whether it holds.
    pub passed: bool,
    /// The measured value, in the assertion's unit; null if there is none.
    pub value: Option<f64>,
}

/// A time without service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outage {
    /// What failed.
    pub kind: String,
    /// For how long, in milliseconds.
    pub ms: f64,
}

/// Where a node's packets went during the run:
/// `received + copied + injected = sent + consumed + rejected + dropped + lost + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Packets that came to its ports.
    pub received: u64,
    /// Copies made of them.
    pub copied: u64,
    /// Packets that the node's control plane made.
    pub injected: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets for the node itself.
    pub consumed: u64,
    /// Packets that a device could never send.
    pub rejected: u64,
    /// Packets dropped for a named reason.
    pub dropped: u64,
    /// Packets that reached a port but not the node: the receive queue was full, the packet did not
    /// fit a frame, or a stranger sent it.
    pub lost: u64,
    /// Packets in its queues at the end.
    pub held: u64,
}

impl Account {
    /// Whether nothing is unaccounted for.
    pub fn balances(&self) -> bool {
        let out = self.sent + self.consumed + self.rejected + self.dropped + self.lost + self.held;
        self.received + self.copied + self.injected == out
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account { received, copied, injected, .. } = *self;
        let Account { sent, consumed, rejected, dropped, lost, held, .. } = *self;
        let sign = if self.balances() { "=" } else { "≠" };
        write!(f, "{received} received + {copied} copied")?;
        if injected > 0 {
            write!(f, " + {injected} injected")?;
        }
        write!(f, " {sign} {sent} sent + {consumed} consumed")?;
        // "0 dropped" tells a reader that nothing was lost either.
        if dropped > 0 || lost == 0 {
            write!(f, " + {dropped} dropped")?;
        }
        for (count, name) in [(lost, "lost"), (rejected, "rejected"), (held, "held")] {
            if count > 0 {
                write!(f, " + {count} {name}")?;
            }
        }
        Ok(())
    }
}

/// Bits per second, rounded to three or four digits for the eye.
pub fn rate(bits_per_s: f64) -> String {
    let whole = bits_per_s.max(0.0).round() as u64;
    let unit = [(1_000_000_000, 10_000_000), (1_000_000, 10_000), (1000, 10)]
        .into_iter()
        .find_map(|(from, step)| (whole >= from).then_some(step))
        .unwrap_or(1);
    format_rate(whole / unit * unit)
}

pub(crate) fn latency(us: Option<f64>) -> String {
    match us {
        None => "-".into(),
        Some(us) if us >= 10_000.0 => format!("{:.1} ms", us / 1000.0),
        Some(us) => format!("{us:.0} us"),
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &self.facts;
        if !facts.flows.is_empty() {
            let names =
                ["flow", "way", "", "sent", "received", "loss", "first", "p50", "p99", "reordered"];
            let mut rows = vec![names.map(String::from)];
            rows.extend(facts.flows.iter().map(|x| {
                [
                    x.name.clone(),
                    format!("{} > {}", x.from, x.to),
                    x.proto.clone(),
                    rate(x.sent_bits_per_s),
                    rate(x.received_bits_per_s),
                    format!("{:.2} %", x.loss * 100.0),
                    latency(x.latency_us_first),
                    latency(x.latency_us_p50),
                    latency(x.latency_us_p99),
                    x.reordered.map_or("-".into(), |n| n.to_string()),
                ]
            }));
            f.write_str(&columns(&rows))?;
        }
        for flow in &facts.flows {
            if let Some(rate) = flow.transactions_per_s {
                writeln!(f, "{}: {rate:.1} transactions/s", flow.name)?;
            }
            if let Some(count) = flow.duplicates.filter(|n| *n > 0) {
                writeln!(f, "{}: {count} duplicates, not counted above", flow.name)?;
            }
        }
        for (node, account) in &self.accounts {
            writeln!(f, "{node}: {account}")?;
        }
        for (node, named) in &self.named {
            writeln!(f, "{node}, by name: {named}")?;
        }
        for Outage { kind, ms } in &facts.outages {
            writeln!(f, "fault ({kind}): nothing arrived for {ms:.1} ms")?;
        }
        if !facts.drops.is_empty() {
            let drops: Vec<String> =
                facts.drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
            writeln!(f, "drops: {}", drops.join(", "))?;
        }
        for (node, fraction) in &facts.cpu {
            write!(f, "{node}: {:.1} % of a core", fraction * 100.0)?;
            if let Some(Quota { cpu, periods, throttled }) = facts.cpu_quota.get(node) {
                let quota = cpu * 100.0;
                write!(f, ", quota {quota:.1} %, used up in {throttled} of {periods} periods")?;
            }
            if let Some(fast) = facts.fast.get(node).filter(|fast| **fast > 0.0) {
                write!(f, ", {:.1} % of its packets by the fast table", fast * 100.0)?;
            }
            writeln!(f)?;
        }
        for assertion in &facts.assertions {
            let word = if assertion.passed { "ok  " } else { "FAIL" };
            write!(f, "{word} {}", assertion.text)?;
            match assertion.value {
                Some(value) if !assertion.passed => writeln!(f, " (it is {value})")?,
                None => writeln!(f, " (nothing was measured)")?,
                _ => writeln!(f)?,
            }
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let verdict = if facts.passed { "passed" } else { "FAILED" };
        write!(f, "{}: {verdict}", facts.lab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_shape_of_the_contract() {
        let facts = Facts {
            lab: "switch".into(),
            passed: true,
            flows: vec![FlowReport { name: "bulk".into(), ..FlowReport::default() }],
            assertions: vec![AssertionReport { text: "a".into(), passed: true, value: None }],
            outages: Vec::new(),
            drops: BTreeMap::from([("runt".into(), 1)]),
            cpu: BTreeMap::from([("s1".into(), 0.5)]),
            cpu_quota: BTreeMap::new(),
            stalled_ms: None,
            fast: BTreeMap::new(),
        };
        let json = serde_json::to_value(&facts).unwrap();
        let keys = |v: &serde_json::Value| -> Vec<String> {
            v.as_object().unwrap().keys().cloned().collect()
        };
        let sorted = ["assertions", "cpu", "drops", "flows", "lab", "outages", "passed"];
        assert_eq!(keys(&json), sorted);
        let mut flow = keys(&json["flows"][0]);
        flow.sort();
        assert_eq!(
            flow,
            [
                "from",
                "latency_us_first",
                "latency_us_p50",
                "latency_us_p99",
                "loss",
                "name",
                "proto",
                "received_bits_per_s",
                "reordered",
                "sent_bits_per_s",
                "to"
            ]
        );
        assert_eq!(json["drops"]["runt"], 1);
        assert!(json["assertions"][0]["value"].is_null());
    }

    #[test]
    fn nothing_dropped_is_said_only_where_nothing_was_lost() {
        let whole = Account { received: 4, sent: 4, ..Account::default() };
        assert!(whole.to_string().ends_with("0 consumed + 0 dropped"), "{whole}");
        let overflow = Account { received: 4, sent: 1, lost: 3, ..Account::default() };
        assert!(overflow.to_string().ends_with("0 consumed + 3 lost"), "{overflow}");
        let both = Account { received: 4, sent: 1, dropped: 1, lost: 2, ..Account::default() };
        assert!(both.to_string().ends_with("0 consumed + 1 dropped + 2 lost"), "{both}");
    }

    #[test]
    fn an_account_that_does_not_balance_shows() {
        let mut account = Account { received: 3, copied: 1, sent: 4, ..Account::default() };
        assert!(account.balances() && account.to_string().contains("copied = 4 sent"));
        account.sent = 3;
        assert!(!account.balances() && account.to_string().contains('≠'));
    }
}
