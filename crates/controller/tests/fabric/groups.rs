//! Multicast frames reach exactly the listeners, each once, whatever fails and whatever hosts try.
//! Hosts join by IGMP and MLD as Linux does; the frames that they receive count.

use std::collections::BTreeSet;
use std::net::IpAddr;

use plexus_config::{Members, MulticastRule};
use plexus_control::node::{Event, Unserved};
use plexus_controller::{Config, Drop, Input};
use plexus_plane::DropReason;
use plexus_wire::{MacAddr, Prefix};
use rand::RngExt;

use crate::world::{CONTROL, End, Faults, HOST, SECOND, World, host_group, usual_config};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn rule(groups: &str, members: Members) -> MulticastRule {
    let (address, len) = groups.split_once('/').unwrap();
    MulticastRule { groups: Prefix::new(ip(address), len.parse().unwrap()).unwrap(), members }
}

fn served() -> Config {
    let multicast = vec![
        rule("224.0.0.251/32", Members::All),
        rule("ff02::fb/128", Members::All),
        rule("239.0.0.0/8", Members::Joined),
        rule("ff05::/16", Members::Joined),
    ];
    Config { multicast, ..usual_config() }
}

type Pairs = Vec<(usize, usize)>;

fn ring(n: usize) -> Pairs {
    (0..n).map(|i| (i, (i + 1) % n)).collect()
}

fn complete(n: usize) -> Pairs {
    (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect()
}

fn torus() -> Pairs {
    let at = |x: usize, y: usize| x % 3 + y % 3 * 3;
    let of = |x, y| [(at(x, y), at(x + 1, y)), (at(x, y), at(x, y + 1))];
    (0..9).flat_map(|i| of(i % 3, i / 3)).collect()
}

impl World {
    /// Sends once; returns the hosts that received it, as often as they did.
    fn listeners_of(&mut self, from: usize, group: IpAddr) -> Vec<usize> {
        let number = self.number();
        self.multicast(from, group, number);
        self.run(60);
        let sent = (self.hosts[from].mac, number);
        let times = |h: usize| self.hosts[h].received.iter().filter(|got| **got == sent).count();
        (0..self.hosts.len()).flat_map(|h| vec![h; times(h)]).collect()
    }

    /// Sends until exactly these hosts receive it, within a time limit; then five times more.
    #[track_caller]
    fn assert_listeners(&mut self, from: usize, group: IpAddr, expected: &[usize], within_ms: u64) {
        let end = self.now + std::time::Duration::from_millis(within_ms);
        loop {
            let got = self.listeners_of(from, group);
            // Never twice, and never to others.
            let distinct: BTreeSet<usize> = got.iter().copied().collect();
            assert_eq!(distinct.len(), got.len(), "{got:?} of {group}");
            if got == expected {
                break;
            }
            assert!(self.now < end, "{from} to {group}: {got:?} instead of {expected:?}");
        }
        for _ in 0..5 {
            assert_eq!(self.listeners_of(from, group), expected, "{from} to {group}");
        }
    }

    /// The listening hosts, except one, as far as they are reachable.
    fn joined_with(&self, from: usize, members: &[usize]) -> Vec<usize> {
        let near = self.component(from);
        members.iter().copied().filter(|m| *m != from && near.contains(m)).collect()
    }
}

fn unserved(world: &mut World, node: usize, why: Unserved) -> usize {
    let events = &world.node(node).events;
    events.iter().filter(|e| **e == Event::Dropped(HOST, why)).count()
}

fn refused(world: &mut World, why: Drop) -> u64 {
    world.brain(0).core.drops().filter(|(d, _)| *d == why).map(|(_, n)| n).sum()
}

#[test]
fn exactly_the_members_get_each_frame_once_before_and_after_every_failure() {
    let group = ip("239.1.2.3");
    for (nodes, pairs) in [(4, ring(4)), (4, complete(4)), (9, torus())] {
        let mut world = World::joined_as(nodes, &pairs, 3, served());
        let members: Vec<usize> = (0..nodes).step_by(2).collect();
        members.iter().for_each(|&m| world.join_group(m, group));
        world.run(100);
        // A member and one that only sends.
        for from in [1, 2] {
            let expected = world.joined_with(from, &members);
            world.assert_listeners(from, group, &expected, 300);
        }
        let ends: Vec<End> = world.link_ends(nodes, &pairs).into_iter().map(|(a, _)| a).collect();
        for (i, end) in ends.into_iter().enumerate() {
            let silent = i % 2 == 1;
            let other = match silent {
                true => {
                    world.silence(end, true);
                    None
                }
                false => world.uncable(end),
            };
            for from in [1, 2] {
                let expected = world.joined_with(from, &members);
                world.assert_listeners(from, group, &expected, if silent { 700 } else { 300 });
            }
            match other {
                Some(other) => world.cable(end, other),
                None => world.silence(end, false),
            }
            world.run(1000);
            for from in [1, 2] {
                let expected = world.joined_with(from, &members);
                world.assert_listeners(from, group, &expected, 300);
            }
        }
        // Neither the controller's node nor the senders' nodes.
        for dead in 3..nodes {
            world.crash_node(dead);
            for from in [1, 2] {
                let expected: Vec<usize> =
                    world.joined_with(from, &members).into_iter().filter(|m| *m != dead).collect();
                world.assert_listeners(from, group, &expected, 500);
            }
            world.start_node(dead);
            world.run(1500);
            world.announce(dead);
            world.run(200);
            for from in [1, 2] {
                let expected = world.joined_with(from, &members);
                world.assert_listeners(from, group, &expected, 500);
            }
        }
        let trees = world.brain(0).core.group_trees().count();
        assert_eq!(trees, 1, "one tree for all senders");
        world.run(3000);
        for n in 0..nodes {
            assert!(world.node(n).node().trees().len() <= 1, "old trees are removed");
        }
    }
}

#[test]
fn the_first_frame_of_a_sender_is_not_lost() {
    let mut world = World::joined_as(4, &ring(4), 5, served());
    let mdns = ip("224.0.0.251");
    assert_eq!(world.listeners_of(1, mdns), [0, 2, 3]);
    assert_eq!(world.listeners_of(2, ip("ff02::fb")), [0, 1, 3]);
    for from in 0..4 {
        for group in [mdns, ip("ff02::fb")] {
            let others: Vec<usize> = (0..4).filter(|h| *h != from).collect();
            world.assert_listeners(from, group, &others, 300);
        }
    }
    // A host that joins later listens as well, and two behind one node receive each other's frames.
    let late = world.host(3, SECOND);
    world.run(500);
    world.announce(late);
    world.run(200);
    world.assert_listeners(3, mdns, &[0, 1, 2, late], 300);
    world.assert_listeners(late, mdns, &[0, 1, 2, 3], 300);
}

#[test]
fn hosts_that_leave_or_fall_silent_get_no_more_frames() {
    let mut world = World::joined_as(3, &[(0, 1), (1, 2)], 6, served());
    for group in [ip("239.9.9.9"), ip("ff05::9")] {
        (0..3).for_each(|h| world.join_group(h, group));
        world.run(100);
        world.assert_listeners(0, group, &[1, 2], 300);
        world.leave_group(2, group);
        world.run(2500);
        assert_eq!(world.listeners_of(0, group), [1]);
        world.join_group(2, group);
        world.run(100);
        world.assert_listeners(0, group, &[1, 2], 300);
        // Queries are answered, so that membership continues, until there is no answer.
        world.run(300_000);
        assert_eq!(world.listeners_of(0, group), [1, 2]);
        world.hosts[1].answers_queries = false;
        world.run(400_000);
        assert_eq!(world.listeners_of(0, group), [2]);
        world.hosts[1].answers_queries = true;
    }
}

#[test]
fn a_member_that_moves_is_followed() {
    let group = ip("239.1.1.1");
    let mut world = World::joined_as(4, &ring(4), 7, served());
    world.join_group(2, group);
    world.run(100);
    world.assert_listeners(0, group, &[2], 300);
    world.uncable(End::Host(2));
    world.cable(End::Host(2), End::Node(3, SECOND));
    world.run(400);
    world.announce(2);
    world.run(500);
    world.assert_listeners(0, group, &[2], 500);
}

#[test]
fn tenants_do_not_hear_each_other() {
    let groups =
        vec![host_group("red", ["node1", "node3"]), host_group("blue", ["node2", "node4"])];
    let config = Config { groups, strangers_may_talk: false, ..served() };
    let mut world = World::joined_as(4, &ring(4), 8, config);
    let joined = ip("239.1.2.3");
    (0..4).for_each(|h| world.join_group(h, joined));
    world.run(100);
    for (from, other) in [(0, 2), (1, 3), (2, 0), (3, 1)] {
        for group in [joined, ip("224.0.0.251"), ip("ff02::fb")] {
            world.assert_listeners(from, group, &[other], 300);
        }
    }
    // Nor when a cable is removed, nor under a new controller.
    world.uncable(End::Node(0, 0));
    world.crash_controller(0);
    let new = world.start_controller();
    world.cable(End::Controller(new), End::Node(2, CONTROL));
    for _ in 0..60 {
        for from in 0..4 {
            let got = world.listeners_of(from, joined);
            assert!(got.iter().all(|h| h % 2 == from % 2), "{from}: {got:?}");
        }
    }
    for (from, other) in [(0, 2), (1, 3), (2, 0), (3, 1)] {
        world.assert_listeners(from, joined, &[other], 300);
    }
}

#[test]
fn a_host_that_changes_its_tenant_changes_its_listeners() {
    let groups =
        |red: [&str; 2], blue: [&str; 2]| vec![host_group("red", red), host_group("blue", blue)];
    let before = groups(["node1", "node3"], ["node2", "node4"]);
    let config = Config { groups: before, strangers_may_talk: false, ..served() };
    let mut world = World::joined_as(4, &ring(4), 13, config.clone());
    let group = ip("239.1.2.3");
    (0..4).for_each(|h| world.join_group(h, group));
    world.run(100);
    for (from, other) in [(0, 2), (1, 3), (2, 0), (3, 1)] {
        world.assert_listeners(from, group, &[other], 300);
    }
    let after = groups(["node1", "node2"], ["node3", "node4"]);
    let now = world.now;
    let configure = Input::Configure(Box::new(Config { groups: after, ..config }));
    world.brain(0).core.handle(now, configure);
    world.run(300);
    for (from, other) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
        world.assert_listeners(from, group, &[other], 300);
    }
}

#[test]
fn trees_stay_while_the_controllers_cable_is_carried_elsewhere() {
    let group = ip("239.1.2.3");
    let mut world = World::joined_as(4, &ring(4), 14, served());
    [0, 2, 3].iter().for_each(|&m| world.join_group(m, group));
    world.run(100);
    world.assert_listeners(1, group, &[0, 2, 3], 300);
    world.uncable(End::Controller(0));
    for _ in 0..10 {
        assert_eq!(world.listeners_of(1, group), [0, 2, 3], "without a cable");
    }
    world.cable(End::Controller(0), End::Node(2, CONTROL));
    for _ in 0..30 {
        assert_eq!(world.listeners_of(1, group), [0, 2, 3], "at another node");
    }
    world.leave_group(3, group);
    world.run(2500);
    world.assert_listeners(1, group, &[0, 2], 300);
}

#[test]
fn trees_outlive_the_controller_and_its_successor_takes_them_over() {
    let group = ip("239.1.2.3");
    let mut world = World::joined_as(4, &ring(4), 9, served());
    [0, 2, 3].iter().for_each(|&m| world.join_group(m, group));
    world.run(100);
    world.assert_listeners(1, group, &[0, 2, 3], 300);
    world.crash_controller(0);
    for _ in 0..20 {
        world.run(300);
        assert_eq!(world.listeners_of(1, group), [0, 2, 3], "without a controller");
    }
    let new = world.start_controller();
    world.cable(End::Controller(new), End::Node(2, CONTROL));
    for _ in 0..60 {
        assert_eq!(world.listeners_of(1, group), [0, 2, 3], "while it learns");
    }
    world.run(3000);
    let views: Vec<_> = world.brain(new).core.group_trees().collect();
    assert_eq!((views.len(), views[0].listeners), (1, 3), "{views:?}");
    let number = views[0].tree.unwrap();
    for n in 0..4 {
        let known: Vec<u32> = world.node(n).node().trees().iter().map(|(t, _)| *t).collect();
        assert_eq!(known, [number], "node {n} holds nothing of the old one");
    }
    // It acts on its knowledge too.
    world.uncable(End::Node(0, 0));
    world.assert_listeners(1, group, &[0, 2, 3], 300);
    world.join_group(1, group);
    world.run(100);
    world.assert_listeners(0, group, &[1, 2, 3], 300);
}

/// Messages are lost, duplicated and reordered, cables are removed and restored, hosts join and
/// leave: in the end the trees are right, and none is left over.
#[test]
fn lossy_cables_and_many_changes_leave_the_right_trees() {
    let group = ip("239.1.2.3");
    for seed in 0..6 {
        let mut world = World::joined_as(4, &complete(4), seed, served());
        let ends: Vec<End> = world.link_ends(4, &complete(4)).into_iter().map(|(a, _)| a).collect();
        let mut members = BTreeSet::new();
        world.faults = Faults { lost: 15, repeated: 10, late: 20 };
        for _ in 0..60 {
            let (host, from) = (world.random.random_range(0..4), world.random.random_range(0..4));
            if members.remove(&host) {
                world.leave_group(host, group);
            } else {
                members.insert(host);
                world.join_group(host, group);
            }
            let number = world.number();
            world.multicast(from, group, number);
            let cut = ends[world.random.random_range(0..ends.len())];
            if world.random.random_range(0..4) == 0 {
                let other = world.uncable(cut).unwrap();
                let ms = world.random.random_range(1..150);
                world.run(ms);
                world.cable(cut, other);
            }
            let ms = world.random.random_range(1..100);
            world.run(ms);
        }
        world.faults = Faults::default();
        world.run(4000);
        // A listener, so that there is a tree.
        members.insert(3);
        world.join_group(3, group);
        world.run(1000);
        for from in 0..3 {
            let expected: Vec<usize> = members.iter().copied().filter(|m| *m != from).collect();
            world.assert_listeners(from, group, &expected, 1500);
        }
        world.run(4000);
        let held = |n: usize| world.nodes[n].as_ref().unwrap().node().trees();
        let numbers: BTreeSet<u32> = (0..4).flat_map(held).map(|(tree, _)| tree).collect();
        assert_eq!(numbers.len(), 1, "seed {seed}: {numbers:?}");
    }
}

#[test]
fn nothing_is_flooded_without_a_rule() {
    let mut world = World::joined_as(3, &[(0, 1), (1, 2)], 10, usual_config());
    let group = ip("239.1.2.3");
    (0..3).for_each(|h| world.join_group(h, group));
    for _ in 0..5 {
        assert_eq!(world.listeners_of(0, group), [0; 0]);
    }
    assert_eq!(unserved(&mut world, 0, Unserved::NotFlooded), 5);
    // Nor to groups without a rule, where other groups have rules.
    let mut world = World::joined_as(3, &[(0, 1), (1, 2)], 10, served());
    let other = ip("238.1.2.3");
    (0..3).for_each(|h| world.join_group(h, other));
    world.run(100);
    assert_eq!(unserved(&mut world, 1, Unserved::GroupRefused), 1);
    assert_eq!(world.listeners_of(0, other), [0; 0]);
    // The fabric answers these groups itself, so no host can join them.
    world.join_group(1, ip("224.0.0.1"));
    world.join_group(1, ip("ff02::1:ff00:7"));
    world.run(100);
    assert_eq!(world.listeners_of(0, ip("224.0.0.1")), [0; 0]);
    assert_eq!(world.brain(0).core.group_trees().count(), 0);
}

/// Defence: the joins of one port are bounded, at the node and at the controller, and others' joins
/// still work.
#[test]
fn a_flood_of_joins_is_cut_and_counted() {
    let mut config = served();
    config.limits.groups_per_port = 20;
    config.limits.senders_per_port = 8;
    let mut world = World::joined_as(3, &[(0, 1), (1, 2)], 11, config);
    for n in 0..200u32 {
        world.join_group(1, IpAddr::from((0xEF02_0000 + n).to_be_bytes()));
        world.run(2);
    }
    assert!(unserved(&mut world, 1, Unserved::TooManyGroups) >= 136);
    assert!(refused(&mut world, Drop::TooManyGroups) > 0);
    let all: usize = world.node(1).node().group_members().iter().map(|(_, _, g)| g.len()).sum();
    assert!(all <= 64, "{all}");
    for n in 0..200u32 {
        let number = world.number();
        world.multicast(1, IpAddr::from((0xEF03_0000 + n).to_be_bytes()), number);
        world.run(20);
    }
    world.run(2000);
    let from_it: usize = world.brain(0).core.group_trees().map(|t| t.senders.len()).sum();
    assert!(from_it <= 8, "{from_it}");
    let group = ip("239.7.7.7");
    world.join_group(2, group);
    world.run(100);
    world.assert_listeners(0, group, &[2], 300);
}

/// Defence: a station that is not admitted neither joins nor sends.
#[test]
fn an_unproved_station_cannot_join() {
    let mut config = served();
    config.limits.stations_per_port = 1;
    let group = ip("239.1.2.3");
    let mut world = World::joined_as(3, &[(0, 1), (1, 2)], 12, config);
    let own = world.hosts[1].mac;
    // A second station behind the same port.
    world.hosts[1].mac = MacAddr([2, 0xBA, 0xD, 0, 0, 1]);
    world.join_group(1, group);
    let number = world.number();
    world.multicast(1, group, number);
    world.run(300);
    assert!(world.node(1).node().group_members().is_empty());
    assert_eq!(world.brain(0).core.group_trees().count(), 0);
    // A forged sender does not get the frames either: the true station joins itself.
    world.hosts[1].mac = own;
    world.join_group(1, group);
    world.run(100);
    world.assert_listeners(0, group, &[1], 300);
    assert_eq!(world.node(1).drops(HOST, DropReason::ControlRate), 0);
}
