//! A chip that misbehaves: it refuses, delays and loses operations, and its counters
//! lie.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_table::PackedFlow;
use plexus_wire::Time;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::chip::{Busy, Chip, Op, Outcome, Report, Way};

/// How often a chip misbehaves; probabilities from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Faults {
    /// Operations that are refused.
    pub(super) refuse: f64,
    /// Operations that are never done, and never reported.
    pub(super) lose: f64,
    /// Operations that are done and never reported.
    pub(super) lose_report: f64,
    /// Counters that are any number.
    pub(super) lie: f64,
    /// Reports come up to this much late, and out of order.
    pub(super) delay: Duration,
}

/// A chip with faults.
pub(super) struct Faulty<C> {
    chip: C,
    faults: Faults,
    rng: Pcg64Mcg,
    /// Reports, by the time at which they come.
    late: BTreeMap<(Time, u64), Outcome>,
}

impl<C: Chip> Faulty<C> {
    /// The same seed gives the same faults.
    pub(super) fn new(chip: C, faults: Faults, seed: u64) -> Faulty<C> {
        Faulty { chip, faults, rng: Pcg64Mcg::seed_from_u64(seed), late: BTreeMap::new() }
    }

    /// Changes the faults.
    pub(super) fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The chip without faults.
    pub(super) fn chip(&self) -> &C {
        &self.chip
    }

    fn is(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability.clamp(0.0, 1.0))
    }
}

impl<C: Chip> Chip for Faulty<C> {
    fn capacity(&self) -> usize {
        self.chip.capacity()
    }

    fn submit(&mut self, now: Time, number: u64, op: Op) -> Result<(), Busy> {
        if self.is(self.faults.refuse) {
            self.late.insert((now, number), Outcome::Refused);
            return Ok(());
        }
        match self.is(self.faults.lose) {
            true => Ok(()),
            false => self.chip.submit(now, number, op),
        }
    }

    fn poll(&mut self, now: Time) -> Option<Report> {
        while let Some((number, mut outcome)) = self.chip.poll(now) {
            if self.is(self.faults.lose_report) {
                continue;
            }
            if matches!(outcome, Outcome::Bytes(_)) && self.is(self.faults.lie) {
                outcome = Outcome::Bytes(self.rng.next_u64() >> self.rng.random_range(0..64));
            }
            let delay = self.faults.delay.mul_f64(self.rng.random::<f64>());
            self.late.insert((now + delay, number), outcome);
        }
        let first = self.late.first_entry().filter(|report| report.key().0 <= now)?;
        Some((first.key().1, first.remove()))
    }

    fn next(&self) -> Option<Time> {
        self.late.keys().next().map(|(at, _)| *at).into_iter().chain(self.chip.next()).min()
    }

    fn packet(&mut self, flow: &PackedFlow, bytes: u32, packets: u32) -> Way {
        self.chip.packet(flow, bytes, packets)
    }
}
