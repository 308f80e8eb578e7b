//! Views of the controller's state, for `plexus show`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use plexus_config::ControllerLimits;
use plexus_wire::fabric::message::{FibTarget, Hops, PortState};
use plexus_wire::{MacAddr, Prefix};
use serde::{Deserialize, Serialize};

use crate::record::Lease;
use crate::{Controller, NodeId};

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its identity.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// It has been heard recently.
    pub up: bool,
    /// The version of the protocol that it and the controller speak.
    pub version: u8,
    /// Its ports, as last reported.
    pub ports: Vec<PortState>,
}

/// A link: node and port of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LinkView {
    /// Its ends, the lower one first.
    pub ends: [(NodeId, u8); 2],
}

/// A station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostView {
    /// Its address.
    pub mac: MacAddr,
    /// Its node.
    pub node: NodeId,
    /// Its port.
    pub port: u8,
    /// Its IP addresses.
    pub ips: Vec<IpAddr>,
    /// The groups that it belongs to.
    pub groups: Vec<String>,
}

/// An entry of a node's route memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowView {
    /// The node.
    pub node: NodeId,
    /// The host port.
    pub port: u8,
    /// The station that uses it; absent: all stations of the port.
    pub source: Option<MacAddr>,
    /// The station that it leads to.
    pub destination: MacAddr,
    /// Orders changes.
    pub version: u64,
    /// The routes; none if there is no path.
    pub routes: Vec<Hops>,
}

/// Table sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes ever known.
    pub nodes: usize,
    /// Nodes heard recently.
    pub nodes_up: usize,
    /// Links between them.
    pub links: usize,
    /// Stations.
    pub hosts: usize,
    /// Entries of route memories.
    pub flows: usize,
    /// Flows without a path at present.
    pub flows_stranded: usize,
    /// Leases, valid or expired.
    pub leases: usize,
    /// Trees of multicast groups.
    pub trees: usize,
    /// How often a tree was compared with its senders and listeners.
    pub trees_considered: u64,
    /// Questions for addresses that it passed to the hosts' nodes, with their routes.
    pub questions: u64,
}

/// A class of packets that pass a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassView<'a> {
    /// Its name.
    pub name: &'a str,
    /// The functions' addresses, and the node and port where each is.
    pub functions: Vec<(IpAddr, Option<(NodeId, u8)>)>,
}

impl Controller {
    /// Version of the group's forwarding table, and how many routes it has.
    pub fn routes_version(&self) -> (u64, usize) {
        self.fib.version()
    }

    /// How many routes were refused because there were too many, and whether there still are.
    pub fn routes_refused(&self) -> (u64, bool) {
        self.fib.refused()
    }

    /// The limits in force.
    pub fn limits(&self) -> &ControllerLimits {
        &self.config.limits
    }

    /// The version of it that a node has, if it has told.
    pub fn routes_version_of(&self, node: NodeId) -> Option<u64> {
        self.topology.index(node).and_then(|index| self.fib.version_of(index))
    }

    /// How many routes a node is to have; `None`: it gets none.
    pub fn routes_of(&self, node: NodeId) -> Option<usize> {
        self.topology.index(node).and_then(|index| self.fib.routes_of(index))
    }

    /// Whether a node routes for others at present; `None`: it is no forwarder.
    pub fn forwards(&self, node: NodeId) -> Option<bool> {
        let index = self.topology.index(node)?;
        let is_one = !self.config.forwarders.is_empty() && self.is_forwarder(index);
        is_one.then(|| self.forwarders.is_ready(index))
    }

    /// The routes from a prefix on, in order.
    pub fn routes_from(&self, first: &Prefix) -> impl Iterator<Item = (Prefix, &FibTarget)> {
        self.fib.from(first)
    }

    /// Devices of routing daemons, and the node and port that each is cabled to.
    pub fn daemon_devices(&self) -> impl Iterator<Item = (&str, Option<(NodeId, u8)>)> {
        let devices = self.config.subnets.iter().filter_map(|s| s.device.as_deref());
        devices.collect::<BTreeSet<_>>().into_iter().map(|device| {
            let place = self.daemons.place(device);
            (device, place.map(|place| (self.id(place.node), place.port)))
        })
    }

    /// The classes of packets that pass a function.
    pub fn classes(&self) -> impl Iterator<Item = ClassView<'_>> {
        let place = |mac| self.hosts.get(mac).map(|host| (self.id(host.at.node), host.at.port));
        let there = move |ip: &IpAddr| (*ip, self.hosts.by_ip(*ip).and_then(place));
        self.config.classes.iter().map(move |class| ClassView {
            name: &class.name,
            functions: class.via.iter().map(there).collect(),
        })
    }

    /// Nodes with a session.
    pub fn nodes_up(&self) -> u32 {
        self.topology.nodes.iter().filter(|node| node.up).count() as u32
    }

    /// Table sizes.
    pub fn counts(&self) -> Counts {
        let (trees, trees_considered) = self.multicast.counts();
        Counts {
            nodes: self.topology.nodes.len(),
            nodes_up: self.topology.nodes.iter().filter(|n| n.up).count(),
            links: self.topology.links().count(),
            hosts: self.hosts.len(),
            flows: self.flows.len(),
            flows_stranded: self.flows.stranded.len(),
            leases: self.dhcp.leases().len(),
            trees,
            trees_considered,
            questions: self.exchanges.passed,
        }
    }

    /// This incarnation.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// All nodes ever known, in the order of their first session.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView> + '_ {
        self.topology.nodes.iter().zip(&self.sessions).map(|(n, session)| NodeView {
            node: n.id,
            name: n.name.clone(),
            up: n.up,
            version: session.version,
            ports: n.ports.values().cloned().collect(),
        })
    }

    /// The name of a node that is known.
    pub fn node_name(&self, id: NodeId) -> Option<&str> {
        Some(&self.topology.node(self.topology.index(id)?).name)
    }

    /// The drained nodes that are known, and how many flows still lead through each.
    pub fn drained(&self) -> Vec<(NodeId, usize)> {
        let through = |node: &u32| self.flows.through_drained(&self.topology, *node);
        let drained = self.flows.drained().iter();
        drained.map(|node| (self.id(*node), through(node))).collect()
    }

    /// All links, in order.
    pub fn links(&self) -> Vec<LinkView> {
        let view = |ends: [crate::topology::Place; 2]| {
            let mut ends = ends.map(|e| (self.id(e.node), e.port));
            ends.sort_unstable();
            LinkView { ends }
        };
        let mut links: Vec<LinkView> = self.topology.links().map(view).collect();
        links.sort_unstable();
        links
    }

    /// All stations, in the order of their addresses.
    pub fn hosts(&self) -> impl Iterator<Item = HostView> + '_ {
        self.hosts.iter().map(|(mac, host)| HostView {
            mac,
            node: self.id(host.at.node),
            port: host.at.port,
            ips: host.ips.clone(),
            groups: host.groups.iter().map(|g| self.groups.name(*g).to_string()).collect(),
        })
    }

    /// The names of the groups that hosts may belong to.
    pub fn group_names(&self) -> impl Iterator<Item = &str> {
        self.config.groups.iter().map(|group| group.name.as_str())
    }

    /// All flows, by node, port, source and destination.
    pub fn flows(&self) -> impl Iterator<Item = FlowView> + '_ {
        self.flows.iter().map(|(_, flow)| FlowView {
            node: self.id(flow.key.at.node),
            port: flow.key.at.port,
            source: flow.key.source,
            destination: flow.key.destination,
            version: flow.version,
            routes: flow.routes.to_hops(),
        })
    }

    /// All leases, valid or expired, by address.
    pub fn leases(&self) -> Vec<Lease> {
        self.dhcp.leases()
    }
}
