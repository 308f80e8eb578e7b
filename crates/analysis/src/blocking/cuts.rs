//! Cuts: what the hosts on one side can send to those on the other, against what the channels
//! between the sides carry. A cut that is too narrow proves that some permutation blocks, split or
//! not.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::fabric::{Fabric, ROUNDING};

/// Most vertices of which all cuts are tried.
const EXHAUSTIVE_MAX: usize = 18;
/// Random cuts that are improved step by step, in small networks.
const STARTS: usize = 24;
/// Moves of a vertex over a cut that are weighed in all, about.
const WORK: usize = 30_000_000;

/// A cut: one side of it, and what crosses it from there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cut {
    /// Of each vertex: whether it is on the sending side.
    pub(super) side: Vec<bool>,
    /// In units of the fastest host.
    pub(super) demand: f64,
    pub(super) capacity: f64,
}

impl Cut {
    /// Whether it proves that something blocks.
    pub(super) fn is_too_narrow(&self) -> bool {
        self.demand > self.capacity * (1.0 + ROUNDING) + ROUNDING
    }

    fn slack(&self) -> f64 {
        self.capacity - self.demand
    }
}

/// What is demanded across a cut.
pub(super) enum Across<'a> {
    /// The worst that a permutation can.
    Worst,
    /// What this permutation does.
    Of(&'a [usize]),
}

/// The cut with the least slack: of all in a small network, of many likely ones in a large one.
/// `None` with fewer than two vertices.
pub(super) fn narrowest(fabric: &Fabric, across: &Across<'_>, seed: u64) -> Option<Cut> {
    let core = fabric.core();
    if core.len() < 2 {
        return None;
    }
    let weigh = |side: Vec<bool>| {
        let demand = demand(fabric, across, &side);
        Cut { demand, capacity: capacity(fabric, &side), side }
    };
    let mut best = weigh(side_of(fabric, &core[..1]));
    let mut keep = |cut: Cut| {
        if cut.slack() < best.slack() - ROUNDING {
            best = cut;
        }
    };
    if core.len() <= EXHAUSTIVE_MAX {
        // The last vertex stays on the other side; the other direction of each cut is tried too,
        // since channels may differ in it only by what is demanded.
        let mut side = vec![false; fabric.net.vertices()];
        for i in 1..1_u32 << (core.len() - 1) {
            // Gray code: one vertex changes sides.
            let vertex = core[i.trailing_zeros() as usize];
            side[vertex] = !side[vertex];
            keep(weigh(side.clone()));
            if matches!(across, Across::Of(_)) {
                keep(weigh(side.iter().map(|s| !s).collect()));
            }
        }
        return Some(best);
    }
    // Around each vertex everything as near as the n-th: the edges of what grows from there.
    let cost = fabric.net.channels.len() + fabric.hosts.len();
    let balls = (WORK / cost / 8).clamp(1, core.len());
    for vertex in core.iter().step_by(core.len().div_ceil(balls)) {
        let mut order = Vec::new();
        let hops = fabric.net.hops_to(*vertex, &mut order);
        for radius in 0.. {
            let near = |v: &usize| hops[*v] <= radius;
            let ball: Vec<usize> = core.iter().copied().filter(near).collect();
            if ball.len() == core.len() || radius as usize > core.len() {
                break;
            }
            keep(weigh(side_of(fabric, &ball)));
        }
    }
    // The file's order is often that of a dimension: prefixes of it.
    for size in (1..core.len()).step_by(core.len().div_ceil(balls)) {
        keep(weigh(side_of(fabric, &core[..size])));
    }
    keep(weigh(side_of(fabric, &core[..core.len() / 2])));
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let starts = (WORK / cost / core.len()).clamp(1, STARTS);
    let mut shuffled = core.clone();
    for _ in 0..starts {
        shuffled.shuffle(&mut random);
        let size = random.random_range(1..core.len());
        let cut = weigh(side_of(fabric, &shuffled[..size]));
        keep(descend(fabric, across, cut, &core));
    }
    Some(best)
}

/// Moves single vertices over a cut while that takes slack away.
fn descend(fabric: &Fabric, across: &Across<'_>, mut cut: Cut, core: &[usize]) -> Cut {
    for _ in 0..core.len() {
        let mut moved = false;
        for &vertex in core {
            let mut side = cut.side.clone();
            side[vertex] = !side[vertex];
            let capacity = cut.capacity + gained(fabric, &cut.side, vertex);
            // Cheap before dear: what crosses changes by no more than the vertex's hosts.
            if capacity - cut.capacity > fabric.need[vertex] as f64 + ROUNDING {
                continue;
            }
            let next = Cut { demand: demand(fabric, across, &side), capacity, side };
            if next.slack() < cut.slack() - ROUNDING {
                cut = next;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    // Added up step by step, the capacity may have lost what adds up anew.
    let capacity = capacity(fabric, &cut.side);
    Cut { capacity, ..cut }
}

/// By how much the capacity of a cut grows when a vertex changes sides.
fn gained(fabric: &Fabric, side: &[bool], vertex: usize) -> f64 {
    let net = &fabric.net;
    let out = net.out_of(vertex).map(|c| (c, net.channels[c].to as usize, true));
    let into = net.into(vertex).iter().map(|c| *c as usize);
    let into = into.map(|c| (c, net.channels[c].from as usize, false));
    let change = |(channel, other, outward): (usize, usize, bool)| {
        // A channel counts when it leads from the sending side to the other.
        let (now, then) = match outward {
            true => (side[vertex] && !side[other], !side[vertex] && !side[other]),
            false => (side[other] && !side[vertex], side[other] && side[vertex]),
        };
        let width = if is_access(fabric, channel) { 0.0 } else { fabric.width[channel] };
        width * (f64::from(u8::from(then)) - f64::from(u8::from(now)))
    };
    out.chain(into).map(change).sum()
}

/// Whether a channel belongs to a host that its node stands for: it is never cut.
fn is_access(fabric: &Fabric, channel: usize) -> bool {
    let channel = &fabric.net.channels[channel];
    [channel.from, channel.to].iter().any(|v| fabric.net.access(*v as usize).is_some())
}

fn side_of(fabric: &Fabric, vertices: &[usize]) -> Vec<bool> {
    let mut side = vec![false; fabric.net.vertices()];
    vertices.iter().for_each(|v| side[*v] = true);
    side
}

fn capacity(fabric: &Fabric, side: &[bool]) -> f64 {
    let channels = fabric
        .net
        .channels
        .iter()
        .enumerate()
        .filter(|(_, channel)| side[channel.from as usize] && !side[channel.to as usize]);
    channels.filter(|(i, _)| !is_access(fabric, *i)).map(|(i, _)| fabric.width[i]).sum()
}

fn demand(fabric: &Fabric, across: &Across<'_>, side: &[bool]) -> f64 {
    match across {
        Across::Of(to) => {
            let crossing = to
                .iter()
                .enumerate()
                .filter(|(from, to)| side[fabric.at[*from]] && !side[fabric.at[**to]]);
            crossing.map(|(from, to)| fabric.rate[from].min(fabric.rate[*to])).sum()
        }
        Across::Worst => pairs_across(fabric, side)
            .map(|(from, to)| fabric.rate[from].min(fabric.rate[to]))
            .sum(),
    }
}

/// Hosts of the sending side with hosts of the other, such that most is demanded: fastest with
/// fastest.
fn pairs_across<'a>(
    fabric: &'a Fabric,
    side: &[bool],
) -> impl Iterator<Item = (usize, usize)> + use<'a> {
    let of = |sending: bool| {
        let hosts = (0..fabric.hosts.len()).filter(|h| side[fabric.at[*h]] == sending);
        let mut hosts: Vec<usize> = hosts.collect();
        if !fabric.even() {
            hosts.sort_by(|a, b| fabric.rate[*b].total_cmp(&fabric.rate[*a]));
        }
        hosts
    };
    of(true).into_iter().zip(of(false))
}

/// The permutation that sends most across a cut: pairs of hosts swap, the rest is silent.
pub(super) fn swap_across(fabric: &Fabric, cut: &Cut) -> Vec<usize> {
    let mut to: Vec<usize> = (0..fabric.hosts.len()).collect();
    for (a, b) in pairs_across(fabric, &cut.side) {
        to.swap(a, b);
    }
    to
}
