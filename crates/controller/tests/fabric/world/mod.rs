//! A fabric in one process: real control planes on real data planes, real controllers, hosts and
//! cables. A seed drives it; tests set the behaviour of cables. Time is simulated.

// Each test module uses its part of it.
#![allow(dead_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use plexus_config::HostGroup;
use plexus_config::Subnet;
use plexus_control::hub;
use plexus_control::identity::{Authority, Identity, KeyPair, Role};
use plexus_control::node;
use plexus_control::version::VERSION;
use plexus_controller::{Change, Config};
use plexus_wire::fabric::message::PROVISIONAL_EPOCH;
use plexus_wire::fabric::{self, Kind, encapsulation};
use plexus_wire::{MacAddr, Prefix, Time, ethernet};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

mod boxed;
mod brain;
mod check;
mod host;
mod listener;
mod switch;

pub(crate) use boxed::{Boxed, control_plane};
pub(crate) use brain::{Brain, Durable};
pub(crate) use host::{Host, arp_frame, packet};
pub(crate) use switch::Switch;

/// Ports of a node: links from 0 on, then these.
pub(crate) const PORTS: usize = 12;
pub(crate) const SECOND: u8 = 8;
pub(crate) const HOST: u8 = 9;
pub(crate) const CONTROL: u8 = 10;
pub(crate) const SPARE: u8 = 11;

/// Where a cable ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum End {
    Node(usize, u8),
    Host(usize),
    Controller(usize),
    /// A port of an ordinary switch.
    Switch(usize, usize),
}

/// Behaviour of the fabric's cables, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u32,
    pub(crate) repeated: u32,
    pub(crate) late: u32,
}

/// Events in flight.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Flying {
    Frame(End, Vec<u8>),
    /// Changes that become durable then, of a controller's incarnation.
    Store(usize, u64, u64),
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Option<Boxed>>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) controllers: Vec<Option<Brain>>,
    pub(crate) durable: Durable,
    pub(crate) config: Config,
    /// The versions that each node and the controller speak when they start.
    pub(crate) versions: Vec<u8>,
    pub(crate) controller_version: u8,
    pub(crate) cables: BTreeMap<End, End>,
    silent: BTreeSet<End>,
    queue: BinaryHeap<Reverse<(Time, u64, Flying)>>,
    storing: BTreeMap<(usize, u64, u64), Vec<Change>>,
    sent: u64,
    pub(crate) random: Pcg64,
    pub(crate) faults: Faults,
    /// Link messages are lost, and nothing else.
    pub(crate) beats_are_lost: bool,
    /// Every fabric frame that passed a cable with the cable's end, if they are recorded.
    pub(crate) wiretap: Option<Vec<(End, Vec<u8>)>>,
    /// Reverse paths of hosts' frames that were followed, and wrong ones.
    pub(crate) walked: u64,
    pub(crate) astray: Vec<String>,
    /// Of all events, for comparison.
    pub(crate) digest: u64,
    number: u32,
}

/// Time from a store request until it is durable.
const STORE_DELAY: Duration = Duration::from_millis(2);

fn authority() -> Authority {
    Authority::new([7; 16], &[9; 32])
}

pub(crate) fn identity(number: u64, role: Role) -> Arc<Identity> {
    identity_by(&authority(), number, role, 0)
}

/// The identity of the node with this index.
pub(crate) fn node_identity(node: usize) -> Arc<Identity> {
    identity(node as u64 + 1, Role::Node)
}

/// The identity of a node whose number was issued `again` times since the first.
pub(crate) fn issued_again(number: u64, again: u8) -> Arc<Identity> {
    identity_by(&authority(), number, Role::Node, again)
}

pub(crate) fn identity_by(
    authority: &Authority,
    number: u64,
    role: Role,
    again: u8,
) -> Arc<Identity> {
    let mut secret = [role as u8 + 1; 32];
    secret[..8].copy_from_slice(&number.to_be_bytes());
    secret[8] += again;
    let keys = KeyPair::generate(&secret);
    let name = match again {
        0 => format!("{role}{number}"),
        again => format!("{role}{number}-{again}"),
    };
    let credential = authority.issue(number, &name, role, &keys.public).unwrap();
    Arc::new(Identity::new(credential, keys, authority.public()).unwrap())
}

/// The hosts at the host ports of some nodes.
pub(crate) fn host_group(name: &str, nodes: [&str; 2]) -> HostGroup {
    let ports = nodes.map(|node| (node.to_string(), HOST)).to_vec();
    HostGroup { name: name.into(), ports, ..HostGroup::default() }
}

pub(crate) fn port_mac(node: usize, port: u8) -> MacAddr {
    MacAddr([2, 0xA, 0, 0, node as u8, port])
}

/// One subnet with a gateway and a few addresses to lease.
pub(crate) fn usual_config() -> Config {
    let mut subnet = Subnet::new(Prefix::new([10, 0, 0, 0].into(), 24).unwrap());
    subnet.gateway = Some([10, 0, 0, 254].into());
    subnet.range = Some(([10, 0, 0, 200].into(), [10, 0, 0, 203].into()));
    Config { subnets: vec![subnet], ..Config::default() }
}

/// Four nodes, each connected to the next, the last to the first.
pub(crate) const RING: [(usize, usize); 4] = [(0, 1), (1, 2), (2, 3), (3, 0)];

impl World {
    /// Nodes without cables, and no controller.
    pub(crate) fn new(nodes: usize, seed: u64, config: Config) -> World {
        let mut random = Pcg64::seed_from_u64(seed);
        World {
            now: Time::ZERO,
            nodes: (0..nodes)
                .map(|n| Some(Boxed::new(n, node_identity(n), random.random(), VERSION)))
                .collect(),
            hosts: vec![],
            switches: vec![],
            controllers: vec![],
            durable: Durable { epoch: PROVISIONAL_EPOCH, ..Durable::default() },
            config,
            versions: vec![VERSION; nodes],
            controller_version: VERSION,
            cables: BTreeMap::new(),
            silent: BTreeSet::new(),
            queue: BinaryHeap::new(),
            storing: BTreeMap::new(),
            sent: 0,
            random,
            faults: Faults::default(),
            beats_are_lost: false,
            wiretap: None,
            walked: 0,
            astray: vec![],
            digest: 0,
            number: 0,
        }
    }

    /// Nodes connected as the pairs say, each with a host; the controller at the first node.
    /// Discovery is complete, and every host is known.
    pub(crate) fn joined(nodes: usize, pairs: &[(usize, usize)], seed: u64) -> World {
        World::joined_as(nodes, pairs, seed, usual_config())
    }

    /// A [`RING`] whose hosts have all sent to each other; no exchange is under way.
    pub(crate) fn talking(seed: u64) -> World {
        let mut world = World::joined(4, &RING, seed);
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), []);
        world.run(1000);
        world
    }

    pub(crate) fn joined_as(
        nodes: usize,
        pairs: &[(usize, usize)],
        seed: u64,
        config: Config,
    ) -> World {
        let mut world = World::cabled(nodes, pairs, seed, config);
        world.join();
        world
    }

    /// A [`RING`] whose nodes and controller speak these versions; joined.
    pub(crate) fn mixed(versions: [u8; 4], controller: u8, seed: u64) -> World {
        let mut world = World::new(4, seed, usual_config());
        (world.versions, world.controller_version) = (versions.to_vec(), controller);
        for (n, version) in versions.into_iter().enumerate() {
            let seed = world.random.random();
            world.nodes[n] = Some(Boxed::new(n, node_identity(n), seed, version));
        }
        world.cable_all(&RING);
        world.join();
        world
    }

    /// Nodes find each other, and hosts announce themselves.
    fn join(&mut self) {
        self.run(1200);
        (0..self.hosts.len()).for_each(|h| self.announce(h));
        self.run(100);
    }

    /// The same before anything has happened.
    pub(crate) fn cabled(
        nodes: usize,
        pairs: &[(usize, usize)],
        seed: u64,
        config: Config,
    ) -> World {
        let mut world = World::new(nodes, seed, config);
        world.cable_all(pairs);
        world
    }

    fn cable_all(&mut self, pairs: &[(usize, usize)]) {
        let nodes = self.nodes.len();
        for (a, b) in self.link_ends(nodes, pairs) {
            self.cable(a, b);
        }
        for n in 0..nodes {
            self.host(n, HOST);
        }
        let controller = self.start_controller();
        self.cable(End::Controller(controller), End::Node(0, CONTROL));
    }

    /// The ends of links between nodes: each takes the lowest free port.
    pub(crate) fn link_ends(&self, nodes: usize, pairs: &[(usize, usize)]) -> Vec<(End, End)> {
        let mut next = vec![0; nodes];
        let mut end = |n: usize| {
            next[n] += 1;
            End::Node(n, next[n] - 1)
        };
        pairs.iter().map(|&(a, b)| (end(a), end(b))).collect()
    }

    pub(crate) fn node(&mut self, n: usize) -> &mut Boxed {
        self.nodes[n].as_mut().expect("the node is up")
    }

    /// The events that a node has told.
    pub(crate) fn events(&self, n: usize) -> &[node::Event] {
        &self.nodes[n].as_ref().expect("the node is up").events
    }

    pub(crate) fn host(&mut self, node: usize, port: u8) -> usize {
        let id = self.hosts.len();
        self.hosts.push(Host::new(id));
        self.cable(End::Host(id), End::Node(node, port));
        id
    }

    /// A controller of the next incarnation, with the durable state; its port has no cable.
    pub(crate) fn start_controller(&mut self) -> usize {
        self.durable.epoch += 1;
        self.start_controller_as(self.durable.clone())
    }

    pub(crate) fn start_controller_as(&mut self, durable: Durable) -> usize {
        let seeds = [self.random.random(), self.random.random()];
        let version = self.controller_version;
        let brain = Brain::start(self.config.clone(), self.now, &durable, seeds, version);
        self.controllers.push(Some(brain));
        self.controllers.len() - 1
    }

    /// The controller crashes and loses everything not durable.
    pub(crate) fn crash_controller(&mut self, c: usize) {
        self.controllers[c] = None;
        self.uncable(End::Controller(c));
    }

    pub(crate) fn brain(&mut self, c: usize) -> &mut Brain {
        self.controllers[c].as_mut().expect("the controller is up")
    }

    /// An input of a controller.
    pub(crate) fn tell(&mut self, c: usize, input: plexus_controller::Input) {
        let now = self.now;
        let wants = self.brain(c).input(now, input);
        self.carry_out(c, wants);
    }

    pub(crate) fn cable(&mut self, a: End, b: End) {
        self.cables.insert(a, b);
        self.cables.insert(b, a);
        self.carrier(a, true);
        self.carrier(b, true);
    }

    /// Removes a cable; both ends lose carrier. Returns its other end.
    pub(crate) fn uncable(&mut self, end: End) -> Option<End> {
        let other = self.cables.remove(&end)?;
        self.cables.remove(&other);
        self.carrier(end, false);
        self.carrier(other, false);
        Some(other)
    }

    /// Frames are lost; both ends keep carrier.
    pub(crate) fn silence(&mut self, end: End, silent: bool) {
        for end in [end, self.cables[&end]] {
            if silent {
                self.silent.insert(end);
            } else {
                self.silent.remove(&end);
            }
        }
    }

    pub(crate) fn is_silent(&self, end: End) -> bool {
        self.silent.contains(&end)
    }

    /// The box crashes: its neighbours lose carrier.
    pub(crate) fn crash_node(&mut self, n: usize) {
        self.nodes[n] = None;
        for port in 0..PORTS as u8 {
            if let Some(&other) = self.cables.get(&End::Node(n, port)) {
                self.carrier(other, false);
            }
        }
    }

    /// The box stops in an orderly way; its neighbours keep carrier.
    pub(crate) fn stop_node(&mut self, n: usize) {
        let now = self.now;
        let sent = self.node(n).input(now, node::Input::Stop);
        self.leave(n, sent);
        self.nodes[n] = None;
    }

    /// It restarts without state.
    pub(crate) fn start_node(&mut self, n: usize) {
        self.start_node_as(n, node_identity(n));
    }

    /// The same with another identity.
    pub(crate) fn start_node_as(&mut self, n: usize, identity: Arc<Identity>) {
        let seed = self.random.random();
        self.nodes[n] = Some(Boxed::new(n, identity, seed, self.versions[n]));
        self.plug_in(n);
    }

    /// The node gets another key while it runs.
    pub(crate) fn set_identity(&mut self, n: usize, new: Identity) {
        let now = self.now;
        let sent = self.node(n).set_identity(now, new);
        self.leave(n, sent);
    }

    /// The same, recording its inputs and outputs.
    pub(crate) fn start_recorded(&mut self, n: usize) {
        let seed = self.random.random();
        let mut boxed = Boxed::new(n, node_identity(n), seed, self.versions[n]);
        boxed.recording = Some(vec![]);
        self.nodes[n] = Some(boxed);
        self.plug_in(n);
    }

    fn plug_in(&mut self, n: usize) {
        for port in 0..PORTS as u8 {
            if let Some(&other) = self.cables.get(&End::Node(n, port)) {
                self.carrier(End::Node(n, port), true);
                self.carrier(other, true);
            }
        }
    }

    fn carrier(&mut self, end: End, up: bool) {
        let now = self.now;
        match end {
            End::Node(n, port) => {
                if let Some(boxed) = &mut self.nodes[n] {
                    let sent = boxed.carrier(now, port, up);
                    self.leave(n, sent);
                }
            }
            End::Controller(c) => {
                let facts = up.then(|| Brain::facts(c));
                if let Some(brain) = &mut self.controllers[c] {
                    let wants = brain.hub_input(now, hub::Input::Port(facts));
                    self.carry_out(c, wants);
                }
            }
            // Like Linux: without carrier it forgets its neighbours.
            End::Host(h) if !up => self.hosts[h].arp.clear(),
            End::Host(_) | End::Switch(..) => {}
        }
    }

    /// Injects a frame at an end of a cable, as if the other end had sent it.
    pub(crate) fn inject(&mut self, at: End, frame: Vec<u8>) {
        self.sent += 1;
        let flying = Flying::Frame(at, frame);
        self.queue.push(Reverse((self.now, self.sent, flying)));
    }

    /// Moves a host's cable without loss of carrier: it was behind a switch.
    pub(crate) fn move_quietly(&mut self, host: usize, to: End) {
        let old = self.cables.remove(&End::Host(host)).unwrap();
        self.cables.remove(&old);
        self.cables.insert(to, End::Host(host));
        self.cables.insert(End::Host(host), to);
    }

    /// Gives a port carrier, without a peer.
    pub(crate) fn power(&mut self, end: End) {
        self.carrier(end, true);
    }

    /// True while a controller's changes are not durable yet.
    pub(crate) fn is_storing(&self) -> bool {
        !self.storing.is_empty()
    }

    fn leave(&mut self, n: usize, sent: boxed::Sent) {
        for (port, frame) in sent {
            self.transmit(End::Node(n, port), frame);
        }
    }

    fn carry_out(&mut self, c: usize, wants: brain::Wants) {
        for frame in wants.frames {
            self.transmit(End::Controller(c), frame);
        }
        for (ticket, changes) in wants.stores {
            let epoch = self.brain(c).core.epoch();
            self.storing.insert((c, epoch, ticket), changes);
            let at = self.now + STORE_DELAY;
            self.sent += 1;
            self.queue.push(Reverse((at, self.sent, Flying::Store(c, epoch, ticket))));
        }
    }

    pub(crate) fn transmit(&mut self, from: End, frame: Vec<u8>) {
        let Some(&to) = self.cables.get(&from) else { return };
        let is_beat = frame.starts_with(&encapsulation::NEAREST_BRIDGE.0);
        if self.silent.contains(&from) || self.beats_are_lost && is_beat {
            return;
        }
        let is_plain = |end| matches!(end, End::Host(_) | End::Switch(..));
        let is_fabric = !is_plain(from) && !is_plain(to);
        let faults = if is_fabric { self.faults } else { Faults::default() };
        let mut percent = |limit: u32| limit > 0 && self.random.random_range(0..100) < limit;
        if percent(faults.lost) {
            return;
        }
        let copies = if percent(faults.repeated) { 2 } else { 1 };
        let late: Vec<bool> = (0..copies).map(|_| percent(faults.late)).collect();
        for is_late in late {
            let more = if is_late { self.random.random_range(0..5000) } else { 0 };
            let at = self.now + Duration::from_micros(20 + more);
            self.sent += 1;
            self.queue.push(Reverse((at, self.sent, Flying::Frame(to, frame.clone()))));
        }
    }

    pub(crate) fn run(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        loop {
            let frame = self.queue.peek().map_or(Time::FOREVER, |Reverse((at, ..))| *at);
            let nodes = self.nodes.iter().flatten().map(|b| b.fabric.next_deadline());
            let brains = self.controllers.iter().flatten().map(Brain::next_deadline);
            let timer = nodes.chain(brains).min().unwrap_or(Time::FOREVER);
            let next = frame.min(timer);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if frame <= timer {
                let Some(Reverse((_, _, flying))) = self.queue.pop() else { return };
                self.arrive(flying);
            } else {
                self.tick();
            }
        }
    }

    fn tick(&mut self) {
        let now = self.now;
        for n in 0..self.nodes.len() {
            let Some(boxed) = &mut self.nodes[n] else { continue };
            if boxed.fabric.next_deadline() <= now {
                let sent = boxed.input(now, node::Input::Tick);
                assert!(boxed.fabric.next_deadline() > now, "node {n} did not do what was due");
                self.leave(n, sent);
            }
        }
        for c in 0..self.controllers.len() {
            let Some(brain) = &mut self.controllers[c] else { continue };
            if brain.next_deadline() <= now {
                let wants = brain.tick(now);
                assert!(brain.next_deadline() > now, "controller {c} did not do what was due");
                self.carry_out(c, wants);
            }
        }
    }

    fn arrive(&mut self, flying: Flying) {
        let now = self.now;
        match flying {
            Flying::Frame(end, bytes) => {
                self.note(end, &bytes);
                match end {
                    End::Node(n, port) => {
                        self.look_back(n, port, &bytes);
                        let Some(boxed) = &mut self.nodes[n] else { return };
                        let sent = boxed.receive(now, port, &bytes);
                        self.leave(n, sent);
                    }
                    End::Host(h) => self.host_frame(h, &bytes),
                    End::Switch(id, port) => self.switch_frame(id, port, bytes),
                    End::Controller(c) => {
                        let Some(brain) = &mut self.controllers[c] else { return };
                        let wants = brain.hub_input(now, hub::Input::Frame(bytes));
                        self.carry_out(c, wants);
                    }
                }
            }
            Flying::Store(c, epoch, ticket) => {
                let changes = self.storing.remove(&(c, epoch, ticket)).unwrap_or_default();
                let Some(brain) = &mut self.controllers[c] else { return };
                self.durable.apply(&changes);
                let wants = brain.stored(now, ticket);
                self.carry_out(c, wants);
            }
        }
    }

    fn note(&mut self, end: End, bytes: &[u8]) {
        let time = self.now.since(Time::ZERO).as_nanos() as u64;
        let mut digest = self.digest ^ time.rotate_left(17);
        for &byte in bytes {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        self.digest = digest;
        if let Some(tap) = &mut self.wiretap {
            tap.push((end, bytes.to_vec()));
        }
    }

    /// A host's frame arrives on a link: the reverse path in its header must lead to its sender
    /// without passing a node twice.
    fn look_back(&mut self, n: usize, port: u8, bytes: &[u8]) {
        let Ok(outer) = ethernet::Frame::new_checked(bytes) else { return };
        if outer.ethertype() != encapsulation::ETHERTYPE {
            return;
        }
        let Ok(frame) = fabric::Frame::new_checked(outer.payload()) else { return };
        if frame.kind() != Kind::Ethernet {
            return;
        }
        let Ok(inner) = ethernet::Frame::new_checked(frame.payload()) else { return };
        let path = [&[port], frame.reverse()].concat();
        let (end, nodes) = self.walk(n, &path);
        let distinct: BTreeSet<usize> = nodes.iter().copied().collect();
        self.walked += 1;
        if distinct.len() != nodes.len() {
            self.astray.push(format!("{}: by way of {nodes:?}", inner.src()));
        }
        match end {
            Some(end) if self.is_behind(end, inner.src()) => {}
            // Its cable was removed while the frame was in flight.
            None => {}
            other => self.astray.push(format!("{} at {other:?} by {path:?}", inner.src())),
        }
    }

    /// The target of hops along the cables, and the nodes on the way.
    pub(crate) fn walk(&self, from: usize, hops: &[u8]) -> (Option<End>, Vec<usize>) {
        let (mut at, mut nodes) = (End::Node(from, 0), vec![]);
        for &hop in hops {
            let End::Node(n, _) = at else { return (None, nodes) };
            nodes.push(n);
            match self.cables.get(&End::Node(n, hop)) {
                Some(&end) => at = end,
                None => return (None, nodes),
            }
        }
        (Some(at), nodes)
    }

    /// A number for a frame that no frame had before.
    pub(crate) fn number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }
}
