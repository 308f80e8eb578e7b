//! The IPv4 lookup structure: DIR-24-8 (Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory
//! Access Speeds, INFOCOM 1998) with entries of 16 bits.
//!
//! ```text
//! entry of a /24 (2^24 of them)   | 0 | group + 1, 0: no route |   or   | 1 | number of a tail |
//! entry of a tail (256 of them)   | 0 | group + 1, 0: no route |
//! ```
//!
//! Prefixes are painted into the entries for which they are the longest. An entry changes from its
//! old to its new answer in one store. A tail is filled before the entry that leads to it is stored
//! (release; readers load it with acquire); when its last long prefix is removed, the entry is
//! overwritten and the tail retired (`grace.rs`).
//!
//! A huge page of /24s is a sixteenth of all addresses. A page without routes uses no memory: it
//! was never written, or was given back. So 224.0.0.0/3, which has no unicast addresses, takes 4
//! MiB only while a default route covers it.

use std::sync::atomic::{AtomicU16, Ordering::*};

use super::grace::Periods;
use super::pages::{HUGE, Pages};
use super::rib::{Child, Rib, Way};
use super::space::Space;
use super::{GroupId, Refused, Table, Writer};
use crate::prefetch;

const SLOTS: usize = 1 << 24;
const TAIL: usize = 256;
/// As many as fit into an entry's bits.
const TAILS_MAX: usize = 1 << 15;
const ENTRIES: usize = SLOTS + TAILS_MAX * TAIL;
const TO_TAIL: u16 = 1 << 15;
/// Huge pages of /24s, and the prefix length of each.
const PAGES: usize = 2 * SLOTS / HUGE;
const PAGE_LEN: u8 = PAGES.ilog2() as u8;

/// The entries: all /24s, then the tails.
pub struct Dir24 {
    entries: Pages<AtomicU16>,
}

impl Dir24 {
    #[inline(always)]
    fn entries(&self) -> &[AtomicU16; ENTRIES] {
        self.entries.first_chunk().expect("as many were asked for")
    }
}

/// The answer for an address; the array's length is part of its type, so no bounds check is needed.
#[inline(always)]
fn find(entries: &[AtomicU16; ENTRIES], addr: u32) -> Option<GroupId> {
    let mut entry = entries[(addr >> 8) as usize].load(Acquire);
    if entry & TO_TAIL != 0 {
        let tail = usize::from(entry & !TO_TAIL) * TAIL;
        entry = entries[SLOTS | tail | (addr & 255) as usize].load(Relaxed);
    }
    GroupId::from_entry(entry)
}

impl Table<u32> for Dir24 {
    type Writer = Painter;

    #[inline(always)]
    fn lookup(&self, addr: u32) -> Option<GroupId> {
        find(self.entries(), addr)
    }

    fn lookup_batch(&self, addrs: &[u32], answers: &mut [Option<GroupId>]) {
        let entries = self.entries();
        // Loads entries that are in no cache side by side. In the loop below the branches depend on
        // them, so that the processor overlaps fewer loads.
        for &addr in addrs {
            prefetch(&entries[(addr >> 8) as usize]);
        }
        for (answer, &addr) in answers.iter_mut().zip(addrs) {
            *answer = find(entries, addr);
        }
    }
}

/// Writes the entries.
pub struct Painter {
    tails: Space,
    tails_max: usize,
    /// Bit masks of the pages of /24s in memory, and of those among them that have no route any
    /// more.
    pages: u16,
    idle: u16,
}

impl Writer<u32> for Painter {
    type Table = Dir24;

    fn new(lookup_bytes: usize) -> Result<(Dir24, Painter), Refused> {
        let room = lookup_bytes
            .checked_sub(2 * SLOTS)
            .ok_or(Refused::TooSmall { least: 2 * SLOTS, asked: lookup_bytes })?;
        let tails_max = (room / (2 * TAIL)).min(TAILS_MAX);
        let entries = Pages::zeroed(ENTRIES).ok_or(Refused::OutOfMemory { bytes: 2 * ENTRIES })?;
        let tails = Space::new(0, tails_max, tails_max);
        Ok((Dir24 { entries }, Painter { tails, tails_max, pages: 0, idle: 0 }))
    }

    fn reserve(&mut self, table: &Dir24, periods: &Periods, way: &Way<u32>) -> Result<(), Refused> {
        if way.depth < 3 || way.known > 3 || self.tails.fits(1) {
            return Ok(());
        }
        self.collect(table, periods);
        let limit = 2 * (SLOTS + TAIL * self.tails_max);
        self.tails.fits(1).then_some(()).ok_or(Refused::LookupFull { limit })
    }

    fn reserve_change(&mut self, _table: &Dir24, _periods: &Periods) -> Result<(), Refused> {
        Ok(()) // It takes no memory.
    }

    fn inserted(
        &mut self,
        table: &Dir24,
        rib: &mut Rib<u32>,
        _periods: &Periods,
        mut way: Way<u32>,
        _old: Option<GroupId>,
    ) {
        let group = rib.node(way.ids[way.depth]).get(way.number);
        let pages = pages(&way).fold(0, |pages, page| pages | 1 << page);
        self.pages |= pages;
        self.idle &= !pages;
        if way.depth == 3 && way.tags[3] == 0 {
            self.lead_to_tail(table, rib, &mut way);
        }
        paint(table, rib, Spot::of(&way), entry(group));
    }

    fn removed(
        &mut self,
        table: &Dir24,
        rib: &mut Rib<u32>,
        periods: &Periods,
        mut way: Way<u32>,
        _old: GroupId,
    ) {
        let node = rib.node(way.ids[way.depth]);
        let above = rib.above(&way, way.depth);
        if way.depth == 3 && node.is_empty() {
            table.entries[(way.addr >> 8) as usize].store(entry(above), Release);
            self.tails.retire(periods, way.tags[3] - 1);
        } else {
            paint(table, rib, Spot::of(&way), entry(node.best(way.number).or(above)));
        }
        while way.known > 1 && rib.node(way.ids[way.known - 1]).is_empty() {
            rib.prune(&mut way);
        }
        let idle = pages(&way).filter(|&page| !rib.has_any(page as usize, PAGE_LEN));
        self.idle |= idle.fold(0, |idle, page| idle | 1 << page);
        if self.tails.waiting() >= 64 {
            self.collect(table, periods);
        }
    }

    fn collect(&mut self, table: &Dir24, periods: &Periods) {
        self.tails.collect(periods);
        // Readers see no difference: a page without routes contains only zeros.
        let idle = (0..PAGES).filter(|page| self.idle >> page & 1 == 1);
        let kept = idle.filter(|&page| !table.entries.forget(page));
        let kept = kept.fold(0, |kept, page| kept | 1 << page);
        self.pages &= !self.idle | kept;
        self.idle = kept;
    }

    fn lookup_bytes(&self) -> usize {
        let pages = self.pages.count_ones() as usize;
        HUGE * pages + 2 * TAIL * self.tails.used()
    }

    fn bytes(&self) -> usize {
        self.tails.bytes()
    }
}

impl Painter {
    /// Gives the /24 of an address a tail, with all entries equal to the /24's.
    fn lead_to_tail(&mut self, table: &Dir24, rib: &mut Rib<u32>, way: &mut Way<u32>) {
        let tail = self.tails.take();
        let slot = &table.entries[(way.addr >> 8) as usize];
        let start = SLOTS + tail as usize * TAIL;
        for entry in &table.entries[start..start + TAIL] {
            entry.store(slot.load(Relaxed), Relaxed);
        }
        slot.store(TO_TAIL | tail as u16, Release);
        rib.set_tag(way, 3, tail + 1);
    }
}

/// The pages that hold the /24s of a prefix.
fn pages(way: &Way<u32>) -> std::ops::Range<u32> {
    let first = way.addr >> (32 - PAGE_LEN);
    first..first + (1 << PAGE_LEN.saturating_sub(way.len()))
}

fn entry(group: Option<GroupId>) -> u16 {
    group.map_or(0, GroupId::entry)
}

/// A number in a node of the RIB.
#[derive(Clone, Copy)]
struct Spot {
    id: u32,
    tag: u32,
    base: u32,
    depth: usize,
    number: usize,
}

impl Spot {
    fn of(way: &Way<u32>) -> Spot {
        let Way { addr, depth, number, ids, tags, .. } = *way;
        let base = addr & !(u32::MAX >> (8 * depth));
        Spot { id: ids[depth], tag: tags[depth], base, depth, number }
    }
}

/// Writes `entry` wherever the prefix at `spot` is the longest.
fn paint(table: &Dir24, rib: &Rib<u32>, spot: Spot, entry: u16) {
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
    if let Some(Child { id, tag }) = node.child(slot) {
        let base = spot.base | (slot as u32) << (24 - 8 * spot.depth);
        let child = Spot { id, tag, base, depth: spot.depth + 1, number: 1 };
        return paint(table, rib, child, entry);
    }
    if spot.depth == 3 {
        let start = SLOTS + (spot.tag - 1) as usize * TAIL;
        return table.entries[start + slot].store(entry, Relaxed);
    }
    let start = (spot.base >> 8) as usize + (slot << (16 - 8 * spot.depth));
    for cell in &table.entries[start..start + (1 << (16 - 8 * spot.depth))] {
        cell.store(entry, Relaxed);
    }
}
