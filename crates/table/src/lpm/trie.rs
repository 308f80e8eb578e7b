//! What IPv6 lookups touch: three direct tables for the first 32 bits, then nodes of 8 bits each
//! that hold every run of equal entries once, found by counting bits as in Lulea and poptrie
//! (Degermark et al., SIGCOMM 1997; Asai and Ohara, SIGCOMM 2015).
//!
//! ```text
//! top      2^16 entries, by bits 0 to 15
//! blocks   256 entries each, by bits 16 to 23 and 24 to 31
//! nodes    a cache line or more, by bits 32 to 39, 40 to 47 and so on, in words of 32 bits:
//!          words 0 to 7    bit i of all: slot i begins a run
//!          words 8 and 9   bits set before words 0 to 7: 8 bits each
//!          then            for each run its entry
//! entry    | 1 | number of a block or node 31 |   or   | 0 | group + 1, 0: no route |
//! ```
//!
//! Most nodes have six runs or fewer and are one cache line: lines are what a lookup waits for.
//! Runs begin and end where a prefix or a lower node does, whatever their groups. So a route that
//! goes, changes or comes back changes entries only, which are single stores; a node is written
//! anew when a run has to be split, or when half of it is no longer needed.
//!
//! Where a node's runs begin never changes. A node written anew is linked by one store (release;
//! readers load links with acquire), and the old one retired (`grace.rs`). Every entry is a single
//! store, which takes the addresses under it from their old to their new answer. A reader that is
//! still in a retired node finds there what held when it was retired, which is later than when the
//! reader found the way in.

use std::sync::atomic::{AtomicU32, Ordering::*};

use super::grace::{Periods, Retired};
use super::pages::Pages;
use super::rib::{Child, Node, Rib, Way};
use super::widest::{self, Work};
use super::{Address, GroupId, Refused, Table, Writer};

const TOP: usize = 1 << 16;
const BLOCK: usize = 256;
/// Words of a cache line, of which nodes have one or more.
const LINE: usize = 16;
const BITMAP: usize = 8;
/// Where entries begin, in words from the node's beginning.
const ENTRIES: usize = BITMAP + 2;
/// Lines of the nodes there may be: for up to 6, 22, 38, 54, 86, 118, 182 and 256 runs.
const SIZES: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 17];
const LINK: u32 = 1 << 31;
/// Depth of the first blocks and of the first nodes, in strides of 8 bits.
const BLOCKS: usize = 2;
const LAST_BLOCKS: usize = 3;
const NODES: usize = LAST_BLOCKS + 1;
/// Address space, of which what is used is memory: arrays whose length is part of their type, and
/// indices of so many bits, need no checks.
const LINES_MAX: usize = 1 << 22;
const BLOCKS_MAX: usize = 1 << 18;
/// Address space beyond twice the limit, so that removals always find room for a smaller node.
const SPARE: usize = 1 << 16;
const BLOCK_LINES: usize = BLOCK * 4 / 64;
const TOP_BYTES: usize = TOP * 4;

/// The direct tables and the nodes.
pub struct Trie {
    top: Pages<AtomicU32>,
    blocks: Pages<AtomicU32>,
    words: Pages<AtomicU32>,
}

impl Trie {
    #[inline(always)]
    fn top(&self) -> &[AtomicU32; TOP] {
        self.top.first_chunk().expect("as many were asked for")
    }

    #[inline(always)]
    fn blocks(&self) -> &[AtomicU32; BLOCKS_MAX * BLOCK] {
        self.blocks.first_chunk().expect("as many were asked for")
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU32; LINES_MAX * LINE] {
        self.words.first_chunk().expect("as many were asked for")
    }

    /// Where the entry of a node for a slot stands.
    #[inline(always)]
    fn place(&self, node: u32, slot: usize) -> usize {
        let start = node as usize % LINES_MAX * LINE;
        let line = &self.words()[start..start + LINE];
        let before = line[BITMAP + slot / 128].load(Relaxed) >> (slot / 32 % 4 * 8) & 255;
        let runs = line[slot / 32].load(Relaxed) << (31 - slot % 32);
        start + ENTRIES - 1 + (before + runs.count_ones()) as usize
    }

    /// The entry of a node for a slot.
    #[inline(always)]
    fn step(&self, node: u32, slot: usize) -> u32 {
        self.words()[self.place(node, slot) % (LINES_MAX * LINE)].load(Acquire)
    }

    #[inline(always)]
    fn direct(&self, addr: u128) -> u32 {
        let mut entry = self.top()[(addr >> 112) as usize].load(Acquire);
        for depth in BLOCKS..NODES {
            if entry & LINK == 0 {
                break;
            }
            let at = ((entry << 8) as usize % (BLOCKS_MAX * BLOCK)) | usize::from(addr.byte(depth));
            entry = self.blocks()[at].load(Acquire);
        }
        entry
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
        let (top, blocks, memory) = (self.top(), self.blocks(), self.words());
        let halves = addrs.map(|addr| (addr >> 64) as u64);
        let high = halves.map(|half| (half >> 32) as u32);
        let low = halves.map(|half| half as u32);
        let mut entries = [0u32; N];
        for i in 0..N {
            entries[i] = top[(high[i] >> 16) as usize].load(Acquire);
        }
        let mut at = [0u32; N];
        let mut found = [0u32; N];
        for depth in BLOCKS..NODES {
            if !some_link(&entries) {
                break;
            }
            for i in 0..N {
                let slot = high[i] >> (24 - 8 * depth) & 255;
                at[i] = (entries[i] << 8 | slot) & links(entries[i]);
            }
            for i in 0..N {
                found[i] = blocks[at[i] as usize % (BLOCKS_MAX * BLOCK)].load(Acquire);
            }
            for i in 0..N {
                entries[i] = choose(links(entries[i]), found[i], entries[i]);
            }
        }
        let (mut words, mut counts) = ([0u32; N], [0u32; N]);
        for depth in 0..SIDE_BY_SIDE {
            if !some_link(&entries) {
                break;
            }
            let slot = |i: usize| low[i] >> (24 - 8 * depth) & 255;
            for i in 0..N {
                at[i] = (entries[i] & links(entries[i]) & !LINK) * LINE as u32;
                words[i] = at[i] + slot(i) / 32;
                counts[i] = at[i] + BITMAP as u32 + slot(i) / 128;
            }
            for i in 0..N {
                words[i] = memory[words[i] as usize % (LINES_MAX * LINE)].load(Relaxed);
                counts[i] = memory[counts[i] as usize % (LINES_MAX * LINE)].load(Relaxed);
            }
            for i in 0..N {
                let before = counts[i] >> (slot(i) / 32 % 4 * 8) & 255;
                let runs = words[i] << (31 - slot(i) % 32);
                found[i] = at[i] + ENTRIES as u32 - 1 + before + runs.count_ones();
            }
            for i in 0..N {
                found[i] = memory[found[i] as usize % (LINES_MAX * LINE)].load(Acquire);
            }
            for i in 0..N {
                entries[i] = choose(links(entries[i]), found[i], entries[i]);
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
const SIDE_BY_SIDE: usize = 2;

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
        if lookup_bytes < least {
            return Err(Refused::TooSmall { least, asked: lookup_bytes });
        }
        let lines_max = ((lookup_bytes - TOP_BYTES) / 64).min((LINES_MAX - SPARE) / 2);
        let lines_end = 2 * lines_max + SPARE;
        let bytes = TOP_BYTES + BLOCKS_MAX * BLOCK * 4 + LINES_MAX * LINE * 4;
        let none = || Refused::OutOfMemory { bytes };
        let trie = Trie {
            top: Pages::zeroed(TOP).ok_or_else(none)?,
            blocks: Pages::zeroed(BLOCKS_MAX * BLOCK).ok_or_else(none)?,
            words: Pages::zeroed(LINES_MAX * LINE).ok_or_else(none)?,
        };
        let (nodes, blocks) = (Heap::new(), Heap::new());
        Ok((trie, Weaver { lines: 0, lines_max, lines_end, nodes, blocks }))
    }

    fn reserve(&mut self, table: &Trie, periods: &Periods, way: &Way<u128>) -> Result<(), Refused> {
        let blocks = NODES.min(way.depth + 1).saturating_sub(way.known.max(BLOCKS));
        let nodes = match way.depth {
            ..NODES => 0,
            // The node anew and one above to link it anew; the least for those between.
            depth => {
                let chain = (depth + 1).saturating_sub(way.known.max(NODES));
                2 * SIZES[SIZES.len() - 1] + SIZES[0] * chain
            }
        };
        let wanted = BLOCK_LINES * blocks + nodes;
        if wanted == 0 {
            return Ok(());
        }
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
        if !fits(self) || self.retired() >= 64 {
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
            self.weave_where_runs_split(table, rib, periods, &mut way);
        } else if depth >= BLOCKS {
            self.block(table, rib, &mut way, depth);
        }
        let now = entry(rib.node(way.ids[depth]).get(number));
        paint(table, rib, Spot::on(&way, depth, number), now);
        if self.retired() >= 64 {
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
                (Some(block), BLOCKS..NODES) => self.blocks.retired.push(periods, block),
                (Some(node), NODES..) => self.nodes.retired.push(periods, node),
                _ => {}
            }
            rib.prune(&mut way);
        }
        // The last node that is left has lost a prefix, or what one of its slots led to.
        let depth = way.known - 1;
        let number = if depth == way.depth { way.number } else { 256 + way.slot(depth) };
        let node = rib.node(way.ids[depth]);
        let now = node.best(number).or(rib.above(&way, depth));
        if depth >= NODES && 2 * size(node.most_runs()) <= size(table.runs(way.tags[depth] - 1)) {
            self.weave(table, rib, periods, &mut way, depth);
        }
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
    /// How many blocks and nodes wait for readers.
    fn retired(&self) -> usize {
        self.blocks.retired.len() + self.nodes.retired.len()
    }

    /// The first entry of the block on a way; made if there is none yet, with those above it, and
    /// saying what the entry that leads to it did.
    fn block(
        &mut self,
        table: &Trie,
        rib: &mut Rib<u128>,
        way: &mut Way<u128>,
        depth: usize,
    ) -> usize {
        if let Some(block) = way.tags[depth].checked_sub(1) {
            return block as usize * BLOCK;
        }
        let way_in = match depth {
            BLOCKS => &table.top[(way.addr >> 112) as usize],
            _ => &table.blocks[self.block(table, rib, way, depth - 1) + way.slot(depth - 1)],
        };
        let block = self.blocks.take(0, 1);
        self.lines += BLOCK_LINES;
        let start = block as usize * BLOCK;
        for entry in &table.blocks[start..start + BLOCK] {
            entry.store(way_in.load(Relaxed), Relaxed);
        }
        rib.set_tag(way, depth, block + 1);
        way_in.store(LINK | block, Release);
        start
    }

    /// Writes the node of a prefix anew if the prefix begins or ends within a run.
    fn weave_where_runs_split(
        &mut self,
        table: &Trie,
        rib: &mut Rib<u128>,
        periods: &Periods,
        way: &mut Way<u128>,
    ) {
        let (first, end) = slots(way.number);
        match way.tags[way.depth].checked_sub(1) {
            Some(node) if table.has_runs(node, first, end) => {}
            _ => self.weave(table, rib, periods, way, way.depth),
        }
    }

    /// Writes a node on a way anew and links it, with those above that have no run for its link.
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
            if let Some(old) = old {
                // Cut off below, before the period can end.
                self.nodes.retired.push(periods, old);
            }
            let slot = way.slot(depth - 1);
            if depth == NODES {
                let block = self.block(table, rib, way, NODES - 1);
                table.blocks[block + slot].store(LINK | new, Release);
            } else if let Some(above) = way.tags[depth - 1].checked_sub(1)
                && table.has_runs(above, slot, slot + 1)
            {
                return table.set(above, slot, LINK | new);
            }
        }
    }

    /// A new version of a node of the RIB.
    fn write(&mut self, table: &Trie, rib: &Rib<u128>, id: u32, inherited: Option<GroupId>) -> u32 {
        let node = rib.node(id);
        let mut entries = [entry(inherited); 256];
        let mut edges = [0u32; BITMAP + 1];
        let mut edge = |slot: usize| edges[slot / 32] |= 1 << (slot % 32);
        edge(0);
        for (number, group) in node.prefixes() {
            let (first, end) = slots(number);
            entries[first..end].fill(u32::from(group.entry()));
            edge(first);
            edge(end);
        }
        for (slot, child) in node.children() {
            entries[slot] = LINK | (child.tag - 1);
            edge(slot);
            edge(slot + 1);
        }
        let mut words = [0u32; ENTRIES + 256];
        words[..BITMAP].copy_from_slice(&edges[..BITMAP]);
        let mut count = 0;
        for i in 0..BITMAP {
            words[BITMAP + i / 4] |= (count as u32) << (i % 4 * 8);
            let mut left = edges[i];
            while left != 0 {
                words[ENTRIES + count] = entries[32 * i + left.trailing_zeros() as usize];
                count += 1;
                left &= left - 1;
            }
        }
        let class = class(count);
        let new = self.nodes.take(class, SIZES[class]);
        self.lines += SIZES[class];
        let cells = &table.words[new as usize * LINE..];
        for (cell, word) in cells.iter().zip(&words[..ENTRIES + count]) {
            cell.store(*word, Relaxed);
        }
        new
    }
}

/// The slots that a number in a node stands for: the first, and the one after the last.
fn slots(number: usize) -> (usize, usize) {
    let bits = number.ilog2();
    let first = (number << (8 - bits)) - 256;
    (first, first + (256 >> bits))
}

/// The class of a node with so many runs.
fn class(runs: usize) -> usize {
    let words = ENTRIES + runs;
    SIZES.iter().position(|lines| lines * LINE >= words).unwrap_or(SIZES.len() - 1)
}

/// Lines of a node with so many runs.
fn size(runs: usize) -> usize {
    SIZES[class(runs)]
}

fn entry(group: Option<GroupId>) -> u32 {
    group.map_or(0, |group| u32::from(group.entry()))
}

impl Trie {
    fn runs(&self, node: u32) -> usize {
        let words = &self.words[node as usize * LINE..][..BITMAP];
        words.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// True if runs of a node begin at `first` and, if there is such a slot, at `end`.
    fn has_runs(&self, node: u32, first: usize, end: usize) -> bool {
        let words = &self.words[node as usize * LINE..][..BITMAP];
        let begins = |slot: usize| words[slot / 32].load(Relaxed) >> (slot % 32) & 1 == 1;
        begins(first) && (end == 256 || begins(end))
    }

    /// Changes the entry of the run that a slot is in.
    fn set(&self, node: u32, slot: usize, entry: u32) {
        self.words[self.place(node, slot)].store(entry, Release);
    }
}

/// Writes `entry` wherever the prefix at `spot` is the longest.
fn paint(table: &Trie, rib: &Rib<u128>, spot: Spot, entry: u32) {
    let node = rib.node(spot.id);
    if spot.depth >= NODES {
        return paint_runs(table, rib, node, spot, entry);
    }
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
        (Some(Child { id, tag }), _) => {
            paint(table, rib, Spot { id, tag, addr, depth, number: 1 }, entry);
        }
        (None, BLOCKS..) => {
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

/// The same for the runs of a node, which begin where the prefix does.
fn paint_runs(table: &Trie, rib: &Rib<u128>, node: &Node, spot: Spot, entry: u32) {
    let (first, end) = slots(spot.number);
    let start = (spot.tag - 1) as usize * LINE;
    let words = &table.words[start..];
    let mut place = table.place(spot.tag - 1, first) - start;
    for i in first / 32..end.div_ceil(32) {
        let mut left = words[i].load(Relaxed) & u32::MAX << first.saturating_sub(32 * i);
        while left != 0 {
            let slot = 32 * i + left.trailing_zeros() as usize;
            if slot >= end {
                return;
            }
            // Longer prefixes have greater numbers.
            if node.cover(256 + slot).is_none_or(|cover| cover <= spot.number) {
                match node.child(slot) {
                    None => words[place].store(entry, Release),
                    Some(Child { id, tag }) => {
                        let depth = spot.depth + 1;
                        paint(table, rib, Spot { id, tag, depth, number: 1, ..spot }, entry);
                    }
                }
            }
            place += 1;
            left &= left - 1;
        }
    }
}
