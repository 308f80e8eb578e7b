//! The controllers that stand by, as the leader tells them to the nodes: each node is told the ways
//! to them, and whether they may be asked.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_control::version;
use plexus_wire::Time;
use plexus_wire::fabric::message::{Hops, PortRole, STANDBYS_MAX, Standby, Standbys as Told};

use crate::control::{CONTROL_PLANE, way_back};
use crate::controller::Timer;
use crate::flows::HOPS_MAX;
use crate::follow::Others;
use crate::topology::{Place, Topology};
use crate::trees::FAR;
use crate::{Controller, NodeId};

/// Changes of the topology are gathered for this long: nothing waits for a way to a standby.
const GATHER: Duration = Duration::from_millis(200);

/// The ways that a node was told: by the standby's number.
type Ways = BTreeMap<NodeId, (bool, Hops)>;

/// The others, as the leader knows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standbys {
    /// Absent: there is one controller.
    others: Option<Others>,
    /// Where their ports are.
    places: BTreeMap<NodeId, Place>,
    /// By node.
    told: Vec<Option<Ways>>,
    version: u64,
    /// The changes of links that the ways account for.
    judged: u64,
    is_armed: bool,
}

impl Standbys {
    /// Those that may answer: alive, with our settings, and cabled to a node; each with the number
    /// of times that it has begun to follow.
    fn that_answer(&self) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        let others = self.others.iter().flatten();
        let able = others.filter(|(number, other)| other.is_alike && self.is_placed(**number));
        able.map(|(number, other)| (*number, other.follows))
    }

    fn is_placed(&self, number: NodeId) -> bool {
        self.places.contains_key(&number)
    }
}

impl Controller {
    /// The others that are alive have changed, or their settings, or ours.
    pub(crate) fn others(&mut self, now: Time, others: Others) {
        let before: Vec<(NodeId, u32)> = self.standbys.that_answer().collect();
        self.standbys.others = Some(others);
        self.place_standbys();
        self.standbys_changed(now, &before);
    }

    /// Finds the ports of controllers anew.
    pub(crate) fn place_standbys(&mut self) {
        let mut places = BTreeMap::new();
        for (node, index) in self.topology.nodes.iter().zip(0..).filter(|(node, _)| node.up) {
            let of_controllers = node.ports.values().filter(|p| p.role == PortRole::Controller);
            places.extend(of_controllers.map(|p| (p.peer, Place { node: index, port: p.port })));
        }
        self.standbys.places = places;
    }

    /// A node's session has begun: it may know of none, or of those of before.
    pub(crate) fn standbys_of_node_up(&mut self, now: Time, node: u32) {
        if let Some(told) = self.standbys.told.get_mut(node as usize) {
            *told = None;
        }
        if self.standbys.others.is_some() {
            self.arm_standbys(now);
        }
    }

    /// A node's ports have changed.
    pub(crate) fn standbys_at(&mut self, now: Time, node: u32) {
        if self.standbys.others.is_none() {
            return;
        }
        let had_one = self.standbys.places.values().any(|place| place.node == node);
        let ports = &self.topology.node(node).ports;
        if had_one || ports.values().any(|p| p.role == PortRole::Controller) {
            let before: Vec<(NodeId, u32)> = self.standbys.that_answer().collect();
            self.place_standbys();
            self.standbys_changed(now, &before);
        }
    }

    fn standbys_changed(&mut self, now: Time, before: &[(NodeId, u32)]) {
        let has_lost_one = before.iter().any(|b| !self.standbys.that_answer().any(|s| s == *b));
        if has_lost_one {
            // Nobody looks after the routes that it has told: the nodes report theirs at their
            // next Hello, within a second.
            self.sessions.iter_mut().for_each(|session| session.report_flows());
        }
        self.standbys.judged = u64::MAX;
        self.arm_standbys(now);
    }

    fn arm_standbys(&mut self, now: Time) {
        if !std::mem::replace(&mut self.standbys.is_armed, true) {
            self.arm(now + GATHER, Timer::Standbys);
        }
    }

    /// Nodes are to be told of the standbys soon, if anything has changed for them.
    pub(crate) fn follow_standbys(&mut self, now: Time) {
        if self.standbys.others.is_some() && self.standbys.judged != self.topology.changes_made() {
            self.arm_standbys(now);
        }
    }

    /// Tells each node what is new for it.
    pub(crate) fn tell_standbys(&mut self) {
        self.standbys.is_armed = false;
        self.standbys.judged = self.topology.changes_made();
        let nodes = self.topology.nodes.len();
        let mut all = vec![Ways::new(); nodes];
        for (&number, other) in self.standbys.others.iter().flatten().take(STANDBYS_MAX) {
            let Some(&place) = self.standbys.places.get(&number) else { continue };
            let distance = self.flows.trees.to(&self.topology, place.node);
            for (node, ways) in all.iter_mut().enumerate() {
                let told = self.standbys.told.get(node).and_then(Option::as_ref);
                let known = told.and_then(|ways| ways.get(&number)).map(|(_, hops)| hops);
                let way = way_to(&self.topology, distance, node as u32, place, known);
                ways.extend(way.map(|hops| (number, (other.is_alike, hops))));
            }
        }
        self.standbys.told.resize(nodes, None);
        self.standbys.version += 1;
        let told_as = self.epoch << 32 | self.standbys.version;
        for (node, ways) in all.into_iter().enumerate() {
            let told = &mut self.standbys.told[node];
            let session = &self.sessions[node];
            let may_hear = session.is_open && session.version >= version::STANDBYS;
            if told.as_ref() == Some(&ways) || !may_hear {
                continue;
            }
            *told = Some(ways.clone());
            let one = |(controller, (answers, path))| Standby { controller, answers, path };
            let standbys = ways.into_iter().map(one).collect();
            self.send_reliably(node as u32, 0, Told { version: told_as, standbys });
        }
    }
}

/// The path from a node to a controller's port, as before if that still leads there and is as
/// short.
fn way_to(
    topology: &Topology,
    distance: &[u8],
    node: u32,
    to: Place,
    known: Option<&Hops>,
) -> Option<Hops> {
    let links = distance[node as usize];
    let len = usize::from(links) + 2;
    if links == FAR || len > HOPS_MAX {
        return None;
    }
    let leads = |hops: &&Hops| {
        let way = hops.split_last().map_or(&[][..], |(_, way)| way);
        hops.len() == len && topology.walk(node, way, |_| {}) == Some(to)
    };
    if let Some(known) = known.filter(leads) {
        return Some(known.clone());
    }
    let mut hops = topology.backwards(to, &way_back(topology, distance, node))?;
    hops.push(CONTROL_PLANE);
    Some(hops)
}
