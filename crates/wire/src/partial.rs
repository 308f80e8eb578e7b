//! Transport checksums that a sender left to its device ("transmit checksum offload").
//!
//! The sender stores the sum of the pseudo-header in the checksum field (SCTP: zero), and its
//! device has to add the rest. A virtual cable has no such device, and if its frames are taken raw
//! nothing else indicates that the rest is missing. [`find`] recognises these frames.
//!
//! A complete checksum looks like that once in 65,536 packets. Completing such a packet stores the
//! value that is there already, provided that it was right: only a packet damaged in transit could
//! pass as valid, and a virtual cable damages none.

use crate::bytes::u16_at;
use crate::checksum::Sum;
use crate::ethernet::{self, EtherType};
use crate::ip::Protocol;
use crate::{ipv4, ipv6, vlan};

/// Where the checksum is in a TCP header.
pub const TCP_OFFSET: usize = 16;
/// Where the checksum is in a UDP header.
pub const UDP_OFFSET: usize = 6;
/// Where the checksum is in an SCTP header.
pub const SCTP_OFFSET: usize = 8;

/// Tunnels within tunnels that are looked into.
const DEPTH_MAX: usize = 2;

/// A checksum that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// First byte of the frame that the checksum covers. It covers all from there on.
    pub start: u16,
    /// Where the checksum is stored, counted from `start`.
    pub offset: u16,
}

/// The checksum of an Ethernet frame that its sender did not complete: TCP's, UDP's or SCTP's over
/// IPv4 or IPv6, or that of a packet inside IP-in-IP (RFC 2003, 2473, 4213), GRE (RFC 2784),
/// VXLAN (RFC 7348) or GENEVE (RFC 8926). `None` if there is none, and for fragments, of which
/// the kernel completes the checksum before it cuts the packet.
#[inline]
pub fn find(frame: &[u8]) -> Option<Partial> {
    in_frame(frame, 0, 0)
}

/// In the Ethernet frame that begins at `at`.
fn in_frame(whole: &[u8], at: usize, depth: usize) -> Option<Partial> {
    let frame = ethernet::Frame::new_checked(whole.get(at..)?).ok()?;
    let stack = vlan::stack(&frame).ok()?;
    in_packet(whole, at + stack.payload_offset, stack.ethertype, depth)
}

/// In the IP packet that begins at `at`.
fn in_packet(whole: &[u8], at: usize, ether_type: EtherType, depth: usize) -> Option<Partial> {
    let bytes = whole.get(at..)?;
    let (upper, end, protocol, sum) = match ether_type {
        EtherType::IPV4 => {
            let p = ipv4::Packet::new_checked(bytes).ok()?;
            if p.is_fragment() {
                return None;
            }
            let len = (p.total_len() - p.header_len()) as u16;
            let sum = Sum::pseudo_v4(p.src(), p.dst(), p.protocol(), len);
            (p.header_len(), p.total_len(), p.protocol(), sum)
        }
        EtherType::IPV6 => {
            let p = ipv6::Packet::new_checked(bytes).ok()?;
            let u = p.upper().ok()?;
            if u.fragment.is_some() {
                return None;
            }
            let len = p.payload_len().checked_sub(u.offset)? as u32;
            let sum = Sum::pseudo_v6(p.src(), p.dst(), u.protocol, len);
            (ipv6::HEADER_LEN + u.offset, ipv6::HEADER_LEN + p.payload_len(), u.protocol, sum)
        }
        _ => return None,
    };
    // The checksum is completed by a sum up to the frame's end.
    if bytes.get(end..)?.iter().any(|&b| b != 0) {
        return None;
    }
    let payload = bytes.get(upper..end)?;
    let start = at + upper;
    let owes = |offset: usize, left: &[u8]| {
        let partial = Partial { start: u16::try_from(start).ok()?, offset: offset as u16 };
        payload[offset.min(payload.len())..].starts_with(left).then_some(partial)
    };
    let sum = sum.folded().to_be_bytes();
    match protocol {
        Protocol::TCP => owes(TCP_OFFSET, &sum),
        Protocol::UDP => match owes(UDP_OFFSET, &sum) {
            None if depth < DEPTH_MAX => in_datagram(whole, start, payload, depth),
            found => found,
        },
        Protocol::SCTP => owes(SCTP_OFFSET, &[0; 4]),
        _ if depth == DEPTH_MAX => None,
        Protocol::IPV4 => in_packet(whole, start, EtherType::IPV4, depth + 1),
        Protocol::IPV6 => in_packet(whole, start, EtherType::IPV6, depth + 1),
        Protocol::GRE => in_gre(whole, start, payload, depth),
        _ => None,
    }
}

/// In the payload of a UDP datagram of a known tunnel. The outer checksum, if there is one, is
/// complete: the sender computes it as if the inner one were complete too.
fn in_datagram(whole: &[u8], at: usize, datagram: &[u8], depth: usize) -> Option<Partial> {
    const HEADER: usize = 8;
    const VXLAN: u16 = 4789;
    const GENEVE: u16 = 6081;
    const TRANSPARENT_BRIDGING: EtherType = EtherType(0x6558);
    let header = datagram.get(..HEADER + 8)?;
    match u16_at(header, 2) {
        VXLAN => in_frame(whole, at + HEADER + 8, depth + 1),
        GENEVE => {
            let inner = at + HEADER + 8 + usize::from(header[HEADER] & 0x3F) * 4;
            match EtherType(u16_at(header, HEADER + 2)) {
                TRANSPARENT_BRIDGING => in_frame(whole, inner, depth + 1),
                ether_type => in_packet(whole, inner, ether_type, depth + 1),
            }
        }
        _ => None,
    }
}

/// In what GRE carries: checksum, key and sequence number are optional fields of four bytes.
fn in_gre(whole: &[u8], at: usize, gre: &[u8], depth: usize) -> Option<Partial> {
    const TRANSPARENT_BRIDGING: EtherType = EtherType(0x6558);
    let flags = gre.first()?;
    let fields = [0x80, 0x20, 0x10].iter().filter(|&flag| flags & flag != 0).count();
    let inner = at + 4 + 4 * fields;
    match EtherType(u16_at(gre.get(..4)?, 2)) {
        TRANSPARENT_BRIDGING => in_frame(whole, inner, depth + 1),
        ether_type => in_packet(whole, inner, ether_type, depth + 1),
    }
}

/// CRC-32C (RFC 9260, appendix A), as SCTP stores it: the four bytes in order.
pub fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let step = |crc: u32, &b: &u8| crc >> 8 ^ CRC32C[usize::from(crc as u8 ^ b)];
    (!bytes.iter().fold(!0, step)).to_le_bytes()
}

const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = (i as u32, 0);
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests;
