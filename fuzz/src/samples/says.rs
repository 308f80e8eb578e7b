//! Scripts for the node and for the controller: see the heads of `node.rs` and `controller.rs` for
//! what they say.

use std::net::IpAddr;

use plexus_wire::fabric::message::*;
use plexus_wire::{EtherType, MacAddr, Protocol, arp, ethernet, frame, igmp, ipv4};

use super::{GROUP_MAC, GROUP_OWN_MAC, HOST_A, HOST_B, datagram, frames};
use crate::node::KEY;

const A_IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const B_IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const GROUP_IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(239, 1, 2, 3));

/// Steps of a node's script: the low three bits.
mod to_node {
    pub(super) const HOST: u8 = 0;
    pub(super) const FRAME: u8 = 2;
    pub(super) const TIME: u8 = 3;
    pub(super) const CARRIER: u8 = 4;
    pub(super) const SAY: u8 = 5;
    pub(super) const KEYED: u8 = 7;
}

/// The same of the controller's; above them, which node.
mod to_controller {
    pub(super) const SAY: u8 = 0;
    pub(super) const STORM: u8 = 3;
    pub(super) const TIME: u8 = 4;
    pub(super) const HELLO: u8 = 5;
    pub(super) const COME_OR_GO: u8 = 6;
    pub(super) const OTHER: u8 = 7;
}

fn long(script: &mut Vec<u8>, bytes: &[u8]) {
    script.extend((bytes.len() as u16).to_be_bytes());
    script.extend(bytes);
}

fn short(script: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(255)];
    script.push(bytes.len() as u8);
    script.extend(bytes);
}

fn ips(source: IpAddr, target: IpAddr) -> Ips {
    Ips::new(source, target).expect("both are of IPv4")
}

fn routes(hops: Vec<Hops>) -> Routes {
    Routes::new(hops).expect("they are few and short")
}

/// Half a second or so, in a step of either script.
const HALF_A_SECOND: u8 = 29;

/// A host's ARP: who has `target`? The host's own address: an announcement.
fn asks(mac: MacAddr, ip: IpAddr, target: IpAddr) -> Vec<u8> {
    let v4 = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => unreachable!("the samples ask for IPv4"),
    };
    let packet = arp::Repr {
        operation: arp::Operation::REQUEST,
        sender_mac: mac,
        sender_ip: v4(ip),
        target_mac: MacAddr::default(),
        target_ip: v4(target),
    };
    frame::arp(MacAddr::BROADCAST, &packet)
}

/// A host's IPv4 packet to 239.1.2.3.
fn to_group(mac: MacAddr, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN + 20];
    let header = ethernet::Repr { dst: GROUP_MAC, src: mac, ethertype: EtherType::IPV4 };
    header.emit(&mut frame).expect("there is room");
    let dst = [239, 1, 2, 3].into();
    let ip = ipv4::Repr::new([10, 0, 0, 1].into(), dst, protocol, payload.len());
    ip.emit(&mut frame[ethernet::HEADER_LEN..]).expect("there is room");
    frame.extend(payload);
    frame
}

fn igmp(kind: igmp::RecordKind) -> Vec<u8> {
    let record = igmp::Record { kind, group: [239, 1, 2, 3].into(), sources: vec![] };
    let report = igmp::Repr::ReportV3(vec![record]);
    let mut message = vec![0; report.buffer_len()];
    report.emit(&mut message).expect("there is room");
    message
}

/// What a controller says to a node whose host A is at port 1 and host B at port 2.
fn orders() -> Vec<Body> {
    let verdict = |port, mac, ip, refused| HostVerdict { port, mac, ip, refused }.into();
    let route = |port, source, tree| GroupRoute {
        port,
        source,
        group: GROUP_MAC,
        version: 3,
        tree,
        credits: 4,
    };
    vec![
        verdict(1, HOST_A, None, None),
        verdict(1, HOST_A, Some(A_IP), None),
        verdict(2, HOST_B, None, None),
        verdict(2, HOST_B, Some(B_IP), None),
        GroupPolicy {
            version: 1,
            prefixes: vec![GroupPrefix { ip: GROUP_IP, prefix_len: 8, joined: true }],
        }
        .into(),
        FibUpdate {
            table: 1 << 16,
            from: 0,
            to: 3,
            made_at: 3,
            sum: Some(1),
            // Set 1 is a host, and leads to a network.
            changes: vec![5, 0, 0, 0, 1, 0, 1, 4, 10, 0, 0, 1, 1, 1, 8, 20, 0, 0, 0, 1],
        }
        .into(),
        TreeUpdate {
            earlier: false,
            add: vec![TreeEntry { tree: 9, ports: vec![1, 2, 3] }],
            remove: vec![8],
        }
        .into(),
        GroupRoutes { routes: vec![route(1, HOST_A, Some(9)), route(2, HOST_B, None)] }.into(),
        ResolveForward {
            exchange: 7,
            key: KEY,
            version: 2,
            source_mac: HOST_B,
            source_ip: B_IP,
            target_mac: HOST_A,
            target_ip: A_IP,
            target_port: 1,
            to_source: vec![vec![3, 2]],
            to_target: vec![vec![3, 1]],
        }
        .into(),
        ShortForward {
            secret: [7; 16],
            version: Number(3),
            source_mac: HOST_B,
            target_mac: HOST_A,
            ips: ips(B_IP, A_IP),
            to_source: routes(vec![vec![3, 2]]),
            to_target: routes(vec![vec![3, 1], vec![4, 5, 1]]),
            recorded: 1,
        }
        .into(),
        RouteUpdate {
            routes: vec![RouteEntry {
                port: 1,
                source: Some(HOST_A),
                destination: HOST_B,
                version: 5,
                routes: vec![vec![3, 2]],
            }],
        }
        .into(),
        ResolveFailed { exchange: 7, reason: Refusal::Forbidden }.into(),
        HostProbe { exchange: 3, port: 1, mac: HOST_A, ip: A_IP }.into(),
        HostSend { port: 2, frame: asks(HOST_A, A_IP, B_IP) }.into(),
        PortBlock { port: 2, reason: Some(Refusal::Scanning) }.into(),
        PortBlock { port: 2, reason: None }.into(),
        TreeUpdate { earlier: true, add: vec![], remove: vec![9] }.into(),
        CommonOffer { version: 7, piece: 0, pieces: 1, text: b"[switch]\n".to_vec() }.into(),
        CommonOrder { version: 7, verb: CommonVerb::Try, seconds: 1 }.into(),
        CommonOrder { version: 7, verb: CommonVerb::Keep, seconds: 0 }.into(),
        verdict(1, HOST_A, Some(A_IP), Some(Refusal::Claimed)),
        verdict(2, HOST_B, None, Some(Refusal::TooMany)),
        Welcome {
            epoch: 6,
            generation: 1,
            page: 0,
            report: true,
            group_mac: GROUP_OWN_MAC,
            gateways: vec![Gateway {
                ip: [10, 0, 0, 254].into(),
                prefix_len: 24,
                daemons: false,
                mtu: 1500,
            }],
        }
        .into(),
    ]
}

/// What hosts A and B send.
fn host_frames() -> Vec<(u8, Vec<u8>)> {
    let host = |port: u8| to_node::HOST | (port - 1) << 3;
    vec![
        (host(1), asks(HOST_A, A_IP, A_IP)),
        (host(2), asks(HOST_B, B_IP, B_IP)),
        (host(1), asks(HOST_A, A_IP, B_IP)),
        (host(1), to_group(HOST_A, Protocol::IGMP, &igmp(igmp::RecordKind::TO_EXCLUDE))),
        (host(2), to_group(HOST_B, Protocol::IGMP, &igmp(igmp::RecordKind::TO_EXCLUDE))),
        (host(1), to_group(HOST_A, Protocol::UDP, &datagram())),
        (host(1), to_group(HOST_A, Protocol::IGMP, &igmp(igmp::RecordKind::TO_INCLUDE))),
    ]
}

/// Scripts for a node: with and without a controller, in several orders.
pub fn node_scripts() -> Vec<Vec<u8>> {
    let mut whole = vec![1];
    let say = |script: &mut Vec<u8>, request, body: &Body| {
        script.push(to_node::SAY);
        long(script, &body.to_bytes(request));
    };
    let mut scripts = Vec::new();
    for (i, (step, frame)) in host_frames().iter().enumerate() {
        whole.push(*step);
        short(&mut whole, frame);
        for (request, body) in orders().iter().enumerate().skip(2 * i).take(4) {
            say(&mut whole, request as u32, body);
        }
        // Everything again, after the order that admits.
        let mut script = vec![1];
        for admitting in &orders()[..5] {
            say(&mut script, 0, admitting);
            script.push(*step);
            short(&mut script, frame);
        }
        script.extend([to_node::TIME, HALF_A_SECOND]);
        for (step, frame) in host_frames() {
            script.push(step);
            short(&mut script, &frame);
        }
        for body in &orders()[5..] {
            say(&mut script, 0, body);
            script.extend([to_node::TIME, HALF_A_SECOND - 3]);
        }
        script.extend([to_node::CARRIER, 1, 0, 0, to_node::TIME, 40, to_node::TIME, 45]);
        scripts.push(script);
    }
    let reply = ResolveReply {
        version: 9,
        target_mac: HOST_B,
        target_ip: B_IP,
        to_target: vec![vec![3, 2]],
    };
    let told = Invalidate { destination: HOST_A, source: HOST_B };
    let reply_short = ShortReply {
        target_mac: HOST_B,
        target_port: 2,
        recorded: 1,
        to_target: routes(vec![vec![4, 2]]),
    };
    for body in [Body::from(reply), told.into(), reply_short.into()] {
        whole.extend([to_node::KEYED, 7, 1]);
        short(&mut whole, &body.to_bytes(0));
    }
    scripts.push(whole);
    // Frames of every format, for every reason, at every port, where nobody has proved anything.
    for (i, frame) in frames().iter().enumerate() {
        let mut script = vec![(i % 2) as u8];
        for kind in 0..5 {
            script.extend([to_node::FRAME | kind << 3, (i % 5) as u8]);
            long(&mut script, frame);
        }
        script.extend([to_node::HOST]);
        short(&mut script, frame);
        script.extend([to_node::TIME, 34]);
        scripts.push(script);
    }
    scripts
}

/// What nodes say to a controller: of hosts A at port 2 and B at port 3.
fn reports() -> Vec<Body> {
    let seen = |port, mac, ip| HostSeen { port, mac, ip }.into();
    let entry = RouteEntry {
        port: 2,
        source: Some(HOST_A),
        destination: HOST_B,
        version: 5,
        routes: vec![vec![0, 3]],
    };
    let joined = |mac, port, groups| GroupMembership { port, mac, version: 4, groups }.into();
    let sender = |tree| GroupSender { port: 2, mac: HOST_A, group: GROUP_IP, tree }.into();
    vec![
        seen(2, HOST_A, None),
        seen(2, HOST_A, Some(A_IP)),
        seen(3, HOST_B, Some(B_IP)),
        ResolveRequest {
            exchange: 7,
            key: KEY,
            port: 2,
            source_mac: HOST_A,
            source_ip: A_IP,
            target_ip: B_IP,
        }
        .into(),
        ShortRequest { secret: [7; 16], port: 2, source_mac: None, ips: ips(A_IP, B_IP) }.into(),
        ShortRequest { secret: [8; 16], port: 3, source_mac: Some(HOST_B), ips: ips(B_IP, A_IP) }
            .into(),
        joined(HOST_A, 2, vec![GROUP_IP]),
        joined(HOST_B, 3, vec![GROUP_IP, [239, 9, 9, 9].into()]),
        sender(None),
        TreesReady { trees: vec![(1 << 22) + 1, (1 << 22) + 2] }.into(),
        HostReport { more: 0, hosts: vec![HostState { port: 2, mac: HOST_A, ips: vec![A_IP] }] }
            .into(),
        FlowReport { more: 0, flows: vec![entry] }.into(),
        sender(Some(77)),
        ResolveFailed { exchange: 7, reason: Refusal::Silent }.into(),
        HostProbeReply { exchange: 1, alive: false }.into(),
        Invalidate { destination: HOST_B, source: HOST_A }.into(),
        HostFrame { port: 2, frame: super::dhcp() }.into(),
        HostGone { port: 3, mac: HOST_B }.into(),
        Names { prefixes: vec![NamePrefix { uri: b"/a".to_vec() }], more: 0 }.into(),
        CommonState { kept: 6, version: 7, fate: CommonFate::Ready, left_s: 0, why: vec![] }.into(),
        joined(HOST_A, 2, vec![]),
    ]
}

/// Scripts for a controller: what its nodes say in several orders, truly and not, and storms.
pub fn controller_scripts() -> Vec<Vec<u8>> {
    let say = |script: &mut Vec<u8>, node: u8, body: &Body| {
        script.push(to_controller::SAY | node << 3);
        long(script, &body.to_bytes(1));
    };
    let mut scripts = Vec::new();
    for (i, storming) in reports().iter().enumerate() {
        let mut script = vec![i as u8 & 1];
        for (j, body) in reports().iter().enumerate() {
            // Host B is at another node in half of them.
            say(&mut script, (i & j) as u8 & 1, body);
            say(&mut script, 1, body);
            script.extend([to_controller::TIME, [20, HALF_A_SECOND][j & 1]]);
            script.extend([to_controller::OTHER, 9]);
        }
        script.extend([to_controller::HELLO, i as u8 & 3, to_controller::TIME, 28]);
        let bytes = storming.to_bytes(0);
        for at in [6, 11, bytes.len() - 1] {
            script.push(to_controller::STORM);
            script.extend((at as u16).to_be_bytes());
            long(&mut script, &bytes);
        }
        script.extend([to_controller::HELLO, 0, to_controller::TIME, 28]);
        script.extend([to_controller::COME_OR_GO | 8, i as u8 & 7, to_controller::TIME, 32]);
        script.extend([to_controller::OTHER, i as u8 & 3, to_controller::TIME, 36]);
        say(&mut script, 0, storming);
        scripts.push(script);
    }
    scripts
}
