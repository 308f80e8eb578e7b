//! A node's answers to `plexus show`.

use std::collections::BTreeMap;

use plexus_api::answer::node::{
    self, Account, Counts, Drops, Frames, LinkState, Macs, Ports, Station, Tunnel, Vlan,
};
use plexus_api::question::Of;
use plexus_api::{Answer, Topic};
use plexus_config::{PortFile, VlanMode};
use plexus_io::{Link, PortStats};
use plexus_plane::{DropReason, PortCounters};

use super::running::{RunningNode, Totals};
use super::{buffers, fabric, fast_table, flows};

/// Answers a question of `plexus show`.
///
/// # Errors
/// When the node has no such thing, or a thread does not answer.
pub(crate) fn answer(node: &RunningNode, topic: Topic) -> Result<Answer, String> {
    let name = node.file().name.clone();
    Ok(match topic {
        Topic::Ports => Answer::Ports(ports(node)?),
        Topic::Macs => Answer::Macs(macs(node)?),
        Topic::Drops => Answer::Drops(Of::Node(drops(node)?)),
        Topic::Node => Answer::Node(about(node)?),
        Topic::FastTable => Answer::FastTable(fast_table::answer(node)?),
        Topic::Buffers => Answer::Buffers(buffers::buffers(node)?),
        Topic::Suspects => Answer::Suspects(buffers::suspects(node)?),
        Topic::Links => Answer::Links(Of::Node(node.ask_fabric(fabric::Driver::links)?)),
        Topic::Hosts => Answer::Hosts(Of::Node(node.ask_fabric(fabric::Driver::stations)?)),
        Topic::Groups => Answer::Groups(Of::Node(node.ask_fabric(fabric::Driver::joined)?)),
        Topic::SourceRoutes => {
            Answer::SourceRoutes(node.ask_fabric(fabric::Driver::source_routes)?)
        }
        Topic::Router => Answer::Router(Of::Node(node.ask_fabric(fabric::Driver::router_copy)?)),
        Topic::Fib => Answer::Fib(node.ask_router(|asked| asked.fib())?),
        Topic::Neighbours => Answer::Neighbours(node.ask_router(|asked| asked.neighbours())?),
        Topic::Faces => Answer::Faces(node.ask_named(|named| named.show_faces(name))?),
        Topic::Names => Answer::Names(node.ask_named(|named| named.show_names(name))?),
        Topic::Cache => Answer::Cache(node.ask_named(|named| named.show_cache(name))?),
        Topic::Flows => Answer::Flows(Of::Node(flows::answer(node)?)),
        Topic::Topology | Topic::Leases | Topic::Controllers => {
            let what = topic.name();
            return Err(format!("a controller knows {what}, a node does not: name a controller"));
        }
    })
}

fn about(node: &RunningNode) -> Result<node::State, String> {
    let totals = node.totals()?;
    Ok(node::State {
        node: node.file().name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        uptime_s: node.uptime().as_secs_f64(),
        workers: node.file().workers,
        frames: totals.frames.iter().map(|&(free, all)| Frames { free, all }).collect(),
        balances: totals.account.balances(),
    })
}

fn ports(node: &RunningNode) -> Result<Ports, String> {
    let totals = node.totals()?;
    let file = node.file();
    let owners = super::ports::owners(&file);
    let hows = node.how();
    let ports = totals.ports.iter().filter_map(|report| {
        let id = usize::from(report.id);
        let (port, how) = (file.ports.get(id).filter(|p| !p.is_vacant())?, hows.get(id)?);
        let (stats, counters) = (&report.stats, totals.counters.ports.get(id)?);
        Some(node::Port {
            name: port.name.clone(),
            device: port.tunnel.is_none().then(|| port.device.clone()),
            tunnel: port.tunnel.map(|t| Tunnel { local: t.local, peer: t.peer }),
            backend: how.backend.clone(),
            how: how.detail.clone(),
            worker: owners[id],
            link: if report.link == Link::Up { LinkState::Up } else { LinkState::Down },
            link_downs: stats.link_downs,
            vlan: match &port.settings.vlan {
                VlanMode::Access(vlan) => Vlan::Access { access: *vlan },
                VlanMode::Trunk { allowed, native } => {
                    Vlan::Trunk { trunk: allowed.clone(), native: *native }
                }
            },
            rate_bits_per_s: port.settings.rate_bits_per_s,
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            rx_overflow: stats.rx_overflow,
            rx_invalid: stats.rx_invalid,
            rx_foreign: stats.rx_foreign,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            tx_rejected: stats.tx_rejected,
            tx_refused: stats.tx_refused,
            queued_packets: report.queued.0 as u64,
            queued_bytes: report.queued.1 as u64,
            routed: counters.routed,
            dropped: counters.dropped(),
            ecn_marked: counters.ecn_marked,
            learned: counters.learned,
            moved: counters.moved,
            table_full: counters.table_full,
        })
    });
    Ok(Ports { node: file.name.clone(), ports: ports.collect() })
}

fn macs(node: &RunningNode) -> Result<Macs, String> {
    let file = node.file();
    let stations = node.stations()?;
    let macs = stations.iter().filter_map(|(key, station, age_ns)| {
        Some(Station {
            mac: key.mac(),
            vlan: key.vlan(),
            port: file.ports.get(usize::from(station.port()))?.name.clone(),
            is_static: station.is_static(),
            age_s: *age_ns as f64 / 1e9,
        })
    });
    let (node, capacity) = (file.name.clone(), file.switch.mac_table);
    Ok(Macs { node, capacity, macs: macs.collect() })
}

/// A count of packets that the pipeline never had, or that a device would not send.
struct Loss {
    name: &'static str,
    meaning: &'static str,
    count: fn(&PortStats) -> u64,
}

const LOSSES: [Loss; 5] = [
    Loss {
        name: "rx_overflow",
        meaning: "Lost before the node saw it: the device's queue or the pool was full.",
        count: |s| s.rx_overflow,
    },
    Loss {
        name: "rx_invalid",
        meaning: "Arrived, but longer than a frame of the pool, or damaged.",
        count: |s| s.rx_invalid,
    },
    Loss {
        name: "rx_foreign",
        meaning: "Came to a tunnel, and not from its other end.",
        count: |s| s.rx_foreign,
    },
    Loss {
        name: "tx_rejected",
        meaning: "The device can never send it.",
        count: |s| s.tx_rejected,
    },
    Loss {
        name: "tx_refused",
        meaning: "Sent through a tunnel, and the network answered that it cannot deliver it.",
        count: |s| s.tx_refused,
    },
];

/// The packets that a node has dropped, by reason.
pub(super) fn drops_by_reason(totals: &Totals) -> Counts {
    by_reason(&all_ports(totals))
}

fn all_ports(totals: &Totals) -> PortCounters {
    let mut all = PortCounters::default();
    totals.counters.ports.iter().for_each(|p| all.add(p));
    all
}

fn drops(node: &RunningNode) -> Result<Drops, String> {
    let totals = node.totals()?;
    let all = all_ports(&totals);
    let file = node.file();
    let ports = file.ports.iter().zip(&totals.counters.ports).enumerate();
    let ports = ports.map(|(id, (port, counters))| (name_of(id, port), by_reason(counters)));
    let losses = totals.ports.iter().filter_map(|report| {
        let id = usize::from(report.id);
        let counted = LOSSES.iter().map(|l| (l.name.to_string(), (l.count)(&report.stats)));
        Some((name_of(id, file.ports.get(id)?), counted.filter(|(_, n)| *n > 0).collect()))
    });
    let explained = LOSSES.iter().map(|l| (l.name.to_string(), l.meaning.to_string()));
    let met = DropReason::ALL.iter().filter(|&&r| all.drops[r as usize] > 0);
    let meaning = met.map(|r| (r.name().to_string(), r.explain().trim().to_string()));
    let a = &totals.account;
    Ok(Drops {
        node: file.name.clone(),
        account: Account {
            received: a.received,
            copied: a.copied,
            injected: a.injected,
            sent: a.sent,
            rejected: a.rejected,
            dropped: a.dropped,
            lost: a.lost,
            consumed: a.consumed,
            held: a.held,
            balances: a.balances(),
        },
        drops: by_reason(&all),
        ports: ports.collect(),
        losses: losses.collect::<BTreeMap<String, Counts>>(),
        meaning: meaning.chain(explained).collect(),
        unserved: node.unserved().unwrap_or_default(),
    })
}

/// A port's name; what one has counted that a reload removed stays in the account.
fn name_of(id: usize, port: &PortFile) -> String {
    if port.is_vacant() { format!("(removed {id})") } else { port.name.clone() }
}

fn by_reason(counters: &PortCounters) -> Counts {
    let counted = DropReason::ALL.iter().filter(|&&r| counters.drops[r as usize] > 0);
    counted.map(|&r| (r.name().to_string(), counters.drops[r as usize])).collect()
}
