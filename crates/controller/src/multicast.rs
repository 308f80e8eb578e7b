//! Multicast groups: listeners, senders, and the trees that connect them (SPEC.md, 14).
//!
//! A tree connects the senders of one class, hosts that belong to the same groups of hosts, with
//! all listeners for which they may ask. It is a shortest-path tree over existing links from a
//! core, which the group's address selects among the listeners' nodes; a node's ports on it are
//! those with listeners behind them, for any sender. Trees are immutable. A replacement is
//! installed at every node, the heads (the senders' nodes) switch to it when all have acknowledged,
//! and the old tree is removed once no frame can be in flight on it.

mod build;
mod shape;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use plexus_config::{ControllerSettings, Members};
use plexus_wire::fabric::is_reserved_group;
use plexus_wire::fabric::message::{
    GroupMembership, GroupPolicy, GroupPrefix, GroupRoute, GroupSender, TreeEntry, TreeUpdate,
};
use plexus_wire::{MacAddr, Time};

use crate::Controller;
use crate::controller::Timer;
use crate::daemons::multicast_rules;
use crate::event::Drop;
use crate::scan::ms;
use crate::topology::Place;
use shape::Shape;
pub use view::GroupView;

/// An unused tree is kept this long for frames in flight.
const RETIRE_AFTER: Duration = Duration::from_secs(2);
/// Most groups in one message of a node.
const GROUPS_MAX: usize = 64;

/// The key of a tree: a group's Ethernet address, and the groups of hosts that its senders are in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    group: MacAddr,
    class: Vec<u16>,
}

/// A host at a place.
type Head = (Place, MacAddr);

#[derive(Clone, Debug, Default)]
pub(crate) struct Multicast {
    /// Groups joined by stations: version and groups.
    joined: BTreeMap<Place, BTreeMap<MacAddr, (u64, Vec<IpAddr>)>>,
    /// Groups sent to by stations, the latest last.
    sending: BTreeMap<Place, VecDeque<(MacAddr, IpAddr)>>,
    /// The same two by group.
    listeners: BTreeMap<MacAddr, BTreeSet<(Head, IpAddr)>>,
    senders: BTreeMap<MacAddr, BTreeSet<(Head, IpAddr)>>,
    trees: BTreeMap<Key, GroupTree>,
    /// By number: the key of a present or former tree.
    numbers: BTreeMap<u32, Key>,
    retiring: VecDeque<(Time, Standing)>,
    /// Trees to recompute; true: nodes may have lost a part, so the tree is replaced in any case.
    dirty: BTreeMap<Key, bool>,
    /// One of these cannot wait.
    urgent: bool,
    /// A timer is armed for the others.
    is_armed: bool,
    last: u32,
    /// Groups with trees of an earlier incarnation. They are left unchanged until all nodes have
    /// had time to report: a tree for half of the listeners would be worse than the old one.
    inherited: BTreeSet<MacAddr>,
    learn_until: Option<Time>,
    /// To be recomputed at that time.
    later: BTreeMap<Key, bool>,
    policy_version: u64,
    /// How often a tree was compared with its senders and listeners.
    considered: u64,
    adds: BTreeMap<u32, Vec<TreeEntry>>,
    removes: BTreeMap<u32, Vec<u32>>,
    routes: BTreeMap<u32, Vec<GroupRoute>>,
}

/// An installed tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    number: u32,
    shape: Shape,
}

#[derive(Clone, Debug, Default)]
struct GroupTree {
    used: Option<Standing>,
    /// The next tree, and the nodes that have not acknowledged it yet.
    coming: Option<(Standing, BTreeSet<u32>)>,
    /// What senders' nodes were last told.
    told: BTreeMap<Head, (u32, u8)>,
    listeners: usize,
    /// Every host is a listener.
    all: bool,
}

impl Multicast {
    /// The number of trees, and how often one was compared with its senders and listeners.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.trees.len(), self.considered)
    }

    pub(crate) fn new(epoch: u64) -> Multicast {
        // No number of another incarnation is reused before 4 million trees.
        Multicast { last: (epoch as u32) << 22, ..Multicast::default() }
    }

    fn next_number(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.numbers.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    /// The gathering time for changes is over.
    pub(crate) fn gathered(&mut self) {
        (self.is_armed, self.urgent) = (false, true);
    }

    /// All nodes have had time to report.
    pub(crate) fn learned(&mut self) {
        self.urgent = true;
        for (key, anew) in std::mem::take(&mut self.later) {
            self.mark(key, anew);
        }
    }

    fn mark(&mut self, key: Key, anew: bool) {
        *self.dirty.entry(key).or_default() |= anew;
    }

    /// The keys of all trees of a group.
    fn keys_of(&self, group: MacAddr) -> Vec<Key> {
        let from = Key { group, class: vec![] };
        let of_it = self.trees.range(from..).take_while(|(key, _)| key.group == group);
        of_it.map(|(key, _)| key.clone()).collect()
    }

    /// Groups that a station at a place has joined or sends to.
    fn groups_of(&self, (at, mac): Head) -> Vec<(MacAddr, bool)> {
        let joined = self.joined.get(&at).and_then(|s| s.get(&mac));
        let joined = joined.into_iter().flat_map(|(_, groups)| groups).map(|ip| (*ip, false));
        let sending = self.sending.get(&at).into_iter().flatten();
        let sending = sending.filter(|(sender, _)| *sender == mac).map(|(_, ip)| (*ip, true));
        joined
            .chain(sending)
            .filter_map(|(ip, sends)| Some((MacAddr::of_group(ip)?, sends)))
            .collect()
    }

    /// Sets the groups joined by a station at a place; returns those joined or left by the change.
    fn set_joined(&mut self, head: Head, version: u64, groups: Vec<IpAddr>) -> Vec<IpAddr> {
        let now: BTreeSet<IpAddr> = groups.iter().copied().collect();
        let stations = self.joined.entry(head.0).or_default();
        let before = stations.insert(head.1, (version, groups));
        let before: BTreeSet<IpAddr> = before.into_iter().flat_map(|(_, groups)| groups).collect();
        let changed: Vec<IpAddr> = before.symmetric_difference(&now).copied().collect();
        for ip in &changed {
            index(&mut self.listeners, head, *ip, now.contains(ip));
        }
        changed
    }

    /// Removes the groups joined and sent to by a station at a place.
    fn forget(&mut self, head: Head) {
        self.set_joined(head, 0, vec![]);
        if let Some(stations) = self.joined.get_mut(&head.0) {
            stations.remove(&head.1);
            if stations.is_empty() {
                self.joined.remove(&head.0);
            }
        }
        let Some(sending) = self.sending.get_mut(&head.0) else { return };
        for (_, ip) in sending.iter().filter(|(mac, _)| *mac == head.1) {
            index(&mut self.senders, head, *ip, false);
        }
        sending.retain(|(mac, _)| *mac != head.1);
        if sending.is_empty() {
            self.sending.remove(&head.0);
        }
    }
}

fn index(
    of: &mut BTreeMap<MacAddr, BTreeSet<(Head, IpAddr)>>,
    head: Head,
    ip: IpAddr,
    is_in: bool,
) {
    let Some(group) = MacAddr::of_group(ip) else { return };
    let heads = of.entry(group).or_default();
    if is_in {
        heads.insert((head, ip));
    } else {
        heads.remove(&(head, ip));
    }
    if heads.is_empty() {
        of.remove(&group);
    }
}

/// The members of a group, if it is served.
fn served(config: &ControllerSettings, group: IpAddr) -> Option<Members> {
    if !group.is_multicast() || is_reserved_group(group) {
        return None;
    }
    multicast_rules(config).find(|r| r.groups.contains(group)).map(|r| r.members)
}

impl Controller {
    /// Sends a node the settings that it needs.
    pub(crate) fn send_settings(&mut self, node: u32) {
        let version = self.multicast.policy_version;
        let prefixes = multicast_rules(&self.config).map(|r| GroupPrefix {
            ip: r.groups.addr(),
            prefix_len: r.groups.len(),
            joined: r.members == Members::Joined,
        });
        let prefixes = prefixes.collect();
        self.send_reliably(node, 0, GroupPolicy { version, prefixes });
    }

    /// The settings are in force, initially or after a change.
    pub(crate) fn set_group_policy(&mut self) {
        self.multicast.policy_version = self.flows.next_version();
        self.touch_all_groups();
    }

    /// A node's session is new: the node may have restarted.
    pub(crate) fn groups_of_node_up(&mut self, node: u32) {
        self.send_settings(node);
        let first = Place { node, port: 0 };
        let last = Place { node, port: u8::MAX };
        for stations in self.multicast.joined.range_mut(first..=last).map(|(_, s)| s) {
            stations.values_mut().for_each(|(version, _)| *version = 0);
        }
        let mut marked = Vec::new();
        for (key, tree) in &mut self.multicast.trees {
            tree.told.retain(|(at, _), _| at.node != node);
            let standing = tree.used.iter().chain(tree.coming.as_ref().map(|(s, _)| s));
            if standing.into_iter().any(|s| s.shape.ports.contains_key(&node)) {
                marked.push(key.clone());
            }
        }
        marked.into_iter().for_each(|key| self.multicast.mark(key, true));
    }

    /// A node has reported its ports: starts the expiry of what an earlier incarnation left there.
    pub(crate) fn arm_earlier(&mut self, now: Time, node: u32) {
        let learned = now + ms(self.config.limits.settle_ms);
        self.multicast.learn_until.get_or_insert(learned);
        // Their replacements are in use by then.
        self.rearm(Some(learned + RETIRE_AFTER), Timer::Earlier(node));
    }

    pub(crate) fn end_earlier(&mut self, node: u32) {
        let update = TreeUpdate { earlier: true, add: vec![], remove: vec![] };
        self.send_reliably(node, 0, update);
    }

    pub(crate) fn touch_all_groups(&mut self) {
        let keys: Vec<Key> = self.multicast.trees.keys().cloned().collect();
        keys.into_iter().for_each(|key| self.multicast.mark(key, false));
        // Senders without a tree may get one.
        let heads: Vec<(MacAddr, Head)> = self
            .multicast
            .senders
            .iter()
            .flat_map(|(group, heads)| heads.iter().map(|(head, _)| (*group, *head)))
            .collect();
        heads.into_iter().for_each(|(group, head)| self.mark_sender(group, head));
    }

    /// Links were lost: the trees that used them are repaired at once.
    pub(crate) fn groups_lost_links(&mut self, slots: &[u32]) {
        let broken = self.multicast.trees.iter().filter(|(_, tree)| {
            let standing = tree.used.iter().chain(tree.coming.as_ref().map(|(s, _)| s));
            standing.into_iter().any(|s| slots.iter().any(|slot| s.shape.links.contains(slot)))
        });
        let broken: Vec<Key> = broken.map(|(key, _)| key.clone()).collect();
        for key in broken {
            self.multicast.mark(key, false);
            self.multicast.urgent = true;
        }
    }

    fn mark_sender(&mut self, group: MacAddr, (at, mac): Head) {
        if let Some(host) = self.hosts.get(mac).filter(|h| h.at == at) {
            let class = host.groups.clone();
            self.multicast.mark(Key { group, class }, false);
        }
    }

    /// A station has appeared, or its groups have changed.
    pub(crate) fn groups_touch(&mut self, mac: MacAddr, at: Place) {
        if multicast_rules(&self.config).next().is_none() && self.multicast.trees.is_empty() {
            return;
        }
        for (group, sends) in self.multicast.groups_of((at, mac)) {
            for key in self.multicast.keys_of(group) {
                self.multicast.mark(key, false);
            }
            if sends {
                self.mark_sender(group, (at, mac));
            }
        }
        let all = self.multicast.trees.iter().filter(|(_, tree)| tree.all);
        let all: Vec<Key> = all.map(|(key, _)| key.clone()).collect();
        all.into_iter().for_each(|key| self.multicast.mark(key, false));
    }

    /// A station has left a place. The node may have removed its port from the trees.
    pub(crate) fn groups_leave(&mut self, mac: MacAddr, from: Place) {
        let on_port = self.multicast.trees.iter().filter(|(_, tree)| {
            let standing = tree.used.iter().chain(tree.coming.as_ref().map(|(s, _)| s));
            let has = |s: &Standing| {
                s.shape.ports.get(&from.node).is_some_and(|p| p.contains(&from.port))
            };
            standing.into_iter().any(has) || tree.told.contains_key(&(from, mac))
        });
        let on_port: Vec<Key> = on_port.map(|(key, _)| key.clone()).collect();
        on_port.into_iter().for_each(|key| self.multicast.mark(key, true));
        self.multicast.forget((from, mac));
    }

    pub(crate) fn group_membership(&mut self, node: u32, said: GroupMembership) {
        let at = Place { node, port: said.port };
        let limits = self.config.limits;
        let GroupMembership { mac, version, mut groups, .. } = said;
        let known = self.multicast.joined.get(&at);
        let stations = known.map_or(0, BTreeMap::len);
        let before = known.and_then(|s| s.get(&mac));
        if before.is_some_and(|(newest, _)| *newest > version) {
            return;
        }
        let elsewhere = |(other, (_, groups)): (&MacAddr, &(u64, Vec<IpAddr>))| {
            if *other == mac { 0 } else { groups.len() }
        };
        let others: usize = known.into_iter().flatten().map(elsewhere).sum();
        let room = (limits.groups_per_port as usize).saturating_sub(others).min(GROUPS_MAX);
        let is_new = before.is_none();
        // The last report of a station that has left; for a present station it is stored.
        if is_new && groups.is_empty() && self.hosts.get(mac).is_none_or(|h| h.at != at) {
            return;
        }
        let all = groups.len();
        groups.retain(|ip| served(&self.config, *ip) == Some(Members::Joined));
        if groups.len() < all {
            self.dropped(Drop::GroupNotServed);
        }
        if groups.len() > room || is_new && stations >= limits.stations_per_port as usize {
            self.dropped(Drop::TooManyGroups);
            groups.truncate(if is_new && stations >= limits.stations_per_port as usize {
                0
            } else {
                room
            });
            if is_new && groups.is_empty() {
                return;
            }
        }
        // Only the changed groups are examined: a host that repeats its report costs nothing,
        // however many groups it has joined.
        let changed = self.multicast.set_joined((at, mac), version, groups);
        for group in changed.into_iter().filter_map(MacAddr::of_group) {
            for key in self.multicast.keys_of(group) {
                self.multicast.mark(key, false);
            }
            // Senders have no tree while there are no listeners.
            let heads = self.multicast.senders.get(&group).into_iter().flatten();
            let heads: Vec<Head> = heads.map(|(head, _)| *head).collect();
            heads.into_iter().for_each(|head| self.mark_sender(group, head));
        }
    }

    pub(crate) fn group_sender(&mut self, node: u32, said: &GroupSender) {
        let at = Place { node, port: said.port };
        let Some(group) = MacAddr::of_group(said.group) else {
            return self.dropped(Drop::GroupNotServed);
        };
        if served(&self.config, said.group).is_none() {
            return self.dropped(Drop::GroupNotServed);
        }
        let head = (at, said.mac);
        let limit = self.config.limits.senders_per_port as usize;
        let sending = self.multicast.sending.entry(at).or_default();
        if !sending.contains(&(said.mac, said.group)) {
            sending.push_back((said.mac, said.group));
            let room = (sending.len() > limit).then(|| sending.pop_front()).flatten();
            index(&mut self.multicast.senders, head, said.group, true);
            if let Some((mac, ip)) = room {
                index(&mut self.multicast.senders, (at, mac), ip, false);
                let old = MacAddr::of_group(ip).map(|g| self.multicast.keys_of(g));
                old.into_iter().flatten().for_each(|key| self.multicast.mark(key, false));
                self.dropped(Drop::TooManyGroups);
            }
        }
        if said.tree.is_some() {
            // A node may report any number of groups: beyond the limit of trees the report is
            // false.
            if self.multicast.inherited.len() < self.config.limits.trees as usize {
                self.multicast.inherited.insert(group);
            }
            return self.mark_sender(group, head);
        }
        // The node has no route, whatever it was sent.
        for key in self.multicast.keys_of(group) {
            if let Some(tree) = self.multicast.trees.get_mut(&key) {
                tree.told.remove(&head);
            }
        }
        self.mark_sender(group, head);
        // A frame waits.
        self.multicast.urgent = true;
    }
}

#[cfg(test)]
mod tests;
