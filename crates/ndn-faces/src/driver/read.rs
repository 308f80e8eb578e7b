//! Receiving: connections, datagrams, frames, bytes of streams.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use arrayvec::ArrayVec;
use plexus_io::datagram::DATAGRAMS;
use plexus_ndn::face::{FaceId, LinkType, Scope};
use plexus_ndn::link::stream::Cutter;
use plexus_ndn::link::{Came as Got, Received};
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::{MacAddr, Time, flow};
use rustix::event::epoll::{self, EventFlags};

use super::make::{free_place, local_end, stream_scope};
use super::{Faces, Handshake, MESSAGES, RETRY, ROUNDS, STATIONS_MAX, Token};
use crate::listen::Listener;
use crate::table::{Carrier, Claim, Refusal, Settings, Table};
use crate::udp::{Use, site};
use crate::websocket::{self, Came, Opening};
use crate::{BATCH, Down, Facts, Persistency, Receiver};

/// Packets of one read that have not been passed on yet.
#[derive(Default)]
struct Batch<'b>(ArrayVec<(FaceId, Received<'b>), BATCH>);

impl Batch<'_> {
    fn hand_on(&mut self, now: Time, receiver: &mut impl Receiver, out: &mut Table) {
        if !self.0.is_empty() {
            receiver.packets(now, &self.0, out);
            self.0.clear();
        }
    }
}

impl Faces {
    pub(super) fn receive_frames(&mut self, now: Time, at: usize, receiver: &mut impl Receiver) {
        // Copied, because answers use the same port.
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
            let mut batch = Batch::default();
            let mut rest = &frames.bytes[..];
            for &(from, to_group, len) in &frames.list {
                let (bytes, more) = rest.split_at(len);
                rest = more;
                let id = if to_group { Some(group) } else { self.station(now, at, from, receiver) };
                if let Some(id) = id {
                    self.receive_from(now, id, number_of(from), bytes, &mut batch, receiver);
                }
            }
            batch.hand_on(now, receiver, &mut self.table);
            if n == 0 {
                break;
            }
        }
        self.frames = frames;
    }

    /// The face of a station, created if there is none.
    pub(super) fn station(
        &mut self,
        now: Time,
        at: usize,
        from: MacAddr,
        receiver: &mut impl Receiver,
    ) -> Option<FaceId> {
        let ether = self.table.ethers.get_mut(at)?.as_mut()?;
        if let Some(id) = ether.stations.get(&from) {
            return Some(*id);
        }
        if ether.stations.len() >= STATIONS_MAX {
            ether.is_full = true;
            return None;
        }
        if !self.table.has_room(Claim::Sender, 0) {
            self.table.is_full = true;
            return None;
        }
        self.add_station(now, at, from, Settings::new(Persistency::OnDemand), receiver).ok()
    }

    pub(super) fn accept(&mut self, now: Time, at: usize, receiver: &mut impl Receiver) {
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
                // The caller has gone again.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // The connection stays pending; if descriptors are short, only time helps.
                    tracing::warn!(%error, "a connection could not be taken");
                    self.hear(at as u32, EventFlags::empty());
                    self.deaf.push(at as u32);
                    return;
                }
            };
            let settings = Settings::new(Persistency::OnDemand);
            let claim = if ends.is_none() { Claim::Own } else { Claim::Caller };
            if !self.may_connect(claim) {
                tracing::debug!(?claim, "there is no room for a connection");
                continue;
            }
            let Some((local, peer)) = ends else {
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
                    // The request may have arrived completely already.
                    self.go_on(now, at, receiver);
                }
                continue;
            }
            let ends = (FaceUri::Tcp(local), FaceUri::Tcp(peer));
            let scope = stream_scope(&ends.1);
            log_refusal(self.add_stream(now, (socket, false), ends, scope, settings, receiver));
        }
    }

    /// Whether one more connection is allowed. Pending handshakes count as faces.
    pub(super) fn may_connect(&self, claim: Claim) -> bool {
        self.table.has_room_to_connect(claim, self.handshakes.iter().flatten().count())
    }

    /// Whether an address may open one more face. Local applications are not counted.
    pub(super) fn has_room_for(&self, ip: IpAddr, is_websocket: bool) -> bool {
        let is_of = |h: &&Handshake| site(h.ends.1.ip()) == site(ip);
        let handshakes = self.handshakes.iter().flatten().filter(is_of).count();
        ip.is_loopback()
            || self.table.connections(ip, is_websocket) + handshakes
                < self.table.bounds.faces_of_address
    }

    pub(super) fn begin_handshake(
        &mut self,
        now: Time,
        stream: TcpStream,
        ends: (SocketAddr, SocketAddr),
    ) -> Option<usize> {
        let at = free_place(&mut self.handshakes);
        let data = Token::Opening(at as u32).data();
        let added = epoll::add(&self.table.epoll, &stream, data, EventFlags::IN);
        let (len_max, limit) = (self.len_max(), self.table.bounds.queue_bytes);
        let begun = added.map_err(io::Error::from);
        match begun.and_then(|()| websocket::begin(stream, len_max, limit)) {
            Ok(opening) => {
                self.handshakes[at] = Some(Handshake { opening, ends, begun: now });
                Some(at)
            }
            Err(error) => {
                tracing::debug!(%error, "a WebSocket handshake failed");
                None
            }
        }
    }

    pub(super) fn go_on(&mut self, now: Time, at: usize, receiver: &mut impl Receiver) {
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
                    // Any page in a browser of this machine may connect.
                    scope: Scope::NonLocal,
                    link_type: LinkType::PointToPoint,
                    persistency: Persistency::OnDemand,
                };
                let settings = Settings::new(Persistency::OnDemand);
                self.add(now, facts, settings, Carrier::WebSocket(Box::new(ws)), receiver);
                // Messages may have arrived with the request.
                self.serve(now, id, EventFlags::IN, receiver);
            }
            Err(error) => tracing::debug!(%error, "a WebSocket handshake failed"),
        }
    }

    pub(super) fn receive_datagrams(&mut self, now: Time, at: usize, receiver: &mut impl Receiver) {
        for _ in 0..ROUNDS {
            let Some(Some(hub)) = self.table.hubs.get(at) else { return };
            let Some(mut inbox) = self.inbox.take() else { return };
            let n = inbox.receive(hub.receiving()).unwrap_or(0);
            let mut batch = Batch::default();
            for i in 0..n {
                let Some((peer, bytes)) = inbox.get(i) else { continue };
                if let Some(id) = self.face_of(now, at, peer, receiver) {
                    let sender = number_of_address(peer, self.key);
                    self.receive_from(now, id, sender, bytes, &mut batch, receiver);
                }
            }
            batch.hand_on(now, receiver, &mut self.table);
            drop(batch);
            self.inbox = Some(inbox);
            if n < DATAGRAMS {
                break;
            }
        }
        self.table.flush_hub(at);
    }

    /// The face of a datagram's sender, created if there is none.
    pub(super) fn face_of(
        &mut self,
        now: Time,
        at: usize,
        peer: SocketAddr,
        receiver: &mut impl Receiver,
    ) -> Option<FaceId> {
        let hub = self.table.hubs.get(at)?.as_ref()?;
        match &hub.serves {
            Use::Group(id) => return Some(*id).filter(|_| peer != hub.local),
            Use::Unicast(peers) => {
                if let Some(id) = peers.get(peer) {
                    return Some(id);
                }
                let is_own = peer.ip().is_loopback();
                // A connection from elsewhere cannot have a forged source, so connections have a
                // larger share.
                let claim = if is_own { Claim::Caller } else { Claim::Sender };
                let may = is_own || peers.of_address(peer) < self.table.bounds.faces_of_address;
                if !may || peer.port() == 0 {
                    return None;
                }
                if !self.table.has_room(claim, 0) {
                    self.table.is_full |= !is_own;
                    return None;
                }
            }
        }
        self.add_udp(now, at, peer, Settings::new(Persistency::OnDemand), receiver).ok()
    }

    pub(super) fn serve(
        &mut self,
        now: Time,
        id: FaceId,
        flags: EventFlags,
        receiver: &mut impl Receiver,
    ) {
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
            self.tell_link(now, id, true, receiver);
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
            // Its last requested packets may still be sent.
            self.table.flush_face(id);
            self.fail(now, id, &why, receiver);
        }
    }

    pub(super) fn read_stream(
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

    pub(super) fn cut(
        &mut self,
        now: Time,
        id: FaceId,
        mut input: &[u8],
        receiver: &mut impl Receiver,
    ) -> Result<(), Down> {
        // The cutter is taken out of the table meanwhile, so that a packet in it can be answered.
        let mut cutter = match self.table.get_mut(id).map(|f| &mut f.carrier) {
            Some(Carrier::Stream(stream)) => std::mem::replace(&mut stream.cutter, Cutter::new(0)),
            _ => return Ok(()),
        };
        let mut batch = Batch::default();
        let ended = loop {
            match cutter.whole(&mut input) {
                Ok(Some(bytes)) => {
                    self.receive_from(now, id, 0, bytes, &mut batch, receiver);
                    continue;
                }
                Ok(None) => batch.hand_on(now, receiver, &mut self.table),
                Err(broken) => break Err(broken),
            }
            // A packet that spans two reads lies in the cutter, until the next one is taken.
            match cutter.next(&mut input) {
                Ok(Some(bytes)) => self.receive(now, id, bytes, receiver),
                Ok(None) => break Ok(()),
                Err(broken) => break Err(broken),
            }
        };
        batch.hand_on(now, receiver, &mut self.table);
        if let Some(Carrier::Stream(stream)) = self.table.get_mut(id).map(|f| &mut f.carrier) {
            stream.cutter = cutter;
        }
        ended.map_err(|broken| Down::Broken(broken.to_string()))
    }

    pub(super) fn read_messages(
        &mut self,
        now: Time,
        id: FaceId,
        receiver: &mut impl Receiver,
    ) -> Result<(), Down> {
        for _ in 0..MESSAGES {
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
        // No event reports what tungstenite has already read from the socket.
        self.again.insert(id);
        Ok(())
    }

    /// Processes a link packet of a face with one peer.
    fn receive(&mut self, now: Time, id: FaceId, bytes: &[u8], receiver: &mut impl Receiver) {
        let mut batch = Batch::default();
        self.receive_from(now, id, 0, bytes, &mut batch, receiver);
        batch.hand_on(now, receiver, &mut self.table);
    }

    /// Processes a link packet of a face; `sender` distinguishes the peers behind it. Its packets
    /// wait in the batch until that is full.
    fn receive_from<'b>(
        &mut self,
        now: Time,
        id: FaceId,
        sender: u64,
        bytes: &'b [u8],
        batch: &mut Batch<'b>,
        receiver: &mut impl Receiver,
    ) {
        let Some(face) = self.table.get_mut(id) else { return };
        face.heard = now;
        face.counters.received_bytes += bytes.len() as u64;
        let received = face.link.receive_from(now, sender, bytes, &mut self.memory);
        if face.link.options().reliability
            && let Some(at) = face.link.next_deadline()
        {
            self.table.link_due = Some(self.table.link_due.map_or(at, |due| due.min(at)));
        }
        match received {
            Ok(Some(Got::Whole(packet))) => {
                batch.0.push((id, packet));
                if batch.0.is_full() {
                    batch.hand_on(now, receiver, &mut self.table);
                }
            }
            Ok(Some(Got::Together(packet))) => {
                batch.hand_on(now, receiver, &mut self.table);
                receiver.packets(now, &[(id, packet)], &mut self.table);
            }
            // The link counts the reason of a refusal.
            Ok(None) | Err(_) => {}
        }
    }
}

/// A number unique to this station.
fn number_of(station: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = station.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// A number of this sender among those of a group. That of an IPv6 address is its hash.
fn number_of_address(peer: SocketAddr, key: u64) -> u64 {
    let port = u64::from(peer.port());
    match peer {
        SocketAddr::V4(peer) => u64::from(peer.ip().to_bits()) << 16 | port,
        SocketAddr::V6(peer) => {
            let bits = peer.ip().to_bits();
            let words = [bits as u64, (bits >> 64) as u64, u64::from(peer.scope_id()) << 16 | port];
            flow::hash_words(words, key)
        }
    }
}

fn log_refusal(made: Result<FaceId, Refusal>) {
    if let Err(why) = made {
        tracing::debug!(%why, "a connection is no face");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else fragments of several would be joined into one packet.
    #[test]
    fn senders_of_a_group_have_numbers_of_their_own() {
        let peers = ["10.0.0.1:6363", "10.0.0.1:6364", "10.0.0.2:6363", "[fe80::1]:6363"];
        let more = ["[fe80::1]:6364", "[fe80::2]:6363", "[fe80::1%2]:6363", "[fe80:1::1]:6363"];
        let numbers = peers.iter().chain(&more).map(|p| number_of_address(p.parse().unwrap(), 7));
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 8);
    }
}
