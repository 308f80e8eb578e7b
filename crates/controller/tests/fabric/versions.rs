//! Boxes of two versions in one group, and the upgrade of one after the other.

use plexus_control::version::{FIRST, VERSION};
use plexus_wire::ethernet;
use plexus_wire::fabric::{self, Kind, encapsulation};

use crate::world::{CONTROL, End, World};

/// First bytes of the control messages that have passed cables between boxes, without those
/// between neighbours.
fn said(world: &World) -> Vec<u8> {
    let frames = world.wiretap.iter().flatten();
    frames
        .filter_map(|(_, bytes)| {
            let outer = ethernet::Frame::new_checked(&bytes[..]).ok()?;
            let is_routed = outer.ethertype() == encapsulation::ETHERTYPE
                && outer.dst() != encapsulation::NEAREST_BRIDGE;
            let frame = fabric::Frame::new_checked(outer.payload()).ok()?;
            (is_routed && frame.kind() == Kind::Control).then(|| frame.payload()[0])
        })
        .collect()
}

/// A short message of a session, and a reply.
const SHORT: u8 = 0x82;
const REPLIES: [u8; 2] = [0x83, 0x84];

#[test]
fn boxes_of_two_versions_are_one_fabric_in_every_mix() {
    for mix in 0..32u64 {
        let version = |at: u32| if mix >> at & 1 == 0 { FIRST } else { VERSION };
        let (nodes, controller) = ([0, 1, 2, 3].map(version), version(4));
        let mut world = World::mixed(nodes, controller, mix);
        world.wiretap = Some(vec![]);
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), [], "{nodes:?} with {controller}");
        for (n, own) in nodes.into_iter().enumerate() {
            assert_eq!(world.node(n).node().version(), own.min(controller), "node {n}");
        }
        for known in world.brain(0).core.nodes() {
            let own = nodes[known.node as usize - 1];
            assert_eq!(known.version, own.min(controller), "{}", known.name);
        }
        // Each pair of nodes of version 2 replies in it, and nobody else is spoken to in it.
        let news = nodes.iter().filter(|v| **v > FIRST).count();
        let short = |first: &u8| *first == SHORT || REPLIES.contains(first);
        let said = said(&world);
        let is_new = controller > FIRST;
        assert_eq!(said.iter().any(short), is_new && news > 0, "{nodes:?} with {controller}");
        let replies = said.iter().any(|first| REPLIES.contains(first));
        assert_eq!(replies, is_new && news > 1, "{nodes:?} with {controller}");
        let old = |first: &u8| *first == FIRST;
        assert_eq!(said.iter().any(old), news < 4 || !is_new, "{nodes:?} with {controller}");
        // Their routes are repaired, and known to the controller.
        world.uncable(End::Node(0, 0));
        assert_eq!(world.unreached(&all, 200), [], "{nodes:?} with {controller}");
        world.run(500);
        assert_eq!(world.stale_routes(&(0..4).collect()), [""; 0], "{nodes:?}");
        assert_eq!(world.orphans(), [""; 0], "{nodes:?} with {controller}");
        // A host that has left is called back, under the keys of the exchange.
        let left = world.uncable(End::Host(2)).unwrap();
        world.cable(End::Host(2), left);
        world.announce(2);
        assert_eq!(world.unreached(&all, 1000), [], "{nodes:?} with {controller}");
    }
}

/// The side of the later version may be one that we do not know yet.
#[test]
fn node_and_controller_speak_the_lower_of_their_versions() {
    for [nodes, controller] in [[VERSION + 1, VERSION], [VERSION, VERSION + 1]] {
        let mut world = World::mixed([nodes; 4], controller, 5);
        for n in 0..4 {
            assert_eq!(world.node(n).node().version(), VERSION, "{nodes} with {controller}");
        }
        assert!(world.brain(0).core.nodes().all(|known| known.version == VERSION));
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), []);
    }
}

/// Pairs of which neither host is at the node.
fn others(world: &World, n: usize) -> Vec<(usize, usize)> {
    world.all_pairs().into_iter().filter(|(a, b)| *a != n && *b != n).collect()
}

/// Pairs whose packets do not pass the node.
fn around(world: &mut World, n: usize) -> Vec<(usize, usize)> {
    let pairs = others(world, n);
    let passes = |world: &mut World, (a, b): (usize, usize)| {
        let to = world.hosts[b].mac;
        let routes = world.node(a).node().routes();
        let paths = routes.into_iter().filter(|r| r.destination == to).flat_map(|r| r.routes);
        paths.collect::<Vec<_>>().iter().any(|path| world.walk(a, path).1.contains(&n))
    };
    pairs.into_iter().filter(|pair| !passes(world, *pair)).collect()
}

/// The node stops, and starts with the later version.
fn upgrade_node(world: &mut World, n: usize) {
    let (others, around) = (others(world, n), around(world, n));
    world.stop_node(n);
    for _ in 0..5 {
        assert_eq!(world.unreached_at_once(&around), [], "while node {n} is away");
    }
    assert_eq!(world.unreached(&others, 200), [], "around node {n}");
    world.versions[n] = VERSION;
    world.start_node(n);
    for _ in 0..30 {
        assert_eq!(world.unreached_at_once(&others), [], "while node {n} comes back");
        world.run(40);
    }
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 1000), [], "by node {n}");
}

/// The controller stops, and another one starts with the later version.
fn upgrade_controller(world: &mut World) {
    let all = world.all_pairs();
    world.crash_controller(0);
    for _ in 0..20 {
        assert_eq!(world.unreached_at_once(&all), [], "without a controller");
        world.run(40);
    }
    world.controller_version = VERSION;
    let new = world.start_controller();
    world.cable(End::Controller(new), End::Node(0, CONTROL));
    for _ in 0..40 {
        assert_eq!(world.unreached_at_once(&all), [], "while the new one learns");
        world.run(90);
    }
}

#[test]
fn an_upgrade_of_one_box_after_the_other_loses_no_pair_of_others() {
    for (seed, controller_first) in [(1, true), (2, false), (3, true), (4, false)] {
        let mut world = World::mixed([FIRST; 4], FIRST, seed);
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), [], "seed {seed}");
        world.run(1000);
        if controller_first {
            upgrade_controller(&mut world);
        }
        // The first one has the controller's cable, and comes in its turn.
        for n in [2, 0, 3, 1] {
            upgrade_node(&mut world, n);
        }
        if !controller_first {
            upgrade_controller(&mut world);
        }
        for n in 0..4 {
            assert_eq!(world.node(n).node().version(), VERSION, "seed {seed}, node {n}");
        }
        world.run(500);
        assert_eq!(world.stale_routes(&(0..4).collect()), [""; 0], "seed {seed}");
        assert_eq!(world.orphans(), [""; 0], "seed {seed}");
        // From now on they ask in short.
        world.wiretap = Some(vec![]);
        world.hosts.iter_mut().for_each(|host| host.arp.clear());
        world.uncable(End::Node(0, 0));
        assert_eq!(world.unreached(&all, 200), [], "seed {seed}");
        world.run(500);
        assert!(said(&world).contains(&SHORT), "seed {seed}");
        assert_eq!(world.stale_routes(&(0..4).collect()), [""; 0], "seed {seed}");
    }
}
