//! Allocates the blocks of a lookup structure: the tails of IPv4's, the nodes of IPv6's.

use super::grace::{Periods, Retired};

/// Blocks that were never used, free ones, and retired ones.
pub(super) struct Space {
    fresh: u32,
    end: u32,
    /// Most blocks in use when new routes are inserted.
    limit: usize,
    free: Vec<u32>,
    used: usize,
    retired: Retired,
}

impl Space {
    /// The blocks from `first` to `end`.
    pub(super) fn new(first: usize, end: usize, limit: usize) -> Space {
        let (fresh, end) = (first as u32, end as u32);
        Space { fresh, end, limit, free: Vec::new(), used: 0, retired: Retired::new() }
    }

    /// A block; there must be room for it.
    pub(super) fn take(&mut self) -> u32 {
        self.used += 1;
        self.free.pop().unwrap_or_else(|| {
            assert!(self.fresh < self.end, "room was reserved");
            self.fresh += 1;
            self.fresh - 1
        })
    }

    /// Retires a block that is unlinked before the period can end.
    pub(super) fn retire(&mut self, periods: &Periods, block: u32) {
        self.retired.push(periods, block);
    }

    /// Frees retired blocks that no batch can reach any more.
    pub(super) fn collect(&mut self, periods: &Periods) {
        self.retired.collect(periods, |block| {
            self.free.push(block);
            self.used -= 1;
        });
    }

    /// True if there is room for so many blocks.
    pub(super) fn has_room(&self, blocks: usize) -> bool {
        (self.end - self.fresh) as usize + self.free.len() >= blocks
    }

    /// True if so many more blocks stay below the limit.
    pub(super) fn fits(&self, blocks: usize) -> bool {
        self.used + blocks <= self.limit && self.has_room(blocks)
    }

    /// Blocks in use, and retired ones.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Blocks that wait for readers.
    pub(super) fn waiting(&self) -> usize {
        self.retired.len()
    }

    /// Bytes of memory beside the blocks.
    pub(super) fn bytes(&self) -> usize {
        self.free.capacity() * 4 + self.retired.bytes()
    }
}
