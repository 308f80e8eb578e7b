//! Routes for many flows, and the linear program that says how good they can be.

use std::collections::BTreeSet;
use std::time::Instant;

use plexus_analysis::{BoundBy, Demand, Routing, cable_loads, loads};
use plexus_config::SwitchSettings;
use plexus_topo::{End, Link, Node, NodePort, Options, Shape, Topology, generate};

use super::random::Random;
use super::{Row, Setting};

/// Flows of the seed's size of network (`axon` §5.5).
const FLOWS: usize = 50_000;
/// The size of SNDlib's germany50, whose data are not needed for its difficulty.
const LP_NODES: usize = 50;
const LP_LINKS: usize = 88;
const LP_DEMANDS: usize = 662;

/// Routes per second, on a torus and on a random graph of the same size and number of links.
pub(super) fn spain(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let small = setting.effort.shrink > 1;
    let side = if small { 3 } else { 10 };
    let nodes = side * side * side;
    let shape = Shape::Torus { sides: vec![side; 3] };
    let torus = generate(&shape, Options { hosts_per_node: 0, ..Options::default() });
    let torus = torus.map_err(|e| e.to_string())?;
    let mut random = Random(88_172_645_463_325_252);
    let links = connected(nodes, 3 * nodes, &mut random);
    let flows: Vec<Demand> = (0..FLOWS / setting.effort.shrink.max(1))
        .map(|_| {
            let (from, to) = pair(&mut random, nodes);
            Demand { from, to, amount: 1.0 }
        })
        .collect();
    let row = |(what, topology): (&str, &Topology)| {
        let turn = || {
            let start = Instant::now();
            cable_loads(topology, &flows, Routing::Spain).map_err(|e| e.to_string())?;
            Ok((flows.len() as f64 / start.elapsed().as_secs_f64() / 1e3, None))
        };
        Row::measure(&format!("{name}-{what}"), "kroutes/s", None, setting.effort.runs, turn)
    };
    [("torus", &torus), ("random", &built(nodes, &links))].into_iter().map(row).collect()
}

/// Time to the optimum.
pub(super) fn lp(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let mut random = Random(1_181_783_497_276_652_981);
    let links = connected(LP_NODES, LP_LINKS, &mut random);
    let mut pairs = BTreeSet::new();
    while pairs.len() < LP_DEMANDS / setting.effort.shrink.clamp(1, 8) {
        pairs.insert(pair(&mut random, LP_NODES));
    }
    let demand = |(from, to)| Demand { from, to, amount: 1.0 + random.below(1000) as f64 };
    let demands: Vec<Demand> = pairs.into_iter().map(demand).collect();
    let topology = built(LP_NODES, &links);
    let turn = || {
        let start = Instant::now();
        let found = loads(&topology, &demands, Routing::Shortest).map_err(|e| e.to_string())?;
        match found.bound_by {
            BoundBy::Lp => Ok((start.elapsed().as_secs_f64() * 1e3, None)),
            BoundBy::Lengths => Err("the program was not solved".to_string()),
        }
    };
    Ok(vec![Row::measure(name, "ms", None, setting.effort.runs, turn)?])
}

/// Two different numbers below `n`.
fn pair(random: &mut Random, n: usize) -> (usize, usize) {
    let from = random.below(n);
    (from, (from + 1 + random.below(n - 1)) % n)
}

/// Links of a random graph: a tree, and as many more as are missing.
fn connected(nodes: usize, links: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let mut chosen: BTreeSet<(usize, usize)> =
        (1..nodes).map(|node| (random.below(node), node)).collect();
    while chosen.len() < links {
        let (a, b) = pair(random, nodes);
        chosen.insert((a.min(b), a.max(b)));
    }
    chosen.into_iter().collect()
}

fn built(nodes: usize, links: &[(usize, usize)]) -> Topology {
    let mut topology = Topology::new("random");
    topology.nodes =
        (0..nodes).map(|i| Node::new(&format!("s{i}"), SwitchSettings::default())).collect();
    for &(a, b) in links {
        let mut end = |node: usize| {
            let ports = &mut topology.nodes[node].ports;
            ports.push(NodePort::new(&format!("p{}", ports.len())));
            End::Port { node, port: ports.len() - 1 }
        };
        let link = Link::new(end(a), end(b));
        topology.links.push(link);
    }
    topology
}
