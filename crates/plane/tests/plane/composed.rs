//! One box that is everything at once: it switches, routes, carries the fabric and takes named
//! data. For every packet it must do what a box of that packet's kind does.

use std::sync::Arc;

use crate::common::{self, Plan, mac};
use crate::net::{CAPABILITIES, Node};
use crate::router_rig::{LOCAL, Router, ipv4, own};
use plexus_io::fast::memory::Memory;
use plexus_io::{Capabilities, PortId};
use plexus_plane::{
    DropReason, Encapsulation, FabricPlan, FabricTables, Injection, PortRole, Punt,
};
use plexus_table::RouteKey;
use plexus_wire::MacAddr;
use plexus_wire::fabric::{Kind, Repr};
use proptest::prelude::*;

/// The ports of the fabric: a host's, and a cable to another node.
const HOST: usize = 6;
const LINK: usize = 7;
/// The host, and another one behind the cable.
const A: u64 = 0xA1;
const B: u64 = 0xB2;
/// The group of named data, and the node's address at ports that take it.
const NAMES: MacAddr = MacAddr([0x01, 0x00, 0x5E, 0x00, 0x17, 0xAA]);
const NODE: u64 = 0xEE;

const WIDE: Capabilities = CAPABILITIES;

fn is_fabric(port: PortId) -> bool {
    usize::from(port) >= HOST
}

/// What the fabric's control plane has decided.
fn tables() -> FabricTables {
    let mut tables = FabricTables::new(8, 7).unwrap();
    tables.admit(HOST as u16, mac(A));
    tables.set_role(HOST as u16, PortRole::Host);
    tables.set_role(LINK as u16, PortRole::Fabric(Encapsulation::Native));
    let key = RouteKey { destination: mac(B), source: None };
    let route = plexus_plane::route_along(HOST as u8, &[LINK as u8, 3]).unwrap();
    assert!(tables.install(HOST as u16, key, route.into()));
    tables
}

/// A router of the rig's kind with two neighbours, alone or on a box that is all of it.
fn router(all: bool) -> Router {
    let mut router = Router::on(
        |_| {},
        |plan| {
            plan.ports.resize_with(8, Default::default);
            plan.capabilities = Some(WIDE);
            if all {
                let published = FabricPlan::default().publish();
                published.store(tables().plan());
                (plan.fabric, plan.in_fabric) = (Some(published), is_fabric);
                plan.named = vec![(2, mac(NODE)), (HOST as u16, mac(NODE))];
            }
        },
    );
    router.neighbour(1, 0);
    router.neighbour(2, 1);
    router.neighbour(3, 2);
    router.route4([10, 1, 0, 0], 16, 1);
    router.route4([10, 2, 0, 0], 16, 2);
    router.route4([10, 3, 0, 0], 16, 3);
    router.route4([10, 0, 0, 1], 32, LOCAL);
    if all {
        // It sees what the forwarders leave of each batch. No frame of this test goes by it.
        let table = Memory::new(64, &(0..8).collect::<Vec<PortId>>());
        router.rig.workers[0].set_fast_table(Box::new(table), Arc::new([]), 7);
    }
    router
}

/// A fabric's node alone, of the same ports and tables.
fn node() -> Node {
    let mut node = Node::with(Plan { capabilities: Some(WIDE), ..Plan::new(8) });
    node.tables = tables();
    node.publish();
    node
}

/// A frame that is neither IP nor the fabric's.
fn frame(to: MacAddr, from: MacAddr) -> Vec<u8> {
    let mut frame = common::frame(to, from);
    frame[12..14].copy_from_slice(&[0x90, 0x00]);
    frame
}

fn fabric_frame(path: &[u8], to: u64) -> Vec<u8> {
    let header = Repr::new(Kind::Ethernet, path).unwrap().to_bytes().unwrap();
    [&header[..], &frame(mac(to), mac(B))].concat()
}

/// Frames that mean something to one part of the box or another, and the port of each.
fn frames() -> Vec<(usize, Vec<u8>)> {
    let v4 = |interface, to| ipv4(own(interface), [192, 0, 2, 1], to, 64, &[0; 30]);
    vec![
        // Routed, between routed ports and into the VLAN of bridged ones.
        (0, v4(0, [10, 2, 0, 9])),
        (1, v4(1, [10, 1, 0, 9])),
        (0, v4(0, [10, 3, 0, 9])),
        (0, v4(0, [10, 9, 0, 9])),
        (1, v4(1, [10, 0, 0, 1])),
        (0, ipv4(own(0), [192, 0, 2, 1], [10, 2, 0, 9], 1, &[0; 30])),
        // Bridged: to a station that is known or not, and to all.
        (2, frame(mac(3), mac(0x22))),
        (4, frame(mac(0x22), mac(3))),
        (2, frame(MacAddr::BROADCAST, mac(0x22))),
        // From a host of the fabric: routed by its source route, to an unknown station, to all.
        (HOST, frame(mac(B), mac(A))),
        (HOST, frame(mac(0x99), mac(A))),
        (HOST, frame(MacAddr::BROADCAST, mac(A))),
        // The router's address means nothing on the fabric's ports.
        (HOST, frame(own(0), mac(A))),
        // From another node: to the host, to a port that is not the fabric's, to none.
        (LINK, fabric_frame(&[HOST as u8], A)),
        (LINK, fabric_frame(&[2], A)),
        (LINK, fabric_frame(&[200], A)),
        (LINK, fabric_frame(&[0xFF], A)),
        // Fabric frames on ports that are not the fabric's.
        (2, fabric_frame(&[HOST as u8], A)),
    ]
}

/// What came out of a box, by port, in order.
fn out_of(all: Vec<(usize, Vec<u8>)>, of_fabric: bool) -> Vec<(usize, Vec<u8>)> {
    all.into_iter().filter(|(port, _)| (*port >= HOST) == of_fabric).collect()
}

#[test]
fn names_that_leave_a_batch_do_not_shift_what_the_fast_table_sees() {
    let mut router = router(true);
    let mut name = frame(NAMES, mac(A));
    name[12..14].copy_from_slice(&[0x86, 0x24]);
    let routed = ipv4(own(0), [192, 0, 2, 1], [10, 2, 0, 9], 64, &[0; 30]);
    // After a full batch from port 0 the next one ends with that port.
    (0..plexus_io::BATCH).for_each(|_| router.rig.offer(0, &routed));
    let now = router.rig.now;
    router.rig.workers[0].turn(now);
    router.rig.offer(HOST, &name);
    router.rig.offer(0, &routed);
    router.rig.workers[0].turn(now);
    assert_eq!(router.rig.take_from(1).len(), plexus_io::BATCH + 1);
    let mut names = 0;
    router.rig.workers[0].take_named(|_, _| names += 1);
    assert_eq!(names, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// In any order and any batches, each port gives what it gives on a box of one kind, and the
    /// control planes get the same.
    #[test]
    fn a_box_that_is_all_does_for_each_packet_what_a_box_of_its_kind_does(
        script in proptest::collection::vec((0..18_usize, any::<bool>()), 1..120),
    ) {
        let (mut all, mut router, mut node) = (router(true), router(false), node());
        let frames = frames();
        let (mut from_all, mut from_router, mut from_node) = (vec![], vec![], vec![]);
        let last = script.len() - 1;
        for (step, (which, ends)) in script.into_iter().enumerate() {
            let (port, frame) = &frames[which];
            all.rig.offer(*port, frame);
            match *port >= HOST {
                true => node.rig.offer(*port, frame),
                false => router.rig.offer(*port, frame),
            }
            if ends || step == last {
                all.rig.settle();
                router.rig.settle();
                node.rig.settle();
                from_all.extend(all.rig.take());
                from_router.extend(router.rig.take());
                from_node.extend(node.rig.take());
            }
        }
        prop_assert_eq!(out_of(from_all.clone(), false), from_router);
        prop_assert_eq!(out_of(from_all, true), from_node);
        let mut punted: Vec<_> =
            all.punted().into_iter().map(|(punt, port, _, bytes)| (punt, port, bytes)).collect();
        let mut apart = node.punted();
        apart.extend(router.punted().into_iter().map(|(punt, port, _, bytes)| (punt, port, bytes)));
        let order = |p: &(Punt, u16, Vec<u8>)| (p.1, format!("{:?}", p.0), p.2.clone());
        punted.sort_by_key(order);
        apart.sort_by_key(order);
        prop_assert_eq!(punted, apart);
    }
}

/// What waits for the forwarder of names: ports and frames.
fn named(router: &mut Router) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    router.rig.workers[0].take_named(|port, bytes| all.push((port, bytes.to_vec())));
    all
}

fn interest(to: MacAddr, from: u64) -> Vec<u8> {
    let mut frame = frame(to, mac(from));
    frame[12..14].copy_from_slice(&[0x86, 0x24]);
    frame
}

#[test]
fn names_by_frames_reach_the_forwarder_from_any_kind_of_port_and_leave_by_the_queues() {
    let mut all = router(true);
    // To the node's own address and to the group: the switch and the fabric get neither.
    for (port, to) in [(2, mac(NODE)), (2, NAMES), (HOST, mac(NODE)), (HOST, NAMES)] {
        let asked = interest(to, A);
        assert!(all.send(port, &asked).is_empty());
        assert_eq!(named(&mut all), [(port as u16, asked)]);
    }
    assert!(all.punted().is_empty());
    // A port that takes none: the frame is one like any other.
    assert_eq!(all.send(4, &interest(mac(NODE), 3)).len(), 2);
    assert!(named(&mut all).is_empty());
    // Data leaves by the port's queues, on a port of the fabric without its header.
    for port in [2, HOST] {
        let data = interest(mac(A), NODE);
        let sent = all.rig.inject(&data, Injection::Named(port as u16)).unwrap();
        assert_eq!(sent, [(port, data)]);
    }
    let account = all.rig.account();
    assert_eq!((account.consumed, account.injected), (4, 2));
}

#[test]
fn a_flood_of_names_takes_no_more_frames_than_stay_free() {
    let mut all = router(true);
    for _ in 0..8 {
        for _ in 0..512 {
            all.rig.offer(2, &interest(mac(NODE), 0x22));
        }
        all.rig.settle();
    }
    assert_eq!(all.rig.drops(2, DropReason::ControlFull), 8 * 512 - 1024);
    // The control planes have their own room.
    all.send(HOST, &frame(MacAddr::BROADCAST, mac(A)));
    assert_eq!(all.punted().len(), 1);
    assert_eq!(named(&mut all).len(), 1024);
}
