//! What a topology is worth: distances, diversity of paths, bisection, cost.
//!
//! Boxes are nodes and bridges. Where cables are counted, each lane of a link is one.

mod bisection;
mod boxes;
mod cost;
mod disjoint;
mod hops;
mod paths;

use plexus_topo::{Device, Graph, Known, Topology, UNREACHABLE};
use serde::Serialize;

pub use bisection::{Bisection, Certainty};
pub use cost::{Cost, folded_clos, unfolded_clos};
pub use hops::Hops;

pub(crate) use boxes::Boxes;

/// Hosts that are searched from one by one, where some are cabled to each other.
const TOUCHING_HOSTS_MAX: usize = 2000;

/// What is known of a topology as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// Links on the way between the two nodes that are farthest apart; `None` where some have no
    /// path, or there are fewer than two.
    pub diameter: Option<u32>,
    /// Mean links on the way between two different nodes; `None` as for the diameter.
    pub mean_hops: Option<f64>,
    /// Mean links on the way between two different hosts, their own cables counted; `None` where
    /// some have no path, or there are fewer than two.
    pub host_mean_hops: Option<f64>,
    /// Ways between two nodes.
    pub diversity: Diversity,
    /// Cables that must fail, at least, before two boxes have no path; `None` where there are not
    /// two nodes or it would take too long.
    pub edge_connectivity: Option<u64>,
    /// The least capacity between two halves; `None` where there are none, or too many links.
    pub bisection: Option<Bisection>,
    /// Boxes, ports and cables.
    pub cost: Cost,
    /// The same of Clos networks for as many hosts.
    pub clos: ClosCost,
}

/// Ways between two different nodes, each cable a way of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Diversity {
    /// Mean number of paths that share no cable, over all pairs.
    pub disjoint_mean: Option<f64>,
    /// Of the pair that has the fewest.
    pub disjoint_least: Option<u64>,
    /// Mean number of shortest paths, over pairs that have any.
    pub shortest_mean: Option<f64>,
    /// Of the pair that has the fewest.
    pub shortest_least: Option<f64>,
    /// Nodes that shortest paths were counted from: all, unless there are too many.
    pub shortest_sources: usize,
}

/// What Clos networks cost that carry any permutation of the same hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClosCost {
    /// Ports of their boxes.
    pub ports_per_box: u64,
    /// Inputs and outputs cabled apart, as the seed counts boards.
    pub unfolded: Option<Cost>,
    /// With cables that carry both directions.
    pub folded: Option<Cost>,
}

impl Analysis {
    /// Works everything out. The Clos networks beside it are of boxes with `clos_ports` ports; by
    /// default with as many as the box has that has most ports at hosts' rate.
    pub fn new(topology: &Topology, clos_ports: Option<u64>) -> Analysis {
        let boxes = Boxes::new(topology);
        let node_hops = boxes.node_hops();
        let weights = boxes.weights();
        let paths = boxes.shortest_paths(&weights);
        let disjoint = boxes.disjoint_paths();
        let load_max = paths.as_ref().and_then(|p| p.load_max);
        let known = Known::of(topology);
        let bisection = boxes.bisection(&weights, load_max, known.as_ref());
        let hosts = topology.hosts.len() as u64;
        let ports_per_box = clos_ports.unwrap_or_else(|| ports_at_host_rate(topology));
        Analysis {
            diameter: node_hops.diameter(),
            mean_hops: node_hops.mean(),
            host_mean_hops: host_mean_hops(topology, &boxes),
            diversity: Diversity {
                disjoint_mean: disjoint.map(|d| d.mean),
                disjoint_least: disjoint.map(|d| d.least),
                shortest_mean: paths.as_ref().map(|p| p.mean),
                shortest_least: paths.as_ref().map(|p| p.least),
                shortest_sources: paths.as_ref().map_or(0, |p| p.sources),
            },
            edge_connectivity: disjoint.map(|d| d.connectivity),
            bisection,
            cost: cost(topology),
            clos: ClosCost {
                ports_per_box,
                unfolded: unfolded_clos(hosts, ports_per_box),
                folded: folded_clos(hosts, ports_per_box),
            },
        }
    }
}

/// How far nodes are from each other, bridges on the way counted: all pairs.
pub fn node_hops(topology: &Topology) -> Hops {
    Boxes::new(topology).node_hops()
}

fn host_mean_hops(topology: &Topology, boxes: &Boxes) -> Option<f64> {
    if !boxes.hosts_touch {
        return boxes.host_hops().mean();
    }
    let hosts = topology.hosts.len();
    if hosts > TOUCHING_HOSTS_MAX {
        return None;
    }
    let graph = Graph::new(topology);
    let vertex = |host| graph.vertex(Device::Host(host));
    let mut sum = 0;
    for from in 0..hosts {
        let hops = graph.hops(vertex(from));
        for to in 0..hosts {
            sum += u64::from(Some(hops[vertex(to)]).filter(|h| *h != UNREACHABLE)?);
        }
    }
    Some(sum as f64 / (hosts * (hosts - 1)) as f64)
}

fn cost(topology: &Topology) -> Cost {
    let ends = topology.cables().flat_map(|(_, _, ends)| ends);
    let at_box = ends.filter(|end| !matches!(end.device(), Device::Host(_)));
    Cost {
        boxes: (topology.nodes.len() + topology.bridges.len()) as u64,
        ports: at_box.count() as u64,
        cables: topology.cables().count() as u64,
    }
}

/// Most ports that a box has with a cable of the rate that hosts' cables have.
fn ports_at_host_rate(topology: &Topology) -> u64 {
    let is_host = |device: &Device| matches!(device, Device::Host(_));
    let mut host_links = topology.links.iter().filter(|l| l.devices().iter().any(is_host));
    let rate = host_links.next().and_then(|l| l.rate_bits_per_s);
    let mut ports = std::collections::BTreeMap::new();
    for link in topology.links.iter().filter(|l| l.rate_bits_per_s == rate || rate.is_none()) {
        for device in link.devices().into_iter().filter(|d| !is_host(d)) {
            *ports.entry(device).or_insert(0) += link.cables.len() as u64;
        }
    }
    ports.into_values().max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
