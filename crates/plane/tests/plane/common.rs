//! A box in memory: what a test sends into a port, what comes out of which, and the account that
//! must balance at the end of every test.

// Each test file uses its part of it, and so does the fuzz target of the data plane.
#![allow(dead_code)]

use plexus_config::{PortSettings, StaticMac, SwitchSettings, VlanMode};
use plexus_io::memory::{self, Cable, MemoryPort};
use plexus_io::wrap::{Plug, Plugged};
use plexus_io::{Capabilities, Offload, Packet, Pool, Port, PortId};
use plexus_plane::carriers::Bell;
use plexus_plane::{
    Account, Counters, Crossing, DropReason, Explanation, Injection, Published, PublishedFabric,
    RouterSource, Snapshot, Worker, mesh,
};
use plexus_wire::fabric::message::Step;
use plexus_wire::{MacAddr, Time, checksum};

/// A box with memory ports, one or more workers, each with its own pool.
pub(crate) struct Rig {
    pub(crate) workers: Vec<Worker>,
    pub(crate) published: Published,
    pub(crate) now: Time,
    pub(crate) cables: Vec<Cable>,
    pub(crate) plugs: Vec<Plug>,
    owners: Vec<usize>,
    depth: usize,
    /// So many of the frames sent are explained first.
    explains: usize,
}

/// Frames that a rig explains before it sends them: all of most tests.
const EXPLAINED: usize = 40;

/// How a rig is made.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) ports: Vec<PortSettings>,
    pub(crate) switch: SwitchSettings,
    pub(crate) workers: usize,
    pub(crate) frames: usize,
    /// Bytes per frame, by worker; 2,048 where it says nothing.
    pub(crate) frame_sizes: Vec<usize>,
    pub(crate) depth: usize,
    /// Packets and news that wait between two workers, at most.
    pub(crate) crossing_depth: usize,
    pub(crate) capabilities: Option<Capabilities>,
    /// By port; those of all where it says nothing.
    pub(crate) port_capabilities: Vec<Capabilities>,
    pub(crate) fabric: Option<PublishedFabric>,
    /// Which ports are the fabric's, if there is one.
    pub(crate) in_fabric: fn(PortId) -> bool,
    pub(crate) router: Option<RouterSource>,
    /// Ports that take named data, and the address of each.
    pub(crate) named: Vec<(PortId, MacAddr)>,
}

/// What tests choose at random.
impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut plan = f.debug_struct("Plan");
        let plan = plan.field("ports", &self.ports).field("switch", &self.switch);
        plan.field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Plan {
    pub(crate) fn new(ports: usize) -> Plan {
        Plan {
            ports: vec![PortSettings::default(); ports],
            switch: SwitchSettings::default(),
            workers: 1,
            frames: 4096,
            frame_sizes: Vec::new(),
            depth: 1024,
            crossing_depth: 256,
            capabilities: None,
            port_capabilities: Vec::new(),
            fabric: None,
            in_fabric: |_| true,
            router: None,
            named: Vec::new(),
        }
    }

    fn frame_size(&self, worker: usize) -> usize {
        self.frame_sizes.get(worker).copied().unwrap_or(2048)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let ports = self.ports.iter().enumerate();
        let ports = ports.map(|(i, s)| (format!("p{i}"), i % self.workers, s.clone()));
        let mut snapshot = Snapshot::new(ports.collect(), &self.switch).unwrap();
        if let Some(fabric) = &self.fabric {
            snapshot = snapshot.with_fabric(fabric.clone(), self.in_fabric);
        }
        if let Some(router) = &self.router {
            snapshot = snapshot.with_router(router.clone());
        }
        for &(port, own) in &self.named {
            snapshot = snapshot.with_named(port, own);
        }
        snapshot
    }

    pub(crate) fn build(self) -> Rig {
        let published = self.snapshot().publish();
        let mut cables = Vec::new();
        let mut plugs = Vec::new();
        let mut shares: Vec<Vec<(PortId, Box<dyn Port>)>> = Vec::new();
        shares.resize_with(self.workers, Vec::new);
        for i in 0..self.ports.len() {
            let (port, cable) = memory::port(&format!("p{i}"), self.depth);
            let capabilities = self.port_capabilities.get(i).copied().or(self.capabilities);
            let port: MemoryPort = match capabilities {
                Some(c) => port.with_capabilities(c),
                None => port,
            };
            let port = Plugged::new(port);
            plugs.push(port.plug());
            shares[i % self.workers].push((i as PortId, Box::new(port)));
            cables.push(cable);
        }
        let crossings = match self.workers {
            1 => vec![Crossing::alone()],
            n => {
                let size = |i| (Bell::default(), self.frame_size(i) - plexus_io::HEADROOM);
                mesh(&(0..n).map(size).collect::<Vec<_>>(), self.crossing_depth)
            }
        };
        let workers = shares.into_iter().zip(crossings).enumerate();
        let workers = workers.map(|(i, (ports, crossing))| {
            let pool = Pool::new(self.frames, self.frame_size(i)).unwrap();
            Worker::new(i, pool, ports, &published, crossing, 42 + i as u64)
        });
        let mut rig = Rig {
            workers: workers.collect(),
            published: published.clone(),
            now: Time::from_secs(1),
            depth: self.depth,
            explains: EXPLAINED,
            owners: (0..self.ports.len()).map(|i| i % self.workers).collect(),
            cables,
            plugs,
        };
        rig.maintain();
        rig
    }
}

impl Rig {
    pub(crate) fn new(ports: usize) -> Rig {
        Plan::new(ports).build()
    }

    /// Looks after links, as the daemon does ten times a second; tells every worker.
    pub(crate) fn maintain(&mut self) {
        let now = self.now;
        let changed: Vec<_> = self.workers.iter_mut().flat_map(|w| w.maintain(now)).collect();
        for plexus_plane::LinkChange { port, link, .. } in changed {
            for (i, worker) in self.workers.iter_mut().enumerate() {
                if self.owners[usize::from(port)] != i {
                    worker.hear_link(now, port, link);
                }
            }
        }
    }

    /// Pulls a port's cable out, or puts it back; the workers see it when next they look.
    pub(crate) fn plug(&mut self, port: usize, is_in: bool) {
        self.plugs[port].set(is_in);
    }

    /// The worker of a port.
    pub(crate) fn owner(&self, port: usize) -> usize {
        self.owners[port]
    }

    pub(crate) fn packet(&mut self, port: usize, frame: &[u8]) -> Packet {
        self.workers[self.owners[port]].pool().alloc_from(frame).unwrap()
    }

    /// Sends a frame into a port; it is not switched yet.
    pub(crate) fn offer(&mut self, port: usize, frame: &[u8]) {
        let packet = self.packet(port, frame);
        self.offer_packet(port, packet);
    }

    /// The same for a packet whose sender left work to its device.
    pub(crate) fn offer_owing(&mut self, port: usize, frame: &[u8], offload: Offload) {
        let mut packet = self.packet(port, frame);
        packet.offload = offload;
        self.offer_packet(port, packet);
    }

    pub(crate) fn offer_packet(&mut self, port: usize, packet: Packet) {
        self.cables[port].to_port.push(packet).expect("the cable holds enough");
    }

    /// Sends a frame into a port if there is a frame and room on the cable; whether there was.
    pub(crate) fn try_offer(&mut self, port: usize, frame: &[u8]) -> bool {
        let pool = self.workers[self.owners[port]].pool();
        let Some(packet) = pool.alloc_from(frame) else { return false };
        let offered = self.cables[port].to_port.push(packet);
        let Err(rtrb::PushError::Full(packet)) = offered else { return true };
        self.workers[self.owners[port]].pool().free(packet);
        false
    }

    /// Switches until nothing moves, at the present instant.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            let now = self.now;
            if !self.workers.iter_mut().fold(false, |busy, w| w.turn(now) | busy) {
                return;
            }
        }
        panic!("the workers never come to rest");
    }

    /// Sends a frame into a port and returns what comes out, as (port, frame). That must be what
    /// the box said that it would do.
    pub(crate) fn send(&mut self, port: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let is_quiet = self.explains > 0 && self.account().held == 0 && self.is_taken();
        self.explains -= usize::from(is_quiet);
        let told = is_quiet.then(|| self.explain(port, frame));
        let before = if told.is_some() { self.all_drops() } else { vec![] };
        self.offer(port, frame);
        self.settle();
        let out = self.take();
        // Packets for a paced port leave later, and rules of a fast table hold packets back.
        let told = told.filter(|told| !told.steps.contains(&Step::Kernel {}));
        if let Some(told) = told.filter(|_| self.account().held == 0) {
            self.compare(port, frame, &told, &out, &before);
        }
        out
    }

    /// The box's treatment of a frame. It changes nothing by the question.
    pub(crate) fn explain(&mut self, port: usize, frame: &[u8]) -> Explanation {
        let (now, plan) = (self.now, self.published.load_full());
        let counted = |rig: &Rig| -> Vec<Counters> {
            rig.workers.iter().map(|w| w.pipeline().counters().clone()).collect()
        };
        let before = counted(self);
        let told = plexus_plane::explain(&plan, port as PortId, frame, |question| {
            Ok(self.workers.iter_mut().map(|worker| worker.facts(now, question)).collect())
        });
        assert_eq!(counted(self), before);
        told.unwrap()
    }

    /// No frame waits on a cable, in either direction.
    fn is_taken(&self) -> bool {
        self.cables.iter().all(|c| c.from_port.is_empty() && c.to_port.slots() == self.depth)
    }

    fn all_drops(&self) -> Vec<(PortId, DropReason, u64)> {
        let ports = 0..self.cables.len();
        let of = |port: usize| DropReason::ALL.iter().map(move |reason| (port, *reason));
        let all = ports.flat_map(of).map(|(p, r)| (p as PortId, r, self.drops(p, r)));
        all.filter(|(_, _, count)| *count > 0).collect()
    }

    /// The explanation against what has happened. What depends on earlier packets, limits of rates
    /// and full queues, it does not know.
    fn compare(
        &self,
        port: usize,
        frame: &[u8],
        told: &Explanation,
        out: &[(usize, Vec<u8>)],
        before: &[(PortId, DropReason, u64)],
    ) {
        use DropReason as Why;
        let mut dropped = Vec::new();
        for (port, reason, count) in self.all_drops() {
            let known = before.iter().find(|b| (b.0, b.1) == (port, reason)).map_or(0, |b| b.2);
            dropped.extend((known..count).map(|_| (port, reason)));
        }
        let depends = |reason: &Why| {
            matches!(
                reason,
                Why::ControlRate
                    | Why::ControlFull
                    | Why::StormBroadcast
                    | Why::StormMulticast
                    | Why::StormUnknown
                    | Why::QueuePackets
                    | Why::QueueBytes
                    | Why::NoFrame
                    | Why::CrossingFull
                    | Why::Silenced
            )
        };
        if dropped.iter().any(|(_, reason)| depends(reason)) {
            return;
        }
        let mut leaves: Vec<_> =
            told.leaves.iter().map(|(p, f)| (usize::from(*p), f.clone())).collect();
        let mut out = out.to_vec();
        leaves.sort();
        out.sort();
        assert_eq!(leaves, out, "{frame:02x?} into port {port}: {:?}", told.steps);
        let mut told_dropped = told.dropped.clone();
        told_dropped.sort();
        dropped.sort();
        assert_eq!(told_dropped, dropped, "{frame:02x?} into port {port}: {:?}", told.steps);
    }

    /// Sends a packet of the control plane and returns what comes out.
    pub(crate) fn inject(
        &mut self,
        bytes: &[u8],
        how: Injection,
    ) -> Result<Vec<(usize, Vec<u8>)>, DropReason> {
        let now = self.now;
        self.workers[0].inject(now, bytes, how)?;
        self.settle();
        Ok(self.take())
    }

    /// Sends a frame into a port and returns the ports that it comes out of.
    pub(crate) fn ports_reached(&mut self, port: usize, frame: &[u8]) -> Vec<usize> {
        self.send(port, frame).into_iter().map(|(port, _)| port).collect()
    }

    /// Everything that has come out.
    pub(crate) fn take(&mut self) -> Vec<(usize, Vec<u8>)> {
        (0..self.cables.len())
            .flat_map(|port| self.take_from(port).into_iter().map(move |frame| (port, frame)))
            .collect()
    }

    /// What has come out of a port.
    pub(crate) fn take_from(&mut self, port: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let pool = self.workers[self.owners[port]].pool();
        while let Ok(packet) = self.cables[port].from_port.pop() {
            all.push(pool.data(&packet).to_vec());
            pool.free(packet);
        }
        all
    }

    pub(crate) fn account(&self) -> Account {
        let mut sum = Account::default();
        for a in self.workers.iter().map(Worker::account) {
            sum += a;
        }
        sum
    }

    /// Packets dropped on a port for a reason, over all workers.
    pub(crate) fn drops(&self, port: usize, reason: DropReason) -> u64 {
        let workers = self.workers.iter();
        workers.map(|w| w.pipeline().counters().ports[port].drops[reason as usize]).sum()
    }

    /// Switches until nothing moves, at the present instant and then each time that a packet may
    /// next leave; returns what has come out.
    pub(crate) fn drain(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            self.settle();
            all.extend(self.take());
            match self.workers.iter().map(Worker::next_deadline).min() {
                None | Some(Time::FOREVER) => return all,
                Some(next) => self.now = next,
            }
        }
    }

    /// Sends a frame into a port: nothing comes out, and it is dropped there for this reason.
    #[track_caller]
    pub(crate) fn expect_drop(&mut self, port: usize, frame: &[u8], reason: DropReason) {
        let before = self.drops(port, reason);
        assert_eq!(self.send(port, frame), [], "{reason:?}");
        assert_eq!(self.drops(port, reason), before + 1, "{reason:?}");
    }
}

/// At the end of every test the account balances and no frame has leaked.
impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.take();
        let account = self.account();
        assert!(account.balances(), "{account:?}");
        for worker in &mut self.workers {
            worker.close(self.now);
        }
        for worker in &mut self.workers {
            // Packets that were crossing when their worker closed are copies in carriers.
            let pool = worker.pool();
            assert_eq!(pool.available(), pool.frames(), "frames have leaked");
        }
    }
}

pub(crate) fn mac(n: u64) -> MacAddr {
    MacAddr::from_u64(0x02_00_00_00_00_00 | n)
}

/// An untagged frame of 60 bytes from one station to another.
pub(crate) fn frame(to: MacAddr, from: MacAddr) -> Vec<u8> {
    frame_of(to, from, &[0x88, 0xB5])
}

/// A frame tagged with a VLAN and a priority.
pub(crate) fn tagged(to: MacAddr, from: MacAddr, priority: u8, vlan: u16) -> Vec<u8> {
    let tci = u16::from(priority) << 13 | vlan;
    let tci = tci.to_be_bytes();
    frame_of(to, from, &[0x81, 0x00, tci[0], tci[1], 0x88, 0xB5])
}

pub(crate) fn frame_of(to: MacAddr, from: MacAddr, rest: &[u8]) -> Vec<u8> {
    let mut frame = [to.0, from.0].concat();
    frame.extend(rest);
    let header = frame.len();
    frame.resize(60, 0);
    for (i, byte) in frame[header..].iter_mut().enumerate() {
        *byte = i as u8;
    }
    frame
}

/// An IPv4 packet between two stations, to and from. `field` has the flags and the offset of a
/// fragment.
pub(crate) fn ipv4(
    [to, from]: [MacAddr; 2],
    ends: [[u8; 4]; 2],
    (field, ttl, protocol): (u16, u8, u8),
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = [to.0, from.0].concat();
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([0x12, 0x34]);
    frame.extend(field.to_be_bytes());
    frame.extend([ttl, protocol, 0, 0]);
    frame.extend(ends.as_flattened());
    let sum = checksum::checksum(&frame[14..]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend(payload);
    frame
}

pub(crate) fn access(vlan: u16) -> PortSettings {
    PortSettings { vlan: VlanMode::Access(vlan), ..PortSettings::default() }
}

pub(crate) fn trunk(allowed: &[(u16, u16)], native: Option<u16>) -> PortSettings {
    let vlan = VlanMode::Trunk { allowed: allowed.to_vec(), native };
    PortSettings { vlan, ..PortSettings::default() }
}

pub(crate) fn static_mac(n: u64, vlan: u16, port: usize) -> StaticMac {
    StaticMac { mac: mac(n), vlan, port: format!("p{port}") }
}
