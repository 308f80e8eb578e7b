//! Simulations from their start to their end.

use plexus_report::RunReport;
use plexus_sim::Sim;
use plexus_topo::Topology;

/// A simulation whose devices have found each other.
#[track_caller]
pub(crate) fn settled(topology: &Topology, seed: u64) -> Sim {
    let mut sim = Sim::new(topology, seed).unwrap();
    settle(&mut sim);
    sim
}

#[track_caller]
pub(crate) fn settle(sim: &mut Sim) {
    assert!(sim.settle(|_| true), "unsettled: {:?}", sim.unsettled());
}

/// The same after all that it sends was sent.
#[track_caller]
pub(crate) fn ran(topology: &Topology, seed: u64) -> Sim {
    let mut sim = settled(topology, seed);
    sim.run(|_| true);
    sim
}

/// The findings of a run.
#[track_caller]
pub(crate) fn report(topology: &Topology) -> RunReport {
    ran(topology, 1).report()
}
