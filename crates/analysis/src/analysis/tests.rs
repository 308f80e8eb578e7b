use petgraph::algo::{dijkstra, ford_fulkerson};
use petgraph::graph::{DiGraph, NodeIndex, UnGraph};
use plexus_topo::{
    Bridge, End, Host, Interface, Link, Node, NodePort, Options, Shape, generate,
    parse_interface_address,
};
use proptest::prelude::*;

use super::bisection::Balance;
use super::bisection::refine::best_cut;
use super::*;

/// Nodes, bridges after them, links between boxes with lanes, and each host's boxes.
#[derive(Clone, Debug)]
struct Drawn {
    nodes: usize,
    bridges: usize,
    links: Vec<([usize; 2], usize)>,
    hosts: Vec<Vec<usize>>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (1..9_usize, 0..3_usize).prop_flat_map(|(nodes, bridges)| {
        let count = nodes + bridges;
        let links = proptest::collection::vec(([0..count, 0..count], 1..4_usize), 0..20);
        let hosts = proptest::collection::vec(proptest::collection::vec(0..count, 0..3), 0..8);
        (links, hosts).prop_map(move |(links, hosts)| {
            let links = links.into_iter().filter(|([a, b], _)| a != b).collect();
            Drawn { nodes, bridges, links, hosts }
        })
    })
}

fn built(drawn: &Drawn) -> Topology {
    let mut topology = Topology::new("drawn");
    for i in 0..drawn.nodes {
        topology.nodes.push(Node::new(&format!("s{i}"), Default::default()));
    }
    for i in 0..drawn.bridges {
        topology.bridges.push(Bridge::new(&format!("b{i}")));
    }
    let port = |topology: &mut Topology, at: usize| match at.checked_sub(drawn.nodes) {
        None => {
            let ports = &mut topology.nodes[at].ports;
            ports.push(NodePort::new(&format!("p{}", ports.len())));
            End::Port { node: at, port: ports.len() - 1 }
        }
        Some(bridge) => {
            let ports = &mut topology.bridges[bridge].ports;
            ports.push(format!("p{}", ports.len()));
            End::Bridge { bridge, port: ports.len() - 1 }
        }
    };
    for ([a, b], lanes) in &drawn.links {
        let cables =
            (0..*lanes).map(|_| [port(&mut topology, *a), port(&mut topology, *b)]).collect();
        let usual =
            Link::new(End::Host { host: 0, interface: 0 }, End::Host { host: 0, interface: 0 });
        topology.links.push(Link { cables, ..usual });
    }
    for (host, boxes) in drawn.hosts.iter().enumerate() {
        let interface = |i: usize| Interface { name: format!("eth{i}"), mac: Default::default() };
        topology.hosts.push(Host {
            name: format!("h{host}"),
            addresses: vec![parse_interface_address("10.0.0.1/8").unwrap()],
            dhcp: false,
            gateways: Vec::new(),
            forwards: false,
            interfaces: (0..boxes.len()).map(interface).collect(),
            mac: Default::default(),
        });
        for (i, at) in boxes.iter().enumerate() {
            let end = port(&mut topology, *at);
            topology.links.push(Link::new(End::Host { host, interface: i }, end));
        }
    }
    topology
}

/// Hops between these vertices of the graph, one search each.
fn naive_hops(graph: &Graph, among: impl Iterator<Item = usize> + Clone) -> Hops {
    let mut hops = Hops::default();
    for from in among.clone() {
        let row = graph.hops(from);
        for to in among.clone().filter(|to| *to != from) {
            match row[to] {
                UNREACHABLE => hops.apart += 1,
                n => {
                    let n = n as usize;
                    hops.pairs.resize(hops.pairs.len().max(n + 1), 0);
                    hops.pairs[n] += 1;
                }
            }
        }
    }
    hops
}

/// Edge-disjoint paths by another's maximum flow.
fn oracle_flow(drawn: &Drawn, from: usize, to: usize) -> usize {
    let mut graph = DiGraph::<(), usize>::new();
    let at: Vec<NodeIndex> = (0..drawn.nodes + drawn.bridges).map(|_| graph.add_node(())).collect();
    for ([a, b], lanes) in &drawn.links {
        graph.add_edge(at[*a], at[*b], *lanes);
        graph.add_edge(at[*b], at[*a], *lanes);
    }
    ford_fulkerson(&graph, at[from], at[to]).0
}

/// Walks of each length from a box, every cable a way: the first number that is not 0 is that of
/// the shortest paths.
fn oracle_ways(drawn: &Drawn, from: usize) -> Vec<Option<u64>> {
    let count = drawn.nodes + drawn.bridges;
    let mut walks = vec![0_u64; count];
    walks[from] = 1;
    let mut ways: Vec<Option<u64>> = vec![None; count];
    ways[from] = Some(1);
    for _ in 0..count {
        let mut next = vec![0; count];
        for ([a, b], lanes) in &drawn.links {
            next[*a] += walks[*b] * *lanes as u64;
            next[*b] += walks[*a] * *lanes as u64;
        }
        // Only what is reached for the first time walks on, so that numbers stay small.
        walks = vec![0; count];
        for at in 0..count {
            if ways[at].is_none() && next[at] > 0 {
                ways[at] = Some(next[at]);
                walks[at] = next[at];
            }
        }
    }
    ways
}

/// The least cut by its definition.
fn naive_bisection(boxes: &Boxes, weights: &[u64]) -> Option<u128> {
    let total: u64 = weights.iter().sum();
    let heaviest = *weights.iter().max()?;
    if heaviest == total {
        return None;
    }
    let limit = heaviest.max((total + heaviest) / 2);
    let halves = (0..1_u32 << boxes.len()).filter_map(|code| {
        let side: Vec<bool> = (0..boxes.len()).map(|b| code >> b & 1 == 1).collect();
        let weight: u64 = side.iter().zip(weights).filter(|(s, _)| **s).map(|(_, w)| w).sum();
        (weight <= limit && total - weight <= limit).then(|| boxes.cut(&side))
    });
    halves.min()
}

proptest! {
    #[test]
    fn hops_of_all_pairs_are_those_of_single_searches(drawn in drawn()) {
        let topology = built(&drawn);
        let (boxes, graph) = (Boxes::new(&topology), Graph::new(&topology));
        prop_assert_eq!(boxes.node_hops(), naive_hops(&graph, 0..drawn.nodes));
        let hosts = drawn.nodes..drawn.nodes + drawn.hosts.len();
        prop_assert_eq!(boxes.host_hops(), naive_hops(&graph, hosts));
    }

    #[test]
    fn disjoint_and_shortest_paths_agree_with_oracles(drawn in drawn()) {
        let boxes = Boxes::new(&built(&drawn));
        let pairs = || {
            let of = move |a| (0..drawn.nodes).filter(move |b| *b != a).map(move |b| (a, b));
            (0..drawn.nodes).flat_map(of)
        };
        let flows: Vec<usize> = pairs().map(|(a, b)| oracle_flow(&drawn, a, b)).collect();
        match boxes.disjoint_paths() {
            None => prop_assert!(flows.is_empty()),
            Some(found) => {
                prop_assert_eq!(found.least, *flows.iter().min().unwrap() as u64);
                let mean = flows.iter().sum::<usize>() as f64 / flows.len() as f64;
                prop_assert!((found.mean - mean).abs() < 1e-9, "{} {}", found.mean, mean);
                let all = drawn.nodes + drawn.bridges;
                let connectivity = (1..all).map(|b| oracle_flow(&drawn, 0, b)).min().unwrap();
                prop_assert_eq!(found.connectivity, connectivity as u64);
            }
        }
        let rows: Vec<_> = (0..drawn.nodes).map(|from| oracle_ways(&drawn, from)).collect();
        let ways: Vec<u64> = pairs().filter_map(|(a, b)| rows[a][b]).collect();
        match boxes.shortest_paths(&boxes.weights()) {
            None => prop_assert!(ways.is_empty()),
            Some(found) => {
                prop_assert_eq!(found.least, *ways.iter().min().unwrap() as f64);
                let mean = ways.iter().sum::<u64>() as f64 / ways.len() as f64;
                prop_assert!((found.mean - mean).abs() < 1e-9);
                prop_assert_eq!(found.sources, drawn.nodes);
            }
        }
    }

    #[test]
    fn no_cut_is_below_the_bound_and_the_least_is_found(drawn in drawn()) {
        let boxes = Boxes::new(&built(&drawn));
        let weights = boxes.weights();
        let least = naive_bisection(&boxes, &weights);
        let found = boxes.bisection(&weights, None, None);
        prop_assert_eq!(found.map(|f| f.capacity), least.map(|l| l as f64));
        // Where all can reach all, traffic among them bounds every cut.
        let connected = boxes.disjoint_paths().is_some_and(|d| d.connectivity > 0);
        let load = boxes.shortest_paths(&weights).and_then(|p| p.load_max);
        if let (true, Some(least), Some(load)) = (connected, least, load) {
            let bound = boxes.flow_bound(&Balance::new(&weights).unwrap(), load);
            prop_assert!(bound <= least, "{bound} is above {least}");
            let searched = best_cut(&boxes, &Balance::new(&weights).unwrap()).unwrap();
            prop_assert!(searched >= least);
        }
    }
}

fn made(shape: &Shape, rate: Option<u64>) -> Topology {
    let options = Options {
        hosts_per_node: shape.usual_hosts(),
        host_rate_bits_per_s: rate,
        link_rate_bits_per_s: rate,
        ..Options::default()
    };
    generate(shape, options).unwrap()
}

fn bisection(shape: &Shape) -> Bisection {
    Analysis::new(&made(shape, None), None).bisection.unwrap()
}

#[test]
fn theorems_agree_with_trying_all_halves() {
    for shape in [
        Shape::Star { leaves: 7 },
        Shape::Star { leaves: 8 },
        Shape::Clos { leaves: 5, spines: 3 },
        Shape::Clos { leaves: 6, spines: 4 },
        Shape::TwoStage { fronts: 3, backs: 4 },
        Shape::FatTree { ports: 2 },
        Shape::FatTree { ports: 4 },
        Shape::Butterfly { ary: 3, flat: 3, dilation: 1, fast: 0 },
        Shape::Butterfly { ary: 4, flat: 3, dilation: 2, fast: 0 },
        Shape::Butterfly { ary: 5, flat: 2, dilation: 1, fast: 0 },
        Shape::Butterfly { ary: 2, flat: 5, dilation: 3, fast: 0 },
    ] {
        let topology = made(&shape, None);
        let boxes = Boxes::new(&topology);
        let weights = boxes.weights();
        let known = Known::of(&topology).expect("what was made is known again");
        let told = boxes.theorem(&known, &Balance::new(&weights).unwrap());
        let tried = boxes.bisection(&weights, None, None).unwrap();
        assert_eq!(tried.certainty, Certainty::Exhaustive, "{shape:?}");
        assert_eq!(told.map(|t| t as f64), Some(tried.capacity), "{shape:?}");
    }
}

#[test]
fn large_shapes_have_the_bisection_of_the_books() {
    for (shape, capacity, certainty) in [
        (Shape::Line { nodes: 50 }, 1.0, Certainty::Bound),
        (Shape::Ring { nodes: 64 }, 2.0, Certainty::Bound),
        (Shape::Torus { sides: vec![8, 8] }, 16.0, Certainty::Bound),
        (Shape::Torus { sides: vec![4, 12] }, 8.0, Certainty::Bound),
        (Shape::Torus { sides: vec![4, 4, 6] }, 32.0, Certainty::Bound),
        (Shape::FatTree { ports: 8 }, 64.0, Certainty::Known),
        (Shape::Butterfly { ary: 4, flat: 4, dilation: 2, fast: 0 }, 128.0, Certainty::Known),
        (Shape::Clos { leaves: 20, spines: 10 }, 100.0, Certainty::Known),
    ] {
        let found = bisection(&shape);
        assert_eq!((found.capacity, found.certainty), (capacity, certainty), "{shape:?}");
        assert_eq!(found.lower_bound, Some(capacity), "{shape:?}");
    }
    let found = bisection(&Shape::Jellyfish { nodes: 40, degree: 4, seed: 3 });
    assert_eq!(found.certainty, Certainty::BestFound);
    assert!(found.lower_bound.unwrap() <= found.capacity);
}

#[test]
fn the_seeds_butterfly_has_8_boards_and_full_bisection() {
    let shape = Shape::Butterfly { ary: 2, flat: 4, dilation: 2, fast: 2 };
    let found = Analysis::new(&made(&shape, Some(1_000_000_000)), None);
    assert_eq!((found.cost.boxes, found.clos.ports_per_box), (8, 4));
    assert_eq!(found.clos.unfolded.map(|c| c.boxes), Some(12));
    let half = found.bisection.unwrap();
    assert_eq!((half.capacity, half.unit), (8e9, "bits/s"));
    assert_eq!((found.diameter, found.edge_connectivity), (Some(3), Some(4)));
    // Twice one cable of a dimension, and one of each other: 2 + 1 + 1.
    assert_eq!(found.diversity.disjoint_least, Some(4));
}

#[test]
fn an_edited_file_is_not_taken_for_the_shape_of_its_name() {
    let mut topology = made(&Shape::Clos { leaves: 6, spines: 3 }, None);
    assert!(Known::of(&topology).is_some());
    topology.links.pop();
    assert!(Known::of(&topology).is_none());
}

#[test]
fn five_thousand_nodes_have_the_hops_of_a_torus() {
    let shape = Shape::Torus { sides: vec![70, 70] };
    let hops = node_hops(&made(&shape, None));
    // Along an even ring the mean distance to all, oneself included, is a quarter of it.
    let mean = 2.0 * 17.5 * 4900.0 / 4899.0;
    assert_eq!((hops.diameter(), hops.apart), (Some(70), 0));
    assert!((hops.mean().unwrap() - mean).abs() < 1e-9);
}

#[test]
fn distances_agree_with_petgraph_on_a_random_graph() {
    let topology = made(&Shape::Random { nodes: 700, degree: 3, seed: 5 }, None);
    let mut oracle = UnGraph::<(), ()>::default();
    let at: Vec<NodeIndex> = topology.nodes.iter().map(|_| oracle.add_node(())).collect();
    for link in &topology.links {
        if let [Device::Node(a), Device::Node(b)] = link.devices() {
            oracle.add_edge(at[a], at[b], ());
        }
    }
    let mut expected = Hops::default();
    for from in &at {
        for hops in dijkstra(&oracle, *from, None, |_| 1_usize).into_values().filter(|h| *h > 0) {
            expected.pairs.resize(expected.pairs.len().max(hops + 1), 0);
            expected.pairs[hops] += 1;
        }
    }
    assert_eq!(node_hops(&topology), expected);
}

#[test]
fn what_has_no_pairs_has_no_distances() {
    let alone = Analysis::new(&made(&Shape::Line { nodes: 1 }, None), None);
    assert_eq!((alone.diameter, alone.mean_hops, alone.bisection), (None, None, None));
    assert_eq!(alone.edge_connectivity, None);
    let empty = Analysis::new(&Topology::new("none"), None);
    assert_eq!((empty.cost.boxes, empty.clos.unfolded), (0, None));
}
