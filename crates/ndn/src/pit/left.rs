//! The entries and in-records of removed faces. [`Pit::leave`] notes the face, and the forwarder
//! removes what the face still has in slices ([`Pit::next_left`]). An empty table then returns its
//! memory to the system ([`Pit::give_back`]). No packet may wait for any of this.

use super::chains::NONE;
use super::{Account, Pit};
use crate::face::FaceId;

/// Most bytes returned at once: unmapping them takes a fraction of a millisecond.
const GIVE_BYTES: usize = 4 << 20;
/// A table that has had no more entries keeps its memory.
const KEEP: usize = 4096;

impl Pit {
    /// A face has been removed. [`Pit::next_left`] returns what it still has.
    pub(crate) fn leave(&mut self, face: FaceId) {
        let account = face.place().and_then(|place| self.accounts.get(place));
        if account.is_some_and(|account| account.oldest != NONE || account.oldest_in != NONE) {
            self.leaving.insert(face);
        }
    }

    /// True if the face has been removed and may still have something.
    pub(crate) fn is_leaving(&self, face: FaceId) -> bool {
        self.leaving.contains(&face)
    }

    /// True if a removed face may have something, or there is memory to return.
    pub(crate) fn has_left(&self) -> bool {
        !self.leaving.is_empty() || self.has_spare()
    }

    /// An entry that a removed face owns or waits in, and the face. The caller removes the face's
    /// in-record, and the entry if no other face waits.
    ///
    /// In the lists of a place, the records of removed faces come before those of the face that has
    /// the place now. An entry without in-records does not tell whose it is: it only waits for a
    /// probe or for late Data, and is removed.
    pub(crate) fn next_left(&mut self) -> Option<(u32, FaceId)> {
        while let Some(&face) = self.leaving.first() {
            let account = face.place().and_then(|place| self.accounts.get(place));
            let Account { oldest, oldest_in, .. } = *account.unwrap_or(&Account::EMPTY);
            let waiting = self.ins.get(oldest_in);
            if let Some(waiting) = waiting.filter(|w| self.is_leaving(w.record.face)) {
                return Some((waiting.entry, waiting.record.face));
            }
            if let Some(entry) = self.entries.get(oldest as usize) {
                let owner = entry.first_in.map_or(face, |record| record.face);
                if self.is_leaving(owner) {
                    return Some((oldest, owner));
                }
            }
            self.leaving.pop_first();
            self.gives |= self.entries.len() > KEEP;
        }
        None
    }

    fn has_spare(&self) -> bool {
        self.gives && self.len() == 0
    }

    /// Returns some memory of an empty table to the system. When all is returned, reserves the
    /// address space again.
    pub(crate) fn give_back(&mut self) {
        if !self.has_spare() {
            return;
        }
        // A token of a former entry must not name a later one.
        let step = if self.entries.is_empty() { 0 } else { 1 << 16 };
        self.first_generation = self.first_generation.wrapping_add(step);
        self.entries.clear();
        self.free.clear();
        self.ins.clear();
        self.outs.clear();
        self.pieces.clear();
        let more = shrink(&mut self.entries)
            || shrink(&mut self.free)
            || self.ins.shrink()
            || self.outs.shrink()
            || self.pieces.shrink();
        if more {
            return;
        }
        self.gives = false;
        self.entries.reserve_exact(self.capacity);
        self.free.reserve_exact(self.capacity);
        self.ins.reserve();
        self.outs.reserve();
        self.pieces.reserve();
    }
}

/// Returns some memory of an empty list; false if it has none.
pub(super) fn shrink<T>(list: &mut Vec<T>) -> bool {
    let step = GIVE_BYTES / size_of::<T>();
    let is_large = list.capacity() > 0;
    list.shrink_to(list.capacity().saturating_sub(step));
    is_large
}
