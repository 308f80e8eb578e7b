//! The whole data plane: a box whose ports, settings, frames and metadata come from the bytes.
//!
//! The bytes are a script. A header says how many ports and workers there are and how each port
//! is set; then come steps: a frame with the offload metadata that a host may claim, time that
//! passes, a cable pulled out or put back, a port set otherwise, packets taken from a cable.
//! Cables,
//! pools and the rings between workers are short, so that all of them run full.
//!
//! After each step the workers turn until nothing moves. Then every packet must be accounted for,
//! every frame be somewhere, and nothing wait that could leave.

use std::hint::black_box;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plexus_config::{
    PortSettings, QueueSettings, StaticMac, StormSettings, SwitchSettings, Trust, VlanMode,
};
use plexus_io::memory::{self, Cable, MemoryPort};
use plexus_io::{
    Batch, Capabilities, Checksum, Link, Offload, Pool, Port, PortId, PortStats, Segmentation,
};
use plexus_plane::{Account, Crossing, LinkChange, Published, Snapshot, Worker, mesh};
use plexus_wire::{MacAddr, Time};

const FRAMES: usize = 40;
const FRAME_SIZE: usize = 4096;
const CABLE_DEPTH: usize = 8;
const CROSSING_DEPTH: usize = 8;
/// New settings make a snapshot of 4,096 VLANs: a few per script are enough.
const SETTINGS_MAX: usize = 4;
/// More turns than any step can need.
const TURNS_MAX: usize = 10_000;

/// Runs a script; see the head of the module's source.
pub fn pipeline(data: &[u8]) {
    let mut script = Script(data);
    let mut rig = Rig::new(&mut script);
    while let Some(step) = script.0.first().copied() {
        script.u8();
        rig.step(step, &mut script);
        // Some steps go together, so that batches have more than one packet.
        if step & 0x80 == 0 {
            rig.settle();
        }
    }
    rig.finish();
}

/// What is left of the script; zeroes follow its end.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A memory port whose cable can be pulled out.
struct Plug {
    inner: MemoryPort,
    is_in: Arc<AtomicBool>,
}

impl Plug {
    fn is_in(&self) -> bool {
        self.is_in.load(Ordering::Relaxed)
    }
}

impl Port for Plug {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn receive(&mut self, now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        if self.is_in() { self.inner.receive(now, pool, into) } else { 0 }
    }

    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        if self.is_in() { self.inner.transmit(now, pool, from) } else { 0 }
    }

    fn maintain(&mut self, now: Time, pool: &mut Pool) -> Link {
        let link = self.inner.maintain(now, pool);
        if self.is_in() { link } else { Link::Down }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> PortStats {
        self.inner.stats()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.inner.close(pool);
    }
}

struct Rig {
    workers: Vec<Worker>,
    published: Published,
    switch: SwitchSettings,
    settings: Vec<PortSettings>,
    settings_left: usize,
    cables: Vec<Cable>,
    plugs: Vec<Arc<AtomicBool>>,
    now: Time,
}

impl Rig {
    fn new(script: &mut Script<'_>) -> Rig {
        let shape = script.u8();
        let ports = 2 + usize::from(shape & 3);
        let workers = 1 + usize::from(shape >> 2 & 1);
        let mut switch = SwitchSettings {
            mac_table: [1, 4, 64, 64][usize::from(shape >> 4 & 3)],
            ..SwitchSettings::default()
        };
        let mut settings = Vec::new();
        let (mut cables, mut plugs) = (Vec::new(), Vec::new());
        let mut shares: Vec<Vec<(PortId, Box<dyn Port>)>> = Vec::new();
        shares.resize_with(workers, Vec::new);
        for i in 0..ports {
            settings.push(port_settings(script));
            let (port, cable) = memory::port(&name(i), CABLE_DEPTH);
            let is_in = Arc::new(AtomicBool::new(true));
            let inner = port.with_capabilities(capabilities(script.u8()));
            shares[i % workers].push((i as PortId, Box::new(Plug { inner, is_in: is_in.clone() })));
            cables.push(cable);
            plugs.push(is_in);
        }
        if shape & 0x40 != 0 && settings[0].carries(1) {
            let mac = MacAddr([2, 0, 0, 0, 0, 2]);
            switch.static_macs.push(StaticMac { mac, vlan: 1, port: name(0) });
        }
        let published = snapshot(&settings, workers, &switch).publish();
        let crossings = match workers {
            1 => vec![Crossing::alone()],
            n => mesh(&vec![FRAME_SIZE / 2; n], CROSSING_DEPTH),
        };
        let workers =
            shares.into_iter().zip(crossings).enumerate().map(|(i, (ports, crossing))| {
                let pool = Pool::new(FRAMES, FRAME_SIZE).expect("the machine has this much memory");
                Worker::new(i, pool, ports, &published, crossing, 42 + i as u64)
            });
        let mut rig = Rig {
            workers: workers.collect(),
            published: published.clone(),
            switch,
            settings,
            settings_left: SETTINGS_MAX,
            cables,
            plugs,
            now: Time::from_secs(1),
        };
        if shape & 0x08 != 0 {
            rig.workers[0].watch(
                0,
                1,
                Box::new(|seen| {
                    black_box(plexus_wire::describe(seen.bytes).to_string());
                }),
            );
        }
        rig.maintain();
        rig
    }

    fn owner(&self, port: usize) -> usize {
        port % self.workers.len()
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        let port = usize::from(script.u8()) % self.cables.len();
        match step & 7 {
            0..=3 => self.offer(port, script),
            4 => {
                self.now = self.now + Duration::from_nanos(1 << (script.u8() % 50));
                self.maintain();
            }
            5 => self.take(port),
            6 => {
                self.plugs[port].fetch_not(Ordering::Relaxed);
                if step & 8 == 0 {
                    self.maintain();
                }
            }
            _ => {
                let settings = port_settings(script);
                if self.settings_left > 0 {
                    self.settings_left -= 1;
                    self.settings[port] = settings;
                    // A configured station stays only where its VLAN is.
                    self.switch.static_macs.retain(|_| self.settings[0].carries(1));
                    let plan = snapshot(&self.settings, self.workers.len(), &self.switch);
                    self.published.store(Arc::new(plan));
                }
            }
        }
    }

    /// A frame comes in, if the pool and the cable have room for it.
    fn offer(&mut self, port: usize, script: &mut Script<'_>) {
        let offload = offload(script);
        let padding = usize::from(script.u8()) * 16;
        let len = usize::from(script.u8());
        let mut frame = script.take(len).to_vec();
        frame.resize(frame.len() + padding, 0xA5);
        let owner = self.owner(port);
        if self.cables[port].to_port.is_full() {
            return;
        }
        let Some(mut packet) = self.workers[owner].pool().alloc_from(&frame) else { return };
        packet.offload = offload;
        self.cables[port].to_port.push(packet).expect("there was room");
    }

    /// Takes the packets that came out of a port.
    fn take(&mut self, port: usize) {
        let owner = self.owner(port);
        let pool = self.workers[owner].pool();
        while let Ok(packet) = self.cables[port].from_port.pop() {
            black_box(plexus_wire::describe(pool.data(&packet)).to_string());
            pool.free(packet);
        }
    }

    fn maintain(&mut self) {
        let now = self.now;
        let changed: Vec<_> = self.workers.iter_mut().flat_map(|w| w.maintain(now)).collect();
        for LinkChange { port, link, .. } in changed {
            let owner = self.owner(usize::from(port));
            for (i, worker) in self.workers.iter_mut().enumerate() {
                if owner != i {
                    worker.hear_link(now, port, link);
                }
            }
        }
    }

    /// Turns until nothing moves, then checks that all packets and frames are where they should be.
    fn settle(&mut self) {
        let now = self.now;
        let mut turns = 0;
        while self.workers.iter_mut().fold(false, |busy, w| w.turn(now) | busy) {
            turns += 1;
            assert!(turns < TURNS_MAX, "the workers never come to rest");
        }
        let account = self.account();
        assert!(account.balances(), "{account:?}");
        assert_eq!(account.rejected, 0, "a port was given what it can never send");
        for i in 0..self.workers.len() {
            let own = (0..self.cables.len()).filter(|&port| self.owner(port) == i);
            let on_cables: usize = own.map(|port| on_cable(&self.cables[port])).sum();
            let worker = &mut self.workers[i];
            let held = worker.pipeline().held();
            let (free, all) = (worker.pool().available(), worker.pool().frames());
            assert_eq!(free + held + on_cables, all, "worker {i} has lost frames");
        }
        for port in 0..self.cables.len() {
            let idle = self.waits_for_nothing(port);
            assert!(idle, "port {port} holds packets that could leave");
        }
    }

    /// False if a port holds packets though its cable has room and no rate keeps them.
    fn waits_for_nothing(&self, port: usize) -> bool {
        let worker = &self.workers[self.owner(port)];
        let kept = !self.plugs[port].load(Ordering::Relaxed)
            || self.settings[port].rate_bits_per_s.is_some()
            || self.cables[port].from_port.slots() == CABLE_DEPTH;
        kept || worker.pipeline().queued(port as PortId).0 == 0
    }

    fn account(&self) -> Account {
        let mut sum = Account::default();
        for a in self.workers.iter().map(Worker::account) {
            sum += a;
        }
        sum
    }

    /// Lets everything out: with cables in and packets taken, each deadline frees some.
    fn finish(mut self) {
        self.plugs.iter().for_each(|plug| plug.store(true, Ordering::Relaxed));
        self.maintain();
        loop {
            self.settle();
            let before = self.account();
            if before.held == 0 {
                break;
            }
            (0..self.cables.len()).for_each(|port| self.take(port));
            let deadlines = self.workers.iter().map(Worker::next_deadline);
            let next = deadlines.min().unwrap_or(Time::FOREVER);
            if next != Time::FOREVER {
                self.now = self.now.max(next);
            }
            self.settle();
            assert!(self.account().held < before.held, "nothing leaves at {next}: {before:?}");
        }
        (0..self.cables.len()).for_each(|port| self.take(port));
        for worker in &mut self.workers {
            black_box(worker.report());
            worker.close();
            let pool = worker.pool();
            assert_eq!(pool.available(), pool.frames(), "frames have leaked");
        }
    }
}

fn name(port: usize) -> String {
    format!("p{port}")
}

fn on_cable(cable: &Cable) -> usize {
    CABLE_DEPTH - cable.to_port.slots() + cable.from_port.slots()
}

fn snapshot(settings: &[PortSettings], workers: usize, switch: &SwitchSettings) -> Snapshot {
    let ports = settings.iter().enumerate().map(|(i, s)| (name(i), i % workers, s.clone()));
    Snapshot::new(ports.collect(), switch).expect("the script cannot choose other settings")
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
