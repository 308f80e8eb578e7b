//! A token bucket, which bounds the cost of floods.

use std::time::Duration;

use plexus_wire::Time;

/// A burst of this many, and one more after each interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    burst: u32,
    refill: Duration,
    left: u32,
    since: Time,
}

impl Budget {
    /// A full bucket. `refill` is not zero.
    pub(crate) fn new(burst: u32, refill: Duration) -> Budget {
        Budget { burst, refill, left: burst, since: Time::ZERO }
    }

    /// Takes one; false if none is left.
    pub(crate) fn spend(&mut self, now: Time) -> bool {
        let earned = now.since(self.since).as_nanos() / self.refill.as_nanos();
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(earned).min(self.burst);
        // The unfinished part of an interval counts on, unless the bucket is full.
        self.since = if self.left == self.burst { now } else { self.since + self.refill * earned };
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_after_each_interval() {
        let mut budget = Budget::new(3, Duration::from_millis(10));
        let at = |ms: u64| Time::from_nanos(1_000_000_000 + ms * 1_000_000);
        let spent = [0, 0, 0, 0, 9, 10, 10, 25, 29, 30].map(|ms| budget.spend(at(ms)));
        assert_eq!(spent, [true, true, true, false, false, true, false, true, false, true]);
        // However long the bucket was unused.
        let spent = [9_000; 4].map(|ms| budget.spend(at(ms)));
        assert_eq!(spent, [true, true, true, false]);
    }
}
