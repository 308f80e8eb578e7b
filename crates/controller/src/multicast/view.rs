//! Views of the trees, for `plexus show`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use plexus_wire::MacAddr;
use serde::{Deserialize, Serialize};

use crate::{Controller, NodeId};

/// The view of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// The group's Ethernet address.
    pub group: MacAddr,
    /// Its IP groups that hosts send to or have joined.
    pub ips: Vec<IpAddr>,
    /// The groups of hosts that its senders belong to.
    pub of: Vec<String>,
    /// The tree in use; absent: it is being installed.
    pub tree: Option<u32>,
    /// The senders that use it.
    pub senders: Vec<MacAddr>,
    /// Host ports that get copies.
    pub listeners: usize,
    /// Nodes on it and their ports.
    pub nodes: Vec<(NodeId, Vec<u8>)>,
}

impl Controller {
    /// The trees, in the order of their groups.
    pub fn group_trees(&self) -> impl Iterator<Item = GroupView> + '_ {
        self.multicast.trees.iter().map(|(key, tree)| {
            let of = [&self.multicast.senders, &self.multicast.listeners];
            let ips = of.into_iter().filter_map(|index| index.get(&key.group)).flatten();
            let ips: BTreeSet<IpAddr> = ips.map(|(_, ip)| *ip).collect();
            let (senders, _, _) = self.parties(key);
            let nodes = tree.used.iter().flat_map(|s| &s.shape.ports);
            GroupView {
                group: key.group,
                ips: ips.into_iter().collect(),
                of: key.class.iter().map(|g| self.groups.name(*g).to_string()).collect(),
                tree: tree.used.as_ref().map(|s| s.number),
                senders: senders.into_iter().map(|(_, mac)| mac).collect(),
                listeners: tree.listeners,
                nodes: nodes.map(|(n, p)| (self.id(*n), p.iter().copied().collect())).collect(),
            }
        })
    }
}
