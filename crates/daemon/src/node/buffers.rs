//! The node's deep buffers, for `plexus show buffers` and `suspects`, and for Prometheus.

use std::fmt::Write as _;

use plexus_api::answer::node::{BufferPort, Buffers, Suspect, SuspectSource, Suspects};
use plexus_config::NodeFile;
use plexus_io::PortId;
use plexus_plane::{DeepReport, SourceOf};

use super::running::RunningNode;
use crate::metrics::begin_family;

/// The deep buffers of the workers that have one.
fn reports(node: &RunningNode) -> Result<Vec<DeepReport>, String> {
    Ok(node.deep()?.into_iter().flatten().collect())
}

fn buffers_of(file: &NodeFile, reports: &[DeepReport]) -> Buffers {
    let ports = reports.iter().flat_map(|report| &report.ports);
    let ports = ports.map(|(port, state, counts)| BufferPort {
        name: file.port_name((*port).into()).into(),
        own_packets: state.own.0,
        long_packets: state.own.1,
        deep_packets: state.deep.0,
        deep_bytes: state.deep.1,
        deep_bytes_max: counts.bytes_max,
        shaped_packets: state.shaped.0,
        redirects: state.redirects,
        redirections: counts.redirections,
        redirected: counts.redirected,
        drops_avoided: counts.saved,
        delay_mean_us: counts.delay_ns as f64 / counts.delayed.max(1) as f64 / 1e3,
        delay_max_us: counts.delay_max_ns as f64 / 1e3,
    });
    Buffers {
        node: file.name.clone(),
        budget: file.switch.deep_buffer.bytes * reports.len() as u64,
        used: reports.iter().map(|report| report.used).sum(),
        long_flows: reports.iter().map(|report| report.long_flows).sum(),
        ports: ports.collect(),
    }
}

/// Answers `plexus show buffers`.
///
/// # Errors
/// When no port has a deep queue, or a worker does not answer.
pub(crate) fn buffers(node: &RunningNode) -> Result<Buffers, String> {
    let reports = reports(node)?;
    if reports.is_empty() {
        return Err("no port of this node has a deep queue: write queue = \"deep\" for one".into());
    }
    Ok(buffers_of(&node.file(), &reports))
}

/// Answers `plexus show suspects`.
///
/// # Errors
/// When nobody looks for suspects, or a worker does not answer.
pub(crate) fn suspects(node: &RunningNode) -> Result<Suspects, String> {
    let file = node.file();
    let reports = reports(node)?;
    let treatment = file.switch.deep_buffer.suspects;
    if reports.is_empty() || treatment == plexus_config::Suspects::Off {
        return Err("this node looks for no suspects: give a port queue = \"deep\", and write \
                    deep_buffer = { suspects = \"show\" } or \"shape\""
            .into());
    }
    let source = |from: &SourceOf| SuspectSource {
        port: file.port_name(from.port.into()).into(),
        address: from.address.to_string(),
    };
    let suspects = reports.iter().flat_map(|report| {
        report.suspects.iter().filter_map(|suspect| {
            Some(Suspect {
                from: source(suspect.from.as_ref()?),
                to: file.port_name(suspect.port).into(),
                since_s: report.now.since(suspect.since).as_secs_f64(),
                bytes: suspect.bytes,
                bursts: suspect.bursts,
            })
        })
    });
    Ok(Suspects {
        node: file.name.clone(),
        treatment: treatment.name().into(),
        suspects: suspects.collect(),
        found: reports.iter().map(|report| report.found).sum(),
        history: reports.iter().flat_map(|report| report.history.iter().map(source)).collect(),
    })
}

/// A family of figures with one value per port: name, help, type, value.
type Family = (&'static str, &'static str, &'static str, fn(&BufferPort) -> String);

const FAMILIES: &[Family] = &[
    ("deep_packets", "Packets in the deep buffer", "gauge", |p| p.deep_packets.to_string()),
    ("deep_bytes", "Bytes in the deep buffer", "gauge", |p| p.deep_bytes.to_string()),
    ("redirected_packets_total", "Packets sent to the deep buffer", "counter", |p| {
        p.redirected.to_string()
    }),
    (
        "drops_avoided_total",
        "Packets in the deep buffer that the port's own queue had no room for",
        "counter",
        |p| p.drops_avoided.to_string(),
    ),
    ("deep_delay_mean_seconds", "The mean time of packets in the deep buffer", "gauge", {
        |p| (p.delay_mean_us / 1e6).to_string()
    }),
    ("deep_delay_max_seconds", "The longest time that a packet was in the deep buffer", "gauge", {
        |p| (p.delay_max_us / 1e6).to_string()
    }),
];

/// The deep buffers' metrics; nothing if there are none.
pub(crate) fn metrics(node: &RunningNode, out: &mut String) {
    let reports = reports(node).unwrap_or_default();
    if reports.is_empty() {
        return;
    }
    let file = node.file();
    let Buffers { node, budget, used, long_flows, ports } = buffers_of(&file, &reports);
    for (name, help, kind, value) in FAMILIES {
        let name = format!("plexus_port_{name}");
        begin_family(out, &name, help, kind);
        for port in &ports {
            let _ =
                writeln!(out, "{name}{{node=\"{node}\",port=\"{}\"}} {}", port.name, value(port));
        }
    }
    let shaped = reports.iter().flat_map(|report| &report.ports).map(|(port, state, counts)| {
        (port, [state.shaped.0.into(), state.shaped.1, counts.shaped])
    });
    let shaped: Vec<(&PortId, [u64; 3])> = shaped.collect();
    for (at, (name, help, kind)) in [
        ("shaped_queued_packets", "Packets of shaped sources waiting to be sent", "gauge"),
        ("shaped_queued_bytes", "Bytes of shaped sources waiting to be sent", "gauge"),
        ("shaped_packets_total", "Packets of shaped sources", "counter"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("plexus_port_{name}");
        begin_family(out, &name, help, kind);
        for (port, values) in &shaped {
            let port = file.port_name((**port).into());
            let _ = writeln!(out, "{name}{{node=\"{node}\",port=\"{port}\"}} {}", values[at]);
        }
    }
    let suspects: usize = reports.iter().map(|report| report.suspects.len()).sum();
    let found = reports.iter().map(|report| report.found).sum();
    for (name, help, kind, value) in [
        ("deep_budget_bytes", "Bytes that may be in the deep buffers", "gauge", budget),
        ("deep_used_bytes", "Bytes in the deep buffers of all ports", "gauge", used),
        ("long_flows", "Flows that bypass the deep buffer", "gauge", long_flows as u64),
        ("suspects", "Sources of low-rate bursts", "gauge", suspects as u64),
        ("suspects_found_total", "Sources of low-rate bursts that were found", "counter", found),
    ] {
        let name = format!("plexus_{name}");
        begin_family(out, &name, help, kind);
        let _ = writeln!(out, "{name}{{node=\"{node}\"}} {value}");
    }
}
