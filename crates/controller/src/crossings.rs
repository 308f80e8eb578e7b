//! The flows that cross each link.
//!
//! A list per link would cost a new flow one cache miss for every link on its routes, a hundred
//! with eight routes. So flows are gathered: recent ones are only listed, and once they fill a
//! batch it is indexed as a whole, while its memory is in the cache. A query for a link searches
//! every batch, and follows the routes of the recent flows.
//!
//! An index is immutable. A removed flow is marked in its batch; a batch that has lost most of its
//! flows is dissolved, and the remaining ones enter anew.

/// No flow, or not listed.
const NONE: u32 = u32::MAX;
/// Flows per batch. Larger batches make the index smaller (4 bytes per link and batch) and make
/// indexing, and searching the recent flows, slower: some milliseconds.
const BATCH: usize = 4096;
/// The batch number of recent flows, which have no batch yet.
const RECENT: u32 = 0xFFFF;

/// Flows that were indexed together.
#[derive(Clone, Debug, Default)]
struct Batch {
    /// Flows, or `NONE` for removed ones.
    members: Vec<u32>,
    /// How many are still there.
    left: usize,
    /// By slot: where its members begin in `crossing`; those of the next slot follow.
    starts: Vec<u32>,
    /// Indices into `members`.
    crossing: Vec<u16>,
}

/// The flows whose routes have been verified, by link.
#[derive(Clone, Debug)]
pub(crate) struct Crossings {
    /// Flows of a batch, at most 32,768.
    pub(crate) batch: usize,
    recent: Vec<u32>,
    batches: Vec<Batch>,
    /// Numbers of batches that are not in use.
    free: Vec<u32>,
    /// Batches that have lost most of their flows.
    thin: Vec<u32>,
    /// By flow: its batch, or `RECENT`, times 65,536, plus its place there; or `NONE`.
    listed: Vec<u32>,
    scratch: Scratch,
}

/// Scratch memory for indexing, to avoid allocations.
#[derive(Clone, Debug, Default)]
struct Scratch {
    /// Slots that members cross, member by member, with the end of each member's.
    slots: Vec<u32>,
    ends: Vec<u32>,
    /// By slot: the member last seen to cross it, counted from 1.
    seen: Vec<u32>,
}

impl Default for Crossings {
    fn default() -> Crossings {
        Crossings {
            batch: BATCH,
            recent: Vec::new(),
            batches: Vec::new(),
            free: Vec::new(),
            thin: Vec::new(),
            listed: Vec::new(),
            scratch: Scratch::default(),
        }
    }
}

impl Crossings {
    /// Whether a flow has entered and not left.
    #[inline]
    pub(crate) fn has(&self, id: u32) -> bool {
        self.listed.get(id as usize).is_some_and(|listed| *listed != NONE)
    }

    /// Adds a flow whose routes were verified. `slots` appends the slots of the links that a flow
    /// crosses, possibly repeated; it is called for this flow and for others that have entered.
    pub(crate) fn enter(&mut self, id: u32, slots: impl Fn(u32, &mut Vec<u32>)) {
        self.name(id);
        if self.recent.len() < self.batch {
            return;
        }
        self.gather(&slots);
        while let Some(number) = self.thin.pop() {
            let batch = std::mem::take(&mut self.batches[number as usize]);
            self.free.push(number);
            for id in batch.members.into_iter().filter(|id| *id != NONE) {
                self.name(id);
            }
            if self.recent.len() >= self.batch {
                self.gather(&slots);
            }
        }
    }

    /// Removes a flow whose routes change or end; false if it is not here.
    pub(crate) fn leave(&mut self, id: u32) -> bool {
        if !self.has(id) {
            return false;
        }
        let listed = std::mem::replace(&mut self.listed[id as usize], NONE);
        let (number, at) = (listed >> 16, (listed & 0xFFFF) as usize);
        if number == RECENT {
            self.recent[at] = NONE;
            return true;
        }
        let batch = &mut self.batches[number as usize];
        batch.members[at] = NONE;
        batch.left -= 1;
        if batch.left == batch.members.len() / 2 {
            self.thin.push(number);
        }
        true
    }

    /// The flows that cross one of these slots, each once, in order.
    pub(crate) fn of(&self, slots: &[u32], crossed: impl Fn(u32, &mut Vec<u32>)) -> Vec<u32> {
        let mut found = Vec::new();
        for batch in &self.batches {
            for &slot in slots {
                let Some(bounds) = batch.starts.get(slot as usize..slot as usize + 2) else {
                    continue;
                };
                let places = &batch.crossing[bounds[0] as usize..bounds[1] as usize];
                found.extend(places.iter().map(|at| batch.members[usize::from(*at)]));
            }
        }
        let mut own = Vec::new();
        let mut wanted = vec![false; slots.iter().max().map_or(0, |max| *max as usize + 1)];
        slots.iter().for_each(|slot| wanted[*slot as usize] = true);
        for &id in self.recent.iter().filter(|id| **id != NONE && !slots.is_empty()) {
            own.clear();
            crossed(id, &mut own);
            if own.iter().any(|slot| wanted.get(*slot as usize).is_some_and(|wanted| *wanted)) {
                found.push(id);
            }
        }
        found.sort_unstable();
        found.dedup();
        // Removed flows come last, as one.
        found.pop_if(|id| *id == NONE);
        found
    }

    /// Bytes held.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let batch = |b: &Batch| {
            4 * b.members.capacity() + 4 * b.starts.capacity() + 2 * b.crossing.capacity()
        };
        4 * (self.recent.capacity() + self.listed.capacity())
            + self.batches.iter().map(batch).sum::<usize>()
    }

    /// Lists a flow among the recent ones.
    fn name(&mut self, id: u32) {
        if self.listed.len() <= id as usize {
            self.listed.resize(id as usize + 1, NONE);
        }
        self.listed[id as usize] = RECENT << 16 | self.recent.len() as u32;
        self.recent.push(id);
    }

    /// Makes a batch of the recent flows, unless most have left already.
    fn gather(&mut self, crossed: &impl Fn(u32, &mut Vec<u32>)) {
        let mut members = std::mem::take(&mut self.recent);
        members.retain(|id| *id != NONE);
        if members.len() <= self.batch / 2 {
            return members.into_iter().for_each(|id| self.name(id));
        }
        let Scratch { slots, ends, seen } = &mut self.scratch;
        slots.clear();
        ends.clear();
        seen.fill(0);
        let mut starts: Vec<u32> = Vec::with_capacity(seen.len() + 2);
        for (at, &id) in members.iter().enumerate() {
            let first = slots.len();
            crossed(id, slots);
            let mut kept = first;
            for i in first..slots.len() {
                let slot = slots[i] as usize;
                if slot >= seen.len() {
                    seen.resize(slot + 1, 0);
                }
                if std::mem::replace(&mut seen[slot], at as u32 + 1) == at as u32 + 1 {
                    continue;
                }
                if starts.len() < slot + 2 {
                    starts.resize(slot + 2, 0);
                }
                starts[slot + 1] += 1;
                slots[kept] = slot as u32;
                kept += 1;
            }
            slots.truncate(kept);
            ends.push(kept as u32);
        }
        for slot in 1..starts.len() {
            starts[slot] += starts[slot - 1];
        }
        // Each slot's start advances as its members are written, and so ends at the next slot's
        // start.
        let mut crossing = vec![0; slots.len()];
        let mut first = 0;
        for (at, &end) in ends.iter().enumerate() {
            for &slot in &slots[first..end as usize] {
                let place = &mut starts[slot as usize];
                crossing[*place as usize] = at as u16;
                *place += 1;
            }
            first = end as usize;
        }
        if !starts.is_empty() {
            starts.rotate_right(1);
            starts[0] = 0;
        }
        starts.shrink_to_fit();
        let number = self.free.pop().unwrap_or(self.batches.len() as u32);
        for (at, &id) in members.iter().enumerate() {
            self.listed[id as usize] = number << 16 | at as u32;
        }
        let batch = Batch { left: members.len(), members, starts, crossing };
        match self.batches.get_mut(number as usize) {
            Some(unused) => *unused = batch,
            None => self.batches.push(batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compared with a map of flows to the slots that they cross.
        #[test]
        fn flows_are_found_by_each_of_their_links_until_they_leave(
            batch in 1..9_usize,
            steps in proptest::collection::vec(
                (0..40_u32, proptest::collection::vec(0..6_u32, 0..5)), 1..300))
        {
            let mut crossings = Crossings { batch, ..Crossings::default() };
            let mut model: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for (id, slots) in steps {
                match model.remove(&id) {
                    Some(_) => prop_assert!(crossings.leave(id)),
                    None => {
                        model.insert(id, slots);
                        crossings.enter(id, |id, out| out.extend(&model[&id]));
                    }
                }
                for asked in [vec![], vec![0], vec![3], vec![5, 1], vec![9, 2, 4]] {
                    let found = crossings.of(&asked, |id, out| out.extend(&model[&id]));
                    let crosses = |of: &Vec<u32>| of.iter().any(|slot| asked.contains(slot));
                    let expected = model.iter().filter(|(_, of)| crosses(of));
                    prop_assert_eq!(found, expected.map(|(id, _)| *id).collect::<Vec<_>>());
                }
                for id in 0..40 {
                    prop_assert_eq!(crossings.has(id), model.contains_key(&id));
                }
            }
        }
    }

    /// Flows that are added and removed, or rerouted again and again, leave no memory behind.
    #[test]
    fn memory_follows_the_flows_that_are_here() {
        let mut crossings = Crossings { batch: 64, ..Crossings::default() };
        let slots = |id: u32, out: &mut Vec<u32>| out.extend((0..10).map(|i| (id + i * 7) % 100));
        (0..1000).for_each(|id| crossings.enter(id, slots));
        let once = crossings.bytes();
        for round in 0..50 {
            for id in (0..1000).filter(|id| (id + round) % 3 > 0) {
                crossings.leave(id);
                crossings.enter(id, slots);
            }
        }
        assert!(crossings.bytes() < 3 * once, "{} of {once}", crossings.bytes());
        let everyone: BTreeSet<u32> = (0..1000).collect();
        let all: Vec<u32> = (0..100).collect();
        assert_eq!(BTreeSet::from_iter(crossings.of(&all, slots)), everyone);
    }
}
