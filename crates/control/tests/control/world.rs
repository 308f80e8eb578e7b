//! A whole fabric in one process: nodes, a hub, hosts and cables, driven by a seed. Frames take a
//! millisecond per cable, and may be lost, duplicated or delayed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use plexus_control::hub::{self, Hub};
use plexus_control::identity::{Authority, Identity, KeyPair, Role};
use plexus_control::link::Pace;
use plexus_control::node::{self, Event, FrameKind, Node};
use plexus_control::version::{FIRST, VERSION};
use plexus_wire::fabric::message::{LinkFacts, PortRole, RouteEntry};
use plexus_wire::fabric::{self, Hop, Kind, encapsulation};
use plexus_wire::{EtherType, MacAddr, Time, arp, ethernet};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub(crate) mod lite;

/// Where a cable ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum End {
    Node(usize, u8),
    Host(usize),
    Hub,
}

/// Behaviour of the cables, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u32,
    pub(crate) repeated: u32,
    pub(crate) late: u32,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Box_>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) hub: Hub,
    pub(crate) controller: lite::Controller,
    pub(crate) hub_log: Vec<hub::Output>,
    /// The version that a node or controller speaks after it has restarted.
    pub(crate) versions: [u8; 2],
    cables: BTreeMap<End, End>,
    cut: BTreeSet<End>,
    queue: BinaryHeap<Reverse<Flying>>,
    sent: u64,
    random: Pcg64,
    pub(crate) faults: Faults,
}

/// Time of arrival, number, destination, and the frame.
type Flying = (Time, u64, End, Vec<u8>);

/// A node with the simplest data plane that obeys the specification.
pub(crate) struct Box_ {
    pub(crate) node: Node,
    pub(crate) roles: HashMap<u8, (PortRole, Option<MacAddr>)>,
    pub(crate) stations: HashMap<u8, BTreeSet<MacAddr>>,
    pub(crate) routes: HashMap<(u8, Option<MacAddr>, MacAddr), RouteEntry>,
    pub(crate) events: Vec<Event>,
    /// Questions of the controller about frames.
    pub(crate) questions: Vec<plexus_wire::fabric::message::Explain>,
}

/// A host that speaks ARP and sends numbered frames.
pub(crate) struct Host {
    pub(crate) mac: MacAddr,
    pub(crate) ip: Ipv4Addr,
    pub(crate) arp: HashMap<Ipv4Addr, MacAddr>,
    waiting: Vec<(Ipv4Addr, u32)>,
    pub(crate) received: Vec<(MacAddr, u32)>,
}

fn authority() -> Authority {
    Authority::new([7; 16], &[9; 32])
}

pub(crate) fn identity(number: u64, role: Role) -> Arc<Identity> {
    identity_by(&authority(), number, role, 0)
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
    secret[8] = again;
    let keys = KeyPair::generate(&secret);
    let name = match again {
        0 => format!("{role}{number}"),
        again => format!("{role}{number}-{again}"),
    };
    let credential = authority.issue(number, &name, role, &keys.public).unwrap();
    Arc::new(Identity::new(credential, keys, authority.public()).unwrap())
}

pub(crate) fn port_mac(node: usize, port: u8) -> MacAddr {
    MacAddr([2, 0xA, 0, 0, node as u8, port])
}

impl World {
    pub(crate) fn new(nodes: usize, seed: u64) -> World {
        let mut random = Pcg64::seed_from_u64(seed);
        let pace = Pace::default();
        let nodes = (0..nodes)
            .map(|n| Box_ {
                node: Node::new(identity(n as u64 + 1, Role::Node), pace, random.random()),
                roles: HashMap::new(),
                stations: HashMap::new(),
                routes: HashMap::new(),
                events: vec![],
                questions: vec![],
            })
            .collect();
        let mut hub = Hub::new(identity(1000, Role::Controller), pace, random.random());
        // Its controller speaks no other.
        hub.set_version(FIRST);
        hub.lead(Time::ZERO, 2);
        World {
            now: Time::ZERO,
            nodes,
            hosts: vec![],
            hub,
            controller: lite::Controller::default(),
            hub_log: vec![],
            versions: [VERSION, FIRST],
            cables: BTreeMap::new(),
            cut: BTreeSet::new(),
            queue: BinaryHeap::new(),
            sent: 0,
            random,
            faults: Faults::default(),
        }
    }

    /// Replaces the controller by a new one without state.
    pub(crate) fn restart_controller(&mut self, epoch: u64) {
        let seed = self.random.random();
        let identity = identity(1000, Role::Controller);
        self.hub = Hub::new(identity, Pace::default(), seed);
        self.hub.set_version(self.versions[1]);
        self.hub.lead(self.now, epoch);
        self.controller = lite::Controller::default();
        self.controller.epoch = epoch;
        self.plug(End::Hub);
    }

    /// Restarts a node's daemon without state.
    pub(crate) fn restart_node(&mut self, n: usize) {
        self.restart_node_as(n, identity(n as u64 + 1, Role::Node));
    }

    /// The same with another identity.
    pub(crate) fn restart_node_as(&mut self, n: usize, identity: Arc<Identity>) {
        self.nodes[n].node = Node::new(identity, Pace::default(), self.random.random());
        self.nodes[n].node.set_version(self.versions[0]);
        self.nodes[n].roles.clear();
        self.nodes[n].stations.clear();
        let of_it = |end: &End| matches!(end, End::Node(node, _) if *node == n);
        let ends: Vec<End> = self.cables.keys().copied().filter(of_it).collect();
        ends.into_iter().for_each(|end| self.plug(end));
    }

    pub(crate) fn host(&mut self, node: usize, port: u8) -> usize {
        let id = self.hosts.len();
        let n = id as u8 + 1;
        self.hosts.push(Host {
            mac: MacAddr([2, 0, 0, 0, 0, n]),
            ip: Ipv4Addr::new(10, 0, 0, n),
            arp: HashMap::new(),
            waiting: vec![],
            received: vec![],
        });
        self.cable(End::Host(id), End::Node(node, port));
        id
    }

    pub(crate) fn cable(&mut self, a: End, b: End) {
        self.cables.insert(a, b);
        self.cables.insert(b, a);
        self.plug(a);
        self.plug(b);
    }

    /// Unplugs and removes a cable; both ends lose carrier.
    pub(crate) fn uncable(&mut self, end: End) {
        let other = self.cables.remove(&end).unwrap();
        self.cables.remove(&other);
        for end in [end, other] {
            self.carrier(end, false);
        }
    }

    /// Frames are lost; both ends keep carrier.
    pub(crate) fn silence(&mut self, end: End, silent: bool) {
        for end in [end, self.cables[&end]] {
            if silent {
                self.cut.insert(end);
            } else {
                self.cut.remove(&end);
            }
        }
    }

    fn plug(&mut self, end: End) {
        self.carrier(end, true);
    }

    fn carrier(&mut self, end: End, up: bool) {
        let facts = |port, mac| {
            up.then_some(LinkFacts {
                port,
                mac,
                mtu: 2000,
                rate_mbit_per_s: 1000,
                native: false,
                takes_owed: false,
            })
        };
        match end {
            End::Node(n, port) => {
                let facts = facts(port, port_mac(n, port));
                self.input(n, node::Input::Port { port, facts });
            }
            End::Hub => {
                let facts = facts(0, MacAddr([2, 0xC, 0, 0, 0, 0]));
                self.hub.handle(self.now, hub::Input::Port(facts));
                self.hub_outputs();
            }
            End::Host(_) => {}
        }
    }

    pub(crate) fn input(&mut self, n: usize, input: node::Input) {
        self.change_node(n, |node, now| node.handle(now, input));
    }

    /// Changes a node, and carries its outputs out.
    pub(crate) fn change_node(&mut self, n: usize, how: impl FnOnce(&mut Node, Time)) {
        how(&mut self.nodes[n].node, self.now);
        while let Some(output) = self.nodes[n].node.poll_output() {
            self.output(n, output);
        }
    }

    fn output(&mut self, n: usize, output: node::Output) {
        let here = &mut self.nodes[n];
        match output {
            node::Output::Transmit { port, frame } => self.transmit(End::Node(n, port), frame),
            node::Output::Send { frame } => self.forward(n, 0xFF, frame),
            node::Output::Role { port, role, neighbour, .. } => {
                here.roles.insert(port, (role, neighbour));
            }
            node::Output::Admit { port, mac } => {
                here.stations.entry(port).or_default().insert(mac);
            }
            node::Output::Expel { port, mac } => {
                here.stations.entry(port).or_default().remove(&mac);
            }
            node::Output::Install(entry) => {
                let key = (entry.port, entry.source, entry.destination);
                if entry.routes.is_empty() {
                    here.routes.remove(&key);
                } else {
                    here.routes.insert(key, entry);
                }
            }
            // No controller here makes trees or routes packets.
            node::Output::Tree { .. } | node::Output::Group(_) => {}
            node::Output::Gateways { .. }
            | node::Output::Route { .. }
            | node::Output::HasRoutes(_)
            | node::Output::Forwarders(_)
            | node::Output::Classes(_)
            | node::Output::Common(_)
            | node::Output::Leading(_)
            | node::Output::Neighbour { .. } => {}
            node::Output::Own { .. }
            | node::Output::Again { .. }
            | node::Output::Unreachable { .. } => {}
            node::Output::Tell(event) => here.events.push(event),
            node::Output::Explain(question) => here.questions.push(question),
        }
    }

    fn role(&self, n: usize, port: u8) -> (PortRole, Option<MacAddr>) {
        self.nodes[n].roles.get(&port).copied().unwrap_or((PortRole::Down, None))
    }

    fn punt(&mut self, n: usize, port: u8, kind: FrameKind, bytes: Vec<u8>) {
        self.input(n, node::Input::Frame { port, kind, bytes });
    }

    /// A frame arrives on a node's port.
    fn arrive(&mut self, n: usize, port: u8, bytes: Vec<u8>) {
        let frame = ethernet::Frame::new_checked(&bytes[..]).unwrap();
        let is_fabric = frame.ethertype() == encapsulation::ETHERTYPE;
        if is_fabric && frame.dst() == encapsulation::NEAREST_BRIDGE {
            return self.punt(n, port, FrameKind::Bootstrap, bytes);
        }
        match self.role(n, port).0 {
            PortRole::Fabric | PortRole::Controller if is_fabric => {
                self.forward(n, port, frame.payload().to_vec());
            }
            PortRole::Host if !is_fabric => {
                let (src, dst) = (frame.src(), frame.dst());
                let here = &self.nodes[n];
                let admitted = here.stations.get(&port).is_some_and(|s| s.contains(&src));
                let route = here
                    .routes
                    .get(&(port, Some(src), dst))
                    .or_else(|| here.routes.get(&(port, None, dst)));
                match route.filter(|_| admitted) {
                    Some(entry) => {
                        let header = fabric::Repr::new(Kind::Ethernet, &entry.routes[0]).unwrap();
                        let frame = [&header.to_bytes().unwrap()[..], &bytes].concat();
                        self.forward(n, port, frame);
                    }
                    None => self.punt(n, port, FrameKind::Host, bytes),
                }
            }
            _ => {}
        }
    }

    /// Hop processing.
    fn forward(&mut self, n: usize, in_port: u8, mut frame: Vec<u8>) {
        let error = |frame: &mut Vec<u8>| {
            fabric::Frame::new_checked(&mut frame[..]).unwrap().set_kind(Kind::Error);
        };
        let before = frame.clone();
        let Ok(hop) = fabric::advance(&mut frame, in_port) else {
            error(&mut frame);
            return self.punt(n, in_port, FrameKind::Error, frame);
        };
        let Hop::Port(port) = hop else {
            return self.punt(n, in_port, FrameKind::Control, frame);
        };
        let view = fabric::Frame::new_checked(&frame[..]).unwrap();
        let (kind, inner) = (view.kind(), view.payload().to_vec());
        match self.role(n, port) {
            (PortRole::Fabric | PortRole::Controller, Some(mac)) => {
                let header = encapsulation::ethertype_header(mac, port_mac(n, port));
                self.transmit(End::Node(n, port), [&header[..], &frame].concat());
            }
            (PortRole::Host, _) if kind == Kind::Ethernet => {
                let dst = ethernet::Frame::new_checked(&inner[..]).unwrap().dst();
                let here = self.nodes[n].stations.get(&port);
                if here.is_some_and(|s| s.contains(&dst)) {
                    return self.transmit(End::Node(n, port), inner);
                }
                let mut before = before;
                error(&mut before);
                self.punt(n, in_port, FrameKind::Stale, before);
            }
            _ => {}
        }
    }

    fn transmit(&mut self, from: End, frame: Vec<u8>) {
        let Some(&to) = self.cables.get(&from) else { return };
        if self.cut.contains(&from) {
            return;
        }
        let mut percent = |limit: u32| limit > 0 && self.random.random_range(0..100) < limit;
        if percent(self.faults.lost) {
            return;
        }
        let copies = if percent(self.faults.repeated) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if percent(self.faults.late) { 5 } else { 0 };
            let at = self.now + std::time::Duration::from_millis(1 + late);
            self.sent += 1;
            self.queue.push(Reverse((at, self.sent, to, frame.clone())));
        }
    }

    fn hub_outputs(&mut self) {
        while let Some(output) = self.hub.poll_output() {
            match &output {
                hub::Output::Transmit(frame) => self.transmit(End::Hub, frame.clone()),
                _ => {
                    self.controller.output(self.now, &mut self.hub, &output);
                    self.hub_log.push(output);
                }
            }
        }
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, ms: u64) {
        let end = self.now + std::time::Duration::from_millis(ms);
        loop {
            let frame = self.queue.peek().map_or(Time::FOREVER, |Reverse((at, ..))| *at);
            let nodes = self.nodes.iter().map(|b| b.node.next_deadline());
            let timer = nodes.min().unwrap_or(Time::FOREVER).min(self.hub.next_deadline());
            let next = frame.min(timer);
            if next > end {
                self.now = end;
                return;
            }
            assert!(next >= self.now || timer <= self.now, "time goes on");
            self.now = self.now.max(next);
            if frame <= timer {
                let Reverse((_, _, to, bytes)) = self.queue.pop().unwrap();
                match to {
                    End::Node(n, port) => self.arrive(n, port, bytes),
                    End::Host(h) => self.host_frame(h, &bytes),
                    End::Hub => {
                        self.hub.handle(self.now, hub::Input::Frame(bytes));
                        self.hub_outputs();
                    }
                }
                continue;
            }
            for n in 0..self.nodes.len() {
                if self.nodes[n].node.next_deadline() <= self.now {
                    self.input(n, node::Input::Tick);
                    let next = self.nodes[n].node.next_deadline();
                    assert!(next > self.now, "node {n} did not do what was due: {next:?}");
                }
            }
            if self.hub.next_deadline() <= self.now {
                self.hub.handle(self.now, hub::Input::Tick);
                self.hub_outputs();
            }
        }
    }

    /// A host sends a numbered frame to another's address, resolving it first if needed.
    pub(crate) fn send(&mut self, from: usize, to: Ipv4Addr, number: u32) {
        match self.hosts[from].arp.get(&to).copied() {
            Some(mac) => self.data(from, mac, number),
            None => {
                self.hosts[from].waiting.push((to, number));
                self.ask(from, to);
            }
        }
    }

    fn data(&mut self, from: usize, dst: MacAddr, number: u32) {
        let src = self.hosts[from].mac;
        let mut frame = vec![0; 64];
        ethernet::Repr { dst, src, ethertype: EtherType(0x88B6) }.emit(&mut frame).unwrap();
        frame[14..18].copy_from_slice(&number.to_be_bytes());
        self.transmit(End::Host(from), frame);
    }

    pub(crate) fn ask(&mut self, from: usize, target_ip: Ipv4Addr) {
        let own = (self.hosts[from].mac, self.hosts[from].ip);
        self.announce(from, own, target_ip);
    }

    /// A question for an address, from a host that claims these.
    pub(crate) fn announce(
        &mut self,
        from: usize,
        claimed: (MacAddr, Ipv4Addr),
        target_ip: Ipv4Addr,
    ) {
        let target = (MacAddr::default(), target_ip);
        self.arp(from, MacAddr::BROADCAST, arp::Operation::REQUEST, claimed, target);
    }

    fn arp(
        &mut self,
        from: usize,
        dst: MacAddr,
        operation: arp::Operation,
        (sender_mac, sender_ip): (MacAddr, Ipv4Addr),
        (target_mac, target_ip): (MacAddr, Ipv4Addr),
    ) {
        let mut frame = vec![0; 60];
        let src = self.hosts[from].mac;
        ethernet::Repr { dst, src, ethertype: EtherType::ARP }.emit(&mut frame).unwrap();
        arp::Repr { operation, sender_mac, sender_ip, target_mac, target_ip }
            .emit(&mut frame[14..])
            .unwrap();
        self.transmit(End::Host(from), frame);
    }

    fn host_frame(&mut self, h: usize, bytes: &[u8]) {
        let frame = ethernet::Frame::new_checked(bytes).unwrap();
        let host = &mut self.hosts[h];
        if frame.dst() != host.mac && !frame.dst().is_multicast() {
            panic!("host {h} got a frame for {}", frame.dst());
        }
        match frame.ethertype() {
            EtherType::ARP => {
                let packet = arp::Packet::new_checked(frame.payload()).unwrap();
                let repr = arp::Repr::parse(&packet).unwrap();
                if !repr.sender_ip.is_unspecified() {
                    host.arp.insert(repr.sender_ip, repr.sender_mac);
                }
                if repr.operation == arp::Operation::REQUEST && repr.target_ip == host.ip {
                    let (own, asker) = ((host.mac, host.ip), (repr.sender_mac, repr.sender_ip));
                    self.arp(h, asker.0, arp::Operation::REPLY, own, asker);
                }
                let waiting = std::mem::take(&mut self.hosts[h].waiting);
                for (to, number) in waiting {
                    match self.hosts[h].arp.get(&to).copied() {
                        Some(mac) => self.data(h, mac, number),
                        None => self.hosts[h].waiting.push((to, number)),
                    }
                }
            }
            EtherType(0x88B6) => {
                let number = u32::from_be_bytes(frame.payload()[..4].try_into().unwrap());
                host.received.push((frame.src(), number));
            }
            _ => {}
        }
    }
}
