//! Ready headers for packets that the router sends: the route memory's answer for a host and a
//! neighbour. The neighbour is named by its group of next hops, in which it is alone: the
//! forwarding table's answer is such a group. A worker keeps the last few thousand headers. They
//! are as old as the plans that they come from, and all are forgotten with these.

use arrayvec::ArrayVec;
use plexus_io::{Head, Header, HeadsMut, Packet};
use plexus_table::lpm::GroupId;
use plexus_table::prefetch;
use plexus_wire::{ethernet, fabric};

use super::plan::HostId;
use crate::router::hosts::Onward;
use crate::verdict::Verdict;

/// Entries: a power of two. 128 KiB for each worker of a node that routes. The ways of one host to
/// groups with successive numbers follow each other.
const WAYS: usize = 4096;

/// One worker's ready headers.
#[derive(Default)]
pub(super) struct Ways {
    /// None before the first packet is routed.
    ways: Option<Box<Table>>,
    /// Ways of another age are those of older plans. No way is of age 0.
    age: u16,
}

/// A way from a host to a neighbour.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Way {
    /// Age, host and group.
    key: u64,
    header: Header,
    /// Where it leaves.
    out: u8,
}

const _: () = assert!(size_of::<Way>() == 32);

/// In whole cache lines of two ways.
#[repr(align(64))]
struct Table([Way; WAYS]);

const NOWHERE: Way = Way { key: 0, header: Header::EMPTY, out: 0 };

impl Way {
    /// The way along a route by a native link; none if its header is too long to be kept.
    pub(super) fn along(out: u8, header: &[u8]) -> Option<Way> {
        let mut header: ArrayVec<u8, { Header::ROOM }> = header.try_into().ok()?;
        fabric::set_routed(&mut header);
        Some(Way { header: Header::new(&header)?, out, ..NOWHERE })
    }
}

impl Ways {
    /// Other plans are in force.
    pub(super) fn forget(&mut self) {
        self.age = self.age.wrapping_add(1);
        if self.age == 0 {
            (self.ways, self.age) = (None, 1);
        }
    }

    /// The ways from a host.
    #[inline(always)]
    pub(super) fn of(&self, host: HostId) -> WaysOf<'_> {
        let key = self.key(host);
        WaysOf { ways: self.ways.as_deref().map(|table| &table.0), key, first: first(key) }
    }

    /// Keeps a way at its first place. One of the same age that is there moves to its other place.
    pub(super) fn keep(&mut self, host: HostId, group: Option<GroupId>, way: Way) {
        self.age = self.age.max(1);
        let key = self.key(host) | number(group);
        let Table(ways) = &mut **self.ways.get_or_insert_with(|| Box::new(Table([NOWHERE; WAYS])));
        let at = place(first(key), key);
        let displaced = std::mem::replace(&mut ways[at], Way { key, ..way });
        if displaced.key >> 48 == key >> 48 && displaced.key != key {
            let [one, other] = [first, second].map(|of| place(of(displaced.key), displaced.key));
            ways[if at == one { other } else { one }] = displaced;
        }
    }

    /// A key without the number of a group.
    #[inline(always)]
    fn key(&self, host: HostId) -> u64 {
        u64::from(self.age) << 48 | u64::from(host.number()) << 16
    }
}

/// The ways from one host.
#[derive(Clone, Copy)]
pub(crate) struct WaysOf<'a> {
    ways: Option<&'a [Way; WAYS]>,
    /// Their key without the number of a group.
    key: u64,
    /// Where they begin.
    first: usize,
}

impl WaysOf<'_> {
    /// The way to a group's neighbour.
    #[inline(always)]
    fn find(&self, group: Option<GroupId>) -> Option<&Way> {
        let (ways, number) = (self.ways?, number(group));
        let is_it = |way: &&Way| way.key == self.key | number;
        Some(&ways[place(self.first, number)])
            .filter(is_it)
            .or_else(|| Some(&ways[place(second(self.key), number)]).filter(is_it))
    }

    /// Whether the way to a group's neighbour is ready.
    pub(super) fn has(&self, group: Option<GroupId>) -> bool {
        self.find(group).is_some()
    }
}

impl Onward for WaysOf<'_> {
    #[inline(always)]
    fn expect(&self, groups: &[Option<GroupId>]) {
        let Some(ways) = self.ways else { return };
        groups.iter().for_each(|group| prefetch(&ways[place(self.first, number(*group))]));
    }

    /// False if the way is not ready or the packet owes work.
    #[inline(always)]
    fn send(
        &self,
        heads: &mut HeadsMut<'_>,
        packet: &mut Packet,
        at: Head<{ ethernet::HEADER_LEN }>,
        group: Option<GroupId>,
    ) -> bool {
        let Some(way) = self.find(group) else { return false };
        if !packet.is_finished() || !heads.push_front(packet, at, &way.header) {
            return false;
        }
        Verdict::Forward(way.out.into()).store(packet);
        true
    }
}

/// Where the ways of a host begin, by a key of one of them. It is an even number, at the beginning
/// of a cache line. Hosts are admitted, and do not choose their places in the plan: a hash that
/// they can guess costs one multiplication, and does no more harm than many hosts would.
#[inline(always)]
fn first(key: u64) -> usize {
    hash(key) as usize & (WAYS - 2)
}

/// Where those begin that have been displaced: elsewhere.
#[inline(always)]
fn second(key: u64) -> usize {
    let apart = (hash(key) >> WAYS.trailing_zeros()) as usize & (WAYS - 2);
    first(key) ^ if apart == 0 { WAYS / 2 } else { apart }
}

#[inline(always)]
fn hash(key: u64) -> u64 {
    // Of the host: its lower bits in the upper half of the product.
    u64::from((key >> 16) as u32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// The lowest bits of a key. No group has number 0.
#[inline(always)]
fn number(group: Option<GroupId>) -> u64 {
    group.map_or(0, |group| u64::from(group.number()) + 1)
}

/// The place of a way, by the number of its group in the lowest 16 bits.
#[inline(always)]
fn place(begin: usize, number: u64) -> usize {
    begin.wrapping_add(number as usize) & (WAYS - 1)
}

#[cfg(test)]
mod tests {
    use plexus_io::PortId;

    use super::*;

    fn host(port: PortId, place: usize) -> HostId {
        HostId::new(port, place).unwrap()
    }

    fn group(number: u16) -> Option<GroupId> {
        Some(GroupId::new(number).unwrap())
    }

    #[test]
    fn a_way_is_found_until_plans_change_and_only_for_its_host_port_and_group() {
        let mut ways = Ways::default();
        assert!(!ways.of(host(1, 0xA)).has(group(7)));
        let header = [0, 0x0A, 0, 0x30, 0x10, 0, 4, 5, 6, 1];
        ways.keep(host(1, 0xA), group(7), Way::along(3, &header).unwrap());
        let of_host = ways.of(host(1, 0xA));
        let way = of_host.find(group(7)).unwrap();
        let mut routed = header;
        fabric::set_routed(&mut routed);
        assert_eq!((way.out, way.header), (3, Header::new(&routed).unwrap()));
        for (port, place, number) in [(2, 0xA, 7), (1, 0xB, 7), (1, 0xA, 8)] {
            assert!(!ways.of(host(port, place)).has(group(number)));
        }
        ways.forget();
        assert!(!ways.of(host(1, 0xA)).has(group(7)));
        assert!(Way::along(3, &[0; Header::ROOM + 1]).is_none());
    }

    #[test]
    fn no_way_outlives_as_many_plans_as_there_are_ages() {
        let mut ways = Ways::default();
        ways.keep(host(0, 0), group(0), Way::along(3, &[0; 10]).unwrap());
        for _ in 0..=u16::MAX {
            ways.forget();
            assert!(!ways.of(host(0, 0)).has(group(0)));
        }
    }

    #[test]
    fn many_ways_are_kept_at_once() {
        let mut ways = Ways::default();
        let all = || (0..8u16).flat_map(|port| (0..64u16).map(move |n| (port, n)));
        for (port, n) in all() {
            ways.keep(host(port, 1), group(n), Way::along(n as u8, &[0; 10]).unwrap());
        }
        let is_right = |(port, n): &(u16, u16)| {
            ways.of(host(*port, 1)).find(group(*n)).is_some_and(|way| way.out == *n as u8)
        };
        assert_eq!(all().filter(is_right).count(), 512);
    }

    #[test]
    fn a_way_is_there_once_it_is_kept_whatever_was_in_its_place() {
        let hosts = || (0..4u16).flat_map(|port| (0..1024).map(move |place| host(port, place)));
        let mut ways = Ways::default();
        for host in hosts().cycle().take(3 * 4096) {
            ways.keep(host, group(7), Way::along(3, &[0; 10]).unwrap());
            assert!(ways.of(host).has(group(7)));
        }
    }

    #[test]
    fn hosts_beyond_the_numbers_have_no_ways() {
        assert_eq!(HostId::new(256, 0), None);
        assert_eq!(HostId::new(0, 1 << 24), None);
        assert_ne!(HostId::new(1, 0), HostId::new(0, 1));
    }
}
