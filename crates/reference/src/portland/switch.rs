//! A switch: its ports and neighbours, its path to the manager, and its hosts' frames.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use plexus_wire::{EtherType, MacAddr, Time, arp, ethernet, frame};

use super::Output;
use super::edge::Stations;
use super::location::{Discovery, Neighbour, Place};
use super::message::{
    ETHERTYPE, EVERYBODY, Level, Location, MANAGER, Message, NEIGHBOUR, NO_WAY, Question,
};
use crate::Input;

/// A port without an announcement for this many intervals leads to a host.
const LISTEN: u32 = 3;
/// A neighbour silent for this many intervals has failed.
const DEAD: u32 = 5;
/// A question to the manager is repeated after this many intervals.
const RETRY: u32 = 3;
/// Paths to the manager are no longer than this; longer ones are loops.
const DISTANCE_MAX: u16 = 4096;

#[derive(Clone, Debug, Default)]
struct Port {
    /// Since when it has had a carrier.
    up_since: Option<Time>,
    neighbour: Option<Neighbour>,
    is_host: bool,
}

/// A PortLand switch.
#[derive(Debug)]
pub struct Switch {
    id: MacAddr,
    interval: Duration,
    ports: Vec<Port>,
    discovery: Discovery,
    /// The port towards the manager, and the hops from here.
    parent: Option<(u16, u16)>,
    /// Where the manager's words to other switches go.
    branches: HashMap<MacAddr, u16>,
    stations: Stations,
    say_at: Time,
    /// When to ask the manager for a place again.
    ask_at: Time,
    /// When a position is proposed, again.
    propose_at: Time,
    outputs: VecDeque<Output>,
}

impl Switch {
    /// A switch with this many ports, at most 256, all without carrier. `id` is its address; `seed`
    /// determines which positions it proposes, and when within an interval it sends.
    pub fn new(id: MacAddr, ports: u16, interval: Duration, seed: u64) -> Switch {
        let phase = Duration::from_nanos(seed % (interval.as_nanos() as u64).max(1));
        Switch {
            id,
            interval,
            ports: vec![Port::default(); usize::from(ports.min(256))],
            discovery: Discovery::new(seed),
            parent: None,
            branches: HashMap::new(),
            stations: Stations::default(),
            say_at: Time::ZERO + phase,
            ask_at: Time::ZERO,
            propose_at: Time::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// Processes an input and does everything that is due.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        match input {
            Input::Port { port, rate_bits_per_s } => {
                if let Some(known) = self.ports.get_mut(usize::from(port)) {
                    *known = Port { up_since: rate_bits_per_s.map(|_| now), ..Port::default() };
                }
            }
            Input::Frame { port, bytes } => self.receive(now, port, bytes),
            Input::Tick => {}
        }
        if self.say_at <= now {
            self.say_at = now + self.interval;
            self.look(now);
            self.say();
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to hand in [`Input::Tick`].
    pub fn next_deadline(&self) -> Time {
        self.say_at
    }

    /// Its level in a fat tree, once it knows.
    pub fn level(&self) -> Option<Level> {
        self.discovery.level
    }

    /// Its place, if it is an edge switch and has one.
    pub fn place(&self) -> Option<Place> {
        self.discovery.place()
    }

    /// The pod, of an edge or aggregation switch that knows it.
    pub fn pod(&self) -> Option<u16> {
        self.discovery.pod
    }

    /// Whether it knows its own location, and a path to the manager.
    pub fn is_settled(&self) -> bool {
        let knows_itself = match self.discovery.level {
            Some(Level::Edge) => self.place().is_some(),
            Some(Level::Aggregation) => self.pod().is_some(),
            Some(Level::Core) => true,
            None => false,
        };
        knows_itself && self.parent.is_some()
    }

    /// All neighbours but the manager.
    fn neighbours(&self) -> Vec<Neighbour> {
        let known = self.ports.iter().filter_map(|p| p.neighbour);
        known.filter(|n| !n.is_manager()).collect()
    }

    /// Ports that lead to hosts.
    fn host_ports(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&self.ports).filter(|(_, p)| p.is_host).map(|(port, _)| port)
    }

    /// Ports to switches for which this one is the next hop to the manager, and which have hosts
    /// behind them.
    fn branch_ports(&self) -> impl Iterator<Item = u16> {
        let leads = |p: &Port| p.neighbour.is_some_and(|n| n.word.is_child && n.word.has_hosts);
        (0..).zip(&self.ports).filter(move |(_, p)| leads(p)).map(|(port, _)| port)
    }

    /// Draws conclusions from timeouts and from neighbours' announcements.
    fn look(&mut self, now: Time) {
        for port in &mut self.ports {
            port.neighbour.take_if(|n| now.since(n.heard) >= DEAD * self.interval);
            let up_for = port.up_since.map_or(Duration::ZERO, |since| now.since(since));
            port.is_host |= port.neighbour.is_none() && up_for >= LISTEN * self.interval;
        }
        let ways = (0..).zip(&self.ports).filter_map(|(port, p)| {
            let n = p.neighbour.filter(|n| n.word.distance < DISTANCE_MAX && !n.word.is_child)?;
            Some((n.word.distance, n.id, port))
        });
        self.parent = ways.min().map(|(distance, _, port)| (port, distance + 1));
        let (neighbours, had_place) = (self.neighbours(), self.place());
        let has_hosts = self.host_ports().next().is_some();
        self.discovery.look(has_hosts, &neighbours);
        if self.propose_at <= now
            && let Some(position) = self.discovery.propose(&neighbours)
        {
            self.propose_at = now + self.interval;
            let above =
                |p: &Port| p.neighbour.is_some_and(|n| n.word.level == Some(Level::Aggregation));
            let ports = (0..).zip(&self.ports).filter(|(_, p)| above(p)).map(|(port, _)| port);
            for port in ports.collect::<Vec<u16>>() {
                self.send(port, NEIGHBOUR, &Message::Proposal { position });
            }
        }
        if self.ask_at <= now
            && let Some(alone) = self.discovery.wants_place(&neighbours)
        {
            self.ask_at = now + RETRY * self.interval;
            self.send_up(&Message::PlaceWanted { alone });
        }
        self.register_all_if_new(had_place);
    }

    /// Announces itself on all ports.
    fn say(&mut self) {
        let has_hosts = self.host_ports().next().is_some() || self.branch_ports().next().is_some();
        let location = Location {
            pod: self.discovery.pod,
            position: self.discovery.position,
            level: self.discovery.level,
            is_child: false,
            has_hosts,
            distance: self.parent.map_or(NO_WAY, |(_, distance)| distance),
        };
        for port in 0..self.ports.len() as u16 {
            if self.ports[usize::from(port)].up_since.is_some() {
                let is_child = self.parent.is_some_and(|(parent, _)| parent == port);
                self.send(port, NEIGHBOUR, &Message::Location(Location { is_child, ..location }));
            }
        }
    }

    fn send(&mut self, port: u16, dst: MacAddr, message: &Message) {
        self.outputs.push_back((port, message.to_frame(self.id, dst)));
    }

    /// Sends a message to the manager, if a path is known.
    fn send_up(&mut self, message: &Message) {
        if let Some((port, _)) = self.parent {
            self.send(port, MANAGER, message);
        }
    }

    fn receive(&mut self, now: Time, port: u16, bytes: &[u8]) {
        let Some(known) = self.ports.get(usize::from(port)) else { return };
        let Ok(frame) = ethernet::Frame::new_checked(bytes) else { return };
        let is_ours = frame.ethertype().0 == ETHERTYPE;
        if is_ours && frame.dst() == NEIGHBOUR {
            if let Some(message) = Message::parse(frame.payload()) {
                self.hear_neighbour(now, port, frame.src(), &message);
            }
        } else if known.neighbour.is_some() {
            match is_ours {
                true => self.relay(port, &frame),
                false => self.forward(port, bytes),
            }
        } else if known.is_host && !is_ours {
            self.hear_host(port, &frame);
        }
    }

    fn hear_neighbour(&mut self, now: Time, port: u16, from: MacAddr, message: &Message) {
        match message {
            Message::Location(word) => {
                let known = &mut self.ports[usize::from(port)];
                known.neighbour = Some(Neighbour { id: from, heard: now, word: *word });
                known.is_host = false;
            }
            Message::Proposal { position } => {
                let neighbours = self.neighbours();
                let (granted, taken) =
                    self.discovery.judge(now, self.interval, from, *position, &neighbours);
                let verdict = Message::Verdict { position: *position, granted, taken };
                self.send(port, NEIGHBOUR, &verdict);
            }
            Message::Verdict { position, granted, taken } => {
                let (neighbours, had) = (self.neighbours(), self.place());
                self.discovery.hear_verdict(from, *position, *granted, taken, &neighbours);
                self.register_all_if_new(had);
            }
            _ => {}
        }
    }

    /// Forwards messages between switches and manager, and processes those for this switch.
    fn relay(&mut self, port: u16, frame: &ethernet::Frame<&[u8]>) {
        let dst = frame.dst();
        let is_from_above = self.parent.is_some_and(|(parent, _)| parent == port);
        let to = match dst {
            MANAGER if !is_from_above => {
                self.branches.insert(frame.src(), port);
                self.parent.map(|(parent, _)| parent)
            }
            _ if !is_from_above => None,
            EVERYBODY => {
                let ports: Vec<u16> = self.branch_ports().filter(|p| *p != port).collect();
                let copies = ports.into_iter().map(|p| (p, frame.as_bytes().to_vec()));
                self.outputs.extend(copies);
                if let Some(Message::QuestionToAll(question)) = Message::parse(frame.payload()) {
                    self.ask_hosts(&question);
                }
                None
            }
            _ if dst == self.id => {
                self.hear_manager(frame.payload());
                None
            }
            _ => self.branches.get(&dst).copied(),
        };
        if let Some(to) = to {
            self.outputs.push_back((to, frame.as_bytes().to_vec()));
        }
    }

    fn hear_manager(&mut self, payload: &[u8]) {
        match Message::parse(payload) {
            Some(Message::Place { pod, position }) => {
                let had = self.place();
                if self.discovery.level == Some(Level::Edge) {
                    let known = self.discovery.position.get_or_insert(position);
                    self.discovery.pod = (*known == position).then_some(pod);
                }
                self.register_all_if_new(had);
            }
            Some(Message::Answer { question, pmac }) => {
                let Some(place) = self.place() else { return };
                let Some(asker) = self.stations.with_pmac(place, question.asker) else { return };
                let answer = arp::Repr {
                    operation: arp::Operation::REPLY,
                    sender_mac: pmac,
                    sender_ip: question.wanted,
                    target_mac: asker.actual,
                    target_ip: question.asker_ip,
                };
                self.outputs.push_back((asker.port, frame::arp(asker.actual, &answer)));
            }
            _ => {}
        }
    }

    /// Asks every host except the asker for an address.
    fn ask_hosts(&mut self, question: &Question) {
        let place = self.place();
        let asker = place.and_then(|p| self.stations.with_pmac(p, question.asker));
        let asker_port = asker.map(|s| s.port);
        let request = arp::Repr {
            operation: arp::Operation::REQUEST,
            sender_mac: question.asker,
            sender_ip: question.asker_ip,
            target_mac: MacAddr::default(),
            target_ip: question.wanted,
        };
        let frame = frame::arp(MacAddr::BROADCAST, &request);
        let ports: Vec<u16> = self.host_ports().filter(|p| Some(*p) != asker_port).collect();
        self.outputs.extend(ports.into_iter().map(|port| (port, frame.clone())));
    }

    /// Processes a host's frame: ARP is not flooded; other frames get the PMAC as their source.
    fn hear_host(&mut self, port: u16, frame: &ethernet::Frame<&[u8]>) {
        let place = self.place();
        let Some(station) = self.stations.at(port, frame.src()) else { return };
        if frame.ethertype() != EtherType::ARP {
            let Some(place) = place else { return };
            let mut bytes = frame.as_bytes().to_vec();
            bytes[6..12].copy_from_slice(&station.pmac(place).0);
            return self.forward(port, &bytes);
        }
        let Ok(packet) = arp::Packet::new_checked(frame.payload()) else { return };
        let (sender, wanted) = (packet.sender_ip(), packet.target_ip());
        if packet.sender_mac() != frame.src() || sender.is_unspecified() {
            return;
        }
        let is_new = station.ip != Some(sender);
        station.ip = Some(sender);
        let station = *station;
        // Hosts that spoke before there was a place are registered when there is one.
        let Some(place) = place else { return };
        let pmac = station.pmac(place);
        let is_reply = packet.operation() == arp::Operation::REPLY;
        let is_direct = is_reply && !self.discovery.is_alone(&self.neighbours());
        if is_new || is_reply {
            let (ip, actual) = (sender, station.actual);
            self.send_up(&Message::Registration { answered: is_direct, ip, actual, pmac });
        }
        if is_direct {
            let dst = packet.target_mac();
            let answer = arp::Repr {
                operation: arp::Operation::REPLY,
                sender_mac: pmac,
                sender_ip: sender,
                target_mac: dst,
                target_ip: wanted,
            };
            self.forward(port, &frame::arp(dst, &answer));
        } else if packet.operation() == arp::Operation::REQUEST && wanted != sender {
            let question = Question { asker_ip: sender, asker: pmac, wanted };
            self.send_up(&Message::Question(question));
        }
    }

    /// Now that there is a place, hosts that spoke before get their PMACs.
    fn register_all_if_new(&mut self, had: Option<Place>) {
        let Some(place) = self.place().filter(|place| had != Some(*place)) else { return };
        let known: Vec<_> = self.stations.iter().filter_map(|s| Some((*s, s.ip?))).collect();
        for (station, ip) in known {
            let (actual, pmac) = (station.actual, station.pmac(place));
            self.send_up(&Message::Registration { answered: false, ip, actual, pmac });
        }
    }

    /// Carries a frame by the PMAC of its destination, up or down the tree (§3.5).
    fn forward(&mut self, from: u16, bytes: &[u8]) {
        let Some((dst, src)) = ethernet::Frame::new_checked(bytes).ok().map(|f| (f.dst(), f.src()))
        else {
            return;
        };
        let [a, b, position, ..] = dst.0;
        let pod = u16::from_be_bytes([a, b]);
        if dst.is_multicast() {
            return;
        }
        if let Some(place) = self.place()
            && (Place { pod, position }) == place
        {
            let Some(station) = self.stations.with_pmac(place, dst) else { return };
            let mut bytes = bytes.to_vec();
            bytes[..6].copy_from_slice(&station.actual.0);
            if bytes[12..14] == EtherType::ARP.0.to_be_bytes() && bytes.len() >= 38 {
                // The host is to find its own address in the answer.
                bytes[32..38].copy_from_slice(&station.actual.0);
            }
            return self.outputs.push_back((station.port, bytes));
        }
        let is_below = |n: &Neighbour| match self.discovery.level {
            Some(Level::Core) => n.word.pod == Some(pod),
            Some(Level::Aggregation) => {
                let is_edge = n.word.level == Some(Level::Edge);
                is_edge && (n.word.pod, n.word.position) == (Some(pod), Some(position))
            }
            _ => false,
        };
        let is_above = |n: &Neighbour| match self.discovery.level {
            Some(Level::Edge) => n.word.level == Some(Level::Aggregation),
            Some(Level::Aggregation) => {
                n.word.level == Some(Level::Core) && self.discovery.pod != Some(pod)
            }
            _ => false,
        };
        let ports = |is: &dyn Fn(&Neighbour) -> bool| -> Vec<u16> {
            let with = (0..).zip(&self.ports).filter(|(_, p)| p.neighbour.as_ref().is_some_and(is));
            with.map(|(port, _)| port).filter(|port| *port != from).collect()
        };
        let mut ways = ports(&is_below);
        // A frame that came from above does not go up again.
        let is_from_below = self.ports[usize::from(from)].neighbour.is_none_or(|n| !is_above(&n));
        if ways.is_empty() && is_from_below {
            ways = ports(&is_above);
        }
        if !ways.is_empty() {
            let way = (src.to_u64() ^ dst.to_u64()) % 65_521 % ways.len() as u64;
            self.outputs.push_back((ways[way as usize], bytes.to_vec()));
        }
    }
}
