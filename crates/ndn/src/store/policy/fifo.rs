//! First in, first out: the least work, and the baseline for comparisons.

use super::Policy;
use super::queues::{NONE, Queues};

/// Evicts the oldest entry.
pub struct Fifo {
    queues: Queues<1>,
}

impl Fifo {
    /// For slots `0..slots`.
    pub fn new(slots: usize) -> Fifo {
        Fifo { queues: Queues::new(slots) }
    }
}

impl Policy for Fifo {
    fn on_insert(&mut self, slot: u32, hash: u64, weight: u32) -> bool {
        self.queues.insert(0, slot, hash, weight);
        false
    }

    fn on_hit(&mut self, _slot: u32) {}

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
