//! The controller's end of the control plane: one port into the fabric, and a session with every
//! node. It outputs the decrypted bodies of nodes' messages, and seals the bodies sent to them.

mod book;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plexus_wire::fabric::message::{
    Body, Heartbeat, Hops, LinkFacts, NumberTaken, PROVISIONAL_EPOCH, PortRole,
};
use plexus_wire::fabric::{self, CONTROL_HOP, Hop, Kind, encapsulation};
use plexus_wire::{Time, ethernet};
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::identity::Identity;
use crate::link::{Link, Neighbour, Outcome, Pace, Pin, Stranger};
use crate::node::control_frame;
use crate::requests::Requests;
use crate::session::frame::Message;
use crate::session::{Channel, Established, Facts, Limits, Random, Refused, RoleWanted};
use crate::version::{self, VERSION};
use book::{Book, Owner};

/// The controller's only port.
const PORT: u8 = 0;
/// Most unfinished handshakes by any way: 32 MB of them. A fabric of 5,000 nodes that is powered on
/// at once begins more than one for each.
const OPENING_MAX: usize = 1 << 14;
/// Burst of new handshakes by any way, and the time after which one more may begin: each costs
/// public-key operations.
const OPENING_BURST: u32 = 1 << 14;
const OPENING_REFILL: Duration = Duration::from_millis(2);
/// The same for those by the way of one known node, beyond the others: a flood on a cable takes
/// them from the nodes behind that cable alone.
const OWN_BURST: u32 = 4;
const OWN_REFILL: Duration = Duration::from_secs(2);
/// A handshake is finished within this time or forgotten.
const OPENING_TIME: Duration = Duration::from_secs(5);
/// A node that is silent for this long loses its number to another node that asks for it, unless
/// the driver sets another time.
const NODE_TIMEOUT: Duration = Duration::from_secs(3);
/// Most earlier incarnations of a node that are remembered.
const EARLIER_MAX: usize = 8;
/// Least time between two reports that the same node was refused its number.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Input from the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The port gained or lost its carrier; absent: no carrier.
    Port(Option<LinkFacts>),
    /// A complete frame was received.
    Frame(Vec<u8>),
    /// Time has passed: [`Hub::next_deadline`] has come.
    Tick,
}

/// Output: an action for the driver, or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a frame out of the port as it is.
    Transmit(Vec<u8>),
    /// The port's neighbour, once it has proved to be a node; absent: it was lost.
    Attached(Option<Neighbour>),
    /// The controller that the neighbour has a way to, when that changes.
    Leader(Option<Leader>),
    /// A node has authenticated and may have lost its state. A node that has only renewed its keys
    /// is not announced, because nothing has changed.
    NodeUp {
        /// Its number.
        node: u64,
        /// Its name.
        name: String,
        /// The version of the protocol that both sides speak.
        version: u8,
    },
    /// A node sent a message. Requests are already acknowledged and are passed on once.
    Said {
        /// The node.
        node: u64,
        /// The message.
        body: Body,
    },
    /// A message was refused, with the reason.
    Refused(String),
    /// Two live nodes have the same number: the second one was refused.
    NumberTaken {
        /// The number.
        node: u64,
        /// The node that keeps it.
        holder: Claimant,
        /// The node that was refused.
        refused: Claimant,
    },
    /// The neighbour did not authenticate as a node of this group.
    Stranger(Stranger),
}

/// A controller that leads, as a node's Heartbeat tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its epoch.
    pub epoch: u64,
    /// Its number.
    pub controller: u64,
}

/// One of two nodes with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its name.
    pub name: String,
    /// Its public key.
    pub key: [u8; 32],
    /// The path to its control plane, from the controller's port on.
    pub path: Hops,
}

/// Sessions with nodes over one port.
#[derive(Debug)]
pub struct Hub {
    identity: Arc<Identity>,
    /// Absent: another controller leads, and this one tells no node a way to itself.
    epoch: Option<u64>,
    /// It stands by and follows the nodes: they may open sessions.
    follows: bool,
    /// The controller that the neighbour has a way to.
    leader: Option<Leader>,
    random: Random,
    link: Link,
    attached: Option<Neighbour>,
    peers: BTreeMap<u64, Peer>,
    /// Nodes by their ways back.
    ways: BTreeSet<(Hops, u64)>,
    /// In the order in which they began.
    opening: BTreeMap<u64, Opening>,
    /// The same by the first message of each: a peer that missed the answer repeats it.
    begun: BTreeMap<Vec<u8>, u64>,
    opened: u64,
    openings: Budget,
    book: Book,
    /// The highest version of the protocol that it speaks.
    version: u8,
    node_timeout: Duration,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
struct Peer {
    channel: Channel,
    requests: Requests,
    /// The path that the controller has computed; without one, the path of its last message.
    path: Option<Hops>,
    /// Changed by [`Hub::came_by`] alone.
    back: Hops,
    /// Handshakes that may begin by this way when all others are used up.
    openings: Budget,
    name: String,
    /// Its public key.
    key: [u8; 32],
    /// As it last reported.
    incarnation: Facts,
    /// The version of the protocol that both speak.
    version: u8,
    /// Incarnations that it has replaced, the latest last.
    earlier: VecDeque<Facts>,
    /// When something authentic came from it.
    heard: Time,
    /// A message to it was lost: it must report anew.
    missed: bool,
    /// The key of the node whose refusal was last reported, and when.
    told: Option<([u8; 32], Time)>,
}

impl Peer {
    /// Whether another box has authenticated with this number: not the same one after a restart,
    /// nor the same process with a new key.
    fn is_other(&self, established: &Established) -> bool {
        let peer = &established.peer;
        let incarnation = version::incarnation(&peer.facts);
        if incarnation == self.incarnation && incarnation != Facts::default() {
            return false;
        }
        self.key != peer.credential.claims().static_public || self.earlier.contains(&incarnation)
    }
}

/// A handshake whose other side has not authenticated yet.
#[derive(Debug)]
struct Opening {
    channel: Channel,
    until: Time,
    first: Vec<u8>,
}

impl Hub {
    /// A controller that stands by.
    pub fn new(identity: Arc<Identity>, pace: Pace, seed: [u8; 32]) -> Hub {
        let mut random = Random::from_seed(seed);
        let link = Link::new(identity.clone(), pace, random.fork(), Some(Pin::Fabric));
        Hub {
            identity,
            epoch: None,
            follows: false,
            leader: None,
            random,
            link,
            attached: None,
            peers: BTreeMap::new(),
            ways: BTreeSet::new(),
            opening: BTreeMap::new(),
            begun: BTreeMap::new(),
            opened: 0,
            openings: Budget::new(OPENING_BURST, OPENING_REFILL),
            book: Book::default(),
            version: VERSION,
            node_timeout: NODE_TIMEOUT,
            outputs: VecDeque::new(),
        }
    }

    /// Begins to lead, with an epoch that was never used before, or provisionally. Nodes that have
    /// a session are announced anew, because a core that leads does not know them.
    pub fn lead(&mut self, now: Time, epoch: u64) {
        (self.epoch, self.follows) = (Some(epoch), false);
        let up = self.peers.iter().map(|(node, peer)| {
            let (name, version) = (peer.name.clone(), peer.version);
            Output::NodeUp { node: *node, name, version }
        });
        self.outputs.extend(up);
        self.link.hurry(now);
        self.run(now);
    }

    /// Stands by, and takes sessions from nodes that were told the way here.
    pub fn follow(&mut self) {
        self.follows = true;
    }

    /// Stops leading, or following: every session ends, and nodes look for another controller.
    pub fn stand_by(&mut self, now: Time) {
        (self.epoch, self.follows) = (None, false);
        self.peers.clear();
        self.ways.clear();
        self.opening.clear();
        self.begun.clear();
        self.book = Book::default();
        self.link.hurry(now);
        self.run(now);
    }

    /// Sets after how long a silence of its node a number can be another's.
    pub fn set_node_timeout(&mut self, timeout: Duration) {
        self.node_timeout = timeout;
    }

    /// Speaks no later version of the protocol than this one, in sessions that begin later.
    pub fn set_version(&mut self, version: u8) {
        self.version = version;
    }

    /// The public key that it proves.
    pub fn key(&self) -> [u8; 32] {
        self.identity.claims().static_public
    }

    /// Sets the public keys of boxes that are no longer of the group. Their sessions end at once,
    /// and none is opened with them again. Returns the nodes that have lost theirs.
    pub fn set_revoked(&mut self, now: Time, revoked: BTreeSet<[u8; 32]>) -> Vec<u64> {
        self.identity = Arc::new(self.identity.without(revoked));
        let outcome = self.link.set_identity(now, &self.identity);
        self.link_outcome(outcome);
        let open = self.peers.values_mut().map(|peer| &mut peer.channel);
        for channel in open.chain(self.opening.values_mut().map(|opening| &mut opening.channel)) {
            // The own key stays, so there is nothing to say.
            let _ = channel.set_identity(now, self.identity.clone());
        }
        let is_revoked = |peer: &Peer| self.identity.refuses(&peer.key);
        let gone = self.peers.iter().filter(|(_, peer)| is_revoked(peer));
        let gone: Vec<u64> = gone.map(|(node, _)| *node).collect();
        gone.iter().for_each(|node| self.forget(*node));
        gone
    }

    /// Processes an input and does everything that is due.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Port(Some(facts)) => {
                let outcome = self.link.up(now, LinkFacts { port: PORT, ..facts });
                self.link_outcome(outcome);
            }
            Input::Port(None) => {
                let outcome = self.link.down();
                self.link_outcome(outcome);
            }
            Input::Frame(bytes) => self.frame(now, bytes),
            Input::Tick => {}
        }
        self.run(now);
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to pass in [`Input::Tick`].
    pub fn next_deadline(&self) -> Time {
        self.book.next_deadline().min(self.link.next_deadline())
    }

    /// Sends a message to a node; with `sure`, retransmits it until the node acknowledges. False if
    /// there is no session, or the backlog is full.
    pub fn say(&mut self, now: Time, node: u64, body: Body, sure: bool) -> bool {
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let bytes = match sure {
            true => peer.requests.send(now, body),
            false => Some(Requests::once(&body)),
        };
        peer.missed |= bytes.is_none();
        bytes.is_some_and(|bytes| self.seal(now, node, &bytes))
    }

    /// Sets the path to a node, from the controller's port to its control plane; absent: unknown.
    pub fn set_path(&mut self, node: u64, path: Option<Hops>) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.path = path;
        }
    }

    /// Forgets a node.
    pub fn forget(&mut self, node: u64) {
        if let Some(peer) = self.peers.remove(&node) {
            self.ways.remove(&(peer.back, node));
        }
        self.book.remove(Owner::Peer(node));
    }

    /// Notes that something authentic came from a node by this way.
    fn came_by(&mut self, now: Time, node: u64, back: &[u8]) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.heard = now;
        if peer.back != back {
            let before = std::mem::replace(&mut peer.back, back.to_vec());
            self.ways.remove(&(before, node));
            self.ways.insert((back.to_vec(), node));
        }
    }

    /// Whether a handshake may begin that came by this way.
    fn may_open(&mut self, now: Time, back: &[u8]) -> bool {
        if self.opening.len() < OPENING_MAX && self.openings.spend(now) {
            return true;
        }
        let node = self.ways.range((back.to_vec(), 0)..).next().filter(|(way, _)| way == back);
        let peer = node.and_then(|(_, node)| self.peers.get_mut(node));
        peer.is_some_and(|peer| peer.openings.spend(now))
    }

    /// Re-indexes a node's session, which may have changed.
    fn enter(&mut self, node: u64) {
        let Some(peer) = self.peers.get(&node) else { return };
        let channel = peer.channel.next_deadline().unwrap_or(Time::FOREVER);
        let due = channel.min(peer.requests.next_deadline());
        self.book.enter(Owner::Peer(node), &peer.channel, due);
    }

    fn seal(&mut self, now: Time, node: u64, bytes: &[u8]) -> bool {
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let message = peer.channel.seal_as(now, bytes, peer.version >= version::SHORT);
        let path = peer.path.as_ref().unwrap_or(&peer.back).clone();
        self.enter(node);
        message.is_ok_and(|message| self.send(&path, &message))
    }

    /// Sends a message along a path that begins with our own port.
    fn send(&mut self, path: &[u8], message: &[u8]) -> bool {
        let (Some(own), Some(neighbour)) = (self.link.facts(), self.link.neighbour()) else {
            return false;
        };
        let Some(mut frame) = control_frame(path, message) else { return false };
        if fabric::advance(&mut frame, CONTROL_HOP) != Ok(Hop::Port(PORT)) {
            return false;
        }
        let header = encapsulation::ethertype_header(neighbour.facts.mac, own.mac);
        self.outputs.push_back(Output::Transmit([&header[..], &frame].concat()));
        true
    }

    fn frame(&mut self, now: Time, bytes: Vec<u8>) {
        let Ok(frame) = ethernet::Frame::new_checked(&bytes[..]) else { return };
        if frame.ethertype() != encapsulation::ETHERTYPE {
            return;
        }
        if frame.dst() == encapsulation::NEAREST_BRIDGE {
            let outcome = self.link.frame(now, &bytes);
            return self.link_outcome(outcome);
        }
        let mut frame = frame.payload().to_vec();
        if fabric::advance(&mut frame, PORT) != Ok(Hop::Control) {
            return self.refuse("a frame that was to go on");
        }
        let Ok(frame) = fabric::Frame::new_checked(&frame[..]) else { return };
        if frame.kind() != Kind::Control {
            return self.refuse("a frame that is no control message");
        }
        self.message(now, frame.payload(), frame.reverse());
    }

    fn message(&mut self, now: Time, bytes: &[u8], back: &[u8]) {
        let receiver = match Message::decode(bytes) {
            Ok(Message::Hello(hello)) => hello.receiver,
            Ok(Message::Sealed(sealed)) => sealed.receiver,
            Ok(Message::Keyed(_) | Message::Reply(_)) => {
                return self.refuse("a message between nodes");
            }
            Err(refused) => return self.refuse(&refused.to_string()),
        };
        if receiver == 0 {
            return self.open(now, bytes, back);
        }
        for owner in self.book.owners(receiver) {
            match owner {
                Owner::Peer(node) if self.known(now, node, bytes, back) => return,
                Owner::Peer(_) => {}
                Owner::Opening(number) => return self.go_on(now, number, bytes, back),
            }
        }
        self.refuse("a session that is not there");
    }

    /// Processes the next message of a handshake.
    fn go_on(&mut self, now: Time, number: u64, bytes: &[u8], back: &[u8]) {
        let Some(opening) = self.opening.get_mut(&number) else { return };
        let handled = opening.channel.handle(now, bytes);
        self.book.enter(Owner::Opening(number), &opening.channel, opening.until);
        let handled = match handled {
            Ok(handled) => handled,
            Err(refused) => return self.refuse(&refused.to_string()),
        };
        if let Some(reply) = &handled.reply {
            self.send(back, reply);
        }
        let Some(established) = handled.established else { return };
        let Some(channel) = self.end_opening(number) else { return };
        let claims = established.peer.credential.claims();
        let (node, key, name) = (claims.node, claims.static_public, claims.name.clone());
        // The handshake may have begun before.
        if self.identity.refuses(&key) {
            return self.refuse(&Refused::Revoked.to_string());
        }
        match self.peers.get_mut(&node) {
            Some(peer)
                if now.since(peer.heard) < self.node_timeout && peer.is_other(&established) =>
            {
                self.turn_away(now, &established, channel, back);
            }
            // The node's backlog is kept.
            Some(peer) => {
                peer.channel = channel;
                (peer.name, peer.key) = (name, key);
                peer.requests.hurry(now);
                self.came_by(now, node, back);
                self.enter(node);
                self.renewed(&established);
            }
            None => {
                let first = u32::from_be_bytes(self.random.bytes());
                let peer = Peer {
                    channel,
                    requests: Requests::new(first),
                    path: None,
                    back: back.to_vec(),
                    openings: Budget::new(OWN_BURST, OWN_REFILL),
                    name,
                    key,
                    incarnation: version::incarnation(&established.peer.facts),
                    version: version::with_node(self.version, &established.peer.facts),
                    earlier: VecDeque::new(),
                    heard: now,
                    missed: false,
                    told: None,
                };
                self.ways.insert((back.to_vec(), node));
                self.peers.insert(node, peer);
                self.enter(node);
                self.announce(&established);
            }
        }
    }

    /// Refuses a second box with the number of a live node.
    fn turn_away(
        &mut self,
        now: Time,
        established: &Established,
        mut channel: Channel,
        back: &[u8],
    ) {
        let claims = established.peer.credential.claims();
        let Some(peer) = self.peers.get_mut(&claims.node) else { return };
        let body = Body::from(NumberTaken { key: peer.key }).to_bytes(0);
        let is_news = peer
            .told
            .is_none_or(|(key, at)| key != claims.static_public || now.since(at) >= TELL_AGAIN);
        if is_news {
            peer.told = Some((claims.static_public, now));
            let path = peer.path.as_ref().unwrap_or(&peer.back).clone();
            let holder = Claimant { name: peer.name.clone(), key: peer.key, path };
            let (name, key) = (claims.name.clone(), claims.static_public);
            let refused = Claimant { name, key, path: back.to_vec() };
            let node = claims.node;
            self.outputs.push_back(Output::NumberTaken { node, holder, refused });
        }
        if let Ok(message) = channel.seal(now, &body) {
            self.send(back, &message);
        }
        self.refuse("a node with the number of another that is alive");
    }

    /// A known node has new keys: it is announced if it has restarted, or has missed a message, or
    /// if this controller may not have heard all of it since.
    fn renewed(&mut self, established: &Established) {
        let incarnation = version::incarnation(&established.peer.facts);
        let version = version::with_node(self.version, &established.peer.facts);
        let node = established.peer.credential.claims().node;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let is_same = peer.incarnation == incarnation && incarnation != Facts::default();
        // Meanwhile it may have followed another controller that leads provisionally. One that
        // stands by is told hosts that change as long as a session lasts.
        let may_have_strayed = self.epoch == Some(PROVISIONAL_EPOCH) || self.follows;
        if is_same && peer.version == version && !peer.missed && !may_have_strayed {
            return;
        }
        (peer.missed, peer.version) = (false, version);
        if !is_same {
            // An earlier incarnation can come back after the later one has ended.
            peer.earlier.retain(|earlier| *earlier != incarnation);
            peer.earlier.push_back(std::mem::replace(&mut peer.incarnation, incarnation));
            if peer.earlier.len() > EARLIER_MAX {
                peer.earlier.pop_front();
            }
        }
        self.announce(established);
    }

    fn announce(&mut self, established: &Established) {
        let claims = established.peer.credential.claims();
        let (node, name) = (claims.node, claims.name.clone());
        let version = version::with_node(self.version, &established.peer.facts);
        self.outputs.push_back(Output::NodeUp { node, name, version });
    }

    /// Unfinished handshakes.
    pub fn opening(&self) -> usize {
        self.opening.len()
    }

    fn end_opening(&mut self, number: u64) -> Option<Channel> {
        let Opening { channel, first, .. } = self.opening.remove(&number)?;
        self.begun.remove(&first);
        self.book.remove(Owner::Opening(number));
        Some(channel)
    }

    /// A peer begins a handshake.
    fn open(&mut self, now: Time, bytes: &[u8], back: &[u8]) {
        if self.epoch.is_none() && !self.follows {
            return self.refuse("a handshake with a controller that does not lead");
        }
        if let Some(&number) = self.begun.get(bytes) {
            if self.opening.get(&number).is_some_and(|opening| now < opening.until) {
                return self.go_on(now, number, bytes, back);
            }
            self.end_opening(number);
        }
        if !self.may_open(now, back) {
            return self.refuse("too many handshakes in a short time");
        }
        let mut channel = Channel::new(
            self.identity.clone(),
            RoleWanted::Node,
            version::of_controller(self.version),
            Limits::default(),
            self.random.fork(),
        );
        match channel.handle(now, bytes) {
            Ok(handled) => {
                if let Some(reply) = &handled.reply {
                    self.send(back, reply);
                }
                let (number, until) = (self.opened, now + OPENING_TIME);
                self.opened += 1;
                self.book.enter(Owner::Opening(number), &channel, until);
                self.begun.insert(bytes.to_vec(), number);
                self.opening.insert(number, Opening { channel, until, first: bytes.to_vec() });
            }
            Err(refused) => self.refuse(&refused.to_string()),
        }
    }

    /// Processes a message as one of this node's session. False if it was not.
    fn known(&mut self, now: Time, node: u64, bytes: &[u8], back: &[u8]) -> bool {
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let handled = peer.channel.handle(now, bytes);
        self.enter(node);
        let handled = match handled {
            Ok(handled) => handled,
            Err(Refused::Authentication) => return false,
            Err(refused) => {
                self.refuse(&refused.to_string());
                return true;
            }
        };
        // Only a sealed message shows where the node is: Hellos can be replayed.
        if handled.body.is_some() {
            self.came_by(now, node, back);
        }
        if let Some(established) = &handled.established {
            if self.peers.get(&node).is_some_and(|peer| peer.is_other(established)) {
                // Another box has answered on the path to the node. The session ends.
                self.forget(node);
                return true;
            }
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.key = established.peer.credential.claims().static_public;
            }
            self.renewed(established);
        }
        if let Some(reply) = &handled.reply {
            self.send(back, reply);
        }
        if let Some(body) = handled.body {
            self.said(now, node, &body);
        }
        true
    }

    fn said(&mut self, now: Time, node: u64, body: &[u8]) {
        let (request, body) = match Body::parse(body) {
            Ok(parsed) => parsed,
            Err(e) => return self.refuse(&e.to_string()),
        };
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let (body, ack) = peer.requests.take(request, body);
        self.enter(node);
        if let Some(ack) = ack {
            self.seal(now, node, &ack);
        }
        if let Some(body) = body {
            self.outputs.push_back(Output::Said { node, body });
        }
    }

    fn link_outcome(&mut self, outcome: Outcome) {
        self.outputs.extend(outcome.frames.into_iter().map(Output::Transmit));
        if let Some(refused) = outcome.refused {
            self.refuse(&refused.to_string());
        }
        self.outputs.extend(outcome.stranger.map(Output::Stranger));
        if let Some(beat) = &outcome.heartbeat {
            let leader = Leader { epoch: beat.epoch, controller: beat.controller };
            self.hear_of(beat.path.as_ref().map(|_| leader));
        }
        // A port whose MTU is too small for hosts still carries control messages.
        let is_node = matches!(self.link.role(), PortRole::Fabric | PortRole::TooSmall);
        let attached = self.link.neighbour().filter(|_| is_node).cloned();
        if attached != self.attached {
            self.attached.clone_from(&attached);
            if attached.is_none() {
                self.hear_of(None);
            }
            self.outputs.push_back(Output::Attached(attached));
        }
    }

    fn hear_of(&mut self, leader: Option<Leader>) {
        if self.leader != leader {
            self.leader = leader;
            self.outputs.push_back(Output::Leader(leader));
        }
    }

    /// Does everything that is due by now.
    fn run(&mut self, now: Time) {
        let outcome = self.link.run(now);
        self.link_outcome(outcome);
        let controller = self.identity.claims().node;
        let path = self.epoch.map(|_| vec![CONTROL_HOP]);
        let beat = Heartbeat { epoch: self.epoch.unwrap_or(0), controller, path };
        self.outputs.extend(self.link.beat(now, &beat).map(Output::Transmit));
        let mut due = Vec::new();
        for owner in self.book.due(now) {
            let node = match owner {
                Owner::Peer(node) => node,
                Owner::Opening(number) => {
                    self.end_opening(number);
                    continue;
                }
            };
            let Some(peer) = self.peers.get_mut(&node) else { continue };
            let path = peer.path.as_ref().unwrap_or(&peer.back).clone();
            // Nodes begin the handshakes; either side whose keys are due begins a renewal.
            while let Some(message) = peer.channel.poll(now) {
                due.push((path.clone(), message));
            }
            for bytes in peer.requests.due(now) {
                let message = peer.channel.seal_as(now, &bytes, peer.version >= version::SHORT);
                due.extend(message.ok().map(|m| (path.clone(), m)));
            }
            self.enter(node);
        }
        for (path, message) in due {
            self.send(&path, &message);
        }
    }

    fn refuse(&mut self, why: &str) {
        self.outputs.push_back(Output::Refused(why.to_string()));
    }
}
