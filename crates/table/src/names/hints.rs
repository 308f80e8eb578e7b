//! Prefix hints: cached Data under a prefix (CanBePrefix), without an ordered table.
//!
//! NDN-DPDK keeps *indirect entries*: when Data arrives for an Interest with a shorter name, that
//! name leads to it from then on. Hints do more, without lists and names: a hint is the number of a
//! cached Data packet under the hash of a prefix. The Data's own name, if it is still cached, shows
//! whether it has the prefix; so a wrong hint does no harm, and evicting Data needs no update. A
//! full line forgets its oldest hint.
//!
//! Data has many prefixes, almost all of which are never requested, and recording one costs a cache
//! line. So Data is recorded only under recently requested prefixes.
//!
//! Not found are: Data cached before the first Interest for the prefix, or after so many other
//! prefixes were requested that this one is forgotten; a hint displaced by seven later ones in its
//! line; and other Data when the last one recorded was evicted. The Interest then goes to a
//! producer, as if the cache were smaller. An ordered table (NFD's) would find all Data, but needs
//! a search of as many steps as the cache size has binary digits, each a cache miss, for every such
//! Interest, with as many candidates as a hostile name causes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::tags::{self, WAYS, tag, with_tag};
use crate::aging::AgingBits;
use crate::pages::Pages;

const TAGS: usize = WAYS;

/// Bits of the requested prefixes, in each of two generations.
const ASKED_MAX: usize = 1 << 17;

/// Cells, and their tags with the number of the cell that is overwritten next.
type Line = [AtomicU64; WAYS + 1];

/// For each recorded prefix the number of some Data packet under it; recording and finding touch
/// one cache line each.
pub struct PrefixHints {
    lines: Pages<Line>,
    asked: AgingBits,
}

impl PrefixHints {
    /// Room for `hints`, 9 bytes each plus at most 32 KiB; none if the system refuses the address
    /// space.
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

    /// An Interest asks for the prefix with this hash: later Data is recorded under it, until
    /// 16,384 other prefixes are requested, or fewer if there are fewer hints.
    pub fn ask(&mut self, hash: u64) {
        self.asked.insert(hash);
        let (bits, set) = self.asked.bits();
        if set >= bits / 8 {
            self.asked.turn();
        }
    }

    /// Records Data number `data` (below `u32::MAX`) under those of these prefixes of its name that
    /// were requested, replacing earlier hints.
    #[inline(always)]
    pub fn note(&mut self, prefixes: &[u64], data: u32) {
        for hash in prefixes {
            if self.asked.has(*hash) {
                std::hint::cold_path();
                note(line(&self.lines, *hash), *hash, data);
            }
        }
    }

    /// The Data recorded for the prefix with this hash, if `is` accepts it. `is` has to check that
    /// the number still belongs to Data whose name begins with the prefix.
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
