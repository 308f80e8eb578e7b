//! Keeps the IPv6 lookup structure consistent with the routes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::*};

use super::grove::{GATE, Grove, Mark, Piece, Place, link};
use super::{GROUPS, NODE, NODES, TOP, Trees};
use crate::lpm::grace::Periods;
use crate::lpm::pages::Pages;
use crate::lpm::rib::{Rib, Way};
use crate::lpm::space::Space;
use crate::lpm::{GroupId, Refused, Writer};

/// The top and the node for no group.
const FIXED_BYTES: usize = TOP * 4 + NODE;
/// Address space beyond twice the limit, in nodes, so that changes always have room.
const SPARE: usize = 1 << 15;
/// Most nodes of a route, in trees of eight levels: two per level and a root for each of two edges,
/// and a gate and a leaf for each missing tree; most routes take one.
const INSERT: usize = FLOORS * (2 * (2 * 8 + 1) + 2);
/// Number of retired nodes from which on the readers are checked.
const RETIRED: usize = 64;
/// Trees on the longest way: by bits 16 to 47, 48 to 79, 80 to 111 and 112 to 127.
const FLOORS: usize = 4;

/// Writes the top, the groups' nodes and the trees.
///
/// In the RIB, the tag of the node with the first bits of a tree is the tree's number plus one.
pub struct Keeper {
    grove: Grove,
    nodes_max: usize,
    /// For each entry of the top, the length that a tree's piece would have; gates are trees.
    lens: Vec<u8>,
    /// The trees below the top.
    tops: BTreeMap<u16, u32>,
    /// Number of routes of each group, by its entry, and how many groups have any.
    users: Vec<u32>,
    groups: usize,
}

impl Writer<u128> for Keeper {
    type Table = Trees;

    fn new(lookup_bytes: usize) -> Result<(Trees, Keeper), Refused> {
        let least = FIXED_BYTES + 64 * 1024;
        if lookup_bytes < least {
            return Err(Refused::TooSmall { least, asked: lookup_bytes });
        }
        let nodes_max = ((lookup_bytes - FIXED_BYTES) / NODE).min((NODES - GROUPS - SPARE) / 2);
        let none = || Refused::OutOfMemory { bytes: 4 * TOP + NODES * NODE };
        let top = Pages::zeroed(TOP).ok_or_else(none)?;
        let nodes = Pages::zeroed(NODES).ok_or_else(none)?;
        let table = Trees { top, nodes, levels: AtomicU32::new(0) };
        write_group(&table, 0);
        let grove = Grove::new(Space::new(GROUPS, GROUPS + 2 * nodes_max + SPARE, nodes_max));
        let (lens, users) = (vec![0; TOP], Vec::new());
        Ok((table, Keeper { grove, nodes_max, lens, tops: BTreeMap::new(), users, groups: 0 }))
    }

    fn reserve(
        &mut self,
        table: &Trees,
        periods: &Periods,
        _way: &Way<u128>,
    ) -> Result<(), Refused> {
        // The route's group may be a new one.
        let fits = |k: &Keeper| k.grove.space.fits(k.groups + 1 + INSERT);
        if !fits(self) {
            self.collect(table, periods);
        }
        let limit = FIXED_BYTES + NODE * self.nodes_max;
        fits(self).then_some(()).ok_or(Refused::LookupFull { limit })
    }

    fn reserve_change(&mut self, table: &Trees, periods: &Periods) -> Result<(), Refused> {
        if self.grove.space.waiting() >= RETIRED || !self.grove.space.has_room(INSERT) {
            self.collect(table, periods);
        }
        self.grove.space.has_room(INSERT).then_some(()).ok_or(Refused::ReaderBusy)
    }

    fn inserted(
        &mut self,
        table: &Trees,
        rib: &mut Rib<u128>,
        periods: &Periods,
        mut way: Way<u128>,
        old: Option<GroupId>,
    ) {
        let group = rib.get(&way);
        self.use_group(table, group, old);
        let len = way.len() + 1;
        let mark = Mark { over: len, entry: entry(group), len };
        match floor(&way) {
            None => self.paint_top(table, &way, mark),
            Some(last) => {
                for floor in 0..=last {
                    if way.tags[root_depth(floor)] == 0 {
                        self.plant(table, rib, periods, &mut way, floor);
                    }
                }
                let tree = way.tags[root_depth(last)] - 1;
                self.grove.tree(tree).routes += usize::from(old.is_none());
                self.paint(table, periods, &way, (tree, last), mark);
                for floor in 0..=last {
                    self.grove.tidy(table, periods, way.tags[root_depth(floor)] - 1);
                }
            }
        }
        if self.grove.space.waiting() >= RETIRED {
            self.collect(table, periods);
        }
    }

    fn removed(
        &mut self,
        table: &Trees,
        rib: &mut Rib<u128>,
        periods: &Periods,
        mut way: Way<u128>,
        old: GroupId,
    ) {
        let cover = rib.cover(&way);
        let (over, len) = (way.len() + 1, cover.map_or(0, |(len, _)| len + 1));
        let mark = Mark { over, entry: entry(cover.map(|(_, group)| group)), len };
        let Some(last) = floor(&way) else {
            while way.known > 1 && rib.node(way.ids[way.known - 1]).is_empty() {
                rib.prune(&mut way);
            }
            self.paint_top(table, &way, mark);
            return self.use_group(table, None, Some(old));
        };
        // Trees that have no route any more; the first is linked from elsewhere.
        let mut fallen = None;
        while way.known > 1 && rib.node(way.ids[way.known - 1]).is_empty() {
            let depth = way.known - 1;
            if let Some(tree) = way.tags[depth].checked_sub(1) {
                // Unlinked below, before the period can end.
                self.grove.fell(table, periods, tree);
                fallen = Some((depth - 2) / 4);
            }
            rib.prune(&mut way);
        }
        let kept = match fallen {
            Some(0) => {
                let slot = (way.addr >> 112) as u16;
                self.tops.remove(&slot);
                self.lens[usize::from(slot)] = mark.len;
                table.top[usize::from(slot)].store(mark.entry, Release);
                None
            }
            Some(floor) => {
                let above = way.tags[root_depth(floor - 1)] - 1;
                let answer = (mark.entry, mark.len);
                self.grove.set(table, above, bits(way.addr, floor - 1), answer);
                Some(above)
            }
            None => {
                let tree = way.tags[root_depth(last)] - 1;
                self.paint(table, periods, &way, (tree, last), mark);
                Some(tree)
            }
        };
        if let Some(tree) = kept {
            self.grove.tree(tree).routes -= 1;
            self.grove.tidy(table, periods, tree);
        }
        self.use_group(table, None, Some(old));
    }

    fn collect(&mut self, _table: &Trees, periods: &Periods) {
        self.grove.space.collect(periods);
    }

    fn lookup_bytes(&self) -> usize {
        FIXED_BYTES + NODE * (self.grove.space.used() + self.groups)
    }

    fn bytes(&self) -> usize {
        self.grove.bytes() + self.lens.capacity() + self.users.capacity() * 4
    }
}

impl Keeper {
    /// Counts a route that gains or loses a group; writes the node of a new group.
    fn use_group(&mut self, table: &Trees, now: Option<GroupId>, before: Option<GroupId>) {
        if let Some(group) = now {
            let at = usize::from(group.entry());
            if self.users.len() <= at {
                self.users.resize(at + 1, 0);
            }
            self.groups += usize::from(self.users[at] == 0);
            self.users[at] += 1;
            write_group(table, group.entry());
        }
        if let Some(group) = before {
            let users = &mut self.users[usize::from(group.entry())];
            *users -= 1;
            self.groups -= usize::from(*users == 0);
        }
    }

    /// Creates the missing tree on a way whose upper trees exist.
    fn plant(
        &mut self,
        table: &Trees,
        rib: &mut Rib<u128>,
        periods: &Periods,
        way: &mut Way<u128>,
        floor: usize,
    ) {
        let tree = self.grove.plant();
        rib.set_tag(way, root_depth(floor), tree + 1);
        if floor == 0 {
            let slot = (way.addr >> 112) as u16;
            let (at, entry) = (usize::from(slot), table.top[usize::from(slot)].load(Relaxed));
            let answer = Piece { start: 0, entry, len: self.lens[at] };
            self.grove.root(table, tree, Place::Top(slot), answer);
            self.lens[at] = GATE;
            self.tops.insert(slot, tree);
            return;
        }
        let (above, bits) = (way.tags[root_depth(floor - 1)] - 1, bits(way.addr, floor - 1));
        self.grove.cut(table, periods, above, (bits, u64::from(bits) + 1));
        let answer = Piece { start: 0, ..self.grove.answer(table, above, bits) };
        let gate = self.grove.gate(table, tree);
        self.grove.root(table, tree, Place::Gate(gate), answer);
        self.grove.set(table, above, bits, (link(gate), GATE));
        self.grove.tree(above).routes += 1;
    }

    /// Stores a mark wherever the prefix of a way decides, in its tree.
    fn paint(
        &mut self,
        table: &Trees,
        periods: &Periods,
        way: &Way<u128>,
        (tree, floor): (u32, usize),
        mark: Mark,
    ) {
        let first = bits(way.addr, floor);
        let beyond = u32::from(way.len()) - 16 - 32 * floor as u32;
        let last = first + u32::MAX.checked_shr(beyond).unwrap_or(0);
        let node = self.grove.cut(table, periods, tree, (first, u64::from(last) + 1));
        self.grove.paint(table, node, (first, last), mark);
    }

    /// The same for a prefix of at most 16 bits.
    fn paint_top(&mut self, table: &Trees, way: &Way<u128>, mark: Mark) {
        let first = (way.addr >> 112) as u16;
        let last = first | u16::MAX.checked_shr(way.len().into()).unwrap_or(0);
        for at in usize::from(first)..=usize::from(last) {
            if self.lens[at] <= mark.over {
                self.lens[at] = mark.len;
                table.top[at].store(mark.entry, Release);
            }
        }
        for &tree in self.tops.range(first..=last).map(|(_, tree)| tree) {
            self.grove.paint_all(table, tree, mark);
        }
    }
}

/// The tree that a way's prefix begins and ends in, by how many there are above; none in the top.
fn floor(way: &Way<u128>) -> Option<usize> {
    way.depth.checked_sub(2).map(|depth| depth / 4)
}

/// The depth of the RIB's node with the first bits of a tree.
fn root_depth(floor: usize) -> usize {
    2 + 4 * floor
}

/// The bits of an address that a tree goes by.
fn bits(addr: u128, floor: usize) -> u32 {
    ((addr << (16 + 32 * floor)) >> 96) as u32
}

fn entry(group: Option<GroupId>) -> u32 {
    link(group.map_or(0, |group| group.entry().into()))
}

/// Writes the node of a group that has none yet; one that was written is never written again.
fn write_group(table: &Trees, group: u16) {
    let [keys, entries] = &table.nodes[usize::from(group)];
    if keys[0].load(Relaxed) != u32::MAX {
        keys.iter().for_each(|key| key.store(u32::MAX, Relaxed));
        entries[0].store(link(group.into()), Relaxed);
    }
}
