//! Permutations that are known to be hard, and random ones.

use std::collections::BTreeSet;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::cuts::{Cut, swap_across};
use super::fabric::Fabric;
use crate::loads::{hops, net::Net};

/// Shifts that are tried, evenly over all there are.
const SHIFTS: usize = 16;
/// Swaps that the search for a worse permutation tries.
const SWAPS: usize = 300;
/// Channels looked at for one worse permutation, about.
const SWAP_WORK: usize = 20_000_000;

/// A permutation with its name: host i sends to `to[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) name: String,
    pub(super) to: Vec<usize>,
}

/// About `count` different permutations: the structured ones first, then random ones, then ones
/// that a search has made worse.
pub(super) fn patterns(
    fabric: &Fabric,
    cut: Option<&Cut>,
    count: usize,
    seed: u64,
) -> Vec<Pattern> {
    let n = fabric.hosts.len();
    let mut found = Vec::new();
    let mut put = |name: &str, to: Vec<usize>| {
        found.push(Pattern { name: name.to_string(), to });
    };
    put("reversal", (0..n).rev().collect());
    if n.is_power_of_two() && n > 1 {
        let bits = n.trailing_zeros();
        let reversed = |i: usize| (i as u64).reverse_bits() >> (64 - bits);
        put("bit reversal", (0..n).map(|i| reversed(i) as usize).collect());
        put("perfect shuffle", (0..n).map(|i| (2 * i) % n + 2 * i / n).collect());
    }
    let root = n.isqrt();
    if root * root == n && root > 1 {
        put("transpose", (0..n).map(|i| i % root * root + i / root).collect());
    }
    for shift in (1..n).step_by((n.saturating_sub(1)).div_ceil(SHIFTS).max(1)) {
        put(&format!("shift by {shift}"), (0..n).map(|i| (i + shift) % n).collect());
    }
    put("shift by half", (0..n).map(|i| (i + n / 2) % n).collect());
    if let Some(cut) = cut {
        put("swap across the narrowest cut", swap_across(fabric, cut));
    }
    put("farthest", farthest(fabric));
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let worse = count.saturating_sub(found.len()) / 8 + 1;
    while found.len() + worse < count {
        let mut to: Vec<usize> = (0..n).collect();
        to.shuffle(&mut random);
        found.push(Pattern { name: "random".to_string(), to });
    }
    for _ in 0..worse {
        let to = worsened(fabric, &mut random);
        found.push(Pattern { name: "random, made worse".to_string(), to });
    }
    let mut seen = BTreeSet::new();
    found.retain(|pattern| seen.insert(pattern.to.clone()));
    found
}

/// Every host to the farthest that nobody has chosen yet.
fn farthest(fabric: &Fabric) -> Vec<usize> {
    let n = fabric.hosts.len();
    let mut free: Vec<Vec<usize>> = vec![Vec::new(); fabric.net.vertices()];
    (0..n).rev().for_each(|host| free[fabric.at[host]].push(host));
    let mut order = Vec::new();
    let mut hops_of = None;
    let choose = |host: usize| {
        if hops_of != Some(fabric.at[host]) {
            fabric.net.hops_to(fabric.at[host], &mut order);
            hops_of = Some(fabric.at[host]);
        }
        let far = order.iter().rev().map(|v| *v as usize).find(|v| !free[*v].is_empty());
        far.and_then(|v| free[v].pop()).unwrap_or(host)
    };
    (0..n).map(choose).collect()
}

/// A random permutation whose destinations are swapped as long as that loads the fullest channel
/// more, by equal shares over shortest paths.
fn worsened(fabric: &Fabric, random: &mut Pcg64Mcg) -> Vec<usize> {
    let n = fabric.hosts.len();
    let mut to: Vec<usize> = (0..n).collect();
    to.shuffle(random);
    let cost = fabric.core().len() * fabric.net.channels.len();
    let mut most = fullest(fabric, &to);
    for _ in 0..SWAPS.min(SWAP_WORK / cost.max(1)) {
        let (a, b) = (random.random_range(0..n), random.random_range(0..n));
        to.swap(a, b);
        let now = fullest(fabric, &to);
        if now < most {
            to.swap(a, b);
        }
        most = most.max(now);
    }
    to
}

fn fullest(fabric: &Fabric, to: &[usize]) -> f64 {
    let net: &Net = &fabric.net;
    let core = net.core(&fabric.demands(to));
    let mut loads = vec![0.0; net.cables.len()];
    hops::ecmp(net, &core.commodities, &mut loads);
    loads.iter().zip(&fabric.capacity).map(|(l, c)| l / c).fold(0.0, f64::max)
}
