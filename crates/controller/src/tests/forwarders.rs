//! Two stages: who routes for whom, and what a forwarder is told of other nodes' hosts.

use std::collections::BTreeMap;

use plexus_config::{ControllerSettings, Forwarder, GroupRule, HostGroup, Subnet};
use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::fabric::message::{
    Body, FibAck, Forwarders, Hops, Refusal, ResolveFailed, ResolveRequest, Way,
};
use plexus_wire::{MacAddr, Prefix};

use super::net::{Net, ip, mac};
use crate::{Input, NodeId};

/// Nodes 1 and 2 in front, 3 and 4 behind them.
const CABLES: [(u32, u32); 4] = [(0, 2), (0, 3), (1, 2), (1, 3)];

struct Stages {
    net: Net,
    /// The version of the table that each forwarder has, and the last question about it.
    versions: BTreeMap<NodeId, (u64, u64)>,
    /// The forwarders that each node was told last.
    told: BTreeMap<NodeId, Forwarders>,
    ways: Vec<(NodeId, Way)>,
    failed: Vec<Refusal>,
}

impl Stages {
    fn new(change: impl FnOnce(&mut ControllerSettings)) -> Stages {
        let subnet = |n: u8| {
            let prefix = Prefix::new(ip(64 * n), 26).unwrap();
            Subnet { gateway: Some(ip(64 * n + 62)), ..Subnet::new(prefix) }
        };
        let forwarder = |node: &str, weight| Forwarder { node: node.into(), weight };
        let mut config = ControllerSettings {
            subnets: vec![subnet(0), subnet(1)],
            forwarders: vec![forwarder("s3", 1), forwarder("s4", 2)],
            ..ControllerSettings::default()
        };
        change(&mut config);
        let net = Net::joined(config, 4, &CABLES);
        let mut stages = Stages {
            net,
            versions: BTreeMap::new(),
            told: BTreeMap::new(),
            ways: Vec::new(),
            failed: Vec::new(),
        };
        // Hosts of the one subnet at node 1, of the other at node 2.
        for (n, node, port) in [(1, 1, 100), (2, 1, 101), (65, 2, 100), (66, 2, 101)] {
            stages.net.add_host(n, node, port);
        }
        stages
    }

    /// The nodes' part, for those whose table may be filled.
    fn answer(&mut self, forwarders: &[NodeId]) {
        for _ in 0..50 {
            for (node, _, body) in std::mem::take(&mut self.net.told) {
                match body {
                    Body::FibUpdate(update) => {
                        assert!(matches!(node, 3 | 4), "node {node} has no table");
                        let (version, question) = self.versions.entry(node).or_default();
                        match update.from == update.to {
                            true => *question = update.from,
                            false => *version = update.to,
                        }
                        let (table, version, question) = (update.table, *version, *question);
                        if forwarders.contains(&node) {
                            self.net.say(node, FibAck { table, question, version, wrong: false });
                        }
                    }
                    Body::Forwarders(told) => drop(self.told.insert(node, told)),
                    Body::Way(way) => self.ways.push((node, way)),
                    Body::ResolveFailed(ResolveFailed { reason, .. }) => self.failed.push(reason),
                    _ => {}
                }
            }
        }
    }

    /// Where the ways of a node lead.
    fn ends(&self, node: NodeId) -> Vec<Option<(NodeId, u8)>> {
        let ways = self.told.get(&node).map_or(&[][..], |told| &told.paths);
        ways.iter().map(|way| self.net.follow(node, way)).collect()
    }

    /// A forwarder asks on behalf of a host.
    fn ask(&mut self, node: NodeId, source: MacAddr, source_ip: u8, target: u8) {
        let request = ResolveRequest {
            exchange: u64::from(target) << 8 | u64::from(source_ip),
            key: [7; 32],
            port: ROUTER_HOP,
            source_mac: source,
            source_ip: ip(source_ip),
            target_ip: ip(target),
        };
        self.net.say(node, request);
        self.answer(&[3, 4]);
    }
}

#[test]
fn a_forwarder_is_used_once_it_has_the_whole_table_and_keeps_its_place() {
    let mut stages = Stages::new(|_| {});
    stages.answer(&[]);
    assert!(stages.told.is_empty(), "nodes keep the ways that they have");
    // The first is ready; the other is waited for, but not for ever.
    stages.answer(&[]);
    stages.net.input(Input::NodeUp { node: 3, name: "s3".into(), version: 1 });
    stages.net.hello(3);
    stages.answer(&[3]);
    assert!(stages.told.is_empty());
    for _ in 0..12 {
        stages.net.wait_ms(500);
        (1..=4).for_each(|node| stages.net.hello(node));
        stages.answer(&[3]);
    }
    let third = Some((3, ROUTER_HOP));
    assert_eq!(stages.ends(1), [third, None, None]);
    // Then both are, and b has two places.
    stages.net.input(Input::NodeUp { node: 4, name: "s4".into(), version: 1 });
    stages.net.hello(4);
    stages.answer(&[3, 4]);
    let fourth = Some((4, ROUTER_HOP));
    for node in [1, 2] {
        assert_eq!(stages.ends(node), [third, fourth, fourth]);
    }
    // Forwarders route themselves.
    assert_eq!(stages.told[&3].paths, Vec::<Hops>::new());
    // One goes: the places of the other stay.
    stages.net.input(Input::NodeDown { node: 3 });
    stages.answer(&[4]);
    assert_eq!(stages.ends(1), [None, fourth, fourth]);
}

fn ready(change: impl FnOnce(&mut ControllerSettings)) -> Stages {
    let mut stages = Stages::new(change);
    stages.answer(&[3, 4]);
    assert_eq!(stages.ends(1).len(), 3, "{:?}", stages.told);
    stages
}

#[test]
fn a_forwarder_is_told_the_ways_of_hosts_that_may_talk() {
    let mut stages = ready(|_| {});
    stages.ask(3, mac(1), 1, 65);
    let (node, way) = stages.ways.pop().expect("an answer");
    assert_eq!((node, way.source_ip, way.target_mac), (3, ip(1), mac(65)));
    for path in &way.to_target {
        assert_eq!(stages.net.follow(3, path), Some((2, 100)));
    }
    for path in &way.to_source {
        assert_eq!(stages.net.follow(3, path), Some((1, 100)));
    }
    assert!(!way.to_target.is_empty() && !way.to_source.is_empty());
    // The group's own address: only the way back.
    stages.ask(4, mac(65), 65, 62);
    let (node, way) = stages.ways.pop().expect("an answer");
    assert_eq!((node, way.target_mac), (4, stages.net.controller.config.group_mac));
    assert!(way.to_target.is_empty());
    assert_eq!(stages.net.follow(4, &way.to_source[0]), Some((2, 100)));
    // The target moves: the forwarder gets other routes.
    stages.net.updates.clear();
    stages.net.host(65).at = (1, 102);
    stages.net.nodes.get_mut(&1).unwrap().host_ports.insert(102);
    stages.net.hello(1);
    stages.net.seen(65, (1, 102), Some(ip(65)));
    stages.net.wait_ms(1_000);
    stages.answer(&[3, 4]);
    let of_router = |(node, entry): &&(NodeId, _)| {
        let entry: &plexus_wire::fabric::message::RouteEntry = entry;
        *node == 3 && entry.port == ROUTER_HOP && entry.destination == mac(65)
    };
    let last = stages.net.updates.iter().rfind(of_router).expect("an update");
    assert_eq!(stages.net.follow(3, &last.1.routes[0]), Some((1, 102)));
}

#[test]
fn a_forwarder_learns_nothing_that_its_host_may_not() {
    let mut stages = ready(|config| {
        config.groups =
            vec![HostGroup { name: "red".into(), macs: vec![mac(2)], ..HostGroup::default() }];
        config.deny = vec![GroupRule { from: Some("red".into()), to: None }];
    });
    // A rule between the hosts; an address of another host; an unknown host.
    stages.ask(3, mac(2), 2, 65);
    stages.ask(3, mac(1), 2, 65);
    stages.ask(3, mac(99), 1, 65);
    // From beyond the subnets, by a host that leads nowhere.
    stages.ask(3, mac(1), 200, 65);
    // And a node that is no forwarder.
    stages.ask(2, mac(1), 1, 65);
    assert!(stages.ways.is_empty(), "{:?}", stages.ways);
    let expected = [
        Refusal::Forbidden,
        Refusal::Claimed,
        Refusal::UnknownTarget,
        Refusal::Claimed,
        Refusal::Forbidden,
    ];
    assert_eq!(stages.failed, expected);
    // No port of a host is closed for it.
    stages.ask(3, mac(1), 1, 65);
    assert_eq!(stages.ways.len(), 1);
}

#[test]
fn a_forwarder_that_was_out_of_reach_is_used_once_it_says_its_version() {
    let mut stages = ready(|_| {});
    let ports: Vec<u8> = stages.net.nodes[&3].cables.keys().copied().collect();
    let fourth = Some((4, ROUTER_HOP));
    for good in [false, true] {
        ports.iter().for_each(|port| stages.net.set_cable(3, *port, good));
        stages.net.wait_ms(50);
        // It may have lost its table.
        stages.answer(&[4]);
        assert_eq!(stages.ends(1), [None, fourth, fourth], "cables are there: {good}");
    }
    for _ in 0..10 {
        stages.net.wait_ms(100);
        stages.answer(&[3, 4]);
    }
    assert_eq!(stages.ends(1), [Some((3, ROUTER_HOP)), fourth, fourth]);
}

#[test]
fn a_host_that_opens_too_many_flows_by_a_forwarder_loses_its_own_port() {
    let mut stages = ready(|config| config.limits.scan_flows = 1);
    stages.ask(3, mac(1), 1, 65);
    stages.ask(3, mac(1), 1, 66);
    assert_eq!((stages.ways.len(), &stages.failed[..]), (1, &[Refusal::Scanning][..]));
    // The other host at the node goes on.
    stages.ask(3, mac(2), 2, 66);
    assert_eq!(stages.ways.len(), 2, "{:?}", stages.failed);
}

#[test]
fn a_host_that_sends_from_many_false_addresses_loses_its_port() {
    let mut stages = ready(|config| config.limits.scan_unknown = 4);
    // One that was forgotten is asked for again and again, and loses nothing.
    for _ in 0..20 {
        stages.ask(3, mac(1), 9, 65);
    }
    assert!(stages.failed.iter().all(|why| *why == Refusal::Claimed), "{:?}", stages.failed);
    for source in 9..14 {
        stages.ask(3, mac(1), source, 65);
    }
    stages.failed.clear();
    stages.ask(3, mac(1), 1, 65);
    assert_eq!((stages.ways.len(), &stages.failed[..]), (0, &[Refusal::Scanning][..]));
    stages.ask(3, mac(2), 2, 65);
    assert_eq!(stages.ways.len(), 1, "another port of the node");
}

#[test]
fn a_forwarder_has_room_for_the_hosts_of_many_ports() {
    let mut stages = ready(|config| config.limits.flows_per_port = 1);
    for (source, target) in [(1, 65), (2, 66), (65, 1), (66, 2)] {
        stages.ask(3, mac(source), source, target);
    }
    let of_router = stages.net.controller.flows().filter(|f| (f.node, f.port) == (3, ROUTER_HOP));
    assert_eq!(of_router.count(), 8, "each has a way there and a way back");
}

#[test]
fn nodes_are_told_who_shares_the_table_and_forwarders_where_the_others_are() {
    let whole = ready(|_| {});
    for node in 1..=4 {
        assert_eq!(whole.told[&node].copies, 0);
    }
    let mut stages = ready(|config| config.copies = Some(1));
    let (third, fourth) = (Some((3, ROUTER_HOP)), Some((4, ROUTER_HOP)));
    for node in 1..=4 {
        let told = &stages.told[&node];
        assert_eq!((&told.places[..], told.copies), (&[1, 2][..], 1));
        assert_eq!(stages.ends(node), [third, fourth, fourth], "node {node}");
    }
    assert_eq!(stages.told[&3].paths[0], [ROUTER_HOP]);
    assert_eq!(stages.told[&4].paths[1..], [[ROUTER_HOP], [ROUTER_HOP]]);
    // One that is not to be used still routes what its own hosts send.
    stages.net.input(Input::NodeDown { node: 3 });
    stages.net.input(Input::NodeUp { node: 3, name: "s3".into(), version: 1 });
    stages.net.hello(3);
    stages.versions.remove(&3);
    stages.answer(&[4]);
    for node in [1, 2, 4] {
        assert_eq!(stages.ends(node), [None, fourth, fourth], "node {node}");
    }
    assert_eq!(stages.ends(3), [third, fourth, fourth]);
}
