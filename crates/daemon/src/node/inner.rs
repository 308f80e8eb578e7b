//! Named data through the node's own ports. An Ethernet of `[named]` on the device of a port opens
//! no socket. Its frames come from the port's worker and leave by the port's queues, in the same
//! account as all others.
//!
//! ```text
//! device ─ worker ── to the node's address or the group ──▶ face ─ forwarder of names
//!             ▲                                               │
//!             └── output queues ◀── Injection::Named ◀────────┘
//! ```
//!
//! A frame crosses between the two threads by [carriers](plexus_plane::carriers): neither waits.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plexus_config::{Backend, NodeFile};
use plexus_io::wake::Waker;
use plexus_io::{Batch, Capabilities, HEADROOM, Link, Pool, Port, PortId, PortStats};
use plexus_ndn_faces::EthernetEnds;
use plexus_plane::carriers::{Inward, Outward, way};
use plexus_plane::{Injection, Worker};
use plexus_wire::{MacAddr, Time, ethernet};

use super::ports;

/// Most frames under way, for each port and direction.
const DEPTH: usize = 1024;

/// The ports of a file that carry an Ethernet of `[named]`, and the address of each.
///
/// # Errors
/// When a device's address cannot be read.
pub(crate) fn named(file: &NodeFile) -> Result<Vec<(PortId, MacAddr)>, String> {
    carried(file).map(|(port, device)| Ok((port, facts(device)?.mac))).collect()
}

fn carried(file: &NodeFile) -> impl Iterator<Item = (PortId, &str)> {
    let ethernets = file.named.iter().flat_map(|named| &named.ethernets);
    ethernets.filter_map(|ethernet| {
        let is_its = |port: &&_| {
            let port: &plexus_config::PortFile = port;
            let backend = port.backend.unwrap_or(file.backend);
            port.device == ethernet.device && port.tunnel.is_none() && backend != Backend::Tap
        };
        let (port, of_file) = (0..).zip(&file.ports).find(|(_, port)| is_its(port))?;
        Some((port, of_file.device.as_str()))
    })
}

fn facts(device: &str) -> Result<plexus_io::DeviceFacts, String> {
    plexus_io::device_facts(device).map_err(|e| format!("{device}: {e}"))
}

/// The worker's end of the rings of one port.
pub(crate) struct PortEnd {
    port: PortId,
    to_face: Outward<Vec<u8>>,
    from_face: Inward<Vec<u8>>,
    /// Frames for the face that found no carrier at home.
    missed: Arc<AtomicU64>,
}

/// The worker's end of the rings of all its ports.
pub(crate) struct WorkerEnd {
    pub(crate) ports: Vec<PortEnd>,
    /// Wakes the thread of the faces.
    pub(crate) faces: Waker,
}

/// Fills a carrier with a frame.
fn fill(carrier: &mut Vec<u8>, frame: &[u8]) {
    carrier.clear();
    carrier.extend_from_slice(frame);
}

impl WorkerEnd {
    /// Passes frames on in both directions; true if the worker has some to send.
    pub(crate) fn pass(&mut self, now: Time, worker: &mut Worker) -> bool {
        let mut any = false;
        worker.take_named(|port, frame| {
            let Some(end) = self.ports.iter_mut().find(|end| end.port == port) else { return };
            any = true;
            if !end.to_face.send(|carrier| fill(carrier, frame)) {
                end.missed.fetch_add(1, Ordering::Relaxed);
            }
        });
        if any {
            self.faces.wake();
        }
        let mut is_busy = false;
        for end in &mut self.ports {
            for _ in 0..end.from_face.arrived() {
                let Some(frame) = end.from_face.pop() else { break };
                // The data plane counts what it drops.
                let _ = worker.inject(now, &frame, Injection::Named(end.port));
                end.from_face.send_home(frame);
                is_busy = true;
            }
        }
        is_busy
    }
}

/// The faces' end of one port.
pub(crate) struct FaceEnd {
    device: String,
    /// Longest frame at present, and the longest that its pool holds.
    max_frame: usize,
    frame_limit: usize,
    from_worker: Inward<Vec<u8>>,
    missed: Arc<AtomicU64>,
    to_worker: Outward<Vec<u8>>,
    worker: Waker,
    stats: PortStats,
}

impl FaceEnd {
    /// The device that it stands for.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// As faces take it.
    ///
    /// # Errors
    /// When there is no memory for its frames.
    pub(crate) fn ends(self, mtu: Option<usize>) -> Result<EthernetEnds, String> {
        let len = (HEADROOM + self.max_frame).next_multiple_of(64);
        let pool = Pool::new(DEPTH, len).map_err(|e| format!("frames of {}: {e}", self.device))?;
        let device = self.device.clone();
        let own = Box::new(move || facts(&device).ok().map(|facts| facts.mac));
        Ok(EthernetEnds { port: Box::new(self), pool, own, mtu })
    }
}

impl Port for FaceEnd {
    fn name(&self) -> &str {
        &self.device
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { checksum: false, segmentation: false, max_frame: self.max_frame }
    }

    fn receive(&mut self, _: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        let before = into.len();
        while !into.is_full()
            && pool.available() > 0
            && let Some(frame) = self.from_worker.pop()
        {
            match pool.alloc_from(&frame) {
                Some(packet) => {
                    self.stats.rx_packets += 1;
                    self.stats.rx_bytes += frame.len() as u64;
                    into.push(packet);
                }
                None => self.stats.rx_invalid += 1,
            }
            self.from_worker.send_home(frame);
        }
        into.len() - before
    }

    fn transmit(&mut self, _: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        let mut taken = 0;
        for packet in from.iter() {
            let frame = pool.data(packet);
            if !self.to_worker.send(|carrier| fill(carrier, frame)) {
                break;
            }
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += frame.len() as u64;
            taken += 1;
        }
        from.drain(..taken).for_each(|packet| pool.free(packet));
        if taken > 0 {
            self.worker.wake();
        }
        taken
    }

    fn maintain(&mut self, _: Time, _: &mut Pool) -> Link {
        match facts(&self.device) {
            Ok(facts) => {
                self.max_frame = self.frame_limit.min(facts.mtu + ethernet::HEADER_LEN);
                Link::Up
            }
            Err(_) => Link::Down,
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> PortStats {
        let missed = self.missed.load(Ordering::Relaxed);
        PortStats { rx_overflow: missed, ..self.stats }
    }

    fn close(&mut self, _: &mut Pool) {}
}

/// Rings for the ports of a file: the faces' ends, and each worker's. `wakers` are the workers'.
///
/// # Errors
/// When a device cannot be read.
pub(crate) fn rings(
    file: &NodeFile,
    wakers: &[Waker],
) -> Result<(Vec<FaceEnd>, Vec<Vec<PortEnd>>), String> {
    let owners = ports::owners(file);
    let mut faces = vec![];
    let mut workers: Vec<Vec<PortEnd>> = wakers.iter().map(|_| vec![]).collect();
    for (port, device) in carried(file) {
        let owner = owners.get(usize::from(port)).copied().unwrap_or(0);
        let ((to_face, from_worker), (to_worker, from_face)) = (way(DEPTH), way(DEPTH));
        let missed = Arc::new(AtomicU64::new(0));
        let max_frame = facts(device)?.mtu + ethernet::HEADER_LEN;
        workers[owner].push(PortEnd { port, to_face, from_face, missed: missed.clone() });
        faces.push(FaceEnd {
            device: device.to_string(),
            max_frame,
            frame_limit: max_frame,
            from_worker,
            missed,
            to_worker,
            worker: wakers[owner].clone(),
            stats: PortStats::default(),
        });
    }
    Ok((faces, workers))
}
