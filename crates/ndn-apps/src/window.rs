//! The congestion window: how many Interests may be pending at once.
//!
//! Additive increase, multiplicative decrease, or CUBIC (RFC 9438), as in other NDN consumers
//! (Schneider et al., "A Practical Congestion Control Scheme for Named Data Networking", ICN 2016;
//! `ndncatchunks`): a mark, a Nack for congestion and a timeout all lower the window; the caller
//! makes sure that this happens at most once per round trip.
//!
//! Slow start ends without a loss when round trips get longer (HyStart++, RFC 9406, without its
//! conservative phase): a forwarder's queue to an application fills quickly, and half of the
//! Interests of a doubled window would be lost.

use std::time::Duration;

use plexus_wire::Time;

/// The smallest window.
const MIN: f64 = 2.0;
/// CUBIC's constant C, in packets/s³ (RFC 9438, 4.1).
const CUBIC_C: f64 = 0.4;
/// CUBIC's factor at a decrease (RFC 9438, 4.6).
const CUBIC_BETA: f64 = 0.7;
/// AIMD's factor at a decrease.
const AIMD_BETA: f64 = 0.5;

/// The algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Constant.
    Fixed,
    /// One packet more per round trip, halved on congestion.
    Aimd,
    /// By the cube of the time since congestion; 0.7 times on congestion.
    #[default]
    Cubic,
}

impl std::str::FromStr for Algorithm {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Algorithm, &'static str> {
        match text {
            "fixed" => Ok(Algorithm::Fixed),
            "aimd" => Ok(Algorithm::Aimd),
            "cubic" => Ok(Algorithm::Cubic),
            _ => Err("write fixed, aimd or cubic"),
        }
    }
}

/// A congestion window, in packets.
#[derive(Clone, Debug)]
pub struct Window {
    algorithm: Algorithm,
    size: f64,
    max: f64,
    /// Below it the window grows by a packet per answer.
    threshold: f64,
    cubic: Cubic,
    start: Start,
}

/// State of slow start.
#[derive(Clone, Debug, Default)]
struct Start {
    /// Answers left in this round trip.
    left: usize,
    /// Samples of this round trip, and the shortest; that of the previous one.
    samples: u32,
    shortest: Option<Duration>,
    before: Option<Duration>,
}

/// Samples before a round trip is judged (RFC 9406, 4.3: N_RTT_SAMPLE).
const SAMPLES: u32 = 8;
/// How much longer the next round trip may be. The RFC has 4 to 16 ms; the queue to an application
/// on the same machine holds less than 4 ms of cached Data.
const LONGER: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));

impl Start {
    /// An answer arrived; true if round trips have become so long that slow start ends.
    fn is_over(&mut self, sample: Option<Duration>, size: usize) -> bool {
        if self.left == 0 {
            *self = Start { left: size, before: self.shortest, ..Start::default() };
        }
        self.left -= 1;
        if let Some(sample) = sample {
            self.samples += 1;
            self.shortest = Some(self.shortest.map_or(sample, |shortest| shortest.min(sample)));
        }
        match (self.shortest, self.before) {
            (Some(shortest), Some(before)) if self.samples >= SAMPLES => {
                shortest >= before + (before / 8).clamp(LONGER.0, LONGER.1)
            }
            _ => false,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Cubic {
    /// The window before the last decrease.
    before: f64,
    /// When growth by the cube began: at the first answer after the decrease.
    since: Option<Time>,
    /// The window at that time.
    from: f64,
    /// The window that AIMD would have (RFC 9438, 4.3).
    friendly: f64,
}

impl Window {
    /// A window that begins with `initial` packets and never exceeds `max`.
    pub fn new(algorithm: Algorithm, initial: usize, max: usize) -> Window {
        let max = max.max(1) as f64;
        let (cubic, start) = (Cubic::default(), Start::default());
        let size = (initial.max(1) as f64).min(max);
        Window { algorithm, size, max, threshold: f64::INFINITY, cubic, start }
    }

    /// How many packets may be pending.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// An answer without a mark arrived. `rtt` is the round-trip time, `sample` that of this
    /// packet, if known.
    pub fn answered(&mut self, now: Time, rtt: Duration, sample: Option<Duration>) {
        let is_fixed = self.algorithm == Algorithm::Fixed;
        if !is_fixed && self.size < self.threshold && self.start.is_over(sample, self.size()) {
            self.threshold = self.size;
        }
        self.size = match self.algorithm {
            Algorithm::Fixed => return,
            _ if self.size < self.threshold => self.size + 1.0,
            Algorithm::Aimd => self.size + 1.0 / self.size,
            Algorithm::Cubic => self.cubic.grow(now, rtt, self.size),
        }
        .min(self.max);
    }

    /// Congestion was signalled.
    pub fn congested(&mut self) {
        let beta = match self.algorithm {
            Algorithm::Fixed => return,
            Algorithm::Aimd => AIMD_BETA,
            Algorithm::Cubic => CUBIC_BETA,
        };
        // Fast convergence (RFC 9438, 4.7): a flow with a smaller window than before makes room for
        // others.
        self.cubic.before = match self.size < self.cubic.before {
            true => self.size * (1.0 + CUBIC_BETA) / 2.0,
            false => self.size,
        };
        self.cubic.since = None;
        self.size = (self.size * beta).max(MIN).min(self.max);
        self.threshold = self.size;
    }
}

impl Cubic {
    fn grow(&mut self, now: Time, rtt: Duration, size: f64) -> f64 {
        let since = match self.since {
            Some(since) => since,
            None => {
                (self.from, self.friendly) = (size, size);
                *self.since.insert(now)
            }
        };
        // Slow start may have ended by itself above the old window.
        let before = self.before.max(self.from);
        let k = ((before - self.from) / CUBIC_C).cbrt();
        let at = |t: f64| CUBIC_C * (t - k).powi(3) + before;
        let t = now.since(since).as_secs_f64();
        let alpha = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
        self.friendly += alpha / size;
        // RFC 9438, 4.2: towards the cube's value a round trip later, but at most 1.5 times the
        // window.
        let target = at(t + rtt.as_secs_f64()).clamp(size, 1.5 * size);
        (size + (target - size) / size).max(self.friendly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// The window after this many round trips without loss.
    fn run(window: &mut Window, now: &mut Time, round_trips: usize) {
        for _ in 0..round_trips {
            *now = *now + RTT;
            for _ in 0..window.size() {
                window.answered(*now, RTT, Some(RTT));
            }
        }
    }

    #[test]
    fn slow_start_doubles_and_a_decrease_ends_it() {
        let mut now = Time::ZERO;
        let mut window = Window::new(Algorithm::Aimd, 2, 1000);
        run(&mut window, &mut now, 4);
        assert_eq!(window.size(), 32);
        window.congested();
        assert_eq!(window.size(), 16);
        run(&mut window, &mut now, 10);
        // One packet more per round trip, less the rounding of the sum.
        assert!((25..=26).contains(&window.size()), "{}", window.size());
        (0..20).for_each(|_| window.congested());
        assert_eq!(window.size(), 2);
    }

    #[test]
    fn slow_start_ends_when_a_queue_builds_up_and_not_by_jitter() {
        let mut window = Window::new(Algorithm::Cubic, 2, 1000);
        let mut round = |ms: &[u64]| {
            for i in 0..window.size() {
                let sample = Duration::from_millis(ms[i % ms.len()]);
                window.answered(Time::ZERO, sample, Some(sample));
            }
            window.size()
        };
        for size in [4, 8, 16, 32] {
            assert_eq!(round(&[60, 50, 90, 70]), size);
        }
        // More than an eighth of 50 ms longer, at the eighth sample.
        assert_eq!(round(&[57]), 32 + 7);
        assert!(round(&[57]) < 45);
    }

    #[test]
    fn cubic_comes_back_to_the_old_window_when_its_formula_says() {
        let mut now = Time::ZERO;
        let mut window = Window::new(Algorithm::Cubic, 1000, 100_000);
        window.congested();
        assert_eq!(window.size(), 700);
        // K = cbrt(300 / 0.4) = 9.09 s.
        run(&mut window, &mut now, 45);
        let halfway = window.size();
        assert!((900..999).contains(&halfway), "{halfway} after 4.5 s");
        run(&mut window, &mut now, 45);
        assert!((990..=1002).contains(&window.size()), "{} after 9 s", window.size());
        run(&mut window, &mut now, 60);
        // 0.4 * 6³ = 86 above.
        assert!((1060..1110).contains(&window.size()), "{} after 15 s", window.size());
    }

    #[test]
    fn a_window_keeps_to_its_bounds() {
        let mut now = Time::ZERO;
        for algorithm in [Algorithm::Aimd, Algorithm::Cubic] {
            let mut window = Window::new(algorithm, 2, 50);
            run(&mut window, &mut now, 20);
            assert_eq!(window.size(), 50);
        }
        let mut window = Window::new(Algorithm::Fixed, 16, 50);
        run(&mut window, &mut now, 5);
        window.congested();
        assert_eq!(window.size(), 16);
    }
}
