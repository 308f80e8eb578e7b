//! Two stages: nodes that the settings name route for all others. A node that does not route sends
//! its hosts' packets to one of them, by flow, and holds no table.
//!
//! Each node is told the ways to all forwarders, each in a fixed place: as many places as its
//! weight says. Flows choose among places, so one that comes or goes moves no flow between the
//! others. A forwarder has a way only while it has the whole table and follows its changes.
//!
//! A forwarder asks the controller about hosts of other nodes: the answer ([`Way`]) says by which
//! address the sender is a neighbour, and the ways to it and to its target, if the two may talk.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

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

/// What nodes are told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forwarders {
    /// Forwarders that can be used, by their dense numbers.
    ready: BTreeSet<u32>,
    /// What each node was told in this session.
    told: BTreeMap<u32, Vec<Hops>>,
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
        self.told.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Forwarders that can be used.
    pub(crate) fn ready(&self) -> impl Iterator<Item = u32> {
        self.ready.iter().copied()
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
        self.find_ready();
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
            let paths = self.ways_to_forwarders(node);
            if self.forwarders.told.get(&node) != Some(&paths) {
                self.forwarders.version += 1;
                let version = self.epoch << 32 | self.forwarders.version;
                self.forwarders.told.insert(node, paths.clone());
                self.send_reliably(node, 0, Told { version, paths });
            }
        }
    }

    /// Finds out which forwarders can be used.
    fn find_ready(&mut self) {
        let (current, is_whole) = self.fib.state();
        for node in 0..self.topology.nodes.len() as u32 {
            let is_up = self.topology.node(node).up && self.is_forwarder(node);
            let version = self.fib.version_of(node).filter(|_| is_up && is_whole);
            let was_ready = self.forwarders.is_ready(node);
            let is_ready = version.is_some_and(|version| match was_ready {
                true => current.saturating_sub(version) <= LAG_MAX,
                false => version == current,
            });
            if is_ready != was_ready && !self.config.forwarders.is_empty() {
                match is_ready {
                    true => self.forwarders.ready.insert(node),
                    false => self.forwarders.ready.remove(&node),
                };
                let node = self.id(node);
                self.log(Event::Forwarder { node, is_ready });
            }
        }
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

    /// A node's ways to the forwarders; none to one that routes itself.
    fn ways_to_forwarders(&mut self, node: u32) -> Vec<Hops> {
        if self.is_forwarder(node) {
            return Vec::new();
        }
        let mut ways = Vec::new();
        for forwarder in self.config.forwarders.clone() {
            let mut ready = self.forwarders.ready.iter().copied();
            let found = ready.find(|node| self.topology.node(*node).name == forwarder.node);
            let to = found.map(|node| Place { node, port: ROUTER_HOP });
            let key = FlowKey {
                at: Place { node, port: 0 },
                source: None,
                destination: self.config.group_mac,
            };
            let routes = to.map(|to| self.flows.routes(&self.topology, &key, to).to_hops());
            let way = routes.and_then(|routes| routes.into_iter().next()).unwrap_or_default();
            // The last places are left unused first.
            let unused = found.map_or(0, |node| self.shares.unused(node));
            let used = forwarder.weight.saturating_sub(unused);
            ways.extend(std::iter::repeat_n(way, used.into()));
            ways.extend(std::iter::repeat_n(Vec::new(), (forwarder.weight - used).into()));
        }
        ways
    }

    /// A forwarder has a packet of another node's host.
    pub(crate) fn find_way(
        &mut self,
        now: Time,
        at: Place,
        ask: &ResolveRequest,
    ) -> Result<bool, Refusal> {
        if self.config.forwarders.is_empty() || !self.is_forwarder(at.node) {
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
        if ends.is_some_and(|(target, source)| !self.may_ask(source, target)) {
            return Err(Refusal::Forbidden);
        }
        let to = target.and_then(|target| self.hosts.get(target)).map(|target| target.at);
        let back = self.router_way(now, at, group_mac, ask.source_mac, from)?;
        let there = match target.zip(to) {
            Some((target, to)) => self.router_way(now, at, ask.source_mac, target, to)?,
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

    /// A host sends from an address that nobody is known to have. One that keeps its neighbour cache
    /// while it has been away from the fabric does not say by itself which addresses it has.
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

    /// The routes from a forwarder to a station, for packets of another.
    fn router_way(
        &mut self,
        now: Time,
        at: Place,
        source: MacAddr,
        destination: MacAddr,
        to: Place,
    ) -> Result<Vec<Hops>, Refusal> {
        if !self.topology.is_host_port(to) {
            return Err(Refusal::NoPath);
        }
        let key = FlowKey { at, source: Some(source), destination };
        let known = self.flows.find(&key).filter(|id| !self.flows.stranded.contains(id));
        let id = match known {
            Some(id) => id,
            None => {
                let routes = self.flows.routes(&self.topology, &key, to);
                if routes.is_empty() {
                    return Err(Refusal::NoPath);
                }
                self.make_room(now, to, key)?;
                let version = self.flows.next_version();
                self.flows.insert(&self.topology, key, to, routes, version, true)
            }
        };
        let version = self.flows.next_version();
        Ok(self.flows.set_version(id, version).unwrap_or_default())
    }
}
