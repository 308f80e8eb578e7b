//! Traces of destinations, made by a law that is stated.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::flows::{Choice, Chooser};

/// The law of a trace of destinations.
///
/// A number of flows are under way at any time, and each packet belongs to one of them, all equally
/// likely. After each packet its flow ends with probability 1/`packets_per_flow`, and another
/// begins, to a destination that is drawn by Zipf's law: the n-th of all in proportion to
/// 1/n^`exponent`. With one packet per flow, packets are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Locality {
    /// Destinations that there are, 1 at least.
    pub destinations: u32,
    /// Of their popularity; 0 makes all alike.
    pub exponent: f64,
    /// Flows under way at a time, 1 at least.
    pub flows: u32,
    /// Their mean length, 1 at least; lengths are geometrically distributed.
    pub packets_per_flow: f64,
}

/// The destinations of a trace's packets, by number, without end.
#[derive(Clone, Debug)]
pub struct DestinationTrace {
    rng: Pcg64Mcg,
    chooser: Chooser,
    flows: Vec<u32>,
    end_probability: f64,
}

impl DestinationTrace {
    /// The same law and seed give the same trace.
    pub fn new(law: Locality, seed: u64) -> DestinationTrace {
        let chooser = Chooser::new(law.destinations.max(1), Choice::Zipf(law.exponent), seed);
        // Apart from the chooser's own numbers, which begin at the same seed.
        let rng = Pcg64Mcg::seed_from_u64(!seed);
        let end_probability = 1.0 / law.packets_per_flow.max(1.0);
        let mut trace = DestinationTrace { rng, chooser, flows: Vec::new(), end_probability };
        trace.flows = (0..law.flows.max(1)).map(|_| trace.chooser.next_flow() as u32).collect();
        trace
    }
}

impl Iterator for DestinationTrace {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let random = self.rng.next_u64();
        let flow = ((random >> 32) * self.flows.len() as u64) >> 32;
        let destination = self.flows[flow as usize];
        // 32 bits decide which flow, the others whether it ends.
        if f64::from(random as u32) < self.end_probability * 2_f64.powi(32) {
            self.flows[flow as usize] = self.chooser.next_flow() as u32;
        }
        Some(destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reuse::{Reading, ReuseProfile};

    const LAW: Locality =
        Locality { destinations: 1000, exponent: 1.0, flows: 50, packets_per_flow: 20.0 };
    const PACKETS: usize = 100_000;

    #[test]
    fn a_trace_is_its_seeds_and_popular_in_proportion() {
        let trace = |seed| DestinationTrace::new(LAW, seed).take(PACKETS);
        assert!(trace(1).eq(trace(1)));
        assert!(!trace(1).eq(trace(2)));
        let mut counts = [0_u32; 1000];
        DestinationTrace::new(Locality { packets_per_flow: 1.0, ..LAW }, 1)
            .take(PACKETS)
            .for_each(|d| counts[d as usize] += 1);
        // 1/H(1000) = 13.4 % of the packets go to the first, a tenth of that to the tenth.
        assert!((12_900..13_900).contains(&counts[0]), "{}", counts[0]);
        assert!((1_200..1_480).contains(&counts[9]), "{}", counts[9]);
    }

    #[test]
    fn flows_bring_locality() {
        let hits = |law| {
            let profile = ReuseProfile::of(DestinationTrace::new(law, 1).take(PACKETS));
            profile.hits(Reading::Destinations, 50) as f64 / PACKETS as f64
        };
        let independent = hits(Locality { packets_per_flow: 1.0, ..LAW });
        // Each flow but for its first packet or two is in a table as large as there are flows.
        assert!(hits(LAW) > 0.8 && independent < 0.6, "{} {independent}", hits(LAW));
    }
}
