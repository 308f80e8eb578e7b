//! Packets that other nodes send to the router of this one, by the fast table: a node with one does
//! what a node without one does. The table is in memory, and the test hands it each frame first.

use plexus_io::PortId;
use plexus_io::fast::Key;
use plexus_plane::{Encapsulation, PortRole, route_along};
use plexus_table::{RouteKey, RouteSet};
use plexus_wire::MacAddr;
use plexus_wire::fabric::message::{Class, Step};
use plexus_wire::fabric::{Kind, Partition, ROUTER_HOP, Repr, encapsulation};
use proptest::prelude::*;

use crate::common::mac;
use crate::fast_group::{MTU, OWN, PEER, Router, udp};
use crate::fast_rig::{MANY, counted_alike};
use crate::group_rig::{A, B, C, GROUP, HEADERS, HERE, LINK, THERE, node_of, packet_v6, v4_of};
use crate::router_rig::fix_sum;

/// The link that leads to B.
const ONWARD: usize = 3;
const PATH: [u8; 3] = [ONWARD as u8, 4, 7];

/// A node that routes what others send. From A there is a way to B by another link, and one to C,
/// which is here.
fn back(is_fast: bool) -> Router {
    let (mut node, v4, v6) = node_of(4, 1, MTU);
    for (to, path) in [(B, &PATH[..]), (C, &[THERE as u8])] {
        let key = RouteKey { destination: mac(to), source: Some(mac(A)) };
        let routes = route_along(ROUTER_HOP, path).unwrap();
        assert!(node.tables.install(ROUTER_HOP.into(), key, routes.into()));
    }
    node.publish();
    Router::of(node, Some((v4, v6)), &[LINK, ONWARD].map(|port| port as PortId), is_fast)
}

/// Sets the ways from A to B.
fn set_ways(router: &mut Router, paths: &[&[u8]]) {
    let key = RouteKey { destination: mac(B), source: Some(mac(A)) };
    let routes = paths.iter().map(|path| route_along(ROUTER_HOP, path).unwrap()).collect();
    let tables = &mut router.node.tables;
    assert!(tables.install(ROUTER_HOP.into(), key, RouteSet::new(routes).unwrap()));
    router.node.publish();
    router.node.rig.settle();
}

/// A packet as another node sends it to the router of this one.
fn forwarded(packet: &[u8]) -> Vec<u8> {
    behind(&[ROUTER_HOP], &[0], packet)
}

fn behind(forward: &[u8], reverse: &[u8], packet: &[u8]) -> Vec<u8> {
    let mut repr = Repr::new(Kind::Ethernet, forward).unwrap();
    repr.reverse.extend(reverse.iter().copied());
    let back = encapsulation::ethertype_header(OWN, PEER);
    [&back[..], &repr.to_bytes().unwrap(), packet].concat()
}

#[test]
fn packets_from_other_nodes_go_by_the_table_as_they_would_go_without() {
    let (mut fast, mut plain) = (back(true), back(false));
    for packet in [udp(B, 1), udp(C, 1), packet_v6(B, 40), packet_v6(C, 40)] {
        let frame = forwarded(&packet);
        let expected = plain.send(LINK, &frame).0;
        assert_eq!(expected.len(), 1);
        assert!(fast.is_offloaded(LINK, &frame), "{frame:02x?}");
        assert_eq!(fast.send(LINK, &frame), (expected, true));
        assert!(fast.node.rig.explain(LINK, &frame).steps.contains(&Step::Kernel {}));
        // At the end of its time, it is the pipeline's.
        let mut last = packet.clone();
        let is_v4 = packet[12..14] == [8, 0];
        last[if is_v4 { 22 } else { 21 }] = 1;
        if is_v4 {
            fix_sum(&mut last);
        }
        assert_eq!(fast.send(LINK, &forwarded(&last)), (vec![], false));
        assert_eq!(fast.node.punted().len(), 1);
    }
    assert!(fast.keys().iter().all(Key::is_from_node), "{:?}", fast.keys());
    let now = fast.node.rig.now;
    fast.node.rig.workers[0].count_fast(now);
    let counters = &fast.node.rig.workers[0].pipeline().counters().ports;
    // Four flows, each with as many before the rule, one that showed it, and one more.
    assert_eq!(counters[LINK].routed, 4 * (MANY as u64 + 2));
    // By the table went two of each. Bytes count as they come in and as they leave.
    let lens = [udp(B, 1), packet_v6(B, 40)].map(|packet| packet.len() as u64);
    let bytes = |header: u64| lens.iter().map(|len| 2 * (header + len)).sum::<u64>();
    let header = (14 + 6 + 2) as u64;
    assert_eq!(counters[LINK].fast_received_bytes, 2 * bytes(header));
    let sent = [ONWARD, THERE].map(|port| counters[port].fast_sent_bytes);
    assert_eq!(sent, [bytes(14 + 6 + 3), bytes(0)]);
}

#[test]
fn the_node_before_is_heard_by_what_goes_by_the_table() {
    let mut fast = back(true);
    let frame = forwarded(&udp(B, 1));
    assert!(fast.is_offloaded(LINK, &frame));
    let heard = |fast: &Router| fast.node.tables.current().heard_at(LINK as u8);
    fast.rounds(5);
    let before = heard(&fast);
    assert!(fast.send(LINK, &frame).1);
    fast.rounds(1);
    assert!(heard(&fast) > before);
}

#[test]
fn a_rule_waits_for_the_packets_that_are_still_in_the_pipeline() {
    let mut fast = back(true);
    let frame = forwarded(&udp(B, 1));
    (0..MANY).for_each(|_| drop(fast.send(LINK, &frame)));
    fast.node.rig.now = fast.node.rig.now + std::time::Duration::from_millis(100);
    fast.node.rig.maintain();
    assert_eq!(fast.keys().len(), 1);
    fast.node.rig.plugs[LINK].hide_arrivals(true);
    for hidden in 1..5 {
        assert_eq!(fast.send(LINK, &frame), (vec![], false), "it would overtake {hidden}");
        fast.rounds(1);
    }
    fast.node.rig.plugs[ONWARD].keep_departures(true);
    fast.node.rig.plugs[LINK].hide_arrivals(false);
    fast.rounds(2);
    assert!(!fast.send(LINK, &frame).1, "its port has not sent them");
    fast.node.rig.plugs[ONWARD].keep_departures(false);
    fast.rounds(2);
    fast.node.rig.take();
    assert!(fast.send(LINK, &frame).1);
    // One that the table lets through while the rule forwards makes it wait again.
    let mut with_options = udp(B, 1);
    with_options.splice(34..34, [1; 4]);
    (with_options[14], with_options[17]) = (0x46, with_options[17] + 4);
    fix_sum(&mut with_options);
    fast.node.rig.plugs[ONWARD].keep_departures(true);
    assert!(!fast.send(LINK, &forwarded(&with_options)).1);
    assert!(!fast.send(LINK, &frame).1);
    fast.node.rig.plugs[ONWARD].keep_departures(false);
    fast.rounds(2);
    assert!(fast.send(LINK, &frame).1);
}

#[test]
fn what_the_router_does_not_send_on_is_left_to_the_pipeline() {
    let (mut fast, mut plain) = (back(true), back(false));
    let sound = udp(B, 1);
    assert!(fast.is_offloaded(LINK, &forwarded(&sound)));
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = sound.clone();
        change(&mut packet);
        fix_sum(&mut packet);
        forwarded(&packet)
    };
    for frame in [
        // A stranger, the group itself, a source that is elsewhere, nowhere, and not the router.
        changed(&|f| f[6..12].copy_from_slice(&mac(0xF).0)),
        changed(&|f| f[6..12].copy_from_slice(&mac(GROUP).0)),
        changed(&|f| f[26..30].copy_from_slice(&v4_of(C))),
        changed(&|f| f[30..34].copy_from_slice(&[192, 0, 2, 1])),
        changed(&|f| f[..6].copy_from_slice(&mac(B).0)),
        forwarded(&udp(A, 1)),
        // A tag, more hops than the table reads, none, and another hop.
        forwarded(&[&sound[..12], &[0x81, 0, 0, 0], &sound[12..]].concat()),
        behind(&[ROUTER_HOP; 9], &[0], &sound),
        behind(&[9], &[0], &sound),
    ] {
        assert!(!fast.is_offloaded(LINK, &frame), "{frame:02x?}");
        assert_eq!(fast.send(LINK, &frame).0, plain.send(LINK, &frame).0);
        fast.node.punted();
        plain.node.punted();
    }
    // Further hops, and those behind, do not count.
    assert!(fast.is_offloaded(LINK, &forwarded(&sound)));
    assert_eq!(fast.keys().len(), 1);
    for (forward, reverse) in [(&[ROUTER_HOP, 5][..], &[][..]), (&[ROUTER_HOP; 8], &[7; 40])] {
        let frame = behind(forward, reverse, &sound);
        let expected = plain.send(LINK, &frame).0;
        assert_eq!(fast.send(LINK, &frame), (expected, true));
    }
    // By a native link they have no rule.
    fast.node.role(LINK as PortId, PortRole::Fabric(Encapsulation::Native));
    fast.node.rig.settle();
    let native = &forwarded(&sound)[14..];
    assert!(!fast.is_offloaded(LINK, native));
    assert_eq!(fast.send(LINK, native).0.len(), 1);
}

#[test]
fn where_there_are_several_ways_each_flow_keeps_its_own() {
    let (mut fast, mut plain) = (back(true), back(false));
    for router in [&mut fast, &mut plain] {
        set_ways(router, &[&PATH, &[LINK as u8, 5, 7]]);
    }
    let flows: Vec<Vec<u8>> = (1..9).map(|port| forwarded(&udp(B, port))).collect();
    let ways = |fast: &mut Router, plain: &mut Router| {
        let way = |flow: &Vec<u8>| {
            let (out, is_fast) = fast.send(LINK, flow);
            assert_eq!(out, plain.send(LINK, flow).0);
            (out[0].0, is_fast)
        };
        flows.iter().map(way).collect::<Vec<_>>()
    };
    flows.iter().for_each(|flow| (0..MANY).for_each(|_| drop(fast.send(LINK, flow))));
    fast.rounds(2);
    let before = ways(&mut fast, &mut plain);
    assert!(before.iter().all(|(_, is_fast)| *is_fast));
    assert!([LINK, ONWARD].iter().all(|port| before.iter().any(|(out, _)| out == port)));
    // The cable of one of them is out. The flows of the other stay in the table.
    for router in [&mut fast, &mut plain] {
        router.node.rig.plug(ONWARD, false);
        router.node.rig.maintain();
    }
    let after = ways(&mut fast, &mut plain);
    let expected: Vec<_> = before.iter().map(|(out, _)| (LINK, *out == LINK)).collect();
    assert_eq!(after, expected);
    // One way is left, and one rule for all of them.
    for router in [&mut fast, &mut plain] {
        set_ways(router, &[&[LINK as u8, 5, 7]]);
    }
    assert!(fast.is_offloaded(LINK, &flows[0]));
    assert!(ways(&mut fast, &mut plain).iter().all(|way| *way == (LINK, true)));
}

#[test]
fn a_rule_ends_before_the_packet_that_follows_a_change() {
    type Change = fn(&mut Router);
    let changes: [(&str, Change, [bool; 2]); 10] = [
        ("path", |r| set_ways(r, &[&[ONWARD as u8, 4, 8]]), [true, false]),
        (
            "way",
            |r| {
                let key = RouteKey { destination: mac(B), source: Some(mac(A)) };
                assert!(r.node.tables.remove(ROUTER_HOP.into(), key));
            },
            [true, false],
        ),
        ("ways", |r| set_ways(r, &[&PATH, &[LINK as u8, 5, 7]]), [true, false]),
        ("station", |r| assert!(r.node.tables.expel(THERE as u16, mac(C))), [false, true]),
        ("router", |r| r.node.tables.set_gateway(Some(mac(GROUP)), false), [true, true]),
        ("address", |r| r.node.tables.set_gateway(Some(mac(0x67)), true), [true, true]),
        ("class", |r| r.node.tables.set_classes(vec![a_class()]), [true, true]),
        ("route", |r| r.set_route(B, 2), [true, false]),
        ("source", |r| r.set_route(A, 2), [true, true]),
        ("link", |r| r.node.role(LINK as u16, PortRole::Unknown), [true, true]),
    ];
    let frames = [B, C].map(|to| forwarded(&udp(to, 1)));
    for (what, change, ends) in changes {
        let mut fast = back(true);
        frames.iter().for_each(|frame| assert!(fast.is_offloaded(LINK, frame)));
        change(&mut fast);
        fast.node.publish();
        fast.node.rig.settle();
        let ended = frames.each_ref().map(|frame| !fast.send(LINK, frame).1);
        fast.node.punted();
        assert_eq!(ended, ends, "{what}");
    }
    // A host that this node does not have may come and go.
    let mut fast = back(true);
    frames.iter().for_each(|frame| assert!(fast.is_offloaded(LINK, frame)));
    assert!(fast.node.tables.expel(HERE as u16, mac(A)));
    fast.node.publish();
    fast.node.rig.settle();
    assert!(frames.iter().all(|frame| fast.send(LINK, frame).1));
}

/// TCP to port 80 anywhere, without a function.
fn a_class() -> Class {
    Class {
        protocol: Some(6),
        from: None,
        to: None,
        port_first: 80,
        port_last: 80,
        both_ways: false,
        required: true,
        functions: vec![],
    }
}

/// A node that holds a part of the table takes what it cannot look up from hosts that lead beyond.
#[test]
fn packets_between_other_networks_go_by_the_table_where_parts_of_it_are_shared_out() {
    let (mut fast, mut plain) = (back(true), back(false));
    let partition = Partition::new(&[1, 1], 1).unwrap();
    let held = |held: bool| {
        let of = |n: u8| [30, n, 0, 1];
        let is = |a: &[u8; 4]| partition.holders((*a).into()).contains(0) == held;
        (0..=255).map(of).find(is).unwrap()
    };
    let from = |source: [u8; 4]| {
        let mut packet = udp(B, 1);
        packet[26..30].copy_from_slice(&source);
        packet[30..34].copy_from_slice(&[20, 0, 0, 1]);
        fix_sum(&mut packet);
        forwarded(&packet)
    };
    let ways = [&[ROUTER_HOP][..], &[ONWARD as u8, ROUTER_HOP]].map(Vec::from);
    let set = |fast: &mut Router, plain: &mut Router, leading: &[MacAddr]| {
        for router in [fast, plain] {
            let (v4, _) = router.fib.as_mut().unwrap();
            let group = plexus_table::lpm::GroupId::new(1).unwrap();
            v4.insert(0x1400_0000, 8, group).unwrap();
            let tables = &mut router.node.tables;
            tables.set_networks(["10.0.0.0/8".parse().unwrap()]);
            tables.set_forwarders(ways.clone().into(), Some(partition.clone()));
            tables.set_leading(leading.iter().copied());
            router.node.publish();
            router.node.rig.settle();
        }
    };
    for (leading, source, goes) in [
        (&[][..], held(false), false),
        (&[mac(A)], held(false), true),
        (&[mac(B)], held(false), false),
        (&[mac(A)], held(true), false),
        (&[mac(A)], v4_of(C), false),
    ] {
        set(&mut fast, &mut plain, leading);
        let frame = from(source);
        assert_eq!(fast.send(LINK, &frame), (plain.send(LINK, &frame).0, false));
        assert_eq!(fast.node.punted(), plain.node.punted());
        assert_eq!(fast.is_offloaded(LINK, &frame), goes, "{leading:?} {source:?}");
        assert_eq!(fast.send(LINK, &frame).0, plain.send(LINK, &frame).0);
        assert_eq!(fast.node.punted(), plain.node.punted());
    }
}

#[test]
fn two_stages_by_tables_do_what_two_without_do() {
    let (mut fast, mut plain) =
        ([true, false]).map(|is_fast| (Router::front(is_fast), back(is_fast))).into();
    type Stages = (Router, Router);
    let link = encapsulation::ethertype_header(OWN, PEER);
    let pass = |stages: &mut Stages, packet: &[u8]| {
        let (first, by_table) = stages.0.send(HERE, packet);
        let [(_, frame)] = &first[..] else { panic!("{first:02x?}") };
        // On the way a further node takes a hop.
        let inner = &frame[frame.len() - packet.len()..];
        let frame = [&link[..], &behind(&[ROUTER_HOP], &[7, 0], inner)[14..]].concat();
        let (second, also) = stages.1.send(LINK, &frame);
        (second, [by_table, also])
    };
    for packet in [udp(B, 1), udp(B, 2), udp(C, 1)] {
        for _ in 0..MANY {
            assert_eq!(pass(&mut fast, &packet).0, pass(&mut plain, &packet).0);
        }
        fast.0.rounds(2);
        fast.1.rounds(2);
        let (expected, _) = pass(&mut plain, &packet);
        assert_eq!(expected.len(), 1);
        assert_eq!(pass(&mut fast, &packet), (expected, [true; 2]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A table changes nothing of the frames that come out, are dropped or go to the control plane.
    #[test]
    fn a_back_box_with_a_table_does_the_same(
        frames in prop::collection::vec(some_frame(), 1..200),
        several in any::<bool>(),
    ) {
        let (mut fast, mut plain) = (back(true), back(false));
        if several {
            set_ways(&mut fast, &[&PATH, &[LINK as u8, 5, 7]]);
            set_ways(&mut plain, &[&PATH, &[LINK as u8, 5, 7]]);
        }
        let with_rules =
            [udp(B, 1), udp(C, 1), udp(B, 2), packet_v6(B, 40), packet_v6(C, 40)];
        for packet in with_rules {
            prop_assert!(fast.is_offloaded(LINK, &forwarded(&packet)));
            (0..=MANY).for_each(|_| drop(plain.send(LINK, &forwarded(&packet))));
        }
        let mut by_table = 0;
        for bytes in frames {
            let (out, is_fast) = fast.send(LINK, &bytes);
            prop_assert_eq!(out, plain.send(LINK, &bytes).0, "by the table: {}", is_fast);
            prop_assert_eq!(fast.node.punted(), plain.node.punted());
            by_table += u64::from(is_fast);
            fast.node.rig.settle();
        }
        counted_alike(&mut fast.node.rig, &plain.node.rig, by_table)?;
    }
}

/// Packets of the flows that have rules for the most part; in others some bytes are changed, of
/// these or of the headers before them, or the end is missing.
fn some_frame() -> impl Strategy<Value = Vec<u8>> {
    let damage = prop::option::weighted(0.4, (0..92usize, 1..=255u8, prop::bool::weighted(0.2)));
    let to = prop::sample::select(vec![B, B, C, A, 0xD]);
    let path = prop::sample::select(vec![
        (vec![ROUTER_HOP], vec![0]),
        (vec![ROUTER_HOP], vec![7, 0]),
        (vec![ROUTER_HOP, 5], vec![]),
        (vec![ONWARD as u8, 5], vec![0]),
        (vec![THERE as u8], vec![0]),
    ]);
    // Of IPv6 the same addresses have a rule.
    let packet = (to, 0..4u8).prop_map(|(to, port)| match port {
        0 => packet_v6(to, 40),
        port => udp(to, port),
    });
    (packet, path, damage, prop::bool::weighted(0.7)).prop_map(
        |(packet, (forward, reverse), damage, sound)| {
            let mut bytes = behind(&forward, &reverse, &packet);
            let head = bytes.len() - packet.len();
            if let Some((at, with, is_cut)) = damage {
                let at = at % bytes.len();
                bytes[at] ^= with;
                if is_cut {
                    bytes.truncate(at.max(head + HEADERS));
                }
            }
            if sound && packet[12..14] == [8, 0] {
                fix_sum(&mut bytes[head..]);
            }
            bytes
        },
    )
}
