use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MTU: u32 = 1500;

/// A source of its own for each number.
fn host(number: u64) -> Source {
    Source { port: number as u16, address: Address::Mac(MacAddr([2, 0, 0, 0, 0, 1])) }
}

fn settings(bytes: u64) -> Settings {
    Settings { bytes, long_after: 50_000, keeps_order: true, distance: None, lowrate: None }
}

fn tcp(flow: u64) -> Arrival {
    Arrival { flow, from: host(flow), is_tcp: true, bytes: MTU, frames: 1 }
}

/// A buffer with ports of 100 packets.
fn buffer(settings: Settings, ports: usize) -> DeepBuffer<u64> {
    let mut buffer = DeepBuffer::new(settings);
    (0..ports).for_each(|port| buffer.set_port(port, PortSettings::new(100, Some(1_000_000_000))));
    buffer
}

/// Pushes a packet; what was refused.
fn push(
    buffer: &mut DeepBuffer<u64>,
    now: Time,
    port: usize,
    arrival: Arrival,
    packet: u64,
) -> Vec<(usize, u64, Refusal)> {
    let mut refused = vec![];
    buffer.push(now, port, &arrival, packet, &mut |port, packet, why| {
        refused.push((port, packet, why));
    });
    refused
}

fn drain(buffer: &mut DeepBuffer<u64>, mut now: Time, port: usize) -> Vec<u64> {
    let mut out = vec![];
    loop {
        match buffer.pop(now, port) {
            Some(packet) => out.push(packet),
            None => match buffer.next_deadline(port) {
                Time::FOREVER => return out,
                at => now = now.max(at),
            },
        }
    }
}

#[test]
fn a_burst_waits_in_the_deep_buffer_and_leaves_in_order() {
    let mut buffer = buffer(settings(1 << 20), 1);
    for packet in 0..150 {
        // Ten packets of each of 15 flows.
        let refused = push(&mut buffer, Time::ZERO, 0, tcp(packet % 15), packet);
        assert_eq!(refused, []);
    }
    let state = buffer.state(0).unwrap();
    assert_eq!((state.own, state.deep.0, state.redirects), ((80, 0), 70, true));
    assert_eq!(buffer.used(), 70 * 1500);
    assert_eq!(buffer.ports().next().unwrap().unwrap().1.saved, 50);
    assert_eq!(drain(&mut buffer, Time::ZERO, 0), (0..150).collect::<Vec<_>>());
    assert_eq!((buffer.used(), buffer.state(0).unwrap().redirects), (0, false));
}

#[test]
fn without_a_budget_the_own_queue_is_all_there_is() {
    let mut buffer = buffer(settings(0), 1);
    let refused: Vec<_> =
        (0..150).flat_map(|packet| push(&mut buffer, Time::ZERO, 0, tcp(packet), packet)).collect();
    assert_eq!(refused.len(), 50);
    assert!(refused.iter().all(|(_, _, why)| *why == Refusal::Full));
}

#[test]
fn the_port_with_the_longest_queue_loses_first() {
    let mut buffer = buffer(settings(100 * 1500), 2);
    // Port 0 spends the whole budget, and one more packet is refused.
    let refused: Vec<_> =
        (0..181).flat_map(|packet| push(&mut buffer, Time::ZERO, 0, tcp(packet), packet)).collect();
    assert_eq!(refused, [(0, 180, Refusal::Budget)]);
    // Port 1 takes half of it from port 0, and no more.
    let refused: Vec<_> = (1000..1200)
        .flat_map(|packet| push(&mut buffer, Time::ZERO, 1, tcp(packet), packet))
        .collect();
    assert_eq!(refused.iter().filter(|(port, ..)| *port == 0).count(), 50);
    assert_eq!(buffer.state(0).unwrap().deep, (50, 50 * 1500));
    assert_eq!(buffer.state(1).unwrap().deep, (50, 50 * 1500));
}

#[test]
fn a_long_tcp_flow_passes_by_the_deep_buffer_with_a_limit_of_its_own() {
    let mut buffer = buffer(settings(1 << 20), 1);
    let now = Time::from_secs(1);
    for packet in 0..40 {
        assert_eq!(push(&mut buffer, now, 0, tcp(7), packet), []);
        assert_eq!(buffer.pop(now, 0), Some(packet));
    }
    assert_eq!(buffer.long_flows(now), 1);
    let refused: Vec<_> =
        (40..140).flat_map(|packet| push(&mut buffer, now, 0, tcp(7), packet)).collect();
    assert_eq!(refused.len(), 50);
    assert!(refused.iter().all(|(_, _, why)| *why == Refusal::Long));
    // Others still have the rest of the queue, and the deep buffer.
    let others = (200..300).flat_map(|packet| push(&mut buffer, now, 0, tcp(packet), packet));
    assert_eq!(others.count(), 0);
    // After a second of silence it begins anew.
    assert_eq!(buffer.long_flows(now + Duration::from_secs(1)), 0);
}

#[test]
fn long_flows_share_their_part_of_the_queue() {
    let mut buffer = buffer(settings(1 << 20), 1);
    let now = Time::from_secs(1);
    for flow in [1, 2, 3] {
        for _ in 0..40 {
            push(&mut buffer, now, 0, tcp(flow), flow);
            buffer.pop(now, 0);
        }
    }
    // The first one sends super-packets, the second one ten times as often as the third.
    let mut frames = [0; 4];
    for _ in 0..4000 {
        push(&mut buffer, now, 0, Arrival { bytes: 64_000, frames: 44, ..tcp(1) }, 1);
        (0..10).for_each(|_| drop(push(&mut buffer, now, 0, tcp(2), 2)));
        push(&mut buffer, now, 0, tcp(3), 3);
        for packet in (0..2).filter_map(|_| buffer.pop(now, 0)) {
            frames[packet as usize] += if packet == 1 { 44 } else { 1 };
        }
    }
    let [_, large, often, seldom] = frames;
    assert!(seldom * 3 > often, "{frames:?}");
    assert!(large > often, "{frames:?}");
}

#[test]
fn a_rule_that_redirected_nothing_ends_when_the_queue_is_short() {
    let mut buffer = buffer(settings(1 << 20), 1);
    for packet in 0..85 {
        push(&mut buffer, Time::ZERO, 0, tcp(packet), packet);
    }
    assert!(buffer.state(0).unwrap().redirects);
    drain(&mut buffer, Time::ZERO, 0);
    assert!(!buffer.state(0).unwrap().redirects);
}

#[test]
fn a_burst_of_udp_is_not_long_but_a_stream_is() {
    let udp = Arrival { is_tcp: false, ..tcp(9) };
    let mut buffer = buffer(settings(1 << 20), 1);
    for burst in 0..10 {
        let now = Time::from_millis(320 * burst);
        for _ in 0..133 {
            assert_eq!(push(&mut buffer, now, 0, udp, burst), []);
        }
        assert_eq!(buffer.long_flows(now), 0, "200 KB at once, 320 ms apart");
        assert_eq!(drain(&mut buffer, now, 0).len(), 133);
    }
    for at in 4000..5100 {
        push(&mut buffer, Time::from_millis(at), 0, udp, at);
        buffer.pop(Time::from_millis(at), 0);
    }
    assert_eq!(buffer.long_flows(Time::from_millis(5100)), 1, "without a pause for a second");
}

#[test]
fn long_flows_are_served_while_a_burst_goes_on() {
    let mut buffer = buffer(settings(16 << 20), 1);
    let now = Time::from_secs(1);
    for packet in 0..40 {
        push(&mut buffer, now, 0, tcp(7), packet);
        buffer.pop(now, 0);
    }
    // New flows without end: two packets come for each that leaves.
    let mut of_long = 0;
    for packet in 0..5000u64 {
        push(&mut buffer, now, 0, tcp(1_000_000 + packet), 0);
        push(&mut buffer, now, 0, tcp(2_000_000 + packet), 0);
        push(&mut buffer, now, 0, tcp(7), 7);
        of_long += usize::from(buffer.pop(now, 0) == Some(7));
    }
    assert!(of_long > 400, "{of_long} of 5,000");
}

fn chip() -> Distance {
    Distance {
        setup: Duration::from_micros(30),
        poll: Duration::from_micros(10),
        bits_per_s: 4_000_000_000,
        rules: 2,
    }
}

#[test]
fn a_chip_redirects_late_and_its_link_has_a_rate() {
    let mut buffer = buffer(Settings { distance: Some(chip()), ..settings(1 << 20) }, 1);
    let at = |us| Time::from_micros(us);
    // 100 packets at once: from the 80th on the rule is being set up.
    let refused: Vec<_> =
        (0..110).flat_map(|packet| push(&mut buffer, at(1), 0, tcp(packet), packet)).collect();
    assert_eq!(refused.len(), 10);
    // Read at 10 us, in force at 40 us.
    assert_eq!(push(&mut buffer, at(39), 0, tcp(110), 110), [(0, 110, Refusal::Full)]);
    assert_eq!(push(&mut buffer, at(40), 0, tcp(111), 111), []);
    assert_eq!(buffer.state(0).unwrap().deep.0, 1);
    // It takes 3 us over the link, and leaves behind the hundred before it.
    for packet in 0..100 {
        assert_eq!(buffer.pop(at(41), 0), Some(packet));
    }
    assert_eq!(buffer.pop(at(42), 0), None);
    assert_eq!(buffer.next_deadline(0), at(43));
    assert_eq!(buffer.pop(at(43), 0), Some(111));
}

#[test]
fn a_chip_has_rules_for_so_many_long_flows() {
    let mut buffer = buffer(Settings { distance: Some(chip()), ..settings(1 << 20) }, 1);
    for round in 0..40 {
        for flow in 0..5 {
            let now = Time::from_millis(100 + 20 * round);
            push(&mut buffer, now, 0, tcp(flow), 0);
            buffer.pop(now, 0);
        }
    }
    assert_eq!(buffer.long_flows(Time::from_millis(900)), 2);
}

#[test]
fn a_budget_without_room_for_a_packet_leaves_the_own_queue() {
    let mut buffer = buffer(settings(1000), 1);
    for round in 0..5 {
        for packet in 0..100 {
            assert_eq!(push(&mut buffer, Time::ZERO, 0, tcp(packet), packet), [], "{round}");
        }
        assert_eq!(drain(&mut buffer, Time::ZERO, 0).len(), 100);
    }
    // The same for one that is taken away while packets are redirected.
    let mut buffer = self::buffer(settings(1 << 20), 1);
    (0..90).for_each(|packet| drop(push(&mut buffer, Time::ZERO, 0, tcp(packet), packet)));
    buffer.set_settings(settings(0));
    assert_eq!(drain(&mut buffer, Time::ZERO, 0).len(), 90);
    for packet in 0..100 {
        assert_eq!(push(&mut buffer, Time::ZERO, 0, tcp(packet), packet), []);
    }
}

/// A buffer whose port has a suspect: source 1.
fn with_suspect(bytes: u64) -> (DeepBuffer<u64>, Time) {
    let lowrate = Some(lowrate::Settings::default());
    let mut buffer = buffer(Settings { lowrate, ..settings(bytes) }, 1);
    let mut now = Time::ZERO;
    for burst in 0..20 {
        now = Time::from_millis(300 * burst);
        for _ in 0..500 {
            push(&mut buffer, now, 0, Arrival { is_tcp: false, ..tcp(1) }, 1);
        }
        drain(&mut buffer, now, 0);
        buffer.tick(now + Duration::from_millis(200));
    }
    assert_eq!(buffer.watch().unwrap().suspects().count(), 1);
    (buffer, now)
}

#[test]
fn suspects_leave_room_and_half_of_the_port_to_others() {
    let (mut buffer, now) = with_suspect(1 << 20);
    let now = now + Duration::from_millis(300);
    for _ in 0..2000 {
        push(&mut buffer, now, 0, Arrival { is_tcp: false, ..tcp(1) }, 1);
    }
    let shaped = buffer.state(0).unwrap().shaped;
    assert!(shaped.1 > 200_000 && shaped.1 <= 1 << 18, "a quarter of the budget: {shaped:?}");
    for packet in 100..300 {
        assert_eq!(push(&mut buffer, now, 0, tcp(packet), packet), []);
    }
    // A packet takes 12 us of the cable, and the shaper sends one every 60 us.
    let leave = |i: u64| buffer.pop(now + Duration::from_micros(12 * i), 0);
    let left: Vec<u64> = (0..240).filter_map(leave).collect();
    let of_suspect = left.iter().filter(|packet| **packet == 1).count();
    assert!((20..=50).contains(&of_suspect), "{of_suspect} of {}", left.len());
}

#[test]
fn a_line_that_is_deep_no_more_is_forgotten_when_it_is_empty() {
    let mut buffer = buffer(settings(1 << 20), 2);
    push(&mut buffer, Time::ZERO, 1, tcp(1), 1);
    buffer.remove_port(1);
    assert!(buffer.state(1).is_some());
    buffer.pop(Time::ZERO, 1);
    buffer.remove_port(1);
    assert!(buffer.state(1).is_none());
}

#[test]
fn a_line_that_is_deep_again_does_not_wait_for_packets_of_the_former_one() {
    let mut buffer = buffer(settings(1 << 20), 2);
    for packet in 0..400 {
        push(&mut buffer, Time::ZERO, 1, tcp(7), packet);
        buffer.pop(Time::ZERO, 1);
    }
    buffer.remove_port(1);
    buffer.set_port(1, PortSettings::new(100, Some(1_000_000_000)));
    let now = Time::from_secs(3);
    (0..85).for_each(|packet| drop(push(&mut buffer, now, 1, tcp(100 + packet), packet)));
    push(&mut buffer, now, 1, tcp(7), 85);
    assert_eq!(drain(&mut buffer, now, 1).len(), 86);
}

#[test]
fn a_packet_that_leaves_no_port_is_refused() {
    let mut buffer = buffer(settings(1 << 20), 1);
    assert_eq!(push(&mut buffer, Time::ZERO, 5, tcp(1), 1), [(5, 1, Refusal::Full)]);
}

#[derive(Clone, Debug)]
enum Step {
    Push { port: usize, flow: u64, is_tcp: bool, bytes: u32 },
    Pop { port: usize, count: usize },
    Wait { us: u64 },
    Clear { port: usize },
    Settings { bytes: u64, shapes: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let push = (0..3usize, 0..12u64, any::<bool>(), prop_oneof![Just(60u32), Just(1500)])
        .prop_map(|(port, flow, is_tcp, bytes)| Step::Push { port, flow, is_tcp, bytes });
    prop_oneof![
        200 => push,
        60 => (0..3usize, 1..4usize).prop_map(|(port, count)| Step::Pop { port, count }),
        20 => prop_oneof![1..60u64, 1..30_000u64, Just(1_100_000)].prop_map(|us| Step::Wait { us }),
        1 => (0..3usize).prop_map(|port| Step::Clear { port }),
        1 => (prop_oneof![Just(0), Just(1000), Just(60_000)], any::<bool>())
            .prop_map(|(bytes, shapes)| Step::Settings { bytes, shapes }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever happens, every packet leaves or is refused once, each flow's in their order, and
    /// the budget holds.
    #[test]
    fn packets_are_neither_lost_nor_reordered(
        steps in prop::collection::vec(step(), 1..1500),
        is_chip in any::<bool>(),
        shapes in any::<bool>(),
    ) {
        let distance = is_chip.then(|| Distance { rules: 100, ..chip() });
        let lowrate = shapes.then(|| lowrate::Settings {
            window: Duration::from_millis(300),
            ..lowrate::Settings::default()
        });
        let settings =
            Settings { long_after: 5_000, distance, lowrate, ..settings(60_000) };
        let mut buffer: DeepBuffer<(usize, u64, u64)> = DeepBuffer::new(settings);
        (0..3).for_each(|port| buffer.set_port(port, PortSettings::new(10, Some(100_000_000))));
        let mut now = Time::from_secs(1);
        let (mut next, mut came, mut went) = (0u64, 0usize, 0usize);
        let mut last: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        let mut leave = |(port, flow, number): (usize, u64, u64)| {
            let before = last.insert((port, flow), number);
            assert!(before.is_none_or(|before| before < number), "flow {flow} of port {port}");
        };
        for step in steps {
            match step {
                Step::Push { port, flow, is_tcp, bytes } => {
                    let from = host(flow % 4);
                    let arrival = Arrival { flow, from, is_tcp, bytes, frames: 1 };
                    next += 1;
                    came += 1;
                    buffer.push(now, port, &arrival, (port, flow, next), &mut |_, _, _| went += 1);
                }
                Step::Pop { port, count } => {
                    for packet in (0..count).map_while(|_| buffer.pop(now, port)) {
                        went += 1;
                        leave(packet);
                    }
                }
                Step::Wait { us } => {
                    now = now + Duration::from_micros(us);
                    buffer.tick(now);
                }
                Step::Clear { port } => buffer.take_all(port, |_| went += 1),
                Step::Settings { bytes, shapes } => {
                    let lowrate = shapes.then_some(lowrate).flatten();
                    buffer.set_settings(Settings { bytes, lowrate, ..settings });
                }
            }
            prop_assert!(buffer.used() <= 60_000);
        }
        for port in 0..3 {
            loop {
                match buffer.pop(now, port) {
                    Some(packet) => {
                        went += 1;
                        leave(packet);
                    }
                    None => match buffer.next_deadline(port) {
                        Time::FOREVER => break,
                        at => {
                            prop_assert!(at > now, "it says that one may leave, and none does");
                            now = at;
                        }
                    },
                }
            }
        }
        prop_assert_eq!(came, went);
        prop_assert_eq!(buffer.used(), 0);
    }
}
