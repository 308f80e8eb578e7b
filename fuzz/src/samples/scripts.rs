//! Scripts for the data plane: see the head of `pipeline.rs` for what they say.

use plexus_wire::fabric::{Kind, Repr};
use plexus_wire::{EtherType, Protocol, arp, fabric, ipv4, ipv6};

use super::{
    GROUP_MAC, HOST_A, HOST_B, datagram, fabric_frames, frame, frames, segment, tagged, v4_frame,
    v6_frame, written,
};

const FRAME: u8 = 0;
const TIME: u8 = 4;
const TAKE: u8 = 5;
const CABLE: u8 = 6;
const SETTINGS: u8 = 7;
/// Set on a step that goes together with the next.
const TOGETHER: u8 = 0x80;

/// Ports as the script's header has them: settings in three bytes, then capabilities.
const ACCESS: [u8; 4] = [0, 0, 0, 0];
const ACCESS_CAPABLE: [u8; 4] = [0, 0, 0, 0x0F];
const TRUNK: [u8; 4] = [4, 0, 0, 0];
const TRUNK_STRICT: [u8; 4] = [5, 0, 3, 0x01];
const LIMITED: [u8; 4] = [0x90, 0x6E, 0x38, 0];
const SLOW: [u8; 4] = [0, 0x85, 0, 0];
const SMALL: [u8; 4] = [0, 0, 0, 0x08];

/// The kind of metadata and its four fields, as a step has them.
type Owed = (u8, [u16; 4]);

fn header(shape: u8, ports: &[[u8; 4]]) -> Vec<u8> {
    let mut script = vec![shape << 2 | (ports.len() - 2) as u8];
    script.extend(ports.concat());
    if shape & FABRIC == 0 {
        script.push(0);
    }
    script
}

/// A frame, what is owed on it (kind and four fields), and padding behind it.
fn send(script: &mut Vec<u8>, step: u8, port: u8, owed: Owed, pad: u8, frame: &[u8]) {
    script.extend([step | FRAME, port, owed.0]);
    if owed.0 != 0 {
        owed.1.iter().for_each(|field| script.extend(field.to_be_bytes()));
    }
    let frame = &frame[..frame.len().min(255)];
    script.extend([pad, frame.len() as u8]);
    script.extend(frame);
}

fn turned(frame: &[u8]) -> Vec<u8> {
    let mut answer = frame.to_vec();
    answer[..6].copy_from_slice(&HOST_A.0);
    answer[6..12].copy_from_slice(&HOST_B.0);
    answer
}

/// Super-packets with what is owed on them: TCP and UDP, over IPv4 and IPv6.
fn owing() -> Vec<(Vec<u8>, Owed)> {
    let (tcp4, tcp6) = (v4_frame(Protocol::TCP, &segment()), v6_frame(Protocol::TCP, &segment()));
    let (udp4, udp6) = (v4_frame(Protocol::UDP, &datagram()), v6_frame(Protocol::UDP, &datagram()));
    let inner = tagged(tcp4.clone(), EtherType::VLAN, 0x6002);
    vec![
        (tcp4.clone(), (0x09, [34, 16, 1000, 74])),
        (tcp4, (0x0D, [34, 16, 1400, 74])),
        (inner, (0x09, [38, 16, 500, 78])),
        (tcp6.clone(), (0x11, [54, 16, 1000, 94])),
        (tcp6, (0x15, [54, 16, 1, 94])),
        (udp4.clone(), (0x19, [34, 6, 600, 42])),
        (udp6.clone(), (0x19, [54, 6, 600, 62])),
        (udp4, (0x01, [34, 6, 0, 0])),
        (udp6, (0x02, [0, 0, 0, 0])),
    ]
}

/// Scripts of some steps each, over boxes of every shape.
pub fn scripts() -> Vec<Vec<u8>> {
    let boxes: [&[[u8; 4]]; 6] = [
        &[ACCESS, ACCESS],
        &[ACCESS, TRUNK, TRUNK_STRICT],
        &[ACCESS, ACCESS_CAPABLE, SMALL],
        &[LIMITED, ACCESS, LIMITED],
        &[SLOW, ACCESS, TRUNK, SLOW],
        &[ACCESS, SLOW, TRUNK_STRICT, ACCESS_CAPABLE, TRUNK],
    ];
    let mut scripts = Vec::new();
    for (i, frame) in frames().iter().enumerate() {
        let ports = boxes[i % boxes.len()];
        // Two workers in every other script, an onlooker and few stations in some.
        let mut script = header((i % 2) as u8 | (i as u8 & 0x0E), ports);
        send(&mut script, TOGETHER, 0, (0, [0; 4]), 0, frame);
        send(&mut script, 0, 1, (0, [0; 4]), 3, &turned(frame));
        script.extend([TAKE, 0, TIME, 0, 20]);
        send(&mut script, 0, 0, (0, [0; 4]), 80, frame);
        script.extend([CABLE, 1]);
        send(&mut script, 0, 0, (0, [0; 4]), 0, frame);
        script.extend([SETTINGS, 0, 5, 0, 0, CABLE, 1]);
        send(&mut script, 0, 1, (0, [0; 4]), 0, &turned(frame));
        scripts.push(script);
    }
    for (i, (frame, owed)) in owing().iter().enumerate() {
        for ports in boxes {
            let mut script = header((i % 2) as u8, ports);
            send(&mut script, TOGETHER, 0, *owed, 180, frame);
            send(&mut script, 0, 2, *owed, 180, &turned(frame));
            script.extend([TAKE, 1, TIME, 0, 30]);
            send(&mut script, 0, 1, *owed, 100, frame);
            send(&mut script, 0, 0, *owed, 0, frame);
            scripts.push(script);
        }
    }
    scripts.extend(fabric_scripts());
    scripts.extend(router_scripts());
    scripts
}

/// Steps of a fabric node's control plane, and the header's bit that says that there is one.
const FABRIC: u8 = 0x20;
const INJECT: u8 = 0x40;
const ROLE: u8 = 0x41;
const ROUTE: u8 = 0x42;
const TREE: u8 = 0x43;
const GROUP: u8 = 0x44;
const ADMIT: u8 = 0x45;
const EXPEL: u8 = 0x46;
/// Roles in the header and in steps.
const HOST: u8 = 0;
const NATIVE: u8 = 1;
const ETHERTYPE: u8 = 9;
const CONTROLLER: u8 = 3;

/// Frames of other nodes: along paths, along trees, in error, for the control plane.
fn from_nodes(inner: &[u8]) -> Vec<Vec<u8>> {
    let along = |kind, path: &[u8]| {
        let mut repr = Repr::new(kind, path).expect("the path is short");
        repr.reverse.push(5);
        [&repr.to_bytes().expect("likewise")[..], inner].concat()
    };
    let tree = |number, credits| {
        let repr = Repr::tree(number, credits, 5).expect("the credits are few");
        [&repr.to_bytes().expect("likewise")[..], inner].concat()
    };
    vec![
        along(Kind::Ethernet, &[0]),
        along(Kind::Ethernet, &[1, 2, 3]),
        along(Kind::Ethernet, &[200, 0]),
        along(Kind::Control, &[0xFF]),
        along(Kind::Control, &[2, 0xFF]),
        along(Kind::Error, &[0xFF]),
        along(Kind::Error, &[0]),
        tree(1, 3),
        tree(1, 0),
        tree(2, 1),
    ]
}

/// Fabric nodes with one port of every role: hosts' frames by routes and along trees, other
/// nodes' frames in both encapsulations, and plans that change under way.
fn fabric_scripts() -> Vec<Vec<u8>> {
    let hosts = [v4_frame(Protocol::UDP, &datagram()), v6_frame(Protocol::TCP, &segment())];
    let mut to_group = hosts[0].clone();
    to_group[..6].copy_from_slice(&GROUP_MAC.0);
    to_group[30..34].copy_from_slice(&[239, 1, 2, 3]);
    let mut scripts = Vec::new();
    for (i, host) in hosts.iter().chain([&to_group]).enumerate() {
        for (j, frame) in from_nodes(host).iter().chain(&fabric_frames(host)).enumerate() {
            let shape = FABRIC | ((i + j) % 2) as u8;
            let ports = [ACCESS_CAPABLE, ACCESS, ACCESS, ACCESS, ACCESS_CAPABLE];
            let mut script = header(shape, &ports[..2 + j % 4]);
            script.push([0, 0x20, 0x48, 0x0C][j % 4]);
            script.extend(&[HOST, NATIVE, ETHERTYPE, CONTROLLER, HOST][..2 + j % 4]);
            send(&mut script, TOGETHER, 0, (0, [0; 4]), 0, host);
            send(&mut script, 0, 0, (0x09, [34, 16, 1000, 74]), 100, host);
            send(&mut script, 0, 1, (0, [0; 4]), 0, frame);
            let wrapped = [&ETHERTYPE_HEADER[..], frame].concat();
            send(&mut script, 0, 2, (0, [0; 4]), 0, &wrapped);
            script.extend([INJECT, 0, frame.len().min(255) as u8]);
            script.extend(&frame[..frame.len().min(255)]);
            script.extend([TREE | 0x10, 0, 0x0F, GROUP, 0, 0x28, 2, ROUTE, 0, 0x31, 3, 1, 2, 0]);
            send(&mut script, 0, 0, (0, [0; 4]), 0, host);
            script.extend([EXPEL, 0, 0, TAKE, 1, CABLE, 1, ROLE, 1, ETHERTYPE, TIME, 0, 30]);
            send(&mut script, 0, 1, (0, [0; 4]), 0, frame);
            script.extend([ADMIT, 0, 0, CABLE, 1]);
            send(&mut script, 0, 4, (0x19, [34, 6, 600, 42]), 40, host);
            scripts.push(script);
        }
    }
    scripts
}

/// From the peer of port 2 to that port, as roles have them.
const ETHERTYPE_HEADER: [u8; 14] =
    fabric::encapsulation::ethertype_header(role_mac(1), role_mac(2));

const fn role_mac(end: u8) -> plexus_wire::MacAddr {
    plexus_wire::MacAddr([2, 0xFA, 0, 0, end, 2])
}

/// Steps of a router.
const INTERFACE: u8 = 0x40;
const WAY: u8 = 0x41;
const BEGIN: u8 = 0x42;
const END: u8 = 0x46;

/// Routers: packets between their interfaces' subnets, to themselves, to nobody, and by gateways
/// that answer; interfaces and routes that change under way.
fn router_scripts() -> Vec<Vec<u8>> {
    let v4 = |dst: [u8; 4], ttl: u8| {
        let mut repr = ipv4::Repr::new([192, 0, 2, 1].into(), dst.into(), Protocol::UDP, 26);
        repr.ttl = ttl;
        frame(EtherType::IPV4, &written!(repr, &[0xA5; 26]))
    };
    let v6 = |subnet: u16, host: u16, hops: u8| {
        let ip = |subnet, host| std::net::Ipv6Addr::new(0x2001, 0xDB8, subnet, 0, 0, 0, 0, host);
        let mut repr = ipv6::Repr::new(ip(0, 2), ip(subnet, host), Protocol::UDP, 26);
        repr.hop_limit = hops;
        frame(EtherType::IPV6, &written!(repr, &[0x5A; 26]))
    };
    // Who 192.0.N.HOST is: HOST_A answers the router.
    let answer = |n: u8, host: u8| {
        let repr = arp::Repr {
            operation: arp::Operation::REPLY,
            sender_mac: HOST_A,
            sender_ip: [192, 0, n, host].into(),
            target_mac: HOST_B,
            target_ip: [192, 0, n, 254].into(),
        };
        frame(EtherType::ARP, &written!(repr, &[]))
    };
    let packets = [
        v4([192, 0, 3, 9], 64),
        v4([192, 0, 3, 9], 1),
        v4([192, 0, 2, 254], 64),
        v4([203, 0, 113, 1], 9),
        v6(1, 9, 64),
        v6(0, 1, 64),
        v6(9, 9, 1),
    ];
    let mut scripts = Vec::new();
    for (i, packet) in packets.iter().enumerate() {
        for kind in [0x01, 0x03, 0x05, 0x17, 0x21, 0x29] {
            let mut script = header((i % 2) as u8, &[ACCESS, [2, 0, 0, 0], TRUNK, SMALL]);
            *script.last_mut().expect("the kind is last") = kind;
            send(&mut script, TOGETHER, 0, (0, [0; 4]), 0, packet);
            send(&mut script, 0, 0, (0, [0; 4]), 80, packet);
            script.extend([WAY, 0, 2, 4, 0x21]);
            send(&mut script, 0, 1, (0, [0; 4]), 0, &answer(3, 1));
            send(&mut script, 0, 1, (0, [0; 4]), 0, &answer(3, 9));
            send(&mut script, 0, 0, (0, [0; 4]), 0, packet);
            script.extend([INTERFACE | 4, 0, 0x21, TIME, 0, 33]);
            send(&mut script, 0, 0, (0, [0; 4]), 40, packet);
            script.extend([BEGIN, 0, WAY, 0, 5, 5, 0x20, 0x29, END, 0, INTERFACE, 0, 0]);
            send(&mut script, 0, 0, (0, [0; 4]), 0, packet);
            send(&mut script, 0, 2, (0x09, [34, 16, 1000, 74]), 100, packet);
            scripts.push(script);
        }
    }
    scripts
}
