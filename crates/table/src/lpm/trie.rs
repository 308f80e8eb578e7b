//! What IPv6 lookups touch: a direct table of the first 16 bits, then nodes of 8 bits each, whose
//! cells are read by number and not searched: every 2^16 or 256 addresses in a row have one, but
//! only where answers can differ.
//!
//! ```text
//! top      2^16 entries, by bits 0 to 15
//! node     by bits 16 to 23, 24 to 31 and so on, in words of 32 bits:
//!          word 0          | how many cells 16 | first slot 8 | shift 8 |: the window
//!          then            for each cell its entry: 2^shift slots from the first slot on
//!          then            one entry for all slots beside the window
//! entry    where a node begins, in words; the nodes of the groups come first
//! ```
//!
//! The window is where prefixes and lower nodes of the node begin and end, in steps that all of
//! them are multiples of: a lone /48 makes a node of one cell, sixteen /36s next to each other one
//! of sixteen cells, and 256 different /48s one of 256.
//!
//! A group is a node without cells, whose only entry is itself: an address that has its answer
//! takes the same step as one that has not, and stays where it is. A step is two loads and some
//! ten operations without a branch. What a processor can keep waiting for memory is few, so a
//! batch of addresses takes each step in two halves, and every half asks for what the next loads.
//!
//! Windows hold where prefixes begin and end, whatever their groups. So a route that goes, changes
//! or comes back changes entries only, which are single stores; a node is written anew when a
//! prefix begins or ends outside its window or between its cells, or when a quarter would do.
//!
//! Where a node's window is never changes. A node written anew is linked by one store (release;
//! readers load links with acquire), and the old one retired (`grace.rs`). Every entry is a single
//! store, which takes the addresses under it from their old to their new answer. A reader that is
//! still in a retired node finds there what held when it was retired, which is later than when the
//! reader found the way in.

mod space;
mod weaver;

use std::sync::atomic::{AtomicU32, Ordering::*};

use super::pages::Pages;
use super::widest::{self, Work};
use super::{GroupId, Table};
use crate::prefetch::prefetch;

const TOP: usize = 1 << 16;
/// Words of a unit, in which nodes are counted and numbered: 16 bytes.
const UNIT: usize = 4;
/// Address space, of which what is used is memory: arrays whose length is part of their type, and
/// indices of so many bits, need no checks.
const UNITS_MAX: usize = 1 << 24;
const WORDS: usize = UNITS_MAX * UNIT;
/// Where the nodes that are no groups begin, in words. Groups have two each.
const LOWER: usize = 2 * (GroupId::MAX as usize + 2);
/// Depth of the first nodes, in strides of 8 bits.
const NODES: usize = 2;
/// Depths of nodes that a batch looks at side by side end here: prefixes of 48 bits. Few are
/// longer.
const DEEP: usize = 6;

/// The direct table and the nodes.
pub struct Trie {
    top: Pages<AtomicU32>,
    words: Pages<AtomicU32>,
}

/// Which slots of a node have cells of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Window {
    first: usize,
    shift: usize,
    cells: usize,
}

impl Window {
    fn word(self) -> u32 {
        (self.cells << 16 | self.first << 8 | self.shift) as u32
    }

    fn of_word(word: u32) -> Window {
        let (shift, first) = (word & 255, word >> 8 & 255);
        Window { first: first as usize, shift: shift as usize, cells: (word >> 16) as usize }
    }

    fn end(self) -> usize {
        self.first + (self.cells << self.shift)
    }

    /// Which of a node's entries a slot has: `cells` if it lies beside the window.
    fn cell(self, slot: usize) -> usize {
        (slot.wrapping_sub(self.first) >> self.shift).min(self.cells)
    }

    /// True if cells begin at `first` and end at `end`.
    fn has(self, first: usize, end: usize) -> bool {
        let between = |slot: usize| slot & ((1 << self.shift) - 1) != 0;
        self.first <= first && end <= self.end() && !between(first) && !between(end)
    }

    /// Units of a node with this window.
    fn units(self) -> usize {
        (self.cells + 2).div_ceil(UNIT)
    }
}

/// Where in the words the entry for a slot stands, of the node at `start` with such a window.
#[inline(always)]
fn place(start: u32, window: u32, slot: u32) -> u32 {
    let cell = slot.wrapping_sub(window >> 8 & 255) >> (window & 31);
    start + 1 + cell.min(window >> 16)
}

impl Trie {
    #[inline(always)]
    fn top(&self) -> &[AtomicU32; TOP] {
        self.top.first_chunk().expect("as many were asked for")
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU32; WORDS] {
        self.words.first_chunk().expect("as many were asked for")
    }

    #[inline(always)]
    fn find(&self, addr: u128) -> u32 {
        self.find_below(self.top()[(addr >> 112) as usize].load(Acquire), addr, NODES)
    }

    /// Follows an entry that a node of some depth may stand behind.
    #[inline(always)]
    fn find_below(&self, mut entry: u32, addr: u128, depth: usize) -> u32 {
        let words = self.words();
        let mut rest = addr << (8 * depth);
        while entry as usize >= LOWER {
            let window = words[entry as usize % WORDS].load(Relaxed);
            entry =
                words[place(entry, window, (rest >> 120) as u32) as usize % WORDS].load(Acquire);
            rest <<= 8;
        }
        entry
    }

    /// Looks up `N` addresses side by side, without a branch that depends on one of them.
    #[inline(always)]
    fn find_all<const N: usize>(&self, addrs: &[u128; N], answers: &mut [Option<GroupId>]) {
        // Taken out once: after an acquiring load the compiler reads them again.
        let (top, words) = (self.top(), self.words());
        let (mut entries, mut places) = ([0u32; N], [0u32; N]);
        let mut some = 0;
        for i in 0..N {
            entries[i] = top[(addrs[i] >> 112) as usize].load(Acquire);
            some |= entries[i];
        }
        for depth in NODES..DEEP {
            if (some as usize) < LOWER {
                break;
            }
            for i in 0..N {
                let slot = (addrs[i] >> (120 - 8 * depth)) as u32 & 255;
                let window = words[entries[i] as usize % WORDS].load(Relaxed);
                places[i] = place(entries[i], window, slot);
                prefetch(&words[places[i] as usize % WORDS]);
            }
            some = 0;
            for i in 0..N {
                entries[i] = words[places[i] as usize % WORDS].load(Acquire);
                prefetch(&words[entries[i] as usize % WORDS]);
                some |= entries[i];
            }
        }
        if some as usize >= LOWER {
            for i in 0..N {
                entries[i] = self.find_below(entries[i], addrs[i], DEEP);
            }
        }
        for (answer, entry) in answers.iter_mut().zip(entries) {
            *answer = group(entry);
        }
    }
}

/// The group whose node begins there.
#[inline(always)]
fn group(entry: u32) -> Option<GroupId> {
    GroupId::from_entry((entry / 2) as u16)
}

struct Batch<'a> {
    trie: &'a Trie,
    addrs: &'a [u128],
    answers: &'a mut [Option<GroupId>],
}

impl Work for Batch<'_> {
    #[inline(always)]
    fn run(self) {
        let Batch { trie, addrs, answers } = self;
        let (many, rest) = addrs.as_chunks::<64>();
        let (many_answers, rest_answers) = answers.as_chunks_mut::<64>();
        for (addrs, answers) in many.iter().zip(many_answers) {
            trie.find_all(addrs, answers);
        }
        for (addrs, answers) in rest.chunks(16).zip(rest_answers.chunks_mut(16)) {
            let mut some = [0; 16];
            some[..addrs.len()].copy_from_slice(addrs);
            trie.find_all(&some, answers);
        }
    }
}

impl Table<u128> for Trie {
    type Writer = weaver::Weaver;

    #[inline(always)]
    fn lookup(&self, addr: u128) -> Option<GroupId> {
        group(self.find(addr))
    }

    fn lookup_batch(&self, addrs: &[u128], answers: &mut [Option<GroupId>]) {
        let count = addrs.len().min(answers.len());
        let (addrs, answers) = (&addrs[..count], &mut answers[..count]);
        widest::run(Batch { trie: self, addrs, answers });
    }
}
