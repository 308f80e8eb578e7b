//! What a node tells Prometheus.

use std::fmt::Write as _;

use plexus_io::Link;
use plexus_plane::{DropReason, PortCounters, PortReport};

use super::running::{RunningNode, Totals};
use super::{buffers, fast_table};
use crate::metrics::begin_family;

/// The node's metrics; or why there are none.
pub(crate) fn text(node: &RunningNode) -> Result<String, String> {
    let mut out = families(node, &node.totals()?);
    fast_table::metrics(node, &mut out);
    buffers::metrics(node, &mut out);
    Ok(out)
}

/// A family of figures with one value per port: name, help, value.
type Family = (&'static str, &'static str, fn(&PortReport, &PortCounters) -> u64);

const COUNTERS: &[Family] = &[
    ("receive_packets", "Packets received", |p, _| p.stats.rx_packets),
    ("receive_bytes", "Bytes received", |p, _| p.stats.rx_bytes),
    ("receive_overflow", "Packets lost before the node saw them, its queue being full", |p, _| {
        p.stats.rx_overflow
    }),
    ("receive_invalid", "Packets received that could not be used", |p, _| p.stats.rx_invalid),
    ("receive_foreign", "Datagrams that came to a tunnel, and not from its other end", |p, _| {
        p.stats.rx_foreign
    }),
    ("transmit_packets", "Packets sent", |p, _| p.stats.tx_packets),
    ("transmit_bytes", "Bytes sent", |p, _| p.stats.tx_bytes),
    ("transmit_rejected", "Packets that the device could never send", |p, _| p.stats.tx_rejected),
    (
        "transmit_refused",
        "How often the network answered that it cannot deliver what a tunnel sent",
        |p, _| p.stats.tx_refused,
    ),
    ("copies", "Packets made of ones that entered here: flooded, or cut into segments", |_, c| {
        c.copies
    }),
    ("consumed", "Packets that entered here and ended in the node's control plane", |_, c| {
        c.consumed
    }),
    ("injected", "Packets of the node's control plane that were sent to this port", |_, c| {
        c.injected
    }),
    ("ecn_marked", "Packets marked congestion experienced", |_, c| c.ecn_marked),
    ("macs_learned", "Stations learned", |_, c| c.learned),
    ("macs_moved", "Stations that moved here from another port", |_, c| c.moved),
    ("table_full", "Stations not learned because the table was full", |_, c| c.table_full),
    ("fast_packets", "Packets received that went by the fast table", |_, c| c.fast_received),
    ("link_downs", "How often the link went down", |p, _| p.stats.link_downs),
];

const GAUGES: &[Family] = &[
    ("up", "1 if the link is up", |p, _| u64::from(p.link == Link::Up)),
    ("queued_packets", "Packets waiting to be sent", |p, _| p.queued.0 as u64),
    ("queued_bytes", "Bytes waiting to be sent", |p, _| p.queued.1 as u64),
];

fn families(node: &RunningNode, totals: &Totals) -> String {
    let file = node.file();
    let label = |id: usize| {
        let port = file.port_name(id);
        format!("node=\"{}\",port=\"{port}\"", file.name)
    };
    let is_there = |id: usize| file.ports.get(id).is_some_and(|p| !p.is_vacant());
    let mut out = String::new();
    for (families, kind, end) in [(COUNTERS, "counter", "_total"), (GAUGES, "gauge", "")] {
        for (name, help, value) in families {
            let name = format!("plexus_port_{name}{end}");
            begin_family(&mut out, &name, help, kind);
            for port in totals.ports.iter().filter(|p| is_there(usize::from(p.id))) {
                let id = usize::from(port.id);
                let Some(counters) = totals.counters.ports.get(id) else { continue };
                let _ = writeln!(out, "{name}{{{}}} {}", label(id), value(port, counters));
            }
        }
    }
    out.push_str(
        "# HELP plexus_port_dropped_packets_total Packets dropped, by reason.\n\
         # TYPE plexus_port_dropped_packets_total counter\n",
    );
    for (id, counters) in totals.counters.ports.iter().enumerate().filter(|(id, _)| is_there(*id)) {
        for &reason in DropReason::ALL {
            let (port, name) = (label(id), reason.name());
            let count = counters.drops[reason as usize];
            let _ = writeln!(
                out,
                "plexus_port_dropped_packets_total{{{port},reason=\"{name}\"}} {count}"
            );
        }
    }
    out.push_str(
        "# HELP plexus_control_unserved_total Hosts' frames that a fabric node's control plane did \
         not serve, and messages that it refused, by reason.\n\
         # TYPE plexus_control_unserved_total counter\n",
    );
    for (reason, count) in node.unserved().unwrap_or_default() {
        let node = &file.name;
        let _ = writeln!(
            out,
            "plexus_control_unserved_total{{node=\"{node}\",reason=\"{reason}\"}} {count}"
        );
    }
    let _ = writeln!(
        out,
        "# HELP plexus_frames_free Free frames of the workers' pools.\n\
         # TYPE plexus_frames_free gauge"
    );
    for (worker, (free, _)) in totals.frames.iter().enumerate() {
        let _ = writeln!(
            out,
            "plexus_frames_free{{node=\"{}\",worker=\"{worker}\"}} {free}",
            file.name
        );
    }
    out
}
