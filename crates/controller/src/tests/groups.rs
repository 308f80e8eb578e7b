use std::net::IpAddr;

use plexus_config::{ControllerLimits, Members, MulticastRule};
use plexus_wire::fabric::message::{
    Body, GroupMembership, GroupPolicy, GroupRoute, GroupSender, TreeUpdate, TreesReady,
};
use plexus_wire::{MacAddr, Prefix};

use super::net::{HOST_PORT, NODE_PORT, Net, mac};
use crate::{Config, Drop, Input, NodeId};

fn group(n: u8) -> IpAddr {
    [239, 1, 1, n].into()
}

fn served(limits: ControllerLimits) -> Config {
    let groups = Prefix::new([239, 0, 0, 0].into(), 8).unwrap();
    let multicast = vec![MulticastRule { groups, members: Members::Joined }];
    Config { multicast, limits, ..Config::default() }
}

/// Three nodes in a line, a host at each.
fn line(limits: ControllerLimits) -> Net {
    let mut net = Net::joined(served(limits), 3, &[(0, 1), (1, 2)]).with_hosts();
    net.taken(|body| Some(body.kind()));
    net
}

fn joins(net: &mut Net, host: u8, version: u64, groups: &[IpAddr]) {
    let groups = groups.to_vec();
    let body = GroupMembership { port: HOST_PORT, mac: mac(host), version, groups };
    net.say(host.into(), body);
}

fn sends(net: &mut Net, host: u8, group: IpAddr, tree: Option<u32>) {
    net.say(host.into(), GroupSender { port: HOST_PORT, mac: mac(host), group, tree });
}

fn updates(net: &mut Net) -> Vec<(NodeId, TreeUpdate)> {
    net.taken(|body| match body {
        Body::TreeUpdate(update) => Some(update.clone()),
        _ => None,
    })
}

/// Node, tree and ports of what was added.
fn added(net: &mut Net) -> Vec<(NodeId, u32, Vec<u8>)> {
    let all = updates(net).into_iter();
    all.flat_map(|(n, u)| u.add.into_iter().map(move |e| (n, e.tree, e.ports))).collect()
}

fn routes(net: &mut Net) -> Vec<(NodeId, GroupRoute)> {
    let all = net.taken(|body| match body {
        Body::GroupRoutes(routes) => Some(routes.routes.clone()),
        _ => None,
    });
    all.into_iter().flat_map(|(n, r)| r.into_iter().map(move |r| (n, r))).collect()
}

fn ready(net: &mut Net, node: NodeId, tree: u32) {
    net.say(node, TreesReady { trees: vec![tree] });
}

#[test]
fn a_sender_changes_over_when_every_node_has_the_new_tree() {
    let mut net = line(ControllerLimits::default());
    joins(&mut net, 3, 1, &[group(1)]);
    net.wait_ms(50);
    assert_eq!(added(&mut net), [], "there is no sender");
    sends(&mut net, 1, group(1), None);
    let first = added(&mut net);
    let tree = first[0].1;
    // Only towards the listener; node 2 has the link to node 3 as its second.
    let parts = [(1, vec![NODE_PORT]), (2, vec![NODE_PORT + 1]), (3, vec![HOST_PORT])];
    assert_eq!(first, parts.map(|(node, ports)| (node, tree, ports)));
    ready(&mut net, 3, tree);
    ready(&mut net, 1, tree);
    ready(&mut net, 1, tree);
    assert_eq!(routes(&mut net), [], "node 2 has not answered");
    ready(&mut net, 2, tree);
    let told = routes(&mut net);
    let [(1, route)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((route.tree, route.credits), (Some(tree), 1));
    assert_eq!((route.source, Some(route.group)), (mac(1), MacAddr::of_group(group(1))));
    // Another listener: another tree, and the old one until the sender has switched.
    joins(&mut net, 2, 1, &[group(1)]);
    net.wait_ms(30);
    let second = added(&mut net);
    let newer = second[0].1;
    assert!(newer != tree && second.len() == 3, "{second:?}");
    assert_eq!(second[1].2, [NODE_PORT + 1, HOST_PORT]);
    for node in [2, 1] {
        ready(&mut net, node, newer);
    }
    net.wait_ms(500);
    assert!(routes(&mut net).is_empty() && updates(&mut net).is_empty());
    ready(&mut net, 3, newer);
    assert_eq!(routes(&mut net)[0].1.tree, Some(newer));
    net.wait_ms(1900);
    assert!(updates(&mut net).is_empty(), "frames may be under way");
    net.keep_alive();
    net.wait_ms(200);
    let removed: Vec<_> =
        updates(&mut net).into_iter().filter(|(_, u)| !u.remove.is_empty()).collect();
    assert_eq!(removed.len(), 3);
    assert!(removed.iter().all(|(_, u)| u.remove == [tree] && u.add.is_empty()));
}

#[test]
fn trees_of_an_earlier_incarnation_are_left_alone_until_all_may_have_reported() {
    let mut net = line(ControllerLimits::default());
    sends(&mut net, 1, group(1), Some(77));
    joins(&mut net, 2, 9, &[group(1)]);
    net.wait_ms(1000);
    assert_eq!(added(&mut net), [], "there may be other listeners");
    // Another group, which has no tree, need not wait.
    joins(&mut net, 3, 4, &[group(1), group(2)]);
    sends(&mut net, 1, group(2), None);
    assert_eq!(added(&mut net).len(), 3);
    net.keep_alive();
    net.wait_ms(1100);
    let all = added(&mut net);
    assert_eq!(all.len(), 3);
    assert!(all[1].2.contains(&HOST_PORT) && all[2].2.contains(&HOST_PORT), "{all:?}");
    for (node, tree, _) in all {
        ready(&mut net, node, tree);
    }
    assert!(routes(&mut net).iter().any(|(node, r)| *node == 1 && r.tree.is_some()));
    net.keep_alive();
    net.wait_ms(2000);
    let earlier = updates(&mut net).into_iter().filter(|(_, u)| u.earlier);
    assert_eq!(earlier.map(|(node, _)| node).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn state_created_by_hosts_is_bounded_and_counted() {
    let limits = ControllerLimits {
        trees: 2,
        groups_per_port: 3,
        senders_per_port: 4,
        ..Default::default()
    };
    let mut net = line(limits);
    let many: Vec<IpAddr> = (1..=10).map(group).collect();
    joins(&mut net, 3, 1, &many);
    for which in &many {
        sends(&mut net, 1, *which, None);
    }
    joins(&mut net, 2, 1, &["10.0.0.1".parse().unwrap(), "238.1.1.1".parse().unwrap()]);
    sends(&mut net, 2, "224.0.0.1".parse().unwrap(), None);
    net.wait_ms(50);
    assert!(net.controller.group_trees().count() <= 2);
    let count = |why: Drop| {
        net.controller.drops().filter(|(drop, _)| *drop == why).map(|(_, n)| n).sum::<u64>()
    };
    assert_eq!(count(Drop::TooManyGroups), 1 + 6);
    assert_eq!(count(Drop::GroupNotServed), 2);
    assert!(count(Drop::TooManyTrees) > 0);
}

/// A node can report trees of any number of groups; the controller waits for no more than the
/// limit.
#[test]
fn trees_that_are_said_to_be_there_are_remembered_up_to_the_limit() {
    let mut net = line(ControllerLimits { trees: 2, ..ControllerLimits::default() });
    for n in 1..=3 {
        sends(&mut net, 1, group(n), Some(70 + u32::from(n)));
    }
    joins(&mut net, 2, 9, &[group(1), group(3)]);
    net.wait_ms(50);
    assert_eq!(added(&mut net).len(), 2, "that of group 3, at two nodes");
    assert_eq!(net.controller.group_trees().map(|t| t.ips).collect::<Vec<_>>(), [[group(3)]]);
}

#[test]
fn new_settings_end_trees_that_they_no_longer_serve() {
    let mut net = line(ControllerLimits::default());
    joins(&mut net, 3, 1, &[group(1)]);
    sends(&mut net, 1, group(1), None);
    for (node, tree, _) in added(&mut net) {
        ready(&mut net, node, tree);
    }
    assert_eq!(routes(&mut net).len(), 1);
    net.input(Input::Configure(Box::default()));
    net.wait_ms(30);
    let policies = net.taken(|body| match body {
        Body::GroupPolicy(GroupPolicy { prefixes, .. }) => Some(prefixes.len()),
        _ => None,
    });
    assert_eq!(policies, [(1, 0), (2, 0), (3, 0)]);
    assert!(matches!(&routes(&mut net)[..], [(1, r)] if r.tree.is_none()));
    assert_eq!(net.controller.group_trees().count(), 0);
}
