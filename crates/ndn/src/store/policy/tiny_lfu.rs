//! W-TinyLFU (Einziger, Friedman, Manes, "TinyLFU", ACM TOS 2017): a window of 1 % for every new
//! entry, a segmented LRU behind it, and a frequency sketch that decides on admission.
//!
//! Every ten accesses per slot all counters are halved at once: a pause of a millisecond for a
//! million slots, so it cannot be the default for a packet path.

use super::Policy;
use super::queues::{NONE, Queues};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Accesses per slot between two halvings.
const SAMPLES: u64 = 10;
/// Each row's counter is found by the hash times one of these.
const ROWS: [u64; 4] =
    [0xC3A5_C85C_97CB_3127, 0xB492_B66F_BE98_F273, 0x9AE1_6A3B_2F90_404F, 0xCBF2_9CE4_8422_2325];

/// Of the new entry and the one it would displace, evicts the one requested less often.
pub struct TinyLfu {
    queues: Queues<3>,
    sketch: Sketch,
    window: u64,
    main: u64,
    protected: u64,
}

impl TinyLfu {
    /// For slots `0..slots` of a cache that holds `capacity` of weight.
    pub fn new(slots: usize, capacity: u64) -> TinyLfu {
        let window = (capacity / 100).max(1);
        let main = capacity - window.min(capacity);
        TinyLfu {
            queues: Queues::new(slots),
            sketch: Sketch::new(slots),
            window,
            main,
            protected: main / 5 * 4,
        }
    }
}

impl Policy for TinyLfu {
    fn on_insert(&mut self, slot: u32, hash: u64, weight: u32) -> bool {
        let known = self.sketch.estimate(hash) > 0;
        self.sketch.add(hash);
        self.queues.insert(WINDOW, slot, hash, weight);
        // While there is room behind the window, every entry is admitted.
        while self.queues.weight(WINDOW) > self.window
            && self.queues.weight(PROBATION) + self.queues.weight(PROTECTED) < self.main
        {
            self.queues.renew(PROBATION, self.queues.oldest(WINDOW));
        }
        known
    }

    fn on_hit(&mut self, slot: u32) {
        self.sketch.add(self.queues.hash(slot));
        match self.queues.queue(slot) {
            WINDOW => self.queues.renew(WINDOW, slot),
            _ => self.queues.renew(PROTECTED, slot),
        }
        while self.queues.weight(PROTECTED) > self.protected {
            self.queues.renew(PROBATION, self.queues.oldest(PROTECTED));
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let settled = match self.queues.oldest(PROBATION) {
            NONE => self.queues.oldest(PROTECTED),
            slot => slot,
        };
        let newcomer = self.queues.oldest(WINDOW);
        let over = self.queues.weight(WINDOW) > self.window;
        let slot = match (newcomer, settled) {
            (NONE, NONE) => return None,
            (slot, NONE) => slot,
            (NONE, slot) => slot,
            (_, slot) if !over => slot,
            (new, old) => {
                let rate = |slot| self.sketch.estimate(self.queues.hash(slot));
                if rate(new) > rate(old) {
                    self.queues.renew(PROBATION, new);
                    old
                } else {
                    new
                }
            }
        };
        self.queues.remove(slot);
        Some(slot)
    }

    fn on_remove(&mut self, slot: u32) {
        self.queues.remove(slot);
    }
}

/// Four-bit counters; the estimate is the least of four rows.
struct Sketch {
    /// Sixteen counters each; a row takes every fourth.
    words: Vec<u64>,
    added: u64,
    limit: u64,
}

impl Sketch {
    fn new(slots: usize) -> Sketch {
        let words = slots.max(16).next_power_of_two();
        Sketch { words: vec![0; words], added: 0, limit: SAMPLES * slots.max(1) as u64 }
    }

    /// The word and the shift of the counter in each row.
    fn places(&self, hash: u64) -> [(usize, u32); 4] {
        let mask = self.words.len() - 1;
        std::array::from_fn(|row| {
            let mixed = (hash ^ hash >> 32).wrapping_mul(ROWS[row]);
            let counter = (mixed as u32 & 3) * 4 + row as u32;
            ((mixed >> 24) as usize & mask, counter * 4)
        })
    }

    fn estimate(&self, hash: u64) -> u64 {
        let count = |(word, shift): (usize, u32)| self.words[word] >> shift & 15;
        self.places(hash).into_iter().map(count).min().unwrap_or(0)
    }

    fn add(&mut self, hash: u64) {
        for (word, shift) in self.places(hash) {
            if self.words[word] >> shift & 15 < 15 {
                self.words[word] += 1 << shift;
            }
        }
        self.added += 1;
        if self.added >= self.limit {
            self.words.iter_mut().for_each(|word| *word = *word >> 1 & 0x7777_7777_7777_7777);
            self.added /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sketch_counts_at_least_what_was_added_and_ages() {
        let mut sketch = Sketch::new(1024);
        for i in 0..100u64 {
            let hash = xxhash_rust::xxh3::xxh3_64(&i.to_le_bytes());
            (0..i % 15).for_each(|_| sketch.add(hash));
            assert!(sketch.estimate(hash) >= i % 15);
        }
        let often = xxhash_rust::xxh3::xxh3_64(b"often");
        (0..15).for_each(|_| sketch.add(often));
        let before = sketch.estimate(often);
        let other = xxhash_rust::xxh3::xxh3_64(b"other");
        (0..10 * 1024).for_each(|_| sketch.add(other));
        assert!(sketch.estimate(often) < before);
    }
}
