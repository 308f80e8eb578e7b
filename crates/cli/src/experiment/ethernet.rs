//! The Ethernet that a fabric's control messages are compared with: bridges with spanning tree
//! between the same hosts and over the same cables, which flood every question.

use std::collections::BTreeSet;
use std::time::Duration;

use plexus_sim::quiet_memory_estimate;
use plexus_topo::Topology;

use super::fabric_cost::{ARP_PER_S, Case, Fabric, Load, Network};
use crate::exit::Failure;

/// A broadcast question on a cable: the smallest frame, with its checksum.
const ARP_BITS: f64 = 64.0 * 8.0;
/// What bridges say of themselves comes every other second.
const HELLO_PERIOD: Duration = Duration::from_secs(2);
/// Questions that an Ethernet floods, by and large. Every one crosses every cable, so one would do
/// for the average; by so many the busiest direction is known to some percent.
pub(super) const FLOODED: u32 = 200;
/// The largest network that is run, in hosts: every question is at every host.
pub(super) const HOSTS_MAX: usize = 5_000;
/// Memory of the frames that a flood has under way at a time, in bytes, at most.
const FLOOD_FRAMES: u64 = 600 << 20;
/// Room in each of its bridges: for who asks and who answers.
const STATIONS: usize = 1_024;

/// What a run of an Ethernet found, at the rate of [`ARP_PER_S`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Flood {
    /// Questions flooded.
    pub(super) asked: u64,
    /// On the average link between bridges, both directions together, in Mbit/s.
    pub(super) average: f64,
    /// Of the busiest direction of one.
    pub(super) most: f64,
}

/// Lets a spanning tree grow, and has so many hosts ask that some [`FLOODED`] questions come of it:
/// as densely as if all asked, for a shorter time. `None`: the tree has not settled, as on rings of
/// a hundred bridges. A port speaks once a second (802.1D-1998, hold time), so a word waits up to
/// a second at each bridge while much changes, and one of 20 s is too old: the timers are for seven
/// bridges in a row.
pub(super) fn flood(
    case: &Case,
    seed: u64,
    mut say: impl FnMut(&str),
) -> Result<Option<Flood>, Failure> {
    say("building an Ethernet");
    let network = Network::SpanningTree { stations: STATIONS };
    let mut fabric = Fabric::of(case, seed, network)?;
    let is_settled = fabric.sim.settle(|sim| {
        say(&format!("{:.2} s: a tree grows", sim.work().time.as_secs_f64()));
        true
    });
    let roots: BTreeSet<_> = fabric.sim.spanning_trees().map(|(_, b)| b.root().0).collect();
    if !is_settled || roots.len() != 1 {
        return Ok(None);
    }
    let once = 1.0 / ARP_PER_S;
    let asks = Duration::from_secs_f64(once.min(f64::from(FLOODED) * once / case.hosts as f64));
    let load = fabric.ask(case.hosts, asks, HELLO_PERIOD, say)?;
    // An Ethernet has no controller.
    let directions = 2 * fabric.links.len();
    let Load { asked, arp, .. } = load;
    let average = 2.0 * arp[..directions].iter().sum::<f64>() / directions.max(1) as f64;
    let most = arp[..directions].iter().copied().fold(0.0, f64::max);
    Ok(Some(Flood { asked, average, most }))
}

/// Memory that it takes for the nodes, hosts and cables of a topology, in bytes.
pub(super) fn memory(topology: &Topology) -> u64 {
    quiet_memory_estimate(&topology.as_spanning_tree(), STATIONS) + FLOOD_FRAMES
}

/// The paper's bound: what [`ARP_PER_S`] questions of each host cost every link that each crosses
/// once, in Mbit/s.
pub(super) fn bound(hosts: usize) -> f64 {
    hosts as f64 * ARP_PER_S * ARP_BITS / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::fabric_cost::torus;
    use super::*;

    #[test]
    fn a_flooded_question_is_on_every_link_between_bridges() {
        let case = Case { name: "torus", shape: torus(20), hosts: 60 };
        let flood = flood(&case, 1, |_| ()).unwrap().unwrap();
        let bound = bound(case.hosts);
        // Once each, and its answer on few; away from where most hosts are nearly all go one way.
        assert!((40..=60).contains(&flood.asked), "{flood:?}");
        assert!((1.0..1.5).contains(&(flood.average / bound)), "{bound}: {flood:?}");
        assert!(flood.most > 0.8 * bound && flood.most < 2.0 * flood.average, "{bound}: {flood:?}");
    }
}
