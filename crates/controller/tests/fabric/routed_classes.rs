//! Packets of a class pass a function: a host that forwards them.

use std::net::{IpAddr, Ipv4Addr};

use plexus_config::{Forwarder, HostGroup, Otherwise, Reservation, Subnet, TrafficClass};
use plexus_controller::Config;
use plexus_plane::DropReason;
use plexus_wire::{Prefix, Protocol};

use crate::routed::two_subnets;
use crate::world::{End, HOST, RING, SECOND, World};

/// The functions, in a subnet of their own.
const FUNCTIONS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 2, 1), Ipv4Addr::new(10, 0, 2, 2)];
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 254);

fn class(name: &str, via: &[Ipv4Addr]) -> TrafficClass {
    TrafficClass {
        name: name.into(),
        protocol: Some(Protocol::UDP.0),
        from: None,
        to: Some(Prefix::new([10, 0, 1, 0].into(), 24).unwrap()),
        ports: (9000, 9000),
        both_ways: false,
        via: via.iter().map(|ip| IpAddr::from(*ip)).collect(),
        otherwise: Otherwise::Drop,
    }
}

fn config(classes: Vec<TrafficClass>) -> Config {
    let mut config = two_subnets();
    let mut third = Subnet::new(Prefix::new([10, 0, 2, 0].into(), 24).unwrap());
    third.gateway = Some(GATEWAY.into());
    config.subnets.push(third);
    Config { classes, ..config }
}

/// A ring with a host at each node: 0 and 2 in the first subnet, 1 and 3 in the second, and the
/// functions 4 and 5 at the last two nodes.
fn world(seed: u64, mut config: Config) -> World {
    let mac = |host: u8| plexus_wire::MacAddr([2, 0, 0, 0, 0, host + 1]);
    config.reservations = vec![
        Reservation { mac: mac(4), ip: FUNCTIONS[0] },
        Reservation { mac: mac(5), ip: FUNCTIONS[1] },
    ];
    let mut world = World::cabled(4, &RING, seed, config);
    for host in 0..4 {
        let [a, b, _, d] = world.hosts[host].ip.octets();
        world.hosts[host].ip = [a, b, (host % 2) as u8, d].into();
        world.hosts[host].gateway = Some([10, 0, (host % 2) as u8, 254].into());
    }
    for (node, ip) in [2, 3].into_iter().zip(FUNCTIONS) {
        let host = world.host(node, SECOND);
        (world.hosts[host].ip, world.hosts[host].gateway) = (ip, Some(GATEWAY));
        world.hosts[host].forwards = Some(0);
    }
    world.run(1200);
    (0..6).for_each(|h| world.announce(h));
    // The functions know their gateway.
    (4..6).for_each(|h| world.ask(h, GATEWAY));
    world.run(100);
    world
}

fn passed(world: &World) -> u32 {
    world.hosts[4..].iter().filter_map(|host| host.forwards).sum()
}

const THERE: [(usize, usize); 4] = [(0, 1), (0, 3), (2, 1), (2, 3)];

#[test]
fn packets_of_a_class_pass_a_function_and_all_others_do_not() {
    for seed in 0..3 {
        let mut world = world(seed, config(vec![class("web", &FUNCTIONS)]));
        assert_eq!(world.unreached(&THERE, 300), [], "seed {seed}");
        assert_eq!(passed(&world), 4, "each passed a function, the first one too");
        for pair in THERE {
            assert_eq!(world.unreached_at_once(&[pair]), [], "seed {seed}");
            assert_eq!(world.hosts[pair.1].ttl, 61, "router, function, router");
        }
        assert_eq!(passed(&world), 8);
        assert!(world.hosts[4..].iter().all(|host| host.forwards > Some(0)), "both have a share");
        // The way back is not of the class; nor are packets within a subnet.
        let others = [(1, 0), (3, 2), (0, 2), (1, 3)];
        assert_eq!(world.unreached(&others, 300), []);
        assert_eq!(passed(&world), 8);
    }
}

/// The router knows the neighbour from another host, but this one has no way there yet.
#[test]
fn the_first_packet_of_a_host_does_not_slip_past_the_function() {
    for stages in [false, true] {
        let mut config = config(vec![class("web", &FUNCTIONS)]);
        if stages {
            config.forwarders = vec![Forwarder { node: "node2".into(), weight: 1 }];
        }
        let mut world = world(1, config);
        assert_eq!(world.unreached(&THERE, 400), []);
        let late = world.host(0, SECOND);
        (world.hosts[late].ip, world.hosts[late].gateway) =
            ([10, 0, 0, 77].into(), Some([10, 0, 0, 254].into()));
        world.run(400);
        world.announce(late);
        world.ask(late, [10, 0, 0, 254].into());
        world.run(100);
        let before = passed(&world);
        assert_eq!(world.unreached(&[(late, 1)], 300), []);
        assert_eq!((passed(&world), world.hosts[1].ttl), (before + 1, 61), "stages: {stages}");
    }
}

#[test]
fn two_stages_have_functions_too() {
    let forwarder = |node: &str| Forwarder { node: node.into(), weight: 1 };
    let mut config = config(vec![class("web", &FUNCTIONS)]);
    config.forwarders = vec![forwarder("node2"), forwarder("node4")];
    let mut world = world(5, config);
    assert_eq!(world.unreached(&THERE, 400), []);
    let before = passed(&world);
    for pair in THERE {
        assert_eq!(world.unreached_at_once(&[pair]), []);
        assert_eq!(world.hosts[pair.1].ttl, 61, "{pair:?}");
    }
    assert_eq!(passed(&world), before + 4);
}

#[test]
fn classes_form_a_chain() {
    for stages in [false, true] {
        let chain = vec![class("first", &FUNCTIONS[..1]), class("second", &FUNCTIONS[1..])];
        let mut config = config(chain);
        if stages {
            // The functions are at nodes 3 and 4.
            config.forwarders = vec![Forwarder { node: "node3".into(), weight: 1 }];
        }
        let mut world = world(1, config);
        assert_eq!(world.unreached(&THERE, 400), [], "stages: {stages}");
        for pair in THERE {
            assert_eq!(world.unreached_at_once(&[pair]), []);
            assert_eq!(world.hosts[pair.1].ttl, 59, "router, function, router, function, router");
        }
    }
}

#[test]
fn without_a_function_a_class_drops_or_routes() {
    let mut dropping = world(1, config(vec![class("web", &FUNCTIONS)]));
    assert_eq!(dropping.unreached(&THERE, 300), []);
    // One of two leaves: the other has all flows.
    dropping.uncable(End::Host(4));
    dropping.run(300);
    assert_eq!(dropping.unreached(&THERE, 500), []);
    dropping.uncable(End::Host(5));
    dropping.run(300);
    let before = passed(&dropping);
    assert_eq!(dropping.unreached(&THERE, 500), THERE);
    assert_eq!(passed(&dropping), before);
    let dropped: u64 = (0..4).map(|n| dropping.node(n).drops(HOST, DropReason::NoFunction)).sum();
    assert!(dropped >= 4, "{dropped}");
    dropping.cable(End::Host(5), End::Node(3, SECOND));
    dropping.run(500);
    dropping.announce(5);
    dropping.run(300);
    assert_eq!(dropping.unreached(&THERE, 500), []);

    let routing = TrafficClass { otherwise: Otherwise::Route, ..class("web", &FUNCTIONS[..1]) };
    let mut routing = world(2, config(vec![routing]));
    assert_eq!(routing.unreached(&THERE, 300), []);
    routing.uncable(End::Host(4));
    routing.run(300);
    let before = passed(&routing);
    assert_eq!(routing.unreached(&THERE, 500), []);
    assert_eq!(routing.hosts[1].ttl, 63);
    assert_eq!(passed(&routing), before);
}

/// A new controller has not heard the functions yet: packets go on passing them, and none slips by.
#[test]
fn functions_outlive_the_controller() {
    let mut world = world(6, config(vec![class("web", &FUNCTIONS)]));
    assert_eq!(world.unreached(&THERE, 300), []);
    world.crash_controller(0);
    world.run(500);
    let next = world.start_controller();
    world.cable(End::Controller(next), End::Node(2, crate::world::CONTROL));
    for _ in 0..200 {
        let before = passed(&world);
        assert_eq!(world.unreached_at_once(&THERE), [], "at {:?}", world.now);
        assert_eq!(passed(&world), before + 4, "at {:?}", world.now);
        world.run(30);
    }
}

/// The function may talk to all, and is no way around the rule between two hosts.
#[test]
fn a_class_is_no_way_around_a_rule_that_keeps_hosts_apart() {
    let group = |name: &str, ports: &[(&str, u8)]| HostGroup {
        name: name.into(),
        ports: ports.iter().map(|(node, port)| (node.to_string(), *port)).collect(),
        ..HostGroup::default()
    };
    let functions = [("node3", SECOND), ("node4", SECOND)];
    let red = [&[("node1", HOST), ("node2", HOST)][..], &functions].concat();
    let blue = [&[("node3", HOST), ("node4", HOST)][..], &functions].concat();
    let config = Config {
        groups: vec![group("red", &red), group("blue", &blue)],
        strangers_may_talk: false,
        ..config(vec![class("web", &FUNCTIONS)])
    };
    let mut world = world(3, config);
    let (allowed, across) = ([(0, 1), (2, 3)], [(0, 3), (2, 1)]);
    assert_eq!(world.unreached(&allowed, 500), []);
    assert_eq!(world.hosts[1].ttl, 61);
    assert_eq!(world.unreached(&across, 1000), across);
    assert_eq!(world.unreached(&across, 300), across);
    assert_eq!(world.unreached_at_once(&allowed), []);
}

/// A host can learn where another one is beyond its own network, and send there at once.
#[test]
fn a_host_that_avoids_the_gateway_does_not_avoid_the_function() {
    for stages in [false, true] {
        let mut config = config(vec![class("web", &FUNCTIONS[..1])]);
        if stages {
            config.forwarders = vec![Forwarder { node: "node2".into(), weight: 1 }];
        }
        let mut world = world(7, config);
        assert_eq!(world.unreached(&[(0, 1), (2, 3)], 400), []);
        let target = world.hosts[1].ip;
        world.ask(0, target);
        world.run(300);
        let before = passed(&world);
        let mac = world.hosts[1].mac;
        world.data(0, (mac, target), 77);
        world.run(300);
        world.data(0, (mac, target), 78);
        world.run(300);
        let came = |world: &World, number| {
            world.hosts[1].received.iter().filter(|(_, got)| *got == number).count()
        };
        assert_eq!([77, 78].map(|number| came(&world, number)), [0, 0], "stages: {stages}");
        // Nor does it have the function send on what it likes.
        let function = world.hosts[4].mac;
        for number in [79, 80] {
            world.data(0, (function, target), number);
            world.run(300);
        }
        assert_eq!([79, 80].map(|number| came(&world, number)), [0, 0], "stages: {stages}");
        assert_eq!(passed(&world), before);
    }
}

/// Only a function may send from any address: another host of the same subnet may not.
#[test]
fn a_host_is_no_function_because_it_forwards() {
    let mut world = world(4, config(vec![class("web", &FUNCTIONS[..1])]));
    assert_eq!(world.unreached(&[(0, 1), (5, 1)], 400), []);
    // Host 5 would send on what host 0 had sent it.
    let mac = world.hosts[5].arp[&GATEWAY];
    let (own, from, to) = (world.hosts[5].mac, world.hosts[0].ip, world.hosts[1].ip);
    let forged = crate::world::packet((own, from), (mac, to), (1, 9000), &77_u32.to_be_bytes());
    world.emit(5, forged);
    world.run(100);
    assert!(world.hosts[1].received.iter().all(|(_, number)| *number != 77));
}
