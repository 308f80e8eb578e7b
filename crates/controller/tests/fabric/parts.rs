//! Two stages whose forwarders hold parts of the table: whichever box a packet comes in at, it
//! finds one that can route it, and one box's loss costs no more than the packets that it alone
//! could route.

use std::net::{IpAddr, Ipv4Addr};

use plexus_config::{Forwarder, OutsideRoute};
use plexus_controller::{Config, Input};
use plexus_wire::Prefix;
use plexus_wire::fabric::Partition;

use crate::routed::{gateway, two_subnets};
use crate::world::{World, packet};

/// Nodes 0 and 1 in front, 2 and 3 behind them.
const CABLES: [(usize, usize); 4] = [(0, 2), (0, 3), (1, 2), (1, 3)];
/// Networks behind each of two hosts.
const NETWORKS: u8 = 24;

/// Host 0 leads to 60.0.0.0/16 and so on, host 1 to 40.0.0.0/16 and so on.
fn config(copies: Option<u8>) -> Config {
    let route = |net: u8, n: u8, via: [u8; 4]| OutsideRoute {
        prefix: Prefix::new([net, n, 0, 0].into(), 16).unwrap(),
        via: via.into(),
    };
    let forwarder = |node: &str| Forwarder { node: node.into(), weight: 1 };
    let routes = (0..NETWORKS)
        .flat_map(|n| [route(60, n, [10, 0, 0, 1]), route(40, n, [10, 0, 1, 2])])
        .collect();
    let forwarders = vec![forwarder("node3"), forwarder("node4")];
    Config { routes, forwarders, copies, ..two_subnets() }
}

fn stages(seed: u64, copies: Option<u8>) -> World {
    let mut world = World::cabled(4, &CABLES, seed, config(copies));
    for h in 0..4 {
        let [a, b, _, d] = world.hosts[h].ip.octets();
        world.hosts[h].ip = [a, b, (h % 2) as u8, d].into();
        world.hosts[h].gateway = Some(gateway(h));
        world.hosts[h].is_promiscuous = h < 2;
    }
    world.run(1200);
    (0..4).for_each(|h| world.announce(h));
    world.run(100);
    (0..4).for_each(|h| world.ask(h, gateway(h)));
    world.run(6000);
    world
}

/// A packet from one address to another, by the group: its number.
fn send(world: &mut World, host: usize, from: Ipv4Addr, to: Ipv4Addr) -> u32 {
    let number = world.number();
    let own = world.hosts[host].mac;
    let by = world.hosts[host].arp[&gateway(host)];
    let frame = packet((own, from), (by, to), (9, 9000), &number.to_be_bytes());
    world.emit(host, frame);
    number
}

fn has_arrived(world: &World, at: usize, number: u32) -> bool {
    world.hosts[at].received.iter().any(|(_, other)| *other == number)
}

/// A kind of packets, one for each network: the host that sends and the one that receives them.
#[derive(Clone, Copy, Debug)]
struct Kind {
    from: usize,
    at: usize,
    ends: fn(&World, u8) -> (Ipv4Addr, Ipv4Addr),
}

fn far(net: u8, n: u8) -> Ipv4Addr {
    [net, n, 0, 9].into()
}

/// From the group's own networks to others, at front and back boxes; between others; and back.
const KINDS: [Kind; 7] = [
    Kind { from: 0, at: 1, ends: |w, n| (w.hosts[0].ip, far(40, n)) },
    Kind { from: 1, at: 0, ends: |w, n| (w.hosts[1].ip, far(60, n)) },
    Kind { from: 2, at: 1, ends: |w, n| (w.hosts[2].ip, far(40, n)) },
    Kind { from: 3, at: 0, ends: |w, n| (w.hosts[3].ip, far(60, n)) },
    Kind { from: 0, at: 1, ends: |_, n| (far(60, n), far(40, NETWORKS - 1 - n)) },
    Kind { from: 1, at: 2, ends: |w, n| (far(40, n), w.hosts[2].ip) },
    Kind { from: 0, at: 3, ends: |w, n| (far(60, n), w.hosts[3].ip) },
];

/// The networks to or from which packets of a kind are lost.
fn lost(world: &mut World, kind: Kind) -> Vec<u8> {
    let mut all = Vec::new();
    for n in 0..NETWORKS {
        let (from, to) = (kind.ends)(world, n);
        all.push((n, send(world, kind.from, from, to)));
        world.run(2);
    }
    world.run(50);
    all.retain(|(_, number)| !has_arrived(world, kind.at, *number));
    all.into_iter().map(|(n, _)| n).collect()
}

/// Lets the boxes find out what they ask the controller for.
fn warm_up(world: &mut World) {
    warm_up_with(world, &KINDS);
}

fn warm_up_with(world: &mut World, kinds: &[Kind]) {
    for &kind in kinds {
        lost(world, kind);
        world.run(700);
    }
}

fn assert_none_lost(world: &mut World) {
    for kind in KINDS {
        assert_eq!(lost(world, kind), Vec::<u8>::new(), "{kind:?}");
    }
}

fn partition(copies: u8) -> Partition {
    Partition::new(&[1, 1], copies).unwrap()
}

/// The networks that only this forwarder holds.
fn held(net: u8, forwarder: u8) -> Vec<u8> {
    let holds = |n: &u8| partition(1).holders(far(net, *n).into()).contains(forwarder);
    (0..NETWORKS).filter(holds).collect()
}

#[test]
fn packets_of_all_hosts_and_networks_find_a_forwarder_that_has_their_part() {
    for copies in [1, 2] {
        let mut world = stages(copies.into(), Some(copies));
        let core = &world.brain(0).core;
        let has = [3, 4].map(|node| core.routes_of(node).unwrap());
        let all = 2 * usize::from(NETWORKS);
        match copies {
            1 => {
                let expected = [0, 1].map(|f| held(40, f).len() + held(60, f).len());
                assert_eq!(has, expected);
                assert!(has.iter().sum::<usize>() == all && has[0] > 10 && has[1] > 10);
            }
            _ => assert_eq!(has, [all; 2]),
        }
        assert!([1, 2].iter().all(|node| core.routes_of(*node).is_none()));
        for node in [2, 3] {
            let router = world.node(node).fabric.router().unwrap().control();
            let known = |n: &u8| {
                let address = IpAddr::from(far(40, *n));
                router.lookup(address).is_some_and(|(prefix, _)| prefix.len() == 16)
            };
            let known = (0..NETWORKS).filter(known).count();
            let expected = if copies == 1 { held(40, node as u8 - 2).len() } else { 24 };
            assert_eq!(known, expected);
        }
        warm_up(&mut world);
        assert_none_lost(&mut world);
        assert_eq!(world.hosts[1].ttl, 63);
    }
}

#[test]
fn a_forwarder_that_is_lost_costs_its_part_or_nothing_and_comes_back() {
    for copies in [1, 2] {
        let mut world = stages(10 + u64::from(copies), Some(copies));
        warm_up(&mut world);
        world.crash_node(2);
        world.run(5000);
        // The host at the lost box is lost too.
        let others: Vec<Kind> = KINDS.into_iter().filter(|k| k.from != 2 && k.at != 2).collect();
        warm_up_with(&mut world, &others);
        for kind in others {
            let is_lost = |n: &u8| {
                let (from, to) = (kind.ends)(&world, *n);
                let decides = if to.octets()[0] == 10 { from } else { to };
                copies == 1 && partition(1).holders(decides.into()).contains(0)
            };
            let expected: Vec<u8> = (0..NETWORKS).filter(is_lost).collect();
            assert_eq!(expected.is_empty(), copies == 2);
            assert_eq!(lost(&mut world, kind), expected, "{copies} copies, {kind:?}");
        }
        world.start_node(2);
        world.run(5000);
        (0..4).for_each(|h| world.announce(h));
        world.ask(2, gateway(2));
        world.run(5000);
        warm_up(&mut world);
        assert_none_lost(&mut world);
        world.astray.clear();
    }
}

#[test]
fn nothing_is_lost_while_the_settings_change_the_parts() {
    let mut world = stages(21, Some(1));
    warm_up(&mut world);
    for copies in [Some(2), Some(1), None, Some(1)] {
        world.config = config(copies);
        let config = Box::new(world.config.clone());
        world.tell(0, Input::Configure(config));
        for _ in 0..5 {
            assert_none_lost(&mut world);
        }
    }
}

#[test]
fn a_source_behind_another_host_is_refused_by_who_can_look_it_up() {
    for copies in [None, Some(1)] {
        let mut world = stages(31, copies);
        warm_up(&mut world);
        // To a host of the group: then the part of the source decides who routes.
        let to = world.hosts[2].ip;
        for n in 0..NETWORKS {
            let number = send(&mut world, 1, far(60, n), to);
            world.run(500);
            assert!(!has_arrived(&world, 2, number), "{copies:?} copies, {}", far(60, n));
        }
        // Nor does a host that leads nowhere send from other networks to others.
        // It is told so, at the address that it uses.
        world.hosts[2].is_promiscuous = true;
        for n in 0..NETWORKS {
            let number = send(&mut world, 2, far(60, n), far(40, n));
            world.run(500);
            assert!(!has_arrived(&world, 1, number), "{copies:?} copies, {}", far(60, n));
        }
        assert_none_lost(&mut world);
    }
}
