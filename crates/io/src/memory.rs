//! A port without a device: a cable end in memory. Tests, benches and simulations hold the other
//! end.
//!
//! Both ends use the frames of one pool, so a packet passes without being copied.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use plexus_wire::Time;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::packet::{self, Batch, Packet};
use crate::pool::Pool;
use crate::port::{Capabilities, Link, Port, PortStats};

/// The port's end of the cable.
pub struct MemoryPort {
    name: String,
    rx: Consumer<Packet>,
    tx: Producer<Packet>,
    capabilities: Capabilities,
    link: Link,
    stats: PortStats,
}

/// The far end: inserts packets for the port, and takes the packets that it sent.
pub struct Cable {
    /// Packets on their way to the port.
    pub to_port: Producer<Packet>,
    /// Packets that the port has sent.
    pub from_port: Consumer<Packet>,
}

/// A port and its far end, with room for `depth` packets in each direction.
pub fn port(name: &str, depth: usize) -> (MemoryPort, Cable) {
    let (to_port, rx) = RingBuffer::new(depth);
    let (tx, from_port) = RingBuffer::new(depth);
    let capabilities = Capabilities { checksum: false, segmentation: false, max_frame: 1514 };
    let port = MemoryPort {
        name: name.into(),
        rx,
        tx,
        capabilities,
        link: Link::Up,
        stats: PortStats::default(),
    };
    (port, Cable { to_port, from_port })
}

impl MemoryPort {
    /// The same port with other capabilities.
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> MemoryPort {
        self.capabilities = capabilities;
        self
    }
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, _now: Time, _pool: &mut Pool, into: &mut Batch) -> usize {
        if self.link == Link::Down {
            return 0;
        }
        let n = self.rx.slots().min(into.remaining_capacity());
        let Ok(chunk) = self.rx.read_chunk(n) else { return 0 };
        let (first, second) = chunk.as_slices();
        // SAFETY: the ring gives the slots up right after; dropping a packet does nothing.
        let all = unsafe { [packet::append(into, first), packet::append(into, second)] };
        chunk.commit_all();
        self.stats.rx_packets += n as u64;
        self.stats.rx_bytes += all.map(|part| part.bytes).iter().sum::<u64>();
        n
    }

    fn transmit(&mut self, _now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        if self.link == Link::Down {
            return 0;
        }
        let before = from.len();
        while !from.is_empty() {
            // Reads the far end's index only if there may be too little room.
            let slots = match self.tx.cached_slots() {
                cached if cached < from.len() => self.tx.slots().min(from.len()),
                _ => from.len(),
            };
            let Ok(mut chunk) = self.tx.write_chunk_uninit(slots) else { break };
            let (first, second) = chunk.as_mut_slices();
            let (mut taken, mut bytes) = put(pool, &self.capabilities, from, first);
            if taken == first.len() && !second.is_empty() {
                let more = put(pool, &self.capabilities, &from[taken..], second);
                (taken, bytes) = (taken + more.0, bytes + more.1);
            }
            // SAFETY: so many slots have been written.
            unsafe { chunk.commit(taken) };
            match taken == from.len() {
                true => from.clear(),
                false => drop(from.drain(..taken)),
            }
            self.stats.tx_packets += taken as u64;
            self.stats.tx_bytes += bytes;
            if taken == slots {
                break;
            }
            if let Some(bad) = from.drain(..1).next() {
                self.stats.tx_rejected += 1;
                pool.free(bad);
            }
        }
        before - from.len()
    }

    fn maintain(&mut self, _now: Time, _pool: &mut Pool) -> Link {
        self.link
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> PortStats {
        self.stats
    }

    fn close(&mut self, pool: &mut Pool) {
        while let Ok(packet) = self.rx.pop() {
            pool.free(packet);
        }
        self.link = Link::Down;
    }
}

/// Copies packets to the free slots, up to the first that the port could never send; the caller
/// must not use the packets again. Returns how many, and their bytes.
#[inline(always)]
fn put(
    pool: &Pool,
    capabilities: &Capabilities,
    packets: &[Packet],
    slots: &mut [MaybeUninit<Packet>],
) -> (usize, u64) {
    let n = slots.len().min(packets.len());
    let all = packet::copy_and_survey(&packets[..n], &mut slots[..n]);
    match !all.owing && all.longest <= capabilities.max_frame {
        true => (n, all.bytes),
        // Packets that are not accepted stay in slots that the ring considers free.
        false => put_each(pool, capabilities, packets, slots),
    }
}

/// The same, one by one.
#[cold]
fn put_each(
    pool: &Pool,
    capabilities: &Capabilities,
    packets: &[Packet],
    slots: &mut [MaybeUninit<Packet>],
) -> (usize, u64) {
    let (mut count, mut bytes) = (0, 0);
    for (slot, packet) in slots.iter_mut().zip(packets) {
        if !capabilities.admit(pool, packet) {
            break;
        }
        // SAFETY: a slot has room for a packet.
        unsafe { std::ptr::copy_nonoverlapping(packet, slot.as_mut_ptr(), 1) };
        bytes += packet.len() as u64;
        count += 1;
    }
    (count, bytes)
}

// Packets are moved by copying them out of a ring's slots, which are not dropped.
const _: () = assert!(!std::mem::needs_drop::<Packet>());
