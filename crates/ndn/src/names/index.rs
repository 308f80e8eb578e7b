//! From keyed hashes to numbers of entries that the caller keeps: linear probing, removal that
//! leaves no tombstones, a fixed size.

use plexus_table::prefetch;

const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Place {
    /// Upper half of the hash: where the search begins, and a first comparison.
    tag: u32,
    entry: u32,
}

/// Finds entries by hash; several may have one.
pub(crate) struct Index {
    places: Box<[Place]>,
    len: usize,
}

impl Index {
    /// For up to `capacity` entries, which fill it by half.
    pub(crate) fn new(capacity: usize) -> Index {
        let places = (capacity.max(2) * 2).next_power_of_two();
        Index { places: vec![Place { tag: 0, entry: EMPTY }; places].into(), len: 0 }
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    #[inline(always)]
    fn position(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<usize> {
        let tag = (hash >> 32) as u32;
        let mut at = tag as usize & self.mask();
        loop {
            let place = self.places[at];
            if place.entry == EMPTY {
                return None;
            }
            if place.tag == tag && is(place.entry) {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Asks for the memory where a search for this hash begins.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(&self.places[(hash >> 32) as usize & self.mask()]);
    }

    /// An entry that a search for this hash is likely to end with.
    #[inline(always)]
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// The first entry of this hash that `is` the one. `is` has to compare names: it is asked
    /// about every entry that has half of the hash.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.position(hash, is).map(|at| self.places[at].entry)
    }

    /// Puts an entry in, which is not there; false if there is no room.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, entry: u32) -> bool {
        if self.len * 4 >= self.places.len() * 3 {
            return false;
        }
        let tag = (hash >> 32) as u32;
        let mut at = tag as usize & self.mask();
        while self.places[at].entry != EMPTY {
            at = (at + 1) & self.mask();
        }
        self.places[at] = Place { tag, entry };
        self.len += 1;
        true
    }

    /// Takes an entry out, if it is there.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, entry: u32) {
        let Some(mut hole) = self.position(hash, |e| e == entry) else { return };
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask();
            let place = self.places[at];
            if place.entry == EMPTY {
                break;
            }
            // It may fill the hole unless its search begins behind it.
            let home = place.tag as usize & self.mask();
            if at.wrapping_sub(home) & self.mask() >= at.wrapping_sub(hole) & self.mask() {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole].entry = EMPTY;
    }

    /// Bytes of its memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.places[..])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Few homes, so that searches run into each other and around the end.
        #[test]
        fn it_holds_what_was_put_in(steps in prop::collection::vec((0u32..40, 0u8..3), 0..200)) {
            let mut index = Index::new(20);
            let mut model = BTreeSet::new();
            let hash = |entry: u32| u64::from(entry % 5 + 60) << 32;
            for (entry, kind) in steps {
                match kind {
                    0 => {
                        index.remove(hash(entry), entry);
                        model.remove(&entry);
                    }
                    _ if !model.contains(&entry) && index.insert(hash(entry), entry) => {
                        model.insert(entry);
                    }
                    _ => {}
                }
                for entry in 0..40 {
                    let found = index.find(hash(entry), |e| e == entry);
                    prop_assert_eq!(found.is_some(), model.contains(&entry));
                }
            }
        }
    }
}
