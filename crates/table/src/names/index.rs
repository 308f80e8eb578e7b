//! From a hash to the number of a record, a cache line at a time.
//!
//! ```text
//! line     | cell 0 | ... | cell 6 | passed |      64 bytes
//! cell     | low half of the hash: 32 | record + 1: 32 |     all zero: empty
//! passed   | how many records that would have begun here or before are in a later line |
//! ```
//! A record is in the first line with room from its hash's home on, and stays there; each full line
//! that it had to pass counts it, so that a search knows where to stop and nothing is left behind
//! by what goes (after F14, Bronson and Shi 2019). Every change is one store of one integer, so one
//! writer may change the index while others search: a record's way is made before it appears, and
//! goes after it.

use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::pages::Pages;
use crate::prefetch::prefetch;

/// Lines that one search reads at most. In an index that is half full, one search in forty reads a
/// second one, and sixteen full ones follow each other once in 20,000 tables of 10 M records.
pub const PROBE_LINES: usize = 16;

const CELLS: usize = 8;
const WAYS: usize = 7;
const PASSED: usize = 7;

/// No line near its home has room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crowded;

type Line = [AtomicU64; CELLS];

pub(super) struct Index {
    cells: Pages<AtomicU64>,
    lines: usize,
}

impl Index {
    /// An index for so many records, which will be half full; none if memory is short.
    pub(super) fn new(records: usize) -> Option<Index> {
        let lines = records.checked_mul(2)?.div_ceil(WAYS).max(PROBE_LINES);
        Some(Index { cells: Pages::zeroed(lines.checked_mul(CELLS)?)?, lines })
    }

    /// Bytes of its memory.
    pub(super) fn bytes(&self) -> usize {
        self.lines * size_of::<Line>()
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.lines as u128) >> 64) as usize
    }

    #[inline(always)]
    fn line(&self, at: usize) -> &Line {
        &self.cells.as_chunks().0[at]
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.lines { 0 } else { at + 1 }
    }

    /// The lines that a record of this hash may be in, in order.
    #[inline(always)]
    fn way(&self, hash: u64) -> impl Iterator<Item = &Line> {
        let mut at = self.home(hash);
        (0..PROBE_LINES).map(move |_| {
            let line = self.line(at);
            at = self.after(at);
            line
        })
    }

    /// Asks for the line where a search begins.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(self.line(self.home(hash)));
    }

    /// The first record of this hash that `is` the one. It is asked only if half of the hash fits.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        for line in self.way(hash) {
            let cells: [u64; WAYS] = std::array::from_fn(|i| line[i].load(Acquire));
            let mut hits = 0u32;
            for (i, cell) in cells.iter().enumerate() {
                hits |= u32::from((cell >> 32) as u32 == hash as u32) << i;
            }
            while hits != 0 {
                // An empty cell looks like a hash of zeros, but for its record.
                let record = (cells[hits.trailing_zeros() as usize] as u32).wrapping_sub(1);
                if record != u32::MAX && is(record) {
                    return Some(record);
                }
                hits &= hits - 1;
            }
            if line[PASSED].load(Acquire) == 0 {
                return None;
            }
        }
        None
    }

    /// Puts a record in, whether or not there are others of its hash. For the one writer.
    ///
    /// # Errors
    /// [`Crowded`]: nothing was changed.
    pub(super) fn insert(&self, hash: u64, record: u32) -> Result<(), Crowded> {
        let free = |line: &Line| (0..WAYS).find(|&i| line[i].load(Relaxed) == 0);
        let found = self.way(hash).enumerate().find_map(|(n, line)| Some((n, &line[free(line)?])));
        let (passes, cell) = found.ok_or(Crowded)?;
        for line in self.way(hash).take(passes) {
            line[PASSED].store(line[PASSED].load(Relaxed) + 1, Release);
        }
        cell.store(entry(hash, record), Release);
        Ok(())
    }

    /// Takes a record out; false if it was not there. For the one writer.
    pub(super) fn remove(&self, hash: u64, record: u32) -> bool {
        let is = |cell: &&AtomicU64| cell.load(Relaxed) == entry(hash, record);
        let mut lines = self.way(hash).enumerate();
        let found = lines.find_map(|(n, line)| Some((n, line[..WAYS].iter().find(is)?)));
        let Some((passes, cell)) = found else { return false };
        cell.store(0, Release);
        for line in self.way(hash).take(passes) {
            line[PASSED].store(line[PASSED].load(Relaxed) - 1, Release);
        }
        true
    }

    /// Puts a record in the place of another of the same hash; false if that was not there. For the
    /// one writer.
    pub(super) fn replace(&self, hash: u64, old: u32, new: u32) -> bool {
        let is = |cell: &&AtomicU64| cell.load(Relaxed) == entry(hash, old);
        let cell = self.way(hash).find_map(|line| line[..WAYS].iter().find(is));
        cell.map(|cell| cell.store(entry(hash, new), Release)).is_some()
    }

    /// Every record, in no order.
    pub(super) fn records(&self) -> impl Iterator<Item = u32> + '_ {
        let cells = self.cells.iter().enumerate().filter(|(i, _)| i % CELLS != PASSED);
        cells.filter_map(|(_, cell)| (cell.load(Acquire) as u32).checked_sub(1))
    }
}

fn entry(hash: u64, record: u32) -> u64 {
    hash << 32 | u64::from(record.wrapping_add(1))
}
