//! Tests of a link: service to the peers at its ends, and resistance to attackers.

use std::collections::HashMap;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::ndn::lp::{self, Headers, NackReason};
use plexus_wire::ndn::tlv;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

fn face(n: u32) -> FaceId {
    FaceId::new(n, 0).unwrap()
}

/// A Data or Interest of exactly `len` bytes (255 and 256 cannot be), told apart by `mark`.
fn packet(kind: u32, len: usize, mark: u32) -> Vec<u8> {
    let len = if (255..257).contains(&len) { 254 } else { len };
    let head = (2..=10).find(|head| tlv::element_len(kind, len - head) == len).unwrap();
    let mut bytes = vec![0; len];
    let mut w = tlv::Writer::new(&mut bytes);
    let value: Vec<u8> = mark.to_be_bytes().into_iter().cycle().take(len - head).collect();
    w.element(kind, &value);
    bytes
}

fn link(options: Options) -> Link {
    Link::new(face(1), options, 7)
}

fn sent(link: &mut Link, headers: Headers<'_>, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut out = |head: &[u8], piece: &[u8]| all.push([head, piece].concat());
    link.send(Time::ZERO, &headers, packet, 0, &mut out).unwrap();
    all
}

fn memory() -> Memory {
    Memory::new(Limits::default())
}

#[test]
fn a_packet_without_headers_goes_as_it_is() {
    let mut link = link(Options::new(1400));
    let data = packet(6, 1400, 1);
    assert_eq!(sent(&mut link, Headers::default(), &data), std::slice::from_ref(&data));
    let mut memory = memory();
    let got = link.receive(Time::ZERO, &data, &mut memory).unwrap().unwrap();
    assert_eq!((got.kind, got.packet, got.headers), (Kind::Data, &data[..], Headers::default()));
}

#[test]
fn headers_arrive_with_the_packet_they_belong_to_also_in_fragments() {
    let headers = Headers {
        pit_token: Some(b"token"),
        congestion_mark: Some(1),
        nack: Some(NackReason::CONGESTION),
        ..Headers::default()
    };
    for len in [40, 1400, 5000] {
        let (mut from, mut to) = (link(Options::new(1400)), link(Options::new(1400)));
        let interest = packet(5, len, 1);
        let packets = sent(&mut from, headers, &interest);
        assert!(packets.iter().all(|p| p.len() <= 1400), "{len}");
        let mut memory = memory();
        // The last first: its number tells where the packet begins.
        for (i, bytes) in packets.iter().enumerate().rev() {
            let got = to.receive(Time::ZERO, bytes, &mut memory).unwrap();
            let wanted =
                Received { kind: Kind::Nack(NackReason::CONGESTION), headers, packet: &interest };
            assert_eq!(got, (i == 0).then_some(wanted));
        }
        assert_eq!(memory.used(), 0);
    }
}

#[test]
fn a_mark_on_any_fragment_is_one_on_the_packet() {
    let (mut from, mut to) = (link(Options::new(1400)), link(Options::new(1400)));
    let data = packet(6, 3000, 1);
    let mut packets = sent(&mut from, Headers::default(), &data);
    let last = lp::Packet::new_checked(&packets[2]).unwrap();
    let headers = Headers { congestion_mark: Some(1), ..*last.headers() };
    let repr = lp::Repr { headers, acks: &[], fragment: last.fragment() };
    let mut marked = vec![0; repr.buffer_len()];
    repr.emit(&mut marked).unwrap();
    packets[2] = marked;
    let mut memory = memory();
    for bytes in &packets {
        if let Some(got) = to.receive(Time::ZERO, bytes, &mut memory).unwrap() {
            assert_eq!((got.headers.congestion_mark, got.packet), (Some(1), &data[..]));
        }
    }
    assert_eq!(to.counters().reassembled, 1);
}

#[test]
fn every_length_is_cut_so_that_it_fits_and_comes_back() {
    let none = Headers::default();
    let usual = Headers { pit_token: Some(&[7; 8]), congestion_mark: Some(1), ..none };
    let back = Headers { nack: Some(NackReason::NO_ROUTE), ..usual };
    for mtu in [64, MTU_MIN, MTU_MIN + 1, 100, 127, 128, 500, 1280, 1452, 9000] {
        for (reliability, headers) in [
            (false, none),
            (true, none),
            (false, usual),
            (true, usual),
            (false, back),
            (true, back),
        ] {
            let options = Options { reliability, ..Options::new(mtu) };
            let (mut from, mut to) = (link(options), link(options));
            let mut memory = memory();
            for len in [4, mtu - 60, mtu - 1, mtu, mtu + 1, 2 * mtu, 8799, 8800] {
                let kind = if headers.nack.is_some() { 5 } else { 6 };
                let data = packet(kind, len.min(8800), len as u32);
                let packets = sent(&mut from, headers, &data);
                let mut got = None;
                for bytes in &packets {
                    assert!(bytes.len() <= mtu, "{} of {mtu}", bytes.len());
                    let received = to.receive(Time::ZERO, bytes, &mut memory).unwrap();
                    got = received.map(|r| {
                        assert_eq!(r.headers, headers, "{len} by {mtu}");
                        r.packet.to_vec()
                    });
                }
                assert_eq!(got, Some(data), "{len} by {mtu}");
            }
        }
    }
}

#[test]
fn unsendable_packets_are_refused_and_counted() {
    let mut out = |_: &[u8], _: &[u8]| panic!("sent");
    let mut whole = link(Options { fragmentation: false, ..Options::new(1400) });
    let mut send = |link: &mut Link, headers, len| {
        link.send(Time::ZERO, &headers, &packet(6, len, 0), 0, &mut out)
    };
    let none = Headers::default();
    assert_eq!(send(&mut whole, none, 1401), Err(Unsent::LongerThanMtu));
    assert_eq!(send(&mut whole, none, 8801), Err(Unsent::TooLong));
    assert_eq!(whole.counters().unsent_too_long, 2);
    let mut narrow = link(Options::new(40));
    let headers = Headers { pit_token: Some(&[1; 32]), ..none };
    assert_eq!(send(&mut narrow, headers, 100), Err(Unsent::HeadersTooLong));
    assert_eq!(send(&mut narrow, none, 8800), Err(Unsent::TooManyFragments));
    assert_eq!(narrow.counters().unsent_fragmentation, 2);
}

#[test]
fn a_mark_never_makes_a_packet_too_long() {
    let data = packet(6, 1400, 0);
    let marking = Marking { threshold: 10, interval: Duration::ZERO };
    for fragmentation in [false, true] {
        let mut link = link(Options { fragmentation, marking, ..Options::new(1400) });
        let mut marks = Vec::new();
        for ms in 0..3 {
            let mut out = |head: &[u8], piece: &[u8]| {
                let bytes = [head, piece].concat();
                assert!(bytes.len() <= 1400);
                marks.push(lp::Packet::new_checked(&bytes).unwrap().headers().congestion_mark);
            };
            link.send(Time::from_millis(ms), &Headers::default(), &data, 11, &mut out).unwrap();
        }
        assert_eq!(marks.contains(&Some(1)), fragmentation);
    }
}

#[test]
fn only_privileged_peers_may_use_local_headers() {
    let interest = packet(5, 40, 0);
    let data = packet(6, 40, 0);
    let none = Headers::default();
    let hop = Headers { next_hop_face: Some(300), ..none };
    let stay = Headers { no_cache: true, ..none };
    let own = Headers { incoming_face: Some(300), ..none };
    let nack = Headers { nack: Some(NackReason::NONE), ..none };
    let both = Headers { next_hop_face: Some(300), ..nack };
    for (headers, packet, stranger, application) in [
        (hop, &interest, Err(Refused::Header), Ok(hop)),
        (hop, &data, Err(Refused::Header), Err(Refused::Header)),
        (both, &interest, Err(Refused::Header), Err(Refused::Header)),
        (stay, &data, Ok(stay), Ok(stay)),
        (stay, &interest, Err(Refused::Header), Err(Refused::Header)),
        (own, &data, Ok(none), Ok(none)),
        (nack, &data, Err(Refused::NotAPacket), Err(Refused::NotAPacket)),
    ] {
        for (local_fields, wanted) in [(false, stranger), (true, application)] {
            let mut link = link(Options { local_fields, ..Options::new(1400) });
            let repr = lp::Repr { headers, acks: &[], fragment: Some(packet) };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes).unwrap();
            let mut memory = memory();
            let got = link.receive(Time::ZERO, &bytes, &mut memory);
            assert_eq!(got.map(|r| r.unwrap().headers), wanted, "{headers:?} {local_fields}");
        }
    }
    // Only an application is told where a packet came from.
    for local_fields in [false, true] {
        let mut link = link(Options { local_fields, ..Options::new(1400) });
        let bytes = sent(&mut link, own, &data).concat();
        let told = lp::Packet::new_checked(&bytes).unwrap().headers().incoming_face;
        assert_eq!(told, local_fields.then_some(300));
    }
}

#[test]
fn invalid_packets_are_refused() {
    let mut link = link(Options::new(1400));
    let mut memory = memory();
    let mut refused = |bytes: &[u8]| link.receive(Time::ZERO, bytes, &mut memory).unwrap_err();
    assert_eq!(refused(&[]), Refused::Malformed);
    assert_eq!(refused(&[6, 5, 1]), Refused::Malformed);
    assert_eq!(refused(&[7, 0]), Refused::Malformed);
    // A fragment of type 7, of more than one element, of an incomplete element.
    assert_eq!(refused(&[100, 4, 80, 2, 7, 0]), Refused::NotAPacket);
    assert_eq!(refused(&[100, 6, 80, 4, 6, 0, 6, 0]), Refused::NotAPacket);
    assert_eq!(refused(&[100, 4, 80, 2, 6, 9]), Refused::NotAPacket);
    assert_eq!(refused(&packet(6, 8801, 0)), Refused::TooLong);
    // A fragment without a number.
    assert_eq!(refused(&[100, 7, 83, 1, 2, 80, 2, 6, 9]), Refused::Fragment);
    assert_eq!(link.counters().refused_malformed, 3);
    assert_eq!(link.counters().refused_packets, 4);
}

/// A fragment as an attacker writes it.
fn fragment(sequence: u64, index: u64, count: u64, piece: &[u8]) -> Vec<u8> {
    let headers = Headers {
        sequence: Some(sequence),
        frag_index: Some(index),
        frag_count: Some(count),
        ..Headers::default()
    };
    let repr = lp::Repr { headers, acks: &[], fragment: Some(piece) };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes).unwrap();
    bytes
}

#[test]
fn contradictions_and_huge_counts_are_refused() {
    let mut link = link(Options::new(1400));
    let mut memory = memory();
    let mut give = |bytes: &[u8]| {
        link.receive(Time::ZERO, bytes, &mut memory).map(|r| r.map(|r| r.packet.to_vec()))
    };
    assert_eq!(give(&fragment(10, 0, 2, &[6, 2])), Ok(None));
    assert_eq!(give(&fragment(11, 1, 3, &[1])), Err(Refused::Contradiction));
    assert_eq!(give(&fragment(10, 0, 2, &[6, 9])), Err(Refused::Duplicate));
    assert_eq!(give(&fragment(11, 1, 2, &[1, 2])), Ok(Some(vec![6, 2, 1, 2])));
    assert_eq!(give(&fragment(0, 0, 401, &[6])), Err(Refused::Fragment));
    assert_eq!(give(&fragment(0, 0, u64::MAX, &[6])), Err(Refused::Fragment));
    // Numbers wrap.
    assert_eq!(give(&fragment(u64::MAX, 0, 2, &[6, 1])), Ok(None));
    assert_eq!(give(&fragment(0, 1, 2, &[1])), Ok(Some(vec![6, 1, 1])));
    // Together they would exceed a packet's length: the stored fragment is dropped too.
    assert_eq!(give(&fragment(50, 0, 9, &[6; 8000])), Ok(None));
    assert_eq!(give(&fragment(51, 1, 9, &[6; 801])), Err(Refused::Contradiction));
    assert_eq!(memory.used(), 0);
}

#[test]
fn fragments_that_never_complete_take_bounded_memory_and_only_their_own() {
    let limits = Limits { total: 256 << 10, face: 64 << 10, ..Limits::default() };
    let mut memory = Memory::new(limits);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut attackers: Vec<Link> =
        (10..30).map(|n| Link::new(face(n), Options::new(9000), 0)).collect();
    let mut honest = Link::new(face(1), Options::new(9000), 0);
    let whole = packet(6, 4000, 5);
    for round in 0..2000 {
        let sequence = 10 * round;
        let first = fragment(sequence, 0, 2, &whole[..2000]);
        assert_eq!(honest.receive(Time::ZERO, &first, &mut memory), Ok(None));
        for link in &mut attackers {
            let count = rng.random_range(2..=400);
            let index = rng.random_range(0..count);
            let piece = vec![6; rng.random_range(1..8000)];
            let bytes = fragment(rng.random(), index, count, &piece);
            let _ = link.receive(Time::ZERO, &bytes, &mut memory);
            assert!(memory.used() <= limits.total);
        }
        let second = fragment(sequence + 1, 1, 2, &whole[2000..]);
        let got = honest.receive(Time::ZERO, &second, &mut memory).unwrap();
        assert_eq!(got.map(|r| r.packet.to_vec()), Some(whole.clone()), "round {round}");
    }
    let (timed_out, evicted) = memory.dropped();
    assert!(timed_out == 0 && evicted > 1000, "{evicted}");
    memory.expire(Time::from_millis(499));
    assert!(memory.used() > 0);
    memory.expire(Time::from_millis(500));
    assert_eq!(memory.used(), 0);
}

#[test]
fn group_members_with_equal_sequence_numbers_are_distinguished() {
    let mut link = link(Options::new(1400));
    let mut memory = memory();
    let packets = [packet(6, 3000, 1), packet(6, 4000, 2)];
    let all = packets.each_ref().map(|data| {
        let mut from = Link::new(face(9), Options::new(1400), 40);
        sent(&mut from, Headers::default(), data)
    });
    let mut got = Vec::new();
    for i in 0..4 {
        for (sender, sent) in all.iter().enumerate() {
            let Some(bytes) = sent.get(i) else { continue };
            let received = link.receive_from(Time::ZERO, sender as u64, bytes, &mut memory);
            got.extend(received.unwrap().map(|came| came.packet().packet.to_vec()));
        }
    }
    assert_eq!(got, packets);
    // A sender that begins packets and completes none loses its own.
    let limits = Limits { face: 64 << 10, ..Limits::default() };
    let mut memory = Memory::new(limits);
    let whole = packet(6, 4000, 5);
    let first = fragment(7, 0, 2, &whole[..2000]);
    assert_eq!(link.receive_from(Time::ZERO, 1, &first, &mut memory), Ok(None));
    for n in 0..200 {
        let bytes = fragment(10 * n, 0, 2, &whole[..2000]);
        let _ = link.receive_from(Time::from_millis(n), 2, &bytes, &mut memory);
    }
    let second = fragment(8, 1, 2, &whole[2000..]);
    let got = link.receive_from(Time::ZERO, 1, &second, &mut memory).unwrap();
    assert_eq!(got.map(|came| came.packet().packet.to_vec()), Some(whole));
}

#[test]
fn removing_a_face_drops_its_fragments() {
    let mut memory = memory();
    for n in 1..3 {
        let mut link = Link::new(face(n), Options::new(1400), 0);
        link.receive(Time::ZERO, &fragment(0, 0, 2, &[6, 1]), &mut memory).unwrap();
    }
    let both = memory.used();
    memory.forget(face(1));
    assert_eq!(memory.used(), both / 2);
}

/// What a channel does to link packets.
#[derive(Clone, Copy, Debug)]
struct Channel {
    loss: f64,
    duplication: f64,
    jitter_us: u64,
    seed: u64,
}

struct Ends {
    links: [Link; 2],
    memory: [Memory; 2],
    /// By arrival: time, a tie-breaking number, which end, the bytes.
    on_the_way: std::collections::BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    rng: Pcg64Mcg,
    channel: Channel,
    n: u64,
}

impl Ends {
    fn carry(&mut self, now: Time, to: usize, all: Vec<Vec<u8>>, mtu: usize) {
        for bytes in all {
            assert!(bytes.len() <= mtu);
            let copies = 1 + usize::from(self.rng.random_bool(self.channel.duplication));
            for _ in 0..copies {
                if self.rng.random_bool(self.channel.loss) {
                    continue;
                }
                self.n += 1;
                let delay = 500_000 + 1000 * self.rng.random_range(0..=self.channel.jitter_us);
                self.on_the_way.insert((now.as_nanos() + delay, self.n), (to, bytes.clone()));
            }
        }
    }
}

/// Sends packets both ways; returns how often each arrived, and the two links.
fn run(options: Options, channel: Channel, lens: &[usize]) -> (HashMap<(usize, u32), u32>, Ends) {
    let rng = Pcg64Mcg::seed_from_u64(channel.seed);
    let end = |n| Link::new(face(n), options, u64::MAX - 20);
    let memory = || Memory::new(Limits { timeout: Duration::from_secs(20), ..Limits::default() });
    let mut ends = Ends {
        links: [end(1), end(2)],
        memory: [memory(), memory()],
        on_the_way: Default::default(),
        rng,
        channel,
        n: 0,
    };
    let mut arrived: HashMap<(usize, u32), u32> = HashMap::new();
    let mut pending: Vec<(u64, usize, usize)> =
        lens.iter().enumerate().map(|(i, len)| (i as u64 * 300_000, i, *len)).rev().collect();
    loop {
        let send_at = pending.last().map(|p| Time::from_nanos(p.0));
        let arrive_at = ends.on_the_way.keys().next().map(|k| Time::from_nanos(k.0));
        let due = ends.links.iter().filter_map(Link::next_deadline).min();
        let Some(now) = send_at.into_iter().chain(arrive_at).chain(due).min() else { break };
        if send_at.is_some_and(|at| at <= now) {
            let (_, i, len) = pending.pop().unwrap();
            let from = i % 2;
            let mut all = Vec::new();
            let mut out = |head: &[u8], piece: &[u8]| all.push([head, piece].concat());
            let bytes = packet(6, len, i as u32);
            ends.links[from].send(now, &Headers::default(), &bytes, 0, &mut out).unwrap();
            ends.carry(now, 1 - from, all, options.mtu);
        } else if arrive_at.is_some_and(|at| at <= now) {
            let ((_, _), (to, bytes)) = ends.on_the_way.pop_first().unwrap();
            if let Ok(Some(got)) = ends.links[to].receive(now, &bytes, &mut ends.memory[to]) {
                let value = &got.packet[head_len(got.packet)..];
                let mark = u32::from_be_bytes(value[..4].try_into().unwrap());
                assert_eq!(got.packet, packet(6, lens[mark as usize], mark), "changed on the way");
                *arrived.entry((to, mark)).or_default() += 1;
            }
        }
        for from in 0..2 {
            if ends.links[from].next_deadline().is_some_and(|at| at <= now) {
                let mut all = Vec::new();
                ends.links[from].poll(now, &mut |h: &[u8], p: &[u8]| all.push([h, p].concat()));
                ends.carry(now, 1 - from, all, options.mtu);
            }
        }
    }
    (arrived, ends)
}

fn head_len(packet: &[u8]) -> usize {
    tlv::Head::read(packet, 0, plexus_wire::Format::NdnTlv).unwrap().head_len
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// With reliability, over any channel: each packet arrives at most once, and each one that does
    /// not arrive is given up and counted.
    #[test]
    fn everything_arrives_once_or_is_counted_lost(
        loss in 0.0..0.4, duplication in 0.0..0.3, jitter_us in 0..5000_u64, seed: u64,
        mtu in 200..2000_usize,
        lens in proptest::collection::vec(10..6000_usize, 1..60),
    ) {
        let channel = Channel { loss, duplication, jitter_us, seed };
        let options = Options { reliability: true, ..Options::new(mtu) };
        let (arrived, ends) = run(options, channel, &lens);
        prop_assert!(arrived.values().all(|n| *n == 1), "arrived twice");
        let given_up: u64 = ends.links.iter().map(|l| l.counters().given_up).sum();
        let unprotected: u64 = ends.links.iter().map(|l| l.counters().unprotected).sum();
        prop_assert_eq!(unprotected, 0);
        let missing = lens.len() - arrived.len();
        prop_assert!(missing as u64 <= given_up, "{missing} missing, {given_up} given up");
        if loss == 0.0 {
            prop_assert_eq!(missing, 0);
        }
    }

    /// Without reliability and loss, in any order and with duplicates: everything arrives.
    #[test]
    fn order_and_copies_do_no_harm(
        jitter_us in 0..5000_u64, seed: u64, mtu in 200..2000_usize,
        lens in proptest::collection::vec(10..6000_usize, 1..60),
    ) {
        let channel = Channel { loss: 0.0, duplication: 0.3, jitter_us, seed };
        let (arrived, _) = run(Options::new(mtu), channel, &lens);
        prop_assert_eq!(arrived.len(), lens.len());
    }

    /// No input causes a panic, and memory stays within its bounds.
    #[test]
    fn any_bytes_are_taken_or_refused(
        all in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..20),
        reliability: bool,
    ) {
        let limits = Limits { total: 8 << 10, face: 4 << 10, ..Limits::default() };
        let mut memory = Memory::new(limits);
        let mut link = link(Options { reliability, ..Options::new(1400) });
        for bytes in &all {
            let framed = [&[100, bytes.len() as u8][..], bytes].concat();
            let _ = link.receive(Time::ZERO, bytes, &mut memory);
            let _ = link.receive(Time::ZERO, &framed, &mut memory);
            prop_assert!(memory.used() <= limits.total);
        }
    }
}

#[test]
fn a_lossy_link_with_reliability_loses_next_to_nothing() {
    let lens: Vec<usize> = (0..400).map(|i| 40 + 17 * i).collect();
    let channel = Channel { loss: 0.05, duplication: 0.0, jitter_us: 100, seed: 3 };
    let with = Options { reliability: true, ..Options::new(1400) };
    let (arrived, ends) = run(with, channel, &lens);
    assert!(arrived.len() >= 399, "{} of 400", arrived.len());
    assert!(ends.links[0].counters().retransmitted > 20);
    let (without, _) = run(Options::new(1400), channel, &lens);
    // Packets have three fragments on average, so about a seventh of them is lost.
    assert!(without.len() < 380, "{} of 400", without.len());
}
