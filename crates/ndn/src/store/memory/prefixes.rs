//! Which entries lie below a prefix, for the last few prefixes of every name.
//!
//! What applications ask for by prefix is a version, a segment or metadata: a few components
//! below it. So an entry is listed under its longest [`DEPTH`] proper prefixes, each with all
//! others of that prefix, the newest first; a shorter prefix finds it only through luck. An entry
//! costs 48 bytes for it, and 55 for its places in the map.

use plexus_table::names::NameMap;

/// Prefixes of a name under which it is listed.
pub(super) const DEPTH: usize = 3;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    hash: u64,
    newer: u32,
    older: u32,
}

/// Node `slot * DEPTH + i` is the entry's place in the list of its `i`-th longest prefix.
pub(super) struct Prefixes {
    nodes: Vec<Node>,
    /// From a prefix's hash to the newest node of its list.
    newest: NameMap,
}

impl Prefixes {
    pub(super) fn new(slots: usize) -> Prefixes {
        let node = Node { hash: 0, newer: NONE, older: NONE };
        let newest = NameMap::new(slots * DEPTH).expect("address space for prefixes");
        Prefixes { nodes: vec![node; slots * DEPTH], newest }
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.newest.find(hash, |node| self.nodes[node as usize].hash == hash)
    }

    /// Lists an entry under the prefixes with these hashes, the longest ones last.
    pub(super) fn insert(&mut self, slot: u32, hashes: impl DoubleEndedIterator<Item = u64>) {
        for (i, hash) in hashes.rev().take(DEPTH).enumerate() {
            let node = slot * DEPTH as u32 + i as u32;
            let older = self.find(hash);
            self.nodes[node as usize] = Node { hash, newer: NONE, older: older.unwrap_or(NONE) };
            match older {
                Some(older) => {
                    self.nodes[older as usize].newer = node;
                    self.newest.replace(hash, older, node);
                }
                // Where the map has no room near this hash, the prefix does not find it.
                None => drop(self.newest.insert(hash, node)),
            }
        }
    }

    /// Takes an entry with `prefixes` proper prefixes off its lists.
    pub(super) fn remove(&mut self, slot: u32, prefixes: usize) {
        for i in 0..prefixes.min(DEPTH) {
            let node = slot * DEPTH as u32 + i as u32;
            let Node { hash, newer, older } = self.nodes[node as usize];
            if older != NONE {
                self.nodes[older as usize].newer = newer;
            }
            match (newer, older) {
                (NONE, NONE) => drop(self.newest.remove(hash, node)),
                (NONE, older) => drop(self.newest.replace(hash, node, older)),
                (newer, older) => self.nodes[newer as usize].older = older,
            }
        }
    }

    /// The entries listed under a prefix's hash, the newest first.
    pub(super) fn below(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let mut node = self.find(hash).unwrap_or(NONE);
        std::iter::from_fn(move || {
            let slot = (node != NONE).then_some(node / DEPTH as u32)?;
            node = self.nodes[node as usize].older;
            Some(slot)
        })
    }
}
