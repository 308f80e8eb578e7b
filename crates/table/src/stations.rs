//! The stations admitted to a port: a set of addresses that is searched for every packet and
//! changed rarely.

use plexus_wire::MacAddr;

use crate::hash::Hasher;

const EMPTY: u64 = 0;
const SLOTS_MIN: usize = 4;

/// A set of station addresses: open addressing with linear probing, at most half full. Copying it
/// copies eight bytes per slot. The address zero is never a member.
#[derive(Clone, Debug)]
pub struct Stations {
    slots: Box<[u64]>,
    len: usize,
    hasher: Hasher,
}

impl Stations {
    /// An empty set. `seed` should be secret.
    pub fn new(seed: u64) -> Stations {
        let slots = vec![EMPTY; SLOTS_MIN].into_boxed_slice();
        Stations { slots, len: 0, hasher: Hasher::new(seed) }
    }

    /// How many stations there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if the station whose address is the lower 48 bits of `mac` is a member.
    #[inline(always)]
    pub fn contains(&self, mac: u64) -> bool {
        self.find(mac).is_some()
    }

    /// The place of a member: a number of its own, until the set changes.
    #[inline(always)]
    pub fn find(&self, mac: u64) -> Option<usize> {
        let mut at = self.hasher.hash(mac) as usize;
        loop {
            at &= self.slots.len() - 1;
            // There is an empty slot, since at most half are taken.
            let slot = self.slots[at];
            if slot == mac || slot == EMPTY {
                return (slot != EMPTY).then_some(at);
            }
            at += 1;
        }
    }

    /// Adds a station; false if it was a member, or has address zero.
    pub fn insert(&mut self, mac: MacAddr) -> bool {
        let mac = mac.to_u64();
        if mac == EMPTY || self.contains(mac) {
            return false;
        }
        if (self.len + 1) * 2 > self.slots.len() {
            let members: Vec<u64> = self.members().collect();
            self.refill(self.slots.len() * 2, members);
        }
        self.place(mac);
        true
    }

    /// Removes a station; false if it was not a member.
    pub fn remove(&mut self, mac: MacAddr) -> bool {
        let mac = mac.to_u64();
        if !self.contains(mac) {
            return false;
        }
        let others: Vec<u64> = self.members().filter(|&m| m != mac).collect();
        let slots = (others.len() * 2).next_power_of_two().clamp(SLOTS_MIN, self.slots.len());
        self.refill(slots, others);
        true
    }

    /// Every station, in no order.
    pub fn iter(&self) -> impl Iterator<Item = MacAddr> {
        self.members().map(MacAddr::from_u64)
    }

    fn members(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().copied().filter(|&m| m != EMPTY)
    }

    fn refill(&mut self, slots: usize, members: Vec<u64>) {
        self.slots = vec![EMPTY; slots].into_boxed_slice();
        self.len = 0;
        members.into_iter().for_each(|m| self.place(m));
    }

    /// Inserts a missing address; there has to be room.
    fn place(&mut self, mac: u64) {
        let mask = self.slots.len() - 1;
        let mut at = self.hasher.hash(mac) as usize & mask;
        while self.slots[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.slots[at] = mac;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_hash_set(
            actions in prop::collection::vec((any::<bool>(), 0u64..60), 0..300), seed: u64,
        ) {
            let mut set = Stations::new(seed);
            let mut model = HashSet::new();
            for (is_insert, n) in actions {
                let mac = MacAddr::from_u64(n << 20);
                let changed = match is_insert {
                    true => set.insert(mac) as u8 == u8::from(n != 0 && model.insert(mac)),
                    false => set.remove(mac) == model.remove(&mac),
                };
                prop_assert!(changed);
                prop_assert_eq!(set.len(), model.len());
            }
            for n in 0..60u64 {
                let mac = MacAddr::from_u64(n << 20);
                prop_assert_eq!(set.contains(mac.to_u64()), model.contains(&mac));
            }
            let places: HashSet<_> =
                set.iter().map(|mac| set.find(mac.to_u64()).unwrap()).collect();
            prop_assert_eq!(places.len(), set.len());
            prop_assert_eq!(set.iter().collect::<HashSet<_>>(), model);
        }
    }
}
