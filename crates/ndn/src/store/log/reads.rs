//! Reads under way, and who waits for them. A fixed number of each.
//!
//! A read that takes too long is late: nobody waits for it any more or joins it, but its slot stays
//! taken until it ends, as the disk has its buffer until then.

use super::index::Place;

const NONE: u32 = u32::MAX;

/// Milliseconds after which nobody waits for a read any more. An Interest lives four seconds unless
/// it says otherwise: three are left for it to go on.
pub(super) const READ_MS_MAX: u64 = 1000;

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
    /// To find out whether the disk answers.
    Probe,
}

struct Slot {
    /// `None`: no read is under way.
    purpose: Option<Purpose>,
    /// The name that is to be found.
    name: Vec<u8>,
    /// The first of a chain of waiters.
    waiter: u32,
    /// From when on it is late, Unix time, milliseconds.
    late_at_ms: u64,
    is_late: bool,
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
    /// How many slots' reads are late.
    late: usize,
    /// No read is late before that.
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

    /// Those of them that are not late.
    pub(super) fn in_time(&self) -> usize {
        self.under_way() - self.late
    }

    /// Whether there is one to find out whether the disk answers.
    pub(super) fn is_probing(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.purpose, Some(Purpose::Probe)))
    }

    /// Before this time no read is late, Unix time, milliseconds.
    pub(super) fn next_late_ms(&self) -> Option<u64> {
        Some(self.next_late_ms).filter(|at| *at < u64::MAX)
    }

    /// Begins a read, if one more may be under way. How long opening takes is nobody's business:
    /// its reads are never late.
    pub(super) fn begin(&mut self, purpose: Purpose, now_ms: u64) -> Option<u32> {
        let token = self.free.pop()?;
        if let Purpose::Record { place, .. } = purpose {
            self.units[token as usize] = place.unit;
        }
        let slot = &mut self.slots[token as usize];
        slot.purpose = Some(purpose);
        slot.name.clear();
        slot.waiter = NONE;
        slot.is_late = false;
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

    /// Notes which reads are late by now; each who waited for one is told. How many those are.
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

    /// Ends a read; each who waited for it is told.
    pub(super) fn end(&mut self, token: u32, tell: impl FnMut(u64, bool)) {
        let slot = &mut self.slots[token as usize];
        slot.purpose = None;
        self.late -= usize::from(slot.is_late);
        slot.is_late = false;
        self.release(token, tell);
        self.units[token as usize] = NONE;
        self.free.push(token);
    }

    /// Lets those go who wait for a read, and tells each.
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
