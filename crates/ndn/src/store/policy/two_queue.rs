//! 2Q, full version (Johnson and Shasha, VLDB 1994): new entries pass a FIFO of a quarter of the
//! cache; an entry requested again after leaving it enters an LRU.

use super::Policy;
use super::ghost::Ghost;
use super::queues::{NONE, Queues};

/// A1in of the paper.
const IN: usize = 0;
/// Am of the paper.
const MAIN: usize = 1;

/// Evicts new entries first come first served, and returning ones by LRU.
pub struct TwoQueue {
    queues: Queues<2>,
    /// A1out of the paper: half as many as there are slots.
    ghost: Ghost,
    /// Weight above which new entries are evicted.
    limit: u64,
}

impl TwoQueue {
    /// For slots `0..slots` of a cache that holds `capacity` of weight.
    pub fn new(slots: usize, capacity: u64) -> TwoQueue {
        let ghost = Ghost::new((slots / 2).max(1));
        TwoQueue { queues: Queues::new(slots), ghost, limit: capacity / 4 }
    }
}

impl Policy for TwoQueue {
    fn on_insert(&mut self, slot: u32, hash: u64, weight: u32) -> bool {
        let known = self.ghost.take(hash);
        self.queues.insert(if known { MAIN } else { IN }, slot, hash, weight);
        known
    }

    fn on_hit(&mut self, slot: u32) {
        if self.queues.queue(slot) == MAIN {
            self.queues.renew(MAIN, slot);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let from_in = self.queues.weight(IN) > self.limit || self.queues.is_empty(MAIN);
        let slot = self.queues.oldest(if from_in { IN } else { MAIN });
        if slot == NONE {
            return None;
        }
        if from_in {
            self.ghost.insert(self.queues.hash(slot));
        }
        self.queues.remove(slot);
        Some(slot)
    }

    fn on_remove(&mut self, slot: u32) {
        self.queues.remove(slot);
    }
}
