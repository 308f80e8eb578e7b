//! The simulator's clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use plexus_wire::Time;

/// Picoseconds since the simulation began. A byte takes 8,000 of them at 1 Gbit/s and 20 at
/// 400 Gbit/s: whole numbers for every usual rate. 64 bits last 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(u64);

/// Picoseconds in a nanosecond.
const PER_NANO: u64 = 1_000;
/// Picoseconds in a second.
const PER_SECOND: u128 = 1_000_000_000_000;

impl SimTime {
    /// The beginning.
    pub const ZERO: SimTime = SimTime(0);
    /// Later than any event.
    pub const FOREVER: SimTime = SimTime(u64::MAX);

    /// The instant `ps` picoseconds after the beginning.
    pub const fn from_picos(ps: u64) -> SimTime {
        SimTime(ps)
    }

    /// Picoseconds since the beginning.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// Seconds since the beginning, for people.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// What the control plane and the data plane are told: whole nanoseconds that have passed.
    pub const fn floor(self) -> Time {
        if self.0 == u64::MAX { Time::FOREVER } else { Time::from_nanos(self.0 / PER_NANO) }
    }

    /// How long `bytes` take on a cable of this rate, rounded up.
    pub fn of_bytes(bytes: u64, rate_bits_per_s: u64) -> SimTime {
        let rate = rate_bits_per_s.max(1);
        // A frame's need no more than 64 bits, which divide several times as fast.
        if let Some(bits) = bytes.checked_mul(8 * PER_SECOND as u64) {
            return SimTime(bits.div_ceil(rate));
        }
        let ps = (u128::from(bytes) * 8 * PER_SECOND).div_ceil(u128::from(rate));
        SimTime(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

impl From<Time> for SimTime {
    fn from(time: Time) -> SimTime {
        SimTime(time.as_nanos().saturating_mul(PER_NANO))
    }
}

impl From<Duration> for SimTime {
    fn from(time: Duration) -> SimTime {
        SimTime(u64::try_from(time.as_nanos() * u128::from(PER_NANO)).unwrap_or(u64::MAX))
    }
}

impl From<SimTime> for Duration {
    /// Whole nanoseconds.
    fn from(time: SimTime) -> Duration {
        Duration::from_nanos(time.0 / PER_NANO)
    }
}

impl Add for SimTime {
    type Output = SimTime;

    fn add(self, more: SimTime) -> SimTime {
        SimTime(self.0.saturating_add(more.0))
    }
}

impl AddAssign for SimTime {
    fn add_assign(&mut self, more: SimTime) {
        *self = *self + more;
    }
}

impl Sub for SimTime {
    type Output = SimTime;

    /// Zero if `less` is later.
    fn sub(self, less: SimTime) -> SimTime {
        SimTime(self.0.saturating_sub(less.0))
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9} s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_in_nanoseconds_has_come_when_its_event_does() {
        for ns in [0, 1, 999, 1_000, 123_456_789, u64::MAX / 2_000] {
            let deadline = Time::from_nanos(ns);
            assert_eq!(SimTime::from(deadline).floor(), deadline);
        }
        assert_eq!(SimTime::from(Time::FOREVER), SimTime::FOREVER);
        assert_eq!(SimTime::FOREVER.floor(), Time::FOREVER);
    }

    #[test]
    fn bytes_take_whole_picoseconds() {
        assert_eq!(SimTime::of_bytes(1538, 1_000_000_000), SimTime::from_picos(12_304_000));
        assert_eq!(SimTime::of_bytes(84, 400_000_000_000), SimTime::from_picos(1_680));
        assert_eq!(SimTime::of_bytes(1, 3), SimTime::from_picos(2_666_666_666_667));
        assert_eq!(SimTime::of_bytes(u64::MAX, 1), SimTime::FOREVER);
        // On either side of what 64 bits hold of it.
        for bytes in [2_305_843_u64, 2_305_844] {
            let exact = SimTime::from_picos((bytes * 8_000_000_000).div_ceil(7));
            assert_eq!(SimTime::of_bytes(bytes, 7_000), exact);
        }
    }
}
