//! When a packet is marked for congestion, by the length of the queue in front of it.
//!
//! As NFD does (`GenericLinkService::checkCongestionLevel`), after CoDel (RFC 8289): a queue that
//! has been above the threshold for one interval marks a packet; while it stays there, further ones
//! at intervals divided by the square root of one more than the packets marked.
//!
//! How long the queue is, a driver says: in the daemon what waits there and, as with NFD, what a
//! Unix, TCP or UDP socket has taken and not sent. Ports of Ethernets do not tell that, nor to NFD,
//! so that these faces mark nothing.

use std::time::Duration;

use plexus_wire::Time;

/// What long is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Bytes in the queue that are not too many.
    pub threshold: usize,
    /// How long it may be above that before the first mark.
    pub interval: Duration,
}

impl Default for Marking {
    /// NFD's: 64 KiB and 100 ms.
    fn default() -> Marking {
        Marking { threshold: 64 << 10, interval: Duration::from_millis(100) }
    }
}

/// What a queue has been like.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    /// The next mark, while the queue is long.
    next: Option<Time>,
    /// Packets marked since it is.
    marked: u32,
}

impl Congestion {
    /// Whether the packet that is about to queue behind `queued` bytes is to be marked.
    #[inline]
    pub(super) fn marks(&mut self, now: Time, queued: usize, marking: &Marking) -> bool {
        if queued <= marking.threshold {
            *self = Congestion::default();
            return false;
        }
        let Some(next) = self.next else {
            self.next = Some(now + marking.interval);
            return false;
        };
        if now < next {
            return false;
        }
        self.marked = self.marked.saturating_add(1);
        let parts = f64::from(self.marked.saturating_add(1)).sqrt();
        self.next = Some(next + marking.interval.div_f64(parts));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKING: Marking = Marking { threshold: 1000, interval: Duration::from_millis(100) };

    #[test]
    fn a_queue_that_stays_long_marks_more_and_more_often() {
        let mut congestion = Congestion::default();
        let marked: Vec<u64> = (0..500)
            .filter(|ms| congestion.marks(Time::from_millis(*ms), 1001, &MARKING))
            .collect();
        // 100, then 100/√2, 100/√3, … ms on.
        assert_eq!(marked, [100, 171, 229, 279, 324, 364, 402, 438, 471]);
    }

    #[test]
    fn a_queue_that_was_short_in_between_begins_anew() {
        let mut congestion = Congestion::default();
        assert!(!congestion.marks(Time::from_millis(0), 1001, &MARKING));
        assert!(!congestion.marks(Time::from_millis(99), 1000, &MARKING));
        assert!(!congestion.marks(Time::from_millis(150), 5000, &MARKING));
        assert!(!congestion.marks(Time::from_millis(249), 5000, &MARKING));
        assert!(congestion.marks(Time::from_millis(250), 5000, &MARKING));
    }
}
