//! The network that traffic is laid on: directed channels in compressed adjacency.
//!
//! A *cable* here is one direction of one cable of the topology; a *channel* is all cables from one
//! device to another. A host with one cable is not searched: its access cable carries what it sends
//! and receives whatever the routing, and its node stands for it (the *core*).

use std::ops::Range;

use plexus_topo::{Graph, Topology, UNREACHABLE};

use super::Demand;

/// One direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cable {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Index into [`Topology::links`], lane in it, and whether the cable is taken from its second
    /// end to its first.
    pub(crate) link: u32,
    pub(crate) lane: u32,
    pub(crate) reversed: bool,
    /// Bits/s; `None`: as fast as it goes.
    pub(crate) rate: Option<u64>,
}

/// All cables from one vertex to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Into [`Net::cables`].
    pub(crate) cables: Range<usize>,
}

impl Channel {
    pub(crate) fn lanes(&self) -> f64 {
        self.cables.len() as f64
    }
}

/// Vertices are those of [`Graph`]; channels are ordered by (from, to), cables by their channel,
/// then link and lane: this order breaks ties.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    /// Whether a path may lead through a vertex: not through a host.
    pub(crate) forwards: Vec<bool>,
    pub(crate) nodes: usize,
    pub(crate) cables: Vec<Cable>,
    pub(crate) channels: Vec<Channel>,
    /// Channels out of vertex v: `out[v]..out[v + 1]`.
    out: Vec<usize>,
    /// Channels into vertex v, from core vertices: `inward[into[v]..into[v + 1]]`.
    into: Vec<usize>,
    inward: Vec<u32>,
    /// Of a host with one cable: the cables from it and to it.
    access: Vec<Option<[u32; 2]>>,
}

/// What is left of the demands between core vertices: of each destination, in ascending order, the
/// sources and amounts, in ascending order and each once. No amount is zero, every pair has a path.
pub(crate) type Commodities = Vec<(usize, Vec<(usize, f64)>)>;

/// Demands laid on the access cables, and what the core has yet to carry.
pub(crate) struct Core {
    pub(crate) commodities: Commodities,
    /// The single demands between core vertices, in their first order: for routings that give
    /// each a path of its own.
    pub(crate) flows: Vec<Demand>,
    /// Load of each cable so far.
    pub(crate) loads: Vec<f64>,
    /// Sum of the amounts without a path.
    pub(crate) unrouted: f64,
}

impl Net {
    pub(crate) fn new(topology: &Topology) -> Net {
        let graph = Graph::new(topology);
        let vertices = graph.len();
        let mut cables = Vec::new();
        for (link, lane, ends) in topology.cables() {
            let [a, b] = ends.map(|end| graph.vertex(end.device()) as u32);
            let rate = topology.links[link].rate_bits_per_s;
            let (link, lane) = (link as u32, lane as u32);
            // A cable between two ports of one device leads nowhere.
            if a != b {
                cables.push(Cable { from: a, to: b, link, lane, reversed: false, rate });
                cables.push(Cable { from: b, to: a, link, lane, reversed: true, rate });
            }
        }
        cables.sort_by_key(|c| (c.from, c.to, c.link, c.lane));
        let mut channels: Vec<Channel> = Vec::new();
        for (i, cable) in cables.iter().enumerate() {
            match channels.last_mut() {
                Some(last) if (last.from, last.to) == (cable.from, cable.to) => {
                    last.cables.end = i + 1;
                }
                _ => channels.push(Channel { from: cable.from, to: cable.to, cables: i..i + 1 }),
            }
        }
        let out = (0..=vertices).map(|v| channels.partition_point(|c| (c.from as usize) < v));
        let hosts = topology.nodes.len()..topology.nodes.len() + topology.hosts.len();
        let mut net = Net {
            forwards: (0..vertices).map(|v| !hosts.contains(&v)).collect(),
            nodes: topology.nodes.len(),
            out: out.collect(),
            into: Vec::new(),
            inward: Vec::new(),
            access: Vec::new(),
            cables,
            channels,
        };
        net.access = (0..vertices).map(|v| net.access_of(v)).collect();
        // No search begins at a host that its node stands for: leaving these channels out saves
        // every search from visiting all hosts.
        let searched = |c: &u32| net.access[net.channels[*c as usize].from as usize].is_none();
        let mut inward: Vec<u32> = (0..net.channels.len() as u32).filter(searched).collect();
        inward.sort_by_key(|&c| (net.channels[c as usize].to, c));
        let to = |c: &u32| net.channels[*c as usize].to as usize;
        net.into = (0..=vertices).map(|v| inward.partition_point(|c| to(c) < v)).collect();
        net.inward = inward;
        net
    }

    fn access_of(&self, vertex: usize) -> Option<[u32; 2]> {
        let [up] = &self.channels[self.out_of(vertex)] else { return None };
        let back = &self.channels[self.out_of(up.to as usize)];
        let down = &back[back.binary_search_by_key(&up.from, |c| c.to).ok()?];
        let single = up.cables.len() == 1 && self.forwards[up.to as usize];
        let host = !self.forwards[vertex] && single;
        host.then_some([up.cables.start as u32, down.cables.start as u32])
    }

    pub(crate) fn vertices(&self) -> usize {
        self.forwards.len()
    }

    /// The channels out of a vertex.
    pub(crate) fn out_of(&self, vertex: usize) -> Range<usize> {
        self.out[vertex]..self.out[vertex + 1]
    }

    /// The channels into a vertex, but for those from hosts that their nodes stand for.
    pub(crate) fn into(&self, vertex: usize) -> &[u32] {
        &self.inward[self.into[vertex]..self.into[vertex + 1]]
    }

    /// The cables from and to a host that has only one.
    pub(crate) fn access(&self, vertex: usize) -> Option<[u32; 2]> {
        self.access[vertex]
    }

    /// The vertex that stands for this one in the core.
    pub(crate) fn core_of(&self, vertex: usize) -> usize {
        self.access[vertex].map_or(vertex, |[up, _]| self.cables[up as usize].to as usize)
    }

    /// Whether a path may use a channel on its way to `to`: it leads through no host, and to no
    /// host with one cable but from its node.
    pub(crate) fn passes(&self, channel: &Channel, to: usize) -> bool {
        self.forwards[channel.to as usize] || channel.to as usize == to
    }

    /// Channels between each vertex and `to` on a shortest path; [`UNREACHABLE`] where there is
    /// none. `order` becomes the vertices that have one, nearest first.
    pub(crate) fn hops_to(&self, to: usize, order: &mut Vec<u32>) -> Vec<u32> {
        let mut hops = vec![UNREACHABLE; self.vertices()];
        hops[to] = 0;
        order.clear();
        order.push(to as u32);
        let mut next = 0;
        while let Some(&vertex) = order.get(next) {
            next += 1;
            let here = vertex as usize;
            if !self.forwards[here] && here != to {
                continue;
            }
            for &channel in self.into(here) {
                let from = self.channels[channel as usize].from as usize;
                if hops[from] == UNREACHABLE {
                    hops[from] = hops[here] + 1;
                    order.push(from as u32);
                }
            }
        }
        hops
    }

    /// Lays demands on the access cables, and finds what has no path.
    pub(crate) fn core(&self, demands: &[Demand]) -> Core {
        let mut loads = vec![0.0; self.cables.len()];
        let mut unrouted = 0.0;
        // Links work in both directions, so who shares a component has a path, but for hosts,
        // which do not forward: their distance is looked up.
        let mut by_pair: Vec<(usize, usize, f64, usize)> = Vec::new();
        for (i, demand) in demands.iter().enumerate() {
            let pair = (self.core_of(demand.to), self.core_of(demand.from));
            by_pair.push((pair.0, pair.1, demand.amount, i));
        }
        by_pair.sort_by_key(|p| (p.0, p.1, p.3));
        let mut routed = vec![true; demands.len()];
        let mut commodities: Commodities = Vec::new();
        let (mut order, mut hops, mut hops_of) = (Vec::new(), Vec::new(), None);
        for (to, from, amount, i) in by_pair {
            if hops_of != Some(to) {
                hops = self.hops_to(to, &mut order);
                hops_of = Some(to);
            }
            if hops[from] == UNREACHABLE {
                unrouted += amount;
                routed[i] = false;
                continue;
            }
            if to == from || amount == 0.0 {
                continue;
            }
            if commodities.last().is_none_or(|c| c.0 != to) {
                commodities.push((to, Vec::new()));
            }
            let Some((_, sources)) = commodities.last_mut() else { continue };
            match sources.last_mut() {
                Some(last) if last.0 == from => last.1 += amount,
                _ => sources.push((from, amount)),
            }
        }
        let mut flows = Vec::new();
        for (demand, _) in demands.iter().zip(&routed).filter(|(_, routed)| **routed) {
            for (end, side) in [(demand.from, 0), (demand.to, 1)] {
                if let Some(access) = self.access(end) {
                    loads[access[side] as usize] += demand.amount;
                }
            }
            let flow =
                Demand { from: self.core_of(demand.from), to: self.core_of(demand.to), ..*demand };
            if flow.from != flow.to && flow.amount > 0.0 {
                flows.push(flow);
            }
        }
        Core { commodities, flows, loads, unrouted }
    }

    /// What each cable can carry, in units of load: its rate, or the same for all.
    pub(crate) fn capacities(&self, rated: bool) -> Vec<f64> {
        let capacity = |cable: &Cable| match cable.rate {
            _ if !rated => 1.0,
            Some(rate) => rate as f64,
            None => f64::INFINITY,
        };
        self.cables.iter().map(capacity).collect()
    }

    /// Lays loads of channels on their cables: in proportion to capacity, and where some are
    /// without bound, equally on those.
    pub(crate) fn spread(&self, channels: &[f64], capacity: &[f64], loads: &mut [f64]) {
        for (channel, load) in self.channels.iter().zip(channels).filter(|(_, load)| **load > 0.0) {
            let cables = channel.cables.clone();
            let unbounded = capacity[cables.clone()].iter().filter(|c| c.is_infinite()).count();
            let total: f64 = capacity[cables.clone()].iter().sum();
            for cable in cables {
                loads[cable] += match capacity[cable] {
                    c if c.is_infinite() => load / unbounded as f64,
                    _ if unbounded > 0 => 0.0,
                    c => load * (c / total),
                };
            }
        }
    }

    /// Capacity of each channel. Access cables have no bound: the core never uses them, and they
    /// must not count as room that it has.
    pub(crate) fn channel_capacities(&self, capacity: &[f64]) -> Vec<f64> {
        let core = |vertex: u32| self.access[vertex as usize].is_none();
        let sum = |channel: &Channel| match core(channel.from) && core(channel.to) {
            true => capacity[channel.cables.clone()].iter().sum(),
            false => f64::INFINITY,
        };
        self.channels.iter().map(sum).collect()
    }
}
