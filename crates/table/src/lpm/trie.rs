//! What IPv6 lookups touch: two direct tables for the first 24 bits, then nodes of 8 bits each that
//! hold every run of equal entries once, found by counting bits as in Lulea and poptrie (Degermark
//! et al., SIGCOMM 1997; Asai and Ohara, SIGCOMM 2015).
//!
//! ```text
//! top      2^16 entries, by bits 0 to 15
//! blocks   256 entries each, by bits 16 to 23
//! nodes    a cache line or more, by bits 24 to 31, 32 to 39 and so on:
//!          words 0 to 3    bit i of all: slot i begins a run
//!          word 4          | 0 16 | inherited 16 | bits set before words 3, 2, 1, 0: 8 each |
//!          then 32 bits    for each run its entry
//! entry    | 1 | number of a block or node 31 |   or   | 0 | group + 1, 0: none or inherited |
//! ```
//!
//! Most nodes have six runs or fewer and are one cache line: lines are what a lookup waits for.
//! A node says nothing of shorter prefixes than its own: where its entry is 0, the group that it
//! inherits holds, which stands in one place, so that a short prefix changes one word of every node
//! below and not the node.
//!
//! A node's runs never change. A changed node is written anew and linked by one store (release;
//! readers load links with acquire), and the old one retired (`grace.rs`). Entries of the direct
//! tables, links and inherited groups are single stores, each of which takes the addresses under it
//! from their old to their new answer. A reader that is still in a retired node finds there what
//! held when it was retired, which is later than when the reader found the way in.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::grace::{Periods, Retired};
use super::pages::Pages;
use super::rib::{Child, Rib, Way};
use super::widest::{self, Work};
use super::{Address, GroupId, Refused, Table, Writer};

const TOP: usize = 1 << 16;
const BLOCK: usize = 256;
/// Words of a cache line, of which nodes have one or more.
const LINE: usize = 8;
const BITMAP: usize = 4;
/// Where entries begin, in halves of words from the node's beginning.
const ENTRIES: usize = 2 * (BITMAP + 1);
/// Lines of the nodes there may be: for up to 6, 22, 38, 54, 86, 118, 182 and 256 runs.
const SIZES: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 17];
const LINK: u32 = 1 << 31;
/// Depth of the blocks and of the first nodes, in strides of 8 bits.
const BLOCKS: usize = 2;
const NODES: usize = 3;
/// Address space beyond twice the limit, so that removals always find room for a smaller node.
const SPARE: usize = 1 << 16;
const BLOCK_LINES: usize = BLOCK * 4 / 64;
const TOP_BYTES: usize = TOP * 4;

/// The direct tables and the nodes.
pub struct Trie {
    top: Pages<AtomicU32>,
    blocks: Pages<AtomicU32>,
    words: Pages<AtomicU64>,
}

impl Trie {
    /// One of the 32-bit halves of the nodes' words.
    #[inline(always)]
    fn half(&self, at: usize) -> u32 {
        (self.words[at / 2].load(Acquire) >> (at % 2 * 32)) as u32
    }

    fn set_half(&self, at: usize, half: u32) {
        let shift = at % 2 * 32;
        let other = self.words[at / 2].load(Relaxed) & !(u64::from(u32::MAX) << shift);
        self.words[at / 2].store(other | u64::from(half) << shift, Release);
    }

    /// Where the entry of a node for a slot stands, in halves; and what the node inherits.
    #[inline(always)]
    fn place(&self, node: u32, slot: usize) -> (usize, u32) {
        let line = &self.words[node as usize * LINE..][..LINE];
        let fixed = line[BITMAP].load(Relaxed);
        let before = (fixed >> (slot / 64 * 8) & 255) as usize;
        let runs = line[slot / 64].load(Relaxed) << (63 - slot % 64);
        let run = before + runs.count_ones() as usize - 1;
        (node as usize * LINE * 2 + ENTRIES + run, (fixed >> 32) as u32)
    }

    /// The entry of a node for a slot, or what it inherits.
    #[inline(always)]
    fn step(&self, node: u32, slot: usize) -> u32 {
        let (place, inherited) = self.place(node, slot);
        match self.half(place) {
            0 => inherited,
            entry => entry,
        }
    }

    #[inline(always)]
    fn direct(&self, addr: u128) -> u32 {
        let entry = self.top[(addr >> 112) as usize].load(Acquire);
        if entry & LINK == 0 {
            return entry;
        }
        let block = (entry & !LINK) as usize * BLOCK;
        self.blocks[block + usize::from(addr.byte(BLOCKS))].load(Acquire)
    }

    #[inline(always)]
    fn find(&self, addr: u128) -> u32 {
        self.find_below(self.direct(addr), addr, NODES)
    }

    /// Follows an entry that a node of some depth may stand behind.
    #[inline(always)]
    fn find_below(&self, mut entry: u32, addr: u128, depth: usize) -> u32 {
        let mut rest = addr << (8 * depth);
        while entry & LINK != 0 {
            entry = self.step(entry & !LINK, (rest >> 120) as usize);
            rest <<= 8;
        }
        entry
    }

    /// Looks up `N` addresses side by side: all the arithmetic of a step for all of them, which
    /// becomes vector instructions, then all its loads, which wait for memory together. Where an
    /// address has its answer already, word 0 is loaded for it and not used.
    #[inline(always)]
    fn find_all<const N: usize>(&self, addrs: &[u128; N], answers: &mut [Option<GroupId>]) {
        // Taken out once: after an acquiring load the compiler reads them again.
        let (top, blocks, memory) = (&*self.top, &*self.blocks, &*self.words);
        let lines = memory.as_chunks::<LINE>().0;
        let halves = addrs.map(|addr| (addr >> 64) as u64);
        let high = halves.map(|half| (half >> 32) as u32);
        let middle = halves.map(|half| (half >> 8) as u32);
        let mut entries = [0u32; N];
        for i in 0..N {
            entries[i] = top[(high[i] >> 16) as usize].load(Acquire);
        }
        let mut at = [0u32; N];
        let mut found = [0u32; N];
        if some_link(&entries) {
            for i in 0..N {
                at[i] = (entries[i] << 8 | high[i] >> 8 & 255) & links(entries[i]);
            }
            for i in 0..N {
                found[i] = blocks[at[i] as usize].load(Acquire);
            }
            for i in 0..N {
                entries[i] = choose(links(entries[i]), found[i], entries[i]);
            }
        }
        let (mut words, mut fixed) = ([0u64; N], [0u64; N]);
        for depth in 0..SIDE_BY_SIDE {
            if !some_link(&entries) {
                break;
            }
            let slot = |i: usize| middle[i] >> (24 - 8 * depth) & 255;
            for i in 0..N {
                at[i] = entries[i] & links(entries[i]) & !LINK;
                found[i] = slot(i) >> 6;
            }
            for i in 0..N {
                let line = &lines[at[i] as usize];
                words[i] = line[found[i] as usize % BITMAP].load(Relaxed);
                fixed[i] = line[BITMAP].load(Relaxed);
            }
            for i in 0..N {
                let runs = words[i] << (!slot(i) & 63);
                let before = (fixed[i] >> ((slot(i) >> 6) * 8)) as u32 & 255;
                let run = before + runs.count_ones() + ENTRIES as u32 - 1;
                found[i] = (at[i] * 2 * LINE as u32 + run) & links(entries[i]);
            }
            for i in 0..N {
                words[i] = memory[(found[i] / 2) as usize].load(Acquire);
            }
            for i in 0..N {
                let half = (words[i] >> (found[i] % 2 * 32)) as u32;
                let entry = if half == 0 { (fixed[i] >> 32) as u32 } else { half };
                entries[i] = choose(links(entries[i]), entry, entries[i]);
            }
        }
        if some_link(&entries) {
            for i in 0..N {
                entries[i] = self.find_below(entries[i], addrs[i], NODES + SIDE_BY_SIDE);
            }
        }
        for (answer, entry) in answers.iter_mut().zip(entries) {
            *answer = GroupId::from_entry(entry as u16);
        }
    }
}

/// Levels of nodes that are looked at side by side: to prefixes of 48 bits. Few are longer.
const SIDE_BY_SIDE: usize = 3;

/// All ones if an entry is a link.
#[inline(always)]
fn links(entry: u32) -> u32 {
    (entry as i32 >> 31) as u32
}

#[inline(always)]
fn choose(mask: u32, yes: u32, no: u32) -> u32 {
    yes & mask | no & !mask
}

#[inline(always)]
fn some_link<const N: usize>(entries: &[u32; N]) -> bool {
    entries.iter().fold(0, |all, entry| all | entry) & LINK != 0
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
    type Writer = Weaver;

    #[inline(always)]
    fn lookup(&self, addr: u128) -> Option<GroupId> {
        GroupId::from_entry(self.find(addr) as u16)
    }

    fn lookup_batch(&self, addrs: &[u128], answers: &mut [Option<GroupId>]) {
        let count = addrs.len().min(answers.len());
        let (addrs, answers) = (&addrs[..count], &mut answers[..count]);
        widest::run(Batch { trie: self, addrs, answers });
    }
}

/// Writes the tables and the nodes.
///
/// In the RIB, a node's tag is one more than the number of its block or node here; 0 is none yet.
pub struct Weaver {
    /// Lines of nodes and blocks that are in use or retired, and how many may be.
    lines: usize,
    lines_max: usize,
    lines_end: usize,
    nodes: Heap<{ SIZES.len() }>,
    blocks: Heap<1>,
}

/// Numbers of equal blocks in some sizes: never used ones, free ones, retired ones.
struct Heap<const N: usize> {
    fresh: usize,
    free: [Vec<u32>; N],
    retired: Retired,
}

impl<const N: usize> Heap<N> {
    fn new() -> Heap<N> {
        Heap { fresh: 0, free: std::array::from_fn(|_| Vec::new()), retired: Retired::new() }
    }

    fn take(&mut self, class: usize, size: usize) -> u32 {
        self.free[class].pop().unwrap_or_else(|| {
            self.fresh += size;
            (self.fresh - size) as u32
        })
    }

    fn bytes(&self) -> usize {
        self.free.iter().map(|f| f.capacity() * 4).sum::<usize>() + self.retired.bytes()
    }
}

/// A number in a node of the RIB, on the way to an address.
#[derive(Clone, Copy)]
struct Spot {
    id: u32,
    tag: u32,
    addr: u128,
    depth: usize,
    number: usize,
}

impl Spot {
    fn on(way: &Way<u128>, depth: usize, number: usize) -> Spot {
        Spot { id: way.ids[depth], tag: way.tags[depth], addr: way.addr, depth, number }
    }
}

impl Writer<u128> for Weaver {
    type Table = Trie;

    fn new(lookup_bytes: usize) -> Result<(Trie, Weaver), Refused> {
        let least = TOP_BYTES + 64 * 1024;
        let asked = lookup_bytes.min(1 << 33); // Places in halves have 32 bits.
        if asked < least {
            return Err(Refused::TooSmall { least, asked });
        }
        let lines_max = (asked - TOP_BYTES) / 64;
        let lines_end = 2 * lines_max + SPARE;
        let blocks = (2 * lines_max / BLOCK_LINES).min(2 * TOP) * BLOCK;
        let bytes = TOP_BYTES + lines_end * 64 + blocks * 4;
        let none = || Refused::OutOfMemory { bytes };
        let trie = Trie {
            top: Pages::zeroed(TOP).ok_or_else(none)?,
            blocks: Pages::zeroed(blocks).ok_or_else(none)?,
            words: Pages::zeroed(lines_end * LINE).ok_or_else(none)?,
        };
        let (nodes, blocks) = (Heap::new(), Heap::new());
        Ok((trie, Weaver { lines: 0, lines_max, lines_end, nodes, blocks }))
    }

    fn reserve(&mut self, table: &Trie, periods: &Periods, way: &Way<u128>) -> Result<(), Refused> {
        if way.depth < BLOCKS || way.depth == BLOCKS && way.known > BLOCKS {
            return Ok(());
        }
        // The node anew and one above to link it anew; the least for those between that are new.
        let largest = SIZES[SIZES.len() - 1];
        let chain = SIZES[0] * (way.depth + 1).saturating_sub(way.known.max(NODES));
        let block = if way.known > BLOCKS { 0 } else { BLOCK_LINES };
        let wanted = 2 * largest + chain + block;
        let fits =
            |w: &Weaver| w.lines + wanted <= w.lines_max && w.nodes.fresh + wanted <= w.lines_end;
        if !fits(self) {
            self.collect(table, periods);
        }
        let limit = TOP_BYTES + 64 * self.lines_max;
        fits(self).then_some(()).ok_or(Refused::LookupFull { limit })
    }

    fn reserve_change(&mut self, table: &Trie, periods: &Periods) -> Result<(), Refused> {
        let fits = |w: &Weaver| w.nodes.fresh + SIZES[SIZES.len() - 1] <= w.lines_end;
        if !fits(self) || self.nodes.retired.len() >= 64 {
            self.collect(table, periods);
        }
        fits(self).then_some(()).ok_or(Refused::ReaderBusy)
    }

    fn inserted(
        &mut self,
        table: &Trie,
        rib: &mut Rib<u128>,
        periods: &Periods,
        mut way: Way<u128>,
    ) {
        let Way { depth, number, .. } = way;
        if depth >= NODES {
            self.weave(table, rib, periods, &mut way, depth);
        } else if depth == BLOCKS {
            self.block(table, rib, &mut way);
        }
        let now = entry(rib.node(way.ids[depth]).get(number));
        paint(table, rib, Spot::on(&way, depth, number), now);
        if self.nodes.retired.len() >= 64 {
            self.collect(table, periods);
        }
    }

    fn removed(
        &mut self,
        table: &Trie,
        rib: &mut Rib<u128>,
        periods: &Periods,
        mut way: Way<u128>,
    ) {
        while way.known > 1 && rib.node(way.ids[way.known - 1]).is_empty() {
            // The way in is cut below, before the period can end.
            let depth = way.known - 1;
            match (way.tags[depth].checked_sub(1), depth) {
                (Some(block), BLOCKS) => self.blocks.retired.push(periods, block),
                (Some(node), NODES..) => self.nodes.retired.push(periods, node),
                _ => {}
            }
            rib.prune(&mut way);
        }
        // The last node that is left has lost a prefix, or what one of its slots led to.
        let depth = way.known - 1;
        let number = if depth == way.depth { way.number } else { 256 + way.slot(depth) };
        if depth >= NODES {
            self.weave(table, rib, periods, &mut way, depth);
        }
        let now = rib.node(way.ids[depth]).best(number).or(rib.above(&way, depth));
        paint(table, rib, Spot::on(&way, depth, number), entry(now));
    }

    fn collect(&mut self, table: &Trie, periods: &Periods) {
        let Heap { free, retired, .. } = &mut self.nodes;
        retired.collect(periods, |node| {
            let class = class(table.runs(node));
            self.lines -= SIZES[class];
            free[class].push(node);
        });
        let Heap { free, retired, .. } = &mut self.blocks;
        retired.collect(periods, |block| {
            self.lines -= BLOCK_LINES;
            free[0].push(block);
        });
    }

    fn lookup_bytes(&self) -> usize {
        TOP_BYTES + 64 * self.lines
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes() + self.blocks.bytes()
    }
}

impl Weaver {
    /// The block on a way; made if there is none yet, saying what the top table did.
    fn block(&mut self, table: &Trie, rib: &mut Rib<u128>, way: &mut Way<u128>) -> usize {
        if let Some(block) = way.tags[BLOCKS].checked_sub(1) {
            return block as usize * BLOCK;
        }
        let block = self.blocks.take(0, 1);
        self.lines += BLOCK_LINES;
        let start = block as usize * BLOCK;
        let way_in = &table.top[(way.addr >> 112) as usize];
        for entry in &table.blocks[start..start + BLOCK] {
            entry.store(way_in.load(Relaxed), Relaxed);
        }
        rib.set_tag(way, BLOCKS, block + 1);
        way_in.store(LINK | block, Release);
        start
    }

    /// Writes a node on a way anew and links it, with those above that did not link it before.
    fn weave(
        &mut self,
        table: &Trie,
        rib: &mut Rib<u128>,
        periods: &Periods,
        way: &mut Way<u128>,
        depth: usize,
    ) {
        for depth in (NODES..=depth).rev() {
            let old = way.tags[depth].checked_sub(1);
            let new = self.write(table, rib, way.ids[depth], rib.above(way, depth));
            rib.set_tag(way, depth, new + 1);
            let slot = way.slot(depth - 1);
            if depth == NODES {
                let block = self.block(table, rib, way);
                table.blocks[block + slot].store(LINK | new, Release);
            } else if old.is_some() {
                table.relink(way.tags[depth - 1] - 1, slot, LINK | new);
            }
            if let Some(old) = old {
                return self.nodes.retired.push(periods, old);
            }
        }
    }

    /// A new version of a node of the RIB.
    fn write(&mut self, table: &Trie, rib: &Rib<u128>, id: u32, inherited: Option<GroupId>) -> u32 {
        let node = rib.node(id);
        let mut slots = [0; 256];
        // Where an entry may differ from the one before it.
        let mut edges = [0u32; 2 * BITMAP + 1];
        let mut edge = |slot: usize| edges[slot / 32] |= 1 << (slot % 32);
        edge(0);
        for (number, group) in node.prefixes() {
            let bits = number.ilog2();
            let first = (number << (8 - bits)) - 256;
            let end = first + (256 >> bits);
            slots[first..end].fill(u32::from(group.entry()));
            edge(first);
            edge(end);
        }
        for (slot, child) in node.children() {
            slots[slot] = LINK | (child.tag - 1);
            edge(slot);
            edge(slot + 1);
        }
        let (mut runs, mut count, mut before) = ([0u32; 256], 0, None);
        let mut words = [0u64; BITMAP + 1];
        words[BITMAP] = u64::from(entry(inherited)) << 32;
        for i in 0..2 * BITMAP {
            if i % 2 == 0 {
                words[BITMAP] |= (count as u64) << (4 * i);
            }
            let mut left = edges[i];
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let entry = slots[32 * i + bit as usize];
                if before != Some(entry) {
                    words[i / 2] |= 1 << (i % 2 * 32 + bit as usize);
                    runs[count] = entry;
                    count += 1;
                    before = Some(entry);
                }
            }
        }
        let class = class(count);
        let new = self.nodes.take(class, SIZES[class]);
        self.lines += SIZES[class];
        let line = &table.words[new as usize * LINE..][..SIZES[class] * LINE];
        let pairs = runs[..count.next_multiple_of(2)].as_chunks::<2>().0.iter();
        let pairs = pairs.map(|pair| u64::from(pair[1]) << 32 | u64::from(pair[0]));
        for (cell, word) in line.iter().zip(words.into_iter().chain(pairs)) {
            cell.store(word, Relaxed);
        }
        new
    }
}

/// The class of a node with so many runs.
fn class(runs: usize) -> usize {
    let halves = ENTRIES + runs;
    SIZES.iter().position(|lines| lines * LINE * 2 >= halves).unwrap_or(SIZES.len() - 1)
}

fn entry(group: Option<GroupId>) -> u32 {
    group.map_or(0, |group| u32::from(group.entry()))
}

impl Trie {
    fn runs(&self, node: u32) -> usize {
        let words = &self.words[node as usize * LINE..][..BITMAP];
        words.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// Stores a new version's link over that of the old one.
    fn relink(&self, node: u32, slot: usize, link: u32) {
        self.set_half(self.place(node, slot).0, link);
    }

    fn set_inherited(&self, node: u32, entry: u32) {
        self.set_half((node as usize * LINE + BITMAP) * 2 + 1, entry);
    }
}

/// Writes `entry` wherever the prefix at `spot` is the longest, but for nodes' own runs.
fn paint(table: &Trie, rib: &Rib<u128>, spot: Spot, entry: u32) {
    let node = rib.node(spot.id);
    if spot.number < 256 {
        for number in [2 * spot.number, 2 * spot.number + 1] {
            if !node.has(number) {
                paint(table, rib, Spot { number, ..spot }, entry);
            }
        }
        return;
    }
    let slot = spot.number - 256;
    let addr = spot.addr.with_byte(spot.depth, slot as u8);
    let depth = spot.depth + 1;
    match (node.child(slot), spot.depth) {
        (Some(child), BLOCKS..) => inherit(table, rib, child, entry),
        (Some(Child { id, tag }), _) => {
            paint(table, rib, Spot { id, tag, addr, depth, number: 1 }, entry);
        }
        (None, NODES..) => {}
        (None, BLOCKS) => {
            table.blocks[(spot.tag - 1) as usize * BLOCK + slot].store(entry, Relaxed);
        }
        (None, _) => {
            let slots = 1 << (8 * (BLOCKS - depth));
            let start = (addr >> 112) as usize & !(slots - 1);
            for cell in &table.top[start..start + slots] {
                cell.store(entry, Relaxed);
            }
        }
    }
}

/// Tells a node, and those below that inherit through it, what holds where it says nothing.
fn inherit(table: &Trie, rib: &Rib<u128>, child: Child, entry: u32) {
    let node = rib.node(child.id);
    table.set_inherited(child.tag - 1, entry);
    for (slot, child) in node.children() {
        if node.cover(256 + slot).is_none() {
            inherit(table, rib, child, entry);
        }
    }
}
