//! Views of a node's state, for people and for its driver.

use std::net::IpAddr;

use plexus_wire::MacAddr;
use plexus_wire::fabric::message::{HostState, LinkFacts, PortRole, PortState, RouteEntry};

use super::Node;
use crate::link::Link;

impl Node {
    /// Every port's state, as reported to the controller.
    pub fn ports(&self) -> Vec<PortState> {
        self.links
            .iter()
            .map(|(&port, link)| {
                let facts = link.facts();
                let neighbour = link.neighbour();
                PortState {
                    port,
                    role: self.role(port),
                    mac: facts.map_or(MacAddr::default(), |f| f.mac),
                    mtu: facts.map_or(0, |f| f.mtu),
                    rate_mbit_per_s: facts.map_or(0, |f| f.rate_mbit_per_s),
                    peer: neighbour.map_or(0, |n| n.node),
                    peer_port: neighbour.map_or(0, |n| n.facts.port),
                }
            })
            .collect()
    }

    /// The name of a port's neighbour, once authenticated.
    pub fn neighbour(&self, port: u8) -> Option<&str> {
        self.link(port)?.neighbour().map(|n| n.name.as_str())
    }

    /// The neighbour's port, once proved.
    pub fn peer(&self, port: u8) -> Option<&LinkFacts> {
        self.link(port)?.neighbour().map(|n| &n.facts)
    }

    /// Why a port's role is what it is, where the cable alone does not explain it.
    pub fn reason(&self, port: u8) -> Option<String> {
        match (self.role(port), self.blocked.get(&port)) {
            (PortRole::Blocked, Some(why)) => Some(format!("closed by the controller: {why:?}")),
            _ => self.link(port)?.reason(),
        }
    }

    /// Whether frames on a port travel without an Ethernet header of the link, once authenticated.
    pub fn is_native(&self, port: u8) -> bool {
        self.link(port).is_some_and(Link::is_native)
    }

    /// The admitted stations.
    pub fn stations(&self) -> Vec<HostState> {
        self.stations.list()
    }

    /// The current route memory.
    pub fn routes(&self) -> Vec<RouteEntry> {
        self.resolver.routes()
    }

    /// The version of the group's routes that the node has, and whether it has all of them.
    pub fn routes_version(&self) -> (u64, bool) {
        self.routing.fib.version()
    }

    /// The multicast groups that stations have joined: port, station, groups.
    pub fn group_members(&self) -> Vec<(u8, MacAddr, Vec<IpAddr>)> {
        self.groups.list()
    }

    /// The trees that include the node, with their ports here.
    pub fn trees(&self) -> Vec<(u32, Vec<u8>)> {
        self.groups.trees()
    }

    /// The verified path to the controller, and its incarnation.
    pub fn controller(&self) -> (Option<Vec<u8>>, u64) {
        let beat = self.uplink.heartbeat();
        (beat.path, beat.epoch)
    }
}
