//! The table of faces, and sending on them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use plexus_io::datagram::Datagrams;
use plexus_ndn::face::{FaceId, FaceIds};
use plexus_ndn::link::{Link, LinkCounters, Options};
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::{MacAddr, Time};
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::driver::{Bounds, HEADERS_MAX, Token};
use crate::ether::Ether;
use crate::stream::Stream;
use crate::udp::{DATAGRAM_MAX, Hub, Tally, site};
use crate::websocket::Ws;
use crate::{Down, Facts, Persistency};

/// Bytes in a queue from which on it is flushed before the end of the turn.
const EARLY: usize = 128 << 10;
/// When to retry a port that did not accept all frames: no descriptor reports it.
const ETHER_RETRY: Duration = Duration::from_millis(1);

/// A sender that sends again this long after its first packet has come back.
const COMES_BACK: Duration = Duration::from_secs(1);

/// Settings of a new face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long it lives.
    pub persistency: Persistency,
    /// Longest link packet of a datagram face, in bytes; `None`: the default of its kind.
    pub mtu: Option<usize>,
    /// Link packets are acknowledged and retransmitted.
    pub reliability: bool,
    /// The peer may use application headers.
    pub local_fields: bool,
}

impl Settings {
    /// The default settings.
    pub fn new(persistency: Persistency) -> Settings {
        Settings { persistency, mtu: None, reliability: false, local_fields: false }
    }
}

/// Why a face was not created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This face already leads there.
    Exists(FaceId),
    /// The limit of faces, or of connections, is reached.
    Full,
    /// This node does not support faces to such an end.
    Unsupported(String),
    /// The operating system refused.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Exists(id) => write!(f, "face {} leads there already", id.number()),
            Refusal::Full => f.write_str("the limit of faces, or of connections, is reached"),
            Refusal::Unsupported(why) | Refusal::Failed(why) => f.write_str(why),
        }
    }
}

/// Counters of a face besides those of its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceCounters {
    /// Bytes of link packets received.
    pub received_bytes: u64,
    /// Bytes of link packets queued or sent.
    pub sent_bytes: u64,
    /// Link packets dropped because the queue was full.
    pub dropped_full: u64,
    /// Link packets dropped because the queues of all faces left no more room.
    pub dropped_crowded: u64,
    /// Link packets that the operating system refused to send.
    pub dropped_unsent: u64,
    /// The link's.
    pub link: LinkCounters,
}

/// The transport of a face's link packets.
pub(crate) enum Carrier {
    Stream(Stream),
    WebSocket(Box<Ws>),
    /// By a hub, to this address.
    Udp(usize, SocketAddr),
    /// By a port, to this station or to the group.
    Ether(usize, MacAddr),
    /// A permanent stream face without a connection: when to retry.
    Waiting(Time),
}

impl Carrier {
    /// True if it uses a descriptor of its own.
    fn is_connection(&self) -> bool {
        matches!(self, Carrier::Stream(_) | Carrier::WebSocket(_))
    }
}

/// The origin of a face: senders that can create any number of faces leave room for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A datagram or frame from elsewhere, whose source may be forged.
    Sender,
    /// A connection from the network, or a datagram of this machine.
    Caller,
    /// An application on a Unix socket, or a command.
    Own,
}

impl Claim {
    /// The number of all faces, out of `all`, at which this origin gets no more.
    pub(crate) fn part(self, all: usize) -> usize {
        match self {
            Claim::Sender => all - all / 4,
            Claim::Caller => all - all / 8,
            Claim::Own => all,
        }
    }
}

pub(crate) struct Face {
    pub(crate) facts: Facts,
    pub(crate) settings: Settings,
    pub(crate) link: Link,
    pub(crate) carrier: Carrier,
    pub(crate) counters: FaceCounters,
    /// When a packet last arrived.
    pub(crate) heard: Time,
    /// When it was created.
    pub(crate) begun: Time,
    /// It has answered an Interest, as far as the receiver was asked.
    pub(crate) has_answered: bool,
    /// Bytes in a hub's queue.
    pub(crate) queued: usize,
    pub(crate) is_dirty: bool,
    /// For a connection: bytes written, and when that last increased or the queue was empty.
    pub(crate) moved: (u64, Time),
    /// Time until the next attempt to reconnect.
    pub(crate) retry: Duration,
    /// It has no connection, and the receiver was told.
    pub(crate) is_down: bool,
}

impl Face {
    pub(crate) fn queued(&self) -> usize {
        match &self.carrier {
            Carrier::Stream(stream) => stream.queued(),
            Carrier::WebSocket(ws) => ws.queued,
            Carrier::Udp(..) => self.queued,
            Carrier::Ether(..) | Carrier::Waiting(..) => 0,
        }
    }

    /// True if its sender sent again some time after its first packet. A flood of forged sources
    /// rarely repeats one.
    pub(crate) fn has_come_back(&self) -> bool {
        self.heard.since(self.begun) >= COMES_BACK
    }

    /// True if a datagram or frame from elsewhere created it.
    pub(crate) fn is_of_sender(&self) -> bool {
        let is_remote = match self.carrier {
            Carrier::Udp(_, peer) => !peer.ip().is_loopback(),
            Carrier::Ether(..) => true,
            _ => false,
        };
        is_remote && self.settings.persistency == Persistency::OnDemand
    }

    /// True if the peer has read nothing of the queue for this long.
    pub(crate) fn is_unread(&mut self, now: Time, limit: Duration) -> bool {
        let written = match &self.carrier {
            Carrier::Stream(stream) if !stream.is_connecting => stream.written_total,
            Carrier::WebSocket(ws) => ws.written_total(),
            _ => {
                self.moved = (0, now);
                return false;
            }
        };
        if self.queued() == 0 || written != self.moved.0 {
            self.moved = (written, now);
        }
        self.moved.1 + limit <= now
    }
}

/// The key under which a connection is counted.
fn connection(remote: &FaceUri) -> Option<(IpAddr, bool)> {
    match remote {
        FaceUri::Tcp(peer) => Some((site(peer.ip()), false)),
        FaceUri::WebSocket(peer) => Some((site(peer.ip()), true)),
        _ => None,
    }
}

/// All faces.
pub struct Table {
    faces: Vec<Option<Face>>,
    ids: FaceIds,
    pub(crate) count: usize,
    /// A datagram or frame was refused since the last sweep: its sender found no room for a face.
    pub(crate) is_full: bool,
    /// Connections by address, WebSockets separately.
    connections: Tally<(IpAddr, bool)>,
    /// Faces that use a descriptor of their own.
    descriptors: usize,
    pub(crate) hubs: Vec<Option<Hub>>,
    pub(crate) ethers: Vec<Option<Ether>>,
    pub(crate) batch: Box<Datagrams>,
    pub(crate) bounds: Bounds,
    /// Bytes queued, of all faces.
    pub(crate) waiting: usize,
    pub(crate) epoll: OwnedFd,
    /// Faces with something to write.
    dirty: Vec<FaceId>,
    /// Faces to remove, which cannot be removed while another one is being processed.
    pub(crate) dying: Vec<(FaceId, Down)>,
    /// Faces whose link has deadlines, and the earliest of these.
    reliable: Vec<FaceId>,
    pub(crate) link_due: Option<Time>,
    /// When to retry a port that did not accept all frames.
    pub(crate) ether_due: Option<Time>,
    /// Connections closed because their peers read nothing.
    pub(crate) unread: u64,
}

impl Table {
    pub(crate) fn new(epoll: OwnedFd, bounds: Bounds) -> Table {
        Table {
            faces: Vec::new(),
            ids: FaceIds::default(),
            count: 0,
            is_full: false,
            connections: Tally::default(),
            descriptors: 0,
            hubs: Vec::new(),
            ethers: Vec::new(),
            batch: Datagrams::new(0),
            bounds,
            waiting: 0,
            epoll,
            dirty: Vec::new(),
            dying: Vec::new(),
            reliable: Vec::new(),
            link_due: None,
            ether_due: None,
            unread: 0,
        }
    }

    /// Sends an Interest, Data or Nack on a face. A packet that cannot be sent is counted there; a
    /// removed face sends nothing. The packet is written at the end of the turn at the latest;
    /// earlier when the queue is long, so that a turn's answers do not overflow the queue while the
    /// socket would accept them.
    pub fn send(&mut self, now: Time, id: FaceId, headers: &Headers<'_>, packet: &[u8]) {
        let Some(mut face) = self.take(id) else { return };
        let waiting = face.queued() + self.backlog(now, &mut face);
        let Face { link, carrier, counters, queued, .. } = &mut face;
        let mut out = Output { table: self, now, id, carrier, counters, queued };
        // The link counts the reason of a failure.
        let _ = link.send(now, headers, packet, waiting, &mut |h, p| out.link_packet(h, p));
        let Bounds { queue_bytes, queue_bytes_total, .. } = self.bounds;
        let free = queue_bytes_total.saturating_sub(self.waiting);
        let is_long = |queued| queued > 0 && queued >= EARLY.min(queue_bytes.min(free) / 4);
        if !is_long(face.queued()) {
            return self.put_back(id, face);
        }
        // A watched socket has reported that it accepts nothing more.
        let hub_is_watched = |at: usize| self.hubs[at].as_ref().is_none_or(|hub| hub.is_watched);
        let (is_watched, hub) = match &face.carrier {
            Carrier::Stream(stream) => (stream.is_watched, None),
            Carrier::WebSocket(ws) => (ws.is_watched, None),
            Carrier::Udp(at, _) => (hub_is_watched(*at), Some(*at)),
            Carrier::Ether(..) | Carrier::Waiting(_) => (true, None),
        };
        self.put_back(id, face);
        match hub {
            _ if is_watched => {}
            Some(at) => self.flush_hub(at),
            None => self.flush_face(id),
        }
    }

    /// Bytes of a face that its socket has accepted and not sent, for congestion marks. Ethernet
    /// ports and WebSockets do not report them.
    fn backlog(&mut self, now: Time, face: &mut Face) -> usize {
        let Options { marks, marking, .. } = *face.link.options();
        if !marks || face.queued() > marking.threshold {
            return 0;
        }
        match &mut face.carrier {
            Carrier::Stream(stream) => stream.backlog(now, marking.threshold),
            Carrier::Udp(at, _) => {
                self.hubs[*at].as_mut().map_or(0, |hub| hub.backlog(now, marking.threshold))
            }
            Carrier::WebSocket(_) | Carrier::Ether(..) | Carrier::Waiting(_) => 0,
        }
    }

    /// The properties of every face.
    pub fn facts(&self) -> impl Iterator<Item = &Facts> {
        self.faces.iter().flatten().map(|f| &f.facts)
    }

    /// The counters of a face; `None` if the number is unknown.
    pub fn counters(&self, id: FaceId) -> Option<FaceCounters> {
        let face = self.get(id)?;
        Some(FaceCounters { link: *face.link.counters(), ..face.counters })
    }

    /// Bytes queued, of all faces except Ethernet ones.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Connections closed because their peers read nothing of the queue.
    pub fn ended_unread(&self) -> u64 {
        self.unread
    }

    /// The options of a face's link; `None` if the number is unknown.
    pub fn options(&self, id: FaceId) -> Option<&Options> {
        self.get(id).map(|f| f.link.options())
    }

    /// Sets the options of a face's link; false if the number is unknown.
    pub fn set_options(&mut self, id: FaceId, mut options: Options) -> bool {
        let Some(face) = self.get(id) else { return false };
        // The device limits the length of frames.
        let most = match face.carrier {
            Carrier::Ether(at, _) => self.ethers[at].as_ref().map_or(usize::MAX, Ether::mtu),
            Carrier::Udp(..) => DATAGRAM_MAX,
            _ => usize::MAX,
        };
        let wanted = options.mtu;
        options.mtu = wanted.min(most);
        let Some(face) = self.get_mut(id) else { return false };
        if wanted != face.link.options().mtu {
            face.settings.mtu = Some(wanted);
        }
        face.link.set_options(options);
        self.reliable.retain(|f| *f != id);
        if options.reliability {
            self.reliable.push(id);
        }
        true
    }

    pub(crate) fn follow_mtu(&mut self, id: FaceId, most: usize) {
        let Some(face) = self.get_mut(id) else { return };
        let mtu = face.settings.mtu.map_or(most, |wanted| wanted.min(most));
        face.link.set_options(Options { mtu, ..*face.link.options() });
    }

    /// How long a face lasts if nothing arrives; `None`: unknown, or for ever. When faces are
    /// scarce, it may be removed sooner.
    pub fn expires_in(&self, now: Time, id: FaceId) -> Option<Duration> {
        let face = self.get(id)?;
        let is_silent = matches!(face.carrier, Carrier::Udp(..) | Carrier::Ether(..));
        let may_go = is_silent && face.settings.persistency == Persistency::OnDemand;
        may_go.then(|| (face.heard + self.bounds.idle).since(now))
    }

    /// Whether a face's connection is being established, initially or again.
    pub fn is_connecting(&self, id: FaceId) -> bool {
        match self.get(id).map(|face| &face.carrier) {
            Some(Carrier::Stream(stream)) => stream.is_connecting,
            Some(Carrier::Waiting(_)) => true,
            _ => false,
        }
    }

    /// Sets a face's persistency; false if the number is unknown.
    pub fn set_persistency(&mut self, id: FaceId, persistency: Persistency) -> bool {
        let Some(face) = self.get_mut(id) else { return false };
        face.settings.persistency = persistency;
        face.facts.persistency = persistency;
        true
    }

    pub(crate) fn get(&self, id: FaceId) -> Option<&Face> {
        self.faces.get(id.place()?)?.as_ref().filter(|f| f.facts.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: FaceId) -> Option<&mut Face> {
        self.faces.get_mut(id.place()?)?.as_mut().filter(|f| f.facts.id == id)
    }

    /// Takes a face out while it is processed together with the table; `put_back` follows.
    pub(crate) fn take(&mut self, id: FaceId) -> Option<Face> {
        self.get(id)?;
        self.faces[id.place()?].take()
    }

    pub(crate) fn put_back(&mut self, id: FaceId, mut face: Face) {
        let Some(place) = id.place() else { return };
        if face.link.options().reliability
            && let Some(at) = face.link.next_deadline()
        {
            self.link_due = Some(self.link_due.map_or(at, |due| due.min(at)));
        }
        if !face.is_dirty && !matches!(face.carrier, Carrier::Udp(..)) && face.queued() > 0 {
            face.is_dirty = true;
            self.dirty.push(id);
        }
        self.faces[place] = Some(face);
    }

    /// Reserves a number that no face here will have: for a face without a socket, such as
    /// management's. `None` if all are in use.
    pub fn reserve(&mut self) -> Option<FaceId> {
        self.ids.allocate()
    }

    /// The properties of a face; `None` if the number is unknown.
    pub fn facts_of(&self, id: FaceId) -> Option<&Facts> {
        self.get(id).map(|f| &f.facts)
    }

    /// Whether one more face is allowed, besides `others` that are being created.
    pub(crate) fn has_room(&self, claim: Claim, others: usize) -> bool {
        self.count + others < claim.part(self.bounds.faces)
    }

    /// The same for a face that uses a descriptor, like the `others`.
    pub(crate) fn has_room_to_connect(&self, claim: Claim, others: usize) -> bool {
        self.has_room(claim, others)
            && self.descriptors + others < claim.part(self.bounds.connections)
    }

    /// Replaces a face's transport.
    pub(crate) fn set_carrier(&mut self, id: FaceId, carrier: Carrier) {
        let Some(face) = self.get_mut(id) else { return };
        let after = usize::from(carrier.is_connection());
        let before = usize::from(std::mem::replace(&mut face.carrier, carrier).is_connection());
        self.descriptors = self.descriptors + after - before;
    }

    pub(crate) fn allocate(&mut self) -> Result<FaceId, Refusal> {
        if self.count >= self.bounds.faces {
            return Err(Refusal::Full);
        }
        self.ids.allocate().ok_or(Refusal::Full)
    }

    pub(crate) fn insert(&mut self, face: Face) {
        let Some(place) = face.facts.id.place() else { return };
        if place >= self.faces.len() {
            self.faces.resize_with(place + 1, || None);
        }
        if face.settings.reliability {
            self.reliable.push(face.facts.id);
        }
        self.count += 1;
        if let Some(connection) = connection(&face.facts.remote) {
            self.connections.add(connection);
        }
        self.descriptors += usize::from(face.carrier.is_connection());
        self.faces[place] = Some(face);
    }

    pub(crate) fn remove(&mut self, id: FaceId) -> Option<Face> {
        let face = self.take(id)?;
        self.count -= 1;
        if let Some(connection) = connection(&face.facts.remote) {
            self.connections.remove(&connection);
        }
        self.descriptors -= usize::from(face.carrier.is_connection());
        // Packets in a hub's queue are dropped with the hub.
        if !matches!(face.carrier, Carrier::Udp(..)) {
            self.waiting -= face.queued();
        }
        self.ids.release(id);
        self.reliable.retain(|f| *f != id);
        Some(face)
    }

    pub(crate) fn connections(&self, ip: IpAddr, is_websocket: bool) -> usize {
        self.connections.of(&(site(ip), is_websocket))
    }

    /// Releases a number allocated for a face that was not created.
    pub(crate) fn release(&mut self, id: FaceId) {
        self.ids.release(id);
    }

    pub(crate) fn ids(&self) -> Vec<FaceId> {
        self.facts().map(|f| f.id).collect()
    }

    /// Lets links send what is due.
    pub(crate) fn poll_links(&mut self, now: Time) {
        if self.link_due.is_none_or(|due| due > now) {
            return;
        }
        self.link_due = None;
        for id in self.reliable.clone() {
            let Some(mut face) = self.take(id) else { continue };
            let Face { link, carrier, counters, queued, .. } = &mut face;
            let mut out = Output { table: self, now, id, carrier, counters, queued };
            link.poll(now, &mut |h, p| out.link_packet(h, p));
            self.put_back(id, face);
        }
    }

    /// Writes what the sockets accept.
    pub(crate) fn flush(&mut self, now: Time) {
        for id in std::mem::take(&mut self.dirty) {
            self.flush_face(id);
        }
        for at in 0..self.hubs.len() {
            self.flush_hub(at);
        }
        self.ether_due = None;
        for ether in self.ethers.iter_mut().flatten() {
            if !ether.flush(now) {
                self.ether_due = Some(now + ETHER_RETRY);
            }
        }
    }

    pub(crate) fn flush_face(&mut self, id: FaceId) {
        let Some(mut face) = self.take(id) else { return };
        face.is_dirty = false;
        let before = face.queued();
        let (flushed, fd, is_watched) = match &mut face.carrier {
            Carrier::Stream(s) => {
                let flushed = s.flush().map_err(|e| e.to_string());
                let is_watched = s.is_watched;
                if let Ok(all) = flushed {
                    s.is_watched = !all;
                }
                (flushed, s.fd(), is_watched)
            }
            Carrier::WebSocket(ws) => {
                let flushed = ws.flush();
                let is_watched = ws.is_watched;
                if let Ok(all) = flushed {
                    ws.is_watched = !all;
                }
                (flushed, ws.fd(), is_watched)
            }
            Carrier::Udp(..) | Carrier::Ether(..) | Carrier::Waiting(..) => {
                self.put_back_flushed(id, face);
                return;
            }
        };
        match flushed {
            Ok(all) if all == is_watched => {
                let out = if all { EventFlags::empty() } else { EventFlags::OUT };
                let data = Token::Face(id).data();
                if let Err(e) = epoll::modify(&self.epoll, fd, data, EventFlags::IN | out) {
                    self.dying.push((id, Down::Failed(e.to_string())));
                }
            }
            Ok(_) => {}
            Err(why) => self.dying.push((id, Down::Failed(why))),
        }
        self.waiting -= before - face.queued();
        self.put_back_flushed(id, face);
    }

    /// As `put_back`, for a face that cannot write more now.
    fn put_back_flushed(&mut self, id: FaceId, face: Face) {
        if let Some(place) = id.place() {
            self.faces[place] = Some(face);
        }
    }

    pub(crate) fn flush_hub(&mut self, at: usize) {
        let Some(mut hub) = self.hubs.get_mut(at).and_then(Option::take) else { return };
        let mut sent = Vec::new();
        let all = hub.flush(&mut self.batch, |id, len, went| sent.push((id, len, went)));
        for (id, len, went) in sent {
            self.waiting -= len;
            if let Some(face) = self.get_mut(id) {
                face.queued = face.queued.saturating_sub(len);
                face.counters.dropped_unsent += u64::from(!went);
            }
        }
        if all == hub.is_watched {
            hub.is_watched = !all;
            self.watch_hub(at, &hub);
        }
        self.hubs[at] = Some(hub);
    }

    fn watch_hub(&self, at: usize, hub: &Hub) {
        let out = if hub.is_watched { EventFlags::OUT } else { EventFlags::empty() };
        let into = if hub.is_split() { EventFlags::empty() } else { EventFlags::IN };
        let data: EventData = Token::Hub(at as u32).data();
        // It was added before: only a lack of memory could cause an error, and the next turn
        // retries.
        let _ = epoll::modify(&self.epoll, hub.sending(), data, into | out);
    }
}

/// Accepts a link's packets.
struct Output<'t> {
    table: &'t mut Table,
    now: Time,
    id: FaceId,
    carrier: &'t mut Carrier,
    counters: &'t mut FaceCounters,
    queued: &'t mut usize,
}

impl Output<'_> {
    fn link_packet(&mut self, head: &[u8], piece: &[u8]) {
        let len = head.len() + piece.len();
        let Bounds { queue_bytes, queue_bytes_total, .. } = self.table.bounds;
        let free = queue_bytes_total.saturating_sub(self.table.waiting);
        // Every face may have one packet queued, however much others have.
        let limit = queue_bytes.min(free.max(self.table.bounds.packet_len + HEADERS_MAX));
        let went = match self.carrier {
            Carrier::Stream(stream) => stream.push(head, piece, limit),
            Carrier::WebSocket(ws) => ws.push(head, piece, limit),
            Carrier::Udp(at, to) if *self.queued + len <= limit => {
                let Some(Some(hub)) = self.table.hubs.get_mut(*at) else { return };
                hub.push(self.id, *to, head, piece);
                *self.queued += len;
                true
            }
            Carrier::Ether(at, to) => {
                let Some(Some(ether)) = self.table.ethers.get_mut(*at) else { return };
                match ether.push(self.now, *to, head, piece) {
                    true => self.counters.sent_bytes += len as u64,
                    false => self.counters.dropped_full += 1,
                }
                return;
            }
            Carrier::Udp(..) | Carrier::Waiting(..) => false,
        };
        let is_crowded = free < queue_bytes;
        match went {
            true => {
                self.counters.sent_bytes += len as u64;
                self.table.waiting += len;
            }
            false if is_crowded => self.counters.dropped_crowded += 1,
            false => self.counters.dropped_full += 1,
        }
    }
}
