//! A box: the data plane and the control planes of the daemon, on simulated ports.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_config::{FabricFile, NodeFile, PortFile, PortUse};
use plexus_control::identity::Identity;
use plexus_control::link::Pace;
use plexus_control::node::{Input, Node};
use plexus_io::{Batch, Capabilities, Link, Packet, Port, take_each};
use plexus_node::fabric::{self, Fabric};
use plexus_node::ports::{self, Tables};
use plexus_plane::{Account, DeepReport, DropReason, Injection, Pipeline, Side, ToControl};
use plexus_reference::stp::Settings;
use plexus_report::Counts;
use plexus_wire::fabric::message::{LinkFacts, PortRole};
use plexus_wire::{MacAddr, Time};

use crate::cable::PortIndex;
use crate::clock::Clock;
use crate::core::{Core, DeviceIndex};
use crate::early::Early;
use crate::faulty::{self, FaultyPorts};
use crate::named::SimNamed;
use crate::routing::SimRouter;
use crate::time::SimTime;
use crate::tree::Tree;

/// How often stations age, as in the daemon.
const TICK_EVERY: Duration = Duration::from_millis(100);

/// Why a damaged frame is dropped, among the data plane's reasons.
pub(crate) const BAD_FCS: &str = "bad_fcs";
/// Why a frame is dropped that waited in a box when it crashed.
const CRASHED: &str = "crashed";

/// One port of a box, as it is built.
#[derive(Clone)]
pub(crate) struct PortSpec {
    pub(crate) name: String,
    /// How it queues and sends.
    pub(crate) settings: plexus_config::PortSettings,
    /// What the fabric is told of its link, in bits/s.
    pub(crate) rate_bits_per_s: Option<u64>,
    /// What it may lead to, in a fabric; or that it is not the fabric's.
    pub(crate) role: PortUse,
    /// Largest Ethernet payload in bytes.
    pub(crate) mtu: u16,
    /// What a fabric node is to find there; behind an ordinary switch that is for it to say.
    pub(crate) expected: Option<PortRole>,
}

impl PortSpec {
    /// The port as a node's file has it.
    fn into_file(self) -> PortFile {
        let PortSpec { name, settings, role, .. } = self;
        PortFile { settings, role, ..PortFile::new(&name) }
    }
}

/// What a box is made from, and made anew from after a crash.
#[derive(Clone)]
pub(crate) struct Blueprint {
    pub(crate) device: DeviceIndex,
    pub(crate) first: PortIndex,
    pub(crate) specs: Vec<PortSpec>,
    pub(crate) node: plexus_topo::Node,
    /// Makes it a node of a fabric.
    pub(crate) fabric: Option<(Arc<Identity>, plexus_config::LaneChoice)>,
    /// The group has subnets with gateways, so that its nodes route.
    pub(crate) routes: bool,
    /// Makes it speak spanning tree.
    pub(crate) tree: Option<Settings>,
}

/// A box.
pub(crate) struct SimNode {
    pub(crate) device: DeviceIndex,
    /// Its first port; the others follow.
    pub(crate) first: PortIndex,
    pub(crate) pipeline: Pipeline,
    pub(crate) fabric: Option<SimFabric>,
    /// One that speaks spanning tree.
    pub(crate) tree: Option<Box<Tree>>,
    /// One that cuts through.
    pub(crate) early: Option<Box<Early>>,
    /// One that routes.
    router: Option<Box<SimRouter>>,
    /// One that forwards named data.
    pub(crate) named: Option<Box<SimNamed>>,
    /// Its ports with faults of their own, if any.
    faulty: Option<Box<FaultyPorts>>,
    /// What its control plane takes for the time.
    clock: Clock,
    /// It has crashed, and not started anew.
    is_down: bool,
    /// What it had counted before its last crash.
    past: Option<Box<Counts>>,
    batch: Batch,
    received: u64,
    sent: u64,
    /// Frames that came in with a wrong checksum.
    bad_fcs: u64,
    /// When its stations age next.
    tick_at: SimTime,
    /// When its control plane has something to do.
    control_at: Time,
}

/// What makes a box a node of a fabric.
pub(crate) struct SimFabric {
    pub(crate) fabric: Fabric,
    /// By port: what its neighbour is told, and what it is to find there.
    facts: Vec<LinkFacts>,
    expected: Vec<Option<PortRole>>,
}

/// The Ethernet address of a box's port. Nodes are the first devices, in the order of the file.
pub(crate) fn port_mac(device: DeviceIndex, port: u16) -> MacAddr {
    let [_, a, b, c] = device.to_be_bytes();
    MacAddr([0x02, 0x0A, a, b, c, port as u8])
}

impl SimNode {
    /// A box whose ports have no carrier yet. With an identity it is a node of a fabric.
    ///
    /// # Errors
    /// In words, when the ports cannot be those of a box.
    pub(crate) fn new(blueprint: Blueprint, seed: [u8; 32]) -> Result<SimNode, String> {
        let Blueprint { device, first, specs, node, fabric, routes, tree } = blueprint;
        let tree = tree.map(|settings| Box::new(Tree::new(settings, &specs, node.switch.clone())));
        let hash_seed = u64::from_le_bytes(*seed.first_chunk().unwrap_or(&[0; 8]));
        let mtus: Vec<u16> = specs.iter().map(|s| s.mtu).collect();
        let named = match &node.named {
            None => None,
            Some(settings) => {
                let ports: Vec<_> = specs.iter().map(|s| (s.name.clone(), s.mtu)).collect();
                let (seeds, _) = seed[8..].as_chunks();
                let seeds = [0, 1, 2].map(|i| u64::from_le_bytes(seeds[i]));
                Some(Box::new(SimNamed::new(device, settings, &ports, seeds)?))
            }
        };
        let facts = specs.iter().enumerate().map(|(port, spec)| LinkFacts {
            port: port as u8,
            mac: port_mac(device, port as u16),
            mtu: spec.mtu,
            rate_mbit_per_s: spec.rate_bits_per_s.map_or(0, |r| (r / 1_000_000) as u32),
            native: node.native,
            takes_owed: false,
        });
        let facts: Vec<LinkFacts> = facts.collect();
        let expected = specs.iter().map(|s| s.expected).collect();
        let mut file = NodeFile::new(&node.name);
        file.ports = specs.into_iter().map(PortSpec::into_file).collect();
        (file.switch, file.router) = (node.switch.clone(), node.router.clone());
        file.fabric = fabric.is_some().then(|| FabricFile::new(PathBuf::new()));
        let file = ports::expand(file)?;
        let fabric = match fabric {
            None => None,
            Some((identity, lanes)) => {
                let control = Node::new(identity, Pace::default(), seed);
                let mut fabric = Fabric::new(control, facts.len(), lanes, hash_seed)?;
                if routes && file.router.is_none() {
                    fabric = fabric.with_router(seed)?;
                }
                let pins = file.ports.iter().map(|port| fabric::pin(port, &[])).zip(0..);
                for (pin, port) in pins.filter_map(|(pin, port)| Some((pin?, port))) {
                    fabric.handle(Time::ZERO, Input::Pinned { port, pin });
                }
                Some(SimFabric { fabric, facts, expected })
            }
        };
        let max_frames: Vec<usize> = mtus.iter().map(|mtu| usize::from(*mtu) + 14).collect();
        let router = SimRouter::new(device, &file, &max_frames, seed)?.map(Box::new);
        let tables = Tables {
            fabric: fabric.as_ref().map(|f| f.fabric.source()),
            router: match &router {
                Some(router) => Some(router.router.source()),
                None => fabric.as_ref().and_then(|f| f.fabric.router_source()),
            },
        };
        let of_names: Vec<_> = named.iter().flat_map(|named| named.ports()).collect();
        let owners = vec![0; file.ports.len()];
        let snapshot = ports::snapshot(&file, &owners, &tables, &of_names)?;
        let mut pipeline = Pipeline::new(Arc::new(snapshot), 0, hash_seed, false);
        for (port, max_frame) in (0..).zip(max_frames) {
            let capabilities = Capabilities { checksum: false, segmentation: false, max_frame };
            pipeline.set_capabilities(port, capabilities);
        }
        let is_early = node.forwarding.mode == plexus_topo::ForwardingMode::CutThrough;
        let early = is_early.then(Default::default);
        let faulty = Some(faulty::ports(&node)).filter(|ports| !ports.is_empty()).map(Box::new);
        let (batch, received, sent, bad_fcs) = (Batch::new(), 0, 0, 0);
        Ok(SimNode {
            device,
            first,
            pipeline,
            fabric,
            tree,
            early,
            router,
            named,
            faulty,
            clock: Clock::TRUE,
            is_down: false,
            past: None,
            batch,
            received,
            sent,
            bad_fcs,
            tick_at: TICK_EVERY.into(),
            control_at: Time::FOREVER,
        })
    }

    /// A cable has been plugged in, or its carrier is gone.
    pub(crate) fn carrier(&mut self, core: &mut Core, port: u16, up: bool) {
        if self.is_down {
            return;
        }
        if self.tree.is_some() {
            return self.carrier_of_tree(core, port, up);
        }
        let link = if up { Link::Up } else { Link::Down };
        self.pipeline.set_link(core.now.floor(), &mut core.pool, port, link);
        if !up {
            let of_link = self.first + PortIndex::from(port);
            core.forget_marks(of_link..of_link + 1);
        }
        if let Some(fabric) = self.fabric.as_ref().filter(|_| self.is_in_fabric(port)) {
            let facts = up.then(|| fabric.facts[usize::from(port)]);
            self.input(core, Input::Port { port: port as u8, facts });
        }
        if let Some(router) = &mut self.router {
            router.carrier(core.now.floor(), port, link);
            self.run_router(core);
        }
        self.run_until_idle(core);
    }

    /// A frame has come in.
    #[inline]
    pub(crate) fn receive(&mut self, core: &mut Core, port: u16, packet: Packet) {
        if self.early.is_some() && core.takes_up_early(self.first + PortIndex::from(port)) {
            return self.receive_early(core, port, packet);
        }
        if core.take_damage(&packet) {
            return self.drop_damaged(core, packet);
        }
        let packet = match &mut self.faulty {
            None => packet,
            Some(faulty) => match faulty::enter(faulty, port, packet) {
                Some(packet) => packet,
                None => return self.receive_held(core),
            },
        };
        let packet = match &self.tree {
            None => packet,
            Some(_) => match self.pass_tree(core, port, packet) {
                Some(packet) => packet,
                None => return,
            },
        };
        self.take_in(port, packet);
        self.run_until_idle(core);
    }

    /// Takes in what faulty ports let through by now.
    #[cold]
    fn receive_held(&mut self, core: &mut Core) {
        let now = core.now.floor();
        let mut faulty = self.faulty.take();
        for (port, faults) in faulty.iter_mut().flat_map(|ports| ports.iter_mut()) {
            let mut arrived = Batch::new();
            while faults.receive(now, &mut core.pool, &mut arrived) > 0 {
                for packet in arrived.drain(..) {
                    self.take_in(*port, packet);
                    self.run(core);
                }
            }
        }
        self.faulty = faulty;
        self.run_until_idle(core);
    }

    /// Puts a frame before the data plane, which [`run`](Self::run) sets going.
    #[inline]
    pub(crate) fn take_in(&mut self, port: u16, packet: Packet) {
        self.received += 1;
        self.batch.push(packet);
        // Where it lies now, for a descriptor that has just been written in parts is slow to copy.
        let Some(packet) = self.batch.last_mut() else { return };
        // What a host outside has left to the hardware is done here, as in the daemon.
        let offload = packet.offload;
        packet.arrive(port);
        packet.offload = offload;
    }

    /// The data plane does what it can by now.
    #[inline]
    pub(crate) fn run(&mut self, core: &mut Core) {
        self.pipeline.run(core.now.floor(), &mut core.pool, &mut self.batch);
    }

    /// A frame whose checksum is wrong ends in the port, as with any device.
    #[cold]
    pub(crate) fn drop_damaged(&mut self, core: &mut Core, packet: Packet) {
        self.received += 1;
        self.bad_fcs += 1;
        core.pool.free(packet);
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core) {
        if self.is_down {
            return;
        }
        let now = core.now.floor();
        if self.tick_at <= core.now {
            self.pipeline.tick(now);
            self.tick_at = core.now + TICK_EVERY.into();
            core.wake(self.device, self.tick_at);
        }
        if self.control_at <= self.clock.read(core.now) {
            self.input(core, Input::Tick);
            let used = self.fabric.as_mut().and_then(|f| f.fabric.take_used());
            used.into_iter().for_each(|input| self.input(core, input));
        }
        if self.faulty.is_some() {
            self.receive_held(core);
        }
        while let Some(waiting) = self.early.as_mut().and_then(|early| early.next(core.now)) {
            self.hear(core, waiting);
        }
        if let Some(named) = &mut self.named {
            named.wake(core, &mut self.pipeline);
        }
        self.run_router(core);
        self.wake_tree(core);
        self.run_until_idle(core);
    }

    /// Until nothing more happens of itself, and until when.
    #[inline]
    pub(crate) fn run_until_idle(&mut self, core: &mut Core) {
        loop {
            self.run(core);
            self.send(core);
            if self.pipeline.to_control().is_empty() && self.pipeline.to_named().is_empty() {
                break;
            }
            while let Some(waiting) = self.pipeline.to_control().pop_front() {
                self.hear(core, waiting);
            }
            self.run_router(core);
            if let Some(named) = &mut self.named {
                while let Some(frame) = self.pipeline.to_named().pop_front() {
                    named.receive(core, &mut self.pipeline, frame);
                }
            }
        }
        let paced = self.pipeline.next_deadline();
        let control = self.clock.when(self.control_at);
        let at = SimTime::from(paced).min(control).min(self.tick_at);
        let early = self.early.as_ref().map_or(SimTime::FOREVER, |early| early.next_deadline());
        let held = self.faulty.as_deref().map_or(Time::FOREVER, faulty::next_deadline);
        let router = self.router.as_ref().map_or(Time::FOREVER, |own| own.router.next_deadline());
        let at = at.min(early).min(held.into()).min(router.into());
        core.wake(self.device, at.min(self.tree_deadline()));
    }

    /// Sends what may leave by now.
    #[inline]
    fn send(&mut self, core: &mut Core) {
        // Every port with a cable is paced: by it, or so fast that nothing waits.
        let mut from = 0;
        while let Some(port) = self.pipeline.take_filled(from) {
            from = port + 1;
            let of_link = self.first + PortIndex::from(port);
            for packet in take_each(self.pipeline.to_transmit(port)) {
                self.sent += 1;
                core.transmit(of_link, packet.into_packet());
            }
        }
    }

    /// Hands the control plane what is for it.
    fn hear(&mut self, core: &mut Core, waiting: ToControl) {
        let ToControl { punt, in_port, packet } = waiting;
        let (bytes, vlan) = (core.pool.data(&packet).to_vec(), packet.vlan);
        core.pool.free(packet);
        match (&mut self.router, punt.side()) {
            (Some(own), Side::Router) => own.router.frame(core.now.floor(), punt, vlan, bytes),
            _ => {
                let Some(SimFabric { fabric, .. }) = &mut self.fabric else { return };
                match fabric.frame(self.clock.read(core.now), punt, in_port, bytes) {
                    Some(input) => self.input(core, input),
                    None => self.carry_out(core),
                }
            }
        }
    }

    /// Lets the router do what is due, and sends what follows from it.
    fn run_router(&mut self, core: &mut Core) {
        let Some(own) = &mut self.router else { return };
        // One thread reads and writes: no batch is ever under way.
        let frames = own.router.run(core.now.floor(), || ()).frames;
        self.inject(core, frames);
    }

    /// Sends frames of a control plane. The data plane counts what it drops.
    fn inject(&mut self, core: &mut Core, frames: Vec<(Injection, Vec<u8>)>) {
        for (to, frame) in frames {
            let _ = self.pipeline.inject(core.now.floor(), &mut core.pool, &frame, to);
        }
    }

    /// Whether a port is the fabric's.
    fn is_in_fabric(&self, port: u16) -> bool {
        self.pipeline.plan().ports.get(usize::from(port)).is_some_and(|p| p.in_fabric)
    }

    fn input(&mut self, core: &mut Core, input: Input) {
        let Some(SimFabric { fabric, .. }) = &mut self.fabric else { return };
        let now = self.clock.read(core.now);
        let heard = fabric.heard(now, core.now.floor());
        heard.into_iter().chain([input]).for_each(|input| fabric.handle(now, input));
        self.carry_out(core);
    }

    /// Carries out what the fabric's control plane has decided.
    fn carry_out(&mut self, core: &mut Core) {
        let Some(SimFabric { fabric, .. }) = &mut self.fabric else { return };
        // Events are for people, and no batch is ever under way.
        let frames = fabric.carry_out(self.clock.read(core.now), || (), |_| ()).frames;
        self.control_at = fabric.next_deadline();
        self.inject(core, frames);
    }

    /// Whether it is down.
    pub(crate) fn has_crashed(&self) -> bool {
        self.is_down
    }

    /// Whether it has nothing to find out any more: a way to the controller, and roles.
    pub(crate) fn is_settled(&self) -> bool {
        let tree_is_settled = self.tree.as_ref().is_none_or(|t| t.is_settled());
        self.is_down
            || tree_is_settled
                && self.fabric.as_ref().is_none_or(|f| {
                    let is_found = |(port, expected): (u8, &Option<PortRole>)| {
                        let role = f.fabric.control().role(port);
                        !self.is_in_fabric(port.into())
                            || expected
                                .map_or(!matches!(role, PortRole::Down | PortRole::Unknown), |e| {
                                    e == role
                                })
                    };
                    let has_way = f.fabric.control().controller().0.is_some();
                    has_way && (0..).zip(&f.expected).all(is_found)
                })
    }

    /// Its clock jumps ahead, and goes so many millionths too fast from now on.
    pub(crate) fn set_clock(&mut self, core: &mut Core, ppm: f64, ahead: Duration) {
        self.clock.set(core.now, ppm, ahead);
        self.run_until_idle(core);
    }

    /// It stops at once. What waits in it is lost.
    pub(crate) fn crash(&mut self, core: &mut Core) {
        let mut counts = self.counts();
        let held = std::mem::take(&mut counts.account.held);
        counts.account.dropped += held;
        *counts.drops.entry(CRASHED.to_string()).or_default() += held;
        self.clear(core);
        core.forget_marks(self.first..self.first + self.pipeline.plan().ports.len() as PortIndex);
        (self.past, self.is_down) = (Some(Box::new(counts)), true);
    }

    /// It starts anew after a crash, and knows nothing of before but its identity and the time.
    pub(crate) fn restart(&mut self, core: &mut Core, blueprint: &Blueprint, seed: [u8; 32]) {
        // What was built once can be built again.
        let Ok(fresh) = SimNode::new(blueprint.clone(), seed) else { return };
        let (clock, past) = (self.clock, self.past.take());
        *self = SimNode { clock, past, ..fresh };
        self.run_until_idle(core);
    }

    /// What it has counted since the beginning.
    pub(crate) fn counts(&self) -> Counts {
        let now = self.counts_of_life();
        let Some(past) = &self.past else { return now };
        match self.is_down {
            true => Counts::clone(past),
            false => now.and(past),
        }
    }

    /// What it has counted since it was started last.
    fn counts_of_life(&self) -> Counts {
        let mut of = Account { received: self.received, sent: self.sent, ..Account::default() };
        of.held = self.pipeline.held() as u64;
        of.add_counters(self.pipeline.counters());
        let account = plexus_report::Account {
            received: of.received,
            copied: of.copied,
            injected: of.injected,
            sent: of.sent,
            consumed: of.consumed,
            rejected: of.rejected,
            lost: of.lost,
            dropped: of.dropped + self.bad_fcs,
            held: of.held,
        };
        let ports = &self.pipeline.counters().ports;
        let count = |reason: DropReason| ports.iter().map(|p| p.drops[reason as usize]).sum();
        let drops = DropReason::ALL.iter().map(|&r| (r.name().to_string(), count(r)));
        let damaged = (BAD_FCS.to_string(), self.bad_fcs);
        Counts { account, drops: drops.chain([damaged]).collect(), ..Counts::default() }
    }

    /// Its deep buffer, if it has one.
    pub(crate) fn deep(&self, now: Time) -> Option<DeepReport> {
        self.pipeline.deep(now)
    }

    /// Packets in its queues.
    pub(crate) fn held(&self) -> usize {
        self.pipeline.held()
    }

    /// Interests for which it waits.
    pub(crate) fn pending(&self) -> usize {
        self.named.as_ref().map_or(0, |named| named.pending())
    }

    /// Adds the held packets to the pool again, at the end.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        self.pipeline.clear(&mut core.pool);
        if let Some(early) = &mut self.early {
            early.clear(core);
        }
        for (_, faults) in self.faulty.iter_mut().flat_map(|ports| ports.iter_mut()) {
            faults.close(&mut core.pool);
        }
    }
}
