//! Ordinary switches at host ports: behind one port, between two nodes, at two ports of a node.

use plexus_control::link::{CONFLICT_FOR, WARY_FOR};
use plexus_control::node::Event;
use plexus_wire::fabric::message::PortRole;

use crate::world::{End, RING, SECOND, SPARE, World};

/// A ring of four with a host each, and a switch at these ports with this many hosts behind it.
fn switched(seed: u64, ports: &[End], hosts: usize) -> World {
    let mut world = World::joined(4, &RING, seed);
    let hosts: Vec<End> = (0..hosts).map(|_| world.new_host()).collect();
    world.switch(&[ports, &hosts].concat());
    world.run(400);
    for host in 4..world.hosts.len() {
        world.announce(host);
    }
    world.run(300);
    world
}

fn roles(world: &mut World, ports: &[End]) -> Vec<PortRole> {
    let role = |end: &End| match *end {
        End::Node(n, port) => world.node(n).node().role(port),
        other => panic!("{other:?}"),
    };
    ports.iter().map(role).collect()
}

/// Every packet arrives exactly once, and the switch sees no station move.
fn served(world: &mut World) {
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 300), []);
    world.run(1000);
    let moves = world.switches[0].moves;
    assert_eq!(world.unreached_at_once(&all), []);
    assert_eq!(world.unreached_at_once(&all), []);
    assert_eq!(world.switches[0].moves, moves, "stations stay where they are");
    assert_eq!(world.stale_routes(&(0..4).collect()), [""; 0]);
}

#[test]
fn hosts_behind_a_switch_reach_each_other_and_all_others() {
    for seed in 0..5 {
        let mut world = switched(seed, &[End::Node(1, SECOND)], 3);
        served(&mut world);
        assert_eq!(world.switches[0].moves, 0, "no frame has a wrong source there");
    }
}

/// One switch at two host ports: one of them serves the hosts behind it, the other carries nothing.
fn one_of_two_serves(seed: u64, ports: [End; 2]) {
    let mut world = switched(seed, &ports, 2);
    let found = roles(&mut world, &ports);
    assert_eq!(found, [PortRole::Host, PortRole::Conflict], "seed {seed}");
    let End::Node(closed, _) = ports[1] else { panic!() };
    let End::Node(_, port) = ports[1] else { panic!() };
    assert!(world.node(closed).events.contains(&Event::Loop(port)), "the event is reported");
    served(&mut world);
    // The closed port retries now and then, without effect on others.
    for _ in 0..4 {
        world.run(CONFLICT_FOR.as_millis() as u64 / 2);
        served(&mut world);
    }
    // The other one takes over.
    world.uncable(ports[0]);
    world.run(CONFLICT_FOR.as_millis() as u64 + 400);
    assert_eq!(roles(&mut world, &ports), [PortRole::Down, PortRole::Host]);
    (4..6).for_each(|host| world.announce(host));
    world.run(300);
    served(&mut world);
}

#[test]
fn of_two_nodes_at_one_switch_one_serves_the_hosts_there() {
    for seed in 0..5 {
        one_of_two_serves(seed, [End::Node(1, SECOND), End::Node(3, SECOND)]);
    }
}

#[test]
fn of_two_ports_of_a_node_at_one_switch_one_serves_the_hosts_there() {
    for seed in 0..5 {
        one_of_two_serves(seed, [End::Node(2, SECOND), End::Node(2, SPARE)]);
    }
}

/// A switch that forwards link-local frames connects three nodes: no port there can tell its
/// neighbours apart, and none becomes a link, even while another is in conflict. The rest of the
/// fabric is not affected.
#[test]
fn more_than_two_nodes_at_one_cable_are_a_conflict() {
    for seed in 0..5 {
        let mut world = World::joined(4, &RING, seed);
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), []);
        let ports = [End::Node(0, SECOND), End::Node(1, SECOND), End::Node(2, SECOND)];
        let switch = world.switch(&[]);
        world.switches[switch] = crate::world::Switch::forwarding_all(ports.len());
        for (i, end) in ports.into_iter().enumerate() {
            world.cable(End::Switch(switch, i), end);
        }
        // Until each of them has heard both others.
        for _ in 0..20 {
            world.run(1000);
            assert_eq!(world.unreached(&all, 200), [], "seed {seed}");
        }
        for _ in 0..100 {
            world.run(300);
            // One may accept another as its neighbour, but not vice versa: no link.
            let found = roles(&mut world, &ports);
            let in_conflict = found.iter().filter(|r| **r == PortRole::Conflict).count();
            assert!(in_conflict >= 2, "seed {seed}: {found:?}");
            assert_eq!(world.unreached_at_once(&all), [], "seed {seed}");
        }
        // With one node fewer the remaining two find each other.
        world.uncable(ports[0]);
        world.run((CONFLICT_FOR + WARY_FOR).as_millis() as u64 + 1500);
        assert_eq!(roles(&mut world, &ports[1..]), [PortRole::Fabric; 2], "seed {seed}");
        assert_eq!(world.unreached_at_once(&all), [], "seed {seed}");
    }
}
