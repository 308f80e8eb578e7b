//! Doubly linked queues over slots: the building block of every policy.

use plexus_table::prefetch;

pub(super) const NONE: u32 = u32::MAX;
const NOWHERE: u8 = u8::MAX;

/// State of a slot.
#[derive(Clone, Copy)]
struct Node {
    hash: u64,
    /// The neighbour that was inserted later.
    newer: u32,
    older: u32,
    weight: u32,
    queue: u8,
    mark: u8,
}

#[derive(Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
    weight: u64,
}

/// `N` queues; a slot is in at most one of them, and stores a hash, a weight and a small mark.
pub(super) struct Queues<const N: usize> {
    nodes: Vec<Node>,
    ends: [Ends; N],
}

impl<const N: usize> Queues<N> {
    pub(super) fn new(slots: usize) -> Queues<N> {
        let node = Node { hash: 0, newer: NONE, older: NONE, weight: 0, queue: NOWHERE, mark: 0 };
        let ends = Ends { newest: NONE, oldest: NONE, weight: 0 };
        Queues { nodes: vec![node; slots], ends: [ends; N] }
    }

    /// Inserts a slot that is in no queue at the new end of one.
    pub(super) fn insert(&mut self, queue: usize, slot: u32, hash: u64, weight: u32) {
        let node = &mut self.nodes[slot as usize];
        debug_assert_eq!(node.queue, NOWHERE, "slot {slot} is in use");
        (node.hash, node.weight, node.mark) = (hash, weight, 0);
        self.link(queue, slot);
    }

    fn link(&mut self, queue: usize, slot: u32) {
        let newest = self.ends[queue].newest;
        let node = &mut self.nodes[slot as usize];
        (node.newer, node.older, node.queue) = (NONE, newest, queue as u8);
        self.ends[queue].weight += u64::from(node.weight);
        if newest == NONE {
            self.ends[queue].oldest = slot;
        } else {
            self.nodes[newest as usize].newer = slot;
        }
        self.ends[queue].newest = slot;
    }

    /// Removes a slot from its queue, if it is in one.
    pub(super) fn remove(&mut self, slot: u32) {
        let node = self.nodes[slot as usize];
        let Some(ends) = self.ends.get_mut(usize::from(node.queue)) else { return };
        ends.weight -= u64::from(node.weight);
        if node.newer == NONE {
            ends.newest = node.older;
        } else {
            self.nodes[node.newer as usize].older = node.older;
        }
        if node.older == NONE {
            ends.oldest = node.newer;
        } else {
            self.nodes[node.older as usize].newer = node.newer;
        }
        self.nodes[slot as usize].queue = NOWHERE;
    }

    /// Moves a slot to the new end of this queue.
    pub(super) fn renew(&mut self, queue: usize, slot: u32) {
        self.remove(slot);
        self.link(queue, slot);
    }

    /// Prefetches the state of a slot, if it is one.
    #[inline(always)]
    pub(super) fn prefetch(&self, slot: u32) {
        self.nodes.get(slot as usize).into_iter().for_each(prefetch);
    }

    /// The slot that was inserted first, or [`NONE`].
    pub(super) fn oldest(&self, queue: usize) -> u32 {
        self.ends[queue].oldest
    }

    /// The slot that was inserted next after this one, or [`NONE`].
    pub(super) fn newer(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].newer
    }

    pub(super) fn is_empty(&self, queue: usize) -> bool {
        self.ends[queue].oldest == NONE
    }

    pub(super) fn weight(&self, queue: usize) -> u64 {
        self.ends[queue].weight
    }

    pub(super) fn queue(&self, slot: u32) -> usize {
        usize::from(self.nodes[slot as usize].queue)
    }

    pub(super) fn hash(&self, slot: u32) -> u64 {
        self.nodes[slot as usize].hash
    }

    pub(super) fn mark(&mut self, slot: u32) -> &mut u8 {
        &mut self.nodes[slot as usize].mark
    }
}
