//! Hosts that move: a migrating virtual machine takes its addresses with it.

use crate::world::{End, SECOND, World};

fn wait_until_stable(world: &mut World) {
    let all = world.all_pairs();
    world.run(1000);
    assert_eq!(world.unreached_at_once(&all), []);
    assert_eq!(world.stale_routes(&(0..4).collect()), [""; 0]);
    // The reverse paths of frames in flight during the move no longer lead back.
    world.astray.clear();
}

#[test]
fn a_host_whose_cable_is_moved_is_reached_within_a_second() {
    for seed in 0..5 {
        let mut world = World::talking(seed);
        let all = world.all_pairs();
        world.uncable(End::Host(1));
        world.run(100);
        let began = world.now;
        world.cable(End::Host(1), End::Node(3, SECOND));
        world.run(300);
        world.announce(1);
        assert_eq!(world.unreached(&all, 600), [], "seed {seed}");
        assert!(world.now.since(began).as_millis() < 1000);
        wait_until_stable(&mut world);
    }
}

#[test]
fn a_host_that_moves_behind_switches_is_reached_within_a_second() {
    for (seed, announces) in (0..10).map(|i| (i / 2, i % 2 == 0)) {
        let mut world = World::talking(seed);
        let all = world.all_pairs();
        world.power(End::Node(3, SECOND));
        world.run(1000);
        // No port loses carrier: the host no longer answers probes at its old place.
        world.move_quietly(1, End::Node(3, SECOND));
        if announces {
            world.announce(1);
        }
        assert_eq!(world.unreached(&all, 980), [], "seed {seed}, announces: {announces}");
        wait_until_stable(&mut world);
    }
}
