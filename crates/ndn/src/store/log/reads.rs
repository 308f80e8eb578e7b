//! Reads under way, and who waits for them. A fixed number of each.

use super::index::Place;

const NONE: u32 = u32::MAX;

/// What a read is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Superblock,
    /// The head of this segment.
    Head(u32),
    /// The record at this place, of the segment with this number, after so many bytes.
    Record {
        place: Place,
        seq: u64,
        skip: usize,
    },
}

struct Slot {
    /// `None`: no read is under way.
    purpose: Option<Purpose>,
    /// The name that is to be found.
    name: Vec<u8>,
    /// The first of a chain of waiters.
    waiter: u32,
}

#[derive(Clone, Copy)]
struct Waiter {
    id: u64,
    next: u32,
    must_be_fresh: bool,
}

pub(super) struct Reads {
    slots: Vec<Slot>,
    /// Each slot's place, where it is searched for; [`NONE`] if it has none.
    units: Vec<u32>,
    free: Vec<u32>,
    waiters: Vec<Waiter>,
    free_waiter: u32,
}

impl Reads {
    pub(super) fn new(reads: usize, waiters: usize, name_bytes: usize) -> Reads {
        let slot = || Slot { purpose: None, name: Vec::with_capacity(name_bytes), waiter: NONE };
        let chained = |i: usize| Waiter {
            id: 0,
            next: if i + 1 < waiters { i as u32 + 1 } else { NONE },
            must_be_fresh: false,
        };
        Reads {
            slots: (0..reads).map(|_| slot()).collect(),
            units: vec![NONE; reads],
            free: (0..reads as u32).rev().collect(),
            waiters: (0..waiters).map(chained).collect(),
            free_waiter: 0,
        }
    }

    pub(super) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Begins a read, if one more may be under way.
    pub(super) fn begin(&mut self, purpose: Purpose) -> Option<u32> {
        let token = self.free.pop()?;
        if let Purpose::Record { place, .. } = purpose {
            self.units[token as usize] = place.unit;
        }
        let slot = &mut self.slots[token as usize];
        slot.purpose = Some(purpose);
        slot.name.clear();
        slot.waiter = NONE;
        Some(token)
    }

    pub(super) fn purpose(&self, token: u32) -> Option<Purpose> {
        self.slots.get(token as usize)?.purpose
    }

    pub(super) fn name(&self, token: u32) -> &[u8] {
        &self.slots[token as usize].name
    }

    /// Says which name is to be found by a read that nobody waits for yet.
    pub(super) fn set_name(&mut self, token: u32, name: &[u8]) {
        let slot = &mut self.slots[token as usize];
        slot.name.clear();
        slot.name.extend_from_slice(name);
    }

    /// Whether this place is being read.
    pub(super) fn has(&self, unit: u32) -> bool {
        self.units.contains(&unit)
    }

    /// Adds who waits for a read of this name; false if too many wait.
    pub(super) fn wait(&mut self, token: u32, name: &[u8], id: u64, must_be_fresh: bool) -> bool {
        let waiter = self.free_waiter;
        if waiter == NONE {
            return false;
        }
        let slot = &mut self.slots[token as usize];
        if slot.name.is_empty() {
            slot.name.extend_from_slice(name);
        }
        self.free_waiter = self.waiters[waiter as usize].next;
        self.waiters[waiter as usize] = Waiter { id, next: slot.waiter, must_be_fresh };
        slot.waiter = waiter;
        true
    }

    /// Joins a read of this place: whether it could, or `None` if there is no such read. One for
    /// another name, of the same hash, cannot be joined.
    pub(super) fn join(
        &mut self,
        unit: u32,
        name: &[u8],
        id: u64,
        must_be_fresh: bool,
    ) -> Option<bool> {
        let token = self.units.iter().position(|u| *u == unit)? as u32;
        Some(self.name(token) == name && self.wait(token, name, id, must_be_fresh))
    }

    /// Ends a read; each who waited for it is told.
    pub(super) fn end(&mut self, token: u32, mut tell: impl FnMut(u64, bool)) {
        let slot = &mut self.slots[token as usize];
        slot.purpose = None;
        let mut waiter = std::mem::replace(&mut slot.waiter, NONE);
        while waiter != NONE {
            let Waiter { id, next, must_be_fresh } = self.waiters[waiter as usize];
            tell(id, must_be_fresh);
            self.waiters[waiter as usize].next = self.free_waiter;
            self.free_waiter = waiter;
            waiter = next;
        }
        self.units[token as usize] = NONE;
        self.free.push(token);
    }
}
