//! How much memory a simulation takes, told before it is built.
//!
//! The figures are differences of resident memory between runs that differ in one thing (x86-64,
//! equal in dev and release builds). They include frames under way, so they are no sizes of
//! structures. A test compares them with real runs.

use plexus_ndn_apps::consume::PENDING_MAX;
use plexus_topo::{AskingPace, Extent, Flow, Proto, Topology};

/// The program, and a simulation of nothing.
const BASE: u64 = 16 << 20;
/// A node or bridge without its ports.
const NODE: u64 = 46 << 10;
/// A station that a switch has room for. A node of a fabric keeps routes by port instead.
const STATION: u64 = 62;
/// A port of a switch, and of a node of a fabric: its queues and what is known of its link.
const PORT: u64 = 8 << 10;
const FABRIC_PORT: u64 = 11 << 10;
/// A host, and what the controller knows of it.
const HOST: u64 = 2 << 10;
/// A flow, with a frame on its way.
const FLOW: u64 = 4 << 10;
/// A forwarder of named data, and tables for so much of its cache.
const NAMED: u64 = 4600 << 10;
const CACHED: [u64; 2] = [177, 1024];
/// Data beside its content: name, and what is left of a piece of memory.
const AROUND_DATA: u64 = 300;
/// An Interest on its way: its name, twice, and when it was sent.
const PENDING: u64 = 200;
/// The latencies of one that is metered packet by packet, once they are many.
const LATENCIES: u64 = 40 << 10;
const MANY: u64 = 128;

/// The approximate memory of a topology's simulation in bytes. Where queues fill, frames take up to
/// 0.6 GiB more.
pub fn memory_estimate(topology: &Topology) -> u64 {
    with_stations(topology, bridge_stations(topology))
}

/// The same of [`Sim::quiet`](crate::Sim::quiet), with so many stations for each bridge.
pub fn quiet_memory_estimate(topology: &Topology, stations: usize) -> u64 {
    with_stations(topology, stations)
}

fn with_stations(topology: &Topology, stations: usize) -> u64 {
    let is_fabric = !topology.controllers.is_empty();
    let cables: usize = topology.links.iter().map(|l| l.cables.len()).sum();
    let switches = match is_fabric {
        true => &[],
        false => &topology.nodes[..],
    };
    let bridges = topology.bridges.len() as u64 * stations as u64;
    let stations = switches.iter().map(|n| n.switch.mac_table as u64).sum::<u64>() + bridges;
    let devices = (topology.nodes.len() + topology.bridges.len()) as u64;
    let port = if is_fabric { FABRIC_PORT } else { PORT };
    let named = topology.nodes.iter().filter_map(|n| n.named.as_ref());
    let data = topology.traffic.iter().map(data_of).fold(0, u64::saturating_add);
    let named = named.map(|n| {
        let tables = n.cache / CACHED[1] * CACHED[0];
        NAMED.saturating_add(tables).saturating_add(n.cache.min(data))
    });
    let rest = BASE
        + devices * NODE
        + stations.saturating_mul(STATION)
        + 2 * cables as u64 * port
        + topology.hosts.len() as u64 * HOST
        + topology.traffic.len() as u64 * FLOW
        + topology.traffic.iter().filter(|f| has_many(f)).count() as u64 * LATENCIES;
    let pending = topology.traffic.iter().map(pending_of).fold(0, u64::saturating_add);
    let rest = rest.saturating_add(pending.saturating_mul(PENDING));
    named.fold(rest, u64::saturating_add)
}

/// Bytes of Data that a flow can bring into a cache.
fn data_of(flow: &Flow) -> u64 {
    let Some(catalogue) = &flow.catalogue else { return 0 };
    let asked = match flow.extent {
        Extent::Packets(count) => count.into(),
        _ => u64::MAX,
    };
    let names = asked.min(catalogue.items.saturating_mul(catalogue.chunks));
    names.saturating_mul(u64::from(flow.size) + AROUND_DATA)
}

/// Interests that a flow can have on their way at once.
fn pending_of(flow: &Flow) -> u64 {
    let Some(catalogue) = &flow.catalogue else { return 0 };
    let paced = match catalogue.pace {
        AskingPace::Window(window) => u64::from(window),
        AskingPace::Rate(rate) => {
            let seconds = match flow.extent {
                Extent::Duration(time) => catalogue.lifetime.min(time),
                _ => catalogue.lifetime,
            };
            // What is too much for a number is the largest.
            ((rate * seconds.as_secs_f64()).ceil() as u64).min(PENDING_MAX as u64)
        }
    };
    let asked = match flow.extent {
        Extent::Packets(count) => count.into(),
        _ => u64::MAX,
    };
    paced.min(asked).min(catalogue.items.saturating_mul(catalogue.chunks))
}

/// Stations that a bridge has room for: as a switch without settings of its own, but no more than
/// there can be.
pub(crate) fn bridge_stations(topology: &Topology) -> usize {
    let usual = plexus_config::SwitchSettings::default().mac_table;
    usual.min(2 * topology.hosts.len().max(64))
}

/// Whether a flow has latencies of many packets.
fn has_many(flow: &Flow) -> bool {
    let rate = u128::from(flow.rate_bits_per_s.unwrap_or(u64::MAX));
    let packets = match flow.extent {
        Extent::Packets(count) => u64::from(count),
        Extent::Bytes(bytes) => bytes / u64::from(flow.size.max(1)),
        Extent::Duration(time) => {
            let bytes = rate.saturating_mul(time.as_nanos()) / 8_000_000_000;
            u64::try_from(bytes).unwrap_or(u64::MAX) / u64::from(flow.size.max(1))
        }
    };
    flow.proto != Proto::Tcp && packets > MANY
}
