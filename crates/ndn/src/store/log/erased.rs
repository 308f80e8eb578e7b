//! What was erased by prefix: the index knows no names, so what lies on the disk is told apart when
//! it is found, by its name and by when it was written.

use std::collections::VecDeque;

/// Prefixes that are remembered; beyond them, all that is as old as the oldest is forgotten.
pub(super) const ERASED_MAX: usize = 64;

struct Erasure {
    prefix: Box<[u8]>,
    /// Segments with lower numbers were begun before.
    before: u64,
}

#[derive(Default)]
pub(super) struct Erasures {
    list: VecDeque<Erasure>,
}

impl Erasures {
    /// What was written under a prefix to segments with lower numbers is erased. If that is one
    /// prefix too many: the number below which everything has to be forgotten.
    pub(super) fn add(&mut self, prefix: &[u8], before: u64) -> Option<u64> {
        self.list.retain(|erasure| !erasure.prefix.starts_with(prefix));
        self.list.push_back(Erasure { prefix: prefix.into(), before });
        let oldest = (self.list.len() > ERASED_MAX).then(|| self.list.pop_front()).flatten();
        oldest.map(|erasure| erasure.before)
    }

    /// True if a name's packet in the segment of this number is erased. Components begin with
    /// their length, so that bytes of a prefix begin no other's names.
    pub(super) fn has(&self, name: &[u8], seq: u64) -> bool {
        self.list.iter().any(|e| seq < e.before && name.starts_with(&e.prefix))
    }

    /// The number that the next segment has is known only now.
    pub(super) fn opened(&mut self, next_seq: u64) {
        self.list.iter_mut().for_each(|e| e.before = e.before.min(next_seq));
    }

    /// Segments with numbers below this one are overwritten.
    pub(super) fn overwritten(&mut self, below: u64) {
        self.list.retain(|erasure| erasure.before > below);
    }
}
