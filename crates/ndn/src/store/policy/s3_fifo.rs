//! S3-FIFO (Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023, algorithm
//! 1): a small queue for new entries, a main queue, and a ghost queue of names.
//!
//! A hit adds to a mark of two bits, in the entry's own node: no list is touched.

use super::Policy;
use super::ghost::Ghost;
use super::queues::{NONE, Queues};

const SMALL: usize = 0;
const MAIN: usize = 1;
/// The most hits that are counted.
const MARK_MAX: u8 = 3;

/// Evicts entries requested once early; entries that return stay.
pub struct S3Fifo {
    queues: Queues<2>,
    ghost: Ghost,
    /// Weight of the small queue from which on it provides the victims: a tenth of all.
    small: u64,
}

impl S3Fifo {
    /// For slots `0..slots` of a cache that holds `capacity` of weight.
    pub fn new(slots: usize, capacity: u64) -> S3Fifo {
        S3Fifo {
            queues: Queues::new(slots),
            // As many as the main queue holds (section 4.2).
            ghost: Ghost::new((slots - slots / 10).max(1)),
            small: capacity / 10,
        }
    }

    /// The victim among new entries, unless all of them deserve the main queue.
    fn victim_of_small(&mut self) -> Option<u32> {
        loop {
            let slot = self.queues.oldest(SMALL);
            if slot == NONE {
                return None;
            }
            // Two hits, as in the paper's algorithm: one may belong to the same burst.
            if *self.queues.mark(slot) > 1 {
                *self.queues.mark(slot) = 0;
                self.queues.renew(MAIN, slot);
            } else {
                self.ghost.insert(self.queues.hash(slot));
                self.queues.remove(slot);
                return Some(slot);
            }
        }
    }

    /// Terminates, because every turn decrements a mark.
    fn victim_of_main(&mut self) -> Option<u32> {
        loop {
            let slot = self.queues.oldest(MAIN);
            if slot == NONE {
                return None;
            }
            let mark = self.queues.mark(slot);
            if *mark == 0 {
                self.queues.remove(slot);
                return Some(slot);
            }
            *mark -= 1;
            self.queues.renew(MAIN, slot);
        }
    }
}

impl Policy for S3Fifo {
    fn on_insert(&mut self, slot: u32, hash: u64, weight: u32) -> bool {
        let known = self.ghost.take(hash);
        self.queues.insert(if known { MAIN } else { SMALL }, slot, hash, weight);
        known
    }

    fn on_hit(&mut self, slot: u32) {
        let mark = self.queues.mark(slot);
        *mark = (*mark + 1).min(MARK_MAX);
    }

    fn victim(&mut self) -> Option<u32> {
        if self.queues.weight(SMALL) >= self.small
            && let Some(slot) = self.victim_of_small()
        {
            return Some(slot);
        }
        self.victim_of_main()
            .or_else(|| self.victim_of_small())
            // All new entries moved to the main queue.
            .or_else(|| self.victim_of_main())
    }

    fn on_remove(&mut self, slot: u32) {
        self.queues.remove(slot);
    }

    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        self.ghost.prefetch(hash);
    }

    /// The oldest new entries: where most are requested once, these are nearly always the victims.
    #[inline(always)]
    fn upcoming(&self) -> [Option<(u32, u64)>; 2] {
        let known = |slot| (slot != NONE).then(|| (slot, self.queues.hash(slot)));
        let next = known(self.queues.oldest(SMALL));
        let after = next.and_then(|(slot, _)| known(self.queues.newer(slot)));
        after.into_iter().for_each(|(slot, _)| self.queues.prefetch(self.queues.newer(slot)));
        [next, after]
    }
}
