use proptest::prelude::*;

use super::*;
use crate::tcp;

/// A TCP segment in an IP packet whose checksum holds the pseudo-header's sum, behind `headers`.
fn segment(v6: bool, payload: &[u8]) -> Vec<u8> {
    let mut tcp = vec![0; tcp::HEADER_LEN];
    tcp[12] = 5 << 4;
    tcp[13] = 0x18;
    tcp.extend(payload);
    in_ip(v6, Protocol::TCP, TCP_OFFSET, tcp)
}

fn in_ip(v6: bool, protocol: Protocol, checksum: usize, mut upper: Vec<u8>) -> Vec<u8> {
    let len = upper.len();
    let (sum, mut packet) = if v6 {
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let mut header = vec![0; ipv6::HEADER_LEN];
        ipv6::Repr::new(src, dst, protocol, len).emit(&mut header).unwrap();
        (Sum::pseudo_v6(src, dst, protocol, len as u32), header)
    } else {
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut header = vec![0; ipv4::HEADER_LEN];
        ipv4::Repr::new(src, dst, protocol, len).emit(&mut header).unwrap();
        (Sum::pseudo_v4(src, dst, protocol, len as u16), header)
    };
    upper[checksum..checksum + 2].copy_from_slice(&sum.folded().to_be_bytes());
    packet.extend(upper);
    packet
}

fn ethernet(v6: bool, packet: &[u8]) -> Vec<u8> {
    let ether_type: [u8; 2] = if v6 { [0x86, 0xDD] } else { [8, 0] };
    [&[2; 12], &ether_type[..], packet].concat()
}

fn complete(frame: &mut [u8], Partial { start, offset }: Partial) {
    let start = usize::from(start);
    let mut sum = Sum::new();
    sum.add(&frame[start..]);
    let at = start + usize::from(offset);
    frame[at..at + 2].copy_from_slice(&sum.finish().to_be_bytes());
}

#[test]
fn a_segment_with_the_pseudo_headers_sum_is_found_and_a_complete_one_is_not() {
    for v6 in [false, true] {
        let mut frame = ethernet(v6, &segment(v6, b"hello"));
        let start = if v6 { 54 } else { 34 };
        assert_eq!(find(&frame), Some(Partial { start, offset: 16 }), "IPv6: {v6}");
        complete(&mut frame, Partial { start, offset: 16 });
        assert_eq!(find(&frame), None, "IPv6: {v6}");
    }
}

#[test]
fn tags_and_padding_of_zeros_do_not_hide_it() {
    let frame = ethernet(false, &segment(false, b""));
    let mut tagged = [&[0; 4], &frame[..]].concat();
    vlan::push(&mut tagged, EtherType::VLAN, 7).unwrap();
    assert_eq!(find(&tagged), Some(Partial { start: 38, offset: 16 }));
    let mut padded = frame.clone();
    padded.resize(60, 0);
    assert_eq!(find(&padded), Some(Partial { start: 34, offset: 16 }));
    padded[59] = 1;
    assert_eq!(find(&padded), None, "the sum up to the frame's end would be wrong");
}

#[test]
fn fragments_owe_nothing() {
    let mut packet = segment(false, &[7; 64]);
    packet[6] |= 0x20;
    assert_eq!(find(&ethernet(false, &packet)), None);
}

#[test]
fn datagrams_owe_theirs_and_those_without_a_checksum_do_not() {
    let datagram = vec![0x30, 0x39, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
    let packet = in_ip(false, Protocol::UDP, UDP_OFFSET, datagram);
    assert_eq!(find(&ethernet(false, &packet)), Some(Partial { start: 34, offset: 6 }));
    let mut without = packet;
    without[20 + UDP_OFFSET..][..2].fill(0);
    assert_eq!(find(&ethernet(false, &without)), None);
}

#[test]
fn sctp_owes_a_checksum_that_is_zero() {
    let mut packet = in_ip(false, Protocol::SCTP, SCTP_OFFSET, vec![0; 28]);
    assert_eq!(find(&ethernet(false, &packet)), None, "a sum is no zero");
    packet[20 + SCTP_OFFSET..][..4].fill(0);
    assert_eq!(find(&ethernet(false, &packet)), Some(Partial { start: 34, offset: 8 }));
}

#[test]
fn tunnels_are_looked_into() {
    let inner = segment(false, b"inside");
    let frame = ethernet(false, &inner);
    let udp = |port: u16, header: &[u8], carried: &[u8]| {
        let len = 8 + header.len() + carried.len();
        let [port, len] = [port, len as u16].map(u16::to_be_bytes);
        let mut datagram = [&[0xC0, 0], &port[..], &len, &[0, 0], header, carried].concat();
        let header = ipv4::Repr::new(
            [192, 0, 2, 1].into(),
            [192, 0, 2, 2].into(),
            Protocol::UDP,
            datagram.len(),
        );
        let mut packet = vec![0; 20];
        header.emit(&mut packet).unwrap();
        packet.append(&mut datagram);
        ethernet(false, &packet)
    };
    let found = |start| Some(Partial { start, offset: 16 });
    assert_eq!(find(&udp(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &frame)), found(42 + 8 + 34));
    // GENEVE with one option of four bytes behind its header.
    let geneve = [1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 0];
    assert_eq!(find(&udp(6081, &geneve, &frame)), found(42 + 12 + 34));
    assert_eq!(find(&udp(4788, &[8, 0, 0, 0, 0, 0, 7, 0], &frame)), None, "no known tunnel");
    let outer = |protocol, carried: &[u8]| {
        let (src, dst) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let mut packet = vec![0; 20];
        ipv4::Repr::new(src, dst, protocol, carried.len()).emit(&mut packet).unwrap();
        packet.extend(carried);
        packet
    };
    assert_eq!(find(&ethernet(false, &outer(Protocol::IPV4, &inner))), found(54));
    let six = segment(true, b"inside");
    assert_eq!(find(&ethernet(false, &outer(Protocol::IPV6, &six))), found(34 + 40));
    // GRE with a key.
    let gre = [&[0x20, 0, 8, 0, 0, 0, 0, 9], &inner[..]].concat();
    assert_eq!(find(&ethernet(false, &outer(Protocol::GRE, &gre))), found(34 + 8 + 20));
    let nested = (0..3).fold(inner, |packet, _| outer(Protocol::IPV4, &packet));
    assert_eq!(find(&ethernet(false, &nested)), None, "too deep");
}

#[test]
fn crc32c_gives_the_values_of_rfc_3720() {
    assert_eq!(crc32c(&[0; 32]), [0xAA, 0x36, 0x91, 0x8A]);
    assert_eq!(crc32c(&[0xFF; 32]), [0x43, 0xAB, 0xA8, 0x62]);
    let counting: Vec<u8> = (0..32).collect();
    assert_eq!(crc32c(&counting), [0x4E, 0x79, 0xDD, 0x46]);
}

proptest! {
    /// Once completed, a packet is left alone or would be given the value it has.
    #[test]
    fn completing_twice_changes_nothing(payload in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut frame = ethernet(false, &segment(false, &payload));
        let partial = find(&frame).unwrap();
        complete(&mut frame, partial);
        let once = frame.clone();
        if let Some(partial) = find(&frame) {
            complete(&mut frame, partial);
        }
        prop_assert_eq!(frame, once);
    }

    /// Cut anywhere, and with any byte changed, it is read without a panic.
    #[test]
    fn damaged_tunnels_are_read_safely(cut in 0..120_usize, at in 0..120_usize, byte: u8) {
        let inner = ethernet(false, &segment(false, b"inside"));
        let mut frame = ethernet(false, &in_ip(false, Protocol::UDP, UDP_OFFSET,
            [&[0, 9, 0x12, 0xB5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0], &inner[..]].concat()));
        frame.truncate(cut);
        if let Some(b) = frame.get_mut(at) {
            *b = byte;
        }
        let _ = find(&frame);
    }
}
