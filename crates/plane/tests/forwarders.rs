//! Two stages: nodes that do not route send hosts' packets to the group's router of nodes that do.

mod common;
#[path = "fabric/net.rs"]
mod net;

use std::net::Ipv4Addr;

use common::{Plan, mac};
use net::{CAPABILITIES, Node};
use plexus_config::ReversePath;
use plexus_plane::{
    DropReason, FibReaders, GROUP_VLAN, GroupKind, GroupSpec, Hop, Injection, InterfacePlan, Punt,
    RouterSource, RouterTables, route_along,
};
use plexus_table::RouteKey;
use plexus_table::lpm::{Fib4, Fib6, GroupId, Limits};
use plexus_wire::fabric::{self, Fields, Kind, ROUTER_HOP, Repr};
use plexus_wire::{checksum, ipv4};

const GROUP: u64 = 0x66;
const A: u64 = 0xA;
const B: u64 = 0xB;
const HOST: usize = 0;

/// A UDP packet from A to the group. `fragment`: the field with its offset and flags.
fn packet(source: Ipv4Addr, destination: Ipv4Addr, ports: u16, fragment: u16) -> Vec<u8> {
    let mut f = [mac(GROUP).0, mac(A).0].concat();
    f.extend([8, 0, 0x45, 0, 0, 60, 0, 1]);
    f.extend(fragment.to_be_bytes());
    f.extend([64, 17, 0, 0]);
    f.extend(source.octets());
    f.extend(destination.octets());
    let sum = checksum::checksum(&f[14..34]);
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    f.extend(ports.to_be_bytes());
    f.extend([0, 9, 0, 40, 0, 0]);
    f.extend([7; 32]);
    f
}

fn flow(n: u16) -> (Ipv4Addr, Ipv4Addr) {
    (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::from(0x1400_0000 + u32::from(n) * 7919))
}

/// A node with a host at port 0 and links at the others.
fn front() -> Node {
    let mut node = Node::new(5);
    node.host(HOST as u16, mac(A));
    node.link(&[1, 2, 3, 4]);
    node.tables.set_gateway(Some(mac(GROUP)), false);
    node.publish();
    node
}

fn ways(node: &mut Node, ways: &[&[u8]]) {
    node.tables.set_forwarders(ways.iter().map(|way| way.to_vec()).collect());
    node.publish();
}

/// The port that the packets of each of many flows leave by.
fn choices(node: &mut Node) -> Vec<usize> {
    let leaves_by = |n| {
        let (source, destination) = flow(n);
        let out = node.rig.send(HOST, &packet(source, destination, 5, 0));
        assert_eq!(out.len(), 1);
        let header = Repr::parse(&fabric::Frame::new_checked(&out[0].1[..]).unwrap()).unwrap();
        assert_eq!((&header.forward[..], &header.reverse[..]), (&[ROUTER_HOP][..], &[0][..]));
        out[0].0
    };
    (0..600).map(leaves_by).collect()
}

#[test]
fn one_forwarder_that_leaves_moves_its_own_flows_and_one_that_comes_takes_its_share() {
    let mut node = front();
    ways(&mut node, &[&[1, ROUTER_HOP], &[2, ROUTER_HOP], &[3, ROUTER_HOP]]);
    let three = choices(&mut node);
    for port in 1..=3 {
        let share = three.iter().filter(|p| **p == port).count();
        assert!((150..=250).contains(&share), "port {port} has {share} of 600 flows");
    }
    // It is not to be used; or its link is down.
    ways(&mut node, &[&[1, ROUTER_HOP], &[], &[3, ROUTER_HOP]]);
    let without = choices(&mut node);
    ways(&mut node, &[&[1, ROUTER_HOP], &[2, ROUTER_HOP], &[3, ROUTER_HOP]]);
    node.rig.plug(2, false);
    node.rig.maintain();
    assert_eq!(choices(&mut node), without);
    for (before, after) in three.iter().zip(&without) {
        assert!(if *before == 2 { *after != 2 } else { after == before });
    }
    node.rig.plug(2, true);
    node.rig.maintain();
    assert_eq!(choices(&mut node), three);
    // A fourth takes flows of all, and none moves between the others.
    ways(&mut node, &[&[1, ROUTER_HOP], &[2, ROUTER_HOP], &[3, ROUTER_HOP], &[4, ROUTER_HOP]]);
    let four = choices(&mut node);
    let moved = three.iter().zip(&four).filter(|(before, after)| before != after);
    let moved: Vec<_> = moved.collect();
    assert!(moved.iter().all(|(_, after)| **after == 4));
    assert!((100..=200).contains(&moved.len()), "{} of 600 flows moved", moved.len());
}

#[test]
fn two_places_are_twice_the_share() {
    let mut node = front();
    ways(&mut node, &[&[1, ROUTER_HOP], &[2, ROUTER_HOP], &[2, ROUTER_HOP]]);
    let share = choices(&mut node).iter().filter(|p| **p == 2).count();
    assert!((350..=450).contains(&share), "{share} of 600 flows");
}

#[test]
fn fragments_follow_their_flow() {
    let mut node = front();
    ways(&mut node, &[&[1, ROUTER_HOP], &[2, ROUTER_HOP], &[3, ROUTER_HOP]]);
    for n in 0..100 {
        let (source, destination) = flow(n);
        let packets = [
            packet(source, destination, 5, 0),
            packet(source, destination, 900 + n, 0),
            packet(source, destination, 5, 0x2000),
            packet(source, destination, 5, 5),
        ];
        let ports = packets.map(|packet| node.rig.send(HOST, &packet)[0].0);
        assert!(ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    }
}

#[test]
fn without_a_forwarder_packets_are_dropped_and_ports_that_come_later_have_ways() {
    let mut node = front();
    let (source, destination) = flow(1);
    let f = packet(source, destination, 5, 0);
    ways(&mut node, &[&[], &[]]);
    assert!(node.rig.send(HOST, &f).is_empty());
    assert_eq!(node.rig.drops(HOST, DropReason::PortDown), 1);
    // The controller has told of none yet.
    ways(&mut node, &[]);
    assert!(node.rig.send(HOST, &f).is_empty());
    assert!(matches!(&node.punted()[..], [(Punt::Host, 0, _)]));
    ways(&mut node, &[&[1, ROUTER_HOP]]);
    assert!(node.tables.grow(6, 9));
    let key = mac(GROUP);
    let has_way = |port| node.tables.current().tables(port).unwrap().routes.get(key, mac(B));
    assert!(has_way(5).is_some());
}

#[test]
fn arp_discovery_and_dhcp_stay_at_the_hosts_own_node() {
    let mut node = front();
    ways(&mut node, &[&[1, ROUTER_HOP], &[2, ROUTER_HOP]]);
    let head = [mac(GROUP).0, mac(A).0].concat();
    let arp = [&head[..], &[8, 6], &[0; 46]].concat();
    let mut discovery = [&head[..], &[0x86, 0xDD], &[0; 64]].concat();
    (discovery[20], discovery[54]) = (58, 136);
    let (source, destination) = flow(1);
    let mut dhcp = packet(source, destination, 68, 0);
    dhcp[36..38].copy_from_slice(&[0, 67]);
    for frame in [&arp, &discovery, &dhcp] {
        assert!(node.rig.send(HOST, frame).is_empty());
        assert!(matches!(&node.punted()[..], [(Punt::Host, 0, f)] if f == frame));
    }
}

/// A node that routes: link 1 leads to the first stage, link 2 to B in 20.0.0.0/8.
fn back() -> (Node, Fib4, Fib6) {
    let mut router = RouterTables::new();
    let interface = InterfacePlan {
        vlan: GROUP_VLAN,
        mac: mac(GROUP),
        mtu: u16::MAX,
        port: None,
        kernel: None,
        reverse_path: ReversePath::Strict,
    };
    router.set_interface(GROUP_VLAN, Some(interface));
    let mut v4 = Fib4::new(Limits::default()).unwrap();
    let v6 = Fib6::new(Limits::default()).unwrap();
    for (number, station, prefix) in [(0, A, (0x0A00_0001, 32)), (1, B, (0x1400_0000, 8))] {
        router.set_neighbour(number, Some((GROUP_VLAN, mac(station))));
        let members = vec![Hop { neighbour: number, vlan: GROUP_VLAN }];
        let group = GroupSpec { kind: GroupKind::Forward, members, vlan: GROUP_VLAN };
        router.set_group(number, Some(group));
        v4.insert(prefix.0, prefix.1, GroupId::new(number).unwrap()).unwrap();
    }
    let fib = FibReaders::new(v4.reader(), v6.reader());
    let source = RouterSource { plan: (*router.plan()).clone().publish(), fib };
    let mut node =
        Node::with(Plan { capabilities: Some(CAPABILITIES), router: Some(source), ..Plan::new(3) });
    node.link(&[1, 2]);
    node.tables.set_gateway(Some(mac(GROUP)), true);
    let route = route_along(ROUTER_HOP, &[2, 7]).unwrap();
    let key = RouteKey { destination: mac(B), source: Some(mac(A)) };
    node.tables.install(ROUTER_HOP.into(), key, route.into());
    node.publish();
    (node, v4, v6)
}

/// A packet as it comes from the first stage.
fn forwarded(packet: &[u8]) -> Vec<u8> {
    let mut repr = Repr::new(Kind::Ethernet, &[ROUTER_HOP]).unwrap();
    repr.reverse.push(3);
    [&repr.to_bytes().unwrap()[..], packet].concat()
}

#[test]
fn a_forwarder_routes_what_other_nodes_send_it() {
    let (mut node, ..) = back();
    let (source, destination) = flow(1);
    let sent = packet(source, destination, 5, 0);
    let out = node.rig.send(1, &forwarded(&sent));
    assert_eq!((out.len(), out[0].0), (1, 2));
    let fields = Fields::read(&out[0].1).unwrap();
    assert!(fields.is_routed());
    let header = Repr::parse(&fabric::Frame::new_checked(&out[0].1[..]).unwrap()).unwrap();
    // A route that is stale leads back here, not to the first stage.
    assert_eq!((&header.forward[..], &header.reverse[..]), (&[7][..], &[ROUTER_HOP][..]));
    let inner = &out[0].1[fields.header_len()..];
    assert_eq!(inner[..12], [mac(B).0, mac(A).0].concat());
    let ip = ipv4::Packet::new_checked(&inner[14..]).unwrap();
    assert_eq!((ip.ttl(), ip.checksum_ok()), (63, true));
    let counters = node.rig.workers[0].pipeline().counters();
    assert_eq!(counters.ports[1].routed, 1);
}

#[test]
fn the_control_plane_of_a_forwarder_is_asked_about_hosts_that_it_does_not_know() {
    let (mut node, ..) = back();
    let (_, destination) = flow(1);
    // Of another node's host, it need not know the addresses.
    let stranger = packet(Ipv4Addr::new(20, 0, 0, 1), destination, 5, 0);
    assert!(node.rig.send(1, &forwarded(&stranger)).is_empty());
    assert!(matches!(&node.punted()[..], [(Punt::Unresolved(None), 1, f)] if *f == stranger));
    // Nor the way.
    let known = packet(Ipv4Addr::new(10, 0, 0, 1), destination, 5, 0);
    let key = RouteKey { destination: mac(B), source: Some(mac(A)) };
    node.tables.remove(ROUTER_HOP.into(), key);
    node.publish();
    assert!(node.rig.send(1, &forwarded(&known)).is_empty());
    assert!(matches!(&node.punted()[..], [(Punt::Host, 1, f)] if f[..6] == mac(B).0));
    // Once it has found out, it sends the packet again.
    node.tables.install(ROUTER_HOP.into(), key, route_along(ROUTER_HOP, &[2, 7]).unwrap().into());
    node.publish();
    let out = node.rig.inject(&known, Injection::Routed(ROUTER_HOP.into())).unwrap();
    assert_eq!((out.len(), out[0].0), (1, 2));
}

#[test]
fn a_node_that_does_not_route_refuses_packets_for_its_router() {
    let (mut node, ..) = back();
    node.tables.set_gateway(Some(mac(GROUP)), false);
    node.publish();
    let (source, destination) = flow(1);
    assert!(node.rig.send(1, &forwarded(&packet(source, destination, 5, 0))).is_empty());
    assert_eq!(node.rig.drops(1, DropReason::HopToNowhere), 1);
    // Frames to others than the group are not the router's.
    node.tables.set_gateway(Some(mac(GROUP)), true);
    node.publish();
    let mut f = packet(source, destination, 5, 0);
    f[..6].copy_from_slice(&mac(B).0);
    assert!(node.rig.send(1, &forwarded(&f)).is_empty());
    assert_eq!(node.rig.drops(1, DropReason::NotForUs), 1);
}
