//! A whole fabric node: the real control plane on the real data plane, connected as in the daemon.
//! Its inputs and outputs are frames at ports.

use std::sync::Arc;

use plexus_config::{LaneChoice, PortSettings, SwitchSettings};
use plexus_control::identity::Identity;
use plexus_control::link::Pace;
use plexus_control::node::{Event, Input, Node, Output};
use plexus_io::{Batch, Capabilities, Link, Pool};
use plexus_node::Rest;
use plexus_node::explain::message;
use plexus_node::fabric::Fabric;
use plexus_plane::{Account, DropReason, Explanation, Pipeline, Snapshot};
use plexus_wire::Time;
use plexus_wire::fabric::message::LinkFacts;

use super::{PORTS, port_mac};

/// Frames sent, by port.
pub(crate) type Sent = Vec<(u8, Vec<u8>)>;

/// One input of a node with all its outputs.
pub(crate) struct Step {
    pub(crate) now: Time,
    pub(crate) input: String,
    pub(crate) outputs: String,
}

pub(crate) struct Boxed {
    number: usize,
    pub(crate) seed: [u8; 32],
    pub(crate) fabric: Fabric,
    pub(crate) pipeline: Pipeline,
    pool: Pool,
    received: u64,
    sent: u64,
    pub(crate) events: Vec<Event>,
    /// All inputs and outputs of the control plane, if they are recorded.
    pub(crate) recording: Option<Vec<Step>>,
}

/// A control plane as it starts.
pub(crate) fn control_plane(identity: Arc<Identity>, seed: [u8; 32]) -> Node {
    Node::new(identity, Pace::default(), seed)
}

impl Boxed {
    /// It speaks this version of the protocol.
    pub(crate) fn new(
        number: usize,
        identity: Arc<Identity>,
        seed: [u8; 32],
        version: u8,
    ) -> Boxed {
        let hash_seed = u64::from_ne_bytes(*seed.first_chunk().unwrap());
        let mut node = control_plane(identity, seed);
        node.set_version(version);
        let fabric = Fabric::new(node, PORTS, LaneChoice::default(), hash_seed).unwrap();
        let fabric = fabric.with_router(seed).unwrap();
        let ports = (0..PORTS).map(|p| (format!("p{p}"), 0, PortSettings::default()));
        let snapshot = Snapshot::new(ports.collect(), &SwitchSettings::default()).unwrap();
        let snapshot = snapshot.with_fabric(fabric.source(), |_| true);
        let plan = snapshot.with_router(fabric.router_source().unwrap()).into();
        let mut pipeline = Pipeline::new(plan, 0, hash_seed, false);
        for port in 0..PORTS as u16 {
            let capabilities =
                Capabilities { checksum: false, segmentation: false, max_frame: 1638 };
            pipeline.set_capabilities(port, capabilities);
        }
        Boxed {
            number,
            seed,
            fabric,
            pipeline,
            pool: Pool::new(600, 2048).unwrap(),
            received: 0,
            sent: 0,
            events: vec![],
            recording: None,
        }
    }

    /// The control plane.
    pub(crate) fn node(&self) -> &Node {
        self.fabric.control()
    }

    pub(crate) fn facts(number: usize, port: u8) -> LinkFacts {
        let mac = port_mac(number, port);
        LinkFacts { port, mac, mtu: 1624, rate_mbit_per_s: 1000, native: false, takes_owed: false }
    }

    pub(crate) fn carrier(&mut self, now: Time, port: u8, up: bool) -> Sent {
        let link = if up { Link::Up } else { Link::Down };
        self.pipeline.set_link(now, &mut self.pool, port.into(), link);
        let facts = up.then(|| Boxed::facts(self.number, port));
        self.input(now, Input::Port { port, facts })
    }

    pub(crate) fn receive(&mut self, now: Time, port: u8, bytes: &[u8]) -> Sent {
        let mut packet = self.pool.alloc_from(bytes).expect("room for a frame");
        packet.in_port = port.into();
        self.received += 1;
        let mut batch = Batch::new();
        batch.push(packet);
        self.pipeline.run(now, &mut self.pool, &mut batch);
        self.run_until_idle(now)
    }

    pub(crate) fn input(&mut self, now: Time, input: Input) -> Sent {
        self.hand_in(now, input);
        let used = self.fabric.take_used();
        used.into_iter().for_each(|input| self.hand_in(now, input));
        self.run_until_idle(now)
    }

    /// Gives the node another key.
    pub(crate) fn set_identity(&mut self, now: Time, new: Identity) -> Sent {
        self.fabric.set_identity(now, new);
        self.carry_out(now);
        self.run_until_idle(now)
    }

    /// Runs until nothing more happens by itself.
    fn run_until_idle(&mut self, now: Time) -> Sent {
        let mut left = Vec::new();
        loop {
            self.pipeline.run(now, &mut self.pool, &mut Batch::new());
            let before = left.len();
            for port in 0..PORTS as u8 {
                for packet in self.pipeline.to_transmit(port.into()).drain(..) {
                    left.push((port, self.pool.data(&packet).to_vec()));
                    self.pool.free(packet);
                    self.sent += 1;
                }
            }
            let waiting: Vec<_> = self.pipeline.to_control().drain(..).collect();
            if waiting.is_empty() && left.len() == before {
                assert_eq!(self.pipeline.held(), 0, "a frame stays in node {}", self.number);
                return left;
            }
            for waiting in waiting {
                let bytes = self.pool.data(&waiting.packet).to_vec();
                self.pool.free(waiting.packet);
                match self.fabric.frame(now, waiting.punt, waiting.in_port, bytes) {
                    Some(input) => self.hand_in(now, input),
                    None => self.carry_out(now),
                }
            }
        }
    }

    fn hand_in(&mut self, now: Time, input: Input) {
        let heard = self.fabric.heard(now, now);
        heard.into_iter().chain([input]).for_each(|input| self.hand_in_one(now, input));
    }

    fn hand_in_one(&mut self, now: Time, input: Input) {
        let said = self.recording.is_some().then(|| serde_json::to_string(&input).unwrap());
        self.fabric.handle(now, input);
        let mut outputs: Vec<Output> = Vec::new();
        let rest = self.fabric.carry_out(now, || (), |output| outputs.push(output.clone()));
        if let (Some(recording), Some(input)) = (&mut self.recording, said) {
            let outputs = serde_json::to_string(&outputs).unwrap();
            recording.push(Step { now, input, outputs });
        }
        self.send(now, rest);
    }

    fn carry_out(&mut self, now: Time) {
        let rest = self.fabric.carry_out(now, || (), |_| ());
        self.send(now, rest);
    }

    fn send(&mut self, now: Time, rest: Rest<Event>) {
        self.events.extend(rest.events);
        for asked in rest.questions {
            let told = self.explain(now, asked.port.into(), &asked.frame);
            let told = message(&asked, &told.unwrap(), |port| format!("p{port}"));
            self.hand_in(now, Input::Explained(Box::new(told)));
        }
        for (to, frame) in rest.frames {
            // A frame dropped at once is counted.
            let _ = self.pipeline.inject(now, &mut self.pool, &frame, to);
        }
    }

    /// The node's treatment of a frame.
    fn explain(&self, now: Time, port: u16, frame: &[u8]) -> Result<Explanation, String> {
        plexus_plane::explain(self.pipeline.plan(), port, frame, |question| {
            Ok(vec![self.pipeline.facts(now, question)])
        })
    }

    /// The size of the data plane's route memory, which equals the control plane's.
    pub(crate) fn routes_in_plane(&self) -> usize {
        let ports = 0..PORTS as u16;
        ports.filter_map(|p| self.fabric.plan().tables(p)).map(|t| t.routes.len()).sum()
    }

    pub(crate) fn drops(&self, port: u8, reason: DropReason) -> u64 {
        self.pipeline.counters().ports[usize::from(port)].drops[reason as usize]
    }

    /// Every frame that came in or was made here is accounted for.
    pub(crate) fn check_account(&self) {
        let mut account =
            Account { received: self.received, sent: self.sent, ..Account::default() };
        account.held = self.pipeline.held() as u64;
        account.add_counters(self.pipeline.counters());
        assert!(account.balances(), "node {}: {account:?}", self.number);
        assert_eq!(self.pool.available(), self.pool.frames(), "node {} leaks", self.number);
    }
}
