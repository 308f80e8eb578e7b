//! Drawing of names, and counting of answers.

use plexus_wire::ndn::lp::Headers;

use super::*;
use crate::produce::{self, Producer, Signing};

fn config(names: Names, pace: Pace) -> Config {
    Config {
        prefix: "/p/q".parse().unwrap(),
        names,
        share: Share { nth: 0, of: 1 },
        pace,
        lifetime: Duration::from_secs(1),
        warm_up: Duration::ZERO,
        count: None,
        duration: Some(Duration::from_secs(10)),
        seed: 3,
        verify: true,
    }
}

fn catalogue(items: u64, chunks: u64, exponent: f64) -> Names {
    Names::Catalogue { items, chunks, exponent }
}

/// Pearson's statistic over the 20 most popular items and the rest stays below the value that
/// chance exceeds once in 10,000 (20 degrees of freedom: 52.4). The seed is fixed, so the result
/// never changes.
#[test]
fn items_are_drawn_by_zipfs_law() {
    const DRAWS: usize = 200_000;
    for (items, exponent) in [(1000, 0.8), (1000, 1.0), (100_000, 0.8), (50, 0.0), (1000, 2.0)] {
        let config = config(catalogue(items, 1, exponent), Pace::Window(1));
        let mut drawer = Drawer::new(&config).unwrap();
        let mut counts = [0u64; 21];
        for _ in 0..DRAWS {
            drawer.next();
            counts[drawer.item.min(21) as usize - 1] += 1;
        }
        let weight = |i: u64| (i as f64).powf(-exponent);
        let total: f64 = (1..=items).map(weight).sum();
        let mut expected: Vec<f64> = (1..=20).map(|i| weight(i) / total * DRAWS as f64).collect();
        expected.push(DRAWS as f64 - expected.iter().sum::<f64>());
        let pairs = counts.iter().zip(&expected);
        let chi: f64 = pairs.map(|(n, e)| (*n as f64 - e).powi(2) / e).sum();
        assert!(chi < 52.4, "{items} items, exponent {exponent}: {chi}");
    }
}

#[test]
fn chunks_of_an_item_come_in_order_and_names_of_a_list_once() {
    let all = |config: &Config, count| {
        let mut drawer = Drawer::new(config).unwrap();
        let names = std::iter::from_fn(|| drawer.next()).take(count);
        names.map(|n| n.to_string()).collect::<Vec<_>>()
    };
    let names = all(&config(catalogue(1, 3, 0.8), Pace::Window(1)), 4);
    assert_eq!(names, ["/p/q/1/seg=0", "/p/q/1/seg=1", "/p/q/1/seg=2", "/p/q/1/seg=0"]);
    let list: Vec<NameBuf> = (0..5).map(|i| format!("/{i}").parse().unwrap()).collect();
    let mut config = config(Names::List(list.into()), Pace::Window(1));
    config.share = Share { nth: 1, of: 2 };
    assert_eq!(all(&config, 9), ["/p/q/1", "/p/q/3"]);
    let mut digits = [0; 20];
    assert_eq!(decimal(u64::MAX, &mut digits), u64::MAX.to_string().as_bytes());
    assert_eq!(decimal(0, &mut digits), b"0");
}

type Sent = Vec<(Option<Vec<u8>>, Vec<u8>)>;

/// Passes Interests to a producer and returns its answers, except every `lose`-th.
fn exchange(now: Time, sent: Sent, consumer: &mut Consumer, lose: usize) -> Sent {
    let mut producer = Producer::new(produce::Config {
        prefix: "/p".parse().unwrap(),
        size: 100,
        freshness: Duration::ZERO,
        signing: Signing::Digest,
        last: None,
        seed: 1,
    });
    let mut more = Vec::new();
    for (i, (_, packet)) in sent.into_iter().enumerate() {
        let headers = Headers::default();
        let mut answers = Vec::new();
        let received = Received { kind: Kind::Interest, headers, packet: &packet };
        producer.packet(now, &received, &mut answers);
        if lose == 0 || i % lose != 0 {
            let received = Received { kind: Kind::Data, headers, packet: &answers[0].1 };
            consumer.packet(now, &received, &mut more);
        }
    }
    more
}

#[test]
fn a_window_is_kept_full_and_what_is_lost_is_counted() {
    let mut consumer =
        Consumer::new(config(catalogue(1_000_000, 1, 0.0), Pace::Window(8))).unwrap();
    let mut now = Time::from_secs(1);
    let mut sent = Vec::new();
    consumer.poll(now, &mut sent);
    assert_eq!(sent.len(), 8);
    for _ in 0..50 {
        now = now + Duration::from_millis(10);
        sent = exchange(now, sent, &mut consumer, 0);
        assert_eq!(sent.len(), 8);
    }
    // Every fourth is lost: two of eight, which leave the window when they expire.
    now = now + Duration::from_millis(10);
    assert_eq!(exchange(now, sent, &mut consumer, 4).len(), 6);
    assert_eq!(consumer.next_deadline(), Some(now + Duration::from_millis(990)));
    let mut sent = Vec::new();
    consumer.poll(now + Duration::from_millis(999), &mut sent);
    assert_eq!((sent.len(), consumer.counts().timed_out), (2, 2), "the six are younger");
    let counts = consumer.counts();
    assert_eq!((counts.satisfied, counts.bytes, counts.damaged), (406, 40_600, 0));
    assert_eq!(counts.interests, 406 + 2 + 8);
    assert_eq!(counts.latency_ns.max() / 1_000_000, 10);
}

#[test]
fn the_count_is_kept_and_the_last_answer_awaited() {
    for pace in [Pace::Window(8), Pace::Rate(10_000.0)] {
        let config = Config { count: Some(21), ..config(catalogue(1000, 1, 0.0), pace) };
        let mut consumer = Consumer::new(config).unwrap();
        let (mut now, mut held) = (Time::from_secs(1), Vec::new());
        for _ in 0..20 {
            consumer.poll(now, &mut held);
            now = now + Duration::from_millis(1);
            held = exchange(now, held, &mut consumer, 0);
        }
        assert_eq!((consumer.counts().interests, consumer.counts().satisfied), (21, 21));
        assert!(consumer.is_done() && held.is_empty());
    }
}

#[test]
fn a_rate_is_kept_and_only_the_time_that_counts_is_counted() {
    let mut config = config(catalogue(1_000_000, 1, 0.0), Pace::Rate(1000.0));
    config.warm_up = Duration::from_secs(1);
    config.duration = Some(Duration::from_secs(2));
    let mut consumer = Consumer::new(config).unwrap();
    let (mut now, mut sent) = (Time::from_secs(1), 0);
    while !consumer.is_done() {
        let mut out = Vec::new();
        consumer.poll(now, &mut out);
        sent += out.len();
        exchange(now, out, &mut consumer, 0);
        now = now + Duration::from_millis(10);
    }
    assert_eq!((sent, consumer.counts().interests), (3000 - 9, 2000));
    assert_eq!(consumer.counted(now), Duration::from_secs(2));
}

#[test]
fn a_nack_of_an_older_interest_is_not_the_newer_ones() {
    let list: Arc<[NameBuf]> = vec!["/x".parse().unwrap()].into();
    let mut consumer = Consumer::new(config(Names::List(list), Pace::Window(4))).unwrap();
    let mut sent = Vec::new();
    consumer.poll(Time::from_secs(1), &mut sent);
    assert_eq!(sent.len(), 1);
    let interest = Interest::new_checked(&sent[0].1).unwrap();
    let repr = Repr { nonce: Some([0; 4]), ..Repr::parse(&interest).unwrap() };
    let other = repr.to_bytes().unwrap();
    let kind = Kind::Nack(NackReason::NO_ROUTE);
    for (packet, nacked) in [(&other, 0), (&sent[0].1, 1)] {
        let received = Received { kind, headers: Headers::default(), packet };
        consumer.packet(Time::from_secs(1), &received, &mut Vec::new());
        assert_eq!(consumer.counts().nacked[2], nacked);
    }
    assert!(consumer.is_done());
}

#[test]
fn interests_pending_at_the_end_are_awaited_and_counted() {
    for pace in [Pace::Window(8), Pace::Rate(100.0)] {
        let names = catalogue(1_000_000, 1, 0.0);
        let config = Config { duration: Some(Duration::from_millis(75)), ..config(names, pace) };
        let mut consumer = Consumer::new(config).unwrap();
        let (start, mut sent) = (Time::from_secs(1), Vec::new());
        for ms in 0..75 {
            consumer.poll(start + Duration::from_millis(ms), &mut sent);
        }
        assert_eq!(sent.len(), 8);
        // Half are answered when sending ends, and half are not.
        let late = start + Duration::from_millis(500);
        consumer.poll(late, &mut sent);
        assert!(!consumer.is_done());
        assert!(exchange(late, sent, &mut consumer, 2).is_empty());
        assert!(consumer.next_deadline() > Some(late), "it does not spin");
        consumer.poll(start + Duration::from_secs(2), &mut Vec::new());
        let counts = consumer.counts();
        assert_eq!((counts.interests, counts.satisfied, counts.timed_out), (8, 4, 4));
        assert!(consumer.is_done());
    }
}
