//! The event loop: reads ready sockets, and writes what the receiver sends.

mod make;
mod read;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use plexus_io::datagram::Datagrams;
use plexus_io::wake::{Sleeper, Waker};
use plexus_ndn::face::FaceId;
use plexus_ndn::link::{Limits, Memory};
use plexus_wire::ndn::PACKET_LEN_MAX;
use plexus_wire::{MacAddr, Time};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::ether::Ether;
use crate::listen::{Listen, Listener};
use crate::stream::Stream;
use crate::table::{Carrier, Claim, Face, Table};
use crate::udp::{Hub, Use};
use crate::websocket::Opening;
use crate::{Down, Persistency, Receiver};

/// Most events taken at once.
const EVENTS: usize = 256;
/// Bytes read from a stream before another one has its turn.
const READ: usize = 256 << 10;
/// Messages read from a WebSocket before another one has its turn.
const MESSAGES: usize = 256;
/// Connections accepted, or batches read, before another socket has its turn.
const ROUNDS: usize = 16;
/// Interval at which faces are checked for timeouts.
const SWEEP: Duration = Duration::from_millis(100);
/// Timeout of a WebSocket's handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time between two attempts to connect a permanent face: initial, and longest.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// A connection whose peer reads none of the backlog is closed after this time.
const UNREAD: Duration = Duration::from_secs(60);
/// Most stations of one port that have a face.
const STATIONS_MAX: usize = 1024;
/// Of these, those evicted for new ones per sweep.
const DISPLACED: usize = 4;
/// Of all faces, the part of those of senders that is evicted for new ones per sweep.
const DISPLACED_PART: usize = 256;
/// Bytes that a link packet's headers add to the longest packet.
pub(crate) const HEADERS_MAX: usize = 512;

/// Limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most faces. A quarter of them is not available to senders of datagrams or frames from
    /// elsewhere, and an eighth only to Unix sockets and faces created by command.
    pub faces: usize,
    /// Of these, most connections, each of which uses a descriptor. Here too, an eighth is only for
    /// Unix sockets and faces created by command.
    pub connections: usize,
    /// Most faces that one IPv4 address, or one /64 of IPv6, may open, for each transport. Local
    /// addresses are not counted.
    pub faces_of_address: usize,
    /// Most bytes queued per face.
    pub queue_bytes: usize,
    /// The same for all faces together, but for one packet per face. A face may queue as much as is
    /// still free, so that a face that never reads has at most half; one packet is always allowed,
    /// however many faces never read.
    pub queue_bytes_total: usize,
    /// Idle timeout of an on-demand face of UDP or Ethernet. For faces that have never answered
    /// anything it is a tenth when the faces, or the stations of their port, are three quarters of
    /// the limit.
    pub idle: Duration,
    /// Longest Interest or Data in bytes.
    pub packet_len: usize,
    /// Longest link packet of UDP faces without a setting of their own, in bytes; `None`: what a
    /// datagram holds.
    pub udp_mtu: Option<usize>,
    /// Memory for fragments.
    pub reassembly: Limits,
}

impl Default for Bounds {
    /// 16,384 faces, 64 per address, queues of 1 MiB each and 256 MiB in total, 600 s of idle time
    /// (NFD's), 8800 bytes.
    fn default() -> Bounds {
        Bounds {
            faces: 16_384,
            connections: 16_384,
            faces_of_address: 64,
            queue_bytes: 1 << 20,
            queue_bytes_total: 256 << 20,
            idle: Duration::from_secs(600),
            packet_len: PACKET_LEN_MAX,
            udp_mtu: None,
            reassembly: Limits::default(),
        }
    }
}

/// The subject of an event.
#[derive(Clone, Copy)]
pub(crate) enum Token {
    Listener(u32),
    Hub(u32),
    Opening(u32),
    Ether(u32),
    Face(FaceId),
}

impl Token {
    pub(crate) fn data(self) -> EventData {
        let (kind, n) = match self {
            Token::Listener(n) => (1, n),
            Token::Hub(n) => (2, n),
            Token::Opening(n) => (3, n),
            Token::Ether(n) => (4, n),
            Token::Face(id) => (5, id.number() as u32),
        };
        EventData::new_u64(kind << 32 | u64::from(n))
    }

    fn of(data: EventData) -> Option<Token> {
        let n = data.u64() as u32;
        Some(match data.u64() >> 32 {
            1 => Token::Listener(n),
            2 => Token::Hub(n),
            3 => Token::Opening(n),
            4 => Token::Ether(n),
            _ => Token::Face(FaceId::from_number(n.into())?),
        })
    }
}

/// A WebSocket whose handshake is in progress.
struct Handshake {
    opening: Opening,
    ends: (SocketAddr, SocketAddr),
    begun: Time,
}

/// Link packets one after the other: the sender of each, whether it was sent to the group, and its
/// length.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    list: Vec<(MacAddr, bool, usize)>,
}

/// A sender can forge a thousand addresses.
fn is_crowded(ether: &Ether) -> bool {
    ether.stations.len() >= STATIONS_MAX / 4 * 3
}

/// The same descriptor, for the duration of a wait.
fn lend<'s, 'l: 's>(fd: BorrowedFd<'l>) -> BorrowedFd<'s> {
    fd
}

/// The faces of one thread.
pub struct Faces {
    table: Table,
    listeners: Vec<Listener>,
    /// Listeners that are paused until the next sweep.
    deaf: Vec<u32>,
    handshakes: Vec<Option<Handshake>>,
    memory: Memory,
    ready: Vec<(Token, EventFlags)>,
    /// WebSockets that may have more data without an event.
    again: BTreeSet<FaceId>,
    buffer: Box<[u8]>,
    /// Received datagrams; taken out while they are being passed on.
    inbox: Option<Box<Datagrams>>,
    /// Received frames, likewise.
    frames: Frames,
    sleeper: Sleeper,
    waker: Waker,
    swept: Time,
    /// Start of the links' sequence numbers: random.
    seed: u64,
    /// Keys the numbers of a group's senders.
    key: u64,
}

impl Faces {
    /// No faces yet. `seed` should be random: initial sequence numbers depend on it.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn new(bounds: Bounds, seed: u64) -> io::Result<Faces> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let (sleeper, waker) = Sleeper::new()?;
        Ok(Faces {
            table: Table::new(epoll, bounds),
            listeners: Vec::new(),
            deaf: Vec::new(),
            handshakes: Vec::new(),
            memory: Memory::new(bounds.reassembly),
            ready: Vec::new(),
            again: BTreeSet::new(),
            buffer: vec![0; READ].into(),
            frames: Frames::default(),
            inbox: Some(Datagrams::new(bounds.packet_len + HEADERS_MAX)),
            sleeper,
            waker,
            swept: Time::ZERO,
            seed,
            key: seed,
        })
    }

    /// Wakes this thread, from another one.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The faces, for reading.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The faces, for sending.
    pub fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Changes the limit of connections. Existing connections stay.
    pub fn set_connections_max(&mut self, connections: usize) {
        self.table.bounds.connections = connections;
    }

    /// The reassembly memory: bytes in use, and packets dropped because of a timeout and for lack
    /// of room.
    pub fn reassembly(&self) -> (usize, u64, u64) {
        let (timed_out, evicted) = self.memory.dropped();
        (self.memory.used(), timed_out, evicted)
    }

    /// Starts listening; returns the address with the actual port if it was 0. Faces made by
    /// [`create`](Self::create) send from the UDP addresses.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn listen(&mut self, listen: &Listen) -> io::Result<Option<SocketAddr>> {
        let (listener, address) = match listen {
            Listen::Unix(path) => (Listener::unix(path)?, None),
            Listen::Tcp(at) => {
                let (listener, address) = Listener::tcp(*at)?;
                (Listener::Tcp(listener), Some(address))
            }
            Listen::WebSocket(at) => {
                let (listener, address) = Listener::tcp(*at)?;
                (Listener::WebSocket(listener), Some(address))
            }
            Listen::Udp(at) => {
                let hub = Hub::unicast(*at)?;
                let local = hub.local;
                self.add_hub(hub)?;
                return Ok(Some(local));
            }
        };
        let token = Token::Listener(self.listeners.len() as u32);
        epoll::add(&self.table.epoll, listener.fd(), token.data(), EventFlags::IN)?;
        self.listeners.push(listener);
        Ok(address)
    }

    /// Maintains a port's device, and watches its current descriptor.
    fn maintain_ether(&mut self, now: Time, at: usize) {
        let Some(Some(ether)) = self.table.ethers.get_mut(at) else { return };
        let fd = ether.maintain(now);
        if let Some(fd) = fd {
            let data = Token::Ether(at as u32).data();
            if let Err(error) = epoll::add(&self.table.epoll, fd, data, EventFlags::IN) {
                tracing::warn!(%error, "a port is polled ten times a second");
            }
        }
        let mtu = ether.mtu();
        if mtu != ether.mtu_now {
            ether.mtu_now = mtu;
            let faces: Vec<_> = ether.stations.values().chain([&ether.group]).copied().collect();
            faces.into_iter().for_each(|id| self.table.follow_mtu(id, mtu));
        }
    }

    /// Removes a face; false if the number is unknown.
    pub fn destroy(&mut self, now: Time, id: FaceId, receiver: &mut impl Receiver) -> bool {
        self.end(now, id, &Down::Destroyed, receiver)
    }

    fn end(&mut self, now: Time, id: FaceId, why: &Down, receiver: &mut impl Receiver) -> bool {
        let Some(face) = self.table.remove(id) else { return false };
        self.memory.forget(id);
        if let Carrier::Ether(at, station) = face.carrier
            && let Some(place) = self.table.ethers.get_mut(at)
            && let Some(ether) = place
        {
            if ether.group == id {
                // Without its port no station is reachable.
                let gone = ether.stations.values().map(|id| (*id, why.clone()));
                self.table.dying.extend(gone);
                *place = None;
            } else {
                ether.stations.remove(&station);
            }
        }
        if let Carrier::Udp(at, peer) = face.carrier
            && let Some(place) = self.table.hubs.get_mut(at)
            && let Some(hub) = place
        {
            match &mut hub.serves {
                Use::Unicast(peers) => peers.remove(peer),
                // Closing the socket removes it from the epoll.
                Use::Group(..) => {
                    self.table.waiting -= hub.queued();
                    *place = None;
                }
            }
        }
        tracing::debug!(face = id.number(), remote = %face.facts.remote, %why, "down");
        receiver.face_down(now, id, why);
        true
    }

    fn len_max(&self) -> usize {
        self.table.bounds.packet_len + HEADERS_MAX
    }

    /// When a turn is due without an event.
    pub fn next_deadline(&self) -> Option<Time> {
        let busy = self.table.count > 0
            || !self.handshakes.is_empty()
            || !self.deaf.is_empty()
            || self.memory.used() > 0;
        let sweep = busy.then_some(self.swept + SWEEP);
        [self.table.link_due, self.table.ether_due, sweep].into_iter().flatten().min()
    }

    /// Sleeps until a socket or one of `others` is ready, the waker is used, or `limit` has passed;
    /// `None`: without limit. The events are processed in the next turn.
    ///
    /// # Errors
    /// When memory is short. A signal ends the sleep without an error.
    pub fn sleep<'a>(
        &mut self,
        others: impl IntoIterator<Item = BorrowedFd<'a>>,
        limit: Option<Duration>,
    ) -> io::Result<()> {
        self.look()?;
        if self.ready.is_empty() && self.again.is_empty() && limit != Some(Duration::ZERO) {
            // An epoll descriptor is readable when one of its descriptors is ready.
            let own = std::iter::once(self.table.epoll.as_fd());
            self.sleeper.sleep(own.chain(others.into_iter().map(lend)), limit)?;
            self.look()?;
        }
        Ok(())
    }

    fn look(&mut self) -> io::Result<()> {
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        self.ready.clear();
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        match epoll::wait(&self.table.epoll, &mut room[..], Some(&none)) {
            Ok((events, _)) => {
                let tokens = events.iter().filter_map(|e| Some((Token::of(e.data)?, e.flags)));
                self.ready.extend(tokens);
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads what is ready, passes it to the receiver, and writes.
    pub fn turn(&mut self, now: Time, receiver: &mut impl Receiver) {
        let served = std::mem::take(&mut self.again);
        for id in &served {
            self.serve(now, *id, EventFlags::IN, receiver);
        }
        let mut ready = std::mem::take(&mut self.ready);
        for (token, flags) in ready.drain(..) {
            match token {
                Token::Listener(at) => self.accept(now, at as usize, receiver),
                Token::Hub(at) => self.receive_datagrams(now, at as usize, receiver),
                Token::Opening(at) => self.go_on(now, at as usize, receiver),
                Token::Ether(at) => self.receive_frames(now, at as usize, receiver),
                // It has had its share of this turn.
                Token::Face(id) if flags == EventFlags::IN && served.contains(&id) => {}
                Token::Face(id) => self.serve(now, id, flags, receiver),
            }
        }
        self.ready = ready;
        for at in 0..self.table.ethers.len() {
            if self.table.ethers[at].as_ref().is_some_and(Ether::is_polled) {
                self.receive_frames(now, at, receiver);
            }
        }
        self.table.poll_links(now);
        if now.since(self.swept) >= SWEEP {
            self.swept = now;
            self.sweep(now, receiver);
        }
        self.table.flush(now);
        while let Some((id, why)) = self.table.dying.pop() {
            self.fail(now, id, &why, receiver);
        }
    }

    /// Removes a face, unless it is permanent: then it is reconnected later.
    fn fail(&mut self, now: Time, id: FaceId, why: &Down, receiver: &mut impl Receiver) {
        let Some(face) = self.table.get_mut(id) else { return };
        let is_permanent = face.settings.persistency == Persistency::Permanent;
        if is_permanent && matches!(face.carrier, Carrier::Waiting(_)) {
            // Reading and writing may both find the failure in one turn.
            return;
        }
        if is_permanent && matches!(face.carrier, Carrier::Stream(_)) {
            tracing::info!(remote = %face.facts.remote, %why, "will be connected again");
            let lost = face.queued();
            let again = Carrier::Waiting(now + face.retry);
            face.retry = (face.retry * 2).min(RETRY_MAX);
            self.table.waiting -= lost;
            self.table.set_carrier(id, again);
            self.memory.forget(id);
            self.tell_link(now, id, false, receiver);
            return;
        }
        self.end(now, id, why, receiver);
    }

    /// Tells the receiver if a face has lost or regained its connection.
    fn tell_link(&mut self, now: Time, id: FaceId, is_up: bool, receiver: &mut impl Receiver) {
        if let Some(face) = self.table.get_mut(id).filter(|face| face.is_down == is_up) {
            face.is_down = !is_up;
            receiver.face_link(now, id, is_up);
        }
    }

    /// Pauses a listener until the next sweep, or resumes it.
    fn hear(&mut self, at: u32, flags: EventFlags) {
        let Some(listener) = self.listeners.get(at as usize) else { return };
        let data = Token::Listener(at).data();
        if let Err(error) = epoll::modify(&self.table.epoll, listener.fd(), data, flags) {
            tracing::warn!(%error, "a listener could not be changed");
        }
    }

    fn sweep(&mut self, now: Time, receiver: &mut impl Receiver) {
        for at in std::mem::take(&mut self.deaf) {
            self.hear(at, EventFlags::IN);
        }
        self.memory.expire(now);
        (0..self.table.ethers.len()).for_each(|at| self.maintain_ether(now, at));
        for place in &mut self.handshakes {
            if place.as_ref().is_some_and(|h| h.begun + HANDSHAKE <= now) {
                *place = None;
            }
        }
        while let Some(None) = self.handshakes.last() {
            self.handshakes.pop();
        }
        let bounds = self.table.bounds;
        let is_tight = !self.table.has_room(Claim::Sender, 0);
        let hurried = bounds.idle / 10;
        self.learn_who_answered(now, hurried, is_tight, receiver);
        let is_crowded = |place: &Option<Ether>| place.as_ref().is_some_and(is_crowded);
        let crowded: Vec<bool> = self.table.ethers.iter().map(is_crowded).collect();
        for id in self.table.ids() {
            let Some(face) = self.table.get_mut(id) else { continue };
            if face.is_unread(now, UNREAD) {
                self.table.unread += 1;
                self.table.dying.push((id, Down::Unread));
                continue;
            }
            let is_short = match face.carrier {
                Carrier::Ether(at, _) => (is_tight || crowded[at]) && !face.has_answered,
                _ => is_tight && !face.has_answered,
            };
            let idle = if is_short { hurried } else { bounds.idle };
            match face.carrier {
                Carrier::Udp(..) | Carrier::Ether(..)
                    if face.settings.persistency == Persistency::OnDemand
                        && face.heard + idle <= now =>
                {
                    self.table.dying.push((id, Down::Idle));
                }
                Carrier::Waiting(at) if at <= now => {
                    face.carrier = Carrier::Waiting(now + face.retry);
                    face.retry = (face.retry * 2).min(RETRY_MAX);
                    let remote = face.facts.remote.clone();
                    let Ok((socket, is_connecting)) = make::connect(&remote) else { continue };
                    let stream = Stream::new(
                        socket,
                        self.len_max(),
                        is_connecting,
                        make::backlog_to(&remote),
                    );
                    if self.watch(&stream, id).is_ok() {
                        self.table.set_carrier(id, Carrier::Stream(stream));
                        if !is_connecting {
                            self.tell_link(now, id, true, receiver);
                        }
                    }
                }
                _ => {}
            }
        }
        (0..self.table.ethers.len()).for_each(|at| self.displace_stations(at));
        self.displace_senders(now, receiver);
    }

    /// Asks which faces have ever answered, among those that would be removed otherwise: if faces
    /// are scarce or their port is crowded, those idle for at least `hurried`.
    fn learn_who_answered(
        &mut self,
        now: Time,
        hurried: Duration,
        is_tight: bool,
        receiver: &mut impl Receiver,
    ) {
        let is_short = |ether: &Ether| ether.is_full || is_crowded(ether);
        if !is_tight && !self.table.ethers.iter().flatten().any(is_short) {
            return;
        }
        let may_go = |id: &FaceId| {
            let face = self.table.get(*id)?;
            let (is_full, is_crowded) = match face.carrier {
                Carrier::Ether(at, _) => {
                    let ether = self.table.ethers[at].as_ref()?;
                    (ether.is_full, is_crowded(ether))
                }
                Carrier::Udp(..) => (false, false),
                _ => return None,
            };
            let is_idle = face.heard + hurried <= now;
            let is_short = is_full || (is_crowded || is_tight) && is_idle;
            let is_own = face.settings.persistency == Persistency::OnDemand;
            (is_short && is_own && !face.has_answered).then_some(*id)
        };
        let doubtful: Vec<FaceId> =
            self.table.ids().into_iter().filter_map(|id| may_go(&id)).collect();
        self.ask_which_answered(&doubtful, receiver);
    }

    fn ask_which_answered(&mut self, faces: &[FaceId], receiver: &mut impl Receiver) {
        if faces.is_empty() {
            return;
        }
        for id in receiver.answered(faces) {
            if let Some(face) = self.table.get_mut(id) {
                face.has_answered = true;
            }
        }
    }

    /// Evicts some faces of senders if other senders found no room, so that forged sources cannot
    /// take all of them. A face whose sender never came back is evicted first, the longest idle one
    /// before others. A face whose sender came back is evicted only after a hundredth of the idle
    /// timeout. A face that has answered an Interest stays.
    fn displace_senders(&mut self, now: Time, receiver: &mut impl Receiver) {
        if !std::mem::take(&mut self.table.is_full) {
            return;
        }
        let bounds = self.table.bounds;
        let senders = self.table.ids().into_iter();
        let senders = senders.filter(|id| self.table.get(*id).is_some_and(Face::is_of_sender));
        let senders: Vec<FaceId> = senders.collect();
        if self.table.count - senders.len() >= Claim::Sender.part(bounds.faces) {
            // Others have taken the senders' part: evicting senders makes no room.
            return;
        }
        let dying: HashSet<FaceId> = self.table.dying.iter().map(|(id, _)| *id).collect();
        let is_quiet = |heard: Time| heard + bounds.idle / 100 <= now;
        let rank = |id: FaceId| {
            let face = self.table.get(id)?;
            let may_go = !face.has_answered && !dying.contains(&id);
            let has_come_back = face.has_come_back();
            (may_go && (!has_come_back || is_quiet(face.heard))).then_some((
                has_come_back,
                face.heard,
                id,
            ))
        };
        let mut may_go: Vec<_> = senders.into_iter().filter_map(rank).collect();
        may_go.sort_unstable();
        may_go.truncate((bounds.faces / DISPLACED_PART).max(DISPLACED));
        let chosen: Vec<FaceId> = may_go.into_iter().map(|(_, _, id)| id).collect();
        self.ask_which_answered(&chosen, receiver);
        let is_unproved = |id: &FaceId| self.table.get(*id).is_some_and(|f| !f.has_answered);
        let leave: Vec<FaceId> = chosen.into_iter().filter(is_unproved).collect();
        self.table.dying.extend(leave.into_iter().map(|id| (id, Down::Idle)));
    }

    /// Evicts some of a full port's stations if others found no room: first those that have never
    /// answered, and of these the longest idle.
    fn displace_stations(&mut self, at: usize) {
        let Some(Some(ether)) = self.table.ethers.get_mut(at) else { return };
        if !std::mem::take(&mut ether.is_full) {
            return;
        }
        let ids: Vec<FaceId> = ether.stations.values().copied().collect();
        let may_go = |id: &FaceId| {
            let face = self.table.get(*id)?;
            let is_dying = self.table.dying.iter().any(|(dying, _)| dying == id);
            (face.settings.persistency == Persistency::OnDemand && !is_dying).then_some((
                face.has_answered,
                face.heard,
                *id,
            ))
        };
        let mut may_go: Vec<_> = ids.iter().filter_map(may_go).collect();
        may_go.sort_unstable();
        let leave = may_go.into_iter().take(DISPLACED).map(|(_, _, id)| (id, Down::Idle));
        self.table.dying.extend(leave);
    }
}
