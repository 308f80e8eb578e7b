//! A node's own clock, which may be wrong.

use plexus_wire::Time;

use crate::time::SimTime;

/// Picoseconds in a nanosecond.
const PER_NANO: u128 = 1_000;
/// The pace of a true clock.
const TRUE_PACE: u64 = 1_000_000_000;

/// A clock that shows `base` at `since` and goes on at its pace. It shows whole nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    since: SimTime,
    base: Time,
    /// Its nanoseconds in a true second.
    pace: u64,
}

impl Clock {
    /// One that has been right so far.
    pub(crate) const TRUE: Clock =
        Clock { since: SimTime::ZERO, base: Time::ZERO, pace: TRUE_PACE };

    /// From now on the clock is ahead by this much, and this many millionths too fast.
    pub(crate) fn set(&mut self, now: SimTime, ppm: f64, ahead: std::time::Duration) {
        let base = self.read(now) + ahead;
        let pace = (TRUE_PACE as f64 * (1.0 + ppm * 1e-6)).round().max(1.0) as u64;
        *self = Clock { since: now, base, pace };
    }

    /// What it shows.
    #[inline]
    pub(crate) fn read(&self, now: SimTime) -> Time {
        if self.pace == TRUE_PACE && self.since == SimTime::ZERO {
            return now.floor();
        }
        let passed = u128::from((now - self.since).as_picos());
        let shown = passed * u128::from(self.pace) / (u128::from(TRUE_PACE) * PER_NANO);
        let ns = u128::from(self.base.as_nanos()) + shown;
        Time::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The first instant at which it shows `time`, or more.
    #[inline]
    pub(crate) fn when(&self, time: Time) -> SimTime {
        if time == Time::FOREVER || (self.pace == TRUE_PACE && self.since == SimTime::ZERO) {
            return time.into();
        }
        let to_go = u128::from(time.as_nanos().saturating_sub(self.base.as_nanos()));
        let wait = (to_go * u128::from(TRUE_PACE) * PER_NANO).div_ceil(u128::from(self.pace));
        self.since + SimTime::from_picos(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 200,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// A deadline has come exactly when its event does. Otherwise a node would be woken
        /// forever, or late.
        #[test]
        fn a_deadline_comes_when_the_clock_shows_it(
            steps in prop::collection::vec(
                (1u64..5_000_000_000_000, -1e5..1e5, 0u64..1_000_000),
                1..4,
            ),
            ahead_ns in 0u64..10_000_000_000,
        ) {
            let (mut clock, mut now) = (Clock::TRUE, SimTime::ZERO);
            for (after, ppm, jump) in steps {
                now += SimTime::from_picos(after);
                let before = clock.read(now);
                clock.set(now, ppm, Duration::from_nanos(jump));
                prop_assert_eq!(clock.read(now), before + Duration::from_nanos(jump));
            }
            let deadline = clock.read(now) + Duration::from_nanos(ahead_ns);
            let at = clock.when(deadline);
            prop_assert!(clock.read(at) >= deadline);
            let earlier = SimTime::from_picos(at.as_picos().saturating_sub(1_300));
            prop_assert!(earlier < now || clock.read(earlier) < deadline);
        }
    }

    #[test]
    fn a_fast_clock_shows_more() {
        let mut clock = Clock::TRUE;
        let second = SimTime::from(Duration::from_secs(1));
        clock.set(second, 200.0, Duration::from_millis(5));
        let shown = clock.read(second + second);
        assert_eq!(shown, Time::from_nanos(2_005_200_000));
    }
}
