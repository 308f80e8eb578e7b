//! A simulation from its start to its report.

use plexus_lab::RunReport;
use plexus_report::Failure;
use plexus_sim::Sim;
use plexus_topo::Topology;

/// Lets a network find itself.
pub(super) fn settle(sim: &mut Sim) -> Result<(), Failure> {
    match sim.settle(|_| true) {
        true => Ok(()),
        false => Err(Failure::No(format!("not settled: {}", sim.unsettled().join(", ")))),
    }
}

/// Runs a network and its traffic to the end. Every packet is accounted for.
pub(super) fn run(topology: &Topology, seed: u64) -> Result<RunReport, Failure> {
    finish(Sim::new(topology, seed).map_err(Failure::unusable)?)
}

/// The same of a simulator that is made already.
pub(super) fn finish(mut sim: Sim) -> Result<RunReport, Failure> {
    settle(&mut sim)?;
    sim.run(|_| true);
    let report = sim.report();
    match report.accounts.values().all(|a| a.balances()) {
        true => Ok(report),
        false => Err(Failure::No(report.to_string())),
    }
}
