//! IPv4 fragmentation (RFC 791, 3.2): a packet that is longer than the next link carries leaves in
//! pieces.

use plexus_io::{Checksum, Offload, PORT_NONE, Packet, PortId};
use plexus_wire::ipv4;

use super::ETHERNET;
use crate::context::Context;
use crate::drops::DropReason;
use crate::offload;
use crate::stage::output::OutputQueues;

/// Options that go into every fragment have this bit (RFC 791, 3.1).
const COPIED: u8 = 0x80;
const NO_OPERATION: u8 = 1;
const MORE_FRAGMENTS: u16 = 0x2000;
/// Bytes of a datagram, at most.
const DATAGRAM_MAX: usize = 65_535;

/// Sends a packet in [fragments](cut): by this port, or where the switch says.
pub(crate) fn send(
    context: &mut Context<'_>,
    queues: &mut OutputQueues,
    port: PortId,
    whole: Packet,
) {
    cut(context, whole, |context, piece| match port {
        PORT_NONE => queues.flood(context, piece, PORT_NONE),
        port => queues.enqueue(context, port, piece),
    });
}

/// Cuts a packet, which has its rewritten headers, into fragments as long as its neighbour takes,
/// and hands them on in order. The lookup has written that length where a super-packet has that of
/// its segments.
pub(crate) fn cut(
    context: &mut Context<'_>,
    mut whole: Packet,
    mut hand_on: impl FnMut(&mut Context<'_>, Packet),
) {
    let in_port = whole.in_port;
    let mtu = usize::from(whole.offload.segment_size);
    if whole.offload.checksum == Checksum::Partial
        && !offload::complete_checksum(context.pool, &mut whole, 0)
    {
        return context.drop(whole, in_port, DropReason::BadOffload);
    }
    whole.offload = Offload::NONE;
    let cut = match Cut::of(context.pool.data(&whole), mtu) {
        Ok(cut) => cut,
        Err(reason) => return context.drop(whole, in_port, reason),
    };
    context.counters.copied(in_port, cut.count() as u64 - 1);
    for index in 0..cut.count() {
        let Some(piece) = cut.piece(context, &whole, index) else {
            context.counters.drop(in_port, DropReason::NoFrame);
            continue;
        };
        hand_on(context, piece);
    }
    context.pool.free(whole);
}

/// How a packet is cut.
struct Cut {
    /// Header of the first fragment, options and all, and of the others.
    header_len: usize,
    /// Payload of the whole, and of every fragment but the last.
    payload_len: usize,
    step: usize,
    /// Where the whole belongs: it may be a fragment itself.
    offset: usize,
    more: bool,
}

impl Cut {
    /// It must be an IPv4 packet, and the link carry at least 8 bytes of payload. A fragment must
    /// end within the longest datagram: the offsets of pieces beyond would wrap to 0, and overlap
    /// the datagram's first bytes (RFC 1858).
    fn of(frame: &[u8], mtu: usize) -> Result<Cut, DropReason> {
        let bytes = frame.get(ETHERNET..).unwrap_or_default();
        let ip = ipv4::Packet::new_checked(bytes).map_err(|_| DropReason::BadIpHeader)?;
        let header_len = ip.header_len();
        let payload_len = ip.total_len() - header_len;
        let (offset, more) = (ip.fragment_offset(), ip.more_fragments());
        if payload_len == 0 || offset + payload_len > DATAGRAM_MAX {
            return Err(DropReason::BadIpHeader);
        }
        let step = mtu.saturating_sub(header_len) & !7;
        if step == 0 {
            return Err(DropReason::TooBig);
        }
        Ok(Cut { header_len, payload_len, step, offset, more })
    }

    fn count(&self) -> usize {
        self.payload_len.div_ceil(self.step)
    }

    fn piece(&self, context: &mut Context<'_>, whole: &Packet, index: usize) -> Option<Packet> {
        let at = index * self.step;
        let len = self.step.min(self.payload_len - at);
        let head = ETHERNET + self.header_len;
        let mut piece = context.pool.alloc()?;
        let copied = context.pool.set_len(&mut piece, head + len)
            && context.pool.copy(whole, 0..head, &mut piece, 0)
            && context.pool.copy(whole, head + at..head + at + len, &mut piece, head);
        if !copied {
            context.pool.free(piece);
            return None;
        }
        (piece.in_port, piece.vlan) = (whole.in_port, whole.vlan);
        (piece.priority, piece.flags) = (whole.priority, whole.flags);
        let header = &mut context.pool.data_mut(&mut piece)[ETHERNET..head];
        let total_len = (self.header_len + len) as u16;
        header[2..4].copy_from_slice(&total_len.to_be_bytes());
        let is_last = at + len == self.payload_len && !self.more;
        let place = ((self.offset + at) / 8) as u16;
        let field = if is_last { place } else { place | MORE_FRAGMENTS };
        header[6..8].copy_from_slice(&field.to_be_bytes());
        if index > 0 {
            blank_options(&mut header[ipv4::HEADER_LEN..]);
        }
        header[10..12].fill(0);
        let sum = plexus_wire::checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        Some(piece)
    }
}

/// Overwrites the options that belong into the first fragment only. They keep their length, so
/// that all fragments have headers of one length.
fn blank_options(options: &mut [u8]) {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let len = match (kind, options.get(at + 1)) {
            (0, _) => return,
            (NO_OPERATION, _) => 1,
            (_, Some(&len)) if len >= 2 => usize::from(len),
            _ => return,
        };
        let end = (at + len).min(options.len());
        if kind & COPIED == 0 {
            options[at..end].fill(NO_OPERATION);
        }
        at = end;
    }
}
