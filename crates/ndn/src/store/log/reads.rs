//! Reads in flight and their waiters, a fixed number of each.
//!
//! A read that takes too long is late: its waiters get a miss and no query joins it, but its slot
//! stays in use until it ends, because the disk owns its buffer until then.

use super::index::Place;

const NONE: u32 = u32::MAX;

/// Timeout of a read, in milliseconds. An Interest lives four seconds by default: three are left to
/// forward it.
pub(super) const READ_MS_MAX: u64 = 1000;

/// Purpose of a read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Superblock,
    /// The head of this segment.
    Head(u32),
    /// The record at this location, in the segment with this number, after this many bytes.
    Record {
        place: Place,
        seq: u64,
        skip: usize,
    },
    /// A probe of a stalled disk.
    Probe,
}

struct Slot {
    /// `None`: the slot is free.
    purpose: Option<Purpose>,
    /// The name being looked up.
    name: Vec<u8>,
    /// The first of a chain of waiters.
    waiter: u32,
    /// When it becomes late, Unix time, milliseconds.
    late_at_ms: u64,
    is_late: bool,
    /// A read ahead that no query has joined yet.
    is_ahead: bool,
}

#[derive(Clone, Copy)]
struct Waiter {
    id: u64,
    next: u32,
    must_be_fresh: bool,
}

pub(super) struct Reads {
    slots: Vec<Slot>,
    /// Each slot's location, for searching; [`NONE`] if it has none.
    units: Vec<u32>,
    free: Vec<u32>,
    waiters: Vec<Waiter>,
    free_waiter: u32,
    /// How many reads are late.
    late: usize,
    /// The earliest time at which a read becomes late.
    next_late_ms: u64,
}

impl Reads {
    pub(super) fn new(reads: usize, waiters: usize, name_bytes: usize) -> Reads {
        let slot = || Slot {
            purpose: None,
            name: Vec::with_capacity(name_bytes),
            waiter: NONE,
            late_at_ms: 0,
            is_late: false,
            is_ahead: false,
        };
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
            late: 0,
            next_late_ms: u64::MAX,
        }
    }

    pub(super) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Reads in flight that are not late.
    pub(super) fn in_time(&self) -> usize {
        self.under_way() - self.late
    }

    /// Whether a probe is in flight.
    pub(super) fn is_probing(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.purpose, Some(Purpose::Probe)))
    }

    /// The earliest time at which a read becomes late, Unix time, milliseconds.
    pub(super) fn next_late_ms(&self) -> Option<u64> {
        Some(self.next_late_ms).filter(|at| *at < u64::MAX)
    }

    /// Begins a read if one more may be in flight. The reads of opening have no timeout.
    pub(super) fn begin(&mut self, purpose: Purpose, now_ms: u64) -> Option<u32> {
        let token = self.free.pop()?;
        if let Purpose::Record { place, .. } = purpose {
            self.units[token as usize] = place.unit;
        }
        let slot = &mut self.slots[token as usize];
        slot.purpose = Some(purpose);
        slot.name.clear();
        slot.waiter = NONE;
        (slot.is_late, slot.is_ahead) = (false, false);
        slot.late_at_ms = match purpose {
            Purpose::Record { .. } | Purpose::Probe => now_ms.saturating_add(READ_MS_MAX),
            Purpose::Superblock | Purpose::Head(_) => u64::MAX,
        };
        self.next_late_ms = self.next_late_ms.min(slot.late_at_ms);
        Some(token)
    }

    pub(super) fn purpose(&self, token: u32) -> Option<Purpose> {
        self.slots.get(token as usize)?.purpose
    }

    pub(super) fn name(&self, token: u32) -> &[u8] {
        &self.slots[token as usize].name
    }

    /// Sets the name of a read ahead, which has no waiter yet.
    pub(super) fn set_ahead(&mut self, token: u32, name: &[u8]) {
        let slot = &mut self.slots[token as usize];
        slot.name.clear();
        slot.name.extend_from_slice(name);
        slot.is_ahead = true;
    }

    /// Whether it is a read ahead that no query has joined yet.
    pub(super) fn is_ahead(&self, token: u32) -> bool {
        self.slots[token as usize].is_ahead
    }

    /// Whether this location is being read.
    pub(super) fn has(&self, unit: u32) -> bool {
        self.units.contains(&unit)
    }

    /// Adds a waiter to a read of this name; false if too many wait.
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

    /// Joins a read of this location: whether this was the first query to join a read ahead. The
    /// inner `None`: joining failed; the outer: there is no such read. A read for another name with
    /// the same hash cannot be joined.
    pub(super) fn join(
        &mut self,
        unit: u32,
        name: &[u8],
        id: u64,
        must_be_fresh: bool,
    ) -> Option<Option<bool>> {
        let token = self.units.iter().position(|u| *u == unit)? as u32;
        let joins = self.name(token) == name && self.wait(token, name, id, must_be_fresh);
        let is_ahead = &mut self.slots[token as usize].is_ahead;
        Some(joins.then(|| std::mem::take(is_ahead)))
    }

    /// Marks reads as late and tells their waiters. Returns how many became late.
    pub(super) fn expire(&mut self, now_ms: u64, mut tell: impl FnMut(u64)) -> usize {
        if now_ms < self.next_late_ms {
            return 0;
        }
        self.next_late_ms = u64::MAX;
        let mut late = 0;
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            if slot.purpose.is_none() || slot.is_late {
                continue;
            }
            if now_ms < slot.late_at_ms {
                self.next_late_ms = self.next_late_ms.min(slot.late_at_ms);
                continue;
            }
            slot.is_late = true;
            late += 1;
            self.units[at] = NONE;
            self.release(at as u32, |id, _| tell(id));
        }
        self.late += late;
        late
    }

    /// Ends a read and tells its waiters.
    pub(super) fn end(&mut self, token: u32, tell: impl FnMut(u64, bool)) {
        let slot = &mut self.slots[token as usize];
        slot.purpose = None;
        self.late -= usize::from(slot.is_late);
        slot.is_late = false;
        self.release(token, tell);
        self.units[token as usize] = NONE;
        self.free.push(token);
    }

    /// Removes the waiters of a read and tells each.
    fn release(&mut self, token: u32, mut tell: impl FnMut(u64, bool)) {
        let mut waiter = std::mem::replace(&mut self.slots[token as usize].waiter, NONE);
        while waiter != NONE {
            let Waiter { id, next, must_be_fresh } = self.waiters[waiter as usize];
            tell(id, must_be_fresh);
            self.waiters[waiter as usize].next = self.free_waiter;
            self.free_waiter = waiter;
            waiter = next;
        }
    }
}
