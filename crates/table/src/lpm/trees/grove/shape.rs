//! The shape of trees: where answers begin, and how they are distributed over nodes.

use std::sync::atomic::Ordering::*;

use arrayvec::ArrayVec;

use super::{Grove, LEVELS, Piece, Pieces, Spot, Tree, link};
use crate::lpm::grace::Periods;
use crate::lpm::lanes::Halves;
use crate::lpm::trees::{FAN, Trees};

/// Pieces of a packed node, which leaves room for some insertions before it splits.
const LOOSE: usize = 14;
/// Children of a packed root.
const LOOSE_ROOT: usize = 12;

impl Grove {
    /// Makes answers begin at `first` and at `end`, without changing them. Returns a node that
    /// covers the range between, and its levels.
    pub(in crate::lpm::trees) fn cut(
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
    /// rewritten, and where its answers end.
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
            // Answers that no prefix needs any more are dropped.
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

    /// Rewrites the leaf with the answer for `bits`; `newest` is where a piece was inserted.
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
            // Ascending insertions fill nodes up: they are split where the last insertion was.
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

    /// Packs a tree if that lowers it, or if its nodes are mostly empty. Not between a cut and the
    /// store, because afterwards equal answers are merged.
    pub(in crate::lpm::trees) fn tidy(&mut self, table: &Trees, periods: &Periods, tree: u32) {
        let Tree { levels, nodes, routes, has_grown, .. } = self.trees[tree as usize];
        // This many prefixes need at most one more than twice as many answers.
        if nodes > 1 && nodes * FAN > 4 * (2 * routes + 1) {
            self.pack(table, periods, tree, |_| true);
        } else if has_grown && self.space.fits(nodes) {
            self.pack(table, periods, tree, |packed| packed < levels);
        }
        self.trees[tree as usize].has_grown = false;
    }

    /// Rewrites a tree, without unneeded answers and with nearly full nodes, if there is room and
    /// `pays` accepts the number of levels.
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
}
