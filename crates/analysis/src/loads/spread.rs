//! Fractional routing of any size: all traffic on cheapest paths under lengths that grow
//! exponentially with a channel's utilisation, a share of it moved there in each round (Frank and
//! Wolfe's method on the exponential potential of Shahrokhi and Matula, 1990). Every round's
//! lengths certify a lower bound, so how far a result is from the best is known.

use super::net::{Commodities, Net};
use super::trees::{Trees, certified};

/// Channels looked at in all rounds together, about.
const WORK: usize = 60_000_000;
const ROUNDS_MIN: usize = 12;
const ROUNDS_MAX: usize = 2000;
/// How much of the lengths is of the newest loads: averaged, they swing less from one cheapest way
/// to another, and certify more.
const FRESH: f64 = 0.2;
/// Good enough: the maximum is within this of the bound.
const CLOSE: f64 = 0.002;

/// Loads of channels, and what is known of the best maximum utilisation.
pub(crate) struct Spread {
    pub(crate) loads: Vec<f64>,
    /// No routing over the paths that were searched has a smaller maximum utilisation.
    pub(crate) bound: f64,
}

/// All ways are open.
pub(crate) fn over_trees(net: &Net, commodities: &Commodities, capacity: &[f64]) -> Spread {
    let mut trees = Trees::new(net);
    let rounds = WORK / (commodities.len() * net.channels.len()).max(1);
    spread(capacity, rounds, |lengths, loads| trees.lay(commodities, lengths, Some(loads)))
}

/// Only these paths are open: of each pair, its amount and its paths.
pub(crate) fn over_paths(pairs: &[(f64, Vec<Vec<u32>>)], capacity: &[f64]) -> Spread {
    let steps: usize = pairs.iter().flat_map(|p| &p.1).map(Vec::len).sum();
    spread(capacity, WORK / steps.max(1), |lengths, loads| {
        let mut sum = 0.0;
        for (amount, paths) in pairs {
            let weighed = paths.iter().map(|path| {
                let length: f64 = path.iter().map(|c| lengths[*c as usize]).sum();
                (length, path)
            });
            let Some((length, path)) = weighed.reduce(|a, b| if b.0 < a.0 { b } else { a }) else {
                continue;
            };
            sum += amount * length;
            path.iter().for_each(|c| loads[*c as usize] += amount);
        }
        sum
    })
}

fn spread(
    capacity: &[f64],
    rounds: usize,
    mut lay: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Spread {
    let bounded = |c: &f64| c.is_finite();
    let mut lengths: Vec<f64> =
        capacity.iter().map(|c| if bounded(c) { 1.0 / c } else { 0.0 }).collect();
    let mut loads = vec![0.0; capacity.len()];
    let sum = lay(&lengths, &mut loads);
    let mut bound = certified(sum, &lengths, capacity);
    let mut best = (max_utilisation(&loads, capacity), loads.clone());
    let spaciousness = (capacity.len().max(2) as f64).ln();
    for _ in 0..rounds.clamp(ROUNDS_MIN, ROUNDS_MAX) {
        let max = max_utilisation(&loads, capacity);
        if best.0 <= bound * (1.0 + CLOSE) || max == 0.0 {
            break;
        }
        // The sharper, the closer the potential is to the maximum, and the smaller the steps: it
        // is sharpened as the gap closes.
        let gap = if bound > 0.0 { best.0 / bound - 1.0 } else { 1.0 };
        let sharp = spaciousness / (gap / 3.0).clamp(CLOSE, 0.3);
        for ((length, load), capacity) in lengths.iter_mut().zip(&loads).zip(capacity) {
            if bounded(capacity) {
                let steep = (sharp * (load / capacity / max - 1.0)).exp() / capacity;
                *length += FRESH * (steep - *length);
            }
        }
        let mut target = vec![0.0; capacity.len()];
        let sum = lay(&lengths, &mut target);
        bound = bound.max(certified(sum, &lengths, capacity));
        let potential = |step: f64| -> f64 {
            let blended = loads.iter().zip(&target).zip(capacity).filter(|(_, c)| bounded(c));
            let term = |((old, new), capacity): ((&f64, &f64), &f64)| {
                let utilisation = ((1.0 - step) * old + step * new) / capacity;
                (sharp * (utilisation / max - 1.0)).exp()
            };
            blended.map(term).sum()
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..24 {
            let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if potential(a) <= potential(b) { high = b } else { low = a }
        }
        let step = (low + high) / 2.0;
        for (old, new) in loads.iter_mut().zip(&target) {
            *old += step * (new - *old);
        }
        let max = max_utilisation(&loads, capacity);
        if max < best.0 {
            best = (max, loads.clone());
        }
    }
    Spread { loads: best.1, bound }
}

/// The greatest load over capacity.
pub(crate) fn max_utilisation(loads: &[f64], capacity: &[f64]) -> f64 {
    loads.iter().zip(capacity).map(|(load, capacity)| load / capacity).fold(0.0, f64::max)
}
