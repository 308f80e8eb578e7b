use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::ndn::vectors::{DATA_DIGEST, LP_ALL, LP_NACK, NDNTS_LP_FRAGMENT, hex};
use crate::ndn::{Data, Interest};

fn emitted(repr: &Repr<'_>) -> Vec<u8> {
    let mut out = vec![0xEE; repr.buffer_len()];
    assert_eq!(repr.emit(&mut out), Ok(out.len()));
    if let Some(short) = out.len().checked_sub(1) {
        assert!(repr.emit(&mut vec![0; short]).unwrap_err().is_truncated());
    }
    let mut head = vec![0; repr.head_len()];
    assert_eq!(repr.emit_head(&mut head), Ok(head.len()));
    assert!(out.starts_with(&head));
    out
}

fn refusal(text: &str) -> String {
    Packet::new_checked(&hex(text)).unwrap_err().to_string()
}

#[test]
fn packets_of_others_are_read() {
    let bytes = hex(LP_NACK);
    let packet = Packet::new_checked(&bytes).unwrap();
    assert_eq!(packet.headers().nack, Some(NackReason::NO_ROUTE));
    let interest = Interest::new_checked(packet.fragment().unwrap()).unwrap();
    assert_eq!(interest.name().to_string(), "/a/b");
    let mut acks = Vec::new();
    assert_eq!(emitted(&Repr::parse(&packet, &mut acks).unwrap()), bytes);

    let bytes = hex(NDNTS_LP_FRAGMENT);
    let packet = Packet::new_checked(&bytes).unwrap();
    assert_eq!(packet.headers().sequence, Some(4096));
    assert_eq!(packet.fragmentation(), (1, 3));
    let repr = Repr::parse(&packet, &mut acks).unwrap();
    assert_eq!(emitted(&repr), bytes);
    assert_eq!(repr.to_string(), "NDNLP seq 4096 frag 1/3 token 01020304 mark 1");

    let bytes = hex(LP_ALL);
    let packet = Packet::new_checked(&bytes).unwrap();
    let mut acks = Vec::new();
    let repr = Repr::parse(&packet, &mut acks).unwrap();
    assert_eq!(
        repr.to_string(),
        "NDNLP token 0001020304050607 from face 258 to face 7 mark 1 tx 42 ack 41 no-cache \
         non-discovery"
    );
    assert_eq!(packet.fragment(), Some(&[10, 11][..]));
    // Written again, the headers are in the order of their numbers: Ack before TxSequence.
    let out = emitted(&repr);
    assert_eq!(out.len(), bytes.len());
    let again = Packet::new_checked(&out).unwrap();
    assert_eq!((again.headers(), again.fragment()), (packet.headers(), packet.fragment()));
    let position = |kind: [u8; 2]| out.windows(2).position(|w| w == kind);
    assert!(position([0x03, 0x44]) < position([0x03, 0x48]));
}

#[test]
fn a_bare_packet_is_one_without_headers() {
    let mut bytes = hex(DATA_DIGEST);
    let len = bytes.len();
    bytes.extend([0; 5]);
    let packet = Packet::new_checked(&bytes).unwrap();
    assert_eq!(packet.fragment(), Some(&bytes[..len]));
    assert_eq!((packet.headers(), packet.acks().count()), (&Headers::default(), 0));
    let mut acks = Vec::new();
    let repr = Repr::parse(&packet, &mut acks).unwrap();
    assert_eq!((repr.head_len(), &emitted(&repr)[..]), (0, &bytes[..len]));
    // A packet that has no headers says the same.
    let wrapped = [&[100, len as u8 + 2, 80, len as u8], &bytes[..len]].concat();
    let packet = Packet::new_checked(&wrapped).unwrap();
    assert_eq!(packet.fragment(), Some(&bytes[..len]));
    assert!(Data::new_checked(packet.fragment().unwrap()).is_ok());
}

#[test]
fn idle_packets_carry_acknowledgements_or_nothing() {
    let acks = [7, u64::MAX, 0];
    let repr = Repr { acks: &acks, ..Repr::default() };
    let bytes = emitted(&repr);
    assert_eq!(bytes[..4], [100, 36, 0xFD, 3]);
    let packet = Packet::new_checked(&bytes).unwrap();
    assert_eq!(packet.fragment(), None);
    assert!(packet.acks().eq(acks));
    assert_eq!(repr.to_string(), format!("NDNLP ack 7 ack {} ack 0 idle", u64::MAX));
    assert_eq!(emitted(&Repr::default()), [100, 0]);
    assert_eq!(Packet::new_checked(&[100, 0]).unwrap().fragment(), None);
}

#[test]
fn acknowledgements_may_have_other_headers_between_them() {
    let bytes = hex("641d fd0344080000000000000001 fd03400101 fd0344080000000000000002");
    assert!(Packet::new_checked(&bytes).unwrap().acks().eq([1, 2]));
}

#[test]
fn unknown_headers_are_ignored_by_their_number() {
    for ignored in [804u16, 852, 956] {
        let [high, low] = ignored.to_be_bytes();
        let bytes = [100, 4, 0xFD, high, low, 0];
        assert_eq!(Packet::new_checked(&bytes).unwrap().headers(), &Headers::default());
    }
    for (header, kind) in [
        ("6404 fd0322 00", 802),
        ("6404 fd0323 00", 803),
        ("6404 fd03c0 00", 960),
        ("6404 fd031c 00", 796),
        ("6402 5400", 84),
        ("6402 7e00", 126),
        ("6402 0500", 5),
    ] {
        assert_eq!(refusal(header), format!("NDNLPv2: bad unknown header {kind}"));
    }
}

#[test]
fn broken_packets_are_refused() {
    for (text, told) in [
        ("", "truncated, 2 bytes needed and 0 there"),
        ("64", "truncated, 2 bytes needed and 1 there"),
        ("6402 50", "truncated, 4 bytes needed and 3 there"),
        ("0700", "bad packet type 7"),
        ("6402 5000", "bad length of fragment 0"),
        ("6405 500100 5100", "bad element behind the fragment 81"),
        ("6406 500100 500100", "bad element behind the fragment 80"),
        ("6406 520100 520100", "bad repeated header 82"),
        ("6403 510100", "bad length of a sequence number 1"),
        ("6406 fd0344 020001", "bad length of a sequence number 2"),
        ("6406 520103 530103", "bad fragment index 3"),
        ("6403 530100", "bad fragment index 0"),
        ("6403 520101", "bad fragment index 1"),
        ("6402 6200", "bad length of PIT token 0"),
        ("6407 fd0340 03000100", "bad length of a number 3"),
        ("6405 fd034c 0100", "bad length of NonDiscovery 1"),
        ("6404 fd0334 00", "bad cache policy 0"),
        ("6409 fd0334 05 fd0335 0102", "bad cache policy 2"),
        ("6406 fd0320 02 0100", "bad critical element 1"),
    ] {
        assert_eq!(refusal(text), format!("NDNLPv2: {told}"), "{text}");
    }
    let long = [&[100, 35, 98, 33][..], &[1; 33]].concat();
    let e = Packet::new_checked(&long).unwrap_err();
    assert_eq!(e.to_string(), "NDNLPv2: bad length of PIT token 33");
    for bytes in [hex(LP_ALL), hex(LP_NACK)] {
        for len in 0..bytes.len() {
            assert!(Packet::new_checked(&bytes[..len]).unwrap_err().is_truncated(), "{len} bytes");
        }
    }
}

#[test]
fn a_nack_may_have_no_reason() {
    let bytes = hex("6404 fd0320 00");
    let packet = Packet::new_checked(&bytes).unwrap();
    assert_eq!(packet.headers().nack, Some(NackReason::NONE));
    assert_eq!(emitted(&Repr { headers: *packet.headers(), ..Repr::default() }), bytes);
    let worst =
        [NackReason::CONGESTION, NackReason::DUPLICATE, NackReason::NO_ROUTE, NackReason(7)];
    assert!(worst.is_sorted_by_key(|r| r.severity()));
}

type Flags = (bool, bool);
type Numbers = [Option<u64>; 6];

proptest! {
    #[test]
    fn packets_survive_writing(
        numbers in any::<Numbers>(),
        fragments in proptest::option::of((0..9u64, 1..9u64)),
        flags in any::<Flags>(),
        token in proptest::option::of(vec(any::<u8>(), 1..=32)),
        announcement in proptest::option::of(vec(any::<u8>(), 0..60)),
        acks in vec(any::<u64>(), 0..5),
        fragment in proptest::option::of(vec(any::<u8>(), 1..300)),
    ) {
        let [sequence, nack, incoming_face, next_hop_face, congestion_mark, tx_sequence] = numbers;
        let headers = Headers {
            sequence,
            frag_index: fragments.map(|(index, _)| index),
            frag_count: fragments.map(|(index, more)| index + more),
            pit_token: token.as_deref(),
            nack: nack.map(NackReason),
            incoming_face,
            next_hop_face,
            no_cache: flags.0,
            congestion_mark,
            tx_sequence,
            non_discovery: flags.1,
            prefix_announcement: announcement.as_deref(),
        };
        let mut repr = Repr { headers, acks: &acks, fragment: fragment.as_deref() };
        let whole = hex(DATA_DIGEST);
        if repr.is_bare() {
            repr.fragment = Some(&whole);
        }
        let bytes = emitted(&repr);
        let packet = Packet::new_checked(&bytes).unwrap();
        let mut again = Vec::new();
        prop_assert_eq!(Repr::parse(&packet, &mut again), Ok(repr));
    }
}
