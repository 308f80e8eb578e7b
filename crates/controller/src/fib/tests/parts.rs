//! Tables that are shared out among forwarders: each has what it is to have, whatever changes.

use std::net::IpAddr;

use plexus_config::Forwarder;
use plexus_wire::fabric::{Holders, Partition};

use super::*;

/// Networks of both families and of all lengths, near and far from each other.
fn spread(n: u64) -> Prefix {
    let bits = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let v4 = [0, 7, 12, 15, 16, 17, 24, 24, 24, 32];
    let v6 = [0, 19, 24, 27, 28, 29, 32, 48, 48, 64];
    let (addr, len): (IpAddr, u8) = match n % 3 {
        0 => {
            let addr = 0x2000_0000_0000_0000_u64 | bits >> 8;
            ((u128::from(addr) << 64).to_be_bytes().into(), v6[(n / 3 % 10) as usize])
        }
        _ => {
            let addr = [20 + (bits >> 61) as u8, (bits >> 59) as u8 & 3, (bits >> 30) as u8, 0];
            (addr.into(), v4[(n / 3 % 10) as usize])
        }
    };
    Prefix::around(addr, len).unwrap()
}

/// `copies` of 0: whole tables.
fn shared(weights: &[u8], copies: u8) -> Config {
    let mut near = plexus_config::Subnet::new("fd00::/64".parse().unwrap());
    near.gateway = Some("fd00::fe".parse().unwrap());
    let subnets = config().subnets.into_iter().chain([near]).collect();
    let forwarder = |(n, &weight): (usize, &u8)| Forwarder { node: format!("n{n}"), weight };
    Config {
        subnets,
        forwarders: weights.iter().enumerate().map(forwarder).collect(),
        copies: (copies > 0).then_some(copies),
        ..config()
    }
}

/// The first address of each part that a prefix covers; `None`: of too many.
fn parts(prefix: &Prefix) -> Option<Vec<IpAddr>> {
    match prefix.addr() {
        IpAddr::V4(a) => {
            let count = 1_u32.checked_shl(16_u32.saturating_sub(prefix.len().into()))?;
            let part = |n| Ipv4Addr::from_bits(a.to_bits() + (n << 16)).into();
            (count <= 256).then(|| (0..count).map(part).collect())
        }
        IpAddr::V6(a) => {
            let count = 1_u128.checked_shl(28_u32.saturating_sub(prefix.len().into()))?;
            let part = |n| std::net::Ipv6Addr::from_bits(a.to_bits() + (n << 100)).into();
            (count <= 256).then(|| (0..count).map(part).collect())
        }
    }
}

/// Whether a forwarder is to have a route, told in the simplest way.
fn is_to_have(partition: &Partition, forwarder: u8, prefix: &Prefix) -> bool {
    let Some(parts) = parts(prefix) else { return true };
    parts.iter().any(|address| partition.holders(*address).contains(forwarder))
}

/// The route of an address.
fn longest(routes: &BTreeMap<Prefix, u8>, address: IpAddr) -> Option<(Prefix, u8)> {
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let around = |len| Prefix::around(address, len).unwrap();
    (0..=longest).rev().map(around).find_map(|prefix| Some((prefix, *routes.get(&prefix)?)))
}

impl World {
    /// Where each route of a node leads.
    fn has(&self, node: usize) -> BTreeMap<Prefix, u8> {
        let last = |target: &FibTarget| match target {
            FibTarget::Hosts(hops) => match hops[0].via {
                IpAddr::V4(via) => via.octets()[3],
                IpAddr::V6(via) => via.octets()[15],
            },
            other => panic!("{other:?}"),
        };
        self.nodes[node].routes.iter().map(|(prefix, target)| (*prefix, last(target))).collect()
    }

    fn reconfigure(&mut self, config: Config) {
        self.config = config.clone();
        self.input(Input::Configure(Box::new(config)));
    }

    /// A minute passes: what waits for its time has happened.
    fn pass(&mut self) {
        for _ in 0..64 {
            self.tick(Duration::from_secs(1));
            self.settle();
        }
    }

    /// Each forwarder has its part of the kernel's routes, and its part alone.
    fn compare_parts(&self) {
        assert!(self.core.fib.withheld.is_empty(), "all are told that their tables are complete");
        let Some(partition) = self.config.partition() else {
            assert!(self.copies().all(|node| self.has(node) == self.kernel));
            return;
        };
        let tables: Vec<_> = self.copies().map(|node| self.has(node)).collect();
        for (forwarder, table) in (0..).zip(&tables) {
            assert!(self.nodes[usize::from(forwarder)].has_routes, "forwarder {forwarder}");
            let own = self.kernel.iter();
            let own = own.filter(|(prefix, _)| is_to_have(&partition, forwarder, prefix));
            assert_eq!(*table, own.map(|(prefix, to)| (*prefix, *to)).collect(), "{forwarder}");
            let told = self.core.fib.routes_of(u32::from(forwarder));
            assert_eq!(told, Some(table.len()));
        }
        let has = |prefix: &Prefix| tables.iter().filter(|t| t.contains_key(prefix)).count();
        let copies = usize::from(self.config.copies.unwrap()).min(tables.len());
        for prefix in self.kernel.keys() {
            let is_in_one = parts(prefix).is_some_and(|parts| parts.len() == 1);
            assert!(if is_in_one { has(prefix) == copies } else { has(prefix) >= copies });
        }
        // Whoever holds an address decides as the whole table does.
        let ends = self.kernel.keys().flat_map(|prefix| [prefix.addr(), prefix.last()]);
        let others = (0..200).map(|n| spread(n * 3 + 1).last());
        for address in ends.chain(others).collect::<Vec<_>>() {
            let holders: Holders = partition.holders(address);
            assert_eq!(holders.iter().count(), copies);
            for holder in holders.iter() {
                let found = longest(&tables[usize::from(holder)], address);
                assert_eq!(found, longest(&self.kernel, address), "{address} at {holder}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever changes, is lost or starts again, in the end each forwarder has the routes of its
    /// parts, and the sum that it was told is theirs.
    #[test]
    fn each_forwarder_ends_with_its_parts(
        seed: u64,
        weights in prop::collection::vec(1u8..=2, 1..=4),
        copies in prop::collection::vec(0u8..=4, 1..4),
        steps in prop::collection::vec((0u8..60, 0u64..90, 1u8..9), 1..150),
        (losses, late) in (0u64..60, 0u64..60),
    ) {
        let nodes = weights.len();
        let config = |n: usize| shared(&weights, copies[n % copies.len()].min(nodes as u8));
        let mut world = heard(nodes, seed, config(0));
        (world.losses, world.late) = (losses, late);
        let mut changes = 0;
        for (what, n, to) in steps {
            let index = n as usize % nodes;
            match what {
                0 => world.restart(),
                1 => {
                    world.nodes[index] = Node::default();
                    world.node_up(index);
                }
                2 => world.input(Input::NodeDown { node: index as u64 + 1 }),
                3 => world.node_up(index),
                4 | 5 => {
                    changes += 1;
                    world.reconfigure(config(changes));
                }
                6..=16 => world.set(spread(n), None),
                17..=24 => world.deliver(),
                25..=28 => world.tick(Duration::from_millis(200 * u64::from(to))),
                _ => world.set(spread(n), Some(to)),
            }
        }
        (0..nodes).for_each(|node| world.node_up(node));
        world.settle();
        world.pass();
        world.compare_parts();
    }
}

/// A world whose nodes are heard, so that they are told of forwarders.
fn heard(nodes: usize, seed: u64, config: Config) -> World {
    let mut world = World::configured(nodes, seed, config);
    world.are_heard = true;
    world
}

/// So many routes at three nodes.
fn filled(config: Config, routes: u64) -> World {
    let mut world = heard(3, 1, config);
    (0..routes).for_each(|n| world.set(spread(n), Some((n % 5) as u8 + 1)));
    world.settle();
    world.pass();
    world.compare_parts();
    world
}

#[test]
fn a_change_is_told_to_its_holders_and_moves_the_versions_of_all() {
    let mut world = filled(shared(&[1, 1, 1], 1), 3000);
    let before: Vec<_> = (0..3).map(|node| world.has(node)).collect();
    let spare: Prefix = "60.7.1.0/24".parse().unwrap();
    world.set(spare, Some(3));
    world.settle();
    let holder = world.config.partition().unwrap().holders(spare.addr()).iter().next().unwrap();
    for (node, before) in before.iter().enumerate() {
        let has = world.has(node);
        assert_eq!(has.contains_key(&spare), node == usize::from(holder));
        assert!(before.iter().all(|(prefix, to)| has.get(prefix) == Some(to)));
    }
    world.compare_parts();
}

#[test]
fn while_the_parts_change_no_route_that_is_in_use_is_missing() {
    let mut world = filled(shared(&[1, 1, 1], 1), 3000);
    let steps = [
        shared(&[1, 1, 1], 2),
        shared(&[2, 1, 1], 1),
        shared(&[1, 1, 1], 0),
        shared(&[1, 2, 3], 1),
        shared(&[1, 1], 1),
        shared(&[1, 1, 1], 2),
    ];
    for config in steps {
        let (before, after) = (world.config.partition(), config.partition());
        world.told.clear();
        world.reconfigure(config);
        // Nodes choose by the old parts until all are told of the new ones, and a second longer.
        let holds = |partition: &Option<Partition>, node: usize, prefix: &Prefix| {
            partition.as_ref().is_none_or(|p| is_to_have(p, node as u8, prefix))
        };
        let mut follow = 0;
        for _ in 0..2000 {
            let is_told = !world.told.is_empty();
            let in_force = if is_told { &after } else { &before };
            for node in 0..3 {
                let has = world.has(node);
                let is_one =
                    |p: &Option<Partition>| p.as_ref().is_none_or(|p| node < p.forwarders());
                if !is_one(in_force) || (is_told && !is_one(&before)) {
                    continue;
                }
                let missing = world.kernel.keys().find(|prefix| {
                    let is_used = holds(in_force, node, prefix)
                        || (follow < 20 && holds(&before, node, prefix));
                    is_used && !has.contains_key(prefix)
                });
                assert_eq!(missing, None, "node {node}, told: {is_told}");
            }
            follow += u32::from(is_told);
            if follow > 100 {
                break;
            }
            world.deliver();
            world.tick(Duration::from_millis(50));
        }
        assert!(follow > 100, "nodes are told");
        world.pass();
        world.compare_parts();
    }
}

#[test]
fn a_change_that_is_taken_back_at_once_leaves_no_table_incomplete() {
    for (first, then) in [(0, 1), (1, 2), (1, 0)] {
        let mut world = filled(shared(&[1, 1, 1], first), 300);
        world.reconfigure(shared(&[1, 1, 1], then));
        world.deliver();
        world.reconfigure(shared(&[1, 1, 1], first));
        world.set(spread(7), None);
        world.pass();
        world.compare_parts();
    }
}

#[test]
fn a_forwarder_that_was_none_for_a_time_gets_a_table_again() {
    let mut world = filled(shared(&[1, 1, 1], 1), 300);
    world.reconfigure(shared(&[1, 1], 1));
    world.pass();
    world.compare_parts();
    world.reconfigure(shared(&[1, 1, 1], 1));
    world.pass();
    world.compare_parts();
}

#[test]
fn nodes_are_told_of_a_forwarder_in_place_of_another_once_it_has_its_part() {
    let mut world = filled(shared(&[1, 1], 1), 3000);
    let left = world.has(1);
    let mut config = world.config.clone();
    config.forwarders[1].node = "n2".into();
    world.told.clear();
    world.reconfigure(config);
    let is_named = |world: &World| world.told.iter().any(|(n, t)| *n == 2 && t.paths[1] == [0xFE]);
    for _ in 0..1000 {
        if is_named(&world) {
            break;
        }
        assert!(world.has(1) == left, "it goes on");
        world.deliver();
        world.tick(Duration::from_millis(50));
    }
    assert!(is_named(&world) && world.has(2) == left);
    assert!(world.nodes[2].has_routes && world.nodes[1].has_routes);
}
