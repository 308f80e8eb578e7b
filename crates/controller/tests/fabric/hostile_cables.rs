//! An attacker on a cable of the fabric, without a credential. Each test names the defence.

use plexus_control::node::Event;
use plexus_wire::MacAddr;
use plexus_wire::fabric::message::PortRole;
use plexus_wire::fabric::{self, CONTROL_HOP, Kind, encapsulation};
use rand::RngExt;

use crate::world::{CONTROL, End, RING, World};

/// A working fabric, and everything captured on its cables since the first instant.
fn tapped(seed: u64) -> (World, Vec<(End, Vec<u8>)>) {
    let mut world = World::cabled(4, &RING, seed, crate::world::usual_config());
    world.wiretap = Some(vec![]);
    // Cables were plugged in before the tap was.
    let ends: Vec<(End, End)> = world.cables.clone().into_iter().filter(|(a, b)| a < b).collect();
    for (a, b) in ends {
        world.uncable(a);
        world.cable(a, b);
    }
    world.run(1200);
    (0..4).for_each(|h| world.announce(h));
    world.run(100);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 200), []);
    world.run(1000);
    let mut heard = world.wiretap.take().unwrap();
    let is_host = |end: &End| match world.cables.get(end) {
        Some(End::Host(_)) => true,
        _ => matches!(end, End::Host(_)),
    };
    let control = |bytes: &[u8]| {
        bytes.get(12..14) == Some(&encapsulation::ETHERTYPE.0.to_be_bytes()[..])
            && bytes.get(14).is_some_and(|b| b >> 4 == 1)
    };
    heard.retain(|(end, bytes)| !is_host(end) && control(bytes));
    (world, heard)
}

fn refused(world: &World) -> usize {
    let of = |e: &&Event| matches!(e, Event::Refused(..));
    world.nodes.iter().flatten().map(|b| b.events.iter().filter(of).count()).sum()
}

/// Every link is unchanged, and every packet arrives.
fn unharmed(world: &mut World) {
    for n in 0..4 {
        for port in [0, 1] {
            assert_eq!(world.node(n).node().role(port), PortRole::Fabric, "node {n}, port {port}");
        }
        assert!(world.node(n).node().controller().0.is_some(), "node {n}");
    }
    assert_eq!(world.node(0).node().role(CONTROL), PortRole::Controller);
    let all = world.all_pairs();
    assert_eq!(world.unreached_at_once(&all), []);
}

/// Defence: sessions accept a number once, and a handshake's first message proves nothing.
#[test]
fn replayed_cable_traffic_is_refused() {
    let (mut world, heard) = tapped(1);
    let before = (refused(&world), world.brain(0).refusals().count());
    let hosts = world.brain(0).core.hosts().count();
    for (i, (end, frame)) in heard.iter().enumerate() {
        world.inject(*end, frame.clone());
        if i % 4 == 0 {
            world.run(5);
        }
        if i % 200 == 0 {
            unharmed(&mut world);
        }
    }
    world.run(1000);
    unharmed(&mut world);
    assert!(refused(&world) > before.0 + heard.len() / 4, "nodes refuse");
    assert!(world.brain(0).refusals().count() > before.1, "the controller refuses");
    assert_eq!(world.brain(0).core.hosts().count(), hosts);
    assert_eq!(world.stale_routes(&(0..4).collect()), [""; 0]);
}

/// Defence: lengths are checked before parsing, and every message is authenticated.
#[test]
fn messages_cut_short_drawn_out_or_changed_are_refused() {
    let (mut world, heard) = tapped(2);
    let before = refused(&world);
    for i in 0..3000 {
        let (end, mut frame) = heard[world.random.random_range(0..heard.len())].clone();
        match i % 3 {
            0 => frame.truncate(world.random.random_range(14..frame.len())),
            1 => frame.resize(world.random.random_range(frame.len()..1638), 0xA5),
            _ => {
                let at = world.random.random_range(14..frame.len());
                frame[at] ^= 1 << world.random.random_range(0..8);
            }
        }
        world.inject(end, frame);
        if i % 4 == 0 {
            world.run(5);
        }
        if i % 500 == 0 {
            unharmed(&mut world);
        }
    }
    world.run(1000);
    unharmed(&mut world);
    assert!(refused(&world) > before + 500);
    assert_eq!(world.stale_routes(&(0..4).collect()), [""; 0]);
    // A changed frame that is no fabric's any more has no reverse path.
    world.astray.clear();
}

/// Defence: of the handshakes that the controller begins to answer, each node that it knows has a
/// part of its own, by its way.
#[test]
fn a_flood_of_first_hellos_leaves_known_nodes_their_handshakes() {
    let mut world = World::joined(3, &[(0, 1), (0, 2)], 4);
    // One message each, and the ways back that they tell all differ.
    let mut sent = 0_u32;
    let mut flood = |world: &mut World, count| {
        for _ in 0..count {
            sent += 1;
            let back = sent.to_be_bytes();
            let mut header = fabric::Repr::new(Kind::Control, &[CONTROL_HOP]).unwrap();
            header.reverse.extend([1, back[1], back[2], back[3]]);
            let hello = [&[1, 1, 0, 14, 1, 0][..], &sent.to_be_bytes(), &[0; 4]].concat();
            let (to, from) = (MacAddr([2; 6]), MacAddr([4; 6]));
            let ethernet = encapsulation::ethertype_header(to, from);
            let frame = [&ethernet[..], &header.to_bytes().unwrap(), &hello].concat();
            world.inject(End::Controller(0), frame);
        }
        world.run(1);
    };
    flood(&mut world, 20_000);
    assert!(world.brain(0).refusals().any(|why| why.contains("too many handshakes")));
    // The second node has lost its session, and the flood goes on.
    world.crash_node(2);
    world.start_node(2);
    (0..1000).for_each(|_| flood(&mut world, 10));
    assert!(world.node(2).node().controller().0.is_some());
}
