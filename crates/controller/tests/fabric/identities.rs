//! Two boxes with one number, and boxes of other groups: which role each side finds, and reports.

use std::sync::Arc;

use plexus_control::hub::Output;
use plexus_control::identity::{Authority, Identity, Role};
use plexus_control::link::{Pin, Stranger};
use plexus_control::node::{Event, Input};
use plexus_control::session::Refused;
use plexus_wire::fabric::message::{PortRole, Revoked};

use crate::world::{Brain, End, Faults, World, identity, identity_by, issued_again, usual_config};

/// Number of the node that another one is the twin of: index 1 of a line of three, the controller
/// at the first. The fourth box is the twin, and hangs at the last.
const NUMBER: u64 = 2;
const TWIN: usize = 3;

fn line() -> World {
    let mut world = World::new(4, 1, usual_config());
    let controller = world.start_controller();
    world.cable(End::Controller(controller), End::Node(0, 5));
    world.cable(End::Node(0, 1), End::Node(1, 2));
    world.cable(End::Node(0, 3), End::Node(2, 2));
    world.run(1000);
    world
}

/// The twin starts with this identity.
fn twin(world: &mut World, identity: Arc<Identity>) {
    world.start_node_as(TWIN, identity);
    world.cable(End::Node(2, 1), End::Node(TWIN, 2));
}

fn brain(world: &World) -> &Brain {
    world.controllers[0].as_ref().unwrap()
}

/// Names of the nodes that took the number, in order.
fn took(world: &World) -> Vec<&str> {
    let up = brain(world).hub_log.iter().filter_map(|output| match output {
        Output::NodeUp { node: NUMBER, name, .. } => Some(name.as_str()),
        _ => None,
    });
    up.collect()
}

/// Who keeps the number and who is refused, with their ways, as the controller tells it.
fn disputes(world: &World) -> Vec<[(&str, &[u8]); 2]> {
    let disputes = brain(world).hub_log.iter().filter_map(|output| match output {
        Output::NumberTaken { node: NUMBER, holder, refused } => {
            Some([holder, refused].map(|c| (c.name.as_str(), &c.path[..])))
        }
        _ => None,
    });
    disputes.collect()
}

fn told(world: &World, n: usize) -> Vec<&Event> {
    let events = world.events(n).iter();
    events.filter(|e| matches!(e, Event::NumberTaken { .. })).collect()
}

fn has_controller(world: &mut World, n: usize) -> bool {
    world.node(n).node().controller().0.is_some()
}

fn role(world: &mut World, n: usize, port: u8) -> PortRole {
    world.node(n).node().role(port)
}

/// Why a port of a node is not the fabric's.
fn reason(world: &mut World, n: usize, port: u8) -> String {
    world.node(n).node().reason(port).unwrap().to_string()
}

#[test]
fn a_live_node_keeps_its_number_and_both_sides_hear_of_the_other() {
    let mut world = line();
    assert_eq!(took(&world), ["node2"]);
    let other = issued_again(NUMBER, 1);
    twin(&mut world, other);
    world.run(30_000);
    assert_eq!(took(&world), ["node2"]);
    assert!(has_controller(&mut world, 1) && !has_controller(&mut world, TWIN));
    // Once, though it asks every second.
    assert_eq!(disputes(&world), [[("node2", &[0, 1, 255][..]), ("node2-1", &[0, 3, 1, 255][..])]]);
    let key = identity(NUMBER, Role::Node).claims().static_public;
    assert_eq!(told(&world, TWIN), [&Event::NumberTaken { key, same: false }]);
    assert_eq!(told(&world, 1), Vec::<&Event>::new());
    // The cable itself is good, and is not used.
    assert_eq!(role(&mut world, 2, 1), PortRole::Fabric);
    world.run(40_000);
    assert_eq!((disputes(&world).len(), told(&world, TWIN).len()), (2, 2), "again each minute");
    let asked = brain(&world).refusals().filter(|why| why.contains("the number of another"));
    let asked = asked.count();
    assert!((50..=70).contains(&asked), "the twin asks once a second, not {asked} times in 70 s");
}

/// These keys count for nothing at the controller; returns the nodes that it lets go of.
fn set_revoked(world: &mut World, keys: &[[u8; 32]]) -> Vec<u64> {
    let now = world.now;
    world.brain(0).hub.set_revoked(now, keys.iter().copied().collect())
}

#[test]
fn a_revoked_key_loses_the_controller_and_another_key_may_have_the_number() {
    let mut world = line();
    let key = identity(NUMBER, Role::Node).claims().static_public;
    assert_eq!(set_revoked(&mut world, &[key]), [NUMBER]);
    world.run(5000);
    assert_eq!(took(&world), ["node2"], "its session has ended");
    world.start_node_as(1, identity(NUMBER, Role::Node));
    world.run(10_000);
    assert!(!has_controller(&mut world, 1) && has_controller(&mut world, 2));
    assert_eq!(took(&world), ["node2"], "it does not come back");
    assert!(brain(&world).refusals().any(|why| why.contains("was revoked")));
    // The box has a new key: it is the same node again, at once.
    world.start_node_as(1, issued_again(NUMBER, 1));
    world.run(5000);
    assert!(has_controller(&mut world, 1));
    assert_eq!(took(&world), ["node2", "node2-1"]);
    // A file without the key admits it again.
    assert!(set_revoked(&mut world, &[]).is_empty());
    twin(&mut world, identity(NUMBER, Role::Node));
    world.run(2000);
    assert_eq!(disputes(&world).len(), 1);
}

/// The controller tells every node that these keys are revoked.
fn tell_revoked(world: &mut World, version: u64, keys: &[[u8; 32]]) {
    (1..=3).for_each(|node| tell_one(world, node, version, keys));
    world.run(1000);
}

/// Versions begin after that of the list that the controller has told by itself, which is empty.
fn tell_one(world: &mut World, node: u64, version: u64, keys: &[[u8; 32]]) {
    let (now, brain) = (world.now, world.brain(0));
    let version = (brain.core.epoch() << 32) + version;
    let told = Revoked { version, part: 0, parts: 1, keys: keys.to_vec() };
    brain.hub.say(now, node, told.into(), true);
}

#[test]
fn a_node_gets_a_new_key_while_its_links_and_its_session_go_on() {
    let mut world = line();
    let authority = Authority::new([7; 16], &[9; 32]);
    let old = identity(NUMBER, Role::Node).claims().static_public;
    let new = authority.issue_identity(NUMBER, "node2", Role::Node, &[77; 32]).unwrap();
    [0, 1].iter().for_each(|n| world.node(*n).events.clear());
    world.set_identity(1, new);
    world.run(2000);
    // The old key counts for nothing from now on, neither here nor at its neighbours.
    assert!(set_revoked(&mut world, &[old]).is_empty());
    tell_revoked(&mut world, 1, &[old]);
    world.run(5000);
    assert!(has_controller(&mut world, 1));
    assert_eq!(took(&world), ["node2"], "it has lost nothing that it must be told again");
    let roles = |events: &[Event]| events.iter().any(|e| matches!(e, Event::Role(..)));
    assert!(!roles(world.events(0)) && !roles(world.events(1)), "no link was lost");
    // A box that still has the old key is nobody.
    twin(&mut world, identity(NUMBER, Role::Node));
    world.run(5000);
    assert!(!has_controller(&mut world, TWIN));
    assert_eq!(role(&mut world, 2, 1), PortRole::Host);
    assert_eq!(strangers(&world, 2), [(1, Stranger::Refused(Refused::Revoked))]);
}

#[test]
fn neighbours_end_the_link_to_a_box_whose_key_was_revoked() {
    let mut world = line();
    let key = identity(NUMBER, Role::Node).claims().static_public;
    tell_revoked(&mut world, 1, &[key]);
    world.run(5000);
    assert_eq!(role(&mut world, 0, 1), PortRole::Host);
    assert_eq!(role(&mut world, 0, 3), PortRole::Fabric, "the other one is trusted");
    let reason = reason(&mut world, 0, 1);
    assert!(reason.contains("key was revoked"), "{reason}");
    // A list that is older changes nothing; a later one without the key admits the box again.
    tell_revoked(&mut world, 0, &[]);
    world.run(20_000);
    assert_eq!(role(&mut world, 0, 1), PortRole::Host);
    tell_revoked(&mut world, 2, &[]);
    world.run(20_000);
    assert_eq!(role(&mut world, 0, 1), PortRole::Fabric);
}

#[test]
fn a_node_ends_its_session_with_a_controller_whose_key_was_revoked() {
    let mut world = line();
    let key = identity(1000, Role::Controller).claims().static_public;
    tell_one(&mut world, 3, 1, &[key]);
    world.run(20_000);
    assert!(!has_controller(&mut world, 2) && has_controller(&mut world, 1));
}

#[test]
fn a_node_that_starts_again_is_back_at_once_though_another_wants_its_number() {
    let mut world = line();
    twin(&mut world, issued_again(NUMBER, 1));
    world.run(5000);
    world.start_node(1);
    world.run(400);
    assert!(has_controller(&mut world, 1));
    assert_eq!(took(&world), ["node2", "node2"]);
    world.run(10_000);
    assert_eq!(took(&world), ["node2", "node2"]);
}

#[test]
fn a_number_that_was_issued_again_is_taken_over_when_its_holder_is_silent() {
    let mut world = line();
    twin(&mut world, issued_again(NUMBER, 1));
    world.run(5000);
    world.uncable(End::Node(1, 2));
    world.run(1500);
    assert!(!has_controller(&mut world, TWIN), "it may be back");
    world.run(3500);
    assert_eq!(took(&world), ["node2", "node2-1"]);
    assert!(has_controller(&mut world, TWIN));
    // Now it is the first one that is refused.
    world.cable(End::Node(0, 1), End::Node(1, 2));
    world.run(5000);
    assert_eq!(took(&world), ["node2", "node2-1"]);
    let key = issued_again(NUMBER, 1).claims().static_public;
    assert_eq!(told(&world, 1), [&Event::NumberTaken { key, same: false }]);
}

#[test]
fn a_timeout_that_is_set_is_the_one_that_counts() {
    let mut world = line();
    world.brain(0).hub.set_node_timeout(std::time::Duration::from_secs(20));
    twin(&mut world, issued_again(NUMBER, 1));
    world.run(5000);
    world.uncable(End::Node(1, 2));
    world.run(15_000);
    assert_eq!(took(&world), ["node2"]);
    world.run(7000);
    assert_eq!(took(&world), ["node2", "node2-1"]);
}

#[test]
fn an_identity_that_two_boxes_use_does_not_go_back_and_forth() {
    let mut world = line();
    // It looks like a restart, once.
    twin(&mut world, identity(NUMBER, Role::Node));
    world.run(60_000);
    assert_eq!(took(&world), ["node2", "node2"]);
    let key = identity(NUMBER, Role::Node).claims().static_public;
    assert_eq!(told(&world, 1), [&Event::NumberTaken { key, same: true }]);
    assert_eq!(told(&world, TWIN), Vec::<&Event>::new());
    assert_eq!(disputes(&world).len(), 1);
    // When the later one ends, the earlier one is in office again.
    world.uncable(End::Node(TWIN, 2));
    world.run(6000);
    assert_eq!(took(&world), ["node2", "node2", "node2"]);
    assert!(has_controller(&mut world, 1));
}

/// The strangers at its ports that a node has told of.
fn strangers(world: &World, n: usize) -> Vec<(u8, Stranger)> {
    let events = world.events(n).iter();
    let of = |e: &Event| match e {
        Event::Stranger(port, stranger) => Some((*port, *stranger)),
        _ => None,
    };
    events.filter_map(of).collect()
}

/// A box of this identity is cabled to the first node for so long.
fn neighbour_of(identity: Arc<Identity>, ms: u64) -> World {
    let mut world = World::new(2, 3, usual_config());
    world.start_node_as(1, identity);
    world.cable(End::Node(0, 1), End::Node(1, 2));
    world.run(ms);
    world
}

#[test]
fn a_node_of_another_group_is_a_host_and_both_say_why() {
    let elsewhere = Authority::new([8; 16], &[9; 32]);
    let mut world = neighbour_of(identity_by(&elsewhere, 2, Role::Node, 0), 8000);
    let other = Stranger::Refused(Refused::Authentication);
    let is_of_it = |(_, s): &(u8, Stranger)| *s == other || *s == Stranger::Unproved;
    for (n, port) in [(0, 1), (1, 2)] {
        assert_eq!(role(&mut world, n, port), PortRole::Host);
        let told = strangers(&world, n);
        assert!(told.len() == 1 && told.iter().all(is_of_it), "node {n}: {told:?}");
        assert_eq!(told[0].0, port);
        let reason = reason(&mut world, n, port);
        assert!(reason.contains("of another group"), "{reason}");
    }
    assert!([0, 1].iter().any(|n| strangers(&world, *n)[0].1 == other), "one of them reads it");
    // Not again and again.
    world.run(600_000);
    for n in 0..2 {
        assert!(strangers(&world, n).len() <= 2, "node {n}: {:?}", strangers(&world, n));
    }
    // One of them gets an identity of the other's group.
    world.start_node(1);
    world.run(20_000);
    assert_eq!(role(&mut world, 0, 1), PortRole::Fabric);
    assert_eq!(world.node(0).node().reason(1), None);
}

#[test]
fn a_credential_that_the_authority_has_not_signed_is_named() {
    let pretender = Authority::new([7; 16], &[8; 32]);
    let mut world = neighbour_of(identity_by(&pretender, 2, Role::Node, 0), 30_000);
    let why = Stranger::Refused(Refused::Signature);
    assert!(strangers(&world, 0).contains(&(1, why)), "{:?}", strangers(&world, 0));
    let reason = reason(&mut world, 0, 1);
    assert!(reason.contains("not signed by this group's authority"), "{reason}");
}

#[test]
fn a_twin_at_the_next_port_is_named() {
    // Whoever reads the other's proof first closes the port, and says no more for a while.
    let mut world = neighbour_of(issued_again(1, 1), 2000);
    let twin = Stranger::Refused(Refused::OwnIdentity);
    let ends = [(0, 1), (1, 2)];
    let first = ends.into_iter().find(|(n, p)| role(&mut world, *n, *p) == PortRole::Conflict);
    let (n, port) = first.expect("a conflict");
    assert_eq!(strangers(&world, n), [(port, twin)]);
    let reason = reason(&mut world, n, port);
    assert!(reason.contains("a number given twice"), "{reason}");
    world.run(120_000);
    for (n, port) in ends {
        let told = strangers(&world, n);
        assert!(told.iter().filter(|told| **told == (port, twin)).count() == 1, "{told:?}");
        assert!(told.len() <= 2, "{told:?}");
    }
}

#[test]
fn a_node_at_a_port_for_hosts_is_named() {
    let mut world = World::new(2, 3, usual_config());
    let now = world.now;
    world.node(0).input(now, Input::Pinned { port: 1, pin: Pin::Hosts });
    world.cable(End::Node(0, 1), End::Node(1, 2));
    world.run(5000);
    assert_eq!(role(&mut world, 0, 1), PortRole::Host);
    assert_eq!(strangers(&world, 0), [(1, Stranger::Refused(Refused::Pinned))]);
}

#[test]
fn friends_are_no_strangers() {
    for seed in 0..20 {
        let mut world = World::new(2, seed, usual_config());
        world.faults = Faults { lost: 20, repeated: 20, late: 20 };
        world.cable(End::Node(0, 1), End::Node(1, 2));
        world.run(10_000);
        assert_eq!(strangers(&world, 1), [], "seed {seed}");
        world.start_node(1);
        world.run(10_000);
        for n in 0..2 {
            assert_eq!(strangers(&world, n), [], "seed {seed}, node {n}");
        }
    }
}
