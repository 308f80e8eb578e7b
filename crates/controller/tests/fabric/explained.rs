//! The way of a packet that the controller explains is the one that the packet then takes.

use std::net::Ipv4Addr;

use plexus_controller::{Answer, Config, Input, Left, NextPlace, Trace, TraceStart};
use plexus_wire::MacAddr;
use plexus_wire::fabric::message::{Handed, Refusal, Step};

use crate::routed::{gateway, ring, two_subnets};
use crate::world::{End, RING, World, host_group, packet};

fn explain(world: &mut World, frame: &[u8], resolve: bool) -> Result<Trace, String> {
    let start = TraceStart { at: None, frame: frame.to_vec(), resolve };
    world.tell(0, Input::Explain { question: 1, start });
    // A silent node is asked twice.
    for _ in 0..150 {
        if let Some(told) = world.brain(0).traces.pop() {
            return told;
        }
        world.run(10);
    }
    panic!("no answer");
}

fn leaves(trace: &Trace) -> Vec<&Left> {
    let told = trace.boxes.iter().flat_map(|passed| match &passed.answer {
        Answer::Told { leaves, .. } => &leaves[..],
        other => panic!("{other:?}"),
    });
    told.collect()
}

fn steps(trace: &Trace, place: usize) -> &[Step] {
    match &trace.boxes[place].answer {
        Answer::Told { steps, .. } => steps,
        other => panic!("{other:?}"),
    }
}

/// A host's packet to another, as it sends it itself.
fn of_host(world: &World, from: usize, to: usize, port: u16) -> Vec<u8> {
    let (own, other) = (&world.hosts[from], &world.hosts[to]);
    let by = if own.is_near(other.ip) { other.ip } else { gateway(from) };
    let mac = own.arp.get(&by).copied().unwrap_or_default();
    packet((own.mac, own.ip), (mac, other.ip), (port, 80), &[port as u8; 8])
}

#[test]
fn packets_go_the_way_that_was_explained() {
    for seed in 0..3 {
        let mut world = ring(seed, two_subnets());
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 400), [], "seed {seed}");
        world.run(100);
        for (from, to) in all {
            for port in 0..4 {
                let frame = of_host(&world, from, to, 1000 + port);
                let trace = explain(&mut world, &frame, false).unwrap();
                world.wiretap = Some(vec![]);
                world.emit(from, frame);
                world.run(5);
                let passed = world.wiretap.take().unwrap();
                let all = leaves(&trace);
                for left in &all[..all.len() - 1] {
                    let NextPlace::Box(place) = left.next else { panic!("{trace:?}") };
                    let at =
                        End::Node(trace.boxes[place].node as usize - 1, trace.boxes[place].port);
                    assert!(passed.contains(&(at, left.frame.clone())), "{trace:?}");
                }
                let last = all.last().unwrap();
                assert_eq!(last.next, NextPlace::Host(world.hosts[to].mac), "{trace:?}");
                let arrived = (End::Host(to), last.frame.clone());
                assert!(passed.contains(&arrived), "{trace:?}");
                let is_routed = steps(&trace, 0).contains(&Step::Ttl { from: 64, to: 63 });
                assert_eq!(is_routed, from % 2 != to % 2);
                let pair = trace.pair.unwrap();
                assert_eq!((pair.refused, pair.to), (None, Some(world.hosts[to].mac)));
            }
        }
    }
}

#[test]
fn a_packet_that_is_only_described_gets_the_addresses_that_its_host_would_learn() {
    // Of each pair in one subnet, hosts 0 and 2, one is red and the other one blue.
    let groups =
        vec![host_group("red", ["node1", "node2"]), host_group("blue", ["node3", "node4"])];
    let config = Config { groups, strangers_may_talk: false, ..two_subnets() };
    let mut world = ring(3, config);
    world.run(100);
    let ip = |world: &World, host: usize| world.hosts[host].ip;
    let none = MacAddr::default();
    let described = |from: Ipv4Addr, to: Ipv4Addr| packet((none, from), (none, to), (1, 80), &[]);
    // Nothing was sent yet, so there is no route: the rule forbids it.
    let frame = described(ip(&world, 0), ip(&world, 2));
    let trace = explain(&mut world, &frame, true).unwrap();
    let pair = trace.pair.clone().unwrap();
    assert_eq!((pair.refused, pair.routed), (Some(Refusal::Forbidden), false));
    assert_eq!(
        (&pair.from_groups[..], &pair.to_groups[..]),
        (&["red".into()][..], &["blue".into()][..])
    );
    let handed = Step::Handed { to: Handed::Host };
    assert_eq!(steps(&trace, 0), [Step::FromHost { admitted: true }, Step::NoRoutes {}, handed]);
    // In another subnet, and allowed.
    let frame = described(ip(&world, 0), ip(&world, 1));
    let trace = explain(&mut world, &frame, true).unwrap();
    let pair = trace.pair.clone().unwrap();
    assert_eq!((pair.refused, pair.routed, pair.to), (None, true, Some(world.hosts[1].mac)));
    assert!(steps(&trace, 0).contains(&Step::ToRouter {}), "{trace:?}");
    // Nobody has the address; no box is asked.
    let frame = described(ip(&world, 0), [10, 0, 0, 77].into());
    let trace = explain(&mut world, &frame, true).unwrap();
    assert_eq!(trace.pair.unwrap().refused, Some(Refusal::UnknownTarget));
    assert!(trace.boxes.is_empty());
    // Nobody has the source's.
    let frame = described([10, 0, 0, 77].into(), ip(&world, 0));
    assert!(explain(&mut world, &frame, true).unwrap_err().contains("no host with 10.0.0.77"));
}

#[test]
fn a_node_that_is_gone_is_named() {
    let mut world = World::talking(5);
    let frame = of_host(&world, 0, 1, 1000);
    let whole = explain(&mut world, &frame, false).unwrap();
    assert_eq!(whole.boxes.len(), 2);
    // Its cables die and keep their carriers: nobody knows it yet.
    for end in world.link_ends(4, &RING).into_iter().flat_map(|(a, b)| [a, b]) {
        if let End::Node(1, _) = end {
            world.silence(end, true);
        }
    }
    let trace = explain(&mut world, &frame, false).unwrap();
    assert_eq!((trace.boxes.len(), &trace.boxes[1].answer), (2, &Answer::Silent));
}
