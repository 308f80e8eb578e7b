//! The writer's view of the trees: their nodes, contents and changes.

mod shape;

use arrayvec::ArrayVec;
use std::sync::atomic::Ordering::*;

use super::{BELOW, FAN, GROUPS, NODE, Trees};
use crate::lpm::grace::Periods;
use crate::lpm::lanes::Halves;
use crate::lpm::space::Space;

/// The length of an answer that is a gate, beyond those of prefixes.
pub(super) const GATE: u8 = u8::MAX;
/// Which entry of a gate is the number of the tree below it, for the writer.
pub(super) const OWNER: usize = BELOW + 1;
/// More levels than any tree has: nodes have more than two children on average.
const LEVELS: usize = 20;

/// A child or an answer: what holds from some address up to the next one.
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

/// Where the link to a root is stored.
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
    /// It has one level more than when it was last packed.
    has_grown: bool,
    place: Place,
}

/// A node on the way to an address, where its range begins, and which entry leads on.
struct Spot {
    node: u32,
    start: u32,
    slot: usize,
}

/// An answer for a range of addresses, wherever no longer prefix decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// One more than the length of prefixes that it overrides; it also overrides shorter ones.
    pub(super) over: u8,
    pub(super) entry: u32,
    pub(super) len: u8,
}

/// All trees.
pub(super) struct Grove {
    pub(super) space: Space,
    /// Lengths by node, starting with the first that is not a group.
    lens: Vec<[u8; FAN]>,
    trees: Vec<Tree>,
    free: Vec<u32>,
    /// How many trees below the top have this many levels.
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

    /// The number of a new tree, which still needs a root.
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

    /// Counts a tree below the top whose number of levels changes.
    fn count(&mut self, table: &Trees, before: usize, now: usize) {
        if before != now {
            self.heights[now] += 1;
            self.heights[before] = self.heights[before].saturating_sub(1);
            let most = self.heights.iter().rposition(|&trees| trees > 0).unwrap_or(0);
            table.levels.store(most as u32, Relaxed);
        }
    }

    /// Retires a tree that is unlinked, or is about to be.
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

    /// Stores the answer for an address, and for those that share it.
    pub(super) fn set(&mut self, table: &Trees, tree: u32, bits: u32, (entry, len): (u32, u8)) {
        let (node, slot) = self.leaf(table, tree, bits);
        self.lens[node as usize - GROUPS][slot] = len;
        table.nodes[node as usize][1][slot].store(entry, Release);
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
        let slots = Halves::count(keys, first)..=Halves::count(keys, last);
        for (slot, cell) in slots.clone().zip(&entries[slots]) {
            let entry = cell.load(Relaxed);
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
                cell.store(mark.entry, Release);
            }
        }
    }
}
