//! IPv4: what a header must be (RFC 1812, 5.2.2), and what forwarding changes of it.

use plexus_io::{PORT_NONE, Packet, Segmentation};
use plexus_wire::ipv4;

use super::fib::FibBatch;
use super::plan::{Group, InterfacePlan, ReversePath};
use super::{ETHERNET, flow_hash, leave, longest, may_come_from};
use crate::drops::DropReason;
use crate::fabric::Punt;
use crate::pipeline::Context;
use crate::verdict::Verdict;

/// Ethernet and IPv4 header without options.
const HEADERS: usize = ETHERNET + ipv4::HEADER_LEN;
const TOTAL_LEN: usize = ETHERNET + 2;
const FLAGS: usize = ETHERNET + 6;
const TTL: usize = ETHERNET + 8;
const CHECKSUM: usize = ETHERNET + 10;
const DONT_FRAGMENT: u8 = 0x40;

/// Checks a packet's header and source; its destination, or what becomes of it.
#[inline(always)]
pub(super) fn check(
    context: &mut Context<'_>,
    fib: &FibBatch<'_>,
    interface: &InterfacePlan,
    packet: &Packet,
) -> Result<u32, Verdict> {
    let frame = context.pool.data(packet);
    let Some(head) = frame.first_chunk::<HEADERS>() else {
        return Err(Verdict::Drop(DropReason::BadIpHeader));
    };
    let ip: &[u8; ipv4::HEADER_LEN] = head.last_chunk().unwrap_or(&[0; 20]);
    let total_len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    if ip[0] != 0x45 {
        with_options(&frame[ETHERNET..])?;
    } else if total_len < ipv4::HEADER_LEN || total_len > frame.len() - ETHERNET {
        return Err(Verdict::Drop(DropReason::BadIpHeader));
    } else if !sum_is_right(ip) {
        return Err(Verdict::Drop(DropReason::IpChecksum));
    }
    let source = u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]);
    let destination = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
    if is_martian(source) | is_martian(destination) {
        return Err(Verdict::Drop(DropReason::Martian));
    }
    if interface.reverse_path != ReversePath::Off && packet.in_port != PORT_NONE {
        let group = context.router.group(fib.find_v4(source));
        if !may_come_from(context, interface, group) {
            return Err(Verdict::Drop(DropReason::ReversePath));
        }
    }
    Ok(destination)
}

/// The ones' complement sum over the header's words, which is the same in any order of bytes
/// (RFC 1071, 2).
#[inline(always)]
fn sum_is_right(ip: &[u8; ipv4::HEADER_LEN]) -> bool {
    let word = |at: usize| {
        let bytes = [ip[at], ip[at + 1], ip[at + 2], ip[at + 3]];
        u64::from(u32::from_ne_bytes(bytes))
    };
    let sum = word(0) + word(4) + word(8) + word(12) + word(16);
    let sum = (sum & 0xFFFF_FFFF) + (sum >> 32);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    sum == 0xFFFF
}

/// Addresses that no packet on a network has, or that no router forwards (RFC 1812, 5.3.7; RFC
/// 6890): this network, loopback, groups, class E and the limited broadcast, and of link-local
/// ones (RFC 3927, 7) both ends.
#[inline(always)]
fn is_martian(address: u32) -> bool {
    let first = address >> 24;
    (first == 0) | (first == 127) | (first >= 224) | (address >> 16 == 0xA9FE)
}

/// A header that is not the usual one: damaged, or with options. Of these, source routes are
/// refused (RFC 7126, 4.3 and 4.4), and the others are left as they are.
#[cold]
fn with_options(bytes: &[u8]) -> Result<(), Verdict> {
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    let Ok(ip) = ipv4::Packet::new_checked(bytes) else {
        return Err(Verdict::Drop(DropReason::BadIpHeader));
    };
    if !ip.checksum_ok() {
        return Err(Verdict::Drop(DropReason::IpChecksum));
    }
    for option in ip.options() {
        match option.map(|o| o.kind) {
            Ok(LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE) => {
                return Err(Verdict::Control(Punt::Error(DropReason::SourceRouted)));
            }
            Ok(_) => {}
            Err(_) => return Err(Verdict::Control(Punt::Error(DropReason::BadIpOption))),
        }
    }
    Ok(())
}

/// Rewrites a packet for the group's member that its flow goes to.
#[inline(always)]
pub(super) fn forward(
    context: &mut Context<'_>,
    packet: &mut Packet,
    group: Group,
    seed: u64,
) -> Verdict {
    let plan = context.router;
    let frame = context.pool.data_mut(packet);
    let neighbour = plan.member(group, || flow_hash(frame, seed));
    let adjacency = plan.adjacency(neighbour);
    let Some(head) = frame.first_chunk_mut::<HEADERS>() else {
        return Verdict::Drop(DropReason::BadIpHeader);
    };
    let total_len = u16::from_be_bytes([head[TOTAL_LEN], head[TOTAL_LEN + 1]]);
    if head[TTL] <= 1 {
        return Verdict::Control(Punt::Error(DropReason::TtlExpired));
    }
    if !adjacency.resolved {
        return Verdict::Control(Punt::Unresolved(Some(neighbour)));
    }
    let too_long =
        total_len > adjacency.mtu && longest(packet, total_len.into()) > usize::from(adjacency.mtu);
    // Segments of a super-packet are never fragments: who sends them learns the path's MTU.
    let whole = packet.offload.segmentation != Segmentation::None;
    if too_long && (whole || head[FLAGS] & DONT_FRAGMENT != 0) {
        return Verdict::Control(Punt::TooBig(adjacency.mtu));
    }
    head[..12].copy_from_slice(&adjacency.addresses);
    head[TTL] -= 1;
    let sum = u16::from_be_bytes([head[CHECKSUM], head[CHECKSUM + 1]]);
    head[CHECKSUM..CHECKSUM + 2].copy_from_slice(&one_less(sum).to_be_bytes());
    context.counters.routed(packet.in_port);
    let port = leave(packet, adjacency);
    if too_long { Verdict::Fragment(port) } else { Verdict::Forward(port) }
}

/// The header checksum once the time to live is one less (RFC 1624, 3).
#[inline(always)]
fn one_less(sum: u16) -> u16 {
    let (sum, carry) = sum.overflowing_add(0x0100);
    // A checksum of 0xFFFF would mean a header of zeros.
    if carry || sum == 0xFFFF { sum.wrapping_add(1) } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_wire::checksum;

    #[test]
    fn the_checksum_follows_the_time_to_live_for_every_header() {
        for tail in 0..=u16::MAX {
            let mut ip = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 0];
            ip[18..].copy_from_slice(&tail.to_be_bytes());
            ip[8] = (tail % 254) as u8 + 2;
            let sum = checksum::checksum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            assert!(sum_is_right(&ip));
            ip[10] ^= 1;
            assert!(!sum_is_right(&ip));
            ip[10] ^= 1;
            ip[8] -= 1;
            assert!(!sum_is_right(&ip));
            ip[10..12].copy_from_slice(&one_less(sum).to_be_bytes());
            assert!(sum_is_right(&ip));
        }
    }
}
