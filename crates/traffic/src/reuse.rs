//! Reuse distances between packets to the same destination, and the hit rate of a table of
//! destinations.
//!
//! A table with LRU eviction contains a destination exactly if at most as many different
//! destinations as it has entries were used since (Mattson and others, "Evaluation techniques for
//! storage hierarchies", 1970). So one pass over a trace gives the hits of tables of every size.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// How far back the packet before to the same destination is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// In packets, this one included: 1 if it was the one just before.
    pub packets: u64,
    /// In different destinations, including this one: the number of entries that a table with LRU
    /// eviction needs to have kept it.
    pub destinations: u64,
}

/// The exact distances in a trace, packet by packet: O(log d) each for d destinations, whose number
/// also bounds the memory.
#[derive(Clone, Debug)]
pub struct ReuseDistances<K> {
    /// Of each destination, the slot and the number of its last packet.
    last: HashMap<K, (usize, u64)>,
    /// A Fenwick tree over slots in the order of packets, which counts those that are some
    /// destination's last. Slot 0 is no slot.
    tree: Vec<u64>,
    /// The slot of the latest packet.
    slot: usize,
    packets: u64,
}

impl<K: Copy + Eq + Hash> Default for ReuseDistances<K> {
    fn default() -> ReuseDistances<K> {
        ReuseDistances { last: HashMap::new(), tree: vec![0; 1024], slot: 0, packets: 0 }
    }
}

impl<K: Copy + Eq + Hash> ReuseDistances<K> {
    /// Takes the next packet's destination; `None` if it is the first to it.
    pub fn next(&mut self, destination: K) -> Option<Reuse> {
        if self.slot + 1 == self.tree.len() {
            self.compact();
        }
        (self.slot, self.packets) = (self.slot + 1, self.packets + 1);
        let before = self.last.insert(destination, (self.slot, self.packets));
        let reuse = before.map(|(slot, packet)| {
            // All that are in the tree but those up to the slot, and this one itself.
            let destinations = self.last.len() as u64 - self.up_to(slot) + 1;
            self.add(slot, u64::MAX);
            Reuse { packets: self.packets - packet, destinations }
        });
        self.add(self.slot, 1);
        reuse
    }

    /// Different destinations so far.
    pub fn destinations(&self) -> usize {
        self.last.len()
    }

    /// Moves the destinations to the first slots, in the order of their last packets, and makes
    /// room for as many packets.
    fn compact(&mut self) {
        let mut last: Vec<_> = self.last.values_mut().map(|(slot, _)| slot).collect();
        last.sort_unstable_by_key(|slot| **slot);
        let live = last.len();
        for (i, slot) in last.into_iter().enumerate() {
            *slot = i + 1;
        }
        self.slot = live;
        self.tree.clear();
        // A node counts as many slots as its lowest bit says, up to its own.
        let counted = |i: usize| live.min(i).saturating_sub(i - lowest_bit(i)) as u64;
        self.tree.push(0);
        self.tree.extend((1..(2 * live).max(1024)).map(counted));
    }

    fn up_to(&self, mut slot: usize) -> u64 {
        let mut sum = 0_u64;
        while slot > 0 {
            sum = sum.wrapping_add(self.tree[slot]);
            slot -= lowest_bit(slot);
        }
        sum
    }

    /// Adds to a slot; `u64::MAX` takes one away.
    fn add(&mut self, mut slot: usize, number: u64) {
        while let Some(node) = self.tree.get_mut(slot) {
            *node = node.wrapping_add(number);
            slot += lowest_bit(slot);
        }
    }
}

fn lowest_bit(n: usize) -> usize {
    n & n.wrapping_neg()
}

/// Which distance is taken for the entries that a hit needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The distance in packets, as if every packet took an entry: never less than the other.
    Packets,
    /// The distance in destinations: the size that a table with LRU eviction needs.
    Destinations,
}

/// The distances of a trace, counted.
#[derive(Clone, Debug, Default)]
pub struct ReuseProfile {
    packets: u64,
    firsts: u64,
    by_packets: BTreeMap<u64, u64>,
    by_destinations: BTreeMap<u64, u64>,
}

impl ReuseProfile {
    /// The profile of a whole trace.
    pub fn of<K: Copy + Eq + Hash>(trace: impl IntoIterator<Item = K>) -> ReuseProfile {
        let mut distances = ReuseDistances::default();
        let mut profile = ReuseProfile::default();
        for destination in trace {
            profile.packets += 1;
            match distances.next(destination) {
                Some(reuse) => {
                    *profile.by_packets.entry(reuse.packets).or_default() += 1;
                    *profile.by_destinations.entry(reuse.destinations).or_default() += 1;
                }
                None => profile.firsts += 1,
            }
        }
        profile
    }

    /// Packets in the trace.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Different destinations, and so packets that no table hits.
    pub fn destinations(&self) -> u64 {
        self.firsts
    }

    /// Packets whose destination is in a table with this many entries.
    pub fn hits(&self, reading: Reading, entries: u64) -> u64 {
        self.counts(reading).range(..=entries).map(|(_, packets)| packets).sum()
    }

    /// Packets whose destination is in a table that never evicts.
    pub fn hits_at_most(&self) -> u64 {
        self.packets - self.firsts
    }

    /// The fewest entries that reach this part (0 to 1) of the maximum of hits; 0 if there are no
    /// hits.
    pub fn entries_for(&self, reading: Reading, part: f64) -> u64 {
        let wanted = self.hits_at_most() as f64 * part;
        let mut hits = 0;
        let enough = self.counts(reading).iter().find(|(_, packets)| {
            hits += **packets;
            hits as f64 >= wanted
        });
        enough.or(self.counts(reading).last_key_value()).map_or(0, |(entries, _)| *entries)
    }

    fn counts(&self, reading: Reading) -> &BTreeMap<u64, u64> {
        match reading {
            Reading::Packets => &self.by_packets,
            Reading::Destinations => &self.by_destinations,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hits of a table as its entries are kept, the latest used first.
    fn kept(trace: &[u16], entries: usize) -> u64 {
        let mut table: Vec<u16> = Vec::new();
        let mut hits = 0;
        for destination in trace {
            match table.iter().position(|d| d == destination) {
                Some(at) => {
                    hits += 1;
                    table.remove(at);
                }
                None => table.truncate(entries.saturating_sub(1)),
            }
            table.insert(0, *destination);
        }
        hits
    }

    proptest! {
        #[test]
        fn a_table_of_any_size_hits_as_often_as_one_that_is_kept(
            trace in proptest::collection::vec(0_u16..200, 0..3000),
            entries in 1_usize..220,
        ) {
            let profile = ReuseProfile::of(trace.iter().copied());
            let hits = profile.hits(Reading::Destinations, entries as u64);
            prop_assert_eq!(hits, kept(&trace, entries));
        }

        #[test]
        fn packets_are_counted_back_to_the_one_before(
            trace in proptest::collection::vec(0_u8..20, 0..200),
        ) {
            let mut distances = ReuseDistances::default();
            for (i, destination) in trace.iter().enumerate() {
                let back = trace[..i].iter().rev().position(|d| d == destination);
                let reuse = distances.next(*destination);
                prop_assert_eq!(reuse.map(|r| r.packets), back.map(|b| b as u64 + 1));
                prop_assert!(reuse.is_none_or(|r| r.destinations <= r.packets));
            }
        }
    }

    #[test]
    fn distances_stay_right_when_slots_are_given_anew() {
        // 3,000 destinations in rotation, five times: slots run out repeatedly.
        let mut distances = ReuseDistances::default();
        for turn in 0..5 {
            for destination in 0..3000_u32 {
                let reuse = distances.next(destination);
                let wanted = Reuse { packets: 3000, destinations: 3000 };
                assert_eq!(reuse, (turn > 0).then_some(wanted), "{turn}: {destination}");
            }
        }
        assert_eq!(distances.destinations(), 3000);
    }

    #[test]
    fn a_profile_tells_hits_and_what_they_need() {
        // Back by two packets and two destinations, by one, by four and three.
        let profile = ReuseProfile::of("abaac c b".split_whitespace().flat_map(str::chars));
        assert_eq!((profile.packets(), profile.destinations()), (7, 3));
        assert_eq!(profile.hits_at_most(), 4);
        let hits = |reading| [0, 1, 2, 3, 4, 5].map(|n| profile.hits(reading, n));
        assert_eq!(hits(Reading::Destinations), [0, 2, 3, 4, 4, 4]);
        assert_eq!(hits(Reading::Packets), [0, 2, 3, 3, 3, 4]);
        assert_eq!(profile.entries_for(Reading::Destinations, 0.75), 2);
        assert_eq!(profile.entries_for(Reading::Packets, 1.0), 5);
        let none = ReuseProfile::of([1_u8]);
        assert_eq!((none.entries_for(Reading::Packets, 0.99), none.hits_at_most()), (0, 0));
    }
}
