//! The box's fast table: opening it, and the answer to `plexus show fast-table`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use plexus_api::answer::node::{FastFlow, FastHop, FastPort, FastRoute, FastTable as Shown};
use plexus_config::units::format_duration;
use plexus_config::{Backend, FastTable as Choice, NodeFile, PortFile};
use plexus_io::Port;
use plexus_io::fast::tcx::{self, Persist, Tcx};
use plexus_io::fast::xdp::Xdp;
use plexus_io::fast::{Action, Entrance, FastTable, Flow, KernelEnd, Key, Routed, Tag};
use plexus_plane::{Clears, FastReport};
use plexus_wire::MacAddr;

use super::ports::Share;
use super::running::RunningNode;
use crate::metrics::begin_family;

/// Rules of each worker: more flows than that rarely have many packets in a tenth of a second.
const RULES: usize = 4096;
/// Numbers of ports: those of the file, and as many as reloads may add.
const PORTS: usize = 4096;

/// A table's parts, one for each worker, or none.
pub(crate) struct Opened {
    pub(crate) parts: Vec<Box<dyn FastTable>>,
    pub(crate) clears: Clears,
    pub(crate) how: HowFast,
}

/// Which table a box has, for people.
#[derive(Clone, Debug)]
pub(crate) struct HowFast {
    pub(super) kind: &'static str,
    why: String,
    capacity: usize,
}

/// Opens the table that the file wants, for these ports.
///
/// # Errors
/// When it wants one that this machine, user or port does not have.
pub(crate) fn open(file: &NodeFile, shares: &[Share]) -> Result<Opened, String> {
    let none = |why: String| Opened {
        parts: vec![],
        clears: Arc::default(),
        how: HowFast { kind: "off", why, capacity: 0 },
    };
    match file.fast_table {
        Choice::Off => Ok(none("the file says so".into())),
        Choice::Auto => match tcx_parts(file) {
            Ok(parts) => {
                let why = "the kernel has it, and it keeps super-packets whole";
                Ok(opened("tcx", with_time(file, why), parts))
            }
            // The file asks for one that persists.
            Err(error) if file.fast_table_persist.is_some() => Err(refusal("tcx", "6.6", &error)),
            Err(error) => {
                tracing::info!(
                    %error,
                    "no fast table: tcx needs Linux 6.6, cap_bpf and cap_net_admin"
                );
                Ok(none(format!("tcx cannot be used: {error}")))
            }
        },
        Choice::Tcx => {
            let parts = tcx_parts(file).map_err(|error| refusal("tcx", "6.6", &error))?;
            Ok(opened("tcx", with_time(file, "the file says so"), parts))
        }
        Choice::Xdp => {
            let why = ports_of_xdp(file, shares)?;
            let parts = Xdp::parts(file.workers, RULES, PORTS);
            let parts = parts.map_err(|error| refusal("xdp", "6.3", &error))?;
            Ok(opened("xdp", why, parts))
        }
    }
}

/// Ends the tables that earlier nodes have left at the devices of ports. It comes before the ports
/// are opened: what both forwarded would arrive twice.
///
/// # Errors
/// When one cannot be ended.
pub(crate) fn end_earlier(ports: &[PortFile]) -> Result<(), String> {
    tcx::end_persisting(ports.iter().map(|port| port.device.as_str()))
        .map_err(|error| format!("the fast table of an earlier node cannot be ended: {error}"))
}

fn tcx_parts(file: &NodeFile) -> std::io::Result<Vec<Tcx>> {
    // Between the two programs of a packet such a kernel may run those of another.
    if is_realtime() {
        return Err(std::io::Error::other("this kernel is one of PREEMPT_RT"));
    }
    let persist = file.fast_table_persist.map(Persist::prepare).transpose()?;
    Tcx::parts(file.workers, RULES, PORTS, persist)
}

fn with_time(file: &NodeFile, why: &str) -> String {
    match file.fast_table_persist {
        None => why.into(),
        Some(time) => {
            format!("{why}; it goes on for {} without the node", format_duration(time))
        }
    }
}

fn is_realtime() -> bool {
    std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|s| s.trim() == "1")
}

fn refusal(kind: &str, release: &str, error: &std::io::Error) -> String {
    format!(
        "fast_table = \"{kind}\": {error}; it needs Linux {release}, cap_bpf and cap_net_admin, \
         or write fast_table = \"off\""
    )
}

fn opened<T: FastTable + 'static>(kind: &'static str, why: String, parts: Vec<T>) -> Opened {
    let others = if parts.len() > 1 { PORTS } else { 0 };
    let capacity = RULES * parts.len();
    Opened {
        parts: parts.into_iter().map(|part| Box::new(part) as _).collect(),
        clears: (0..others).map(|_| Default::default()).collect(),
        how: HowFast { kind, why, capacity },
    }
}

/// Why the table is at the XDP hook, with the ports that have no part in it.
///
/// # Errors
/// When that is all ports.
fn ports_of_xdp(file: &NodeFile, shares: &[Share]) -> Result<String, String> {
    let ports = shares.iter().flat_map(|share| &share.ports);
    let has_program = |port: &dyn Port| {
        matches!(port.kernel_end(), Some(KernelEnd { entrance: Entrance::Xdp(_), .. }))
    };
    let (with, without): (Vec<_>, Vec<_>) = ports.partition(|(_, port)| has_program(&**port));
    if with.is_empty() {
        return Err(
            "fast_table = \"xdp\": no port is on AF_XDP in its driver; write backend = \"af_xdp\" \
             for ports whose drivers have native XDP, or fast_table = \"tcx\""
                .into(),
        );
    }
    if without.is_empty() {
        return Ok("the file says so".into());
    }
    let names: Vec<&str> = without.iter().map(|(id, _)| file.port_name((*id).into())).collect();
    Ok(format!("the file says so; without {}: not on AF_XDP in the driver", names.join(", ")))
}

/// Answers `plexus show fast-table`.
///
/// # Errors
/// When a worker does not answer.
pub(crate) fn answer(node: &RunningNode) -> Result<Shown, String> {
    let HowFast { kind, why, capacity } = node.how_fast().clone();
    let totals = node.totals()?;
    let file = node.file();
    let name = |port: u16| file.port_name(port.into()).to_string();
    let reports = node.fast()?;
    let made = reports.iter().map(|report| report.made).sum();
    let gave_way = reports.iter().map(|report| report.gave_way).sum();
    let open = reports.iter().flat_map(|report| report.ports.iter().copied());
    let open: BTreeMap<u16, plexus_plane::FastPort> = open.map(|port| (port.id, port)).collect();
    let (mut flows, mut hops) = (vec![], vec![]);
    for rule in reports.into_iter().flat_map(|report| report.rules) {
        let (in_port, out_port) = (name(rule.key.in_port()), name(rule.action.out_port));
        let (forwards, packets, bytes) = (rule.forwards, rule.counts.packets, rule.counts.bytes);
        let (flow, route) = match &rule.key {
            Key::Flow(flow) => (flow, None),
            Key::Routed(key) => (&key.flow, route(key, &rule.action)),
            Key::Hop { .. } | Key::Delivery { .. } => {
                let (station, routed) = match rule.key {
                    Key::Delivery { destination, is_routed, .. } => (Some(destination), is_routed),
                    _ => (None, false),
                };
                hops.push(FastHop { in_port, out_port, station, routed, forwards, packets, bytes });
                continue;
            }
        };
        let Flow { source, destination, ethertype, .. } = *flow;
        let (vlan, tag) = (flow.tag.map(|tci| tci & 0x0FFF), word(&rule.action).into());
        flows.push(FastFlow {
            in_port,
            out_port,
            source,
            destination,
            ethertype,
            vlan,
            tag,
            route,
            forwards,
            packets,
            bytes,
        });
    }
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    let ports = totals.ports.iter().filter_map(|report| {
        let id = usize::from(report.id);
        let port = file.ports.get(id).filter(|port| !port.is_vacant())?;
        let counters = totals.counters.ports.get(id)?;
        Some(FastPort {
            name: port.name.clone(),
            forwards: open.contains_key(&report.id),
            sends: open.get(&report.id).is_some_and(|port| port.sends),
            takes_owed: open.get(&report.id).and_then(|port| port.takes_owed),
            rx_packets: report.stats.rx_packets,
            fast_packets: counters.fast_received,
        })
    });
    let ports = ports.collect();
    let (node, kind) = (file.name.clone(), kind.into());
    Ok(Shown { node, kind, why, capacity, made, gave_way, ports, flows, hops })
}

/// Whether a trace of a port can show samples of what the table forwards.
///
/// # Errors
/// Why not, and what to do, for a person.
pub(crate) fn can_sample(node: &RunningNode, port: usize) -> Result<(), String> {
    let HowFast { kind, why, .. } = node.how_fast();
    let file = node.file();
    let (name, advice) = (file.port_name(port), "a trace without a sample shows every frame");
    match *kind {
        "tcx" => {}
        "off" => return Err(format!("there is no fast table to sample ({why}): {advice}")),
        kind => {
            return Err(format!("only a fast table of tcx takes samples, not {kind}: {advice}"));
        }
    }
    let backend = node.how().get(port).map(|how| how.backend.clone()).unwrap_or_default();
    let has_faults = file.ports.get(port).is_some_and(|port| port.faults.is_some());
    if backend != Backend::AfPacket.to_string() || has_faults {
        let why = if has_faults { "it has faults" } else { &backend };
        return Err(format!("the fast table has no part in port {name} ({why}): {advice}"));
    }
    Ok(())
}

fn route(key: &Routed, action: &Action) -> Option<FastRoute> {
    let next_hop = match action.step {
        Some(step) => MacAddr(*step.addresses.first_chunk()?),
        None => key.flow.destination,
    };
    let ports = key.ports.map(|ports| (ports.source, ports.destination));
    let Routed { source, destination, is_from_node: from_node, .. } = *key;
    Some(FastRoute { source, destination, ports, next_hop, from_node })
}

fn word(action: &Action) -> &'static str {
    match action.tag {
        Tag::Keep if action.front.is_some() => "fabric",
        Tag::Keep => "keep",
        Tag::Pop => "pop",
        Tag::Push(_) => "push",
        Tag::Swap(_) => "swap",
    }
}

/// The fast table's metrics; nothing without one.
pub(crate) fn metrics(node: &RunningNode, out: &mut String) {
    if node.how_fast().kind == "off" {
        return;
    }
    let reports = node.fast().unwrap_or_default();
    let sum = |of: fn(&FastReport) -> u64| reports.iter().map(of).sum::<u64>();
    let HowFast { kind, capacity, .. } = node.how_fast();
    begin_family(out, "plexus_fast_table_info", "The fast table's kind", "gauge");
    let name = &node.file().name;
    let _ = writeln!(out, "plexus_fast_table_info{{node=\"{name}\",kind=\"{kind}\"}} 1");
    for (name, help, kind, value) in [
        ("capacity", "Rules that the fast table has room for", "gauge", *capacity as u64),
        ("rules", "Rules in the fast table", "gauge", sum(|report| report.rules.len() as u64)),
        ("rules_made_total", "Rules made", "counter", sum(|report| report.made)),
        (
            "swaps_total",
            "Rules that gave way to flows with more packets",
            "counter",
            sum(|report| report.gave_way),
        ),
    ] {
        let name = format!("plexus_fast_{name}");
        begin_family(out, &name, help, kind);
        let _ = writeln!(out, "{name}{{node=\"{}\"}} {value}", node.file().name);
    }
    let file = node.file();
    let name = "plexus_port_samples_missed_total";
    let help = "Samples of forwarded packets that were left out, since there were too many";
    begin_family(out, name, help, "counter");
    for port in reports.iter().flat_map(|report| &report.ports) {
        let (value, port) = (port.missed_samples, file.port_name(port.id.into()));
        let _ = writeln!(out, "{name}{{node=\"{}\",port=\"{port}\"}} {value}", file.name);
    }
}
