//! Two stages: nodes that do not route send hosts' packets to the group's router of nodes that do.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::common::{Plan, ipv4 as ipv4_frame, mac};
use crate::group_rig::{A, B, GROUP, Tables};
use crate::net::{CAPABILITIES, Node};
use plexus_plane::{DropReason, Injection, Punt, route_along};
use plexus_table::RouteKey;
use plexus_table::lpm::{Fib4, Fib6};
use plexus_wire::fabric::{self, Fields, Kind, Partition, ROUTER_HOP, Repr};
use plexus_wire::ipv4;

const HOST: usize = 0;

/// A UDP packet from A to the group. `fragment`: the field with its offset and flags.
fn packet(source: Ipv4Addr, destination: Ipv4Addr, ports: u16, fragment: u16) -> Vec<u8> {
    let mut datagram = ports.to_be_bytes().to_vec();
    datagram.extend([0, 9, 0, 40, 0, 0]);
    datagram.extend([7; 32]);
    let ends = [source.octets(), destination.octets()];
    ipv4_frame([mac(GROUP), mac(A)], ends, (fragment, 64, 17), &datagram)
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
    shared_out(node, ways, None);
}

fn shared_out(node: &mut Node, ways: &[&[u8]], partition: Option<&Partition>) {
    let ways = ways.iter().map(|way| way.to_vec()).collect();
    node.tables.set_forwarders(ways, partition.cloned());
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
    assert_eq!(node.rig.drops(HOST, DropReason::NoForwarder), 1);
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
    let mut tables = Tables::new(u16::MAX);
    for (number, station, prefix, len) in [(0, A, [10, 0, 0, 1], 32), (1, B, [20, 0, 0, 0], 8)] {
        tables.neighbour(number, station);
        tables.route4(prefix, len, number);
    }
    let source = tables.source();
    let mut node =
        Node::with(Plan { capabilities: Some(CAPABILITIES), router: Some(source), ..Plan::new(3) });
    node.link(&[1, 2]);
    node.tables.set_gateway(Some(mac(GROUP)), true);
    let route = route_along(ROUTER_HOP, &[2, 7]).unwrap();
    let key = RouteKey { destination: mac(B), source: Some(mac(A)) };
    node.tables.install(ROUTER_HOP.into(), key, route.into());
    node.publish();
    (node, tables.v4, tables.v6)
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
    assert!(matches!(&node.punted()[..], [(Punt::Unresolved(None), 254, f)] if *f == stranger));
    // Nor the way.
    let known = packet(Ipv4Addr::new(10, 0, 0, 1), destination, 5, 0);
    let key = RouteKey { destination: mac(B), source: Some(mac(A)) };
    node.tables.remove(ROUTER_HOP.into(), key);
    node.publish();
    assert!(node.rig.send(1, &forwarded(&known)).is_empty());
    assert!(matches!(&node.punted()[..], [(Punt::Host, 254, f)] if f[..6] == mac(B).0));
    // Once it has found out, it sends the packet again.
    node.tables.install(ROUTER_HOP.into(), key, route_along(ROUTER_HOP, &[2, 7]).unwrap().into());
    node.publish();
    let out = node.rig.inject(&known, Injection::Routed(ROUTER_HOP.into())).unwrap();
    assert_eq!((out.len(), out[0].0), (1, 2));
}

/// Questions about one host's packets leave room for those of the others behind the same link.
#[test]
fn a_host_with_false_sources_leaves_a_forwarder_time_for_others() {
    let (mut node, ..) = back();
    let (_, destination) = flow(1);
    for n in 0..=255 {
        for m in 0..8 {
            let false_source = Ipv4Addr::new(20, 0, n, m);
            node.rig.offer(1, &forwarded(&packet(false_source, destination, 5, 0)));
        }
        node.rig.settle();
    }
    let flood = node.punted().len();
    assert!(flood < 20, "{flood}");
    // Few stations share its part.
    let asked = (0..100).filter(|n| {
        let mut other = packet(Ipv4Addr::new(20, 0, 0, 1), destination, 5, 0);
        other[6..12].copy_from_slice(&[2, 0, 0, 0, 9, *n]);
        node.rig.send(1, &forwarded(&other));
        node.rig.now = node.rig.now + Duration::from_millis(2);
        !node.punted().is_empty()
    });
    assert!(asked.count() > 90);
}

/// A packet that its control plane sends to the router again has not come in by a port.
#[test]
fn a_forwarder_delivers_to_its_own_hosts_at_any_port() {
    let (mut node, ..) = back();
    node.host(HOST as u16, mac(B));
    let key = RouteKey { destination: mac(B), source: Some(mac(A)) };
    node.tables.install(
        ROUTER_HOP.into(),
        key,
        route_along(ROUTER_HOP, &[HOST as u8]).unwrap().into(),
    );
    node.publish();
    let (source, destination) = flow(1);
    let sent = packet(source, destination, 5, 0);
    let out = node.rig.send(1, &forwarded(&sent));
    assert_eq!((out.len(), out[0].0), (1, HOST));
    let out = node.rig.inject(&sent, Injection::Routed(ROUTER_HOP.into())).unwrap();
    assert_eq!((out.len(), out[0].0), (1, HOST));
    assert_eq!(out[0].1[..12], [mac(B).0, mac(GROUP).0].concat());
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

/// The port that the packet of each of many flows leaves by; `None`: it is dropped.
fn ports(node: &mut Node) -> Vec<Option<usize>> {
    let leaves_by = |n| {
        let (source, destination) = flow(n);
        let out = node.rig.send(HOST, &packet(source, destination, 5, 0));
        out.first().map(|out| out.0)
    };
    (0..600).map(leaves_by).collect()
}

/// The ports of links to the forwarders that have the part of a flow's destination.
fn holders(partition: &Partition, n: u16) -> Vec<usize> {
    partition.holders(flow(n).1.into()).iter().map(|f| 1 + usize::from(f)).collect()
}

const THREE: [&[u8]; 3] = [&[1, ROUTER_HOP], &[2, ROUTER_HOP], &[3, ROUTER_HOP]];

#[test]
fn a_packet_goes_to_the_forwarder_that_has_its_part_or_nowhere() {
    let partition = Partition::new(&[1, 1, 1], 1).unwrap();
    let mut node = front();
    shared_out(&mut node, &THREE, Some(&partition));
    let all = ports(&mut node);
    let expected = |n| Some(holders(&partition, n)[0]);
    assert!((0..600).map(expected).eq(all.iter().copied()));
    assert!((1..=3).all(|port| all.iter().filter(|p| **p == Some(port)).count() > 100));
    // The second is lost: its packets have nowhere to go, and no other moves.
    shared_out(&mut node, &[THREE[0], &[], THREE[2]], Some(&partition));
    let without = ports(&mut node);
    let lost = all.iter().filter(|port| **port == Some(2)).count();
    assert!(all.iter().map(|port| port.filter(|port| *port != 2)).eq(without.iter().copied()));
    assert_eq!(node.rig.drops(HOST, DropReason::NoForwarder), lost as u64);
    // It comes back.
    shared_out(&mut node, &THREE, Some(&partition));
    assert_eq!(ports(&mut node), all);
}

#[test]
fn with_two_copies_the_flows_of_a_lost_forwarder_go_to_the_other_holders() {
    let partition = Partition::new(&[1, 1, 1], 2).unwrap();
    let mut node = front();
    shared_out(&mut node, &THREE, Some(&partition));
    let all = choices(&mut node);
    for (n, port) in (0..).zip(&all) {
        assert!(holders(&partition, n).contains(port));
    }
    // Flows to the same part are shared by its holders.
    let firsts = (0..600).filter(|n| all[usize::from(*n)] == holders(&partition, *n)[0]).count();
    assert!((240..=360).contains(&firsts), "{firsts} of 600 go to the first holder");
    node.rig.plug(2, false);
    node.rig.maintain();
    for (n, (before, after)) in (0..).zip(all.iter().zip(choices(&mut node))) {
        let other = holders(&partition, n).into_iter().find(|port| port != before);
        assert_eq!(Some(after), if *before == 2 { other } else { Some(*before) });
    }
    node.rig.plug(2, true);
    node.rig.maintain();
    assert_eq!(choices(&mut node), all);
    // As many copies as forwarders: as with whole tables.
    shared_out(&mut node, &THREE, None);
    let whole = choices(&mut node);
    shared_out(&mut node, &THREE, Some(&Partition::new(&[1, 1, 1], 3).unwrap()));
    assert_eq!(choices(&mut node), whole);
}

#[test]
fn packets_to_the_groups_own_networks_go_by_their_source_or_to_any_forwarder() {
    let partition = Partition::new(&[1, 1, 1], 1).unwrap();
    let mut node = front();
    node.tables.set_networks(["10.0.0.0/24".parse().unwrap(), "10.0.7.0/24".parse().unwrap()]);
    shared_out(&mut node, &THREE, Some(&partition));
    let (inside, near) = (Ipv4Addr::new(10, 0, 0, 1), |n: u8| Ipv4Addr::new(10, 0, 7, n));
    let mut used = [0; 5];
    for n in 0..200 {
        used[node.rig.send(HOST, &packet(inside, near(n), 5, 0))[0].0] += 1;
    }
    assert!(used[1..=3].iter().all(|n| *n > 40), "{used:?}");
    for n in 0..200 {
        let (_, outside) = flow(n);
        let out = node.rig.send(HOST, &packet(outside, near(9), 5, 0));
        assert_eq!(out[0].0, holders(&partition, n)[0]);
    }
}

/// A forwarder's decision for a packet.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Routed,
    Passed(usize),
    Asked,
}

fn fate(node: &mut Node, port: usize, frame: &[u8]) -> Fate {
    let out = node.rig.send(port, frame);
    match out.first() {
        Some((port, frame)) if Fields::read(frame).unwrap().is_routed() => {
            assert_eq!(*port, 2);
            Fate::Routed
        }
        Some((port, _)) => Fate::Passed(*port),
        None => {
            assert!(matches!(&node.punted()[..], [(Punt::Unresolved(None), ..)]));
            Fate::Asked
        }
    }
}

#[test]
fn a_forwarder_takes_packets_beyond_its_parts_from_hosts_that_lead_to_other_networks() {
    let (mut node, ..) = back();
    // It is the first of two; all of 20.0.0.0/8 leads to B, and so does no address of 30.0.0.0/8.
    let partition = Partition::new(&[1, 1], 1).unwrap();
    shared_out(&mut node, &[&[ROUTER_HOP], &[2, ROUTER_HOP]], Some(&partition));
    node.tables.set_networks(["10.0.0.0/24".parse().unwrap()]);
    let held = |held: bool| {
        let of = |n: u8| Ipv4Addr::new(30, n, 0, 1);
        let is = |a: &Ipv4Addr| partition.holders((*a).into()).contains(0) == held;
        (0..=255).map(of).find(is).unwrap()
    };
    let (_, target) = flow(1);
    let from = |source| forwarded(&packet(source, target, 5, 0));
    node.publish();
    assert_eq!(fate(&mut node, 1, &from(held(false))), Fate::Asked);
    assert!(node.tables.set_leading([mac(A)]) && !node.tables.set_leading([mac(A)]));
    node.publish();
    assert_eq!(fate(&mut node, 1, &from(held(false))), Fate::Routed);
    // Addresses that it can look up have to be right; so have those of the group's own networks.
    assert_eq!(fate(&mut node, 1, &from(held(true))), Fate::Asked);
    assert_eq!(fate(&mut node, 1, &from(Ipv4Addr::new(10, 0, 0, 2))), Fate::Asked);
    let near = packet(held(false), Ipv4Addr::new(10, 0, 0, 1), 5, 0);
    assert_eq!(fate(&mut node, 1, &forwarded(&near)), Fate::Asked);
    // Without parts it can look up everything.
    shared_out(&mut node, &[], None);
    assert_eq!(fate(&mut node, 1, &from(held(false))), Fate::Asked);
}

#[test]
fn a_forwarders_own_hosts_are_routed_there_or_by_another() {
    let (mut node, ..) = back();
    node.host(HOST as u16, mac(A));
    let key = RouteKey { destination: mac(B), source: Some(mac(A)) };
    node.tables.install(HOST as u16, key, route_along(HOST as u8, &[2, 7]).unwrap().into());
    let partition = Partition::new(&[1, 1], 1).unwrap();
    shared_out(&mut node, &[&[ROUTER_HOP], &[1, ROUTER_HOP]], Some(&partition));
    for n in 0..200 {
        let (source, destination) = flow(n * 7);
        let frame = packet(source, destination, 5, 0);
        let expected = match partition.holders(destination.into()).contains(0) {
            true => Fate::Routed,
            false => Fate::Passed(1),
        };
        assert_eq!(fate(&mut node, HOST, &frame), expected, "{destination}");
    }
    // The other is away; this one does not try.
    shared_out(&mut node, &[&[ROUTER_HOP], &[]], Some(&partition));
    let missing =
        (0..200).map(|n| flow(n * 7).1).find(|to| !partition.holders((*to).into()).contains(0));
    let frame = packet(flow(0).0, missing.unwrap(), 5, 0);
    assert!(node.rig.send(HOST, &frame).is_empty());
    assert_eq!(node.rig.drops(HOST, DropReason::NoForwarder), 1);
    // ARP is its own business, as anywhere.
    let arp = [&[mac(GROUP).0, mac(A).0].concat()[..], &[8, 6], &[0; 46]].concat();
    assert!(node.rig.send(HOST, &arp).is_empty());
    assert!(matches!(&node.punted()[..], [(Punt::Host, 0, f)] if *f == arp));
}
