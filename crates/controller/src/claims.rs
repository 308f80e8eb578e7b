//! Claims: nodes report stations and addresses; this module decides disputes about their place.
//!
//! If a station is known elsewhere, or another station has the address, the old place is probed
//! before the new one is accepted. If the old place is down, the claim is granted at once; if the
//! old holder answers, it is refused; if it is silent for `probe_timeout_ms`, it is granted. An
//! address leased to another station is never granted. A station without any IP address cannot be
//! probed, and no host can have a route to it (routes are found by IP address), so it moves at
//! once.

use std::collections::BTreeMap;
use std::net::IpAddr;

use plexus_wire::fabric::message::{
    HostGone, HostProbe, HostProbeReply, HostSeen, HostVerdict, Refusal,
};
use plexus_wire::{MacAddr, Time};
use rand::Rng;

use crate::Controller;
use crate::controller::Timer;
use crate::event::{Drop, Event};
use crate::flows::FlowKey;
use crate::scan::ms;
use crate::topology::Place;

/// Most open disputes.
const CLAIMS_MAX: usize = 4096;

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    Refused(Refusal),
    /// The old holder is being probed; the verdict follows.
    Disputed,
}

/// The subject of a dispute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Station(MacAddr),
    Address(IpAddr),
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    subject: Subject,
    /// The claimant.
    at: Place,
    mac: MacAddr,
    ip: Option<IpAddr>,
    request: u32,
    /// Where the old holder was probed.
    asked: Place,
    deadline: Time,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    open: BTreeMap<u64, Claim>,
    by_subject: BTreeMap<Subject, u64>,
}

impl Claims {
    fn close(&mut self, exchange: u64) -> Option<Claim> {
        let claim = self.open.remove(&exchange)?;
        self.by_subject.remove(&claim.subject);
        Some(claim)
    }
}

/// Whether an address can belong to a single host.
pub(crate) fn is_host_address(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() || ip.is_loopback())
        }
        IpAddr::V6(ip) => !(ip.is_unspecified() || ip.is_multicast() || ip.is_loopback()),
    }
}

impl Controller {
    pub(crate) fn host_seen(&mut self, now: Time, index: u32, request: u32, seen: &HostSeen) {
        let at = Place { node: index, port: seen.port };
        match self.admit(now, at, seen.mac, seen.ip, request) {
            Admission::Admitted => self.verdict(at, request, seen.mac, seen.ip, None),
            Admission::Refused(why) => self.verdict(at, request, seen.mac, seen.ip, Some(why)),
            // The verdict may take longer than the node's timeout.
            Admission::Disputed => {}
        }
    }

    pub(crate) fn verdict(
        &mut self,
        at: Place,
        request: u32,
        mac: MacAddr,
        ip: Option<IpAddr>,
        refused: Option<Refusal>,
    ) {
        self.send_reliably(at.node, request, HostVerdict { port: at.port, mac, ip, refused });
        if let Some(why) = refused {
            let node = self.id(at.node);
            self.log(Event::ClaimRefused { mac, ip, node, port: at.port, why });
        }
    }

    /// Decides the claim that a station is at a place, with or without an address.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        at: Place,
        mac: MacAddr,
        ip: Option<IpAddr>,
        request: u32,
    ) -> Admission {
        if mac.is_multicast() || mac == MacAddr::default() || mac == self.config.group_mac {
            return Admission::Refused(Refusal::Reserved);
        }
        let limits = &self.config.limits;
        match self.hosts.get(mac) {
            Some(host) if host.at == at => {}
            Some(host) => {
                let (old, ask) = (host.at, host.ips.first().copied());
                let Some(ask) = ask.filter(|_| self.topology.is_host_port(old)) else {
                    if self.hosts.len_at(at) >= limits.stations_per_port as usize {
                        return Admission::Refused(Refusal::TooMany);
                    }
                    self.move_host(mac, at);
                    return self.admit(now, at, mac, ip, request);
                };
                let subject = Subject::Station(mac);
                return self.dispute(now, subject, (old, mac, ask), (at, mac, ip), request);
            }
            None if self.hosts.len_at(at) >= limits.stations_per_port as usize => {
                return Admission::Refused(Refusal::TooMany);
            }
            None if self.hosts.len() >= limits.stations as usize => {
                return Admission::Refused(Refusal::Full);
            }
            None => {
                self.hosts.add(mac, at);
                self.regroup(mac);
                let node = self.id(at.node);
                self.log(Event::HostFound { mac, node, port: at.port });
            }
        }
        match ip {
            Some(ip) => self.admit_address(now, at, mac, ip, request),
            None => Admission::Admitted,
        }
    }

    /// Decides the claim to an address of a station whose place is settled.
    fn admit_address(
        &mut self,
        now: Time,
        at: Place,
        mac: MacAddr,
        ip: IpAddr,
        request: u32,
    ) -> Admission {
        let is_reserved = self.is_own_address(ip) && self.device_of(ip) != Some(at);
        if !is_host_address(ip) || is_reserved {
            return Admission::Refused(Refusal::Reserved);
        }
        let holder = self.hosts.by_ip(ip);
        if holder == Some(mac) {
            return Admission::Admitted;
        }
        if self.dhcp.is_kept_from(now, mac, ip) {
            return Admission::Refused(Refusal::Claimed);
        }
        let own = self.hosts.get(mac).map_or(0, |h| h.ips.len());
        if own >= self.config.limits.addresses_per_station as usize {
            return Admission::Refused(Refusal::TooMany);
        }
        if self.dhcp.is_static(mac, ip) && !self.has_share(at, None) {
            return Admission::Refused(Refusal::TooMany);
        }
        let old = holder.and_then(|other| Some((other, self.hosts.get(other)?.at)));
        if let Some((other, old)) = old.filter(|(_, old)| self.topology.is_host_port(*old)) {
            let asked = (old, other, ip);
            return self.dispute(now, Subject::Address(ip), asked, (at, mac, Some(ip)), request);
        }
        self.bind(now, mac, ip);
        Admission::Admitted
    }

    /// Assigns an address to a station, and serves the requests that waited for it.
    pub(crate) fn bind(&mut self, now: Time, mac: MacAddr, ip: IpAddr) {
        let from = self.hosts.by_ip(ip);
        self.hosts.bind(mac, ip);
        self.regroup(mac);
        if let Some(from) = from.filter(|from| *from != mac) {
            self.regroup(from);
        }
        self.log(Event::AddressTaken { ip, mac, from });
        if ip.is_ipv6() {
            self.advertise_to(now, mac);
        }
        self.search_succeeded(now, ip);
    }

    /// Probes the old holder, unless a probe is pending.
    fn dispute(
        &mut self,
        now: Time,
        subject: Subject,
        (asked, holder, ask): (Place, MacAddr, IpAddr),
        (at, mac, ip): (Place, MacAddr, Option<IpAddr>),
        request: u32,
    ) -> Admission {
        if let Some(exchange) = self.claims.by_subject.get(&subject) {
            // A repeated claim keeps waiting; a rival claim waits for the outcome of the first.
            return match self.claims.open.get_mut(exchange) {
                Some(open) if open.at == at && open.mac == mac => {
                    open.ip = ip.or(open.ip);
                    open.request = request.max(open.request);
                    Admission::Disputed
                }
                _ => Admission::Refused(Refusal::Claimed),
            };
        }
        if self.claims.open.len() >= CLAIMS_MAX {
            return Admission::Refused(Refusal::Full);
        }
        let exchange = self.rng.next_u64();
        let deadline = now + ms(self.config.limits.probe_timeout_ms);
        let claim = Claim { subject, at, mac, ip, request, asked, deadline };
        self.claims.open.insert(exchange, claim);
        self.claims.by_subject.insert(subject, exchange);
        self.arm(deadline, Timer::Claim(exchange));
        let probe = HostProbe { exchange, port: asked.port, mac: holder, ip: ask };
        self.send(asked.node, 0, probe);
        Admission::Disputed
    }

    pub(crate) fn probe_reply(&mut self, now: Time, index: u32, reply: &HostProbeReply) {
        let asked = self.claims.open.get(&reply.exchange).map(|c| c.asked.node);
        match asked {
            Some(node) if node == index => self.conclude(now, reply.exchange, reply.alive),
            Some(_) => self.dropped(Drop::UnknownExchange),
            None => self.search_reply(now, index, reply),
        }
    }

    pub(crate) fn claim_unanswered(&mut self, now: Time, exchange: u64) {
        self.conclude(now, exchange, false);
    }

    /// Ends a dispute: the old holder answered, or timed out.
    fn conclude(&mut self, now: Time, exchange: u64, alive: bool) {
        let Some(claim) = self.claims.close(exchange) else { return };
        self.disarm(claim.deadline, Timer::Claim(exchange));
        let Claim { subject, at, mac, ip, request, asked, .. } = claim;
        // A node claims a station and its address separately; the dispute has delayed both.
        let held_up_both = matches!(subject, Subject::Station(_)) && ip.is_some();
        let limit = self.config.limits.stations_per_port as usize;
        let why = match subject {
            _ if alive => Some(Refusal::Claimed),
            Subject::Station(_) if self.hosts.len_at(at) >= limit => Some(Refusal::TooMany),
            _ => None,
        };
        if why.is_some() {
            if held_up_both {
                self.verdict(at, 0, mac, None, why);
            }
            return self.verdict(at, request, mac, ip, why);
        }
        match subject {
            // Unless it has moved again, or has left by now.
            Subject::Station(_) if self.hosts.get(mac).is_some_and(|h| h.at == asked) => {
                self.move_host(mac, at);
            }
            Subject::Station(_) => {}
            Subject::Address(ip) => self.hosts.unbind(ip),
        }
        let admission = self.admit(now, at, mac, ip, request);
        if held_up_both && self.hosts.get(mac).is_some_and(|h| h.at == at) {
            self.verdict(at, 0, mac, None, None);
        }
        match admission {
            Admission::Admitted => self.verdict(at, request, mac, ip, None),
            Admission::Refused(why) => self.verdict(at, request, mac, ip, Some(why)),
            Admission::Disputed => {}
        }
    }

    /// Moves a station, with all flows from and to it.
    pub(crate) fn move_host(&mut self, mac: MacAddr, to: Place) {
        let Some(from) = self.hosts.move_to(mac, to) else { return };
        for id in self.flows.of(from, mac) {
            let Some(flow) = self.flows.remove(&self.topology, id) else { continue };
            self.announce_removal(flow.key);
            let key = FlowKey { at: to, ..flow.key };
            let routes = self.flows.routes(&self.topology, &key, flow.to);
            let version = self.flows.next_version();
            let id = self.flows.insert(&self.topology, key, flow.to, routes, version, true);
            self.announce(id);
        }
        for id in self.flows.towards(from.node, mac) {
            self.reroute(id, Some(to));
        }
        self.groups_leave(mac, from);
        self.regroup(mac);
        let reason = Some(Refusal::Claimed);
        let verdict = HostVerdict { port: from.port, mac, ip: None, refused: reason };
        self.send_reliably(from.node, 0, verdict);
        let place = |p: Place| (self.id(p.node), p.port);
        let event = Event::HostMoved { mac, from: place(from), to: place(to) };
        self.log(event);
    }

    pub(crate) fn host_gone(&mut self, now: Time, index: u32, gone: &HostGone) {
        let at = Place { node: index, port: gone.port };
        if self.hosts.get(gone.mac).is_none_or(|h| h.at != at) {
            return self.dropped(Drop::NotThere);
        }
        // Claims to the station or to one of its addresses need not wait any longer.
        let ips = self.hosts.get(gone.mac).map(|h| h.ips.clone()).unwrap_or_default();
        let subjects = ips.into_iter().map(Subject::Address);
        let subjects = subjects.chain([Subject::Station(gone.mac)]);
        let disputes: Vec<u64> =
            subjects.filter_map(|s| self.claims.by_subject.get(&s).copied()).collect();
        self.remove_host(gone.mac);
        for exchange in disputes {
            self.conclude(now, exchange, false);
        }
    }

    /// Removes a station. Its own node has ended its flows; those towards it are ended here.
    fn remove_host(&mut self, mac: MacAddr) {
        let Some(host) = self.hosts.remove(mac) else { return };
        self.advertiser.forget(mac);
        self.groups_leave(mac, host.at);
        let mut flows = 0;
        for id in self.flows.of(host.at, mac) {
            flows += 1;
            self.flows.remove(&self.topology, id);
        }
        for id in self.flows.towards(host.at.node, mac) {
            flows += 1;
            self.end_flow(id);
        }
        let node = self.id(host.at.node);
        self.log(Event::HostLost { mac, node, port: host.at.port, flows });
    }

    /// Recomputes a station's groups; flows that are no longer allowed end.
    pub(crate) fn regroup(&mut self, mac: MacAddr) {
        let Some(host) = self.hosts.get(mac) else { return };
        let groups = self.groups.of(mac, host, &self.topology.node(host.at.node).name);
        let at = host.at;
        // Fast path: in a network without groups nothing else can change.
        if groups == host.groups && self.config.groups.is_empty() {
            return self.groups_touch(mac, at);
        }
        if let Some(host) = self.hosts.get_mut(mac) {
            host.groups = groups;
        }
        self.groups_touch(mac, at);
        let flows = self.flows.of(at, mac).into_iter().chain(self.flows.towards(at.node, mac));
        self.end_forbidden(flows.collect());
    }

    /// Ends the flows whose hosts may not talk to each other.
    pub(crate) fn end_forbidden(&mut self, flows: Vec<u32>) {
        for id in flows {
            let Some(key) = self.flows.get(id).map(|f| f.key) else { continue };
            let Some(source) = key.source.and_then(|s| self.hosts.get(s)) else { continue };
            let Some(target) = self.hosts.get(key.destination) else { continue };
            if !self.may_ask(source, target) && !self.may_ask(target, source) {
                self.end_flow(id);
            }
        }
    }
}
