//! The Ethernet that a fabric's control messages are compared with: bridges with spanning tree
//! between the same hosts and over the same cables, which flood every question.

use std::collections::BTreeSet;
use std::time::Duration;

use plexus_report::Failure;
use plexus_sim::quiet_memory_estimate;
use plexus_topo::Topology;

use super::fabric_cost::{ARP_PER_S, Case, Fabric, Load, Network};

/// A broadcast question on a cable: the smallest frame, with its checksum.
const ARP_BITS: f64 = 64.0 * 8.0;
/// What bridges say of themselves comes every other second.
const HELLO_PERIOD: Duration = Duration::from_secs(2);
/// Questions that an Ethernet floods, by and large, and of very many hosts. Every one crosses every
/// cable, so one would do for the average; by 200 the busiest direction is known to some percent.
pub(super) const FLOODED: [u32; 2] = [200, 20];
/// So many hosts are very many: every question is at every host.
pub(super) const HOSTS_MANY: usize = 10_000;
/// Hosts ask for so long at least: a question has a copy on every cable, and is to have gone by
/// before the next.
const ASKS: Duration = Duration::from_millis(20);
/// Hellos for which a tree must stand: on long rings one may look settled between two waves.
const STANDS: u32 = 5;
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

/// Lets a spanning tree grow, and has so many hosts ask that [some](FLOODED) questions come of it:
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
    if !is_settled {
        return Ok(None);
    }
    for _ in 0..STANDS {
        fabric.run_for(HELLO_PERIOD);
        let roots: BTreeSet<_> = fabric.sim.spanning_trees().map(|(_, b)| b.root().0).collect();
        if roots.len() != 1 || !fabric.sim.spanning_trees().all(|(_, b)| b.is_settled()) {
            return Ok(None);
        }
    }
    let flooded = f64::from(FLOODED[usize::from(case.hosts > HOSTS_MANY)]);
    // Each of few hosts asks once.
    let each = (flooded / case.hosts as f64).min(1.0);
    let asks = ASKS.max(Duration::from_secs_f64(each / ARP_PER_S));
    let load = fabric.ask(case.hosts, each / asks.as_secs_f64(), asks, HELLO_PERIOD, say)?;
    let missed = fabric.sim.frames_missed();
    if missed > 0 {
        return Err(Failure::No(format!("an Ethernet of {}: {missed} frames missed", case.hosts)));
    }
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
        let case = Case { name: "torus", shape: torus(20), hosts: 60, controllers: 1 };
        let flood = flood(&case, 1, |_| ()).unwrap().unwrap();
        let bound = bound(case.hosts);
        assert!((40..=60).contains(&flood.asked), "{flood:?}");
        // Once each, by one of the 40 directions of each link; and an answer's way has, of the 19
        // links of the tree, no more than 10, which are 0.25 of all.
        let links = flood.average / bound;
        assert!((1.0..1.25).contains(&links), "{bound}: {flood:?}");
        // No direction has a question twice. One that leads away from all hosts has each of them.
        assert!(flood.most > 0.95 * bound && flood.most < 1.25 * bound, "{bound}: {flood:?}");
    }
}
