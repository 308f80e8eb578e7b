//! The control plane of a node: frames of anybody at ports of every kind, and what a proved
//! controller may say however false it is.
//!
//! The bytes are a script. Its first byte says whether a controller and another node prove
//! themselves first; then come steps: a host's frame, a frame that the data plane hands over for
//! any reason, time that passes (up to days), a port's carrier, what the controller says, in its
//! session, whatever it is, and what another node says by the key of an exchange.
//!
//! After each step everything that is due has been done, what is kept is bounded, the data plane
//! has been told of exactly the stations that the node lists, and nobody has become a neighbour
//! who could not prove it.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use plexus_control::identity::Role;
use plexus_control::link::{Link, Outcome, Pace, Pin};
use plexus_control::node::common::{Done, Task};
use plexus_control::node::{FrameKind, Input, Node, Output};
use plexus_control::session::{Channel, Facts, Limits, Random, RoleWanted, keyed};
use plexus_wire::fabric::message::{Body, Heartbeat, LinkFacts, PortRole, Welcome};
use plexus_wire::fabric::{self, CONTROL_HOP, Hop, Kind};
use plexus_wire::{MacAddr, Time, ethernet};

use crate::samples::GROUP_OWN_MAC;
use crate::script::Script;
use crate::session::identity;

/// The ports: to the controller, of hosts, to another node, a tunnel.
const CONTROLLER: u8 = 0;
const HOSTS: [u8; 2] = [1, 2];
const PEER: u8 = 3;
const TUNNEL: u8 = 4;
const PORTS: u8 = 5;
/// The node, its controller, and its neighbour, as [`identity`] numbers them.
const OWN: u8 = 1;
const OFFICE: u8 = 2;
const NEIGHBOUR: u8 = 3;
/// The key of an exchange that the samples begin.
pub(crate) const KEY: [u8; 32] = [0x11; 32];
/// More messages than any step can cause.
const MESSAGES_MAX: usize = 10_000;
const STEPS_MAX: usize = 200;

/// Runs a script; see the head of the module's source.
pub fn node(data: &[u8]) {
    let mut script = Script::new(data);
    let mut world = World::new(script.u8() & 1 == 1);
    for _ in 0..STEPS_MAX {
        let Some(step) = script.step() else { break };
        world.step(step, &mut script);
        world.settle();
        world.check();
    }
}

/// Somebody at the other end of a port who can prove who it is.
struct Other {
    link: Link,
    beat: Heartbeat,
}

struct World {
    now: Time,
    node: Node,
    /// By port of the node.
    others: BTreeMap<u8, Other>,
    session: Channel,
    roles: BTreeMap<u8, PortRole>,
    admitted: BTreeSet<(u8, MacAddr)>,
    /// Frames on their way to the node or from it.
    waiting: Vec<Output>,
}

fn facts(port: u8, end: u8) -> LinkFacts {
    let mac = MacAddr([2, 0xFA, 0, 0, end, port]);
    LinkFacts { port, mac, mtu: 2000, rate_mbit_per_s: 1000, native: false, takes_owed: false }
}

impl World {
    fn new(is_proved: bool) -> World {
        let random = |n: u8| Random::from_seed([n; 32]);
        let pace = Pace::default();
        let session = Channel::new(
            identity(OFFICE),
            RoleWanted::Node,
            // Of version 2.
            Facts::new(&[2]).unwrap_or_default(),
            Limits::default(),
            random(4),
        );
        let mut world = World {
            now: Time::from_secs(100),
            node: Node::new(identity(OWN), pace, [9; 32]),
            others: BTreeMap::new(),
            session,
            roles: BTreeMap::new(),
            admitted: BTreeSet::new(),
            waiting: Vec::new(),
        };
        world.input(Input::Pinned { port: TUNNEL, pin: Pin::Tunnel });
        if is_proved {
            let epoch = 5;
            let controller = OFFICE.into();
            for (port, who, path) in
                [(CONTROLLER, OFFICE, vec![CONTROL_HOP]), (PEER, NEIGHBOUR, vec![7, CONTROL_HOP])]
            {
                let link = Link::new(identity(who), pace, random(10 + port), None);
                let beat = Heartbeat { epoch, controller, path: Some(path) };
                world.others.insert(port, Other { link, beat });
            }
            for port in [CONTROLLER, PEER] {
                let now = world.now;
                let other = world.others.get_mut(&port).expect("it was just put there");
                let outcome = other.link.up(now, facts(port, 2));
                world.hear(port, outcome);
            }
        }
        for port in 0..PORTS {
            world.input(Input::Port { port, facts: Some(facts(port, 1)) });
        }
        world.settle();
        // Ports at which nobody has proved anything by then are of hosts.
        for _ in 0..4 {
            world.pass(std::time::Duration::from_millis(100));
            world.settle();
        }
        assert_eq!(world.node.role(HOSTS[0]), PortRole::Host);
        assert_eq!(world.node.role(CONTROLLER) == PortRole::Controller, is_proved);
        world
    }

    fn input(&mut self, input: Input) {
        self.node.handle(self.now, input);
        self.collect();
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        match step & 7 {
            0 | 1 => {
                let bytes = script.short().to_vec();
                let port = HOSTS[usize::from(step >> 3 & 1)];
                self.input(Input::Frame { port, kind: FrameKind::Host, bytes });
            }
            2 => {
                let kinds = [
                    FrameKind::Bootstrap,
                    FrameKind::Host,
                    FrameKind::Control,
                    FrameKind::Stale,
                    FrameKind::Error,
                ];
                let kind = kinds[usize::from(step >> 3) % kinds.len()];
                let (port, bytes) = (script.u8(), script.long().to_vec());
                self.input(Input::Frame { port, kind, bytes });
            }
            3 => self.pass(script.time()),
            4 => {
                let (port, mtu) = (script.u8(), script.u16());
                let facts = (step & 8 != 0).then(|| LinkFacts { mtu, ..facts(port, 1) });
                self.input(Input::Port { port, facts });
            }
            5 | 6 => {
                let body = script.long();
                self.say(body);
            }
            _ => {
                let exchange = script.u8().into();
                let message =
                    keyed::seal_message(&KEY, exchange, &[script.u8(); 12], script.short());
                if let Some(message) = message {
                    self.control(PEER, &message);
                }
            }
        }
    }

    /// Time passes for all.
    fn pass(&mut self, time: std::time::Duration) {
        self.now = self.now + time;
        let now = self.now;
        let ports: Vec<u8> = self.others.keys().copied().collect();
        for port in ports {
            let Some(Other { link, beat }) = self.others.get_mut(&port) else { continue };
            let mut outcome = link.run(now);
            outcome.frames.extend(link.beat(now, beat));
            self.hear(port, outcome);
        }
        while let Some(message) = self.session.poll(now) {
            self.control(CONTROLLER, &message);
        }
        self.input(Input::Tick);
    }

    /// The controller says something, in its session if it has one.
    fn say(&mut self, body: &[u8]) {
        if let Ok(message) = self.session.seal(self.now, body) {
            self.control(CONTROLLER, &message);
        }
    }

    /// A control message arrives by a port.
    fn control(&mut self, port: u8, message: &[u8]) {
        let header = fabric::Repr::new(Kind::Control, &[CONTROL_HOP]);
        let header = header.and_then(|repr| repr.to_bytes().ok()).expect("one hop");
        let mut bytes = [&header[..], message].concat();
        assert_eq!(fabric::advance(&mut bytes, port), Ok(Hop::Control));
        self.input(Input::Frame { port, kind: FrameKind::Control, bytes });
    }

    fn hear(&mut self, port: u8, outcome: Outcome) {
        for bytes in outcome.frames {
            self.input(Input::Frame { port, kind: FrameKind::Bootstrap, bytes });
        }
    }

    /// Takes the node's outputs: what it decides is noted, frames go on their way.
    fn collect(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Transmit { .. } | Output::Send { .. } => self.waiting.push(output),
                Output::Role { port, role, .. } => drop(self.roles.insert(port, role)),
                Output::Admit { port, mac } => {
                    assert_eq!(self.node.role(port), PortRole::Host, "admitted where no host is");
                    assert!(self.admitted.insert((port, mac)), "{mac} was admitted before");
                }
                Output::Expel { port, mac } => {
                    assert!(self.admitted.remove(&(port, mac)), "{mac} was not admitted");
                }
                Output::Install(_) | Output::Tree { .. } | Output::Group(_) => {}
                Output::Gateways { .. }
                | Output::Route { .. }
                | Output::HasRoutes(_)
                | Output::Forwarders(_)
                | Output::Classes(_)
                | Output::Leading(_)
                | Output::Neighbour { .. } => {}
                Output::Own { .. } | Output::Again { .. } | Output::Unreachable { .. } => {}
                Output::Explain(asked) => drop(black_box(asked)),
                Output::Common(task) => {
                    let (version, ran, keep) = match task {
                        Task::Check(part) => (part.version, false, false),
                        Task::Run { part, keep } => (part.version, true, keep),
                    };
                    let done = Done { version, ran, keep, refused: None };
                    self.node.handle(self.now, Input::Common(done));
                }
                Output::Tell(event) => drop(black_box(event)),
            }
        }
    }

    /// Delivers what is on its way until nothing is.
    fn settle(&mut self) {
        let mut count = 0;
        while !self.waiting.is_empty() {
            for output in std::mem::take(&mut self.waiting) {
                count += 1;
                assert!(count < MESSAGES_MAX, "one step is talked about for ever");
                match output {
                    Output::Transmit { port, frame } => {
                        assert!(frame.len() >= ethernet::HEADER_LEN, "{frame:02x?}");
                        let Some(other) = self.others.get_mut(&port) else { continue };
                        let outcome = other.link.frame(self.now, &frame);
                        self.hear(port, outcome);
                    }
                    Output::Send { mut frame } => {
                        fabric::Frame::new_checked(&frame[..]).expect("the node made it");
                        // Its neighbour is a node: the frame is not for the controller then.
                        if fabric::advance(&mut frame, CONTROL_HOP) == Ok(Hop::Port(CONTROLLER)) {
                            self.at_controller(frame);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// The controller answers Hellos of the session and of the node, and nothing else.
    fn at_controller(&mut self, mut frame: Vec<u8>) {
        if fabric::advance(&mut frame, 0) != Ok(Hop::Control) {
            return;
        }
        let Ok(frame) = fabric::Frame::new_checked(&frame[..]) else { return };
        let Ok(handled) = self.session.handle(self.now, frame.payload()) else { return };
        if let Some(reply) = handled.reply {
            self.control(CONTROLLER, &reply);
        }
        let body = handled.body.map(|body| Body::parse(&body).expect("the node speaks well"));
        if let Some((_, Body::ControllerHello(hello))) = body {
            let welcome = Welcome {
                epoch: 5,
                generation: hello.generation,
                page: hello.page,
                report: false,
                group_mac: GROUP_OWN_MAC,
                gateways: Vec::new(),
            };
            self.say(&Body::from(welcome).to_bytes(0));
        }
    }

    fn check(&self) {
        assert!(self.node.next_deadline() > self.now, "something that is due was not done");
        for port in 0..PORTS {
            let role = self.node.role(port);
            if let Some(told) = self.roles.get(&port) {
                assert_eq!(*told, role, "the data plane was told otherwise");
            }
            let is_neighbour = matches!(role, PortRole::Fabric | PortRole::Controller);
            assert!(!is_neighbour || self.others.contains_key(&port), "an unproved neighbour");
            assert!(role != PortRole::Host || port != TUNNEL, "a host behind a tunnel");
        }
        let listed: BTreeSet<(u8, MacAddr)> =
            self.node.stations().iter().map(|s| (s.port, s.mac)).collect();
        assert_eq!(listed, self.admitted);
        for port in 0..=u8::MAX {
            let at_port = self.admitted.iter().filter(|(p, _)| *p == port).count();
            assert!(at_port <= 256, "{at_port} stations");
        }
        let groups: usize = self.node.group_members().iter().map(|(_, _, g)| g.len()).sum();
        assert!(groups <= 256 * HOSTS.len(), "{groups} memberships");
        let who = self.others.values().filter_map(|o| o.link.neighbour());
        assert!(who.into_iter().all(|n| n.role == Role::Node && n.node == u64::from(OWN)));
    }
}
