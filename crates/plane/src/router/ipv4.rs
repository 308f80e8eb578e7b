//! IPv4: what a header must be (RFC 1812, 5.2.2), and what forwarding changes of it.

use plexus_config::ReversePath;
use plexus_io::{BATCH, Head, PORT_NONE, Packet};
use plexus_wire::ipv4;

use super::fib::FibBatch;
use super::plan::{Adjacency, Group, GroupKind, InterfacePlan};
use super::{ETHERNET, may_come_from, may_go_on};
use crate::context::Context;
use crate::drops::DropReason;
use crate::verdict::Punt;
use crate::verdict::Verdict;

/// Ethernet and IPv4 header without options.
pub(super) const HEADERS: usize = ETHERNET + ipv4::HEADER_LEN;
const TOTAL_LEN: usize = ETHERNET + 2;
const FLAGS: usize = ETHERNET + 6;
const TTL: usize = ETHERNET + 8;
const DONT_FRAGMENT: u8 = 0x40;

/// Checks a packet's header and source. Returns its destination, or the verdict if it goes no
/// farther.
#[inline(always)]
pub(super) fn check(
    context: &mut Context<'_>,
    fib: &FibBatch<'_>,
    interface: &InterfacePlan,
    packet: &Packet,
) -> Result<(u32, At), Verdict> {
    let Some((at, head)) = context.pool.heads().get(packet) else {
        return Err(Verdict::Drop(DropReason::BadIpHeader));
    };
    match usual_header(head, packet.len()) {
        Err(Unusual::First) => with_options(&context.pool.data(packet)[ETHERNET..])?,
        Err(Unusual::Bad(reason)) => return Err(Verdict::Drop(reason)),
        Ok(()) => {}
    }
    let [source, destination] = ends(head).map(u32::from_be_bytes);
    if is_martian(source) | is_martian(destination) {
        from_the_link(context, fib, source, destination)?;
    }
    if interface.reverse_path != ReversePath::Off && packet.in_port != PORT_NONE {
        let group = context.router.group(fib.find_v4(source));
        may_come_from(context, interface, group, packet)?;
    }
    Ok((destination, at))
}

/// Where the headers of a packet without options are.
pub(super) type At = Head<HEADERS>;

/// Parts of the headers that are still to be checked, by their packets' places in the batch: done
/// for many at once, without a branch, that costs each an instruction or two.
pub(super) struct Summaries {
    /// See [`sum`].
    pub(super) sums: [u64; BATCH],
    /// See [`ends`].
    pub(super) ends: [[[u8; 4]; 2]; BATCH],
}

impl Default for Summaries {
    fn default() -> Summaries {
        Summaries { sums: [0; BATCH], ends: [[[0; 4]; 2]; BATCH] }
    }
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
    if head[ETHERNET] != 0x45 {
        Err(Unusual::First)
    } else if payload_len(head) > len - HEADERS {
        Err(Unusual::Bad(DropReason::BadIpHeader))
    } else if !sum_is_right(sum(head)) {
        Err(Unusual::Bad(DropReason::IpChecksum))
    } else {
        Ok(())
    }
}

/// Bytes behind a header without options. If the total length is below the header's own, this is
/// more than any frame has.
#[inline(always)]
pub(super) fn payload_len(head: &[u8; HEADERS]) -> usize {
    let total_len = u16::from_be_bytes([head[TOTAL_LEN], head[TOTAL_LEN + 1]]);
    usize::from(total_len).wrapping_sub(ipv4::HEADER_LEN)
}

/// Source and destination.
#[inline(always)]
pub(super) fn ends(head: &[u8; HEADERS]) -> [[u8; 4]; 2] {
    let (ends, _) = head[HEADERS - 8..].as_chunks::<4>();
    *ends.first_chunk().unwrap_or(&[[0; 4]; 2])
}

/// The ones' complement sum over the header's words, four of them at a time; it is the same in any
/// order of bytes (RFC 1071, 2).
#[inline(always)]
pub(super) fn sum(head: &[u8; HEADERS]) -> u64 {
    let half = |at: usize| {
        let word = head[ETHERNET + at..].first_chunk::<8>();
        u64::from_ne_bytes(*word.unwrap_or(&[0; 8]))
    };
    let (first, second) = (half(0), half(8));
    let third = u32::from_ne_bytes(*head.last_chunk().unwrap_or(&[0; 4]));
    // A sum that overflows is at most two below 2^64: the carry fits.
    let (sum, carry) = first.overflowing_add(second);
    let (sum, carry) = (sum + u64::from(carry)).overflowing_add(third.into());
    sum + u64::from(carry)
}

/// Whether the words of a header with this sum come to 0xFFFF.
#[inline(always)]
pub(super) fn sum_is_right(sum: u64) -> bool {
    // Of a number and the same with its halves swapped, the upper half of the sum is that of both
    // halves with the carry: the lower half's overflow.
    let half = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    half.wrapping_add(half.rotate_left(16)) >> 16 == 0xFFFF
}

/// Addresses that no router forwards (RFC 1812, 5.3.7; RFC 6890): those that no packet on a network
/// has, and link-local ones (RFC 3927, 7).
#[inline(always)]
pub(super) fn is_martian(address: u32) -> bool {
    is_nowhere(address) | is_link_local(address)
}

/// This network, loopback, groups, class E and the limited broadcast.
#[inline(always)]
fn is_nowhere(address: u32) -> bool {
    // 0.0.0.0/8 and 224.0.0.0/3 are next to each other if addresses begin with 1.0.0.0.
    (address.wrapping_sub(0x0100_0000) >= 0xDF00_0000) | (address >> 24 == 127)
}

#[inline(always)]
fn is_link_local(address: u32) -> bool {
    address >> 16 == 0xA9FE
}

/// A neighbour may use link-local addresses to speak to the box, but not to stations beyond it.
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

/// Rewrites a packet for its group's one neighbour, where it is not too long, unless there is
/// something about it that [`forward`] must see: then it is as it was.
#[inline(always)]
pub(super) fn send(head: &mut [u8; HEADERS], adjacency: &Adjacency) -> bool {
    if !may_go_on(head[TTL]) {
        return false;
    }
    rewrite(head, adjacency);
    true
}

/// The same for a neighbour in the group: the source stays the host's.
#[inline(always)]
pub(super) fn send_in_group(head: &mut [u8; HEADERS], adjacency: &Adjacency) -> bool {
    if !may_go_on(head[TTL]) {
        return false;
    }
    head[..6].copy_from_slice(&adjacency.addresses[..6]);
    take_hop(head);
    true
}

/// Makes the changes that every forwarded packet gets.
#[inline(always)]
fn rewrite(head: &mut [u8; HEADERS], adjacency: &Adjacency) {
    head[..12].copy_from_slice(&adjacency.addresses);
    take_hop(head);
}

/// One step of the time to live.
#[inline(always)]
fn take_hop(head: &mut [u8; HEADERS]) {
    // Time to live, protocol and checksum in one load and one store.
    let Some(word) = head[TTL..].first_chunk_mut::<4>() else { return };
    *word = one_less(u32::from_le_bytes(*word)).to_le_bytes();
}

/// Rewrites a packet for the group's member that its flow goes to.
pub(super) fn forward(
    context: &mut Context<'_>,
    packet: &mut Packet,
    group: &Group,
    seed: u64,
) -> Verdict {
    let look = |head: &[u8; HEADERS]| {
        let total_len = u16::from_be_bytes([head[TOTAL_LEN], head[TOTAL_LEN + 1]]);
        (total_len.into(), head[FLAGS] & DONT_FRAGMENT == 0)
    };
    super::forward(context, packet, group, seed, TTL, look, rewrite)
}

/// Time to live, protocol and checksum, the first of these bytes lowest, once the time to live,
/// which is not zero, is one less (RFC 1624, 3).
#[inline(always)]
fn one_less(word: u32) -> u32 {
    // The checksum's upper byte, which gets one more, lies below the lower one: its carry goes
    // where it belongs.
    let word = word.wrapping_add(0x1_0000 - 1);
    if word.wrapping_add(0x1_0000) < 0x2_0000 { end_around(word) } else { word }
}

/// A checksum that has carried, or is 0xFFFF, which would mean a header of zeros. This is rare, so
/// a branch costs less than a conditional move.
#[cold]
#[inline(never)]
fn end_around(word: u32) -> u32 {
    word.wrapping_add(0x1_0000)
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
            sum_is_right(sum(&head))
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
            let word = one_less(u32::from_le_bytes(*ip[8..].first_chunk().unwrap()));
            ip[8] -= 1;
            assert!(!is_right(&ip));
            // One more in the upper byte, and never 0xFFFF (RFC 1624, 3: equation 3).
            let more = u32::from(sum) + 0x0100;
            let sum = (more + u32::from(more >= 0xFFFF)) as u16;
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            assert!(is_right(&ip));
            assert_eq!(word.to_le_bytes(), ip[8..12]);
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
