//! The least capacity between two halves of a network.
//!
//! A half holds half of the hosts' cables (of the nodes where there are no hosts), as nearly as
//! whole boxes allow; boxes without are where the cut is least. Finding it is NP-hard, so small
//! networks are searched through, shapes whose answer is a theorem are recognised, and for the rest
//! the best cut found stands beside a bound that no cut can be below.

pub(super) mod refine;

use plexus_topo::{Known, Shape};
use serde::Serialize;

use crate::analysis::boxes::Boxes;
use refine::Halves;

/// Up to so many boxes, all halves are tried.
const EXHAUSTIVE_MAX: usize = 20;
/// Above this many links, no cut is looked for.
const LINKS_MAX: usize = 1 << 20;

/// The least capacity between two halves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bisection {
    /// Of the least cut found, in each direction: bits/s, or cables where a link has no rate.
    pub capacity: f64,
    /// `bits/s` or `cables`.
    pub unit: &'static str,
    /// No cut is below this; `None` where no bound was worked out.
    pub lower_bound: Option<f64>,
    /// Why `capacity` is the least, or that it may not be.
    pub certainty: Certainty,
}

/// How far a bisection is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// All halves were tried.
    Exhaustive,
    /// A theorem about this shape says so.
    Known,
    /// It meets the lower bound.
    Bound,
    /// The best cut found: the least may be smaller, down to the lower bound.
    BestFound,
}

/// What the halves have to hold.
pub(crate) struct Balance<'a> {
    /// Weight of each box.
    pub(crate) weights: &'a [u64],
    /// All of it.
    pub(crate) total: u64,
    /// The most that one half may hold.
    pub(crate) limit: u64,
}

impl<'a> Balance<'a> {
    /// Halves of these weights; `None` where one box has all of it.
    pub(super) fn new(weights: &'a [u64]) -> Option<Balance<'a>> {
        let total: u64 = weights.iter().sum();
        let heaviest = weights.iter().copied().max()?;
        let limit = heaviest.max((total + heaviest) / 2);
        (heaviest < total).then_some(Balance { weights, total, limit })
    }

    /// Whether halves of which one weighs this are as equal as can be.
    pub(crate) fn holds(&self, weight: u64) -> bool {
        weight <= self.limit && self.total - weight <= self.limit
    }
}

impl Boxes {
    /// What each box weighs in halves: its hosts' cables, or 1 for a node where there are none.
    pub(crate) fn weights(&self) -> Vec<u64> {
        match self.host_cables.iter().any(|h| *h > 0) {
            true => self.host_cables.clone(),
            false => (0..self.len()).map(|b| u64::from(b < self.nodes)).collect(),
        }
    }

    /// The least cut between halves of these weights. `load_max` is the greatest load of a link
    /// for its capacity when every unit of weight sends one to every other.
    pub(crate) fn bisection(
        &self,
        weights: &[u64],
        load_max: Option<f64>,
        known: Option<&Known>,
    ) -> Option<Bisection> {
        let balance = Balance::new(weights)?;
        if self.links.len() > LINKS_MAX {
            return None;
        }
        let unit = if self.rated { "bits/s" } else { "cables" };
        let told = |capacity: u128, lower_bound, certainty| {
            Some(Bisection { capacity: capacity as f64, unit, lower_bound, certainty })
        };
        if self.len() <= EXHAUSTIVE_MAX {
            let least = self.exhaustive(&balance)?;
            return told(least, Some(least as f64), Certainty::Exhaustive);
        }
        if let Some(least) = known.and_then(|k| self.theorem(k, &balance)) {
            return told(least, Some(least as f64), Certainty::Known);
        }
        let least = refine::best_cut(self, &balance)?;
        let bound = load_max.map(|load| self.flow_bound(&balance, load));
        let certainty = match bound {
            Some(bound) if bound >= least => Certainty::Bound,
            _ => Certainty::BestFound,
        };
        told(least, bound.map(|b| b as f64), certainty)
    }

    /// Capacity of the links between the boxes on a side and the others.
    pub(crate) fn cut(&self, side: &[bool]) -> u128 {
        let crosses = |ends: [u32; 2]| side[ends[0] as usize] != side[ends[1] as usize];
        self.links.iter().filter(|l| crosses(l.ends)).map(|l| l.capacity).sum()
    }

    /// All halves, each from the one before by moving one box (a Gray code); the last box stays.
    fn exhaustive(&self, balance: &Balance<'_>) -> Option<u128> {
        let mut halves = Halves::new(self, balance, vec![false; self.len()]);
        let mut least = None;
        for code in 1..1_u32 << (self.len() - 1) {
            halves.flip(code.trailing_zeros() as usize);
            if balance.holds(halves.weight) && least.is_none_or(|l| halves.cut < l) {
                least = Some(halves.cut);
            }
        }
        least
    }

    /// The least cut of a shape, if its hosts and links are as even as the theorem wants.
    pub(super) fn theorem(&self, known: &Known, balance: &Balance<'_>) -> Option<u128> {
        let first = self.links.first()?.capacity;
        let even_links = self.links.iter().all(|l| l.capacity == first);
        let mut sites = known.host_nodes();
        let site_weight = balance.weights[*sites.first()?];
        sites.sort_unstable();
        let even_sites = sites.iter().all(|s| balance.weights[*s] == site_weight)
            && balance.total == site_weight * sites.len() as u64;
        if !even_links || !even_sites {
            return None;
        }
        let half = sites[sites.len() / 2];
        let on_side: Box<dyn Fn(usize) -> bool> = match known.shape {
            // Each box in the middle has one link to each leaf: whatever its side, half of them
            // cross.
            Shape::Star { leaves } => Box::new(move |b| b > leaves - leaves / 2),
            Shape::Clos { .. } | Shape::TwoStage { .. } => Box::new(move |b| b < half),
            // With k/2 hosts on each edge it carries any permutation (Al-Fares et al. 2008), so
            // one that pairs the halves: no cut is below half the hosts. Halves of pods reach it.
            Shape::FatTree { ports } => {
                let edges = ports * ports / 2;
                Box::new(move |b| b < 2 * edges && b % edges / (ports / 2) < ports / 2)
            }
            // The first vertices of a product of complete graphs in lexicographic order have the
            // fewest links to the others (Lindsey 1964).
            Shape::Butterfly { .. } => Box::new(move |b| b < half),
            _ => return None,
        };
        Some(self.cut(&(0..self.len()).map(on_side).collect::<Vec<_>>()))
    }

    /// What must cross any cut, for the capacity that carries it: each unit of weight on one side
    /// sends one to each on the other, and routes are known that load no link more than `load`.
    pub(super) fn flow_bound(&self, balance: &Balance<'_>, load: f64) -> u128 {
        let least_crossing = balance.limit as f64 * (balance.total - balance.limit) as f64;
        let step = self.links.iter().map(|l| l.capacity).fold(0, gcd);
        if load <= 0.0 || step == 0 {
            return 0;
        }
        // A cut is a sum of capacities; the margin is for the sums of floats.
        let steps = (least_crossing / load / step as f64 * (1.0 - 1e-9)).ceil();
        steps as u128 * step
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}
