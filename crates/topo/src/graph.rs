//! A topology as a graph: who is next to whom, how far, and over which of several equal ways.
//!
//! Vertices are numbered: nodes first (`0..nodes`), then hosts, then bridges. Parallel cables are
//! one edge; a host forwards nothing, so no path leads through one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::model::{Device, Topology};

/// Distance of what cannot be reached.
pub const UNREACHABLE: u32 = u32::MAX;

/// The devices of a topology and their neighbours, in compressed adjacency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    nodes: usize,
    hosts: usize,
    /// Of each vertex: where its edges begin; one entry more at the end.
    first: Vec<usize>,
    /// The edges vertex by vertex, ordered by neighbour, then by link; this order breaks all ties.
    edges: Vec<Edge>,
}

/// A link as seen from one of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The vertex at the other side.
    pub to: usize,
    /// Index into [`Topology::links`].
    pub link: usize,
}

impl Graph {
    /// The graph of a topology.
    pub fn new(topology: &Topology) -> Graph {
        let (nodes, hosts) = (topology.nodes.len(), topology.hosts.len());
        let links = topology.links.iter().map(|link| {
            link.devices().map(|device| match device {
                Device::Node(node) => node,
                Device::Host(host) => nodes + host,
                Device::Bridge(bridge) => nodes + hosts + bridge,
            })
        });
        Graph::from_links(nodes, hosts, topology.bridges.len(), links)
    }

    /// The graph of these links, given as pairs of vertices. Links with a vertex that does not
    /// exist are left out.
    pub fn from_links(
        nodes: usize,
        hosts: usize,
        bridges: usize,
        links: impl IntoIterator<Item = [usize; 2]>,
    ) -> Graph {
        let count = nodes + hosts + bridges;
        let links: Vec<[usize; 2]> = links.into_iter().collect();
        let inside = |ends: &[usize; 2]| ends.iter().all(|end| *end < count);
        let mut first = vec![0; count + 1];
        for end in links.iter().filter(|l| inside(l)).flatten() {
            first[end + 1] += 1;
        }
        for vertex in 0..count {
            first[vertex + 1] += first[vertex];
        }
        let mut next = first.clone();
        let mut edges = vec![Edge { to: 0, link: 0 }; first[count]];
        for (link, ends) in links.iter().enumerate().filter(|(_, l)| inside(l)) {
            for [from, to] in [*ends, [ends[1], ends[0]]] {
                edges[next[from]] = Edge { to, link };
                next[from] += 1;
            }
        }
        for vertex in 0..count {
            edges[first[vertex]..first[vertex + 1]].sort_unstable();
        }
        Graph { nodes, hosts, first, edges }
    }

    /// How many vertices there are, nodes, hosts and bridges.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of the vertices are nodes; they come first.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The vertex of a device.
    pub fn vertex(&self, device: Device) -> usize {
        match device {
            Device::Node(node) => node,
            Device::Host(host) => self.nodes + host,
            Device::Bridge(bridge) => self.nodes + self.hosts + bridge,
        }
    }

    /// The device of a vertex.
    pub fn device(&self, vertex: usize) -> Device {
        match vertex.checked_sub(self.nodes) {
            None => Device::Node(vertex),
            Some(host) if host < self.hosts => Device::Host(host),
            Some(beyond) => Device::Bridge(beyond - self.hosts),
        }
    }

    /// A vertex's edges, ordered by neighbour, then by link.
    pub fn edges(&self, vertex: usize) -> &[Edge] {
        match (self.first.get(vertex), self.first.get(vertex.saturating_add(1))) {
            (Some(first), Some(end)) => &self.edges[*first..*end],
            _ => &[],
        }
    }

    /// Whether a path may lead on from here, when it began at `from`.
    fn forwards(&self, vertex: usize, from: usize) -> bool {
        !self.is_host(vertex) || vertex == from
    }

    fn is_host(&self, vertex: usize) -> bool {
        (self.nodes..self.nodes + self.hosts).contains(&vertex)
    }

    /// Links between `from` and every vertex on a shortest path; [`UNREACHABLE`] where there is
    /// none.
    pub fn hops(&self, from: usize) -> Vec<u32> {
        let mut hops = vec![UNREACHABLE; self.len()];
        let Some(start) = hops.get_mut(from) else { return hops };
        *start = 0;
        let mut queue = VecDeque::from([from]);
        while let Some(vertex) = queue.pop_front() {
            if !self.forwards(vertex, from) {
                continue;
            }
            for edge in self.edges(vertex) {
                if hops[edge.to] == UNREACHABLE {
                    hops[edge.to] = hops[vertex] + 1;
                    queue.push_back(edge.to);
                }
            }
        }
        hops
    }

    /// The cheapest ways from a vertex, where `cost` gives a link's cost. Of equal ones that with
    /// fewer links wins, then that whose last step comes from the smaller vertex.
    pub fn cheapest(&self, from: usize, cost: impl Fn(usize) -> u64) -> Paths {
        let unreached = Reached { cost: u64::MAX, hops: UNREACHABLE, last: None };
        let mut reached = vec![unreached; self.len()];
        let mut queue = BinaryHeap::new();
        if let Some(start) = reached.get_mut(from) {
            *start = Reached { cost: 0, hops: 0, last: None };
            queue.push(Reverse((0, 0, from)));
        }
        while let Some(Reverse((so_far, hops, vertex))) = queue.pop() {
            let stale = (so_far, hops) != (reached[vertex].cost, reached[vertex].hops);
            if stale || !self.forwards(vertex, from) {
                continue;
            }
            for edge in self.edges(vertex) {
                // A saturated sum would read as "unreachable".
                let total = so_far.saturating_add(cost(edge.link)).min(u64::MAX - 1);
                let next = Reached { cost: total, hops: hops + 1, last: Some((vertex, edge.link)) };
                let old = &mut reached[edge.to];
                if edge.to == from || next.key() >= old.key() {
                    continue;
                }
                let nearer = (next.cost, next.hops) != (old.cost, old.hops);
                *old = next;
                if nearer {
                    queue.push(Reverse((total, hops + 1, edge.to)));
                }
            }
        }
        Paths { from, reached }
    }
}

/// The cheapest ways from one vertex to all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    from: usize,
    reached: Vec<Reached>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reached {
    cost: u64,
    hops: u32,
    /// The vertex before, and the link from it.
    last: Option<(usize, usize)>,
}

impl Reached {
    /// What is compared: less is better.
    fn key(&self) -> (u64, u32, Option<(usize, usize)>) {
        (self.cost, self.hops, self.last)
    }
}

impl Paths {
    /// The cost of the cheapest way to a vertex, if there is one.
    pub fn cost(&self, to: usize) -> Option<u64> {
        self.reached.get(to).filter(|r| r.hops != UNREACHABLE).map(|r| r.cost)
    }

    /// The steps of the cheapest way to a vertex; empty for the start itself.
    pub fn path(&self, to: usize) -> Option<Vec<Edge>> {
        self.cost(to)?;
        let mut steps = Vec::new();
        let mut at = to;
        while at != self.from {
            let (before, link) = self.reached[at].last?;
            steps.push(Edge { to: at, link });
            at = before;
        }
        steps.reverse();
        Some(steps)
    }
}

#[cfg(test)]
mod tests;
