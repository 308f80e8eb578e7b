//! Named data through the node's own ports. An Ethernet of `[named]` whose device is that of a port
//! opens no socket: its frames come from the port's worker, and leave by the port's queues, in the
//! same account as all others.
//!
//! ```text
//! device ─ worker ── to the node's address or the group ──▶ face ─ forwarder of names
//!             ▲                                               │
//!             └── output queues ◀── Injection::Named ◀────────┘
//! ```
//!
//! A frame crosses as bytes between two threads, by queues of fixed length: neither thread waits.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

use plexus_config::{Backend, NodeFile};
use plexus_io::wake::Waker;
use plexus_io::{Batch, Capabilities, HEADROOM, Link, Pool, Port, PortId, PortStats};
use plexus_ndn_faces::EthernetEnds;
use plexus_plane::{Injection, Worker};
use plexus_wire::{MacAddr, Time, ethernet};

use super::ports;

/// Frames that wait on their way, for each port and direction.
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

/// The worker's end of the queues, of all its ports.
pub(crate) struct WorkerEnd {
    /// By port: to the face, and frames that found its queue full.
    to_faces: Vec<(PortId, SyncSender<Vec<u8>>, Arc<AtomicU64>)>,
    from_faces: Receiver<(PortId, Vec<u8>)>,
    faces: Waker,
}

impl WorkerEnd {
    /// Passes frames on in both directions; true if the worker has some to send.
    pub(crate) fn pass(&self, now: Time, worker: &mut Worker) -> bool {
        let mut any = false;
        worker.take_named(|port, frame| {
            let Some((_, queue, missed)) = self.to_faces.iter().find(|(p, ..)| *p == port) else {
                return;
            };
            any = true;
            if queue.try_send(frame.to_vec()).is_err() {
                missed.fetch_add(1, Ordering::Relaxed);
            }
        });
        if any {
            self.faces.wake();
        }
        let mut is_busy = false;
        while let Ok((port, frame)) = self.from_faces.try_recv() {
            // The data plane counts what it drops.
            let _ = worker.inject(now, &frame, Injection::Named(port));
            is_busy = true;
        }
        is_busy
    }
}

/// The faces' end of one port.
pub(crate) struct FaceEnd {
    port: PortId,
    device: String,
    /// Longest frame at present, and the longest that its pool holds.
    max_frame: usize,
    frame_limit: usize,
    arrived: Receiver<Vec<u8>>,
    missed: Arc<AtomicU64>,
    to_worker: SyncSender<(PortId, Vec<u8>)>,
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
            && let Ok(frame) = self.arrived.try_recv()
        {
            match pool.alloc_from(&frame) {
                Some(packet) => {
                    self.stats.rx_packets += 1;
                    self.stats.rx_bytes += frame.len() as u64;
                    into.push(packet);
                }
                None => self.stats.rx_invalid += 1,
            }
        }
        into.len() - before
    }

    fn transmit(&mut self, _: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        let mut taken = 0;
        for packet in from.iter() {
            let frame = pool.data(packet).to_vec();
            let len = frame.len() as u64;
            if self.to_worker.try_send((self.port, frame)).is_err() {
                break;
            }
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += len;
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

/// A worker's end before the faces' thread runs: without its waker.
pub(crate) struct Half {
    to_faces: Vec<(PortId, SyncSender<Vec<u8>>, Arc<AtomicU64>)>,
    from_faces: Receiver<(PortId, Vec<u8>)>,
}

impl Half {
    /// `None` if no port of the worker carries named data.
    pub(crate) fn with(self, faces: Option<Waker>) -> Option<WorkerEnd> {
        let Half { to_faces, from_faces } = self;
        let faces = faces.filter(|_| !to_faces.is_empty())?;
        Some(WorkerEnd { to_faces, from_faces, faces })
    }
}

/// Queues for the ports of a file: the faces' ends, and each worker's. `wakers` are the workers'.
///
/// # Errors
/// When a device cannot be read.
pub(crate) fn queues(
    file: &NodeFile,
    wakers: &[Waker],
) -> Result<(Vec<FaceEnd>, Vec<Half>), String> {
    let owners = ports::owners(file);
    let (mut faces, mut workers, mut senders) = (vec![], vec![], vec![]);
    for _ in wakers {
        let (sender, from_faces) = mpsc::sync_channel(DEPTH);
        senders.push(sender);
        workers.push(Half { to_faces: vec![], from_faces });
    }
    for (port, device) in carried(file) {
        let owner = owners.get(usize::from(port)).copied().unwrap_or(0);
        let (to_face, arrived) = mpsc::sync_channel(DEPTH);
        let missed = Arc::new(AtomicU64::new(0));
        let max_frame = facts(device)?.mtu + ethernet::HEADER_LEN;
        workers[owner].to_faces.push((port, to_face, missed.clone()));
        faces.push(FaceEnd {
            port,
            device: device.to_string(),
            max_frame,
            frame_limit: max_frame,
            arrived,
            missed,
            to_worker: senders[owner].clone(),
            worker: wakers[owner].clone(),
            stats: PortStats::default(),
        });
    }
    Ok((faces, workers))
}
