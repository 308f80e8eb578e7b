//! The fabric as its hosts and control planes see it: frames in, frames out, paths in between.

use std::time::Duration;

use crate::common::{self, Plan, mac, tagged};
use crate::net::{CAPABILITIES, Journey, Net, Node};
use plexus_config::Trust;
use plexus_io::{Checksum, Offload, Segmentation};
use plexus_plane::{ControlLimits, DropReason, Encapsulation, Injection, PortRole, Punt};
use plexus_table::RouteKey;
use plexus_wire::fabric::{self, Kind, Repr, encapsulation};
use plexus_wire::{MacAddr, checksum, ipv4};

const A: u64 = 0xA;
const B: u64 = 0xB;

/// A frame that means nothing, of this length.
fn plain(to: MacAddr, from: MacAddr, len: usize) -> Vec<u8> {
    let mut f = [to.0, from.0].concat();
    f.extend([0x12, 0x34]);
    f.extend((14..len).map(|i| i as u8));
    f
}

fn header(bytes: &[u8]) -> Repr {
    Repr::parse(&fabric::Frame::new_checked(bytes).unwrap()).unwrap()
}

/// A fabric frame: header, then what it carries.
fn fabric_frame(kind: Kind, forward: &[u8], reverse: &[u8], carried: &[u8]) -> Vec<u8> {
    let mut repr = Repr::new(kind, forward).unwrap();
    repr.reverse.extend(reverse.iter().copied());
    [&repr.to_bytes().unwrap()[..], carried].concat()
}

/// Host A at port 0 of node 0, host B at port 3 of node 2; ports 1 and 2 of each node are links.
///
/// ```text
/// A --0[node 0]2--1[node 1]2--1[node 2]3-- B
/// ```
fn three(encapsulated: bool) -> Net {
    let mut net = Net {
        nodes: (0..3).map(|_| Node::new(4)).collect(),
        cables: vec![((0, 2), (1, 1)), ((1, 2), (2, 1))],
    };
    for node in 0..3 {
        for port in [1u16, 2] {
            let far = net.far_end((node, port.into()));
            let port_mac =
                |(node, port): (usize, usize)| mac(0xFF00 + 16 * node as u64 + port as u64);
            let role = match far {
                Some(far) if encapsulated => PortRole::Fabric(Encapsulation::ethertype(
                    port_mac((node, port.into())),
                    port_mac(far),
                )),
                _ => PortRole::Fabric(Encapsulation::Native),
            };
            net.nodes[node].role(port, role);
        }
    }
    net.nodes[0].host(0, mac(A));
    net.nodes[2].host(3, mac(B));
    net.nodes[0].route(0, mac(B), &[&[2, 2, 3]]);
    net.nodes[2].route(3, mac(A), &[&[1, 1, 0]]);
    net
}

#[test]
fn a_frame_goes_hop_by_hop_and_arrives_as_it_was_sent() {
    let mut net = three(false);
    for len in [14, 15, 60, 61, 1514, 1518] {
        let f = plain(mac(B), mac(A), len);
        let journey = net.send(0, 0, &f);
        assert_eq!(journey.arrived, [(2, 3, f.clone())]);
        let seen: Vec<_> = journey.on_cables.iter().map(|(n, p, f)| (*n, *p, header(f))).collect();
        let ethernet = |forward: &[u8], reverse: &[u8]| Repr {
            kind: Kind::Ethernet,
            forward: forward.try_into().unwrap(),
            reverse: reverse.try_into().unwrap(),
        };
        // At each hop the reverse path leads back to A's port.
        assert_eq!(seen, [(0, 2, ethernet(&[2, 3], &[0])), (1, 2, ethernet(&[3], &[1, 0]))]);
        assert!(journey.on_cables.iter().all(|(_, _, bytes)| bytes[9..] == f));
    }
    let back = plain(mac(A), mac(B), 60);
    assert_eq!(net.send(2, 3, &back).arrived, [(0, 0, back)]);
}

#[test]
fn control_planes_talk_along_paths_and_answer_along_the_reverse_path() {
    for encapsulated in [false, true] {
        let mut net = three(encapsulated);
        let hello = fabric_frame(Kind::Control, &[2, 2, 0xFF], &[], b"hello");
        let out = net.nodes[0].rig.inject(&hello, Injection::Fabric).unwrap();
        net.follow(0, out, &mut Journey::default());
        let punted = net.nodes[2].punted();
        let [(Punt::Control, 1, bytes)] = &punted[..] else { panic!("{punted:?}") };
        assert_eq!(header(bytes).reverse[..], [1, 1, 0xFF]);
        let answer = header(bytes).answer(Kind::Control).to_bytes().unwrap();
        let out =
            net.nodes[2].rig.inject(&[&answer[..], b"yes"].concat(), Injection::Fabric).unwrap();
        net.follow(2, out, &mut Journey::default());
        let punted = net.nodes[0].punted();
        let [(Punt::Control, 2, bytes)] = &punted[..] else { panic!("{punted:?}") };
        assert!(bytes.ends_with(b"yes"));
        // To itself, and to nowhere.
        let own = fabric_frame(Kind::Control, &[0xFF], &[], b"");
        net.nodes[0].rig.inject(&own, Injection::Fabric).unwrap();
        assert_eq!(header(&net.nodes[0].punted()[0].2).reverse[..], [0xFF]);
        let lost = fabric_frame(Kind::Control, &[9], &[], b"");
        assert_eq!(
            net.nodes[0].rig.inject(&lost, Injection::Fabric),
            Err(DropReason::HopToNowhere)
        );
        assert_eq!(net.nodes[0].rig.inject(b"x", Injection::Fabric), Err(DropReason::BadFabric));
        // A whole frame out of one port, even one of which nothing is known.
        let arp = plain(MacAddr::BROADCAST, mac(0xFF), 60);
        net.nodes[0].role(3, PortRole::Unknown);
        assert_eq!(net.nodes[0].rig.inject(&arp, Injection::Port(3)), Ok(vec![(3, arp.clone())]));
        assert!(net.nodes[0].rig.inject(&arp, Injection::Port(99)).is_err());
        assert_eq!(
            net.nodes[0].rig.inject(&[0; 3000], Injection::Port(3)),
            Err(DropReason::TooLong)
        );
        assert!(net.nodes[0].rig.account().injected >= 5);
    }
}

#[test]
fn only_bootstrap_frames_pass_a_port_of_which_nothing_is_known() {
    let mut node = Node::new(4);
    node.link(&[1]);
    node.host(2, mac(A));
    node.role(3, PortRole::Fabric(Encapsulation::ethertype(mac(1), mac(2))));
    let hello = |to: MacAddr| {
        let carried = fabric_frame(Kind::Control, &[0xFF], &[], b"hello");
        [&encapsulation::ethertype_header(to, mac(9))[..], &carried].concat()
    };
    for port in 0..4 {
        let hello = hello(encapsulation::NEAREST_BRIDGE);
        assert!(node.rig.send(port, &hello).is_empty());
        assert_eq!(node.punted(), [(Punt::Bootstrap, port as u16, hello)]);
    }
    for (port, reason) in [
        (0, DropReason::PortUnknown),
        (1, DropReason::BadFabric),
        (2, DropReason::FabricOnHost),
        (3, DropReason::NotPeer),
    ] {
        node.rig.expect_drop(port, &hello(mac(5)), reason);
    }
    node.rig.expect_drop(0, &plain(mac(1), mac(2), 60), DropReason::PortUnknown);
    assert!(node.punted().is_empty());
}

#[test]
fn packets_of_one_batch_are_each_taken_by_the_rules_of_their_port() {
    let mut node = Node::new(5);
    node.link(&[0, 4]);
    node.host(1, mac(A));
    node.host(1, mac(B));
    let (own, peer) = (mac(21), mac(22));
    node.role(3, PortRole::Fabric(Encapsulation::ethertype(own, peer)));
    node.route(1, mac(7), &[&[4, 9]]);
    let carried = plain(mac(A), mac(7), 60);
    let passing = fabric_frame(Kind::Ethernet, &[4, 6], &[], &carried);
    let arriving = fabric_frame(Kind::Ethernet, &[1], &[], &carried);
    let of_peer = [&encapsulation::ethertype_header(own, peer)[..], &passing].concat();
    let stranger = plain(mac(7), mac(0xC), 60);
    let of = |station: u64, len| plain(mac(7), mac(station), len);
    // Fewer than a batch, so that one turn takes them all.
    for _ in 0..3 {
        node.rig.offer(0, &passing);
        node.rig.offer(0, &arriving);
        for frame in [&of(A, 60), &stranger, &stranger, &of(B, 61), &of(A, 62)] {
            node.rig.offer(1, frame);
        }
        node.rig.offer(2, &of(A, 60));
        node.rig.offer(3, &of_peer);
        node.rig.offer(3, &passing);
    }
    node.rig.settle();
    let (to_host, to_node): (Vec<_>, Vec<_>) = node.rig.take().into_iter().partition(|o| o.0 == 1);
    assert_eq!(to_host, vec![(1, carried.clone()); 3]);
    let pushed = |station, len| fabric_frame(Kind::Ethernet, &[9], &[1], &of(station, len));
    let of_link = fabric_frame(Kind::Ethernet, &[6], &[0], &carried);
    let of_encapsulated = fabric_frame(Kind::Ethernet, &[6], &[3], &carried);
    let mut expected = Vec::new();
    expected.extend(std::iter::repeat_n((4, of_link), 3));
    for _ in 0..3 {
        expected.extend([pushed(A, 60), pushed(B, 61), pushed(A, 62)].map(|f| (4, f)));
    }
    expected.extend(std::iter::repeat_n((4, of_encapsulated), 3));
    assert_eq!(to_node, expected);
    assert_eq!(node.punted(), vec![(Punt::Host, 1, stranger); 6]);
    assert_eq!(node.rig.drops(2, DropReason::PortUnknown), 3);
    assert_eq!(node.rig.drops(3, DropReason::NotPeer), 3);
}

#[test]
fn hosts_cannot_send_what_would_mean_something_in_the_fabric() {
    let mut net = three(false);
    let node = &mut net.nodes[0];
    // A native fabric frame is an Ethernet frame from a station that is not admitted.
    let native = fabric_frame(Kind::Control, &[2, 2, 0xFF], &[0], &plain(mac(B), mac(A), 60));
    assert!(node.rig.send(0, &native).is_empty());
    let punted = node.punted();
    assert!(punted.is_empty() || matches!(punted[..], [(Punt::Host, 0, _)]), "{punted:?}");
    // The fabric's EtherType behind a priority tag, which is removed.
    let mut hidden = tagged(mac(B), mac(A), 0, 0);
    hidden[16..18].copy_from_slice(&encapsulation::ETHERTYPE.0.to_be_bytes());
    for (frame, reason) in [
        (hidden, DropReason::FabricOnHost),
        (tagged(mac(B), mac(A), 0, 7), DropReason::VlanDenied),
        (tagged(mac(B), mac(A), 0, 1), DropReason::VlanDenied),
        (plain(mac(B), MacAddr([1, 0, 0, 0, 0, 1]), 60), DropReason::BadSource),
        (plain(mac(B), MacAddr::default(), 60), DropReason::BadSource),
        (plain(MacAddr([1, 0x80, 0xC2, 0, 0, 0]), mac(A), 60), DropReason::Reserved),
        (vec![2; 13], DropReason::Runt),
        (vec![], DropReason::Runt),
    ] {
        node.rig.expect_drop(0, &frame, reason);
    }
    assert!(node.punted().is_empty());
}

#[test]
fn a_priority_tag_is_removed_and_its_class_kept_to_the_first_port() {
    let mut plan = Plan { capabilities: Some(CAPABILITIES), ..Plan::new(2) };
    plan.ports[0].trust = Trust::Pcp;
    plan.ports[1].rate_bits_per_s = Some(1_000_000);
    let mut node = Node::with(plan);
    node.host(0, mac(A));
    node.link(&[1]);
    node.route(0, mac(B), &[&[1, 5]]);
    let tagged = |priority: u8, mark: u8| {
        let mut f = plain(mac(B), mac(A), 60);
        f[59] = mark;
        f.splice(12..12, [0x81, 0x00, priority << 5, 0]);
        f
    };
    for (i, priority) in [0, 0, 5].into_iter().enumerate() {
        node.rig.offer(0, &tagged(priority, i as u8));
    }
    // A control frame overtakes them all.
    node.rig.settle();
    let now = node.rig.now;
    let control = fabric_frame(Kind::Control, &[1], &[], &[9; 60]);
    node.rig.workers[0].inject(now, &control, Injection::Fabric).unwrap();
    let order: Vec<u8> = node.rig.drain().iter().map(|(_, f)| *f.last().unwrap()).collect();
    assert_eq!(order, [2, 9, 0, 1]);
}

#[test]
fn control_messages_of_a_path_keep_their_order_in_a_fair_queue() {
    let mut plan = Plan { capabilities: Some(CAPABILITIES), ..Plan::new(2) };
    plan.ports[1].rate_bits_per_s = Some(1_000_000);
    let mut node = Node::with(plan);
    node.link(&[0, 1]);
    // They are encrypted: no two begin alike. Two paths share the cable.
    let message = |path: u8, n: u8| {
        let noise = (0..60).map(|i| (n ^ i).wrapping_mul(151) ^ n.wrapping_mul(89));
        let carried: Vec<u8> = noise.chain([path, n]).collect();
        fabric_frame(Kind::Control, &[1, path, 0xFF], &[], &carried)
    };
    for n in 0..40 {
        node.rig.offer(0, &message(2, n));
    }
    (0..5).for_each(|n| node.rig.offer(0, &message(3, n)));
    node.rig.settle();
    let out = node.rig.drain();
    let of_path = |path| -> Vec<u8> {
        let carried = out.iter().map(|(_, f)| &f[f.len() - 2..]).filter(|end| end[0] == path);
        carried.map(|end| end[1]).collect()
    };
    assert_eq!(of_path(2), (0..40).collect::<Vec<u8>>());
    assert_eq!(of_path(3), (0..5).collect::<Vec<u8>>());
    let last = out.iter().rposition(|(_, f)| f[f.len() - 2] == 3).unwrap();
    assert!(last < 30, "paths take turns: {last}");
}

#[test]
fn what_hosts_send_to_the_control_plane_is_policed_port_by_port() {
    let mut node = Node::new(2);
    node.host(0, mac(A));
    node.host(1, mac(B));
    node.tables.set_limits(ControlLimits { host_pps: 100, ..ControlLimits::default() });
    node.publish();
    for _ in 0..50 {
        node.rig.offer(0, &plain(MacAddr::BROADCAST, mac(A), 60));
    }
    node.rig.send(1, &plain(MacAddr::BROADCAST, mac(B), 60));
    let punted = node.punted();
    // A burst of 50 ms or eight packets, and the one that is due.
    assert_eq!(punted.iter().filter(|p| p.1 == 0).count(), 9);
    assert_eq!(punted.iter().filter(|p| p.1 == 1).count(), 1);
    assert_eq!(node.rig.drops(0, DropReason::ControlRate), 41);
    node.rig.now = node.rig.now + Duration::from_millis(20);
    for _ in 0..5 {
        node.rig.send(0, &plain(MacAddr::BROADCAST, mac(A), 60));
    }
    assert_eq!(node.punted().len(), 2);
}

/// A message of a DHCP client (RFC 2131, 4.1), as far as the data plane looks at it.
fn discover(from: MacAddr) -> Vec<u8> {
    let message = [0, 68, 0, 67, 0, 16, 0, 0, 1, 1, 6, 0, 0, 0, 0, 1];
    common::ipv4([MacAddr::BROADCAST, from], [[0; 4], [255; 4]], (0, 64, 17), &message)
}

#[test]
fn a_flood_keeps_no_dhcp_client_of_its_port_from_the_control_plane() {
    let mut node = Node::new(2);
    node.host(0, mac(A));
    node.publish();
    for _ in 0..500 {
        node.rig.offer(0, &plain(MacAddr::BROADCAST, mac(A), 60));
    }
    node.rig.settle();
    assert!(node.rig.drops(0, DropReason::ControlRate) > 400);
    node.punted();
    // A hundred stations that are switched on at once; none of them is admitted.
    for n in 0..100 {
        node.rig.offer(0, &discover(mac(0x1000 + n)));
    }
    node.rig.settle();
    assert_eq!(node.punted().len(), 100);
}

#[test]
fn a_full_queue_to_the_control_plane_still_takes_control_frames() {
    let mut node = Node::new(2);
    node.host(0, mac(A));
    node.link(&[1]);
    let limits = ControlLimits { host_pps: 1_000_000, waiting: 20, ..ControlLimits::default() };
    node.tables.set_limits(limits);
    node.publish();
    for _ in 0..30 {
        node.rig.offer(0, &plain(MacAddr::BROADCAST, mac(A), 60));
    }
    node.rig.settle();
    assert_eq!(node.rig.drops(0, DropReason::ControlFull), 20);
    for _ in 0..15 {
        node.rig.offer(1, &fabric_frame(Kind::Control, &[0xFF], &[], b"x"));
    }
    node.rig.settle();
    assert_eq!(node.rig.drops(1, DropReason::ControlFull), 5);
    let punted = node.punted();
    assert_eq!(punted.iter().filter(|p| p.0 == Punt::Control).count(), 10);
}

/// A UDP or TCP packet over IPv4 from A to B.
pub(crate) fn ip_packet(tcp: bool, payload: usize, src_port: u16) -> Vec<u8> {
    let mut f = src_port.to_be_bytes().to_vec();
    f.extend([0, 81]);
    if tcp {
        f.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x10, 0, 0, 0, 0, 0]);
    } else {
        f.extend(((8 + payload) as u16).to_be_bytes());
        f.extend([0, 0]);
    }
    f.extend((0..payload).map(|i| i as u8));
    let (ends, protocol) = ([[10, 0, 0, 1], [10, 0, 0, 2]], if tcp { 6 } else { 17 });
    common::ipv4([mac(B), mac(A)], ends, (0, 64, protocol), &f)
}

/// The metadata of a packet whose checksum is left to the hardware, the sum of its pseudo-header
/// being written where it belongs.
pub(crate) fn owe_checksum(f: &mut [u8], tcp: bool) -> Offload {
    let at = 34 + if tcp { 16 } else { 6 };
    let len = (f.len() - 34) as u16;
    let protocol = plexus_wire::Protocol(f[23]);
    let pseudo =
        checksum::Sum::pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol, len);
    f[at..at + 2].copy_from_slice(&pseudo.folded().to_be_bytes());
    let checksum_offset = (at - 34) as u16;
    Offload { checksum: Checksum::Partial, checksum_start: 34, checksum_offset, ..Offload::NONE }
}

fn checksums_are_right(f: &[u8]) -> bool {
    let ip = ipv4::Packet::new_checked(&f[14..]).unwrap();
    let len = ip.payload().len() as u16;
    let mut sum = checksum::Sum::pseudo_v4(ip.src(), ip.dst(), ip.protocol(), len);
    sum.add(ip.payload());
    ip.checksum_ok() && sum.folded() == 0xFFFF
}

/// A node that takes super-packets at port 0; port 1 leads on.
fn large(workers: usize) -> Node {
    let sizes = [69_632, 2048];
    let mut node = Node::with(Plan {
        capabilities: Some(CAPABILITIES),
        workers,
        frame_sizes: sizes[..workers].to_vec(),
        ..Plan::new(2)
    });
    node.host(0, mac(A));
    node.link(&[1]);
    node.route(0, mac(B), &[&[1, 4, 7]]);
    node
}

#[test]
fn an_owed_checksum_is_completed_before_the_header_is_pushed() {
    for workers in [1, 2] {
        let mut node = large(workers);
        for tcp in [false, true] {
            let mut f = ip_packet(tcp, 333, 9);
            let owed = owe_checksum(&mut f, tcp);
            let out = node.send_owing(0, &f, owed);
            assert_eq!((out.len(), out[0].0), (1, 1));
            assert_eq!(header(&out[0].1).forward[..], [4, 7]);
            assert_eq!(out[0].1.len(), 9 + f.len());
            assert!(checksums_are_right(&out[0].1[9..]));
        }
        // And for the control plane, which has no hardware.
        let mut f = ip_packet(false, 300, 68);
        f[..6].fill(0xFF);
        let owed = owe_checksum(&mut f, false);
        assert!(node.send_owing(0, &f, owed).is_empty());
        let punted = node.punted();
        assert!(matches!(&punted[..], [(Punt::Host, 0, f)] if checksums_are_right(f)));
        // What its metadata do not fit is dropped.
        let (checksum, checksum_start, checksum_offset) = (Checksum::Partial, 50, 16);
        let owed = Offload { checksum, checksum_start, checksum_offset, ..Offload::NONE };
        assert!(node.send_owing(0, &plain(mac(B), mac(A), 60), owed).is_empty());
        assert_eq!(node.rig.drops(0, DropReason::BadOffload), 1);
    }
}

#[test]
fn a_super_packet_is_cut_and_each_segment_has_the_header() {
    for workers in [1, 2] {
        let mut node = large(workers);
        let mut f = ip_packet(true, 3000, 9);
        let owed = owe_checksum(&mut f, true);
        let offload = Offload {
            segmentation: Segmentation::TcpV4,
            segment_size: 1400,
            header_len: 54,
            ..owed
        };
        let out = node.send_owing(0, &f, offload);
        let lens: Vec<usize> = out.iter().map(|(_, f)| f.len()).collect();
        assert_eq!(lens, [9 + 1454, 9 + 1454, 9 + 254]);
        let mut payload: Vec<u8> = Vec::new();
        for (port, bytes) in &out {
            assert_eq!((*port, &header(bytes).forward[..]), (1, &[4, 7][..]));
            assert!(checksums_are_right(&bytes[9..]));
            payload.extend(&bytes[9 + 54..]);
        }
        assert_eq!(payload, f[54..]);
        assert_eq!(node.rig.account().copied, 2);
        // Of one that has no route the control plane sees the beginning.
        let to_all = [&[0xFF; 6][..], &f[6..]].concat();
        assert!(node.send_owing(0, &to_all, offload).is_empty());
        assert_eq!(node.punted()[0].2.len(), 128);
        // One whose metadata lie is dropped, also on its way to a host; so is a control message.
        let of_fabric = fabric_frame(Kind::Ethernet, &[0], &[], &plain(mac(A), mac(B), 60));
        let message = fabric_frame(Kind::Control, &[0], &[], &[0; 60]);
        let to_control = fabric_frame(Kind::Ethernet, &[0xFF], &[], &f[..100]);
        for (port, frame) in
            [(0, plain(mac(B), mac(A), 60)), (1, of_fabric), (1, message), (1, to_control)]
        {
            assert!(node.send_owing(port, &frame, offload).is_empty());
        }
        assert_eq!(node.rig.drops(0, DropReason::BadOffload), 2);
        assert_eq!(node.rig.drops(1, DropReason::BadOffload), 2);
    }
}

#[test]
fn what_frames_of_the_fabric_owe_is_done_where_they_leave() {
    for workers in [1, 2] {
        let mut node = Node::with(Plan {
            capabilities: Some(CAPABILITIES),
            workers,
            frame_sizes: [69_632, 2048][..workers].to_vec(),
            ..Plan::new(4)
        });
        // Ports 0 and 2 are one worker's, 1 and 3 the other's.
        let encapsulation = Encapsulation::ethertype(mac(10), mac(20));
        node.role(0, PortRole::Fabric(encapsulation));
        node.role(1, PortRole::Fabric(Encapsulation::ethertype(mac(11), mac(21))));
        node.link(&[2]);
        node.host(3, mac(B));
        let back = plexus_wire::fabric::encapsulation::ethertype_header(mac(10), mac(20));
        let outer = plexus_wire::fabric::encapsulation::ethertype_header(mac(21), mac(11));
        for (hop, before) in [(1, &outer[..]), (2, &[]), (3, &[])] {
            let header = |forward: &[u8], reverse: &[u8]| {
                fabric_frame(Kind::Ethernet, forward, reverse, &[])
            };
            let (forward, reverse) = ([hop, 9], [5, 6]);
            let sent = header(&forward, &reverse);
            let left = if hop == 3 { vec![] } else { [before, &header(&[9], &[0, 5, 6])].concat() };
            let start = (14 + sent.len()) as u16;
            for is_super in [false, true] {
                let mut f = ip_packet(true, if is_super { 3000 } else { 300 }, 9);
                let mut owed = owe_checksum(&mut f, true);
                if is_super {
                    owed.segmentation = Segmentation::TcpV4;
                    (owed.segment_size, owed.header_len) = (1400, 54);
                    owed.header_len += start;
                }
                owed.checksum_start += start;
                let frame = [&back[..], &sent, &f].concat();
                let out = node.send_owing(0, &frame, owed);
                assert_eq!(out.len(), if is_super { 3 } else { 1 }, "{hop}");
                let mut payload: Vec<u8> = Vec::new();
                for (port, bytes) in &out {
                    assert_eq!(*port, usize::from(hop));
                    let inner = bytes.strip_prefix(&left[..]).unwrap();
                    assert!(checksums_are_right(inner), "{hop}");
                    payload.extend(&inner[54..]);
                }
                assert_eq!(payload, f[54..]);
            }
        }
    }
}

#[test]
fn packets_cross_workers_with_their_final_bytes() {
    let plan = Plan { capabilities: Some(CAPABILITIES), workers: 2, ..Plan::new(4) };
    let mut node = Node::with(plan);
    // Ports 0 and 2 are one worker's, 1 and 3 the other's.
    node.host(0, mac(A));
    node.host(1, mac(B));
    node.role(2, PortRole::Fabric(Encapsulation::Native));
    node.role(3, PortRole::Fabric(Encapsulation::ethertype(mac(1), mac(2))));
    node.route(0, mac(B), &[&[1]]);
    node.route(0, mac(0xC), &[&[3, 9]]);
    let f = plain(mac(0xC), mac(A), 60);
    let on_3 = |f: &[u8]| [&encapsulation::ethertype_header(mac(2), mac(1))[..], f].concat();
    let expected = on_3(&fabric_frame(Kind::Ethernet, &[9], &[0], &f));
    assert_eq!(node.rig.send(0, &f), [(3, expected)]);
    let local = plain(mac(B), mac(A), 60);
    assert_eq!(node.rig.send(0, &local), [(1, local.clone())]);
    let f = fabric_frame(Kind::Ethernet, &[3, 8], &[5], &local);
    let expected = on_3(&fabric_frame(Kind::Ethernet, &[8], &[2, 5], &local));
    assert_eq!(node.rig.send(2, &f), [(3, expected)]);
    let f = fabric_frame(Kind::Ethernet, &[1], &[5], &local);
    assert_eq!(node.rig.send(2, &f), [(1, local)]);
    let control = fabric_frame(Kind::Control, &[3, 0xFF], &[], b"hello");
    let expected = on_3(&fabric_frame(Kind::Control, &[0xFF], &[0xFF], b"hello"));
    assert_eq!(node.rig.inject(&control, Injection::Fabric), Ok(vec![(3, expected)]));
}

#[test]
fn a_flow_keeps_its_route_and_flows_spread() {
    let mut node = Node::new(5);
    node.host(0, mac(A));
    node.link(&[1, 2, 3, 4]);
    node.route(0, mac(B), &[&[1, 1], &[2, 2], &[3, 3], &[4, 4]]);
    let send = |node: &mut Node, flow: u16| {
        let out = node.rig.send(0, &ip_packet(false, 18, flow));
        assert_eq!(out.len(), 1);
        assert_eq!(usize::from(header(&out[0].1).forward[0]), out[0].0);
        out[0].0
    };
    let before: Vec<usize> = (0..400).map(|flow| send(&mut node, flow)).collect();
    for port in 1..5 {
        let share = before.iter().filter(|&&p| p == port).count();
        assert!((60..140).contains(&share), "port {port} has {share} of 400 flows");
    }
    let again: Vec<usize> = (0..400).map(|flow| send(&mut node, flow)).collect();
    assert_eq!(again, before);
    // A dead port's flows move, the others stay; and when it is back, so are its flows.
    node.rig.plug(3, false);
    node.rig.maintain();
    for (flow, &port) in (0..).zip(&before) {
        let now = send(&mut node, flow);
        assert!(if port == 3 { now != 3 } else { now == port }, "flow {flow}: {port}, {now}");
    }
    node.rig.plug(3, true);
    node.rig.maintain();
    let again: Vec<usize> = (0..400).map(|flow| send(&mut node, flow)).collect();
    assert_eq!(again, before);
    // What is not IP keeps to one route too.
    let f = plain(mac(B), mac(A), 60);
    let first = node.rig.send(0, &f);
    assert_eq!(node.rig.send(0, &f), first);
    // With no port left there is no route.
    for port in 1..5 {
        node.rig.plug(port, false);
    }
    node.rig.maintain();
    assert!(node.rig.send(0, &f).is_empty());
    assert_eq!(node.rig.drops(0, DropReason::PortDown), 1);
}

#[test]
fn a_source_may_have_routes_of_its_own() {
    let mut node = Node::new(3);
    node.host(0, mac(A));
    node.tables.admit(0, mac(0xAA));
    node.link(&[1, 2]);
    node.route(0, mac(B), &[&[1, 5]]);
    let key = RouteKey { destination: mac(B), source: Some(mac(0xAA)) };
    let own = plexus_plane::route_along(0, &[2, 6]).unwrap();
    node.tables.install(0, key, own.into());
    node.publish();
    assert_eq!(node.rig.ports_reached(0, &plain(mac(B), mac(A), 60)), [1]);
    assert_eq!(node.rig.ports_reached(0, &plain(mac(B), mac(0xAA), 60)), [2]);
    node.tables.remove(0, key);
    node.publish();
    assert_eq!(node.rig.ports_reached(0, &plain(mac(B), mac(0xAA), 60)), [1]);
}

#[test]
fn a_link_that_is_too_short_for_the_header_says_so() {
    let mut node = Node::with(Plan::new(2));
    node.host(0, mac(A));
    node.link(&[1]);
    node.route(0, mac(B), &[&[1, 5]]);
    assert_eq!(node.rig.ports_reached(0, &plain(mac(B), mac(A), 1506)), [1]);
    assert!(node.rig.send(0, &plain(mac(B), mac(A), 1507)).is_empty());
    assert_eq!(node.rig.drops(1, DropReason::TooLong), 1);
}
