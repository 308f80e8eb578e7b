use std::net::{Ipv4Addr, Ipv6Addr};

use plexus_wire::{Protocol, checksum, tcp, udp};
use proptest::prelude::*;

use super::*;

/// A TCP or UDP super-packet with `payload` bytes, its checksum partial, as a host's stack sends
/// it; `tags` 802.1Q tags in front.
fn super_packet(pool: &mut Pool, v6: bool, tcp: bool, tags: usize, payload: &[u8]) -> Packet {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    (0..tags).for_each(|_| frame.extend([0x81, 0x00, 0x00, 0x0A]));
    frame.extend(if v6 { [0x86, 0xDD] } else { [0x08, 0x00] });
    let transport_len = if tcp { 32 } else { 8 } + payload.len();
    let ip = frame.len();
    if v6 {
        frame.extend([0x60, 0, 0, 0]);
        frame.extend((transport_len as u16).to_be_bytes());
        frame.extend([if tcp { 6 } else { 17 }, 64]);
        frame.extend(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 1).octets());
        frame.extend(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 2).octets());
    } else {
        frame.extend([0x45, 0]);
        frame.extend((20 + transport_len as u16).to_be_bytes());
        frame.extend([0xFF, 0xFE, 0x40, 0, 64, if tcp { 6 } else { 17 }, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = checksum::checksum(&frame[ip..]);
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    }
    let transport = frame.len();
    if tcp {
        frame.extend([0x12, 0x34, 0, 80, 0xFF, 0xFF, 0xFF, 0x00, 0, 0, 0, 1]);
        // 12 bytes of options; FIN, PSH, ACK and CWR set.
        frame.extend([0x80, 0x99, 0x10, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    } else {
        frame.extend([0x12, 0x34, 0, 80]);
        frame.extend((transport_len as u16).to_be_bytes());
        frame.extend([0, 0]);
    }
    let offset = if tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
    let protocol = Protocol(if tcp { 6 } else { 17 });
    let pseudo = pseudo(&frame[ip..], v6, protocol, transport_len);
    frame[transport + offset..][..2].copy_from_slice(&pseudo.folded().to_be_bytes());
    frame.extend(payload);
    let mut packet = pool.alloc_from(&frame).unwrap();
    packet.offload = Offload {
        checksum: Checksum::Partial,
        segmentation: match (tcp, v6) {
            (true, false) => Segmentation::TcpV4Ecn,
            (true, true) => Segmentation::TcpV6,
            (false, _) => Segmentation::Udp,
        },
        checksum_start: transport as u16,
        checksum_offset: offset as u16,
        segment_size: 1000,
        header_len: (frame.len() - payload.len()) as u16,
    };
    packet
}

fn pseudo(ip: &[u8], v6: bool, protocol: Protocol, len: usize) -> Sum {
    if v6 {
        let p = ipv6::Packet::new_checked(ip).map(|p| (p.src(), p.dst()));
        let (src, dst) = p.unwrap_or_else(|_| {
            let at = |i: usize| <[u8; 16]>::try_from(&ip[i..i + 16]).unwrap().into();
            (at(8), at(24))
        });
        Sum::pseudo_v6(src, dst, protocol, len as u32)
    } else {
        let at = |i: usize| Ipv4Addr::new(ip[i], ip[i + 1], ip[i + 2], ip[i + 3]);
        Sum::pseudo_v4(at(12), at(16), protocol, len as u16)
    }
}

/// Cuts a super-packet behind a `front` and checks every frame as a receiver would; returns the
/// payloads joined, and the TCP flags of each frame.
fn cut_and_check(
    v6: bool,
    tcp: bool,
    front: &[u8],
    tags: usize,
    payload: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let mut pool = Pool::new(128, 69_632).unwrap();
    let mut whole = super_packet(&mut pool, v6, tcp, tags, payload);
    assert!(pool.push_front(&mut whole, front.len()));
    pool.data_mut(&mut whole)[..front.len()].copy_from_slice(front);
    let mut segments = Segments::new(&pool, whole, front.len(), 1514).unwrap();
    assert_eq!(segments.remaining(), payload.len().div_ceil(1000));
    let (mut joined, mut flags) = (Vec::new(), Vec::new());
    let ip = 14 + 4 * tags;
    while segments.remaining() > 0 {
        let part = segments.next(&mut pool).unwrap();
        assert_eq!(part.offload, Offload::NONE);
        let frame = pool.data(&part).strip_prefix(front).unwrap();
        let transport = if v6 {
            ipv6::Packet::new_checked(&frame[ip..]).unwrap().payload()
        } else {
            let packet = ipv4::Packet::new_checked(&frame[ip..]).unwrap();
            assert!(packet.checksum_ok());
            assert_eq!(packet.identification(), 0xFFFEu16.wrapping_add(flags.len() as u16));
            packet.payload()
        };
        let protocol = Protocol(if tcp { 6 } else { 17 });
        let pseudo = pseudo(&frame[ip..], v6, protocol, transport.len());
        if tcp {
            let segment = tcp::Segment::new_checked(transport).unwrap();
            assert!(segment.checksum_ok(pseudo));
            assert_eq!(segment.seq(), 0xFFFF_FF00u32.wrapping_add(joined.len() as u32));
            flags.push(transport[13]);
            joined.extend(segment.payload());
        } else {
            let datagram = udp::Datagram::new_checked(transport).unwrap();
            assert!(datagram.checksum() != 0 && datagram.checksum_ok(pseudo));
            flags.push(0);
            joined.extend(datagram.payload());
        }
        pool.free(part);
    }
    pool.free(segments.into_whole());
    assert_eq!(pool.available(), pool.frames());
    (joined, flags)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn segments_carry_the_payload_in_valid_packets(
        v6: bool, tcp: bool, tags in 0usize..3,
        front in prop::collection::vec(any::<u8>(), 0..120),
        payload in prop::collection::vec(any::<u8>(), 1..9000),
    ) {
        let (joined, flags) = cut_and_check(v6, tcp, &front, tags, &payload);
        prop_assert_eq!(joined, payload);
        if tcp {
            let last = flags.len() - 1;
            for (i, f) in flags.into_iter().enumerate() {
                prop_assert_eq!(f & FLAG_CWR != 0, i == 0);
                prop_assert_eq!(f & (FLAG_FIN | FLAG_PSH) != 0, i == last);
            }
        }
    }

    #[test]
    fn lying_metadata_neither_panics_nor_loses_a_frame(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        ip in prop_oneof![Just([0x08, 0x00, 0x45]), Just([0x86, 0xDD, 0x60]), any::<[u8; 3]>()],
        kind in 1u8..6, start: u16, offset: u16, size: u16, front in 0usize..20,
    ) {
        let mut pool = Pool::new(70_000, 2048).unwrap();
        let mut frame = vec![0; 12];
        frame.extend(ip);
        frame.extend(bytes);
        let mut packet = pool.alloc_from(&frame).unwrap();
        let _ = mark_congestion(&mut pool, &mut packet, front);
        packet.offload = Offload {
            checksum: Checksum::Partial,
            segmentation: match kind {
                1 => Segmentation::TcpV4,
                2 => Segmentation::TcpV4Ecn,
                3 => Segmentation::TcpV6,
                4 => Segmentation::TcpV6Ecn,
                _ => Segmentation::Udp,
            },
            checksum_start: start % 256,
            checksum_offset: offset % 64,
            segment_size: size % 64,
            header_len: size,
        };
        let _ = complete_checksum(&mut pool, &mut packet, front);
        packet.offload.checksum = Checksum::Partial;
        match Segments::new(&pool, packet, front, 1514) {
            Ok(mut segments) => {
                while segments.remaining() > 0 {
                    let part = segments.next(&mut pool).unwrap();
                    pool.free(part);
                }
                pool.free(segments.into_whole());
            }
            Err(packet) => pool.free(packet),
        }
        prop_assert_eq!(pool.available(), pool.frames());
    }
}

#[test]
fn a_completed_checksum_is_what_the_receiver_computes() {
    for (v6, tcp) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut pool = Pool::new(2, 2048).unwrap();
        let mut packet = super_packet(&mut pool, v6, tcp, 0, b"seven b");
        assert!(complete_checksum(&mut pool, &mut packet, 0));
        let frame = pool.data(&packet);
        let transport = &frame[if v6 { 54 } else { 34 }..];
        let pseudo = pseudo(&frame[14..], v6, Protocol(if tcp { 6 } else { 17 }), transport.len());
        let good = if tcp {
            tcp::Segment::new_checked(transport).unwrap().checksum_ok(pseudo)
        } else {
            udp::Datagram::new_checked(transport).unwrap().checksum_ok(pseudo)
        };
        assert!(good, "v6 {v6} tcp {tcp}");
        pool.free(packet);
    }
}

#[test]
fn only_capable_packets_are_marked() {
    let mut pool = Pool::new(2, 2048).unwrap();
    for (ecn, marked) in [(0, false), (1, true), (2, true), (3, false)] {
        let mut packet = super_packet(&mut pool, false, true, 1, b"x");
        {
            let data = pool.data_mut(&mut packet);
            ipv4::Packet::new_checked(&mut data[18..]).unwrap().set_ecn(ecn);
        }
        assert_eq!(mark_congestion(&mut pool, &mut packet, 0), marked);
        let ip = ipv4::Packet::new_checked(&pool.data(&packet)[18..]).unwrap();
        assert!(ip.checksum_ok());
        assert_eq!(ip.ecn(), if marked { 3 } else { ecn });
        pool.free(packet);
    }
}
