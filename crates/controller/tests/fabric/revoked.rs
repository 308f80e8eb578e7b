//! The controller's list of revoked keys reaches every node, also one that starts later, and one
//! whose neighbour would keep it away.

use plexus_config::{ControllerSettings as Config, Revoked};
use plexus_control::hub::Output;
use plexus_control::identity::Role;
use plexus_control::link::{Link, Pace};
use plexus_control::session::Random;
use plexus_controller::Input;
use plexus_wire::fabric::CONTROL_HOP;
use plexus_wire::fabric::message::{Heartbeat, LinkFacts, PortRole, Standby, Standbys};

use crate::world::{Durable, End, SPARE, World, identity, port_mac, usual_config};

/// Roles of two ports that lead to the last of three nodes in a ring.
fn to_last(world: &mut World) -> [PortRole; 2] {
    // Node 0 has the cables to 1 and 2, node 1 those to 0 and 2.
    [0, 1].map(|n| world.node(n).fabric.control().role(1))
}

#[test]
fn every_node_hears_of_a_revoked_key() {
    let config = usual_config();
    let mut world = World::joined_as(3, &[(0, 1), (0, 2), (1, 2)], 21, config.clone());
    assert_eq!(to_last(&mut world), [PortRole::Fabric; 2]);
    // More than one message holds; the one that counts is in the last.
    let mut revoked: Vec<Revoked> =
        (0..100).map(|n| Revoked { name: "old".into(), key: [n; 32] }).collect();
    let key = identity(3, Role::Node).claims().static_public;
    revoked.push(Revoked { name: "node3".into(), key });
    let with = |revoked| Input::Configure(Box::new(Config { revoked, ..config.clone() }));
    world.tell(0, with(revoked));
    world.run(2000);
    assert_eq!(to_last(&mut world), [PortRole::Host; 2]);
    // A node that has just started has the key's owner as neighbour until it hears of it.
    world.crash_node(1);
    world.start_node(1);
    world.run(3000);
    assert_eq!(to_last(&mut world), [PortRole::Host; 2]);
    // The list is empty again.
    world.tell(0, with(Vec::new()));
    world.run(20_000);
    assert_eq!(to_last(&mut world), [PortRole::Fabric; 2]);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 400), []);
}

#[test]
fn a_box_that_was_taken_out_is_a_host_for_good() {
    let config = usual_config();
    let mut world = World::joined_as(3, &[(0, 1), (0, 2), (1, 2)], 21, config.clone());
    let key = identity(2, Role::Node).claims().static_public;
    let revoked = vec![Revoked { name: "node2".into(), key }];
    world.tell(0, Input::Configure(Box::new(Config { revoked, ..config })));
    // It announces its ports as before, as a switch that leads back into the fabric would pass
    // them on. For 30 s its neighbours wait for its return.
    world.run(45_000);
    let to_it = [(0, 0), (2, 1)].map(|(n, port)| world.node(n).fabric.control().role(port));
    assert_eq!(to_it, [PortRole::Host; 2]);
}

#[test]
fn a_neighbour_that_lies_about_the_controller_cannot_keep_the_list_away() {
    let config = usual_config();
    lied_to(World::joined_as(3, &[(0, 1), (1, 2)], 5, config.clone()), &config, 99);
}

#[test]
fn nor_can_one_that_names_a_controller_which_stands_by() {
    let config = usual_config();
    let mut world = World::joined_as(3, &[(0, 1), (1, 2)], 5, config.clone());
    let durable = Durable { number: 1, ..world.durable.clone() };
    let standby = world.start_controller_as(durable);
    let now = world.now;
    world.brain(standby).hub.stand_by(now);
    world.brain(standby).hub.follow();
    world.cable(End::Controller(standby), End::Node(1, SPARE));
    world.run(1000);
    let path = vec![SPARE, CONTROL_HOP];
    let standbys = vec![Standby { controller: 1001, answers: false, path }];
    let (now, told) = (world.now, Standbys { version: u64::MAX, standbys });
    world.brain(0).hub.say(now, 2, told.into(), true);
    world.run(1000);
    let has_session = |o: &Output| matches!(o, Output::NodeUp { node: 2, .. });
    assert!(world.brain(standby).hub_log.iter().any(has_session));
    lied_to(world, &config, 1001);
}

/// A box with a stolen key, in place of the last of three, tells its neighbour of a later
/// controller of this number, by another way each time.
fn lied_to(mut world: World, config: &Config, controller: u64) {
    let (own, its) = (End::Node(2, 0), End::Node(1, 1));
    world.crash_node(2);
    world.power(its);
    let stolen = identity(3, Role::Node);
    let key = stolen.claims().static_public;
    let mut liar = Link::new(stolen, Pace::default(), Random::from_seed([5; 32]), None);
    let mac = port_mac(2, 0);
    let facts =
        LinkFacts { port: 0, mac, mtu: 1624, rate_mbit_per_s: 0, native: false, takes_owed: false };
    let mut frames = liar.up(world.now, facts).frames;
    world.wiretap = Some(vec![]);
    for ms in 0..4000_u32 {
        if ms == 2000 {
            assert_eq!(world.node(1).node().role(1), PortRole::Fabric, "it has proved its key");
            let revoked = vec![Revoked { name: "node3".into(), key }];
            world.tell(0, Input::Configure(Box::new(Config { revoked, ..config.clone() })));
        }
        let (now, heard) = (world.now, world.wiretap.replace(vec![]).unwrap());
        for (_, frame) in heard.iter().filter(|(end, _)| *end == own) {
            frames.extend(liar.frame(now, frame).frames);
        }
        frames.extend(liar.run(now).frames);
        let path = Some([&ms.to_be_bytes()[..], &[CONTROL_HOP]].concat());
        frames.extend(liar.beat(now, &Heartbeat { epoch: u64::MAX, controller, path }));
        frames.drain(..).for_each(|frame| world.inject(its, frame));
        world.run(1);
    }
    assert_ne!(world.node(1).node().role(1), PortRole::Fabric, "its neighbour has the list");
}
