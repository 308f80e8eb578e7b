//! Labs that the simulator can run, less their IPv6 flows: what holds there holds here.

use std::path::Path;

use plexus_sim::{Sim, Work};
use plexus_topo::Topology;

fn lab(name: &str) -> Topology {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name);
    let mut topology = Topology::read(&path).unwrap();
    topology.keep_flows(|f| f.to_address.is_ipv4());
    topology
}

fn run(topology: &Topology, seed: u64) -> (plexus_report::RunReport, Work) {
    let mut sim = Sim::new(topology, seed).unwrap();
    assert!(sim.settle(|_| true), "{}: {:?}", topology.name, sim.unsettled());
    sim.run(|_| true);
    let work = sim.work();
    (sim.report(), work)
}

#[test]
fn what_labs_assert_holds_in_the_simulator() {
    let names = [
        "switch.toml",
        "line.toml",
        "ring.toml",
        "torus-3x3.toml",
        "butterfly-16.toml",
        "failover.toml",
        "first-packet.toml",
        "bridge-behind.toml",
        "switch-between.toml",
        "native.toml",
        "demo-fabric.toml",
    ];
    for name in names {
        let topology = lab(name);
        let (report, work) = run(&topology, 1);
        println!("{name}: {work:?}\n{report}");
        assert!(report.facts.passed, "{name}: {report}");
    }
}

#[test]
fn a_fabric_of_long_cables_that_lose_frames_finds_itself_with_any_seed() {
    let topology = lab("tcp.toml");
    for seed in 1..=40 {
        let mut sim = Sim::new(&topology, seed).unwrap();
        assert!(sim.settle(|_| true), "seed {seed}: {:?}", sim.unsettled());
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let topology = lab("ring.toml");
    let (first, second, other) = (run(&topology, 7), run(&topology, 7), run(&topology, 8));
    assert_eq!(first, second);
    assert_ne!(first.1.digest, other.1.digest);
}
