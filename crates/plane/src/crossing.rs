//! Between workers: rings that carry packets to the worker of their output port, and news of
//! stations.
//!
//! Each worker's frames are its own, so a packet that crosses is copied into a carrier that
//! travels there full and home empty; no memory is shared while it is used, and none is
//! allocated once the mesh stands. A worker that sleeps is woken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use plexus_io::{Offload, Packet, Pool, PortId};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::switch::LearnedMac;

/// News that may wait for a worker whose ring is full.
const LATE_MAX: usize = 65_536;

/// A packet on its way to another worker.
struct Carrier {
    bytes: Box<[u8]>,
    len: usize,
    out_port: PortId,
    in_port: PortId,
    vlan: u16,
    priority: u8,
    flags: u8,
    offload: Offload,
}

/// The sender's ends of one direction.
struct Outward {
    full: Producer<Carrier>,
    home: Consumer<Box<[u8]>>,
    news: Producer<LearnedMac>,
    /// News that found the ring full, to be sent first when it has room.
    late: VecDeque<LearnedMac>,
    /// The longest packet that the receiver's frames hold.
    len_max: usize,
}

/// The receiver's ends of one direction.
struct Inward {
    full: Consumer<Carrier>,
    home: Producer<Box<[u8]>>,
    news: Consumer<LearnedMac>,
}

/// One worker's rings to and from another.
struct Peer {
    to: Outward,
    from: Inward,
    asleep: Arc<AtomicBool>,
    wake: Option<Box<dyn Fn() + Send>>,
    /// Something was sent since it was last woken.
    told: bool,
}

/// One worker's ends of the mesh.
pub struct Crossing {
    /// By worker; `None` for itself.
    peers: Vec<Option<Peer>>,
    asleep: Arc<AtomicBool>,
}

/// Rings among workers, one per element of `len_max`: the longest packet that the worker's frames
/// hold. Each ring has room for `depth` packets; their memory is allocated as they are first used.
pub fn mesh(len_max: &[usize], depth: usize) -> Vec<Crossing> {
    let workers = len_max.len();
    let mut all: Vec<Crossing> = (0..workers)
        .map(|_| Crossing {
            peers: (0..workers).map(|_| None).collect(),
            asleep: Arc::new(AtomicBool::new(false)),
        })
        .collect();
    for a in 0..workers {
        for b in a + 1..workers {
            let (a_to, b_from) = way(depth, len_max[b]);
            let (b_to, a_from) = way(depth, len_max[a]);
            let (asleep_a, asleep_b) = (all[a].asleep.clone(), all[b].asleep.clone());
            all[a].peers[b] = Some(Peer::new(a_to, a_from, asleep_b));
            all[b].peers[a] = Some(Peer::new(b_to, b_from, asleep_a));
        }
    }
    all
}

/// The rings of one direction, with every carrier at home.
fn way(depth: usize, len_max: usize) -> (Outward, Inward) {
    let (full_out, full_in) = RingBuffer::new(depth);
    let (mut home_in, home_out) = RingBuffer::new(depth);
    let (news_out, news_in) = RingBuffer::new(depth);
    for _ in 0..depth {
        home_in.push(Box::default()).expect("the ring was made for this many");
    }
    let late = VecDeque::new();
    (
        Outward { full: full_out, home: home_out, news: news_out, late, len_max },
        Inward { full: full_in, home: home_in, news: news_in },
    )
}

impl Peer {
    fn new(to: Outward, from: Inward, asleep: Arc<AtomicBool>) -> Peer {
        Peer { to, from, asleep, wake: None, told: false }
    }

    fn catch_up(&mut self) -> bool {
        while let Some(&news) = self.to.late.front() {
            if self.to.news.push(news).is_err() {
                return true;
            }
            self.to.late.pop_front();
            self.told = true;
        }
        false
    }
}

impl Crossing {
    /// A worker without others.
    pub fn alone() -> Crossing {
        Crossing { peers: Vec::new(), asleep: Arc::new(AtomicBool::new(false)) }
    }

    /// True if there are other workers.
    pub fn has_peers(&self) -> bool {
        self.peers.iter().any(Option::is_some)
    }

    /// How to wake a worker that sleeps.
    pub fn on_wake(&mut self, worker: usize, wake: impl Fn() + Send + 'static) {
        if let Some(Some(peer)) = self.peers.get_mut(worker) {
            peer.wake = Some(Box::new(wake));
        }
    }

    /// The longest packet that a worker's frames hold.
    pub(crate) fn len_max(&self, worker: usize) -> usize {
        self.peers.get(worker).and_then(Option::as_ref).map_or(0, |peer| peer.to.len_max)
    }

    /// Sends a packet's bytes across. False if the ring is full or the packet too long; the
    /// packet stays with the caller either way.
    pub(crate) fn send(
        &mut self,
        worker: usize,
        out_port: PortId,
        pool: &Pool,
        packet: &Packet,
    ) -> bool {
        let Some(Some(peer)) = self.peers.get_mut(worker) else { return false };
        let data = pool.data(packet);
        if data.len() > peer.to.len_max {
            return false;
        }
        let Ok(mut bytes) = peer.to.home.pop() else { return false };
        if bytes.len() < data.len() {
            bytes = vec![0; data.len().next_power_of_two().max(2048)].into_boxed_slice();
        }
        bytes[..data.len()].copy_from_slice(data);
        let carrier = Carrier {
            bytes,
            len: data.len(),
            out_port,
            in_port: packet.in_port,
            vlan: packet.vlan,
            priority: packet.priority,
            flags: packet.flags,
            offload: packet.offload,
        };
        // There are as many carriers as places in the ring, so it has room.
        let sent = peer.to.full.push(carrier).is_ok();
        peer.told |= sent;
        sent
    }

    /// Takes in one packet that arrived; `Some(None)` if one arrived but the pool has no frame for
    /// it (its output port is given for the account).
    pub(crate) fn receive(&mut self, pool: &mut Pool) -> Option<(PortId, Option<Packet>)> {
        for peer in self.peers.iter_mut().flatten() {
            let Ok(carrier) = peer.from.full.pop() else { continue };
            let packet = pool.alloc_from(&carrier.bytes[..carrier.len]).map(|mut packet| {
                packet.in_port = carrier.in_port;
                packet.vlan = carrier.vlan;
                packet.priority = carrier.priority;
                packet.flags = carrier.flags;
                packet.offload = carrier.offload;
                packet
            });
            // The home ring has a place for every carrier.
            let _ = peer.from.home.push(carrier.bytes);
            return Some((carrier.out_port, packet));
        }
        None
    }

    /// Tells every other worker. News that finds a ring full waits its turn; beyond `LATE_MAX` the
    /// oldest is given up, to be heard at the station's next refresh.
    pub(crate) fn tell(&mut self, news: LearnedMac) {
        for peer in self.peers.iter_mut().flatten() {
            peer.catch_up();
            if !peer.to.late.is_empty() || peer.to.news.push(news).is_err() {
                if peer.to.late.len() >= LATE_MAX {
                    peer.to.late.pop_front();
                }
                peer.to.late.push_back(news);
            }
            peer.told = true;
        }
    }

    /// Sends news that waited for room; true if some still waits.
    pub(crate) fn catch_up(&mut self) -> bool {
        self.peers.iter_mut().flatten().fold(false, |waits, peer| peer.catch_up() | waits)
    }

    /// News from the others.
    pub(crate) fn hear(&mut self) -> Option<LearnedMac> {
        self.peers.iter_mut().flatten().find_map(|peer| peer.from.news.pop().ok())
    }

    /// Wakes the workers that something was sent to since the last call.
    pub(crate) fn wake_told(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            if std::mem::take(&mut peer.told) {
                // Pairs with the fence in `may_sleep`: either the sleeper sees what was pushed, or
                // this sees that it sleeps.
                fence(Ordering::SeqCst);
                if peer.asleep.load(Ordering::Relaxed)
                    && let Some(wake) = &peer.wake
                {
                    wake();
                }
            }
        }
    }

    /// Announces that this worker is about to sleep. False if something arrived meanwhile.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let quiet = self
            .peers
            .iter()
            .flatten()
            .all(|peer| peer.from.full.is_empty() && peer.from.news.is_empty());
        if !quiet {
            self.awake();
        }
        quiet
    }

    /// This worker no longer sleeps.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Packets on their way to this worker.
    pub(crate) fn arriving(&self) -> usize {
        self.peers.iter().flatten().map(|peer| peer.from.full.slots()).sum()
    }
}
