//! The network as the check sees it: rates in units of the fastest host, and whole flows.

use plexus_topo::{Device, Graph, Topology};

use super::CheckError;
use crate::loads::Demand;
use crate::loads::net::Net;

/// Flows that a channel without a rate carries: more than there are hosts.
const UNBOUNDED: u64 = 1 << 40;
/// Rates are sums and quotients of floats: this much is no overload.
pub(super) const ROUNDING: f64 = 1e-9;

/// A network, and its hosts that have a cable.
pub(super) struct Fabric {
    pub(super) net: Net,
    /// Indices into [`Topology::hosts`].
    pub(super) hosts: Vec<usize>,
    /// Of each of these hosts: its vertex, and what stands for it in the core.
    pub(super) vertex: Vec<usize>,
    pub(super) at: Vec<usize>,
    /// Line rate of each host, in units of the fastest.
    pub(super) rate: Vec<f64>,
    /// Of each cable, what it carries in this unit.
    pub(super) capacity: Vec<f64>,
    /// Of each channel, the same.
    pub(super) width: Vec<f64>,
    /// Of each channel, the whole flows of the fastest host that its cables carry.
    pub(super) circuits: Vec<u64>,
    /// Hosts at each vertex.
    pub(super) need: Vec<u64>,
}

impl Fabric {
    pub(super) fn new(topology: &Topology) -> Result<Fabric, CheckError> {
        let net = Net::new(topology);
        let graph = Graph::new(topology);
        let rated = net.cables.iter().any(|c| c.rate.is_some());
        let (mut hosts, mut vertex, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for host in 0..topology.hosts.len() {
            let at = graph.vertex(Device::Host(host));
            let cables = net.out_of(at).flat_map(|c| net.channels[c].cables.clone());
            let line_rates: Vec<Option<u64>> = cables.map(|c| net.cables[c].rate).collect();
            if line_rates.is_empty() {
                continue;
            }
            // The rate of a host with several cables is that of the fastest.
            let rate = match line_rates.iter().copied().collect::<Option<Vec<u64>>>() {
                _ if !rated => 1.0,
                Some(rates) => rates.into_iter().fold(0.0, |max, rate| f64::max(max, rate as f64)),
                None => return Err(CheckError::NoRate(topology.hosts[host].name.clone())),
            };
            hosts.push(host);
            vertex.push(at);
            rates.push(rate);
        }
        let unit = rates.iter().copied().fold(0.0, f64::max);
        if unit == 0.0 && !hosts.is_empty() {
            return Err(CheckError::NoRate(topology.hosts[hosts[0]].name.clone()));
        }
        let capacity: Vec<f64> = net.capacities(rated).into_iter().map(|c| c / unit).collect();
        let whole = |c: f64| ((c + ROUNDING).floor() as u64).min(UNBOUNDED);
        let sum = |of: &dyn Fn(f64) -> u64| {
            let cables = net.channels.iter().map(|channel| channel.cables.clone());
            cables.map(|cables| capacity[cables].iter().map(|c| of(*c)).sum()).collect()
        };
        let circuits = sum(&whole);
        let at: Vec<usize> = vertex.iter().map(|v| net.core_of(*v)).collect();
        let mut need = vec![0; net.vertices()];
        at.iter().for_each(|v| need[*v] += 1);
        let width = net.channel_capacities(&capacity);
        let rate = rates.into_iter().map(|r| r / unit).collect();
        Ok(Fabric { net, hosts, vertex, at, rate, capacity, width, circuits, need })
    }

    /// Whether all hosts have the same line rate.
    pub(super) fn even(&self) -> bool {
        self.rate.iter().all(|r| *r == 1.0)
    }

    /// What the hosts send when each sends to `to[host]`, in this order: at the rate of the slower
    /// end. Who sends to itself is silent.
    pub(super) fn demands(&self, to: &[usize]) -> Vec<Demand> {
        let pairs = to.iter().enumerate().filter(|(from, to)| from != *to);
        let demand = |(from, to): (usize, &usize)| Demand {
            from: self.vertex[from],
            to: self.vertex[*to],
            amount: self.rate[from].min(self.rate[*to]),
        };
        pairs.map(demand).collect()
    }

    /// The core's vertices that matter: where hosts are or frames are forwarded.
    pub(super) fn core(&self) -> Vec<usize> {
        let vertices = 0..self.net.vertices();
        vertices.filter(|v| self.net.forwards[*v] || self.need[*v] > 0).collect()
    }

    /// Whole flows from one vertex to another.
    pub(super) fn circuits_between(&self, from: usize, to: usize) -> u64 {
        let range = self.net.out_of(from);
        let channels = &self.net.channels[range.clone()];
        let found = channels.binary_search_by_key(&to, |c| c.to as usize);
        found.map_or(0, |i| self.circuits[range.start + i])
    }
}
