//! Hosts of groups that may not talk to each other do not reach each other, whatever they know.

use crate::world::{CONTROL, End, World, host_group, usual_config};

#[test]
fn hosts_of_different_groups_do_not_reach_each_other() {
    let groups =
        vec![host_group("red", ["node1", "node3"]), host_group("blue", ["node2", "node4"])];
    let config = plexus_controller::Config { groups, strangers_may_talk: false, ..usual_config() };
    let mut world = World::joined_as(4, &[(0, 1), (1, 2), (2, 3), (3, 0)], 1, config);
    let all = world.all_pairs();
    let across: Vec<_> = all.iter().copied().filter(|(a, b)| a % 2 != b % 2).collect();
    assert_eq!(world.unreached(&all, 1000), across);
    // Knowing the other's addresses does not help.
    for &(from, to) in &across {
        let (ip, mac) = (world.hosts[to].ip, world.hosts[to].mac);
        world.hosts[from].arp.insert(ip, mac);
    }
    assert_eq!(world.unreached(&across, 300), across);
    // Nor does a new controller, which learns hosts and flows from reports.
    world.crash_controller(0);
    let new = world.start_controller();
    world.cable(End::Controller(new), End::Node(2, CONTROL));
    world.run(3000);
    assert_eq!(world.unreached(&all, 1000), across);
    for n in 0..4 {
        let own = |r: &plexus_wire::fabric::message::RouteEntry| {
            usize::from(r.destination.0[5] - 1) % 2 == n % 2
        };
        assert!(world.node(n).node().routes().iter().all(own), "node {n}");
    }
}
