//! What a frame costs from one port to the next: a simulation of each file, timed.
//!
//! `cargo run --release -p plexus-sim --example hop_cost FILE.toml...` prints nanoseconds per hop
//! and per event, and the run's digest, by which two builds can be compared. Under callgrind,
//! `--toggle-collect='*measured*'` leaves out how the network finds itself.

use std::time::Instant;

use plexus_sim::Sim;
use plexus_topo::Topology;

/// The topology's traffic, and nothing else.
#[inline(never)]
fn measured(sim: &mut Sim) {
    sim.run(|_| true);
}

fn main() {
    for file in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&file).expect("a file that can be read");
        let topology = Topology::parse(&file, &text).expect("a topology");
        let mut sim = Sim::new(&topology, 1).expect("a network that can be simulated");
        assert!(sim.settle(|_| true), "the network has not found itself");
        let (before, begun) = (sim.work(), Instant::now());
        measured(&mut sim);
        let ns = begun.elapsed().as_nanos() as f64;
        let work = sim.work();
        let (hops, events) = (work.hops - before.hops, work.events - before.events);
        println!(
            "{file}: {hops} hops, {:.1} ns each; {events} events, {:.1} ns each; {:016x}",
            ns / hops as f64,
            ns / events as f64,
            work.digest
        );
    }
}
