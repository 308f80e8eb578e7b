//! A node whose neighbour tells of a way to a controller that is not there.

use std::time::Duration;

use crate::common::{authority, channel_as, identity_by, node};
use plexus_control::identity::Role;
use plexus_control::link::{Link, Outcome, Pace};
use plexus_control::node::{FrameKind, Input, Node, Output};
use plexus_control::session::{Channel, Random, RoleWanted};
use plexus_wire::fabric::message::{Body, Heartbeat, LinkFacts, Welcome};
use plexus_wire::fabric::{self, CONTROL_HOP, Kind};
use plexus_wire::{MacAddr, Time};

const CONTROLLER: u8 = 9;

/// The node and what is around it: a controller behind the neighbour at port 1, and the neighbour
/// at port 2.
struct Around {
    now: Time,
    node: Node,
    neighbours: [Link; 2],
    beats: [Heartbeat; 2],
    controller: Channel,
    /// Sessions that the controller has made.
    sessions: usize,
    /// Hellos of the node that went to the controller, and to the other one.
    asked: [usize; 2],
}

fn facts(end: u8, port: u8) -> LinkFacts {
    let mac = MacAddr([2, 0, 0, 0, end, port]);
    LinkFacts { port, mac, mtu: 2000, rate_mbit_per_s: 0, native: false, takes_owed: false }
}

fn beat(epoch: u64, controller: u64, path: &[u8]) -> Heartbeat {
    Heartbeat { epoch, controller, path: Some(path.to_vec()) }
}

impl Around {
    fn new() -> Around {
        let link = |number: u8| {
            Link::new(node(number), Pace::default(), Random::from_seed([number; 32]), None)
        };
        let identity = identity_by(&authority(), CONTROLLER, Role::Controller);
        let silence = Heartbeat { epoch: 0, controller: 0, path: None };
        let mut around = Around {
            now: Time::from_secs(1),
            node: Node::new(node(1), Pace::default(), [1; 32]),
            neighbours: [link(2), link(3)],
            beats: [beat(7, CONTROLLER.into(), &[CONTROL_HOP]), silence],
            controller: channel_as(identity, RoleWanted::Node, 1),
            sessions: 0,
            asked: [0; 2],
        };
        for port in [1, 2] {
            around.input(Input::Port { port, facts: Some(facts(1, port)) });
            let outcome = around.neighbours[usize::from(port) - 1].up(around.now, facts(2, port));
            around.told(port, outcome);
        }
        around
    }

    fn input(&mut self, input: Input) {
        self.node.handle(self.now, input);
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Transmit { port, frame } => {
                    let neighbour = &mut self.neighbours[usize::from(port) - 1];
                    let outcome = neighbour.frame(self.now, &frame);
                    self.told(port, outcome);
                }
                Output::Send { frame } => self.send(&frame),
                _ => {}
            }
        }
    }

    /// A neighbour's frames to the node.
    fn told(&mut self, port: u8, outcome: Outcome) {
        for bytes in outcome.frames {
            self.input(Input::Frame { port, kind: FrameKind::Bootstrap, bytes });
        }
    }

    /// A frame on its way to a controller. The way that the liar tells of leads nowhere.
    fn send(&mut self, frame: &[u8]) {
        let frame = fabric::Frame::new_checked(frame).unwrap();
        let is_real = frame.forward()[0] == 1;
        self.asked[usize::from(!is_real)] += 1;
        if !is_real {
            return;
        }
        let Ok(handled) = self.controller.handle(self.now, frame.payload()) else { return };
        self.sessions += usize::from(handled.established.is_some());
        let mut answers: Vec<Vec<u8>> = handled.reply.into_iter().collect();
        let body = handled.body.and_then(|body| Some(Body::parse(&body).ok()?.1));
        if let Some(Body::ControllerHello(hello)) = body {
            let (generation, page) = (hello.generation, hello.page);
            let (group_mac, gateways) = (MacAddr::BROADCAST, vec![]);
            let welcome =
                Welcome { epoch: 7, generation, page, report: false, group_mac, gateways };
            let body = Body::from(welcome).to_bytes(0);
            answers.push(self.controller.seal(self.now, &body).unwrap());
        }
        for message in answers {
            let header = fabric::Repr::new(Kind::Control, &[CONTROL_HOP]).unwrap();
            let bytes = [&header.to_bytes().unwrap()[..], &message].concat();
            self.input(Input::Frame { port: 1, kind: FrameKind::Control, bytes });
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + Duration::from_millis(5);
            self.input(Input::Tick);
            for at in [0, 1] {
                let (now, port, own) = (self.now, at as u8 + 1, self.beats[at].clone());
                let outcome = self.neighbours[at].run(now);
                self.told(port, outcome);
                let frames = self.neighbours[at].beat(now, &own).into_iter().collect();
                self.told(port, Outcome { frames, ..Outcome::default() });
            }
        }
    }
}

#[test]
fn a_session_goes_on_after_another_controller_was_tried_in_vain() {
    let mut around = Around::new();
    around.run(Duration::from_secs(3));
    let path = around.node.controller().0;
    assert_eq!((around.sessions, path), (1, Some(vec![1, CONTROL_HOP])));
    around.beats[1] = beat(u64::MAX, 99, &[5, CONTROL_HOP]);
    around.run(Duration::from_secs(3));
    assert!(around.asked[1] > 0, "it was not tried");
    let before = around.asked[0];
    around.run(Duration::from_secs(2));
    assert!(around.asked[0] > before, "the controller hears the node");
    assert_eq!(around.sessions, 1, "another handshake");
}
