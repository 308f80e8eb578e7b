//! A day of routing updates for the prefixes of a real table. The updates are made, not recorded.
//!
//! The law is that of the churn test of `plexus-cli`: bursts at exponential intervals, sizes by
//! Pareto's law (exponent 1.2), prefixes by Zipf's law (exponent 1) over a random order; of ten
//! updates one withdraws its route if there is one, the others bring other next hops, one in twenty
//! of them two. It has the published shape: 15,000 to 20,000 withdrawals a day among some ten times
//! as many updates (Huston, "BGP in 2021 - BGP Updates"), and few prefixes with most of the updates
//! (Rexford et al., "BGP Routing Stability of Popular Destinations", 2002).

use std::io::Read;

use plexus_wire::Prefix;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::tables::{Change, Hops};

const TABLE: &[u8] = include_bytes!("../../../table/data/prefixes.txt.gz");

/// About so many prefixes of the table: whole stretches of it, so that prefixes cover others as
/// often as in the table.
pub(crate) fn prefixes(count: usize) -> Vec<Prefix> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(TABLE).read_to_string(&mut text).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    const STRETCH: usize = 250;
    let every = (lines.len() * STRETCH / count.max(STRETCH)).max(STRETCH);
    let stretches = lines.chunks(every).flat_map(|lines| &lines[..lines.len().min(STRETCH)]);
    stretches.map(|line| line.parse().unwrap()).collect()
}

/// The updates to come.
pub(crate) struct Day {
    /// The most unstable prefix first.
    order: Vec<Prefix>,
    is_there: Vec<bool>,
    hops: u32,
    bursts_per_s: f64,
    /// When the next burst comes, in seconds.
    at: f64,
    random: Pcg64,
}

impl Day {
    /// Updates at a mean rate, with so many next hops.
    pub(crate) fn new(prefixes: &[Prefix], per_s: f64, hops: u32, mut random: Pcg64) -> Day {
        let mut order = prefixes.to_vec();
        order.shuffle(&mut random);
        let is_there = vec![true; order.len()];
        // The mean of Pareto's law is 1.2 / (1.2 - 1), less what its limit cuts off.
        Day { order, is_there, hops, bursts_per_s: per_s / 4.0, at: 0.0, random }
    }

    /// The most unstable prefix first.
    pub(crate) fn order(&self) -> &[Prefix] {
        &self.order
    }

    /// A route for every prefix.
    pub(crate) fn whole(&mut self) -> Vec<Change> {
        let order = self.order.clone();
        order.into_iter().map(|prefix| (prefix, self.draw())).collect()
    }

    fn draw(&mut self) -> Hops {
        let first = Hops::one(self.random.random_range(0..self.hops));
        match self.random.random_range(0..20) {
            0 => first.with(Hops::one(self.random.random_range(0..self.hops))),
            _ => first,
        }
    }

    /// The updates that are due by this second.
    pub(crate) fn due(&mut self, second: f64) -> Vec<Change> {
        let mut changes = vec![];
        while self.at <= second {
            let pause = -self.random.random::<f64>().max(1e-9).ln();
            self.at += pause / self.bursts_per_s;
            let size = (1.0 / self.random.random::<f64>().max(1e-9)).powf(1.0 / 1.2);
            for _ in 0..(size as usize).min(self.order.len()) {
                // Zipf's law by its inverse: the logarithm of the rank is uniform.
                let rank = (self.order.len() as f64).powf(self.random.random::<f64>()) as usize - 1;
                let rank = rank.min(self.order.len() - 1);
                let goes = self.is_there[rank] && self.random.random_range(0..10) == 0;
                self.is_there[rank] = !goes;
                let hops = if goes { Hops::default() } else { self.draw() };
                changes.push((self.order[rank], hops));
            }
        }
        changes
    }
}
