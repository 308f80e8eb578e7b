//! IPv6: what a header must be (RFC 8200, 3), and what forwarding changes of it.

use plexus_config::ReversePath;
use plexus_io::{Head, PORT_NONE, Packet};
use plexus_wire::ipv6;

use super::fib::FibBatch;
use super::plan::{Adjacency, Group, GroupKind, InterfacePlan};
use super::{ETHERNET, IPV6, may_come_from, may_go_on};
use crate::context::Context;
use crate::drops::DropReason;
use crate::verdict::Punt;
use crate::verdict::Verdict;

/// Ethernet and IPv6 header.
pub(super) const HEADERS: usize = ETHERNET + ipv6::HEADER_LEN;
const PAYLOAD_LEN: usize = ETHERNET + 4;
const NEXT_HEADER: usize = ETHERNET + 6;
const HOP_LIMIT: usize = ETHERNET + 7;
const ICMPV6: u8 = 58;

/// Where the headers of a packet are.
pub(super) type At = Head<HEADERS>;

/// Checks a packet's header and source. Returns its destination, `None` if that is on the link, or
/// the verdict if it goes no farther.
#[inline(always)]
pub(super) fn check(
    context: &mut Context<'_>,
    fib: &FibBatch<'_>,
    interface: &InterfacePlan,
    packet: &Packet,
) -> Result<Option<(u128, At)>, Verdict> {
    let Some((at, head)) = context.pool.heads().get(packet) else {
        return Err(Verdict::Drop(DropReason::BadIpHeader));
    };
    let (source, destination) =
        ends(head, packet.len()).ok_or(Verdict::Drop(DropReason::BadIpHeader))?;
    if is_martian(source) | is_martian(destination) {
        return Err(Verdict::Drop(DropReason::Martian));
    }
    if is_link_local(destination) {
        return Ok(None);
    }
    if is_link_local(source) {
        return from_the_link(context, fib, destination).map(|()| None);
    }
    if interface.reverse_path != ReversePath::Off && packet.in_port != PORT_NONE {
        let group = context.router.group(fib.find_v6(source));
        may_come_from(context, interface, group, packet)?;
    }
    Ok(Some((destination, at)))
}

/// The destination of a packet whose header is right, and that comes from and goes beyond the link.
/// `len`: bytes of the frame.
#[inline(always)]
pub(super) fn usual(head: &[u8; HEADERS], len: usize) -> Option<u128> {
    let (source, destination) = ends(head, len)?;
    (is_beyond_the_link(source) && is_beyond_the_link(destination)).then_some(destination)
}

/// Whether a router may forward packets from and to an address.
#[inline(always)]
pub(super) fn is_beyond_the_link(address: u128) -> bool {
    !is_martian(address) && !is_link_local(address)
}

/// Source and destination of a header that is right. `len`: bytes of the frame.
#[inline(always)]
fn ends(head: &[u8; HEADERS], len: usize) -> Option<(u128, u128)> {
    let payload_len = usize::from(u16::from_be_bytes([head[PAYLOAD_LEN], head[PAYLOAD_LEN + 1]]));
    // A jumbo payload (RFC 2675) says length zero; no link is that large.
    if head[ETHERNET] >> 4 != 6 || payload_len > len - HEADERS {
        return None;
    }
    let (addresses, _) = head[ETHERNET + 8..].as_chunks::<16>();
    Some((u128::from_be_bytes(addresses[0]), u128::from_be_bytes(addresses[1])))
}

/// The source, as its bytes are.
#[inline(always)]
pub(super) fn source(head: &[u8; HEADERS]) -> [u8; 16] {
    *head[ETHERNET + 8..].first_chunk().unwrap_or(&[0; 16])
}

/// Addresses that are no station's: groups, the unspecified and the loopback address, and those
/// that stand for IPv4 ones within a host (RFC 4291, 2.5 and 2.7).
#[inline(always)]
fn is_martian(address: u128) -> bool {
    let group = address >> 120 == 0xFF;
    group | (address <= 1) | (address >> 32 == 0xFFFF)
}

#[inline(always)]
fn is_link_local(address: u128) -> bool {
    address >> 118 == 0xFE80 >> 6
}

/// A neighbour may use its link-local address to speak to the box, but not to stations beyond it
/// (RFC 4291, 2.5.6).
#[cold]
fn from_the_link(
    context: &Context<'_>,
    fib: &FibBatch<'_>,
    destination: u128,
) -> Result<(), Verdict> {
    let group = context.router.group(fib.find_v6(destination));
    match group.kind {
        GroupKind::Local => Ok(()),
        _ => Err(Verdict::Control(Punt::Error(DropReason::BeyondScope))),
    }
}

/// Whether an untagged frame is neighbour discovery (RFC 4861, 4): ICMPv6 types 133 to 137, with
/// a hop limit that no router has touched.
#[inline]
pub(super) fn is_discovery(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&IPV6)
        && frame.get(NEXT_HEADER) == Some(&ICMPV6)
        && frame.get(HOP_LIMIT) == Some(&255)
        && matches!(frame.get(HEADERS), Some(133..=137))
}

/// Rewrites a packet for its group's one neighbour, where it is not too long, unless there is
/// something about it that [`forward`] must see: then it is as it was.
#[inline(always)]
pub(super) fn send(head: &mut [u8; HEADERS], adjacency: &Adjacency) -> bool {
    if !may_go_on(head[HOP_LIMIT]) {
        return false;
    }
    rewrite(head, adjacency);
    true
}

/// The same for a neighbour in the group: the source stays the host's.
#[inline(always)]
pub(super) fn send_in_group(head: &mut [u8; HEADERS], adjacency: &Adjacency) -> bool {
    if !may_go_on(head[HOP_LIMIT]) {
        return false;
    }
    head[..6].copy_from_slice(&adjacency.addresses[..6]);
    head[HOP_LIMIT] -= 1;
    true
}

/// Makes the changes that every forwarded packet gets.
#[inline(always)]
fn rewrite(head: &mut [u8; HEADERS], adjacency: &Adjacency) {
    head[..12].copy_from_slice(&adjacency.addresses);
    head[HOP_LIMIT] -= 1;
}

/// Rewrites a packet for the group's member that its flow goes to.
pub(super) fn forward(
    context: &mut Context<'_>,
    packet: &mut Packet,
    group: &Group,
    seed: u64,
) -> Verdict {
    let look = |head: &[u8; HEADERS]| {
        let payload_len = u16::from_be_bytes([head[PAYLOAD_LEN], head[PAYLOAD_LEN + 1]]);
        (usize::from(payload_len) + ipv6::HEADER_LEN, false)
    };
    super::forward(context, packet, group, seed, HOP_LIMIT, look, rewrite)
}
