//! How the writer gives trees their shape: which nodes there are, and where answers begin.

use arrayvec::ArrayVec;
use std::sync::atomic::Ordering::*;

use super::nodes::Space;
use super::{BELOW, FAN, GROUPS, NODE, Trees};
use crate::lpm::grace::Periods;
use crate::lpm::lanes::Halves;

/// The length of an answer that is a gate, beyond those of prefixes.
pub(super) const GATE: u8 = u8::MAX;
/// Which entry of a gate is the number of the tree below it, for the writer.
pub(super) const OWNER: usize = BELOW + 1;
/// Pieces of a node that is written with others, so that some can come in before it splits.
const LOOSE: usize = 14;
/// Children of a root, likewise.
const LOOSE_ROOT: usize = 12;
/// So many levels no tree has: nodes have more children than two, on average.
const LEVELS: usize = 20;

/// A child or an answer: what holds from some address on, until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: u32,
    pub(super) entry: u32,
    /// Of an answer: one more than the length of the prefix that decides, 0 if none does, or
    /// [`GATE`].
    pub(super) len: u8,
}

/// Those of a node, and two more.
type Pieces = ArrayVec<Piece, { FAN + 2 }>;

/// Where the link to a root stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the top, at these first 16 bits.
    Top(u16),
    /// In this gate.
    Gate(u32),
}

/// A tree; all its leaves are at the same level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    root: u32,
    levels: usize,
    nodes: usize,
    /// Prefixes that begin and end in it, and gates.
    pub(super) routes: usize,
    /// Has a level more than when it was last tidied.
    has_grown: bool,
    place: Place,
}

/// A node on the way to an address, where what it has begins, and which entry leads on.
struct Spot {
    node: u32,
    start: u32,
    slot: usize,
}

/// An answer for a range of addresses, wherever the prefix that decides is not longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// One more than the length of prefixes that it stands above; so do shorter ones.
    pub(super) over: u8,
    pub(super) entry: u32,
    pub(super) len: u8,
}

/// All trees.
pub(super) struct Grove {
    pub(super) space: Space,
    /// Lengths by node, from the first that is no group on.
    lens: Vec<[u8; FAN]>,
    trees: Vec<Tree>,
    free: Vec<u32>,
    /// How many trees below the top have so many levels.
    heights: [usize; LEVELS],
}

/// The entry that leads to a node.
pub(super) fn link(node: u32) -> u32 {
    node * NODE as u32
}

/// The node that an entry leads to.
pub(super) fn node(entry: u32) -> u32 {
    entry / NODE as u32
}

impl Grove {
    pub(super) fn new(space: Space) -> Grove {
        let (lens, trees, free) = (Vec::new(), Vec::new(), Vec::new());
        Grove { space, lens, trees, free, heights: [0; LEVELS] }
    }

    pub(super) fn bytes(&self) -> usize {
        let trees = self.trees.capacity() * size_of::<Tree>() + self.free.capacity() * 4;
        self.space.bytes() + self.lens.capacity() * FAN + trees
    }

    pub(super) fn tree(&mut self, tree: u32) -> &mut Tree {
        &mut self.trees[tree as usize]
    }

    /// A node of those pieces, without keys behind them.
    fn write(&mut self, table: &Trees, pieces: &[Piece]) -> u32 {
        let new = self.space.take();
        let [keys, entries] = &table.nodes[new as usize];
        let at = new as usize - GROUPS;
        if self.lens.len() <= at {
            self.lens.resize(at + 1, [0; FAN]);
        }
        for i in 0..FAN {
            keys[i].store(pieces.get(i + 1).map_or(u32::MAX, |next| next.start - 1), Relaxed);
            entries[i].store(pieces.get(i).map_or(0, |piece| piece.entry), Relaxed);
            self.lens[at][i] = pieces.get(i).map_or(0, |piece| piece.len);
        }
        new
    }

    /// A node without keys that leads to itself, for the tree below it.
    pub(super) fn gate(&mut self, table: &Trees, tree: u32) -> u32 {
        let gate = self.space.take();
        let [keys, entries] = &table.nodes[gate as usize];
        keys.iter().for_each(|key| key.store(u32::MAX, Relaxed));
        entries[0].store(link(gate), Relaxed);
        entries[OWNER].store(tree, Relaxed);
        gate
    }

    /// The pieces of a node that begins at `start`.
    fn read(&self, table: &Trees, node: u32, mut start: u32) -> Pieces {
        let [keys, entries] = &table.nodes[node as usize];
        let lens = &self.lens[node as usize - GROUPS];
        let mut pieces = Pieces::new();
        for i in 0..FAN {
            pieces.push(Piece { start, entry: entries[i].load(Relaxed), len: lens[i] });
            match keys[i].load(Relaxed) {
                u32::MAX => break,
                before => start = before + 1,
            }
        }
        pieces
    }

    /// The number of a new tree, which has to be given its root.
    pub(super) fn plant(&mut self) -> u32 {
        let place = Place::Top(0);
        let tree = Tree { root: 0, levels: 0, nodes: 0, routes: 0, has_grown: false, place };
        match self.free.pop() {
            Some(free) => {
                self.trees[free as usize] = tree;
                free
            }
            None => {
                self.trees.push(tree);
                self.trees.len() as u32 - 1
            }
        }
    }

    /// Gives a new tree its first answer and its place, and links it there.
    pub(super) fn root(&mut self, table: &Trees, tree: u32, place: Place, answer: Piece) {
        let root = self.write(table, &[answer]);
        (self.tree(tree).place, self.tree(tree).nodes) = (place, 1);
        self.link_root(table, tree, root, 1);
    }

    fn link_root(&mut self, table: &Trees, tree: u32, root: u32, levels: usize) {
        let tree = &mut self.trees[tree as usize];
        let before = std::mem::replace(&mut tree.levels, levels);
        tree.root = root;
        match tree.place {
            Place::Top(slot) => {
                table.top[usize::from(slot)].store(link(root), Release);
                self.count(table, before, levels);
            }
            Place::Gate(gate) => {
                table.nodes[gate as usize][1][BELOW].store(link(root), Release);
            }
        }
    }

    /// Counts a tree below the top that had so many levels, and has so many.
    fn count(&mut self, table: &Trees, before: usize, now: usize) {
        if before != now {
            self.heights[now] += 1;
            self.heights[before] = self.heights[before].saturating_sub(1);
            let most = self.heights.iter().rposition(|&trees| trees > 0).unwrap_or(0);
            table.levels.store(most as u32, Relaxed);
        }
    }

    /// Retires a tree that is, or is about to be, linked no more.
    pub(super) fn fell(&mut self, table: &Trees, periods: &Periods, tree: u32) {
        let Tree { root, levels, place, .. } = self.trees[tree as usize];
        let mut nodes = Vec::new();
        self.walk(table, (root, 0), levels, &mut nodes, &mut |_| ());
        nodes.into_iter().for_each(|node| self.space.retire(periods, node));
        match place {
            Place::Top(_) => self.count(table, levels, 0),
            Place::Gate(gate) => self.space.retire(periods, gate),
        }
        self.free.push(tree);
    }

    /// All nodes below one, itself included, and all answers in order.
    fn walk(
        &self,
        table: &Trees,
        (node, start): (u32, u32),
        levels: usize,
        nodes: &mut Vec<u32>,
        answer: &mut impl FnMut(Piece),
    ) {
        nodes.push(node);
        for piece in self.read(table, node, start) {
            if levels > 1 {
                let below = (self::node(piece.entry), piece.start);
                self.walk(table, below, levels - 1, nodes, answer);
            } else {
                answer(piece);
            }
        }
    }

    /// Goes to the leaf with the answer for `bits`; returns it, and where its answers end.
    fn descend(
        &self,
        table: &Trees,
        tree: u32,
        bits: u32,
        mut above: impl FnMut(Spot),
    ) -> (Spot, u64) {
        let Tree { root, levels, .. } = self.trees[tree as usize];
        let (mut node, mut start, mut end) = (root, 0, 1 << 32);
        for level in (1..=levels).rev() {
            let [keys, entries] = &table.nodes[node as usize];
            let slot = Halves::count(keys, bits);
            if level == 1 {
                return (Spot { node, start, slot }, end);
            }
            above(Spot { node, start, slot });
            node = self::node(entries[slot].load(Relaxed));
            if slot > 0 {
                start = keys[slot - 1].load(Relaxed) + 1;
            }
            if keys[slot].load(Relaxed) != u32::MAX {
                end = u64::from(keys[slot].load(Relaxed)) + 1;
            }
        }
        unreachable!("every tree has a leaf")
    }

    /// The leaf with the answer for an address, and which of its answers that is.
    fn leaf(&self, table: &Trees, tree: u32, bits: u32) -> (u32, usize) {
        let (leaf, _) = self.descend(table, tree, bits, |_| ());
        (leaf.node, leaf.slot)
    }

    /// The answer for an address.
    pub(super) fn answer(&self, table: &Trees, tree: u32, bits: u32) -> Piece {
        let (node, slot) = self.leaf(table, tree, bits);
        let entry = table.nodes[node as usize][1][slot].load(Relaxed);
        Piece { start: bits, entry, len: self.lens[node as usize - GROUPS][slot] }
    }

    /// Stores the answer for an address, and for those that have it as well.
    pub(super) fn set(&mut self, table: &Trees, tree: u32, bits: u32, (entry, len): (u32, u8)) {
        let (node, slot) = self.leaf(table, tree, bits);
        self.lens[node as usize - GROUPS][slot] = len;
        table.nodes[node as usize][1][slot].store(entry, Release);
    }

    /// Lets answers begin at `first` and at `end`, which are what they were before. Returns a node
    /// that has all between them, and its levels.
    pub(super) fn cut(
        &mut self,
        table: &Trees,
        periods: &Periods,
        tree: u32,
        (first, end): (u32, u64),
    ) -> (u32, usize) {
        let edges = [first.into(), end];
        let (leaf, leaf_end) = self.cut_leaf(table, periods, tree, first, edges);
        if end > leaf_end {
            self.cut_leaf(table, periods, tree, end as u32, [end, end]);
        }
        match leaf {
            Some(leaf) if end <= leaf_end => (leaf, 1),
            _ => (self.trees[tree as usize].root, self.trees[tree as usize].levels),
        }
    }

    /// The same in one leaf, the one with the answer for `bits`; returns the leaf, if it was not
    /// written anew, and where its answers end.
    fn cut_leaf(
        &mut self,
        table: &Trees,
        periods: &Periods,
        tree: u32,
        bits: u32,
        edges: [u64; 2],
    ) -> (Option<u32>, u64) {
        let (Spot { node, start, .. }, end) = self.descend(table, tree, bits, |_| ());
        let keys = &table.nodes[node as usize][0];
        let inside = |edge: &u64| u64::from(start) < *edge && *edge < end;
        let is_missing = |edge: u64| {
            let below = Halves::count(keys, edge as u32);
            below == 0 || u64::from(keys[below - 1].load(Relaxed)) + 1 != edge
        };
        if !edges.into_iter().any(|edge| inside(&edge) && is_missing(edge)) {
            return (Some(node), end);
        }
        let mut pieces = Pieces::new();
        for piece in self.read(table, node, start) {
            // Those that no prefix needs any more are left out.
            if pieces.last().is_none_or(|last| (last.entry, last.len) != (piece.entry, piece.len)) {
                pieces.push(piece);
            }
        }
        let mut newest = FAN;
        for edge in edges.into_iter().filter(inside).map(|edge| edge as u32) {
            let at = pieces.partition_point(|piece| piece.start <= edge);
            let before = pieces[at - 1];
            if before.start != edge {
                pieces.insert(at, Piece { start: edge, ..before });
                newest = newest.min(at);
            }
        }
        self.replace(table, periods, (tree, bits), pieces, newest);
        (None, end)
    }

    /// Writes the leaf with the answer for `bits` anew, with those pieces; `newest` is where one
    /// came in.
    fn replace(
        &mut self,
        table: &Trees,
        periods: &Periods,
        (tree, bits): (u32, u32),
        mut pieces: Pieces,
        mut newest: usize,
    ) {
        let mut way = ArrayVec::<Spot, LEVELS>::new();
        let (leaf, _) = self.descend(table, tree, bits, |above| way.push(above));
        way.push(leaf);
        let mut levels = self.trees[tree as usize].levels;
        while let Some(old) = way.pop() {
            // Unlinked below, before the period can end.
            self.space.retire(periods, old.node);
            // What comes in order fills nodes up: they are split where it comes in.
            let at = match pieces.len() {
                ..=FAN => pieces.len(),
                _ if newest > FAN / 2 + 1 => newest,
                len => len / 2,
            };
            let left = self.write(table, &pieces[..at]);
            if at == pieces.len() {
                match way.last() {
                    Some(above) => {
                        let entries = &table.nodes[above.node as usize][1];
                        entries[above.slot].store(link(left), Release);
                    }
                    None => self.link_root(table, tree, left, levels),
                }
                return;
            }
            let right = link(self.write(table, &pieces[at..]));
            let right = Piece { start: pieces[at].start, entry: right, len: 0 };
            self.trees[tree as usize].nodes += 1;
            pieces = match way.last() {
                Some(above) => self.read(table, above.node, above.start),
                None => Pieces::from_iter([Piece { start: 0, entry: 0, len: 0 }]),
            };
            let slot = way.last().map_or(0, |above| above.slot);
            pieces[slot].entry = link(left);
            newest = slot + 1;
            pieces.insert(newest, right);
            levels += usize::from(way.is_empty());
        }
        // The root was split.
        let root = self.write(table, &pieces);
        self.trees[tree as usize].nodes += 1;
        self.link_root(table, tree, root, levels);
        self.trees[tree as usize].has_grown = true;
    }

    /// Packs a tree if that makes it less high, or if its nodes are empty for the most part. Not
    /// between a cut and what is stored there, as what is alike is one answer afterwards.
    pub(super) fn tidy(&mut self, table: &Trees, periods: &Periods, tree: u32) {
        let Tree { levels, nodes, routes, has_grown, .. } = self.trees[tree as usize];
        // What so many prefixes need is one answer more than twice as many.
        if nodes > 1 && nodes * FAN > 4 * (2 * routes + 1) {
            self.pack(table, periods, tree, |_| true);
        } else if has_grown {
            self.pack(table, periods, tree, |packed| packed < levels);
        }
        self.trees[tree as usize].has_grown = false;
    }

    /// Writes a tree anew, without answers that no prefix needs and with nodes nearly full, if
    /// there is room, and it `pays` to have so many levels.
    fn pack(
        &mut self,
        table: &Trees,
        periods: &Periods,
        tree: u32,
        pays: impl FnOnce(usize) -> bool,
    ) {
        let Tree { root, levels, .. } = self.trees[tree as usize];
        let (mut old, mut pieces) = (Vec::new(), Vec::<Piece>::new());
        self.walk(table, (root, 0), levels, &mut old, &mut |piece| {
            if pieces.last().is_none_or(|last| (last.entry, last.len) != (piece.entry, piece.len)) {
                pieces.push(piece);
            }
        });
        let (mut nodes, mut levels) = (1, 1);
        let mut wide = pieces.len();
        while wide > if levels == 1 { FAN } else { LOOSE_ROOT } {
            wide = wide.div_ceil(LOOSE);
            nodes += wide;
            levels += 1;
        }
        if !pays(levels) || !self.space.has_room(nodes) {
            return;
        }
        for _ in 1..levels {
            let (count, wide) = (pieces.len(), pieces.len().div_ceil(LOOSE));
            pieces = (0..wide)
                .map(|i| {
                    let own = &pieces[count * i / wide..count * (i + 1) / wide];
                    Piece { start: own[0].start, entry: link(self.write(table, own)), len: 0 }
                })
                .collect();
        }
        let root = self.write(table, &pieces);
        self.trees[tree as usize].nodes = nodes;
        self.link_root(table, tree, root, levels);
        old.into_iter().for_each(|node| self.space.retire(periods, node));
    }

    /// Stores a mark for all of a tree.
    pub(super) fn paint_all(&mut self, table: &Trees, tree: u32, mark: Mark) {
        let Tree { root, levels, .. } = self.trees[tree as usize];
        self.paint(table, (root, levels), (0, u32::MAX), mark);
    }

    /// Stores a mark for the addresses from `first` to `last`, where answers begin and end, below
    /// a node of so many levels.
    pub(super) fn paint(
        &mut self,
        table: &Trees,
        (node, levels): (u32, usize),
        (first, last): (u32, u32),
        mark: Mark,
    ) {
        let [keys, entries] = &table.nodes[node as usize];
        for slot in Halves::count(keys, first)..=Halves::count(keys, last) {
            let entry = entries[slot].load(Relaxed);
            if levels > 1 {
                self.paint(table, (self::node(entry), levels - 1), (first, last), mark);
                continue;
            }
            let len = &mut self.lens[node as usize - GROUPS][slot];
            if *len == GATE {
                let tree = table.nodes[self::node(entry) as usize][1][OWNER].load(Relaxed);
                self.paint_all(table, tree, mark);
            } else if *len <= mark.over {
                *len = mark.len;
                entries[slot].store(mark.entry, Release);
            }
        }
    }
}
