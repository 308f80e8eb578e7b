//! A controller that stands by *follows*: it has sessions with the nodes, knows their ports and
//! the hosts that the leader has admitted, and answers questions between them. It believes each
//! node about that node's hosts. It promises nothing: whatever it cannot tell is the leader's to
//! answer. When it leads, the new core begins with what it knows.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::fabric::message::{
    Body, HostGone, HostReport, HostState, Refusal, ResolveFailed, ResolveRequest, Secret,
};
use plexus_wire::{MacAddr, Time};
use serde::{Deserialize, Serialize};

use crate::claims::is_host_address;
use crate::controller::Controller;
use crate::event::Drop;
use crate::io::Start;
use crate::node::Session;
use crate::provisional;
use crate::topology::Place;
use crate::{Config, NodeId};

/// Most hosts that wait until their earlier place is known to be left.
const WAITING_MAX: usize = 1024;

/// Hosts that a node has reported while they are known elsewhere, with their addresses.
pub(crate) type Waiting = BTreeMap<MacAddr, (Place, Vec<IpAddr>)>;

/// Another controller, as the store shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// It has the leader's settings.
    pub is_alike: bool,
    /// Counts how often it has begun to follow: it then knows no routes.
    pub follows: u32,
}

impl Controller {
    /// A core that follows, while the controller of this epoch leads.
    pub fn follower(config: Config, epoch: u64, now: Time, seed: [u8; 32]) -> Controller {
        let (provisional, unix_s, stored) = (false, 0, vec![]);
        let start = Start { config, epoch, provisional, now, unix_s, stored, seed };
        let mut follower = Controller::empty(&start);
        follower.follows = true;
        follower
    }

    /// Another controller leads now.
    pub fn follow_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.flows.set_epoch(epoch);
    }

    /// Takes over what a core has learned while it followed: nodes, cables and hosts. All of them
    /// are reported anew once the nodes' sessions are announced.
    pub fn inherit(&mut self, follower: Controller, now: Time) {
        self.topology = follower.topology;
        self.hosts = follower.hosts;
        // The nodes that claim these are heard anew.
        follower.waiting.into_keys().for_each(|mac| drop(self.hosts.remove(mac)));
        self.sessions.resize_with(self.topology.nodes.len(), Session::default);
        for node in &mut self.topology.nodes {
            node.heard = now;
        }
        self.arm_silence();
        self.place_drained();
        self.place_devices();
        self.place_standbys();
        self.touch_all_groups();
    }

    /// A digest of the settings: controllers with the same one answer questions alike. Programs
    /// that were built differently may disagree, and then the standby answers none.
    pub fn settings_digest(&self) -> u64 {
        self.digest
    }

    /// Whether it may send a message: while it follows, routes and no promises.
    pub(crate) fn may_say(&self, body: &Body) -> bool {
        let is_no_promise = matches!(
            body,
            Body::Welcome(_)
                | Body::ResolveForward(_)
                | Body::ShortForward(_)
                | Body::ResolveFailed(_)
                | Body::RouteUpdate(_)
                | Body::Ack(_)
        );
        let may_follow = !self.follows || is_no_promise;
        may_follow && (!self.is_provisional || provisional::may_say(body))
    }

    /// A node's message to a core that follows.
    pub(crate) fn followed_message(&mut self, now: Time, index: u32, request: u32, body: Body) {
        match body {
            Body::ControllerHello(hello) => {
                self.followed_hello(now, index);
                self.controller_hello(now, index, request, hello);
            }
            Body::ResolveRequest(ask) => self.followed_request(now, index, &ask, None),
            Body::ShortRequest(ask) => self.short_request(now, index, ask),
            Body::HostReport(report) => self.followed_report(index, report),
            Body::HostGone(gone) => self.followed_gone(now, index, &gone),
            Body::ResolveFailed(failed) => self.resolve_failed(index, &failed),
            Body::Ack(_) => {}
            _ => self.dropped(Drop::UnexpectedBody),
        }
    }

    /// Answers a question between hosts that the leader has admitted; all else is the leader's.
    pub(crate) fn followed_request(
        &mut self,
        now: Time,
        index: u32,
        ask: &ResolveRequest,
        secret: Option<Secret>,
    ) {
        let at = Place { node: index, port: ask.port };
        let source = self.hosts.get(ask.source_mac);
        let is_admitted = source.is_some_and(|h| h.at == at && h.ips.contains(&ask.source_ip));
        let waits = |mac| self.waiting.contains_key(&mac);
        let target = self.hosts.by_ip(ask.target_ip).filter(|mac| *mac != ask.source_mac);
        let target = target.filter(|mac| {
            !waits(*mac)
                && !waits(ask.source_mac)
                && is_admitted
                && at.port != ROUTER_HOP
                && !self.is_own_address(ask.target_ip)
        });
        let is_done = target.is_some_and(|mac| self.connect(now, at, ask, mac, secret).is_ok());
        if !is_done {
            let failed = ResolveFailed { exchange: ask.exchange, reason: Refusal::AskLeader };
            self.send(index, 0, failed);
        }
    }

    /// Hosts of a node, as the leader has admitted them there. A node is believed about its own
    /// hosts alone: one that is known at another node moves once that one says that it has gone.
    fn followed_report(&mut self, index: u32, report: HostReport) {
        let mut has_freed = false;
        for HostState { port, mac, ips } in report.hosts {
            self.sessions[index as usize].unconfirmed.remove(&mac);
            let known = self.hosts.get(mac).filter(|host| host.at.node == index);
            let lost: Vec<IpAddr> = known.map(|h| h.ips.clone()).unwrap_or_default();
            for ip in lost.into_iter().filter(|ip| !ips.contains(ip)) {
                self.hosts.unbind(ip);
                has_freed = true;
            }
            self.followed_host(Place { node: index, port }, mac, ips);
        }
        self.sessions[index as usize].hosts_are_reported(report.more == 0);
        if has_freed {
            self.settle_waiting();
        }
    }

    /// Puts a host where its node has reported it, or keeps the report for later if the host or an
    /// address of it is still known elsewhere.
    fn followed_host(&mut self, at: Place, mac: MacAddr, ips: Vec<IpAddr>) {
        let limits = self.config.limits;
        let is_reserved = mac.is_multicast() || mac == MacAddr::default();
        if is_reserved || mac == self.config.group_mac {
            return self.dropped(Drop::NotThere);
        }
        self.waiting.remove(&mac);
        let is_full = self.hosts.len_at(at) >= limits.stations_per_port as usize;
        match self.hosts.get(mac).map(|host| host.at) {
            Some(before) if before == at => {}
            Some(before) if before.node != at.node && self.topology.is_host_port(before) => {
                return self.wait_for(at, mac, ips);
            }
            _ if is_full => return self.dropped(Drop::NotThere),
            Some(_) => self.move_host(mac, at),
            None if self.hosts.len() >= limits.stations as usize => {
                return self.dropped(Drop::NotThere);
            }
            None => self.hosts.add(mac, at),
        }
        let mut is_whole = true;
        for &ip in ips.iter().take(limits.addresses_per_station as usize) {
            if !is_host_address(ip) || self.is_own_address(ip) {
                continue;
            }
            let holder = self.hosts.by_ip(ip).filter(|holder| *holder != mac);
            let elsewhere = holder.and_then(|holder| self.hosts.get(holder)).map(|h| h.at);
            match elsewhere.filter(|place| self.topology.is_host_port(*place)) {
                Some(_) => is_whole = false,
                None => self.hosts.bind(mac, ip),
            }
        }
        self.regroup(mac);
        if !is_whole {
            self.wait_for(at, mac, ips);
        }
    }

    fn wait_for(&mut self, at: Place, mac: MacAddr, ips: Vec<IpAddr>) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.insert(mac, (at, ips));
        }
    }

    /// Some hosts or addresses are no longer where they were: those that wait for them may be put.
    fn settle_waiting(&mut self) {
        for (mac, (at, ips)) in std::mem::take(&mut self.waiting) {
            if self.sessions[at.node as usize].is_open {
                self.followed_host(at, mac, ips);
            }
        }
    }

    /// A host has left its node, perhaps for another one that has reported it already.
    fn followed_gone(&mut self, now: Time, index: u32, gone: &HostGone) {
        let place = Place { node: index, port: gone.port };
        if self.waiting.get(&gone.mac).is_some_and(|(at, _)| *at == place) {
            self.waiting.remove(&gone.mac);
        }
        let waits = self.waiting.get(&gone.mac).map(|(at, _)| *at);
        match waits.filter(|_| self.hosts.get(gone.mac).is_some_and(|h| h.at == place)) {
            Some(at) => self.move_host(gone.mac, at),
            None => self.host_gone(now, index, gone),
        }
        self.settle_waiting();
    }

    /// A node's session has begun: it reports its hosts, and those that it does not name are gone.
    pub(crate) fn followed_node_up(&mut self, index: u32) {
        self.sessions[index as usize].unconfirmed = self.hosts.of_node(index).collect();
    }

    /// A node says Hello, once in some seconds: by then its report is complete.
    fn followed_hello(&mut self, now: Time, index: u32) {
        let session = &mut self.sessions[index as usize];
        if !session.has_reported_hosts() {
            return;
        }
        for mac in std::mem::take(&mut session.unconfirmed) {
            let Some(host) = self.hosts.get(mac).filter(|h| h.at.node == index) else { continue };
            let gone = HostGone { port: host.at.port, mac };
            self.followed_gone(now, index, &gone);
        }
    }
}

/// A digest of settings, for [`Controller::settings_digest`].
pub(crate) fn digest(config: &Config) -> u64 {
    let mut hasher = DefaultHasher::new();
    config.hash(&mut hasher);
    hasher.finish()
}

/// The other controllers, by node number.
pub type Others = BTreeMap<NodeId, Other>;
