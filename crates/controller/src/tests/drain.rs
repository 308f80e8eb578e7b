//! Drained nodes: routes lead around them before work on them.

use std::collections::BTreeSet;

use plexus_config::RoutePolicy;

use super::failures::{all_talking, config};
use super::net::Net;
use crate::{Config, Input, NodeId};

const POLICIES: [RoutePolicy; 3] = [RoutePolicy::Shortest, RoutePolicy::Ecmp, RoutePolicy::Spain];

/// Drains these nodes and no others, and waits until routes are improved.
fn drain(net: &mut Net, policy: RoutePolicy, nodes: &[NodeId]) {
    let drained = nodes.iter().map(|id| format!("s{id}")).collect();
    net.input(Input::Configure(Box::new(Config { drained, ..config(policy) })));
    net.wait_s(3);
}

/// Nodes on the way of all routes between hosts, without their ends.
fn on_way(net: &Net) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    for (id, node) in &net.nodes {
        for hops in node.memory.values().flat_map(|entry| &entry.routes) {
            let mut at = *id;
            let mut way = Vec::new();
            for hop in &hops[..hops.len() - 1] {
                at = net.nodes[&at].cables[hop].0;
                way.push(at);
            }
            way.pop();
            found.extend(way);
        }
    }
    found
}

/// Every host still reaches every other.
fn assert_all_reached(net: &Net, hosts: u8) {
    for from in 1..=hosts {
        for to in (1..=hosts).filter(|to| *to != from) {
            assert!(net.delivers(from, to), "{from} to {to}");
        }
    }
}

#[test]
fn routes_lead_around_a_drained_node_and_its_own_hosts_stay_reachable() {
    for policy in POLICIES {
        let ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)];
        let mut net = all_talking(policy, 5, &ring);
        let busy = *on_way(&net).first().expect("some node is between two others");
        drain(&mut net, policy, &[busy]);
        assert!(!on_way(&net).contains(&busy), "{policy:?}: {:?}", on_way(&net));
        assert_eq!(net.controller.drained(), [(busy, 0)]);
        assert_all_reached(&net, 5);
        // New routes avoid it too.
        net.add_host(6, 1, 9);
        for to in 2..=5 {
            net.resolve(6, to);
            assert!(net.delivers(6, to) && !on_way(&net).contains(&busy), "{policy:?}, to {to}");
        }
        // When the work is over, the shortest paths are used again.
        drain(&mut net, policy, &[]);
        assert!(net.controller.drained().is_empty());
        let is_used = on_way(&net).contains(&busy);
        assert!(is_used || policy == RoutePolicy::Spain, "{policy:?}");
        assert_all_reached(&net, 5);
    }
}

#[test]
fn where_there_is_no_way_around_routes_stay_and_are_counted() {
    for policy in POLICIES {
        let mut net = all_talking(policy, 3, &[(0, 1), (1, 2)]);
        drain(&mut net, policy, &[2]);
        assert_all_reached(&net, 3);
        // From the first host to the third, and back.
        assert_eq!(net.controller.drained(), [(2, 2)], "{policy:?}");
    }
}

#[test]
fn a_node_that_is_drained_before_it_comes_is_avoided() {
    let policy = RoutePolicy::Shortest;
    let config = Config { drained: vec!["s2".into()], ..config(policy) };
    let mut net = Net::joined(config, 4, &[(0, 1), (1, 2), (2, 3), (3, 0)]).with_hosts();
    net.resolve(1, 3);
    assert!(net.delivers(1, 3));
    assert_eq!(on_way(&net), [4].into());
}
