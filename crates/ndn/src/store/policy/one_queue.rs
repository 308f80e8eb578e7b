//! One queue: first in, first out, or least recently used.

use super::Policy;
use super::queues::{NONE, Queues};

/// Evicts the oldest entry of a queue; with `RENEWS` a request makes an entry the newest.
pub struct OneQueue<const RENEWS: bool> {
    queues: Queues<1>,
}

/// Evicts the oldest entry: the least work, and the baseline for comparisons.
pub type Fifo = OneQueue<false>;

/// Evicts the least recently used entry. Every hit writes to three entries, and one scan empties
/// the cache.
pub type Lru = OneQueue<true>;

impl<const RENEWS: bool> OneQueue<RENEWS> {
    /// For slots `0..slots`.
    pub fn new(slots: usize) -> OneQueue<RENEWS> {
        OneQueue { queues: Queues::new(slots) }
    }
}

impl<const RENEWS: bool> Policy for OneQueue<RENEWS> {
    fn on_insert(&mut self, slot: u32, hash: u64, weight: u32) -> bool {
        self.queues.insert(0, slot, hash, weight);
        false
    }

    fn on_hit(&mut self, slot: u32) {
        if RENEWS {
            self.queues.renew(0, slot);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let slot = self.queues.oldest(0);
        (slot != NONE).then(|| {
            self.queues.remove(slot);
            slot
        })
    }

    fn on_remove(&mut self, slot: u32) {
        self.queues.remove(slot);
    }
}
