//! The controller stops, restarts, or runs twice.

use std::net::Ipv4Addr;

use plexus_control::node::Event;
use plexus_wire::dhcpv4::MessageType;
use plexus_wire::fabric::message::Refusal;

use crate::world::{CONTROL, Durable, End, HOST, World};

#[test]
fn flows_outlive_the_controller_and_its_successor_learns_them_from_the_nodes() {
    for seed in 0..5 {
        let mut world = World::talking(seed);
        let all = world.all_pairs();
        let routes =
            |w: &World| w.nodes.iter().flatten().map(|b| b.node().routes()).collect::<Vec<_>>();
        let before = routes(&world);
        world.crash_controller(0);
        for _ in 0..20 {
            world.run(500);
            assert_eq!(
                world.unreached_at_once(&all),
                [],
                "seed {seed}: the controller is not missed"
            );
        }
        let new = world.start_controller();
        world.cable(End::Controller(new), End::Node(2, CONTROL));
        for _ in 0..40 {
            world.run(100);
            assert_eq!(world.unreached_at_once(&all), [], "seed {seed}: while it learns");
        }
        assert_eq!(routes(&world), before, "seed {seed}: what works is left alone");
        let core = &world.brain(new).core;
        assert_eq!((core.hosts().count(), core.flows().count()), (4, 12), "seed {seed}");
        // It acts on its knowledge too.
        world.uncable(End::Node(0, 0));
        assert_eq!(world.unreached(&all, 200), [], "seed {seed}");
        world.run(500);
        assert_eq!(world.stale_routes(&(0..4).collect()), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_controller_that_was_replaced_is_refused_by_its_epoch() {
    let mut world = World::talking(11);
    let all = world.all_pairs();
    world.crash_controller(0);
    let new = world.start_controller();
    world.cable(End::Controller(new), End::Node(0, CONTROL));
    world.run(3000);
    // The old one was only cut off; it comes back beside the new one.
    let epoch = world.brain(new).core.epoch();
    let old = world.start_controller_as(Durable { epoch: epoch - 1, ..Durable::default() });
    world.cable(End::Controller(old), End::Node(2, CONTROL));
    world.run(3000);
    for n in 0..4 {
        let (path, followed) = world.node(n).node().controller();
        assert!(path.is_some() && followed == epoch, "node {n}");
    }
    assert_eq!(world.brain(old).core.hosts().count(), 0, "no node reports to it");
    world.uncable(End::Node(0, 0));
    assert_eq!(world.unreached(&all, 200), []);
    // Alone it is refused as well: flows continue without a controller.
    world.crash_controller(new);
    world.run(5000);
    for n in 0..4 {
        assert_eq!(world.node(n).node().controller(), (None, epoch), "node {n}");
    }
    assert_eq!(world.unreached_at_once(&all), []);
}

/// A client gets an address.
fn lease(world: &mut World, host: usize) -> Ipv4Addr {
    world.hosts[host].dhcp.clear();
    world.dhcp(host, MessageType::DISCOVER, None);
    world.run(20);
    let offer = world.hosts[host].dhcp.pop().expect("an offer");
    assert_eq!(offer.message_type, MessageType::OFFER);
    world.dhcp(host, MessageType::REQUEST, Some(offer.yiaddr));
    world.run(20);
    let ack = world.hosts[host].dhcp.pop().expect("an answer");
    assert_eq!((ack.message_type, ack.yiaddr), (MessageType::ACK, offer.yiaddr));
    ack.yiaddr
}

#[test]
fn leases_survive_the_controller() {
    let mut world = World::talking(12);
    let ip = lease(&mut world, 1);
    world.crash_controller(0);
    let new = world.start_controller();
    world.cable(End::Controller(new), End::Node(3, CONTROL));
    world.run(3000);
    // Another host's claim to it is refused: the lease belongs to its owner although it was never
    // used.
    let own = world.hosts[0].ip;
    world.hosts[0].ip = ip;
    world.announce(0);
    world.run(500);
    let mac = world.hosts[0].mac;
    let denied = Event::Denied(HOST, mac, Some(ip.into()), Refusal::Claimed);
    assert!(world.node(0).events.contains(&denied));
    world.hosts[0].ip = own;
    // Another client gets another address, and the owner its own again.
    assert_ne!(lease(&mut world, 0), ip);
    world.dhcp(1, MessageType::REQUEST, Some(ip));
    world.run(20);
    let ack = world.hosts[1].dhcp.pop().expect("an answer");
    assert_eq!((ack.message_type, ack.yiaddr), (MessageType::ACK, ip));
}

/// Its node has forgotten everything: it asks whether to admit the host, and then for the route.
#[test]
fn the_first_packets_of_a_host_wait_for_its_verdict_and_their_route_in_order() {
    let mut world = World::talking(3);
    world.crash_node(0);
    world.run(500);
    world.start_node(0);
    world.run(1200);
    world.hosts[2].received.clear();
    let (from, to) = (world.hosts[0].mac, (world.hosts[2].mac, world.hosts[2].ip));
    (0..50).for_each(|number| world.data(0, to, 1000 + number));
    world.run(400);
    let sent: Vec<_> = (0..50).map(|number| (from, 1000 + number)).collect();
    assert_eq!(world.hosts[2].received, sent);
}
