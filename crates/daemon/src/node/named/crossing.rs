//! Packets of named data between the first worker, which has the faces, and another: copied into
//! [carriers](plexus_plane::carriers).
//!
//! A face may use half of the carriers that are not under way for others. A face that floods has
//! half of them, and other faces find room, as in every queue of the forwarder. A packet without
//! room is dropped and counted.

use plexus_ndn::face::FaceId;
use plexus_ndn::forwarder::Output;
use plexus_plane::carriers::{self, Bell};
use plexus_wire::ndn::lp::{Headers, PIT_TOKEN_LEN_MAX};

/// Packets under way in one direction, at most, of which one face has half. They take 36 MB if all
/// of them are as long as packets may be.
pub(super) const DEPTH: usize = 4096;
/// Packets that a worker processes side by side. After this many a sleeper is woken, although more
/// follow.
pub(super) const BATCH: usize = 16;

/// A packet on its way. Its arrival time is not carried: the forwarder takes the time of the batch
/// in which it processes the packet.
pub(super) struct Carrier {
    face: FaceId,
    /// Another worker has the packet too and counts it.
    is_copy: bool,
    /// Without the fields that borrow.
    headers: Headers<'static>,
    token: [u8; PIT_TOKEN_LEN_MAX],
    token_len: usize,
    packet: Vec<u8>,
}

impl Default for Carrier {
    fn default() -> Carrier {
        Carrier {
            face: FaceId::CONTENT_STORE,
            is_copy: false,
            headers: Headers::default(),
            token: [0; PIT_TOKEN_LEN_MAX],
            token_len: 0,
            packet: Vec::new(),
        }
    }
}

impl Carrier {
    fn fill<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]>,
    ) {
        let token = headers.pit_token.unwrap_or_default();
        self.face = face;
        self.is_copy = false;
        // No forwarder reads announcements: they belong to the management's commands.
        self.headers = Headers { pit_token: None, prefix_announcement: None, ..*headers };
        self.token_len = token.len().min(PIT_TOKEN_LEN_MAX);
        self.token[..self.token_len].copy_from_slice(&token[..self.token_len]);
        self.packet.clear();
        packet.for_each(|piece| self.packet.extend_from_slice(piece));
    }

    /// The face that the packet came from, or goes to.
    pub(super) fn face(&self) -> FaceId {
        self.face
    }

    /// Whether another worker has the packet too and counts it.
    pub(super) fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// The packet's link headers.
    pub(super) fn headers(&self) -> Headers<'_> {
        let token = &self.token[..self.token_len];
        Headers { pit_token: (!token.is_empty()).then_some(token), ..self.headers }
    }

    /// The Interest or Data.
    pub(super) fn packet(&self) -> &[u8] {
        &self.packet
    }
}

/// The sender's ends of one direction. A carrier passes through its rings as one pointer.
pub(super) struct Outward {
    ring: carriers::Outward<Box<Carrier>>,
    /// Carriers under way for each face, by the face's place. A face inherits those of an earlier
    /// face in its place, until they are home.
    held: Vec<u16>,
    bell: Bell,
    /// Packets sent since the bell was rung.
    unrung: usize,
    sent: u64,
    lost: u64,
}

/// The receiver's ends of one direction.
pub(super) type Inward = carriers::Inward<Box<Carrier>>;

/// One direction, to the thread of this bell.
pub(super) fn way(bell: Bell) -> (Outward, Inward) {
    let (ring, inward) = carriers::way(DEPTH);
    (Outward { ring, held: Vec::new(), bell, unrung: 0, sent: 0, lost: 0 }, inward)
}

/// Where a face is counted.
fn place(face: FaceId) -> usize {
    face.place().map_or(0, |place| place + 1)
}

impl Outward {
    /// Sends a packet, given in pieces. False if it was dropped because the ring has no room for
    /// this face.
    pub(super) fn push<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]>,
    ) -> bool {
        self.push_filled(face, |carrier| carrier.fill(face, headers, packet))
    }

    /// Sends a packet that another worker has too and counts.
    pub(super) fn push_copy(&mut self, face: FaceId, headers: &Headers<'_>, packet: &[u8]) -> bool {
        self.push_filled(face, |carrier| {
            carrier.fill(face, headers, std::iter::once(packet));
            carrier.is_copy = true;
        })
    }

    fn push_filled(&mut self, face: FaceId, fill: impl FnOnce(&mut Carrier)) -> bool {
        let place = place(face);
        if place >= self.held.len() {
            self.held.resize(place + 1, 0);
        }
        let Outward { ring, held, .. } = self;
        ring.take_home(|carrier| held[self::place(carrier.face)] -= 1);
        let may_have_more = usize::from(held[place]) < DEPTH - ring.under_way();
        if !(may_have_more && ring.send_free(|carrier| fill(carrier))) {
            self.lost += 1;
            return false;
        }
        held[place] += 1;
        self.sent += 1;
        self.unrung += 1;
        if self.unrung >= BATCH {
            self.ring();
        }
        true
    }

    /// Wakes the receiver if something was sent since the last call.
    pub(super) fn ring(&mut self) {
        if std::mem::take(&mut self.unrung) > 0 {
            self.bell.ring();
        }
    }

    /// Packets sent, and packets dropped because the ring, or their face's part of it, was full.
    pub(super) fn counted(&self) -> (u64, u64) {
        (self.sent, self.lost)
    }
}

impl Output for Outward {
    fn send<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]> + Clone,
    ) {
        // Dropped packets are counted in `lost`.
        self.push(face, headers, packet);
    }
}

#[cfg(test)]
mod tests;
