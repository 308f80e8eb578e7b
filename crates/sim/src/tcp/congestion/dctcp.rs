//! DCTCP (RFC 8257, 3.3): the window shrinks by the fraction of bytes that were marked. It grows as
//! NewReno's does, and halves on loss.

use super::{Acked, Window};

/// Estimation gain (4.2).
const G: f64 = 1.0 / 16.0;

#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    alpha: f64,
    /// This observation window ends when everything below is acknowledged.
    window_end: u64,
    acked: u64,
    marked: u64,
}

impl Default for Dctcp {
    /// The first mark halves (3.3: alpha begins at 1).
    fn default() -> Dctcp {
        Dctcp { alpha: 1.0, window_end: 0, acked: 0, marked: 0 }
    }
}

impl Dctcp {
    /// Steps 1 to 8 of section 3.3.
    #[inline]
    pub(super) fn count(&mut self, acked: &Acked) {
        self.acked += acked.bytes;
        if acked.echo {
            self.marked += acked.bytes;
        }
        if acked.una <= self.window_end || self.acked == 0 {
            return;
        }
        let fraction = self.marked as f64 / self.acked as f64;
        self.alpha = self.alpha * (1.0 - G) + G * fraction;
        self.window_end = acked.nxt;
        (self.acked, self.marked) = (0, 0);
    }

    /// Step 9 of section 3.3.
    pub(super) fn shrink(&mut self, window: &mut Window) {
        window.shrink((window.cwnd as f64 * (1.0 - self.alpha / 2.0)) as u64);
    }

    pub(super) fn alpha(&self) -> f64 {
        self.alpha
    }
}
