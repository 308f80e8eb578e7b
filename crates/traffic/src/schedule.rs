//! Departure times: when each packet of a stream is due. It has no clock: the caller compares.
//!
//! A rate is exact in the long run: a packet's time is a quotient whose remainder is carried over
//! to the next packet, so that rounding loses nothing.

use std::str::FromStr;
use std::time::Duration;

use plexus_config::units;
use plexus_wire::Time;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bytes that a frame occupies on an Ethernet cable beyond its own, FCS included: preamble and
/// start delimiter 8, gap 12 (IEEE 802.3, sections 3.1.1 and 4.4.2).
pub const WIRE_OVERHEAD: u64 = 20;

/// The smallest frame with its FCS; shorter ones are padded on the cable.
pub const FRAME_MIN: u64 = 64;

const NS_PER_S: u64 = 1_000_000_000;

/// How fast to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the port takes it.
    Max,
    /// Packets per second.
    Packets(u64),
    /// Bits/s as on a cable: every frame costs 20 bytes beyond its size with FCS, 84 at least.
    Layer1(u64),
    /// Bits/s of frames with their FCS.
    Layer2(u64),
}

impl Rate {
    /// The cost of a frame of this size (FCS included), and the budget per second.
    #[inline]
    fn cost(self, frame_size: usize) -> (u64, u64) {
        let frame_size = frame_size as u64;
        match self {
            Rate::Max => (0, 1),
            Rate::Packets(per_s) => (1, per_s),
            Rate::Layer1(per_s) => ((frame_size.max(FRAME_MIN) + WIRE_OVERHEAD) * 8, per_s),
            Rate::Layer2(per_s) => (frame_size * 8, per_s),
        }
    }

    /// Nanoseconds from a frame of this size to the next one, and the remainder of the division;
    /// the rate is not zero.
    pub(crate) fn gap(self, frame_size: usize) -> (u64, u64) {
        let (cost, per_s) = self.cost(frame_size);
        let scaled = cost * NS_PER_S;
        (scaled / per_s, scaled % per_s)
    }
}

impl FromStr for Rate {
    type Err = String;

    /// `1Mpps`, `100Mbit` as on a cable, `l2:100Mbit` of frames alone, or `max`.
    fn from_str(text: &str) -> Result<Rate, String> {
        let explain = |e: plexus_config::ValueError| e.to_string();
        let rate = if text == "max" {
            Rate::Max
        } else if let Some(bits) = text.strip_prefix("l2:") {
            Rate::Layer2(units::parse_rate(bits).map_err(explain)?)
        } else if text.contains("bit") {
            Rate::Layer1(units::parse_rate(text).map_err(explain)?)
        } else {
            Rate::Packets(units::parse_packet_rate(text).map_err(|_| {
                "write packets/s (1Mpps), bits/s as on a cable (100Mbit), bits/s of frames \
                 (l2:100Mbit), or max"
            })?)
        };
        match rate {
            Rate::Packets(0) | Rate::Layer1(0) | Rate::Layer2(0) => {
                Err("at this rate nothing is ever sent".into())
            }
            rate => Ok(rate),
        }
    }
}

/// How departures are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// At even distances.
    Constant,
    /// At exponentially distributed intervals whose mean gives the rate (RFC 2330, 11.1.1).
    Poisson,
    /// `packets` at the rate, then nothing until `every` has passed since the burst began.
    Burst {
        /// Packets in a burst, at least 1.
        packets: u32,
        /// From the beginning of a burst to that of the next.
        every: Duration,
    },
}

impl FromStr for Pattern {
    type Err = String;

    /// `constant`, `poisson` or `burst:PACKETS/PERIOD`.
    fn from_str(text: &str) -> Result<Pattern, String> {
        let help =
            || "write constant, poisson or burst:PACKETS/PERIOD, as in burst:32/1ms".to_string();
        match text {
            "constant" => Ok(Pattern::Constant),
            "poisson" => Ok(Pattern::Poisson),
            _ => {
                let burst = text.strip_prefix("burst:").ok_or_else(help)?;
                let (packets, every) = burst.split_once('/').ok_or_else(help)?;
                let packets = packets.parse().ok().filter(|&n: &u32| n > 0).ok_or_else(help)?;
                let every = units::parse_duration(every).map_err(|e| e.to_string())?;
                Ok(Pattern::Burst { packets, every })
            }
        }
    }
}

/// The departure time of the next packet.
#[derive(Clone, Debug)]
pub struct Schedule {
    rate: Rate,
    pattern: Pattern,
    rng: Pcg64Mcg,
    next: Time,
    /// The remainder of the division, in units of 1/rate nanoseconds.
    remainder: u64,
    /// Fraction of a nanosecond that a random distance left over.
    fraction: f64,
    /// The last cost and its quotient and remainder: sizes repeat, divisions are slow.
    cached: (u64, u64, u64),
    /// Packets sent of this burst, and when it began.
    burst_sent: u32,
    burst_began: Time,
}

impl Schedule {
    /// A schedule that begins at `start`; the same seed gives the same departures. A rate of zero
    /// never departs.
    pub fn new(rate: Rate, pattern: Pattern, seed: u64, start: Time) -> Schedule {
        let mut schedule = Schedule {
            rate,
            pattern,
            rng: Pcg64Mcg::seed_from_u64(seed),
            next: start,
            remainder: 0,
            fraction: 0.0,
            cached: (u64::MAX, 0, 0),
            burst_sent: 0,
            burst_began: start,
        };
        if matches!(rate, Rate::Packets(0) | Rate::Layer1(0) | Rate::Layer2(0)) {
            schedule.next = Time::FOREVER;
        }
        schedule
    }

    /// When the next packet is due.
    #[inline]
    pub fn departure(&self) -> Time {
        self.next
    }

    /// Notes that the packet that was due has departed, with this frame size (FCS included).
    #[inline]
    pub fn advance(&mut self, frame_size: usize) {
        if self.next == Time::FOREVER {
            return;
        }
        let (cost, per_s) = self.rate.cost(frame_size);
        match self.pattern {
            Pattern::Constant => self.step(cost, per_s),
            Pattern::Poisson => self.step_poisson(cost, per_s),
            Pattern::Burst { packets, every } => {
                self.step(cost, per_s);
                self.burst_sent += 1;
                if self.burst_sent >= packets {
                    self.burst_sent = 0;
                    self.burst_began = self.burst_began + every;
                    // A burst that outlasts its period delays the next one.
                    self.next = self.next.max(self.burst_began);
                    self.burst_began = self.next;
                }
            }
        }
    }

    #[inline]
    fn step(&mut self, cost: u64, per_s: u64) {
        if self.cached.0 != cost {
            let scaled = cost * NS_PER_S;
            self.cached = (cost, scaled / per_s, scaled % per_s);
        }
        let (_, mut ns, remainder) = self.cached;
        // Both are below `per_s`, so the sum holds at most one more nanosecond.
        let (sum, carried) = self.remainder.overflowing_add(remainder);
        if carried || sum >= per_s {
            self.remainder = sum.wrapping_sub(per_s);
            ns += 1;
        } else {
            self.remainder = sum;
        }
        self.next = self.next + Duration::from_nanos(ns);
    }

    fn step_poisson(&mut self, cost: u64, per_s: u64) {
        let mean = cost as f64 * NS_PER_S as f64 / per_s as f64;
        // 53 random bits in (0, 1].
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let ns = -uniform.ln() * mean + self.fraction;
        self.fraction = ns.fract();
        self.next = self.next + Duration::from_nanos(ns as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Departures within `ns` nanoseconds of frames with these sizes in turn.
    fn departures(schedule: &mut Schedule, ns: u64, sizes: &[usize]) -> Vec<u64> {
        let mut at = Vec::new();
        for &size in sizes.iter().cycle() {
            if schedule.departure() >= Time::from_nanos(ns) {
                return at;
            }
            at.push(schedule.departure().as_nanos());
            schedule.advance(size);
        }
        at
    }

    #[test]
    fn a_gigabit_cable_carries_1488095_smallest_frames_per_second() {
        let mut s = Schedule::new(Rate::Layer1(1_000_000_000), Pattern::Constant, 0, Time::ZERO);
        // 10^9 / 672 = 1,488,095.2: the first leaves at 0.
        assert_eq!(departures(&mut s, NS_PER_S, &[64]).len(), 1_488_096);
        let mut s = Schedule::new(Rate::Layer1(100_000_000), Pattern::Constant, 0, Time::ZERO);
        assert_eq!(departures(&mut s, NS_PER_S, &[1518]).len(), 8_128);
        let mut short = Schedule::new(Rate::Layer1(672), Pattern::Constant, 0, Time::ZERO);
        short.advance(20);
        assert_eq!(short.departure(), Time::from_secs(1));
    }

    #[test]
    fn layer_2_counts_the_frame_alone() {
        let mut s = Schedule::new(Rate::Layer2(512_000), Pattern::Constant, 0, Time::ZERO);
        assert_eq!(departures(&mut s, NS_PER_S, &[64]).len(), 1_000);
    }

    #[test]
    fn zero_never_departs_and_max_is_always_due() {
        let mut s = Schedule::new(Rate::Packets(0), Pattern::Constant, 0, Time::ZERO);
        s.advance(64);
        assert_eq!(s.departure(), Time::FOREVER);
        let start = Time::from_secs(5);
        let mut s = Schedule::new(Rate::Max, Pattern::Poisson, 0, start);
        for _ in 0..1_000 {
            s.advance(1518);
        }
        assert_eq!(s.departure(), start);
    }

    #[test]
    fn bursts_begin_on_time_and_run_at_the_rate() {
        let every = Duration::from_micros(10);
        let pattern = Pattern::Burst { packets: 3, every };
        let mut s = Schedule::new(Rate::Max, pattern, 0, Time::ZERO);
        let at = departures(&mut s, 25_000, &[64]);
        assert_eq!(at, [0, 0, 0, 10_000, 10_000, 10_000, 20_000, 20_000, 20_000]);
        let mut s = Schedule::new(Rate::Packets(1_000_000), pattern, 0, Time::ZERO);
        let at = departures(&mut s, 20_000, &[64]);
        assert_eq!(at, [0, 1_000, 2_000, 10_000, 11_000, 12_000]);
        // Longer than its period: back to back.
        let mut s = Schedule::new(Rate::Packets(200_000), pattern, 0, Time::ZERO);
        assert_eq!(departures(&mut s, 1_000_000, &[64]).len(), 200);
    }

    #[test]
    fn poisson_keeps_the_mean_and_spreads_like_an_exponential() {
        let mut s = Schedule::new(Rate::Packets(1_000_000), Pattern::Poisson, 7, Time::ZERO);
        let at = departures(&mut s, NS_PER_S, &[64]);
        // The count is Poisson: standard deviation 1,000.
        assert!((995_000..1_005_000).contains(&at.len()), "{}", at.len());
        let gaps: Vec<f64> = at.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.98..1.02).contains(&(var.sqrt() / mean)), "{}", var.sqrt() / mean);
        let beyond = gaps.iter().filter(|&&g| g > 2_000.0).count() as f64 / gaps.len() as f64;
        assert!((beyond - (-2.0_f64).exp()).abs() < 0.005, "{beyond}");
    }

    #[test]
    fn a_seed_repeats_its_departures() {
        let make = |seed| Schedule::new(Rate::Packets(1_000), Pattern::Poisson, seed, Time::ZERO);
        let of = |seed| departures(&mut make(seed), NS_PER_S, &[64]);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    proptest! {
        /// Any window of a constant stream holds as many packets as the rate requires, plus or
        /// minus one.
        #[test]
        fn every_window_holds_the_rate(
            per_s in 1_u64..50_000_000, from in 0_u64..1_000_000, length in 1_u64..2_000_000,
        ) {
            let mut s = Schedule::new(Rate::Packets(per_s), Pattern::Constant, 0, Time::ZERO);
            let at = departures(&mut s, from + length, &[64]);
            let inside = at.iter().filter(|&&t| t >= from).count() as f64;
            let expected = length as f64 * per_s as f64 / 1e9;
            prop_assert!((inside - expected).abs() <= 1.0 + 1e-6, "{inside} {expected}");
        }

        /// The n-th packet leaves at the sum of the costs before it, rounded down: no drift.
        #[test]
        fn bits_are_exact_in_the_long_run(
            per_s in 1_000_000_u64..100_000_000_000,
            sizes in proptest::collection::vec(64_usize..1519, 1..5),
        ) {
            let mut s = Schedule::new(Rate::Layer1(per_s), Pattern::Constant, 0, Time::ZERO);
            let mut bits = 0_u128;
            for i in 0..5_000 {
                let size = sizes[i % sizes.len()];
                let exact = bits * u128::from(NS_PER_S) / u128::from(per_s);
                prop_assert_eq!(u128::from(s.departure().as_nanos()), exact);
                s.advance(size);
                bits += (size as u128 + 20) * 8;
            }
        }
    }

    #[test]
    fn rates_and_patterns_read_as_people_write_them() {
        assert_eq!("max".parse(), Ok(Rate::Max));
        assert_eq!("1Mpps".parse(), Ok(Rate::Packets(1_000_000)));
        assert_eq!("100Mbit".parse(), Ok(Rate::Layer1(100_000_000)));
        assert_eq!("l2:1Gbit".parse(), Ok(Rate::Layer2(1_000_000_000)));
        for nothing in ["0", "0pps", "0bit", "l2:0Mbit"] {
            assert!(nothing.parse::<Rate>().is_err(), "{nothing}");
        }
        assert!("fast".parse::<Rate>().is_err());
        let every = Duration::from_millis(1);
        assert_eq!("burst:32/1ms".parse(), Ok(Pattern::Burst { packets: 32, every }));
        for bad in ["burst", "burst:0/1ms", "burst:5/1", "sometimes"] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad}");
        }
    }
}
