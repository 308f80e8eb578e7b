//! Subnets with different MTUs: packets are cut where they come in, or their sender is told.

use std::net::{IpAddr, Ipv4Addr};

use plexus_config::OutsideRoute;
use plexus_controller::{Config, Input};
use plexus_wire::{Prefix, ipv4};

use crate::routed::{gateway, ring, two_subnets};
use crate::world::{World, packet};

const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;

/// Hosts 1 and 3 are in a subnet with this MTU.
fn narrow(mtu: u16) -> Config {
    let mut config = two_subnets();
    config.subnets[1].mtu = Some(mtu);
    config
}

/// A host's packet of so many bytes, by this gateway, that may be cut or not.
fn long(
    world: &World,
    (host, gateway): (usize, Ipv4Addr),
    (source, to): (Ipv4Addr, Ipv4Addr),
    (len, dont_fragment): (usize, bool),
) -> Vec<u8> {
    let own = &world.hosts[host];
    let payload: Vec<u8> = (0..len - 28).map(|i| i as u8).collect();
    let mut frame = packet((own.mac, source), (own.arp[&gateway], to), (9, 9), &payload);
    let repr = ipv4::Repr::parse(&ipv4::Packet::new_checked(&frame[14..]).unwrap()).unwrap();
    ipv4::Repr { dont_fragment, ..repr }.emit(&mut frame[14..]).unwrap();
    frame
}

/// The payload of a host's fragments, in the order in which they came.
fn reassembled(world: &mut World, host: usize, mtu: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let fragments = std::mem::take(&mut world.hosts[host].fragments);
    for (n, fragment) in fragments.iter().enumerate() {
        let ip = ipv4::Packet::new_checked(&fragment[..]).unwrap();
        assert!(ip.total_len() <= mtu && ip.ttl() == 63);
        assert_eq!(ip.fragment_offset(), bytes.len());
        assert_eq!(ip.more_fragments(), n + 1 < fragments.len());
        bytes.extend(ip.payload());
    }
    bytes
}

#[test]
fn packets_to_a_narrow_subnet_arrive_in_fragments_from_the_first_on() {
    for seed in 0..3 {
        let mut world = ring(seed, narrow(600));
        world.ask(0, gateway(0));
        world.run(10);
        for to in [1, 3] {
            let ends = (world.hosts[0].ip, world.hosts[to].ip);
            let sent = long(&world, (0, gateway(0)), ends, (1500, false));
            // The first one waits for the way, and no way is known for the second host's first.
            for _ in 0..3 {
                world.emit(0, sent.clone());
                world.run(300);
                assert_eq!(reassembled(&mut world, to, 600), sent[34..], "seed {seed} to {to}");
            }
            // The other way nothing is cut.
            world.ask(to, gateway(to));
            world.run(10);
            let back = long(&world, (to, gateway(to)), (ends.1, ends.0), (1500, false));
            world.emit(to, back);
            world.run(300);
            assert!(world.hosts[0].fragments.is_empty());
        }
        assert_eq!(world.hosts[0].icmp, []);
    }
}

/// A second host of the node has no way to a neighbour that the router knows already.
#[test]
fn a_packet_whose_host_has_no_way_yet_arrives_in_fragments() {
    let mut world = ring(1, narrow(600));
    let second = world.host(0, crate::world::SECOND);
    world.hosts[second].gateway = Some(gateway(0));
    world.run(500);
    world.announce(second);
    assert_eq!(world.unreached(&[(0, 3)], 300), []);
    world.ask(second, gateway(0));
    world.run(10);
    let ends = (world.hosts[second].ip, world.hosts[3].ip);
    let sent = long(&world, (second, gateway(0)), ends, (1500, false));
    world.emit(second, sent.clone());
    world.run(300);
    assert_eq!(reassembled(&mut world, 3, 600), sent[34..]);
}

#[test]
fn the_sender_of_what_may_not_be_cut_is_told_the_mtu_by_its_own_gateway() {
    let mut config = narrow(1280);
    config.subnets[0].mtu = Some(1400);
    // Behind host 3, which is in the second subnet.
    let prefix: Prefix = "192.0.2.0/24".parse().unwrap();
    let far: Ipv4Addr = [192, 0, 2, 1].into();
    config.routes = vec![OutsideRoute { prefix, via: IpAddr::from([10, 0, 1, 4]) }];
    let mut world = ring(2, config);
    world.hosts[3].is_promiscuous = true;
    assert_eq!(world.unreached(&[(0, 1), (3, 0)], 300), []);
    let told = |world: &mut World, from: usize, ends: (Ipv4Addr, Ipv4Addr), len: usize| {
        let sent = long(world, (from, gateway(from)), ends, (len, true));
        world.hosts[from].icmp.clear();
        world.hosts[from].mtus.clear();
        // The route to the source may have to be found first.
        for _ in 0..2 {
            world.emit(from, sent.clone());
            world.run(300);
        }
        assert!(world.hosts[from].icmp.iter().all(|(by, kind, code)| {
            (*by, *kind, *code) == (gateway(from), UNREACHABLE, FRAGMENTATION_NEEDED)
        }));
        world.hosts[from].mtus.last().copied()
    };
    let [a, b, d] = [0, 1, 3].map(|h| world.hosts[h].ip);
    assert_eq!(told(&mut world, 0, (a, b), 1281), Some(1280));
    assert_eq!(told(&mut world, 0, (a, b), 1280), None);
    // What lies behind a host has the MTU of its subnet.
    assert_eq!(told(&mut world, 0, (a, far), 1281), Some(1280));
    assert_eq!(told(&mut world, 3, (d, a), 1401), Some(1400));
    assert_eq!(told(&mut world, 3, (d, a), 1400), None);
    // The sender is in no subnet; the station that sent the packet is in the second.
    assert_eq!(told(&mut world, 3, (far, a), 1401), Some(1400));
}

#[test]
fn a_new_mtu_is_in_force_on_every_node() {
    let mut world = ring(3, two_subnets());
    assert_eq!(world.unreached(&[(0, 1)], 300), []);
    let ends = (world.hosts[0].ip, world.hosts[1].ip);
    let sent = long(&world, (0, gateway(0)), ends, (1500, false));
    for (mtu, cut) in [(None, false), (Some(700), true), (None, false)] {
        let mut config = two_subnets();
        config.subnets[1].mtu = mtu;
        world.tell(0, Input::Configure(Box::new(config)));
        world.run(100);
        world.emit(0, sent.clone());
        world.run(300);
        assert_eq!(!world.hosts[1].fragments.is_empty(), cut, "{mtu:?}");
        world.hosts[1].fragments.clear();
    }
}
