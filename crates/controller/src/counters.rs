//! The nodes' counters, which they tell while somebody looks at the network.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::fabric::message::{Counters, NamedCount, Names, PortCount, Watch};

use crate::{Controller, NodeId};

/// How long nodes tell, and how often they are asked to while somebody looks.
const WATCH_S: u8 = 10;
const AGAIN: Duration = Duration::from_secs(4);
/// A report this old is no longer shown.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// Parts may overtake each other by less than this, in milliseconds; older ones are of a node that
/// has started anew.
const OVERTAKEN_MS: u64 = 2_000;
/// Reasons of one node that are kept: more than there are.
const REASONS: usize = 256;
/// Longest name of a reason, in bytes.
const REASON: usize = 64;

/// The nodes' reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    of: BTreeMap<u32, Report>,
    asked: Option<Time>,
}

#[derive(Clone, Debug, Default)]
struct Report {
    heard: Time,
    whole: CountersView,
    /// The parts that have come of the next one.
    next: CountersView,
}

/// A node's counters since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountersView {
    /// When, in milliseconds since the node started.
    pub time_ms: u64,
    /// By port.
    pub ports: BTreeMap<u8, PortCount>,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Its forwarder of named data.
    pub named: Option<NamedCount>,
    /// Prefixes to which that has routes, as URIs.
    pub prefixes: Vec<String>,
    /// How many more there are.
    pub more_prefixes: u32,
}

impl Reports {
    pub(crate) fn hear(&mut self, now: Time, node: u32, part: Counters) {
        let report = self.of.entry(node).or_default();
        let last = report.whole.time_ms;
        if part.time_ms < last && last - part.time_ms < OVERTAKEN_MS {
            return;
        }
        let next = &mut report.next;
        if next.time_ms != part.time_ms {
            *next = CountersView { time_ms: part.time_ms, ..CountersView::default() };
        }
        next.ports.extend(part.ports.into_iter().map(|port| (port.port, port)));
        for drop in part.drops {
            if next.drops.len() < REASONS && drop.reason.len() <= REASON {
                let reason = String::from_utf8_lossy(&drop.reason).into_owned();
                next.drops.insert(reason, drop.packets);
            }
        }
        next.named = part.named.or(next.named.take());
        if part.last {
            let next = std::mem::take(next);
            let whole = &mut report.whole;
            if next.time_ms < whole.time_ms {
                *whole = CountersView::default();
            }
            // Counters of a lost part stay as they were: they would begin at zero otherwise.
            whole.time_ms = next.time_ms;
            whole.ports.extend(next.ports);
            whole.drops.extend(next.drops);
            whole.named = next.named.or(whole.named.take());
            report.heard = now;
        }
    }
}

impl Reports {
    pub(crate) fn hear_names(&mut self, node: u32, told: Names) {
        let whole = &mut self.of.entry(node).or_default().whole;
        let uri = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(char::is_control, "?");
        whole.prefixes = told.prefixes.iter().map(|prefix| uri(&prefix.uri)).collect();
        whole.more_prefixes = told.more;
    }
}

impl Controller {
    /// Somebody looks: asks the nodes, unless it has just done so.
    pub(crate) fn watched(&mut self, now: Time) {
        if self.reports.asked.is_some_and(|asked| now.since(asked) < AGAIN) {
            return;
        }
        self.reports.asked = Some(now);
        for node in 0..self.topology.nodes.len() as u32 {
            self.send(node, 0, Watch { seconds: WATCH_S });
        }
    }

    /// A node's counters, if it has told them lately.
    pub fn counters(&self, now: Time, node: NodeId) -> Option<&CountersView> {
        let report = self.reports.of.get(&self.topology.index(node)?)?;
        let is_fresh = report.heard > Time::ZERO && now.since(report.heard) < FRESH_FOR;
        is_fresh.then_some(&report.whole)
    }
}

#[cfg(test)]
mod tests {
    use plexus_wire::fabric::message::DropCount;

    use super::*;

    fn part(time_ms: u64, last: bool, port: u8) -> Counters {
        let port = PortCount { port, rx_packets: 1, rx_bytes: 2, tx_packets: 3, tx_bytes: 4 };
        let drop = |reason: &[u8]| DropCount { reason: reason.to_vec(), packets: 1 };
        let drops = vec![drop(b"no_route"), drop(&[b'x'; REASON + 1]), drop(&[0xFF])];
        Counters { time_ms, last, ports: vec![port], drops, named: None }
    }

    #[test]
    fn a_report_counts_once_its_last_part_has_come() {
        let mut reports = Reports::default();
        let at = |s: u64| Time::from_nanos(s * 1_000_000_000);
        reports.hear(at(1), 0, part(1000, false, 1));
        assert_eq!(reports.of[&0].whole, CountersView::default());
        reports.hear(at(1), 0, part(1000, true, 2));
        let ports = |reports: &Reports| reports.of[&0].whole.ports.keys().copied().collect();
        let of_first: Vec<u8> = ports(&reports);
        assert_eq!(of_first, [1, 2]);
        let reasons: Vec<&String> = reports.of[&0].whole.drops.keys().collect();
        assert_eq!(reasons, ["no_route", "\u{FFFD}"]);
        // The end of the second report comes after the third.
        reports.hear(at(2), 0, part(2000, false, 3));
        reports.hear(at(3), 0, part(3000, true, 4));
        reports.hear(at(3), 0, part(2000, true, 5));
        let of_third: Vec<u8> = ports(&reports);
        assert_eq!((of_third, reports.of[&0].whole.time_ms), (vec![1, 2, 4], 3000));
        // The node has started anew.
        reports.hear(at(9), 0, part(500, true, 6));
        let of_new: Vec<u8> = ports(&reports);
        assert_eq!(of_new, [6]);
    }
}
