//! Allocates the nodes of the IPv6 trees.

use crate::lpm::grace::{Periods, Retired};

/// Nodes that were never used, free ones, and retired ones.
pub(super) struct Space {
    fresh: u32,
    end: u32,
    /// Most nodes in use when new routes are inserted.
    limit: usize,
    free: Vec<u32>,
    used: usize,
    retired: Retired,
}

impl Space {
    /// The nodes from `first` to `end`.
    pub(super) fn new(first: usize, end: usize, limit: usize) -> Space {
        let (fresh, end) = (first as u32, end as u32);
        Space { fresh, end, limit, free: Vec::new(), used: 0, retired: Retired::new() }
    }

    /// A node; there must be room for it.
    pub(super) fn take(&mut self) -> u32 {
        self.used += 1;
        self.free.pop().unwrap_or_else(|| {
            assert!(self.fresh < self.end, "room was reserved");
            self.fresh += 1;
            self.fresh - 1
        })
    }

    /// Retires a node that is unlinked before the period can end.
    pub(super) fn retire(&mut self, periods: &Periods, node: u32) {
        self.retired.push(periods, node);
    }

    /// Frees retired nodes that no batch can reach any more.
    pub(super) fn collect(&mut self, periods: &Periods) {
        self.retired.collect(periods, |node| {
            self.free.push(node);
            self.used -= 1;
        });
    }

    /// True if there is room for so many nodes.
    pub(super) fn has_room(&self, nodes: usize) -> bool {
        (self.end - self.fresh) as usize + self.free.len() >= nodes
    }

    /// True if so many more nodes stay below the limit.
    pub(super) fn fits(&self, nodes: usize) -> bool {
        self.used + nodes <= self.limit && self.has_room(nodes)
    }

    /// Nodes in use, and retired ones.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Nodes that wait for readers.
    pub(super) fn waiting(&self) -> usize {
        self.retired.len()
    }

    /// Bytes of memory beside the nodes.
    pub(super) fn bytes(&self) -> usize {
        self.free.capacity() * 4 + self.retired.bytes()
    }
}
