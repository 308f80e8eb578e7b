//! Shortest-path trees: each node's distance to one destination, kept per destination.
//!
//! A tree is computed by breadth-first search and repaired when links are added or removed: only
//! nodes whose last shortest path is gone are examined, and those that a new link brings closer.
//! The repair happens when the tree is next needed, so that a link which no route depends on costs
//! nothing.

use std::collections::{BTreeSet, VecDeque};

use crate::topology::Topology;

/// Not reachable, or farther than any header can carry.
pub(crate) const FAR: u8 = u8::MAX;
/// Number of pending changes from which on a tree is recomputed.
const MENDED_MAX: usize = 256;
/// Memory limit for trees, in bytes.
const BYTES_MAX: usize = 512 << 20;

/// Distances, in links, of all nodes to one.
#[derive(Clone, Debug)]
struct Tree {
    distance: Vec<u8>,
    /// Number of link changes accounted for.
    changes: u64,
}

/// The trees computed so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trees {
    of: Vec<Option<Tree>>,
    held: usize,
    scratch: Scratch,
    /// Nodes through which no path leads: their distance is `FAR`, unless they are the
    /// destination.
    avoided: BTreeSet<u32>,
}

impl Trees {
    /// The nodes through which no path leads.
    pub(crate) fn avoided(&self) -> &BTreeSet<u32> {
        &self.avoided
    }

    /// Sets the nodes through which no path leads.
    pub(crate) fn avoid(&mut self, nodes: BTreeSet<u32>) {
        *self = Trees { avoided: nodes, ..Trees::default() };
    }

    /// The distance of each node to `destination`.
    pub(crate) fn to(&mut self, topology: &Topology, destination: u32) -> &[u8] {
        let (nodes, at) = (topology.nodes.len(), destination as usize);
        if self.of.len() < nodes {
            self.of.resize_with(nodes, || None);
        }
        if self.of[at].is_none() {
            if self.held * nodes > BYTES_MAX {
                self.of.iter_mut().for_each(|t| *t = None);
                self.held = 0;
            }
            self.held += 1;
        }
        let tree = self.of[at].get_or_insert_with(|| Tree {
            distance: search(topology, destination, &self.avoided),
            changes: topology.changes_made(),
        });
        if tree.changes != topology.changes_made() || tree.distance.len() < nodes {
            let changes = topology.changes_since(tree.changes);
            match changes {
                Some(changes)
                    if topology.changes_made() - tree.changes <= MENDED_MAX as u64
                        && self.avoided.is_empty() =>
                {
                    tree.distance.resize(nodes, FAR);
                    let mut ends = changes.map(|c| (c.ends, c.added)).collect::<Vec<_>>();
                    ends.dedup();
                    self.scratch.mend(topology, &mut tree.distance, destination, &ends);
                }
                _ => tree.distance = search(topology, destination, &self.avoided),
            }
            tree.changes = topology.changes_made();
        }
        &tree.distance
    }
}

/// All distances to `destination`, by breadth-first search that enters none of the `avoided`.
pub(crate) fn search(topology: &Topology, destination: u32, avoided: &BTreeSet<u32>) -> Vec<u8> {
    let mut distance = vec![FAR; topology.nodes.len()];
    distance[destination as usize] = 0;
    let mut queue = VecDeque::from([destination]);
    while let Some(node) = queue.pop_front() {
        let next = distance[node as usize] + 1;
        if next == FAR {
            break;
        }
        for edge in topology.edges(node) {
            let d = &mut distance[edge.to as usize];
            if *d == FAR && !avoided.contains(&edge.to) {
                *d = next;
                queue.push_back(edge.to);
            }
        }
    }
    distance
}

/// Scratch memory for repairs, to avoid allocations.
#[derive(Clone, Debug, Default)]
struct Scratch {
    /// Nodes by distance, to be examined in that order.
    buckets: Vec<Vec<u32>>,
    orphans: Vec<u32>,
    is_orphan: Vec<bool>,
}

impl Scratch {
    fn push(&mut self, distance: u8, node: u32) {
        if self.buckets.is_empty() {
            self.buckets.resize(usize::from(FAR), Vec::new());
        }
        if distance < FAR {
            self.buckets[usize::from(distance)].push(node);
        }
    }

    /// Repairs distances after link changes that the topology already contains.
    ///
    /// First find the orphans: nodes without a neighbour that is one closer and not an orphan. They
    /// are examined in the order of distance, so that a node is judged after those it depends on.
    /// All others keep a distance that some path still has. Then every node that may have come
    /// closer is relaxed in the order of distance, orphans from their best neighbour.
    fn mend(
        &mut self,
        topology: &Topology,
        distance: &mut [u8],
        destination: u32,
        changes: &[([u32; 2], bool)],
    ) {
        self.is_orphan.resize(distance.len().max(self.is_orphan.len()), false);
        for (ends, _) in changes.iter().filter(|(_, added)| !added) {
            for end in ends {
                self.push(distance[*end as usize], *end);
            }
        }
        for d in 1..usize::from(FAR) {
            let Some(bucket) = self.buckets.get_mut(d) else { break };
            let mut bucket = std::mem::take(bucket);
            for node in bucket.drain(..) {
                if self.is_orphan[node as usize] || node == destination {
                    continue;
                }
                let edges = topology.edges(node);
                let held = edges.iter().any(|e| {
                    usize::from(distance[e.to as usize]) < d && !self.is_orphan[e.to as usize]
                });
                if held {
                    continue;
                }
                self.is_orphan[node as usize] = true;
                self.orphans.push(node);
                for e in edges {
                    if usize::from(distance[e.to as usize]) == d + 1 {
                        self.push(d as u8 + 1, e.to);
                    }
                }
            }
            self.buckets[d] = bucket;
        }
        if let Some(first) = self.buckets.first_mut() {
            first.clear();
        }
        for i in 0..self.orphans.len() {
            let node = self.orphans[i];
            let best = topology.edges(node).iter().filter(|e| !self.is_orphan[e.to as usize]);
            let best = best.map(|e| distance[e.to as usize]).min().unwrap_or(FAR);
            distance[node as usize] = best.saturating_add(1);
            self.push(distance[node as usize], node);
        }
        for (ends, _) in changes.iter().filter(|(_, added)| *added) {
            for end in ends {
                self.push(distance[*end as usize], *end);
            }
        }
        for d in 0..usize::from(FAR) - 1 {
            let Some(bucket) = self.buckets.get_mut(d) else { break };
            let mut bucket = std::mem::take(bucket);
            for node in bucket.drain(..) {
                if usize::from(distance[node as usize]) != d {
                    continue;
                }
                for e in topology.edges(node) {
                    if usize::from(distance[e.to as usize]) > d + 1 {
                        distance[e.to as usize] = d as u8 + 1;
                        self.push(d as u8 + 1, e.to);
                    }
                }
            }
            self.buckets[d] = bucket;
        }
        if let Some(last) = self.buckets.last_mut() {
            last.clear();
        }
        for node in self.orphans.drain(..) {
            self.is_orphan[node as usize] = false;
        }
    }
}

#[cfg(test)]
mod tests;
