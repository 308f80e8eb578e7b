//! A data plane that follows the router's outputs, and the invariants after each of them.

// The router's fuzz target uses its part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::net::IpAddr;

use plexus_control::router::{
    Adjacency, Event, Fault, Group, GroupId, Input, InterfaceFacts, InterfaceId, Limits,
    NeighbourId, NextHop, Output, Refusal, Route, Router, Source, Why,
};
use plexus_wire::ethernet;
use plexus_wire::{MacAddr, Prefix, Time, arp};

/// A router and its data plane.
pub(crate) struct Plane {
    pub(crate) now: Time,
    pub(crate) router: Router,
    pub(crate) fib: BTreeMap<Prefix, GroupId>,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    pub(crate) adjacencies: BTreeMap<NeighbourId, Adjacency>,
    pub(crate) sent_count: usize,
    /// Frames sent since they were last taken.
    pub(crate) sent: Vec<(InterfaceId, Vec<u8>)>,
    pub(crate) again: Vec<(InterfaceId, Vec<u8>)>,
    pub(crate) events: Vec<Event>,
    /// Outputs are not carried out yet.
    pub(crate) is_slow: bool,
    /// Prefixes set or removed so far.
    pub(crate) fib_changes: usize,
}

pub(crate) const A: InterfaceId = InterfaceId(1);
pub(crate) const B: InterfaceId = InterfaceId(2);

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub(crate) fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

/// The router's own link address on an interface.
pub(crate) fn own_mac(interface: InterfaceId) -> MacAddr {
    MacAddr([2, 0xAA, 0, 0, interface.0.to_be_bytes()[0], interface.0.to_be_bytes()[1]])
}

pub(crate) fn facts(interface: InterfaceId, addresses: &[&str]) -> InterfaceFacts {
    let address = |text: &&str| {
        let (addr, len) = text.split_once('/').unwrap();
        (ip(addr), len.parse().unwrap())
    };
    InterfaceFacts {
        name: format!("v{}", interface.0),
        mac: own_mac(interface),
        mtu: 1500,
        addresses: addresses.iter().map(address).collect(),
        kernel: false,
        is_told: false,
    }
}

pub(crate) fn hop(interface: InterfaceId, gateway: &str) -> NextHop {
    NextHop { interface, gateway: Some(ip(gateway)), on_link: false, weight: 1 }
}

pub(crate) fn via(interface: InterfaceId, gateway: &str) -> Route {
    Route::Via(vec![hop(interface, gateway)])
}

/// An ARP answer to the router, or a question.
pub(crate) fn arp(
    to: InterfaceId,
    operation: arp::Operation,
    sender: (&str, u8),
    target: &str,
) -> Vec<u8> {
    let (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) = (ip(sender.0), ip(target)) else {
        panic!("ARP is for IPv4")
    };
    let (sender_mac, target_mac) = (mac(sender.1), own_mac(to));
    let repr = arp::Repr { operation, sender_mac, sender_ip, target_mac, target_ip };
    plexus_wire::frame::arp(target_mac, &repr)
}

impl Plane {
    pub(crate) fn new() -> Plane {
        Plane::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Plane {
        Plane {
            now: Time::from_secs(1000),
            router: Router::new(limits, [7; 32]),
            fib: BTreeMap::new(),
            groups: BTreeMap::new(),
            adjacencies: BTreeMap::new(),
            sent_count: 0,
            sent: Vec::new(),
            again: Vec::new(),
            events: Vec::new(),
            is_slow: false,
            fib_changes: 0,
        }
    }

    /// Two interfaces: A has 10.0.1.1/24 and 2001:db8:1::1/64, B 10.0.2.1/24 and 2001:db8:2::1/64,
    /// and both a link-local address.
    pub(crate) fn two() -> Plane {
        let mut plane = Plane::new();
        for (id, n) in [(A, 1), (B, 2)] {
            let v4 = format!("10.0.{n}.1/24");
            let v6 = format!("2001:db8:{n}::1/64");
            plane.up(id, &[&v4, &v6, "fe80::1/64"]);
        }
        plane.sent.clear();
        plane
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.router.handle(self.now, input);
        if !self.is_slow {
            self.take_outputs();
        }
        assert!(self.router.next_deadline() > self.now, "something that is due was not done");
    }

    pub(crate) fn take_outputs(&mut self) {
        while let Some(output) = self.router.poll_output() {
            self.carry_out(output);
        }
    }

    pub(crate) fn up(&mut self, id: InterfaceId, addresses: &[&str]) {
        self.input(Input::Interface { id, facts: Some(facts(id, addresses)) });
    }

    pub(crate) fn down(&mut self, id: InterfaceId) {
        self.input(Input::Interface { id, facts: None });
    }

    pub(crate) fn set(&mut self, source: Source, to: &str, route: Route) {
        let prefix = prefix(to);
        self.input(Input::Route { source, prefix, metric: 0, route: Some(route) });
    }

    pub(crate) fn unset(&mut self, source: Source, to: &str) {
        let prefix = prefix(to);
        self.input(Input::Route { source, prefix, metric: 0, route: None });
    }

    pub(crate) fn frame(&mut self, interface: InterfaceId, why: Why, frame: Vec<u8>) {
        self.input(Input::Frame { interface, why, frame });
    }

    pub(crate) fn fault(&mut self, interface: InterfaceId, fault: Fault, frame: Vec<u8>) {
        self.frame(interface, Why::Error(fault), frame);
    }

    /// Lets time pass, and calls the router whenever it is due.
    pub(crate) fn pass_ms(&mut self, ms: u64) {
        let end = self.now + std::time::Duration::from_millis(ms);
        while self.router.next_deadline() <= end {
            self.now = self.router.next_deadline();
            self.input(Input::Tick);
        }
        self.now = end;
    }

    pub(crate) fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { interface, frame } => {
                assert!(frame.len() >= ethernet::HEADER_LEN);
                self.sent_count += 1;
                self.sent.push((interface, frame));
            }
            Output::Again { interface, frame } => self.again.push((interface, frame)),
            Output::Adjacency { id, entry } => {
                assert_ne!(self.adjacencies.get(&id).copied(), entry, "{id:?}: no news");
                match entry {
                    Some(entry) => drop(self.adjacencies.insert(id, entry)),
                    None => drop(self.adjacencies.remove(&id)),
                }
                self.check_members();
            }
            Output::Group { id, group: Some(group) } => {
                assert_ne!(self.groups.get(&id), Some(&group), "{id:?}: no news");
                self.groups.insert(id, group);
                self.check_members();
            }
            Output::Group { id, group: None } => {
                assert!(self.groups.remove(&id).is_some(), "{id:?} was not there");
                let user = self.fib.iter().find(|(_, group)| **group == id);
                assert_eq!(user, None, "{id:?} is gone and in use");
            }
            Output::Fib { prefix, group: Some(group) } => {
                assert!(self.groups.contains_key(&group), "{prefix} has {group:?}, not there");
                assert_ne!(self.fib.insert(prefix, group), Some(group), "{prefix}: no news");
                self.fib_changes += 1;
            }
            Output::Fib { prefix, group: None } => {
                assert!(self.fib.remove(&prefix).is_some(), "{prefix} was not there");
                self.fib_changes += 1;
            }
            Output::Tell(event) => self.events.push(event),
        }
    }

    fn check_members(&self) {
        for (id, group) in &self.groups {
            let Group::Via(members) = group else { continue };
            let count =
                members.iter().filter(|m| self.adjacencies.contains_key(&m.neighbour)).count();
            assert!(!members.is_empty() && (count == 0 || count == members.len()), "{id:?}");
            assert!(members.iter().all(|m| m.weight > 0));
        }
    }

    /// The group of an address by the longest prefix.
    pub(crate) fn lookup(&self, addr: &str) -> Option<&Group> {
        let addr = ip(addr);
        let found = self.fib.iter().filter(|(p, _)| p.contains(addr)).max_by_key(|(p, _)| p.len());
        let group = found.map(|(_, group)| &self.groups[group]);
        assert_eq!(self.router.lookup(addr).map(|(p, _)| p), found.map(|(p, _)| *p));
        group
    }

    /// The link addresses to which packets for an address go, in order.
    pub(crate) fn ways(&self, addr: &str) -> Vec<(InterfaceId, MacAddr)> {
        let Some(Group::Via(members)) = self.lookup(addr) else { return Vec::new() };
        let ways = members.iter().filter_map(|m| self.adjacencies.get(&m.neighbour));
        let mut ways: Vec<_> = ways.map(|a| (a.interface, a.mac)).collect();
        ways.sort_unstable();
        ways
    }

    pub(crate) fn neighbour(&self, interface: InterfaceId, addr: &str) -> Option<NeighbourId> {
        let addr = ip(addr);
        let found = self.router.neighbours(self.now);
        let mut found = found.filter(|n| n.interface == interface && n.address == addr);
        found.next().map(|n| n.id)
    }

    /// The frames sent since the last call, as `plexus trace` prints them.
    pub(crate) fn said(&mut self) -> Vec<String> {
        let sent = std::mem::take(&mut self.sent);
        sent.iter().map(|(id, f)| format!("{} {}", id.0, plexus_wire::describe(f))).collect()
    }

    pub(crate) fn refused(&self, refusal: Refusal) -> u64 {
        self.router.refused(refusal)
    }

    /// A neighbour answers the router's question.
    pub(crate) fn answer(&mut self, interface: InterfaceId, addr: &str, n: u8) {
        let own = self.router.interfaces().find(|(id, _)| *id == interface);
        let own = own.unwrap().1.addresses.iter().find(|(a, _)| a.is_ipv4()).unwrap().0;
        let frame = arp(interface, arp::Operation::REPLY, (addr, n), &own.to_string());
        self.frame(interface, Why::Arp, frame);
    }
}
