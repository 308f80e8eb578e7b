//! A host that keeps sending ARP requests: the generator of `axon.txt` §5, "used as a lower
//! overhead means to simulate host discovery". Its requests and their answers are those of any
//! host.

use std::net::Ipv4Addr;
use std::sync::Arc;

use plexus_topo::{ArpLoad, ArpTargets};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::time::SimTime;

/// Attempts to draw a target that is not known yet. A host that draws none skips its turn.
const DRAWS: usize = 16;

/// The addresses that can be asked for.
pub(crate) struct Targets {
    addresses: Vec<Ipv4Addr>,
    /// The cumulative probability of each address; empty if all are equally likely.
    cumulative: Vec<f64>,
}

impl Targets {
    /// The hosts with these addresses. The popular ones are drawn at random.
    pub(crate) fn new(
        kind: ArpTargets,
        mut addresses: Vec<Ipv4Addr>,
        random: &mut impl RngExt,
    ) -> Targets {
        let mut cumulative = vec![];
        if kind == ArpTargets::Popular {
            for last in (1..addresses.len()).rev() {
                addresses.swap(last, random.random_range(0..=last));
            }
            let mut sum = 0.0;
            cumulative.extend((1..=addresses.len()).map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            }));
            cumulative.iter_mut().for_each(|c| *c /= sum);
        }
        Targets { addresses, cumulative }
    }

    fn draw(&self, random: &mut Pcg64Mcg) -> Option<Ipv4Addr> {
        let count = self.addresses.len();
        if count == 0 {
            return None;
        }
        let index = match self.cumulative.is_empty() {
            true => random.random_range(0..count),
            false => {
                let at: f64 = random.random();
                self.cumulative.partition_point(|c| *c <= at).min(count - 1)
            }
        };
        Some(self.addresses[index])
    }
}

/// What one host still has to ask.
pub(crate) struct Asker {
    targets: Arc<Targets>,
    pub(crate) next: SimTime,
    every: SimTime,
    until: SimTime,
    random: Pcg64Mcg,
}

impl Asker {
    /// Asks from `now` on, first within one interval.
    pub(crate) fn new(
        load: &ArpLoad,
        targets: Arc<Targets>,
        now: SimTime,
        random: &mut impl RngExt,
    ) -> Asker {
        let every = SimTime::from_picos(((1e12 / load.per_host_per_s) as u64).max(1));
        let phase = random.random_range(0..every.as_picos());
        let random = Pcg64Mcg::new(random.random());
        let next = now + SimTime::from_picos(phase);
        Asker { targets, next, every, until: now + load.lasts.into(), random }
    }

    /// Whether it has asked for the last time.
    pub(crate) fn has_ended(&self) -> bool {
        self.next >= self.until
    }

    /// The address to ask for by now, if any: one that is not `known`.
    pub(crate) fn due(
        &mut self,
        now: SimTime,
        known: impl Fn(&Ipv4Addr) -> bool,
    ) -> Option<Ipv4Addr> {
        while self.next <= now && !self.has_ended() {
            self.next += self.every;
            let (targets, random) = (&self.targets, &mut self.random);
            let drawn = (0..DRAWS).find_map(|_| targets.draw(random).filter(|ip| !known(ip)));
            if drawn.is_some() {
                return drawn;
            }
        }
        None
    }
}

/// What hosts have asked for, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolutions {
    /// Addresses that a host began to ask for.
    pub asked: u64,
    /// Addresses for which no answer came, after all attempts.
    pub given_up: u64,
    /// From the first question to the answer, in nanoseconds, in the order of the answers.
    pub latency_ns: Vec<u64>,
}

impl Resolutions {
    /// Addresses that are asked for and neither answered nor given up.
    pub fn open(&self) -> u64 {
        self.asked - self.given_up - self.latency_ns.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::*;

    fn ip(n: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(n)
    }

    #[test]
    fn questions_are_evenly_spaced_and_end() {
        let mut random = Pcg64::seed_from_u64(1);
        let targets = Targets::new(ArpTargets::Random, (0..50).map(ip).collect(), &mut random);
        let lasts = Duration::from_secs(2);
        let load = ArpLoad { per_host_per_s: 4.0, lasts, targets: ArpTargets::Random };
        let start = SimTime::from_picos(7);
        let mut asker = Asker::new(&load, Arc::new(targets), start, &mut random);
        let mut times = vec![];
        while !asker.has_ended() {
            times.push(asker.next);
            assert!(asker.due(asker.next, |_| false).is_some());
        }
        assert_eq!(times.len(), 8);
        assert!(times.windows(2).all(|w| w[1] == w[0] + Duration::from_millis(250).into()));
        assert_eq!(asker.due(SimTime::FOREVER, |_| false), None, "it has ended");
    }

    #[test]
    fn the_popular_are_asked_for_by_their_rank() {
        let mut random = Pcg64::seed_from_u64(1);
        let targets = Targets::new(ArpTargets::Popular, (0..100).map(ip).collect(), &mut random);
        let mut draws = [0_u32; 100];
        let mut own = Pcg64Mcg::new(3);
        for _ in 0..100_000 {
            draws[targets.draw(&mut own).unwrap().to_bits() as usize] += 1;
        }
        // The harmonic number of 100 is 5.187.
        let share = |rank: usize| f64::from(draws[targets.addresses[rank - 1].to_bits() as usize]);
        for rank in [1, 2, 10] {
            let expected = 100_000.0 / 5.187 / rank as f64;
            assert!((share(rank) / expected - 1.0).abs() < 0.1, "{rank}: {}", share(rank));
        }
    }
}
