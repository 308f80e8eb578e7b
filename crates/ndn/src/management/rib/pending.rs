//! Pending ranges: names whose next hops may no longer match the routes.
//!
//! They are processed in ascending order, round after round, so that a range which is added again
//! and again does not delay the others.

use std::collections::BTreeMap;

/// Most ranges at a time; with one more, two are merged, and the names between them are processed
/// too.
const RANGES_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Pending {
    /// From a name up to, but excluding, another. Ranges do not touch.
    ranges: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Everything before this has been processed in this round.
    at: Vec<u8>,
}

/// The end of the range of names that begin with `prefix`.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let len = prefix.iter().rposition(|byte| *byte < u8::MAX).map_or(0, |last| last + 1);
    let mut end = prefix[..len].to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        // No component begins with this byte.
        None => end.push(u8::MAX),
    }
    end
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds all names that are longer than `prefix` and begin with it.
    pub(super) fn add_below(&mut self, prefix: &[u8]) {
        let from = [prefix, &[0]].concat();
        self.add(from, end_of(prefix));
        if self.ranges.len() > RANGES_MAX {
            self.join();
        }
    }

    fn add(&mut self, mut from: Vec<u8>, mut to: Vec<u8>) {
        while let Some((near, end)) = self.ranges.range(..=to.clone()).next_back()
            && *end >= from
        {
            let near = near.clone();
            let end = self.ranges.remove(&near).unwrap_or_default();
            (from, to) = (from.min(near), to.max(end));
        }
        self.ranges.insert(from, to);
    }

    /// Merges the first two.
    fn join(&mut self) {
        let first = self.ranges.pop_first();
        let second = self.ranges.pop_first();
        if let (Some((from, _)), Some((_, to))) = (first, second) {
            self.ranges.insert(from, to);
        }
    }

    /// The next range to process.
    pub(super) fn next(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let before = self.ranges.range(..=self.at.clone()).next_back();
        if let Some((_, end)) = before.filter(|(_, end)| **end > self.at) {
            return Some((self.at.clone(), end.clone()));
        }
        let behind = self.ranges.range(self.at.clone()..).next();
        behind.or(self.ranges.first_key_value()).map(|(from, end)| (from.clone(), end.clone()))
    }

    /// The next range has been processed from its beginning up to, but excluding, `to`.
    pub(super) fn done(&mut self, from: &[u8], to: &[u8]) {
        let Some((start, _)) = self.ranges.range(..=from.to_vec()).next_back() else { return };
        let start = start.clone();
        let end = self.ranges.remove(&start).unwrap_or_default();
        if *start < *from {
            self.ranges.insert(start, from.to_vec());
        }
        if *to < end[..] {
            self.ranges.insert(to.to_vec(), end);
        }
        self.at = to.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn prefixes() -> impl Strategy<Value = Vec<u8>> {
        let rest = prop::collection::vec(prop_oneof![1..4u8, Just(255)], 0..3);
        let begun = (1..4u8, rest).prop_map(|(first, rest)| [vec![first], rest].concat());
        prop_oneof![1 => Just(Vec::new()), 9 => begun]
    }

    proptest! {
        /// Every added range is processed, and none waits longer than one round over all names.
        #[test]
        fn every_added_range_is_processed(
            names in prop::collection::btree_set(prefixes(), 1..80),
            steps in prop::collection::vec((prefixes(), 0..3usize), 1..80),
        ) {
            let mut pending = Pending::default();
            let mut owed: BTreeSet<Vec<u8>> = BTreeSet::new();
            let look = |pending: &mut Pending, owed: &mut BTreeSet<Vec<u8>>| {
                let (from, to) = pending.next().unwrap();
                let mut within = names.range(from.clone()..to.clone());
                let one = within.next();
                owed.retain(|name| Some(name) != one);
                let next = within.next().cloned().unwrap_or(to);
                pending.done(&from, &next);
            };
            for (prefix, looks) in &steps {
                pending.add_below(prefix);
                let below = names.iter().filter(|n| n.starts_with(prefix) && *n != prefix);
                owed.extend(below.cloned());
                assert!(pending.ranges.len() <= RANGES_MAX);
                for _ in 0..*looks {
                    if !pending.is_empty() {
                        look(&mut pending, &mut owed);
                    }
                }
            }
            // Everything may be added again after each step.
            for _ in 0..2 * names.len() + RANGES_MAX {
                if !pending.is_empty() {
                    look(&mut pending, &mut owed);
                }
                if !owed.is_empty() {
                    pending.add_below(&[]);
                }
            }
            owed.remove(&vec![]);
            assert!(owed.is_empty(), "{owed:?}");
        }
    }
}
