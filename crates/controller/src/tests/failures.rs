use std::collections::BTreeSet;

use plexus_config::{ControllerSettings, RoutePolicy};
use plexus_wire::fabric::message::HostGone;
use proptest::prelude::*;

use super::net::{HOST_PORT, Net, mac};
use crate::{Config, Input, NodeId};

pub(super) fn config(policy: RoutePolicy) -> Config {
    ControllerSettings { policy, ..ControllerSettings::default() }
}

/// Every pair of hosts has asked for each other.
pub(super) fn all_talking(policy: RoutePolicy, nodes: u32, pairs: &[(u32, u32)]) -> Net {
    let mut net = Net::joined(config(policy), nodes, pairs).with_hosts();
    for from in 1..=nodes as u8 {
        for to in (1..=nodes as u8).filter(|to| *to != from) {
            net.resolve(from, to);
        }
    }
    net
}

/// Nodes that working cables and nodes connect with `from`.
fn joined_with(net: &Net, from: NodeId) -> BTreeSet<NodeId> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(id) = open.pop() {
        if net.nodes[&id].up && found.insert(id) {
            let cables = net.nodes[&id].cables.iter();
            let good = cables.filter(|(port, _)| !net.cut.contains(&(id, **port)));
            open.extend(good.map(|(_, (peer, _))| *peer));
        }
    }
    found
}

/// Exactly the connected pairs reach each other, and no node keeps a route to nowhere.
fn check(net: &Net) {
    for from in &net.hosts {
        let reach = joined_with(net, from.at.0);
        // Hosts behind the same port are connected by the switch there.
        for to in net.hosts.iter().filter(|to| to.at != from.at) {
            let (a, b) = (from.mac.0[5], to.mac.0[5]);
            let expected = reach.contains(&to.at.0);
            assert_eq!(net.delivers(a, b), expected, "{a} to {b}, cut {:?}", net.cut);
            let memory = &net.nodes[&from.at.0].memory;
            let held = memory.contains_key(&(from.at.1, Some(from.mac), to.mac));
            assert!(held == expected || !net.nodes[&from.at.0].up, "{a} keeps a route to {b}");
        }
    }
    // The controller reaches every node that is connected with its own.
    let reach = joined_with(net, 1);
    for (id, node) in net.nodes.iter().filter(|(_, n)| n.up) {
        let path = net.paths.get(id).cloned().flatten();
        assert_eq!(path.is_some(), reach.contains(id), "node {id}: {path:?} {node:?}");
        if let Some(path) = path {
            assert_eq!(net.follow(1, &path), Some((*id, 0xFF)));
        }
    }
}

#[test]
fn exactly_the_affected_flows_are_rerouted() {
    // A ring of six: flows between neighbours do not depend on a far cable.
    let ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)];
    let mut net = all_talking(RoutePolicy::Shortest, 6, &ring);
    let crosses = |net: &Net, node: NodeId, hops: &[u8]| {
        let mut at = node;
        hops[..hops.len() - 1].iter().any(|hop| {
            let peer = net.nodes[&at].cables[hop].0;
            let this = [at, peer];
            at = peer;
            this == [1, 2] || this == [2, 1]
        })
    };
    let mut affected = BTreeSet::new();
    for (id, node) in &net.nodes {
        for (key, entry) in &node.memory {
            if crosses(&net, *id, &entry.routes[0]) {
                affected.insert((*id, *key));
            }
        }
    }
    net.updates.clear();
    let port = *net.nodes[&1].cables.iter().find(|(_, (peer, _))| *peer == 2).unwrap().0;
    net.set_cable(1, port, false);
    let updated: Vec<_> =
        net.updates.iter().map(|(id, e)| (*id, (e.port, e.source, e.destination))).collect();
    let distinct: BTreeSet<_> = updated.iter().copied().collect();
    assert_eq!(distinct.len(), updated.len(), "each once");
    assert_eq!(distinct, affected);
    check(&net);
    // Some time after the cable is repaired, routes are short again.
    net.set_cable(1, port, true);
    net.wait_s(3);
    check(&net);
    let hops: usize =
        net.nodes.values().flat_map(|n| n.memory.values()).map(|e| e.routes[0].len()).sum();
    // From each of six: two neighbours, two at distance two, one at three.
    assert_eq!(hops, 6 * (2 * 2 + 2 * 3 + 4));
}

#[test]
fn a_policy_that_weighs_loads_may_come_later() {
    let mut net = all_talking(RoutePolicy::Ecmp, 3, &[(0, 1), (1, 2), (2, 0)]);
    for policy in [RoutePolicy::Spain, RoutePolicy::Shortest, RoutePolicy::Spain] {
        net.input(Input::Configure(Box::new(config(policy))));
        check(&net);
        let port = *net.nodes[&1].cables.keys().next().unwrap();
        net.set_cable(1, port, false);
        check(&net);
        net.set_cable(1, port, true);
        net.wait_s(2);
        check(&net);
    }
}

#[test]
fn a_cable_that_comes_and_goes_keeps_no_flow_on_a_longer_way() {
    // A triangle, and a node beside it.
    let mut net = all_talking(RoutePolicy::Shortest, 4, &[(0, 1), (1, 2), (2, 0), (2, 3)]);
    let port_to = |net: &Net, from: NodeId, to: NodeId| {
        let (port, _) = net.nodes[&from].cables.iter().find(|(_, (peer, _))| *peer == to).unwrap();
        *port
    };
    let hops = |net: &Net| {
        let memory = &net.nodes[&1].memory;
        memory[&(HOST_PORT, Some(mac(1)), mac(2))].routes[0].len()
    };
    let (direct, beside) = (port_to(&net, 1, 2), port_to(&net, 4, 3));
    assert_eq!(hops(&net), 2);
    net.set_cable(1, direct, false);
    net.wait_ms(100);
    assert_eq!(hops(&net), 3);
    net.set_cable(1, direct, true);
    for _ in 0..10 {
        for good in [false, true] {
            net.set_cable(4, beside, good);
            net.wait_ms(250);
            net.keep_alive();
        }
    }
    assert_eq!(hops(&net), 2);
}

#[test]
fn a_leader_in_doubt_takes_no_routes_away_before_it_is_sure_again() {
    let mut net = all_talking(RoutePolicy::Ecmp, 3, &[(0, 1), (1, 2), (2, 0)]);
    net.input(Input::Doubt(true));
    // The node may obey another leader by now.
    net.nodes.get_mut(&3).unwrap().up = false;
    net.wait_s(4);
    assert!(net.controller.nodes().any(|n| !n.up));
    net.nodes.get_mut(&3).unwrap().up = true;
    assert!(net.delivers(1, 3) && net.delivers(2, 3), "the routes still work");
    net.nodes.get_mut(&3).unwrap().up = false;
    net.input(Input::Doubt(false));
    net.wait_ms(50);
    net.nodes.get_mut(&3).unwrap().up = true;
    assert!(!net.delivers(1, 3) && !net.delivers(2, 3), "it is sure that the node is away");
}

#[test]
fn a_silent_node_is_down_after_its_time_and_up_when_heard() {
    let mut net = all_talking(RoutePolicy::Ecmp, 3, &[(0, 1), (1, 2), (2, 0)]);
    net.nodes.get_mut(&3).unwrap().up = false;
    net.wait_s(2);
    assert!(net.controller.nodes().all(|n| n.up));
    net.wait_s(2);
    let up: Vec<bool> = net.controller.nodes().map(|n| n.up).collect();
    assert_eq!(up, [true, true, false]);
    check(&net);
    // It was only cut off: its state and session are unchanged, and it sends a Hello again.
    net.nodes.get_mut(&3).unwrap().up = true;
    net.hello_again(3);
    net.hello(1);
    net.hello(2);
    net.wait_ms(50);
    check(&net);
}

#[test]
fn routes_that_no_header_carries_are_no_routes() {
    let line: Vec<(u32, u32)> = (0..105).map(|i| (i, i + 1)).collect();
    let mut net = Net::joined(config(RoutePolicy::Spain), 106, &line);
    net.add_host(1, 1, HOST_PORT);
    net.add_host(2, 100, HOST_PORT);
    net.add_host(3, 101, HOST_PORT);
    net.resolve(1, 2);
    net.resolve(1, 3);
    assert!(net.delivers(1, 2) && net.delivers(2, 1));
    assert_eq!(net.failures().len(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Cable(usize, bool),
    Kill(u8),
    Revive(u8),
    Resolve(u8, u8),
    Move(u8, u8),
    Gone(u8),
    Seen(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 1..=5_u8;
    prop_oneof![
        3 => (0..8_usize, any::<bool>()).prop_map(|(c, good)| Step::Cable(c, good)),
        1 => (2..=5_u8).prop_map(Step::Kill),
        1 => (2..=5_u8).prop_map(Step::Revive),
        6 => (n.clone(), n.clone()).prop_map(|(a, b)| Step::Resolve(a, b)),
        2 => (n.clone(), n.clone()).prop_map(|(h, at)| Step::Move(h, at)),
        1 => n.clone().prop_map(Step::Gone),
        1 => n.prop_map(Step::Seen),
        2 => (1..3000_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// After any events in any order: every installed route arrives, and once hosts ask again,
    /// exactly the connected pairs reach each other.
    #[test]
    fn no_history_leaves_a_stale_route(steps in proptest::collection::vec(step(), 1..60),
        policy in prop_oneof![Just(RoutePolicy::Shortest), Just(RoutePolicy::Ecmp),
            Just(RoutePolicy::Spain)])
    {
        let pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (0, 2), (1, 3)];
        let mut net = Net::joined(config(policy), 5, &pairs).with_hosts();
        for step in steps {
            match step {
                Step::Cable(c, good) => {
                    let (a, b) = pairs[c];
                    let (a, b) = (NodeId::from(a) + 1, NodeId::from(b) + 1);
                    let port = *net.nodes[&a].cables.iter().find(|(_, p)| p.0 == b).unwrap().0;
                    net.set_cable(a, port, good);
                }
                Step::Kill(id) if net.nodes[&id.into()].up => net.kill(id.into()),
                Step::Revive(id) if !net.nodes[&id.into()].up => net.revive(id.into()),
                Step::Resolve(a, b) if a != b && net.nodes[&net.host_at(a)].up => {
                    net.resolve(a, b);
                }
                Step::Move(n, to) if net.nodes[&to.into()].up => {
                    let (old, new) = (net.host(n).at, (NodeId::from(to), HOST_PORT));
                    net.host(n).at = new;
                    // Its old node notices at once, and ends its flows.
                    if old != new && net.nodes[&old.0].up {
                        let memory = &mut net.nodes.get_mut(&old.0).unwrap().memory;
                        memory.retain(|key, _| key.1 != Some(mac(n)));
                    }
                    let address = net.host(n).ips[0];
                    net.seen(n, new, Some(address));
                }
                Step::Gone(n) if net.nodes[&net.host_at(n)].up => {
                    let at = net.host(n).at;
                    let memory = &mut net.nodes.get_mut(&at.0).unwrap().memory;
                    memory.retain(|key, _| key.1 != Some(mac(n)));
                    net.say(at.0, HostGone { port: at.1, mac: mac(n) });
                }
                Step::Seen(n) if net.nodes[&net.host_at(n)].up => {
                    let (at, address) = (net.host(n).at, net.host(n).ips[0]);
                    net.seen(n, at, Some(address));
                }
                Step::Wait(ms) => net.wait_ms(ms),
                _ => {}
            }
        }
        // Everything that is up is heard again, disputes end, and nodes find out which of their
        // stations no longer answer.
        net.wait_s(2);
        let believed: Vec<_> = net.controller.hosts().map(|h| (h.mac, h.node, h.port)).collect();
        for (station, node, port) in believed {
            if net.nodes[&node].up && net.host(station.0[5]).at != (node, port) {
                net.say(node, HostGone { port, mac: station });
            }
        }
        for from in 1..=5 {
            for to in (1..=5).filter(|to| *to != from) {
                if net.nodes[&net.host_at(from)].up && net.nodes[&net.host_at(to)].up {
                    for n in [from, to] {
                        let (at, address) = (net.host(n).at, net.host(n).ips[0]);
                        net.seen(n, at, Some(address));
                    }
                    net.keep_alive();
                    net.wait_ms(400);
                    net.resolve(from, to);
                }
            }
        }
        check(&net);
    }
}
