//! The IPv6 lookup structure: a direct table of the first 16 bits, then B-trees on the next 32,
//! whose keys are the addresses where an answer begins to hold.
//!
//! ```text
//! top      2^16 entries, by bits 0 to 15
//! node     16 keys on one cache line, ascending: of its children, or of the addresses with one
//!          answer in a row, each but the first has the address before it; then 2^32 - 1
//!          16 entries on the next line, of the children or the answers
//! entry    where a node begins, in bytes; the groups' nodes come first
//! ```
//!
//! So the index of the entry is the number of keys below the address's bits, found by one
//! comparison of sixteen numbers at once (`lanes.rs`): a step is ten instructions, without a
//! branch.
//!
//! A group is a node without keys whose only entry points to itself: a lookup that has found its
//! answer takes the same steps as the others, and stays there. So all lookups of a batch take as
//! many steps as the highest tree has levels, which is four for the Internet's table, side by side.
//!
//! For prefixes longer than 48 bits an entry leads to a gate: also a node without keys, which
//! besides itself has the root of a tree on bits 48 to 79, whose gates lead on to bits 80 to 111
//! and 112 to 127. Few addresses reach a gate, and each continues alone.
//!
//! Keys never change; entries are changed by single stores, which switch the addresses below them
//! from their old to their new answer. The addresses where an answer begins are in a tree before
//! its prefix is, and stay when it is removed, so that a route that changes, goes or comes back
//! changes only entries. Nodes with other keys are written anew and linked by one store (release;
//! readers load links with acquire), and the old ones retired (`grace.rs`). A reader in a retired
//! node finds the answers at the time of its retirement, which is later than when the reader found
//! the way in.

mod grove;
mod keeper;

use std::sync::atomic::{AtomicU32, Ordering::*};

use super::lanes::{self, Lanes, Work};
use super::pages::Pages;
use super::{GroupId, Table};

const TOP: usize = 1 << 16;
/// Most children or answers of a node.
const FAN: usize = 16;
/// Keys and entries.
type Node = [[AtomicU32; FAN]; 2];
/// Bytes of a node.
const NODE: usize = size_of::<Node>();
/// Size of the address space, which becomes memory as it is used: arrays whose length is part of
/// their type, and indices of so many bits, need no bounds checks.
const NODES: usize = 1 << 21;
/// Nodes that are groups, by their entry in tables.
const GROUPS: usize = GroupId::MAX as usize + 2;
/// The first entry that is not a group.
const LOWER: u32 = (GROUPS * NODE) as u32;
/// Which entry of a gate is the root below it.
const BELOW: usize = 1;

/// The direct table and the nodes.
pub struct Trees {
    top: Pages<AtomicU32>,
    nodes: Pages<Node>,
    /// Levels of the highest tree below the top.
    levels: AtomicU32,
}

/// The nodes, and the way to search one.
#[derive(Clone, Copy)]
struct Search<'a, L> {
    nodes: &'a [Node; NODES],
    lanes: L,
}

impl<L: Lanes> Search<'_, L> {
    /// The target of an entry for an address whose next 32 bits are `bits`.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn step(self, entry: u32, bits: u32) -> u32 {
        let [keys, entries] = &self.nodes[entry as usize / NODE % NODES];
        // SAFETY: the keys were stored before the entry that led here was (release), which was
        // loaded with acquire. The writer does not store to them again before every batch has ended
        // that could have loaded the entry (`grace.rs`), and lookups happen only within batches.
        let below = unsafe { self.lanes.below(keys, bits) };
        entries[below].load(Acquire)
    }

    /// The group that an entry for an address leads to, which is in a tree below the top.
    #[inline(always)]
    fn finish(self, mut entry: u32, addr: u128) -> u32 {
        let mut rest = addr << 16;
        while entry >= LOWER {
            let next = self.step(entry, (rest >> 96) as u32);
            if next != entry {
                entry = next;
                continue;
            }
            // A gate.
            rest <<= 32;
            entry = self.nodes[entry as usize / NODE % NODES][1][BELOW].load(Acquire);
        }
        entry
    }
}

impl Trees {
    #[inline(always)]
    fn top(&self) -> &[AtomicU32; TOP] {
        self.top.first_chunk().expect("as many were asked for")
    }

    #[inline(always)]
    fn search<L: Lanes>(&self, lanes: L) -> Search<'_, L> {
        Search { nodes: self.nodes.first_chunk().expect("as many were asked for"), lanes }
    }

    /// Looks up `N` addresses side by side, without a branch that depends on one of them.
    #[inline(always)]
    fn find_all<const N: usize>(
        &self,
        lanes: impl Lanes,
        addrs: &[u128; N],
        answers: &mut [Option<GroupId>],
    ) {
        let (top, search) = (self.top(), self.search(lanes));
        let mut entries = [0u32; N];
        let mut some = 0;
        for i in 0..N {
            entries[i] = top[(addrs[i] >> 112) as usize].load(Acquire);
            some |= entries[i];
        }
        if some >= LOWER {
            for _ in 0..self.levels.load(Relaxed) {
                for i in 0..N {
                    entries[i] = search.step(entries[i], (addrs[i] >> 80) as u32);
                }
            }
            if entries.iter().fold(0, |some, entry| some | entry) >= LOWER {
                for i in 0..N {
                    entries[i] = search.finish(entries[i], addrs[i]);
                }
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
    GroupId::from_entry((entry as usize / NODE) as u16)
}

struct One<'a> {
    trees: &'a Trees,
    addr: u128,
}

impl Work for One<'_> {
    type Output = Option<GroupId>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Option<GroupId> {
        let entry = self.trees.top()[(self.addr >> 112) as usize].load(Acquire);
        group(self.trees.search(lanes).finish(entry, self.addr))
    }
}

struct Batch<'a> {
    trees: &'a Trees,
    addrs: &'a [u128],
    answers: &'a mut [Option<GroupId>],
}

impl Work for Batch<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, lanes: impl Lanes) {
        let Batch { trees, addrs, answers } = self;
        let (many, rest) = addrs.as_chunks::<64>();
        let (many_answers, rest_answers) = answers.as_chunks_mut::<64>();
        for (addrs, answers) in many.iter().zip(many_answers) {
            trees.find_all(lanes, addrs, answers);
        }
        for (addrs, answers) in rest.chunks(16).zip(rest_answers.chunks_mut(16)) {
            let mut some = [0; 16];
            some[..addrs.len()].copy_from_slice(addrs);
            trees.find_all(lanes, &some, answers);
        }
    }
}

impl Table<u128> for Trees {
    type Writer = keeper::Keeper;

    #[inline(always)]
    fn lookup(&self, addr: u128) -> Option<GroupId> {
        lanes::run(One { trees: self, addr })
    }

    fn lookup_batch(&self, addrs: &[u128], answers: &mut [Option<GroupId>]) {
        let count = addrs.len().min(answers.len());
        let (addrs, answers) = (&addrs[..count], &mut answers[..count]);
        lanes::run(Batch { trees: self, addrs, answers });
    }
}
