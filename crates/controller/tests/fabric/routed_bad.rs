//! Bad input to the group's router: hosts that lie and flood, and routes that lead in circles. Each
//! test names the defence.

use std::net::{IpAddr, Ipv4Addr};

use plexus_config::OutsideRoute;
use plexus_control::node::{Event, Unserved};
use plexus_control::router::{Input as RouterInput, InterfaceId, NextHop, Route, Source};
use plexus_controller::{Config, Input};
use plexus_plane::DropReason;
use plexus_wire::{Prefix, ipv4};

use crate::routed::{by_gateway, gateway, ring, two_subnets};
use crate::world::{HOST, SECOND, World, packet};

const TIME_EXCEEDED: u8 = 11;
const UNREACHABLE: u8 = 3;
const ECHO_REPLY: u8 = 0;
/// What a host may send to the control plane, each second.
const HOST_PPS: usize = 1000;
/// ICMP errors about packets of one port, each second.
const ERROR_PPS: usize = 100;

const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// Everything else is behind host 1.
fn default_by_host_1() -> Config {
    let (prefix, via) = ("0.0.0.0/0".parse().unwrap(), IpAddr::from([10, 0, 1, 2]));
    Config { routes: vec![OutsideRoute { prefix, via }], ..two_subnets() }
}

/// Hosts 0, 2 and 3 talk as before.
fn unharmed(world: &mut World) {
    assert_eq!(world.unreached_at_once(&World::pairs(&[0, 2, 3])), []);
}

fn talking(seed: u64, config: Config) -> World {
    let mut world = ring(seed, config);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 300), []);
    for host in 0..4 {
        world.ask(host, gateway(host));
    }
    world.run(1000);
    world
}

/// Defence: a packet must come from its source's station. So one that a next hop sends back, as its
/// own table says, ends there. One from behind the next hop itself is not sent back to it.
#[test]
fn a_routing_loop_at_a_next_hop_ends_with_the_first_packet_that_comes_back() {
    let mut world = talking(1, default_by_host_1());
    world.hosts[1].is_promiscuous = true;
    for _ in 0..5 {
        world.send(0, FAR, 7);
        world.run(300);
    }
    let got = world.hosts[1].received.iter().filter(|(_, n)| *n == 7).count();
    assert!(got >= 4, "the first may wait for the way: {got}");
    let (mac, by) = (world.hosts[1].mac, world.hosts[1].arp[&gateway(1)]);
    let before = world.node(1).drops(HOST, DropReason::ReversePath);
    for (source, circles) in [(world.hosts[0].ip, true), ([192, 0, 2, 1].into(), false)] {
        world.hosts[1].received.clear();
        for n in 0..20u32 {
            let back = packet((mac, source), (by, FAR), (9, 9000), &n.to_be_bytes());
            world.emit(1, back);
            world.run(50);
        }
        assert_eq!(world.hosts[1].received, [], "from {source}");
        let dropped = world.node(1).drops(HOST, DropReason::ReversePath) - before;
        assert_eq!(dropped, if circles { 20 } else { dropped }, "from {source}");
    }
    unharmed(&mut world);
}

/// A route of the kernel beside the controller; absent: it is withdrawn.
fn kernel(world: &mut World, prefix: &str, via: Option<[u8; 4]>) {
    let hop = |via: [u8; 4]| NextHop {
        interface: InterfaceId(0),
        gateway: Some(via.into()),
        on_link: true,
        weight: 1,
    };
    let prefix: Prefix = prefix.parse().unwrap();
    let route = via.map(|via| Route::Via(vec![hop(via)]));
    let route = RouterInput::Route { source: Source::Kernel, prefix, metric: 0, route };
    world.tell(0, Input::Kernel(vec![route]));
}

/// Defence: what the group knows of its own subnets comes first.
#[test]
fn a_neighbour_that_offers_the_groups_own_subnets_gets_none_of_their_packets() {
    let mut world = talking(2, two_subnets());
    for prefix in ["10.0.0.0/24", "10.0.1.0/24", "10.0.0.254/32", "10.0.1.254/32"] {
        kernel(&mut world, prefix, Some([10, 0, 1, 2]));
    }
    world.run(300);
    assert_eq!(world.brain(0).core.routes_version().1, 0, "no node hears of them");
    let ping = by_gateway(&world, 0, gateway(0), 64, Some(8));
    world.emit(0, ping);
    world.run(10);
    assert_eq!(world.hosts[0].icmp, [(gateway(0), ECHO_REPLY, 0)]);
    let all = world.all_pairs();
    assert_eq!(world.unreached_at_once(&all), []);
}

/// Defence: a next hop is a host of the group or nobody; it is looked for, and the sender told.
#[test]
fn routes_whose_next_hops_lead_to_each_other_lead_nowhere() {
    let mut world = talking(3, two_subnets());
    kernel(&mut world, "192.0.2.0/24", Some([198, 51, 100, 1]));
    kernel(&mut world, "198.51.100.0/24", Some([192, 0, 2, 1]));
    kernel(&mut world, "203.0.113.0/24", Some([203, 0, 113, 9]));
    world.run(300);
    for (n, to) in [[192, 0, 2, 7], [198, 51, 100, 7], [203, 0, 113, 7]].into_iter().enumerate() {
        let sent = by_gateway(&world, 0, to.into(), 64, None);
        world.emit(0, sent);
        world.run(3000);
        let told = &world.hosts[0].icmp[n..];
        assert!(matches!(told, [(by, UNREACHABLE, _)] if *by == gateway(0)), "{to:?}: {told:?}");
    }
    unharmed(&mut world);
}

/// Defence: a change costs what changes; hosts that the route is not for do not notice.
#[test]
fn a_flapping_default_route_harms_nobody_else_and_ends_as_it_should() {
    let mut world = talking(4, two_subnets());
    world.hosts[1].is_promiscuous = true;
    for n in 0..120 {
        kernel(&mut world, "0.0.0.0/0", (n % 2 == 0).then_some([10, 0, 1, 2]));
        world.send(2, FAR, 5);
        world.run(5);
        if n % 40 == 0 {
            unharmed(&mut world);
        }
    }
    // It is down.
    world.run(500);
    let all = world.all_pairs();
    assert_eq!(world.unreached_at_once(&all), []);
    world.hosts[1].received.clear();
    world.hosts[2].icmp.clear();
    world.run(1000);
    world.send(2, FAR, 5);
    world.run(300);
    assert_eq!((&world.hosts[1].received[..], world.hosts[2].icmp.len()), (&[][..], 1));
    // And up.
    kernel(&mut world, "0.0.0.0/0", Some([10, 0, 1, 2]));
    world.run(100);
    for _ in 0..3 {
        world.send(2, FAR, 6);
        world.run(100);
    }
    assert!(world.hosts[1].received.iter().any(|(_, n)| *n == 6));
    let version = world.brain(0).core.routes_version().0;
    for node in 1..=4 {
        assert_eq!(world.brain(0).core.routes_version_of(node), Some(version));
    }
}

/// Defence: errors are limited by port, so a flood at one takes none from the others.
#[test]
fn a_flood_of_packets_that_cause_errors_is_answered_at_a_limited_rate() {
    let mut world = talking(5, two_subnets());
    let neighbour = world.host(0, SECOND);
    world.hosts[neighbour].gateway = Some(gateway(0));
    world.run(500);
    world.announce(neighbour);
    world.ask(neighbour, gateway(0));
    world.run(500);
    let to = world.hosts[3].ip;
    let dying = by_gateway(&world, 0, to, 1, None);
    let nowhere = by_gateway(&world, 0, FAR, 64, None);
    for _ in 0..1000 {
        (0..5).for_each(|_| world.emit(0, dying.clone()));
        (0..5).for_each(|_| world.emit(0, nowhere.clone()));
        world.run(1);
    }
    let told = world.hosts[0].icmp.len();
    assert!((ERROR_PPS / 2..3 * ERROR_PPS / 2).contains(&told), "{told} errors in a second");
    world.hosts[neighbour].icmp.clear();
    let by = world.hosts[neighbour].arp[&gateway(0)];
    world.hosts[0].arp.insert(gateway(0), by);
    let own = (world.hosts[neighbour].mac, world.hosts[neighbour].ip);
    let mut last = packet(own, (by, to), (9, 9), &[]);
    let repr = ipv4::Repr::parse(&ipv4::Packet::new_checked(&last[14..]).unwrap()).unwrap();
    ipv4::Repr { ttl: 1, ..repr }.emit(&mut last[14..]).unwrap();
    world.emit(neighbour, last);
    world.run(10);
    assert_eq!(world.hosts[neighbour].icmp, [(gateway(0), TIME_EXCEEDED, 0)]);
    unharmed(&mut world);
}

/// Defence: what a port may send to the control plane is limited; other ports have limits of their
/// own, and what is routed does not pass there.
#[test]
fn packets_to_the_gateway_at_any_rate_leave_the_control_plane_reachable() {
    let mut world = talking(6, two_subnets());
    let pings = by_gateway(&world, 0, gateway(0), 64, Some(8));
    let datagram = by_gateway(&world, 0, gateway(1), 64, None);
    world.hosts[0].icmp.clear();
    let late = world.host(0, SECOND);
    world.hosts[late].gateway = Some(gateway(0));
    for ms in 0..1000 {
        for _ in 0..15 {
            world.emit(0, pings.clone());
            world.emit(0, datagram.clone());
        }
        world.run(1);
        if ms % 100 == 50 {
            unharmed(&mut world);
        }
        // A new host at the same node is admitted, and its packets are routed.
        if ms == 300 {
            world.announce(late);
        }
    }
    let answers = world.hosts[0].icmp.len();
    assert!(answers > 0 && answers <= 2 * HOST_PPS, "{answers} answers in a second");
    let dropped = world.node(0).drops(HOST, DropReason::ControlRate);
    assert!(dropped > 25_000, "{dropped}");
    for _ in 0..100 {
        (0..30).for_each(|_| world.emit(0, pings.clone()));
        world.run(1);
    }
    let pairs = [(late, 3), (3, late)];
    assert_eq!(world.unreached(&pairs, 300), []);
    assert!(world.brain(0).core.nodes().all(|node| node.up));
    unharmed(&mut world);
}

/// Defence: no station has the group's address. Frames from it are read as probes for loops, and go
/// no farther.
#[test]
fn a_host_that_claims_the_gateways_ethernet_address_gets_nothing_and_stops_nobody() {
    let mut world = talking(7, two_subnets());
    let group = world.config.group_mac;
    let (to, via) = ((world.hosts[0].mac, world.hosts[0].ip), world.hosts[1].ip);
    for n in 0..50u32 {
        let payload = (0xBAD_0000 + n).to_be_bytes();
        world.emit(1, packet((group, via), to, (9, 9000), &payload));
        world.emit(1, packet((group, gateway(0)), to, (9, 9000), &payload));
        world.emit(1, packet((group, via), (group, to.1), (9, 9000), &payload));
        world.run(20);
        unharmed(&mut world);
    }
    assert!(world.hosts[0].received.iter().all(|(_, n)| n >> 16 != 0xBAD), "nothing passes");
    assert!(world.brain(0).core.hosts().all(|h| h.mac != group), "it is no host");
    let is_asked = |e: &Event| matches!(e, Event::Denied(_, mac, ..) if *mac == group);
    assert!(!world.node(1).events.iter().any(is_asked), "its node does not even ask");
    // The group still answers for it.
    world.hosts[0].arp.clear();
    world.ask(0, gateway(0));
    world.run(20);
    assert_eq!(world.hosts[0].arp.get(&gateway(0)), Some(&group));
}

/// Defence: nodes know the group's addresses, those of the other subnets too.
#[test]
fn a_host_that_claims_a_gateways_ip_address_is_not_believed() {
    let mut world = talking(8, two_subnets());
    let own = world.hosts[1].ip;
    for claimed in [gateway(0), gateway(1)] {
        world.hosts[1].ip = claimed;
        world.announce(1);
        world.run(300);
        world.hosts[1].ip = own;
        for asker in [0, 3] {
            world.hosts[asker].arp.clear();
            world.ask(asker, gateway(asker));
            world.run(20);
            let group = world.config.group_mac;
            assert_eq!(world.hosts[asker].arp.get(&gateway(asker)), Some(&group));
        }
        assert!(world.brain(0).core.hosts().all(|h| !h.ips.contains(&claimed.into())));
        let forged = Event::Dropped(HOST, Unserved::Forged);
        assert!(world.node(1).events.contains(&forged), "its node does not pass it on");
        world.node(1).events.clear();
        unharmed(&mut world);
    }
}

/// Defence: the group puts nothing together, and answers no later fragment.
#[test]
fn tiny_fragments_to_the_gateway_are_not_answered_and_cost_nobody_else() {
    let mut world = talking(9, two_subnets());
    let ping = by_gateway(&world, 0, gateway(0), 64, Some(8));
    let dying = by_gateway(&world, 0, world.hosts[3].ip, 1, None);
    world.hosts[0].icmp.clear();
    for (n, sent) in [&ping, &dying].into_iter().cycle().take(400).enumerate() {
        let mut fragment = sent.clone();
        let repr = ipv4::Repr::parse(&ipv4::Packet::new_checked(&sent[14..]).unwrap()).unwrap();
        ipv4::Repr { dont_fragment: false, ..repr }.emit(&mut fragment[14..]).unwrap();
        // Eight bytes each, from the first one of a packet on, or all at one place.
        let offset = [1, 2, 1, 3, 5, 1, 0x1FFE, 8][n / 2 % 8];
        let field = offset | 0x2000u16;
        fragment[20..22].copy_from_slice(&field.to_be_bytes());
        fragment[24..26].fill(0);
        let sum = plexus_wire::checksum::checksum(&fragment[14..34]);
        fragment[24..26].copy_from_slice(&sum.to_be_bytes());
        world.emit(0, fragment);
        if n % 20 == 0 {
            world.run(1);
            unharmed(&mut world);
        }
    }
    world.run(100);
    assert_eq!(world.hosts[0].icmp, []);
    world.emit(0, ping);
    world.run(1000);
    assert_eq!(world.hosts[0].icmp, [(gateway(0), ECHO_REPLY, 0)]);
}
