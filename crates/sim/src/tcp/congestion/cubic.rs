//! CUBIC (RFC 9438). Windows in segments, as the RFC has them.

use plexus_wire::Time;

use super::{Acked, Window};

/// How fast the window grows (5.1).
const C: f64 = 0.4;
/// What is left of the window after a loss (4.6).
const BETA: f64 = 0.7;
/// Growth in segments per round trip that gives Reno's share with this β (4.3, equation 4).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[derive(Clone, Debug, Default)]
pub(crate) struct Cubic {
    /// The window just before the last loss, lowered by fast convergence.
    w_max: f64,
    /// The window just before the last loss.
    cwnd_prior: f64,
    /// What Reno would have.
    w_est: f64,
    /// Seconds until the function reaches `w_max`.
    k: f64,
    /// When this congestion avoidance began.
    epoch: Option<Time>,
    /// The fraction of a byte that the window is larger than it says.
    rest: f64,
}

impl Cubic {
    /// Congestion avoidance (4.2 to 4.5). RFC 9438 grows by `(target - cwnd) / cwnd` per
    /// acknowledgement; here per acknowledged segment, as Linux does, so that delayed
    /// acknowledgements do not slow it: after a round trip the window is the target.
    pub(super) fn grow(&mut self, window: &mut Window, acked: &Acked, bytes: u64) {
        let mss = window.mss as f64;
        let cwnd = (window.cwnd as f64 + self.rest) / mss;
        let segments = bytes as f64 / mss;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.begin(cwnd);
                self.epoch = Some(acked.now);
                acked.now
            }
        };
        let t = acked.now.since(epoch).as_nanos() as f64 / 1e9;
        let alpha = if self.w_est >= self.cwnd_prior { 1.0 } else { ALPHA };
        self.w_est += alpha * segments / cwnd;
        let grown = if self.at(t) < self.w_est {
            // Reno-friendly region (4.3).
            cwnd.max(self.w_est)
        } else {
            let target = self.at(t + acked.srtt as f64 / 1e9).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) / cwnd * segments
        };
        let exact = grown * mss;
        window.cwnd = exact as u64;
        self.rest = exact - window.cwnd as f64;
    }

    /// W_cubic(t) (4.2, equation 1).
    fn at(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.w_max
    }

    fn begin(&mut self, cwnd: f64) {
        // (4.2, equation 2); beyond the old maximum, or without one, it only probes upwards (4.8).
        if cwnd < self.w_max {
            self.k = ((self.w_max - cwnd) / C).cbrt();
        } else {
            self.k = 0.0;
            self.w_max = cwnd;
        }
        self.w_est = cwnd;
    }

    /// Multiplicative decrease (4.6) and fast convergence (4.7).
    pub(super) fn shrink(&mut self, window: &mut Window, flight: u64) {
        let cwnd = window.cwnd as f64 / window.mss as f64;
        self.cwnd_prior = cwnd;
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.restart();
        window.shrink((flight as f64 * BETA) as u64);
    }

    /// After a timeout K is 0 and the maximum is what the window is when avoidance begins (4.8).
    pub(super) fn forget(&mut self) {
        self.w_max = 0.0;
    }

    pub(super) fn restart(&mut self) {
        self.epoch = None;
        self.rest = 0.0;
    }
}
