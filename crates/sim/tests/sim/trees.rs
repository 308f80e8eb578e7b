//! Ordinary switches with spanning tree, in the simulator.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_sim::Sim;
use plexus_topo::{Options, Shape, Topology, generate};

use crate::run::{ran, settled};

/// Frames that left by either end of each cable.
fn frames(topology: &Topology, sim: &Sim) -> Vec<u64> {
    let sent: BTreeMap<String, u64> = sim.traffic().map(|(end, t)| (end, t.frames)).collect();
    let cable = |ends: [_; 2]| ends.map(|end| sent[&topology.end_name(end)]).iter().sum();
    topology.cables().map(|(_, _, ends)| cable(ends)).collect()
}

#[test]
fn a_broadcast_crosses_every_cable_once() {
    let random = Shape::Random { nodes: 20, degree: 4, seed: 3 };
    for shape in [Shape::Torus { sides: vec![4, 4] }, Shape::FatTree { ports: 4 }, random] {
        let options = Options { hosts_per_node: 2, ..Options::default() };
        let quiet = generate(&shape, options).unwrap().as_spanning_tree();
        // Nobody has this address: its sender asks three times and gives up.
        let ask = format!(
            "[[traffic]]\nname = \"ask\"\nfrom = \"{}\"\nto = \"10.255.255.254\"\n\
             proto = \"icmp\"\ncount = 1\nexpect = \"blocked\"\n",
            quiet.hosts[0].name
        );
        let asking = Topology::parse("asking", &(quiet.to_toml() + &ask)).unwrap();
        let (mut with, mut without) = (settled(&asking, 5), settled(&quiet, 5));
        with.run(|_| true);
        let end = with.work().time + Duration::from_secs(3).into();
        with.run_until(end);
        without.run_until(end);
        let roots: Vec<_> = with.spanning_trees().map(|(_, bridge)| bridge.root().0).collect();
        assert!(roots.len() == quiet.bridges.len() && roots.iter().all(|r| *r == roots[0]));
        let (with, without) = (frames(&asking, &with), frames(&quiet, &without));
        let asked: Vec<u64> = with.iter().zip(&without).map(|(w, o)| w - o).collect();
        // Also those that lead to a port that blocks: their other end does not know.
        assert_eq!(asked, vec![3; quiet.cables().count()], "{shape:?}");
    }
}

/// `labs/failover-stp.toml`, which `plexus lab run` runs with bridges of the Linux kernel.
#[test]
fn the_lab_of_spanning_trees_stands_still_as_long_as_with_linux() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/failover-stp.toml");
    let topology = Topology::read(path.as_ref()).unwrap();
    let report = ran(&topology, 1).report();
    assert!(report.facts.passed, "{report}");
    let outages: Vec<f64> = report.facts.outages.iter().map(|o| o.ms).collect();
    // Two forward delays of 15 s; after a silent failure the root's last word ages first, for 20 s
    // less what has passed since it came.
    let [carrier, silent] = outages[..] else { panic!("{report}") };
    assert!((30_000.0..30_100.0).contains(&carrier), "{report}");
    assert!((48_000.0..50_100.0).contains(&silent), "{report}");
}
