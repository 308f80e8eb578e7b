//! Keeps the IPv6 table as the routes say.

use std::sync::atomic::Ordering::*;

use super::space::{MOST, Space};
use super::{LOWER, NODES, TOP, Trie, UNIT, UNITS_MAX, Window, place};
use crate::lpm::grace::Periods;
use crate::lpm::pages::Pages;
use crate::lpm::rib::{Child, Node, Rib, Way};
use crate::lpm::{Address, GroupId, Refused, Writer};

/// The top and the groups.
const FIXED_BYTES: usize = (TOP + LOWER) * 4;
const UNIT_BYTES: usize = UNIT * 4;
/// Address space beyond twice the limit, so that removals always find room for a smaller node.
const SPARE: usize = 1 << 18;
/// What an insert takes at most, in greatest nodes: the prefix's own anew, one above that has no
/// cell for it, and a unit for each depth between.
const INSERT: usize = 3;
/// So many retired nodes are worth asking where the readers are.
const RETIRED: usize = 64;

/// Writes the top and the nodes.
///
/// In the RIB, a node's tag is one more than the number of its node here; 0 is none yet.
pub struct Weaver {
    /// Units of nodes in use or retired, and how many may be.
    units: usize,
    units_max: usize,
    space: Space,
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
        let least = FIXED_BYTES + 64 * 1024;
        if lookup_bytes < least {
            return Err(Refused::TooSmall { least, asked: lookup_bytes });
        }
        let units_max = ((lookup_bytes - FIXED_BYTES) / UNIT_BYTES).min((UNITS_MAX - SPARE) / 2);
        let none = || Refused::OutOfMemory { bytes: FIXED_BYTES + UNITS_MAX * UNIT_BYTES };
        let trie = Trie {
            top: Pages::zeroed(TOP).ok_or_else(none)?,
            words: Pages::zeroed(UNITS_MAX * UNIT).ok_or_else(none)?,
        };
        for group in (0..LOWER).step_by(2) {
            trie.words[group + 1].store(group as u32, Relaxed);
        }
        let space = Space::new(LOWER / UNIT, 2 * units_max + SPARE);
        Ok((trie, Weaver { units: 0, units_max, space }))
    }

    fn reserve(&mut self, table: &Trie, periods: &Periods, way: &Way<u128>) -> Result<(), Refused> {
        if way.depth < NODES {
            return Ok(());
        }
        let fits = |w: &Weaver| w.units + INSERT * MOST <= w.units_max && w.space.has_room(INSERT);
        if !fits(self) {
            self.collect(table, periods);
            self.space.join();
        }
        let limit = FIXED_BYTES + UNIT_BYTES * self.units_max;
        fits(self).then_some(()).ok_or(Refused::LookupFull { limit })
    }

    fn reserve_change(&mut self, table: &Trie, periods: &Periods) -> Result<(), Refused> {
        if self.space.retired.len() >= RETIRED {
            self.collect(table, periods);
        }
        if !self.space.has_room(1) {
            self.collect(table, periods);
            self.space.join();
        }
        self.space.has_room(1).then_some(()).ok_or(Refused::ReaderBusy)
    }

    fn inserted(
        &mut self,
        table: &Trie,
        rib: &mut Rib<u128>,
        periods: &Periods,
        mut way: Way<u128>,
    ) {
        let Way { depth, number, .. } = way;
        let (first, end) = slots(number);
        match way.tags[depth].checked_sub(1) {
            Some(node) if table.window(node).has(first, end) => {}
            None if depth < NODES => {}
            _ => self.weave(table, rib, periods, &mut way, depth),
        }
        let now = entry(rib.node(way.ids[depth]).get(number));
        paint(table, rib, Spot::on(&way, depth, number), now);
        if self.space.retired.len() >= RETIRED {
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
            if let Some(node) = way.tags[way.known - 1].checked_sub(1) {
                // The way in is cut below, before the period can end.
                self.space.retired.push(periods, node);
            }
            rib.prune(&mut way);
        }
        // The last node that is left has lost a prefix, or what one of its slots led to.
        let depth = way.known - 1;
        let number = if depth == way.depth { way.number } else { 256 + way.slot(depth) };
        let node = rib.node(way.ids[depth]);
        if depth >= NODES {
            let window = table.window(way.tags[depth] - 1);
            if 4 * needed(node).units() <= window.units() {
                self.weave(table, rib, periods, &mut way, depth);
            }
        }
        let now = rib.node(way.ids[depth]).best(number).or(rib.above(&way, depth));
        paint(table, rib, Spot::on(&way, depth, number), entry(now));
    }

    fn collect(&mut self, table: &Trie, periods: &Periods) {
        let mut ended = Vec::new();
        self.space.retired.collect(periods, |node| ended.push(node));
        for node in ended {
            let units = table.window(node).units();
            self.units -= units;
            self.space.give(node, units);
        }
    }

    fn lookup_bytes(&self) -> usize {
        FIXED_BYTES + UNIT_BYTES * self.units
    }

    fn bytes(&self) -> usize {
        self.space.bytes()
    }
}

impl Weaver {
    /// Writes a node on a way anew and links it, with those above that have no cell for its link.
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
            let new = self.write(table, rib, way, depth);
            rib.set_tag(way, depth, new + 1);
            if let Some(old) = old {
                // Cut off below, before the period can end.
                self.space.retired.push(periods, old);
            }
            if depth == NODES {
                return table.top[(way.addr >> 112) as usize].store(link(new), Release);
            }
            let slot = way.slot(depth - 1);
            if let Some(above) = way.tags[depth - 1].checked_sub(1)
                && table.window(above).has(slot, slot + 1)
            {
                let at = place(link(above), table.window(above).word(), slot as u32);
                return table.words[at as usize].store(link(new), Release);
            }
        }
    }

    /// A new version of the node at some depth of a way.
    fn write(&mut self, table: &Trie, rib: &Rib<u128>, way: &Way<u128>, depth: usize) -> u32 {
        let node = rib.node(way.ids[depth]);
        let window = needed(node);
        let beside = entry(rib.above(way, depth));
        let mut entries = [beside; 257];
        for (number, group) in node.prefixes() {
            let (first, end) = slots(number);
            entries[window.cell(first)..window.cell(end)].fill(entry(Some(group)));
        }
        for (slot, child) in node.children() {
            entries[window.cell(slot)] = link(child.tag - 1);
        }
        let units = window.units();
        let new = self.space.take(units);
        self.units += units;
        let start = new as usize * UNIT;
        table.words[start].store(window.word(), Relaxed);
        for (cell, entry) in table.words[start + 1..].iter().zip(&entries[..=window.cells]) {
            cell.store(*entry, Relaxed);
        }
        new
    }
}

/// The window that the prefixes and children of a node need.
fn needed(node: &Node) -> Window {
    let (first, end, shift) = node.span();
    Window { first, shift, cells: (end - first) >> shift }
}

/// The slots that a number in a node stands for: the first, and the one after the last.
fn slots(number: usize) -> (usize, usize) {
    let bits = number.ilog2();
    let first = (number << (8 - bits)) - 256;
    (first, first + (256 >> bits))
}

fn entry(group: Option<GroupId>) -> u32 {
    group.map_or(0, |group| 2 * u32::from(group.entry()))
}

fn link(node: u32) -> u32 {
    node * UNIT as u32
}

impl Trie {
    fn window(&self, node: u32) -> Window {
        Window::of_word(self.words[node as usize * UNIT].load(Relaxed))
    }
}

/// Writes `entry` wherever the prefix at `spot` is the longest.
fn paint(table: &Trie, rib: &Rib<u128>, spot: Spot, entry: u32) {
    let node = rib.node(spot.id);
    if spot.depth < NODES {
        return paint_top(table, rib, node, spot, entry);
    }
    let window = table.window(spot.tag - 1);
    if spot.number == 1 {
        let beside = (spot.tag - 1) as usize * UNIT + 1 + window.cells;
        table.words[beside].store(entry, Release);
    }
    paint_cells(table, rib, (node, window), spot, entry);
}

/// The same for the cells of a node.
fn paint_cells(
    table: &Trie,
    rib: &Rib<u128>,
    (node, window): (&Node, Window),
    spot: Spot,
    entry: u32,
) {
    let (first, end) = slots(spot.number);
    if end <= window.first || window.end() <= first {
        return;
    }
    if spot.number < 256 >> window.shift {
        for number in [2 * spot.number, 2 * spot.number + 1] {
            if !node.has(number) {
                paint_cells(table, rib, (node, window), Spot { number, ..spot }, entry);
            }
        }
        return;
    }
    match node.child(first) {
        Some(Child { id, tag }) if spot.number >= 256 => {
            let depth = spot.depth + 1;
            paint(table, rib, Spot { id, tag, depth, number: 1, ..spot }, entry);
        }
        _ => {
            let cell = (spot.tag - 1) as usize * UNIT + 1 + window.cell(first);
            table.words[cell].store(entry, Release);
        }
    }
}

/// The same for the top.
fn paint_top(table: &Trie, rib: &Rib<u128>, node: &Node, spot: Spot, entry: u32) {
    if spot.number < 256 {
        for number in [2 * spot.number, 2 * spot.number + 1] {
            if !node.has(number) {
                paint_top(table, rib, node, Spot { number, ..spot }, entry);
            }
        }
        return;
    }
    let slot = spot.number - 256;
    let addr = spot.addr.with_byte(spot.depth, slot as u8);
    let depth = spot.depth + 1;
    if let Some(Child { id, tag }) = node.child(slot) {
        return paint(table, rib, Spot { id, tag, addr, depth, number: 1 }, entry);
    }
    let slots = 1 << (8 * (NODES - depth));
    let start = (addr >> 112) as usize & !(slots - 1);
    for cell in &table.top[start..start + slots] {
        cell.store(entry, Relaxed);
    }
}
