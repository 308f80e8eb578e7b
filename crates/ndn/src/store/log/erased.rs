//! Prefix erasures. The index has no names, so an erased packet on disk is recognised when it is
//! read, by its name and the time it was written.

use std::collections::VecDeque;

/// Most remembered prefixes; with one more, everything as old as the oldest is forgotten.
pub(super) const ERASED_MAX: usize = 64;

struct Erasure {
    prefix: Box<[u8]>,
    /// Segments with lower numbers were begun before the erasure.
    before: u64,
}

#[derive(Default)]
pub(super) struct Erasures {
    list: VecDeque<Erasure>,
}

impl Erasures {
    /// Erases what was written under a prefix to segments with lower numbers. If there are too many
    /// prefixes: the number below which everything has to be forgotten.
    pub(super) fn add(&mut self, prefix: &[u8], before: u64) -> Option<u64> {
        self.list.retain(|erasure| !erasure.prefix.starts_with(prefix));
        self.list.push_back(Erasure { prefix: prefix.into(), before });
        let oldest = (self.list.len() > ERASED_MAX).then(|| self.list.pop_front()).flatten();
        oldest.map(|erasure| erasure.before)
    }

    /// True if a name's packet in the segment with this number is erased. Components begin with
    /// their length, so the bytes of a prefix match no unrelated names.
    pub(super) fn has(&self, name: &[u8], seq: u64) -> bool {
        self.list.iter().any(|e| seq < e.before && name.starts_with(&e.prefix))
    }

    /// The number of the next segment is known only now.
    pub(super) fn opened(&mut self, next_seq: u64) {
        self.list.iter_mut().for_each(|e| e.before = e.before.min(next_seq));
    }

    /// Segments with numbers below this one are overwritten.
    pub(super) fn overwritten(&mut self, below: u64) {
        self.list.retain(|erasure| erasure.before > below);
    }
}
