//! Work that a sender left to the "hardware", done in software where the output port's device
//! cannot: checksums completed, super-packets cut.
//!
//! A host behind a virtual device chooses the metadata, so all of it is checked against the frame.

use plexus_io::{Checksum, Offload, Packet, Pool, PortId, Segmentation};
use plexus_wire::checksum::Sum;
use plexus_wire::vlan::{MAX_TAGS, TAG_LEN};
use plexus_wire::{EtherType, ethernet, ipv4, ipv6, partial};

use crate::context::Context;
use crate::drops::DropReason;

const TCP_CHECKSUM: usize = partial::TCP_OFFSET;
const UDP_CHECKSUM: usize = partial::UDP_OFFSET;
const SCTP_CHECKSUM: usize = partial::SCTP_OFFSET;
const ICMP_CHECKSUM: usize = 2;
const UDP_HEADER: usize = 8;
const FLAG_FIN: u8 = 0x01;
const FLAG_PSH: u8 = 0x08;
const FLAG_CWR: u8 = 0x80;

/// True if a device that completes checksums would store a wrong one: the virtio-net header has no
/// way to say that SCTP's is a CRC.
pub(crate) fn is_crc(packet: &Packet) -> bool {
    usize::from(packet.offload.checksum_offset) == SCTP_CHECKSUM
}

/// Completes a partial checksum of a host's frame, which begins at `start`. False if the metadata
/// points outside the frame, or anywhere but at the checksum field of a transport header: a host
/// could change its tag or address by it.
pub(crate) fn complete_checksum(pool: &mut Pool, packet: &mut Packet, start: usize) -> bool {
    let Offload { checksum_start, checksum_offset: offset, .. } = packet.offload;
    let transport = usize::from(checksum_start);
    let at = transport + usize::from(offset);
    let Some((ether_type, ip)) = network_layer(pool.data(packet), start) else { return false };
    let minimum = if ether_type == EtherType::IPV6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    let len = match usize::from(offset) {
        ICMP_CHECKSUM | UDP_CHECKSUM | TCP_CHECKSUM => 2,
        SCTP_CHECKSUM => 4,
        _ => return false,
    };
    let data = pool.data_mut(packet);
    if transport < ip + minimum || at + len > data.len() {
        return false;
    }
    packet.offload.checksum = Checksum::Complete;
    if usize::from(offset) == SCTP_CHECKSUM {
        data[at..at + len].fill(0);
        let crc = partial::crc32c(&data[transport..]);
        data[at..at + len].copy_from_slice(&crc);
        return true;
    }
    // The field holds the sum of the pseudo-header, so it is summed along (virtio 1.2, 5.1.6.2).
    let sum = Sum::new().with(&data[transport..]);
    let udp = usize::from(offset) == UDP_CHECKSUM;
    let value = if udp { sum.finish_udp() } else { sum.finish() };
    data[at..at + len].copy_from_slice(&value.to_be_bytes());
    true
}

/// Marks an ECN-capable IP packet "congestion experienced" (RFC 3168, 5). The packet's Ethernet
/// frame begins at `start`. False if it is not IP or its sender is not ECN-capable.
pub(crate) fn mark_congestion(pool: &mut Pool, packet: &mut Packet, start: usize) -> bool {
    const CE: u8 = 0b11;
    let capable = |ecn: u8| ecn == 0b01 || ecn == 0b10;
    let Some((ether_type, at)) = network_layer(pool.data(packet), start) else { return false };
    let header = &mut pool.data_mut(packet)[at..];
    match ether_type {
        EtherType::IPV4 => match ipv4::Packet::new_checked(header) {
            Ok(mut ip) if capable(ip.ecn()) => ip.set_ecn(CE),
            _ => return false,
        },
        EtherType::IPV6 => match ipv6::Packet::new_checked(header) {
            Ok(mut ip) if capable(ip.ecn()) => ip.set_ecn(CE),
            _ => return false,
        },
        _ => return false,
    }
    true
}

/// The EtherType behind 802.1Q tags of a frame that begins at `start`, and where its header begins.
fn network_layer(frame: &[u8], start: usize) -> Option<(EtherType, usize)> {
    let mut at = start + ethernet::HEADER_LEN;
    for _ in 0..=MAX_TAGS {
        let ether_type = EtherType(u16::from_be_bytes([*frame.get(at - 2)?, *frame.get(at - 1)?]));
        if !ether_type.is_vlan() {
            return (frame.len() > at).then_some((ether_type, at));
        }
        at += TAG_LEN;
    }
    None
}

/// A super-packet being cut into frames.
pub(crate) struct Segments {
    whole: Packet,
    layers: Layers,
    next: usize,
    index: u16,
}

/// Cuts a super-packet into segments of at most `len_max` bytes, and hands them on. The host's
/// frame begins at `start`; each segment gets what is before it. If it cannot be cut, the drop
/// counts at the first port; a segment for which there is no frame, at the second.
pub(crate) fn cut(
    context: &mut Context<'_>,
    whole: Packet,
    start: usize,
    len_max: usize,
    [of_whole, of_part]: [PortId; 2],
    mut hand_on: impl FnMut(&mut Context<'_>, Packet),
) {
    let in_port = whole.in_port;
    let mut segments = match Segments::new(context.pool, whole, start, len_max) {
        Ok(segments) => segments,
        Err(whole) => return context.drop(whole, of_whole, DropReason::BadOffload),
    };
    context.counters.copied(in_port, (segments.remaining() as u64).saturating_sub(1));
    while segments.remaining() > 0 {
        match segments.next(context.pool) {
            Some(part) => hand_on(context, part),
            None => context.counters.drop(of_part, DropReason::NoFrame),
        }
    }
    context.pool.free(segments.into_whole());
}

/// Does the work that a packet owes, and hands on the result: the packet, or the segments
/// that it is cut into. A segment for which there is no frame is counted as a drop of `out`.
pub(crate) fn complete(
    context: &mut Context<'_>,
    out: PortId,
    mut packet: Packet,
    mut hand_on: impl FnMut(&mut Context<'_>, Packet),
) {
    let in_port = packet.in_port;
    if packet.offload.segmentation == Segmentation::None {
        if !packet.is_finished() && !complete_checksum(context.pool, &mut packet, 0) {
            return context.drop(packet, in_port, DropReason::BadOffload);
        }
        return hand_on(context, packet);
    }
    if !measure(context.pool, &mut packet, 0) {
        return context.drop(packet, in_port, DropReason::BadOffload);
    }
    // The output port compares with its own limit; here a segment must fit a frame.
    let len_max = context.pool.max_len();
    cut(context, packet, 0, len_max, [in_port, out], hand_on);
}

/// Where a super-packet's headers are.
#[derive(Clone, Copy, Debug)]
struct Layers {
    ip: usize,
    v6: bool,
    transport: usize,
    payload: usize,
    tcp: bool,
    segment: usize,
}

impl Segments {
    /// Takes a super-packet.
    ///
    /// # Errors
    /// Gives the packet back if its headers are not those that the metadata says, or if a segment
    /// would be longer than `len_max` bytes.
    pub(crate) fn new(
        pool: &Pool,
        whole: Packet,
        start: usize,
        len_max: usize,
    ) -> Result<Segments, Packet> {
        match layers(pool.data(&whole), start, &whole.offload) {
            Some(l) if l.payload + l.segment <= len_max => {
                Ok(Segments { whole, layers: l, next: l.payload, index: 0 })
            }
            _ => Err(whole),
        }
    }

    /// How many frames are still to come.
    pub(crate) fn remaining(&self) -> usize {
        self.whole.len().saturating_sub(self.next).div_ceil(self.layers.segment)
    }

    /// The next frame; `None` if the pool has none to give. Call it `remaining` times.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Option<Packet> {
        let Layers { payload, segment, .. } = self.layers;
        let from = self.next;
        let to = (from + segment).min(self.whole.len());
        let index = self.index;
        self.next = to;
        self.index = index.wrapping_add(1);
        let mut part = pool.alloc()?;
        let len = payload + to - from;
        if !pool.set_len(&mut part, len) || !pool.copy(&self.whole, 0..payload, &mut part, 0) {
            pool.free(part);
            return None;
        }
        pool.copy(&self.whole, from..to, &mut part, payload);
        part.in_port = self.whole.in_port;
        part.vlan = self.whole.vlan;
        part.priority = self.whole.priority;
        part.flags = self.whole.flags;
        let last = to == self.whole.len();
        patch(pool.data_mut(&mut part), self.layers, index, from - payload, last);
        Some(part)
    }

    /// Gives the super-packet back.
    pub(crate) fn into_whole(self) -> Packet {
        self.whole
    }
}

/// Replaces the header length in a super-packet's metadata by the real one. False if the headers
/// are not those that the metadata says.
pub(crate) fn measure(pool: &Pool, packet: &mut Packet, start: usize) -> bool {
    let Some(found) = layers(pool.data(packet), start, &packet.offload) else { return false };
    packet.offload.header_len = found.payload as u16;
    packet.offload.checksum == Checksum::Partial
}

/// Bytes of the longest IP packet that a super-packet is cut into; `None` if its headers are not
/// those that the metadata says.
#[cold]
pub(crate) fn longest_segment(frame: &[u8], offload: &Offload) -> Option<usize> {
    let found = layers(frame, 0, offload)?;
    Some(found.payload - found.ip + found.segment)
}

fn layers(frame: &[u8], start: usize, offload: &Offload) -> Option<Layers> {
    let (ether_type, ip) = network_layer(frame, start)?;
    let segment = usize::from(offload.segment_size);
    let (tcp, v4) = match offload.segmentation {
        Segmentation::TcpV4 | Segmentation::TcpV4Ecn => (true, true),
        Segmentation::TcpV6 | Segmentation::TcpV6Ecn => (true, false),
        Segmentation::Udp => (false, ether_type == EtherType::IPV4),
        Segmentation::None => return None,
    };
    let transport = match ether_type {
        EtherType::IPV4 if v4 => {
            let first = *frame.get(ip)?;
            (first >> 4 == 4).then_some(ip + usize::from(first & 15) * 4)?
        }
        // Extension headers come before the transport header, which the checksum begins at.
        EtherType::IPV6 if !v4 && offload.checksum == Checksum::Partial => {
            let start = usize::from(offload.checksum_start);
            (start >= ip + ipv6::HEADER_LEN).then_some(start)?
        }
        _ => return None,
    };
    let payload = if tcp {
        let words = usize::from(*frame.get(transport + 12)? >> 4);
        (words >= 5).then_some(transport + words * 4)?
    } else {
        transport + UDP_HEADER
    };
    let minimum = if v4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    let sound = segment > 0 && transport >= ip + minimum && payload < frame.len();
    sound.then_some(Layers { ip, v6: !v4, transport, payload, tcp, segment })
}

/// Makes the copied headers those of segment `index`, whose payload begins `offset` bytes into the
/// whole's.
fn patch(frame: &mut [u8], l: Layers, index: u16, offset: usize, last: bool) {
    let be16 = |b: &[u8], at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
    let total = (frame.len() - l.ip) as u16;
    if l.v6 {
        let payload_len = total - ipv6::HEADER_LEN as u16;
        frame[l.ip + 4..l.ip + 6].copy_from_slice(&payload_len.to_be_bytes());
    } else {
        frame[l.ip + 2..l.ip + 4].copy_from_slice(&total.to_be_bytes());
        let id = be16(frame, l.ip + 4).wrapping_add(index);
        frame[l.ip + 4..l.ip + 6].copy_from_slice(&id.to_be_bytes());
        frame[l.ip + 10..l.ip + 12].fill(0);
        let sum = plexus_wire::checksum::checksum(&frame[l.ip..l.transport]);
        frame[l.ip + 10..l.ip + 12].copy_from_slice(&sum.to_be_bytes());
    }
    let length = frame.len() - l.transport;
    let field = l.transport + if l.tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
    if l.tcp {
        let at = l.transport + 4;
        let seq = u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        frame[at..at + 4].copy_from_slice(&seq.wrapping_add(offset as u32).to_be_bytes());
        let flags = &mut frame[l.transport + 13];
        if !last {
            *flags &= !(FLAG_FIN | FLAG_PSH);
        }
        if index > 0 {
            *flags &= !FLAG_CWR;
        }
    } else {
        frame[l.transport + 4..l.transport + 6].copy_from_slice(&(length as u16).to_be_bytes());
    }
    frame[field..field + 2].fill(0);
    let (addresses, protocol) = if l.v6 {
        (l.ip + 8..l.ip + 40, if l.tcp { 6 } else { 17 })
    } else {
        (l.ip + 12..l.ip + 20, frame[l.ip + 9])
    };
    let pseudo = Sum::new().with(&frame[addresses]).with(&[0, protocol]);
    let sum = pseudo.with(&(length as u16).to_be_bytes()).with(&frame[l.transport..]);
    let value = if l.tcp { sum.finish() } else { sum.finish_udp() };
    frame[field..field + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
