//! Packets that are longer than the next link carries.

use crate::common::mac;
use crate::router_rig::{Router, VLANS, fix_sum, ipv4 as packet, ipv6, own};
use plexus_io::{Checksum, Offload, Segmentation};
use plexus_plane::{DropReason, Punt};
use plexus_wire::ipv4;
use proptest::prelude::*;

const HOST: [u8; 4] = [10, 0, 0, 9];
const FAR: [u8; 4] = [192, 0, 2, 1];

fn router(mtu: u16) -> Router {
    let mut router = Router::with(|i| {
        if i.vlan == VLANS[1] {
            i.mtu = mtu;
        }
    });
    router.neighbour(1, 1);
    router.route4([192, 0, 2, 0], 24, 1);
    router.route6("2001:db8::", 32, 1);
    router
}

/// Puts fragments together by RFC 791, 3.2, in the order in which they came. `first` is where the
/// payload belongs. Returns it, and whether more follows.
pub(crate) fn reassemble(frames: &[Vec<u8>], mtu: u16, first: usize) -> (Vec<u8>, bool) {
    let (mut bytes, mut more) = (Vec::new(), true);
    for frame in frames {
        let ip = ipv4::Packet::new_checked(&frame[14..]).unwrap();
        assert!(ip.checksum_ok() && ip.ttl() == 63 && ip.identification() == 0x1234);
        assert!(ip.total_len() <= usize::from(mtu), "{}", ip.total_len());
        assert!(more, "the last one comes last");
        assert_eq!(ip.fragment_offset(), first + bytes.len());
        bytes.extend(ip.payload());
        more = ip.more_fragments();
    }
    (bytes, more)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_pieces_of_a_packet_make_it_whole_again(
        len in 1usize..1600,
        mtu in 68u16..1500,
        offset in 0u16..100,
        more: bool,
        options in 0usize..3,
    ) {
        let mut router = router(mtu);
        // The payload of all fragments but the last is a multiple of eight (RFC 791, 3.1).
        let len = if more { len.next_multiple_of(8) } else { len };
        let payload: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
        let mut sent = packet(own(0), HOST, FAR, 64, &payload);
        let field = offset | if more { 0x2000 } else { 0 };
        sent[20..22].copy_from_slice(&field.to_be_bytes());
        // Record route (not copied) and router alert (copied), RFC 791, 3.1 and RFC 2113.
        let extra: &[u8] = [&[][..], &[7, 7, 4, 0, 0, 0, 0, 0], &[148, 4, 0, 0]][options];
        sent[14] += extra.len() as u8 / 4;
        let total = (20 + extra.len() + len) as u16;
        sent[16..18].copy_from_slice(&total.to_be_bytes());
        sent.splice(34..34, extra.iter().copied());
        fix_sum(&mut sent);
        let got = router.send(0, &sent);
        prop_assert!(got.iter().all(|(port, _)| *port == 1));
        let frames: Vec<Vec<u8>> = got.into_iter().map(|(_, f)| f).collect();
        prop_assert_eq!(frames.len() > 1, usize::from(total) > usize::from(mtu));
        let whole = reassemble(&frames, mtu, usize::from(offset) * 8);
        prop_assert_eq!(whole, (payload, more));
        for (i, frame) in frames.iter().enumerate() {
            prop_assert_eq!(&frame[..12], &[mac(1).0, own(1).0].concat()[..]);
            let kept = &frame[34..34 + extra.len()];
            let blanked: &[u8] = &[1, 1, 1, 1, 1, 1, 1, 0];
            let expected = if i > 0 && options == 1 { blanked } else { extra };
            prop_assert_eq!(kept, expected);
        }
    }
}

#[test]
fn what_may_not_be_cut_is_told_the_links_mtu() {
    let mut router = router(1280);
    let mut dont = packet(own(0), HOST, FAR, 64, &[1; 1261]);
    dont[20] = 0x40;
    fix_sum(&mut dont);
    let v6 = ipv6(own(0), "2001:db9::1", "2001:db8::1", 17, 64, &[1; 1241]);
    for mut sent in [dont, v6] {
        assert_eq!(router.send(0, &sent), []);
        // As much as an error may quote.
        sent.truncate(14 + 1280);
        assert_eq!(router.punted(), [(Punt::TooBig(1280), 0, VLANS[0], sent)]);
    }
    assert_eq!(router.drops(DropReason::TooBig), 2);
    let mut fits = packet(own(0), HOST, FAR, 64, &[1; 1260]);
    fits[20] = 0x40;
    fix_sum(&mut fits);
    assert_eq!(router.send(0, &fits).len(), 1);
    assert_eq!(
        router.send(0, &ipv6(own(0), "2001:db9::1", "2001:db8::1", 17, 64, &[1; 1240])).len(),
        1
    );
}

#[test]
fn a_super_packet_is_as_long_as_its_segments_whatever_its_metadata_says_of_headers() {
    let tcp = |len: usize| {
        let mut segment = vec![0u8, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 16, 0];
        segment.resize(20 + len, 0);
        segment
    };
    for v6 in [false, true] {
        let mut sent = match v6 {
            false => packet(own(0), HOST, FAR, 64, &tcp(1000)),
            true => ipv6(own(0), "2001:db9::1", "2001:db8::1", 6, 64, &tcp(1000)),
        };
        if !v6 {
            (sent[20], sent[23]) = (0x40, 6);
            fix_sum(&mut sent);
        }
        let transport = if v6 { 54 } else { 34 };
        let fits = 600 - (transport - 14) - 20;
        for (segment_size, fits) in [(fits, true), (fits + 1, false)] {
            // A kernel may call all of a short super-packet its header, or next to nothing of it.
            for header_len in [sent.len(), transport + 20, 0] {
                let mut router = router(600);
                let mut owing = router.rig.packet(0, &sent);
                owing.offload = Offload {
                    checksum: Checksum::Partial,
                    checksum_start: transport as u16,
                    checksum_offset: 16,
                    segmentation: if v6 { Segmentation::TcpV6 } else { Segmentation::TcpV4 },
                    segment_size: segment_size as u16,
                    header_len: header_len as u16,
                };
                router.rig.offer_packet(0, owing);
                router.rig.settle();
                let out = router.rig.take();
                assert_eq!(out.len(), if fits { 2 } else { 0 }, "{header_len} of {segment_size}");
                assert_eq!(router.punted().len(), usize::from(!fits));
            }
        }
    }
}

#[test]
fn a_fragment_that_ends_beyond_the_longest_datagram_is_not_cut() {
    let mut router = router(576);
    let mut sent = packet(own(0), HOST, FAR, 64, &[1; 1480]);
    // Its second piece would be at offset 568 of the same datagram.
    for (offset, len, pieces) in [(65_528, 1480, 0), (65_528, 7, 1), (64_000, 1480, 3)] {
        sent.truncate(34 + len);
        sent.resize(34 + len, 1);
        sent[16..18].copy_from_slice(&(20 + len as u16).to_be_bytes());
        sent[20..22].copy_from_slice(&(offset as u16 / 8).to_be_bytes());
        fix_sum(&mut sent);
        assert_eq!(router.send(0, &sent).len(), pieces, "{offset} {len}");
    }
    assert_eq!(router.drops(DropReason::BadIpHeader), 1);
}
