//! Cached Data under a prefix: CanBePrefix without an ordered table.
//!
//! NDN-DPDK keeps *indirect entries*: when Data comes for an Interest with a shorter name, that
//! name leads to it from then on. This does more, without lists and without names: a hint is the
//! number of a cached Data packet under the hash of a prefix. Whether the Data, if it is still
//! there, has the prefix is seen in its own name, so a hint is never wrong for long and nothing
//! has to be told when Data goes. A line that is full forgets its oldest hint.
//!
//! Data has many prefixes, of which nearly all are never asked for, and to note one takes a line of
//! memory. So Data is noted under those that were asked for lately.
//!
//! What is not found: Data that was cached before somebody asked for the prefix, or after so many
//! others were asked for that this one is forgotten; or when seven later ones fell into the same
//! line, or when the last Data noted for it is gone. The Interest
//! then goes on to a producer, as if the cache were smaller. An ordered table (NFD's) would find
//! every one, for a search of as many steps as the cache has binary digits, each a miss of memory,
//! on every Interest of this kind, and with as many candidates as a hostile name wants.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::tags::{self, WAYS, tag, with_tag};
use crate::aging::AgingBits;
use crate::pages::Pages;

const TAGS: usize = WAYS;

/// Bits of those that were asked for, each of two generations.
const ASKED_MAX: usize = 1 << 17;

/// Cells, and their tags with the number of the cell that is forgotten next.
type Line = [AtomicU64; WAYS + 1];

/// For each prefix that was noted, the number of some Data packet under it; one cache line to note
/// and one to find.
pub struct PrefixHints {
    lines: Pages<Line>,
    asked: AgingBits,
}

impl PrefixHints {
    /// Room for `hints`, 9 bytes each and 32 KiB at most; none if the system does not give the
    /// address space.
    pub fn new(hints: usize) -> Option<PrefixHints> {
        let lines = hints.div_ceil(WAYS).max(1);
        Some(PrefixHints {
            lines: Pages::zeroed(lines)?,
            asked: AgingBits::new(hints.min(ASKED_MAX)),
        })
    }

    /// Bytes of its memory.
    pub fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>() + self.asked.bytes()
    }

    /// Somebody asks for the prefix with this hash: Data that comes from now on is noted under it,
    /// until 16,384 others were asked for, or fewer if there are fewer hints.
    pub fn ask(&mut self, hash: u64) {
        self.asked.insert(hash);
        let (bits, set) = self.asked.bits();
        if set >= bits / 8 {
            self.asked.turn();
        }
    }

    /// Notes Data number `data` (below `u32::MAX`) under those of these prefixes of its name that
    /// were asked for, in place of what was noted for them before.
    #[inline(always)]
    pub fn note(&mut self, prefixes: &[u64], data: u32) {
        for hash in prefixes {
            if self.asked.has(*hash) {
                std::hint::cold_path();
                note(line(&self.lines, *hash), *hash, data);
            }
        }
    }

    /// The Data noted for the prefix with this hash, if it `is` one. `is` has to see that the
    /// number is still that of Data whose name begins with the prefix.
    #[inline]
    pub fn find(&self, hash: u64, is: impl FnOnce(u32) -> bool) -> Option<u32> {
        let line = line(&self.lines, hash);
        let mut cells =
            with_tag(line[TAGS].load(Relaxed), tag(hash)).map(|way| line[way].load(Relaxed));
        let data = (cells.find(|&cell| is_of(cell, hash))? as u32).checked_sub(1)?;
        is(data).then_some(data)
    }
}

#[inline(always)]
fn line(lines: &[Line], hash: u64) -> &Line {
    &lines[((u128::from(hash) * lines.len() as u128) >> 64) as usize]
}

fn note(line: &Line, hash: u64, data: u32) {
    let mut tags = line[TAGS].load(Relaxed);
    let known = with_tag(tags, tag(hash)).find(|&way| is_of(line[way].load(Relaxed), hash));
    let way = known.or_else(|| with_tag(tags, 0).next()).unwrap_or_else(|| {
        let oldest = tags::count(tags);
        tags = tags::set_count(tags, if usize::from(oldest) + 1 < WAYS { oldest + 1 } else { 0 });
        oldest.into()
    });
    line[way].store(hash << 32 | u64::from(data.wrapping_add(1)), Relaxed);
    line[TAGS].store(tags::set(tags, way, tag(hash)), Relaxed);
}

#[inline(always)]
fn is_of(cell: u64, hash: u64) -> bool {
    (cell >> 32) as u32 == hash as u32
}
