//! A node of a fabric that is a router, with a host A that sends, B behind a link, and C here.

use plexus_config::{PortSettings, ReversePath, Trust};
use plexus_plane::{
    FibReaders, GROUP_VLAN, GroupKind, GroupSpec, Hop, InterfacePlan, RouterSource, RouterTables,
};
use plexus_table::lpm::{Fib4, Fib6, GroupId, Limits};

use crate::common::{self, Plan, mac};
use crate::net::{CAPABILITIES, Node};

pub(crate) const GROUP: u64 = 0x66;
/// The host that sends, one behind the link, and another one here.
pub(crate) const A: u64 = 0xA;
pub(crate) const B: u64 = 0xB;
pub(crate) const C: u64 = 0xC;
pub(crate) const HERE: usize = 0;
pub(crate) const LINK: usize = 1;
pub(crate) const THERE: usize = 2;
pub(crate) const PATH: [u8; 3] = [LINK as u8, 4, 7];
pub(crate) const TTL: u8 = 64;
pub(crate) const HEADERS: usize = 34;

/// The tables of the group's router.
pub(crate) struct Tables {
    pub(crate) router: RouterTables,
    pub(crate) v4: Fib4,
    pub(crate) v6: Fib6,
}

impl Tables {
    /// With the group's interface alone, which takes packets of `mtu` bytes.
    pub(crate) fn new(mtu: u16) -> Tables {
        let mut router = RouterTables::new();
        let interface = InterfacePlan {
            vlan: GROUP_VLAN,
            mac: mac(GROUP),
            mtu,
            port: None,
            kernel: None,
            reverse_path: ReversePath::Strict,
        };
        router.set_interface(GROUP_VLAN, Some(interface));
        let v4 = Fib4::new(Limits::default()).unwrap();
        Tables { router, v4, v6: Fib6::new(Limits::default()).unwrap() }
    }

    /// A neighbour at a station, and the group of this number that leads to it.
    pub(crate) fn neighbour(&mut self, number: u16, station: u64) {
        self.router.set_neighbour(number, Some((GROUP_VLAN, mac(station))));
        self.group(number, GroupKind::Forward, vec![Hop { neighbour: number, vlan: GROUP_VLAN }]);
    }

    pub(crate) fn group(&mut self, number: u16, kind: GroupKind, members: Vec<Hop>) {
        self.router.set_group(number, Some(GroupSpec { kind, members, vlan: GROUP_VLAN }));
    }

    pub(crate) fn route4(&mut self, prefix: [u8; 4], len: u8, group: u16) {
        self.v4.insert(u32::from_be_bytes(prefix), len, GroupId::new(group).unwrap()).unwrap();
    }

    pub(crate) fn route6(&mut self, prefix: [u8; 16], len: u8, group: u16) {
        self.v6.insert(u128::from_be_bytes(prefix), len, GroupId::new(group).unwrap()).unwrap();
    }

    pub(crate) fn source(&mut self) -> RouterSource {
        let fib = FibReaders::new(self.v4.reader(), self.v6.reader());
        RouterSource { plan: (*self.router.plan()).clone().publish(), fib }
    }

    /// The node whose router has these tables, with A and C at two of its ports and a way to B by
    /// the link. `trust`: what its ports know traffic classes by.
    pub(crate) fn node(&mut self, ports: usize, workers: usize, trust: Trust) -> Node {
        let mut node = Node::with(Plan {
            capabilities: Some(CAPABILITIES),
            workers,
            frame_sizes: [69_632, 2048][..workers].to_vec(),
            router: Some(self.source()),
            ports: vec![PortSettings { trust, ..PortSettings::default() }; ports],
            ..Plan::new(ports)
        });
        node.host(HERE as u16, mac(A));
        node.host(THERE as u16, mac(C));
        node.link(&[LINK as u16]);
        node.route(HERE as u16, mac(B), &[&PATH]);
        node.route(HERE as u16, mac(C), &[&[THERE as u8]]);
        node.tables.set_gateway(Some(mac(GROUP)), true);
        node.publish();
        node
    }
}

/// A node whose router knows these three hosts; B and C take packets of `mtu` bytes.
pub(crate) fn node(workers: usize, mtu: u16) -> (Node, Fib4, Fib6) {
    node_of(3, workers, mtu)
}

/// The same with so many ports.
pub(crate) fn node_of(ports: usize, workers: usize, mtu: u16) -> (Node, Fib4, Fib6) {
    let mut tables = Tables::new(1500);
    for (number, (station, own)) in (0..).zip([(A, None), (B, Some(mtu)), (C, Some(mtu))]) {
        tables.neighbour(number, station);
        tables.router.set_neighbour_mtu(number, own);
        tables.route4(v4_of(station), 32, number);
        tables.route6(v6_of(station), 128, number);
    }
    // What is told of the interface later leaves the neighbours' own MTUs.
    let again = *tables.router.plan().interface(GROUP_VLAN).unwrap();
    tables.router.set_interface(GROUP_VLAN, Some(again));
    let node = tables.node(ports, workers, Trust::default());
    (node, tables.v4, tables.v6)
}

pub(crate) fn v4_of(station: u64) -> [u8; 4] {
    [10, station as u8, 0, 1]
}

pub(crate) fn v6_of(station: u64) -> [u8; 16] {
    let mut address = [0; 16];
    (address[0], address[3], address[15]) = (0xFD, station as u8, 1);
    address
}

/// A packet from A, by the group. `field`: flags and fragment offset.
pub(crate) fn packet(to: u64, field: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let ends = [v4_of(A), v4_of(to)];
    common::ipv4([mac(GROUP), mac(A)], ends, (field, TTL, protocol), payload)
}

pub(crate) fn packet_v6(to: u64, payload: usize) -> Vec<u8> {
    let mut f = [mac(GROUP).0, mac(A).0].concat();
    f.extend([0x86, 0xDD, 0x60, 0, 0, 0]);
    f.extend((payload as u16).to_be_bytes());
    f.extend([17, TTL]);
    f.extend([v6_of(A), v6_of(to)].as_flattened());
    f.resize(f.len() + payload, 7);
    f
}
