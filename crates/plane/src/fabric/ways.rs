//! Ready headers for packets that the router sends: the route memory's answer for a host and a
//! neighbour in the group. A worker keeps the last few thousand. They are as old as the plans that
//! they come from, and all are forgotten with these.

use plexus_io::PortId;
use plexus_table::prefetch;
use plexus_wire::fabric;

/// Entries: a power of two. 128 KiB for each worker of a node that routes. The ways of one host to
/// two neighbours with successive numbers share a cache line, which is one of two that they can be
/// in.
const WAYS: usize = 4096;
/// Bytes of the longest header that is kept: ten hops.
const HEADER_MAX: usize = 16;

/// One worker's ready headers.
#[derive(Default)]
pub(super) struct Ways {
    /// None before the first packet is routed.
    ways: Option<Box<[Way; WAYS]>>,
    /// Ways of another age are those of older plans. No way is of age 0.
    age: u32,
}

/// A way from a host to a neighbour.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Way {
    /// The host's Ethernet address and, above it, the number of its port.
    from: u64,
    age: u32,
    neighbour: u16,
    /// Where it leaves.
    pub(super) out: u8,
    /// Bytes of the header: the last ones of `header`, so that they are stored in one piece.
    pub(super) len: u8,
    pub(super) header: [u8; HEADER_MAX],
}

const _: () = assert!(size_of::<Way>() == 32);

const NOWHERE: Way = Way { from: 0, age: 0, neighbour: 0, out: 0, len: 0, header: [0; HEADER_MAX] };

impl Way {
    /// The way along a route by a native link; none if its header is too long to be kept.
    pub(super) fn along(out: u8, header: &[u8]) -> Option<Way> {
        let from = HEADER_MAX.checked_sub(header.len())?;
        let mut way = Way { out, len: header.len() as u8, ..NOWHERE };
        way.header[from..].copy_from_slice(header);
        fabric::set_routed(&mut way.header[from..]);
        Some(way)
    }
}

impl Ways {
    /// Other plans are in force.
    pub(super) fn forget(&mut self) {
        self.age = self.age.wrapping_add(1);
        if self.age == 0 {
            self.ways = None;
        }
    }

    /// The way from a host at a port to a neighbour will be searched for soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, port: PortId, host: u64, neighbour: u16) {
        if let Some(ways) = &self.ways {
            prefetch(&ways[place(host | u64::from(port) << 48, neighbour)]);
        }
    }

    /// The way from a host at a port to a neighbour.
    #[inline(always)]
    pub(super) fn find(&self, port: PortId, host: u64, neighbour: u16) -> Option<&Way> {
        let from = host | u64::from(port) << 48;
        let ways = self.ways.as_ref()?;
        let is_it =
            |way: &&Way| way.from == from && way.neighbour == neighbour && way.age == self.age;
        let at = place(from, neighbour);
        Some(&ways[at]).filter(is_it).or_else(|| Some(&ways[at ^ 2]).filter(is_it))
    }

    /// Keeps a way. The one in its place moves to the other line.
    pub(super) fn keep(&mut self, port: PortId, host: u64, neighbour: u16, way: Way) {
        let ways = self.ways.get_or_insert_with(|| {
            self.age = self.age.max(1);
            Box::new([NOWHERE; WAYS])
        });
        let from = host | u64::from(port) << 48;
        let at = place(from, neighbour);
        ways[at ^ 2] = ways[at];
        ways[at] = Way { from, age: self.age, neighbour, ..way };
    }
}

/// The place of a way. Hosts are admitted, and do not choose the numbers of neighbours: a hash that
/// they can guess costs one multiplication, and does no more harm than many hosts would.
#[inline(always)]
fn place(from: u64, neighbour: u16) -> usize {
    let key = from.wrapping_add(u64::from(neighbour >> 1) << 48);
    let line = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - WAYS.trailing_zeros() + 1);
    line as usize * 2 + usize::from(neighbour & 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_found_until_plans_change_and_only_for_its_host_port_and_neighbour() {
        let mut ways = Ways::default();
        assert!(ways.find(1, 0xA, 7).is_none());
        let header = [0, 0x0A, 0, 0x30, 0x10, 0, 4, 5, 6, 1];
        ways.keep(1, 0xA, 7, Way::along(3, &header).unwrap());
        let way = ways.find(1, 0xA, 7).unwrap();
        let mut routed = header;
        fabric::set_routed(&mut routed);
        assert_eq!((way.out, &way.header[HEADER_MAX - usize::from(way.len)..]), (3, &routed[..]));
        for (port, host, neighbour) in [(2, 0xA, 7), (1, 0xB, 7), (1, 0xA, 8)] {
            assert!(ways.find(port, host, neighbour).is_none());
        }
        ways.forget();
        assert!(ways.find(1, 0xA, 7).is_none());
        assert!(Way::along(3, &[0; HEADER_MAX + 1]).is_none());
    }

    #[test]
    fn many_ways_are_kept_at_once() {
        let mut ways = Ways::default();
        let all = || (0..8u16).flat_map(|port| (0..64u16).map(move |n| (port, 0xA0 + port, n)));
        for (port, host, n) in all() {
            ways.keep(port, host.into(), n, Way::along(n as u8, &[0; 10]).unwrap());
        }
        let right = |(port, host, n): &(u16, u16, u16)| {
            ways.find(*port, (*host).into(), *n).is_some_and(|way| way.out == *n as u8)
        };
        assert!(all().filter(right).count() > 500, "of 512");
    }
}
