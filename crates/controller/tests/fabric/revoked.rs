//! The controller's list of revoked keys reaches every node, also one that starts later.

use plexus_config::{ControllerSettings as Config, Revoked};
use plexus_control::identity::Role;
use plexus_controller::Input;
use plexus_wire::fabric::message::PortRole;

use crate::world::{World, identity, usual_config};

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
