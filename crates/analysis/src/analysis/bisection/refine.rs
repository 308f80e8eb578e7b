//! Looks for a small cut: halves of several orders of the boxes, each improved by moving boxes
//! (Fiduccia and Mattheyses 1982).

use std::collections::BTreeSet;

use super::Balance;
use crate::analysis::boxes::Boxes;

/// Searches from boxes far apart, besides the other orders.
const SWEEPS: usize = 4;
/// Passes over all boxes that improve one pair of halves.
const PASSES_MAX: usize = 12;
/// Looks at an edge that the search for the Fiedler vector may spend.
const SPECTRAL_WORK: usize = 100_000_000;

/// Two halves, and the cut between them.
pub(super) struct Halves<'a> {
    boxes: &'a Boxes,
    balance: &'a Balance<'a>,
    /// Which half each box is in.
    side: Vec<bool>,
    /// What the half `true` weighs.
    pub(super) weight: u64,
    /// Capacity between the halves.
    pub(super) cut: u128,
}

impl<'a> Halves<'a> {
    pub(super) fn new(boxes: &'a Boxes, balance: &'a Balance<'a>, side: Vec<bool>) -> Halves<'a> {
        let on_side = side.iter().zip(balance.weights).filter(|(side, _)| **side);
        let weight = on_side.map(|(_, weight)| weight).sum();
        let cut = boxes.cut(&side);
        Halves { boxes, balance, side, weight, cut }
    }

    /// How much less the cut is when a box moves.
    fn gain(&self, at: usize) -> i128 {
        let gain = |&(to, link): &(u32, u32)| {
            let capacity = self.boxes.links[link as usize].capacity as i128;
            if self.side[to as usize] == self.side[at] { -capacity } else { capacity }
        };
        self.boxes.edges(at).iter().map(gain).sum()
    }

    /// Moves a box to the other half.
    pub(super) fn flip(&mut self, at: usize) {
        self.cut = self.cut.wrapping_add_signed(-self.gain(at));
        let weight = self.balance.weights[at];
        self.side[at] = !self.side[at];
        self.weight = if self.side[at] { self.weight + weight } else { self.weight - weight };
    }

    /// Moves every box once, always the one that gains most, and goes back to the best halves on
    /// the way. Whether they are better than before.
    fn pass(&mut self) -> bool {
        let heaviest = self.balance.weights.iter().copied().max().unwrap_or(0);
        let loose = self.balance.limit + heaviest;
        let mut gains: Vec<i128> = (0..self.boxes.len()).map(|b| self.gain(b)).collect();
        // By half and whether they weigh anything: those that do not may always move.
        let mut queues: [BTreeSet<(i128, usize)>; 4] = Default::default();
        let queue_of = |side: bool, weight: u64| 2 * usize::from(side) + usize::from(weight > 0);
        for (at, gain) in gains.iter().enumerate() {
            queues[queue_of(self.side[at], self.balance.weights[at])].insert((*gain, at));
        }
        let mut free = vec![true; self.boxes.len()];
        let before = if self.balance.holds(self.weight) { self.cut } else { u128::MAX };
        let (mut best, mut moves, mut kept) = (before, Vec::new(), 0);
        loop {
            let movable = |&(_, at): &(i128, usize)| {
                let weight = self.balance.weights[at];
                let other = match self.side[at] {
                    true => self.balance.total - self.weight + weight,
                    false => self.weight + weight,
                };
                weight == 0 || other <= loose
            };
            let tops = queues.iter().filter_map(|q| q.last().copied()).filter(movable);
            let Some((gain, at)) = tops.max() else { break };
            queues[queue_of(self.side[at], self.balance.weights[at])].remove(&(gain, at));
            free[at] = false;
            self.flip(at);
            moves.push(at);
            for &(to, link) in self.boxes.edges(at) {
                let to = to as usize;
                if !free[to] {
                    continue;
                }
                let queue = &mut queues[queue_of(self.side[to], self.balance.weights[to])];
                queue.remove(&(gains[to], to));
                let twice = 2 * self.boxes.links[link as usize].capacity as i128;
                gains[to] += if self.side[to] == self.side[at] { -twice } else { twice };
                queue.insert((gains[to], to));
            }
            if self.balance.holds(self.weight) && self.cut < best {
                best = self.cut;
                kept = moves.len();
            }
        }
        for at in moves.drain(kept..).rev() {
            self.flip(at);
        }
        best < before
    }
}

/// The best cut found.
pub(in crate::analysis) fn best_cut(boxes: &Boxes, balance: &Balance<'_>) -> Option<u128> {
    let mut orders = vec![(0..boxes.len()).collect::<Vec<_>>()];
    let mut start = 0;
    for _ in 0..SWEEPS {
        let order = breadth_first(boxes, start);
        // The box that is reached last is far from all starts so far.
        start = *order.last()?;
        orders.push(order);
    }
    orders.push(by_fiedler(boxes));
    let mut least = None;
    for order in orders {
        let mut side = vec![false; boxes.len()];
        let mut weight = 0;
        for at in order {
            let own = balance.weights[at];
            if weight + own > balance.limit || 2 * weight >= balance.total {
                break;
            }
            side[at] = true;
            weight += own;
        }
        let mut halves = Halves::new(boxes, balance, side);
        for _ in 0..PASSES_MAX {
            if !halves.pass() {
                break;
            }
        }
        if balance.holds(halves.weight) && least.is_none_or(|l| halves.cut < l) {
            least = Some(halves.cut);
        }
    }
    least
}

/// The boxes as a search from one reaches them; pieces that it does not reach follow.
fn breadth_first(boxes: &Boxes, start: usize) -> Vec<usize> {
    let mut seen = vec![false; boxes.len()];
    let mut order = Vec::with_capacity(boxes.len());
    for start in std::iter::once(start).chain(0..boxes.len()) {
        if seen[start] {
            continue;
        }
        seen[start] = true;
        let mut next = order.len();
        order.push(start);
        while let Some(&at) = order.get(next) {
            next += 1;
            for &(to, _) in boxes.edges(at) {
                if !std::mem::replace(&mut seen[to as usize], true) {
                    order.push(to as usize);
                }
            }
        }
    }
    order
}

/// The boxes by their place in the Laplacian's second eigenvector (Fiedler 1973), found by power
/// iteration: what is far apart in the network is far apart in it.
fn by_fiedler(boxes: &Boxes) -> Vec<usize> {
    let n = boxes.len();
    let strongest = boxes.links.iter().map(|l| l.capacity).max().unwrap_or(1).max(1) as f64;
    let strength = |link: u32| boxes.links[link as usize].capacity as f64 / strongest;
    let degree: Vec<f64> =
        (0..n).map(|b| boxes.edges(b).iter().map(|e| strength(e.1)).sum()).collect();
    let shift = 2.0 * degree.iter().copied().fold(0.0, f64::max);
    // Any start does that is not a multiple of the first eigenvector; this one is the same always.
    let mut at: Vec<f64> = (0..n).map(|i| (i as f64 * 0.618_033_988_749_895).fract()).collect();
    let iterations = (SPECTRAL_WORK / (boxes.edge_count() + n).max(1)).clamp(10, 3000);
    for _ in 0..iterations {
        let mean = at.iter().sum::<f64>() / n as f64;
        at.iter_mut().for_each(|x| *x -= mean);
        let next = (0..n).map(|b| {
            let beside = |&(to, link): &(u32, u32)| at[to as usize] * strength(link);
            let pull: f64 = boxes.edges(b).iter().map(beside).sum();
            (shift - degree[b]) * at[b] + pull
        });
        let next: Vec<f64> = next.collect();
        let norm = next.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        at = next.into_iter().map(|x| x / norm).collect();
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| at[*a].total_cmp(&at[*b]));
    order
}
