//! Hosts in different subnets talk through the group as one router: their packets take one step of
//! the time to live, whichever boxes they pass.

use std::net::{IpAddr, Ipv4Addr};

use plexus_config::{OutsideRoute, Subnet};
use plexus_control::node::{Event, Unserved};
use plexus_controller::{Action, Config};
use plexus_plane::DropReason;
use plexus_wire::{Prefix, Protocol, icmpv4};

use crate::world::{End, HOST, RING, SECOND, World, host_group, packet, usual_config};

const TIME_EXCEEDED: u8 = 11;
const UNREACHABLE: u8 = 3;
const ECHO_REPLY: u8 = 0;

/// The usual subnet and another one, 10.0.1.0/24.
pub(crate) fn two_subnets() -> Config {
    let mut config = usual_config();
    let mut other = Subnet::new(Prefix::new([10, 0, 1, 0].into(), 24).unwrap());
    other.gateway = Some([10, 0, 1, 254].into());
    config.subnets.push(other);
    config
}

pub(crate) fn gateway(host: usize) -> Ipv4Addr {
    [10, 0, (host % 2) as u8, 254].into()
}

/// A [`RING`] with a host at each node, of which every second one is in the other subnet.
pub(crate) fn ring(seed: u64, config: Config) -> World {
    let mut world = World::cabled(4, &RING, seed, config);
    for h in 0..4 {
        move_to_subnet(&mut world, h);
    }
    world.run(1200);
    (0..4).for_each(|h| world.announce(h));
    world.run(100);
    world
}

fn move_to_subnet(world: &mut World, host: usize) {
    let [a, b, _, d] = world.hosts[host].ip.octets();
    world.hosts[host].ip = [a, b, (host % 2) as u8, d].into();
    world.hosts[host].gateway = Some(gateway(host));
}

/// A packet of a host to any address by its gateway, which it knows.
pub(crate) fn by_gateway(
    world: &World,
    host: usize,
    to: Ipv4Addr,
    ttl: u8,
    icmp: Option<u8>,
) -> Vec<u8> {
    let own = &world.hosts[host];
    let mac = own.arp[&gateway(host)];
    let mut message = [0; 8];
    let protocol = if icmp.is_some() { Protocol::ICMPV4 } else { Protocol::UDP };
    if icmp.is_some() {
        let echo = icmpv4::Repr::EchoRequest { identifier: 1, sequence: 1 };
        echo.emit(&mut message).unwrap();
    }
    let ends = (own.ip.into(), to.into());
    plexus_wire::frame::ip((own.mac, mac), ends, (protocol, ttl), &message).unwrap()
}

#[test]
fn hosts_of_two_subnets_talk_and_every_packet_is_routed_once() {
    for seed in 0..3 {
        let mut world = ring(seed, two_subnets());
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), [], "seed {seed}");
        for (from, to) in all {
            assert_eq!(world.unreached_at_once(&[(from, to)]), []);
            let hops = u8::from(from % 2 != to % 2);
            assert_eq!(world.hosts[to].ttl, 64 - hops, "from {from} to {to}");
        }
    }
}

#[test]
fn the_first_packet_of_a_host_that_knows_its_router_without_asking_arrives() {
    let mut world = World::cabled(4, &RING, 1, two_subnets());
    (0..4).for_each(|h| move_to_subnet(&mut world, h));
    world.run(1200);
    (1..4).for_each(|h| world.announce(h));
    world.run(100);
    assert_eq!(world.unreached(&[(2, 3)], 200), []);
    let router = world.hosts[2].arp[&gateway(2)];
    // Host 0 has learned it from an advertisement: no node has heard of host 0 yet.
    world.hosts[0].arp.insert(gateway(0), router);
    let (number, to) = (world.number(), world.hosts[3].ip);
    world.send(0, to, number);
    world.run(100);
    assert_eq!(world.arrivals((0, 3), number), 1);
    // Packets from an address that the host does not have end after the time for an answer.
    let own = std::mem::replace(&mut world.hosts[0].ip, [10, 0, 0, 66].into());
    let forged: Vec<u32> = (0..6).map(|_| world.number()).collect();
    let frames: Vec<_> = forged.iter().map(|_| by_gateway(&world, 0, to, 64, None)).collect();
    world.hosts[0].ip = own;
    frames.into_iter().for_each(|frame| world.emit(0, frame));
    world.run(300);
    let dropped = Event::Dropped(HOST, Unserved::NoRoute);
    assert_eq!(world.node(0).events.iter().filter(|e| **e == dropped).count(), 6);
}

#[test]
fn a_route_is_no_way_around_a_rule_that_keeps_hosts_apart() {
    // Hosts 0 and 1 may talk, and 2 and 3; each pair is in both subnets.
    let groups =
        vec![host_group("red", ["node1", "node2"]), host_group("blue", ["node3", "node4"])];
    let config = Config { groups, strangers_may_talk: false, ..two_subnets() };
    let mut world = ring(1, config);
    let all = world.all_pairs();
    let across: Vec<_> = all.iter().copied().filter(|(a, b)| a / 2 != b / 2).collect();
    // The allowed pairs teach the nodes every address.
    assert_eq!(world.unreached(&all, 1000), across);
    assert_eq!(world.unreached(&across, 300), across);
}

#[test]
fn the_group_answers_pings_and_tells_of_packets_that_it_cannot_route() {
    let mut world = ring(2, two_subnets());
    let pair = [(0, 3)];
    assert_eq!(world.unreached(&pair, 200), []);
    let ping = by_gateway(&world, 0, gateway(0), 64, Some(8));
    world.emit(0, ping);
    world.run(10);
    assert_eq!(world.hosts[0].icmp, [(gateway(0), ECHO_REPLY, 0)]);
    // One hop: the group as a whole.
    let to = world.hosts[3].ip;
    let last = by_gateway(&world, 0, to, 1, None);
    world.emit(0, last);
    world.run(10);
    assert_eq!(world.hosts[0].icmp[1..], [(gateway(0), TIME_EXCEEDED, 0)]);
    // An address of a subnet that no host has, and one outside of all of them.
    let nobody = by_gateway(&world, 0, [10, 0, 1, 77].into(), 64, None);
    world.emit(0, nobody);
    world.run(3000);
    assert_eq!(world.hosts[0].icmp[2..], [(gateway(0), UNREACHABLE, 1)]);
    let outside = by_gateway(&world, 0, [192, 0, 2, 1].into(), 64, None);
    world.emit(0, outside);
    world.run(10);
    assert_eq!(world.hosts[0].icmp[3..], [(gateway(0), UNREACHABLE, 0)]);
}

#[test]
fn a_host_that_moves_is_still_routed_to() {
    for seed in 0..5 {
        let mut world = ring(seed, two_subnets());
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), []);
        world.run(1000);
        world.uncable(End::Host(1));
        world.run(100);
        world.cable(End::Host(1), End::Node(3, SECOND));
        world.run(300);
        world.announce(1);
        assert_eq!(world.unreached(&all, 600), [], "seed {seed}");
        world.run(1000);
        assert_eq!(world.unreached_at_once(&all), []);
        world.astray.clear();
    }
}

#[test]
fn packets_follow_an_address_that_another_host_has_taken_over() {
    let mut world = ring(4, two_subnets());
    let spare = world.host(3, SECOND);
    world.hosts[spare].gateway = Some(gateway(1));
    world.run(500);
    assert_eq!(world.unreached(&[(0, 1), (2, 1)], 200), []);
    // Host 1 gives its address up and stays; the spare host takes it. Until it is noticed, packets
    // go to the wrong one.
    world.hosts[1].is_promiscuous = true;
    let ip = world.hosts[1].ip;
    world.hosts[1].ip = [10, 0, 1, 99].into();
    world.announce(1);
    world.run(2000);
    world.hosts[spare].ip = ip;
    world.announce(spare);
    // Both are asked for anew within half a minute, as long as packets are sent.
    for _ in 0..70 {
        world.send(0, ip, 1);
        world.run(1000);
    }
    assert_eq!(world.unreached_at_once(&[(0, spare), (spare, 0)]), []);
}

/// How many of a hundred packets of the first host, numbered from `first` on, come to the second
/// host and to the fourth.
pub(crate) fn shares_of(world: &mut World, far: Ipv4Addr, first: u32) -> [usize; 2] {
    for number in first..first + 100 {
        world.send(0, far, number);
        world.run(1);
    }
    world.run(50);
    [1, 3].map(|router: usize| {
        let all = world.hosts[router].received.iter();
        all.filter(|(_, number)| (first..first + 100).contains(number)).count()
    })
}

#[test]
fn packets_for_other_networks_go_to_the_hosts_that_lead_there() {
    let far: Ipv4Addr = [192, 0, 2, 1].into();
    let mut config = two_subnets();
    let prefix = Prefix::new([0, 0, 0, 0].into(), 0).unwrap();
    // Both are in the other subnet, at two nodes.
    let vias = [[10, 0, 1, 2], [10, 0, 1, 4]].map(IpAddr::from);
    config.routes = vias.map(|via| OutsideRoute { prefix, via }).to_vec();
    let mut world = ring(6, config);
    for router in [1, 3] {
        world.hosts[router].is_promiscuous = true;
    }
    assert_eq!(world.unreached(&[(0, 1), (0, 3)], 200), []);
    let shares = shares_of(&mut world, far, 1000);
    assert!(shares[0] + shares[1] >= 96, "four may wait for the way: {shares:?}");
    let shares = shares_of(&mut world, far, 2000);
    assert!(shares[0] + shares[1] == 100 && shares.iter().all(|n| *n > 20), "{shares:?}");
    // Packets from there are taken from these two hosts, and from no other.
    for (router, arrives) in [(1, 1), (3, 1), (2, 0)] {
        let (own, gateway) = (world.hosts[router].mac, gateway(router));
        if !world.hosts[router].arp.contains_key(&gateway) {
            world.ask(router, gateway);
            world.run(10);
        }
        let by = world.hosts[router].arp[&gateway];
        let to = world.hosts[0].ip;
        let number = world.number();
        world.hosts[0].received.clear();
        let frame = packet((own, far), (by, to), (9, 9000), &number.to_be_bytes());
        world.emit(router, frame.clone());
        world.run(300);
        world.emit(router, frame);
        world.run(100);
        let got = world.hosts[0].received.iter().filter(|(_, n)| *n == number).count();
        assert_eq!(got > 0, arrives > 0, "from host {router}: {got}");
    }
    // One of them leaves: the other gets all flows.
    world.uncable(End::Host(3));
    world.run(500);
    shares_of(&mut world, far, 3000);
    assert_eq!(shares_of(&mut world, far, 4000)[0], 100);
}

#[test]
fn a_packet_from_an_address_of_no_subnet_is_dropped() {
    let mut world = ring(5, two_subnets());
    assert_eq!(world.unreached(&[(0, 1)], 200), []);
    let to = world.hosts[1].ip;
    let own = world.hosts[0].ip;
    world.hosts[0].ip = [192, 0, 2, 7].into();
    let before = world.hosts[1].received.len();
    let spoofed = by_gateway(&world, 0, to, 64, None);
    world.hosts[0].ip = own;
    world.emit(0, spoofed);
    world.run(100);
    assert_eq!(world.hosts[1].received.len(), before);
    assert_eq!(world.node(0).drops(HOST, DropReason::ReversePath), 1);
    // Nor from the address of another host of its subnet, nor from one that nobody has.
    for source in [world.hosts[2].ip, [10, 0, 0, 77].into()] {
        world.hosts[0].ip = source;
        let spoofed = by_gateway(&world, 0, to, 64, None);
        world.hosts[0].ip = own;
        for _ in 0..3 {
            world.emit(0, spoofed.clone());
            world.run(300);
        }
    }
    assert_eq!(world.hosts[1].received.len(), before);
}

#[test]
fn a_node_forgets_addresses_to_which_nothing_is_sent() {
    let mut world = ring(7, two_subnets());
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 200), []);
    let known = |world: &mut World| {
        let now = world.now;
        let router = world.node(0).fabric.router().unwrap().control();
        router.neighbours(now).map(|n| n.address).collect::<Vec<_>>()
    };
    let own = std::net::IpAddr::from(world.hosts[0].ip);
    let found = known(&mut world);
    assert!(found.len() == 3 && found.contains(&own), "{found:?}");
    // Packets keep one of them.
    let used = world.hosts[1].ip;
    for _ in 0..100 {
        world.send(0, used, 1);
        world.run(1000);
    }
    let mut found = known(&mut world);
    found.sort_unstable();
    assert_eq!(found, [own, used.into()]);
}

#[test]
fn the_way_of_an_address_is_told_box_by_box() {
    let mut config = two_subnets();
    let prefix: Prefix = "192.0.2.0/24".parse().unwrap();
    config.routes = vec![OutsideRoute { prefix, via: IpAddr::from([10, 0, 1, 4]) }];
    config.subnets[1].mtu = Some(1280);
    let mut world = ring(8, config);
    let far = Ipv4Addr::from([192, 0, 2, 1]);
    let way = |world: &mut World, to: IpAddr| world.brain(0).core.way(to);
    let found = way(&mut world, far.into());
    assert_eq!((found.action, found.prefix), (Action::Forward, Some(prefix)));
    assert!(found.neighbours[0].paths.is_empty(), "nobody has sent there");
    assert_eq!(world.unreached(&[(0, 3), (1, 3), (2, 3)], 300), []);
    for (to, action) in [(world.hosts[3].ip, Action::Deliver), (far, Action::Forward)] {
        let found = way(&mut world, to.into());
        let [neighbour] = &found.neighbours[..] else { panic!("{found:?}") };
        assert_eq!((found.action, neighbour.address), (action, world.hosts[3].ip.into()));
        assert_eq!((neighbour.mtu, neighbour.station), (1280, Some((world.hosts[3].mac, 4, HOST))));
        for path in &neighbour.paths {
            // Each box is cabled to the next, the first to the host and the last to the neighbour.
            let mut at = End::Node(path.boxes[0].0 as usize - 1, path.boxes[0].1);
            let from = world.cables[&at];
            for (node, in_port, out_port) in &path.boxes {
                let node = *node as usize - 1;
                assert_eq!(at, End::Node(node, *in_port), "{path:?}");
                at = world.cables[&End::Node(node, *out_port)];
            }
            assert_eq!(at, End::Host(3), "{path:?}");
            assert!(matches!(from, End::Host(h) if h < 3), "{path:?}");
        }
        // The host at the opposite node may go either way round.
        let hops: Vec<usize> = neighbour.paths.iter().map(|path| path.boxes.len()).collect();
        assert!(hops.len() >= 3 && hops.contains(&2) && hops.contains(&3), "{hops:?}");
    }
    for (to, action) in [
        ([10, 0, 0, 254], Action::Own),
        ([10, 0, 1, 255], Action::Broadcast),
        ([10, 0, 1, 77], Action::Deliver),
        ([198, 51, 100, 1], Action::NoRoute),
    ] {
        assert_eq!(way(&mut world, to.into()).action, action, "{to:?}");
    }
}
