//! SIEVE (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): a queue whose entries keep their
//! position. A hand moves from the oldest to the newest, spares requested entries once, and evicts.

use super::Policy;
use super::queues::{NONE, Queues};

/// Evicts the next entry before the hand that has not been requested.
pub struct Sieve {
    queues: Queues<1>,
    /// Where the search continues; [`NONE`]: at the oldest.
    hand: u32,
}

impl Sieve {
    /// For slots `0..slots`.
    pub fn new(slots: usize) -> Sieve {
        Sieve { queues: Queues::new(slots), hand: NONE }
    }
}

impl Policy for Sieve {
    fn on_insert(&mut self, slot: u32, hash: u64, weight: u32) -> bool {
        self.queues.insert(0, slot, hash, weight);
        false
    }

    fn on_hit(&mut self, slot: u32) {
        *self.queues.mark(slot) = 1;
    }

    fn victim(&mut self) -> Option<u32> {
        if self.queues.is_empty(0) {
            return None;
        }
        loop {
            let slot = if self.hand == NONE { self.queues.oldest(0) } else { self.hand };
            self.hand = self.queues.newer(slot);
            if std::mem::take(self.queues.mark(slot)) == 0 {
                self.queues.remove(slot);
                return Some(slot);
            }
        }
    }

    fn on_remove(&mut self, slot: u32) {
        if self.hand == slot {
            self.hand = self.queues.newer(slot);
        }
        self.queues.remove(slot);
    }
}
