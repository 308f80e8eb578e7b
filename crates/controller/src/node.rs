//! Nodes: their sessions, their ports, and their reports to a restarted controller.
//!
//! Reported routes stay in use meanwhile: an entry is adopted unchanged as soon as the topology
//! shows that it leads to its station. Entries still unverified `settle_ms` after the last report
//! get new routes, or end if no node knows the station.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::fabric::message::{
    ControllerHello, FlowReport, Gateway, HostReport, Invalidate, PortBlock, PortRole, PortState,
    Refusal, RouteEntry, Welcome,
};
use plexus_wire::{MacAddr, Time};

use crate::claims::Admission;
use crate::controller::Timer;
use crate::event::{Drop, Event};
use crate::flows::FlowKey;
use crate::policy::RouteSet;
use crate::scan::ms;
use crate::topology::Place;
use crate::{Controller, NodeId};

/// Pages of one Controller Hello: 256 ports take five.
const PAGES_MAX: u16 = 64;
/// A core that follows hears a node once in 5 s, unless something changes.
const FOLLOWED_SILENCE: Duration = Duration::from_secs(16);
/// Interval for checking reported routes against the topology.
const SETTLE_EVERY_MS: u32 = 100;

/// The received pages of a Controller Hello.
type Pages = Vec<Option<Vec<PortState>>>;

/// State of a node besides its place in the topology.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) is_open: bool,
    /// The version of the protocol that both speak.
    pub(crate) version: u8,
    /// Its ports have been reported in this session.
    has_ports: bool,
    /// The current generation of port states.
    generation: Option<u64>,
    /// A newer one with missing pages.
    coming: Option<(u64, Pages)>,
    /// Hosts and flows have been reported to this incarnation.
    hosts_reported: bool,
    flows_reported: bool,
    /// The flows named so far by reports of this session.
    confirmed: BTreeSet<FlowKey>,
    /// For a core that follows: hosts of before that no report of this session has named.
    pub(crate) unconfirmed: BTreeSet<MacAddr>,
}

/// Routes reported by nodes and not adopted yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reported {
    entries: Vec<(u32, RouteEntry)>,
    until: Time,
}

impl Session {
    pub(crate) fn hosts_are_reported(&mut self, all: bool) {
        self.hosts_reported |= all;
    }

    pub(crate) fn has_reported_hosts(&self) -> bool {
        self.hosts_reported
    }

    /// The node is to report its flows again.
    pub(crate) fn report_flows(&mut self) {
        self.flows_reported = false;
    }
}

impl Controller {
    /// The dense number of a node, which is known from now on.
    pub(crate) fn known_node(&mut self, now: Time, id: NodeId, name: &str) -> u32 {
        let index = self.topology.add_node(id, name, now);
        self.sessions.resize_with(self.topology.nodes.len(), Session::default);
        index
    }

    /// A session is up: the node has restarted, or has only renewed its keys. It reports its state
    /// now. Its flows stay known until then, because an update in flight may still reach the node,
    /// and the controller has to look after a route that only the node knows.
    pub(crate) fn node_up(&mut self, now: Time, id: NodeId, name: &str, version: u8) {
        let index = self.known_node(now, id, name);
        let node = self.topology.node_mut(index);
        (node.heard, node.name) = (now, name.to_string());
        self.place_drained();
        self.sessions[index as usize] = Session { is_open: true, version, ..Session::default() };
        for place in self.scans.closed_at(index) {
            let reason = Some(Refusal::Scanning);
            self.send_reliably(index, 0, PortBlock { port: place.port, reason });
        }
        self.arm_silence();
        if self.follows {
            return self.followed_node_up(index);
        }
        self.standbys_of_node_up(now, index);
        self.tell_revoked(index);
        self.groups_of_node_up(index);
        self.forwarders.forget(index);
        self.classes.node_up(now, index);
        self.fib_of_node_up(now, index);
        self.common.node_up(index, name);
        self.log(Event::NodeUp { node: id, name: name.to_string() });
    }

    /// A session was lost or timed out: no path leads through the node.
    pub(crate) fn node_down(&mut self, now: Time, index: u32, silent: bool) {
        let session = &mut self.sessions[index as usize];
        if !silent {
            session.is_open = false;
        }
        (session.generation, session.coming) = (None, None);
        self.common.node_down(now, index);
        if !silent {
            self.fib_of_node_down(index);
        }
        if self.topology.node(index).up {
            self.set_ports(now, index, BTreeMap::new(), false);
            let node = self.id(index);
            self.log(Event::NodeDown { node, silent });
        }
    }

    /// How long a node may be silent.
    fn patience(&self) -> Duration {
        let limit = ms(self.config.limits.node_timeout_ms);
        if self.follows { limit.max(FOLLOWED_SILENCE) } else { limit }
    }

    pub(crate) fn arm_silence(&mut self) {
        let timeout = self.patience();
        let up = self.topology.nodes.iter().filter(|node| node.up);
        let first = up.map(|node| node.heard + timeout).min();
        self.rearm(first, Timer::Silence);
    }

    pub(crate) fn check_silence(&mut self, now: Time) {
        let timeout = self.patience();
        for index in 0..self.topology.nodes.len() as u32 {
            let node = self.topology.node(index);
            if node.up && now.since(node.heard) >= timeout {
                self.node_down(now, index, true);
            }
        }
        self.arm_silence();
    }

    pub(crate) fn controller_hello(
        &mut self,
        now: Time,
        index: u32,
        request: u32,
        hello: ControllerHello,
    ) {
        let ControllerHello { generation, page, pages, ports } = hello;
        self.common.node_heard(index);
        let session = &mut self.sessions[index as usize];
        let newest = session.coming.as_ref().map(|c| c.0).or(session.generation);
        if page >= pages || pages > PAGES_MAX || newest.is_some_and(|g| generation < g) {
            return self.dropped(Drop::BadPage);
        }
        if session.generation != Some(generation) {
            let fresh = || (generation, vec![None; usize::from(pages)]);
            let coming = session.coming.get_or_insert_with(fresh);
            if coming.0 != generation {
                *coming = fresh();
            }
            let Some(slot) = coming.1.get_mut(usize::from(page)) else {
                return self.dropped(Drop::BadPage);
            };
            *slot = Some(ports);
            if coming.1.iter().all(Option::is_some) {
                let all = std::mem::take(&mut coming.1).into_iter().flatten().flatten();
                let ports = all.map(|p| (p.port, p)).collect();
                (session.generation, session.coming) = (Some(generation), None);
                let is_first = !std::mem::replace(&mut session.has_ports, true);
                self.set_ports(now, index, ports, true);
                if is_first {
                    self.arm_earlier(now, index);
                }
                self.arm_silence();
            }
        }
        self.welcome(index, request, generation, page);
    }

    fn welcome(&mut self, index: u32, request: u32, generation: u64, page: u16) {
        let session = &self.sessions[index as usize];
        // A core that follows needs no flows: it looks after those that it has told.
        let report = !(session.hosts_reported && (session.flows_reported || self.follows));
        let group_mac = self.config.group_mac;
        let subnets = self.config.subnets.iter();
        let mut gateways: Vec<Gateway> = subnets
            .filter_map(|s| {
                let daemons = s.device.is_some();
                let prefix_len = s.prefix.len();
                Some(Gateway { ip: s.gateway?, prefix_len, daemons, mtu: s.longest_packet() })
            })
            .collect();
        if self.config.subnets.iter().any(|s| s.advertise) {
            let ip = group_mac.link_local().into();
            let mtu = plexus_config::SUBNET_MTU;
            gateways.push(Gateway { ip, prefix_len: 64, daemons: false, mtu });
        }
        // None leads by a core that follows.
        let epoch = if self.follows { 0 } else { self.epoch };
        let body = Welcome { epoch, generation, page, report, group_mac, gateways };
        self.send(index, request, body);
    }

    /// Sends a node the settings that concern it, after they have changed.
    pub(crate) fn welcome_again(&mut self, index: u32) {
        if let Some(generation) = self.sessions[index as usize].generation {
            self.welcome(index, 0, generation, 0);
        }
    }

    /// Whether an address is one of the group's own.
    pub(crate) fn is_own_address(&self, ip: std::net::IpAddr) -> bool {
        self.config.subnets.iter().any(|s| s.gateway == Some(ip))
            || ip == std::net::IpAddr::from(self.config.group_mac.link_local())
    }

    /// Applies a node's ports, and reroutes exactly the flows whose links were lost.
    fn set_ports(&mut self, now: Time, index: u32, ports: BTreeMap<u8, PortState>, up: bool) {
        let lost = self.topology.losing(index, &ports);
        let flows = self.flows.release_crossing(&self.topology, &lost);
        self.topology.cut(&lost);
        // Hosts that are known there can be members of groups at once.
        let has_hosts_again = up
            && ports.values().filter(|p| p.role == PortRole::Host).any(|p| {
                let at = Place { node: index, port: p.port };
                !self.topology.is_host_port(at) && self.hosts.len_at(at) > 0
            });
        let links = self.topology.set_ports(index, ports, up);
        self.place_devices();
        self.standbys_at(now, index);
        self.groups_lost_links(&lost);
        for &id in &flows {
            self.reroute(id, None);
        }
        let node = self.id(index);
        if !lost.is_empty() {
            let stranded = flows.iter().filter(|id| self.flows.stranded.contains(id)).count();
            let (links, flows) = (lost.len(), flows.len());
            self.log(Event::LinksLost { node, links, flows, stranded });
        }
        if links > 0 {
            self.log(Event::LinksFound { node, links });
        }
        if links > 0 || has_hosts_again {
            self.touch_all_groups();
        }
        if links > 0 || (up && !self.flows.stranded.is_empty()) {
            self.links_found(now);
        }
    }

    pub(crate) fn host_report(&mut self, now: Time, index: u32, report: &HostReport) {
        for host in &report.hosts {
            let at = Place { node: index, port: host.port };
            // A station reported by two nodes is probed, as if it had just been heard.
            for ip in host.ips.iter().map(|ip| Some(*ip)).chain([None]) {
                if let Admission::Refused(why) = self.admit(now, at, host.mac, ip, 0) {
                    self.verdict(at, 0, host.mac, ip, Some(why));
                }
            }
        }
        self.sessions[index as usize].hosts_reported |= report.more == 0;
    }

    pub(crate) fn flow_report(&mut self, now: Time, index: u32, report: FlowReport) {
        let limits = &self.config.limits;
        let (room, settle) = (limits.flows as usize, ms(limits.settle_ms));
        for entry in report.flows {
            // Another one that led provisionally may have used versions of this epoch.
            let is_newer = self.is_provisional && self.flows.outlast(entry.version);
            let at = Place { node: index, port: entry.port };
            let FlowKey { source, destination, .. } =
                FlowKey { at, source: entry.source, destination: entry.destination };
            let key = FlowKey { at, source, destination };
            self.sessions[index as usize].confirmed.insert(key);
            match self.flows.find(&key) {
                // The node would refuse the version that this flow has.
                Some(id) if is_newer => {
                    let version = self.flows.next_version();
                    self.flows.set_version(id, version);
                    self.announce(id);
                }
                // Already adopted; the node may have missed later changes.
                Some(id) if self.flows.get(id).is_some_and(|f| f.version != entry.version) => {
                    self.announce(id);
                }
                Some(_) => {}
                None if self.reported.entries.len() < room => {
                    self.reported.entries.push((index, entry));
                }
                None => self.announce_removal(key),
            }
        }
        if report.more == 0 {
            self.repeat_unconfirmed(index);
        }
        self.reported.until = now + settle;
        self.rearm(Some(now), Timer::Adopt);
    }

    /// A node has reported all its flows: it is sent again those that it did not name.
    fn repeat_unconfirmed(&mut self, index: u32) {
        let session = &mut self.sessions[index as usize];
        session.flows_reported = true;
        let confirmed = std::mem::take(&mut session.confirmed);
        for id in self.flows.of_node(index) {
            if self.flows.get(id).is_some_and(|f| !confirmed.contains(&f.key)) {
                self.announce(id);
            }
        }
    }

    /// Adopts reported routes that the topology confirms; when time is up, replaces the rest.
    pub(crate) fn adopt_reported(&mut self, now: Time) {
        let time_is_up = now >= self.reported.until;
        for (node, entry) in std::mem::take(&mut self.reported.entries) {
            let at = Place { node, port: entry.port };
            let key = FlowKey { at, source: entry.source, destination: entry.destination };
            if !self.sessions[node as usize].is_open || self.flows.find(&key).is_some() {
                continue;
            }
            let target = self.hosts.get(entry.destination);
            let source = entry.source.map(|mac| self.hosts.get(mac));
            let to = target.map(|t| t.at);
            let routes = RouteSet::from_hops(entry.routes.iter().map(|hops| &hops[..]));
            let arrives = |hops: &[u8]| self.topology.walk(node, hops, |_| {}) == to;
            // A set that is too long for our messages is not adopted in part.
            let is_whole = !routes.is_empty() && routes.iter().count() == entry.routes.len();
            let is_proved = to.is_some() && is_whole && routes.iter().all(arrives);
            let is_allowed = match (target, source) {
                (Some(t), Some(Some(s))) => self.may_ask(s, t) || self.may_ask(t, s),
                (Some(_), None) => true,
                _ => false,
            };
            match to {
                Some(to) if is_proved && is_allowed => {
                    self.flows.insert(&self.topology, key, to, routes, entry.version, true);
                }
                _ if !time_is_up => self.reported.entries.push((node, entry)),
                Some(to) if is_allowed => {
                    let routes = self.flows.routes(&self.topology, &key, to);
                    let version = self.flows.next_version();
                    let id = self.flows.insert(&self.topology, key, to, routes, version, true);
                    self.announce(id);
                }
                _ => self.announce_removal(key),
            }
        }
        if !self.reported.entries.is_empty() {
            self.arm(now + ms(SETTLE_EVERY_MS), Timer::Adopt);
        }
    }

    /// The last node of a route has no such station: corrects the routes of its sender.
    pub(crate) fn invalidate(&mut self, now: Time, index: u32, stale: &Invalidate) {
        // A node that has started anew does not know its stations, and those that only listen would
        // stay unknown to it.
        if let Some(host) = self.hosts.get(stale.destination).filter(|h| h.at.node == index)
            && let Some(&ip) = host.ips.iter().min()
        {
            let station = (stale.destination, host.at);
            self.ask_station(now, ip, station);
        }
        let Some(source) = self.hosts.get(stale.source) else {
            return self.dropped(Drop::NotThere);
        };
        let key =
            FlowKey { at: source.at, source: Some(stale.source), destination: stale.destination };
        match self.flows.find(&key) {
            Some(id) => self.announce(id),
            None => self.announce_removal(key),
        }
        // Or those of a forwarder.
        let forwarders =
            (0..self.topology.nodes.len() as u32).filter(|n| self.forwarders.is_ready(*n));
        let places = forwarders.map(|node| Place { node, port: ROUTER_HOP });
        let ids: Vec<u32> =
            places.filter_map(|at| self.flows.find(&FlowKey { at, ..key })).collect();
        ids.into_iter().for_each(|id| self.announce(id));
    }
}
