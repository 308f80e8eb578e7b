//! Hops of the fabric by the fast table: a node with one does what a node without one does. The
//! table is in memory, and the test hands it each frame first.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, mac};
use crate::fabric::{ip_packet, owe_checksum};
use crate::fast_rig::{MANY, ROUND, counted_alike, rounds};
use crate::net::Node;
use plexus_config::LaneChoice;
use plexus_io::PortId;
use plexus_io::fast::Key;
use plexus_io::fast::memory::{Fate, Memory};
use plexus_plane::{Encapsulation, PortRole};
use plexus_table::RouteKey;
use plexus_wire::MacAddr;
use plexus_wire::fabric::{Kind, Repr, encapsulation};
use proptest::prelude::*;

/// Ports 1 to 3 are encapsulated links, port 4 is a native one. Host A is at port 0, host C at
/// port 5. To B there is a route by port 1, to D several, to E one by the native link.
fn node() -> Node {
    let mut node = Node::new(6);
    for port in 1..=3 {
        let link = Encapsulation::ethertype(own(port), peer(port)).taking_owed(true);
        node.role(port, PortRole::Fabric(link));
    }
    node.link(&[4]);
    node.host(0, mac(0xA));
    node.host(5, mac(0xC));
    node.route(0, mac(0xB), &[&[1, 7, 8]]);
    node.route(0, mac(0xC), &[&[5]]);
    node.route(0, mac(0xD), &[&[2, 7], &[3, 7]]);
    node.route(0, mac(0xE), &[&[4, 7]]);
    node
}

fn own(port: u16) -> MacAddr {
    mac(0xFF00 + u64::from(port))
}

fn peer(port: u16) -> MacAddr {
    mac(0xFE00 + u64::from(port))
}

struct Fast {
    node: Node,
    table: Memory,
}

impl Fast {
    fn new() -> Fast {
        let mut node = node();
        let table = Memory::new(16, &[0, 1, 2, 3, 4, 5]);
        node.rig.workers[0].set_fast_table(Box::new(table.clone()), Arc::new([]), 7);
        let mut fast = Fast { node, table };
        fast.round();
        fast
    }

    fn send(&mut self, port: usize, frame: &[u8]) -> (Vec<(usize, Vec<u8>)>, bool) {
        match self.table.receive(port as PortId, frame) {
            Fate::Sent(out, frame) => (vec![(out.into(), frame)], true),
            Fate::Dropped => (vec![], true),
            Fate::Passed => (self.node.rig.send(port, frame), false),
        }
    }

    fn round(&mut self) {
        rounds(&mut self.node.rig, 1);
    }

    /// Whether a frame goes by the table after many of its kind.
    fn is_offloaded(&mut self, port: u16, frame: &[u8]) -> bool {
        for _ in 0..MANY {
            self.send(port.into(), frame);
        }
        self.node.punted();
        self.round();
        self.round();
        self.send(port.into(), frame).1
    }

    /// Frames from one port to another go by the table.
    fn offload(&mut self, from: u16, to: u8) {
        let frame = frame(from, &[to, 9], &[5], Kind::Ethernet);
        let is_offloaded = self.is_offloaded(from, &frame);
        assert!(is_offloaded, "{from} to {to}: {:?}", self.table.rules());
    }
}

/// An IP packet as far as the fabric looks at it.
fn packet(to: u64, from: u64) -> Vec<u8> {
    let mut frame = common::frame(mac(to), mac(from));
    frame[12..14].copy_from_slice(&[8, 0]);
    frame
}

/// A frame of the fabric that comes in by a link and carries another to a host of this node.
fn carrying(port: u16, hop: u8, inner: &[u8]) -> Vec<u8> {
    carrying_along(port, &[hop], inner)
}

fn carrying_along(port: u16, path: &[u8], inner: &[u8]) -> Vec<u8> {
    let repr = Repr::new(Kind::Ethernet, path).unwrap();
    let back = encapsulation::ethertype_header(own(port), peer(port));
    [&back[..], &repr.to_bytes().unwrap(), inner].concat()
}

/// A frame of the fabric as it comes in by a link.
fn frame(port: u16, forward: &[u8], reverse: &[u8], kind: Kind) -> Vec<u8> {
    let mut repr = Repr::new(kind, forward).unwrap();
    repr.reverse.extend(reverse.iter().copied());
    let back = encapsulation::ethertype_header(own(port), peer(port));
    let host = common::frame(mac(0xA), mac(0xB));
    [&back[..], &repr.to_bytes().unwrap(), &host].concat()
}

#[test]
fn hosts_frames_between_links_go_by_the_table_and_no_others() {
    let mut fast = Fast::new();
    fast.offload(1, 2);
    let rules: Vec<Key> = fast.table.rules().into_iter().map(|(key, _)| key).collect();
    assert_eq!(rules, [Key::Hop { in_port: 1, hop: 2 }]);
    // To a host, along a native link, to the control plane, back from where it came: not these.
    for (hop, times) in [(0, 1), (4, 1), (255, 0)] {
        let frame = frame(1, &[hop], &[], Kind::Ethernet);
        for _ in 0..MANY {
            assert_eq!(fast.send(1, &frame).0.len(), times, "hop {hop}");
            fast.node.punted();
        }
        fast.round();
        fast.round();
        assert!(!fast.send(1, &frame).1, "hop {hop}");
        fast.node.punted();
    }
    // The plan hears the neighbour by what goes by the table.
    let heard = |fast: &Fast| fast.node.tables.current().heard_at(1);
    fast.node.rig.now = fast.node.rig.now + 5 * ROUND;
    let before = heard(&fast);
    assert!(fast.send(1, &frame(1, &[2], &[], Kind::Ethernet)).1);
    fast.round();
    assert!(heard(&fast) > before + 4 * ROUND);
}

#[test]
fn ip_packets_enter_and_leave_the_fabric_by_the_table() {
    let mut fast = Fast::new();
    let to_c = carrying(2, 5, &packet(0xC, 0xB));
    for (port, frame, is_fast) in [
        (0, packet(0xB, 0xA), true),
        (0, packet(0xC, 0xA), true),
        (2, to_c.clone(), true),
        // Several routes, a native link, no route, a stranger, no IP.
        (0, packet(0xD, 0xA), false),
        (0, packet(0xE, 0xA), false),
        (0, packet(0xF, 0xA), false),
        (0, packet(0xB, 0xF), false),
        (0, common::frame(mac(0xB), mac(0xA)), false),
        (2, carrying(2, 5, &packet(0xB, 0xA)), false),
        (2, carrying(2, 5, &common::frame(mac(0xC), mac(0xA))), false),
    ] {
        assert_eq!(fast.is_offloaded(port, &frame), is_fast, "{port} {frame:02x?}");
        fast.node.punted();
    }
    // Bytes put before a packet count where it leaves; bytes taken off no longer do.
    let now = fast.node.rig.now;
    fast.node.rig.workers[0].count_fast(now);
    let counters = &fast.node.rig.workers[0].pipeline().counters().ports;
    let sent = [1, 5].map(|port: usize| (counters[port].fast_sent, counters[port].fast_sent_bytes));
    assert_eq!(sent, [(1, 14 + 6 + 3 + 60), (2, 2 * 60)]);
    // The plan hears the neighbour by what leaves.
    let heard = |fast: &Fast| fast.node.tables.current().heard_at(2);
    fast.node.rig.now = fast.node.rig.now + 5 * ROUND;
    let before = heard(&fast);
    assert!(fast.send(2, &to_c).1);
    fast.round();
    assert!(heard(&fast) > before + 4 * ROUND);
}

/// A TCP packet from A to D, by its source port.
fn flow(source_port: u16) -> Vec<u8> {
    let mut frame = ip_packet(true, 100, source_port);
    frame[..12].copy_from_slice(&packet(0xD, 0xA)[..12]);
    frame
}

#[test]
fn flows_with_several_routes_keep_theirs_as_long_as_its_link_is_up() {
    let mut fast = Fast::new();
    let mut plain = node();
    let flows: Vec<Vec<u8>> = (1..9).map(flow).collect();
    // Where each of them leaves, whether by the table or not.
    let ways = |fast: &mut Fast, plain: &mut Node| {
        let mut ways = Vec::new();
        for flow in &flows {
            let (out, is_fast) = fast.send(0, flow);
            assert_eq!(out, plain.rig.send(0, flow));
            ways.push((out[0].0, is_fast));
        }
        ways
    };
    let offload = |fast: &mut Fast| {
        flows.iter().for_each(|flow| (0..MANY).for_each(|_| drop(fast.send(0, flow))));
        fast.round();
        fast.round();
    };
    offload(&mut fast);
    let before = ways(&mut fast, &mut plain);
    assert!(before.iter().all(|(_, is_fast)| *is_fast));
    assert!([2, 3].iter().all(|port| before.iter().any(|(out, _)| out == port)), "{before:?}");
    // The others stay where they are while a cable is out.
    for rig in [&mut fast.node.rig, &mut plain.rig] {
        rig.plug(2, false);
        rig.maintain();
    }
    let after = ways(&mut fast, &mut plain);
    let expected: Vec<_> = before.iter().map(|(out, _)| (3, *out == 3)).collect();
    assert_eq!(after, expected);
    offload(&mut fast);
    assert!(ways(&mut fast, &mut plain).iter().all(|way| *way == (3, true)));
    // Those that had left by it go back at once.
    for rig in [&mut fast.node.rig, &mut plain.rig] {
        rig.plug(2, true);
        rig.maintain();
    }
    let back = ways(&mut fast, &mut plain);
    let expected: Vec<_> = before.iter().map(|(out, _)| (*out, *out == 3)).collect();
    assert_eq!(back, expected);
}

#[test]
fn with_one_route_left_all_flows_share_a_rule() {
    let mut fast = Fast::new();
    assert!(fast.is_offloaded(0, &flow(1)));
    for port in [2, 3] {
        fast.node.route(0, mac(0xD), &[&[port, 7]]);
        fast.node.rig.settle();
        assert!(fast.is_offloaded(0, &flow(2)), "{:?}", fast.table.rules());
        assert!(fast.send(0, &flow(1)).1);
    }
}

fn led_by_load() -> Fast {
    let mut fast = Fast::new();
    fast.node.tables.set_lanes(LaneChoice::LeastLoaded);
    fast.node.publish();
    fast.node.rig.settle();
    fast
}

#[test]
fn what_a_rule_carries_counts_as_load_of_its_lane() {
    let mut later = Vec::new();
    for other in 2..12 {
        let mut fast = led_by_load();
        let lane = fast.send(0, &flow(1)).0[0].0;
        assert!(fast.is_offloaded(0, &flow(1)));
        (0..100).for_each(|_| assert_eq!(fast.send(0, &flow(1)).0[0].0, lane));
        fast.round();
        assert_eq!(fast.send(0, &flow(other)).0[0].0, 5 - lane, "flow {other}");
        (0..3).for_each(|_| fast.round());
        later.push(fast.send(0, &flow(20 + other)).0[0].0 == lane);
    }
    // A lane that has been without traffic for a while has no load left.
    assert!(later.contains(&true));
}

/// The rule has not counted anything yet.
#[test]
fn a_flow_counts_as_load_from_the_round_that_gives_it_a_rule() {
    for other in 2..12 {
        let mut fast = led_by_load();
        let lane = fast.send(0, &flow(1)).0[0].0;
        (0..1000).for_each(|_| drop(fast.send(0, &flow(1))));
        // A small one keeps the other lane.
        let small = |fast: &mut Fast| assert_eq!(fast.send(0, &flow(100)).0[0].0, 5 - lane);
        small(&mut fast);
        fast.round();
        assert_eq!(fast.table.rules().len(), 1);
        small(&mut fast);
        fast.node.rig.now = fast.node.rig.now + Duration::from_millis(90);
        // Beside this little of the first flow is left that the pipeline has sent.
        (0..20).for_each(|_| small(&mut fast));
        assert_eq!(fast.send(0, &flow(other)).0[0].0, 5 - lane, "flow {other}");
    }
}

/// It goes by the pipeline at once, which chooses for as long as the flow goes on.
#[test]
fn a_flow_whose_lane_goes_down_changes_once() {
    for number in 1..12 {
        let mut fast = led_by_load();
        fast.node.route(0, mac(0xD), &[&[1, 7], &[2, 7], &[3, 7]]);
        fast.node.rig.settle();
        assert!(fast.is_offloaded(0, &flow(number)), "flow {number}");
        let lane = fast.send(0, &flow(number)).0[0].0;
        fast.node.rig.plug(lane, false);
        fast.node.rig.maintain();
        let (out, is_fast) = fast.send(0, &flow(number));
        assert!(!is_fast && out[0].0 != lane, "flow {number}");
        // The load of the others changes meanwhile.
        (0..20).for_each(|other| drop(fast.send(0, &flow(100 + other))));
        fast.round();
        assert_eq!(fast.send(0, &flow(number)).0, out, "flow {number}");
    }
}

#[test]
fn a_flow_that_the_load_leads_changes_lanes_only_without_a_rule() {
    let mut fast = led_by_load();
    let lanes = [1, 2, 3].map(|number| {
        // The one before loads its lane.
        (0..400 * number).for_each(|_| drop(fast.send(0, &flow(number.max(2) - 1))));
        fast.round();
        let lane = fast.send(0, &flow(number)).0[0].0;
        assert!(fast.is_offloaded(0, &flow(number)), "flow {number}");
        lane
    });
    // The first and the third share a lane. The first pauses for longer than any flow without a
    // rule that keeps its lane, and the third goes on.
    assert_eq!(lanes[0], lanes[2], "{lanes:?}");
    let pause = |fast: &mut Fast, rounds| {
        for _ in 0..rounds {
            (0..1000).for_each(|_| assert!(fast.send(0, &flow(3)).1));
            fast.round();
        }
    };
    pause(&mut fast, 2);
    assert!(fast.table.rules().len() == 3, "{:?}", fast.table.rules());
    // A packet that the table leaves to the pipeline.
    assert_eq!(fast.node.rig.send(0, &flow(1))[0].0, lanes[0]);
    pause(&mut fast, 12);
    assert!(fast.table.rules().len() == 1, "{:?}", fast.table.rules());
    assert_eq!(fast.node.rig.send(0, &flow(1))[0].0, 5 - lanes[0]);
}

#[test]
fn a_rule_at_a_hosts_port_ends_before_the_frame_that_follows_another_plan() {
    let (enters, passes, leaves) = (packet(0xB, 0xA), packet(0xC, 0xA), packet(0xC, 0xB));
    let leaves = carrying(2, 5, &leaves);
    let changes: [fn(&mut Node); 7] = [
        // Another path, none, and another host at the source's port.
        |node| node.route(0, mac(0xB), &[&[1, 7, 9]]),
        |node| assert!(node.tables.remove(0, RouteKey { destination: mac(0xB), source: None })),
        |node| node.route(0, mac(0xB), &[&[1, 7, 8], &[2, 7]]),
        |node| assert!(node.tables.expel(0, mac(0xA))),
        |node| assert!(node.tables.expel(5, mac(0xC))),
        |node| node.tables.set_gateway(Some(mac(0xB)), true),
        |node| node.role(5, PortRole::Unknown),
    ];
    let ends = [
        [true, false, false],
        [true, false, false],
        [true, false, false],
        [true, true, false],
        [false, true, true],
        [true, false, false],
        [false, true, true],
    ];
    for (change, ends) in changes.into_iter().zip(ends) {
        let mut fast = Fast::new();
        let frames = [(0, &enters), (0, &passes), (2, &leaves)];
        for (port, frame) in frames {
            assert!(fast.is_offloaded(port, frame));
        }
        change(&mut fast.node);
        fast.node.publish();
        fast.node.rig.settle();
        let rules: Vec<_> =
            frames.iter().map(|(port, frame)| !fast.send((*port).into(), frame).1).collect();
        fast.node.punted();
        assert_eq!(rules, ends);
    }
}

/// All packets that come by a cable that takes owed work may owe some.
#[test]
fn frames_that_owe_something_make_a_rule_too() {
    let mut fast = Fast::new();
    let mut host = ip_packet(true, 100, 9);
    let mut owed = owe_checksum(&mut host, true);
    let frame = carrying_along(1, &[2, 9], &host);
    owed.checksum_start += (frame.len() - host.len()) as u16;
    for _ in 0..MANY {
        assert_eq!(fast.node.send_owing(1, &frame, owed).len(), 1);
    }
    fast.round();
    fast.round();
    assert!(fast.send(1, &frame).1, "{:?}", fast.table.rules());
}

#[test]
fn flows_enter_by_no_link_to_a_node_that_takes_nothing_owed() {
    let mut fast = Fast::new();
    assert!(fast.is_offloaded(0, &packet(0xB, 0xA)));
    fast.node.role(1, PortRole::Fabric(Encapsulation::ethertype(own(1), peer(1))));
    fast.node.rig.settle();
    fast.table.open_without_kernel(1);
    assert!(!fast.is_offloaded(0, &packet(0xB, 0xA)));
    fast.offload(2, 1);
}

#[test]
fn another_role_of_either_port_ends_the_rule_before_the_next_frame() {
    for port in [1, 2] {
        for role in [
            PortRole::Unknown,
            PortRole::Host,
            PortRole::Fabric(Encapsulation::Native),
            PortRole::Fabric(Encapsulation::ethertype(own(port), mac(7))),
        ] {
            let mut fast = Fast::new();
            fast.offload(1, 2);
            fast.offload(2, 3);
            fast.node.role(port, role);
            fast.node.rig.settle();
            let (_, is_fast) = fast.send(1, &frame(1, &[2], &[], Kind::Ethernet));
            assert!(!is_fast, "{port} {role:?}");
            fast.node.punted();
        }
    }
    // A plan that says the same of them ends nothing.
    let mut fast = Fast::new();
    fast.offload(1, 2);
    fast.node.role(3, PortRole::Unknown);
    fast.node.rig.settle();
    assert!(fast.send(1, &frame(1, &[2], &[], Kind::Ethernet)).1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// What comes out, what is dropped and what the control plane gets are the same with a table.
    #[test]
    fn a_node_with_a_table_does_the_same(
        frames in prop::collection::vec(some_frame(), 1..200),
    ) {
        let mut fast = Fast::new();
        let mut plain = node();
        for (from, to) in [(1, 2), (2, 1), (1, 3), (3, 3)] {
            fast.offload(from, to);
            for _ in 0..=MANY {
                plain.rig.send(from.into(), &frame(from, &[to, 9], &[5], Kind::Ethernet));
            }
        }
        for (port, frame) in [
            (0, packet(0xB, 0xA)),
            (0, packet(0xC, 0xA)),
            (0, flow(1)),
            (0, flow(2)),
            (2, carrying(2, 5, &packet(0xC, 0xB))),
            (3, carrying(3, 0, &packet(0xA, 0xB))),
        ] {
            prop_assert!(fast.is_offloaded(port, &frame));
            (0..=MANY).for_each(|_| drop(plain.rig.send(port.into(), &frame)));
        }
        let mut by_table = 0;
        for (port, bytes) in frames {
            let (out, is_fast) = fast.send(port, &bytes);
            prop_assert_eq!(out, plain.rig.send(port, &bytes), "by the table: {}", is_fast);
            prop_assert_eq!(fast.node.punted(), plain.punted());
            by_table += u64::from(is_fast);
        }
        counted_alike(&mut fast.node.rig, &plain.rig, by_table)?;
    }
}

/// Sound frames for the most part; in others some bytes are changed, or the end is missing.
fn some_frame() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let hop = prop::sample::select(vec![0, 1, 2, 2, 3, 3, 4, 5, 5, 7, 254, 255]);
    let hops = prop::collection::vec(hop, 0..10);
    let kind = prop_oneof![9 => Just(Kind::Ethernet), 1 => Just(Kind::Control)];
    let damage = prop::option::weighted(0.3, (0..60usize, 1..=255u8, prop::bool::weighted(0.2)));
    let host = || prop::sample::select(vec![0xA, 0xB, 0xC, 0xD]);
    let ends = prop::option::of((host(), host()));
    let path = (hops, prop::collection::vec(any::<u8>(), 0..20), kind);
    (0..=3u16, path, ends, damage).prop_map(|(port, (forward, reverse, kind), ends, damage)| {
        let mut bytes = frame(port, &forward, &reverse, kind);
        if let Some((to, from)) = ends {
            bytes.truncate(bytes.len() - 60);
            bytes.extend(packet(to, from));
        }
        if port == 0 {
            bytes.drain(..bytes.len() - 60);
        }
        if let Some((at, with, is_cut)) = damage {
            let at = at % bytes.len();
            bytes[at] ^= with;
            if is_cut {
                bytes.truncate(at.max(14));
            }
        }
        (port.into(), bytes)
    })
}
