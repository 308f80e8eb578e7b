//! What the group's router does with packets to an address, and which boxes they pass: for
//! `plexus show route`.

use std::net::IpAddr;

use plexus_config::SUBNET_MTU;
use plexus_control::router::Route;
use plexus_control::router::show::Standing;
use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::{MacAddr, Prefix};

use crate::topology::Place;
use crate::{Controller, NodeId};

/// Most paths to one neighbour that are listed.
const PATHS_MAX: usize = 256;

/// The group's action on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// There is no route: the sender is told.
    NoRoute,
    /// They are for the group itself.
    Own,
    /// They are for all hosts of a subnet, and are not forwarded.
    Broadcast,
    /// They go to the station that has the address.
    Deliver,
    /// They go to hosts that lead to their network.
    Forward,
    /// They are dropped in silence.
    Blackhole,
    /// They are dropped; the sender is told that the destination is unreachable.
    Unreachable,
    /// They are dropped; the sender is told that the destination is prohibited.
    Prohibited,
}

/// A route of the group, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayView {
    /// The prefix that decides, if there is one.
    pub prefix: Option<Prefix>,
    /// The action.
    pub action: Action,
    /// Those to whom packets go.
    pub neighbours: Vec<NeighbourView>,
}

/// A neighbour of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourView {
    /// Its address.
    pub address: IpAddr,
    /// Its share of the flows, relative to the others'.
    pub weight: u8,
    /// The longest IP packet that it takes, in bytes.
    pub mtu: u16,
    /// Its station, node and port, if it has been found.
    pub station: Option<(MacAddr, NodeId, u8)>,
    /// The paths that hosts' nodes have to it.
    pub paths: Vec<PathView>,
    /// Paths that are not listed.
    pub more: usize,
}

/// A path through the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathView {
    /// The host that uses it; absent: all hosts of the first port.
    pub from: Option<MacAddr>,
    /// Each box, with the port by which packets come in and that by which they leave.
    pub boxes: Vec<(NodeId, u8, u8)>,
}

/// A path of a host's flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPath {
    /// The path.
    pub path: PathView,
    /// The station that it leads to.
    pub to: MacAddr,
}

impl Controller {
    /// The paths of flows from a station, to one, or from one to another: at most as many as
    /// [`PATHS_MAX`], and how many more there are.
    pub fn host_paths(&self, from: Option<MacAddr>, to: Option<MacAddr>) -> (Vec<HostPath>, usize) {
        let place = |mac: MacAddr| self.hosts.get(mac).map(|host| host.at);
        let ids = match (from, to) {
            (Some(from), _) => place(from).map(|at| self.flows.of(at, from)),
            (None, Some(to)) => place(to).map(|at| self.flows.towards(at.node, to)),
            (None, None) => None,
        };
        let flows = ids.unwrap_or_default().into_iter().filter_map(|id| self.flows.get(id));
        let flows = flows.filter(|flow| to.is_none_or(|to| flow.key.destination == to));
        let mut paths = flows.flat_map(|flow| {
            let routes = flow.routes.to_hops().into_iter();
            routes.filter_map(|hops| {
                let boxes = self.boxes(flow.key.at, &hops)?;
                let path = PathView { from: flow.key.source, boxes };
                Some(HostPath { path, to: flow.key.destination })
            })
        });
        (paths.by_ref().take(PATHS_MAX).collect(), paths.count())
    }

    /// Whether any subnet has a gateway, so that the group routes.
    pub fn is_router(&self) -> bool {
        self.config.subnets.iter().any(|s| s.gateway.is_some())
    }

    /// The group's action on packets to an address.
    pub fn way(&self, address: IpAddr) -> WayView {
        let router = self.fib.router();
        let none = WayView { prefix: None, action: Action::NoRoute, neighbours: Vec::new() };
        let Some((prefix, _)) = router.lookup(address) else { return none };
        let routes = router.routes(&prefix).map(|view| view.routes).unwrap_or_default();
        let used = routes.into_iter().find(|route| route.standing == Standing::InUse);
        let Some(used) = used else { return none };
        let (action, hops) = match used.route {
            Route::Via(hops) if hops.iter().all(|hop| hop.gateway.is_none()) => {
                (Action::Deliver, vec![(address, 1)])
            }
            Route::Via(hops) => {
                let hops = hops.iter().filter_map(|hop| Some((hop.gateway?, hop.weight)));
                (Action::Forward, hops.collect())
            }
            Route::Local => (Action::Own, Vec::new()),
            Route::Broadcast => (Action::Broadcast, Vec::new()),
            Route::Blackhole => (Action::Blackhole, Vec::new()),
            Route::Unreachable => (Action::Unreachable, Vec::new()),
            Route::Prohibited => (Action::Prohibited, Vec::new()),
        };
        let neighbours = hops.into_iter().map(|(address, weight)| self.neighbour(address, weight));
        WayView { prefix: Some(prefix), action, neighbours: neighbours.collect() }
    }

    fn neighbour(&self, address: IpAddr, weight: u8) -> NeighbourView {
        let subnets = self.config.subnets.iter().filter(|s| s.prefix.contains(address));
        let subnet = subnets.max_by_key(|s| s.prefix.len());
        let mac = self.hosts.by_ip(address);
        let at = mac.and_then(|mac| Some((mac, self.hosts.get(mac)?.at)));
        let flows = at.map(|(mac, at)| self.flows.towards(at.node, mac)).unwrap_or_default();
        let flows = flows.into_iter().filter_map(|id| self.flows.get(id));
        let mut paths = flows.flat_map(|flow| {
            let routes = flow.routes.to_hops().into_iter();
            routes.filter_map(|hops| {
                let mut boxes = self.boxes(flow.key.at, &hops)?;
                if flow.key.at.port == ROUTER_HOP {
                    boxes = self.with_front(flow.key.source, flow.key.at, boxes);
                }
                Some(PathView { from: flow.key.source, boxes })
            })
        });
        NeighbourView {
            address,
            weight,
            mtu: subnet.map_or(SUBNET_MTU, |s| s.longest_packet()),
            station: at.map(|(mac, at)| (mac, self.id(at.node), at.port)),
            paths: paths.by_ref().take(PATHS_MAX).collect(),
            more: paths.count(),
        }
    }

    /// The boxes from a forwarder on, with those before it: from the host's port to its router.
    fn with_front(
        &self,
        host: Option<MacAddr>,
        forwarder: Place,
        boxes: Vec<(NodeId, u8, u8)>,
    ) -> Vec<(NodeId, u8, u8)> {
        let front = host.and_then(|host| self.hosts.get(host)).and_then(|host| {
            let mut ways = self.forwarders.told_to(host.at.node).iter();
            let is_to =
                |way: &&Vec<u8>| self.topology.walk(host.at.node, way, |_| {}) == Some(forwarder);
            self.boxes(host.at, ways.find(is_to)?)
        });
        let Some(mut all) = front else { return boxes };
        // The forwarder ends the one and begins the other.
        if let (Some(end), Some((_, _, out))) = (all.last_mut(), boxes.first()) {
            end.2 = *out;
        }
        all.extend(boxes.into_iter().skip(1));
        all
    }

    /// The boxes on a path from a host's port; `None` if a hop has no link.
    fn boxes(&self, from: Place, hops: &[u8]) -> Option<Vec<(NodeId, u8, u8)>> {
        let (&last, way) = hops.split_last()?;
        let (mut at, mut boxes) = (from, Vec::with_capacity(hops.len()));
        for &hop in way {
            boxes.push((self.id(at.node), at.port, hop));
            let edge = self.topology.edges(at.node).iter().find(|edge| edge.port == hop)?;
            at = Place { node: edge.to, port: edge.peer_port };
        }
        boxes.push((self.id(at.node), at.port, last));
        Some(boxes)
    }
}
