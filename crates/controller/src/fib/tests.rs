//! The table and its copies, over channels that lose, duplicate and delay, with nodes and
//! controllers that start again.

mod bad_input;
mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use plexus_control::node::fib::Fib as Copy;
use plexus_control::router::{Input as RouterInput, InterfaceId, NextHop, Route, Source};
use plexus_wire::fabric::message::{
    Body, ControllerHello, FibChange, FibTarget, FibUpdate, Forwarders,
};
use plexus_wire::{Prefix, Time};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::{Config, Controller, Input, Output, Start};

/// A node: its copy, and what its router was told.
#[derive(Default)]
struct Node {
    copy: Copy,
    routes: BTreeMap<Prefix, FibTarget>,
    has_routes: bool,
}

struct World {
    now: Time,
    config: Config,
    core: Controller,
    epoch: u64,
    nodes: Vec<Node>,
    /// Messages on their way: to which node, or from which.
    wire: Vec<(usize, Body)>,
    /// The forwarders that nodes were told.
    told: Vec<(usize, Forwarders)>,
    random: Pcg64,
    /// Nodes say that they are there.
    are_heard: bool,
    /// Of 256 messages so many are lost, and so many come late.
    losses: u64,
    late: u64,
    /// The routes of the kernel, which the controller is told.
    kernel: BTreeMap<Prefix, u8>,
    /// Every target that a prefix has ever had.
    ever: BTreeMap<Prefix, Vec<u8>>,
    messages: usize,
    /// The tables that nodes were sent.
    tables: BTreeSet<u64>,
}

fn prefix(n: u64) -> Prefix {
    let addr = Ipv4Addr::from_bits(0x1400_0000 + ((n as u32) << 8));
    Prefix::new(addr.into(), 24).unwrap()
}

fn config() -> Config {
    let mut config = Config::default();
    let mut subnet = plexus_config::Subnet::new("10.0.0.0/24".parse().unwrap());
    subnet.gateway = Some("10.0.0.254".parse().unwrap());
    config.subnets.push(subnet);
    config
}

fn via(n: u8) -> std::net::IpAddr {
    Ipv4Addr::new(10, 0, 0, n).into()
}

/// The same of the prefix's family.
fn via_to(prefix: &Prefix, n: u8) -> std::net::IpAddr {
    match prefix.addr().is_ipv4() {
        true => via(n),
        false => std::net::Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, n.into()).into(),
    }
}

impl World {
    fn new(nodes: usize, seed: u64) -> World {
        World::configured(nodes, seed, config())
    }

    fn configured(nodes: usize, seed: u64, config: Config) -> World {
        let mut world = World {
            now: Time::ZERO,
            core: Controller::new(Start { config: config.clone(), ..start(1, Time::ZERO) }),
            config,
            epoch: 1,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            wire: Vec::new(),
            told: Vec::new(),
            random: Pcg64::seed_from_u64(seed),
            are_heard: false,
            losses: 0,
            late: 0,
            kernel: BTreeMap::new(),
            ever: BTreeMap::new(),
            messages: 0,
            tables: BTreeSet::new(),
        };
        (0..nodes).for_each(|node| world.node_up(node));
        world
    }

    /// Nodes that have so many routes.
    fn filled(nodes: usize, routes: u64) -> World {
        let mut world = World::new(nodes, 1);
        for n in 0..routes {
            world.set(prefix(n), Some((n % 5) as u8 + 1));
        }
        world.settle();
        world.compare();
        world
    }

    fn node_up(&mut self, node: usize) {
        self.input(Input::NodeUp { node: node as u64 + 1, name: format!("n{node}"), version: 1 });
    }

    fn input(&mut self, input: Input) {
        self.core.handle(self.now, input);
        while let Some(output) = self.core.poll_output() {
            let Output::Send { node, body, .. } = output else { continue };
            match body {
                Body::FibUpdate(update) => self.wire.push((node as usize - 1, update.into())),
                Body::Forwarders(told) => self.told.push((node as usize - 1, told)),
                _ => {}
            }
        }
    }

    /// Some time passes.
    fn tick(&mut self, time: Duration) {
        self.now = self.now + time;
        let nodes = if self.are_heard { self.nodes.len() as u64 } else { 0 };
        for node in 1..=nodes {
            let hello = ControllerHello { generation: 1, page: 0, pages: 1, ports: vec![] };
            self.input(Input::Message { node, request: 0, body: hello.into() });
        }
        self.input(Input::Tick);
    }

    fn set(&mut self, prefix: Prefix, to: Option<u8>) {
        let hop = |n| NextHop {
            interface: InterfaceId(0),
            gateway: Some(via_to(&prefix, n)),
            on_link: true,
            weight: 1,
        };
        let route = to.map(|n| Route::Via(vec![hop(n)]));
        if let Some(n) = to {
            self.kernel.insert(prefix, n);
            self.ever.entry(prefix).or_default().push(n);
        } else {
            self.kernel.remove(&prefix);
        }
        let input = RouterInput::Route { source: Source::Kernel, prefix, metric: 1, route };
        self.input(Input::Kernel(vec![input]));
    }

    /// The controller starts again, and learns the kernel's routes anew.
    fn restart(&mut self) {
        self.epoch += 1;
        let config = self.config.clone();
        self.core = Controller::new(Start { config, ..start(self.epoch, self.now) });
        for (prefix, n) in self.kernel.clone() {
            self.set(prefix, Some(n));
        }
        (0..self.nodes.len()).for_each(|node| self.node_up(node));
    }

    /// Lets all messages that are on their way arrive, or not.
    fn deliver(&mut self) {
        for (node, body) in std::mem::take(&mut self.wire) {
            let fate = self.random.next_u64() % 256;
            if fate < self.losses {
                continue;
            }
            if fate < self.losses + self.late {
                self.wire.push((node, body));
                continue;
            }
            if fate == 255 && self.losses > 0 {
                self.wire.push((node, body.clone()));
            }
            match body {
                Body::FibUpdate(update) => self.take(node, update),
                body => {
                    let input = Input::Message { node: node as u64 + 1, request: 0, body };
                    self.input(input);
                }
            }
        }
    }

    fn take(&mut self, index: usize, update: FibUpdate) {
        self.messages += 1;
        self.tables.insert(update.table);
        let node = &mut self.nodes[index];
        let taken = node.copy.take(&update).unwrap();
        for (prefix, target) in taken.routes {
            match target {
                Some(target) => node.routes.insert(prefix, target),
                None => node.routes.remove(&prefix),
            };
        }
        node.has_routes = taken.turned.unwrap_or(node.has_routes);
        for (prefix, target) in &node.routes {
            let FibTarget::Hosts(hops) = target else { panic!("{target:?}") };
            let known = |n: &u8| hops.len() == 1 && hops[0].via == via_to(prefix, *n);
            assert!(self.ever[prefix].iter().any(known), "{prefix} never led to {hops:?}");
        }
        self.wire.extend(taken.ack.map(|ack| (index, Body::from(ack))));
    }

    /// Time passes until nothing is on its way and nothing more happens.
    fn settle(&mut self) {
        for _ in 0..2000 {
            while !self.wire.is_empty() {
                self.deliver();
            }
            let version = self.core.fib.version().0;
            let is_done = |node: &usize| self.core.fib.version_of(*node as u32) == Some(version);
            if self.copies().all(|node| is_done(&node)) {
                return;
            }
            self.tick(Duration::from_millis(50));
        }
        panic!("it never ends");
    }

    /// The nodes that have copies.
    fn copies(&self) -> impl Iterator<Item = usize> {
        let named = &self.config.forwarders;
        let has =
            |node: &usize| named.is_empty() || named.iter().any(|f| f.node == format!("n{node}"));
        (0..self.nodes.len()).filter(has)
    }

    /// Every node has exactly the kernel's routes.
    fn compare(&self) {
        for node in &self.nodes {
            assert!(node.has_routes);
            let hosts = |target: &FibTarget| match target {
                FibTarget::Hosts(hops) => hops[0].via,
                other => panic!("{other:?}"),
            };
            let has: BTreeMap<_, _> = node.routes.iter().map(|(p, t)| (*p, hosts(t))).collect();
            let kernel: BTreeMap<_, _> = self.kernel.iter().map(|(p, n)| (*p, via(*n))).collect();
            assert_eq!(has, kernel);
        }
    }
}

fn start(epoch: u64, now: Time) -> Start {
    let (config, stored, seed) = (config(), vec![], [epoch as u8; 32]);
    Start { config, epoch, provisional: false, now, unix_s: 0, stored, seed }
}

proptest! {
    /// Whatever is lost or late, and whoever starts again, in the end each node has the routes of
    /// the kernel, and on the way none that the kernel never had.
    #[test]
    fn every_copy_ends_as_the_table(
        seed: u64,
        steps in prop::collection::vec((0u8..40, 0u64..60, 1u8..9), 1..150),
        (losses, late) in (0u64..80, 0u64..80),
    ) {
        let mut world = World::new(3, seed);
        (world.losses, world.late) = (losses, late);
        for (what, n, to) in steps {
            match what {
                0 => world.restart(),
                1 => {
                    let index = n as usize % world.nodes.len();
                    world.nodes[index] = Node::default();
                    world.node_up(index);
                }
                2 => {
                    let node = n % world.nodes.len() as u64 + 1;
                    world.input(Input::NodeDown { node });
                }
                3 => {
                    let index = n as usize % world.nodes.len();
                    world.node_up(index);
                }
                4..=12 => world.set(prefix(n), None),
                13..=20 => world.deliver(),
                _ => world.set(prefix(n), Some(to)),
            }
        }
        (0..world.nodes.len()).for_each(|node| world.node_up(node));
        world.settle();
        world.compare();
    }
}

#[test]
fn a_node_that_was_away_gets_only_what_has_changed() {
    let mut world = World::filled(2, 20_000);
    world.input(Input::NodeDown { node: 1 });
    for n in 0..10 {
        world.set(prefix(n), Some(9));
    }
    world.settle_others(0);
    world.messages = 0;
    world.node_up(0);
    world.settle();
    world.compare();
    assert!(world.messages <= 3, "{} messages for ten routes", world.messages);
}

#[test]
fn what_is_withdrawn_while_a_node_is_asked_again_costs_no_new_table() {
    let mut world = World::filled(2, 20_000);
    // The answer to one change is lost: the node is asked, and routes go meanwhile.
    world.set(prefix(0), Some(2));
    world.settle_others(0);
    world.now = world.now + Duration::from_secs(1);
    world.input(Input::Tick);
    (1..10).for_each(|n| world.set(prefix(n), None));
    world.settle_others(0);
    world.messages = 0;
    world.settle();
    world.compare();
    assert!(world.messages <= 8, "{} messages for ten routes", world.messages);
}

#[test]
fn a_node_that_is_asked_while_its_table_is_filled_goes_on_with_it() {
    let mut world = World::filled(2, 20_000);
    // Routes that have gone since are forgotten once both nodes know.
    (0..10).for_each(|n| world.set(prefix(n), None));
    world.settle();
    world.nodes[0] = Node::default();
    world.node_up(0);
    // The answer to the question and some changes arrive, and nothing after them.
    (0..3).for_each(|_| world.deliver());
    world.wire.clear();
    let (version, _) = world.nodes[0].copy.version();
    assert!((1..20_000).contains(&version), "{version}");
    let tables = world.tables.len();
    world.settle();
    world.compare();
    assert_eq!(world.tables.len(), tables, "{:?}", world.tables);
}

#[test]
fn a_late_message_of_before_a_resend_does_not_make_a_table_wrong() {
    let mut world = World::filled(1, 1);
    for n in 1..500 {
        world.set(prefix(n), Some((n % 5) as u8 + 1));
    }
    // All are lost. The node is asked, and gets the rest in a few long messages.
    world.wire.clear();
    let updates = |world: &mut World| -> Vec<FibUpdate> {
        let update = |(_, body)| match body {
            Body::FibUpdate(update) => Some(update),
            _ => None,
        };
        std::mem::take(&mut world.wire).into_iter().filter_map(update).collect()
    };
    world.tick(Duration::from_secs(1));
    world.deliver();
    world.deliver();
    let mut sent = updates(&mut world);
    assert!(sent.len() > 2 && sent.iter().rev().skip(1).all(|update| update.sum.is_none()));
    // The first is lost, and what it said changes. The last comes late.
    let (late, _lost) = (sent.pop().unwrap(), sent.remove(0));
    for again in [9, 8, 7] {
        world.set(prefix(1), Some(again));
        sent.extend(updates(&mut world));
    }
    sent.into_iter().for_each(|update| world.take(0, update));
    world.deliver();
    let again = updates(&mut world);
    let is_late = |world: &World| {
        let (version, _) = world.nodes[0].copy.version();
        (late.from..late.to).contains(&version)
    };
    let mut came = 0;
    for update in again {
        if is_late(&world) {
            world.take(0, late.clone());
            came += 1;
        }
        world.take(0, update);
    }
    assert!(came > 0, "it came while it could have been the next");
    world.settle();
    world.compare();
    assert_eq!(world.tables.len(), 1, "the node got no other table: {:?}", world.tables);
}

#[test]
fn losses_are_noticed_by_the_answers_to_what_follows() {
    let mut world = World::filled(1, 1);
    let began = world.now;
    for n in 1..20_000 {
        world.set(prefix(n), Some((n % 5) as u8 + 1));
    }
    // Every tenth is lost, none twice. The last are not: too little follows these.
    let (version, mut lost, mut sent) = (world.core.fib.version().0, BTreeSet::new(), 0);
    while !world.wire.is_empty() {
        for (node, body) in std::mem::take(&mut world.wire) {
            sent += 1;
            match body {
                Body::FibUpdate(update)
                    if sent % 10 == 0 && update.to + 2000 < version && lost.insert(update.from) => {
                }
                Body::FibUpdate(update) => world.take(node, update),
                body => world.input(Input::Message { node: 1, request: 0, body }),
            }
        }
    }
    assert!(lost.len() > 8, "{lost:?}");
    assert_eq!(world.core.fib.version_of(0), Some(version), "without any time");
    assert_eq!(world.now, began);
}

#[test]
fn a_node_that_is_asked_again_still_has_the_version_that_it_said() {
    let mut world = World::filled(1, 100);
    let (version, _) = world.core.fib.version();
    world.set(prefix(1), Some(9));
    world.wire.clear();
    world.now = world.now + Duration::from_secs(1);
    world.input(Input::Tick);
    assert!(!world.wire.is_empty(), "it is asked");
    assert_eq!(world.core.fib.version_of(0), Some(version));
    // Not in another session.
    world.node_up(0);
    assert_eq!(world.core.fib.version_of(0), None);
}

#[test]
fn a_group_that_becomes_a_router_tells_the_nodes_that_are_there() {
    let mut world = World::new(0, 1);
    world.core = Controller::new(Start { config: Config::default(), ..start(1, Time::ZERO) });
    world.nodes.push(Node::default());
    world.node_up(0);
    world.settle_others(9);
    assert!(!world.nodes[0].has_routes);
    world.input(Input::Configure(Box::new(config())));
    world.set(prefix(1), Some(1));
    world.settle();
    world.compare();
}

#[test]
fn a_node_whose_table_is_wrong_says_so_and_gets_another() {
    let mut world = World::filled(1, 100);
    // A change that the controller never made, with a sum that is not that of the table.
    let (version, _) = world.core.fib.version();
    let mut changes = Vec::new();
    FibChange::Route { prefix: prefix(5), set: None }.write(&mut changes);
    let forged = FibUpdate {
        table: 1 << 16,
        from: version,
        to: version + 1,
        made_at: version + 1,
        sum: Some(7),
        changes,
    };
    world.take(0, forged);
    assert!(!world.nodes[0].has_routes, "it does not route by a table that is wrong");
    world.settle();
    world.settle();
    world.compare();
}

impl World {
    /// The same as [`settle`](Self::settle), for all but one node.
    fn settle_others(&mut self, away: usize) {
        while !self.wire.is_empty() {
            self.wire.retain(|(node, _)| *node != away);
            self.deliver();
        }
    }
}
