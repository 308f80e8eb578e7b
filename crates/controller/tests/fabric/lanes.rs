//! Parallel cables between two nodes: every packet arrives with every choice of lanes.

use std::collections::{BTreeMap, BTreeSet};

use plexus_config::LaneChoice;
use plexus_wire::ethernet;
use plexus_wire::fabric::encapsulation;

use crate::world::{End, SECOND, World};

/// Two nodes, two lanes between them, two hosts at each: 0 and 2 at the first, 1 and 3 at the
/// second.
fn two_lanes(choice: LaneChoice) -> World {
    let mut world = World::joined(2, &[(0, 1), (0, 1)], 1);
    for n in 0..2 {
        world.node(n).fabric.set_lanes(choice);
        let host = world.host(n, SECOND);
        world.announce(host);
    }
    world.run(300);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 100), [], "{choice:?}");
    world
}

/// The ports on which the first node has sent hosts' frames, by destination.
fn lanes_used(world: &mut World) -> BTreeMap<plexus_wire::MacAddr, BTreeSet<u8>> {
    let mut used: BTreeMap<_, BTreeSet<u8>> = BTreeMap::new();
    for (end, bytes) in world.wiretap.take().unwrap_or_default() {
        let End::Node(1, port) = end else { continue };
        let outer = ethernet::Frame::new_checked(&bytes[..]).unwrap();
        if outer.ethertype() != encapsulation::ETHERTYPE {
            continue;
        }
        let frame = plexus_wire::fabric::Frame::new_checked(outer.payload()).unwrap();
        if frame.kind() == plexus_wire::fabric::Kind::Ethernet {
            let inner = ethernet::Frame::new_checked(frame.payload()).unwrap();
            used.entry(inner.dst()).or_default().insert(port);
        }
    }
    used
}

#[test]
fn every_choice_of_lanes_delivers_everything() {
    for (_, choice) in LaneChoice::NAMES {
        let mut world = two_lanes(choice);
        let all = world.all_pairs();
        for _ in 0..20 {
            assert_eq!(world.unreached_at_once(&all), [], "{choice:?}");
        }
        // A lane is cut: frames use the other one at once, before the controller knows.
        let other = world.uncable(End::Node(0, 0)).unwrap();
        assert_eq!(world.unreached_at_once(&all), [], "{choice:?}");
        world.run(500);
        assert_eq!(world.unreached_at_once(&all), [], "{choice:?}");
        world.cable(End::Node(0, 0), other);
        world.run(500);
        assert_eq!(world.unreached_at_once(&all), [], "{choice:?}");
    }
}

#[test]
fn static_lanes_part_by_destination_and_least_loaded_ones_by_load() {
    let mut world = two_lanes(LaneChoice::Static);
    world.wiretap = Some(vec![]);
    let all = world.all_pairs();
    (0..10).for_each(|_| assert_eq!(world.unreached_at_once(&all), []));
    // Ports 8 and 9 of the second node are a pair.
    let used = lanes_used(&mut world);
    assert!(
        used.len() == 2 && used.values().all(|ports| *ports == BTreeSet::from([0])),
        "{used:?}"
    );
    let mut world = two_lanes(LaneChoice::LeastLoaded);
    world.wiretap = Some(vec![]);
    (0..10).for_each(|_| assert_eq!(world.unreached_at_once(&all), []));
    let used = lanes_used(&mut world);
    let ports: BTreeSet<u8> = used.values().flatten().copied().collect();
    assert_eq!(ports, BTreeSet::from([0, 1]), "{used:?}");
}
