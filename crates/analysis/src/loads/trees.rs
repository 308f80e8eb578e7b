//! Cheapest trees to every destination under lengths of channels, and what they certify.
//!
//! Any lengths l >= 0 bound the maximum utilisation from below (LP duality): whatever the routing,
//! `sum of amount * dist_l <= sum of load * l <= max utilisation * sum of capacity * l`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::net::{Commodities, Net};

/// What rounding may have done to a sum of products of a few million positive numbers, generously.
const ROUNDING: f64 = 1e-11;

/// Lengths as a heap orders them: they are never NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Length(f64);

impl Eq for Length {}

impl PartialOrd for Length {
    fn partial_cmp(&self, other: &Length) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Length {
    fn cmp(&self, other: &Length) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Memory of searches over one network.
pub(crate) struct Trees<'a> {
    net: &'a Net,
    /// Of each vertex: its distance, in length and channels, and the channel that it takes.
    best: Vec<(f64, u32, u32)>,
    settled: Vec<bool>,
    order: Vec<u32>,
    heap: BinaryHeap<Reverse<(Length, u32, u32)>>,
    at: Vec<f64>,
}

const FAR: (f64, u32, u32) = (f64::INFINITY, u32::MAX, u32::MAX);

impl<'a> Trees<'a> {
    pub(crate) fn new(net: &'a Net) -> Trees<'a> {
        let n = net.vertices();
        Trees {
            net,
            best: vec![FAR; n],
            settled: vec![false; n],
            order: Vec::new(),
            heap: BinaryHeap::new(),
            at: vec![0.0; n],
        }
    }

    /// Distances to `to` of what has a way there; `order` holds it, nearest first.
    fn search(&mut self, to: usize, lengths: &[f64]) {
        self.best.fill(FAR);
        self.settled.fill(false);
        self.order.clear();
        self.best[to] = (0.0, 0, u32::MAX);
        self.heap.push(Reverse((Length(0.0), 0, to as u32)));
        while let Some(Reverse((Length(length), hops, vertex))) = self.heap.pop() {
            let here = vertex as usize;
            if std::mem::replace(&mut self.settled[here], true) {
                continue;
            }
            self.order.push(vertex);
            if !self.net.forwards[here] && here != to {
                continue;
            }
            for &channel in self.net.into(here) {
                let from = self.net.channels[channel as usize].from as usize;
                let total = length + lengths[channel as usize];
                let old = &mut self.best[from];
                if !self.settled[from] && (total, hops + 1) < (old.0, old.1) {
                    *old = (total, hops + 1, channel);
                    self.heap.push(Reverse((Length(total), hops + 1, from as u32)));
                }
            }
        }
    }

    /// Lays all commodities on cheapest trees, if `loads` (per channel) is given; returns the sum
    /// of amount times distance.
    pub(crate) fn lay(
        &mut self,
        commodities: &Commodities,
        lengths: &[f64],
        mut loads: Option<&mut [f64]>,
    ) -> f64 {
        let mut sum = Sum::default();
        for (to, sources) in commodities {
            self.search(*to, lengths);
            for (from, amount) in sources {
                sum.add(amount * self.best[*from].0);
                self.at[*from] += amount;
            }
            let Some(loads) = loads.as_deref_mut() else {
                sources.iter().for_each(|(from, _)| self.at[*from] = 0.0);
                continue;
            };
            for vertex in self.order.iter().rev().map(|v| *v as usize) {
                let amount = std::mem::take(&mut self.at[vertex]);
                let channel = self.best[vertex].2;
                if amount > 0.0 && channel != u32::MAX {
                    loads[channel as usize] += amount;
                    self.at[self.net.channels[channel as usize].to as usize] += amount;
                }
            }
        }
        sum.total()
    }
}

/// A lower bound on the maximum utilisation, from the sum of amount times distance and the lengths
/// that it was measured with. Channels without bound must have length 0.
pub(crate) fn certified(amount_times_distance: f64, lengths: &[f64], capacity: &[f64]) -> f64 {
    let mut volume = Sum::default();
    for (length, capacity) in lengths.iter().zip(capacity).filter(|(l, _)| **l > 0.0) {
        volume.add(length * capacity);
    }
    let bound = amount_times_distance / volume.total() * (1.0 - ROUNDING);
    if bound.is_finite() { bound } else { 0.0 }
}

/// Bounds that need no search for lengths: the mean (every channel has length 1, or the inverse of
/// its capacity), and what must enter or leave each vertex.
pub(crate) fn simple_bounds(net: &Net, commodities: &Commodities, capacity: &[f64]) -> f64 {
    let mut trees = Trees::new(net);
    let ones: Vec<f64> = capacity.iter().map(|c| if c.is_finite() { 1.0 } else { 0.0 }).collect();
    let inverse: Vec<f64> = capacity.iter().map(|c| 1.0 / c).collect();
    let mut bound = 0.0_f64;
    for lengths in [ones, inverse] {
        bound = bound.max(certified(trees.lay(commodities, &lengths, None), &lengths, capacity));
    }
    let mut sent = vec![0.0; net.vertices()];
    for (to, sources) in commodities {
        let entering: f64 = net.into(*to).iter().map(|c| capacity[*c as usize]).sum();
        let received: f64 = sources.iter().map(|s| s.1).sum();
        bound = bound.max(received / entering * (1.0 - ROUNDING));
        sources.iter().for_each(|(from, amount)| sent[*from] += amount);
    }
    for vertex in (0..net.vertices()).filter(|v| sent[*v] > 0.0) {
        let leaving: f64 = net.out_of(vertex).map(|c| capacity[c]).sum();
        bound = bound.max(sent[vertex] / leaving * (1.0 - ROUNDING));
    }
    bound
}

/// A sum that carries its rounding errors along (Neumaier).
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        let total = self.sum + value;
        let (large, small) =
            if self.sum.abs() >= value.abs() { (self.sum, value) } else { (value, self.sum) };
        self.lost += (large - total) + small;
        self.sum = total;
    }

    fn total(self) -> f64 {
        self.sum + self.lost
    }
}
