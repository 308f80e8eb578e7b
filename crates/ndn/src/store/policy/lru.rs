//! Least recently used. Every hit writes to three entries, and one scan empties the cache.

use super::Policy;
use super::queues::{NONE, Queues};

/// Evicts the least recently used entry.
pub struct Lru {
    queues: Queues<1>,
}

impl Lru {
    /// For slots `0..slots`.
    pub fn new(slots: usize) -> Lru {
        Lru { queues: Queues::new(slots) }
    }
}

impl Policy for Lru {
    fn on_insert(&mut self, slot: u32, hash: u64, weight: u32) -> bool {
        self.queues.insert(0, slot, hash, weight);
        false
    }

    fn on_hit(&mut self, slot: u32) {
        self.queues.renew(0, slot);
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
