use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// Packet `sequence`, sent at `10 * sequence` ns, arriving at `now_ns`.
fn arrive(stats: &mut FlowStats, now_ns: u64, sequence: u64) {
    let probe = Probe::new(7, sequence, Time::from_nanos(10 * sequence));
    stats.record(Time::from_nanos(now_ns), 64, &probe);
}

fn of(start: Start, sequences: &[u64]) -> Summary {
    let mut stats = FlowStats::new(start);
    for (i, &s) in sequences.iter().enumerate() {
        arrive(&mut stats, 1_000_000 + i as u64, s);
    }
    stats.summary()
}

#[test]
fn a_late_packet_is_reordered_and_no_longer_lost() {
    let before = of(Start::Zero, &[0, 1, 4]);
    assert_eq!((before.lost, before.reordered), (2, 0));
    let after = of(Start::Zero, &[0, 1, 4, 2]);
    assert_eq!((after.lost, after.reordered, after.duplicates), (1, 1, 0));
}

#[test]
fn a_second_copy_is_a_duplicate_and_hides_no_loss() {
    let s = of(Start::Zero, &[0, 2, 2, 0]);
    assert_eq!((s.received, s.lost, s.duplicates, s.reordered), (4, 1, 2, 0));
}

#[test]
fn a_meter_that_came_late_does_not_call_the_past_lost() {
    assert_eq!(of(Start::Zero, &[100, 101]).lost, 100);
    assert_eq!(of(Start::Seen, &[100, 101]).lost, 0);
    let s = of(Start::Seen, &[100, 98, 101]);
    assert_eq!((s.lost, s.reordered), (1, 1));
}

#[test]
fn a_packet_behind_the_window_is_neither_late_nor_duplicate() {
    let mut stats = FlowStats::with_window(Start::Zero, 64);
    for s in [0, 64, 1, 0] {
        arrive(&mut stats, 1_000_000, s);
    }
    let s = stats.summary();
    assert_eq!((s.ancient, s.reordered, s.duplicates, s.lost), (1, 1, 0, 62));
}

#[test]
fn a_sender_that_starts_again_begins_a_new_run() {
    let mut stats = FlowStats::new(Start::Zero);
    for (run, sequences) in [(0, &[0, 1, 3][..]), (1, &[0, 2, 1])] {
        for &s in sequences {
            let sent = Time::from_nanos(run * 1_000 + s);
            stats.record(Time::from_nanos(5_000), 64, &Probe::new(0, s, sent));
        }
    }
    let s = stats.summary();
    assert_eq!((s.restarts, s.lost, s.reordered, s.duplicates), (1, 1, 1, 0));
}

#[test]
fn the_senders_count_shows_what_was_lost_at_the_end() {
    let mut stats = FlowStats::new(Start::Zero);
    arrive(&mut stats, 1_000, 0);
    stats.sent(10);
    assert_eq!(stats.lost(), 9);
    arrive(&mut stats, 2_000, 9);
    assert_eq!((stats.lost(), stats.summary().duplicates), (8, 0));
    for start in [Start::Zero, Start::Seen] {
        let mut silent = FlowStats::new(start);
        silent.sent(5);
        assert_eq!((silent.lost(), silent.summary().loss), (5, 1.0));
    }
}

#[test]
fn throughput_counts_from_the_first_arrival_to_the_last() {
    let mut stats = FlowStats::new(Start::Zero);
    for i in 0..=1_000 {
        arrive(&mut stats, 1_000_000 + i * 1_000, i);
    }
    let s = stats.summary();
    assert_eq!(s.packets_per_s.round(), 1e6);
    assert_eq!(s.bits_per_s.round(), 64.0 * 8.0 * 1e6);
    assert_eq!(of(Start::Zero, &[0]).packets_per_s, 0.0);
}

#[test]
fn percentiles_are_those_of_the_latencies() {
    let mut stats = FlowStats::new(Start::Zero);
    for i in 1..=1_000_u64 {
        // Latency of i microseconds.
        let now = Time::from_nanos(10_000_000 + i * 1_000);
        stats.record(now, 64, &Probe::new(0, i - 1, Time::from_nanos(10_000_000)));
    }
    let l = stats.summary().latency.unwrap();
    let near = |ns: u64, us: u64| ns.abs_diff(us * 1_000) <= us * 2;
    assert!(near(l.min_ns, 1) && near(l.p50_ns, 500) && near(l.p90_ns, 900), "{l:?}");
    assert!(near(l.p99_ns, 990) && near(l.p999_ns, 999) && near(l.max_ns, 1_000), "{l:?}");
    assert!(near(l.mean_ns, 500), "{l:?}");
}

#[test]
fn a_foreign_clock_is_told_not_measured() {
    let mut stats = FlowStats::new(Start::Zero);
    stats.record(Time::from_nanos(5), 64, &Probe::new(0, 0, Time::from_nanos(6)));
    let s = stats.summary();
    assert_eq!((s.clock_errors, s.latency), (1, None));
}

#[test]
fn a_merged_total_is_the_sum_of_its_parts() {
    let (mut a, mut b) = (FlowStats::new(Start::Zero), FlowStats::new(Start::Seen));
    for (i, s) in [0, 2, 2, 1, 9].into_iter().enumerate() {
        arrive(&mut a, 2_000 + i as u64, s);
    }
    for (i, s) in [50, 52].into_iter().enumerate() {
        arrive(&mut b, 1_000 + i as u64, s);
    }
    let mut total = FlowStats::new(Start::Zero);
    total.merge(&a);
    total.merge(&b);
    let (a, b, t) = (a.summary(), b.summary(), total.summary());
    assert_eq!(t.received, a.received + b.received);
    assert_eq!(t.lost, a.lost + b.lost);
    assert_eq!((t.duplicates, t.reordered), (1, 1));
    assert_eq!(t.bytes, a.bytes + b.bytes);
    assert!((t.seconds - 1_004e-9).abs() < 1e-12, "{}", t.seconds);
    assert_eq!(t.latency.unwrap().max_ns, a.latency.unwrap().max_ns);
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let s = of(Start::Zero, &[Probe::SEQUENCE_MAX, 0, Probe::SEQUENCE_MAX]);
    assert_eq!((s.lost, s.duplicates, s.ancient), (Probe::SEQUENCE_MAX, 1, 1));
    assert!(serde_json::to_string(&s).unwrap().contains("\"lost\":281474976710655"));
}

/// Remembers every sequence number of a flow.
#[derive(Default)]
struct Model {
    seen: HashSet<u64>,
    highest: Option<u64>,
    duplicates: u64,
    reordered: u64,
    ancient: u64,
}

impl Model {
    fn record(&mut self, sequence: u64, window: u64) {
        let next = self.highest.map_or(0, |h| h + 1);
        if sequence < next && next - sequence > window {
            self.ancient += 1;
        } else if !self.seen.insert(sequence) {
            self.duplicates += 1;
        } else if sequence < next {
            self.reordered += 1;
        }
        self.highest = self.highest.max(Some(sequence));
    }

    fn lost(&self, start: Start) -> u64 {
        let Some(highest) = self.highest else { return 0 };
        let base = match start {
            Start::Zero => 0,
            Start::Seen => *self.seen.iter().min().unwrap(),
        };
        highest - base + 1 - self.seen.len() as u64
    }
}

proptest! {
    /// Walks forward mostly, with gaps, repeats and returns, some beyond the window.
    #[test]
    fn counts_equal_those_of_a_model_that_forgets_nothing(
        first in 0..300_u64,
        steps in proptest::collection::vec(
            prop_oneof![6 => 1..4_i64, 2 => -12..1_i64, 1 => -90..90_i64, 1 => 100..200_i64],
            0..300,
        ),
        start in prop_oneof![Just(Start::Zero), Just(Start::Seen)],
    ) {
        let mut stats = FlowStats::with_window(start, 64);
        let mut model = Model::default();
        let mut at = first as i64;
        for step in steps {
            let sequence = at.max(0) as u64;
            arrive(&mut stats, 10_000_000, sequence);
            model.record(sequence, 64);
            let s = stats.summary();
            prop_assert_eq!(s.duplicates, model.duplicates);
            prop_assert_eq!(s.reordered, model.reordered);
            prop_assert_eq!(s.ancient, model.ancient);
            prop_assert_eq!(s.lost, model.lost(start));
            prop_assert_eq!(stats.distinct(), model.seen.len() as u64);
            at += step;
        }
    }
}
