//! The search for a device's zero-loss rate (throughput, RFC 2544, 26.1; "NDR") and its rate with
//! little loss ("PDR", here 0.5 %).
//!
//! Sans-IO: [`Search::next_trial`] returns the rate to offer; the driver sends for a while, waits
//! for packets in flight (RFC 2544, 23: two seconds), and reports with [`Search::record`]. The rate
//! is bisected until the bounds are as close as requested. Every trial serves both searches. The
//! rate found has to pass `confirmations` more times, because otherwise one lucky trial would
//! decide; a rate that fails then is an upper bound.
//!
//! ```text
//! while let Some(rate) = search.next_trial() {
//!     search.record(run(rate));
//! }
//! ```

use serde::Serialize;

/// How to search. Rates are in any unit, packets/s or bits/s, as the driver offers them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// The lowest rate of interest.
    pub min: u64,
    /// The highest rate to offer, such as that of the cable.
    pub max: u64,
    /// How close the answer has to be, as a fraction of the rate: 0.005 for half a percent.
    pub precision: f64,
    /// The part of packets that PDR may lose.
    pub partial_loss: f64,
    /// How often a rate found has to pass again.
    pub confirmations: u32,
    /// The most trials in all; then the best so far is the answer.
    pub trials_max: u32,
}

impl SearchConfig {
    /// Half a percent of precision, half a percent of partial loss, two confirmations.
    pub fn new(min: u64, max: u64) -> SearchConfig {
        SearchConfig {
            min: min.max(1),
            max: max.max(min).max(1),
            precision: 0.005,
            partial_loss: 0.005,
            confirmations: 2,
            trials_max: 60,
        }
    }
}

/// What one trial showed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The rate that was to be offered.
    pub rate: u64,
    /// The rate that the generator really reached, in the same unit.
    pub offered: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets received, without duplicates.
    pub received: u64,
}

impl Outcome {
    /// The part of packets lost, 0 to 1. A trial that sent nothing shows nothing: all is lost.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 {
            return 1.0;
        }
        self.sent.saturating_sub(self.received) as f64 / self.sent as f64
    }

    /// Whether the generator fell short of the rate by more than one percent.
    fn fell_short(&self) -> bool {
        self.offered < self.rate - self.rate / 100
    }
}

/// The answer for one permitted loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The permitted loss, 0 to 1.
    pub loss: f64,
    /// The highest rate that passed; `None` if not even the lowest did.
    pub rate: Option<u64>,
    /// The lowest rate that failed; `None` if the highest passed: the device may do more.
    pub failed: Option<u64>,
    /// Whether the rate passed as often as requested.
    pub confirmed: bool,
    /// The generator was the limit, not the device: the rate is only a lower bound.
    pub generator_limited: bool,
}

/// A search for both rates.
#[derive(Clone, Debug)]
pub struct Search {
    config: SearchConfig,
    outcomes: Vec<Outcome>,
}

impl Search {
    /// A search that has tried nothing.
    pub fn new(config: SearchConfig) -> Search {
        Search { config, outcomes: Vec::new() }
    }

    /// The rate to try next; `None` when the search is over.
    pub fn next_trial(&self) -> Option<u64> {
        if self.outcomes.len() >= self.config.trials_max as usize {
            return None;
        }
        self.goals().into_iter().find_map(|loss| self.next_for(loss))
    }

    /// Records the result of a trial.
    pub fn record(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Every trial so far, in order.
    pub fn trials(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The highest rate without loss.
    pub fn ndr(&self) -> Found {
        self.found(0.0)
    }

    /// The highest rate with no more than the partial loss.
    pub fn pdr(&self) -> Found {
        self.found(self.config.partial_loss)
    }

    fn goals(&self) -> [f64; 2] {
        [0.0, self.config.partial_loss]
    }

    /// The highest rate that passed with every trial at it and below the lowest failure, and that
    /// lowest failure. A pass above a failure was luck.
    fn bounds(&self, loss: f64) -> (Option<u64>, Option<u64>) {
        let failed = self.outcomes.iter().filter(|o| o.loss() > loss || o.fell_short());
        let failed = failed.map(|o| o.rate).min();
        let passed = self.outcomes.iter().filter(|o| failed.is_none_or(|f| o.rate < f));
        (passed.map(|o| o.rate).max(), failed)
    }

    fn next_for(&self, loss: f64) -> Option<u64> {
        let SearchConfig { min, max, .. } = self.config;
        let (passed, failed) = self.bounds(loss);
        match (passed, failed) {
            // Nothing tried: begin at the top, as RFC 2544 does; the device may do it all.
            (None, None) => Some(max),
            (Some(low), None) if low < max => Some(max),
            (Some(low), None) => self.confirm(low, loss),
            (None, Some(high)) if high <= min => None,
            (None, Some(high)) => {
                // Rates span magnitudes: the geometric mean finds the right one sooner.
                let mid = ((min as f64) * (high as f64)).sqrt() as u64;
                Some(if self.is_close(min, high) { min } else { mid.clamp(min, high - 1) })
            }
            (Some(low), Some(high)) if self.is_close(low, high) => self.confirm(low, loss),
            (Some(low), Some(high)) => Some(low + (high - low) / 2),
        }
    }

    fn is_close(&self, low: u64, high: u64) -> bool {
        let precision = (high as f64 * self.config.precision) as u64;
        high.saturating_sub(low) <= precision.max(1)
    }

    fn confirm(&self, rate: u64, loss: f64) -> Option<u64> {
        (self.passes(rate, loss) <= self.config.confirmations as usize).then_some(rate)
    }

    fn passes(&self, rate: u64, loss: f64) -> usize {
        self.outcomes.iter().filter(|o| o.rate == rate && o.loss() <= loss).count()
    }

    fn found(&self, loss: f64) -> Found {
        let (rate, failed) = self.bounds(loss);
        let close = match (rate, failed) {
            (Some(low), Some(high)) => self.is_close(low, high),
            (Some(low), None) => low >= self.config.max,
            (None, _) => false,
        };
        let often = rate.is_some_and(|r| self.passes(r, loss) > self.config.confirmations as usize);
        let generator_limited = failed.is_some_and(|f| {
            self.outcomes.iter().filter(|o| o.rate == f).all(|o| o.fell_short() && o.loss() <= loss)
        });
        Found { loss, rate, failed, confirmed: close && often, generator_limited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A device that forwards `capacity` packets/s and drops the rest, offered for a second by a
    /// generator that reaches `limit`.
    fn offer(rate: u64, capacity: u64, limit: u64) -> Outcome {
        let sent = rate.min(limit);
        Outcome { rate, offered: sent, sent, received: sent.min(capacity) }
    }

    fn search(config: SearchConfig, mut device: impl FnMut(u64) -> Outcome) -> Search {
        let mut search = Search::new(config);
        while let Some(rate) = search.next_trial() {
            search.record(device(rate));
            assert!(search.trials().len() <= config.trials_max as usize, "it has to end");
        }
        search
    }

    proptest! {
        #[test]
        fn it_finds_a_known_capacity(capacity in 1_000_u64..10_000_000) {
            let config = SearchConfig::new(100, 14_880_952);
            let s = search(config, |rate| offer(rate, capacity, u64::MAX));
            let (ndr, pdr) = (s.ndr(), s.pdr());
            prop_assert!(ndr.confirmed && pdr.confirmed);
            let ndr = ndr.rate.unwrap() as f64 / capacity as f64;
            prop_assert!((0.994..=1.0).contains(&ndr), "{}", ndr);
            // Offering capacity / 0.995 loses 0.5 %.
            let pdr = pdr.rate.unwrap() as f64 * 0.995 / capacity as f64;
            prop_assert!((0.994..=1.000_001).contains(&pdr), "{}", pdr);
            prop_assert!(s.trials().len() < 50);
        }

        #[test]
        fn any_device_ends_the_search(losses in proptest::collection::vec(0_u64..3, 60)) {
            let mut at = losses.iter().cycle();
            let s = search(SearchConfig::new(1, 1_000_000), |rate| Outcome {
                rate, offered: rate, sent: 1_000, received: 1_000 - at.next().unwrap() * 4,
            });
            let (ndr, pdr) = (s.ndr(), s.pdr());
            prop_assert!(ndr.rate <= pdr.rate, "less loss is permitted, so less is found");
        }
    }

    #[test]
    fn a_device_as_fast_as_the_cable_is_done_in_three_trials() {
        let s = search(SearchConfig::new(1, 1_000), |rate| offer(rate, 1_000, u64::MAX));
        assert_eq!(s.trials().len(), 3);
        assert_eq!((s.ndr().rate, s.ndr().failed, s.ndr().confirmed), (Some(1_000), None, true));
    }

    #[test]
    fn a_dead_device_has_no_rate() {
        let s = search(SearchConfig::new(100, 1_000_000), |rate| offer(rate, 0, u64::MAX));
        assert_eq!((s.ndr().rate, s.ndr().failed), (None, Some(100)));
        assert!(!s.ndr().confirmed && s.trials().len() < 30);
    }

    #[test]
    fn a_lucky_trial_is_found_out_by_its_confirmation() {
        // Above 500 the first trial at a rate passes and each further one loses a packet.
        let mut tried = std::collections::HashSet::new();
        let config = SearchConfig { trials_max: 1_000, ..SearchConfig::new(1, 1_000) };
        let s = search(config, |rate| {
            let lost = u64::from(rate > 500 && !tried.insert(rate));
            Outcome { rate, offered: rate, sent: rate, received: rate - lost }
        });
        assert!(s.ndr().rate.unwrap() <= 500, "{:?}", s.ndr());
        assert_eq!(s.pdr().rate, Some(1_000));
    }

    #[test]
    fn a_generator_that_falls_short_is_said_to_be_the_limit() {
        let s = search(SearchConfig::new(100, 1_000_000), |rate| offer(rate, u64::MAX, 300_000));
        let ndr = s.ndr();
        assert!(ndr.generator_limited, "{ndr:?}");
        assert!((295_000..=303_100).contains(&ndr.rate.unwrap()), "{ndr:?}");
        let s = search(SearchConfig::new(100, 1_000_000), |rate| offer(rate, 200_000, 300_000));
        assert!(!s.ndr().generator_limited);
    }

    #[test]
    fn trials_are_bounded() {
        let config = SearchConfig { trials_max: 5, ..SearchConfig::new(1, 1 << 40) };
        let s = search(config, |rate| offer(rate, 12_345, u64::MAX));
        assert_eq!(s.trials().len(), 5);
        assert!(!s.ndr().confirmed);
        let nothing = Outcome { rate: 5, offered: 5, sent: 0, received: 0 };
        assert_eq!(nothing.loss(), 1.0);
    }
}
