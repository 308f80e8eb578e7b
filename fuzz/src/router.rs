//! The control plane of an IP router: frames of anybody, handed over for any reason, while routes,
//! interfaces and time come and go.
//!
//! The bytes are a script of steps: a frame (whose checksums are mended if its step says so, for
//! few mutations would otherwise get past them), time that passes (up to days), an interface that
//! comes or goes, a route of a source, the beginning or end of naming them all, and neighbours that
//! were used.
//!
//! A data plane carries out every output. After each it finds no prefix without its group, no group
//! with a neighbour that is not there, and no frame that a router would not send; after each step
//! what is kept is bounded, and everything due has been done.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_control::router::{
    Fault, Input, InterfaceFacts, InterfaceId, Limits, NeighbourId, NextHop, Route, Router, Source,
    Why,
};
use plexus_wire::checksum::Sum;
use plexus_wire::{EtherType, MacAddr, Prefix, Protocol, Time, arp, ethernet, icmpv6, ipv4, ipv6};

use crate::router_plane::Plane;
use crate::samples::HOST_B;
use crate::script::Script;

const STEPS_MAX: usize = 200;
const LIMITS: Limits = Limits {
    interfaces: 3,
    addresses: 8,
    routes: 40,
    neighbours: 12,
    incomplete: 4,
    queue: 2,
    queue_bytes: 600,
    requests_per_s: 100,
    errors_per_s: 100,
    interface_errors_per_s: 50,
    replies_per_s: 100,
};

/// Runs a script; see the head of the module's source.
pub fn router(data: &[u8]) {
    let mut script = Script::new(data);
    let mut plane = Plane::with(LIMITS);
    // The samples' frames are from A's neighbour to A.
    for id in 1..=2 {
        let facts = Some(facts(id, 0));
        hand_in(&mut plane, Input::Interface { id: InterfaceId(id), facts });
    }
    for _ in 0..STEPS_MAX {
        let Some(step) = script.step() else { break };
        let input = input(step, &mut script, &mut plane.now);
        hand_in(&mut plane, input);
    }
}

fn facts(id: u16, shape: u8) -> InterfaceFacts {
    let v4 = Ipv4Addr::new(192, 0, if id == 1 { 2 } else { 3 }, 2);
    let near = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 2);
    let far = Ipv6Addr::new(0x2001, 0xDB8, id, 0, 0, 0, 0, 2);
    let lens = [[24, 64], [31, 127], [32, 128], [16, 48], [0, 0]][usize::from(shape % 5)];
    let mac = if id == 1 { HOST_B } else { MacAddr([2, 0, 0, 0, 9, id as u8]) };
    InterfaceFacts {
        name: format!("v{id}"),
        mac,
        mtu: [1500, 68, 1280, 9000][usize::from(shape >> 3 & 3)],
        addresses: vec![(v4.into(), lens[0]), (far.into(), lens[1]), (near.into(), 64)],
        kernel: shape & 0x20 != 0,
        is_told: false,
    }
}

fn input(step: u8, script: &mut Script<'_>, now: &mut Time) -> Input {
    let source = if step & 0x10 == 0 { Source::Static } else { Source::Kernel };
    match step & 7 {
        0..=2 => {
            let (interface, why) = (InterfaceId((step >> 3 & 3).into()), why(script));
            let mut frame = script.long().to_vec();
            if step & 0x80 != 0 {
                mend(&mut frame);
            }
            Input::Frame { interface, why, frame }
        }
        3 => {
            *now = *now + script.time();
            Input::Tick
        }
        4 => {
            let (id, shape) = (u16::from(step >> 3 & 3), script.u8());
            let facts = (shape & 0x80 == 0).then(|| facts(id, shape));
            Input::Interface { id: InterfaceId(id), facts }
        }
        5 => {
            let metric = u32::from(step >> 3 & 1);
            let prefix = prefix(script);
            let route = (step & 0x20 == 0).then(|| route(script));
            Input::Route { source, prefix, metric, route }
        }
        6 if step & 8 == 0 => Input::Begin(source),
        6 => Input::End(source),
        _ => Input::Used(script.short().iter().map(|id| NeighbourId((*id).into())).collect()),
    }
}

fn why(script: &mut Script<'_>) -> Why {
    let why = script.u8();
    match why & 7 {
        0 => Why::Arp,
        1 => Why::Nd,
        2 => Why::Local,
        3 => Why::Unresolved(None),
        4 => Why::Unresolved(Some(NeighbourId((why >> 3).into()))),
        _ => Why::Error(match why >> 3 & 7 {
            0 => Fault::TtlExpired,
            1 => Fault::NoRoute,
            2 => Fault::Unreachable,
            3 => Fault::Prohibited,
            4 => Fault::TooBig { mtu: script.u16() },
            5 => Fault::ParameterProblem { code: script.u8(), pointer: script.u16() },
            6 => Fault::BeyondScope,
            _ => Fault::AddressUnreachable,
        }),
    }
}

/// An address near those of the interfaces, or anywhere.
fn address(script: &mut Script<'_>) -> IpAddr {
    let (shape, n) = (script.u8(), script.u8());
    match shape & 7 {
        0..=2 => Ipv4Addr::new(192, 0, 2 + (shape >> 3 & 1), n).into(),
        3 => Ipv4Addr::new(n, script.u8(), script.u8(), script.u8()).into(),
        4 | 5 => Ipv6Addr::new(0x2001, 0xDB8, (shape >> 3 & 1).into(), 0, 0, 0, 0, n.into()).into(),
        6 => Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, n.into()).into(),
        _ => Ipv6Addr::new(script.u16(), 0, 0, 0, 0, 0, script.u16(), n.into()).into(),
    }
}

fn prefix(script: &mut Script<'_>) -> Prefix {
    let (addr, len) = (address(script), script.u8());
    Prefix::around(addr, len).unwrap_or_else(|_| Prefix::host(addr))
}

fn route(script: &mut Script<'_>) -> Route {
    let shape = script.u8();
    match shape & 7 {
        0 => Route::Local,
        1 => Route::Broadcast,
        2 => [Route::Blackhole, Route::Unreachable][usize::from(shape >> 3 & 1)].clone(),
        3 => Route::Prohibited,
        _ => Route::Via((0..shape >> 5).map(|_| next_hop(script)).collect()),
    }
}

fn next_hop(script: &mut Script<'_>) -> NextHop {
    let shape = script.u8();
    NextHop {
        interface: InterfaceId((shape & 3).into()),
        gateway: (shape & 4 == 0).then(|| address(script)),
        on_link: shape & 8 != 0,
        weight: shape >> 4,
    }
}

/// Fills in the checksums of an IP packet as far as it is one.
fn mend(frame: &mut [u8]) {
    let Ok(mut frame) = ethernet::Frame::new_checked(frame) else { return };
    let ethertype = frame.ethertype();
    if ethertype == EtherType::IPV4 {
        let Ok(mut packet) = ipv4::Packet::new_checked(frame.payload_mut()) else { return };
        packet.fill_checksum();
        if packet.protocol() == Protocol::ICMPV4
            && let Ok(mut icmp) = plexus_wire::icmpv4::Packet::new_checked(packet.payload_mut())
        {
            icmp.fill_checksum();
        }
    } else if ethertype == EtherType::IPV6 {
        let Ok(mut packet) = ipv6::Packet::new_checked(frame.payload_mut()) else { return };
        if packet.next_header() != Protocol::ICMPV6 {
            return;
        }
        let len = packet.payload_len() as u32;
        let sum = Sum::pseudo_v6(packet.src(), packet.dst(), Protocol::ICMPV6, len);
        if let Ok(mut icmp) = icmpv6::Packet::new_checked(packet.payload_mut()) {
            icmp.fill_checksum(sum);
        }
    }
}

/// Has the data plane carry out what follows from an input.
fn hand_in(plane: &mut Plane, input: Input) {
    plane.input(input);
    plane.again.clear();
    plane.events.clear();
    for (interface, frame) in std::mem::take(&mut plane.sent) {
        check_sent(&plane.router, interface, &frame);
    }
    let sizes = plane.router.sizes();
    assert!(sizes.routes <= LIMITS.routes && sizes.neighbours <= LIMITS.neighbours);
    assert!(sizes.queued_bytes <= LIMITS.queue_bytes && sizes.groups < 200, "{sizes:?}");
    let prefixes = LIMITS.routes + LIMITS.neighbours + 3 * 8 * 4;
    assert!(sizes.prefixes <= prefixes && plane.fib.len() <= sizes.prefixes, "{sizes:?}");
    for neighbour in plane.router.neighbours(plane.now) {
        let told = plane.adjacencies.get(&neighbour.id).map(|adjacency| adjacency.mac);
        assert_eq!(told, neighbour.mac);
        assert!(neighbour.waiting <= LIMITS.queue);
        assert!(neighbour.mac.is_none_or(|mac| !mac.is_multicast()));
        assert!(!neighbour.address.is_multicast() && !neighbour.address.is_unspecified());
    }
}

/// Frames are from the interface, ARP and discovery to anybody, all else to one station at an
/// address of one station, and within the link's MTU.
fn check_sent(router: &Router, interface: InterfaceId, bytes: &[u8]) {
    let facts = router.interfaces().find(|(id, _)| *id == interface);
    let (_, facts) = facts.expect("a frame to an interface that is down");
    let frame = ethernet::Frame::new_checked(bytes).expect("a frame");
    assert_eq!(frame.src(), facts.mac);
    assert!(![MacAddr::default(), facts.mac].contains(&frame.dst()));
    let payload = frame.payload();
    match frame.ethertype() {
        EtherType::ARP => {
            let packet = arp::Packet::new_checked(payload).expect("ARP");
            assert!(!facts.kernel || packet.operation() == arp::Operation::REQUEST);
        }
        EtherType::IPV4 => {
            let packet = ipv4::Packet::new_checked(payload).expect("IPv4");
            assert!(packet.checksum_ok() && payload.len() <= usize::from(facts.mtu));
            let dst = packet.dst();
            assert!(!frame.dst().is_multicast() && !dst.is_multicast() && !dst.is_broadcast());
            assert!(!dst.is_loopback() && dst.octets()[0] != 0);
        }
        EtherType::IPV6 => {
            let packet = ipv6::Packet::new_checked(payload).expect("IPv6");
            let is_nd = packet.next_header() == Protocol::ICMPV6
                && matches!(packet.payload().first(), Some(135 | 136));
            assert!(is_nd || !frame.dst().is_multicast() && !packet.dst().is_multicast());
            assert!(!packet.dst().is_unspecified() && !packet.src().is_multicast());
        }
        other => panic!("{other} is not for a router to send"),
    }
}
