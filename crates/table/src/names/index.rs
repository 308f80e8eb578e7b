//! The index: from a hash to the number of a record, one cache line at a time.
//!
//! ```text
//! line     | cell 0 | ... | cell 6 | tags |        64 bytes
//! cell     | low half of the hash: 32 | record + 1: 32 |     all zero: empty
//! tags     | 8 bits of each cell's hash | passed: how many records that would have begun here or
//!            before are in a later line; 255: as many or more |
//! ```
//! A record is in the first line with room from its hash's home on, and stays there; each full line
//! that it passed counts it, so that a search knows where to stop and removals leave no tombstones
//! (after F14, Bronson and Shi 2019). Every change is one store of one integer, so one writer may
//! change the index while others search: passed lines are counted before a record appears, its cell
//! is written before its tag, and removal does the reverse.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*};

use super::tags::{self, WAYS, tag, with_tag};
use crate::pages::Pages;
use crate::prefetch::prefetch;

/// Lines that one search reads at most. In an index that is half full, one search in forty reads a
/// second one, and sixteen full ones follow each other once in 20,000 tables of 10 M records.
pub const PROBE_LINES: usize = 16;

const TAGS: usize = WAYS;

/// No line near its home has room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crowded;

type Line = [AtomicU64; WAYS + 1];

pub(super) struct Index {
    lines: Pages<Line>,
}

impl Index {
    /// An index for this many records, which will be half full; none if memory is short.
    pub(super) fn new(records: usize) -> Option<Index> {
        let lines = records.checked_mul(2)?.div_ceil(WAYS).max(PROBE_LINES);
        Some(Index { lines: Pages::zeroed(lines)? })
    }

    /// Has all of its memory be of this node ([`Pages::bind`]).
    pub(super) fn bind(&self, node: u32) -> io::Result<()> {
        self.lines.bind(node)
    }

    /// Bytes of its memory.
    pub(super) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.lines.len() { 0 } else { at + 1 }
    }

    /// Prefetches the line where a search begins.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(&self.lines[self.home(hash)]);
    }

    /// The first record of this hash that `is` accepts. It is called only if half of the hash
    /// matches.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        for _ in 0..PROBE_LINES {
            let line = &self.lines[at];
            let tags = line[TAGS].load(Acquire);
            for way in with_tag(tags, tag(hash)) {
                let cell = line[way].load(Acquire);
                // An empty cell looks like a hash of zeros, except for its record.
                let record = (cell as u32).wrapping_sub(1);
                if (cell >> 32) as u32 == hash as u32 && record != u32::MAX && is(record) {
                    return Some(record);
                }
            }
            if tags::count(tags) == 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    /// The first cell that `wanted` accepts on a hash's way.
    #[inline(always)]
    fn place(&self, hash: u64, wanted: impl Fn(&Line) -> Option<usize>) -> Option<Place<'_>> {
        let home = self.home(hash);
        let mut at = home;
        for passes in 0..PROBE_LINES {
            let line = &self.lines[at];
            if let Some(way) = wanted(line) {
                return Some(Place { line, at, way, home, passes });
            }
            at = self.after(at);
        }
        None
    }

    /// Counts or uncounts a record at the lines that it passes.
    #[inline(always)]
    fn pass(&self, place: &Place<'_>, change: impl Fn(u8) -> u8) {
        let mut at = place.home;
        for _ in 0..place.passes {
            let tags = &self.lines[at][TAGS];
            let word = tags.load(Relaxed);
            tags.store(tags::set_count(word, change(tags::count(word))), Release);
            at = self.after(at);
        }
    }

    /// Inserts a record, even if others have the same hash; returns its cell, where it stays. For
    /// the single writer.
    ///
    /// # Errors
    /// [`Crowded`]: nothing was changed.
    #[inline]
    pub(super) fn insert(&self, hash: u64, record: u32) -> Result<Spot, Crowded> {
        let empty = |line: &Line| with_tag(line[TAGS].load(Relaxed), 0).next();
        let place = self.place(hash, empty).ok_or(Crowded)?;
        self.pass(&place, |count| count.saturating_add(1));
        place.line[place.way].store(entry(hash, record), Release);
        place.set_tag(tag(hash));
        Ok(Spot((place.at * (WAYS + 1) + place.way) as u32))
    }

    /// The cell of a record.
    #[inline(always)]
    fn place_of(&self, hash: u64, record: u32) -> Option<Place<'_>> {
        let wanted = entry(hash, record);
        self.place(hash, |line| {
            let mut ways = with_tag(line[TAGS].load(Relaxed), tag(hash));
            ways.find(|&way| line[way].load(Relaxed) == wanted)
        })
    }

    /// Removes a record; false if it was not there. For the single writer.
    pub(super) fn remove(&self, hash: u64, record: u32) -> bool {
        self.place_of(hash, record).map(|place| self.clear(&place)).is_some()
    }

    /// Removes a record from its cell; false if it is not there. For the single writer.
    #[inline(always)]
    pub(super) fn remove_at(&self, hash: u64, record: u32, Spot(spot): Spot) -> bool {
        let (at, way) = (spot as usize / (WAYS + 1), spot as usize % (WAYS + 1));
        let Some(line) = self.lines.get(at) else { return false };
        if line[way].load(Relaxed) != entry(hash, record) {
            return false;
        }
        let home = self.home(hash);
        let passes = if at >= home { at - home } else { at + self.lines.len() - home };
        debug_assert!(passes < PROBE_LINES, "it was put in under another hash");
        self.clear(&Place { line, at, way, home, passes });
        true
    }

    #[inline(always)]
    fn clear(&self, place: &Place<'_>) {
        place.set_tag(0);
        place.line[place.way].store(0, Release);
        // A saturated count never decreases.
        self.pass(place, |count| if count == u8::MAX { count } else { count - 1 });
    }

    /// Every record, in no order.
    pub(super) fn records(&self) -> impl Iterator<Item = u32> + '_ {
        let cells = self.lines.iter().flat_map(|line| &line[..WAYS]);
        cells.filter_map(|cell| (cell.load(Acquire) as u32).checked_sub(1))
    }
}

/// The position of a record's cell among all words of the index, which has at most 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot(u32);

impl Spot {
    /// The cell of no record.
    pub const NONE: Spot = Spot(u32::MAX);
}

/// A cell, and the way to it.
struct Place<'a> {
    line: &'a Line,
    at: usize,
    way: usize,
    home: usize,
    /// Lines from its home to this one.
    passes: usize,
}

impl Place<'_> {
    #[inline(always)]
    fn set_tag(&self, tag: u8) {
        let tags = &self.line[TAGS];
        tags.store(tags::set(tags.load(Relaxed), self.way, tag), Release);
    }
}

fn entry(hash: u64, record: u32) -> u64 {
    hash << 32 | u64::from(record.wrapping_add(1))
}
