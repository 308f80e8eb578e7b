//! Labs that the simulator can run: what holds there holds here.

use std::path::Path;
use std::time::Duration;

use plexus_config::QueueOrder;
use plexus_sim::{Sim, Work};
use plexus_topo::{Extent, Proto, Topology};

use crate::run::{ran, settled};

fn lab(name: &str) -> Topology {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name);
    Topology::read(&path).unwrap()
}

fn run(topology: &Topology, seed: u64) -> (plexus_report::RunReport, Work) {
    let sim = ran(topology, seed);
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
        "all-in-one.toml",
        "controllers.toml",
        "router-mesh.toml",
        "router-two-stage.toml",
    ];
    for name in names {
        let topology = lab(name);
        let (report, work) = run(&topology, 1);
        println!("{name}: {work:?}\n{report}");
        assert!(report.facts.passed, "{name}: {report}");
        let is_made = |note: &String| !note.contains(" not made: ");
        assert!(report.notes.iter().all(is_made), "{name}: {report}");
    }
}

#[test]
fn what_needs_a_kernel_is_refused_by_name() {
    let mut topology = lab("router-mesh.toml");
    topology.controllers[0].settings.subnets[0].device = Some("gw0".into());
    let refused = [(lab("router-frr.toml"), "take kernel out"), (topology, "take device")];
    for (topology, help) in refused {
        let why = Sim::new(&topology, 1).err().unwrap();
        assert!(why.contains(help), "{why}");
    }
}

#[test]
fn a_fabric_of_long_cables_that_lose_frames_finds_itself_with_any_seed() {
    let topology = lab("tcp.toml");
    (1..=40).for_each(|seed| drop(settled(&topology, seed)));
}

/// What the least and the greatest of the six UDP flows of labs/line.toml get when all of them fill
/// their hosts' cables: the least as a share of the greatest.
fn evenness(order: QueueOrder) -> f64 {
    let mut topology = lab("line.toml");
    topology.keep_flows(|f| f.proto == Proto::Udp);
    topology.assertions.clear();
    for flow in &mut topology.traffic {
        (flow.rate_bits_per_s, flow.start) = (Some(50_000_000), Duration::ZERO);
        flow.extent = Extent::Duration(Duration::from_secs(1));
        flow.after = None;
    }
    let ports = topology.nodes.iter_mut().flat_map(|n| &mut n.ports);
    ports.for_each(|port| port.settings.queue.order = order);
    let (report, _) = run(&topology, 1);
    let rates = report.facts.flows.iter().map(|f| f.received_bits_per_s);
    assert_eq!(rates.clone().count(), 6, "{report}");
    let (least, greatest) = (rates.clone().fold(f64::MAX, f64::min), rates.fold(0.0, f64::max));
    println!("{order:?}: {least} to {greatest}");
    least / greatest
}

/// Flows over two hops pass two full cables, and at each of them wait beside flows that are new.
#[test]
fn flows_through_a_line_of_nodes_starve_only_where_queues_are_fifo() {
    assert!(evenness(QueueOrder::Fair) > 0.9);
    assert!(evenness(QueueOrder::Fifo) < 0.75);
}

/// The lab of one node that does everything, and beside its flows one of named data, in both
/// directions through the node's forwarder: what was fetched once comes from its cache.
#[test]
fn one_node_switches_routes_carries_the_fabric_and_forwards_names_at_once() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/all-in-one.toml");
    let mut text = std::fs::read_to_string(path).unwrap();
    for (name, after) in [("names", "far"), ("names-again", "names")] {
        text += &format!(
            "[[traffic]]\nname = \"{name}\"\nfrom = \"v1\"\nto = \"v2\"\nproto = \"named\"\n\
             prefix = \"/video\"\nitems = 1\nchunks = 200\ncount = 200\nwindow = 8\n\
             after = \"{after}\"\n"
        );
    }
    let topology = Topology::parse("all-in-one.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    for seed in 1..=5 {
        let (report, _) = run(&topology, seed);
        assert!(report.facts.passed, "seed {seed}: {report}");
        let named = report.facts.flows.iter().filter(|f| f.name.starts_with("names"));
        assert!(named.clone().all(|f| f.loss == 0.0) && named.count() == 2, "{report}");
        let forwarder = &report.named["n1"];
        assert!(forwarder.cache_hits >= 200, "seed {seed}: {forwarder:?}");
        let node = &report.accounts["n1"];
        assert!(node.consumed > 600 && node.injected > 600, "through the data plane: {node:?}");
    }
}
