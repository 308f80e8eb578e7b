//! Growth of the window and recovery from losses, segment by segment.

use plexus_sim::SimTime;
use plexus_sim::tcp::{Congestion, TcpConfig};

use crate::world::{CLIENT, Link, World, ms};

const MSS: u64 = 1_460;

fn reno(sack: bool) -> TcpConfig {
    TcpConfig { congestion: Congestion::NewReno, sack, ..TcpConfig::default() }
}

/// A window that the SYN can say. The first window that is scaled differs from it, which makes the
/// first duplicate acknowledgement none (RFC 5681, 2).
fn small(sack: bool) -> TcpConfig {
    TcpConfig { receive_buffer: 0xFFFF, ..reno(sack) }
}

/// 1 Gbit/s and a round trip of 100 ms, one flow, which has `bytes` to send.
fn world(client: TcpConfig, server: TcpConfig, bytes: u64) -> World {
    let mut world = World::symmetric(1_000_000_000, ms(100), 1);
    world.record = true;
    world.add(client, server);
    world.client(0).write(bytes);
    world
}

/// What the client has sent between two times, as offsets in segments.
fn sent(world: &World, from: SimTime, to: SimTime) -> Vec<u64> {
    let sent =
        world.flows[0][CLIENT].sent.iter().filter(|(at, s)| s.len > 0 && *at >= from && *at < to);
    sent.map(|(_, s)| u64::from(s.seq - 1) / MSS).collect()
}

#[test]
fn slow_start_doubles_with_every_round_trip() {
    let mut world = world(reno(true), reno(true), u64::MAX / 4);
    let mut flights = Vec::new();
    world.run(ms(150));
    for round in 1..6 {
        flights.push(world.client(0).flight() / MSS);
        world.run(ms(150 + 100 * round));
    }
    assert_eq!(flights, [10, 20, 40, 80, 160]);
    // By acknowledgements of every second segment it is half as much again (RFC 5681, 3.1).
    let config = TcpConfig { byte_counting: None, ..reno(true) };
    let mut world = self::world(config, config, u64::MAX / 4);
    world.run(ms(550));
    // 10, 15, 22, 33, 50; a delayed acknowledgement adds one now and then.
    let flight = world.client(0).flight() / MSS;
    assert!((50..=52).contains(&flight), "{flight}");
}

#[test]
fn one_loss_is_repaired_in_a_round_trip_and_halves_the_window() {
    for sack in [true, false] {
        let mut world = world(reno(sack), reno(sack), 400 * MSS);
        // The fourth round has 80 segments, of which the 11th is lost.
        world.links[CLIENT].lost = vec![1 + 10 + 20 + 40 + 10];
        world.run(ms(10_000));
        let stats = *world.client(0).stats();
        assert_eq!((stats.retransmissions, stats.fast_recoveries, stats.timeouts), (1, 1, 0));
        assert_eq!(world.server(0).delivered(), 400 * MSS);
        // The window had grown by what was acknowledged before: by 10.
        let ssthresh = world.client(0).ssthresh() / MSS;
        assert!((44..=46).contains(&ssthresh), "{ssthresh}");
        let again = sent(&world, SimTime::ZERO, ms(10_000));
        assert_eq!(again.iter().filter(|n| **n == 80).count(), 2);
    }
}

#[test]
fn two_losses_of_a_window_take_one_round_trip_with_blocks_and_two_without() {
    let lost: Vec<u64> = (0..2).map(|n| 1 + 10 + 20 + 40 + 5 * n).collect();
    let mut finished = Vec::new();
    for sack in [true, false] {
        let mut world = world(reno(sack), reno(sack), 150 * MSS);
        world.links[CLIENT].lost = lost.clone();
        let mut done = SimTime::ZERO;
        world.steps(ms(1), ms(5_000), |world| {
            if done == SimTime::ZERO && world.server(0).delivered() == 150 * MSS {
                done = world.now;
            }
        });
        let stats = *world.client(0).stats();
        // With blocks one of them is the rescue of the last segment (RFC 6675, 4, rule 4).
        let again = 2 + u64::from(sack);
        assert_eq!((stats.retransmissions, stats.fast_recoveries, stats.timeouts), (again, 1, 0));
        finished.push(done.as_picos() / 1_000_000_000);
    }
    // The handshake, four rounds and half of a fifth, which repairs.
    assert!((550..560).contains(&finished[0]), "{finished:?}");
    // A partial acknowledgement more (RFC 6582, 3.2).
    assert!(finished[1] >= finished[0] + 80 && finished[1] < finished[0] + 120, "{finished:?}");
}

#[test]
fn three_duplicates_are_a_loss_and_two_are_not() {
    for (behind, again) in [(2, 0), (3, 1)] {
        // One of the initial window is late by two or three segments.
        for sack in [true, false] {
            let config = TcpConfig { limited_transmit: false, ..small(sack) };
            let mut world = world(config, config, (1 + behind) * MSS);
            world.links[CLIENT].lost = vec![1];
            world.run(ms(240));
            assert_eq!(world.client(0).stats().retransmissions, again, "{behind} behind");
        }
    }
}

#[test]
fn limited_transmit_makes_the_third_duplicate_of_a_window_of_three() {
    for (limited_transmit, timeouts) in [(true, 0), (false, 1)] {
        for sack in [true, false] {
            let config = TcpConfig { limited_transmit, initial_window: 3, ..small(sack) };
            let mut world = world(config, config, 6 * MSS);
            world.links[CLIENT].lost = vec![1];
            world.run(ms(5_000));
            assert_eq!(world.client(0).stats().timeouts, timeouts);
            assert_eq!(world.server(0).delivered(), 6 * MSS);
        }
    }
}

#[test]
fn after_a_timeout_slow_start_fills_only_the_holes() {
    // Of the initial window all but the fourth and the last two are lost.
    let mut world = world(reno(true), reno(true), 10 * MSS);
    world.links[CLIENT].lost = vec![1, 2, 3, 5, 6, 7, 8];
    world.run(ms(210));
    world.links[CLIENT].loss = 1.0;
    world.run(ms(700));
    world.links[CLIENT].loss = 0.0;
    world.run(ms(5_000));
    let stats = *world.client(0).stats();
    assert_eq!(world.server(0).delivered(), 10 * MSS);
    assert!(stats.timeouts >= 1);
    let after = sent(&world, ms(700), ms(5_000));
    for arrived in [3, 8, 9] {
        assert!(!after.contains(&arrived), "{after:?}");
    }
}

#[test]
fn a_lost_retransmission_is_for_the_timer() {
    for sack in [true, false] {
        let mut world = world(reno(sack), reno(sack), 100 * MSS);
        // The first of the second round, and it again, after two by limited transmit.
        world.links[CLIENT].lost = vec![11, 33];
        world.run(ms(10_000));
        assert_eq!(world.client(0).stats().timeouts, 1);
        assert_eq!(world.server(0).delivered(), 100 * MSS);
    }
}

#[test]
fn a_tail_that_nothing_follows_is_for_the_timer() {
    let mut world = world(reno(true), reno(true), 10 * MSS);
    world.links[CLIENT].lost = vec![10];
    world.run(ms(10_000));
    let stats = *world.client(0).stats();
    assert_eq!((stats.timeouts, stats.retransmissions, stats.fast_recoveries), (1, 1, 0));
    // Only for the first timeout of a segment (RFC 5681, 3.1); 2 segments at least.
    assert_eq!(world.client(0).ssthresh(), 2 * MSS);
}

#[test]
fn an_idle_connection_begins_with_the_initial_window_again() {
    for (idle_restart, first) in [(true, 10), (false, 40)] {
        let config = TcpConfig { idle_restart, ..reno(true) };
        let mut world = world(config, config, 70 * MSS);
        world.run(ms(5_000));
        world.client(0).write(100 * MSS);
        world.run(ms(5_050));
        let burst = sent(&world, ms(5_000), ms(5_050)).len() as u64;
        assert!(burst == first || !idle_restart && burst > first, "{burst}");
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut world = world(reno(true), reno(true), 0);
    world.steps(ms(200), ms(20_000), |world| {
        world.client(0).write(2 * MSS);
        world.poll(0, CLIENT);
    });
    assert_eq!(world.client(0).cwnd(), 10 * MSS);
}

#[test]
fn pacing_spreads_a_window_over_the_round_trip() {
    let config = TcpConfig { pacing: true, ..reno(true) };
    let mut world = world(config, config, 30 * MSS);
    world.run(ms(10_000));
    let times: Vec<_> = world.flows[0][CLIENT].sent.iter().filter(|(_, s)| s.len > 0).collect();
    let span = (times[9].0 - times[0].0).as_picos() / 1_000_000_000;
    // Two windows per round trip: 9 gaps of 5 ms.
    assert!((44..=46).contains(&span), "{span} ms");
}

#[test]
fn a_first_slow_start_that_watches_delays_loses_far_less() {
    // 50 Mbit/s and 20 ms, which 125 kB fill, and a queue behind that; what the first second loses
    // and carries, and where slow start ends.
    let run = |hystart, queue_bytes| {
        let mut there = Link::new(50_000_000, ms(10));
        there.queue_bytes = queue_bytes;
        let mut world = World::new(there, Link::new(50_000_000, ms(10)), 1);
        let config = TcpConfig { hystart, timestamps: true, ..TcpConfig::default() };
        world.add(config, config);
        world.client(0).write_unlimited();
        world.run(ms(1_000));
        let (carried, ssthresh) = (world.server(0).delivered(), world.client(0).ssthresh());
        (world.links[CLIENT].dropped, carried, ssthresh)
    };
    for queue_bytes in [250_000, 500_000, 1_000_000] {
        let (plain, watched) = (run(false, queue_bytes), run(true, queue_bytes));
        assert!(plain.0 > 5 * watched.0, "{queue_bytes}: {plain:?} {watched:?}");
        assert!(watched.1 > plain.1, "{queue_bytes}: {plain:?} {watched:?}");
    }
    // Where the queue is large it ends by itself.
    let (dropped, _, ssthresh) = run(true, 2_000_000);
    assert!(dropped == 0 && ssthresh < 1_250_000, "{dropped} {ssthresh}");
}
