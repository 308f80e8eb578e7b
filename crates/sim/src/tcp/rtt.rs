//! Round-trip time and retransmission timeout (RFC 6298).

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// The estimator. All times in nanoseconds; the clock's granularity G is one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    /// Smoothed round-trip time; 0 before the first sample.
    pub(super) srtt: u64,
    var: u64,
    /// Timeout without back-off.
    base: u64,
    /// How many times it is doubled.
    pub(super) backoff: u32,
    min: u64,
    max: u64,
}

impl Rtt {
    /// Before any sample the timeout is `initial` (2.1).
    pub(super) fn new(initial: u64, min: u64, max: u64) -> Rtt {
        Rtt { srtt: 0, var: 0, base: initial, backoff: 0, min, max }
    }

    /// A round trip that no retransmission makes ambiguous (Karn; section 3). Ends the back-off.
    pub(super) fn sample(&mut self, rtt: u64) {
        let rtt = rtt.max(1);
        if self.srtt == 0 {
            // (2.2)
            self.srtt = rtt;
            self.var = rtt / 2;
        } else {
            // (2.3): the variation first, with the old mean.
            self.var = (3 * self.var + self.srtt.abs_diff(rtt)) / 4;
            self.srtt = (7 * self.srtt + rtt) / 8;
        }
        self.base = (self.srtt + (4 * self.var).max(1)).clamp(self.min, self.max);
        self.backoff = 0;
    }

    /// The timeout in force.
    #[inline]
    pub(super) fn timeout(&self) -> u64 {
        if self.backoff == 0 {
            return self.base;
        }
        self.base.saturating_mul(1 << self.backoff.min(40)).min(self.max)
    }

    /// The timer has expired (5.5).
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Data are about to be sent after a lost SYN (5.7): 3 s, unless a sample says better.
    pub(super) fn after_lost_syn(&mut self) {
        self.backoff = 0;
        if self.srtt == 0 {
            self.base = self.base.max(3 * SECOND).min(self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_timeout_follows_the_formulas_of_section_2() {
        let mut rtt = Rtt::new(1_000 * MS, 200 * MS, 60_000 * MS);
        assert_eq!(rtt.timeout(), 1_000 * MS);
        rtt.sample(100 * MS);
        // 100 + 4 × 50.
        assert_eq!(rtt.timeout(), 300 * MS);
        rtt.sample(140 * MS);
        // var = 3/4 × 50 + 1/4 × 40 = 47.5; srtt = 7/8 × 100 + 1/8 × 140 = 105.
        assert_eq!((rtt.srtt, rtt.timeout()), (105 * MS, 295 * MS));
        for _ in 0..100 {
            rtt.sample(10 * MS);
        }
        assert_eq!(rtt.timeout(), 200 * MS, "never below the minimum");
    }

    #[test]
    fn it_doubles_up_to_the_maximum_and_a_sample_ends_that() {
        let mut rtt = Rtt::new(1_000 * MS, 200 * MS, 60_000 * MS);
        let seconds: Vec<u64> = (0..8)
            .map(|_| {
                rtt.back_off();
                rtt.timeout() / SECOND
            })
            .collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 60, 60, 60]);
        rtt.sample(100 * MS);
        assert_eq!(rtt.timeout(), 300 * MS);
    }
}
