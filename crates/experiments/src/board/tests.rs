use proptest::prelude::*;

use super::memory::{Controller, Side};
use super::*;

fn streams(pairs: &[(usize, usize)]) -> Vec<Stream> {
    pairs.iter().map(|&(from, to)| Stream { from, to }).collect()
}

const GIGABIT: u64 = 1_000_000_000;
/// Sets 2 and 3 of table 3, pattern C.
const SET2_C: [(usize, usize); 2] = [(1, 8), (2, 7)];
const SET3_C: [(usize, usize); 4] = [(1, 8), (2, 7), (3, 6), (4, 5)];

/// Without enough memory for transients to last.
fn small(config: Config) -> Config {
    Config { queue_words: 2048, ..config }
}

#[track_caller]
fn run(config: &Config, pairs: &[(usize, usize)], rate: u64) -> Outcome {
    let outcome = Rig::new(config, &streams(pairs), 1300, rate, 1).unwrap().run(800_000, 1_500_000);
    assert!(outcome.balances(), "{outcome:?}");
    outcome
}

/// A transmitter that knows one clock at a time: what [`Lane::send`] says, said slowly.
fn naive(link: Link, frames: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut clock = 0;
    // The next clock in which something other than compensation goes out.
    let tick = |clock: &mut u64| {
        while link.compensation.is_some_and(|c| *clock % c.every >= c.every - c.takes) {
            *clock += 1;
        }
        *clock += 1;
        *clock - 1
    };
    let send = |&(ready, bytes): &(u64, u64)| {
        clock = clock.max(ready);
        (0..link.more_clocks).for_each(|_| {
            tick(&mut clock);
        });
        let mut pad = 0;
        while !(bytes + link.more_bytes + pad).is_multiple_of(link.word_bytes) {
            pad += 1;
        }
        let data = (bytes + link.more_bytes + pad).div_ceil(2);
        let clocks: Vec<u64> =
            (0..data + 2 * u64::from(link.delimiters)).map(|_| tick(&mut clock)).collect();
        let (first, last) = (clocks[0], clocks[clocks.len() - 1]);
        (0..link.idle_clocks).for_each(|_| {
            tick(&mut clock);
        });
        (first, last + 1)
    };
    frames.iter().map(send).collect()
}

fn any_link() -> impl Strategy<Value = Link> {
    let compensation = (1_u64..9, 1_u64..60)
        .prop_map(|(takes, useful)| Some(Compensation { every: takes + useful, takes }));
    let compensation = prop_oneof![Just(None), Just(Some(Compensation::STATED)), compensation];
    let ends = (any::<bool>(), prop_oneof![Just(2_u64), Just(8)]);
    (ends, 0_u64..20, compensation, 0_u64..9, 0_u64..5).prop_map(
        |((delimiters, word_bytes), idle_clocks, compensation, more_bytes, more_clocks)| Link {
            delimiters,
            word_bytes,
            idle_clocks,
            compensation,
            more_bytes,
            more_clocks,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_lane_sends_when_one_stepped_clock_by_clock_does(
        link in any_link(),
        frames in prop::collection::vec((0_u64..1500, 1_u64..400), 1..40),
    ) {
        let mut ready = 0;
        let frames: Vec<(u64, u64)> = frames
            .into_iter()
            .map(|(later, bytes)| {
                ready += later;
                (ready, bytes)
            })
            .collect();
        let mut lane = Lane::new(link);
        let sent: Vec<_> = frames.iter().map(|&(now, bytes)| lane.send(now, bytes)).collect();
        prop_assert_eq!(sent, naive(link, &frames));
    }

    #[test]
    fn compensation_takes_exactly_6_of_any_5000_clocks(first in 0_u64..20_000) {
        let taken = (first..first + 5000).filter(|c| Compensation::STATED.has(*c)).count();
        prop_assert_eq!(taken, 6);
    }

    #[test]
    fn a_lane_that_is_never_idle_is_as_fast_as_the_formula(
        link in any_link(),
        bytes in 1_u64..1515,
    ) {
        let mut lane = Lane::new(link);
        let (first, _) = lane.send(0, bytes);
        let many = 2_000;
        let (last, _) = (0..many).map(|_| lane.send(0, bytes)).last().unwrap();
        let mean = (last - first) as f64 / f64::from(many);
        // A compensation more or less.
        let slack = link.compensation.map_or(0, |c| c.takes + 1) as f64 / f64::from(many);
        prop_assert!((mean - link.mean_clocks(bytes)).abs() <= slack, "{}", mean);
    }

    #[test]
    fn every_frame_is_accounted_for_whatever_the_boards_are_like(
        link in any_link(),
        turns in prop::option::of((1_u32..30, 1_u32..30)),
        gaps in (0_u32..9, 0_u32..9, any::<bool>()),
        fifos in (0_u32..9_000, 200_u32..3_000, 200_u32..800),
        ppm in (-100_i32..=100, -100_i32..=100, -100_i32..=100),
        lanes in prop_oneof![Just(Lanes::Static), Just(Lanes::Hash), Just(Lanes::Adaptive)],
        to in Just(vec![1_usize, 2, 3, 4, 5, 6, 7, 8]).prop_shuffle(),
        payload in 1_u64..=1472,
        rate in prop_oneof![Just(GIGABIT), 1_000_000_u64..GIGABIT],
        seed in any::<u64>(),
    ) {
        let config = Config {
            link,
            memory: Memory {
                turns: turns.map(|(write, read)| Turns { write, read }),
                store_gap: gaps.0,
                remove_gap: gaps.1,
                scan: gaps.2,
            },
            rx_full_bytes: fifos.0,
            queue_words: fifos.1,
            tx_words: fifos.2,
            lanes,
            boards_fast_ppm: [ppm.0, ppm.1],
            hosts_fast_ppm: ppm.2,
        };
        let pairs: Vec<Stream> = (1..=8)
            .zip(to)
            .filter(|(from, to)| from != to)
            .map(|(from, to)| Stream { from, to })
            .collect();
        let outcome = Rig::new(&config, &pairs, payload, rate, seed).unwrap().run(20_000, 30_000);
        prop_assert!(outcome.balances(), "{:?}", outcome);
        prop_assert!(outcome.delivered_in_all > 0 || outcome.sent_in_all < 40);
    }

    #[test]
    fn the_memory_moves_a_word_whenever_it_can_and_turns_as_its_controller_does(
        wants in prop::collection::vec((0_u8..4, 1_usize..40), 1..60),
        turns in prop::option::of((1_u32..30, 1_u32..30)),
    ) {
        let turns = turns.map(|(write, read)| Turns { write, read });
        let mut controller = Controller::new(Memory { turns, ..Memory::STATED });
        let wants = wants.iter().flat_map(|&(w, n)| std::iter::repeat_n(w, n));
        let (mut last, mut lost, mut turn, mut before) = (None, 0, 0, (false, false));
        let (mut was_both, mut waited) = (false, [0; 2]);
        for (write, read) in wants.map(|w| (w & 1 != 0, w & 2 != 0)) {
            let moved = controller.clock(write, read);
            let may = match moved {
                Some(Side::Write) => write,
                Some(Side::Read) => read,
                None => turns.is_some() || !(write || read),
            };
            prop_assert!(may);
            let is_new = before != (write, read);
            lost = if moved.is_some() || is_new { 0 } else { lost + 1 };
            before = (write, read);
            // One clock to see that a side wants nothing, one to turn around.
            prop_assert!(lost < 2 || !(write || read));
            // In a turn words move in every clock.
            turn = match moved {
                Some(_) if write && read && moved == last && was_both => turn + 1,
                Some(_) => 1,
                None => 0,
            };
            was_both = write && read && moved.is_some();
            for (side, wants) in [(Side::Write, write), (Side::Read, read)] {
                let waited = &mut waited[side as usize];
                *waited = if wants && moved != Some(side) { *waited + 1 } else { 0 };
                if let Some(turns) = turns {
                    let [own, other] = match side {
                        Side::Write => [turns.write, turns.read],
                        Side::Read => [turns.read, turns.write],
                    };
                    // Its own turn may begin in vain; then the other's whole turn is waited for.
                    prop_assert!(*waited <= other + 3, "{side:?} waits for {waited} clocks");
                    prop_assert!(moved != Some(side) || turn <= own, "{turn} words of {own}");
                }
            }
            last = moved.or(last);
        }
    }
}

#[test]
fn one_stream_for_each_link_loses_nothing_and_runs_at_the_cables_rate() {
    for pairs in [&[(1, 3), (2, 4)][..], &[(1, 5), (4, 8)], &[(1, 2), (3, 4)]] {
        let outcome = run(&Config::STATED, pairs, GIGABIT);
        assert_eq!(outcome.dropped, Dropped::default(), "{pairs:?}");
        // 1300 bytes of 1366 in a gigabit cable's time, to a frame.
        let rate = outcome.throughput_bits_per_s();
        assert!((rate - 951.68e6).abs() < 1e6, "{pairs:?}: {rate}");
    }
}

#[test]
fn two_streams_lose_on_a_link_what_its_formula_says_and_no_more_with_four_on_two() {
    // Two gigabit cables bring a frame in half of 1342 + 24 clocks.
    let formula = 1.0 - 683.0 / Link::STATED.mean_clocks(1342);
    assert!((formula - 0.0041).abs() < 1e-4, "{formula}");
    for pairs in [&SET2_C[..], &SET3_C] {
        let outcome = run(&small(Config::STATED), pairs, GIGABIT);
        assert!((outcome.loss() - formula).abs() < 0.001, "{pairs:?}: {outcome:?}");
        assert!(outcome.dropped.output_queue > 0, "{outcome:?}");
    }
    let unspaced = Link { idle_clocks: 0, ..Link::STATED };
    let outcome = run(&small(Config { link: unspaced, ..Config::STATED }), &SET3_C, GIGABIT);
    assert_eq!(outcome.dropped, Dropped::default());
    // At 900 Mbit/s of payload there is room again.
    let outcome = run(&small(Config::STATED), &SET3_C, 900_000_000);
    assert_eq!(outcome.dropped, Dropped::default());
}

#[test]
fn a_memory_that_turns_around_costs_four_streams_and_not_two() {
    let config = small(Config { memory: Memory::REFERENCE_DESIGN, ..Config::STATED });
    let (two, four) = (run(&config, &SET2_C, GIGABIT), run(&config, &SET3_C, GIGABIT));
    assert!(two.loss() < 0.005 && four.loss() > 0.03, "{two:?} {four:?}");
    // On one board, too: there is no link to blame.
    let busy = [(1, 3), (2, 4), (3, 1), (4, 2)];
    assert!(run(&config, &busy, GIGABIT).loss() > 0.03);
    assert!(run(&small(Config::STATED), &busy, GIGABIT).loss() < 0.001);
}

#[test]
fn lanes_are_chosen_by_destination_by_hash_or_by_load() {
    let lossy = |lanes| {
        let outcome = run(&small(Config { lanes, ..Config::STATED }), &SET2_C, GIGABIT);
        outcome.dropped.output_queue > 0
    };
    assert!(lossy(Lanes::Static) && !lossy(Lanes::Adaptive));
    let config = small(Config { lanes: Lanes::Hash, ..Config::STATED });
    let dropped = |seed| {
        let rig = Rig::new(&config, &streams(&SET2_C), 1300, GIGABIT, seed).unwrap();
        rig.run(0, 4_000_000).dropped.output_queue
    };
    let seeds: Vec<u64> = (1..5).map(dropped).collect();
    assert!(seeds.contains(&0) && seeds.iter().any(|d| *d > 0), "{seeds:?}");
}

#[test]
fn a_slow_board_loses_more_and_a_seed_makes_the_same_run() {
    let ppm = Config { boards_fast_ppm: [-100_000, 0], ..small(Config::STATED) };
    let slow = run(&ppm, &[(1, 2)], GIGABIT);
    // A tenth less is sent than comes.
    assert!((slow.loss() - 0.091).abs() < 0.003, "{slow:?}");
    assert_eq!(run(&ppm, &[(1, 2)], GIGABIT), slow);
}

#[test]
fn the_ideal_switch_loses_only_where_a_cable_does() {
    let sent = |pairs: &[(usize, usize)]| {
        let outcome = ideal(&streams(pairs), 1300, GIGABIT, 1, [100_000, 1_000_000]);
        assert!(outcome.balances(), "{outcome:?}");
        outcome.loss()
    };
    assert!(sent(&SET3_C).abs() < 0.001);
    assert!((sent(&[(1, 3), (2, 3)]) - 0.5).abs() < 0.001);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |pairs: &[(usize, usize)], payload| {
        Rig::new(&Config::STATED, &streams(pairs), payload, GIGABIT, 1).err().unwrap()
    };
    assert!(refused(&[(1, 9)], 1300).contains("machines are 1 to 8"));
    assert!(refused(&[(0, 1)], 1300).contains("(0, 1)"));
    assert!(refused(&[(1, 2), (1, 3)], 1300).contains("machine 1"));
    assert!(refused(&[(2, 2)], 1300).contains("machine 2"));
    assert!(refused(&[(1, 2)], 1473).contains("1473"));
    let config = Config { tx_words: 100, ..Config::STATED };
    let error = Rig::new(&config, &streams(&[(1, 2)]), 1300, GIGABIT, 1).err().unwrap();
    assert!(error.contains("169 words"), "{error}");
}
