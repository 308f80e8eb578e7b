//! Segments over a channel that loses, delays, damages, refuses and marks packets.

use std::collections::BTreeMap;

use plexus_wire::ndn::lp::Headers;
use proptest::prelude::*;

use super::*;
use crate::object::{About, Body, Object, absent};

/// Behaviour of the channel in each direction.
#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    loss: f64,
    damage: f64,
    mark: f64,
    refuse: f64,
    delay_ms: u64,
    jitter_ms: u64,
}

/// A packet in flight to the consumer.
struct Coming {
    nack: Option<NackReason>,
    is_marked: bool,
    packet: Vec<u8>,
}

struct Network {
    channel: Channel,
    object: Object,
    random: Pcg64Mcg,
    /// Packets that arrive at the consumer, by time.
    coming: BTreeMap<(Time, u64), Coming>,
    count: u64,
    /// Most Interests in flight.
    pending_max: usize,
}

fn object(body: Vec<u8>, segment_size: usize) -> Object {
    let path: NameBuf = "/a/file".parse().unwrap();
    let about = About { segment_size, ..About::default() };
    Object::new(path.as_name(), 1, Body::Memory(body), about).unwrap()
}

impl Network {
    fn new(channel: Channel, object: Object, seed: u64) -> Network {
        let random = Pcg64Mcg::seed_from_u64(seed);
        Network { channel, object, random, coming: BTreeMap::new(), count: 0, pending_max: 0 }
    }

    fn happens(&mut self, share: f64) -> bool {
        self.random.random::<f64>() < share
    }

    fn send(&mut self, now: Time, interests: Vec<(Option<Vec<u8>>, Vec<u8>)>) {
        for (_, packet) in interests {
            let Channel { loss, damage, mark, refuse, delay_ms, jitter_ms } = self.channel;
            if self.happens(loss) || self.happens(loss) {
                continue;
            }
            let interest = Interest::new_checked(&packet).unwrap();
            let segment = interest.name().last().unwrap().number(types::SEGMENT).unwrap();
            let (nack, mut answer) = match self.happens(refuse) {
                true => {
                    let reasons = [NackReason::CONGESTION, NackReason::DUPLICATE];
                    (Some(reasons[self.random.random_range(0..2)]), packet.clone())
                }
                false => match self.object.segment(segment) {
                    Ok(data) => (None, data),
                    Err(_) => (None, absent(interest.name(), Duration::ZERO)),
                },
            };
            let has_content = Data::new_checked(&answer).is_ok_and(|d| !d.content().is_empty());
            if nack.is_none() && has_content && self.happens(damage) {
                // The last byte of the content: a digest signature has 39. Any other byte could be
                // in a header, because the last segment may have a single byte.
                let at = answer.len() - 40;
                answer[at] ^= 1;
            }
            let is_marked = self.happens(mark);
            let delay = delay_ms + self.random.random_range(0..=jitter_ms);
            self.count += 1;
            let at = now + Duration::from_millis(delay);
            self.coming.insert((at, self.count), Coming { nack, is_marked, packet: answer });
        }
        self.pending_max = self.pending_max.max(self.coming.len());
    }
}

/// Runs to the end; returns the output and how long it took.
fn run(segments: &mut Segments, network: &mut Network) -> (Vec<u8>, Time) {
    let mut now = Time::from_secs(1);
    let mut body = Vec::new();
    for _ in 0..200_000 {
        let mut out = Vec::new();
        segments.poll(now, &mut out);
        network.send(now, out);
        while let Some(content) = segments.take() {
            body.extend_from_slice(&content);
        }
        if segments.is_done() || segments.failure().is_some() {
            return (body, now);
        }
        let arrival = network.coming.keys().next().map(|(at, _)| *at);
        now = arrival.into_iter().chain(segments.next_deadline()).min().unwrap().max(now);
        while let Some(entry) = network.coming.first_entry()
            && entry.key().0 <= now
        {
            let Coming { nack, is_marked, packet } = entry.remove();
            let congestion_mark = is_marked.then_some(1);
            let headers = Headers { congestion_mark, nack, ..Headers::default() };
            let kind = nack.map_or(Kind::Data, Kind::Nack);
            assert!(segments.handle(now, &Received { kind, headers, packet: &packet }));
        }
    }
    panic!("it does not end: {:?}", segments.stats());
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
}

fn fetcher(settings: Settings) -> Segments {
    Segments::new("/a/file/v=1".parse().unwrap(), 0, None, settings, 9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_the_channel_does_the_object_comes_whole_and_in_order(
        len in 0usize..60_000,
        rates in (0.0..0.25, 0.0..0.1, 0.0..0.2, 0.0..0.2),
        jitter_ms in 0u64..80,
        algorithm in prop_oneof![
            Just(Algorithm::Fixed), Just(Algorithm::Aimd), Just(Algorithm::Cubic),
        ],
        ahead_max in 1usize..60,
        seed: u64,
    ) {
        let (loss, damage, mark, refuse) = rates;
        let channel = Channel { loss, damage, mark, refuse, delay_ms: 20, jitter_ms };
        let mut network = Network::new(channel, object(pattern(len), 300), seed);
        // With all this, half of the Interests fail.
        let settings = Settings { algorithm, ahead_max, tries: 60, ..Settings::default() };
        let mut segments = fetcher(settings);
        let (body, _) = run(&mut segments, &mut network);
        prop_assert_eq!(segments.failure(), None);
        prop_assert_eq!(body, pattern(len));
        let stats = segments.stats();
        prop_assert_eq!(stats.bytes, len as u64);
        prop_assert_eq!(stats.segments, network.object.last() + 1);
        prop_assert_eq!(segments.in_flight, 0);
        prop_assert!(network.pending_max <= 2 * ahead_max + 2, "{}", network.pending_max);
    }

    #[test]
    fn a_range_of_segments_is_just_that(first in 0u64..40, to in 0u64..40, seed: u64) {
        let channel = Channel { loss: 0.05, delay_ms: 5, ..Channel::default() };
        let mut network = Network::new(channel, object(pattern(40 * 100), 100), seed);
        let base = "/a/file/v=1".parse().unwrap();
        let (first, wanted) = (first.min(to), first.max(to));
        let mut segments = Segments::new(base, first, Some(wanted), Settings::default(), seed);
        let (body, _) = run(&mut segments, &mut network);
        let end = (wanted + 1) * 100;
        prop_assert_eq!(body, &pattern(40 * 100)[first as usize * 100..end as usize]);
    }
}

#[test]
fn without_trouble_every_segment_is_asked_for_once() {
    for algorithm in [Algorithm::Fixed, Algorithm::Aimd, Algorithm::Cubic] {
        let channel = Channel { delay_ms: 50, ..Channel::default() };
        let mut network = Network::new(channel, object(pattern(1_000_000), 1000), 1);
        let settings = Settings { algorithm, keep_rtt: true, ..Settings::default() };
        let mut segments = fetcher(settings);
        let (_, end) = run(&mut segments, &mut network);
        let stats = segments.stats();
        assert_eq!((stats.interests, stats.retransmissions), (1000, 0));
        let rtt = stats.rtt_us.as_ref().unwrap();
        assert_eq!((rtt.len(), rtt.max() / 1000), (1000, 50));
        // One for the first; the fixed window then needs 63 round trips, slow start six.
        let round_trips = end.since(Time::from_secs(1)).as_millis() / 50;
        let expected = if algorithm == Algorithm::Fixed { 64 } else { 7 };
        assert_eq!(round_trips, expected, "{algorithm:?}");
    }
}

#[test]
fn a_burst_of_losses_lowers_the_window_once() {
    let mut segments = fetcher(Settings { window: 10, ..Settings::default() });
    let mut out = Vec::new();
    let mut now = Time::from_secs(1);
    segments.wanted = Some(1000);
    segments.poll(now, &mut out);
    assert_eq!(out.len(), 10);
    now = now + Duration::from_secs(1);
    segments.poll(now, &mut out);
    assert_eq!((segments.stats().timeouts, segments.stats().window_decreases), (10, 1));
    // 0.7 of ten are retransmitted, and wait twice as long.
    assert_eq!(out.len(), 17);
    assert_eq!(segments.next_deadline(), Some(now + Duration::from_secs(2)));
}

#[test]
fn retransmitted_interests_give_no_sample() {
    let object = object(pattern(100), 1000);
    let mut segments = fetcher(Settings::default());
    let mut out = Vec::new();
    segments.poll(Time::from_secs(1), &mut out);
    segments.poll(Time::from_secs(2), &mut out);
    assert_eq!(out.len(), 2);
    let packet = object.segment(0).unwrap();
    let received = Received { kind: Kind::Data, headers: Headers::default(), packet: &packet };
    segments.handle(Time::from_millis(2001), &received);
    assert_eq!(segments.rtt.timeout(), Duration::from_secs(2), "still backed off");
    assert!(segments.take().is_some() && segments.is_done());
}

#[test]
fn a_denial_that_a_cache_may_have_kept_is_asked_for_again() {
    let object = object(pattern(100), 1000);
    for is_there in [true, false] {
        let mut segments = fetcher(Settings::default());
        let mut out = Vec::new();
        let now = Time::from_secs(1);
        segments.poll(now, &mut out);
        let interest = Interest::new_checked(&out[0].1).unwrap();
        assert!(!interest.must_be_fresh());
        let denial = absent(interest.name(), Duration::ZERO);
        let answer = if is_there { object.segment(0).unwrap() } else { denial.clone() };
        for (asked, packet) in [(2, &denial), (2, &answer)] {
            let headers = Headers::default();
            segments.handle(now, &Received { kind: Kind::Data, headers, packet });
            segments.poll(now, &mut out);
            assert!(
                out.len() == asked && Interest::new_checked(&out[1].1).unwrap().must_be_fresh()
            );
        }
        assert_eq!(matches!(segments.failure(), Some(Failure::Absent(_))), !is_there);
        assert_eq!(segments.take().is_some(), is_there);
    }
}

#[test]
fn failures_are_distinguished() {
    let fail = |channel: Channel, reason: Option<NackReason>, base: &str| {
        let mut network = Network::new(channel, object(pattern(5000), 1000), 1);
        let settings = Settings { tries: 3, ..Settings::default() };
        let mut segments = Segments::new(base.parse().unwrap(), 7, None, settings, 9);
        if let Some(reason) = reason {
            let mut out = Vec::new();
            segments.poll(Time::from_secs(1), &mut out);
            let packet = &out[0].1;
            let kind = Kind::Nack(reason);
            let received = Received { kind, headers: Headers::default(), packet };
            segments.handle(Time::from_secs(1), &received);
        }
        run(&mut segments, &mut network);
        segments.failure().unwrap().to_string()
    };
    let lost = Channel { loss: 1.0, ..Channel::default() };
    let name = "/a/file/v=1";
    assert_eq!(fail(lost, None, name), "no answer to /a/file/v=1/seg=7 after 3 Interests");
    let told = fail(lost, Some(NackReason::NO_ROUTE), name);
    assert!(told.starts_with("no route to /a/file/v=1/seg=7:"), "{told}");
    let told = fail(Channel::default(), None, name);
    assert_eq!(told, "the producer has no /a/file/v=1/seg=7");
}

#[test]
fn a_contradictory_end_is_refused() {
    // Segment 3 says that segment 1 is the last.
    let small = object(pattern(2000), 1000);
    let large = object(pattern(5000), 1000);
    let mut segments = fetcher(Settings::default());
    segments.wanted = Some(4);
    segments.poll(Time::from_secs(1), &mut Vec::new());
    let packet = large.segment(3).unwrap();
    let forged = {
        let view = Data::new_checked(&packet).unwrap();
        let first = small.segment(1).unwrap();
        let meta = *Data::new_checked(&first).unwrap().meta();
        let repr = plexus_wire::ndn::data::Repr {
            name: view.name(),
            meta: Some(meta),
            content: Some(view.content()),
        };
        repr.to_bytes(&crate::digest::DigestSigner::DATA).unwrap()
    };
    let received = Received { kind: Kind::Data, headers: Headers::default(), packet: &forged };
    segments.handle(Time::from_secs(1), &received);
    assert!(matches!(segments.failure(), Some(Failure::Misfit { .. })));
}
