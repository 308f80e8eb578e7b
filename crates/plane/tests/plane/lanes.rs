//! The choice among lanes: which flows share one, and that none is reordered by it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::{Plan, ipv4, mac};
use crate::net::{CAPABILITIES, Node};
use plexus_config::LaneChoice;
use plexus_plane::DropReason;
use plexus_wire::Time;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const A: u64 = 0xA;
const B: u64 = 0xB;
/// The fabric header of a route with one hop left, and of an Ethernet, IPv4 and UDP header.
const BEFORE_PAYLOAD: usize = 8 + 14 + 20 + 8;

/// A UDP packet from A to B with its flow's number as source port, and its own in the payload.
fn packet(flow: u16, number: u32, len: usize) -> Vec<u8> {
    let mut datagram = flow.to_be_bytes().to_vec();
    datagram.extend([0, 81]);
    datagram.extend(((len - 34) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(number.to_be_bytes());
    datagram.resize(len - 34, 0);
    ipv4([mac(B), mac(A)], [[10, 0, 0, 1], [10, 0, 0, 2]], (0, 64, 17), &datagram)
}

/// A packet that left: when, by which port, its flow and its number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Left {
    at: Time,
    port: usize,
    flow: u16,
    number: u32,
}

/// A packet that a host sends: when, its flow, its length.
type Offer = (Time, u16, usize);

/// Host A at port 0, B behind the lanes from port 1 on, each of this rate.
fn lanes(choice: LaneChoice, rates: &[Option<u64>], workers: usize) -> Node {
    let mut plan = Plan { capabilities: Some(CAPABILITIES), workers, ..Plan::new(rates.len() + 1) };
    for (port, rate) in plan.ports[1..].iter_mut().zip(rates) {
        port.rate_bits_per_s = *rate;
    }
    let mut node = Node::with(plan);
    node.tables.set_lanes(choice);
    node.host(0, mac(A));
    let ports: Vec<u16> = (1..=rates.len() as u16).collect();
    node.link(&ports);
    let paths: Vec<[u8; 2]> = ports.iter().map(|p| [*p as u8, 3]).collect();
    node.route(0, mac(B), &paths.iter().map(|p| &p[..]).collect::<Vec<_>>());
    node
}

/// Takes what has left, each frame as its last node's cable carries it.
fn take(node: &mut Node) -> Vec<Left> {
    node.rig.settle();
    let at = node.rig.now;
    let read = |(port, f): (usize, Vec<u8>)| {
        let number = u32::from_be_bytes(*f[BEFORE_PAYLOAD..].first_chunk().unwrap());
        let flow = u16::from_be_bytes([f[BEFORE_PAYLOAD - 8], f[BEFORE_PAYLOAD - 7]]);
        Left { at, port, flow, number }
    };
    node.rig.take().into_iter().map(read).collect()
}

/// Sends packets at their times, and turns the node's workers whenever one has something to do,
/// until all is quiet.
fn send(node: &mut Node, offers: &[Offer]) -> Vec<Left> {
    let mut left = Vec::new();
    let mut numbers: BTreeMap<u16, u32> = BTreeMap::new();
    let mut next = 0;
    loop {
        let deadline = node.rig.workers.iter().map(|w| w.next_deadline()).min().unwrap();
        let due = offers.get(next).map_or(Time::FOREVER, |o| o.0).min(deadline);
        if due == Time::FOREVER {
            return left;
        }
        node.rig.now = due.max(node.rig.now);
        while let Some(&(_, flow, len)) = offers.get(next).filter(|o| o.0 <= node.rig.now) {
            let number = numbers.entry(flow).or_default();
            assert!(node.rig.try_offer(0, &packet(flow, *number, len)));
            *number += 1;
            next += 1;
        }
        left.extend(take(node));
    }
}

/// Flows whose packets did not leave in order. Two packets that leave at once by different ports
/// have no order.
fn reordered(left: &[Left]) -> BTreeSet<u16> {
    let mut last: BTreeMap<u16, Left> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for l in left {
        if let Some(before) = last.insert(l.flow, *l)
            && (before.number >= l.number || before.at == l.at && before.port != l.port)
        {
            found.insert(l.flow);
        }
    }
    found
}

/// An even stream from `start` on for `ms` milliseconds.
fn stream(flow: u16, start: Time, ms: u64, bits_per_s: u64, len: usize) -> Vec<Offer> {
    let interval = Duration::from_nanos(len as u64 * 8 * 1_000_000_000 / bits_per_s);
    let count = u64::from(ms as u32) * 1_000_000 / interval.as_nanos() as u64;
    (0..count as u32).map(|i| (start + interval * i, flow, len)).collect()
}

fn in_time(streams: Vec<Vec<Offer>>) -> Vec<Offer> {
    let mut offers = streams.concat();
    offers.sort_by_key(|o| o.0);
    offers
}

/// The ports that each flow has used.
fn ports_of(left: &[Left]) -> BTreeMap<u16, BTreeSet<usize>> {
    let mut ports: BTreeMap<u16, BTreeSet<usize>> = BTreeMap::new();
    for l in left {
        ports.entry(l.flow).or_default().insert(l.port);
    }
    ports
}

#[test]
fn static_lanes_follow_from_the_destinations_port() {
    let mut node = lanes(LaneChoice::Static, &[None, None], 1);
    for port in 0..8_u8 {
        // Whatever the order of the set.
        let (one, two) = ([1, port], [2, port]);
        let paths = if [0, 3, 6].contains(&port) { [&one[..], &two] } else { [&two[..], &one] };
        node.route(0, mac(0x100 + u64::from(port)), &paths);
    }
    let to = |node: &mut Node, port: u64, flow: u16| {
        let mut f = packet(flow, 0, 60);
        f[..6].copy_from_slice(&mac(0x100 + port).0);
        node.rig.ports_reached(0, &f)
    };
    let by_port = |port: u64| [1, 1, 2, 2, 1, 1, 2, 2][port as usize];
    for (port, flow) in (0..8).flat_map(|port| [(port, 1), (port, 2), (port, 77)]) {
        assert_eq!(to(&mut node, port, flow), [by_port(port)], "to port {port}");
    }
    node.rig.plug(1, false);
    node.rig.maintain();
    (0..8).for_each(|port| assert_eq!(to(&mut node, port, 1), [2]));
    node.rig.plug(1, true);
    node.rig.maintain();
    (0..8).for_each(|port| assert_eq!(to(&mut node, port, 1), [by_port(port)]));
}

#[test]
fn a_lane_that_fails_moves_its_static_flows_and_no_others() {
    let mut node = lanes(LaneChoice::Static, &[None; 3], 1);
    for port in 0..6_u8 {
        let paths: Vec<[u8; 2]> = (1..4).map(|lane| [lane, port]).collect();
        let paths: Vec<&[u8]> = paths.iter().map(|p| &p[..]).collect();
        node.route(0, mac(0x100 + u64::from(port)), &paths);
    }
    node.rig.plug(2, false);
    node.rig.maintain();
    for (port, lane) in [(0, 1), (1, 1), (2, 3), (3, 3), (4, 3), (5, 3)] {
        let mut f = packet(1, 0, 60);
        f[..6].copy_from_slice(&mac(0x100 + port).0);
        assert_eq!(node.rig.ports_reached(0, &f), [lane], "to port {port}");
    }
}

/// How far from even `flows` equal streams are that begin within 300 ms: the flows of the lane
/// that has most, less those of the one that has least.
fn unevenness(choice: LaneChoice, flows: u16, rates: &[Option<u64>], seed: u64) -> usize {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut node = lanes(choice, rates, 1);
    let first: u16 = rng.random_range(1024..60_000);
    let streams = (first..first + flows).map(|flow| {
        let start = Time::from_secs(2) + Duration::from_micros(rng.random_range(0..300_000));
        stream(flow, start, 400, 9_000_000, 1342)
    });
    let left = send(&mut node, &in_time(streams.collect()));
    assert_eq!(reordered(&left), BTreeSet::new());
    let ports = ports_of(&left);
    assert!(ports.values().all(|p| p.len() == 1), "{ports:?}");
    let on = |port| ports.values().filter(|p| p.contains(&port)).count();
    let counts: Vec<usize> = (1..=rates.len()).map(on).collect();
    counts.iter().max().unwrap() - counts.iter().min().unwrap()
}

#[test]
fn few_large_flows_are_spread_evenly_where_the_hash_leaves_it_to_luck() {
    for (flows, rates) in [(2, [Some(20_000_000); 2]), (4, [Some(40_000_000); 2]), (4, [None; 2])] {
        let even = |choice| (0..40).filter(|s| unevenness(choice, flows, &rates, *s) == 0).count();
        assert_eq!(even(LaneChoice::LeastLoaded), 40, "{flows} flows over {rates:?}");
        assert!((4..34).contains(&even(LaneChoice::PerFlow)));
    }
    // And over more lanes, of which one may have one flow more.
    assert!((0..40).all(|s| unevenness(LaneChoice::LeastLoaded, 8, &[None; 3], s) <= 1));
}

#[test]
fn a_large_flow_keeps_away_from_another_whatever_small_ones_do() {
    for seed in 0..30 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut node = lanes(LaneChoice::LeastLoaded, &[Some(30_000_000); 2], 1);
        let begin = Time::from_secs(2);
        let mut streams = vec![stream(1, begin, 1500, 10_000_000, 1342)];
        // Small ones come again and again after pauses in which they are forgotten.
        for flow in 100..130 {
            let pause = Duration::from_millis(rng.random_range(120..400));
            let phase = Duration::from_millis(rng.random_range(0..400));
            streams.push((0..4).map(|i| (begin + phase + pause * i, flow, 120)).collect());
        }
        let later = begin + Duration::from_millis(rng.random_range(300..900));
        streams.push(stream(2, later, 500, 10_000_000, 1342));
        let left = send(&mut node, &in_time(streams));
        let ports = ports_of(&left);
        assert!(ports[&1].is_disjoint(&ports[&2]), "seed {seed}: {ports:?}");
        assert_eq!(reordered(&left), BTreeSet::new());
    }
}

#[test]
fn a_faster_lane_gets_more() {
    let mut node = lanes(LaneChoice::LeastLoaded, &[Some(60_000_000), Some(20_000_000)], 1);
    let begin = Time::from_secs(2);
    let streams = (0..8).map(|f| {
        stream(f, begin + Duration::from_millis(70 * u64::from(f)), 1000, 8_000_000, 1342)
    });
    let left = send(&mut node, &in_time(streams.collect()));
    let ports = ports_of(&left);
    assert_eq!(ports.values().filter(|p| p.contains(&1)).count(), 6, "{ports:?}");
    assert_eq!(node.rig.account().dropped, 0);
}

#[test]
fn what_waits_at_a_lane_keeps_flows_away_from_it() {
    let mut node = lanes(LaneChoice::LeastLoaded, &[Some(10_000_000); 2], 1);
    // Frames that only pass through fill the first lane's queue.
    let through = {
        let mut repr =
            plexus_wire::fabric::Repr::new(plexus_wire::fabric::Kind::Ethernet, &[1, 3]).unwrap();
        repr.reverse.push(0);
        [&repr.to_bytes().unwrap()[..], &packet(9, 0, 1000)].concat()
    };
    for _ in 0..30 {
        node.rig.offer(2, &through);
    }
    take(&mut node);
    for flow in 100..110 {
        node.rig.offer(0, &packet(flow, 0, 100));
    }
    let now = node.rig.now;
    let left = send(&mut node, &[(now, 110, 100)]);
    let ports = ports_of(&left);
    assert!((100..=110).all(|flow| ports[&flow] == BTreeSet::from([2])), "{ports:?}");
}

#[test]
fn a_flow_waits_for_all_of_a_batch_before_it_changes_lanes() {
    // Sixty packets come at once and need 240 ms; 160 ms later the other lane would be quicker.
    let mut node = lanes(LaneChoice::LeastLoaded, &[Some(3_000_000); 2], 1);
    let begin = Time::from_secs(2);
    let mut offers = vec![(begin, 1, 1500); 60];
    offers.push((begin + Duration::from_millis(160), 1, 1500));
    offers.push((begin + Duration::from_millis(1000), 1, 1500));
    let left = send(&mut node, &offers);
    assert_eq!((left.len(), reordered(&left)), (62, BTreeSet::new()));
}

#[test]
fn more_flows_than_are_remembered_still_keep_their_lanes() {
    let mut node = lanes(LaneChoice::LeastLoaded, &[None; 4], 1);
    let mut first: BTreeMap<u16, usize> = BTreeMap::new();
    for round in 0..4 {
        // Another order each time; a packet of every flow within the pause.
        for i in 0..20_000_u32 {
            let flow = ((i * 7919 + round * 131) % 20_000) as u16;
            let out = node.rig.ports_reached(0, &packet(flow, round, 80));
            assert_eq!(*first.entry(flow).or_insert(out[0]), out[0], "flow {flow}");
        }
        node.rig.now = node.rig.now + Duration::from_millis(90);
    }
    for port in 1..5 {
        let share = first.values().filter(|p| **p == port).count();
        assert!((4000..6000).contains(&share), "port {port} has {share} of 20,000 flows");
    }
}

#[test]
fn a_lane_that_goes_down_is_left_at_once_and_for_good() {
    let mut node = lanes(LaneChoice::LeastLoaded, &[None; 3], 1);
    let reach = |node: &mut Node, flow| node.rig.ports_reached(0, &packet(flow, 0, 80));
    let before: Vec<_> = (0..60).map(|f| reach(&mut node, f)).collect();
    node.rig.plug(2, false);
    node.rig.maintain();
    let moved: Vec<_> = (0..60).map(|f| reach(&mut node, f)).collect();
    for (before, now) in before.iter().zip(&moved) {
        assert!(if *before == [2] { *now == [1] || *now == [3] } else { now == before });
    }
    let share = moved.iter().filter(|p| **p == [1]).count();
    assert!((25..=35).contains(&share), "what has moved is spread: {share} of 60");
    // It is back: flows that send stay where they are, new flows take it.
    node.rig.plug(2, true);
    node.rig.maintain();
    assert!((0..60).all(|f| reach(&mut node, f) == moved[usize::from(f)]));
    assert_eq!(reach(&mut node, 1000), [2]);
    for port in 1..4 {
        node.rig.plug(port, false);
    }
    node.rig.maintain();
    assert!(reach(&mut node, 1).is_empty());
    assert_eq!(node.rig.drops(0, DropReason::PortDown), 1);
}

/// Bursts of some flows: pause before in milliseconds, packets, their length.
fn bursts() -> impl Strategy<Value = Vec<Vec<(u64, u32, usize)>>> {
    let burst = (0..400_u64, 1..120_u32, 60..1500_usize);
    proptest::collection::vec(proptest::collection::vec(burst, 1..8), 1..6)
}

fn offers_of(bursts: &[Vec<(u64, u32, usize)>]) -> Vec<Offer> {
    let streams = (1..).zip(bursts).map(|(flow, bursts)| {
        let mut at = Time::from_secs(2);
        let mut offers = Vec::new();
        for &(pause_ms, count, len) in bursts {
            at = at + Duration::from_millis(pause_ms);
            for _ in 0..count {
                offers.push((at, flow, len));
                at = at + Duration::from_micros(200);
            }
        }
        offers
    });
    in_time(streams.collect())
}

/// Lanes: their rates, and how long their cables take in milliseconds.
fn some_lanes() -> impl Strategy<Value = Vec<(Option<u64>, u64)>> {
    let slow = (2..20_u64).prop_map(|mega| Some(mega * 1_000_000));
    let rate = prop_oneof![Just(None), slow.clone(), slow];
    proptest::collection::vec((rate, 0..80_u64), 2..4)
}

fn choices() -> impl Strategy<Value = LaneChoice> {
    use LaneChoice::{LeastLoaded, PerFlow, Static};
    proptest::sample::select(vec![LeastLoaded, LeastLoaded, LeastLoaded, PerFlow, Static])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_flow_is_reordered_and_every_run_is_the_same(
        choice in choices(), ways in some_lanes(), bursts in bursts(), workers in 1..3_usize)
    {
        let rates: Vec<Option<u64>> = ways.iter().map(|w| w.0).collect();
        let run = || {
            let mut node = lanes(choice, &rates, workers);
            let mut left = send(&mut node, &offers_of(&bursts));
            left.iter_mut().for_each(|l| l.at = l.at + Duration::from_millis(ways[l.port - 1].1));
            left.sort_by_key(|l| l.at);
            left
        };
        let left = run();
        prop_assert_eq!(reordered(&left), BTreeSet::new());
        prop_assert_eq!(left, run());
    }

    #[test]
    fn no_port_that_is_down_is_ever_chosen(
        choice in choices(), seed in any::<u64>(), count in 2..6_usize)
    {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut node = lanes(choice, &vec![None; count], 1);
        let mut up = vec![true; count];
        for _ in 0..300 {
            if rng.random_bool(0.1) {
                let port = rng.random_range(0..count);
                up[port] = !up[port];
                node.rig.plug(port + 1, up[port]);
                node.rig.maintain();
            }
            node.rig.now = node.rig.now + Duration::from_millis(rng.random_range(0..150));
            let out = node.rig.ports_reached(0, &packet(rng.random_range(0..9), 0, 80));
            match up.contains(&true) {
                true => prop_assert!(out.len() == 1 && up[out[0] - 1], "{:?} {:?}", out, up),
                false => prop_assert!(out.is_empty()),
            }
        }
    }
}
