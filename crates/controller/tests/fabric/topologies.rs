//! Fabrics without failures.

use crate::world::World;

/// Node pairs of a ring.
fn ring(n: usize) -> Vec<(usize, usize)> {
    (0..n).map(|i| (i, (i + 1) % n)).collect()
}

/// Node pairs of a square torus.
fn torus(side: usize) -> Vec<(usize, usize)> {
    let at = |x: usize, y: usize| x % side + y % side * side;
    let of = |x, y| [(at(x, y), at(x + 1, y)), (at(x, y), at(x, y + 1))];
    (0..side * side).flat_map(|i| of(i % side, i / side)).collect()
}

fn all_talk(nodes: usize, pairs: &[(usize, usize)]) {
    let mut world = World::joined(nodes, pairs, 1);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 100), []);
    // Now that routes are in place every packet arrives, once, without any control plane.
    let waiting: u64 = (0..nodes).map(|n| consumed(&mut world, n)).sum();
    for _ in 0..20 {
        assert_eq!(world.unreached_at_once(&all), []);
    }
    let later: u64 = (0..nodes).map(|n| consumed(&mut world, n)).sum();
    assert!(later - waiting < all.len() as u64, "packets pass without the control plane");
    assert!(world.walked > 20 * all.len() as u64);
    assert_eq!(world.stale_routes(&(0..nodes).collect()), [""; 0]);
}

/// Hosts' frames that reached a node's control plane.
fn consumed(world: &mut World, n: usize) -> u64 {
    let counters = world.node(n).pipeline.counters();
    counters.ports[usize::from(crate::world::HOST)].consumed
}

#[test]
fn all_hosts_of_a_torus_reach_each_other() {
    all_talk(9, &torus(3));
}

#[test]
fn a_seed_decides_everything() {
    let run = || {
        let mut world = World::joined(4, &ring(4), 7);
        let all = world.all_pairs();
        world.unreached(&all, 100);
        world.crash_node(2);
        world.run(500);
        world.start_node(2);
        world.run(500);
        world.digest
    };
    assert_eq!(run(), run());
}
