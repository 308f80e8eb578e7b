//! HyStart++ (RFC 9406): the first slow start ends when round trips become longer, before the queue
//! that makes them so overflows.
//!
//! The kernel's CUBIC has the older HyStart, which watches delays by the same thresholds, leaves
//! slow start at once where HyStart++ first looks for five rounds whether it was wrong, and besides
//! watches how long a train of acknowledgements is, which this does not.

use super::Acked;

/// Least and most by which a round must take longer (4.3: MIN_RTT_THRESH, MAX_RTT_THRESH), ns.
const THRESHOLD: std::ops::RangeInclusive<u64> = 4_000_000..=16_000_000;
/// Between them it is this part of the round trip before (MIN_RTT_DIVISOR).
const RTT_DIVISOR: u64 = 8;
/// Samples that say how long a round takes (N_RTT_SAMPLE).
const SAMPLES: u32 = 8;
/// How much slower the window grows while it is not sure yet (CSS_GROWTH_DIVISOR).
const GROWTH_DIVISOR: u64 = 4;
/// For so many rounds (CSS_ROUNDS).
const ROUNDS: u32 = 5;

/// What slow start is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Grow by what is acknowledged, divided by this.
    Grow(u64),
    /// End: the threshold is the window.
    End,
}

/// Of a connection in its first slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// Where the data end whose acknowledgement ends the round; none before the first one.
    round_ends: Option<u64>,
    /// The shortest round trip of the last round and of this one, ns.
    last_min: Option<u64>,
    current_min: Option<u64>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// Conservative slow start (4.2).
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The round trip that made it begin, ns.
    baseline: u64,
    rounds: u32,
}

impl HyStart {
    /// Before the first acknowledgement.
    pub(super) fn new() -> HyStart {
        let (round_ends, last_min, current_min) = (None, None, None);
        HyStart { round_ends, last_min, current_min, samples: 0, conservative: None }
    }

    /// New data were acknowledged in slow start.
    pub(super) fn on_ack(&mut self, acked: &Acked) -> Advice {
        let ends = *self.round_ends.get_or_insert(acked.nxt);
        if let Some(rtt) = acked.rtt {
            self.current_min = Some(self.current_min.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        if let (Some(current), true) = (self.current_min, self.samples >= SAMPLES) {
            match self.conservative {
                // It was no queue: round trips are short again.
                Some(Conservative { baseline, .. }) if current < baseline => {
                    self.conservative = None;
                }
                None if self.last_min.is_some_and(|last| is_longer(current, last)) => {
                    self.conservative = Some(Conservative { baseline: current, rounds: 0 });
                }
                _ => {}
            }
        }
        if acked.una >= ends {
            self.round_ends = Some(acked.nxt);
            self.last_min = self.current_min.take();
            self.samples = 0;
            if let Some(conservative) = &mut self.conservative {
                // The one that it began in counts.
                conservative.rounds += 1;
                if conservative.rounds >= ROUNDS {
                    return Advice::End;
                }
            }
        }
        Advice::Grow(if self.conservative.is_some() { GROWTH_DIVISOR } else { 1 })
    }
}

/// Whether a round's shortest trip is so much longer than that of the one before that a queue must
/// have grown.
fn is_longer(current: u64, last: u64) -> bool {
    current >= last + (last / RTT_DIVISOR).clamp(*THRESHOLD.start(), *THRESHOLD.end())
}

#[cfg(test)]
mod tests {
    use plexus_wire::Time;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Rounds of ten acknowledgements each, which take so many milliseconds; the last advice of
    /// each, up to the one that ends it all.
    fn advice(rounds: &[u64]) -> Vec<Advice> {
        let mut hystart = HyStart::new();
        let mut last = vec![];
        for (at, rtt_ms) in (0..).step_by(10).zip(rounds) {
            for n in 1..=10 {
                let acked = Acked {
                    now: Time::ZERO,
                    bytes: 1,
                    srtt: 0,
                    rtt: Some(rtt_ms * MS),
                    echo: false,
                    una: at + n,
                    nxt: at + 10 + n,
                    grow: true,
                };
                let advice = hystart.on_ack(&acked);
                if n == 10 || advice == Advice::End {
                    last.push(advice);
                }
                if advice == Advice::End {
                    return last;
                }
            }
        }
        last
    }

    const FULL: Advice = Advice::Grow(1);
    const SLOW: Advice = Advice::Grow(4);

    #[test]
    fn longer_round_trips_slow_it_down_and_five_rounds_of_them_end_it() {
        // An eighth of 40 ms is within the bounds: 5 ms.
        assert_eq!(advice(&[40, 40, 44, 44]), [FULL; 4]);
        // The round in which it slows down is the first of the five.
        let found = advice(&[40, 40, 46, 46, 46, 46, 46, 46, 46]);
        assert_eq!(found, [FULL, FULL, SLOW, SLOW, SLOW, SLOW, SLOW, Advice::End]);
    }

    #[test]
    fn thresholds_are_bounded() {
        // 4 ms at least, though an eighth of 1 ms is less; 16 ms at most of 400 ms.
        assert_eq!(advice(&[1, 1, 4, 4]), [FULL; 4]);
        assert_eq!(advice(&[1, 1, 6])[2], SLOW);
        assert_eq!(advice(&[400, 400, 414])[2], FULL);
        assert_eq!(advice(&[400, 400, 418])[2], SLOW);
    }

    #[test]
    fn round_trips_that_are_short_again_end_the_caution() {
        let found = advice(&[40, 40, 50, 41, 41, 41, 41, 41, 41, 41]);
        assert_eq!(found[2], SLOW);
        assert_eq!(found[4..], [FULL; 6]);
    }
}
