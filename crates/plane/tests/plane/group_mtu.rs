//! Packets that are longer than their neighbour takes, at the group's router: fragments, each with
//! the header of its host's way, and errors with the neighbour's MTU.

use crate::common::mac;
use crate::fragments::reassemble;
use crate::group_rig::{
    A, B, C, GROUP, HEADERS, HERE, LINK, PATH, THERE, node, packet, packet_v6, v4_of,
};
use plexus_io::{Checksum, Offload, Segmentation};
use plexus_plane::{DropReason, Punt};
use plexus_table::RouteKey;
use plexus_wire::fabric::{self, Repr};
use plexus_wire::{Protocol, checksum};
use proptest::prelude::*;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE: u16 = 0x2000;

/// The frames behind their headers, each of which is that of the way to B.
fn carried(out: Vec<(usize, Vec<u8>)>) -> Vec<Vec<u8>> {
    let each = out.into_iter().map(|(port, frame)| {
        assert_eq!(port, LINK);
        let header = Repr::parse(&fabric::Frame::new_checked(&frame[..]).unwrap()).unwrap();
        assert_eq!(header.forward[..], PATH[1..]);
        let fields = fabric::Fields::read(&frame).unwrap();
        assert!(fields.is_routed());
        frame[fields.header_len()..].to_vec()
    });
    each.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_fragments_of_a_packet_make_it_whole_again_and_each_has_its_hosts_way(
        len in 1usize..1480,
        mtu in 68u16..1500,
        offset in 0u16..100,
        more: bool,
        is_remote: bool,
        workers in 1usize..3,
    ) {
        let (mut node, ..) = node(workers, mtu);
        let len = if more { (len & !7).max(8) } else { len };
        let payload: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
        let to = if is_remote { B } else { C };
        let field = offset | if more { MORE } else { 0 };
        let out = node.rig.send(HERE, &packet(to, field, 17, &payload));
        let (frames, from) = match is_remote {
            true => (carried(out), A),
            false => {
                assert!(out.iter().all(|(port, _)| *port == THERE));
                (out.into_iter().map(|(_, frame)| frame).collect(), GROUP)
            }
        };
        for frame in &frames {
            prop_assert_eq!(&frame[..12], &[mac(to).0, mac(from).0].concat()[..]);
        }
        prop_assert_eq!(frames.len() > 1, 20 + len > usize::from(mtu));
        let whole = reassemble(&frames, mtu, usize::from(offset) * 8);
        prop_assert_eq!(whole, (payload, more));
    }
}

#[test]
fn a_checksum_that_is_owed_is_complete_before_the_packet_is_cut() {
    for to in [B, C] {
        let (mut node, ..) = node(1, 600);
        let mut payload = [0, 53, 0, 53, 0, 0, 0, 0].to_vec();
        payload.extend((0..1400).map(|i| i as u8));
        let len = payload.len() as u16;
        payload[4..6].copy_from_slice(&len.to_be_bytes());
        let ends = [v4_of(A), v4_of(to)].map(Into::into);
        let pseudo = checksum::Sum::pseudo_v4(ends[0], ends[1], Protocol::UDP, len);
        payload[6..8].copy_from_slice(&pseudo.folded().to_be_bytes());
        let offload = Offload {
            checksum: Checksum::Partial,
            checksum_start: HEADERS as u16,
            checksum_offset: 6,
            ..Offload::NONE
        };
        let out = node.send_owing(HERE, &packet(to, 0, 17, &payload), offload);
        let frames = match to {
            B => carried(out),
            _ => out.into_iter().map(|(_, frame)| frame).collect(),
        };
        assert_eq!(frames.len(), 3);
        let (datagram, _) = reassemble(&frames, 600, 0);
        assert!(pseudo.with(&datagram).is_right());
    }
}

#[test]
fn what_may_not_be_cut_is_told_the_neighbours_mtu() {
    let (mut node, ..) = node(1, 1280);
    let dont = packet(B, DONT_FRAGMENT, 17, &[1; 1261]);
    let v6 = packet_v6(B, 1241);
    for mut sent in [dont, v6] {
        assert!(node.rig.send(HERE, &sent).is_empty());
        sent.truncate(14 + 1280);
        assert_eq!(node.punted(), [(Punt::TooBig(1280), HERE as u16, sent)]);
    }
    assert_eq!(node.rig.drops(HERE, DropReason::TooBig), 2);
    let fit = [packet(B, DONT_FRAGMENT, 17, &[1; 1260]), packet_v6(B, 1240)];
    for fits in fit {
        assert_eq!(carried(node.rig.send(HERE, &fits)).len(), 1);
    }
}

#[test]
fn a_super_packet_is_as_long_as_its_segments() {
    let mut tcp = vec![0, 9, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 16, 0, 0, 0, 0, 0];
    tcp.resize(20 + 3000, 0);
    let sent = packet(B, DONT_FRAGMENT, 6, &tcp);
    for (segment_size, fits) in [(1240, true), (1241, false)] {
        let (mut node, ..) = node(1, 1280);
        let offload = Offload {
            checksum: Checksum::Partial,
            checksum_start: HEADERS as u16,
            checksum_offset: 16,
            segmentation: Segmentation::TcpV4,
            segment_size,
            header_len: 54,
        };
        let frames = carried(node.send_owing(HERE, &sent, offload));
        assert_eq!(frames.len(), if fits { 3 } else { 0 });
        let punts: Vec<Punt> = node.punted().into_iter().map(|(punt, ..)| punt).collect();
        assert_eq!(punts, if fits { vec![] } else { vec![Punt::TooBig(1280)] });
    }
}

#[test]
fn without_a_way_the_control_plane_gets_the_fragments() {
    let (mut node, ..) = node(1, 600);
    node.tables.remove(HERE as u16, RouteKey { destination: mac(B), source: None });
    node.publish();
    let payload: Vec<u8> = (0..1400).map(|i| i as u8).collect();
    assert!(node.rig.send(HERE, &packet(B, 0, 17, &payload)).is_empty());
    let punted = node.punted();
    let is_hosts = |p: &(Punt, u16, Vec<u8>)| (p.0, p.1) == (Punt::Host, HERE as u16);
    assert!(punted.iter().all(is_hosts), "{punted:?}");
    let frames: Vec<Vec<u8>> = punted.into_iter().map(|(.., frame)| frame).collect();
    assert!(frames.iter().all(|f| f[..12] == [mac(B).0, mac(A).0].concat()));
    assert_eq!(reassemble(&frames, 600, 0), (payload, false));
}

/// A host chooses what its device says of a packet: only the router says how long fragments are.
#[test]
fn the_length_that_a_host_writes_for_segments_is_not_that_of_fragments() {
    let (mut node, ..) = node(1, 600);
    let offload = Offload { segment_size: 28, ..Offload::NONE };
    let short = packet(B, 0, 17, &[1; 500]);
    assert_eq!(carried(node.send_owing(HERE, &short, offload)).len(), 1);
    let long = packet(B, 0, 17, &[1; 1000]);
    assert_eq!(carried(node.send_owing(HERE, &long, offload)).len(), 2);
}
