//! A node of a fabric that is a router, with a host A that sends, B behind a link, and C here.

use plexus_config::ReversePath;
use plexus_plane::{
    FibReaders, GROUP_VLAN, GroupKind, GroupSpec, Hop, InterfacePlan, RouterSource, RouterTables,
};
use plexus_table::lpm::{Fib4, Fib6, GroupId, Limits};
use plexus_wire::checksum;

use crate::common::{Plan, mac};
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

/// A node whose router knows these three hosts; B and C take packets of `mtu` bytes.
pub(crate) fn node(workers: usize, mtu: u16) -> (Node, Fib4, Fib6) {
    node_of(3, workers, mtu)
}

/// The same with so many ports.
pub(crate) fn node_of(ports: usize, workers: usize, mtu: u16) -> (Node, Fib4, Fib6) {
    let mut router = RouterTables::new();
    let interface = InterfacePlan {
        vlan: GROUP_VLAN,
        mac: mac(GROUP),
        mtu: 1500,
        port: None,
        kernel: None,
        reverse_path: ReversePath::Strict,
    };
    router.set_interface(GROUP_VLAN, Some(interface));
    let mut v4 = Fib4::new(Limits::default()).unwrap();
    let mut v6 = Fib6::new(Limits::default()).unwrap();
    for (number, (station, own)) in (0..).zip([(A, None), (B, Some(mtu)), (C, Some(mtu))]) {
        router.set_neighbour(number, Some((GROUP_VLAN, mac(station))));
        router.set_neighbour_mtu(number, own);
        let members = vec![Hop { neighbour: number, vlan: GROUP_VLAN }];
        let group = GroupSpec { kind: GroupKind::Forward, members, vlan: GROUP_VLAN };
        router.set_group(number, Some(group));
        let id = GroupId::new(number).unwrap();
        v4.insert(u32::from_be_bytes(v4_of(station)), 32, id).unwrap();
        v6.insert(u128::from_be_bytes(v6_of(station)), 128, id).unwrap();
    }
    // What is told of the interface later leaves the neighbours' own MTUs.
    router.set_interface(GROUP_VLAN, Some(interface));
    let fib = FibReaders::new(v4.reader(), v6.reader());
    let source = RouterSource { plan: (*router.plan()).clone().publish(), fib };
    let mut node = Node::with(Plan {
        capabilities: Some(CAPABILITIES),
        workers,
        frame_sizes: [69_632, 2048][..workers].to_vec(),
        router: Some(source),
        ..Plan::new(ports)
    });
    node.host(HERE as u16, mac(A));
    node.host(THERE as u16, mac(C));
    node.link(&[LINK as u16]);
    node.route(HERE as u16, mac(B), &[&PATH]);
    node.route(HERE as u16, mac(C), &[&[THERE as u8]]);
    node.tables.set_gateway(Some(mac(GROUP)), true);
    node.publish();
    (node, v4, v6)
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
    let mut f = [mac(GROUP).0, mac(A).0].concat();
    f.extend([8, 0, 0x45, 0]);
    f.extend(((20 + payload.len()) as u16).to_be_bytes());
    f.extend([0x12, 0x34]);
    f.extend(field.to_be_bytes());
    f.extend([TTL, protocol, 0, 0]);
    f.extend([v4_of(A), v4_of(to)].as_flattened());
    let sum = checksum::checksum(&f[14..HEADERS]);
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    f.extend(payload);
    f
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
