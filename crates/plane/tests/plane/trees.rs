//! Frames to groups: copied along trees, once to each port, and never farther than their credits.

use std::net::IpAddr;

use crate::common::{Plan, ipv4, mac};
use crate::net::{CAPABILITIES, Journey, Net, Node};
use plexus_io::{Checksum, Offload, Segmentation};
use plexus_plane::{DropReason, Encapsulation, Injection, PortRole, PortSet, Punt};
use plexus_wire::fabric::{self, Kind, Repr};
use plexus_wire::{MacAddr, Protocol, frame, igmp, ndp};

const A: u64 = 0xA;
const TREE: u32 = 42;

fn group() -> IpAddr {
    [239, 1, 2, 3].into()
}

fn group_mac() -> MacAddr {
    MacAddr::of_group(group()).unwrap()
}

/// An IPv4 packet in a frame to any Ethernet address.
fn packet(to: MacAddr, dst: [u8; 4], protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    ipv4([to, mac(A)], [[10, 0, 0, 1], dst], (0, 64, protocol.0), payload)
}

fn to_group(payload: &[u8]) -> Vec<u8> {
    packet(group_mac(), [239, 1, 2, 3], Protocol::UDP, payload)
}

fn ports(ports: &[u8]) -> Option<PortSet> {
    Some(ports.iter().copied().collect())
}

/// Three nodes with hosts at ports 0 and 3, and links from port 2 of each to port 1 of the next; in
/// a ring, also of the last to the first. Host A is at port 0 of node 0.
fn three(encapsulated: bool, ring: bool, workers: usize) -> Net {
    let plan = || Plan { capabilities: Some(CAPABILITIES), workers, ..Plan::new(4) };
    let mut cables = vec![((0, 2), (1, 1)), ((1, 2), (2, 1))];
    cables.extend(ring.then_some(((2, 2), (0, 1))));
    let mut net = Net { nodes: (0..3).map(|_| Node::with(plan())).collect(), cables };
    for node in 0..3 {
        for port in [1u16, 2] {
            let own = mac(0xFF00 + 16 * node as u64 + u64::from(port));
            let peer = net.far_end((node, port.into()));
            let peer = peer.map(|(n, p)| mac(0xFF00 + 16 * n as u64 + p as u64));
            let link = match peer {
                Some(peer) if encapsulated => Encapsulation::ethertype(own, peer),
                _ => Encapsulation::Native,
            };
            net.nodes[node].role(port, PortRole::Fabric(link));
        }
        let host =
            |port: u64| mac(if node == 0 && port == 0 { A } else { 16 * node as u64 + port });
        net.nodes[node].host(0, host(0));
        net.nodes[node].host(3, host(3));
    }
    net
}

/// A tree over the line of three with members at every host port.
fn with_tree(mut net: Net, credits: u8) -> Net {
    for (node, set) in [&[0, 2, 3][..], &[0, 1, 2, 3], &[0, 1, 3]].into_iter().enumerate() {
        net.nodes[node].tables.set_tree(TREE, ports(set));
    }
    assert!(net.nodes[0].tables.set_group(0, mac(A), group_mac(), Some((TREE, credits))));
    net.nodes.iter_mut().for_each(Node::publish);
    net
}

fn arrived(mut journey: Journey) -> Vec<(usize, usize)> {
    journey.arrived.sort_unstable();
    journey.arrived.iter().map(|(node, port, _)| (*node, *port)).collect()
}

#[test]
fn each_member_gets_one_copy_and_the_sender_none() {
    for (encapsulated, workers) in [(false, 1), (true, 1), (false, 2), (true, 3)] {
        let mut net = with_tree(three(encapsulated, false, workers), 1);
        for len in [8, 1472] {
            let f = to_group(&vec![7; len]);
            let journey = net.send(0, 0, &f);
            assert!(journey.arrived.iter().all(|(_, _, got)| *got == f));
            let outer = if encapsulated { 14 } else { 0 };
            let headers: Vec<Repr> = journey
                .on_cables
                .iter()
                .map(|(_, _, f)| fabric::Frame::new_checked(&f[outer..]).unwrap())
                .map(|f| Repr::parse(&f).unwrap())
                .collect();
            assert_eq!(headers[0], Repr::tree(TREE, 1, 0).unwrap());
            assert_eq!(
                (headers[1].kind, &headers[1].forward[..], &headers[1].reverse[..]),
                (Kind::Tree, &TREE.to_be_bytes()[..], &[1, 0][..])
            );
            assert_eq!(headers.len(), 2);
            assert_eq!(arrived(journey), [(0, 3), (1, 0), (1, 3), (2, 0), (2, 3)]);
        }
    }
}

#[test]
fn no_frame_goes_farther_than_its_credits_even_in_a_ring_of_lies() {
    for credits in 0..6u8 {
        let mut net = three(false, true, 1);
        for node in &mut net.nodes {
            node.tables.set_tree(TREE, ports(&[0, 1, 2]));
        }
        net.nodes[0].tables.set_group(0, mac(A), group_mac(), Some((TREE, credits)));
        net.nodes.iter_mut().for_each(Node::publish);
        let journey = net.send(0, 0, &to_group(b"round and round"));
        // Both ways round, one cable more than there are credits.
        assert_eq!(journey.on_cables.len(), 2 * (1 + usize::from(credits)));
    }
}

#[test]
fn what_a_tree_frame_must_not_be_is_dropped_by_name() {
    let mut net = with_tree(three(false, false, 1), 1);
    let inner = to_group(b"x");
    let frame = |repr: Repr| [&repr.to_bytes().unwrap()[..], &inner].concat();
    let sound = frame(Repr::tree(TREE, 1, 0).unwrap());
    let mut short = Repr::new(Kind::Tree, &[1, 2, 3]).unwrap();
    short.reverse.push(0);
    for (bytes, reason) in [
        (frame(Repr::tree(TREE + 1, 1, 0).unwrap()), DropReason::UnknownTree),
        (frame(short), DropReason::BadFabric),
        (sound[..20].to_vec(), DropReason::Runt),
    ] {
        assert!(net.nodes[1].rig.send(1, &bytes).is_empty());
        assert_eq!(net.nodes[1].rig.drops(1, reason), 1, "{reason:?}");
    }
    // A host cannot write one: neither behind the fabric's EtherType nor as it is.
    let peer = [&[2; 12][..], &[0x88, 0xB5], &sound].concat();
    assert!(net.nodes[1].rig.send(0, &peer).is_empty());
    assert_eq!(net.nodes[1].rig.drops(0, DropReason::FabricOnHost), 1);
    assert!(net.nodes[1].rig.send(0, &sound).is_empty());
    // Nor can a controller.
    net.nodes[1].role(2, PortRole::Controller(Encapsulation::Native));
    assert!(net.nodes[1].rig.send(2, &sound).is_empty());
    assert_eq!(net.nodes[1].rig.drops(2, DropReason::NotControl), 1);
    // A tree that has only the port that the frame came by.
    net.nodes[1].tables.set_tree(TREE, ports(&[1]));
    net.nodes[1].publish();
    assert!(net.nodes[1].rig.send(1, &sound).is_empty());
    assert_eq!(net.nodes[1].rig.drops(1, DropReason::NoMember), 1);
}

#[test]
fn a_port_that_is_something_else_by_now_gets_nothing() {
    let mut net = with_tree(three(false, false, 1), 1);
    net.nodes[1].role(3, PortRole::Unknown);
    net.nodes[1].role(0, PortRole::Controller(Encapsulation::Native));
    net.nodes[0].rig.plug(3, false);
    let journey = net.send(0, 0, &to_group(b"x"));
    assert_eq!(arrived(journey), [(2, 0), (2, 3)]);
}

#[test]
fn what_the_control_plane_answers_does_not_go_along_a_tree() {
    let mut net = with_tree(three(false, false, 1), 1);
    let mut join = vec![0; 8];
    igmp::Repr::ReportV2([239, 1, 2, 3].into()).emit(&mut join).unwrap();
    let mut others = vec![
        packet(group_mac(), [239, 1, 2, 3], Protocol::IGMP, &join),
        // An IP address of another group, or of no group, in the same Ethernet frame.
        packet(group_mac(), [239, 9, 9, 9], Protocol::UDP, b"x"),
        packet(group_mac(), [10, 0, 0, 9], Protocol::UDP, b"x"),
        [&group_mac().0[..], &mac(A).0, &[0x12, 0x34], &[0; 46]].concat(),
    ];
    // Neighbour discovery, of a group that has a tree.
    let all = MacAddr([0x33, 0x33, 0, 0, 0, 7]);
    let solicitation = ndp::Repr { message: ndp::Message::RouterSolicitation, options: vec![] };
    let ends = ("fe80::a".parse().unwrap(), "ff02::7".parse().unwrap());
    let mut v6 = frame::ndp((mac(A), all), ends, &solicitation).unwrap();
    others.push(v6.clone());
    net.nodes[0].tables.set_group(0, mac(A), all, Some((TREE, 1)));
    net.nodes[0].publish();
    for frame in others {
        assert!(net.nodes[0].rig.send(0, &frame).is_empty());
        let punted = net.nodes[0].punted();
        assert!(matches!(&punted[..], [(Punt::Host, 0, bytes)] if *bytes == frame), "{punted:?}");
    }
    // An echo request to the same group is a host's own business.
    v6[54] = 128;
    assert_eq!(net.send(0, 0, &v6).arrived.len(), 5);
    // And a station that is not admitted has no trees.
    let mut stranger = to_group(b"x");
    stranger[11] ^= 1;
    assert!(net.nodes[0].rig.send(0, &stranger).is_empty());
    assert_eq!(net.nodes[0].punted().len(), 1);
}

#[test]
fn owed_work_is_done_before_the_copies_are_made() {
    let mut net = with_tree(three(false, false, 2), 1);
    // A datagram whose checksum field holds the sum of the pseudo-header, as a host leaves it.
    let udp = [&[0x10, 0, 0x20, 0, 0, 12, 0x12, 0x34][..], b"data"].concat();
    let want = plexus_wire::checksum::Sum::new().with(&udp).finish_udp().to_be_bytes();
    let owed = Offload {
        checksum: Checksum::Partial,
        checksum_start: 34,
        checksum_offset: 6,
        ..Offload::NONE
    };
    let out = net.nodes[0].send_owing(0, &to_group(&udp), owed);
    let mut journey = Journey::default();
    net.follow(0, out, &mut journey);
    assert_eq!(journey.arrived.len(), 5);
    for (_, _, frame) in &journey.arrived {
        assert_eq!(frame[40..42], want);
    }
    // A super-datagram: every part to every member.
    let payload = vec![5; 8 + 3000];
    let owed =
        Offload { segmentation: Segmentation::Udp, segment_size: 400, header_len: 42, ..owed };
    let out = net.nodes[0].send_owing(0, &to_group(&payload[..1000]), owed);
    let mut journey = Journey::default();
    net.follow(0, out, &mut journey);
    assert_eq!(journey.arrived.len(), 3 * 5);
    assert!(journey.arrived.iter().all(|(_, _, f)| f.len() <= 442));
}

#[test]
fn a_control_plane_sends_a_hosts_frame_as_the_host_would_have() {
    let mut net = with_tree(three(true, false, 1), 1);
    let inner = to_group(b"held");
    let header = Repr::tree(TREE, 1, 0).unwrap().to_bytes().unwrap();
    let out = net.nodes[0].rig.inject(&[&header[..], &inner].concat(), Injection::Fabric).unwrap();
    let mut journey = Journey::default();
    net.follow(0, out, &mut journey);
    assert_eq!(arrived(journey), [(0, 3), (1, 0), (1, 3), (2, 0), (2, 3)]);
    let unknown = Repr::tree(TREE + 1, 1, 0).unwrap().to_bytes().unwrap();
    let refused = net.nodes[0].rig.inject(&[&unknown[..], &inner].concat(), Injection::Fabric);
    assert_eq!(refused, Err(DropReason::UnknownTree));
}

#[test]
fn a_storm_to_a_group_is_cut_at_the_senders_port() {
    let mut plan = Plan { capabilities: Some(CAPABILITIES), ..Plan::new(4) };
    plan.ports[0].storm.multicast_pps = Some(10);
    let mut net = three(false, false, 1);
    let mut first = Node::with(plan);
    first.host(0, mac(A));
    first.link(&[2]);
    net.nodes[0] = first;
    let mut net = with_tree(net, 1);
    let mut out = 0;
    for _ in 0..100 {
        out += net.nodes[0].rig.send(0, &to_group(b"x")).len();
    }
    assert!(out > 0 && out < 30, "{out}");
    let dropped = net.nodes[0].rig.drops(0, DropReason::StormMulticast);
    assert_eq!(dropped as usize + out, 100);
}
