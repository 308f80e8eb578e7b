//! When a packet is marked for congestion, by the length of the queue before it.
//!
//! As in NFD (`GenericLinkService::checkCongestionLevel`), after CoDel (RFC 8289): a queue that has
//! been above the threshold for one interval marks a packet. While it stays above, more packets are
//! marked; the time to the next mark is the interval divided by the square root of one more than
//! the packets marked.
//!
//! The driver reports the queue length. In the daemon this is its own backlog plus, as with NFD,
//! the bytes that a Unix, TCP or UDP socket has accepted but not sent. Ethernet ports do not report
//! it, nor do they in NFD, so Ethernet faces mark nothing.

use std::time::Duration;

use plexus_wire::Time;

/// When a queue counts as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Queue length in bytes that is still acceptable.
    pub threshold: usize,
    /// How long the queue may exceed it before the first mark.
    pub interval: Duration,
}

impl Default for Marking {
    /// NFD's: 64 KiB and 100 ms.
    fn default() -> Marking {
        Marking { threshold: 64 << 10, interval: Duration::from_millis(100) }
    }
}

/// State of a queue.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    /// Time of the next mark, while the queue is long.
    next: Option<Time>,
    /// Packets marked since then.
    marked: u32,
}

impl Congestion {
    /// Whether to mark the packet that is about to be enqueued behind `queued` bytes.
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
        // After 100, then 100/√2, 100/√3, … ms.
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
