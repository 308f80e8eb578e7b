//! Answers of a fabric node's control plane to `plexus show`.

use std::sync::atomic::Ordering;

use plexus_api::answer::fabric::{
    Joined, Link, Links, Member, RouterCopy, SourceRoute, SourceRoutes, Station, Stations, Tree,
    Uplink,
};
use plexus_api::answer::node::Counts;
use plexus_wire::fabric::LINK_MTU_MIN;
use plexus_wire::fabric::message::HostState;

use super::Driver;

impl Driver {
    fn name(&self, port: u8) -> String {
        self.own.ports.get(usize::from(port)).map_or("?", |p| p.name.as_str()).to_string()
    }

    /// How fabric frames travel on a port, once it is proved; on a tunnel always by UDP.
    fn encapsulation(&self, port: u8) -> Option<&'static str> {
        let tunnel = self.own.ports.get(usize::from(port)).and_then(|p| p.tunnel);
        if tunnel.is_some() {
            return Some("udp");
        }
        self.node().neighbour(port)?;
        Some(if self.node().is_native(port) { "native" } else { "ethertype" })
    }

    /// The port's device; absent for a tunnel.
    fn device(&self, port: u8) -> Option<&str> {
        let known = self.own.ports.get(usize::from(port))?;
        known.tunnel.is_none().then_some(known.device.as_str())
    }

    /// The node's copy of the group's forwarding table.
    pub(crate) fn router_copy(&self) -> RouterCopy {
        let (version, routes_here) = self.node().routes_version();
        let has_controller = self.node().controller().0.is_some();
        RouterCopy { version, routes_here, has_controller }
    }

    /// Roles and neighbours of its ports.
    pub(crate) fn links(&self) -> Links {
        let (path, epoch) = self.node().controller();
        let ports = self.node().ports().into_iter().map(|p| Link {
            port: self.name(p.port),
            number: p.port,
            role: p.role,
            neighbour: self.node().neighbour(p.port).map(String::from),
            mac: p.mac,
            mtu: p.mtu,
            rate_mbit_per_s: p.rate_mbit_per_s,
            peer_port: p.peer_port,
            encapsulation: self.encapsulation(p.port).map(String::from),
            device: self.device(p.port).map(String::from),
            reason: self.node().reason(p.port),
            peer_mtu: self.node().peer(p.port).map(|at| at.mtu),
        });
        Links {
            controller: Uplink { path, epoch },
            lanes: self.own.fabric.plan().lanes().name().into(),
            ports: ports.collect(),
            mtu_min: LINK_MTU_MIN,
        }
    }

    /// Frames and messages that were not served, by reason.
    pub(crate) fn unserved(&self) -> Counts {
        let mut unserved = self.unserved.clone();
        let missed = self.own.missed.load(Ordering::Relaxed);
        unserved.extend((missed > 0).then(|| ("control_busy".to_string(), missed)));
        unserved
    }

    /// Stations on its host ports.
    pub(crate) fn stations(&self) -> Stations {
        let of = |s: HostState| Station { port: self.name(s.port), mac: s.mac, addresses: s.ips };
        Stations { hosts: self.node().stations().into_iter().map(of).collect() }
    }

    /// Multicast groups that stations have joined, and trees.
    pub(crate) fn joined(&self) -> Joined {
        let joined = self.node().group_members().into_iter();
        let joined = joined.map(|(p, mac, groups)| Member { port: self.name(p), mac, groups });
        let trees = self.node().trees().into_iter().map(|(tree, ports)| Tree {
            tree,
            ports: ports.into_iter().map(|p| self.name(p)).collect(),
        });
        Joined { joined: joined.collect(), trees: trees.collect() }
    }

    /// Its route memory.
    pub(crate) fn source_routes(&self) -> SourceRoutes {
        let routes = self.node().routes().into_iter().map(|r| SourceRoute {
            port: self.name(r.port),
            source: r.source,
            destination: r.destination,
            paths: r.routes,
            version: r.version,
        });
        SourceRoutes { routes: routes.collect() }
    }
}
