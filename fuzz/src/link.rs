//! What a named-data face receives: link packets of any origin, and a stream of them.

use std::hint::black_box;

use plexus_ndn::face::FaceId;
use plexus_ndn::link::stream::Cutter;
use plexus_ndn::link::{Limits, Link, Memory, Options};
use plexus_wire::Time;
use plexus_wire::ndn::lp::{self, Headers};

const LIMITS: Limits =
    Limits { total: 16 << 10, face: 12 << 10, timeout: std::time::Duration::from_millis(500) };
/// More link packets would only make it slow.
const PACKETS_MAX: usize = 64;

/// Link packets, each behind its length in two bytes, received by two faces, one with reliability:
/// memory stays bounded, what is given out is an element of its own, and what is answered fits the
/// MTU. Then the same bytes as a stream, which is cut alike wherever reads end.
pub fn ndn_link(data: &[u8]) {
    let Some(faces) = FaceId::new(0, 0).zip(FaceId::new(1, 0)) else { return };
    let mut memory = Memory::new(LIMITS);
    let with = Options { reliability: true, local_fields: true, ..Options::new(1400) };
    let mut links =
        [Link::new(faces.0, Options::new(1400), 0), Link::new(faces.1, with, u64::MAX - 1)];
    let (mut rest, mut now) = (data, Time::ZERO);
    for _ in 0..PACKETS_MAX {
        let Some((&[high, low], behind)) = rest.split_first_chunk() else { break };
        let len = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (bytes, behind) = behind.split_at(len);
        rest = behind;
        for link in &mut links {
            let mut out = |head: &[u8], piece: &[u8]| {
                assert!(head.len() + piece.len() <= 1400, "longer than the MTU");
            };
            if let Ok(Some(got)) = link.receive(now, bytes, &mut memory) {
                assert!(matches!(got.packet[0], 5 | 6) && got.packet.len() <= 8800);
                let _ = link.send(now, &got.headers, got.packet, 0, &mut out);
            }
            assert!(memory.used() <= LIMITS.total, "more memory than there is");
            now = now + std::time::Duration::from_millis(7);
            link.poll(now, &mut out);
            black_box(link.next_deadline());
        }
    }
    memory.expire(now + LIMITS.timeout);
    assert_eq!(memory.used(), 0, "fragments that never go");
    let whole = cut(data, data.len().max(1));
    assert_eq!(cut(data, 1), whole);
    assert_eq!(cut(data, 7), whole);
}

/// The packets of a stream that is read in pieces, and whether it could be read to its end.
fn cut(data: &[u8], piece_len: usize) -> (Vec<Vec<u8>>, bool) {
    let mut cutter = Cutter::new(8800);
    let mut packets = Vec::new();
    for mut input in data.chunks(piece_len) {
        loop {
            match cutter.next(&mut input) {
                Ok(Some(packet)) => packets.push(packet.to_vec()),
                Ok(None) => break,
                Err(_) => return (packets, false),
            }
        }
    }
    (packets, true)
}

/// Whole packets, fragments in and out of order, acknowledgements.
pub(crate) fn link_packets() -> Vec<Vec<u8>> {
    let data = [&[6, 40][..], &[7; 40]].concat();
    let pieces = [(0, &data[..20]), (1, &data[20..])];
    let fragment = |(index, piece): (u64, &[u8])| {
        let headers = Headers {
            sequence: Some(9 + index),
            frag_index: Some(index),
            frag_count: Some(2),
            tx_sequence: Some(index),
            pit_token: Some(b"token").filter(|_| index == 0).map(|t| &t[..]),
            ..Headers::default()
        };
        written(&lp::Repr { headers, acks: &[3, 4], fragment: Some(piece) })
    };
    let fragments = pieces.map(fragment);
    let idle =
        written(&lp::Repr { acks: &[u64::MAX - 1, u64::MAX, 0, 1, 2], ..lp::Repr::default() });
    let script = |all: &[&Vec<u8>]| {
        let one = |bytes: &&Vec<u8>| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
        all.iter().map(one).collect::<Vec<_>>().concat()
    };
    let [first, second] = &fragments;
    let orders =
        [script(&[&data, first, second, &idle]), script(&[second, first, &idle, second, first])];
    let streams = [[&data[..], first, second].concat(), [&idle[..], &data].concat()];
    orders.into_iter().chain(streams).collect()
}

fn written(repr: &lp::Repr<'_>) -> Vec<u8> {
    let mut bytes = vec![0; repr.buffer_len()];
    let len = repr.emit(&mut bytes).unwrap_or(0);
    bytes.truncate(len);
    bytes
}
