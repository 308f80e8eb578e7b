//! The whole data plane: a box whose ports, settings, frames and metadata come from the bytes.
//!
//! The bytes are a script. A header says how many ports and workers there are, whether the box is
//! a node of a fabric or a router, and how each port is set; then come steps: a frame with the
//! offload metadata that a host may claim, time that passes, a cable pulled out or put back, a
//! port set otherwise, packets taken from a cable, on a fabric node what its control plane does,
//! and on a router what its interfaces and routes are (see `pipeline/fabric.rs`,
//! `pipeline/router.rs`). Cables, pools and the rings between workers are short, so that all of
//! them run full.
//!
//! After each step the workers turn until nothing moves. Then every packet must be accounted for,
//! every frame be somewhere, and nothing wait that could leave.

mod fabric;
mod router;

use std::hint::black_box;
use std::sync::Arc;

use plexus_config::{
    PortSettings, QueueOrder, QueueSettings, StaticMac, StormSettings, SwitchSettings, Trust,
    VlanMode,
};
use plexus_io::memory::Cable;
use plexus_io::{Capabilities, Checksum, Offload, PortId, Segmentation};
use plexus_plane::Worker;
use plexus_wire::{MacAddr, Time};

use crate::rig::{Plan, Rig};
use crate::script::Script;
use fabric::Fabric;
use router::Router;

const FRAMES: usize = 40;
/// Bytes per frame, by worker: what crosses may be too long for the other's.
const FRAME_SIZES: [usize; 2] = [4096, 2048];
const CABLE_DEPTH: usize = 8;
const CROSSING_DEPTH: usize = 8;
/// New settings make a snapshot of 4,096 VLANs: a few per script are enough.
const SETTINGS_MAX: usize = 4;

/// Runs a script; see the head of the module's source.
pub fn pipeline(data: &[u8]) {
    let mut script = Script::new(data);
    let mut machine = Machine::new(&mut script);
    while let Some(step) = script.step() {
        machine.step(step, &mut script);
        // Some steps go together, so that batches have more than one packet.
        if step & 0x80 == 0 {
            machine.settle();
        }
    }
    machine.finish();
}

struct Machine {
    rig: Rig,
    plan: Plan,
    settings_left: usize,
    fabric: Option<Fabric>,
    router: Option<Router>,
}

impl Machine {
    fn new(script: &mut Script<'_>) -> Machine {
        let shape = script.u8();
        let ports = 2 + usize::from(shape & 3);
        let mut plan = Plan::new(ports);
        plan.workers = 1 + usize::from(shape >> 2 & 1);
        plan.frames = FRAMES;
        plan.frame_sizes = FRAME_SIZES.into();
        (plan.depth, plan.crossing_depth) = (CABLE_DEPTH, CROSSING_DEPTH);
        plan.switch = SwitchSettings {
            mac_table: [1, 4, 64, 64][usize::from(shape >> 4 & 3)],
            ..SwitchSettings::default()
        };
        for port in &mut plan.ports {
            *port = port_settings(script);
            plan.port_capabilities.push(capabilities(script.u8()));
        }
        if shape & 0x40 != 0 && plan.ports[0].carries(1) {
            let mac = MacAddr([2, 0, 0, 0, 0, 2]);
            plan.switch.static_macs.push(StaticMac { mac, vlan: 1, port: "p0".into() });
        }
        let fabric = (shape & 0x80 != 0).then(|| Fabric::new(ports, script));
        plan.fabric = fabric.as_ref().map(Fabric::published);
        // A node of a fabric does not route.
        let router = if fabric.is_none() { script.u8() } else { 0 };
        let router = (router & 1 != 0).then(|| Router::new(Time::from_secs(1), router));
        plan.router = router.as_ref().map(Router::source);
        let mut rig = plan.clone().build();
        if shape & 0x08 != 0 {
            rig.workers[0].watch(
                rig.now,
                0,
                1,
                None,
                Box::new(|seen| {
                    black_box(plexus_wire::describe(seen.bytes).to_string());
                }),
            );
        }
        Machine { rig, plan, settings_left: SETTINGS_MAX, fabric, router }
    }

    fn ports(&self) -> usize {
        self.plan.ports.len()
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        let port = usize::from(script.u8()) % self.ports();
        if let Some(fabric) = self.fabric.as_mut().filter(|_| step & 0x40 != 0) {
            return fabric.step(&mut self.rig, step, port as u8, script);
        }
        if let Some(router) = self.router.as_mut().filter(|_| step & 0x40 != 0) {
            return router.step(&self.rig, step, script);
        }
        match step & 7 {
            0..=3 => self.offer(port, script),
            4 => {
                self.rig.now = self.rig.now + script.time();
                self.rig.maintain();
                if let Some(router) = &mut self.router {
                    router.tick(self.rig.now);
                }
            }
            5 => self.take(port),
            6 => {
                let plug = &self.rig.plugs[port];
                plug.set(!plug.is_in());
                if step & 8 == 0 {
                    self.rig.maintain();
                }
            }
            _ => {
                let settings = port_settings(script);
                if self.settings_left > 0 {
                    self.settings_left -= 1;
                    self.plan.ports[port] = settings;
                    // A configured station stays only where its VLAN is.
                    let stays = self.plan.ports[0].carries(1);
                    self.plan.switch.static_macs.retain(|_| stays);
                    self.rig.published.store(Arc::new(self.plan.snapshot()));
                }
            }
        }
    }

    /// A frame comes in, if the pool and the cable have room for it.
    fn offer(&mut self, port: usize, script: &mut Script<'_>) {
        let offload = offload(script);
        let padding = usize::from(script.u8()) * 16;
        let mut frame = script.short().to_vec();
        frame.resize(frame.len() + padding, 0xA5);
        if self.rig.cables[port].to_port.is_full() {
            return;
        }
        let owner = self.rig.owner(port);
        let Some(mut packet) = self.rig.workers[owner].pool().alloc_from(&frame) else { return };
        packet.offload = offload;
        self.rig.offer_packet(port, packet);
    }

    /// Takes the packets that came out of a port.
    fn take(&mut self, port: usize) {
        for frame in self.rig.take_from(port) {
            black_box(plexus_wire::describe(&frame).to_string());
        }
    }

    /// Turns until nothing moves, then checks that all packets and frames are where they should be.
    fn settle(&mut self) {
        self.rig.settle();
        if let Some(fabric) = &mut self.fabric {
            fabric.take_control(&mut self.rig);
        }
        if let Some(router) = &mut self.router {
            router.settle(&mut self.rig);
        }
        let account = self.rig.account();
        assert!(account.balances(), "{account:?}");
        assert_eq!(account.rejected, 0, "a port was given what it can never send");
        for i in 0..self.rig.workers.len() {
            let own = (0..self.ports()).filter(|&port| self.rig.owner(port) == i);
            let on_cables: usize = own.map(|port| on_cable(&self.rig.cables[port])).sum();
            let worker = &mut self.rig.workers[i];
            let held = worker.pipeline().held();
            let (free, all) = (worker.pool().available(), worker.pool().frames());
            assert_eq!(free + held + on_cables, all, "worker {i} has lost frames");
        }
        for port in 0..self.ports() {
            let idle = self.waits_for_nothing(port);
            assert!(idle, "port {port} holds packets that could leave");
        }
    }

    /// False if a port holds packets though its cable has room and no rate keeps them.
    fn waits_for_nothing(&self, port: usize) -> bool {
        let worker = &self.rig.workers[self.rig.owner(port)];
        let kept = !self.rig.plugs[port].is_in()
            || self.plan.ports[port].rate_bits_per_s.is_some()
            || self.rig.cables[port].from_port.slots() == CABLE_DEPTH;
        kept || worker.pipeline().queued(port as PortId).0 == 0
    }

    /// Lets everything out: with cables in and packets taken, each deadline frees some. A router's
    /// clock stands still, or it would go on asking for its gateways.
    fn finish(mut self) {
        self.rig.plugs.iter().for_each(|plug| plug.set(true));
        self.rig.maintain();
        loop {
            self.settle();
            let before = self.rig.account();
            if before.held == 0 {
                break;
            }
            (0..self.ports()).for_each(|port| self.take(port));
            let deadlines = self.rig.workers.iter().map(Worker::next_deadline);
            let next = deadlines.min().unwrap_or(Time::FOREVER);
            if next != Time::FOREVER {
                self.rig.now = self.rig.now.max(next);
            }
            self.settle();
            assert!(self.rig.account().held < before.held, "nothing leaves at {next}: {before:?}");
        }
        for worker in &self.rig.workers {
            black_box(worker.report());
        }
    }
}

fn on_cable(cable: &Cable) -> usize {
    CABLE_DEPTH - cable.to_port.slots() + cable.from_port.slots()
}

/// Settings that a configuration file can say.
fn port_settings(script: &mut Script<'_>) -> PortSettings {
    let (a, b, c) = (script.u8(), script.u8(), script.u8());
    let trunk =
        |allowed: &[(u16, u16)], native| VlanMode::Trunk { allowed: allowed.to_vec(), native };
    let vlan = match a & 7 {
        0 | 1 => VlanMode::Access(1),
        2 => VlanMode::Access(2),
        3 => VlanMode::Access(4094),
        4 => trunk(&[(1, 2)], Some(1)),
        5 => trunk(&[(1, 4094)], None),
        6 => trunk(&[(2, 7)], Some(4094)),
        _ => trunk(&[(1, 1), (4094, 4094)], Some(2)),
    };
    let limit = |bit: u8| (c >> bit & 1 == 1).then_some(1);
    PortSettings {
        vlan,
        trust: [Trust::Pcp, Trust::None, Trust::Dscp, Trust::Pcp][usize::from(a >> 3 & 3)],
        learning: a & 0x20 == 0,
        mac_limit: [None, None, Some(1), Some(2)][usize::from(a >> 6)],
        rate_bits_per_s: [None, None, None, None, Some(1), Some(1000), Some(10_000_000_000), None]
            [usize::from(b & 7)],
        queue: QueueSettings {
            order: QueueOrder::NAMES[usize::from(b >> 3) % 3].1,
            packets: [512, 1, 2, 512][usize::from(b >> 3 & 3)],
            bytes: [1 << 20, 1518][usize::from(b >> 5 & 1)],
            ecn_bytes: [None, Some(0), Some(100), None][usize::from(b >> 6)],
        },
        storm: StormSettings {
            broadcast_pps: limit(3),
            multicast_pps: limit(4),
            unknown_pps: limit(5),
        },
        priority: c & 7,
    }
}

fn capabilities(byte: u8) -> Capabilities {
    Capabilities {
        checksum: byte & 1 != 0,
        segmentation: byte & 3 == 3,
        max_frame: [1514, 1514, 82, 3500][usize::from(byte >> 2 & 3)],
    }
}

/// The metadata that comes with a frame: none if the byte is zero, otherwise whatever a host
/// claims.
fn offload(script: &mut Script<'_>) -> Offload {
    let kind = script.u8();
    if kind == 0 {
        return Offload::NONE;
    }
    let segmentation = match kind >> 2 & 7 {
        0 | 1 => Segmentation::None,
        2 => Segmentation::TcpV4,
        3 => Segmentation::TcpV4Ecn,
        4 => Segmentation::TcpV6,
        5 => Segmentation::TcpV6Ecn,
        _ => Segmentation::Udp,
    };
    Offload {
        checksum: [Checksum::Complete, Checksum::Partial, Checksum::Verified, Checksum::Partial]
            [usize::from(kind & 3)],
        segmentation,
        checksum_start: script.u16(),
        checksum_offset: script.u16(),
        segment_size: script.u16(),
        header_len: script.u16(),
    }
}
