//! What a controller tells Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plexus_controller::Counts;
use plexus_io::PortStats;

use crate::metrics::begin_family;

/// What the metrics are made of.
pub(super) struct Facts<'a> {
    /// The controller's name.
    pub(super) name: &'a str,
    /// It leads, and its lease holds.
    pub(super) leads: bool,
    /// It leads without its store, and promises nothing.
    pub(super) is_provisional: bool,
    pub(super) store_works: bool,
    /// 0: it stands by.
    pub(super) epoch: u64,
    /// Nodes that it follows while it stands by.
    pub(super) follows: u64,
    /// Questions that it has answered since it leads or follows.
    pub(super) questions: u64,
    pub(super) counts: Counts,
    /// What the core did not act on, by reason.
    pub(super) drops: BTreeMap<String, u64>,
    /// Its device is cabled to a node.
    pub(super) attached: bool,
    pub(super) port: PortStats,
    pub(super) done: Done,
}

/// What the driver counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// Messages that sessions refused: forged, replayed, malformed.
    pub(super) refused: u64,
    /// Routes sent to nodes' memories.
    pub(super) routes: u64,
    /// Writes that the store keeps.
    pub(super) stored: u64,
    /// Troubles of the store.
    pub(super) not_stored: u64,
    /// Frames that the device had no room for; whoever misses them asks again.
    pub(super) unsent: u64,
}

/// The metrics in the text exposition format.
pub(super) fn text(facts: &Facts<'_>) -> String {
    let Facts { name, leads, is_provisional, store_works, epoch, .. } = facts;
    let Facts { counts, drops, attached, port, done, .. } = facts;
    let gauges = [
        ("leads", "1 while it leads and its lease holds", u64::from(*leads)),
        (
            "provisional",
            "1 while it leads without its store, and promises nothing",
            u64::from(*is_provisional),
        ),
        ("store_works", "1 unless the store was in trouble last", u64::from(*store_works)),
        ("epoch", "Epoch in which it leads, 0 if it stands by", *epoch),
        ("follows", "Nodes that it follows while it stands by", facts.follows),
        ("attached", "1 if its device is cabled to a node", u64::from(*attached)),
        ("nodes", "Nodes ever heard of", counts.nodes as u64),
        ("nodes_up", "Nodes that have been heard of lately", counts.nodes_up as u64),
        ("links", "Links between nodes", counts.links as u64),
        ("hosts", "Stations that are known", counts.hosts as u64),
        ("flows", "Entries of route memories", counts.flows as u64),
        ("flows_stranded", "Entries without a path now", counts.flows_stranded as u64),
        ("leases", "DHCP leases that hold or have held", counts.leases as u64),
        ("trees", "Trees of multicast groups", counts.trees as u64),
    ];
    let counters = [
        ("receive_packets", "Packets received", port.rx_packets),
        ("receive_overflow", "Packets lost, the device's queue being full", port.rx_overflow),
        ("transmit_packets", "Packets sent", port.tx_packets),
        ("transmit_unsent", "Packets that the device had no room for", done.unsent),
        ("refused", "Messages that sessions refused", done.refused),
        ("routes_sent", "Routes sent to nodes", done.routes),
        ("questions", "Hosts' questions answered with routes", facts.questions),
        ("trees_considered", "Looks at a tree's senders and listeners", counts.trees_considered),
        ("stored", "Writes that the store keeps", done.stored),
        ("not_stored", "Troubles of the store", done.not_stored),
    ];
    let mut out = String::new();
    // Writing to a String does not fail.
    for (key, help, value) in gauges {
        let key = format!("plexus_controller_{key}");
        begin_family(&mut out, &key, help, "gauge");
        let _ = writeln!(out, "{key}{{controller=\"{name}\"}} {value}");
    }
    for (key, help, value) in counters {
        let key = format!("plexus_controller_{key}_total");
        begin_family(&mut out, &key, help, "counter");
        let _ = writeln!(out, "{key}{{controller=\"{name}\"}} {value}");
    }
    let key = "plexus_controller_dropped_total";
    let _ = writeln!(out, "# HELP {key} Messages and hosts' frames not acted on, by reason.");
    let _ = writeln!(out, "# TYPE {key} counter");
    for (reason, count) in drops {
        let _ = writeln!(out, "{key}{{controller=\"{name}\",reason=\"{reason}\"}} {count}");
    }
    out
}
