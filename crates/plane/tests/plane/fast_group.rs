//! The group's router by the fast table: a node with one routes as a node without one does. The
//! table is in memory, and the test hands it each frame first.

use std::sync::Arc;

use crate::common::mac;
use crate::fast_rig::{MANY, counted_alike, rounds};
use crate::group_rig::{
    A, B, C, GROUP, HEADERS, HERE, LINK, PATH, THERE, node, packet, packet_v6, v4_of,
};
use crate::net::Node;
use crate::router_rig::fix_sum;
use plexus_io::PortId;
use plexus_io::fast::Key;
use plexus_io::fast::memory::{Fate, Memory};
use plexus_plane::{Encapsulation, PortRole};
use plexus_table::RouteKey;
use plexus_table::lpm::{Fib4, Fib6, GroupId};
use plexus_wire::MacAddr;
use plexus_wire::fabric::{Kind, Partition, ROUTER_HOP, Repr, encapsulation, set_routed};
use proptest::prelude::*;

pub(crate) const MTU: u16 = 1000;
pub(crate) const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0xFF, 1]);
pub(crate) const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0xFE, 1]);
const UDP: u8 = 17;
/// Ways to two forwarders.
const WAYS: [&[u8]; 2] = [&[1, 9, ROUTER_HOP], &[2, 9, ROUTER_HOP]];

/// A node of a group that routes.
pub(crate) struct Router {
    pub(crate) node: Node,
    pub(crate) fib: Option<(Fib4, Fib6)>,
    table: Option<Memory>,
}

impl Router {
    /// The node of [`group_rig`](crate::group_rig), whose link is encapsulated and takes owed work.
    fn new(is_fast: bool) -> Router {
        let (node, v4, v6) = node(1, MTU);
        Router::of(node, Some((v4, v6)), &[LINK as PortId], is_fast)
    }

    /// A node that leaves the routing to two others.
    pub(crate) fn front(is_fast: bool) -> Router {
        let mut node = Node::new(3);
        node.host(HERE as PortId, mac(A));
        node.tables.set_gateway(Some(mac(GROUP)), false);
        node.tables.set_forwarders(WAYS.map(Vec::from).into(), None);
        Router::of(node, None, &[1, 2], is_fast)
    }

    pub(crate) fn of(
        mut node: Node,
        fib: Option<(Fib4, Fib6)>,
        links: &[PortId],
        is_fast: bool,
    ) -> Router {
        let link = Encapsulation::ethertype(OWN, PEER).taking_owed(true);
        links.iter().for_each(|port| node.role(*port, PortRole::Fabric(link)));
        let ports: Vec<PortId> = (0..node.tables.current().ports() as PortId).collect();
        let table = is_fast.then(|| Memory::new(16, &ports));
        if let Some(table) = &table {
            node.rig.workers[0].set_fast_table(Box::new(table.clone()), Arc::new([]), 7);
        }
        let mut router = Router { node, fib, table };
        router.rounds(1);
        router
    }

    pub(crate) fn set_route(&mut self, to: u64, group: u16) {
        let (v4, _) = self.fib.as_mut().unwrap();
        v4.insert(u32::from_be_bytes(v4_of(to)), 32, GroupId::new(group).unwrap()).unwrap();
    }

    /// The frames that come out for one, and whether it went by the table.
    pub(crate) fn send(&mut self, port: usize, frame: &[u8]) -> (Vec<(usize, Vec<u8>)>, bool) {
        let fate = self.table.as_ref().map(|table| table.receive(port as PortId, frame));
        match fate {
            Some(Fate::Sent(out, frame)) => (vec![(out.into(), frame)], true),
            Some(Fate::Dropped) => (vec![], true),
            Some(Fate::Passed) | None => (self.node.rig.send(port, frame), false),
        }
    }

    pub(crate) fn rounds(&mut self, count: u32) {
        rounds(&mut self.node.rig, count);
    }

    /// Whether a frame goes by the table after many of its kind.
    pub(crate) fn is_offloaded(&mut self, port: usize, frame: &[u8]) -> bool {
        (0..MANY).for_each(|_| drop(self.send(port, frame)));
        self.node.punted();
        self.rounds(2);
        let (_, is_fast) = self.send(port, frame);
        self.node.punted();
        is_fast
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.table.iter().flat_map(Memory::rules).map(|(key, _)| key).collect()
    }
}

/// A packet from A by the group.
pub(crate) fn udp(to: u64, source_port: u8) -> Vec<u8> {
    packet(to, 0x4000, UDP, &[&[0, source_port, 0, 9, 0, 28, 0, 0][..], &[7; 20]].concat())
}

/// A packet that the router at B's node has sent to C.
fn from_afar(inner: &[u8]) -> Vec<u8> {
    let mut repr = Repr::new(Kind::Ethernet, &[THERE as u8]).unwrap();
    repr.reverse.push(4);
    let mut header = repr.to_bytes().unwrap();
    set_routed(&mut header);
    let addresses = [mac(C).0, mac(B).0].concat();
    let back = encapsulation::ethertype_header(OWN, PEER);
    [&back[..], &header, &addresses, &inner[12..]].concat()
}

#[test]
fn packets_to_the_groups_router_go_by_the_table_as_they_would_go_without() {
    let (mut fast, mut plain) = (Router::new(true), Router::new(false));
    for (port, frame) in [
        (HERE, udp(B, 1)),
        (HERE, udp(C, 1)),
        (HERE, packet_v6(B, 40)),
        (HERE, packet_v6(C, 40)),
        (LINK, from_afar(&udp(C, 1))),
    ] {
        let expected = plain.send(port, &frame).0;
        assert_eq!(expected.len(), 1);
        assert!(fast.is_offloaded(port, &frame), "{port} {frame:02x?}");
        assert_eq!(fast.send(port, &frame), (expected, true));
        // At the end of its time, it is the pipeline's.
        let mut last = frame.clone();
        let ttl = if frame[12..14] == [8, 0] { 22 } else { 21 };
        last[ttl] = 1;
        if ttl == 22 {
            fix_sum(&mut last);
        }
        if port == HERE {
            assert_eq!(fast.send(port, &last), (vec![], false));
            assert_eq!(fast.node.punted().len(), 1);
        }
    }
    let now = fast.node.rig.now;
    fast.node.rig.workers[0].count_fast(now);
    let counters = &fast.node.rig.workers[0].pipeline().counters().ports;
    // Four flows, each with as many before the rule, one that showed it, and one more.
    let routed = [HERE, LINK].map(|port| counters[port].routed);
    assert_eq!(routed, [4 * (MANY as u64 + 2), 0]);
}

#[test]
fn what_cannot_be_routed_here_is_left_to_the_pipeline() {
    let (mut fast, mut plain) = (Router::new(true), Router::new(false));
    for router in [&mut fast, &mut plain] {
        router.node.route(HERE as u16, mac(A), &[&[HERE as u8]]);
        router.node.rig.settle();
    }
    let sound = udp(B, 1);
    assert!(fast.is_offloaded(HERE, &sound));
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = sound.clone();
        change(&mut frame);
        frame
    };
    // A stranger, a source that is elsewhere, a priority tag, nowhere, back to where it came from.
    for frame in [
        changed(&|f| f[6..12].copy_from_slice(&mac(0xF).0)),
        changed(&|f| {
            f[26..30].copy_from_slice(&v4_of(C));
            fix_sum(f);
        }),
        changed(&|f| drop(f.splice(12..12, [0x81, 0, 0xE0, 0]))),
        changed(&|f| {
            f[30..34].copy_from_slice(&[192, 0, 2, 1]);
            fix_sum(f);
        }),
        udp(A, 1),
    ] {
        assert!(!fast.is_offloaded(HERE, &frame), "{frame:02x?}");
        let out = fast.send(HERE, &frame).0;
        assert_eq!(out, plain.send(HERE, &frame).0);
        fast.node.punted();
        plain.node.punted();
    }
    assert_eq!(fast.keys().len(), 1);
}

#[test]
fn packets_go_to_the_forwarder_that_holds_their_part_of_the_table() {
    let partition = Partition::new(&[1, 1], 1).unwrap();
    let ways = [&[ROUTER_HOP][..], WAYS[0]].map(|way| way.into());
    let (mut fast, mut plain) = (Router::new(true), Router::new(false));
    for router in [&mut fast, &mut plain] {
        (0x20..0x28).for_each(|to| router.set_route(to, 1));
        router.node.tables.set_forwarders(ways.clone().into(), Some(partition.clone()));
        router.node.publish();
        router.node.rig.settle();
    }
    let flows: Vec<Vec<u8>> = (0x20..0x28).map(|to| udp(to, 1)).collect();
    let routed = |frame: &[u8]| frame[19] & 1 == 1;
    let mut here = 0;
    flows.iter().for_each(|flow| (0..MANY).for_each(|_| drop(fast.send(HERE, flow))));
    fast.rounds(2);
    for flow in &flows {
        let (out, is_fast) = fast.send(HERE, flow);
        assert_eq!(out, plain.send(HERE, flow).0);
        assert!(is_fast);
        here += usize::from(routed(&out[0].1));
    }
    assert!((1..flows.len()).contains(&here), "{here}");
    // From now on all of the table is here.
    for router in [&mut fast, &mut plain] {
        router.node.tables.set_forwarders(ways.clone().into(), None);
        router.node.publish();
        router.node.rig.settle();
    }
    for flow in &flows {
        let (out, _) = fast.send(HERE, flow);
        assert_eq!(out, plain.send(HERE, flow).0);
        assert!(routed(&out[0].1));
    }
}

#[test]
fn where_there_are_several_routes_each_flow_keeps_its_own() {
    let (mut fast, mut plain) = (Router::new(true), Router::new(false));
    for router in [&mut fast, &mut plain] {
        router.node.route(HERE as u16, mac(B), &[&PATH, &[LINK as u8, 5, 7]]);
        router.node.rig.settle();
    }
    let mut ways = Vec::new();
    for port in 1..9 {
        let frame = udp(B, port);
        assert!(fast.is_offloaded(HERE, &frame));
        let (out, is_fast) = fast.send(HERE, &frame);
        assert!(is_fast);
        assert_eq!(out, plain.send(HERE, &frame).0);
        ways.push(out[0].1[14 + 6]);
    }
    assert!(ways.contains(&4) && ways.contains(&5), "{ways:?}");
    // One route is left, and one rule for all of them.
    fast.node.route(HERE as u16, mac(B), &[&PATH]);
    fast.node.rig.settle();
    assert!(fast.is_offloaded(HERE, &udp(B, 1)));
    assert!(fast.send(HERE, &udp(B, 99)).1);
}

#[test]
fn a_rule_ends_before_the_packet_that_follows_a_change() {
    type Change = fn(&mut Router);
    let changes: [(&str, Change, [bool; 3]); 9] = [
        ("path", |r| r.node.route(HERE as u16, mac(B), &[&[1, 4, 8]]), [true, false, false]),
        (
            "way",
            |r| {
                let key = RouteKey { destination: mac(B), source: None };
                assert!(r.node.tables.remove(HERE as u16, key));
            },
            [true, false, false],
        ),
        ("ways", |r| r.node.route(HERE as u16, mac(B), &[&PATH, &[1, 5, 7]]), [true, false, false]),
        ("host", |r| assert!(r.node.tables.expel(HERE as u16, mac(A))), [true, true, false]),
        ("station", |r| assert!(r.node.tables.expel(THERE as u16, mac(C))), [false, true, true]),
        ("router", |r| r.node.tables.set_gateway(Some(mac(GROUP)), false), [true, true, false]),
        ("address", |r| r.node.tables.set_gateway(Some(mac(0x67)), true), [true, true, true]),
        ("route", |r| r.set_route(B, 2), [true, false, false]),
        ("source", |r| r.set_route(A, 2), [true, true, false]),
    ];
    let frames = [(HERE, udp(B, 1)), (HERE, udp(C, 1)), (LINK, from_afar(&udp(C, 1)))];
    for (what, change, ends) in changes {
        let mut fast = Router::new(true);
        for (port, frame) in &frames {
            assert!(fast.is_offloaded(*port, frame));
        }
        change(&mut fast);
        fast.node.publish();
        fast.node.rig.settle();
        let ended = frames.each_ref().map(|(port, frame)| !fast.send(*port, frame).1);
        assert_eq!(ended, ends, "{what}");
    }
}

#[test]
fn a_node_that_does_not_route_sends_flows_to_those_that_do() {
    let (mut fast, mut plain) = (Router::front(true), Router::front(false));
    // To many addresses: by these a forwarder is chosen.
    let flows: Vec<Vec<u8>> = (0..8).map(|n| udp(0x20 + n, 1)).collect();
    flows.iter().for_each(|flow| (0..MANY).for_each(|_| drop(fast.send(HERE, flow))));
    fast.rounds(2);
    let mut ways = Vec::new();
    for flow in &flows {
        let (out, is_fast) = fast.send(HERE, flow);
        assert_eq!(out, plain.send(HERE, flow).0);
        assert!(is_fast);
        ways.push(out[0].0);
    }
    assert!(ways.contains(&1) && ways.contains(&2), "{ways:?}");
    // A forwarder is gone: the flows of the other stay in the table, and where they are.
    for router in [&mut fast, &mut plain] {
        router.node.tables.set_forwarders(vec![WAYS[0].into()], None);
        router.node.publish();
        router.node.rig.settle();
    }
    for (flow, way) in flows.iter().zip(ways) {
        let (out, is_fast) = fast.send(HERE, flow);
        assert_eq!(out, plain.send(HERE, flow).0);
        assert_eq!((out[0].0, is_fast), (1, way == 1));
    }
    // Packets between the same addresses may be for this node: DHCP, and neighbour discovery.
    let mut dhcp = flows[0].clone();
    dhcp[34..38].copy_from_slice(&[0, 68, 0, 67]);
    let mut ping = flows[0].clone();
    ping[23] = 1;
    fix_sum(&mut ping);
    assert!(!fast.is_offloaded(HERE, &dhcp) && !fast.is_offloaded(HERE, &ping));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A table changes nothing of the frames that come out, are dropped or go to the control plane.
    #[test]
    fn a_router_of_the_group_with_a_table_does_the_same(
        frames in prop::collection::vec(some_frame(), 1..200),
        several in any::<bool>(),
    ) {
        let (mut fast, mut plain) = (Router::new(true), Router::new(false));
        for router in [&mut fast, &mut plain] {
            if several {
                router.node.route(HERE as u16, mac(B), &[&PATH, &[LINK as u8, 5, 7]]);
                router.node.rig.settle();
            }
        }
        for (port, frame) in [
            (HERE, udp(B, 1)),
            (HERE, udp(C, 1)),
            (HERE, udp(B, 2)),
            (LINK, from_afar(&udp(C, 1))),
        ] {
            prop_assert!(fast.is_offloaded(port, &frame));
            (0..=MANY).for_each(|_| drop(plain.send(port, &frame)));
        }
        let mut by_table = 0;
        for (port, bytes) in frames {
            let (out, is_fast) = fast.send(port, &bytes);
            prop_assert_eq!(out, plain.send(port, &bytes).0, "by the table: {}", is_fast);
            prop_assert_eq!(fast.node.punted(), plain.node.punted());
            by_table += u64::from(is_fast);
            fast.node.rig.settle();
        }
        counted_alike(&mut fast.node.rig, &plain.node.rig, by_table)?;
    }
}

/// Packets of the flows that have rules for the most part; in others some bytes are changed, or
/// the end is missing.
fn some_frame() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let damage = prop::option::weighted(0.4, (0..70usize, 1..=255u8, prop::bool::weighted(0.2)));
    let to = prop::sample::select(vec![B, B, C, A, 0xD]);
    let sound = prop::bool::weighted(0.7);
    (to, 1..4u8, prop::bool::weighted(0.3), damage, sound).prop_map(
        |(to, port, from_afar_too, damage, sound)| {
            let mut bytes = udp(to, port);
            if let Some((at, with, is_cut)) = damage {
                let at = at % bytes.len();
                bytes[at] ^= with;
                if is_cut {
                    bytes.truncate(at.max(HEADERS));
                }
            }
            if sound {
                fix_sum(&mut bytes);
            }
            match from_afar_too {
                true => (LINK, from_afar(&bytes)),
                false => (HERE, bytes),
            }
        },
    )
}
