//! A node and its cables, sessions and hosts.

use plexus_control::hub::Output;
use plexus_control::node::Event;
use plexus_wire::fabric::message::{Body, PortRole};

use crate::world::{CONTROL, End, HOST, SECOND, World};

/// Three nodes in a ring. Each has a host, and the first one has the controller.
fn ring(seed: u64) -> World {
    World::joined(3, &[(0, 1), (1, 2), (2, 0)], seed)
}

#[test]
fn a_cut_cable_is_noticed_at_once_and_a_silent_one_within_two_heartbeats() {
    let mut world = ring(3);
    let role = |world: &mut World, n: usize| world.node(n).node().role(0);
    let other = world.uncable(End::Node(0, 0)).unwrap();
    assert_eq!(role(&mut world, 0), PortRole::Down);
    world.run(20);
    assert!(world.node(1).node().controller().0.is_some(), "by way of the third node");
    world.cable(End::Node(0, 0), other);
    world.run(300);
    assert_eq!(role(&mut world, 0), PortRole::Fabric);
    world.silence(End::Node(0, 0), true);
    world.run(205);
    assert_ne!(role(&mut world, 0), PortRole::Fabric);
    assert_ne!(role(&mut world, 1), PortRole::Fabric);
}

#[test]
fn new_keys_are_no_news_but_a_lost_memory_is() {
    let mut world = ring(13);
    let announced = |world: &mut World| {
        let is_up = |o: &&Output| matches!(o, Output::NodeUp { .. });
        world.brain(0).hub_log.iter().filter(is_up).count()
    };
    // A node's generation advances with each new session.
    let generation = |world: &mut World, id: u64| {
        let mut hellos = world.brain(0).hub_log.iter().rev().filter_map(|o| match o {
            Output::Said { node, body: Body::ControllerHello(hello) } if *node == id => {
                Some(hello.generation)
            }
            _ => None,
        });
        hellos.next().unwrap()
    };
    assert_eq!(announced(&mut world), 3);
    let before = [1, 2, 3].map(|id| generation(&mut world, id));
    // All sessions get new keys after an hour, or up to an eighth later.
    world.run(3_600_000 + 450_000 + 10_000);
    for (id, before) in (1..).zip(before) {
        assert!(generation(&mut world, id) > before, "node {id} has its old keys");
    }
    assert_eq!(announced(&mut world), 3);
    world.crash_node(1);
    world.start_node(1);
    world.run(5000);
    assert_eq!(announced(&mut world), 4);
}

#[test]
fn a_silent_host_is_asked_and_forgotten() {
    let mut world = ring(9);
    world.run(60_000);
    assert_eq!(world.node(0).node().stations().len(), 1, "it answers");
    world.silence(End::Host(0), true);
    world.run(15_000);
    assert!(world.node(0).node().stations().is_empty());
    let mac = world.hosts[0].mac;
    assert!(world.brain(0).core.hosts().all(|h| h.mac != mac), "the controller was told");
}

/// Without a controller, which would withdraw the routes to the host first.
#[test]
fn frames_for_a_station_that_has_left_are_called_back() {
    let mut world = ring(10);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 200), []);
    world.crash_controller(0);
    // Another host takes its place.
    world.uncable(End::Host(1));
    world.host(1, HOST);
    world.run(400);
    let (mac, ip) = (world.hosts[1].mac, world.hosts[1].ip);
    world.send(0, ip, 1);
    world.run(50);
    assert!(world.events(1).iter().any(|e| matches!(e, Event::Stale(..))));
    let routes = world.node(0).node().routes();
    assert!(routes.iter().all(|r| r.destination != mac), "{routes:?}");
    // It is reached at a new place, although the sender asks no question.
    let controller = world.start_controller();
    world.cable(End::Controller(controller), End::Node(0, CONTROL));
    world.cable(End::Host(1), End::Node(2, SECOND));
    world.run(1200);
    world.announce(1);
    assert!(world.hosts[0].arp.contains_key(&ip));
    assert_eq!(world.unreached(&[(0, 1)], 300), []);
}
