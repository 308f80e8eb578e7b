//! The Axon-ARP exchange (seed §4.2.2), for ARP and neighbour discovery alike.
//!
//! ```text
//! source host   source node        controller        target node      target host
//!   who has T? ──▶ reserve
//!                  ResolveRequest ──▶ may they? routes
//!                                    ResolveForward ──▶ reserve
//!                                                       who has T? ────▶
//!                                                       route T→S  ◀──── I have
//!                  route S→T  ◀──────── ResolveReply (the exchange's key)
//!   I have T   ◀──
//! ```
//!
//! The route back is in place before the asking host gets an answer. Answers are cached: the same
//! question is answered from the cache as long as its route exists.

pub(super) mod short;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::MacAddr;
use plexus_wire::fabric::message::{
    FlowReport, Hops, Invalidate, Refusal, ResolveFailed, ResolveForward, ResolveReply,
    ResolveRequest, RouteEntry, Secret, Way,
};
use plexus_wire::fabric::{CONTROL_HOP, ROUTER_HOP};

use super::effect::{Effect, Timer, Turn, Unserved, in_parts};
use super::held::has_room;
use super::host_frame::{Party, answer, question};
use super::stations::Group;
use crate::exchange;
use crate::session::Random;
use short::ShortAnswer;

/// Most pending questions of one port.
const EXCHANGES_PER_PORT: usize = 64;
/// Most pending questions to stations.
const ASKING_MAX: usize = 4096;
/// Entries of a port's route memory (seed §5.3: 4000 suffice for a busy edge), and cached answers.
const ROUTES_MAX: usize = 4096;
/// Most devices of routing daemons.
const DEVICES_MAX: usize = 256;
/// Exchanges whose key is kept for invalidations.
const PAIRS_MAX: usize = 16_384;
/// Bytes of the frames of each kind that wait for one exchange.
const HELD_MAX: usize = 64 << 10;
/// A request without a reply is retransmitted after these times, then given up.
const RETRY: [Duration; 4] = [
    Duration::from_millis(30),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(600),
];
/// A target that does not answer is asked again after this time.
const ANSWER_WITHIN: Duration = Duration::from_millis(100);
const TRIES: u8 = 3;
/// Entries in one message of a report.
const REPORT_ROUTES: usize = 8;

/// The controller that leads, where a controller that stands by has its node number.
pub(crate) const LEADER: u64 = 0;

/// Exchanges, the routes that they created, and cached answers.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    /// The standby that is asked first, if one is nearer than the controller that leads.
    nearest: Option<u64>,
    /// Sessions with each standby so far: in each it may count versions anew.
    eras: BTreeMap<u64, u32>,
    exchanges: BTreeMap<u64, Exchange>,
    /// The pending exchange of a question.
    asked: BTreeMap<(u8, MacAddr, IpAddr), u64>,
    asking: HashMap<u64, Asking>,
    pairs: BTreeMap<u64, Pair>,
    pair_of: HashMap<(MacAddr, MacAddr), u64>,
    ports: BTreeMap<u8, Memory>,
    /// Stations that have the group's own addresses: devices of routing daemons. Hosts' frames to
    /// them pass the control plane, which bounds how many there are and where they come from.
    devices: BTreeSet<MacAddr>,
}

/// Why an address is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need<'a> {
    /// A host waits for the answer.
    Answer,
    /// This frame of a host needs the route to the station.
    Route(&'a [u8]),
    /// This IP packet of a host, to the group's own address, is to be routed to the station.
    Routed(&'a [u8]),
    /// This IP packet of a host is for routing daemons, at one of the group's own addresses.
    Own(&'a [u8]),
    /// The station is known, but another one may have the address by now.
    Fresh,
}

/// A question of a local host.
#[derive(Debug)]
struct Exchange {
    request: ResolveRequest,
    /// The controller that is asked.
    asked: u64,
    /// Number and key are made of it.
    secret: Secret,
    sent: usize,
    /// The host waits for an answer; false if one of its packets showed that it needs the route.
    answer: bool,
    /// The router is to know the station.
    is_routed: bool,
    /// Frames that arrived before the route: they follow it.
    held: Vec<Vec<u8>>,
    /// Packets that arrived before the router knew the station: they are routed then.
    held_to_route: Vec<Vec<u8>>,
    /// Packets for routing daemons.
    held_own: Vec<Vec<u8>>,
}

/// A question to a local host.
#[derive(Debug)]
struct Asking {
    forward: ResolveForward,
    /// The controller that has forwarded it.
    owner: u64,
    /// How the source node gets the reply, if it is a short one.
    short: Option<ShortAnswer>,
    /// The two hosts are in different networks of the group.
    is_routed: bool,
    asked: u8,
}

/// Two hosts that have a route, the local one first: an Invalidate for them is accepted.
#[derive(Debug)]
struct Pair {
    local: MacAddr,
    remote: MacAddr,
    port: u8,
    key: [u8; 32],
}

/// One port's route memory, as set by the control plane.
#[derive(Debug, Default)]
struct Memory {
    /// By source and destination.
    routes: BTreeMap<(Option<MacAddr>, MacAddr), Route>,
    /// Used as answers only while their route exists; afterwards they tell which address to ask
    /// for.
    answers: BTreeMap<(MacAddr, IpAddr), MacAddr>,
}

/// Routes of an entry, as a controller has set them.
#[derive(Clone, Debug)]
struct Route {
    version: u64,
    /// The controller whose version it is.
    owner: u64,
    /// The session with it, of several.
    era: u32,
    /// No paths: removed at that version.
    paths: Vec<Hops>,
}

impl Route {
    /// Whether a version of a controller is older than this. Each controller has a count of its
    /// own within an epoch, and looks after the routes that it has told. So of two controllers in
    /// one epoch the one that is heard later counts.
    fn is_newer_than(&self, version: u64, (owner, era): (u64, u32)) -> bool {
        let is_same = (self.owner, self.era) == (owner, era);
        (is_same || self.version >> 32 != version >> 32) && self.version > version
    }
}

impl Resolver {
    /// Sets the standby that is asked first.
    pub(super) fn set_nearest(&mut self, nearest: Option<u64>) {
        self.nearest = nearest;
    }

    /// A host needs the station that has an address. If it sends frames to a station without a
    /// route, the target may have answered it directly, or its route was just removed.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn ask(
        &mut self,
        turn: &mut Turn<'_>,
        port: u8,
        source: Party,
        target_ip: IpAddr,
        need: Need<'_>,
        random: &mut Random,
    ) {
        if target_ip == source.ip {
            return turn.dropped(port, Unserved::SamePort);
        }
        let memory = self.ports.entry(port).or_default();
        if let Some(&mac) = memory.answers.get(&(source.mac, target_ip))
            && let Some(path) = memory.path(source.mac, mac)
        {
            match need {
                // It arrived before the data plane had the route.
                Need::Route(frame) => {
                    return turn.push(Effect::Along { port, path, frame: frame.to_vec() });
                }
                Need::Own(frame) => {
                    let frame = addressed(frame, mac);
                    return turn.push(Effect::Along { port, path, frame });
                }
                Need::Routed(frame) => {
                    let (address, asker) = (target_ip, Some((port, source)));
                    turn.push(Effect::Learn { address, mac, asker, fresh: false });
                    return turn.push(Effect::Again { port, frame: frame.to_vec() });
                }
                Need::Answer => {
                    let who = Party { mac, ip: target_ip };
                    return turn.host(port, answer(who, source.mac, Some(source.ip)));
                }
                Need::Fresh => {}
            }
        }
        let question = (port, source.mac, target_ip);
        if let Some(id) = self.asked.get(&question) {
            if let Some(exchange) = self.exchanges.get_mut(id) {
                // The answer will say nothing of another address of the sender.
                let is_other = port == ROUTER_HOP && exchange.request.source_ip != source.ip;
                match need {
                    Need::Own(_) if is_other => turn.dropped(port, Unserved::NoRoute),
                    need => exchange.wait(turn, port, need),
                }
            }
            return;
        }
        // The scan stops at the limit per port, however many exchanges others have.
        let first = (port, MacAddr::default(), IpAddr::from([0, 0, 0, 0]));
        let of_port = self.asked.range(first..).take_while(|((p, ..), _)| *p == port);
        // Those of the router are of the hosts of many ports.
        let share = if port == ROUTER_HOP { 16 } else { 1 };
        if of_port.count() >= EXCHANGES_PER_PORT * share {
            return turn.dropped(port, Unserved::TooMany);
        }
        let secret: Secret = random.bytes();
        let id = exchange::number(&secret, source.mac);
        let request = ResolveRequest {
            exchange: id,
            key: exchange::key(&secret, source.mac),
            port,
            source_mac: source.mac,
            source_ip: source.ip,
            target_ip,
        };
        self.asked.insert(question, id);
        // Routes between networks are the leader's business.
        let by_router = port == ROUTER_HOP || !matches!(need, Need::Answer | Need::Route(_));
        let mut exchange = Exchange {
            request,
            asked: self.nearest.filter(|_| !by_router).unwrap_or(LEADER),
            secret,
            sent: 0,
            answer: false,
            is_routed: false,
            held: vec![],
            held_to_route: vec![],
            held_own: vec![],
        };
        exchange.wait(turn, port, need);
        self.exchanges.insert(id, exchange);
        self.request(turn, id);
    }

    /// The next question of a host for an address goes to the controller.
    pub(crate) fn forget_answer(&mut self, port: u8, source: MacAddr, target: IpAddr) {
        if let Some(memory) = self.ports.get_mut(&port) {
            memory.answers.remove(&(source, target));
        }
    }

    /// Sends the request of an exchange, once more if it was sent, or gives the exchange up.
    pub(crate) fn request(&mut self, turn: &mut Turn<'_>, id: u64) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let Some(&wait) = RETRY.get(exchange.sent) else {
            let port = exchange.request.port;
            if let Some(exchange) = self.give_up(turn, id) {
                exchange.held_to_route.into_iter().for_each(|frame| {
                    turn.push(Effect::Unreachable { frame });
                });
            }
            return turn.dropped(port, Unserved::NoRoute);
        };
        exchange.sent += 1;
        let (of, first) = (exchange.asked, exchange.sent == 1);
        let (request, secret) = (exchange.request.clone(), exchange.secret);
        turn.push(Effect::Ask { of, request, secret, first });
        turn.after(wait, Timer::Exchange(id));
    }

    /// An exchange has had no reply: it is requested again, now of the controller that leads.
    pub(crate) fn request_again(&mut self, turn: &mut Turn<'_>, id: u64, random: &mut Random) {
        match self.exchanges.get(&id).map(|exchange| exchange.asked) {
            Some(LEADER) => self.request(turn, id),
            Some(standby) => {
                turn.push(Effect::Silent { standby });
                self.ask_leader(turn, id, random);
            }
            None => {}
        }
    }

    /// A standby cannot tell, or has said why there is no reply.
    pub(crate) fn standby_failed(
        &mut self,
        turn: &mut Turn<'_>,
        standby: u64,
        failed: &ResolveFailed,
        random: &mut Random,
    ) {
        let asked = self.exchanges.get(&failed.exchange).map(|exchange| exchange.asked);
        if asked != Some(standby) {
            return;
        }
        match failed.reason {
            Refusal::AskLeader => self.ask_leader(turn, failed.exchange, random),
            _ => self.failed(turn, failed),
        }
    }

    /// Asks the controller that leads instead of a standby: by a new exchange, because whichever
    /// answers looks after the route.
    fn ask_leader(&mut self, turn: &mut Turn<'_>, id: u64, random: &mut Random) {
        let Some(mut asked) = self.give_up(turn, id) else { return };
        let ResolveRequest { port, source_mac, target_ip, .. } = asked.request;
        let secret: Secret = random.bytes();
        let id = exchange::number(&secret, source_mac);
        (asked.request.exchange, asked.secret) = (id, secret);
        asked.request.key = exchange::key(&secret, source_mac);
        (asked.asked, asked.sent) = (LEADER, 0);
        self.asked.insert((port, source_mac, target_ip), id);
        self.exchanges.insert(id, asked);
        self.request(turn, id);
    }

    fn give_up(&mut self, turn: &mut Turn<'_>, id: u64) -> Option<Exchange> {
        let exchange = self.exchanges.remove(&id)?;
        let ResolveRequest { port, source_mac, target_ip, .. } = exchange.request;
        self.asked.remove(&(port, source_mac, target_ip));
        turn.timers.cancel(Timer::Exchange(id));
        Some(exchange)
    }

    /// The controller reports that there will be no reply.
    pub(crate) fn failed(&mut self, turn: &mut Turn<'_>, failed: &ResolveFailed) {
        if let Some(exchange) = self.give_up(turn, failed.exchange) {
            turn.dropped(exchange.request.port, Unserved::NoRoute);
            let address = exchange.request.target_ip;
            // Where this host may not send, others may; but nobody else asks for it again.
            let is_gone = matches!(failed.reason, Refusal::UnknownTarget | Refusal::Silent);
            if is_gone || exchange.is_routed && exchange.held_to_route.is_empty() {
                turn.push(Effect::Forget { address });
            }
            exchange.held_to_route.into_iter().for_each(|frame| {
                turn.push(Effect::Unreachable { frame });
            });
            // Packets for daemons are dropped. An answer in their stead, such as the reset of a
            // connection, would end what goes on once they are reached again.
        }
    }

    /// A host of another node asks for a local host.
    pub(crate) fn forward(
        &mut self,
        turn: &mut Turn<'_>,
        owner: u64,
        (forward, short): (ResolveForward, Option<ShortAnswer>),
        group: Option<&Group>,
    ) {
        let id = forward.exchange;
        if !self.asking.contains_key(&id) && self.asking.len() >= ASKING_MAX {
            return;
        }
        let is_routed =
            group.is_some_and(|g| g.routes_between(forward.source_ip, forward.target_ip));
        self.asking.insert(id, Asking { forward, owner, short, is_routed, asked: 0 });
        self.put_question(turn, id, group);
    }

    /// Asks a local host. The group asks if the asking host already has a route, so that the answer
    /// comes to the node and not to that host; and if the two are in different networks, because a
    /// host need not answer a stranger to its own.
    pub(crate) fn put_question(&mut self, turn: &mut Turn<'_>, id: u64, group: Option<&Group>) {
        let Some(asking) = self.asking.get_mut(&id) else { return };
        if asking.asked >= TRIES {
            let owner = asking.owner;
            self.asking.remove(&id);
            let body = ResolveFailed { exchange: id, reason: Refusal::Silent }.into();
            return turn.push(match owner {
                LEADER => Effect::Controller { body, sure: true },
                controller => Effect::Standby { controller, body, sure: true },
            });
        }
        asking.asked += 1;
        let f = &asking.forward;
        let source = Party { mac: f.source_mac, ip: f.source_ip };
        let leads =
            self.ports.get(&f.target_port).is_some_and(|m| m.leads(f.target_mac, f.source_mac));
        // The same if the target itself waits for the asking host: the question would teach it the
        // address, and it would send before its answer has brought the route.
        let waits = self.asked.contains_key(&(f.target_port, f.target_mac, f.source_ip));
        // And if daemons ask, or are asked for, at the group's own address: hosts are to learn the
        // group's Ethernet address for it, not theirs.
        let by_daemons =
            group.is_some_and(|group| group.owns(f.source_ip) || group.owns(f.target_ip));
        let group = group.filter(|_| leads || waits || asking.is_routed || by_daemons);
        let asker = group.map_or(source, |group| group.asker(f.target_ip));
        let frame = question(asker, f.target_mac, f.target_ip);
        turn.host(f.target_port, frame);
        turn.after(ANSWER_WITHIN, Timer::Asking(id));
    }

    /// A local station has announced its address: exchanges that asked it continue.
    pub(crate) fn answered(
        &mut self,
        turn: &mut Turn<'_>,
        group: Option<&Group>,
        (port, mac, ip): (u8, MacAddr, IpAddr),
    ) {
        let of_it = |a: &Asking| {
            let f = &a.forward;
            f.target_port == port && f.target_mac == mac && f.target_ip == ip
        };
        let mut found: Vec<u64> =
            self.asking.iter().filter(|(_, a)| of_it(a)).map(|(id, _)| *id).collect();
        found.sort_unstable();
        for id in found {
            turn.timers.cancel(Timer::Asking(id));
            let Some(asking) = self.asking.remove(&id) else { continue };
            let Asking { forward: f, owner, short, is_routed, .. } = asking;
            self.note_device(turn, group, f.source_ip, f.source_mac);
            // The route back first.
            self.install(
                turn,
                RouteEntry {
                    port,
                    source: Some(mac),
                    destination: f.source_mac,
                    version: f.version,
                    routes: f.to_source.clone(),
                },
                owner,
            );
            turn.push(Effect::Found { address: f.source_ip, mac: f.source_mac });
            if is_routed {
                let (address, mac) = (f.source_ip, f.source_mac);
                turn.push(Effect::Learn { address, mac, asker: None, fresh: true });
            }
            let pair = Pair { local: mac, remote: f.source_mac, port, key: f.key };
            self.remember(id, pair);
            // If both hosts asked for each other at once, the result of one exchange serves the
            // other.
            if let Some(crossing) = self.asked.get(&(port, mac, f.source_ip)).copied()
                && let Some(asked) = self.give_up(turn, crossing)
            {
                // The other node will use that number too.
                let key = asked.request.key;
                let pair = Pair { local: mac, remote: f.source_mac, port, key };
                self.remember(crossing, pair);
                self.conclude(turn, asked, f.source_mac, f.to_source.first());
            }
            // The first way back, but to the control plane of the asking host's node.
            let mut path = f.to_source.into_iter().next().unwrap_or_default();
            if let Some(last) = path.last_mut() {
                *last = CONTROL_HOP;
            }
            let reply = ResolveReply {
                version: f.version,
                target_mac: mac,
                target_ip: ip,
                to_target: f.to_target,
            };
            turn.push(Effect::Reply { path, exchange: id, key: f.key, reply, short });
        }
    }

    /// The key of an exchange of this node.
    pub(crate) fn key(&self, exchange: u64) -> Option<[u8; 32]> {
        let pending = self.exchanges.get(&exchange).map(|e| e.request.key);
        pending.or_else(|| self.pairs.get(&exchange).map(|p| p.key))
    }

    /// Pending questions whose exchange's number begins so, each with the key of its reply.
    fn asked_about(&self, high: u32) -> impl Iterator<Item = (u64, &ResolveRequest, [u8; 32])> {
        let first = u64::from(high) << 32;
        let asked = self.exchanges.range(first..=first | u64::from(u32::MAX));
        asked.map(|(id, asked)| {
            let key = exchange::reply_key(&asked.secret, asked.request.source_mac);
            (*id, &asked.request, key)
        })
    }

    /// The controller has told a forwarder the ways between a host and what it sends to.
    pub(crate) fn way(&mut self, turn: &mut Turn<'_>, group: Option<&Group>, way: &Way) {
        let is_routers = |e: &Exchange| e.request.port == ROUTER_HOP;
        if !self.exchanges.get(&way.exchange).is_some_and(is_routers) {
            return;
        }
        let Some((group, asked)) = group.zip(self.give_up(turn, way.exchange)) else { return };
        let ResolveRequest { source_mac, target_ip, .. } = asked.request;
        self.note_device(turn, Some(group), target_ip, way.target_mac);
        let entry = |source: MacAddr, destination, routes: &Vec<Hops>| RouteEntry {
            port: ROUTER_HOP,
            source: Some(source),
            destination,
            version: way.version,
            routes: routes.clone(),
        };
        // For the group's own packets alone: other hosts may not be allowed to send to it.
        self.install(turn, entry(group.mac, source_mac, &way.to_source), LEADER);
        // Its packets must come from this address, or from beyond it.
        turn.push(Effect::Sends { address: way.source_ip, mac: source_mac });
        if group.mac == way.target_mac {
            return turn.out.extend(asked.held_own.into_iter().map(|frame| Effect::Own { frame }));
        }
        self.install(turn, entry(source_mac, way.target_mac, &way.to_target), LEADER);
        self.conclude(turn, asked, way.target_mac, way.to_target.first());
    }

    /// Whether the router of this node has a way to a host.
    pub(crate) fn leads_back(&self, group: &Group, host: MacAddr) -> bool {
        self.ports.get(&ROUTER_HOP).is_some_and(|memory| memory.leads(group.mac, host))
    }

    /// The target's node has replied.
    pub(crate) fn replied(
        &mut self,
        turn: &mut Turn<'_>,
        group: Option<&Group>,
        exchange: u64,
        reply: &ResolveReply,
    ) {
        let Some(asked) = self.give_up(turn, exchange) else { return };
        let request = &asked.request;
        if reply.target_ip != request.target_ip {
            return;
        }
        let source = Party { mac: request.source_mac, ip: request.source_ip };
        let (port, owner) = (request.port, asked.asked);
        self.note_device(turn, group, reply.target_ip, reply.target_mac);
        self.install(
            turn,
            RouteEntry {
                port,
                source: Some(source.mac),
                destination: reply.target_mac,
                version: reply.version,
                routes: reply.to_target.clone(),
            },
            owner,
        );
        let pair = Pair { local: source.mac, remote: reply.target_mac, port, key: request.key };
        self.remember(exchange, pair);
        self.conclude(turn, asked, reply.target_mac, reply.to_target.first());
    }

    /// A question is answered and its route in place: the waiting answer and frames are sent.
    fn conclude(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Exchange,
        mac: MacAddr,
        path: Option<&Hops>,
    ) {
        let ResolveRequest { port, source_mac, source_ip, target_ip, .. } = asked.request;
        let memory = self.ports.entry(port).or_default();
        if memory.answers.len() >= ROUTES_MAX {
            memory.answers.clear();
        }
        memory.answers.insert((source_mac, target_ip), mac);
        turn.push(Effect::Found { address: target_ip, mac });
        if asked.is_routed {
            let asker = Some((port, Party { mac: source_mac, ip: source_ip }));
            let fresh = asked.held_to_route.is_empty();
            turn.push(Effect::Learn { address: target_ip, mac, asker, fresh });
            let again = |frame| Effect::Again { port, frame };
            turn.out.extend(asked.held_to_route.into_iter().map(again));
        }
        if let Some(path) = path {
            let along = |frame| Effect::Along { port, path: path.clone(), frame };
            turn.out.extend(asked.held.into_iter().map(along));
            let own = asked.held_own.into_iter().map(|frame| addressed(&frame, mac));
            turn.out.extend(own.map(along));
        }
        if asked.answer {
            let frame = answer(Party { mac, ip: target_ip }, source_mac, Some(source_ip));
            turn.host(port, frame);
        }
    }

    /// Both nodes also keep the keys of earlier exchanges of the same hosts, because they may
    /// disagree on which was the last. Numbers are random, so the first to be evicted is arbitrary.
    fn remember(&mut self, exchange: u64, pair: Pair) {
        if self.pairs.len() >= PAIRS_MAX
            && let Some((id, old)) = self.pairs.pop_first()
            && self.pair_of.get(&(old.local, old.remote)) == Some(&id)
        {
            self.pair_of.remove(&(old.local, old.remote));
        }
        self.pair_of.insert((pair.local, pair.remote), exchange);
        self.pairs.insert(exchange, pair);
    }

    /// A controller changed routes.
    pub(crate) fn update(&mut self, turn: &mut Turn<'_>, routes: Vec<RouteEntry>, owner: u64) {
        for entry in routes {
            self.install(turn, entry, owner);
        }
    }

    /// A standby changed routes: of those that it has told, and no others. Routes that the leader
    /// has removed or replaced since are not the standby's any more.
    pub(super) fn standby_update(
        &mut self,
        turn: &mut Turn<'_>,
        routes: Vec<RouteEntry>,
        standby: u64,
    ) {
        for entry in routes {
            let memory = self.ports.get(&entry.port);
            let known = memory.and_then(|m| m.routes.get(&(entry.source, entry.destination)));
            if known.is_some_and(|known| known.owner == standby) {
                self.install(turn, entry, standby);
            }
        }
    }

    /// A session with a standby has begun.
    pub(super) fn begin_era(&mut self, standby: u64) {
        *self.eras.entry(standby).or_default() += 1;
    }

    /// Installs an entry unless a newer one is there.
    fn install(&mut self, turn: &mut Turn<'_>, entry: RouteEntry, owner: u64) {
        let memory = self.ports.entry(entry.port).or_default();
        let key = (entry.source, entry.destination);
        let (version, paths) = (entry.version, entry.routes.clone());
        let era = self.eras.get(&owner).copied().unwrap_or(0);
        if memory.routes.get(&key).is_some_and(|known| known.is_newer_than(version, (owner, era))) {
            return;
        }
        // A removal is stored with its version: an older installation may still be in flight.
        memory.routes.insert(key, Route { version, owner, era, paths });
        memory.make_room(turn, entry.port);
        if entry.routes.is_empty() || !self.devices.contains(&entry.destination) {
            turn.push(Effect::Route(entry));
        }
    }

    /// Takes note of a station that has one of the group's own addresses. The data plane may have
    /// a route to it already: by another address of it, or from before a restart.
    fn note_device(
        &mut self,
        turn: &mut Turn<'_>,
        group: Option<&Group>,
        ip: IpAddr,
        mac: MacAddr,
    ) {
        let is_device = group.is_some_and(|group| group.has_daemons(ip));
        if !is_device || self.devices.len() >= DEVICES_MAX || !self.devices.insert(mac) {
            return;
        }
        let all = self.ports.iter().flat_map(|(port, m)| m.routes.iter().map(|r| (*port, r)));
        let there = all.filter(|(_, ((_, destination), _))| *destination == mac);
        turn.out.extend(there.map(|(port, (&(source, destination), &Route { version, .. }))| {
            let routes = Vec::new();
            Effect::Route(RouteEntry { port, source, destination, version, routes })
        }));
    }

    /// The other node reports that the local host's destination is not there: accepted if sealed by
    /// the exchange's key.
    pub(crate) fn invalidated(&mut self, turn: &mut Turn<'_>, exchange: u64, told: &Invalidate) {
        let Some(pair) = self.pairs.get(&exchange) else { return };
        if (pair.local, pair.remote) != (told.source, told.destination) {
            return;
        }
        self.forget_route(turn, pair.port, told.source, told.destination);
    }

    fn forget_route(&mut self, turn: &mut Turn<'_>, port: u8, source: MacAddr, to: MacAddr) {
        let Some(memory) = self.ports.get_mut(&port) else { return };
        for key in [(None, to), (Some(source), to)] {
            if let Some(route) = memory.routes.get_mut(&key) {
                route.paths.clear();
                let (version, (source, destination)) = (route.version, key);
                let entry = RouteEntry { port, source, destination, version, routes: vec![] };
                turn.push(Effect::Route(entry));
            }
        }
    }

    /// A frame arrived for a station that is not behind its route's port. `path` leads back to the
    /// source node's control plane.
    pub(crate) fn stale(
        &self,
        turn: &mut Turn<'_>,
        destination: MacAddr,
        source: MacAddr,
        path: Hops,
    ) {
        let body = Invalidate { destination, source };
        let id = self.pair_of.get(&(destination, source));
        match id.and_then(|id| Some((*id, self.pairs.get(id)?.key))) {
            Some((exchange, key)) => {
                turn.push(Effect::Keyed { path, exchange, key, body: body.into() });
            }
            None => turn.push(Effect::Controller { body: body.into(), sure: false }),
        }
    }

    /// The addresses for which a station was requested at this port: if a host keeps sending
    /// without asking again, the node asks for one of them.
    pub(crate) fn addresses_of(
        &self,
        port: u8,
        source: MacAddr,
        station: MacAddr,
    ) -> impl Iterator<Item = IpAddr> {
        let answers = self.ports.get(&port).into_iter().flat_map(|memory| &memory.answers);
        let same = move |((asker, _), mac): &(&(MacAddr, IpAddr), &MacAddr)| {
            *asker == source && **mac == station
        };
        answers.filter(same).map(|((_, ip), _)| *ip)
    }

    /// A port is no longer a host port: its routes are removed.
    pub(crate) fn close(&mut self, turn: &mut Turn<'_>, port: u8) {
        let memory = self.ports.remove(&port).unwrap_or_default();
        for ((source, destination), Route { version, .. }) in memory.routes {
            let entry = RouteEntry { port, source, destination, version, routes: vec![] };
            turn.push(Effect::Route(entry));
        }
        let of_port = |e: &Exchange| e.request.port == port;
        let pending: Vec<u64> =
            self.exchanges.iter().filter(|(_, e)| of_port(e)).map(|(id, _)| *id).collect();
        pending.into_iter().for_each(|id| {
            self.give_up(turn, id);
        });
        // The keys stay: hosts that still send to the stations of this port have to be told.
    }

    /// Reports routes to a restarted controller.
    pub(crate) fn report(&self, turn: &mut Turn<'_>) {
        in_parts(&self.routes(), REPORT_ROUTES, |more, flows| {
            turn.report(FlowReport { more, flows });
        });
    }

    /// Every entry of the route memory.
    pub(crate) fn routes(&self) -> Vec<RouteEntry> {
        let all = self.ports.iter().flat_map(|(port, m)| m.routes.iter().map(move |r| (port, r)));
        let live = all.filter(|(_, (_, route))| !route.paths.is_empty());
        live.map(|(&port, (&(source, destination), route))| RouteEntry {
            port,
            source,
            destination,
            version: route.version,
            routes: route.paths.clone(),
        })
        .collect()
    }
}

/// A frame with another destination.
pub(super) fn addressed(frame: &[u8], to: MacAddr) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some(destination) = frame.first_chunk_mut() {
        *destination = to.0;
    }
    frame
}

impl Exchange {
    /// Records that a question waits for the answer, or a frame for the route.
    fn wait(&mut self, turn: &mut Turn<'_>, port: u8, need: Need<'_>) {
        self.answer |= matches!(need, Need::Answer);
        self.is_routed |= matches!(need, Need::Routed(_) | Need::Fresh);
        let (frame, held) = match need {
            Need::Answer | Need::Fresh => return,
            Need::Route(frame) => (frame, &mut self.held),
            Need::Routed(frame) => (frame, &mut self.held_to_route),
            Need::Own(frame) => (frame, &mut self.held_own),
        };
        match has_room(held.iter().map(Vec::len), frame, HELD_MAX) {
            true => held.push(frame.to_vec()),
            false => turn.dropped(port, Unserved::NoRoute),
        }
    }
}

impl Memory {
    /// The path of a host's frames to a station.
    fn path(&self, source: MacAddr, destination: MacAddr) -> Option<Hops> {
        let first = |key| self.routes.get(&key)?.paths.first().cloned();
        first((Some(source), destination)).or_else(|| first((None, destination)))
    }

    /// True if a host's frames to a station have a route.
    fn leads(&self, source: MacAddr, destination: MacAddr) -> bool {
        self.path(source, destination).is_some()
    }

    /// Evicts the oldest entry of a full memory.
    fn make_room(&mut self, turn: &mut Turn<'_>, port: u8) {
        let share = if port == ROUTER_HOP { 16 } else { 1 };
        if self.routes.len() <= ROUTES_MAX * share {
            return;
        }
        let oldest = self.routes.iter().min_by_key(|(_, route)| route.version);
        let Some((&(source, destination), &Route { version, .. })) = oldest else { return };
        self.routes.remove(&(source, destination));
        turn.push(Effect::Route(RouteEntry { port, source, destination, version, routes: vec![] }));
    }
}
