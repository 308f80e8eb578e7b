//! The group's router on a node of its fabric: hosts' packets to the group's address are routed and
//! get their host's way to the neighbour, in one pass.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::common::{ipv4 as ipv4_frame, mac};
use crate::group_rig::{A, B, C, GROUP, HERE, LINK, THERE, TTL, Tables};
use crate::net::Node;
use plexus_config::Trust;
use plexus_io::{Checksum, Offload, Segmentation};
use plexus_plane::{DropReason, GroupKind, Injection, Punt};
use plexus_table::lpm::{Fib4, Fib6, GroupId};
use plexus_wire::fabric::{self, Kind, Repr};
use plexus_wire::{Protocol, checksum, frame, ipv4};
use proptest::prelude::*;

fn node(workers: usize) -> (Node, Fib4, Fib6) {
    node_that_trusts(workers, Trust::None)
}

/// A node whose hosts are in 10.0.0.0/24; B is in 10.1.0.0/24 and C in 10.2.0.0/24. Likewise in
/// 2001:db8::/64 and those that follow. `trust`: what its ports know traffic classes by.
fn node_that_trusts(workers: usize, trust: Trust) -> (Node, Fib4, Fib6) {
    let mut tables = Tables::new(u16::MAX);
    let hosts = [(A, [10, 0, 0, 1]), (B, [10, 1, 0, 1]), (C, [10, 2, 0, 1])];
    for (number, (station, address)) in (0..).zip(hosts) {
        tables.neighbour(number, station);
        tables.route4(address, 32, number);
        let address = Ipv6Addr::new(0x2001, 0xDB8, 0, number, 0, 0, 0, 1);
        tables.route6(address.octets(), 128, number);
    }
    tables.group(3, GroupKind::Glean, vec![]);
    tables.group(4, GroupKind::Local, vec![]);
    tables.route4([10, 1, 0, 0], 24, 3);
    (tables.node(3, workers, trust), tables.v4, tables.v6)
}

/// A TCP packet from A to an address, by the group.
fn packet(source: [u8; 4], destination: [u8; 4], payload: usize) -> Vec<u8> {
    let mut segment = vec![0, 9, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x10, 0, 0, 0, 0, 0];
    segment.extend((0..payload).map(|i| i as u8));
    ipv4_frame([mac(GROUP), mac(A)], [source, destination], (0, TTL, 6), &segment)
}

/// Asserts what routing has made of a packet between two stations.
fn assert_routed(frame: &[u8], to: u64, from: u64) {
    assert_eq!((&frame[..6], &frame[6..12]), (&mac(to).0[..], &mac(from).0[..]));
    let ip = ipv4::Packet::new_checked(&frame[14..]).unwrap();
    assert_eq!((ip.ttl(), ip.checksum_ok()), (TTL - 1, true));
}

/// The frame behind the header, which has the flag.
fn carried(frame: &[u8]) -> &[u8] {
    let fields = fabric::Fields::read(frame).unwrap();
    assert!(fields.is_routed());
    &frame[fields.header_len()..]
}

#[test]
fn a_packet_is_routed_and_leaves_by_its_hosts_way() {
    for workers in [1, 2] {
        let (mut node, ..) = node(workers);
        let out = node.rig.send(HERE, &packet([10, 0, 0, 1], [10, 1, 0, 1], 100));
        assert_eq!((out.len(), out[0].0), (1, LINK));
        let header = Repr::parse(&fabric::Frame::new_checked(&out[0].1[..]).unwrap()).unwrap();
        assert_eq!(header.forward[..], [4, 7]);
        // Inside the fabric its source is the host.
        assert_routed(carried(&out[0].1), B, A);
        // To a host here there is no header, and its source is the group.
        let out = node.rig.send(HERE, &packet([10, 0, 0, 1], [10, 2, 0, 1], 100));
        assert_eq!((out.len(), out[0].0), (1, THERE));
        assert_routed(&out[0].1, C, GROUP);
        let routed: u64 =
            node.rig.workers.iter().map(|w| w.pipeline().counters().ports[HERE].routed).sum();
        assert_eq!(routed, 2);
    }
}

#[test]
fn the_last_node_writes_the_groups_address() {
    let (mut node, ..) = node(1);
    let inner =
        [&[mac(C).0, mac(B).0].concat()[..], &packet([10, 1, 0, 1], [10, 2, 0, 1], 9)[12..]]
            .concat();
    let mut repr = Repr::new(Kind::Ethernet, &[THERE as u8]).unwrap();
    repr.reverse.push(5);
    let plain = [&repr.to_bytes().unwrap()[..], &inner].concat();
    assert_eq!(node.rig.send(LINK, &plain), [(THERE, inner.clone())]);
    let mut routed = plain;
    fabric::set_routed(&mut routed);
    let out = node.rig.send(LINK, &routed);
    assert_eq!((out[0].0, &out[0].1[6..12]), (THERE, &mac(GROUP).0[..]));
    assert_eq!((&out[0].1[..6], &out[0].1[12..]), (&inner[..6], &inner[12..]));
}

/// A TCP super-packet of A with 3,000 bytes, and what it owes: its checksum and its segments.
fn super_packet(to: [u8; 4]) -> (Vec<u8>, Offload) {
    let mut f = packet([10, 0, 0, 1], to, 3000);
    let ends = [[10, 0, 0, 1], to].map(Into::into);
    let len = (f.len() - 34) as u16;
    let pseudo = checksum::Sum::pseudo_v4(ends[0], ends[1], plexus_wire::Protocol(6), len);
    f[50..52].copy_from_slice(&pseudo.folded().to_be_bytes());
    let offload = Offload {
        checksum: Checksum::Partial,
        checksum_start: 34,
        checksum_offset: 16,
        segmentation: Segmentation::TcpV4,
        segment_size: 1400,
        header_len: 54,
    };
    (f, offload)
}

#[test]
fn the_control_plane_gets_segments_that_fit_its_links() {
    let (mut node, mut v4, _v6) = node(1);
    // The group's own address, and one whose station is not known.
    v4.insert(u32::from_be_bytes([10, 0, 0, 254]), 32, GroupId::new(4).unwrap()).unwrap();
    for (to, expected) in [([10, 0, 0, 254], Punt::Local), ([10, 1, 0, 77], Punt::Unresolved(None))]
    {
        let (f, offload) = super_packet(to);
        assert!(node.send_owing(HERE, &f, offload).is_empty());
        let punted = node.punted();
        let lens: Vec<usize> = punted.iter().map(|(.., bytes)| bytes.len()).collect();
        assert_eq!(lens, [1454, 1454, 254], "{expected:?}");
        let mut payload: Vec<u8> = Vec::new();
        for (punt, port, bytes) in &punted {
            assert_eq!((*punt, *port), (expected, 0));
            // Nothing is owed any more: the checksum is right.
            let ends = [26, 30].map(|at| <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap().into());
            let (tcp, protocol) = (&bytes[34..], plexus_wire::Protocol(6));
            let pseudo = checksum::Sum::pseudo_v4(ends[0], ends[1], protocol, tcp.len() as u16);
            assert!(pseudo.with(tcp).is_right());
            payload.extend(&bytes[54..]);
        }
        assert_eq!(payload, f[54..]);
    }
}

#[test]
fn each_segment_of_a_super_packet_is_routed() {
    for (workers, to) in [(1, B), (2, B), (1, C), (2, C)] {
        let (mut node, ..) = node(workers);
        let (f, offload) = super_packet([10, if to == B { 1 } else { 2 }, 0, 1]);
        let out = node.send_owing(HERE, &f, offload);
        assert_eq!(out.len(), 3);
        let mut payload: Vec<u8> = Vec::new();
        for (port, bytes) in &out {
            let segment = if to == B { carried(bytes) } else { &bytes[..] };
            assert_eq!(*port, if to == B { LINK } else { THERE });
            assert_routed(segment, to, if to == B { A } else { GROUP });
            payload.extend(&segment[54..]);
        }
        assert_eq!(payload, f[54..]);
    }
}

#[test]
fn without_a_way_the_control_plane_gets_the_packet_as_its_host_would_have_sent_it() {
    let (mut node, ..) = node(1);
    let key = plexus_table::RouteKey { destination: mac(B), source: None };
    node.tables.remove(HERE as u16, key);
    node.publish();
    assert!(node.rig.send(HERE, &packet([10, 0, 0, 1], [10, 1, 0, 1], 100)).is_empty());
    let punted = node.punted();
    assert!(matches!(&punted[..], [(Punt::Host, 0, _)]), "{punted:?}");
    assert_routed(&punted[0].2, B, A);
}

#[test]
fn only_its_own_address_lets_a_host_send() {
    let (mut node, ..) = node(1);
    for source in [[10, 2, 0, 1], [10, 1, 0, 1], [192, 0, 2, 1]] {
        assert!(node.rig.send(HERE, &packet(source, [10, 1, 0, 1], 100)).is_empty());
    }
    assert_eq!(node.rig.drops(HERE, DropReason::ReversePath), 3);
    // For an address that no station is known to have the control plane is asked: but not again
    // for a packet that it has sent back.
    let unknown = packet([10, 0, 0, 1], [10, 1, 0, 9], 100);
    assert!(node.rig.send(HERE, &unknown).is_empty());
    let punted = node.punted();
    assert!(matches!(&punted[..], [(Punt::Unresolved(None), 0, f)] if *f == unknown));
    assert!(node.rig.inject(&unknown, Injection::Routed(HERE as u16)).is_err());
    assert!(node.punted().is_empty());
    // It is asked too for one from an address that nobody has: its host may be about to get it.
    let early = packet([10, 1, 0, 9], [10, 2, 0, 1], 100);
    assert!(node.rig.send(HERE, &early).is_empty());
    assert!(matches!(&node.punted()[..], [(Punt::Unresolved(None), 0, _)]));
}

#[test]
fn a_way_that_was_used_ends_with_its_route_and_with_its_link() {
    let (mut node, ..) = node(1);
    let f = packet([10, 0, 0, 1], [10, 1, 0, 1], 100);
    for _ in 0..2 {
        assert_eq!(node.rig.send(HERE, &f).len(), 1);
    }
    // Another route.
    node.route(HERE as u16, mac(B), &[&[LINK as u8, 5]]);
    let out = node.rig.send(HERE, &f);
    let header = Repr::parse(&fabric::Frame::new_checked(&out[0].1[..]).unwrap()).unwrap();
    assert_eq!((header.forward[..].to_vec(), header.reverse[..].to_vec()), (vec![5], vec![0]));
    // None: its host is asked for one.
    node.tables.remove(HERE as u16, plexus_table::RouteKey { destination: mac(B), source: None });
    node.publish();
    assert!(node.rig.send(HERE, &f).is_empty());
    assert!(matches!(&node.punted()[..], [(Punt::Host, 0, _)]));
    // One whose link is down.
    node.route(HERE as u16, mac(B), &[&[LINK as u8, 5]]);
    assert_eq!(node.rig.send(HERE, &f).len(), 1);
    node.rig.plug(LINK, false);
    node.rig.maintain();
    assert!(node.rig.send(HERE, &f).is_empty());
    assert_eq!(node.rig.drops(HERE, DropReason::PortDown), 1);
}

#[test]
fn a_host_in_the_place_of_another_has_its_own_way() {
    let mut tables = Tables::new(u16::MAX);
    let hosts = 0..16u16;
    let station = |n: u16| 0x100 + u64::from(n);
    tables.neighbour(0, B);
    tables.route4([10, 1, 0, 1], 32, 0);
    for n in hosts.clone() {
        tables.neighbour(n + 1, station(n));
        tables.route4([10, 2, 0, n as u8], 32, n + 1);
    }
    let mut node = tables.node(3, 1, Trust::None);
    node.tables.expel(HERE as u16, mac(A));
    for n in hosts {
        // The plan's own change of hosts, and nothing else, ends the ways of the one before.
        node.host(HERE as u16, mac(station(n)));
        let key = plexus_table::RouteKey { destination: mac(B), source: Some(mac(station(n))) };
        let route = plexus_plane::route_along(HERE as u8, &[LINK as u8, n as u8]).unwrap();
        node.tables.install(HERE as u16, key, route.into());
        node.publish();
        let mut f = packet([10, 2, 0, n as u8], [10, 1, 0, 1], 100);
        f[6..12].copy_from_slice(&mac(station(n)).0);
        for _ in 0..2 {
            let out = node.rig.send(HERE, &f);
            let header = Repr::parse(&fabric::Frame::new_checked(&out[0].1[..]).unwrap()).unwrap();
            assert_eq!(header.forward[..], [n as u8]);
        }
        node.tables.expel(HERE as u16, mac(station(n)));
    }
}

/// What a host may send to the group: most of it right.
#[derive(Clone, Debug)]
struct Sent {
    port: usize,
    station: u64,
    v6: bool,
    source: u16,
    destination: u16,
    to: u64,
    ttl: u8,
    payload: usize,
    damage: Option<(usize, u8)>,
}

impl Sent {
    fn frame(&self) -> Vec<u8> {
        let address = |n: u16| match (self.v6, n) {
            (true, n) => Ipv6Addr::new(0x2001, 0xDB8, 0, n % 8, 0, 0, 0, 1 + n / 8).into(),
            (_, 7) => Ipv4Addr::new(224, 0, 0, 5).into(),
            (_, n) => Ipv4Addr::new(10, (n % 8) as u8, 0, 1 + (n / 8) as u8).into(),
        };
        let stations = (mac(self.station), mac(self.to));
        let ends = (address(self.source), address(self.destination));
        let payload = vec![7; self.payload];
        let mut f = frame::ip(stations, ends, (Protocol::UDP, self.ttl), &payload).unwrap();
        if let Some((at, bits)) = self.damage {
            let at = at % f.len();
            f[at] ^= bits;
        }
        f
    }
}

/// One of these numbers, most often the first.
fn mostly(usual: u16, others: std::ops::Range<u16>) -> impl Strategy<Value = u16> {
    prop_oneof![4 => Just(usual), 1 => others]
}

fn sent() -> impl Strategy<Value = Sent> {
    let ends = (prop_oneof![Just((HERE, A)), Just((THERE, C))], mostly(0, 0..20), mostly(1, 0..20));
    let mac = prop_oneof![9 => Just(GROUP), 1 => prop_oneof![Just(B), Just(A), Just(C)]];
    let damage = prop_oneof![6 => Just(None), 1 => (0..80_usize, 1..=255_u8).prop_map(Some)];
    let ttl = prop_oneof![6 => Just(64), 1 => 0..4_u8];
    let lies = prop_oneof![9 => Just(None), 1 => Just(Some(B))];
    (ends, any::<bool>(), mac, ttl, 0..300_usize, damage, lies).prop_map(
        |(((port, station), source, destination), v6, to, ttl, payload, damage, lie)| Sent {
            port,
            station: lie.unwrap_or(station),
            v6,
            source: if source == 0 && port == THERE { 2 } else { source },
            destination,
            to,
            ttl,
            payload,
            damage,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A port that trusts DSCP has no usual packets: what becomes of any packet is the same there.
    #[test]
    fn usual_packets_fare_as_all_others(
        batches in proptest::collection::vec(proptest::collection::vec(sent(), 1..40), 1..6),
    ) {
        let (mut quick, ..) = node_that_trusts(1, Trust::None);
        let (mut general, ..) = node_that_trusts(1, Trust::Dscp);
        for batch in batches {
            let results = [&mut quick, &mut general].map(|node| {
                for sent in &batch {
                    node.rig.offer(sent.port, &sent.frame());
                }
                node.rig.settle();
                let drops: Vec<u64> = DropReason::ALL
                    .iter()
                    .flat_map(|reason| [HERE, THERE].map(|port| node.rig.drops(port, *reason)))
                    .collect();
                let counters = node.rig.workers[0].pipeline().counters();
                let routed = [HERE, THERE].map(|port| counters.ports[port].routed);
                (node.rig.take(), node.punted(), drops, routed)
            });
            let [quick, general] = results;
            prop_assert_eq!(quick, general);
        }
    }
}
