//! Whole flows on cables: assigned one by one as they come, by a hash, or all together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plexus_topo::UNREACHABLE;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::fabric::{Fabric, ROUNDING};
use crate::loads::Demand;
use crate::loads::spain::spain;

/// Rounds of rerouting before a permutation is given up.
const ROUNDS: usize = 80;
/// What a used cable costs more with each round in which it is overloaded, and how much more than
/// in the round before an overload costs.
const HISTORY: u64 = 400;
const PRESSURE: f64 = 1.4;
/// Most flows of which all ways are tried: the search goes as deep as their paths are long.
const EXACT_FLOWS_MAX: usize = 64;
/// Cost of a link that nobody else wants.
const LINK_COST: u64 = 1000;

/// The load of the fullest cable, over what it carries.
fn fullest(fabric: &Fabric, loads: &[f64]) -> f64 {
    loads.iter().zip(&fabric.capacity).map(|(l, c)| l / c).fold(0.0, f64::max)
}

/// Greedy online routing: flows come in random order, each takes the path on which least is, and
/// keeps it.
pub(super) fn greedy(fabric: &Fabric, flows: &[Demand], seed: u64) -> f64 {
    let mut flows = flows.to_vec();
    flows.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
    let mut loads = vec![0.0; fabric.net.cables.len()];
    spain(&fabric.net, &flows, &fabric.capacity, &mut loads, |_: &[usize]| {});
    fullest(fabric, &loads)
}

/// Per-flow hashing over equal-cost cables: at each vertex one of those that lead closer.
pub(super) fn hashed(fabric: &Fabric, flows: &[Demand], seed: u64) -> f64 {
    let net = &fabric.net;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut loads = vec![0.0; net.cables.len()];
    let mut by_target: Vec<&Demand> = flows.iter().collect();
    by_target.sort_by_key(|f| f.to);
    let (mut hops, mut hops_to, mut order) = (Vec::new(), None, Vec::new());
    for flow in by_target {
        if hops_to != Some(flow.to) {
            hops = net.hops_to(flow.to, &mut order);
            hops_to = Some(flow.to);
        }
        let mut at = flow.from;
        while at != flow.to && hops[at] != UNREACHABLE {
            let closer = net.out_of(at).filter(|c| {
                let channel = &net.channels[*c];
                hops[channel.to as usize].checked_add(1) == Some(hops[at])
                    && net.passes(channel, flow.to)
            });
            let cables: Vec<usize> = closer.flat_map(|c| net.channels[c].cables.clone()).collect();
            let cable = cables[random.random_range(0..cables.len())];
            loads[cable] += flow.amount;
            at = net.cables[cable].to as usize;
        }
    }
    fullest(fabric, &loads)
}

/// Paths for all flows such that no cable is overloaded, by negotiation: all are routed, cables
/// that too many want become dearer, and those on them are routed anew (McMurchie and Ebeling's
/// PathFinder, 1995). `None` means that none were found, not that there are none.
pub(super) fn rearranged(
    fabric: &Fabric,
    flows: &[Demand],
    capacity: &[f64],
) -> Option<Vec<Vec<u32>>> {
    let mut negotiation = Negotiation {
        fabric,
        capacity,
        loads: vec![0.0; capacity.len()],
        history: vec![0; capacity.len()],
        pressure: 0.5,
        cost: vec![u64::MAX; fabric.net.vertices()],
        via: vec![u32::MAX; fabric.net.vertices()],
        heap: BinaryHeap::new(),
        touched: Vec::new(),
    };
    let mut paths: Vec<Vec<u32>> = vec![Vec::new(); flows.len()];
    for round in 0..ROUNDS {
        for (flow, path) in flows.iter().zip(&mut paths) {
            let full = path.iter().any(|c| negotiation.is_over(*c as usize, 0.0));
            if round > 0 && !full {
                continue;
            }
            path.iter().for_each(|c| negotiation.loads[*c as usize] -= flow.amount);
            *path = negotiation.cheapest(flow);
            path.iter().for_each(|c| negotiation.loads[*c as usize] += flow.amount);
        }
        let mut settled = true;
        for cable in 0..capacity.len() {
            if negotiation.is_over(cable, 0.0) {
                settled = false;
                negotiation.history[cable] += HISTORY;
            }
        }
        if settled {
            return Some(paths);
        }
        negotiation.pressure = (negotiation.pressure * PRESSURE).min(1e6);
    }
    None
}

struct Negotiation<'a> {
    fabric: &'a Fabric,
    capacity: &'a [f64],
    loads: Vec<f64>,
    /// What a cable costs more for having been wanted by too many.
    history: Vec<u64>,
    pressure: f64,
    cost: Vec<u64>,
    via: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    touched: Vec<usize>,
}

impl Negotiation<'_> {
    /// Whether a cable is overloaded with so much more.
    fn is_over(&self, cable: usize, more: f64) -> bool {
        self.loads[cable] + more > self.capacity[cable] * (1.0 + ROUNDING) + ROUNDING
    }

    fn weight(&self, cable: usize, amount: f64) -> u64 {
        let base = LINK_COST + self.history[cable];
        if !self.is_over(cable, amount) {
            return base;
        }
        let over = self.loads[cable] + amount - self.capacity[cable];
        (base as f64 * (1.0 + self.pressure * over)).min(1e12) as u64
    }

    /// The cables of the cheapest path.
    fn cheapest(&mut self, flow: &Demand) -> Vec<u32> {
        let net = &self.fabric.net;
        self.cost[flow.from] = 0;
        self.touched.push(flow.from);
        self.heap.push(Reverse((0, flow.from as u32)));
        while let Some(Reverse((cost, vertex))) = self.heap.pop() {
            let vertex = vertex as usize;
            if cost > self.cost[vertex] {
                continue;
            }
            if vertex == flow.to {
                break;
            }
            for channel in net.out_of(vertex).map(|c| &net.channels[c]) {
                if !net.passes(channel, flow.to) {
                    continue;
                }
                let weighed = channel.cables.clone().map(|c| (self.weight(c, flow.amount), c));
                let Some((weight, cable)) = weighed.min() else { continue };
                let to = channel.to as usize;
                if cost + weight < self.cost[to] {
                    if self.cost[to] == u64::MAX {
                        self.touched.push(to);
                    }
                    self.cost[to] = cost + weight;
                    self.via[to] = cable as u32;
                    self.heap.push(Reverse((cost + weight, to as u32)));
                }
            }
        }
        let mut path = Vec::new();
        let mut at = flow.to;
        while at != flow.from && self.cost[at] != u64::MAX {
            path.push(self.via[at]);
            at = net.cables[self.via[at] as usize].from as usize;
        }
        path.reverse();
        self.heap.clear();
        self.touched.drain(..).for_each(|v| self.cost[v] = u64::MAX);
        path
    }
}

/// Whether whole flows fit, by trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// They do.
    Yes,
    /// All ways were tried, and none fits.
    No,
    /// There are too many ways.
    Unknown,
}

/// Whether flows of size 1 fit on `circuits` (per channel), by trying all ways: the flow with the
/// fewest ways left first.
pub(super) fn exact(fabric: &Fabric, flows: &[Demand], circuits: &[u64], budget: usize) -> Fit {
    if flows.len() > EXACT_FLOWS_MAX {
        return Fit::Unknown;
    }
    let mut room = circuits.to_vec();
    let mut left: Vec<(usize, usize)> = flows.iter().map(|f| (f.from, f.to)).collect();
    let mut budget = budget;
    try_all(fabric, &mut left, &mut room, &mut budget)
}

fn try_all(
    fabric: &Fabric,
    left: &mut Vec<(usize, usize)>,
    room: &mut [u64],
    budget: &mut usize,
) -> Fit {
    // The flow whose ends are the fullest has the fewest ways to go wrong.
    let net = &fabric.net;
    let open = |(from, to): &(usize, usize), room: &[u64]| -> u64 {
        let out: u64 = net.out_of(*from).map(|c| room[c]).sum();
        let into: u64 = net.into(*to).iter().map(|c| room[*c as usize]).sum();
        out.min(into)
    };
    let Some(next) = (0..left.len()).min_by_key(|i| open(&left[*i], room)) else {
        return Fit::Yes;
    };
    let (from, to) = left.swap_remove(next);
    let mut path = vec![from];
    let fit = walk(fabric, to, &mut path, left, room, budget);
    left.push((from, to));
    let last = left.len() - 1;
    left.swap(next, last);
    fit
}

/// Continues a path in every way that has room, and then the other flows.
fn walk(
    fabric: &Fabric,
    to: usize,
    path: &mut Vec<usize>,
    left: &mut Vec<(usize, usize)>,
    room: &mut [u64],
    budget: &mut usize,
) -> Fit {
    let at = path[path.len() - 1];
    if at == to {
        return try_all(fabric, left, room, budget);
    }
    let mut fit = Fit::No;
    for channel in fabric.net.out_of(at) {
        let next = fabric.net.channels[channel].to as usize;
        let passes = fabric.net.passes(&fabric.net.channels[channel], to);
        if room[channel] == 0 || !passes || path.contains(&next) {
            continue;
        }
        if *budget == 0 {
            return Fit::Unknown;
        }
        *budget -= 1;
        room[channel] -= 1;
        path.push(next);
        let found = walk(fabric, to, path, left, room, budget);
        path.pop();
        room[channel] += 1;
        match found {
            Fit::Yes => return Fit::Yes,
            Fit::Unknown => fit = Fit::Unknown,
            Fit::No => {}
        }
    }
    fit
}
