//! The loop: what is ready is read, and what the receiver made of it is written.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use plexus_io::datagram::{DATAGRAMS, Datagrams};
use plexus_io::wake::{Sleeper, Waker};
use plexus_io::{Pool, Port};
use plexus_ndn::face::{FaceId, LinkType, Scope};
use plexus_ndn::link::stream::Cutter;
use plexus_ndn::link::{Limits, Link, Memory, Options};
use plexus_wire::ndn::PACKET_LEN_MAX;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::{MacAddr, Time};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::ether::{Ether, GROUP};
use crate::listen::{Listen, Listener};
use crate::stream::Stream;
use crate::table::{Carrier, Face, FaceCounters, Refusal, Settings, Table};
use crate::udp::{DATAGRAM_MAX, Hub, Use};
use crate::websocket::{self, Came, Opening};
use crate::{Down, Facts, Persistency, Receiver};

/// Events taken at once.
const EVENTS: usize = 256;
/// Bytes read from a stream before the next has its turn.
const READ: usize = 256 << 10;
/// Connections accepted, batches or messages taken, before the next has its turn.
const ROUNDS: usize = 16;
/// How often faces are looked at for what has not happened.
const SWEEP: Duration = Duration::from_millis(100);
/// A WebSocket's handshake has to be done by then.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Between two attempts to connect a permanent face: first, and at most.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Stations of one port that have a face.
const STATIONS_MAX: usize = 1024;
/// What a link packet's headers add to the longest packet.
const HEADERS_MAX: usize = 512;

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Faces in all.
    pub faces: usize,
    /// Faces that one IP address of another machine may have opened, of each transport.
    pub faces_of_address: usize,
    /// Bytes that wait to be written, of each face.
    pub queue_bytes: usize,
    /// How long an on-demand UDP face may be silent; a tenth of that where faces are three quarters
    /// of what they may be.
    pub idle: Duration,
    /// Longest Interest or Data in bytes.
    pub packet_len: usize,
    /// Memory for fragments.
    pub reassembly: Limits,
}

impl Default for Bounds {
    /// 16,384 faces, 64 of an address, 1 MiB to write, 600 s of silence (NFD's), 8800 bytes.
    fn default() -> Bounds {
        Bounds {
            faces: 16_384,
            faces_of_address: 64,
            queue_bytes: 1 << 20,
            idle: Duration::from_secs(600),
            packet_len: PACKET_LEN_MAX,
            reassembly: Limits::default(),
        }
    }
}

/// What an event is about.
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

/// A WebSocket whose handshake is going on.
struct Handshake {
    opening: Opening,
    ends: (SocketAddr, SocketAddr),
    begun: Time,
}

/// Link packets one behind the other: who sent each, whether to the group, and its length.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    list: Vec<(MacAddr, bool, usize)>,
}

/// The faces of one thread.
pub struct Faces {
    table: Table,
    listeners: Vec<Listener>,
    handshakes: Vec<Option<Handshake>>,
    memory: Memory,
    ready: Vec<(Token, EventFlags)>,
    buffer: Box<[u8]>,
    /// Datagrams that came; not here while they are being handed on.
    inbox: Option<Box<Datagrams>>,
    /// Frames that came, likewise.
    frames: Frames,
    sleeper: Sleeper,
    waker: Waker,
    swept: Time,
    /// Where numbers of links begin: random.
    seed: u64,
}

impl Faces {
    /// No faces yet. `seed` should be random: first sequence numbers follow from it.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn new(bounds: Bounds, seed: u64) -> io::Result<Faces> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let (sleeper, waker) = Sleeper::new()?;
        Ok(Faces {
            table: Table::new(epoll, bounds),
            listeners: Vec::new(),
            handshakes: Vec::new(),
            memory: Memory::new(bounds.reassembly),
            ready: Vec::new(),
            buffer: vec![0; READ].into(),
            frames: Frames::default(),
            inbox: Some(Datagrams::new(bounds.packet_len + HEADERS_MAX)),
            sleeper,
            waker,
            swept: Time::ZERO,
            seed,
        })
    }

    /// Ends the sleep of this thread, from another.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The faces, to send by them and to look at them.
    pub fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Listens; gives the address, of which the port is known now if it was 0. A UDP address is
    /// also where faces made by [`create`](Self::create) send from.
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

    fn add_hub(&mut self, hub: Hub) -> io::Result<usize> {
        let at = self.table.hubs.iter().position(Option::is_none);
        let at = at.unwrap_or(self.table.hubs.len());
        let data = Token::Hub(at as u32).data();
        epoll::add(&self.table.epoll, hub.receiving(), data, EventFlags::IN)?;
        if hub.is_split() {
            epoll::add(&self.table.epoll, hub.sending(), data, EventFlags::empty())?;
        }
        match self.table.hubs.get_mut(at) {
            Some(place) => *place = Some(hub),
            None => self.table.hubs.push(Some(hub)),
        }
        Ok(at)
    }

    /// Makes a face to `remote`: UDP or TCP over either IP version, or Unix.
    ///
    /// # Errors
    /// When there is one, or none can be made. A TCP connection that is refused is known later: the
    /// face goes down, or, if it is permanent, goes on trying.
    pub fn create(
        &mut self,
        now: Time,
        remote: &FaceUri,
        settings: Settings,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        if let Some(other) = self.table.facts().find(|f| f.remote == *remote) {
            return Err(Refusal::Exists(other.id));
        }
        if settings.persistency == Persistency::OnDemand {
            let why = "an on-demand face is made by what comes, not by order";
            return Err(Refusal::Unsupported(why.into()));
        }
        match remote {
            FaceUri::Udp(peer) => {
                let is_unicast = |hub: &Option<Hub>| {
                    let hub = hub.as_ref()?;
                    let fits = hub.local.is_ipv4() == peer.is_ipv4();
                    (fits && matches!(hub.serves, Use::Unicast(_))).then_some(())
                };
                let hub = self.table.hubs.iter().position(|hub| is_unicast(hub).is_some());
                let Some(hub) = hub else {
                    let why = "no UDP address of this IP version is listened on";
                    return Err(Refusal::Unsupported(why.into()));
                };
                if peer.ip().is_multicast() || peer.ip().is_unspecified() {
                    return Err(Refusal::Unsupported(format!("{remote} is no unicast address")));
                }
                self.add_udp(now, hub, *peer, settings, receiver)
            }
            FaceUri::Tcp(_) | FaceUri::Unix(_) => {
                let failed = |e: io::Error| Refusal::Failed(format!("{remote}: {e}"));
                let stream = connect(remote).map_err(failed)?;
                let local = local_end(&stream.0, remote);
                let scope = stream_scope(remote);
                self.add_stream(now, stream, (local, remote.clone()), scope, settings, receiver)
            }
            FaceUri::Ether(station) => {
                let mut ports =
                    (0..self.table.ethers.len()).filter(|at| self.table.ethers[*at].is_some());
                match (ports.next(), ports.next()) {
                    (Some(at), None) => self.add_station(now, at, *station, settings, receiver),
                    (None, _) => Err(Refusal::Unsupported("there is no Ethernet face".into())),
                    _ => {
                        let why = "several ports lead to Ethernets, and the station may be at any";
                        Err(Refusal::Unsupported(why.into()))
                    }
                }
            }
            other => Err(Refusal::Unsupported(format!("no face can be made to {other}"))),
        }
    }

    /// Makes a multi-access face for a UDP group, on the device with the address `local`.
    ///
    /// # Errors
    /// When there is one, or none can be made.
    pub fn create_group(
        &mut self,
        now: Time,
        local: Ipv4Addr,
        group: SocketAddr,
        mtu: Option<usize>,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let made = Hub::group(local, group, id).and_then(|hub| Ok((hub.local, self.add_hub(hub)?)));
        let (local, hub) = match made {
            Ok(made) => made,
            Err(e) => {
                self.table.release(id);
                return Err(Refusal::Failed(format!("{group} at {local}: {e}")));
            }
        };
        let facts = Facts {
            id,
            local: FaceUri::Udp(local),
            remote: FaceUri::Udp(group),
            scope: Scope::NonLocal,
            link_type: LinkType::MultiAccess,
            persistency: Persistency::Permanent,
        };
        let settings = Settings { mtu, ..Settings::new(Persistency::Permanent) };
        self.add(now, facts, settings, Carrier::Udp(hub, group), receiver);
        Ok(id)
    }

    /// Makes a multi-access face for the Ethernet group on a port with the address `own`, and from
    /// then on a face for each station that sends to it. The pool is the port's own.
    ///
    /// # Errors
    /// When there are too many faces.
    pub fn create_ethernet(
        &mut self,
        now: Time,
        (port, pool): (Box<dyn Port>, Pool),
        own: MacAddr,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let ether = Ether::new(port, pool, own, id);
        let name = ether.name().to_string();
        let at = self.table.ethers.iter().position(Option::is_none);
        let at = at.unwrap_or(self.table.ethers.len());
        match self.table.ethers.get_mut(at) {
            Some(place) => *place = Some(ether),
            None => self.table.ethers.push(Some(ether)),
        }
        self.maintain_ether(now, at);
        let facts = Facts {
            id,
            local: FaceUri::Dev(name),
            remote: FaceUri::Ether(GROUP),
            scope: Scope::NonLocal,
            link_type: LinkType::MultiAccess,
            persistency: Persistency::Permanent,
        };
        let settings = Settings::new(Persistency::Permanent);
        self.add(now, facts, settings, Carrier::Ether(at, GROUP), receiver);
        Ok(id)
    }

    /// A face to one station behind a port.
    fn add_station(
        &mut self,
        now: Time,
        at: usize,
        station: MacAddr,
        settings: Settings,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let Some(Some(ether)) = self.table.ethers.get_mut(at) else {
            self.table.release(id);
            return Err(Refusal::Unsupported("no such port".into()));
        };
        ether.stations.insert(station, id);
        let facts = Facts {
            id,
            local: FaceUri::Dev(ether.name().to_string()),
            remote: FaceUri::Ether(station),
            scope: Scope::NonLocal,
            link_type: LinkType::PointToPoint,
            persistency: settings.persistency,
        };
        self.add(now, facts, settings, Carrier::Ether(at, station), receiver);
        Ok(id)
    }

    /// Looks after a port's device, and watches the descriptor that it has by now.
    fn maintain_ether(&mut self, now: Time, at: usize) {
        let Some(Some(ether)) = self.table.ethers.get_mut(at) else { return };
        if let Some(fd) = ether.maintain(now) {
            let data = Token::Ether(at as u32).data();
            if let Err(error) = epoll::add(&self.table.epoll, fd, data, EventFlags::IN) {
                tracing::warn!(%error, "a port's frames are looked for ten times a second");
            }
        }
    }

    fn receive_frames(&mut self, now: Time, at: usize, receiver: &mut impl Receiver) {
        // Copied, since what answers them goes out by the same port.
        let mut frames = std::mem::take(&mut self.frames);
        for _ in 0..ROUNDS {
            let Some(Some(ether)) = self.table.ethers.get_mut(at) else { break };
            frames.bytes.clear();
            frames.list.clear();
            let n = ether.receive(now, |from, to_group, bytes| {
                frames.bytes.extend_from_slice(bytes);
                frames.list.push((from, to_group, bytes.len()));
            });
            let group = ether.group;
            let mut rest = &frames.bytes[..];
            for &(from, to_group, len) in &frames.list {
                let (bytes, more) = rest.split_at(len);
                rest = more;
                let id = if to_group { Some(group) } else { self.station(now, at, from, receiver) };
                if let Some(id) = id {
                    self.receive(now, id, bytes, receiver);
                }
            }
            if n == 0 {
                break;
            }
        }
        self.frames = frames;
    }

    /// The face of a station, which is made if there is none.
    fn station(
        &mut self,
        now: Time,
        at: usize,
        from: MacAddr,
        receiver: &mut impl Receiver,
    ) -> Option<FaceId> {
        let ether = self.table.ethers.get(at)?.as_ref()?;
        if let Some(id) = ether.stations.get(&from) {
            return Some(*id);
        }
        if ether.stations.len() >= STATIONS_MAX {
            return None;
        }
        self.add_station(now, at, from, Settings::new(Persistency::OnDemand), receiver).ok()
    }

    /// Ends a face; false if there is none of the number.
    pub fn destroy(&mut self, now: Time, id: FaceId, receiver: &mut impl Receiver) -> bool {
        self.end(now, id, &Down::Destroyed, receiver)
    }

    fn add_udp(
        &mut self,
        now: Time,
        hub: usize,
        peer: SocketAddr,
        settings: Settings,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let Some(Some(Hub { serves: Use::Unicast(faces), local, .. })) =
            self.table.hubs.get_mut(hub)
        else {
            self.table.release(id);
            return Err(Refusal::Unsupported("no such socket".into()));
        };
        faces.insert(peer, id);
        let facts = Facts {
            id,
            local: FaceUri::Udp(*local),
            remote: FaceUri::Udp(peer),
            // Whoever sends from here may be anybody: sources of datagrams are not proved.
            scope: Scope::NonLocal,
            link_type: LinkType::PointToPoint,
            persistency: settings.persistency,
        };
        self.add(now, facts, settings, Carrier::Udp(hub, peer), receiver);
        Ok(id)
    }

    fn add_stream(
        &mut self,
        now: Time,
        (socket, is_connecting): (OwnedFd, bool),
        (local, remote): (FaceUri, FaceUri),
        scope: Scope,
        settings: Settings,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let stream = Stream::new(socket, self.len_max(), is_connecting);
        if let Err(e) = self.watch(&stream, id) {
            self.table.release(id);
            return Err(Refusal::Failed(e.to_string()));
        }
        let link_type = LinkType::PointToPoint;
        let persistency = settings.persistency;
        let facts = Facts { id, local, remote, scope, link_type, persistency };
        self.add(now, facts, settings, Carrier::Stream(stream), receiver);
        Ok(id)
    }

    fn watch(&self, stream: &Stream, id: FaceId) -> io::Result<()> {
        let flags = match stream.is_connecting {
            true => EventFlags::IN | EventFlags::OUT,
            false => EventFlags::IN,
        };
        Ok(epoll::add(&self.table.epoll, stream.fd(), Token::Face(id).data(), flags)?)
    }

    fn add(
        &mut self,
        now: Time,
        facts: Facts,
        settings: Settings,
        carrier: Carrier,
        receiver: &mut impl Receiver,
    ) {
        let mtu = match &carrier {
            Carrier::Udp(..) => settings.mtu.unwrap_or(DATAGRAM_MAX).min(DATAGRAM_MAX),
            Carrier::Ether(at, _) => {
                let ether = self.table.ethers.get(*at).and_then(Option::as_ref);
                let mtu = ether.map_or(0, Ether::mtu);
                settings.mtu.map_or(mtu, |wanted| wanted.min(mtu))
            }
            // A stream has no marks that a packet could be too long for.
            _ => usize::MAX,
        };
        let options = Options {
            reliability: settings.reliability,
            local_fields: settings.local_fields && facts.scope == Scope::Local,
            packet_len_max: self.table.bounds.packet_len,
            ..Options::new(mtu)
        };
        // Some odd number: the links' numbers begin far from each other.
        self.seed = self.seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let link = Link::new(facts.id, options, self.seed);
        tracing::debug!(face = facts.id.number(), remote = %facts.remote, "up");
        receiver.face_up(now, &facts);
        let counters = FaceCounters::default();
        let (heard, queued, is_dirty, retry) = (now, 0, false, RETRY);
        self.table.insert(Face {
            facts,
            settings,
            link,
            carrier,
            counters,
            heard,
            queued,
            is_dirty,
            retry,
        });
    }

    fn end(&mut self, now: Time, id: FaceId, why: &Down, receiver: &mut impl Receiver) -> bool {
        let Some(face) = self.table.remove(id) else { return false };
        self.memory.forget(id);
        if let Carrier::Ether(at, station) = face.carrier
            && let Some(place) = self.table.ethers.get_mut(at)
            && let Some(ether) = place
        {
            if ether.group == id {
                // Without its port no station is reached any more.
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
                Use::Unicast(faces) => drop(faces.remove(&peer)),
                // Closing the socket takes it out of the epoll.
                Use::Group(..) => *place = None,
            }
        }
        tracing::debug!(face = id.number(), remote = %face.facts.remote, %why, "down");
        receiver.face_down(now, id, why);
        true
    }

    fn len_max(&self) -> usize {
        self.table.bounds.packet_len + HEADERS_MAX
    }

    /// When a turn is due though no socket has anything.
    pub fn next_deadline(&self) -> Option<Time> {
        let busy = self.table.count > 0 || !self.handshakes.is_empty() || self.memory.used() > 0;
        let sweep = busy.then_some(self.swept + SWEEP);
        self.table.link_due.into_iter().chain(sweep).min()
    }

    /// Sleeps until a socket has something, the waker is used, or `limit` is over; `None`: for as
    /// long as it takes. What woke it is for the next turn.
    ///
    /// # Errors
    /// When memory is short. A signal ends the sleep without an error.
    pub fn sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.look()?;
        if self.ready.is_empty() && limit != Some(Duration::ZERO) {
            // An epoll is readable when something in it is.
            self.sleeper.sleep([self.table.epoll.as_fd()], limit)?;
            self.look()?;
        }
        Ok(())
    }

    fn look(&mut self) -> io::Result<()> {
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.table.epoll, spare, Some(&none)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        self.ready.clear();
        let tokens = events.iter().filter_map(|e| Some((Token::of(e.data)?, e.flags)));
        self.ready.extend(tokens);
        Ok(())
    }

    /// Reads what is ready, hands it to the receiver, and writes.
    pub fn turn(&mut self, now: Time, receiver: &mut impl Receiver) {
        for (token, flags) in std::mem::take(&mut self.ready) {
            match token {
                Token::Listener(at) => self.accept(now, at as usize, receiver),
                Token::Hub(at) => self.receive_datagrams(now, at as usize, receiver),
                Token::Opening(at) => self.go_on(now, at as usize, receiver),
                Token::Ether(at) => self.receive_frames(now, at as usize, receiver),
                Token::Face(id) => self.serve(now, id, flags, receiver),
            }
        }
        for at in 0..self.table.ethers.len() {
            if self.table.ethers[at].as_ref().is_some_and(Ether::is_polled) {
                self.receive_frames(now, at, receiver);
            }
        }
        self.table.poll_links(now);
        if now.since(self.swept) >= SWEEP {
            self.swept = now;
            self.sweep(now);
        }
        self.table.flush(now);
        while let Some((id, why)) = self.table.dying.pop() {
            self.fail(now, id, &why, receiver);
        }
    }

    fn accept(&mut self, now: Time, at: usize, receiver: &mut impl Receiver) {
        for _ in 0..ROUNDS {
            let Some(listener) = self.listeners.get(at) else { return };
            let is_websocket = matches!(listener, Listener::WebSocket(_));
            let local_path = match listener {
                Listener::Unix(_, path) => Some(path.to_string_lossy().into_owned()),
                _ => None,
            };
            let (socket, ends) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    return;
                }
            };
            let settings = Settings::new(Persistency::OnDemand);
            let Some((local, peer)) = ends else {
                use std::os::fd::AsRawFd;
                let remote = FaceUri::Fd(socket.as_raw_fd().unsigned_abs());
                let ends = (FaceUri::Unix(local_path.unwrap_or_default()), remote);
                let made =
                    self.add_stream(now, (socket, false), ends, Scope::Local, settings, receiver);
                log_refusal(made);
                continue;
            };
            if !self.has_room_for(peer.ip(), is_websocket) {
                tracing::debug!(%peer, "has as many faces as one address may have");
                continue;
            }
            if is_websocket {
                if let Some(at) = self.begin_handshake(now, socket.into(), (local, peer)) {
                    // The request may have come as a whole already.
                    self.go_on(now, at, receiver);
                }
                continue;
            }
            let ends = (FaceUri::Tcp(local), FaceUri::Tcp(peer));
            let scope = stream_scope(&ends.1);
            log_refusal(self.add_stream(now, (socket, false), ends, scope, settings, receiver));
        }
    }

    /// Whether an address may open one more face. Applications of this machine are not counted.
    fn has_room_for(&self, ip: IpAddr, is_websocket: bool) -> bool {
        let of_address = |uri: &FaceUri| match uri {
            FaceUri::Tcp(a) => !is_websocket && a.ip() == ip,
            FaceUri::WebSocket(a) => is_websocket && a.ip() == ip,
            _ => false,
        };
        let handshakes = self.handshakes.iter().flatten().filter(|h| h.ends.1.ip() == ip).count();
        ip.is_loopback()
            || self.table.facts().filter(|f| of_address(&f.remote)).count() + handshakes
                < self.table.bounds.faces_of_address
    }

    fn begin_handshake(
        &mut self,
        now: Time,
        stream: TcpStream,
        ends: (SocketAddr, SocketAddr),
    ) -> Option<usize> {
        let free = self.handshakes.iter().position(Option::is_none);
        let at = free.unwrap_or(self.handshakes.len());
        if self.table.count + at >= self.table.bounds.faces {
            return None;
        }
        let data = Token::Opening(at as u32).data();
        let added = epoll::add(&self.table.epoll, &stream, data, EventFlags::IN);
        let (len_max, limit) = (self.len_max(), self.table.bounds.queue_bytes);
        let begun = added.map_err(io::Error::from);
        match begun.and_then(|()| websocket::begin(stream, len_max, limit)) {
            Ok(opening) => {
                let handshake = Some(Handshake { opening, ends, begun: now });
                match self.handshakes.get_mut(at) {
                    Some(place) => *place = handshake,
                    None => self.handshakes.push(handshake),
                }
                Some(at)
            }
            Err(error) => {
                tracing::debug!(%error, "a WebSocket did not come about");
                None
            }
        }
    }

    fn go_on(&mut self, now: Time, at: usize, receiver: &mut impl Receiver) {
        let Some(place) = self.handshakes.get_mut(at) else { return };
        let Some(Handshake { opening, ends, begun }) = place.take() else { return };
        match opening.go_on() {
            Ok(opening @ Opening::Waiting(_)) => *place = Some(Handshake { opening, ends, begun }),
            Ok(Opening::Open(ws)) => {
                let Ok(id) = self.table.allocate() else { return };
                let data = Token::Face(id).data();
                if epoll::modify(&self.table.epoll, ws.fd(), data, EventFlags::IN).is_err() {
                    self.table.release(id);
                    return;
                }
                let facts = Facts {
                    id,
                    local: FaceUri::WebSocket(ends.0),
                    remote: FaceUri::WebSocket(ends.1),
                    // Any page that a browser of this machine shows may connect.
                    scope: Scope::NonLocal,
                    link_type: LinkType::PointToPoint,
                    persistency: Persistency::OnDemand,
                };
                let settings = Settings::new(Persistency::OnDemand);
                self.add(now, facts, settings, Carrier::WebSocket(Box::new(ws)), receiver);
                // Messages may have come with the request.
                self.serve(now, id, EventFlags::IN, receiver);
            }
            Err(error) => tracing::debug!(%error, "a WebSocket did not come about"),
        }
    }

    fn receive_datagrams(&mut self, now: Time, at: usize, receiver: &mut impl Receiver) {
        for _ in 0..ROUNDS {
            let Some(Some(hub)) = self.table.hubs.get(at) else { return };
            let Some(mut batch) = self.inbox.take() else { return };
            let n = batch.receive(hub.receiving()).unwrap_or(0);
            for i in 0..n {
                let Some((peer, bytes)) = batch.get(i) else { continue };
                if let Some(id) = self.face_of(now, at, peer, receiver) {
                    self.receive(now, id, bytes, receiver);
                }
            }
            self.inbox = Some(batch);
            if n < DATAGRAMS {
                break;
            }
        }
        self.table.flush_hub(at);
    }

    /// The face of a datagram's sender, which is made if there is none.
    fn face_of(
        &mut self,
        now: Time,
        at: usize,
        peer: SocketAddr,
        receiver: &mut impl Receiver,
    ) -> Option<FaceId> {
        let hub = self.table.hubs.get(at)?.as_ref()?;
        match &hub.serves {
            Use::Group(id) => return Some(*id).filter(|_| peer != hub.local),
            Use::Unicast(faces) => {
                if let Some(id) = faces.get(&peer) {
                    return Some(*id);
                }
                let same = faces.keys().filter(|other| other.ip() == peer.ip());
                // This is counted for every stranger: not with more faces than there may be.
                let room = self.table.count < self.table.bounds.faces
                    && (peer.ip().is_loopback()
                        || same.count() < self.table.bounds.faces_of_address);
                if !room || peer.port() == 0 {
                    return None;
                }
            }
        }
        self.add_udp(now, at, peer, Settings::new(Persistency::OnDemand), receiver).ok()
    }

    fn serve(&mut self, now: Time, id: FaceId, flags: EventFlags, receiver: &mut impl Receiver) {
        let Some(face) = self.table.get_mut(id) else { return };
        if let Carrier::Stream(stream) = &mut face.carrier
            && stream.is_connecting
        {
            if flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP)
                && let Err(e) = stream.connected()
            {
                let why = Down::Failed(e.to_string());
                return self.fail(now, id, &why, receiver);
            }
            let local = local_end(&stream.fd(), &face.facts.remote);
            face.facts.local = local;
            face.retry = RETRY;
        }
        if flags.contains(EventFlags::OUT) {
            self.table.flush_face(id);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
            return;
        }
        let ended = match self.table.get(id).map(|f| &f.carrier) {
            Some(Carrier::Stream(_)) => self.read_stream(now, id, receiver),
            Some(Carrier::WebSocket(_)) => self.read_messages(now, id, receiver),
            _ => return,
        };
        if let Err(why) = ended {
            // What it asked for last may still be sent.
            self.table.flush_face(id);
            self.fail(now, id, &why, receiver);
        }
    }

    fn read_stream(
        &mut self,
        now: Time,
        id: FaceId,
        receiver: &mut impl Receiver,
    ) -> Result<(), Down> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = match self.table.get_mut(id).map(|f| &mut f.carrier) {
            Some(Carrier::Stream(stream)) => stream.read(&mut buffer),
            _ => Ok(None),
        };
        let ended = match read {
            Ok(None) => Ok(()),
            Ok(Some(0)) => Err(Down::Closed),
            Ok(Some(n)) => self.cut(now, id, &buffer[..n], receiver),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Err(Down::Closed),
            Err(e) => Err(Down::Failed(e.to_string())),
        };
        self.buffer = buffer;
        ended
    }

    fn cut(
        &mut self,
        now: Time,
        id: FaceId,
        mut input: &[u8],
        receiver: &mut impl Receiver,
    ) -> Result<(), Down> {
        // The cutter is out of the table meanwhile, so that a packet in it can be answered.
        let mut cutter = match self.table.get_mut(id).map(|f| &mut f.carrier) {
            Some(Carrier::Stream(stream)) => std::mem::replace(&mut stream.cutter, Cutter::new(0)),
            _ => return Ok(()),
        };
        let ended = loop {
            match cutter.next(&mut input) {
                Ok(Some(bytes)) => self.receive(now, id, bytes, receiver),
                Ok(None) => break Ok(()),
                Err(broken) => break Err(Down::Broken(broken.to_string())),
            }
        };
        if let Some(Carrier::Stream(stream)) = self.table.get_mut(id).map(|f| &mut f.carrier) {
            stream.cutter = cutter;
        }
        ended
    }

    fn read_messages(
        &mut self,
        now: Time,
        id: FaceId,
        receiver: &mut impl Receiver,
    ) -> Result<(), Down> {
        // More than a few are not taken at once; but what tungstenite has read from the socket
        // already, no event would tell of.
        loop {
            let Some(Carrier::WebSocket(ws)) = self.table.get_mut(id).map(|f| &mut f.carrier)
            else {
                return Ok(());
            };
            match ws.read().map_err(Down::Broken)? {
                Came::Packet(bytes) => self.receive(now, id, &bytes, receiver),
                Came::Answer => self.table.flush_face(id),
                Came::Nothing => return Ok(()),
                Came::Closed => return Err(Down::Closed),
            }
        }
    }

    /// Takes a link packet of a face.
    fn receive(&mut self, now: Time, id: FaceId, bytes: &[u8], receiver: &mut impl Receiver) {
        let Some(face) = self.table.get_mut(id) else { return };
        face.heard = now;
        face.counters.received_bytes += bytes.len() as u64;
        let received = face.link.receive(now, bytes, &mut self.memory);
        if face.link.options().reliability
            && let Some(at) = face.link.next_deadline()
        {
            self.table.link_due = Some(self.table.link_due.map_or(at, |due| due.min(at)));
        }
        // Why it was refused is counted by the link.
        if let Ok(Some(packet)) = received {
            receiver.packet(now, id, &packet, &mut self.table);
        }
    }

    /// Ends a face, unless it is permanent: then it is connected again later.
    fn fail(&mut self, now: Time, id: FaceId, why: &Down, receiver: &mut impl Receiver) {
        let Some(face) = self.table.get_mut(id) else { return };
        if face.settings.persistency == Persistency::Permanent
            && matches!(face.carrier, Carrier::Stream(_))
        {
            tracing::info!(remote = %face.facts.remote, %why, "will be connected again");
            face.carrier = Carrier::Waiting(now + face.retry);
            face.retry = (face.retry * 2).min(RETRY_MAX);
            self.memory.forget(id);
            return;
        }
        self.end(now, id, why, receiver);
    }

    fn sweep(&mut self, now: Time) {
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
        let is_tight = self.table.count >= bounds.faces / 4 * 3;
        let idle = if is_tight { bounds.idle / 10 } else { bounds.idle };
        for id in self.table.ids() {
            let Some(face) = self.table.get_mut(id) else { continue };
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
                    let Ok((socket, is_connecting)) = connect(&remote) else { continue };
                    let stream = Stream::new(socket, self.len_max(), is_connecting);
                    if self.watch(&stream, id).is_ok()
                        && let Some(face) = self.table.get_mut(id)
                    {
                        face.carrier = Carrier::Stream(stream);
                    }
                }
                _ => {}
            }
        }
    }
}

fn log_refusal(made: Result<FaceId, Refusal>) {
    if let Err(why) = made {
        tracing::debug!(%why, "a connection is no face");
    }
}

/// Local are Unix sockets, and TCP within this machine.
fn stream_scope(remote: &FaceUri) -> Scope {
    match remote {
        FaceUri::Unix(_) | FaceUri::Fd(_) => Scope::Local,
        FaceUri::Tcp(peer) if peer.ip().is_loopback() => Scope::Local,
        _ => Scope::NonLocal,
    }
}

/// This end of a connection.
fn local_end(socket: &impl AsFd, remote: &FaceUri) -> FaceUri {
    use std::os::fd::AsRawFd;
    let address = rustix::net::getsockname(socket).ok();
    match (remote, address.map(SocketAddr::try_from)) {
        (FaceUri::Tcp(_), Some(Ok(address))) => FaceUri::Tcp(address),
        _ => FaceUri::Fd(socket.as_fd().as_raw_fd().unsigned_abs()),
    }
}

/// Begins a connection; says whether it is still being made.
fn connect(remote: &FaceUri) -> io::Result<(OwnedFd, bool)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = |family| socket_with(family, SocketType::STREAM, flags, None);
    let (socket, begun) = match remote {
        FaceUri::Tcp(peer) => {
            let v4 = peer.is_ipv4();
            let socket = open(if v4 { AddressFamily::INET } else { AddressFamily::INET6 })?;
            rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
            let begun = rustix::net::connect(&socket, peer);
            (socket, begun)
        }
        FaceUri::Unix(path) => {
            let socket = open(AddressFamily::UNIX)?;
            let begun = rustix::net::connect(&socket, &SocketAddrUnix::new(path.as_str())?);
            (socket, begun)
        }
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    match begun {
        Ok(()) => Ok((socket, false)),
        Err(Errno::INPROGRESS) => Ok((socket, true)),
        Err(e) => Err(e.into()),
    }
}
