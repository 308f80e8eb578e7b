//! Two stages: nodes that the settings name route for all others. A node that does not route sends
//! its hosts' packets to one of them, by flow, and holds no table.
//!
//! Each node is told the ways to all forwarders, each in a fixed place: as many places as its
//! weight says. Flows choose among places, so one that comes or goes moves no flow between the
//! others. A forwarder has a way only while it has the whole table and follows its changes.
//!
//! Forwarders may hold parts of the table (SPEC.md, 16). When the settings change these, nodes go
//! on with the places of before until forwarders have the routes of both ([`Change`]).
//!
//! A forwarder asks the controller about hosts of other nodes: the answer ([`Way`]) says by which
//! address the sender is a neighbour, and the ways to it and to its target, if the two may talk.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use plexus_config::Forwarder;
use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::fabric::message::{Forwarders as Told, Hops, Refusal, ResolveRequest, Way};
use plexus_wire::{MacAddr, Time};

use crate::Controller;
use crate::controller::Timer;
use crate::event::Event;
use crate::flows::FlowKey;
use crate::topology::Place;

/// A forwarder whose table is so many changes behind is not used.
const LAG_MAX: u64 = 20_000;
/// After the start, forwarders that have no table yet are waited for: nodes go on with the ways of
/// an earlier incarnation.
const GATHER: Duration = Duration::from_secs(5);
/// Forwarders have so much time to get other parts of the table.
const REFILL: Duration = Duration::from_secs(60);
/// Then nodes have so much time to choose by these, before the routes of the old ones leave.
const FOLLOW: Duration = Duration::from_secs(2);

/// A change of the parts that forwarders hold.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// They get this version of the table, at most until then.
    Refill(u64, Time),
    /// Nodes follow until then.
    Follow(Time),
}

/// What nodes are told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forwarders {
    /// The forwarders that nodes are told of, and how many of them hold each part: as in the
    /// settings, or as in those of before.
    list: Vec<Forwarder>,
    copies: Option<u8>,
    change: Option<Change>,
    /// Forwarders that can be used, by their dense numbers.
    ready: BTreeSet<u32>,
    /// Those that no other node has a link to, of the ones that were ready.
    cut_off: BTreeSet<u32>,
    /// The forwarders that each node was told in this session, without the version.
    told: BTreeMap<u32, Told>,
    /// Changes of links and forwarders that all nodes have been told of.
    judged: Option<(u64, BTreeSet<u32>, usize)>,
    /// Nodes are told since then.
    began: Option<Time>,
    version: u64,
}

impl Forwarders {
    /// A node's session is new.
    pub(crate) fn forget(&mut self, node: u32) {
        self.told.remove(&node);
        self.judged = None;
    }

    /// The settings are new.
    pub(crate) fn forget_all(&mut self) {
        self.judged = None;
    }

    /// The ways to forwarders that a node was told.
    pub(crate) fn told_to(&self, node: u32) -> &[Hops] {
        self.told.get(&node).map_or(&[], |told| &told.paths)
    }

    fn has(&self, name: &str) -> bool {
        self.list.iter().any(|forwarder| forwarder.node == name)
    }

    /// Whether a forwarder can be used.
    pub(crate) fn is_ready(&self, node: u32) -> bool {
        self.ready.contains(&node)
    }
}

impl Controller {
    /// Whether a node has a copy of the table: all have, unless some are named.
    pub(crate) fn is_forwarder(&self, node: u32) -> bool {
        let name = &self.topology.node(node).name;
        let named = &self.config.forwarders;
        named.is_empty() || named.iter().any(|forwarder| forwarder.node == *name)
    }

    /// Tells nodes where forwarders are, as far as that has changed; called at the end of each
    /// input.
    pub(crate) fn tell_forwarders(&mut self, now: Time) {
        if self.config.forwarders.is_empty() && self.forwarders.told.is_empty() {
            return;
        }
        self.find_ready(now);
        self.follow_change(now);
        if !self.have_gathered(now) {
            return;
        }
        let state = (
            self.topology.changes_made(),
            self.forwarders.ready.clone(),
            self.topology.nodes.len(),
        );
        if self.forwarders.judged.as_ref() == Some(&state) {
            return;
        }
        self.forwarders.judged = Some(state);
        for node in 0..self.topology.nodes.len() as u32 {
            if !self.sessions[node as usize].is_open || !self.topology.node(node).up {
                continue;
            }
            let told = self.told_of_forwarders(node);
            if self.forwarders.told.get(&node) != Some(&told) {
                self.forwarders.told.insert(node, told.clone());
                self.forwarders.version += 1;
                let version = self.epoch << 32 | self.forwarders.version;
                self.send_reliably(node, 0, Told { version, ..told });
            }
        }
    }

    /// The settings are new: nodes are told of their forwarders, at once or when those have the
    /// parts of the table that nodes will look for there.
    pub(crate) fn change_forwarders(&mut self, now: Time) {
        let Forwarders { list, copies, change, told, ready, .. } = &self.forwarders;
        let is_other = (list, copies) != (&self.config.forwarders, &self.config.copies);
        let is_parted = copies.is_some() || self.config.copies.is_some();
        let is_filling = matches!(change, Some(Change::Refill(..)));
        if told.is_empty() {
            // Nobody goes by the parts of before.
            self.forwarders.change = None;
            self.release_tables();
            self.put_forwarders_in_force();
        } else if is_filling || is_parted && is_other {
            let (kept, until) = (ready.clone(), now + REFILL);
            self.withhold(kept);
            self.forwarders.change = Some(Change::Refill(self.fib.version().0, until));
            self.rearm(Some(until), Timer::Forwarders);
        } else {
            self.put_forwarders_in_force();
        }
    }

    fn put_forwarders_in_force(&mut self) {
        self.forwarders.list = self.config.forwarders.clone();
        self.forwarders.copies = self.config.copies;
        self.forwarders.judged = None;
    }

    /// Takes the next step of a change, if it is time.
    fn follow_change(&mut self, now: Time) {
        match self.forwarders.change {
            Some(Change::Refill(version, until)) if now >= until || self.have_all(version) => {
                self.put_forwarders_in_force();
                self.forwarders.change = Some(Change::Follow(now + FOLLOW));
                self.rearm(Some(now + FOLLOW), Timer::Forwarders);
            }
            Some(Change::Follow(until)) if now >= until => {
                self.forwarders.change = None;
                self.release_tables();
                self.feed_nodes(now);
            }
            _ => {}
        }
    }

    /// Whether all forwarders that are reached have a version of the table.
    fn have_all(&self, version: u64) -> bool {
        let nodes = 0..self.topology.nodes.len() as u32;
        let mut reached = nodes.filter(|node| self.topology.node(*node).up);
        reached.all(|node| !self.is_forwarder(node) || self.fib.version_of(node) >= Some(version))
    }

    /// Finds out which forwarders can be used. One that is cut off may have started anew: it is
    /// asked once which version it has.
    fn find_ready(&mut self, now: Time) {
        let (current, is_whole) = self.fib.state();
        let ready = self.forwarders.ready.iter().copied();
        let nodes: BTreeSet<u32> = self.fib.holders().chain(ready).collect();
        for node in nodes {
            let is_up = self.topology.node(node).up;
            let is_kept = is_up && self.is_withheld(node);
            let is_up = is_up && self.is_forwarder(node);
            let was_ready = self.forwarders.is_ready(node);
            if !self.is_cut_off(node) {
                self.forwarders.cut_off.remove(&node);
            } else if was_ready && is_up && self.forwarders.cut_off.insert(node) {
                self.ask_for_version(now, node);
            }
            let version = self.fib.version_of(node).filter(|_| is_up && is_whole);
            let is_ready = is_kept
                || version.is_some_and(|version| match was_ready {
                    true => current.saturating_sub(version) <= LAG_MAX,
                    false => version == current,
                });
            if is_ready != was_ready && !(is_up && self.config.forwarders.is_empty()) {
                match is_ready {
                    true => self.forwarders.ready.insert(node),
                    false => self.forwarders.ready.remove(&node),
                };
                let node = self.id(node);
                self.log(Event::Forwarder { node, is_ready });
            }
        }
    }

    /// Whether no other node has a link to a node.
    fn is_cut_off(&self, node: u32) -> bool {
        self.topology.edges(node).is_empty() && self.topology.nodes.len() > 1
    }

    /// Whether the forwarders that can be expected are ready.
    fn have_gathered(&mut self, now: Time) -> bool {
        let ready = &self.forwarders.ready;
        if ready.is_empty() && self.forwarders.began.is_none() {
            return self.config.forwarders.is_empty();
        }
        let began = *self.forwarders.began.get_or_insert(now);
        let names = ready.iter().map(|node| &self.topology.node(*node).name);
        let names: BTreeSet<&String> = names.collect();
        let are_all = self.config.forwarders.iter().all(|f| names.contains(&f.node));
        let is_over = are_all || !self.forwarders.told.is_empty() || now >= began + GATHER;
        if !is_over {
            self.rearm(Some(began + GATHER), Timer::Forwarders);
        }
        is_over
    }

    /// The forwarders for a node: no ways, if it routes everything itself.
    fn told_of_forwarders(&mut self, node: u32) -> Told {
        let list = self.forwarders.list.clone();
        let copies = self.forwarders.copies.unwrap_or(0);
        let name = self.topology.node(node).name.clone();
        let is_one = list.is_empty() || self.forwarders.has(&name);
        let mut told = Told { version: 0, paths: Vec::new(), places: Vec::new(), copies };
        if is_one && copies == 0 {
            return told;
        }
        for forwarder in list {
            let way = match forwarder.node == name {
                true => vec![ROUTER_HOP],
                false => self.way_to_forwarder(node, &forwarder.node),
            };
            // The last places are left unused first.
            let unused =
                self.ready_node(&forwarder.node).map_or(0, |node| self.shares.unused(node));
            let used = forwarder.weight.saturating_sub(unused);
            told.paths.extend(std::iter::repeat_n(way, used.into()));
            let rest = std::iter::repeat_n(Hops::new(), (forwarder.weight - used).into());
            told.paths.extend(rest);
            told.places.push(forwarder.weight);
        }
        told
    }

    /// A forwarder that can be used, by its name.
    pub(crate) fn ready_node(&self, name: &str) -> Option<u32> {
        let mut ready = self.forwarders.ready.iter().copied();
        ready.find(|node| self.topology.node(*node).name == name)
    }

    /// A node's way to a forwarder; empty if there is none, or it is not to be used.
    fn way_to_forwarder(&mut self, node: u32, name: &str) -> Hops {
        let found = self.ready_node(name);
        let key = FlowKey {
            at: Place { node, port: 0 },
            source: None,
            destination: self.config.group_mac,
        };
        let to = found.map(|node| Place { node, port: ROUTER_HOP });
        let routes = to.map(|to| self.flows.routes(&self.topology, &key, to).to_hops());
        routes.and_then(|routes| routes.into_iter().next()).unwrap_or_default()
    }

    /// A forwarder has a packet of another node's host.
    pub(crate) fn find_way(
        &mut self,
        now: Time,
        at: Place,
        ask: &ResolveRequest,
    ) -> Result<bool, Refusal> {
        let name = &self.topology.node(at.node).name;
        let is_named = !self.config.forwarders.is_empty() && self.is_forwarder(at.node);
        if !is_named && !self.forwarders.has(name) {
            return Err(Refusal::Forbidden);
        }
        let from = self.hosts.get(ask.source_mac).ok_or(Refusal::UnknownTarget)?.at;
        if self.scans.is_closed(from) {
            return Err(Refusal::Scanning);
        }
        let neighbour = self.neighbour_of(ask.source_mac, ask.source_ip);
        if neighbour.is_err() {
            self.ask_for_address(now, ask.source_mac, from, ask.source_ip);
        }
        let source_ip = neighbour?;
        let group_mac = self.config.group_mac;
        let is_own = self.is_own_address(ask.target_ip) && self.device_of(ask.target_ip).is_none();
        let target = match is_own {
            true => None,
            false => match self.hosts.by_ip(ask.target_ip) {
                Some(target) if target == ask.source_mac => return Err(Refusal::UnknownTarget),
                Some(target) => Some(target),
                None => {
                    return self.search(now, ask.source_mac, ask.target_ip).map(|()| false);
                }
            },
        };
        let ends =
            target.and_then(|target| self.hosts.get(target)).zip(self.hosts.get(ask.source_mac));
        let is_forbidden = ends.is_some_and(|(target, source)| !self.may_ask(source, target));
        if is_forbidden && !target.is_some_and(|target| self.is_asked(ask.source_mac, target)) {
            return Err(Refusal::Forbidden);
        }
        let to = target.and_then(|target| self.hosts.get(target)).map(|target| target.at);
        let back = self.router_way(
            now,
            None,
            FlowKey { at, source: Some(group_mac), destination: ask.source_mac },
            from,
        )?;
        let there = match target.zip(to) {
            Some((target, to)) => {
                let key = FlowKey { at, source: Some(ask.source_mac), destination: target };
                self.router_way(now, Some(from), key, to)?
            }
            None => Vec::new(),
        };
        let version = self.flows.next_version();
        let way = Way {
            exchange: ask.exchange,
            version,
            source_ip,
            target_mac: target.unwrap_or(group_mac),
            to_target: there,
            to_source: back,
        };
        self.send_reliably(at.node, 0, way);
        Ok(true)
    }

    /// Whether a host may answer another one, which has asked it by any forwarder: a rule says who
    /// may ask, and the way back may lead by another forwarder.
    fn is_asked(&self, host: MacAddr, by: MacAddr) -> bool {
        self.forwarders.ready.iter().any(|node| {
            let at = Place { node: *node, port: ROUTER_HOP };
            let key = FlowKey { at, source: Some(by), destination: host };
            self.flows.find(&key).is_some()
        })
    }

    /// A host sends from an address that nobody is known to have. One that keeps its neighbour
    /// cache while it has been away from the fabric does not say by itself which addresses it has.
    fn ask_for_address(&mut self, now: Time, station: MacAddr, at: Place, ip: IpAddr) {
        if self.is_in_subnet(ip) && self.hosts.by_ip(ip).is_none() {
            self.ask_station(now, ip, (station, at));
        }
    }

    /// Whether an address is in a subnet that has a gateway.
    fn is_in_subnet(&self, ip: IpAddr) -> bool {
        let mut subnets = self.config.subnets.iter();
        subnets.any(|subnet| subnet.gateway.is_some() && subnet.prefix.contains(ip))
    }

    /// The address by which a sender is a neighbour of the router: the packet's, or that by which
    /// it leads to other networks.
    fn neighbour_of(&self, station: MacAddr, source: IpAddr) -> Result<IpAddr, Refusal> {
        let is_here = self.is_in_subnet(source);
        let has = |ip: &IpAddr| self.hosts.by_ip(*ip) == Some(station);
        let found = match is_here {
            true => Some(source).filter(has),
            false => self.fib.vias().find(has),
        };
        found.ok_or(Refusal::Claimed)
    }

    /// The routes from a forwarder to a station, for packets of another. `opener`: the port of the
    /// host that asks for them.
    fn router_way(
        &mut self,
        now: Time,
        opener: Option<Place>,
        key: FlowKey,
        to: Place,
    ) -> Result<Vec<Hops>, Refusal> {
        if !self.topology.is_host_port(to) {
            return Err(Refusal::NoPath);
        }
        let known = self.flows.find(&key).filter(|id| !self.flows.stranded.contains(id));
        let id = match known {
            Some(id) => id,
            None => {
                let routes = self.flows.routes(&self.topology, &key, to);
                if routes.is_empty() {
                    return Err(Refusal::NoPath);
                }
                self.make_room(now, opener, key)?;
                let version = self.flows.next_version();
                self.flows.insert(&self.topology, key, to, routes, version, true)
            }
        };
        let version = self.flows.next_version();
        Ok(self.flows.set_version(id, version).unwrap_or_default())
    }
}
