//! Opening, closing, timers and windows.

use std::time::Duration;

use plexus_sim::SimTime;
use plexus_sim::tcp::{Codepoint, EcnUse, Failure, Segment, State, Tcp, TcpConfig};
use plexus_wire::Time;
use plexus_wire::tcp::Flags;

use crate::world::{CLIENT, SERVER, World, ms};

const ACK: Flags = Flags::ACK;

/// 100 Mbit/s and a round trip of 20 ms.
fn world() -> World {
    let mut world = World::symmetric(100_000_000, ms(20), 1);
    world.record = true;
    world
}

/// When `side` sent segments that have all of `flags`, in ms.
fn times(world: &World, side: usize, flags: Flags) -> Vec<u64> {
    let sent = world.flows[0][side].sent.iter();
    sent.filter(|(_, s)| s.has(flags)).map(|(at, _)| at.as_picos() / 1_000_000_000).collect()
}

#[test]
fn both_open_and_both_close() {
    let mut world = world();
    world.add(TcpConfig::default(), TcpConfig { initial_seq: u32::MAX, ..TcpConfig::default() });
    world.client(0).write(5_000);
    world.client(0).close();
    world.run(ms(100));
    assert_eq!(world.server(0).delivered(), 5_000);
    assert!(world.server(0).peer_closed());
    assert_eq!(world.client(0).state(), State::FinWait2);
    assert_eq!(world.server(0).state(), State::CloseWait);
    world.server(0).close();
    world.run(ms(200));
    assert_eq!(world.client(0).state(), State::TimeWait);
    assert_eq!(world.server(0).state(), State::Closed);
    world.run(ms(61_000));
    assert!(world.closed());
    assert_eq!(world.client(0).failure(), None);
    // SYN, four segments of which the last says FIN, and an acknowledgement of the peer's FIN.
    assert_eq!(world.client(0).stats().segments_sent, 6);
}

#[test]
fn both_may_call_each_other_and_close_at_once() {
    let config = TcpConfig::default();
    let mut world = world();
    world.add(config, config);
    world.flows[0][SERVER].tcp = Tcp::connect(config);
    world.client(0).write(10_000);
    world.server(0).write(12_000);
    world.client(0).close();
    world.server(0).close();
    world.run(ms(400));
    assert_eq!((world.client(0).delivered(), world.server(0).delivered()), (12_000, 10_000));
    assert_eq!(world.client(0).state(), State::TimeWait);
    assert_eq!(world.server(0).state(), State::TimeWait);
}

#[test]
fn a_lost_syn_is_sent_again_after_1_3_and_7_seconds_or_as_configured() {
    for (initial, expected) in [(1, [0, 1_000, 3_000, 7_000]), (3, [0, 3_000, 9_000, 21_000])] {
        let mut world = world();
        let rto_initial = Duration::from_secs(initial);
        let config = TcpConfig { rto_initial, ..TcpConfig::default() };
        world.add(config, config);
        world.links[CLIENT].lost = vec![0, 1, 2];
        world.client(0).write(100_000);
        world.run(ms(60_000));
        assert_eq!(times(&world, CLIENT, Flags::SYN), expected);
        assert_eq!(world.client(0).stats().syn_timeouts, 3);
        assert_eq!(world.server(0).delivered(), 100_000);
        // The handshake has met congestion: one segment at first (RFC 6928, 2), a timeout of 3 s
        // until a round trip is known (RFC 6298, 5.7).
        let sent = &world.flows[0][CLIENT].sent;
        let first = sent.iter().filter(|(_, s)| s.len > 0);
        let first: Vec<_> = first.map(|(at, _)| at.as_picos() / 1_000_000_000).collect();
        assert!(first[1] >= first[0] + 20, "{first:?}");
    }
}

#[test]
fn a_lost_syn_ack_is_sent_again_and_a_lost_ack_of_it_is_made_good_by_data() {
    let mut world = world();
    world.add(TcpConfig::default(), TcpConfig::default());
    world.links[SERVER].lost = vec![0];
    world.links[CLIENT].lost = vec![2, 3];
    world.client(0).write(30_000);
    world.run(ms(10_000));
    assert_eq!(world.server(0).delivered(), 30_000);
    assert!(world.server(0).stats().syn_timeouts >= 1);
}

#[test]
fn nobody_there_is_noticed() {
    let mut world = world();
    world.add(TcpConfig { syn_retries: 3, ..TcpConfig::default() }, TcpConfig::default());
    world.links[CLIENT].loss = 1.0;
    world.run(SimTime::FOREVER);
    assert_eq!(times(&world, CLIENT, Flags::SYN), [0, 1_000, 3_000, 7_000]);
    assert_eq!(world.client(0).failure(), Some(Failure::TimedOut));
}

#[test]
fn the_timeout_doubles_until_the_peer_is_given_up() {
    let mut world = world();
    let config = TcpConfig { retries: 9, rto_max: Duration::from_secs(20), ..TcpConfig::default() };
    world.add(config, TcpConfig::default());
    world.run(ms(100));
    world.links[CLIENT].loss = 1.0;
    world.client(0).write(100);
    world.run(SimTime::FOREVER);
    let sent = &world.flows[0][CLIENT].sent;
    let sent: Vec<_> = sent.iter().filter(|(_, s)| s.len > 0).map(|(at, _)| *at).collect();
    let gaps: Vec<_> = sent.windows(2).map(|w| (w[1] - w[0]).as_picos() / 1_000_000_000).collect();
    assert_eq!(gaps, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 20_000, 20_000]);
    assert_eq!(world.client(0).failure(), Some(Failure::TimedOut));
    assert_eq!(world.client(0).stats().timeouts, 9);
}

#[test]
fn a_closed_window_is_probed_and_goes_on_when_it_opens() {
    let mut world = world();
    world.check = false;
    let server = TcpConfig { receive_buffer: 20_000, auto_read: false, ..TcpConfig::default() };
    world.add(TcpConfig::default(), server);
    world.client(0).write(60_000);
    world.run(ms(10_000));
    assert_eq!(world.server(0).readable(), 20_000);
    assert_eq!(world.client(0).acknowledged(), 20_000);
    // Probes back off (RFC 9293, 3.8.6.1), and are no sign of congestion.
    let probes = world.client(0).stats().window_probes;
    assert!((5..=6).contains(&probes), "{probes}");
    assert_eq!(world.client(0).stats().timeouts, 0);
    let cwnd = world.client(0).cwnd();
    // The news that the window has opened is lost: the next probe finds out.
    world.links[SERVER].lost = vec![world.links[SERVER].packets];
    world.server(0).read(20_000);
    world.run(ms(30_000));
    assert_eq!(world.server(0).readable(), 20_000);
    world.server(0).read(20_000);
    world.run(ms(31_000));
    world.server(0).read(20_000);
    world.run(ms(40_000));
    assert_eq!((world.server(0).delivered(), world.server(0).readable()), (60_000, 0));
    assert!(world.client(0).cwnd() >= cwnd);
    assert_eq!(world.client(0).stats().timeouts, 0);
}

#[test]
fn a_small_reader_gets_no_silly_windows() {
    let mut world = world();
    world.check = false;
    let server = TcpConfig { receive_buffer: 30_000, auto_read: false, ..TcpConfig::default() };
    world.add(TcpConfig::default(), server);
    world.client(0).write(200_000);
    world.steps(ms(1), ms(5_000), |world| {
        world.server(0).read(100);
        world.poll(0, SERVER);
    });
    world.server(0).read(200_000);
    world.run(ms(60_000));
    assert_eq!(world.server(0).delivered() - world.server(0).readable(), 200_000);
    let sent = world.client(0).stats().data_segments_sent;
    assert!(sent < 200_000 / 1_460 + 20, "{sent} segments");
}

#[test]
fn the_window_is_scaled_if_both_say_so() {
    for (scaling, most) in [(true, 4 << 20), (false, 0xFFFF)] {
        let mut world = World::symmetric(10_000_000_000, ms(100), 1);
        world.add(
            TcpConfig::default(),
            TcpConfig { window_scaling: scaling, ..TcpConfig::default() },
        );
        world.client(0).write_unlimited();
        let mut flight = 0;
        world.steps(ms(1), ms(3_000), |world| flight = flight.max(world.client(0).flight()));
        assert!(flight <= most && flight > most - 1_460 * 2, "{flight}");
    }
}

/// An endpoint in a connection that stands, at 1 s; the peer's numbers begin at 0.
fn standing() -> Tcp {
    let mut tcp = Tcp::listen(TcpConfig::default());
    let now = Time::from_secs(1);
    let syn = Segment { flags: Flags::SYN, mss: Some(1_460), ..Segment::default() };
    tcp.handle(now, &syn);
    assert!(tcp.poll(now).unwrap().has(Flags::SYN | ACK));
    tcp.handle(now, &Segment { seq: 1, ack: 1, flags: ACK, window: 9_000, ..Segment::default() });
    assert_eq!(tcp.state(), State::Established);
    tcp
}

#[test]
fn a_reset_counts_only_with_the_very_number_that_is_expected() {
    let now = Time::from_secs(1);
    for (seq, state, answers) in
        [(1, State::Closed, false), (2, State::Established, true), (0, State::Established, false)]
    {
        let mut tcp = standing();
        tcp.handle(now, &Segment { seq, flags: Flags::RST, ..Segment::default() });
        assert_eq!(tcp.state(), state);
        assert_eq!(tcp.poll(now).is_some_and(|s| s.flags == ACK), answers);
    }
    // A blind SYN is challenged (RFC 5961, 4.2).
    let mut tcp = standing();
    tcp.handle(now, &Segment { seq: 77, flags: Flags::SYN, ..Segment::default() });
    assert_eq!(tcp.poll(now).unwrap().flags, ACK);
    assert_eq!(tcp.state(), State::Established);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_answered_and_dropped() {
    let now = Time::from_secs(1);
    let mut tcp = standing();
    tcp.handle(now, &Segment { seq: 1, ack: 50, flags: ACK, len: 10, ..Segment::default() });
    assert_eq!((tcp.delivered(), tcp.acknowledged()), (0, 0));
    assert_eq!(tcp.poll(now).unwrap().ack, 1);
}

#[test]
fn aborting_resets_the_peer() {
    let mut world = world();
    world.add(TcpConfig::default(), TcpConfig::default());
    world.client(0).write_unlimited();
    world.run(ms(100));
    world.client(0).abort();
    world.run(ms(200));
    assert!(world.closed());
    assert_eq!(world.server(0).failure(), Some(Failure::Reset));
}

#[test]
fn every_second_segment_is_acknowledged_and_a_single_one_after_40_ms() {
    let mut world = world();
    world.add(TcpConfig::default(), TcpConfig::default());
    world.client(0).write(10 * 1_460);
    world.run(ms(500));
    // SYN-ACK and five.
    assert_eq!(world.server(0).stats().segments_sent, 6);
    let before = world.now;
    world.client(0).write(1_460);
    world.run(ms(1_000));
    let (at, _) = world.flows[0][SERVER].sent[6];
    let waited = (at - before).as_picos() / 1_000_000_000;
    assert_eq!(waited, 10 + 40, "one way, then the delay");
    // With quick acknowledgements every one of the first is.
    let mut world = World::symmetric(100_000_000, ms(20), 1);
    world.add(TcpConfig::default(), TcpConfig { quick_acks: 16, ..TcpConfig::default() });
    world.client(0).write(10 * 1_460);
    world.run(ms(500));
    assert_eq!(world.server(0).stats().segments_sent, 11);
}

#[test]
fn ecn_is_used_if_both_want_it_and_marks_are_echoed_until_the_window_is_reduced() {
    let on = TcpConfig { ecn: EcnUse::Data, ..TcpConfig::default() };
    for (server, expected) in [(on, true), (TcpConfig::default(), false)] {
        let mut world = world();
        world.add(on, server);
        world.links[CLIENT].mark_bytes = 50_000;
        world.client(0).write_unlimited();
        world.run(ms(2_000));
        let client = &world.flows[0][CLIENT];
        let capable = |(_, s): &&(SimTime, Segment)| s.ecn == Codepoint::Ect0;
        assert_eq!(client.sent.iter().any(|s| capable(&s)), expected);
        // Neither SYN nor pure acknowledgements are ECN-capable (RFC 3168, 6.1.1 and 6.1.4).
        assert!(client.sent.iter().filter(capable).all(|(_, s)| s.len > 0));
        assert!(world.flows[0][SERVER].sent.iter().all(|s| !capable(&s)));
        let reductions = client.tcp.stats().ecn_reductions;
        assert_eq!(reductions > 0, expected);
        // Each is told the peer, once.
        let told = client.sent.iter().filter(|(_, s)| s.len > 0 && s.has(Flags::CWR)).count();
        assert!(told as u64 == reductions || told as u64 + 1 == reductions);
        assert_eq!(world.links[CLIENT].marked > 0, expected);
        assert_eq!(world.client(0).stats().retransmissions, 0);
    }
}
