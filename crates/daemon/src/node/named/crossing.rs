//! Between workers: rings that carry packets, copied, from one thread to another.
//!
//! A carrier travels there full and home empty, and is filled again: the one that came home last
//! first, so that as few of them as are under way at once pass through the processor's caches. Of
//! those, a face may have as many as there may be more: one that floods has half of them, and
//! others find room, as in all queues here. What finds none is dropped and counted. Whoever sleeps
//! is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use plexus_io::wake::Waker;
use plexus_ndn::face::FaceId;
use plexus_ndn::forwarder::Output;
use plexus_wire::ndn::lp::{Headers, PIT_TOKEN_LEN_MAX};
use rtrb::{Consumer, Producer, RingBuffer};

/// Packets under way in one direction, at most, of which one face has half: 36 MB, were all as long
/// as they may be.
pub(super) const DEPTH: usize = 4096;
/// Packets that a worker looks at side by side, and after which a sleeper is woken though more are
/// to come.
pub(super) const BATCH: usize = 16;

/// A packet on its way. When it came is not told: its time is that of the batch in which it is
/// looked at, as everywhere.
pub(super) struct Carrier {
    face: FaceId,
    /// Another worker has the packet as well, and it is that one's.
    is_copy: bool,
    /// But for what they borrow.
    headers: Headers<'static>,
    token: [u8; PIT_TOKEN_LEN_MAX],
    token_len: usize,
    packet: Vec<u8>,
}

impl Carrier {
    fn empty() -> Box<Carrier> {
        Box::new(Carrier {
            face: FaceId::CONTENT_STORE,
            is_copy: false,
            headers: Headers::default(),
            token: [0; PIT_TOKEN_LEN_MAX],
            token_len: 0,
            packet: Vec::new(),
        })
    }

    fn fill<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]>,
    ) {
        let token = headers.pit_token.unwrap_or_default();
        self.face = face;
        self.is_copy = false;
        // No forwarder looks at announcements: they are management's, in its commands.
        self.headers = Headers { pit_token: None, prefix_announcement: None, ..*headers };
        self.token_len = token.len().min(PIT_TOKEN_LEN_MAX);
        self.token[..self.token_len].copy_from_slice(&token[..self.token_len]);
        self.packet.clear();
        packet.for_each(|piece| self.packet.extend_from_slice(piece));
    }

    /// The face that it came from, or goes to.
    pub(super) fn face(&self) -> FaceId {
        self.face
    }

    /// Whether another worker has it as well, whose it is.
    pub(super) fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// What goes along.
    pub(super) fn headers(&self) -> Headers<'_> {
        let token = &self.token[..self.token_len];
        Headers { pit_token: (!token.is_empty()).then_some(token), ..self.headers }
    }

    /// The Interest or Data.
    pub(super) fn packet(&self) -> &[u8] {
        &self.packet
    }
}

/// What tells that a thread sleeps, and wakes it.
#[derive(Clone)]
pub(super) struct Bell {
    asleep: Arc<AtomicBool>,
    waker: Waker,
}

impl Bell {
    pub(super) fn new(waker: Waker) -> Bell {
        Bell { asleep: Arc::new(AtomicBool::new(false)), waker }
    }

    /// Wakes the thread if it sleeps. One that wakes it is enough: the sleeper looks at everything
    /// before it says again that it sleeps.
    fn ring(&self) {
        // Pairs with the fence in `may_sleep`: either the sleeper sees what was pushed, or this
        // sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Wakes the thread, or ends its next sleep: for what does not come by a ring.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Says that the bell's owner is about to sleep. False if one of its rings has something.
    pub(super) fn may_sleep<'r>(&self, mut rings: impl Iterator<Item = &'r Inward>) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_quiet = rings.all(Inward::is_empty);
        if !is_quiet {
            self.awake();
        }
        is_quiet
    }

    /// The owner sleeps no more.
    pub(super) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

/// The sender's ends of one direction.
pub(super) struct Outward {
    full: Producer<Box<Carrier>>,
    home: Consumer<Box<Carrier>>,
    #[expect(clippy::vec_box, reason = "a carrier passes through rings as one pointer")]
    free: Vec<Box<Carrier>>,
    /// Carriers that were ever made.
    made: usize,
    /// Carriers under way for each face, by its place. Who has the place of a face that has gone
    /// has the rest of its carriers too, until they are home.
    held: Vec<u16>,
    bell: Bell,
    /// Sent since the bell was rung.
    unrung: usize,
    sent: u64,
    lost: u64,
}

/// The receiver's ends of one direction.
pub(super) struct Inward {
    full: Consumer<Box<Carrier>>,
    home: Producer<Box<Carrier>>,
}

/// One direction, to the thread of this bell.
pub(super) fn way(bell: Bell) -> (Outward, Inward) {
    let (full_in, full_out) = RingBuffer::new(DEPTH);
    let (home_in, home_out) = RingBuffer::new(DEPTH);
    let outward = Outward {
        full: full_in,
        home: home_out,
        free: Vec::new(),
        made: 0,
        held: Vec::new(),
        bell,
        unrung: 0,
        sent: 0,
        lost: 0,
    };
    (outward, Inward { full: full_out, home: home_in })
}

/// Where a face is counted.
fn place(face: FaceId) -> usize {
    face.place().map_or(0, |place| place + 1)
}

impl Outward {
    /// A carrier for a packet of this face, if it may have one more under way.
    fn carrier(&mut self, face: FaceId) -> Option<Box<Carrier>> {
        while let Ok(carrier) = self.home.pop() {
            self.held[place(carrier.face)] -= 1;
            self.free.push(carrier);
        }
        let (place, under_way) = (place(face), self.made - self.free.len());
        if place >= self.held.len() {
            self.held.resize(place + 1, 0);
        }
        if usize::from(self.held[place]) >= DEPTH - under_way {
            return None;
        }
        self.held[place] += 1;
        self.free.pop().or_else(|| {
            self.made += 1;
            Some(Carrier::empty())
        })
    }

    /// Sends a packet, given in pieces; false if it was dropped, as the ring has no room for this
    /// face.
    pub(super) fn push<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]>,
    ) -> bool {
        self.push_filled(face, |carrier| carrier.fill(face, headers, packet))
    }

    /// The same for a packet that another worker has as well, whose it is.
    pub(super) fn push_copy(&mut self, face: FaceId, headers: &Headers<'_>, packet: &[u8]) -> bool {
        self.push_filled(face, |carrier| {
            carrier.fill(face, headers, std::iter::once(packet));
            carrier.is_copy = true;
        })
    }

    fn push_filled(&mut self, face: FaceId, fill: impl FnOnce(&mut Carrier)) -> bool {
        let Some(mut carrier) = self.carrier(face) else {
            self.lost += 1;
            return false;
        };
        fill(&mut carrier);
        // There are as many carriers as places in the ring, so it has room.
        let went = self.full.push(carrier).is_ok();
        self.sent += u64::from(went);
        self.unrung += 1;
        if self.unrung >= BATCH {
            self.ring();
        }
        went
    }

    /// Wakes the receiver if something was sent since the last time.
    pub(super) fn ring(&mut self) {
        if std::mem::take(&mut self.unrung) > 0 {
            self.bell.ring();
        }
    }

    /// Packets that were sent, and that found the ring full or their face's part of it.
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
        // What is lost is counted here.
        self.push(face, headers, packet);
    }
}

impl Inward {
    /// Packets that have arrived. Whatever the sender did before it sent them can be seen now.
    pub(super) fn arrived(&self) -> usize {
        self.full.slots()
    }

    fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// The next packet; its carrier is to be sent home.
    pub(super) fn pop(&mut self) -> Option<Box<Carrier>> {
        self.full.pop().ok()
    }

    /// Sends an empty carrier home.
    pub(super) fn send_home(&mut self, carrier: Box<Carrier>) {
        // The ring has a place for every carrier.
        let _ = self.home.push(carrier);
    }
}

#[cfg(test)]
mod tests;
