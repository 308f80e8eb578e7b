//! Nodes, ports and the links between them, as the nodes report them (seed §4.2.1).
//!
//! A link exists only while both of its ends are up and each names the other: one node's report
//! alone proves nothing about a cable. Parallel links (lanes) are separate links. Ports that are
//! too small, in conflict, blocked or without an authenticated neighbour carry no link.
//!
//! Nodes and directed links have dense numbers, so that path computations work on arrays. A link's
//! number is `2 * slot + side`; a slot is reused after its link is gone. Every change is numbered
//! and kept for a while, so that results can be repaired instead of recomputed
//! ([`Trees`](crate::trees::Trees)).

use std::collections::{BTreeMap, VecDeque};

use plexus_wire::Time;
use plexus_wire::fabric::message::{PortRole, PortState};

use crate::NodeId;
use crate::lists::Lists;

/// No directed link.
pub(crate) const NONE: u32 = u32::MAX;
/// Most remembered link changes.
const CHANGES_KEPT: usize = 1024;

/// A port of a node.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
pub(crate) struct Place {
    /// The node's dense number.
    pub(crate) node: u32,
    pub(crate) port: u8,
}

/// A directed link, at the node where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The node where it ends.
    pub(crate) to: u32,
    /// The port where it begins, which is the hop.
    pub(crate) port: u8,
    /// The port where it ends.
    pub(crate) peer_port: u8,
    /// Its number.
    pub(crate) link: u32,
}

/// A link was added or removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkChange {
    pub(crate) ends: [u32; 2],
    pub(crate) added: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct KnownNode {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) up: bool,
    /// When it was last heard.
    pub(crate) heard: Time,
    pub(crate) ports: BTreeMap<u8, PortState>,
}

/// A set of ports.
type Ports = [u64; 4];

/// The target of a hop.
#[derive(Clone, Copy, Debug)]
struct Out {
    /// The number of the link that begins at the port, or `NONE`.
    link: u32,
    /// Where it ends.
    to: u32,
}

/// The two ends of a link in a slot.
type Ends = [Place; 2];

#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    ids: BTreeMap<NodeId, u32>,
    pub(crate) nodes: Vec<KnownNode>,
    slots: Vec<Option<Ends>>,
    free: Vec<u32>,
    /// By node: the links that begin there, in the order of their ports. These arrays are separate
    /// from the nodes, because they are read for every hop of every route.
    edges: Lists<Edge>,
    /// By node and port.
    outs: Lists<Out>,
    /// By node: its host ports, none if it is down.
    host_ports: Vec<Ports>,
    changes: VecDeque<LinkChange>,
    changes_made: u64,
}

impl Topology {
    pub(crate) fn index(&self, id: NodeId) -> Option<u32> {
        self.ids.get(&id).copied()
    }

    pub(crate) fn node(&self, index: u32) -> &KnownNode {
        &self.nodes[index as usize]
    }

    pub(crate) fn node_mut(&mut self, index: u32) -> &mut KnownNode {
        &mut self.nodes[index as usize]
    }

    /// The node with this identity, added if unknown. Nodes are never removed: each has
    /// authenticated as a member of the group, so the group bounds their number.
    pub(crate) fn add_node(&mut self, id: NodeId, name: &str, now: Time) -> u32 {
        if let Some(index) = self.index(id) {
            return index;
        }
        let index = self.nodes.len() as u32;
        self.ids.insert(id, index);
        self.nodes.push(KnownNode {
            id,
            name: name.to_string(),
            up: false,
            heard: now,
            ports: BTreeMap::new(),
        });
        self.edges.add_list();
        self.outs.add_list();
        self.host_ports.push(Ports::default());
        index
    }

    /// Links, each with both ends.
    pub(crate) fn links(&self) -> impl Iterator<Item = Ends> + '_ {
        self.slots.iter().flatten().copied()
    }

    /// The numbers of the directed links.
    pub(crate) fn directed_links(&self) -> impl Iterator<Item = u32> + '_ {
        let slots = (0..).zip(&self.slots).filter(|(_, ends)| ends.is_some());
        slots.flat_map(|(slot, _)| [2 * slot, 2 * slot + 1])
    }

    /// How many link changes there have been.
    pub(crate) fn changes_made(&self) -> u64 {
        self.changes_made
    }

    /// The changes since there had been `made`; `None` if they are not all remembered.
    pub(crate) fn changes_since(&self, made: u64) -> Option<impl Iterator<Item = &LinkChange>> {
        let missed = (self.changes_made - made) as usize;
        Some(self.changes.range(self.changes.len().checked_sub(missed)?..))
    }

    /// The links that begin at a node, in the order of their ports.
    #[inline]
    pub(crate) fn edges(&self, node: u32) -> &[Edge] {
        self.edges.get(node)
    }

    /// The directed link that begins at `port` of `node`, and where it ends.
    #[inline]
    fn out(&self, node: u32, port: u8) -> Option<Out> {
        self.outs.get(node).get(usize::from(port)).copied().filter(|out| out.link != NONE)
    }

    fn set_out(&mut self, at: Place, out: Out) {
        let port = usize::from(at.port);
        for empty in self.outs.get(at.node).len()..=port {
            self.outs.insert(at.node, empty, Out { link: NONE, to: NONE });
        }
        self.outs.get_mut(at.node)[port] = out;
    }

    /// Follows a route: calls `on_link` with each link, and returns the place where the route
    /// leaves the fabric, or `None` if a hop names no link.
    pub(crate) fn walk(
        &self,
        from: u32,
        hops: &[u8],
        mut on_link: impl FnMut(u32),
    ) -> Option<Place> {
        let (&last, way) = hops.split_last()?;
        let mut node = from;
        for &hop in way {
            let out = self.out(node, hop)?;
            on_link(out.link);
            node = out.to;
        }
        Some(Place { node, port: last })
    }

    /// The way back from a route's end: the ports by which its frames come in, the last first, and
    /// then the port where it begins. `None` if a hop names no link.
    pub(crate) fn backwards(&self, from: Place, hops: &[u8]) -> Option<Vec<u8>> {
        let (_, way) = hops.split_last()?;
        let (mut node, mut back) = (from.node, vec![from.port]);
        for &hop in way {
            let edge = self.edges(node).iter().find(|edge| edge.port == hop)?;
            back.push(edge.peer_port);
            node = edge.to;
        }
        back.reverse();
        Some(back)
    }

    /// Whether a route leads through a node of which `is_it` is true, its last node included.
    pub(crate) fn nodes_on(&self, from: u32, hops: &[u8], is_it: impl Fn(u32) -> bool) -> bool {
        let mut node = from;
        let way = hops.split_last().map_or(&[][..], |(_, way)| way);
        way.iter().any(|hop| {
            let Some(out) = self.out(node, *hop) else { return false };
            node = out.to;
            is_it(node)
        })
    }

    /// Whether hosts are reachable there: the node is up and the port is a host port.
    pub(crate) fn is_host_port(&self, at: Place) -> bool {
        let ports = &self.host_ports[at.node as usize];
        ports[usize::from(at.port / 64)] >> (at.port % 64) & 1 == 1
    }

    /// Slots of the links that would not exist if the node's ports were these (none if it is down).
    pub(crate) fn losing(&self, node: u32, ports: &BTreeMap<u8, PortState>) -> Vec<u32> {
        let mut lost: Vec<u32> = self
            .edges(node)
            .iter()
            .filter(|edge| {
                let peer = self.node(edge.to).id;
                !ports.get(&edge.port).is_some_and(|p| leads_to(p, peer, edge.peer_port))
            })
            .map(|edge| edge.link / 2)
            .collect();
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    /// Removes links. Flows over them must have been released before.
    pub(crate) fn cut(&mut self, slots: &[u32]) {
        for &slot in slots {
            let Some(ends) = self.slots[slot as usize].take() else { continue };
            for (side, end) in ends.iter().enumerate() {
                self.set_out(*end, Out { link: NONE, to: NONE });
                self.edges.retain(end.node, |e| e.link != 2 * slot + side as u32);
            }
            self.free.push(slot);
            self.changed(LinkChange { ends: [ends[0].node, ends[1].node], added: false });
        }
    }

    /// Sets a node's ports and state, and adds the links that now exist; returns how many. Links
    /// that no longer exist must have been removed before.
    pub(crate) fn set_ports(
        &mut self,
        node: u32,
        ports: BTreeMap<u8, PortState>,
        up: bool,
    ) -> usize {
        let mut added = 0;
        for port in ports.values().filter(|p| up && p.role == PortRole::Fabric) {
            let here = Place { node, port: port.port };
            let Some(peer) = self.index(port.peer) else { continue };
            let there = Place { node: peer, port: port.peer_port };
            let id = self.node(node).id;
            let far = self.node(peer);
            let answered = far.up
                && peer != node
                && far.ports.get(&there.port).is_some_and(|p| leads_to(p, id, here.port));
            let is_free = |at: Place| self.out(at.node, at.port).is_none();
            if answered && is_free(here) && is_free(there) {
                self.add_link([here, there]);
                added += 1;
            }
        }
        let mut host_ports = Ports::default();
        for port in ports.values().filter(|p| up && p.role == PortRole::Host) {
            host_ports[usize::from(port.port / 64)] |= 1 << (port.port % 64);
        }
        self.host_ports[node as usize] = host_ports;
        let node = self.node_mut(node);
        node.ports = ports;
        node.up = up;
        added
    }

    fn add_link(&mut self, ends: Ends) {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot as usize] = Some(ends);
        for side in 0..2 {
            let (here, there) = (ends[side], ends[1 - side]);
            let link = 2 * slot + side as u32;
            self.set_out(here, Out { link, to: there.node });
            let edge = Edge { to: there.node, port: here.port, peer_port: there.port, link };
            let at = self.edges(here.node).partition_point(|e| e.port < here.port);
            self.edges.insert(here.node, at, edge);
        }
        self.changed(LinkChange { ends: [ends[0].node, ends[1].node], added: true });
    }

    fn changed(&mut self, change: LinkChange) {
        if self.changes.len() == CHANGES_KEPT {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.changes_made += 1;
    }
}

/// Whether a port is an authenticated fabric port whose cable leads there.
fn leads_to(port: &PortState, peer: NodeId, peer_port: u8) -> bool {
    port.role == PortRole::Fabric && port.peer == peer && port.peer_port == peer_port
}

#[cfg(test)]
pub(crate) mod tests;
