//! Nodes with each other and with a controller: the behaviour of a fabric as hosts see it.

use crate::world::{End, World};
use plexus_control::hub::Output;
use plexus_control::node::{Event, Unserved};
use plexus_wire::fabric::message::{Body, PortRole, Refusal};

/// Three nodes in a ring, the controller on the first, one host each on port 9.
fn ring(seed: u64) -> World {
    let mut world = World::new(3, seed);
    for n in 0..3 {
        world.cable(End::Node(n, 1), End::Node((n + 1) % 3, 2));
    }
    world.cable(End::Hub, End::Node(0, 5));
    for n in 0..3 {
        world.host(n, 9);
    }
    world
}

#[test]
fn roles_are_found_and_every_node_finds_the_controller() {
    let mut world = ring(1);
    world.run(1000);
    for n in 0..3 {
        let node = &world.nodes[n].node;
        assert_eq!(node.role(1), PortRole::Fabric);
        assert_eq!(node.role(2), PortRole::Fabric);
        assert_eq!(node.role(9), PortRole::Host);
        assert!(node.controller().0.is_some(), "node {n}");
    }
    assert_eq!(world.nodes[0].node.role(5), PortRole::Controller);
    assert_eq!(world.controller.ports.len(), 3);
}

/// Every pair exchanges a frame numbered `number`; returns the pairs whose frame did not arrive.
fn missing(world: &mut World, number: u32) -> Vec<(usize, usize)> {
    let hosts = world.hosts.len();
    let pairs: Vec<_> =
        (0..hosts).flat_map(|a| (0..hosts).filter(move |b| *b != a).map(move |b| (a, b))).collect();
    for &(from, to) in &pairs {
        let ip = world.hosts[to].ip;
        world.send(from, ip, number);
    }
    world.run(800);
    pairs
        .into_iter()
        .filter(|&(from, to)| {
            let sent = (world.hosts[from].mac, number);
            world.hosts[to].received.iter().filter(|got| **got == sent).count() != 1
        })
        .collect()
}

/// The hosts announce themselves.
fn announce(world: &mut World) {
    for host in 0..world.hosts.len() {
        let (mac, ip) = (world.hosts[host].mac, world.hosts[host].ip);
        world.announce(host, (mac, ip), ip);
    }
    world.run(300);
}

#[test]
fn a_cut_cable_is_noticed_at_once_and_a_silent_one_within_two_heartbeats() {
    let mut world = ring(3);
    world.run(1000);
    world.uncable(End::Node(0, 1));
    assert_eq!(world.nodes[0].node.role(1), PortRole::Down);
    world.run(20);
    assert!(world.nodes[1].node.controller().0.is_some(), "by way of the third node");
    world.cable(End::Node(0, 1), End::Node(1, 2));
    world.run(300);
    assert_eq!(world.nodes[0].node.role(1), PortRole::Fabric);
    world.silence(End::Node(0, 1), true);
    world.run(205);
    assert_ne!(world.nodes[0].node.role(1), PortRole::Fabric);
    assert_ne!(world.nodes[1].node.role(2), PortRole::Fabric);
}

#[test]
fn node_and_controller_speak_the_lower_of_their_versions() {
    let mut world = ring(5);
    world.run(1000);
    let heard = |world: &World, id: u64| {
        let versions = world.hub_log.iter().filter_map(|o| match o {
            Output::NodeUp { node, version, .. } if *node == id => Some(*version),
            _ => None,
        });
        versions.collect::<Vec<u8>>()
    };
    // A restart tells the version, and is announced with it.
    for (times, [node, controller, both]) in
        [[1, 1, 1], [1, 2, 1], [3, 2, 2], [2, 3, 2]].into_iter().enumerate()
    {
        world.versions = [node, controller];
        world.restart_node(1);
        world.restart_controller(times as u64 + 2);
        world.run(5000);
        assert_eq!(heard(&world, 2).last(), Some(&both), "of the node {:?}", world.versions);
        assert_eq!(world.nodes[1].node.version(), both, "of the controller {:?}", world.versions);
        assert!(world.nodes[1].node.controller().0.is_some());
    }
}

#[test]
fn new_keys_are_no_news_but_a_lost_memory_is() {
    let mut world = ring(13);
    world.run(1000);
    let announced = |world: &World| {
        let is_up = |o: &&Output| matches!(o, Output::NodeUp { .. });
        world.hub_log.iter().filter(is_up).count()
    };
    // A node's generation advances with each new session.
    let generation = |world: &World, id: u64| {
        let hellos = world.controller.said.iter().rev().filter_map(|(node, body)| match body {
            Body::ControllerHello(hello) if *node == id => Some(hello.generation),
            _ => None,
        });
        hellos.into_iter().next().unwrap()
    };
    assert_eq!(announced(&world), 3);
    let before: Vec<u64> = (1..=3).map(|id| generation(&world, id)).collect();
    // All sessions get new keys after an hour, or up to an eighth later.
    world.run(3_600_000 + 450_000 + 10_000);
    for id in 1..=3 {
        assert!(generation(&world, id) > before[id as usize - 1], "node {id} has its old keys");
    }
    assert_eq!(announced(&world), 3);
    world.restart_node(1);
    world.run(5000);
    assert_eq!(announced(&world), 4);
}

#[test]
fn a_host_that_lies_about_its_own_address_in_arp_is_not_heard() {
    let mut world = ring(7);
    world.run(1000);
    announce(&mut world);
    let (other_mac, other_ip) = (world.hosts[1].mac, world.hosts[1].ip);
    // The frame has its own source; the ARP packet claims another one's.
    world.announce(0, (other_mac, other_ip), other_ip);
    world.run(200);
    assert!(world.nodes[0].events.contains(&Event::Dropped(9, Unserved::Forged)));
    assert_eq!(world.controller.macs[&other_mac], (2, 9));
}

#[test]
fn a_station_that_the_controller_refuses_sends_nothing() {
    let mut world = ring(8);
    world.run(1000);
    world.controller.refuse = Some(Refusal::Claimed);
    announce(&mut world);
    assert!(world.nodes[0].node.stations().is_empty());
    world.controller.refuse = None;
    world.run(2500);
    announce(&mut world);
    assert_eq!(missing(&mut world, 1), [], "a refusal expires");
}

#[test]
fn a_silent_host_is_asked_and_forgotten() {
    let mut world = ring(9);
    world.run(1000);
    announce(&mut world);
    world.run(60_000);
    assert_eq!(world.nodes[0].node.stations().len(), 1, "it answers");
    world.silence(End::Host(0), true);
    world.run(15_000);
    assert!(world.nodes[0].node.stations().is_empty());
    let mac = world.hosts[0].mac;
    assert!(!world.controller.macs.contains_key(&mac), "the controller was told");
}

#[test]
fn frames_for_a_station_that_has_left_are_called_back() {
    let mut world = ring(10);
    world.run(1000);
    announce(&mut world);
    assert_eq!(missing(&mut world, 1), []);
    // Host 1 moves to the third node, and the first node does not know.
    world.uncable(End::Host(1));
    world.cable(End::Host(1), End::Node(2, 8));
    // Another host takes its old place.
    world.host(1, 9);
    world.run(400);
    let ip = world.hosts[1].ip;
    world.send(0, ip, 2);
    world.run(50);
    let stale = |e: &Event| matches!(e, Event::Stale(..));
    assert!(world.nodes[1].events.iter().any(stale));
    let routes = world.nodes[0].node.routes();
    let mac = world.hosts[1].mac;
    assert!(routes.iter().all(|r| r.destination != mac), "{routes:?}");
    // Its first frame at the new place makes it known; then the same destination is reachable
    // again, although the sender asks no question.
    let own = world.hosts[1].mac;
    world.announce(1, (own, ip), ip);
    world.run(100);
    world.send(0, ip, 3);
    world.run(100);
    world.send(0, ip, 4);
    world.run(100);
    assert!(world.hosts[1].received.iter().any(|(_, n)| *n == 4));
}

#[test]
fn hosts_that_ask_for_each_other_at_once_both_get_through() {
    for seed in 0..10 {
        let mut world = ring(100 + seed);
        world.run(1000);
        announce(&mut world);
        let ips: Vec<_> = world.hosts.iter().map(|h| h.ip).collect();
        world.send(0, ips[1], 1);
        world.send(1, ips[0], 2);
        world.run(200);
        assert!(world.hosts[1].received.iter().any(|(_, n)| *n == 1), "seed {seed}");
        assert!(world.hosts[0].received.iter().any(|(_, n)| *n == 2), "seed {seed}");
    }
}
