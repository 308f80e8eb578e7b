//! Retransmission suppression with exponential back-off (NFD developer guide, "Best Route
//! Strategy"): an Interest that arrives within the interval after it was last forwarded is
//! suppressed; each time one is forwarded, the interval grows.

use plexus_wire::Time;

use super::Turn;
use crate::face::FaceId;

/// The intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suppression {
    /// The first, in milliseconds, above 0.
    pub initial_ms: u32,
    /// The longest, in milliseconds, not below the first.
    pub max_ms: u32,
    /// Factor from each to the next, 1 or more.
    pub multiplier: f32,
}

impl Default for Suppression {
    fn default() -> Suppression {
        Suppression { initial_ms: 10, max_ms: 250, multiplier: 2.0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No answer is pending.
    New,
    /// Too soon: suppress it.
    Suppress,
    /// A retransmission to forward.
    Forward,
}

impl Suppression {
    fn is_too_soon(&self, interval_ms: u32, sent: Time, now: Time) -> bool {
        now.since(sent).as_millis() < u128::from(interval_ms.max(self.initial_ms))
    }

    fn grow(&self, interval_ms: u32) -> u32 {
        let next = interval_ms.max(self.initial_ms) as f32 * self.multiplier;
        (next as u32).min(self.max_ms)
    }

    /// For the pending Interest as a whole; grows the interval if it is forwarded.
    #[inline]
    pub(super) fn of_entry(&self, turn: &mut Turn<'_>) -> Verdict {
        if !turn.is_pending() {
            return Verdict::New;
        }
        let sent = turn.pit.outs(turn.id).map(|r| r.sent).max().unwrap_or_default();
        let entry = turn.pit.get_mut(turn.id);
        if self.is_too_soon(entry.suppression_ms, sent, turn.now) {
            return Verdict::Suppress;
        }
        entry.suppression_ms = self.grow(entry.suppression_ms);
        Verdict::Forward
    }

    /// For one upstream; grows the interval if it is forwarded.
    pub(super) fn of_upstream(&self, turn: &mut Turn<'_>, face: FaceId) -> Verdict {
        let now = turn.now;
        let Some(record) = turn.pit.out_mut(turn.id, face) else { return Verdict::New };
        if self.is_too_soon(record.suppression_ms, record.sent, now) {
            return Verdict::Suppress;
        }
        record.suppression_ms = self.grow(record.suppression_ms);
        Verdict::Forward
    }
}
