//! The shape of a tree: its ports at each node.

use std::collections::{BTreeMap, BTreeSet};

use plexus_wire::MacAddr;

use crate::topology::{Place, Topology};
use crate::trees::FAR;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// By node.
    pub(super) ports: BTreeMap<u32, BTreeSet<u8>>,
    /// Distance from the core in links, by node.
    pub(super) depths: BTreeMap<u32, u8>,
    /// The greatest depth of a node with listeners.
    pub(super) deepest: u8,
    /// Slots of the links that it uses.
    pub(super) links: BTreeSet<u32>,
}

/// A hash of all of these, which differs much for similar inputs.
pub(super) fn mix(group: MacAddr, a: u64, b: u64) -> u64 {
    let mut h = group.to_u64();
    for part in [a, b] {
        h = (h ^ part).wrapping_add(0x9E37_79B9_7F4A_7C15);
        h = (h ^ h >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        h = (h ^ h >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        h ^= h >> 31;
    }
    h
}

/// The tree from a core to these nodes; `listening` are the host ports with listeners.
pub(super) fn grow(
    topology: &Topology,
    distance: &[u8],
    group: MacAddr,
    nodes: &BTreeSet<u32>,
    listening: &BTreeSet<Place>,
) -> Shape {
    let mut shape = Shape::default();
    // Each node's link towards the core.
    let mut up = BTreeMap::new();
    for &node in nodes {
        let mut at = node;
        while !shape.depths.contains_key(&at) {
            let depth = distance[at as usize];
            shape.depths.insert(at, depth);
            let closer = topology
                .edges(at)
                .iter()
                .filter(|e| depth > 0 && distance[e.to as usize] == depth - 1);
            // Groups spread over equal paths, so that no cable stays idle.
            let best = closer.max_by_key(|e| mix(group, at.into(), e.port.into()));
            let Some(edge) = best else { break };
            up.insert(at, *edge);
            shape.links.insert(edge.link / 2);
            at = edge.to;
        }
    }
    let mut below: BTreeMap<u32, usize> = BTreeMap::new();
    for place in listening {
        *below.entry(place.node).or_default() += 1;
        shape.ports.entry(place.node).or_default().insert(place.port);
        shape.deepest = shape.deepest.max(distance[place.node as usize]);
    }
    let mut order: Vec<u32> = shape.depths.keys().copied().collect();
    order.sort_by_key(|n| std::cmp::Reverse(shape.depths[n]));
    for node in order {
        shape.ports.entry(node).or_default();
        let Some(edge) = up.get(&node) else { continue };
        let here = below.get(&node).copied().unwrap_or(0);
        *below.entry(edge.to).or_default() += here;
        if here > 0 {
            shape.ports.entry(edge.to).or_default().insert(edge.peer_port);
        }
        if here < listening.len() {
            shape.ports.entry(node).or_default().insert(edge.port);
        }
    }
    shape
}

impl Shape {
    /// Most nodes after a sender's that its frames pass.
    pub(super) fn links_from(&self, node: u32) -> u8 {
        self.depths.get(&node).map_or(FAR, |d| d.saturating_add(self.deepest))
    }
}

/// Credits of a head whose frames pass this many links.
pub(super) fn credits(links: u8) -> u8 {
    links.saturating_sub(1)
}
