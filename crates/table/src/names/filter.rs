//! The filter: which lengths occur among prefixes with a given beginning. It is the first of a
//! lookup's two stages.
//!
//! NDN-DPDK, after So, Narayanan and Oran (ANCS 2013), begins a lookup with a prefix of `M`
//! components, whose entry, if necessary created for that, stores the length of longer prefixes.
//! Here a cell of counters replaces the entry: under the hash of the name's first [`FIRST`]
//! components, it counts the prefixes of each length. Names that share a cell share its counts, and
//! pay with unnecessary searches. A cell is eight bytes, where an entry would be a cell of the
//! index, a record, and another cache line.
//! ```text
//! cell     | 2: 4 | 3: 4 | ... | 16: 4 | 17 and more: 4 |
//! ```
//! A counter that has reached 15 stays there, because the true number is then unknown.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::pages::Pages;
use crate::prefetch::prefetch;

/// Components of the prefix that selects a cell; shorter prefixes are not counted.
pub(super) const FIRST: usize = 2;
/// Lengths with a counter of their own; one more counter is for all longer ones.
const COUNTERS: usize = 16;
const STUCK: u64 = 15;

pub(super) struct Filter {
    cells: Pages<AtomicU64>,
}

impl Filter {
    /// A filter for so many prefixes, 4 bytes each; none if memory is short.
    pub(super) fn new(prefixes: usize) -> Option<Filter> {
        Some(Filter { cells: Pages::zeroed((prefixes / 2).max(1))? })
    }

    /// Has all of its memory be of this node ([`Pages::bind`]).
    pub(super) fn bind(&self, node: u32) -> io::Result<()> {
        self.cells.bind(node)
    }

    /// Bytes of its memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.cells)
    }

    #[inline(always)]
    fn cell(&self, hash: u64) -> &AtomicU64 {
        &self.cells[((u128::from(hash) * self.cells.len() as u128) >> 64) as usize]
    }

    /// Prefetches the cell of a name whose first components have this hash.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(self.cell(hash));
    }

    /// Bit `n`: there may be prefixes of `n` components whose first components have this hash.
    #[inline(always)]
    pub(super) fn lengths(&self, hash: u64) -> u64 {
        let counters = self.cell(hash).load(Acquire);
        // One bit for each nonzero counter; then these bits are compressed.
        let two = counters | counters >> 2;
        let mut bits = (two | two >> 1) & 0x1111_1111_1111_1111;
        bits = (bits | bits >> 3) & 0x0303_0303_0303_0303;
        bits = (bits | bits >> 6) & 0x000F_000F_000F_000F;
        bits = (bits | bits >> 12) & 0x0000_00FF_0000_00FF;
        bits = (bits | bits >> 24) & 0xFFFF;
        let longer = if bits >> (COUNTERS - 1) != 0 { !0 << (FIRST + COUNTERS - 1) } else { 0 };
        bits << FIRST | longer
    }

    /// Counts a prefix of `length` components, at least [`FIRST`], whose first components have this
    /// hash: before it can be found.
    pub(super) fn count(&self, hash: u64, length: usize) {
        let (cell, shift) = (self.cell(hash), shift(length));
        let counters = cell.load(Relaxed);
        if counters >> shift & 15 != STUCK {
            cell.store(counters + (1 << shift), Release);
        }
    }

    /// Uncounts a prefix: after it can no longer be found.
    pub(super) fn uncount(&self, hash: u64, length: usize) {
        let (cell, shift) = (self.cell(hash), shift(length));
        let counters = cell.load(Relaxed);
        if counters >> shift & 15 != STUCK {
            cell.store(counters - (1 << shift), Release);
        }
    }
}

/// The bit position of the counter of a length.
fn shift(length: usize) -> usize {
    4 * (length - FIRST).min(COUNTERS - 1)
}
