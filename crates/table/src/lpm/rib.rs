//! The RIB, the control side's copy of the routes: a trie of 8-bit strides.
//!
//! A node at depth d holds the prefixes of length 8d + 1 to 8d + 8 under one prefix of length 8d,
//! numbered like a heap (Knuth's allotment routing table): the whole node is 1, its halves 2 and 3,
//! its 256 slots 256 to 511. A prefix's cover is its number halved; the numbers of longer prefixes
//! are greater. The default route is number 1 of the root.

use super::{Address, GroupId};

const ROOT: u32 = 0;
/// Strides of the longest addresses.
const DEPTHS: usize = 16;

/// Prefixes and children of one node; values are in the order of their bits.
#[derive(Default)]
pub(super) struct Node {
    set: [u64; 8],
    groups: Vec<GroupId>,
    kids: [u64; 4],
    children: Vec<Child>,
}

/// A node below another.
#[derive(Clone, Copy)]
pub(super) struct Child {
    pub(super) id: u32,
    /// The lookup structure's own reference for this node. It is stored here so that writing the
    /// upper node does not touch all nodes below.
    pub(super) tag: u32,
}

/// The number of a prefix in its node, and the node's depth.
fn place<A: Address>(addr: A, len: u8) -> (usize, usize) {
    let depth = usize::from(len.saturating_sub(1) / 8);
    let bits = usize::from(len) - 8 * depth;
    (depth, 1 << bits | usize::from(addr.byte(depth)) >> (8 - bits))
}

fn rank(bits: &[u64], at: usize) -> usize {
    let below = bits[at / 64] & ((1 << (at % 64)) - 1);
    bits[..at / 64].iter().map(|w| w.count_ones()).sum::<u32>() as usize
        + below.count_ones() as usize
}

impl Node {
    #[inline]
    pub(super) fn has(&self, number: usize) -> bool {
        self.set[number / 64] >> (number % 64) & 1 == 1
    }

    pub(super) fn get(&self, number: usize) -> Option<GroupId> {
        self.has(number).then(|| self.groups[rank(&self.set, number)])
    }

    fn insert(&mut self, number: usize, group: GroupId) -> Option<GroupId> {
        let at = rank(&self.set, number);
        if self.has(number) {
            return Some(std::mem::replace(&mut self.groups[at], group));
        }
        self.set[number / 64] |= 1 << (number % 64);
        self.groups.insert(at, group);
        None
    }

    fn remove(&mut self, number: usize) -> Option<GroupId> {
        if !self.has(number) {
            return None;
        }
        self.set[number / 64] &= !(1 << (number % 64));
        Some(self.groups.remove(rank(&self.set, number)))
    }

    /// The number of the longest prefix of this node that covers `number`, possibly itself.
    pub(super) fn cover(&self, number: usize) -> Option<usize> {
        std::iter::successors(Some(number), |n| Some(n / 2))
            .take_while(|&n| n > 0)
            .find(|&n| self.has(n))
    }

    /// The answer of the node's prefixes for `number`.
    pub(super) fn best(&self, number: usize) -> Option<GroupId> {
        self.cover(number).and_then(|n| self.get(n))
    }

    pub(super) fn child(&self, slot: usize) -> Option<Child> {
        let there = self.kids[slot / 64] >> (slot % 64) & 1 == 1;
        there.then(|| self.children[rank(&self.kids, slot)])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.children.is_empty()
    }

    fn bytes(&self) -> usize {
        size_of::<Node>() + self.groups.capacity() * 2 + self.children.capacity() * 8
    }
}

/// Prefixes of one family and their groups.
pub struct Rib<A> {
    nodes: Vec<Node>,
    free: Vec<u32>,
    len: usize,
    family: std::marker::PhantomData<A>,
}

impl<A: Address> Rib<A> {
    pub(super) fn new() -> Rib<A> {
        let family = std::marker::PhantomData;
        Rib { nodes: vec![Node::default()], free: Vec::new(), len: 0, family }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        let spare = (self.nodes.capacity() - self.nodes.len()) * size_of::<Node>();
        self.nodes.iter().map(Node::bytes).sum::<usize>() + spare + self.free.capacity() * 4
    }

    #[inline]
    pub(super) fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    /// Sets the tag of a node on a way, which is not the root.
    pub(super) fn set_tag(&mut self, way: &mut Way<A>, depth: usize, tag: u32) {
        let parent = &mut self.nodes[way.ids[depth - 1] as usize];
        let at = rank(&parent.kids, way.slot(depth - 1));
        parent.children[at].tag = tag;
        way.tags[depth] = tag;
    }

    /// The nodes on the way to a prefix, as far as there are any.
    pub(super) fn way(&self, addr: A, len: u8) -> Way<A> {
        let (depth, number) = place(addr, len);
        let (mut ids, mut tags) = ([ROOT; DEPTHS], [0; DEPTHS]);
        let mut known = 1;
        while known <= depth {
            let slot = usize::from(addr.byte(known - 1));
            let Some(child) = self.node(ids[known - 1]).child(slot) else { break };
            (ids[known], tags[known]) = (child.id, child.tag);
            known += 1;
        }
        Way { addr, depth, number, ids, tags, known }
    }

    pub(super) fn get(&self, way: &Way<A>) -> Option<GroupId> {
        self.node(way.last()?).get(way.number)
    }

    /// Inserts a prefix, with the missing nodes on the way.
    pub(super) fn insert(&mut self, way: &mut Way<A>, group: GroupId) -> Option<GroupId> {
        while way.known <= way.depth {
            let (parent, slot) = (way.ids[way.known - 1], way.slot(way.known - 1));
            way.ids[way.known] = self.grow(parent, slot);
            way.tags[way.known] = 0;
            way.known += 1;
        }
        let old = self.nodes[way.ids[way.depth] as usize].insert(way.number, group);
        self.len += usize::from(old.is_none());
        old
    }

    fn grow(&mut self, parent: u32, slot: usize) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            (self.nodes.len() - 1) as u32
        });
        let parent = &mut self.nodes[parent as usize];
        parent.children.insert(rank(&parent.kids, slot), Child { id, tag: 0 });
        parent.kids[slot / 64] |= 1 << (slot % 64);
        id
    }

    /// Removes a prefix; its node stays, even if empty.
    pub(super) fn remove(&mut self, way: &Way<A>) -> Option<GroupId> {
        let old = self.nodes[way.last()? as usize].remove(way.number)?;
        self.len -= 1;
        Some(old)
    }

    /// Removes the last node on a way, which is empty.
    pub(super) fn prune(&mut self, way: &mut Way<A>) {
        way.known -= 1;
        let (child, slot) = (way.ids[way.known], way.slot(way.known - 1));
        let node = &mut self.nodes[way.ids[way.known - 1] as usize];
        node.kids[slot / 64] &= !(1 << (slot % 64));
        node.children.remove(rank(&node.kids, slot));
        self.nodes[child as usize] = Node::default();
        self.free.push(child);
    }

    /// The answer of the nodes above `depth` for the address of a way.
    pub(super) fn above(&self, way: &Way<A>, depth: usize) -> Option<GroupId> {
        (0..depth).rev().find_map(|d| self.node(way.ids[d]).best(256 + way.slot(d)))
    }

    /// The longest prefix that covers that of a way, possibly itself.
    pub(super) fn cover(&self, way: &Way<A>) -> Option<(u8, GroupId)> {
        (0..way.known.min(way.depth + 1)).rev().find_map(|d| {
            let number = if d == way.depth { way.number } else { 256 + way.slot(d) };
            let node = self.node(way.ids[d]);
            let cover = node.cover(number)?;
            Some(((8 * d) as u8 + cover.ilog2() as u8, node.get(cover)?))
        })
    }

    /// True if a prefix covers, or lies within, the one with that number and `len` bits, at most 8.
    pub(super) fn has_any(&self, prefix: usize, len: u8) -> bool {
        let (root, number) = (self.node(ROOT), 1 << len | prefix);
        let under = |bits: u8| number << (bits - len)..(number + 1) << (bits - len);
        under(8).any(|slot| root.child(slot - 256).is_some())
            || root.cover(number).is_some()
            || (len..=8).flat_map(under).any(|number| root.has(number))
    }

    /// Every prefix that covers an address, shortest first.
    pub(super) fn covers(&self, addr: A) -> Vec<(u8, GroupId)> {
        let mut found = Vec::new();
        let mut id = Some(ROOT);
        for d in 0..usize::from(A::BITS / 8) {
            let Some(node) = id.map(|id| self.node(id)) else { break };
            let slot = usize::from(addr.byte(d));
            for bits in 0..=8 {
                if let Some(group) = node.get((256 + slot) >> (8 - bits)) {
                    found.push(((8 * d + bits) as u8, group));
                }
            }
            id = node.child(slot).map(|child| child.id);
        }
        found
    }

    /// Every prefix: in the order of addresses, and of two at the same address the shorter first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (A, u8, GroupId)> + '_ {
        let mut stack = vec![Step { id: ROOT, base: A::ZERO, depth: 0, number: 1 }];
        std::iter::from_fn(move || {
            while let Some(step) = stack.pop() {
                let node = self.node(step.id);
                let bits = step.number.ilog2() as usize;
                let slot = (step.number << (8 - bits)) - 256;
                if bits < 8 {
                    stack.push(Step { number: 2 * step.number + 1, ..step });
                    stack.push(Step { number: 2 * step.number, ..step });
                } else if let Some(Child { id, .. }) = node.child(slot) {
                    let base = step.base.with_byte(step.depth, slot as u8);
                    stack.push(Step { id, base, depth: step.depth + 1, number: 1 });
                }
                if let Some(group) = node.get(step.number) {
                    let addr = step.base.with_byte(step.depth, slot as u8);
                    return Some((addr, (8 * step.depth + bits) as u8, group));
                }
            }
            None
        })
    }
}

/// The way from the root to a prefix.
pub struct Way<A> {
    pub(super) addr: A,
    /// Depth of the prefix's node, and its number there.
    pub(super) depth: usize,
    pub(super) number: usize,
    /// Nodes by depth, of which the first `known` exist.
    pub(super) ids: [u32; DEPTHS],
    pub(super) tags: [u32; DEPTHS],
    pub(super) known: usize,
}

impl<A: Address> Way<A> {
    pub(super) fn slot(&self, depth: usize) -> usize {
        usize::from(self.addr.byte(depth))
    }

    /// The prefix's length.
    pub(super) fn len(&self) -> u8 {
        (8 * self.depth) as u8 + self.number.ilog2() as u8
    }

    /// The prefix's own node.
    fn last(&self) -> Option<u32> {
        (self.known > self.depth).then(|| self.ids[self.depth])
    }
}

/// Position of a walk over all prefixes.
#[derive(Clone, Copy)]
struct Step<A> {
    id: u32,
    base: A,
    depth: usize,
    number: usize,
}
