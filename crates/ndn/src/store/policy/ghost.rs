//! The ghost queue: hashes of evicted entries.

use plexus_table::prefetch;

/// Hashes a bucket holds.
const WAYS: usize = 8;

/// One cache line.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Bucket([u64; WAYS]);

/// Remembers the last `limit` hashes added. A bucket that overflows forgets its oldest a little
/// early, and one hash in some hundred million matches another: both misjudge an entry and never
/// return a wrong packet.
pub(super) struct Ghost {
    /// Upper half: fingerprint of the hash; lower half: the number of the insertion; 0 is empty.
    buckets: Vec<Bucket>,
    limit: u32,
    /// Insertions so far, from 1.
    clock: u32,
}

impl Ghost {
    pub(super) fn new(limit: usize) -> Ghost {
        // Half full on average, so that few buckets overflow.
        let buckets = (limit * 2).div_ceil(WAYS).next_power_of_two();
        Ghost {
            buckets: vec![Bucket([0; WAYS]); buckets],
            limit: u32::try_from(limit).unwrap_or(u32::MAX / 2).min(u32::MAX / 2),
            clock: 1,
        }
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// Prefetches the memory of a hash.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(&self.buckets[self.bucket(hash)]);
    }

    /// Adds a hash. After 2^32 insertions the counter restarts and the queue is cleared.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64) {
        self.clock = match self.clock.checked_add(1) {
            Some(clock) => clock,
            None => {
                self.buckets.fill(Bucket([0; WAYS]));
                1
            }
        };
        let (clock, at) = (self.clock, self.bucket(hash));
        // The oldest has the lowest number, an empty slot 0.
        if let Some(place) = self.buckets[at].0.iter_mut().min_by_key(|entry| **entry as u32) {
            *place = hash >> 32 << 32 | u64::from(clock);
        }
    }

    /// Whether the hash is among the last ones added; it is removed.
    #[inline]
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let (clock, limit, at) = (self.clock, self.limit, self.bucket(hash));
        let entries = &mut self.buckets[at].0;
        // All slots are compared, as the position cannot be predicted; mostly none matches.
        let fits = |entry: u64| (entry ^ hash) >> 32 == 0;
        if !entries.iter().fold(false, |any, entry| any | fits(*entry)) {
            return false;
        }
        let is_known = |entry: &&mut u64| {
            let number = **entry as u32;
            fits(**entry) && number != 0 && clock - number < limit
        };
        entries.iter_mut().find(is_known).map(|entry| *entry = 0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&i.to_le_bytes())
    }

    #[test]
    fn it_remembers_the_last_ones_and_no_others() {
        let mut ghost = Ghost::new(1000);
        (0..5000).for_each(|i| ghost.insert(hash(i)));
        let known: Vec<u64> = (0..6000).filter(|&i| ghost.take(hash(i))).collect();
        assert!(known.iter().all(|i| (4000..5000).contains(i)), "{known:?}");
        assert!(known.len() > 950, "buckets lost {} of 1,000", 1000 - known.len());
    }

    #[test]
    fn a_taken_hash_is_forgotten() {
        let mut ghost = Ghost::new(10);
        ghost.insert(hash(1));
        assert!(ghost.take(hash(1)) && !ghost.take(hash(1)));
    }
}
