//! The controller's own routes to the nodes.

use plexus_wire::Time;
use plexus_wire::fabric::message::Hops;

use crate::flows::HOPS_MAX;
use crate::topology::{Place, Topology};
use crate::trees::{FAR, Trees};
use crate::{Controller, NodeId};

/// The hop that names a node's control plane.
pub(crate) const CONTROL_PLANE: u8 = 0xFF;

#[derive(Clone, Debug, Default)]
pub(crate) struct ControlPaths {
    attached: Option<u32>,
    /// By node, as reported to the driver.
    paths: Vec<Option<Hops>>,
    /// The number of link changes accounted for, and the attachment for which the paths were
    /// computed.
    judged: Option<(u64, Option<u32>, usize)>,
}

impl ControlPaths {
    /// Whether the controller is cabled to a node.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// A predicate: whether the controller had a path to a node at the end of the last input.
    pub(crate) fn reach(&self) -> impl Fn(u32) -> bool + '_ {
        |node| self.paths.get(node as usize).is_some_and(Option::is_some)
    }

    /// The paths that have changed, in the order of nodes.
    pub(crate) fn refresh(
        &mut self,
        topology: &Topology,
        trees: &mut Trees,
    ) -> Vec<(u32, Option<Hops>)> {
        let judged = (topology.changes_made(), self.attached, topology.nodes.len());
        let before = self.judged.replace(judged);
        if before == Some(judged) {
            return Vec::new();
        }
        // Unless links were removed, a path of the right length is still valid.
        let only_grown = before.is_some_and(|(made, attached, _)| {
            let mut changes = topology.changes_since(made);
            attached == self.attached
                && changes.as_mut().is_some_and(|changes| changes.all(|c| c.added))
        });
        self.paths.resize(topology.nodes.len(), None);
        let distance = self.attached.map(|at| (at, trees.to(topology, at)));
        let mut changed = Vec::new();
        for (node, path) in self.paths.iter_mut().enumerate() {
            let place = Place { node: node as u32, port: CONTROL_PLANE };
            let fresh = distance.and_then(|(attached, distance)| {
                let links = distance[node];
                if links == FAR || usize::from(links) + 1 > HOPS_MAX {
                    return None;
                }
                let kept = path.as_ref().filter(|hops| {
                    hops.len() == usize::from(links) + 1
                        && (only_grown || topology.walk(attached, hops, |_| {}) == Some(place))
                });
                Some(kept.cloned().unwrap_or_else(|| way_back(topology, distance, place.node)))
            });
            if *path != fresh {
                path.clone_from(&fresh);
                changed.push((place.node, fresh));
            }
        }
        changed
    }
}

/// The path to `node` from the node at distance 0: links may be used in both directions.
pub(crate) fn way_back(topology: &Topology, distance: &[u8], node: u32) -> Hops {
    let mut hops = vec![CONTROL_PLANE];
    let mut at = node;
    while distance[at as usize] > 0 {
        let next = distance[at as usize] - 1;
        let edges = topology.edges(at);
        let Some(edge) = edges.iter().find(|e| distance[e.to as usize] == next) else { break };
        hops.push(edge.peer_port);
        at = edge.to;
    }
    hops.reverse();
    hops
}

impl Controller {
    pub(crate) fn attached(&mut self, now: Time, to: Option<NodeId>) {
        // The cable may be known before its node's session: the name comes with the session.
        let before = self.control.attached;
        self.control.attached = to.map(|id| self.known_node(now, id, ""));
        if self.control.attached != before {
            self.touch_all_groups();
        }
    }
}
