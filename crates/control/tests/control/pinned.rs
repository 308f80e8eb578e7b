//! Pinned ports: tunnels through an IP network, behind which there is an authenticated node or
//! nothing, and ports that are pinned to one role.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::common;
use plexus_control::identity::{Identity, Role};
use plexus_control::link::{Pace, Pin};
use plexus_control::node::{FrameKind, Input, Node, Output};
use plexus_wire::fabric::LINK_MTU_MIN;
use plexus_wire::fabric::encapsulation::NEAREST_BRIDGE;
use plexus_wire::fabric::message::{LinkFacts, PortRole};
use plexus_wire::{MacAddr, Time};

const PORT: u8 = 3;

fn facts(node: u8, mtu: u16) -> LinkFacts {
    let mac = MacAddr([2, 0, 0, 0, 0, node]);
    LinkFacts { port: PORT, mac, mtu, rate_mbit_per_s: 0, native: true, takes_owed: false }
}

/// Two boxes and the datagrams between them.
struct Pair {
    now: Time,
    ends: [Node; 2],
    /// Every frame sent, by its sender.
    sent: Vec<(usize, Vec<u8>)>,
    roles: [Option<(PortRole, bool)>; 2],
    lost: bool,
}

impl Pair {
    fn new(identities: [Arc<Identity>; 2], pin: Option<Pin>) -> Pair {
        let mut seed = 0;
        let ends = identities.map(|identity| {
            seed += 1;
            let mut node = Node::new(identity, Pace::default(), [seed; 32]);
            if let Some(pin) = pin {
                node.handle(Time::ZERO, Input::Pinned { port: PORT, pin });
            }
            node
        });
        Pair { now: Time::ZERO, ends, sent: vec![], roles: [None; 2], lost: false }
    }

    fn nodes() -> Pair {
        Pair::new([common::node(1), common::node(2)], Some(Pin::Tunnel))
    }

    fn input(&mut self, end: usize, input: Input) {
        let mut inputs = VecDeque::from([(end, input)]);
        while let Some((end, input)) = inputs.pop_front() {
            self.ends[end].handle(self.now, input);
            while let Some(output) = self.ends[end].poll_output() {
                match output {
                    Output::Transmit { port: PORT, frame } => {
                        self.sent.push((end, frame.clone()));
                        if !self.lost {
                            inputs.push_back((1 - end, came(frame)));
                        }
                    }
                    Output::Role { port: PORT, role, native, .. } => {
                        self.roles[end] = Some((role, native));
                    }
                    Output::Tell(_) | Output::Role { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn up(&mut self, end: usize, mtu: u16) {
        let facts = Some(facts(end as u8 + 1, mtu));
        self.input(end, Input::Port { port: PORT, facts });
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = self.ends.iter().map(Node::next_deadline).min().unwrap();
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            (0..2).for_each(|end| self.input(end, Input::Tick));
        }
        self.now = end;
    }
}

fn came(bytes: Vec<u8>) -> Input {
    Input::Frame { port: PORT, kind: FrameKind::Bootstrap, bytes }
}

#[test]
fn a_tunnel_never_becomes_a_host_port() {
    let mut pair = Pair::nodes();
    pair.lost = true;
    pair.up(0, 2000);
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.ends[0].role(PORT), PortRole::Unknown);
    assert_eq!(pair.roles[0], Some((PortRole::Unknown, true)));
    // It keeps sending Hellos and nothing else; a host's frame is not served there.
    assert!(pair.sent.len() > 60);
    assert!(pair.sent.iter().all(|(_, frame)| frame.starts_with(&NEAREST_BRIDGE.0)));
    let arp = [&[0xFF; 6][..], &[2; 6], &[8, 6], &[0; 46]].concat();
    let before = pair.sent.len();
    pair.input(0, Input::Frame { port: PORT, kind: FrameKind::Host, bytes: arp });
    assert_eq!(pair.sent.len(), before);
    assert!(pair.ends[0].stations().is_empty());
    // A cable without a node becomes a host port: so the test can tell the difference.
    let mut pair = Pair::new([common::node(1), common::node(2)], None);
    pair.lost = true;
    pair.up(0, 2000);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.ends[0].role(PORT), PortRole::Host);
}

#[test]
fn two_nodes_prove_themselves_and_recover_through_a_tunnel() {
    let mut pair = Pair::nodes();
    pair.up(0, 2000);
    pair.run(Duration::from_secs(3));
    pair.up(1, 2000);
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.roles, [Some((PortRole::Fabric, true)); 2]);
    pair.lost = true;
    pair.run(Duration::from_millis(300));
    assert_eq!(pair.roles, [Some((PortRole::Unknown, true)); 2]);
    pair.lost = false;
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.roles, [Some((PortRole::Fabric, true)); 2]);
}

#[test]
fn a_path_that_has_become_too_small_is_not_used() {
    let mut pair = Pair::nodes();
    pair.up(0, LINK_MTU_MIN);
    pair.up(1, 9000);
    pair.run(Duration::from_secs(4));
    assert_eq!(pair.roles, [Some((PortRole::Fabric, true)); 2]);
    // About one Heartbeat a second has the maximum frame length, and none is longer.
    let long = |sent: &[(usize, Vec<u8>)], end| {
        let lengths = sent.iter().filter(|(from, _)| *from == end).map(|(_, f)| f.len());
        lengths.filter(|len| *len >= usize::from(LINK_MTU_MIN)).collect::<Vec<_>>()
    };
    for end in 0..2 {
        let long = long(&pair.sent, end);
        assert!((3..=6).contains(&long.len()), "{long:?}");
        assert!(long.iter().all(|len| *len == usize::from(LINK_MTU_MIN)), "{long:?}");
    }
    // One end learns of the smaller MTU. The other one learns it by the new handshake.
    pair.sent.clear();
    pair.up(0, LINK_MTU_MIN - 1);
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.roles, [Some((PortRole::TooSmall, true)); 2]);
    assert!((0..2).all(|end| long(&pair.sent, end).is_empty()));
    pair.up(0, 2000);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.roles, [Some((PortRole::Fabric, true)); 2]);
}

#[test]
fn replayed_link_messages_have_no_effect() {
    let mut pair = Pair::nodes();
    pair.up(0, 2000);
    pair.up(1, 2000);
    pair.run(Duration::from_secs(1));
    let recorded = pair.sent.clone();
    // To a box whose neighbour is gone: no replayed message is a proof.
    pair.lost = true;
    pair.run(Duration::from_secs(1));
    for (from, frame) in &recorded {
        pair.input(1 - from, came(frame.clone()));
        pair.input(*from, came(frame.clone()));
        pair.run(Duration::from_millis(20));
        assert_eq!(pair.roles, [Some((PortRole::Unknown, true)); 2]);
    }
    // To a live link: it stays up.
    pair.lost = false;
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.roles, [Some((PortRole::Fabric, true)); 2]);
    for (from, frame) in &recorded {
        pair.input(1 - from, came(frame.clone()));
        pair.input(*from, came(frame.clone()));
        pair.run(Duration::from_millis(20));
        assert_eq!(pair.roles, [Some((PortRole::Fabric, true)); 2]);
    }
}

#[test]
fn a_controller_at_the_other_end_is_refused() {
    let authority = common::authority();
    let controller = common::identity_by(&authority, 9, Role::Controller);
    let mut pair = Pair::new([common::node(1), controller], Some(Pin::Tunnel));
    pair.up(0, 2000);
    pair.up(1, 2000);
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.ends[0].role(PORT), PortRole::Unknown);
}

#[test]
fn a_host_keeps_its_port_when_only_the_facts_change() {
    let mut pair = Pair::new([common::node(1), common::node(2)], None);
    pair.lost = true;
    pair.up(0, 1500);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.ends[0].role(PORT), PortRole::Host);
    pair.up(0, 9000);
    assert_eq!(pair.ends[0].role(PORT), PortRole::Host);
    assert_eq!(pair.ends[0].ports()[0].mtu, 9000);
    // A node that appears there later receives the new ones.
    pair.lost = false;
    pair.up(1, 9000);
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.roles, [Some((PortRole::Fabric, true)); 2]);
}

fn joined() -> Pair {
    let mut pair = Pair::nodes();
    pair.up(0, 2000);
    pair.up(1, 2000);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.roles, [Some((PortRole::Fabric, true)); 2]);
    pair
}

/// A suspended machine resumes: messages that the neighbour has sent since then are queued, and are
/// processed before the neighbour can time out.
#[test]
fn a_delayed_node_does_not_time_out_its_neighbour() {
    let mut pair = joined();
    // The second end keeps sending, into a queue, while the first is not called.
    let mut queue = vec![];
    for _ in 0..3 {
        pair.now = pair.now + Duration::from_millis(50);
        pair.ends[1].handle(pair.now, Input::Tick);
        while let Some(output) = pair.ends[1].poll_output() {
            if let Output::Transmit { port: PORT, frame } = output {
                queue.push(frame);
            }
        }
    }
    assert!(!queue.is_empty());
    pair.now = pair.now + Duration::from_millis(300);
    let role_at = |pair: &mut Pair, after_ms, input| {
        pair.now = pair.now + Duration::from_millis(after_ms);
        pair.ends[0].handle(pair.now, input);
        pair.ends[0].role(PORT) == PortRole::Fabric
    };
    assert!(role_at(&mut pair, 0, Input::Tick));
    for frame in queue {
        assert!(role_at(&mut pair, 0, came(frame)));
    }
    // No more messages arrive.
    assert!(role_at(&mut pair, 199, Input::Tick));
    assert!(!role_at(&mut pair, 1, Input::Tick));
    // A neighbour that left meanwhile times out an interval later, whether called in time or not.
    for late_ms in [100, 400] {
        let mut pair = joined();
        assert!(role_at(&mut pair, 450, Input::Tick));
        assert!(role_at(&mut pair, 99, Input::Tick));
        assert!(!role_at(&mut pair, late_ms - 99, Input::Tick));
    }
}

#[test]
fn a_port_that_is_pinned_to_hosts_is_one_at_once_and_says_nothing_to_nodes() {
    for (pin, role) in [(Pin::Hosts, PortRole::Host), (Pin::Fabric, PortRole::Unknown)] {
        let mut pair = Pair::new([common::node(1), common::node(2)], None);
        pair.input(0, Input::Pinned { port: PORT, pin });
        pair.lost = true;
        pair.up(0, 2000);
        assert_eq!(pair.roles[0].map(|r| r.0), Some(role));
        pair.run(Duration::from_secs(60));
        assert_eq!(pair.roles[0].map(|r| r.0), Some(role));
        assert_eq!(pair.sent.is_empty(), pin == Pin::Hosts);
        // An authenticated node on that cable does not change it either.
        pair.lost = false;
        pair.up(1, 2000);
        pair.run(Duration::from_secs(2));
        let found = if pin == Pin::Hosts { PortRole::Host } else { PortRole::Fabric };
        assert_eq!(pair.ends.each_ref().map(|n| n.role(PORT)), [found; 2]);
    }
}
