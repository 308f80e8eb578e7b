//! Hops between all pairs of nodes of large topologies.

use std::hint::black_box;
use std::time::{Duration, Instant};

use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::visit::Bfs;
use plexus_analysis::{Hops, node_hops};
use plexus_topo::{Device, Options, Shape, Topology, generate};

use super::{Effort, Row, Setting};

/// The five topologies of axon.txt figure 6 at about its largest size, 5,000 nodes.
fn shapes(effort: Effort) -> [(&'static str, Shape); 5] {
    let seed = 1;
    match effort.shrink > 1 {
        false => [
            ("torus", Shape::Torus { sides: vec![70, 72] }),
            ("fat-tree", Shape::FatTree { ports: 64 }),
            ("butterfly", Shape::Butterfly { ary: 17, flat: 4, dilation: 1, fast: 0 }),
            ("random-low", Shape::Random { nodes: 5000, degree: 4, seed }),
            ("random-high", Shape::Random { nodes: 4913, degree: 48, seed }),
        ],
        true => [
            ("torus", Shape::Torus { sides: vec![5, 6] }),
            ("fat-tree", Shape::FatTree { ports: 4 }),
            ("butterfly", Shape::Butterfly { ary: 3, flat: 3, dilation: 1, fast: 0 }),
            ("random-low", Shape::Random { nodes: 20, degree: 4, seed }),
            ("random-high", Shape::Random { nodes: 20, degree: 6, seed }),
        ],
    }
}

/// Milliseconds for all pairs, ours and those of a breadth-first search from each node.
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let row = |(shape, made): (&str, Shape)| {
        let options = Options { hosts_per_node: 0, ..Options::default() };
        let topology = generate(&made, options).map_err(|e| e.to_string())?;
        let peer = petgraph_of(&topology);
        let name = format!("{name} {shape} {} nodes", topology.nodes.len());
        // The peer takes ten seconds for a dense graph: a turn is one run of each, and few do.
        let runs = setting.effort.runs.min(3);
        Row::measure(&name, "ms", Some("petgraph Bfs"), runs, || {
            let (ours, took) = timed(|| node_hops(&topology));
            let (theirs, peer_took) = timed(|| peer_hops(&peer));
            if ours != theirs {
                return Err(format!("{shape}: petgraph finds other distances"));
            }
            Ok((millis(took), Some(millis(peer_took))))
        })
    };
    shapes(setting.effort).into_iter().map(row).collect()
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let out = black_box(run());
    (out, start.elapsed())
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

fn petgraph_of(topology: &Topology) -> UnGraph<(), ()> {
    let mut graph = UnGraph::default();
    let at: Vec<NodeIndex> = topology.nodes.iter().map(|_| graph.add_node(())).collect();
    for link in &topology.links {
        if let [Device::Node(a), Device::Node(b)] = link.devices() {
            graph.add_edge(at[a], at[b], ());
        }
    }
    graph
}

/// A search from every node; a vertex is one hop further than the first of its neighbours that was
/// reached.
fn peer_hops(graph: &UnGraph<(), ()>) -> Hops {
    let mut hops = Hops::default();
    let mut distance = vec![usize::MAX; graph.node_count()];
    for from in graph.node_indices() {
        distance.fill(usize::MAX);
        distance[from.index()] = 0;
        let mut search = Bfs::new(graph, from);
        while let Some(at) = search.next(graph) {
            let own = distance[at.index()];
            for beside in graph.neighbors(at) {
                let theirs = &mut distance[beside.index()];
                *theirs = (*theirs).min(own + 1);
            }
            if own > 0 {
                hops.pairs.resize(hops.pairs.len().max(own + 1), 0);
                hops.pairs[own] += 1;
            }
        }
    }
    let reached: u64 = hops.pairs.iter().sum();
    let nodes = graph.node_count() as u64;
    hops.apart = nodes * (nodes - 1) - reached;
    hops
}
