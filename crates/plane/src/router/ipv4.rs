//! IPv4: what a header must be (RFC 1812, 5.2.2), and what forwarding changes of it.

use plexus_config::ReversePath;
use plexus_io::{PORT_NONE, Packet, Pool, Segmentation};
use plexus_wire::ipv4;

use super::fib::FibBatch;
use super::plan::{Adjacency, Group, GroupKind, InterfacePlan};
use super::{ETHERNET, flow_hash, longest, may_come_from};
use crate::drops::DropReason;
use crate::fabric::Punt;
use crate::pipeline::Context;
use crate::verdict::Verdict;

/// Ethernet and IPv4 header without options.
const HEADERS: usize = ETHERNET + ipv4::HEADER_LEN;
const TOTAL_LEN: usize = ETHERNET + 2;
const FLAGS: usize = ETHERNET + 6;
const TTL: usize = ETHERNET + 8;
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
    match usual_header(head, frame.len()) {
        Err(Unusual::First) => with_options(&frame[ETHERNET..])?,
        Err(Unusual::Bad(reason)) => return Err(Verdict::Drop(reason)),
        Ok(()) => {}
    }
    let (source, destination) = ends(head);
    if is_martian(source) | is_martian(destination) {
        from_the_link(context, fib, source, destination)?;
    }
    if interface.reverse_path != ReversePath::Off && packet.in_port != PORT_NONE {
        let group = context.router.group(fib.find_v4(source));
        if !may_come_from(context, interface, group) {
            return Err(Verdict::Drop(DropReason::ReversePath));
        }
    }
    Ok(destination)
}

/// The destination of a packet without options whose header is right.
#[inline(always)]
pub(super) fn usual(frame: &[u8]) -> Option<u32> {
    let head = frame.first_chunk::<HEADERS>()?;
    usual_header(head, frame.len()).ok()?;
    let (source, destination) = ends(head);
    (!is_martian(source) && !is_martian(destination)).then_some(destination)
}

/// Why a header is not the usual one.
enum Unusual {
    /// Its first byte: it has options, or is no IPv4 header.
    First,
    Bad(DropReason),
}

/// Whether a header has no options and is right. `len`: bytes of the frame.
#[inline(always)]
fn usual_header(head: &[u8; HEADERS], len: usize) -> Result<(), Unusual> {
    let total_len = usize::from(u16::from_be_bytes([head[TOTAL_LEN], head[TOTAL_LEN + 1]]));
    if head[ETHERNET] != 0x45 {
        Err(Unusual::First)
    } else if total_len < ipv4::HEADER_LEN || total_len > len - ETHERNET {
        Err(Unusual::Bad(DropReason::BadIpHeader))
    } else if !sum_is_right(head) {
        Err(Unusual::Bad(DropReason::IpChecksum))
    } else {
        Ok(())
    }
}

/// Source and destination.
#[inline(always)]
fn ends(head: &[u8; HEADERS]) -> (u32, u32) {
    let both = u64::from_be_bytes(*head.last_chunk().unwrap_or(&[0; 8]));
    ((both >> 32) as u32, both as u32)
}

/// The ones' complement sum over the header's words, which is the same in any order of bytes
/// (RFC 1071, 2).
#[inline(always)]
fn sum_is_right(head: &[u8; HEADERS]) -> bool {
    let half = |at: usize| {
        let word = head[ETHERNET + at..].first_chunk::<8>();
        u64::from_ne_bytes(*word.unwrap_or(&[0; 8]))
    };
    let (first, second) = (half(0), half(8));
    let third = u32::from_ne_bytes(*head.last_chunk().unwrap_or(&[0; 4]));
    let (sum, carry) = first.overflowing_add(second);
    let (sum, carries) = (u128::from(sum) + u128::from(third), u64::from(carry));
    let (sum, carries) = (sum as u64, carries + (sum >> 64) as u64);
    let sum = (sum & 0xFFFF_FFFF) + (sum >> 32) + carries;
    // Below 2^33 + 2, then below 2^18, of which three come to 0xFFFF.
    let sum = (sum & 0xFFFF) + (sum >> 16);
    (sum & 0xFFFF) + (sum >> 16) == 0xFFFF
}

/// Addresses that no router forwards (RFC 1812, 5.3.7; RFC 6890): those that no packet on a network
/// has, and link-local ones (RFC 3927, 7).
#[inline(always)]
fn is_martian(address: u32) -> bool {
    is_nowhere(address) || is_link_local(address)
}

/// This network, loopback, groups, class E and the limited broadcast.
#[inline(always)]
fn is_nowhere(address: u32) -> bool {
    /// Bit for each first byte: of 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/3.
    const FIRST: [u64; 4] = [1, 1 << 63, 0, 0xFFFF_FFFF << 32];
    FIRST[(address >> 30) as usize] >> (address >> 24 & 63) & 1 != 0
}

#[inline(always)]
fn is_link_local(address: u32) -> bool {
    address >> 16 == 0xA9FE
}

/// A neighbour may speak to the box by link-local addresses, but not to anybody beyond.
#[cold]
fn from_the_link(
    context: &Context<'_>,
    fib: &FibBatch<'_>,
    source: u32,
    destination: u32,
) -> Result<(), Verdict> {
    let is_ours = || context.router.group(fib.find_v4(destination)).kind == GroupKind::Local;
    match is_nowhere(source) || is_nowhere(destination) || !is_ours() {
        true => Err(Verdict::Drop(DropReason::Martian)),
        false => Ok(()),
    }
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

/// Sends a packet to its group's one neighbour, unless there is something about it that
/// [`forward`] must see: then it is as it was.
#[inline(always)]
pub(super) fn send(pool: &mut Pool, packet: &mut Packet, group: &Group) -> bool {
    let Some(head) = pool.data_mut(packet).first_chunk_mut::<HEADERS>() else { return false };
    let total_len = u16::from_be_bytes([head[TOTAL_LEN], head[TOTAL_LEN + 1]]);
    if head[TTL] <= 1 || total_len > group.adjacency.mtu || !group.is_ready {
        return false;
    }
    rewrite(head, &group.adjacency);
    true
}

/// What sending changes of a packet.
#[inline(always)]
fn rewrite(head: &mut [u8; HEADERS], adjacency: &Adjacency) {
    head[..12].copy_from_slice(&adjacency.addresses);
    // Time to live, protocol and checksum in one load and one store.
    let Some(word) = head[TTL..].first_chunk_mut::<4>() else { return };
    let [ttl, protocol, high, low] = *word;
    let [high, low] = one_less(u16::from_be_bytes([high, low])).to_be_bytes();
    *word = [ttl - 1, protocol, high, low];
}

/// Rewrites a packet for the group's member that its flow goes to.
pub(super) fn forward(
    context: &mut Context<'_>,
    packet: &mut Packet,
    group: &Group,
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
    rewrite(head, adjacency);
    plan.mark_used(neighbour);
    packet.vlan = adjacency.vlan;
    match too_long {
        true => Verdict::Fragment(adjacency.port),
        false => Verdict::Forward(adjacency.port),
    }
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
        let is_right = |ip: &[u8; 20]| {
            let mut head = [0xA5; HEADERS];
            head[ETHERNET..].copy_from_slice(ip);
            sum_is_right(&head)
        };
        for tail in 0..=u16::MAX {
            let mut ip = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 0];
            ip[18..].copy_from_slice(&tail.to_be_bytes());
            ip[8] = (tail % 254) as u8 + 2;
            let sum = checksum::checksum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            assert!(is_right(&ip));
            ip[10] ^= 1;
            assert!(!is_right(&ip));
            ip[10] ^= 1;
            ip[8] -= 1;
            assert!(!is_right(&ip));
            ip[10..12].copy_from_slice(&one_less(sum).to_be_bytes());
            assert!(is_right(&ip));
        }
    }

    #[test]
    fn martians_are_those_of_the_rfcs() {
        for first in 0..=255u32 {
            for rest in [0, 1, 0xFE_0000, 0xFE_FFFF, 0xFD_FFFF, 0xFF_0000, 0xFF_FFFF] {
                let martian = matches!(first, 0 | 127 | 224..) || first << 8 | rest >> 16 == 0xA9FE;
                assert_eq!(is_martian(first << 24 | rest), martian, "{first} {rest:x}");
            }
        }
    }
}
