//! Packets that no router forwards, and fragments that are made to do harm, at the group's router.

use std::collections::BTreeSet;

use crate::common::mac;
use crate::group_rig::{B, HERE, LINK, TTL, node, packet, packet_v6};
use crate::router_rig::fix_sum;
use plexus_plane::{DropReason, Punt};
use plexus_wire::fabric::{self, Repr};
use plexus_wire::ipv4;

const MORE: u16 = 0x2000;

/// RFC 1812, 5.3.7; RFC 6890; RFC 4291, 2.7.
#[test]
fn martians_go_nowhere_and_nobody_is_told() {
    let (mut node, ..) = node(1, 1500);
    let v4 = [[0, 0, 0, 0], [0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 1], [239, 1, 2, 3]];
    let more = [[240, 0, 0, 1], [255, 255, 255, 255], [169, 254, 1, 1]];
    let mut sent = 0;
    for address in v4.into_iter().chain(more) {
        for at in [26, 30] {
            let mut martian = packet(B, 0, 17, &[0; 100]);
            martian[at..at + 4].copy_from_slice(&address);
            fix_sum(&mut martian);
            sent += 1;
            assert!(node.rig.send(HERE, &martian).is_empty());
            assert_eq!(node.rig.drops(HERE, DropReason::Martian), sent, "{address:?} at {at}");
        }
    }
    // The unspecified address, the loopback, groups, and an IPv4 address (RFC 4291, 2.5.5).
    let v6 = ["::", "::1", "ff02::1", "ff0e::1", "::ffff:10.11.0.1"];
    for text in v6 {
        sent += 1;
        let address = text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let mut martian = packet_v6(B, 100);
        martian[22..38].copy_from_slice(&address);
        assert!(node.rig.send(HERE, &martian).is_empty());
        let reasons = [DropReason::Martian, DropReason::ReversePath];
        let dropped = reasons.map(|reason| node.rig.drops(HERE, reason)).iter().sum::<u64>();
        assert_eq!(dropped, sent, "{text}");
    }
    assert!(node.punted().is_empty());
    assert_eq!(node.rig.send(HERE, &packet(B, 0, 17, &[0; 100])).len(), 1);
}

/// Fragments of eight bytes, at any place and over each other, are other packets: no box puts them
/// together, all of a flow take one way, and none changes what another one carries.
#[test]
fn tiny_and_overlapping_fragments_pass_one_by_one_on_one_way() {
    let (mut node, ..) = node(1, 600);
    node.route(HERE as u16, mac(B), &[&[LINK as u8, 4, 7], &[LINK as u8, 5, 7]]);
    let mut ways = BTreeSet::new();
    let offsets = [0, 1, 2, 1, 0, 7, 100, 0x1FFF];
    for (n, offset) in offsets.into_iter().enumerate() {
        // At 0 without more it is no fragment.
        for field in [offset, offset | MORE].into_iter().filter(|field| *field != 0) {
            let sent = packet(B, field, 6, &[n as u8; 8]);
            let out = node.rig.send(HERE, &sent);
            assert_eq!((out.len(), out[0].0), (1, LINK));
            let frame = &out[0].1;
            let header = Repr::parse(&fabric::Frame::new_checked(&frame[..]).unwrap()).unwrap();
            ways.insert(header.forward.to_vec());
            let inner = &frame[fabric::Fields::read(frame).unwrap().header_len()..];
            let ip = ipv4::Packet::new_checked(&inner[14..]).unwrap();
            assert!(ip.checksum_ok() && ip.ttl() == TTL - 1);
            assert_eq!((&inner[20..22], &inner[34..]), (&field.to_be_bytes()[..], &sent[34..]));
        }
    }
    assert_eq!(ways.len(), 1, "the first fragment, which has ports, goes with the others");
}

/// A flood of what is too long is dropped at the rate at which it comes; errors have a limit, and
/// other reasons have others.
#[test]
fn a_flood_of_packets_that_are_too_long_tells_the_control_plane_of_few() {
    let (mut node, ..) = node(1, 600);
    let long = packet(B, 0x4000, 17, &[1; 1000]);
    for _ in 0..2000 {
        assert!(node.rig.send(HERE, &long).is_empty());
    }
    let told = node.punted().len();
    assert!((1..=200).contains(&told), "{told}");
    assert_eq!(node.rig.drops(HERE, DropReason::TooBig), 2000);
    let mut dying = packet(B, 0, 17, &[1; 100]);
    dying[22] = 1;
    fix_sum(&mut dying);
    assert!(node.rig.send(HERE, &dying).is_empty());
    let told = node.punted();
    assert!(matches!(&told[..], [(Punt::Error(DropReason::TtlExpired), 0, _)]), "{told:?}");
}
