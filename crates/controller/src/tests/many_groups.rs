//! Two thousand groups of fifty members each: counts the controller's work instead of timing it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use plexus_config::{ControllerLimits, Members, MulticastRule};
use plexus_wire::fabric::message::{
    Body, ControllerHello, GroupMembership, GroupSender, HostSeen, PortRole, PortState, TreesReady,
};
use plexus_wire::{MacAddr, Prefix, Time};

use crate::{Config, Controller, Input, NodeId, Output, Start};

const NODES: NodeId = 10;
const GROUPS: u32 = 2000;
const MEMBERS: u32 = 50;
/// Groups of one host: fewer than a message holds.
const EACH: u32 = 50;
const HOSTS: u32 = GROUPS * MEMBERS / EACH;
/// Hosts behind a port, each port a network of its own.
const PER_PORT: u32 = 50;
const NEXT: u8 = 1;
const BEFORE: u8 = 2;
const HOST_PORT: u8 = 100;

/// Ten nodes in a ring, and their answers.
struct Crowd {
    controller: Controller,
    now: Time,
    generation: u64,
    /// Trees as each node has them, and messages about trees.
    trees: BTreeMap<(u32, NodeId), Vec<u8>>,
    updates: usize,
    /// What senders have been told.
    heads: BTreeMap<(NodeId, u8, MacAddr, MacAddr), u32>,
}

fn group(n: u32) -> IpAddr {
    Ipv4Addr::from(0xEF00_0000 + n).into()
}

fn mac(host: u32) -> MacAddr {
    MacAddr::from_u64(0x02_00_00_00_00_00 + u64::from(host))
}

fn place(host: u32) -> (NodeId, u8) {
    let port = host / PER_PORT;
    (NodeId::from(port) % NODES + 1, HOST_PORT + (port / NODES as u32) as u8)
}

/// The `n`th of a host's groups: groups with adjacent numbers have hosts of all nodes.
fn group_of(host: u32, n: u32) -> u32 {
    (host * EACH + n) % GROUPS
}

impl Crowd {
    fn new() -> Crowd {
        let groups = Prefix::new([239, 0, 0, 0].into(), 8).unwrap();
        let limits = ControllerLimits {
            groups_per_port: PER_PORT * EACH,
            senders_per_port: GROUPS,
            ..ControllerLimits::default()
        };
        let multicast = vec![MulticastRule { groups, members: Members::Joined }];
        let config = Config { multicast, limits, ..Config::default() };
        let now = Time::from_secs(1000);
        let (unix_s, stored, seed) = (1_700_000_000, Vec::new(), [7; 32]);
        let controller = Controller::new(Start {
            config,
            epoch: 1,
            provisional: false,
            now,
            unix_s,
            stored,
            seed,
        });
        let mut crowd = Crowd {
            controller,
            now,
            generation: 0,
            trees: BTreeMap::new(),
            updates: 0,
            heads: BTreeMap::new(),
        };
        crowd.input(Input::Attached { to: Some(1) });
        for node in 1..=NODES {
            crowd.input(Input::NodeUp { node, name: format!("n{node}"), version: 1 });
        }
        (1..=NODES).for_each(|node| crowd.hello(node, true));
        for host in 0..HOSTS {
            let (node, port) = place(host);
            crowd.say(node, HostSeen { port, mac: mac(host), ip: None });
        }
        assert_eq!(crowd.controller.counts().hosts, HOSTS as usize);
        crowd
    }

    fn hello(&mut self, node: NodeId, next_is_up: bool) {
        self.generation += 1;
        let state = |port, role, peer, peer_port| PortState {
            port,
            role,
            mac: MacAddr([2, 9, 0, 0, node as u8, port]),
            mtu: 2000,
            rate_mbit_per_s: 1000,
            peer,
            peer_port,
        };
        let mut ports = vec![state(BEFORE, PortRole::Fabric, (node + NODES - 2) % NODES + 1, NEXT)];
        if next_is_up {
            ports.push(state(NEXT, PortRole::Fabric, node % NODES + 1, BEFORE));
        }
        let at_node = (0..HOSTS / PER_PORT).map(|p| place(p * PER_PORT)).filter(|p| p.0 == node);
        ports.extend(at_node.map(|(_, port)| state(port, PortRole::Host, 0, 0)));
        let generation = self.generation;
        self.say(node, ControllerHello { generation, page: 0, pages: 1, ports });
    }

    fn say(&mut self, node: NodeId, body: impl Into<Body>) {
        self.input(Input::Message { node, request: 0, body: body.into() });
    }

    fn input(&mut self, input: Input) {
        self.controller.handle(self.now, input);
        let mut ready = Vec::new();
        while let Some(output) = self.controller.poll_output() {
            match output {
                Output::Send { node, body: Body::TreeUpdate(update), .. } => {
                    self.updates += 1;
                    let trees: Vec<u32> = update.add.iter().map(|e| e.tree).collect();
                    self.trees.extend(update.add.into_iter().map(|e| ((e.tree, node), e.ports)));
                    for tree in update.remove {
                        assert!(self.trees.remove(&(tree, node)).is_some());
                    }
                    ready.push((node, trees));
                }
                Output::Send { node, body: Body::GroupRoutes(routes), .. } => {
                    for route in routes.routes {
                        let head = (node, route.port, route.source, route.group);
                        match route.tree {
                            Some(tree) => drop(self.heads.insert(head, tree)),
                            None => drop(self.heads.remove(&head)),
                        }
                    }
                }
                _ => {}
            }
        }
        for (node, trees) in ready.into_iter().filter(|(_, trees)| !trees.is_empty()) {
            self.say(node, TreesReady { trees });
        }
    }

    fn join(&mut self, host: u32, version: u64, count: u32) {
        let (node, port) = place(host);
        let groups = (0..count).map(|n| group(group_of(host, n))).collect();
        self.say(node, GroupMembership { port, mac: mac(host), version, groups });
    }

    /// Time passes, with keep-alives.
    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.input(Input::Tick);
    }

    fn considered(&self) -> u64 {
        self.controller.counts().trees_considered
    }

    /// Host ports that the tree in use of a group serves.
    fn served(&self, n: u32) -> BTreeSet<(NodeId, u8)> {
        let sender = n % HOSTS;
        let (node, port) = place(sender);
        let address = MacAddr::of_group(group(n)).unwrap();
        let tree = self.heads[&(node, port, mac(sender), address)];
        let parts = self.trees.range((tree, 0)..=(tree, NodeId::MAX));
        let ports = parts.flat_map(|((_, node), ports)| ports.iter().map(|p| (*node, *p)));
        ports.filter(|(_, port)| *port >= HOST_PORT).collect()
    }

    #[track_caller]
    fn assert_all_served(&self) {
        let mut members = vec![BTreeSet::new(); GROUPS as usize];
        for host in 0..HOSTS {
            (0..EACH).for_each(|n| _ = members[group_of(host, n) as usize].insert(host));
        }
        for (n, members) in (0..).zip(members) {
            assert_eq!(members.len(), MEMBERS as usize);
            assert_eq!(self.served(n), members.into_iter().map(place).collect(), "group {n}");
        }
    }
}

#[test]
fn the_cost_of_two_thousand_groups_follows_their_changes() {
    let mut crowd = Crowd::new();
    for n in 0..GROUPS {
        let (node, port) = place(n % HOSTS);
        let sender = GroupSender { port, mac: mac(n % HOSTS), group: group(n), tree: None };
        crowd.say(node, sender);
    }
    // Every host joins a group, then every host one more, and so on: 100,000 changes, which are
    // gathered. Groups joined before are not examined again.
    let before = crowd.considered();
    let (mut changed, mut changes) = (BTreeSet::new(), 0);
    for count in 1..=EACH {
        for host in 0..HOSTS {
            crowd.join(host, count.into(), count);
            changed.insert(group_of(host, count - 1));
            if host % 500 == 499 {
                crowd.wait(Duration::from_millis(25));
                changes += std::mem::take(&mut changed).len() as u64;
            }
        }
    }
    let looks = crowd.considered() - before;
    assert_eq!(looks, changes, "looks for {} joins", HOSTS * EACH);
    crowd.assert_all_served();
    assert_eq!(crowd.controller.counts().trees, GROUPS as usize);

    // All hosts repeat their reports, as they do every two minutes: nothing is examined.
    let before = crowd.considered();
    (0..HOSTS).for_each(|host| crowd.join(host, 100, EACH));
    crowd.wait(Duration::from_millis(25));
    assert_eq!(crowd.considered(), before);

    // A link fails: each tree is examined once, and once more when it is back.
    crowd.wait(Duration::from_secs(2) + Duration::from_millis(100));
    let before = (crowd.considered(), crowd.updates);
    crowd.hello(3, false);
    crowd.wait(Duration::from_millis(25));
    let looks = crowd.considered() - before.0;
    assert!((1..=u64::from(GROUPS)).contains(&looks), "{looks} looks for a cut");
    // Many trees per message: a node gets some dozens of messages, not thousands.
    let updates = crowd.updates - before.1;
    assert!(updates <= 40 * NODES as usize, "{updates} messages");
    crowd.assert_all_served();
    crowd.hello(3, true);
    crowd.wait(Duration::from_millis(25));
    assert!(crowd.considered() - before.0 <= 2 * u64::from(GROUPS));
    crowd.assert_all_served();

    // One host leaves one group: one tree is examined.
    let before = crowd.considered();
    crowd.join(7, 101, EACH - 1);
    crowd.wait(Duration::from_millis(25));
    assert_eq!(crowd.considered() - before, 1);
}
