//! Multicast groups of hosts (SPEC.md, 14): members, learned by IGMP and MLD; senders; and the
//! trees along which the data plane copies their frames, as the controller sets them.
//!
//! Only admitted stations can be members. The node queries its hosts in the group's name for their
//! multicast groups, as a router would (RFC 3376, 6; RFC 3810, 7), and expires members that do not
//! answer. A sender's first frame waits for its tree.

mod query;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use plexus_wire::fabric::is_reserved_group;
use plexus_wire::fabric::message::{
    GroupMembership, GroupPolicy, GroupPrefix, GroupRoute, GroupSender, PortRole, TreeUpdate,
    TreesReady,
};
use plexus_wire::{MacAddr, Prefix, Time};

use super::effect::{Effect, Sender, Timer, Turn, Unserved};
use super::stations::Group;
use query::{igmp_query, mld_query};

/// Most groups of one station: as many as one message holds.
const GROUPS_MAX: usize = 64;
/// Most memberships at one port.
const MEMBERS_MAX: usize = 256;
/// Most senders at one port that wait for a tree.
const ASKED_MAX: usize = 64;
/// Removed tree numbers that are remembered.
const REMOVED_MAX: usize = 256;
/// Time between general queries (RFC 3376, 8.2).
const QUERY_EVERY: Duration = Duration::from_secs(125);
/// A member not heard for this long has expired (RFC 3376, 8.4).
const MEMBER_FOR: Duration = Duration::from_secs(260);
/// The same for one that sent a Leave (RFC 3376, 8.8).
const LEAVING_FOR: Duration = Duration::from_secs(2);
/// How long a sender's first frame waits, and until the controller is asked again.
const ASKED_FOR: Duration = Duration::from_secs(1);
/// How long the version of an ended route is remembered: no older message of the controller is in
/// flight for longer.
const ENDED_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Groups {
    policy: Policy,
    /// The groups of each station, and when they expire.
    members: BTreeMap<u8, BTreeMap<MacAddr, BTreeMap<IpAddr, Time>>>,
    /// Senders without a tree yet, and the frame that waits for it.
    asked: BTreeMap<Sender, Option<Vec<u8>>>,
    ways: BTreeMap<Sender, Way>,
    trees: BTreeMap<u32, Tree>,
    /// With their epochs: numbers repeat.
    removed: VecDeque<(u64, u32)>,
    /// The node and port that a fabric port last led to.
    peers: BTreeMap<u8, (u64, u8)>,
    /// Version of the last GroupMembership.
    version: u64,
}

#[derive(Debug, Default)]
struct Policy {
    version: u64,
    prefixes: Vec<GroupPrefix>,
}

/// A sender's route from the controller; without a tree it is kept to compare versions.
#[derive(Debug)]
struct Way {
    group: Option<IpAddr>,
    version: u64,
    tree: Option<u32>,
    credits: u8,
}

/// A tree as set by the controller.
#[derive(Debug)]
struct Tree {
    epoch: u64,
    ports: Vec<u8>,
}

impl Groups {
    /// Whether a group is served, and if so, whether its members must have joined.
    pub(crate) fn served(&self, group: IpAddr) -> Option<bool> {
        let covers =
            |p: &&GroupPrefix| Prefix::around(p.ip, p.prefix_len).is_ok_and(|p| p.contains(group));
        let rule = self.policy.prefixes.iter().find(covers);
        rule.filter(|_| !is_reserved_group(group)).map(|p| p.joined)
    }

    fn asks(&self, v4: bool) -> bool {
        self.policy.prefixes.iter().any(|p| p.joined && p.ip.is_ipv4() == v4)
    }

    /// The controller set which groups are served.
    pub(crate) fn set_policy(
        &mut self,
        turn: &mut Turn<'_>,
        policy: GroupPolicy,
        group: Option<&Group>,
        roles: &BTreeMap<u8, PortRole>,
    ) {
        if policy.version < self.policy.version {
            return;
        }
        let before = std::mem::take(&mut self.policy.prefixes);
        self.policy = Policy { version: policy.version, prefixes: policy.prefixes };
        if self.policy.prefixes == before {
            return;
        }
        for (port, mac, groups) in self.list() {
            let gone = groups.into_iter().filter(|g| self.served(*g) != Some(true));
            let gone: Vec<IpAddr> = gone.collect();
            if !gone.is_empty() {
                gone.into_iter().for_each(|g| self.drop_member(turn, port, mac, g));
                self.say(turn, port, mac);
            }
        }
        turn.timers.cancel(Timer::Query);
        if self.asks(true) || self.asks(false) {
            self.query_all(turn, group, roles);
        }
    }

    /// A station was admitted: its groups should be known soon.
    pub(crate) fn admitted(&self, turn: &mut Turn<'_>, port: u8, group: Option<&Group>) {
        self.query(turn, port, None, 1, group);
    }

    /// Queries a port's hosts for all their groups, or for one; hosts answer within `seconds`.
    fn query(
        &self,
        turn: &mut Turn<'_>,
        port: u8,
        which: Option<IpAddr>,
        seconds: u8,
        group: Option<&Group>,
    ) {
        let Some(group) = group else { return };
        let mut ask = |frame| turn.host(port, frame);
        match which {
            Some(IpAddr::V4(ip)) => ask(igmp_query(group, ip, seconds)),
            Some(IpAddr::V6(ip)) => ask(mld_query(group, ip, seconds)),
            None => {
                if self.asks(true) {
                    ask(igmp_query(group, Ipv4Addr::UNSPECIFIED, seconds));
                }
                if self.asks(false) {
                    ask(mld_query(group, Ipv6Addr::UNSPECIFIED, seconds));
                }
            }
        }
    }

    /// An admitted station reported joining or leaving groups.
    pub(crate) fn reported(
        &mut self,
        turn: &mut Turn<'_>,
        port: u8,
        mac: MacAddr,
        reports: &[(IpAddr, bool)],
        group: Option<&Group>,
    ) {
        let mut changed = false;
        for &(ip, listens) in reports {
            match self.served(ip) {
                Some(true) => {}
                // Every host receives this group anyway; or every host has joined it.
                Some(false) => continue,
                None if is_reserved_group(ip) => continue,
                None => {
                    if listens {
                        turn.dropped(port, Unserved::GroupRefused);
                    }
                    continue;
                }
            }
            let stations = self.members.entry(port).or_default();
            let at_port: usize = stations.values().map(BTreeMap::len).sum();
            let groups = stations.entry(mac).or_default();
            let known = groups.contains_key(&ip);
            if listens {
                if !known && (groups.len() >= GROUPS_MAX || at_port >= MEMBERS_MAX) {
                    turn.dropped(port, Unserved::TooManyGroups);
                    continue;
                }
                changed |= !known;
                groups.insert(ip, turn.now + MEMBER_FOR);
                turn.after(MEMBER_FOR, Timer::Member(port, mac, ip));
            } else if known {
                // Unless the member answers a query. Repeated Leaves do not extend this time (RFC
                // 3376, 6.6.3.1) and cause no further query.
                let until = turn.now + LEAVING_FOR;
                if groups.get(&ip).is_some_and(|known| *known > until) {
                    groups.insert(ip, until);
                    turn.timers.set(Timer::Member(port, mac, ip), until);
                    self.query(turn, port, Some(ip), 1, group);
                }
            }
        }
        self.tidy(port, mac);
        if changed {
            self.say(turn, port, mac);
        }
    }

    fn drop_member(&mut self, turn: &mut Turn<'_>, port: u8, mac: MacAddr, ip: IpAddr) {
        turn.timers.cancel(Timer::Member(port, mac, ip));
        if let Some(groups) = self.members.get_mut(&port).and_then(|p| p.get_mut(&mac)) {
            groups.remove(&ip);
        }
        self.tidy(port, mac);
    }

    /// Removes empty records of stations without groups.
    fn tidy(&mut self, port: u8, mac: MacAddr) {
        let Some(stations) = self.members.get_mut(&port) else { return };
        if stations.get(&mac).is_some_and(BTreeMap::is_empty) {
            stations.remove(&mac);
        }
        if stations.is_empty() {
            self.members.remove(&port);
        }
    }

    /// Reports all groups of a station to the controller.
    fn say(&mut self, turn: &mut Turn<'_>, port: u8, mac: MacAddr) {
        let groups = self.members.get(&port).and_then(|p| p.get(&mac));
        let groups = groups.map(|g| g.keys().copied().collect()).unwrap_or_default();
        self.version += 1;
        turn.report(GroupMembership { port, mac, version: self.version, groups });
    }

    /// An admitted station sent a frame to a served group without a tree.
    pub(crate) fn sent(
        &mut self,
        turn: &mut Turn<'_>,
        port: u8,
        mac: MacAddr,
        group: IpAddr,
        frame: &[u8],
    ) {
        let Some(address) = MacAddr::of_group(group) else { return };
        let sender = (port, mac, address);
        // The tree arrived while the frame was on its way here.
        if let Some(Way { tree: Some(tree), credits, .. }) = self.ways.get(&sender) {
            let (tree, credits) = (*tree, *credits);
            turn.push(Effect::AlongTree { port, tree, credits, frame: frame.to_vec() });
            return;
        }
        if self.asked.contains_key(&sender) {
            turn.dropped(port, Unserved::NoRoute);
        } else if self
            .asked
            .range((port, MacAddr([0; 6]), MacAddr([0; 6]))..)
            .take_while(|(s, _)| s.0 == port)
            .count()
            >= ASKED_MAX
        {
            turn.dropped(port, Unserved::TooMany);
        } else {
            self.asked.insert(sender, Some(frame.to_vec()));
            turn.after(ASKED_FOR, Timer::Asked(sender));
            let way = Way { group: Some(group), version: 0, tree: None, credits: 0 };
            self.ways.entry(sender).or_insert(way).group = Some(group);
            turn.report(GroupSender { port, mac, group, tree: None });
        }
    }

    /// The controller set the trees by which hosts send.
    pub(crate) fn set_routes(&mut self, turn: &mut Turn<'_>, routes: Vec<GroupRoute>) {
        for route in routes {
            let GroupRoute { port, source, group, version, tree, credits } = route;
            let sender = (port, source, group);
            let known = self.ways.get(&sender);
            // A missing tree was removed: a newer route is on its way.
            let is_here = tree.is_none_or(|tree| self.trees.contains_key(&tree));
            if known.is_some_and(|w| w.version > version) || !is_here {
                continue;
            }
            let ip = known.and_then(|w| w.group);
            self.ways.insert(sender, Way { group: ip, version, tree, credits });
            Self::end_or_keep(turn, sender, tree);
            turn.push(Effect::Group(route));
            let held = self.asked.get_mut(&sender).and_then(Option::take);
            if let (Some(tree), Some(frame)) = (tree, held) {
                turn.push(Effect::AlongTree { port, tree, credits, frame });
            }
        }
    }

    /// The controller added or removed trees.
    pub(crate) fn update(
        &mut self,
        turn: &mut Turn<'_>,
        epoch: u64,
        update: TreeUpdate,
        roles: &BTreeMap<u8, PortRole>,
    ) {
        let mut ready = Vec::new();
        for entry in update.add {
            ready.push(entry.tree);
            if self.removed.contains(&(epoch, entry.tree)) {
                continue;
            }
            turn.push(Effect::Tree { tree: entry.tree, ports: Some(usable(&entry.ports, roles)) });
            self.trees.insert(entry.tree, Tree { epoch, ports: entry.ports });
        }
        let earlier = self.trees.iter().filter(|(_, t)| update.earlier && t.epoch < epoch);
        let earlier: Vec<_> = earlier.map(|(tree, t)| (t.epoch, *tree)).collect();
        let removed = update.remove.into_iter().map(|tree| (epoch, tree));
        for (epoch, tree) in removed.chain(earlier) {
            if self.removed.len() >= REMOVED_MAX {
                self.removed.pop_front();
            }
            self.removed.push_back((epoch, tree));
            if self.trees.remove(&tree).is_some() {
                turn.push(Effect::Tree { tree, ports: None });
                self.end_ways(turn, tree);
            }
        }
        if !ready.is_empty() {
            turn.report(TreesReady { trees: ready });
        }
    }

    /// Starts the expiry of a sender's ended route: otherwise a sender to ever new groups would
    /// fill the memory.
    fn end_or_keep(turn: &mut Turn<'_>, sender: Sender, tree: Option<u32>) {
        match tree {
            Some(_) => turn.timers.cancel(Timer::Ended(sender)),
            None => turn.after(ENDED_FOR, Timer::Ended(sender)),
        }
    }

    /// Ends routes along a removed tree: the control plane gets their frames again.
    fn end_ways(&mut self, turn: &mut Turn<'_>, tree: u32) {
        for (sender, way) in &mut self.ways {
            if way.tree == Some(tree) {
                way.tree = None;
                turn.after(ENDED_FOR, Timer::Ended(*sender));
                turn.push(without_tree(*sender, way.version));
            }
        }
    }

    /// A station was removed.
    pub(crate) fn forget(&mut self, turn: &mut Turn<'_>, port: u8, mac: MacAddr) {
        let groups = self.members.get(&port).and_then(|p| p.get(&mac));
        let groups: Vec<IpAddr> = groups.map(|g| g.keys().copied().collect()).unwrap_or_default();
        if !groups.is_empty() {
            groups.into_iter().for_each(|g| self.drop_member(turn, port, mac, g));
            self.say(turn, port, mac);
        }
        let of_it = |s: &Sender| s.0 == port && s.1 == mac;
        let gone: Vec<Sender> = self.ways.keys().filter(|s| of_it(s)).copied().collect();
        for sender in gone {
            let Some(way) = self.ways.remove(&sender) else { continue };
            turn.timers.cancel(Timer::Ended(sender));
            if way.tree.is_some() {
                turn.push(without_tree(sender, way.version));
            }
        }
        let gone: Vec<Sender> = self.asked.keys().filter(|s| of_it(s)).copied().collect();
        for sender in gone {
            self.asked.remove(&sender);
            turn.timers.cancel(Timer::Asked(sender));
        }
    }

    /// A port's role has changed. A host port leaves the trees for good, because another host may
    /// be behind it next; a fabric port returns if it leads to the same port of the same node.
    pub(crate) fn port_changed(
        &mut self,
        turn: &mut Turn<'_>,
        port: u8,
        before: Option<PortRole>,
        peer: Option<(u64, u8)>,
        roles: &BTreeMap<u8, PortRole>,
    ) {
        let role = roles.get(&port).copied().unwrap_or(PortRole::Down);
        let is_another = match (role, peer) {
            (PortRole::Fabric, Some(peer)) => {
                self.peers.insert(port, peer).is_some_and(|last| last != peer)
                    || before == Some(PortRole::Host)
            }
            (PortRole::Host, _) => self.peers.remove(&port).is_some(),
            _ => before == Some(PortRole::Host),
        };
        for (&tree, known) in &mut self.trees {
            if known.ports.contains(&port) {
                if is_another {
                    known.ports.retain(|p| *p != port);
                }
                turn.push(Effect::Tree { tree, ports: Some(usable(&known.ports, roles)) });
            }
        }
    }

    /// Reports the state that a restarted controller needs.
    pub(crate) fn report(&mut self, turn: &mut Turn<'_>) {
        let all = self.members.iter().flat_map(|(p, s)| s.keys().map(|mac| (*p, *mac)));
        let all: Vec<(u8, MacAddr)> = all.collect();
        all.into_iter().for_each(|(port, mac)| self.say(turn, port, mac));
        for ((port, mac, _), way) in &self.ways {
            if let (Some(group), Some(_)) = (way.group, way.tree) {
                turn.report(GroupSender { port: *port, mac: *mac, group, tree: way.tree });
            }
        }
    }

    /// Queries the hosts of all ports, now and regularly.
    pub(crate) fn query_all(
        &self,
        turn: &mut Turn<'_>,
        group: Option<&Group>,
        roles: &BTreeMap<u8, PortRole>,
    ) {
        let hosts = roles.iter().filter(|(_, role)| **role == PortRole::Host);
        hosts.for_each(|(&port, _)| self.query(turn, port, None, 10, group));
        turn.after(QUERY_EVERY, Timer::Query);
    }

    /// A member has not answered.
    pub(crate) fn expired(&mut self, turn: &mut Turn<'_>, port: u8, mac: MacAddr, ip: IpAddr) {
        self.drop_member(turn, port, mac, ip);
        self.say(turn, port, mac);
    }

    /// A sender's first frame has waited long enough.
    pub(crate) fn waited(&mut self, turn: &mut Turn<'_>, sender: Sender) {
        if self.asked.remove(&sender).flatten().is_some() {
            turn.dropped(sender.0, Unserved::NoRoute);
        }
        // The controller has not answered.
        if self.ways.get(&sender).is_some_and(|w| w.version == 0) {
            self.ways.remove(&sender);
        }
    }

    /// The version of an ended route need not be remembered any longer.
    pub(crate) fn ended(&mut self, turn: &mut Turn<'_>, sender: Sender) {
        if self.asked.contains_key(&sender) {
            // The sender has asked again, so a result will follow soon.
            turn.after(ASKED_FOR, Timer::Ended(sender));
        } else {
            self.ways.remove(&sender);
        }
    }

    /// The groups of each station.
    pub(crate) fn list(&self) -> Vec<(u8, MacAddr, Vec<IpAddr>)> {
        let stations = self.members.iter().flat_map(|(port, stations)| {
            stations.iter().map(|(mac, groups)| (*port, *mac, groups.keys().copied().collect()))
        });
        stations.collect()
    }

    /// The current trees, and their ports.
    pub(crate) fn trees(&self) -> Vec<(u32, Vec<u8>)> {
        self.trees.iter().map(|(tree, t)| (*tree, t.ports.clone())).collect()
    }
}

/// A sender's frames go to the control plane again.
fn without_tree((port, source, group): Sender, version: u64) -> Effect {
    Effect::Group(GroupRoute { port, source, group, version, tree: None, credits: 0 })
}

/// The ports that get copies at present.
fn usable(ports: &[u8], roles: &BTreeMap<u8, PortRole>) -> Vec<u8> {
    let can = |p: &&u8| matches!(roles.get(p), Some(PortRole::Host | PortRole::Fabric));
    ports.iter().filter(can).copied().collect()
}

#[cfg(test)]
mod tests;
