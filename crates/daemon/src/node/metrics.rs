//! What a node tells Prometheus.

use std::fmt::Write as _;

use plexus_io::Link;
use plexus_plane::{DropReason, PortCounters, PortReport};

use super::boxed::{Node, Totals};

/// The node's metrics; or why there are none.
pub(crate) fn text(node: &Node) -> Result<String, String> {
    Ok(families(node, &node.totals()?))
}

/// A family of counters with one value per port.
struct Family {
    name: &'static str,
    help: &'static str,
    value: fn(&PortReport, &PortCounters) -> u64,
}

const COUNTERS: &[Family] = &[
    Family {
        name: "plexus_port_receive_packets_total",
        help: "Packets received",
        value: |p, _| p.stats.rx_packets,
    },
    Family {
        name: "plexus_port_receive_bytes_total",
        help: "Bytes received",
        value: |p, _| p.stats.rx_bytes,
    },
    Family {
        name: "plexus_port_receive_overflow_total",
        help: "Packets lost before the node saw them, its queue being full",
        value: |p, _| p.stats.rx_overflow,
    },
    Family {
        name: "plexus_port_receive_invalid_total",
        help: "Packets received that could not be used",
        value: |p, _| p.stats.rx_invalid,
    },
    Family {
        name: "plexus_port_receive_foreign_total",
        help: "Datagrams that came to a tunnel, and not from its other end",
        value: |p, _| p.stats.rx_foreign,
    },
    Family {
        name: "plexus_port_transmit_packets_total",
        help: "Packets sent",
        value: |p, _| p.stats.tx_packets,
    },
    Family {
        name: "plexus_port_transmit_bytes_total",
        help: "Bytes sent",
        value: |p, _| p.stats.tx_bytes,
    },
    Family {
        name: "plexus_port_transmit_rejected_total",
        help: "Packets that the device could never send",
        value: |p, _| p.stats.tx_rejected,
    },
    Family {
        name: "plexus_port_transmit_refused_total",
        help: "How often the network answered that it cannot deliver what a tunnel sent",
        value: |p, _| p.stats.tx_refused,
    },
    Family {
        name: "plexus_port_copies_total",
        help: "Packets made of ones that entered here: flooded, or cut into segments",
        value: |_, c| c.copies,
    },
    Family {
        name: "plexus_port_consumed_total",
        help: "Packets that entered here and ended in the node's control plane",
        value: |_, c| c.consumed,
    },
    Family {
        name: "plexus_port_injected_total",
        help: "Packets of the node's control plane that were sent to this port",
        value: |_, c| c.injected,
    },
    Family {
        name: "plexus_port_ecn_marked_total",
        help: "Packets marked congestion experienced",
        value: |_, c| c.ecn_marked,
    },
    Family {
        name: "plexus_port_macs_learned_total",
        help: "Stations learned",
        value: |_, c| c.learned,
    },
    Family {
        name: "plexus_port_macs_moved_total",
        help: "Stations that moved here from another port",
        value: |_, c| c.moved,
    },
    Family {
        name: "plexus_port_table_full_total",
        help: "Stations not learned because the table was full",
        value: |_, c| c.table_full,
    },
    Family {
        name: "plexus_port_link_downs_total",
        help: "How often the link went down",
        value: |p, _| p.stats.link_downs,
    },
];

const GAUGES: &[Family] = &[
    Family {
        name: "plexus_port_up",
        help: "1 if the link is up",
        value: |p, _| u64::from(p.link == Link::Up),
    },
    Family {
        name: "plexus_port_queued_packets",
        help: "Packets waiting to be sent",
        value: |p, _| p.queued.0 as u64,
    },
    Family {
        name: "plexus_port_queued_bytes",
        help: "Bytes waiting to be sent",
        value: |p, _| p.queued.1 as u64,
    },
];

fn families(node: &Node, totals: &Totals) -> String {
    let file = node.file();
    let label = |id: usize| {
        let port = file.ports.get(id).map_or("?", |p| p.name.as_str());
        format!("node=\"{}\",port=\"{port}\"", file.name)
    };
    let is_there = |id: usize| file.ports.get(id).is_some_and(|p| !p.is_vacant());
    let mut out = String::new();
    for (families, kind) in [(COUNTERS, "counter"), (GAUGES, "gauge")] {
        for Family { name, help, value } in families {
            let _ = writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}");
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
        "# HELP plexus_frames_free Frames of the workers' pools that nobody holds.\n\
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
