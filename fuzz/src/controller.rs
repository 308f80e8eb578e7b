//! The core of the controller, told by its nodes whatever they like: they are proved, and lie.
//!
//! The bytes are a script. Four nodes in a ring have said truly what their ports are; then come
//! steps: a node says a body, or 256 that differ in one byte, time passes (up to days), a node
//! comes or goes, links are cut and mended, what was to be stored has been, the settings change.
//!
//! After each step every route of every flow runs over links that exist, to where its destination
//! is; what is kept is within the limits of the settings, which are tight; and what is to be sent
//! can be sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::time::Duration;

use plexus_config::{ControllerLimits, Members, MulticastRule, Subnet};
use plexus_controller::{Config, Controller, Input, NodeId, Output, Start};
use plexus_wire::fabric::message::{BODY_MAX, Body, ControllerHello, PortRole, PortState};
use plexus_wire::{MacAddr, Prefix, Time};

use crate::samples::GROUP_OWN_MAC;
use crate::script::Script;

const NODES: u64 = 4;
/// Ports of a node: to the next one, to the one before, and of hosts.
const NEXT: u8 = 0;
const BEFORE: u8 = 1;
const HOSTS: [u8; 2] = [2, 3];
const STEPS_MAX: usize = 200;
/// Characters in which all that the controller keeps can be told, as long as limits hold: some
/// ten entries of each table for each of eight host ports, at some hundred characters.
const KEPT_MAX: usize = 1 << 18;

/// Runs a script; see the head of the module's source.
pub fn controller(data: &[u8]) {
    let mut script = Script::new(data);
    let mut office = Office::new(config(script.u8()));
    for _ in 0..STEPS_MAX {
        let Some(step) = script.step() else { break };
        office.step(step, &mut script);
        office.check();
    }
    let mut kept = Length(0);
    write!(kept, "{:?}", office.controller).expect("counting does not fail");
    assert!(kept.0 < KEPT_MAX, "{} characters are kept", kept.0);
}

/// The version of the protocol that a node speaks: of the first one or the later one.
fn version(node: u64) -> u8 {
    1 + (node % 2) as u8
}

/// How long a text would be.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0 += s.len();
        Ok(())
    }
}

fn limits() -> ControllerLimits {
    ControllerLimits {
        stations: 24,
        stations_per_port: 6,
        addresses_per_station: 3,
        flows: 64,
        flows_per_port: 16,
        probes_per_s: 50,
        trees: 6,
        groups_per_port: 8,
        senders_per_port: 4,
        leases_per_port: 4,
        ..ControllerLimits::default()
    }
}

fn config(kind: u8) -> Config {
    let prefix = |address: [u8; 4], len| Prefix::new(address.into(), len).unwrap();
    let rule = |groups, members| MulticastRule { groups, members };
    let subnet = Subnet {
        prefix: prefix([10, 0, 0, 0], 24),
        gateway: Some([10, 0, 0, 254].into()),
        range: Some(([10, 0, 0, 100].into(), [10, 0, 0, 200].into())),
        relay: None,
        group: None,
        dns: Vec::new(),
        domain: None,
        ntp: Vec::new(),
        lease_s: 600,
        advertise: true,
        mtu: None,
        device: None,
    };
    let ff05 = Prefix::new([0xFF05, 0, 0, 0, 0, 0, 0, 0].into(), 16).unwrap();
    let mut config = Config {
        group_mac: GROUP_OWN_MAC,
        limits: limits(),
        subnets: vec![subnet],
        multicast: vec![
            rule(prefix([224, 0, 0, 251], 32), Members::All),
            rule(prefix([239, 0, 0, 0], 8), Members::Joined),
            rule(ff05, Members::Joined),
        ],
        ..Config::default()
    };
    if kind & 1 == 1 {
        config.multicast.truncate(1);
        config.subnets.clear();
    }
    config
}

struct Office {
    now: Time,
    controller: Controller,
    generations: BTreeMap<NodeId, u64>,
    /// The last ticket of what was to be stored.
    ticket: u64,
}

impl Office {
    fn new(config: Config) -> Office {
        let now = Time::from_secs(1000);
        let (unix_s, stored, seed) = (1_700_000_000, Vec::new(), [7; 32]);
        let start = Start { config, epoch: 2, provisional: false, now, unix_s, stored, seed };
        let controller = Controller::new(start);
        let mut office = Office { now, controller, generations: BTreeMap::new(), ticket: 0 };
        office.input(Input::Attached { to: Some(1) });
        for node in 1..=NODES {
            office.input(Input::NodeUp { node, name: format!("n{node}"), version: version(node) });
            office.hello(node, 0);
        }
        assert_eq!(office.controller.counts().links, NODES as usize);
        office
    }

    fn input(&mut self, input: Input) {
        self.controller.handle(self.now, input);
        while let Some(output) = self.controller.poll_output() {
            match output {
                Output::Send { node, request, body, .. } => {
                    assert!((1..=NODES + 1).contains(&node), "node {node} has no session");
                    let bytes = body.to_bytes(request);
                    assert!(bytes.len() <= BODY_MAX, "too long to be sent: {body:?}");
                    assert_eq!(Body::parse(&bytes), Ok((request, body)));
                }
                Output::Store { ticket, .. } => {
                    assert!(ticket > self.ticket, "tickets count up");
                    self.ticket = ticket;
                }
                Output::CommonTold { .. } | Output::CommonKept => {}
                Output::Log(event) => assert!(!event.to_string().is_empty()),
                Output::Path { .. } | Output::Explained { .. } => {}
            }
        }
    }

    /// A node says truly what its ports are; bits of `down` cut its links.
    fn hello(&mut self, node: NodeId, down: u8) {
        let state = |port: u8, role, peer, peer_port| PortState {
            port,
            role,
            mac: MacAddr([2, 0xFA, 0, 0, node as u8, port]),
            mtu: 2000,
            rate_mbit_per_s: 1000,
            peer,
            peer_port,
        };
        let link = |port: u8, peer, peer_port| match down >> port & 1 {
            0 => state(port, PortRole::Fabric, peer, peer_port),
            _ => state(port, PortRole::Down, 0, 0),
        };
        let (next, before) = (node % NODES + 1, (node + NODES - 2) % NODES + 1);
        let mut ports = vec![link(NEXT, next, BEFORE), link(BEFORE, before, NEXT)];
        ports.extend(HOSTS.map(|port| state(port, PortRole::Host, 0, 0)));
        let generation = self.generations.entry(node).or_default();
        *generation += 1;
        let generation = *generation;
        let hello = ControllerHello { generation, page: 0, pages: 1, ports };
        self.input(Input::Message { node, request: 0, body: hello.into() });
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        // One more than there are.
        let node = u64::from(step >> 3) % (NODES + 1) + 1;
        match step & 7 {
            0..=2 => self.say(node, script.long()),
            3 => {
                let at = usize::from(script.u16());
                let mut body = script.long().to_vec();
                for n in 0..=u8::MAX {
                    if let Some(byte) = body.get_mut(at) {
                        *byte = n;
                    }
                    self.say(node, &body);
                }
            }
            4 => {
                self.now = self.now + script.time().min(Duration::from_secs(100_000));
                self.input(Input::Tick);
            }
            5 => self.hello(node.min(NODES), script.u8()),
            6 => match script.u8() & 7 {
                0 => self.input(Input::NodeDown { node }),
                1 => self.input(Input::Attached { to: None }),
                2 => self.input(Input::Attached { to: Some(node) }),
                _ => {
                    self.input(Input::NodeUp { node, name: "again".into(), version: version(node) })
                }
            },
            _ => match script.u8() {
                kind @ 0..=7 => self.input(Input::Configure(Box::new(config(kind)))),
                _ => self.input(Input::Stored { ticket: self.ticket }),
            },
        }
    }

    fn say(&mut self, node: NodeId, bytes: &[u8]) {
        if let Ok((request, body)) = Body::parse(bytes) {
            self.input(Input::Message { node, request, body });
        }
    }

    fn check(&mut self) {
        // What an input has made due is done at once.
        if self.controller.next_deadline() <= self.now {
            self.input(Input::Tick);
        }
        let controller = &self.controller;
        assert!(controller.next_deadline() > self.now, "something that is due was not done");
        let limits = limits();
        let mut cables = BTreeMap::new();
        for link in controller.links() {
            let [a, b] = link.ends;
            assert!(cables.insert(a, b).is_none() && cables.insert(b, a).is_none());
        }
        let mut places = BTreeMap::new();
        let mut at_port: BTreeMap<(NodeId, u8), u32> = BTreeMap::new();
        let mut ips = BTreeSet::new();
        for host in controller.hosts() {
            places.insert(host.mac, (host.node, host.port));
            *at_port.entry((host.node, host.port)).or_default() += 1;
            assert!(host.ips.len() <= limits.addresses_per_station as usize, "{host:?}");
            assert!(host.ips.iter().all(|ip| ips.insert(*ip)), "two have an address: {host:?}");
        }
        assert!(places.len() <= limits.stations as usize);
        assert!(at_port.values().all(|n| *n <= limits.stations_per_port), "{at_port:?}");
        let mut of_port: BTreeMap<(NodeId, u8), u32> = BTreeMap::new();
        let mut flows = 0;
        for flow in controller.flows() {
            flows += 1;
            *of_port.entry((flow.node, flow.port)).or_default() += 1;
            for hops in &flow.routes {
                let (last, way) = hops.split_last().expect("a route has a hop");
                let end =
                    way.iter().try_fold(flow.node, |at, hop| Some(cables.get(&(at, *hop))?.0));
                let end = end.map(|node| (node, *last));
                assert!(end.is_some(), "a cable that is not there: {flow:?}");
                assert_eq!(end, places.get(&flow.destination).copied(), "{flow:?}");
            }
        }
        assert!(flows <= limits.flows, "{flows} flows");
        assert!(of_port.values().all(|n| *n <= limits.flows_per_port), "{of_port:?}");
        assert!(controller.group_trees().count() <= limits.trees as usize);
        for tree in controller.group_trees() {
            for (node, ports) in &tree.nodes {
                assert!((1..=NODES + 1).contains(node) && !ports.is_empty(), "{tree:?}");
            }
        }
    }
}
