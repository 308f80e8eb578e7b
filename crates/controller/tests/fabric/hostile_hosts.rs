//! Hosts that lie, flood, or pretend to be part of the fabric. Each test names the defence.

use std::net::Ipv4Addr;

use plexus_control::link::Pin;
use plexus_control::node::{Event, Input, Unserved};
use plexus_control::session::Refused;
use plexus_plane::DropReason;
use plexus_wire::MacAddr;
use plexus_wire::arp::Operation;
use plexus_wire::fabric::message::{PortRole, Refusal};
use plexus_wire::fabric::{self, Kind, encapsulation};

use crate::world::{End, HOST, SECOND, SPARE, World, arp_frame, packet};

/// The honest hosts; 3 is the attacker.
const HONEST: [usize; 3] = [0, 1, 2];
const ROGUE: usize = 3;

/// The honest hosts are not affected.
fn unharmed(world: &mut World) {
    assert_eq!(world.unreached_at_once(&World::pairs(&HONEST)), []);
}

fn refusals(world: &mut World, event: &Event) -> usize {
    world.node(ROGUE).events.iter().filter(|e| *e == event).count()
}

/// Defence: the station is probed at its known place; it answers, so the claim is refused.
#[test]
fn the_ethernet_address_of_a_live_host_is_not_to_be_had() {
    let mut world = World::talking(1);
    let victim = world.hosts[0].mac;
    let to = (world.hosts[1].mac, world.hosts[1].ip);
    let claims = world.brain(0).log.len();
    for number in 0..50 {
        let from = (victim, world.hosts[0].ip);
        let payload = 0xBAD_0000u32 + number;
        world.emit(ROGUE, packet(from, to, (10_000, 9000), &payload.to_be_bytes()));
        world.run(20);
        unharmed(&mut world);
    }
    assert!(world.hosts[1].received.iter().all(|(_, n)| n >> 16 != 0xBAD), "nothing passes");
    assert!(refusals(&mut world, &Event::Denied(HOST, victim, None, Refusal::Claimed)) > 0);
    assert!(refusals(&mut world, &Event::Dropped(HOST, Unserved::Refused)) > 0, "and is counted");
    let refused = |e: &plexus_controller::Event| match e {
        plexus_controller::Event::ClaimRefused { mac, .. } => *mac == victim,
        _ => false,
    };
    assert!(world.brain(0).log[claims..].iter().any(refused), "the controller logs it");
    assert!(world.brain(0).core.hosts().any(|h| h.mac == victim && h.node == 1));
    // A refusal expires: the address is to be had once its host has left.
    world.uncable(End::Host(0));
    world.run(2500);
    world.hosts[ROGUE].is_promiscuous = true;
    world.emit(ROGUE, packet((victim, world.hosts[0].ip), to, (10_000, 9000), &[0; 4]));
    world.run(100);
    let admitted = world.node(ROGUE).node().stations();
    assert!(admitted.iter().any(|s| s.port == HOST && s.mac == victim));
}

/// Defence: a node compares what an ARP packet claims with the source of its frame.
#[test]
fn a_claim_of_anothers_address_in_arp_is_not_heard() {
    let mut world = World::talking(7);
    let (own, victim) = (world.hosts[ROGUE].mac, (world.hosts[1].mac, world.hosts[1].ip));
    let target = (MacAddr::default(), victim.1);
    let mut claim = arp_frame(MacAddr::BROADCAST, Operation::REQUEST, victim, target);
    claim[6..12].copy_from_slice(&own.0);
    world.emit(ROGUE, claim);
    world.run(200);
    assert_eq!(refusals(&mut world, &Event::Dropped(HOST, Unserved::Forged)), 1);
    assert!(world.brain(0).core.hosts().any(|h| h.mac == victim.0 && h.node == 2));
    unharmed(&mut world);
}

/// Defence: the holder of the address is probed; it answers, so the claim is refused.
#[test]
fn the_ip_address_of_a_live_host_is_not_to_be_had() {
    let mut world = World::talking(2);
    let (own, victim) = (world.hosts[ROGUE].ip, world.hosts[0].ip);
    world.hosts[ROGUE].ip = victim;
    for _ in 0..5 {
        world.announce(ROGUE);
        world.run(500);
        HONEST.iter().for_each(|&h| world.hosts[h].arp.clear());
        assert_eq!(world.unreached(&World::pairs(&HONEST), 200), []);
    }
    let mac = world.hosts[ROGUE].mac;
    let denied = Event::Denied(HOST, mac, Some(victim.into()), Refusal::Claimed);
    assert!(refusals(&mut world, &denied) > 0);
    assert!(refusals(&mut world, &Event::Dropped(HOST, Unserved::Claimed)) > 0);
    assert!(HONEST.iter().all(|&h| world.hosts[h].arp.get(&victim) != Some(&mac)));
    world.hosts[ROGUE].ip = own;
}

/// Defence: the node knows the group's addresses and drops the claim as forged.
#[test]
fn the_gateways_address_is_not_to_be_had() {
    let mut world = World::talking(3);
    let (own, gateway) = (world.hosts[ROGUE].ip, Ipv4Addr::new(10, 0, 0, 254));
    world.hosts[ROGUE].ip = gateway;
    world.announce(ROGUE);
    world.run(500);
    world.hosts[ROGUE].ip = own;
    assert_eq!(refusals(&mut world, &Event::Dropped(HOST, Unserved::Forged)), 1);
    world.ask(0, gateway);
    world.run(50);
    let group = world.config.group_mac;
    assert_eq!(world.hosts[0].arp.get(&gateway), Some(&group), "the group itself answers");
    unharmed(&mut world);
}

/// Defence: what a port may send to the control plane is limited, and so are its stations.
#[test]
fn a_flood_of_ethernet_addresses_is_bounded() {
    let mut world = World::talking(4);
    // An honest host on the same node.
    let neighbour = world.host(ROGUE, SECOND);
    world.run(400);
    world.announce(neighbour);
    let honest = [0, 1, 2, neighbour];
    assert_eq!(world.unreached(&World::pairs(&honest), 500), []);
    world.run(500);
    world.hosts[ROGUE].is_promiscuous = true;
    let to = (world.hosts[0].mac, world.hosts[0].ip);
    for round in 0..100u32 {
        for i in 0..60 {
            let n = (round * 60 + i).to_be_bytes();
            let mac = MacAddr([2, 0xFF, n[0], n[1], n[2], n[3]]);
            let from = (mac, Ipv4Addr::new(10, 0, 0, 77));
            world.emit(ROGUE, packet(from, to, (1, 2), &n));
        }
        world.run(10);
        if round % 10 == 0 {
            assert_eq!(world.unreached_at_once(&World::pairs(&honest)), [], "round {round}");
        }
    }
    // A host that is new meanwhile is served as well.
    world.hosts[1].arp.clear();
    assert_eq!(world.unreached(&[(1, neighbour), (neighbour, 1)], 100), []);
    assert!(world.node(ROGUE).drops(HOST, DropReason::ControlRate) > 1000);
    assert!(refusals(&mut world, &Event::Dropped(HOST, Unserved::TooMany)) > 0);
    let limit = world.config.limits.stations_per_port as usize;
    let at_port = world.brain(0).core.hosts().filter(|h| (h.node, h.port) == (4, HOST)).count();
    assert!(at_port <= limit, "{at_port} stations");
    let admitted = world.node(ROGUE).node().stations();
    assert!(admitted.iter().filter(|s| s.port == HOST).count() <= limit);
}

/// Defence: the fabric's EtherType has no meaning on a host port, and a native header there is an
/// ordinary Ethernet frame.
#[test]
fn a_host_cannot_send_fabric_frames() {
    let mut world = World::talking(5);
    let inner = packet(
        (world.hosts[ROGUE].mac, world.hosts[ROGUE].ip),
        (world.hosts[1].mac, world.hosts[1].ip),
        (10_000, 9000),
        &0xBAD_0000u32.to_be_bytes(),
    );
    for kind in [Kind::Ethernet, Kind::Control, Kind::Error, Kind::Tree] {
        for path in [&[0, 1, HOST][..], &[1, 0, HOST], &[0xFF], &[0, 0xFF], &[HOST], &[]] {
            let header = fabric::Repr::new(kind, path).unwrap().to_bytes().unwrap();
            let frame = [&header[..], &inner].concat();
            world.emit(ROGUE, frame.clone());
            let to = crate::world::port_mac(ROGUE, HOST);
            let outer = encapsulation::ethertype_header(to, world.hosts[ROGUE].mac);
            world.emit(ROGUE, [&outer[..], &frame].concat());
        }
    }
    world.run(100);
    assert_eq!(world.node(ROGUE).drops(HOST, DropReason::FabricOnHost), 24);
    assert!(world.hosts.iter().all(|h| h.received.iter().all(|(_, n)| n >> 16 != 0xBAD)));
    unharmed(&mut world);
}

/// Defence: a Hello proves nothing unless its sender holds a credential and answers the handshake;
/// replayed or invented, it is refused, and the port stays a host port.
#[test]
fn a_host_does_not_become_a_node_by_hellos() {
    let mut world = World::talking(6);
    // The messages between two nodes when their cable was plugged in.
    world.wiretap = Some(vec![]);
    let other = world.uncable(End::Node(0, 0)).unwrap();
    world.cable(End::Node(0, 0), other);
    world.run(500);
    let bootstrap = encapsulation::NEAREST_BRIDGE.0;
    let mut tapped = world.wiretap.take().unwrap();
    tapped.retain(|(end, f)| [End::Node(0, 0), other].contains(end) && f.starts_with(&bootstrap));
    let heard: Vec<Vec<u8>> = tapped.into_iter().map(|f| f.1).collect();
    assert!(heard.len() > 6);
    let forged = heard[0][..40].to_vec();
    for frame in heard.iter().chain([&forged]) {
        world.emit(ROGUE, frame.clone());
        world.run(15);
    }
    world.run(1000);
    let node = world.node(ROGUE);
    assert_eq!(node.node().role(HOST), PortRole::Host);
    let refused = |e: &&Event| matches!(e, Event::Refused(Some(HOST), _));
    assert!(node.events.iter().filter(refused).count() > 0);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 100), []);
}

/// The roles of the spare ports of the first and the last node when two hosts there relay
/// everything to each other.
fn roles_with_colluding_hosts(pinned: [bool; 2]) -> [PortRole; 2] {
    let mut world = World::joined(3, &[(0, 1), (1, 2)], 77);
    for (n, _) in [0, 2].into_iter().zip(pinned).filter(|(_, pinned)| *pinned) {
        let now = world.now;
        world.node(n).input(now, Input::Pinned { port: SPARE, pin: Pin::Hosts });
    }
    world.cable(End::Node(0, SPARE), End::Node(2, SPARE));
    world.run(2000);
    // Otherwise both would hear the other's Hellos.
    let refusal = Event::Refused(Some(SPARE), Refused::Pinned.to_string());
    let refused = [0, 2].map(|n| world.node(n).events.contains(&refusal));
    assert_eq!(refused, [pinned[0] && !pinned[1], pinned[1] && !pinned[0]]);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 200), []);
    [0, 2].map(|n| world.node(n).node().role(SPARE))
}

/// Defence: a port pinned to hosts neither sends nor accepts link messages.
#[test]
fn hosts_that_pass_link_messages_on_are_no_cable_between_pinned_ports() {
    // Unpinned, they act as a cable (SPEC 13): so the test can tell the difference.
    assert_eq!(roles_with_colluding_hosts([false, false]), [PortRole::Fabric; 2]);
    for pinned in [[true, true], [true, false], [false, true]] {
        for role in roles_with_colluding_hosts(pinned) {
            // One of the two is closed as a loop between host ports.
            assert!(matches!(role, PortRole::Host | PortRole::Conflict), "{pinned:?}: {role:?}");
        }
    }
}
