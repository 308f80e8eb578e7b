//! A hash table from 64-bit hashes to small numbers, of fixed size: linear probing, and removal
//! that leaves no tombstones, so that it never has to be built anew.

const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Place {
    /// Upper half of the hash: where the search begins, and a first comparison.
    tag: u32,
    value: u32,
}

/// Finds values by the hash of what they stand for; the caller compares the rest. Hashes must be
/// keyed, or who chooses names can make every search long.
pub(super) struct Table {
    places: Vec<Place>,
    used: usize,
}

impl Table {
    /// For up to `capacity` values, which fill it by two thirds at most.
    pub(super) fn new(capacity: usize) -> Table {
        let places = (capacity + capacity / 2 + 1).next_power_of_two();
        Table { places: vec![Place { tag: 0, value: EMPTY }; places], used: 0 }
    }

    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    fn home(&self, tag: u32) -> usize {
        tag as usize & self.mask()
    }

    fn position(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<usize> {
        let tag = (hash >> 32) as u32;
        let mut at = self.home(tag);
        loop {
            let place = self.places[at];
            if place.value == EMPTY {
                return None;
            }
            if place.tag == tag && is_it(place.value) {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// The value of this hash that is the one looked for.
    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.position(hash, is_it).map(|at| self.places[at].value)
    }

    /// Puts a value in, which is not there yet.
    pub(super) fn insert(&mut self, hash: u64, value: u32) {
        debug_assert!(value != EMPTY);
        assert!(self.used < self.mask(), "the table is full");
        let tag = (hash >> 32) as u32;
        let mut at = self.home(tag);
        while self.places[at].value != EMPTY {
            at = (at + 1) & self.mask();
        }
        self.places[at] = Place { tag, value };
        self.used += 1;
    }

    /// Puts another value in the place of one.
    pub(super) fn replace(&mut self, hash: u64, old: u32, new: u32) {
        if let Some(at) = self.position(hash, |value| value == old) {
            self.places[at].value = new;
        }
    }

    /// Takes a value out, if it is there.
    pub(super) fn remove(&mut self, hash: u64, value: u32) {
        let Some(mut hole) = self.position(hash, |v| v == value) else { return };
        self.used -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask();
            let place = self.places[at];
            if place.value == EMPTY {
                break;
            }
            // It may fill the hole unless its search begins after it.
            let home = self.home(place.tag);
            if at.wrapping_sub(home) & self.mask() >= at.wrapping_sub(hole) & self.mask() {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole].value = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Few homes, so that searches run into each other and around the end.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u64..40, 0u8..3), 0..300)) {
            let mut table = Table::new(20);
            let mut model = HashMap::new();
            for (i, (key, kind)) in steps.into_iter().enumerate() {
                let (hash, value) = ((key % 5 + 28) << 32, key as u32);
                match (kind, model.contains_key(&key)) {
                    (0, true) => {
                        table.remove(hash, value);
                        model.remove(&key);
                    }
                    (_, false) if kind > 0 && model.len() < 20 => {
                        table.insert(hash, value);
                        model.insert(key, i);
                    }
                    _ => {}
                }
                for key in 0..40u64 {
                    let found = table.find((key % 5 + 28) << 32, |v| v == key as u32);
                    prop_assert_eq!(found.is_some(), model.contains_key(&key));
                }
            }
        }
    }
}
