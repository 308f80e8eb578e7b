//! The control plane of one node (seed §4.2): its ports' neighbours, its path to the controller,
//! and the hosts on its ports. A driver passes in inputs and carries out the outputs; see [`Node`].

mod carry_out;
pub mod common;
mod counters;
mod detour;
mod effect;
mod explain;
pub mod fib;
mod groups;
mod held;
mod host_frame;
mod loops;
mod resolve;
mod routing;
mod seam;
mod serve;
mod standbys;
mod stations;
mod trust;
mod uplink;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::fabric::message::{
    Body, LinkFacts, Load, PROVISIONAL_EPOCH, PortRole, Refusal, Welcome,
};
use plexus_wire::fabric::{self, CONTROL_HOP, Kind, Partition, ROUTER_HOP};

use crate::budget::Budget;
use crate::identity::Identity;
use crate::link::{Link, Outcome, Pace, Pin};
use crate::requests::Requests;
use crate::session::frame::Message;
use crate::session::{Channel, Limits, Random, RoleWanted, keyed};
use crate::timers::Timers;
use crate::version::{self, VERSION};
use common::Common;
use detour::Classes;
use effect::{Effect, Timer, Turn};
use groups::Groups;
use host_frame::Party;
use loops::{Finding, Loops};
use resolve::{LEADER, Need, Resolver, short};
use routing::Routing;
use standbys::Standbys;
use stations::{Group, Stations};
use uplink::{Aside, Greeting, Uplink};

pub use effect::{Event, Unserved};
pub use seam::{FrameKind, Input, Output};

/// The control plane of a node.
///
/// One invariant: after [`handle`](Node::handle), everything due by `now` is in the outputs. One
/// loop: pass in an input, carry out all outputs in order, sleep until an input or
/// [`next_deadline`](Node::next_deadline), which is an [`Input::Tick`].
#[derive(Debug)]
pub struct Node {
    identity: Arc<Identity>,
    pace: Pace,
    random: Random,
    /// A link for each port that has ever had a carrier; [`change_link`](Node::change_link) changes
    /// it. Boxed: nodes of the map have room for eleven links, and are half empty.
    links: BTreeMap<u8, Box<Link>>,
    timers: Timers<Timer>,
    pins: BTreeMap<u8, Pin>,
    /// The roles last reported to the data plane and the controller.
    roles: BTreeMap<u8, PortRole>,
    blocked: BTreeMap<u8, Refusal>,
    uplink: Uplink,
    channel: Channel,
    aside: Option<Box<Aside>>,
    /// Lets the controller distinguish new keys from a restart.
    incarnation: [u8; 8],
    /// The highest version of the protocol that it speaks.
    version: u8,
    standbys: Standbys,
    /// The controller of this session has shown that no later one has replaced it.
    greeted: bool,
    /// The epoch of the controller that was last reported to.
    reported_to: Option<u64>,
    /// The key of another node that has this node's number, as last reported, and when.
    number_told: Option<([u8; 32], Time)>,
    requests: Requests,
    group: Option<Group>,
    stations: Stations,
    resolver: Resolver,
    routing: Routing,
    /// The version of the list of nodes that route for this one.
    forwarders: Option<u64>,
    /// Classes of packets that pass a function.
    classes: Classes,
    groups: Groups,
    loops: Loops,
    /// The node's part of the group's common file.
    common: Common,
    /// The controller wants the node's counters until then.
    watched_until: Time,
    explains: Budget,
    revoked: trust::Told,
    outputs: VecDeque<Output>,
}

impl Node {
    /// A node whose ports all lack carrier. `seed` comes from the operating system in a daemon,
    /// from the scenario in a simulator; it is never reused for the same identity.
    pub fn new(identity: Arc<Identity>, pace: Pace, seed: [u8; 32]) -> Node {
        let mut random = Random::from_seed(seed);
        let incarnation: [u8; 8] = random.bytes();
        let channel = Channel::new(
            identity.clone(),
            RoleWanted::Controller,
            version::of_node(incarnation, VERSION),
            Limits::default(),
            random.fork(),
        );
        let requests = Requests::new(u32::from_be_bytes(random.bytes()));
        let loops = Loops::new(identity.claims().group);
        Node {
            identity,
            pace,
            random,
            links: BTreeMap::new(),
            timers: Timers::default(),
            pins: BTreeMap::new(),
            roles: BTreeMap::new(),
            blocked: BTreeMap::new(),
            uplink: Uplink::new(),
            channel,
            aside: None,
            incarnation,
            version: VERSION,
            standbys: Standbys::default(),
            greeted: false,
            reported_to: None,
            number_told: None,
            requests,
            group: None,
            stations: Stations::default(),
            resolver: Resolver::default(),
            routing: Routing::default(),
            forwarders: None,
            classes: Classes::default(),
            groups: Groups::default(),
            loops,
            common: Common::default(),
            watched_until: Time::ZERO,
            explains: explain::budget(),
            revoked: trust::Told::default(),
            outputs: VecDeque::new(),
        }
    }

    fn new_channel(&mut self) -> Channel {
        Channel::new(
            self.identity.clone(),
            RoleWanted::Controller,
            version::of_node(self.incarnation, self.version),
            Limits::default(),
            self.random.fork(),
        )
    }

    /// Processes an input and does everything that is due.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Port { port, facts } => self.port(now, port, facts),
            Input::Pinned { port, pin } => drop(self.pins.insert(port, pin)),
            Input::Frame { port, kind: FrameKind::Bootstrap, bytes } => {
                let outcome = self.change_link(port, |link| link.frame(now, &bytes));
                let Some(outcome) = outcome else { return };
                self.link_outcome(now, port, outcome);
            }
            Input::Frame { port, kind: FrameKind::Host, bytes } => {
                self.host_frame(now, port, &bytes);
            }
            Input::Frame { kind: FrameKind::Control, bytes, .. } => self.control_frame(now, &bytes),
            Input::Frame { port, kind: FrameKind::Stale, bytes } => {
                self.stale_frame(now, port, &bytes);
            }
            Input::Frame { port, kind: FrameKind::Error, .. } => self.tell(Event::Astray(port)),
            Input::Heard(ports) => {
                for port in ports {
                    self.change_link(port, |link| link.hears_frames(now));
                }
            }
            Input::Load { routed, busy } => {
                if self.routing.fib.version().1 {
                    let body = Load { routed, busy }.into();
                    self.carry_out(now, vec![Effect::Controller { body, sure: false }]);
                }
            }
            Input::Counters(all) => self.carry_out(now, counters::messages(all)),
            Input::Names(some, all) => {
                self.carry_out(now, vec![counters::names(some, all)]);
            }
            Input::Explained(told) => self.carry_out(now, vec![explain::answer(*told)]),
            Input::Used(addresses) => self.routing.note_used(&addresses),
            Input::Keeps(part) => self.keeps_common(now, part),
            Input::Common(done) => self.common_done(now, done),
            Input::OwnFile => self.reconsider_common(now),
            Input::Tick => {}
            Input::Stop => return self.stop(now),
        }
        self.run(now);
    }

    fn stop(&mut self, now: Time) {
        // Their answers, and the proof that they ask for, no longer concern this node.
        for (port, mut link) in std::mem::take(&mut self.links) {
            let frame = link.goodbye(now);
            self.outputs.extend(frame.map(|frame| Output::Transmit { port, frame }));
        }
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether hosts' packets that have waited here are among the outputs.
    pub fn releases(&self) -> bool {
        let is_hosts = |frame: &Vec<u8>| {
            fabric::Frame::new_checked(&frame[..]).is_ok_and(|frame| frame.kind() == Kind::Ethernet)
        };
        self.outputs.iter().any(|output| match output {
            Output::Again { .. } => true,
            Output::Send { frame } => is_hosts(frame),
            _ => false,
        })
    }

    /// When to pass in [`Input::Tick`].
    pub fn next_deadline(&self) -> Time {
        self.timers.next()
    }

    /// Ports whose neighbours time out now, unless frames have come in lately.
    pub fn silent(&self, now: Time) -> impl Iterator<Item = u8> {
        let is_due = self.next_deadline() <= now;
        let links = is_due.then(|| self.links.iter()).into_iter().flatten();
        links.filter(move |(_, link)| link.is_silent(now)).map(|(port, _)| *port)
    }

    /// Whether the controller wants [`Input::Counters`] every second.
    pub fn is_watched(&self, now: Time) -> bool {
        now < self.watched_until
    }

    /// Speaks no later version of the protocol than this one, in sessions that begin later.
    pub fn set_version(&mut self, version: u8) {
        self.version = version;
        self.aside = None;
        self.channel.set_facts(version::of_node(self.incarnation, version));
    }

    /// The version of the protocol that it and its controller speak; without a session, the first.
    pub fn version(&self) -> u8 {
        let peer = self.channel.peer();
        peer.map_or(version::FIRST, |peer| version::with_controller(self.version, &peer.facts))
    }

    /// The interval between Heartbeats.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// A port's role.
    pub fn role(&self, port: u8) -> PortRole {
        match (self.link(port).map_or(PortRole::Down, Link::role), self.blocked.get(&port)) {
            (PortRole::Host, Some(_)) => PortRole::Blocked,
            (role, _) => role,
        }
    }

    fn port(&mut self, now: Time, port: u8, facts: Option<LinkFacts>) {
        if port == CONTROL_HOP {
            return;
        }
        self.links.entry(port).or_insert_with(|| {
            let pin = self.pins.get(&port).copied();
            Box::new(Link::new(self.identity.clone(), self.pace, self.random.fork(), pin))
        });
        let outcome = self.change_link(port, |link| match facts {
            Some(facts) => link.up(now, facts),
            None => link.down(),
        });
        self.link_outcome(now, port, outcome.unwrap_or_default());
    }

    fn link(&self, port: u8) -> Option<&Link> {
        self.links.get(&port).map(|link| &**link)
    }

    /// Applies a change to a port's link, if there is one.
    fn change_link<T>(&mut self, port: u8, how: impl FnOnce(&mut Link) -> T) -> Option<T> {
        let link = self.links.get_mut(&port)?;
        let result = how(link);
        self.timers.set(Timer::Link(port), link.run_at());
        self.timers.set(Timer::Beat(port), link.beat_at());
        Some(result)
    }

    /// Every neighbour gets a Heartbeat at once.
    fn hurry_links(&mut self, now: Time) {
        for (&port, link) in &mut self.links {
            link.hurry(now);
            self.timers.set(Timer::Beat(port), link.beat_at());
        }
    }

    fn link_outcome(&mut self, now: Time, port: u8, outcome: Outcome) {
        for frame in outcome.frames {
            self.outputs.push_back(Output::Transmit { port, frame });
        }
        if let Some(refused) = outcome.refused {
            self.tell(Event::Refused(Some(port), refused.to_string()));
        }
        if let Some(stranger) = outcome.stranger {
            self.tell(Event::Stranger(port, stranger));
        }
        if outcome.changed {
            self.role_changed(now, port);
        }
        if let Some(beat) = outcome.heartbeat
            && matches!(self.role(port), PortRole::Fabric | PortRole::Controller)
            && self.uplink.heard(now, port, &beat)
        {
            self.uplink_changed(now);
        }
    }

    fn role_changed(&mut self, now: Time, port: u8) {
        let role = self.role(port);
        let before = self.roles.insert(port, role);
        let link = self.link(port);
        let neighbour = link.and_then(Link::neighbour).map(|n| n.facts.mac);
        let native = link.is_some_and(Link::is_native);
        let takes_owed = link.and_then(Link::neighbour).is_some_and(|n| n.facts.takes_owed);
        let peer = link.and_then(Link::neighbour).map(|n| (n.node, n.facts.port));
        let mut turn = Turn::new(now, &mut self.timers);
        if before == Some(PortRole::Host) && role != PortRole::Host {
            self.stations.close(&mut turn, port);
            self.resolver.close(&mut turn, port);
            self.loops.close(&mut turn, port);
        }
        if before != Some(PortRole::Host) && role == PortRole::Host {
            turn.timers.set(Timer::Loop(port), now);
        }
        self.groups.port_changed(&mut turn, port, before, peer, &self.roles);
        let out = turn.out;
        self.outputs.push_back(Output::Role { port, role, neighbour, native, takes_owed });
        if before != Some(role) {
            self.tell(Event::Role(port, role));
        }
        self.carry_out(now, out);
        if !matches!(role, PortRole::Fabric | PortRole::Controller) && self.uplink.lost(now, port) {
            self.uplink_changed(now);
        }
        self.uplink.ports_changed(now);
        self.standbys.ports_changed(&mut self.timers, now);
    }

    /// The path has changed: neighbours are told at once, and the backlog for the controller uses
    /// it.
    fn uplink_changed(&mut self, now: Time) {
        self.tell(Event::Uplink(self.uplink.heartbeat().path));
        self.hurry_links(now);
        self.requests.hurry(now);
        self.change_controller(now);
    }

    /// The session has to be with the controller at the end of the path.
    fn change_controller(&mut self, now: Time) {
        let peer = self.channel.peer().map(|p| p.credential.claims().node);
        self.choose_nearest();
        let Some(controller) = self.uplink.controller() else { return };
        if peer != Some(controller) {
            self.put_session_aside();
        }
        if peer != Some(controller) && !self.take_session_back(controller) {
            // One that stood by goes on with its session.
            match self.standbys.take(controller) {
                Some((channel, gone)) => {
                    (self.channel, self.greeted) = (channel, false);
                    self.give_up_reports();
                    for body in gone {
                        self.requests.send(now, body);
                    }
                }
                None if peer.is_some() => self.channel.reset(),
                None => {}
            }
        }
        self.timers.cancel(Timer::Standby(controller));
        self.choose_nearest();
        if self.channel.peer().is_none() {
            let hello = self.channel.start(now);
            self.send_hello(&hello);
        }
    }

    /// A report is as old as the session in which the controller asked for it: the next one would
    /// take it for the state of now.
    fn give_up_reports(&mut self) {
        // A session that was put aside would go on without them.
        self.aside = None;
        let is_report = |body: &_| matches!(body, Body::HostReport(_) | Body::FlowReport(_));
        self.requests.give_up(is_report);
    }

    /// Does everything that is due by now.
    fn run(&mut self, now: Time) {
        let mut beats = Vec::new();
        while let Some(timer) = self.timers.due(now) {
            let mut turn = Turn::new(now, &mut self.timers);
            let group = self.group.as_ref();
            match timer {
                Timer::Link(port) => {
                    if let Some(outcome) = self.change_link(port, |link| link.run(now)) {
                        self.link_outcome(now, port, outcome);
                    }
                    continue;
                }
                Timer::Station(port, mac) => self.stations.look_after(&mut turn, group, port, mac),
                Timer::Unclaimed(port, mac) => self.stations.not_claimed(&mut turn, port, mac),
                Timer::Probe(id) => self.stations.probe_again(&mut turn, group, id),
                Timer::Exchange(id) => self.resolver.request_again(&mut turn, id, &mut self.random),
                Timer::Standby(number) => {
                    self.speak_to_standby(now, number);
                    continue;
                }
                Timer::Asking(id) => self.resolver.put_question(&mut turn, id, group),
                Timer::Known(address) => {
                    let stations = &self.stations;
                    let is_here = |port, asker: Party| {
                        port == ROUTER_HOP || stations.holder(port, asker.ip) == Some(asker.mac)
                    };
                    if let Some((port, asker)) = self.routing.is_old(&mut turn, address, is_here) {
                        // Hosts that lead to the same networks share their flows again once they
                        // are back.
                        for address in self.routing.alike(address) {
                            let (need, random) = (Need::Fresh, &mut self.random);
                            self.resolver.ask(&mut turn, port, asker, address, need, random);
                        }
                    }
                }
                Timer::Query => self.groups.query_all(&mut turn, group, &self.roles),
                Timer::Member(port, mac, ip) => self.groups.expired(&mut turn, port, mac, ip),
                Timer::Asked(sender) => self.groups.waited(&mut turn, sender),
                Timer::Ended(sender) => self.groups.ended(&mut turn, sender),
                Timer::Loop(port) => {
                    self.loops.due(&mut turn, port);
                    self.probe_for_loops(now, port);
                    continue;
                }
                Timer::Common => {
                    self.common_due(now);
                    continue;
                }
                Timer::Number => {
                    self.greet_again(now);
                    continue;
                }
                // See below: the controller first, then the neighbours.
                Timer::Controller => continue,
                Timer::Beat(port) => {
                    beats.push(port);
                    continue;
                }
            }
            let out = turn.out;
            self.carry_out(now, out);
        }
        self.speak(now);
        beats.sort_unstable();
        let beat = self.uplink.heartbeat();
        for port in beats {
            let frame = self.change_link(port, |link| link.beat(now, &beat)).flatten();
            self.outputs.extend(frame.map(|frame| Output::Transmit { port, frame }));
        }
        // Without a path nothing can be sent, however long it has been due.
        let controller = match self.uplink.hello_path() {
            Some(_) => (self.uplink.next_deadline())
                .min(self.channel.next_deadline().unwrap_or(Time::FOREVER))
                .min(self.requests.next_deadline()),
            None => Time::FOREVER,
        };
        self.timers.set(Timer::Controller, controller);
    }

    /// Sends a loop probe from a host port, as soon as the group is known.
    fn probe_for_loops(&mut self, now: Time, port: u8) {
        // A device of this box leads nowhere else.
        let may_loop = self.pins.get(&port) != Some(&Pin::Daemons);
        let link = self.link(port).filter(|link| may_loop && link.is_for_hosts(now));
        let own = link.and_then(Link::facts).map(|f| f.mac);
        if let (Some(group), Some(own)) = (&self.group, own) {
            let frame = self.loops.probe(group, own);
            self.outputs.push_back(Output::Transmit { port, frame });
        }
    }

    /// Asks the controller again for the node's number, unless a handshake is under way.
    fn greet_again(&mut self, now: Time) {
        let is_free = self.channel.peer().is_none() && !self.channel.is_opening();
        if is_free && self.uplink.hello_path().is_some() {
            let hello = self.channel.start(now);
            self.send_hello(&hello);
        }
    }

    /// A host port received a frame from the group's own address: it leads back into the fabric.
    fn looped(&mut self, now: Time, port: u8, bytes: &[u8]) {
        let Some(own) = self.link(port).and_then(Link::facts).map(|f| f.mac) else { return };
        let mut turn = Turn::new(now, &mut self.timers);
        if self.loops.heard(&mut turn, port, own, bytes) == Finding::Close
            && let Some(outcome) = self.change_link(port, |link| link.looped(now))
        {
            if outcome.changed {
                self.tell(Event::Loop(port));
            }
            self.link_outcome(now, port, outcome);
        }
    }

    /// Sends what is due to the controller.
    fn speak(&mut self, now: Time) {
        if self.uplink.hello_path().is_none() {
            return;
        }
        while let Some(message) = self.channel.poll(now) {
            self.send_hello(&message);
        }
        if self.uplink.next_deadline() <= now {
            let (ports, before) = (self.ports(), self.uplink.controller());
            let hellos = self.uplink.hello(now, &ports);
            if self.uplink.controller() != before {
                self.change_controller(now);
            }
            for hello in hellos {
                let bytes = Requests::once(&hello.into());
                self.seal_to_controller(now, &bytes, true);
            }
        }
        // A restarted controller does not know the session.
        if self.uplink.unanswered() == 2
            && self.channel.peer().is_some()
            && !self.channel.is_opening()
        {
            let hello = self.channel.start(now);
            self.send_hello(&hello);
        }
        for bytes in self.requests.due(now) {
            self.seal_to_controller(now, &bytes, false);
        }
    }

    fn seal_to_controller(&mut self, now: Time, body: &[u8], hello: bool) {
        // If there is no session, the retransmission will find one.
        let short = self.version() >= version::SHORT;
        if let Ok(message) = self.channel.seal_as(now, body, short) {
            let path = if hello { self.uplink.hello_path() } else { self.uplink.path() };
            let frame = path.and_then(|path| control_frame(path, &message));
            self.outputs.extend(frame.map(|frame| Output::Send { frame }));
        }
    }

    /// Sends a message of the channel along the path that is being tried.
    fn send_hello(&mut self, message: &[u8]) {
        let frame = self.uplink.hello_path().and_then(|path| control_frame(path, message));
        self.outputs.extend(frame.map(|frame| Output::Send { frame }));
    }

    fn control_frame(&mut self, now: Time, bytes: &[u8]) {
        let Ok(frame) = fabric::Frame::new_checked(bytes) else { return };
        if frame.kind() != Kind::Control {
            return;
        }
        self.message(now, frame.payload(), frame.reverse());
    }

    fn message(&mut self, now: Time, message: &[u8], back: &[u8]) {
        match Message::decode(message) {
            Err(refused) => self.tell(Event::Refused(None, refused.to_string())),
            Ok(Message::Reply(message)) => self.reply(now, &message, back),
            Ok(Message::Keyed(message)) => {
                let Some(key) = self.resolver.key(message.exchange) else {
                    return self.tell(Event::Refused(None, "unknown exchange".into()));
                };
                match keyed::open_message(&key, &message) {
                    Err(refused) => self.tell(Event::Refused(None, refused.to_string())),
                    Ok(body) => self.keyed(now, message.exchange, &body),
                }
            }
            Ok(ref of) if let Some(number) = self.standby_of(of) => {
                self.standby_message(now, number, message);
            }
            Ok(_) => match self.channel.handle(now, message) {
                Err(refused) => self.tell(Event::Refused(None, refused.to_string())),
                Ok(handled) => {
                    if let Some(reply) = handled.reply {
                        self.send_hello(&reply);
                    }
                    if handled.established.is_some() {
                        self.greeted = false;
                        // Several controllers may lead provisionally, or one of them again.
                        self.reported_to.take_if(|epoch| *epoch == PROVISIONAL_EPOCH);
                        self.uplink.ports_changed(now);
                        self.give_up_reports();
                        self.requests.hurry(now);
                    }
                    if let Some(body) = handled.body {
                        self.sealed(now, &body);
                    }
                }
            },
        }
    }

    /// The controller sent a message.
    fn sealed(&mut self, now: Time, body: &[u8]) {
        let (request, body) = match Body::parse(body) {
            Ok(parsed) => parsed,
            Err(e) => return self.tell(Event::Refused(None, e.to_string())),
        };
        // Not acknowledged either: an active controller retransmits it after its Welcome.
        if !self.greeted && !matches!(body, Body::Welcome(_) | Body::Ack(_) | Body::NumberTaken(_))
        {
            return self.tell(Event::Refused(None, "no Welcome came before it".into()));
        }
        let (body, ack) = self.requests.take(request, body);
        if let Some(ack) = ack {
            self.seal_to_controller(now, &ack, false);
        }
        let mut turn = Turn::new(now, &mut self.timers);
        let group = self.group.as_ref();
        match body {
            Some(Body::Welcome(welcome)) => return self.welcomed(now, welcome),
            Some(Body::NumberTaken(taken)) => return self.number_taken(now, taken.key),
            Some(Body::ResolveForward(forward)) => {
                // If the station has just left, the question goes unanswered.
                self.resolver.forward(&mut turn, LEADER, (forward, None), group);
            }
            Some(Body::ShortForward(told)) => match short::forward(told) {
                Some((forward, short)) => {
                    self.resolver.forward(&mut turn, LEADER, (forward, Some(short)), group);
                }
                None => {
                    let why = "a question without routes".into();
                    turn.push(Effect::Tell(Event::Refused(None, why)));
                }
            },
            Some(Body::ResolveFailed(failed)) => self.resolver.failed(&mut turn, &failed),
            Some(Body::Way(way)) => self.resolver.way(&mut turn, group, &way),
            Some(Body::Forwarders(told)) if self.forwarders > Some(told.version) => {}
            Some(Body::Forwarders(told)) => {
                let parts = Partition::new(&told.places, told.copies).map(|parts| parts.places());
                if told.copies > 0 && parts != Some(told.paths.len()) {
                    let why = format!("{} places of {:?}", told.paths.len(), told.places);
                    return self.tell(Event::Refused(None, why));
                }
                self.forwarders = Some(told.version);
                self.outputs.push_back(Output::Forwarders(told));
            }
            Some(Body::Classes(told)) => {
                let are_first = !self.classes.are_told();
                self.outputs.extend(self.classes.take(told).map(Output::Classes));
                // A packet must not pass by a function because the node has not heard of it yet.
                if are_first && self.routing.fib.version().1 {
                    self.outputs.push_back(Output::HasRoutes(true));
                }
            }
            Some(Body::RouteUpdate(update)) => {
                self.resolver.update(&mut turn, update.routes, LEADER);
            }
            Some(Body::HostVerdict(verdict)) => {
                let held = self.stations.judge(&mut turn, &verdict);
                let out = turn.out;
                self.carry_out(now, out);
                for frame in held {
                    self.host_frame(now, verdict.port, &frame);
                }
                return;
            }
            Some(Body::Watch(watch)) => {
                self.watched_until = now + Duration::from_secs(watch.seconds.into());
            }
            Some(Body::Explain(asked)) if self.explains.spend(now) => {
                self.outputs.push_back(Output::Explain(asked));
            }
            Some(Body::Explain(_)) => {
                let why = "more questions about packets than are answered".into();
                turn.push(Effect::Tell(Event::Refused(None, why)));
            }
            Some(Body::Revoked(told)) => return self.revoked(now, told),
            Some(Body::Standbys(told)) => return self.standbys_told(now, told),
            Some(Body::CommonOffer(offer)) => return self.common_offered(now, offer),
            Some(Body::CommonOrder(order)) => return self.common_ordered(now, &order),
            Some(Body::HostProbe(probe)) => self.stations.probe(&mut turn, group, &probe),
            Some(Body::HostSend(send)) => turn.host(send.port, Some(send.frame)),
            Some(Body::TreeUpdate(update)) => {
                let epoch = self.uplink.heartbeat().epoch;
                self.groups.update(&mut turn, epoch, update, &self.roles);
            }
            Some(Body::GroupRoutes(routes)) => self.groups.set_routes(&mut turn, routes.routes),
            Some(Body::FibUpdate(update)) => {
                let taken = match self.routing.fib.take(&update) {
                    Ok(taken) => taken,
                    Err(error) => return self.tell(Event::Refused(None, error.to_string())),
                };
                let routes = taken.routes.into_iter();
                self.outputs
                    .extend(routes.map(|(prefix, target)| Output::Route { prefix, target }));
                self.outputs.extend(taken.leading.map(Output::Leading));
                if let Some(is_complete) = taken.turned {
                    let may_route = is_complete && self.classes.are_told();
                    self.outputs.push_back(Output::HasRoutes(may_route));
                }
                if let Some(ack) = taken.ack {
                    if taken.is_wrong {
                        turn.push(Effect::Tell(Event::TableWrong { version: ack.version }));
                    }
                    turn.push(Effect::Controller { body: ack.into(), sure: false });
                }
            }
            Some(Body::GroupPolicy(policy)) => {
                self.groups.set_policy(&mut turn, policy, group, &self.roles);
            }
            Some(Body::PortBlock(block)) => {
                match block.reason {
                    Some(reason) => self.blocked.insert(block.port, reason),
                    None => self.blocked.remove(&block.port),
                };
                if self.link(block.port).is_some() {
                    self.role_changed(now, block.port);
                }
                return;
            }
            None => {}
            Some(other) => {
                let why = format!("{} is not for a node", other.name());
                turn.push(Effect::Tell(Event::Refused(None, why)));
            }
        }
        let out = turn.out;
        self.carry_out(now, out);
    }

    fn welcomed(&mut self, now: Time, welcome: Welcome) {
        let from = self.channel.peer().map_or(0, |peer| peer.credential.claims().node);
        match self.uplink.welcomed(now, &welcome, from) {
            Greeting::Stale => {
                self.greeted = false;
                return self.tell(Event::Refused(
                    None,
                    "a controller that another one has replaced".into(),
                ));
            }
            Greeting::Verified => {
                self.aside = None;
                self.tell(Event::Uplink(self.uplink.heartbeat().path));
                self.hurry_links(now);
                self.requests.hurry(now);
            }
            Greeting::Known => {}
        }
        let is_first = !std::mem::replace(&mut self.greeted, true);
        self.number_told = None;
        if is_first {
            self.greet_about_common(now);
        }
        let group = Group { mac: welcome.group_mac, gateways: welcome.gateways.clone() };
        let group = Some(group);
        if self.group != group {
            let addresses = welcome.gateways.clone();
            self.outputs.push_back(Output::Gateways { mac: welcome.group_mac, addresses });
            self.group = group;
            // The router begins anew, and so does what it is told.
            let mut turn = Turn::new(now, &mut self.timers);
            self.routing.begin(&mut turn, self.group.as_ref(), self.stations.addresses());
            let out = turn.out;
            self.carry_out(now, out);
            let hosts = self.roles.iter().filter(|(_, role)| **role == PortRole::Host);
            hosts.for_each(|(port, _)| self.timers.set(Timer::Loop(*port), now));
        }
        if welcome.report {
            let mut turn = Turn::new(now, &mut self.timers);
            self.stations.report(&mut turn);
            // A new controller does not know whom they are for, and is asked for them again. It
            // repeats its question until it has the whole report.
            if self.reported_to.replace(welcome.epoch) != Some(welcome.epoch) {
                self.resolver.close(&mut turn, ROUTER_HOP);
            }
            self.resolver.report(&mut turn);
            self.groups.report(&mut turn);
            let out = turn.out;
            self.carry_out(now, out);
        }
    }

    /// Another node sent a message, sealed by the key of an exchange.
    fn keyed(&mut self, now: Time, exchange: u64, body: &[u8]) {
        let mut turn = Turn::new(now, &mut self.timers);
        match Body::parse(body) {
            Ok((_, Body::ResolveReply(reply))) => {
                self.resolver.replied(&mut turn, self.group.as_ref(), exchange, &reply);
            }
            Ok((_, Body::Invalidate(told))) => {
                self.resolver.invalidated(&mut turn, exchange, &told);
            }
            Ok((_, other)) => {
                let why = format!("{} is not for a node", other.name());
                turn.push(Effect::Tell(Event::Refused(None, why)));
            }
            Err(e) => turn.push(Effect::Tell(Event::Refused(None, e.to_string()))),
        }
        let out = turn.out;
        self.carry_out(now, out);
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Tell(event));
    }
}

/// A control message as a frame along a path.
pub(crate) fn control_frame(path: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    fabric_frame(Kind::Control, path, message)
}

fn fabric_frame(kind: Kind, path: &[u8], carried: &[u8]) -> Option<Vec<u8>> {
    let header = fabric::Repr::new(kind, path)?.to_bytes().ok()?;
    Some([&header[..], carried].concat())
}
