//! The tables under test, each with two ports and the far ends of their cables.

use std::time::Instant;

use plexus_io::af_packet::AfPacketPort;
use plexus_io::af_xdp::{AfXdpPort, XdpMode, XdpOptions};
use plexus_io::fast::chaos::{Chaos, Faults};
use plexus_io::fast::memory::{Fate, Memory};
use plexus_io::fast::tcx::Tcx;
use plexus_io::fast::xdp::Xdp;
use plexus_io::fast::{FastTable, RuleId};
use plexus_io::tap::TapPort;
use plexus_io::{Batch, Link, Offload, Pool, Port, PortId, SUPER_FRAME};
use plexus_wire::Time;

use super::{PATIENCE, net, wait};

/// Rules of a table.
pub(crate) const RULES: usize = 4;
/// Of the faults.
const SEED: u64 = 7;

/// A table under test with ports 0 and 1, and the far ends of their cables.
pub(crate) trait Bench {
    fn table(&mut self) -> &mut dyn FastTable;
    /// The fate of a frame that comes in by a port.
    fn pass(&mut self, port: PortId, frame: &[u8]) -> Fate;
    fn close_and_open(&mut self, port: PortId);
}

pub(crate) struct InMemory {
    memory: Memory,
    table: Chaos<Memory>,
}

impl InMemory {
    pub(crate) fn new(faults: Faults) -> InMemory {
        let memory = Memory::new(RULES, &[0, 1]);
        InMemory { table: Chaos::new(memory.clone(), faults, SEED), memory }
    }
}

impl Bench for InMemory {
    fn table(&mut self) -> &mut dyn FastTable {
        &mut self.table
    }

    fn pass(&mut self, port: PortId, frame: &[u8]) -> Fate {
        self.memory.receive(port, frame)
    }

    fn close_and_open(&mut self, port: PortId) {
        self.memory.close(port);
        self.memory.open_without_kernel(port);
    }
}

/// A port and its frames.
pub(crate) struct Socket {
    pub(crate) port: Box<dyn Port>,
    pub(crate) pool: Pool,
}

impl Socket {
    pub(crate) fn on(device: &str) -> Socket {
        let pool = Pool::new(64, SUPER_FRAME).unwrap();
        let port = Box::new(AfPacketPort::open(device, device, &pool).unwrap());
        Socket::of(port, pool)
    }

    /// The program behind a TAP device: a virtual machine, as far as the device can tell.
    fn of_tap(device: &str) -> Socket {
        let pool = Pool::new(64, SUPER_FRAME).unwrap();
        let port = Box::new(TapPort::open(device, device, &pool).unwrap());
        Socket::of(port, pool)
    }

    pub(crate) fn of_xdp(device: &str) -> Socket {
        let mut pool = Pool::new(2048, 2048).unwrap();
        // So few that the kernel drops frames when many come at once.
        let (mode, for_table) = (XdpMode::Native, true);
        let options = XdpOptions { mode, ring: 128, fill: 96, for_table, ..XdpOptions::default() };
        let port = Box::new(AfXdpPort::open(device, device, options, &mut pool).unwrap());
        Socket::of(port, pool)
    }

    pub(crate) fn of(mut port: Box<dyn Port>, mut pool: Pool) -> Socket {
        wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Up);
        Socket { port, pool }
    }

    pub(crate) fn send(&mut self, frame: &[u8], offload: Offload) {
        let mut packet = self.pool.alloc_from(frame).unwrap();
        packet.offload = offload;
        let mut batch = Batch::new();
        batch.push(packet);
        wait(|| self.port.transmit(Time::ZERO, &mut self.pool, &mut batch) == 1);
        assert_eq!(self.port.stats().tx_rejected, 0);
    }

    pub(crate) fn take(&mut self) -> Option<(Vec<u8>, Offload)> {
        let mut all = self.take_all();
        assert!(all.len() < 2, "one frame at a time");
        all.pop()
    }

    pub(crate) fn take_all(&mut self) -> Vec<(Vec<u8>, Offload)> {
        let mut batch = Batch::new();
        self.port.receive(Time::ZERO, &mut self.pool, &mut batch);
        let taken = batch.iter().map(|packet| (self.pool.data(packet).to_vec(), packet.offload));
        let taken = taken.collect();
        batch.drain(..).for_each(|packet| self.pool.free(packet));
        taken
    }
}

/// The driver of a table in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Tcx,
    Xdp,
}

impl Hook {
    pub(crate) fn table(self) -> Box<dyn FastTable> {
        self.failing(Faults::default())
    }

    pub(crate) fn failing(self, faults: Faults) -> Box<dyn FastTable> {
        fn with<T: FastTable + 'static>(mut parts: Vec<T>, faults: Faults) -> Box<dyn FastTable> {
            Box::new(Chaos::new(parts.remove(0), faults, SEED))
        }
        match self {
            Hook::Tcx => with(Tcx::parts(1, RULES, 2, None).unwrap(), faults),
            Hook::Xdp => with(Xdp::parts(1, RULES, 2).unwrap(), faults),
        }
    }

    pub(crate) fn port(self, device: &str) -> Socket {
        match self {
            Hook::Tcx => Socket::on(device),
            Hook::Xdp => Socket::of_xdp(device),
        }
    }
}

pub(crate) struct InKernel {
    pub(crate) table: Box<dyn FastTable>,
    pub(crate) near: Vec<Socket>,
    pub(crate) far: Vec<Socket>,
    pub(crate) rules: Vec<RuleId>,
}

impl InKernel {
    pub(crate) fn new(hook: Hook) -> InKernel {
        net::veth("p0", "h0");
        net::veth("p1", "h1");
        // Frames that XDP redirects to a virtual cable come out if its far end polls.
        ["h0", "h1"].iter().for_each(|far| poll(far, true));
        InKernel::between(
            hook,
            ["p0", "p1"].map(|device| hook.port(device)),
            ["h0", "h1"].map(Socket::on),
        )
    }

    /// With TAP devices in place of virtual cables.
    pub(crate) fn with_taps(hook: Hook) -> InKernel {
        let far = ["p0", "p1"].map(Socket::of_tap);
        InKernel::between(hook, ["p0", "p1"].map(|device| hook.port(device)), far)
    }

    fn between(hook: Hook, near: [Socket; 2], far: [Socket; 2]) -> InKernel {
        let mut table = hook.table();
        for (id, socket) in (0..).zip(&near) {
            table.open(id, socket.port.kernel_end().unwrap()).unwrap();
        }
        InKernel { table, near: near.into(), far: far.into(), rules: vec![] }
    }

    pub(crate) fn held(&self) -> u64 {
        self.rules.iter().map(|rule| self.table.read(*rule).held).sum()
    }
}

impl Bench for InKernel {
    fn table(&mut self) -> &mut dyn FastTable {
        &mut *self.table
    }

    fn pass(&mut self, port: PortId, frame: &[u8]) -> Fate {
        self.rules = (0..RULES as u32).map(RuleId).collect();
        let held = self.held();
        self.far[usize::from(port)].send(frame, Offload::NONE);
        let began = Instant::now();
        loop {
            if let Some((bytes, _)) = self.near[usize::from(port)].take() {
                assert_eq!(bytes, frame, "as it was");
                return Fate::Passed;
            }
            for out in 0..2 {
                if let Some((bytes, _)) = self.far[out].take() {
                    return Fate::Sent(out as PortId, bytes);
                }
            }
            if self.held() > held {
                return Fate::Dropped;
            }
            assert!(began.elapsed() < PATIENCE, "the frame is lost");
            std::thread::yield_now();
        }
    }

    fn close_and_open(&mut self, port: PortId) {
        self.table.close(port);
        let InKernel { table, near, .. } = self;
        let end = near[usize::from(port)].port.kernel_end().unwrap();
        wait(|| table.open(port, end).is_ok());
    }
}

/// Whether a virtual device takes its frames in polls, as a card does.
pub(crate) fn poll(device: &str, on: bool) {
    net::command("ethtool", &format!("-K {device} gro off"));
    if on {
        net::command("ethtool", &format!("-K {device} gro on"));
    }
}
