//! A box: the data plane of the daemon, and on a fabric node its control plane, joined as the
//! daemon joins them.

use std::sync::Arc;
use std::time::Duration;

use plexus_control::identity::Identity;
use plexus_control::link::{Pace, Pin};
use plexus_control::node::{Input, Node};
use plexus_io::{Batch, Capabilities, Link, Packet};
use plexus_plane::{Account, DropReason, FabricTables, Pipeline, PublishedFabric, Snapshot};
use plexus_report::Counts;
use plexus_wire::fabric::message::{LinkFacts, PortRole};
use plexus_wire::{MacAddr, Time};

use crate::cable::PortIndex;
use crate::core::{Core, DeviceIndex};
use crate::time::SimTime;
use crate::tree::Tree;

/// How often stations age, as in the daemon.
const TICK_EVERY: Duration = Duration::from_millis(100);

/// One port of a box, as it is built.
pub(crate) struct PortSpec {
    pub(crate) name: String,
    pub(crate) settings: plexus_config::PortSettings,
    pub(crate) pin: Option<Pin>,
    /// Largest Ethernet payload in bytes.
    pub(crate) mtu: u16,
    /// What a fabric node is to find there; behind an ordinary switch that is for it to say.
    pub(crate) expected: Option<PortRole>,
}

/// A box.
pub(crate) struct SimNode {
    device: DeviceIndex,
    /// Its first port; the others follow.
    pub(crate) first: PortIndex,
    ports: u16,
    pub(crate) pipeline: Pipeline,
    fabric: Option<Fabric>,
    /// One that speaks spanning tree.
    pub(crate) tree: Option<Box<Tree>>,
    batch: Batch,
    received: u64,
    sent: u64,
    /// When its stations age next.
    tick_at: SimTime,
    /// When its control plane has something to do.
    control_at: Time,
}

/// What makes it a node of a fabric.
struct Fabric {
    control: Node,
    tables: FabricTables,
    published: PublishedFabric,
    facts: Vec<LinkFacts>,
    expected: Vec<Option<PortRole>>,
}

/// The Ethernet address of a box's port.
fn port_mac(device: DeviceIndex, port: u16) -> MacAddr {
    let [_, a, b, c] = device.to_be_bytes();
    MacAddr([0x02, 0x0A, a, b, c, port as u8])
}

impl SimNode {
    /// A box whose ports have no carrier yet. With an identity it is a node of a fabric.
    ///
    /// # Errors
    /// In words, when the ports cannot be those of a box.
    pub(crate) fn new(
        device: DeviceIndex,
        first: PortIndex,
        specs: Vec<PortSpec>,
        node: &plexus_topo::Node,
        fabric: Option<(Arc<Identity>, plexus_config::LaneChoice)>,
        seed: [u8; 32],
    ) -> Result<SimNode, String> {
        let ports = specs.len() as u16;
        let hash_seed = u64::from_le_bytes(*seed.first_chunk().unwrap_or(&[0; 8]));
        let mtus: Vec<u16> = specs.iter().map(|s| s.mtu).collect();
        let facts = specs.iter().enumerate().map(|(port, spec)| LinkFacts {
            port: port as u8,
            mac: port_mac(device, port as u16),
            mtu: spec.mtu,
            rate_mbit_per_s: spec.settings.rate_bits_per_s.map_or(0, |r| (r / 1_000_000) as u32),
            native: node.native,
        });
        let facts: Vec<LinkFacts> = facts.collect();
        let expected = specs.iter().map(|s| s.expected).collect();
        let pins: Vec<(u16, Pin)> =
            (0..).zip(&specs).filter_map(|(port, s)| Some((port, s.pin?))).collect();
        let plan = specs.into_iter().map(|s| (s.name, 0, s.settings)).collect();
        let mut snapshot = Snapshot::new(plan, &node.switch).map_err(|e| e.to_string())?;
        let fabric = match fabric {
            None => None,
            Some((identity, lanes)) => {
                let mut tables = FabricTables::new(usize::from(ports), hash_seed)
                    .ok_or("a fabric node has at most 255 ports: hops have one byte")?;
                tables.set_lanes(lanes);
                let published = tables.current().clone().publish();
                snapshot = snapshot.with_fabric(published.clone());
                let mut control = Node::new(identity, Pace::default(), seed);
                for (port, pin) in pins {
                    control.handle(Time::ZERO, Input::Pinned { port: port as u8, pin });
                }
                Some(Fabric { control, tables, published, facts, expected })
            }
        };
        let mut pipeline = Pipeline::new(Arc::new(snapshot), 0, hash_seed, false);
        for (port, mtu) in (0..).zip(mtus) {
            let max_frame = usize::from(mtu) + 14;
            let capabilities = Capabilities { checksum: false, segmentation: false, max_frame };
            pipeline.set_capabilities(port, capabilities);
        }
        let (batch, received, sent) = (Batch::new(), 0, 0);
        Ok(SimNode {
            device,
            first,
            ports,
            pipeline,
            fabric,
            tree: None,
            batch,
            received,
            sent,
            tick_at: TICK_EVERY.into(),
            control_at: Time::FOREVER,
        })
    }

    /// A cable has been plugged in, or its carrier is gone.
    pub(crate) fn carrier(&mut self, core: &mut Core, port: u16, up: bool) {
        if self.tree.is_some() {
            return self.carrier_of_tree(core, port, up);
        }
        let link = if up { Link::Up } else { Link::Down };
        let now = core.now.floor();
        self.pipeline.set_link(now, &mut core.pool, port, link);
        if let Some(fabric) = &self.fabric {
            let facts = up.then(|| fabric.facts[usize::from(port)]);
            self.input(core, Input::Port { port: port as u8, facts });
        }
        self.settle(core);
    }

    /// A frame has come in.
    #[inline]
    pub(crate) fn receive(&mut self, core: &mut Core, port: u16, packet: Packet) {
        let Some(mut packet) = self.pass_tree(core, port, packet) else { return };
        packet.arrive(port);
        self.received += 1;
        self.batch.push(packet);
        self.settle(core);
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core) {
        let now = core.now.floor();
        if self.tick_at <= core.now {
            self.pipeline.tick(now);
            self.tick_at = core.now + TICK_EVERY.into();
            core.wake(self.device, self.tick_at);
        }
        if self.control_at <= now {
            self.input(core, Input::Tick);
        }
        self.wake_tree(core);
        self.settle(core);
    }

    /// Until nothing more happens of itself, and until when.
    #[inline]
    pub(crate) fn settle(&mut self, core: &mut Core) {
        let now = core.now.floor();
        loop {
            self.pipeline.run(now, &mut core.pool, &mut self.batch);
            self.send(core);
            if self.pipeline.to_control().is_empty() {
                break;
            }
            self.take_control(core);
        }
        let paced = self.pipeline.next_deadline();
        let at = SimTime::from(paced.min(self.control_at)).min(self.tick_at);
        core.wake(self.device, at.min(self.tree_deadline()));
    }

    /// Sends what may leave by now.
    #[inline]
    fn send(&mut self, core: &mut Core) {
        for port in 0..self.ports {
            for packet in self.pipeline.to_transmit(port).drain(..) {
                self.sent += 1;
                core.transmit(self.first + PortIndex::from(port), packet);
            }
        }
    }

    /// Hands the control plane what is for it.
    fn take_control(&mut self, core: &mut Core) {
        while let Some(waiting) = self.pipeline.to_control().pop_front() {
            let bytes = core.pool.data(&waiting.packet).to_vec();
            core.pool.free(waiting.packet);
            let kind = plexus_fabric::frame_kind(waiting.punt);
            self.input(core, Input::Frame { port: waiting.in_port as u8, kind, bytes });
        }
    }

    fn input(&mut self, core: &mut Core, input: Input) {
        let now = core.now.floor();
        let Some(fabric) = &mut self.fabric else { return };
        fabric.control.handle(now, input);
        let outputs = std::iter::from_fn(|| fabric.control.poll_output());
        let own = |port: u8| fabric.facts.get(usize::from(port)).map(|f| f.mac);
        // Tables first, then the frames that follow from them. Events are for people.
        let rest = plexus_fabric::carry_out(outputs, &mut fabric.tables, own);
        if rest.changed {
            fabric.published.store(fabric.tables.plan());
        }
        for (how, frame) in rest.frames {
            // What was dropped at once is counted.
            let _ = self.pipeline.inject(now, &mut core.pool, &frame, how);
        }
        self.control_at = fabric.control.next_deadline();
    }

    /// Whether it has nothing to find out any more: a way to the controller, and roles.
    pub(crate) fn is_settled(&self) -> bool {
        let tree_is_settled = self.tree.as_ref().is_none_or(|t| t.is_settled());
        tree_is_settled
            && self.fabric.as_ref().is_none_or(|f| {
                let is_found = |(port, expected): (u8, &Option<PortRole>)| {
                    let role = f.control.role(port);
                    expected
                        .map_or(!matches!(role, PortRole::Down | PortRole::Unknown), |e| e == role)
                };
                f.control.controller().0.is_some() && (0..).zip(&f.expected).all(is_found)
            })
    }

    /// What it has counted since the beginning.
    pub(crate) fn counts(&self) -> Counts {
        let mut of = Account { received: self.received, sent: self.sent, ..Account::default() };
        of.held = self.held() as u64;
        of.add_counters(self.pipeline.counters());
        let account = plexus_report::Account {
            received: of.received,
            copied: of.copied,
            injected: of.injected,
            sent: of.sent,
            consumed: of.consumed,
            rejected: of.rejected,
            dropped: of.dropped,
            held: of.held,
        };
        let ports = &self.pipeline.counters().ports;
        let count = |reason: DropReason| ports.iter().map(|p| p.drops[reason as usize]).sum();
        let drops = DropReason::ALL.iter().map(|&r| (r.name().to_string(), count(r)));
        Counts { account, drops: drops.collect() }
    }

    /// Packets in its queues.
    pub(crate) fn held(&self) -> usize {
        self.pipeline.held()
    }

    /// Adds the held packets to the pool again, at the end.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        self.pipeline.clear(&mut core.pool);
    }
}
