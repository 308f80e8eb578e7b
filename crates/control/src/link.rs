//! One port's neighbour (seed §4.2.1): discovered by Hellos, monitored by Heartbeats.
//!
//! ```text
//!            carrier              no proof in 250 ms
//!  Down ───────────────▶ Unknown ─────────────────▶ Host
//!   ▲  carrier lost, from     │  proof                │ proof
//!   │  anywhere, at once      ▼                       ▼
//!   │                 Fabric | Controller | TooSmall ◀┘
//!   │                         │  a Goodbye, or two intervals of silence: Unknown
//!    │                         │  another identity, or our own: Conflict, until none has
//!    │                         │  contradicted for a while
//!   │   Host: another host port behind the same switch: Conflict likewise
//! ```
//!
//! Everything sent to a port of unknown role goes to an address that neither hosts nor bridges
//! accept (IEEE 802.1Q, table 8-1), in a separate EtherType.
//!
//! A [`Pin`] shortens discovery. At the other end of a *tunnel* (UDP encapsulation) there can only
//! be a node: the port stays Unknown until a proof arrives, and has no other roles than Fabric and
//! TooSmall. A port pinned to hosts is Host at once; it sends and accepts no Hellos.

mod stranger;

use std::sync::Arc;
use std::time::Duration;

use plexus_wire::fabric::message::{Body, Goodbye, Heartbeat, LinkFacts, PortRole};
use plexus_wire::fabric::{self, CONTROL_HOP, Kind, LINK_MTU_MIN, encapsulation};
use plexus_wire::{Time, ethernet};

use crate::identity::{Identity, Role};
use crate::session::{Channel, Facts, Limits, Random, Refused, RoleWanted};
use stranger::Strangers;

pub use stranger::Stranger;

/// A port without a proof after this time is a host port.
pub const HOST_AFTER: Duration = Duration::from_millis(250);
/// A port with contradicting identities is ignored for this long.
pub const CONFLICT_FOR: Duration = Duration::from_secs(5);
/// After that time, a port with contradicting identities stays in conflict for this long while it
/// listens for its peers: long enough to hear all of them once more.
pub const WARY_FOR: Duration = Duration::from_secs(7);
/// A node that timed out may return within this time; until then its port is not treated as one
/// behind an ordinary switch.
const NODE_FOR: Duration = Duration::from_secs(30);
/// Without a Heartbeat, other frames show that the neighbour is there for this long. A node that
/// gets more than it can take loses Heartbeats among the rest, and is not to lose its links.
pub const FRAMES_COUNT_FOR: Duration = Duration::from_secs(5);
/// How often a Heartbeat through a tunnel has the maximum frame length: if the path's MTU has
/// shrunk, an ICMP message reports it before a host's frame is lost.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Discovery intervals, the same in the whole group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pace {
    /// Between Heartbeats; a neighbour silent for two intervals has timed out.
    pub heartbeat: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { heartbeat: Duration::from_millis(100) }
    }
}

/// What a port may lead to, as configured. Serialised in recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// Hosts only: no proof makes it a fabric port. Otherwise two hosts that relay link messages
    /// could act as the cable between two nodes.
    Hosts,
    /// One host, a device of this box on which routing daemons listen: alone of all hosts it may
    /// have the group's own addresses.
    Daemons,
    /// An authenticated node or controller.
    Fabric,
    /// The same through an IP network, where no controller can be.
    Tunnel,
}

/// An authenticated neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its number.
    pub node: u64,
    /// Its name.
    pub name: String,
    /// Its role by its credential.
    pub role: Role,
    /// Its port.
    pub facts: LinkFacts,
}

/// The outcome of a message or of elapsed time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Frames to send, as they are.
    pub frames: Vec<Vec<u8>>,
    /// The role, the neighbour or its facts have changed.
    pub changed: bool,
    /// The neighbour's Heartbeat.
    pub heartbeat: Option<Heartbeat>,
    /// A message was refused.
    pub refused: Option<Refused>,
    /// The neighbour did not authenticate: to be reported.
    pub stranger: Option<Stranger>,
}

/// The neighbour of one port.
#[derive(Debug)]
pub struct Link {
    facts: Option<LinkFacts>,
    channel: Channel,
    pace: Pace,
    pin: Option<Pin>,
    state: State,
    /// After contradicting identities: until when no neighbour is accepted.
    wary_until: Option<Time>,
    /// Another host port serves the switch behind this one: until when this one does not.
    looped_until: Option<Time>,
    /// A neighbour was authenticated recently: until when this port is not probed for loops.
    node_until: Time,
    /// When a Heartbeat is due.
    beat_at: Time,
    /// From when on the next one probes a tunnel's path MTU.
    probe_at: Time,
    /// A neighbour that did not authenticate.
    strangers: Strangers,
}

#[derive(Debug)]
enum State {
    Down,
    Unknown {
        host_at: Time,
    },
    Host,
    /// `excused`: this node itself was delayed since it last heard the neighbour. `frames_until`:
    /// until then frames that are not authenticated keep the link up.
    Proved {
        neighbour: Neighbour,
        silent_at: Time,
        frames_until: Time,
        excused: bool,
    },
    Conflict {
        until: Time,
    },
}

impl Link {
    /// A port without carrier; without a pin it discovers its role itself.
    pub fn new(identity: Arc<Identity>, pace: Pace, random: Random, pin: Option<Pin>) -> Link {
        // A controller uses EtherType encapsulation, which datagrams do not carry.
        let is_tunnel = pin == Some(Pin::Tunnel);
        let wanted = if is_tunnel { RoleWanted::Node } else { RoleWanted::Any };
        let channel = Channel::new(identity, wanted, Facts::default(), Limits::default(), random);
        Link {
            facts: None,
            channel,
            pace,
            pin,
            state: State::Down,
            wary_until: None,
            looped_until: None,
            node_until: Time::ZERO,
            beat_at: Time::FOREVER,
            probe_at: Time::ZERO,
            strangers: Strangers::default(),
        }
    }

    /// The port's role.
    pub fn role(&self) -> PortRole {
        match &self.state {
            State::Down => PortRole::Down,
            _ if self.wary_until.is_some() => PortRole::Conflict,
            State::Unknown { .. } => PortRole::Unknown,
            State::Host if self.looped_until.is_some() => PortRole::Conflict,
            State::Host => PortRole::Host,
            State::Conflict { .. } => PortRole::Conflict,
            State::Proved { neighbour, .. } => match neighbour.role {
                Role::Controller => PortRole::Controller,
                Role::Node if self.mtu(neighbour) < LINK_MTU_MIN => PortRole::TooSmall,
                Role::Node => PortRole::Fabric,
            },
        }
    }

    fn mtu(&self, neighbour: &Neighbour) -> u16 {
        self.facts.map_or(0, |f| f.mtu).min(neighbour.facts.mtu)
    }

    fn is_tunnel(&self) -> bool {
        self.pin == Some(Pin::Tunnel)
    }

    /// The neighbour, once proved.
    pub fn neighbour(&self) -> Option<&Neighbour> {
        match &self.state {
            State::Proved { neighbour, .. } => Some(neighbour),
            _ => None,
        }
    }

    /// The reason for the port's role, where there is one besides the cable.
    pub fn reason(&self) -> Option<String> {
        if self.wary_until.is_none() && self.looped_until.is_some() {
            return Some("it leads back into the fabric through an ordinary switch".into());
        }
        self.strangers.is_there().map(|stranger| stranger.to_string())
    }

    /// The port itself; `None` without carrier.
    pub fn facts(&self) -> Option<&LinkFacts> {
        self.facts.as_ref()
    }

    /// True if frames travel without encapsulation by Ethernet: both ends want it, or the link is a
    /// tunnel.
    pub fn is_native(&self) -> bool {
        self.is_tunnel()
            || self.facts.is_some_and(|f| f.native)
                && self.neighbour().is_some_and(|n| n.facts.native)
    }

    /// The box has a new key, or trusts other keys than before. A link ends if its neighbour's key
    /// is not trusted any more.
    pub fn set_identity(&mut self, now: Time, identity: &Arc<Identity>) -> Outcome {
        let hello = self.channel.set_identity(now, identity.clone());
        let peer = self.channel.peer().map(|peer| peer.credential.claims().static_public);
        if self.neighbour().is_some() && peer.is_some_and(|key| identity.refuses(&key)) {
            let stranger = self.strangers.refused(now, Refused::Revoked);
            return Outcome { stranger, refused: Some(Refused::Revoked), ..self.lost(now) };
        }
        let frames = hello.and_then(|hello| self.framed(&hello)).into_iter().collect();
        Outcome { frames, ..Outcome::default() }
    }

    /// The carrier came up, or the port's facts have changed.
    pub fn up(&mut self, now: Time, facts: LinkFacts) -> Outcome {
        self.facts = Some(facts);
        self.channel.set_facts(Facts::new(&facts.to_bytes()).unwrap_or_default());
        if matches!(self.state, State::Host) {
            // No host learned them, so none has to be removed. The Hellos continue.
            return Outcome { changed: true, ..Outcome::default() };
        }
        self.channel.reset();
        self.begin(now)
    }

    fn begin(&mut self, now: Time) -> Outcome {
        self.looped_until = None;
        self.beat_at = Time::FOREVER;
        let host_at = match self.pin {
            Some(Pin::Hosts | Pin::Daemons) => {
                self.state = State::Host;
                return Outcome { changed: true, ..Outcome::default() };
            }
            Some(Pin::Fabric | Pin::Tunnel) => Time::FOREVER,
            None => now + HOST_AFTER,
        };
        self.state = State::Unknown { host_at };
        let hello = self.channel.start(now);
        let frames = self.framed(&hello).into_iter().collect();
        Outcome { frames, changed: true, ..Outcome::default() }
    }

    /// The carrier was lost.
    pub fn down(&mut self) -> Outcome {
        let changed = !matches!(self.state, State::Down);
        self.facts = None;
        self.channel.reset();
        self.state = State::Down;
        (self.wary_until, self.looped_until) = (None, None);
        self.strangers.down();
        self.node_until = Time::ZERO;
        self.beat_at = Time::FOREVER;
        Outcome { changed, ..Outcome::default() }
    }

    /// A host port, but not that of a node which has just timed out.
    pub fn is_for_hosts(&self, now: Time) -> bool {
        self.role() == PortRole::Host && self.node_until <= now
    }

    /// The host port leads, through an ordinary switch, to another one that keeps serving. Hellos
    /// continue, because it may be a node's port after all whose proof was late.
    pub fn looped(&mut self, now: Time) -> Outcome {
        // A box that was taken out of the group announces itself as before, and is no switch.
        let is_out = self.strangers.is_there() == Some(Stranger::Refused(Refused::Revoked));
        let changed = self.is_for_hosts(now) && !is_out;
        if changed {
            self.looped_until = Some(now + CONFLICT_FOR);
        }
        Outcome { changed, ..Outcome::default() }
    }

    /// A complete frame to the bootstrap address was received.
    pub fn frame(&mut self, now: Time, frame: &[u8]) -> Outcome {
        if matches!(self.pin, Some(Pin::Hosts | Pin::Daemons)) {
            let refused = Some(Refused::Pinned);
            let stranger = self.strangers.refused(now, Refused::Pinned);
            return Outcome { refused, stranger, ..Outcome::default() };
        }
        let Some(message) = message_of(frame) else {
            return Outcome { refused: Some(Refused::Malformed), ..Outcome::default() };
        };
        if matches!(self.state, State::Down | State::Conflict { .. }) {
            return Outcome::default();
        }
        let mut outcome = self.message(now, message);
        if !matches!(self.state, State::Proved { .. }) {
            outcome.stranger = match outcome.refused {
                Some(refused) if stranger::is_hello(message) => {
                    self.strangers.refused(now, refused)
                }
                None if stranger::is_hello(message) => self.strangers.unproved(now),
                _ => None,
            };
        }
        outcome
    }

    fn message(&mut self, now: Time, message: &[u8]) -> Outcome {
        match self.channel.handle(now, message) {
            Err(refused @ (Refused::OwnIdentity | Refused::OtherPeer)) => {
                self.channel.reset();
                self.state = State::Conflict { until: now + CONFLICT_FOR };
                self.beat_at = Time::FOREVER;
                // Otherwise the last remaining one would be accepted after each conflict.
                self.wary_until = Some(now + CONFLICT_FOR + WARY_FOR);
                Outcome { changed: true, refused: Some(refused), ..Outcome::default() }
            }
            Err(refused) => Outcome { refused: Some(refused), ..Outcome::default() },
            Ok(handled) => {
                let mut outcome = Outcome::default();
                outcome.frames.extend(handled.reply.and_then(|r| self.framed(&r)));
                if handled.established.is_some() {
                    self.proved(now, &mut outcome);
                }
                // Only a message sealed for us shows that the neighbour is alive: Hellos can be
                // replayed.
                if let (State::Proved { silent_at, frames_until, excused, .. }, Some(_)) =
                    (&mut self.state, &handled.body)
                {
                    (*silent_at, *excused) = (now + self.pace.heartbeat * 2, false);
                    *frames_until = now + FRAMES_COUNT_FOR;
                }
                if let Some(body) = handled.body {
                    match Body::parse(&body) {
                        Ok((_, Body::Heartbeat(beat))) => outcome.heartbeat = Some(beat),
                        Ok((_, Body::Goodbye(_))) => return self.lost(now),
                        _ => outcome.refused = Some(Refused::Malformed),
                    }
                }
                outcome
            }
        }
    }

    fn proved(&mut self, now: Time, outcome: &mut Outcome) {
        let Some(peer) = self.channel.peer() else { return };
        let Ok(facts) = LinkFacts::parse(peer.facts.as_bytes()) else {
            outcome.refused = Some(Refused::Malformed);
            return;
        };
        let claims = peer.credential.claims();
        let neighbour =
            Neighbour { node: claims.node, name: claims.name.clone(), role: claims.role, facts };
        outcome.changed |= self.neighbour() != Some(&neighbour);
        self.looped_until = None;
        if self.wary_until.is_none() {
            self.strangers.proved();
        }
        let silent_at = now + self.pace.heartbeat * 2;
        let frames_until = now + FRAMES_COUNT_FOR;
        self.state = State::Proved { neighbour, silent_at, frames_until, excused: false };
        (self.beat_at, self.probe_at) = (now, now);
    }

    /// The neighbour was lost, and may return soon.
    fn lost(&mut self, now: Time) -> Outcome {
        self.channel.reset();
        self.node_until = now + NODE_FOR;
        self.begin(now)
    }

    /// The node stops: returns the message that tells the neighbour.
    pub fn goodbye(&mut self, now: Time) -> Option<Vec<u8>> {
        self.neighbour()?;
        let message = self.channel.seal(now, &Body::from(Goodbye {}).to_bytes(0)).ok()?;
        self.framed(&message)
    }

    /// The Heartbeat that is due, if any; `beat` is its content.
    pub fn beat(&mut self, now: Time, beat: &Heartbeat) -> Option<Vec<u8>> {
        if now < self.beat_at {
            return None;
        }
        self.beat_at = now + self.pace.heartbeat;
        let mut beat = beat.clone();
        if self.wary_until.is_some() {
            // There is no path through this port.
            (beat.controller, beat.path) = (0, None);
        }
        let body = Body::from(beat).to_bytes(0);
        let message = self.channel.seal(now, &body).ok()?;
        let mut frame = self.framed(&message)?;
        if self.is_tunnel() && self.role() == PortRole::Fabric && now >= self.probe_at {
            self.probe_at = now + PROBE_EVERY;
            frame.resize(frame.len().max(LINK_MTU_MIN.into()), 0);
        }
        Some(frame)
    }

    /// The content of Heartbeats has changed: the next one is due at once.
    pub fn hurry(&mut self, now: Time) {
        if self.neighbour().is_some() {
            self.beat_at = now;
        }
    }

    /// Whether the neighbour has timed out, unless frames have come in lately
    /// ([`hears_frames`](Self::hears_frames)).
    pub fn is_silent(&self, now: Time) -> bool {
        matches!(self.state, State::Proved { silent_at, frames_until, .. }
            if silent_at <= now && now < frames_until)
    }

    /// Frames have come in during the last interval, if no Heartbeat: the neighbour gets one more.
    pub fn hears_frames(&mut self, now: Time) {
        let is_silent = self.is_silent(now);
        if let State::Proved { silent_at, .. } = &mut self.state
            && is_silent
        {
            *silent_at = now + self.pace.heartbeat;
        }
    }

    /// Does what is due, except Heartbeats.
    pub fn run(&mut self, now: Time) -> Outcome {
        let mut outcome = match self.state {
            State::Unknown { host_at } if host_at <= now => {
                self.state = State::Host;
                Outcome { changed: true, ..Outcome::default() }
            }
            State::Conflict { until } if until <= now => self.begin(now),
            // If this call comes late, this node was delayed itself, and the neighbour's messages
            // may still be queued: it gets one more interval, once until it is heard again.
            State::Proved { ref mut silent_at, excused: ref mut excused @ false, .. }
                if *silent_at + self.pace.heartbeat / 4 <= now =>
            {
                (*silent_at, *excused) = (now + self.pace.heartbeat, true);
                Outcome::default()
            }
            State::Proved { silent_at, .. } if silent_at <= now => self.lost(now),
            _ => Outcome::default(),
        };
        if self.wary_until.is_some_and(|until| until <= now) && self.neighbour().is_some() {
            self.strangers.proved();
        }
        for end in [&mut self.wary_until, &mut self.looped_until] {
            if end.take_if(|until| *until <= now).is_some() {
                outcome.changed = true;
            }
        }
        if !matches!(self.state, State::Down | State::Conflict { .. }) {
            while let Some(message) = self.channel.poll(now) {
                outcome.frames.extend(self.framed(&message));
            }
        }
        outcome
    }

    /// When [`run`](Self::run) is next due.
    pub fn run_at(&self) -> Time {
        let (state, channel) = match self.state {
            State::Down => return Time::FOREVER,
            State::Conflict { until } => (until, None),
            State::Unknown { host_at } => (host_at, self.channel.next_deadline()),
            State::Proved { silent_at, .. } => (silent_at, self.channel.next_deadline()),
            State::Host => (Time::FOREVER, self.channel.next_deadline()),
        };
        let others = [channel, self.wary_until, self.looped_until];
        others.into_iter().flatten().fold(state, Time::min)
    }

    /// When [`beat`](Self::beat) is next due.
    pub fn beat_at(&self) -> Time {
        self.beat_at
    }

    /// When [`run`](Self::run) or [`beat`](Self::beat) is next due.
    pub fn next_deadline(&self) -> Time {
        self.run_at().min(self.beat_at)
    }

    /// A frame to the neighbour with this message.
    fn framed(&self, message: &[u8]) -> Option<Vec<u8>> {
        let facts = self.facts?;
        let header = fabric::Repr::new(Kind::Control, &[CONTROL_HOP])?.to_bytes().ok()?;
        let ethernet = encapsulation::ethertype_header(encapsulation::NEAREST_BRIDGE, facts.mac);
        let mut frame = [&ethernet, &header[..], message].concat();
        frame.resize(frame.len().max(ethernet::MIN_FRAME_LEN), 0);
        Some(frame)
    }
}

/// The message in a frame to the bootstrap address.
fn message_of(frame: &[u8]) -> Option<&[u8]> {
    let ethernet = ethernet::Frame::new_checked(frame).ok()?;
    let is_bootstrap = ethernet.dst() == encapsulation::NEAREST_BRIDGE
        && ethernet.ethertype() == encapsulation::ETHERTYPE;
    let fabric = fabric::Frame::new_checked(ethernet.payload()).ok()?;
    let is_ours = fabric.kind() == Kind::Control && fabric.forward() == [CONTROL_HOP];
    (is_bootstrap && is_ours && fabric.reverse().is_empty()).then(|| fabric.payload())
}
