//! The link protocol NDNLPv2 of one face: network packets to link packets, and back.
//!
//! [`Link`] splits an Interest or Data with its [`Headers`] into link packets no longer than the
//! face's MTU, and restores network packets from received link packets. It reads no clock: `now` is
//! passed in, and a driver calls [`Link::poll`] at [`Link::next_deadline`].
//!
//! - Fragments have consecutive sequence numbers. Incomplete packets wait in a [`Memory`] that all
//!   faces of a thread share; no face can use more than its share.
//! - With reliability ([`reliability`]) every link packet with a fragment is acknowledged.
//! - A queue that stays long marks packets ([`congestion`]).
//! - The headers that a peer may use depend on the face ([`Options::local_fields`]).
//!
//! A packet that needs neither fragmentation nor reliability passes without an allocation.

pub mod congestion;
mod counters;
pub mod reassembly;
pub mod reliability;
pub mod stream;
#[cfg(test)]
mod tests;

use plexus_wire::Time;
use plexus_wire::ndn::lp::{self, Headers, NackReason};
use plexus_wire::ndn::{PACKET_LEN_MAX, tlv, types};

use crate::face::FaceId;
use congestion::{Congestion, Marking};
pub use counters::{LinkCounters, Refused, Unsent};
pub use reassembly::{Limits, Memory};
use reliability::Reliability;

/// Most fragments per packet; sender and receiver both enforce it (NFD: `nMaxFragments`).
pub const FRAGMENTS_MAX: u64 = 400;
/// Shortest MTU at which a packet with the usual headers can be fragmented (NFD's `MIN_MTU`).
/// Fragment numbers and acknowledgement fields take 34 bytes of it; the first fragment also has
/// room for a token as long as ours, a congestion mark and a Nack. With a peer's token of 32 bytes
/// and reliability, no MTU below 69 leaves room: such packets are refused and counted.
pub const MTU_MIN: usize = 64;
/// Acknowledgements in one link packet, where the MTU allows more.
const ACKS_MAX: usize = 64;
/// Bytes of an acknowledgement: type and length of 4, number of 8.
const ACK_LEN: usize = 12;

/// Options of a face's link protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Longest link packet in bytes; `usize::MAX` if there is no limit.
    pub mtu: usize,
    /// Packets longer than the MTU are fragmented; otherwise they are refused.
    pub fragmentation: bool,
    /// Fragments are reassembled; otherwise they are refused.
    pub reassembly: bool,
    /// Link packets are acknowledged and retransmitted.
    pub reliability: bool,
    /// Packets are marked when the queue is long.
    pub marks: bool,
    /// When a queue counts as long.
    pub marking: Marking,
    /// The peer is an application on this machine: it may choose an Interest's next hop, and is
    /// told packets' incoming faces.
    pub local_fields: bool,
    /// Longest Interest or Data in bytes, in both directions.
    pub packet_len_max: usize,
}

impl Options {
    /// NFD's defaults, for link packets of at most `mtu` bytes.
    pub fn new(mtu: usize) -> Options {
        Options {
            mtu,
            fragmentation: mtu < usize::MAX,
            reassembly: mtu < usize::MAX,
            reliability: false,
            marks: true,
            marking: Marking::default(),
            local_fields: false,
            packet_len_max: PACKET_LEN_MAX,
        }
    }
}

/// Kind of a packet, for the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An Interest.
    Interest,
    /// A Data.
    Data,
    /// A Nacked Interest.
    Nack(NackReason),
}

/// A complete network packet that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Its kind. The packet has not been parsed.
    pub kind: Kind,
    /// Its headers: only those that this face's peer may use, and none of the link's own. The
    /// reason of a Nack is among them, as the forwarder takes it.
    pub headers: Headers<'a>,
    /// The Interest or Data.
    pub packet: &'a [u8],
}

/// A network packet, and where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came<'b, 'm> {
    /// Received unfragmented: it lies in the link packet.
    Whole(Received<'b>),
    /// Reassembled: it lies in the reassembly memory until the next packet is received.
    Together(Received<'m>),
}

impl<'a> Came<'a, 'a> {
    /// The packet.
    pub fn packet(self) -> Received<'a> {
        match self {
            Came::Whole(packet) | Came::Together(packet) => packet,
        }
    }
}

/// The link protocol's state of one face.
#[derive(Debug)]
pub struct Link {
    face: FaceId,
    options: Options,
    /// Sequence number of the next link packet that has one.
    sequence: u64,
    reliability: Option<Box<Reliability>>,
    congestion: Congestion,
    counters: LinkCounters,
    /// Buffer for the headers of link packets.
    head: Vec<u8>,
    /// Acknowledgements of the link packet that is being written.
    acks: Vec<u64>,
}

impl Link {
    /// The link of a face. `first_sequence` should be random: a peer that remembers earlier packets
    /// must not take those of a restarted node for duplicates.
    pub fn new(face: FaceId, options: Options, first_sequence: u64) -> Link {
        let mut link = Link {
            face,
            options,
            sequence: first_sequence,
            reliability: None,
            congestion: Congestion::default(),
            counters: LinkCounters::default(),
            head: Vec::new(),
            acks: Vec::new(),
        };
        link.set_options(options);
        link
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Changes the options. When reliability is turned off, unacknowledged packets are not
    /// retransmitted.
    pub fn set_options(&mut self, options: Options) {
        self.options = options;
        if !options.reliability {
            self.reliability = None;
        } else if self.reliability.is_none() {
            self.reliability = Some(Box::new(Reliability::new(self.sequence)));
        }
    }

    /// Its counters.
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Sends `packet`, an Interest or Data: hands link packets to `out`, each in two parts, its
    /// headers and its piece of the packet. `queued` is the number of bytes queued before it. The
    /// link sets its own headers (fragment numbers, acknowledgement fields); the caller does not.
    ///
    /// # Errors
    /// Why the packet cannot be sent; nothing was handed out.
    pub fn send(
        &mut self,
        now: Time,
        headers: &Headers<'_>,
        packet: &[u8],
        queued: usize,
        out: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Unsent> {
        let sent = self.send_checked(now, headers, packet, queued, out);
        match sent {
            Ok(()) => self.counters.sent += 1,
            Err(why) => self.counters.unsent(why),
        }
        sent
    }

    fn send_checked(
        &mut self,
        now: Time,
        headers: &Headers<'_>,
        packet: &[u8],
        queued: usize,
        out: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Unsent> {
        if packet.is_empty() || packet.len() > self.options.packet_len_max {
            return Err(Unsent::TooLong);
        }
        let unmarked = Headers {
            sequence: None,
            frag_index: None,
            frag_count: None,
            tx_sequence: None,
            incoming_face: headers.incoming_face.filter(|_| self.options.local_fields),
            ..*headers
        };
        let marked = self.mark(now, queued, &unmarked);
        if self.reliability.is_none() {
            for headers in [marked, unmarked] {
                let whole = lp::Repr { headers, acks: &[], fragment: Some(packet) };
                if whole.buffer_len() <= self.options.mtu {
                    self.hand_out(headers, packet, out);
                    return Ok(());
                }
                if self.options.fragmentation {
                    break;
                }
            }
        }
        let cut = self.cut(&marked, packet)?;
        let first = self.sequence;
        let mut rest = packet;
        for index in 0..cut.count {
            let (piece, more) = rest.split_at(cut.piece(index).min(rest.len()));
            rest = more;
            let of_packet = if index == 0 { marked } else { Headers::default() };
            let is_cut = cut.count > 1;
            let mut headers = Headers {
                sequence: Some(self.sequence),
                frag_index: is_cut.then_some(index),
                frag_count: is_cut.then_some(cut.count),
                ..of_packet
            };
            self.sequence = self.sequence.wrapping_add(1);
            if let Some(reliability) = &mut self.reliability {
                headers.tx_sequence = reliability.keep(now, headers, piece, first);
                self.counters.unprotected += u64::from(headers.tx_sequence.is_none());
            }
            self.hand_out(headers, piece, out);
        }
        self.counters.fragmented += u64::from(cut.count > 1);
        Ok(())
    }

    /// Hands out one link packet, with as many acknowledgements as fit.
    fn hand_out(&mut self, headers: Headers<'_>, piece: &[u8], out: &mut impl FnMut(&[u8], &[u8])) {
        let fragment = (!piece.is_empty()).then_some(piece);
        let mut repr = lp::Repr { headers, acks: &[], fragment };
        self.acks.clear();
        if let Some(reliability) = &mut self.reliability
            && reliability.has_acks()
        {
            // Two bytes, because the acknowledgements may lengthen the TLV length.
            let room = self.options.mtu.saturating_sub(repr.buffer_len() + 2);
            reliability.take_acks((room / ACK_LEN).min(ACKS_MAX), &mut self.acks);
            repr.acks = &self.acks;
        }
        self.head.resize(repr.head_len(), 0);
        // It was measured, so it fits.
        if repr.emit_head(&mut self.head).is_ok() {
            self.counters.link_packets_sent += 1;
            out(&self.head, piece);
        }
    }

    /// How a packet is fragmented.
    fn cut(&self, headers: &Headers<'_>, packet: &[u8]) -> Result<Cut, Unsent> {
        let mtu = self.options.mtu;
        let room = |of_packet: &Headers<'_>, is_cut: bool| {
            let number = is_cut.then_some(FRAGMENTS_MAX);
            let headers = Headers {
                sequence: Some(0),
                frag_index: number,
                frag_count: number,
                tx_sequence: self.reliability.as_ref().map(|_| 0),
                ..*of_packet
            };
            let longest = &packet[..packet.len().min(mtu)];
            mtu.saturating_sub(lp::Repr { headers, acks: &[], fragment: Some(longest) }.head_len())
        };
        if packet.len() <= room(headers, false) {
            return Ok(Cut { count: 1, first: packet.len(), other: 0 });
        }
        if !self.options.fragmentation {
            return Err(Unsent::LongerThanMtu);
        }
        let (first, other) = (room(headers, true), room(&Headers::default(), true));
        if first == 0 || other == 0 {
            return Err(Unsent::HeadersTooLong);
        }
        let count = 1 + packet.len().saturating_sub(first).div_ceil(other) as u64;
        match count {
            ..=FRAGMENTS_MAX => Ok(Cut { count, first, other }),
            _ => Err(Unsent::TooManyFragments),
        }
    }

    /// The headers, with a mark if there is congestion.
    fn mark<'h>(&mut self, now: Time, queued: usize, headers: &Headers<'h>) -> Headers<'h> {
        let mut headers = *headers;
        if self.options.marks && self.congestion.marks(now, queued, &self.options.marking) {
            headers.congestion_mark = Some(headers.congestion_mark.unwrap_or(0).max(1));
            self.counters.marked += 1;
        }
        headers
    }

    /// Processes the link packet at the start of `bytes`; padding after it is ignored. Returns the
    /// network packet that it completes, if any. Acknowledgements, and retransmissions that
    /// received acknowledgements trigger, leave with the next [`poll`](Self::poll).
    ///
    /// # Errors
    /// Why the link packet, or the packet that it completes, was refused; nothing else is lost.
    #[inline]
    pub fn receive<'a>(
        &mut self,
        now: Time,
        bytes: &'a [u8],
        memory: &'a mut Memory,
    ) -> Result<Option<Received<'a>>, Refused> {
        self.receive_from(now, 0, bytes, memory).map(|came| came.map(Came::packet))
    }

    /// The same for one of several peers behind this face: `sender` is a number unique to that
    /// peer. Unfragmented packets live as long as `bytes`, so that a batch of them can be processed
    /// together.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    #[inline]
    pub fn receive_from<'b, 'm>(
        &mut self,
        now: Time,
        sender: u64,
        bytes: &'b [u8],
        memory: &'m mut Memory,
    ) -> Result<Option<Came<'b, 'm>>, Refused> {
        let received = self.receive_checked(now, sender, bytes, memory);
        match &received {
            Ok(packet) => self.counters.received += u64::from(packet.is_some()),
            Err(why) => self.counters.refused(*why),
        }
        received
    }

    #[inline]
    fn receive_checked<'b, 'm>(
        &mut self,
        now: Time,
        sender: u64,
        bytes: &'b [u8],
        memory: &'m mut Memory,
    ) -> Result<Option<Came<'b, 'm>>, Refused> {
        let packet = lp::Packet::new_checked(bytes).map_err(|_| Refused::Malformed)?;
        let headers = packet.headers();
        if let Some(reliability) = &mut self.reliability {
            for ack in packet.acks() {
                reliability.acknowledged(now, ack, &mut self.counters);
            }
            reliability.find_lost(&mut self.counters);
            if let Some(tx_sequence) = headers.tx_sequence {
                reliability.owe(now, tx_sequence);
            }
            if packet.fragment().is_some()
                && headers
                    .sequence
                    .is_some_and(|s| reliability.has_come_before(now, s, headers.tx_sequence))
            {
                return Err(Refused::Duplicate);
            }
        }
        let Some(fragment) = packet.fragment() else { return Ok(None) };
        let (index, count) = packet.fragmentation();
        if count == 1 {
            return self.admit(headers, fragment).map(|packet| Some(Came::Whole(packet)));
        }
        if !self.options.reassembly {
            return Err(Refused::Fragment);
        }
        let Some(sequence) = headers.sequence else { return Err(Refused::Fragment) };
        let piece = reassembly::Piece { sender, sequence, index, count, headers, bytes: fragment };
        let longest = self.options.packet_len_max;
        match memory.insert(now, self.face, &piece, longest)? {
            Some((headers, packet)) => {
                self.counters.reassembled += 1;
                self.admit(&headers, packet).map(|packet| Some(Came::Together(packet)))
            }
            None => Ok(None),
        }
    }

    /// Checks a complete packet and its headers against what this face's peer may send (NFD:
    /// `GenericLinkService::decodeNetPacket`).
    #[inline]
    fn admit<'a>(
        &mut self,
        headers: &Headers<'a>,
        packet: &'a [u8],
    ) -> Result<Received<'a>, Refused> {
        let format = plexus_wire::Format::NdnLp;
        let head = tlv::Head::read(packet, 0, format).map_err(|_| Refused::NotAPacket)?;
        if head.element_len() != packet.len() {
            return Err(Refused::NotAPacket);
        }
        if packet.len() > self.options.packet_len_max {
            return Err(Refused::TooLong);
        }
        let kind = match (head.kind, headers.nack) {
            (types::INTEREST, None) => Kind::Interest,
            (types::INTEREST, Some(reason)) => Kind::Nack(reason),
            (types::DATA, None) => Kind::Data,
            _ => return Err(Refused::NotAPacket),
        };
        let is_allowed = match kind {
            Kind::Interest => {
                !headers.no_cache
                    && headers.prefix_announcement.is_none()
                    && (headers.next_hop_face.is_none() || self.options.local_fields)
            }
            Kind::Data => headers.next_hop_face.is_none() && !headers.non_discovery,
            Kind::Nack(_) => {
                headers.next_hop_face.is_none()
                    && !headers.no_cache
                    && !headers.non_discovery
                    && headers.prefix_announcement.is_none()
            }
        };
        if !is_allowed {
            return Err(Refused::Header);
        }
        let headers = Headers {
            sequence: None,
            frag_index: None,
            frag_count: None,
            tx_sequence: None,
            // This node sets the incoming face itself.
            incoming_face: None,
            ..*headers
        };
        Ok(Received { kind, headers, packet })
    }

    /// Hands out what is due: retransmissions of lost link packets, and acknowledgements that no
    /// packet has carried in time.
    pub fn poll(&mut self, now: Time, out: &mut impl FnMut(&[u8], &[u8])) {
        if let Some(reliability) = &mut self.reliability {
            reliability.expire(now, &mut self.counters);
        }
        while let Some(lost) = self.reliability.as_mut().and_then(|r| r.take_lost()) {
            // Our own packets are readable.
            if let Ok(packet) = lp::Packet::new_checked(lost.bytes()) {
                let mut headers = *packet.headers();
                headers.tx_sequence = self.reliability.as_ref().map(|r| r.next_tx_sequence());
                self.counters.retransmitted += 1;
                self.hand_out(headers, packet.fragment().unwrap_or_default(), out);
            }
            if let Some(reliability) = &mut self.reliability {
                reliability.keep_again(now, lost);
            }
        }
        while self.reliability.as_ref().is_some_and(|r| r.acks_are_due(now)) {
            self.hand_out(Headers::default(), &[], out);
        }
    }

    /// When [`poll`](Self::poll) is due; `None`: not before something is sent or received.
    pub fn next_deadline(&self) -> Option<Time> {
        self.reliability.as_ref().and_then(|r| r.next_deadline())
    }
}

/// How a packet is cut into fragments.
struct Cut {
    count: u64,
    /// Bytes of it in the first link packet, which also carries the packet's headers.
    first: usize,
    /// Bytes in each of the others.
    other: usize,
}

impl Cut {
    fn piece(&self, index: u64) -> usize {
        if index == 0 { self.first } else { self.other }
    }
}
