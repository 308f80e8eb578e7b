//! Retransmission timeout (RFC 6298; constants as in ndn-cxx's `RttEstimator`).

use std::time::Duration;

/// Before the first sample.
const INITIAL: Duration = Duration::from_secs(1);
/// Minimum: a forwarder's content store or producer may be briefly delayed.
const MIN: Duration = Duration::from_millis(200);
/// Maximum.
const MAX: Duration = Duration::from_secs(60);

/// Estimates the round-trip time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    /// Smoothed round-trip time and its variation, after the first sample.
    smoothed: Option<(Duration, Duration)>,
    /// How often the timeout was doubled since the last sample.
    doubled: u32,
}

impl Rtt {
    /// Adds a sample: an answer took `took`. Do not sample retransmitted Interests: it is unknown
    /// which transmission was answered (Karn). `per_rtt` is the number of samples per round trip:
    /// the more there are, the less each counts (RFC 7323, appendix G).
    pub fn sample(&mut self, took: Duration, per_rtt: u32) {
        let n = per_rtt.clamp(1, 1 << 16);
        self.doubled = 0;
        self.smoothed = Some(match self.smoothed {
            None => (took, took / 2),
            Some((mean, variation)) => (
                ((8 * n - 1) * mean + took) / (8 * n),
                ((4 * n - 1) * variation + mean.abs_diff(took)) / (4 * n),
            ),
        });
    }

    /// Doubles the timeout until the next sample; call it when an answer timed out.
    pub fn back_off(&mut self) {
        self.doubled = self.doubled.saturating_add(1);
    }

    /// How long to wait before retransmitting.
    pub fn timeout(&self) -> Duration {
        let timeout = self.smoothed.map_or(INITIAL, |(mean, variation)| mean + 4 * variation);
        timeout.clamp(MIN, MAX).saturating_mul(1 << self.doubled.min(16)).min(MAX)
    }

    /// The smoothed time, once there is a sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_samples_give_what_the_rfc_says() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(), Duration::from_secs(1));
        rtt.sample(Duration::from_millis(800), 1);
        // RFC 6298 (2.2): R + 4 R/2.
        assert_eq!(rtt.timeout(), Duration::from_millis(2400));
        rtt.sample(Duration::from_millis(400), 1);
        // (2.3): 0.75 * 400 + 0.25 * |800 - 400| = 400; 7/8 * 800 + 1/8 * 400 = 750.
        assert_eq!(rtt.smoothed(), Some(Duration::from_millis(750)));
        assert_eq!(rtt.timeout(), Duration::from_millis(750 + 4 * 400));
        rtt.back_off();
        assert_eq!(rtt.timeout(), Duration::from_millis(4700));
        (0..10).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(), MAX);
        rtt.sample(Duration::from_millis(750), 1);
        assert!(rtt.timeout() < Duration::from_secs(3));
    }

    #[test]
    fn the_timeout_stays_within_its_bounds() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(), Duration::from_secs(1));
        rtt.sample(Duration::from_millis(200), 1);
        assert_eq!(rtt.timeout(), Duration::from_millis(200 + 4 * 100));
        rtt.back_off();
        assert_eq!(rtt.timeout(), Duration::from_millis(1200));
        rtt.sample(Duration::from_millis(200), 1);
        assert_eq!(rtt.timeout(), Duration::from_millis(200 + 4 * 75));
        (0..40).for_each(|_| rtt.sample(Duration::from_millis(1), 1));
        assert_eq!(rtt.timeout(), MIN);
        (0..40).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(), MAX);
    }

    proptest! {
        #[test]
        fn the_mean_stays_among_the_samples(
            samples in proptest::collection::vec(1u64..1_000_000, 1..200),
            per_rtt in 1u32..100,
        ) {
            let mut rtt = Rtt::default();
            for us in &samples {
                rtt.sample(Duration::from_micros(*us), per_rtt);
            }
            let (low, high) = (*samples.iter().min().unwrap(), *samples.iter().max().unwrap());
            let mean = rtt.smoothed().unwrap().as_micros() as u64;
            prop_assert!((low.saturating_sub(1)..=high + 1).contains(&mean), "{mean}");
            prop_assert!(rtt.timeout() >= MIN && rtt.timeout() <= MAX);
        }
    }
}
