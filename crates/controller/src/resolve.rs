//! Address resolution (seed §4.2.2, "Axon-ARP"): a host asks for an address; the controller finds
//! the host that has it, computes routes in both directions, and forwards the request to the
//! target's node.
//!
//! If no host is known to have the address, a search probes a few stations, each on its own port:
//! those of which no address of that IP version is known in the group's subnets. Nothing is ever
//! flooded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use plexus_control::exchange;
use plexus_control::version::SHORT;
use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::fabric::message::{
    BODY_MAX, Body, HostProbe, HostProbeReply, Ips, Number, Refusal, ResolveFailed, ResolveForward,
    ResolveRequest, Routes, Secret, ShortForward, ShortRequest,
};
use plexus_wire::{MacAddr, Time};
use rand::Rng;

use crate::Controller;
use crate::claims::Admission;
use crate::controller::Timer;
use crate::event::Drop;
use crate::flows::FlowKey;
use crate::keyed::{Keyed, Seed};
use crate::policy::SET_LEN_MAX;
use crate::scan::ms;
use crate::topology::Place;

/// How long an exchange is remembered: a target that does not answer is reported within this time.
const EXCHANGE_KEPT: Duration = Duration::from_secs(3);
/// Most remembered exchanges.
const EXCHANGES_MAX: usize = 1 << 18;
/// A station is asked again for an address of its own after this time.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Most addresses searched at a time.
const SEARCHES_MAX: usize = 1024;
/// The router of a node has as many entries of route memory as so many ports: it sends for the
/// hosts of all nodes.
const ROUTER_SHARES: usize = 16;
/// Most requests that wait for the same search.
const WAITING_MAX: usize = 16;

// The longest `ResolveForward`: its fixed part, and two full sets of routes.
const _: () = assert!(128 + 2 * (2 + SET_LEN_MAX) <= BODY_MAX);

/// Limits a rate, allowing bursts: the generic cell rate algorithm (ITU-T I.371, annex A).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    /// When the next one would be due at an even rate.
    due: Time,
}

impl Rate {
    pub(crate) fn take(&mut self, now: Time, per_s: u32, burst: u32) -> bool {
        let each = Duration::from_secs(1) / per_s.max(1);
        if self.due > now + each * burst.max(1) - each {
            return false;
        }
        self.due = self.due.max(now) + each;
        true
    }
}

/// A request that was forwarded to the target's node.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    source: Place,
    source_mac: MacAddr,
    target: Place,
    target_mac: MacAddr,
    /// Whether it created the flow there, and the one back.
    made: [bool; 2],
    /// The version that it gave them.
    version: u64,
}

impl Exchange {
    /// The flow there, and the one back.
    fn keys(&self) -> [FlowKey; 2] {
        let Exchange { source, source_mac, target, target_mac, .. } = *self;
        [(source, source_mac, target_mac), (target, target_mac, source_mac)]
            .map(|(at, from, destination)| FlowKey { at, source: Some(from), destination })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Exchanges {
    open: Keyed<u64, Exchange>,
    /// In order of expiry.
    ends: VecDeque<(Time, u64)>,
    /// How many there have been, repeated ones included.
    pub(crate) passed: u64,
}

impl Exchanges {
    pub(crate) fn new(seed: Seed) -> Exchanges {
        Exchanges { open: Keyed::new(seed), ends: VecDeque::new(), passed: 0 }
    }
}

/// An address that stations are being probed for.
#[derive(Clone, Debug)]
struct Search {
    waiting: Vec<(Place, ResolveRequest, Option<Secret>)>,
    /// Unanswered probes.
    probes: BTreeSet<u64>,
    deadline: Time,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Searches {
    open: BTreeMap<IpAddr, Search>,
    probes: BTreeMap<u64, (IpAddr, MacAddr, Place)>,
    rate: Rate,
    /// Where the selection of stations to probe continues.
    next: MacAddr,
    /// Stations that were asked without a search for the address, when, and the probe.
    single: BTreeMap<MacAddr, (Time, u64)>,
}

/// The outcome of a request.
enum Outcome {
    Forwarded,
    Searching,
}

impl Controller {
    pub(crate) fn resolve_request(
        &mut self,
        now: Time,
        index: u32,
        request: u32,
        ask: ResolveRequest,
        secret: Option<Secret>,
    ) {
        let at = Place { node: index, port: ask.port };
        match self.resolve(now, at, &ask, secret) {
            Ok(Outcome::Forwarded) => self.ack(index, request),
            Ok(Outcome::Searching) => {
                self.ack(index, request);
                if let Some(search) = self.searches.open.get_mut(&ask.target_ip) {
                    let known = search.waiting.iter().any(|(_, w, _)| w.exchange == ask.exchange);
                    if !known && search.waiting.len() < WAITING_MAX {
                        search.waiting.push((at, ask, secret));
                    }
                }
            }
            Err(why) => self.refuse(now, at, request, &ask, why),
        }
    }

    /// The same in short. If it does not say who asks and the address is not known there, the node
    /// repeats the request, and says it then.
    pub(crate) fn short_request(&mut self, now: Time, index: u32, ask: ShortRequest) {
        let ShortRequest { secret, port, source_mac, ips } = ask;
        let at = Place { node: index, port };
        let known = self.hosts.by_ip(ips.source()).filter(|mac| self.is_at(*mac, at));
        let Some(source_mac) = source_mac.or(known) else { return self.dropped(Drop::NotThere) };
        let request = ResolveRequest {
            exchange: exchange::number(&secret, source_mac),
            key: exchange::key(&secret, source_mac),
            port,
            source_mac,
            source_ip: ips.source(),
            target_ip: ips.target(),
        };
        match self.follows {
            true => self.followed_request(now, index, &request, Some(secret)),
            false => self.resolve_request(now, index, 0, request, Some(secret)),
        }
    }

    fn refuse(
        &mut self,
        now: Time,
        at: Place,
        request: u32,
        ask: &ResolveRequest,
        reason: Refusal,
    ) {
        let failed = ResolveFailed { exchange: ask.exchange, reason };
        self.send_reliably(at.node, request, failed);
        // A forwarder asks in the stead of a host of another node, and also when that host sends
        // from another one's address.
        let in_vain = match reason {
            Refusal::UnknownTarget | Refusal::Forbidden => Some(ask.target_ip),
            Refusal::Claimed if at.port == ROUTER_HOP => Some(ask.source_ip),
            _ => None,
        };
        let of_sender = self.hosts.get(ask.source_mac).map(|host| host.at);
        let at = of_sender.filter(|_| at.port == ROUTER_HOP).unwrap_or(at);
        // A host that leads to other networks, or is a function, asks in their hosts' stead.
        let is_way_out = || {
            let functions = self.config.classes.iter().flat_map(|class| class.via.iter().copied());
            let mut hops = self.fib.vias().chain(functions).filter_map(|via| self.hosts.by_ip(via));
            hops.any(|mac| self.is_at(mac, at))
        };
        if let Some(ip) = in_vain
            && !is_way_out()
            && !self.is_device(at)
            && self.scans.unknown(now, &self.config.limits, at, ip)
        {
            self.close_port(now, at, Refusal::Scanning);
        }
    }

    /// `secret`: what number and key of the exchange are made of, if the asking host's node knows
    /// short replies.
    fn resolve(
        &mut self,
        now: Time,
        at: Place,
        ask: &ResolveRequest,
        secret: Option<Secret>,
    ) -> Result<Outcome, Refusal> {
        if at.port == ROUTER_HOP {
            let outcome = |is_sent| if is_sent { Outcome::Forwarded } else { Outcome::Searching };
            return self.find_way(now, at, ask).map(outcome);
        }
        if self.scans.is_closed(at) {
            return Err(Refusal::Scanning);
        }
        // A duplicate address probe has no source address (RFC 5227, 2.1.1; RFC 4861, 4.3).
        let claimed = Some(ask.source_ip).filter(|ip| !ip.is_unspecified());
        match self.admit(now, at, ask.source_mac, claimed, 0) {
            Admission::Admitted => {}
            Admission::Refused(why) => return Err(why),
            Admission::Disputed => return Err(Refusal::Claimed),
        }
        // Nodes answer for these themselves, except where routing daemons listen.
        if self.is_own_address(ask.target_ip) && self.device_of(ask.target_ip).is_none() {
            return Err(Refusal::Reserved);
        }
        match self.hosts.by_ip(ask.target_ip) {
            Some(target) if target == ask.source_mac => Err(Refusal::UnknownTarget),
            Some(target) => self.connect(now, at, ask, target, secret).map(|()| Outcome::Forwarded),
            None => self.search(now, ask.source_mac, ask.target_ip).map(|()| Outcome::Searching),
        }
    }

    /// Computes routes in both directions and forwards the request to the target's node.
    pub(crate) fn connect(
        &mut self,
        now: Time,
        at: Place,
        ask: &ResolveRequest,
        target_mac: MacAddr,
        secret: Option<Secret>,
    ) -> Result<(), Refusal> {
        let source = self.hosts.get(ask.source_mac).ok_or(Refusal::UnknownTarget)?;
        let target = self.hosts.get(target_mac).ok_or(Refusal::UnknownTarget)?;
        let to = target.at;
        // An ordinary switch connects both behind one port, and the target has received the
        // question. If its node repeated it in the asking host's name, that switch would learn a
        // wrong port.
        if to == at {
            return Err(Refusal::NoPath);
        }
        if !self.may_ask(source, target) {
            return Err(Refusal::Forbidden);
        }
        if !self.topology.is_host_port(to) {
            return Err(Refusal::NoPath);
        }
        let mut exchange = Exchange {
            source: at,
            source_mac: ask.source_mac,
            target: to,
            target_mac,
            made: [false; 2],
            version: 0,
        };
        let secret = secret.filter(|_| self.sessions[to.node as usize].version >= SHORT);
        let mut ids = [0; 2];
        for (i, (key, end)) in exchange.keys().into_iter().zip([to, at]).enumerate() {
            let known = self.flows.find(&key).filter(|id| !self.flows.stranded.contains(id));
            ids[i] = match known {
                Some(id) => id,
                None => {
                    let there = self.flows.get(ids[0]).filter(|_| i == 1 && secret.is_some());
                    let back = there.and_then(|flow| self.flows.back(&self.topology, flow));
                    let back = back.filter(|_| exchange.made[0]);
                    let routes =
                        back.unwrap_or_else(|| self.flows.routes(&self.topology, &key, end));
                    let room = match routes.is_empty() {
                        true => Err(Refusal::NoPath),
                        false => self.make_room(now, Some(at).filter(|at| key.at == *at), key),
                    };
                    if let Err(why) = room {
                        // No node knows the new flow yet.
                        if exchange.made[0] {
                            self.flows.remove(&self.topology, ids[0]);
                        }
                        return Err(why);
                    }
                    exchange.made[i] = true;
                    // It gets its version below.
                    self.flows.insert(&self.topology, key, end, routes, 0, true)
                }
            };
        }
        let version = self.flows.next_version();
        let [to_target, to_source] =
            ids.map(|id| self.flows.set_version(id, version).unwrap_or_default());
        self.remember(now, ask.exchange, Exchange { version, ..exchange });
        let forward = ResolveForward {
            exchange: ask.exchange,
            key: ask.key,
            version,
            source_mac: ask.source_mac,
            source_ip: ask.source_ip,
            target_mac,
            target_ip: ask.target_ip,
            target_port: to.port,
            to_source,
            to_target,
        };
        self.exchanges.passed += 1;
        let short = secret.and_then(|secret| self.in_short(to, &forward, secret));
        let forward = short.map_or_else(|| Body::from(forward), Body::from);
        // If it is lost, the asking host's node repeats its request.
        self.send(to.node, 0, forward);
        Ok(())
    }

    /// A request for the target's node in short. The reply travels along the first route to the
    /// source: what its header records on the way is a route to the target.
    fn in_short(
        &self,
        to: Place,
        forward: &ResolveForward,
        secret: Secret,
    ) -> Option<ShortForward> {
        let back = self.topology.backwards(to, forward.to_source.first()?)?;
        let recorded = forward.to_target.iter().position(|hops| *hops == back);
        Some(ShortForward {
            secret,
            version: Number(forward.version),
            source_mac: forward.source_mac,
            target_mac: forward.target_mac,
            ips: Ips::new(forward.source_ip, forward.target_ip)?,
            to_source: Routes::new(forward.to_source.clone())?,
            to_target: Routes::new(forward.to_target.clone())?,
            recorded: recorded.map_or(0, |at| at as u8 + 1),
        })
    }

    /// Makes room for a new flow, in the tables and in its port's share of them. `opener`: the port
    /// whose host opens it.
    pub(crate) fn make_room(
        &mut self,
        now: Time,
        opener: Option<Place>,
        key: FlowKey,
    ) -> Result<(), Refusal> {
        let limits = self.config.limits;
        if let Some(port) = opener.filter(|port| self.scans.flow(now, &limits, *port)) {
            self.close_port(now, port, Refusal::Scanning);
            return Err(Refusal::Scanning);
        }
        if self.flows.find(&key).is_some() {
            return Ok(());
        }
        let shares = if key.at.port == ROUTER_HOP { ROUTER_SHARES } else { 1 };
        if self.flows.len_at(key.at) >= shares * limits.flows_per_port as usize {
            let near = MacAddr::from_u64(self.rng.next_u64() & 0xFFFF_FFFF_FFFF);
            if let Some(victim) = self.flows.victim(key.at, near) {
                self.end_flow(victim);
            }
        }
        if self.flows.len() >= limits.flows as usize {
            return Err(Refusal::Full);
        }
        Ok(())
    }

    fn remember(&mut self, now: Time, number: u64, exchange: Exchange) {
        if let Some(known) = self.exchanges.open.get_mut(&number) {
            // A retransmission: on failure, what the first request created still has to be undone.
            if known.source.node == exchange.source.node {
                let made = if known.keys() == exchange.keys() { known.made } else { [false; 2] };
                *known = exchange;
                known.made = [made[0] || exchange.made[0], made[1] || exchange.made[1]];
            }
            return;
        }
        if self.exchanges.ends.len() >= EXCHANGES_MAX
            && let Some((_, oldest)) = self.exchanges.ends.pop_front()
        {
            self.exchanges.open.remove(&oldest);
        }
        let end = now + EXCHANGE_KEPT;
        if self.exchanges.ends.is_empty() {
            self.arm(end, Timer::Exchanges);
        }
        self.exchanges.open.insert(number, exchange);
        self.exchanges.ends.push_back((end, number));
    }

    pub(crate) fn forget_exchanges(&mut self, now: Time) {
        while let Some(&(end, number)) = self.exchanges.ends.front() {
            if end > now {
                return self.arm(end, Timer::Exchanges);
            }
            self.exchanges.ends.pop_front();
            self.exchanges.open.remove(&number);
        }
    }

    /// The target's node failed: the source's node is told, and the flows that the exchange created
    /// end. The nodes are told of that too, because an earlier copy of the request may have been
    /// answered. But a pair that has since met in another exchange, by an address that does answer,
    /// keeps its routes.
    pub(crate) fn resolve_failed(&mut self, index: u32, failed: &ResolveFailed) {
        let known = self.exchanges.open.get(&failed.exchange).filter(|e| e.target.node == index);
        let Some(&exchange) = known else { return self.dropped(Drop::UnknownExchange) };
        self.exchanges.open.remove(&failed.exchange);
        for (key, _) in exchange.keys().into_iter().zip(exchange.made).filter(|(_, made)| *made) {
            let id = self.flows.find(&key);
            let flow = id.and_then(|id| Some((id, self.flows.get(id)?)));
            if let Some((id, _)) = flow.filter(|(_, flow)| flow.version == exchange.version) {
                self.end_flow(id);
            }
        }
        self.send_reliably(exchange.source.node, 0, failed.clone());
    }

    /// Probes stations, on behalf of `source`, for an address that none is known to have.
    pub(crate) fn search(&mut self, now: Time, source: MacAddr, ip: IpAddr) -> Result<(), Refusal> {
        if let Some(open) = self.searches.open.get(&ip) {
            let full = open.waiting.len() >= WAITING_MAX;
            return if full { Err(Refusal::UnknownTarget) } else { Ok(()) };
        }
        if self.searches.open.len() >= SEARCHES_MAX {
            return Err(Refusal::UnknownTarget);
        }
        let limits = self.config.limits;
        let groups = self.hosts.get(source).map(|h| h.groups.clone()).unwrap_or_default();
        // The scan has a bound of its own: most stations may be in other groups.
        let looked_at = self.hosts.without(ip.is_ipv4(), self.searches.next);
        let looked_at = looked_at.take(16 * limits.probes_per_search as usize);
        let others: Vec<(MacAddr, Place)> = looked_at
            .filter_map(|mac| Some((mac, self.hosts.get(mac)?)))
            .filter(|(mac, host)| {
                *mac != source
                    && self.topology.is_host_port(host.at)
                    && self.groups.may_ask(&groups, &host.groups)
            })
            .map(|(mac, host)| (mac, host.at))
            .take(limits.probes_per_search as usize)
            .collect();
        let asked = self.device_of(ip).map_or(others, |device| vec![(MacAddr::BROADCAST, device)]);
        let mut probes = BTreeSet::new();
        for (mac, place) in asked {
            if !self.searches.rate.take(now, limits.probes_per_s, limits.probes_per_s / 4) {
                self.dropped(Drop::ProbeRate);
                break;
            }
            let exchange = self.rng.next_u64();
            probes.insert(exchange);
            self.searches.probes.insert(exchange, (ip, mac, place));
            if mac != MacAddr::BROADCAST {
                self.searches.next = MacAddr::from_u64(mac.to_u64() + 1);
            }
            self.send(place.node, 0, HostProbe { exchange, port: place.port, mac, ip });
        }
        if probes.is_empty() {
            return Err(Refusal::UnknownTarget);
        }
        let deadline = now + ms(limits.probe_timeout_ms);
        self.arm(deadline, Timer::Search(ip));
        self.searches.open.insert(ip, Search { waiting: Vec::new(), probes, deadline });
        Ok(())
    }

    /// Asks one station whether it has an address that nobody is known to have. Once a second: a
    /// host can send from any number of addresses. Nobody waits for the answer, so it cannot stand
    /// in the way of a search for the same address.
    pub(crate) fn ask_station(&mut self, now: Time, ip: IpAddr, (mac, at): (MacAddr, Place)) {
        let Searches { single, probes, rate, .. } = &mut self.searches;
        let is_recent = |asked: &(Time, u64)| now.since(asked.0) < ASK_AGAIN;
        let limits = self.config.limits;
        let may = !single.get(&mac).is_some_and(is_recent)
            && rate.take(now, limits.probes_per_s, limits.probes_per_s / 4);
        if !may {
            return;
        }
        if single.len() >= SEARCHES_MAX {
            single.retain(|_, asked| {
                if !is_recent(asked) {
                    probes.remove(&asked.1);
                }
                is_recent(asked)
            });
        }
        let exchange = self.rng.next_u64();
        if let Some((_, before)) = single.insert(mac, (now, exchange)) {
            probes.remove(&before);
        }
        probes.insert(exchange, (ip, mac, at));
        self.send(at.node, 0, HostProbe { exchange, port: at.port, mac, ip });
    }

    pub(crate) fn search_reply(&mut self, now: Time, index: u32, reply: &HostProbeReply) {
        let probe = self.searches.probes.get(&reply.exchange).copied();
        let Some((ip, mac, _)) = probe.filter(|(.., at)| at.node == index) else {
            return self.dropped(Drop::UnknownExchange);
        };
        if reply.alive {
            let Some(at) = self.hosts.get(mac).map(|h| h.at) else { return };
            if self.admit(now, at, mac, Some(ip), 0) == Admission::Admitted {
                self.verdict(at, 0, mac, Some(ip), None);
            }
            return;
        }
        self.searches.probes.remove(&reply.exchange);
        let Some(search) = self.searches.open.get_mut(&ip) else { return };
        search.probes.remove(&reply.exchange);
        if search.probes.is_empty() {
            self.search_failed(now, ip);
        }
    }

    fn end_search(&mut self, ip: IpAddr) -> Vec<(Place, ResolveRequest, Option<Secret>)> {
        let Some(search) = self.searches.open.remove(&ip) else { return Vec::new() };
        self.disarm(search.deadline, Timer::Search(ip));
        for probe in &search.probes {
            self.searches.probes.remove(probe);
        }
        search.waiting
    }

    pub(crate) fn search_failed(&mut self, now: Time, ip: IpAddr) {
        for (at, ask, _) in self.end_search(ip) {
            self.refuse(now, at, 0, &ask, Refusal::UnknownTarget);
        }
        self.server_searched(now, ip);
    }

    /// A host has announced the address: serves the requests that waited for it.
    pub(crate) fn search_succeeded(&mut self, now: Time, ip: IpAddr) {
        for (at, ask, secret) in self.end_search(ip) {
            match self.resolve(now, at, &ask, secret) {
                Ok(Outcome::Forwarded) => {}
                Ok(Outcome::Searching) => self.refuse(now, at, 0, &ask, Refusal::UnknownTarget),
                Err(why) => self.refuse(now, at, 0, &ask, why),
            }
        }
        self.server_searched(now, ip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_allows_its_burst_and_then_its_pace() {
        let mut rate = Rate::default();
        let at = |ms: u64| Time::from_millis(100_000 + ms);
        let taken = |rate: &mut Rate, ms, n| (0..n).filter(|_| rate.take(at(ms), 10, 5)).count();
        assert_eq!(taken(&mut rate, 0, 20), 5);
        assert_eq!(taken(&mut rate, 99, 20), 0);
        assert_eq!(taken(&mut rate, 100, 20), 1);
        assert_eq!(taken(&mut rate, 10_000, 20), 5);
    }
}
