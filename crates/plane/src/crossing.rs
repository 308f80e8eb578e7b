//! Between workers: rings that carry packets to the worker of their output port, and news of
//! stations.
//!
//! Each worker's frames are its own, so a packet that crosses is copied into a
//! [carrier](crate::carriers). A worker that sleeps is woken.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

use plexus_io::{Offload, Packet, Pool, PortId};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::carriers::{Bell, Inward, Outward, way};
use crate::switch::LearnedMac;

/// News that may wait for a worker whose ring is full.
const LATE_MAX: usize = 65_536;

/// A packet on its way to another worker.
#[derive(Default)]
struct Carrier {
    bytes: Vec<u8>,
    out_port: PortId,
    in_port: PortId,
    vlan: u16,
    priority: u8,
    flags: u8,
    offload: Offload,
}

/// One worker's rings to and from another. A carrier passes through them as one pointer.
struct Peer {
    to: Outward<Box<Carrier>>,
    from: Inward<Box<Carrier>>,
    news_to: Producer<LearnedMac>,
    news_from: Consumer<LearnedMac>,
    /// News that found the ring full, to be sent first when it has room.
    late: VecDeque<LearnedMac>,
    /// The longest packet that the other worker's frames hold.
    len_max: usize,
    bell: Bell,
    /// Something was sent since the bell was last rung.
    told: bool,
    /// Packets that were on their way when the last mark was set, and still are.
    before_mark: usize,
}

/// One worker's ends of the mesh.
#[derive(Default)]
pub struct Crossing {
    /// By worker; `None` for itself.
    peers: Vec<Option<Peer>>,
    /// The worker that a packet is taken from next, if it has sent any.
    turn: usize,
    bell: Bell,
}

/// Rings among workers, one per element: its bell, and the longest packet that its frames hold.
/// Each ring has room for `depth` packets; their memory is allocated as they are first used.
pub fn mesh(workers: &[(Bell, usize)], depth: usize) -> Vec<Crossing> {
    let own = workers.iter().map(|(bell, _)| Crossing {
        peers: workers.iter().map(|_| None).collect(),
        turn: 0,
        bell: bell.clone(),
    });
    let mut all: Vec<Crossing> = own.collect();
    for a in 0..workers.len() {
        for b in a + 1..workers.len() {
            let ((a_to, b_from), (b_to, a_from)) = (way(depth), way(depth));
            let (a_news_to, b_news_from) = RingBuffer::new(depth);
            let (b_news_to, a_news_from) = RingBuffer::new(depth);
            let peer = |to, from, news_to, news_from, other: usize| {
                let (bell, len_max) = workers[other].clone();
                let (late, told, before_mark) = (VecDeque::new(), false, 0);
                Some(Peer { to, from, news_to, news_from, late, len_max, bell, told, before_mark })
            };
            all[a].peers[b] = peer(a_to, a_from, a_news_to, a_news_from, b);
            all[b].peers[a] = peer(b_to, b_from, b_news_to, b_news_from, a);
        }
    }
    all
}

impl Peer {
    fn catch_up(&mut self) -> bool {
        while let Some(&news) = self.late.front() {
            if self.news_to.push(news).is_err() {
                return true;
            }
            self.late.pop_front();
            self.told = true;
        }
        false
    }
}

impl Crossing {
    /// A worker without others.
    pub fn alone() -> Crossing {
        Crossing::default()
    }

    /// True if there are other workers.
    pub fn has_peers(&self) -> bool {
        self.peers.iter().any(Option::is_some)
    }

    /// The longest packet that a worker's frames hold.
    pub(crate) fn len_max(&self, worker: usize) -> usize {
        self.peers.get(worker).and_then(Option::as_ref).map_or(0, |peer| peer.len_max)
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
        if data.len() > peer.len_max {
            return false;
        }
        let sent = peer.to.send(|carrier| {
            carrier.bytes.clear();
            carrier.bytes.extend_from_slice(data);
            carrier.out_port = out_port;
            carrier.in_port = packet.in_port;
            carrier.vlan = packet.vlan;
            carrier.priority = packet.priority;
            carrier.flags = packet.flags;
            carrier.offload = packet.offload;
        });
        peer.told |= sent;
        sent
    }

    /// Takes in one packet that arrived; `Some(None)` if one arrived but the pool has no frame for
    /// it (its output port is given for the account). The other workers take turns.
    pub(crate) fn receive(&mut self, pool: &mut Pool) -> Option<(PortId, Option<Packet>)> {
        let first = if self.turn < self.peers.len() { self.turn } else { 0 };
        for worker in (first..self.peers.len()).chain(0..first) {
            let Some(peer) = &mut self.peers[worker] else { continue };
            let Some(carrier) = peer.from.pop() else { continue };
            self.turn = worker + 1;
            peer.before_mark = peer.before_mark.saturating_sub(1);
            let packet = pool.alloc_from(&carrier.bytes).map(|mut packet| {
                packet.in_port = carrier.in_port;
                packet.vlan = carrier.vlan;
                packet.priority = carrier.priority;
                packet.flags = carrier.flags;
                packet.offload = carrier.offload;
                packet
            });
            let out_port = carrier.out_port;
            peer.from.send_home(carrier);
            return Some((out_port, packet));
        }
        None
    }

    /// Tells every other worker. News that finds a ring full waits its turn; beyond `LATE_MAX` the
    /// oldest is given up, to be heard at the station's next refresh.
    pub(crate) fn tell(&mut self, news: LearnedMac) {
        for peer in self.peers.iter_mut().flatten() {
            peer.catch_up();
            if !peer.late.is_empty() || peer.news_to.push(news).is_err() {
                if peer.late.len() >= LATE_MAX {
                    peer.late.pop_front();
                }
                peer.late.push_back(news);
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
        self.peers.iter_mut().flatten().find_map(|peer| peer.news_from.pop().ok())
    }

    /// Wakes the workers that something was sent to since the last call.
    pub(crate) fn wake_told(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            if std::mem::take(&mut peer.told) {
                peer.bell.ring();
            }
        }
    }

    /// Announces that this worker is about to sleep. False if something arrived meanwhile.
    pub(crate) fn may_sleep(&self) -> bool {
        let mut peers = self.peers.iter().flatten();
        self.bell.may_sleep(|| peers.all(|p| p.from.is_empty() && p.news_from.is_empty()))
    }

    /// This worker no longer sleeps.
    pub(crate) fn awake(&self) {
        self.bell.awake();
    }

    /// True if all packets have been taken in that were on their way at the last mark.
    pub(crate) fn has_passed_mark(&self) -> bool {
        self.peers.iter().flatten().all(|peer| peer.before_mark == 0)
    }

    /// Sets the next mark, behind the packets that are on their way. Another worker that has handed
    /// a packet over and does not see yet what this one has stored before finds it before the mark.
    pub(crate) fn set_mark(&mut self) {
        fence(SeqCst);
        for peer in self.peers.iter_mut().flatten() {
            peer.before_mark = peer.from.arrived();
        }
    }

    /// Packets on their way to this worker.
    pub(crate) fn arriving(&self) -> usize {
        self.peers.iter().flatten().map(|peer| peer.from.arrived()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three workers: the first sends to the third as often as its ring takes packets, and the
    /// second has sent one.
    #[test]
    fn a_flood_by_one_worker_keeps_back_neither_packets_of_another_nor_the_mark() {
        let mut pool = Pool::new(256, 2048).unwrap();
        let mut all = mesh(&[(); 3].map(|()| (Bell::default(), 2048)), 64);
        let (flood, other) =
            (pool.alloc_from(&[1; 60]).unwrap(), pool.alloc_from(&[2; 60]).unwrap());
        let [one, two, three] = &mut all[..] else { unreachable!() };
        while one.send(2, 0, &pool, &flood) {}
        assert!(two.send(2, 1, &pool, &other));
        assert!(three.has_passed_mark(), "there is none yet");
        three.set_mark();
        let mut came = Vec::new();
        for _ in 0..65 {
            assert!(!three.has_passed_mark());
            let (port, packet) = three.receive(&mut pool).unwrap();
            came.push(port);
            pool.free(packet.unwrap());
            one.send(2, 0, &pool, &flood);
        }
        assert!(came[..2].contains(&1), "{came:?}");
        assert!(three.has_passed_mark() && three.arriving() > 0);
        // A packet that comes before the mark is set is before it.
        assert!(two.send(2, 1, &pool, &other));
        three.set_mark();
        while !three.has_passed_mark() {
            let (port, packet) = three.receive(&mut pool).unwrap();
            came.push(port);
            pool.free(packet.unwrap());
        }
        assert_eq!(came.iter().filter(|port| **port == 1).count(), 2);
    }
}
