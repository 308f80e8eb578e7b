use std::net::IpAddr;

use plexus_config::{ControllerLimits, GroupRule, HostGroup, Subnet};
use plexus_wire::Prefix;
use plexus_wire::fabric::message::{
    Body, Heartbeat, HostFrame, HostGone, Invalidate, Refusal, ResolveFailed,
};

use super::net::{HOST_PORT, NODE_PORT, Net, ip, mac};
use crate::{Config, Drop, Input};

fn net(config: Config) -> Net {
    Net::joined(config, 3, &[(0, 1), (1, 2), (2, 0)]).with_hosts()
}

#[test]
fn a_pair_gets_routes_of_both_directions_and_keeps_them() {
    let mut net = net(Config::default());
    net.resolve(1, 3);
    assert!(net.delivers(1, 3) && net.delivers(3, 1) && !net.delivers(1, 2));
    let before: Vec<_> = net.controller.flows().map(|f| f.routes).collect();
    net.resolve(1, 3);
    net.resolve(3, 1);
    let after: Vec<_> = net.controller.flows().map(|f| f.routes).collect();
    assert_eq!(before, after, "asking again disturbs nothing");
    // Two hosts at one node.
    net.add_host(4, 1, HOST_PORT + 1);
    net.resolve(1, 4);
    assert!(net.delivers(1, 4) && net.delivers(4, 1));
}

#[test]
fn a_question_takes_one_version_and_a_route_that_stays_takes_none() {
    let mut net = net(Config::default());
    let version = |net: &Net| net.controller.flows().map(|f| f.version).max().unwrap();
    net.resolve(1, 3);
    let first = version(&net);
    net.resolve(2, 3);
    assert_eq!(version(&net), first + 1, "although two flows are new");
    // Flows to a node that is away stay without a path, whatever else changes.
    net.kill(3);
    let before = version(&net);
    net.set_cable(1, NODE_PORT, false);
    net.set_cable(1, NODE_PORT, true);
    net.wait_ms(500);
    net.resolve(1, 2);
    assert_eq!(version(&net), before + 1);
}

#[test]
fn hosts_behind_one_port_are_left_to_the_switch_that_joins_them() {
    let mut net = net(Config::default());
    net.add_host(5, 1, HOST_PORT);
    net.resolve(5, 1);
    net.resolve(1, 5);
    assert_eq!(net.failures(), [(1, Refusal::NoPath), (1, Refusal::NoPath)]);
    assert_eq!(net.controller.flows().count(), 0, "nor is a host asked in another's name");
    // To other hosts each has its own route.
    net.resolve(5, 3);
    net.resolve(1, 3);
    assert!(net.delivers(5, 3) && net.delivers(3, 5) && net.delivers(1, 3));
}

#[test]
fn a_silent_target_is_reported_and_leaves_no_flow() {
    let mut net = net(Config::default());
    net.host(3).answers = false;
    net.resolve(1, 3);
    assert_eq!(net.failures(), [(1, Refusal::Silent)]);
    assert_eq!(net.controller.flows().count(), 0);
}

#[test]
fn flows_of_a_failed_exchange_end_at_the_nodes_too() {
    let mut net = net(Config::default());
    net.resolve(1, 3);
    assert!(net.delivers(1, 3) && net.delivers(3, 1));
    // A later copy of the request has found the host silent.
    net.say(3, ResolveFailed { exchange: 1, reason: Refusal::Silent });
    assert_eq!(net.failures(), [(1, Refusal::Silent)]);
    assert_eq!(net.controller.flows().count(), 0);
    assert!(net.nodes.values().all(|n| n.memory.is_empty()));
}

#[test]
fn a_pair_that_met_in_another_exchange_keeps_its_routes() {
    let mut net = net(Config::default());
    let six: IpAddr = "fd00::3".parse().unwrap();
    net.host(3).ips.push(six);
    net.seen(3, (3, HOST_PORT), Some(six));
    net.resolve(1, 3);
    net.ask_for(1, six);
    // It no longer answers for its first address.
    net.say(3, ResolveFailed { exchange: 1, reason: Refusal::Silent });
    assert_eq!(net.failures(), [(1, Refusal::Silent)]);
    assert!(net.delivers(1, 3) && net.delivers(3, 1));
    assert_eq!(net.controller.flows().count(), 2);
}

#[test]
fn an_unknown_address_is_searched_at_stations_that_may_have_it() {
    let mut net = net(Config::default());
    // A silent host: its node knows only its Ethernet address.
    net.add_host(4, 3, HOST_PORT + 1);
    net.host(4).ips = vec![ip(44)];
    net.seen(5, (2, HOST_PORT), None);
    net.seen(4, (3, HOST_PORT + 1), None);
    net.resolve(1, 44);
    // Host 4 is known to have an address already: it is not probed.
    net.wait_ms(300);
    assert_eq!(net.failures(), [(1, Refusal::UnknownTarget)]);
    net.say(3, HostGone { port: HOST_PORT + 1, mac: mac(4) });
    net.seen(4, (3, HOST_PORT + 1), None);
    net.resolve(1, 44);
    assert!(net.delivers(1, 4) && net.delivers(4, 1));
    assert!(net.failures().is_empty());
}

#[test]
fn a_station_with_an_address_outside_the_subnets_may_have_one_in_them() {
    let mut config = Config::default();
    config.subnets.push(Subnet::new(Prefix::new(ip(0), 24).unwrap()));
    let mut net = net(config);
    net.add_host(4, 3, HOST_PORT + 1);
    let outside = IpAddr::from([192, 0, 2, 9]);
    net.host(4).ips = vec![outside, ip(44)];
    net.say(3, HostGone { port: HOST_PORT + 1, mac: mac(4) });
    net.seen(4, (3, HOST_PORT + 1), Some(outside));
    net.resolve(1, 44);
    assert!(net.delivers(1, 4) && net.delivers(4, 1));
    assert!(net.failures().is_empty());
}

#[test]
fn searches_are_bounded() {
    let limits = ControllerLimits { probes_per_search: 2, probes_per_s: 8, ..Default::default() };
    let mut net = net(Config { limits, ..Config::default() });
    for n in 50..60 {
        net.seen(n, (2, HOST_PORT), None);
    }
    for n in 100..110 {
        net.ask_for(1, ip(n));
    }
    // A burst of two probes: one search. The rest is refused at once.
    assert_eq!(net.failures().len(), 9);
    assert_eq!(net.controller.drops().collect::<Vec<_>>(), [(Drop::ProbeRate, 9)]);
    net.wait_ms(300);
    assert_eq!(net.failures().len(), 1);
}

#[test]
fn a_scanning_port_is_closed_for_a_while() {
    let limits = ControllerLimits { scan_unknown: 10, scan_hold_ms: 5000, ..Default::default() };
    let mut net = net(Config { limits, ..Config::default() });
    net.resolve(2, 1);
    for n in 100..=110 {
        net.ask_for(1, ip(n));
    }
    let blocks = |net: &mut Net| {
        net.taken(|b| if let Body::PortBlock(b) = b { Some((b.port, b.reason)) } else { None })
    };
    assert_eq!(blocks(&mut net), [(1, (HOST_PORT, Some(Refusal::Scanning)))]);
    net.failures();
    net.resolve(1, 2);
    assert_eq!(net.failures(), [(1, Refusal::Scanning)]);
    // Its node restarts, and is told again.
    net.revive(1);
    assert_eq!(blocks(&mut net).len(), 1);
    net.wait_s(5);
    assert_eq!(blocks(&mut net), [(1, (HOST_PORT, None))]);
    net.resolve(1, 2);
    assert!(net.delivers(1, 2));
}

#[test]
fn a_ports_flows_make_room_for_each_other() {
    let limits = ControllerLimits { flows_per_port: 2, ..Default::default() };
    let mut net = net(Config { limits, ..Config::default() });
    net.add_host(4, 2, HOST_PORT + 1);
    for to in [2, 3, 4] {
        net.resolve(1, to);
        assert!(net.delivers(1, to) && net.delivers(to, 1));
    }
    let from_1 = net.controller.flows().filter(|f| f.source == Some(mac(1))).count();
    assert_eq!((from_1, net.nodes[&1].memory.len()), (2, 2));
}

#[test]
fn tenants_do_not_meet() {
    let group = |name: &str, node: &str| HostGroup {
        name: name.into(),
        ports: vec![(node.into(), HOST_PORT)],
        ..HostGroup::default()
    };
    let mut config = Config {
        groups: vec![group("blue", "s1"), group("blue-too", "s2"), group("green", "s3")],
        strangers_may_talk: false,
        ..Config::default()
    };
    config.groups[0].ports.push(("s2".into(), HOST_PORT));
    let mut net = net(config.clone());
    net.resolve(1, 2);
    net.resolve(1, 3);
    assert!(net.delivers(1, 2) && !net.delivers(1, 3));
    assert_eq!(net.failures(), [(1, Refusal::Forbidden)]);
    // A rule allows a pair, in the direction of asking.
    config.allow = vec![GroupRule { from: Some("blue".into()), to: Some("green".into()) }];
    net.input(Input::Configure(Box::new(config.clone())));
    net.resolve(3, 1);
    assert_eq!(net.failures(), [(3, Refusal::Forbidden)]);
    net.resolve(1, 3);
    assert!(net.delivers(1, 3) && net.delivers(3, 1));
    // Without the rule the routes end at once; those of others stay.
    config.allow.clear();
    net.input(Input::Configure(Box::new(config)));
    assert!(net.delivers(1, 2) && !net.delivers(1, 3));
    assert_eq!(net.nodes[&3].memory.len(), 0);
    // A host that leaves its group's port leaves the group.
    net.host(2).at = (2, HOST_PORT + 1);
    net.nodes.get_mut(&2).unwrap().host_ports.insert(HOST_PORT + 1);
    net.hello(2);
    net.seen(2, (2, HOST_PORT + 1), Some(ip(2)));
    net.wait_ms(300);
    assert_eq!(net.controller.flows().count(), 0);
    assert!(net.nodes.values().all(|n| n.memory.is_empty()));
}

#[test]
fn hosts_without_a_group_part_when_a_rule_comes() {
    let mut net = net(Config::default());
    net.resolve(1, 2);
    assert!(net.delivers(1, 2));
    let config = Config { deny: vec![GroupRule { from: None, to: None }], ..Config::default() };
    net.input(Input::Configure(Box::new(config)));
    assert!(!net.delivers(1, 2) && net.controller.flows().count() == 0);
}

#[test]
fn a_stale_route_is_replaced_or_ended() {
    let mut net = net(Config::default());
    net.resolve(1, 3);
    // The source's node missed an update.
    let memory = &mut net.nodes.get_mut(&1).unwrap().memory;
    memory.values_mut().for_each(|e| (e.routes, e.version) = (vec![vec![9, 9]], 1));
    assert!(!net.delivers(1, 3));
    net.say(3, Invalidate { destination: mac(3), source: mac(1) });
    assert!(net.delivers(1, 3));
    net.say(3, Invalidate { destination: mac(77), source: mac(1) });
    net.say(3, Invalidate { destination: mac(3), source: mac(77) });
    assert_eq!(net.controller.drops().collect::<Vec<_>>(), [(Drop::NotThere, 1)]);
}

#[test]
fn bodies_of_others_and_broken_frames_are_counted() {
    let mut net = net(Config::default());
    net.say(1, Heartbeat { epoch: 9, controller: 1, path: None });
    for len in [0, 13, 14, 60, 500] {
        net.say(1, HostFrame { port: HOST_PORT, frame: vec![2; len] });
    }
    let drops: Vec<_> = net.controller.drops().collect();
    assert_eq!(drops, [(Drop::UnexpectedBody, 1), (Drop::BadFrame, 5)]);
}

#[test]
fn both_ip_versions_are_resolved() {
    let mut net = net(Config::default());
    let six: IpAddr = "fd00::3".parse().unwrap();
    net.host(3).ips.push(six);
    net.seen(3, (3, HOST_PORT), Some(six));
    net.ask_for(1, six);
    assert!(net.delivers(1, 3) && net.delivers(3, 1));
}
