//! Controllers that lead provisionally: several at once, one after the other, and before another.

use plexus_control::node::Event;
use plexus_controller::{Drop, Lease};
use plexus_wire::MacAddr;
use plexus_wire::dhcpv4::MessageType;
use plexus_wire::fabric::message::{PROVISIONAL_EPOCH, Refusal};

use crate::world::{CONTROL, Durable, End, HOST, RING, World, usual_config};

/// A ring with a host at each node, and no controller.
fn ring(seed: u64) -> World {
    let mut world = World::new(4, seed, usual_config());
    for (a, b) in world.link_ends(4, &RING) {
        world.cable(a, b);
    }
    for n in 0..4 {
        world.host(n, HOST);
    }
    world
}

/// Starts a controller of this number, which leads provisionally, at a node.
fn start(world: &mut World, number: u64, node: usize) -> usize {
    let (epoch, is_provisional) = (PROVISIONAL_EPOCH, true);
    let durable = Durable { epoch, is_provisional, number, ..Durable::default() };
    let controller = world.start_controller_as(durable);
    world.cable(End::Controller(controller), End::Node(node, CONTROL));
    controller
}

/// Whether all nodes follow this controller: it has a session with each, and they have a way.
fn is_followed(world: &mut World, controller: usize, epoch: u64) -> bool {
    let have_way = (0..4).all(|n| {
        let (path, followed) = world.node(n).node().controller();
        path.is_some() && followed == epoch
    });
    have_way && world.brain(controller).core.nodes_up() == 4
}

fn come(world: &mut World) {
    world.run(1500);
    (0..4).for_each(|h| world.announce(h));
    world.run(100);
}

#[test]
fn hosts_talk_and_are_promised_nothing() {
    let mut world = ring(1);
    let controller = start(&mut world, 1, 0);
    come(&mut world);
    assert!(is_followed(&mut world, controller, PROVISIONAL_EPOCH));
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 200), []);
    world.dhcp(1, MessageType::DISCOVER, None);
    world.dhcp(1, MessageType::REQUEST, Some([10, 0, 0, 200].into()));
    world.run(100);
    assert!(world.hosts[1].dhcp.is_empty() && !world.is_storing());
    let drops: Vec<_> = world.brain(controller).core.drops().collect();
    assert_eq!(drops, [(Drop::Provisional, 2)]);
}

#[test]
fn all_nodes_follow_the_lowest_number_whoever_came_first() {
    for (seed, order) in [(2, [3, 8]), (3, [8, 3])] {
        let mut world = ring(seed);
        let [first, second] = [(order[0], 0), (order[1], 2)].map(|(number, node)| {
            let controller = start(&mut world, number, node);
            world.run(300);
            controller
        });
        let low = if order[0] < order[1] { first } else { second };
        let high = first + second - low;
        come(&mut world);
        assert!(is_followed(&mut world, low, PROVISIONAL_EPOCH), "{order:?}");
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), [], "{order:?}");
        // It dies. The other one still leads: routes that work stay, and both learn of a cut.
        world.crash_controller(low);
        world.run(6000);
        assert!(is_followed(&mut world, high, PROVISIONAL_EPOCH), "{order:?}");
        let core = &world.brain(high).core;
        assert_eq!((core.hosts().count(), core.flows().count()), (4, 12), "{order:?}");
        assert_eq!(world.unreached_at_once(&all), [], "{order:?}");
        world.uncable(End::Node(0, 0));
        assert_eq!(world.unreached(&all, 200), [], "{order:?}");
        world.run(500);
        assert_eq!(world.stale_routes(&(0..4).collect()), [""; 0], "{order:?}");
        // The first one comes again, with the same number and epoch.
        let number = order[0].min(order[1]);
        let again = start(&mut world, number, 1);
        world.run(3000);
        assert!(is_followed(&mut world, again, PROVISIONAL_EPOCH), "{order:?}");
        assert_eq!(world.unreached_at_once(&all), [], "{order:?}");
        world.uncable(End::Node(2, 0));
        world.run(200);
        assert_eq!(world.brain(again).core.hosts().count(), 4, "{order:?}");
    }
}

#[test]
fn a_leader_with_the_store_learns_everything_and_refuses_what_is_leased_to_others() {
    let mut world = ring(4);
    let provisional = start(&mut world, 1, 0);
    come(&mut world);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 200), []);
    // The store has leased the address of the last host to another one.
    let ip = world.hosts[3].ip;
    let mac = MacAddr([2, 9, 9, 9, 9, 9]);
    let lease = Lease { ip, mac, until_unix_s: 4_000_000_000 };
    let mut durable = Durable { epoch: 2, number: 7, ..Durable::default() };
    durable.leases.insert(ip, lease);
    let leader = world.start_controller_as(durable);
    world.cable(End::Controller(leader), End::Node(2, CONTROL));
    world.run(3000);
    assert!(is_followed(&mut world, leader, 2));
    let denied = Event::Denied(HOST, world.hosts[3].mac, Some(ip.into()), Refusal::Claimed);
    assert!(world.node(3).events.contains(&denied));
    let others: Vec<_> = all.into_iter().filter(|(a, b)| *a != 3 && *b != 3).collect();
    assert_eq!(world.unreached_at_once(&others), []);
    // Nobody follows the other one again, even alone.
    world.crash_controller(leader);
    world.run(5000);
    for n in 0..4 {
        assert_eq!(world.node(n).node().controller(), (None, 2), "node {n}");
    }
    assert_eq!(world.unreached_at_once(&others), []);
    world.crash_controller(provisional);
}
