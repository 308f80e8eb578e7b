//! Cached Data under a prefix: CanBePrefix without an ordered table.
//!
//! NDN-DPDK keeps *indirect entries*: when Data comes for an Interest with a shorter name, that
//! name leads to it from then on. This is the same without lists and without names: a hint is the
//! number of a cached Data packet under the hash of a prefix. Whether the Data, if it is still
//! there, has the prefix is seen in its own name, so a hint is never wrong for long and nothing
//! has to be told when Data goes. A line that is full forgets its oldest hint.
//!
//! What is not found: Data that is cached, when nobody noted the prefix, or when seven later ones
//! fell into the same line, or when the last Data noted for it is gone. The Interest then goes on
//! to a producer, as if the cache were smaller. An ordered table (NFD's) would find every one, for
//! a search of as many steps as the cache has binary digits, each a miss of memory, on every
//! Interest of this kind, and with as many candidates as a hostile name wants.

use crate::pages::Pages;
use crate::prefetch::prefetch;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CELLS: usize = 8;
const WAYS: usize = 7;
const NEXT: usize = 7;

/// For each prefix that was noted, the number of some Data packet under it; one cache line to note
/// and one to find.
pub struct PrefixHints {
    cells: Pages<AtomicU64>,
    lines: usize,
}

impl PrefixHints {
    /// Room for `hints`, 9 bytes each; none if the system does not give the address space.
    pub fn new(hints: usize) -> Option<PrefixHints> {
        let lines = hints.div_ceil(WAYS).max(1);
        Some(PrefixHints { cells: Pages::zeroed(lines.checked_mul(CELLS)?)?, lines })
    }

    /// Bytes of its memory.
    pub fn bytes(&self) -> usize {
        self.lines * CELLS * size_of::<AtomicU64>()
    }

    #[inline(always)]
    fn line(&self, hash: u64) -> &[AtomicU64; CELLS] {
        let line = (u128::from(hash) * self.lines as u128) >> 64;
        &self.cells.as_chunks().0[line as usize]
    }

    /// Asks for the memory of a prefix with this hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.line(hash));
    }

    /// Notes that Data number `data` (below `u32::MAX`) is under the prefix with this hash, in
    /// place of what was noted for it before.
    pub fn note(&mut self, hash: u64, data: u32) {
        let line = self.line(hash);
        // One bit of each cell that fits, as where the first one is cannot be predicted.
        let fits = |(at, cell): (usize, &AtomicU64)| {
            let cell = cell.load(Relaxed);
            u32::from(cell == 0 || (cell >> 32) as u32 == hash as u32) << at
        };
        let at = match line[..WAYS].iter().enumerate().map(fits).fold(0, |set, bit| set | bit) {
            0 => {
                let next = line[NEXT].load(Relaxed);
                line[NEXT].store(if next + 1 < WAYS as u64 { next + 1 } else { 0 }, Relaxed);
                next as usize
            }
            set => set.trailing_zeros() as usize,
        };
        line[at].store(hash << 32 | u64::from(data.wrapping_add(1)), Relaxed);
    }

    /// The Data noted for the prefix with this hash, if it `is` one. `is` has to see that the
    /// number is still that of Data whose name begins with the prefix.
    #[inline]
    pub fn find(&self, hash: u64, is: impl FnOnce(u32) -> bool) -> Option<u32> {
        let cells = self.line(hash)[..WAYS].iter().map(|cell| cell.load(Relaxed));
        let mut noted = cells.filter(|cell| (cell >> 32) as u32 == hash as u32);
        let data = noted.find_map(|cell| (cell as u32).checked_sub(1))?;
        is(data).then_some(data)
    }
}
