//! How long to wait for an answer (RFC 6298; constants as in ndn-cxx's `RttEstimator`).

use std::time::Duration;

/// Before there is a sample.
const INITIAL: Duration = Duration::from_secs(1);
/// At least: a forwarder's content store or producer may take a moment now and then.
const MIN: Duration = Duration::from_millis(200);
/// At most.
const MAX: Duration = Duration::from_secs(60);

/// Estimates the time to an answer.
#[derive(Clone, Debug)]
pub struct Rtt {
    /// Smoothed time and its variation, in seconds; `None` before the first sample.
    smoothed: Option<(f64, f64)>,
    timeout: Duration,
}

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt { smoothed: None, timeout: INITIAL }
    }
}

impl Rtt {
    /// An answer took `took`. Give no samples of what was asked for twice: nobody knows which of
    /// the two was answered (Karn). `per_rtt` is how many samples a round trip gives: with many,
    /// each counts less (RFC 7323, appendix G).
    pub fn sample(&mut self, took: Duration, per_rtt: usize) {
        let r = took.as_secs_f64();
        let n = per_rtt.max(1) as f64;
        let (mean, variation) = match self.smoothed {
            None => (r, r / 2.0),
            Some((mean, variation)) => {
                let (alpha, beta) = (0.125 / n, 0.25 / n);
                let variation = (1.0 - beta) * variation + beta * (mean - r).abs();
                ((1.0 - alpha) * mean + alpha * r, variation)
            }
        };
        self.smoothed = Some((mean, variation));
        self.timeout = Duration::from_secs_f64(mean + 4.0 * variation).clamp(MIN, MAX);
    }

    /// Nothing came in time: the next time is twice as long, until there is a sample.
    pub fn back_off(&mut self) {
        self.timeout = (self.timeout * 2).min(MAX);
    }

    /// How long to wait before asking again.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The smoothed time; [`Rtt::timeout`] before there is one.
    pub fn smoothed(&self) -> Duration {
        self.smoothed.map_or(self.timeout, |(mean, _)| Duration::from_secs_f64(mean))
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
        assert_eq!(rtt.smoothed(), Duration::from_millis(750));
        assert_eq!(rtt.timeout(), Duration::from_millis(750 + 4 * 400));
        rtt.back_off();
        assert_eq!(rtt.timeout(), Duration::from_millis(4700));
        (0..10).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(), MAX);
        rtt.sample(Duration::from_millis(750), 1);
        assert!(rtt.timeout() < Duration::from_secs(3));
    }

    proptest! {
        #[test]
        fn the_mean_stays_among_the_samples(
            samples in proptest::collection::vec(1u64..1_000_000, 1..200),
            per_rtt in 1usize..100,
        ) {
            let mut rtt = Rtt::default();
            for us in &samples {
                rtt.sample(Duration::from_micros(*us), per_rtt);
            }
            let (low, high) = (*samples.iter().min().unwrap(), *samples.iter().max().unwrap());
            let mean = rtt.smoothed().as_micros() as u64;
            prop_assert!((low.saturating_sub(1)..=high + 1).contains(&mean), "{mean}");
            prop_assert!(rtt.timeout() >= MIN && rtt.timeout() <= MAX);
        }
    }
}
