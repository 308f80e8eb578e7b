//! Fault injection: packets that a port receives are dropped, duplicated, reordered, damaged,
//! delayed, or slowed to a rate. The faults depend only on the seed, the packets and the times
//! passed in, so a run can be repeated exactly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use plexus_wire::Time;
use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

use super::leave_to_inner;
use crate::{Batch, Link, Packet, Pool, Port, PortStats};

/// The injected faults. Probabilities are per packet, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSettings {
    /// Probability that a packet is lost.
    pub drop: f64,
    /// Probability that a packet comes twice.
    pub duplicate: f64,
    /// Probability that a packet is held back by `reorder_by`, so that later ones overtake it.
    pub reorder: f64,
    /// How long such a packet is held back.
    pub reorder_by: Duration,
    /// Probability that one bit of a packet is wrong.
    pub corrupt: f64,
    /// The delay of each packet.
    pub delay: Duration,
    /// At most how much longer; evenly spread. It changes no order.
    pub jitter: Duration,
    /// Speed of the cable in bits/s, with preamble, FCS and gap counted as on Ethernet.
    pub rate_bits_per_s: Option<u64>,
    /// Most packets in flight; further ones are lost ([`FaultCounts::overflowed`]). 16,384 of them
    /// fill 10 ms at 1.6 million packets/s. They occupy the worker's frames: in any case a quarter
    /// of its pool is left free.
    pub queue: usize,
    /// Seed of the random choices.
    pub seed: u64,
}

impl Default for FaultSettings {
    fn default() -> FaultSettings {
        FaultSettings {
            drop: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: Duration::from_millis(1),
            corrupt: 0.0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate_bits_per_s: None,
            queue: 16_384,
            seed: 0,
        }
    }
}

/// From a file's settings, with defaults for the rest.
impl From<&plexus_config::FaultSettings> for FaultSettings {
    fn from(written: &plexus_config::FaultSettings) -> FaultSettings {
        FaultSettings {
            drop: written.drop,
            duplicate: written.duplicate,
            reorder: written.reorder,
            corrupt: written.corrupt,
            delay: written.delay,
            jitter: written.jitter,
            rate_bits_per_s: written.rate_bits_per_s,
            seed: written.seed,
            ..FaultSettings::default()
        }
    }
}

/// How often each fault occurred. Packets from the inner port, plus duplicates, are the sum of
/// those delivered, dropped, overflowed, discarded and in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Packets lost.
    pub dropped: u64,
    /// Packets that were added.
    pub duplicated: u64,
    /// Packets held back for others to overtake.
    pub reordered: u64,
    /// Packets with a wrong bit.
    pub corrupted: u64,
    /// Packets lost because too many were in flight.
    pub overflowed: u64,
    /// Packets in flight when the port was closed.
    pub discarded: u64,
}

/// A port with a bad cable on its receiving side.
pub struct Faults<P> {
    pub(super) inner: P,
    settings: FaultSettings,
    dice: Pcg32,
    /// Packets in flight, the next to arrive on top.
    pub(super) held: BinaryHeap<Reverse<Held>>,
    /// Number of packets that have entered the cable: packets due at the same time keep their
    /// order.
    entered: u64,
    /// When the cable's sender is done with the last packet.
    sender_free: Time,
    /// When the last packet that was not held back arrives.
    last_due: Time,
    counts: FaultCounts,
    delivered: u64,
    delivered_bytes: u64,
}

pub(super) struct Held {
    due: Time,
    number: u64,
    packet: Packet,
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.number == other.number
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl<P: Port> Faults<P> {
    /// Puts a bad cable on `inner`.
    pub fn new(inner: P, settings: FaultSettings) -> Faults<P> {
        /// An arbitrary number that distinguishes this random stream from others with the same
        /// seed.
        const STREAM: u64 = 0x706C_6578_7573;
        let dice = Pcg32::new(settings.seed, STREAM);
        Faults {
            inner,
            settings,
            dice,
            held: BinaryHeap::new(),
            entered: 0,
            sender_free: Time::ZERO,
            last_due: Time::ZERO,
            counts: FaultCounts::default(),
            delivered: 0,
            delivered_bytes: 0,
        }
    }

    /// The port within.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// How often each fault has occurred so far.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// An even number from 0 to below 1.
    fn roll(&mut self) -> f64 {
        f64::from(self.dice.next_u32()) / (f64::from(u32::MAX) + 1.0)
    }

    /// A packet enters the cable. The number of random draws per packet is constant, so that one
    /// fault's probability does not change which packets the others hit.
    fn enter(&mut self, now: Time, pool: &mut Pool, mut packet: Packet) {
        let rolls: [f64; 5] = std::array::from_fn(|_| self.roll());
        let [drop, duplicate, reorder, corrupt, jitter] = rolls;
        let bit = self.dice.next_u32() as usize;
        if drop < self.settings.drop {
            self.counts.dropped += 1;
            pool.free(packet);
            return;
        }
        if corrupt < self.settings.corrupt && !packet.is_empty() {
            self.counts.corrupted += 1;
            let bit = bit % (packet.len() * 8);
            pool.data_mut(&mut packet)[bit / 8] ^= 1 << (bit % 8);
        }
        // A packet due at once passes through; others have to be held.
        let is_full =
            self.held.len() >= self.settings.queue || pool.available() < pool.frames().div_ceil(4);
        let at_once = self.settings.rate_bits_per_s.is_none()
            && self.settings.delay + self.settings.jitter == Duration::ZERO
            && reorder >= self.settings.reorder
            && self.last_due <= now;
        if is_full && !at_once {
            self.counts.overflowed += 1;
            pool.free(packet);
            return;
        }
        let mut due = now;
        if let Some(rate) = self.settings.rate_bits_per_s {
            self.sender_free = self.sender_free.max(now) + time_on_cable(packet.len(), rate);
            due = self.sender_free;
        }
        due = due + self.settings.delay + self.settings.jitter.mul_f64(jitter);
        if reorder < self.settings.reorder {
            self.counts.reordered += 1;
            due = due.max(self.last_due) + self.settings.reorder_by;
        } else {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        let twin = (duplicate < self.settings.duplicate).then(|| pool.duplicate(&packet)).flatten();
        self.hold(due, packet);
        if let Some(twin) = twin {
            self.counts.duplicated += 1;
            self.hold(due, twin);
        }
    }

    fn hold(&mut self, due: Time, packet: Packet) {
        self.entered += 1;
        self.held.push(Reverse(Held { due, number: self.entered, packet }));
    }
}

/// How long a frame occupies a cable: 24 bytes of preamble, FCS and gap; at least 84 in all.
fn time_on_cable(len: usize, bits_per_s: u64) -> Duration {
    let bits = (len as u128 + 24).max(84) * 8;
    let ns = bits * 1_000_000_000 / u128::from(bits_per_s.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

impl<P: Port> Port for Faults<P> {
    leave_to_inner!(transmit, maintain);

    fn receive(&mut self, now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        // Packets that find the cable full are taken and lost: left in the inner port, they would
        // keep it readable and the worker awake for as long as the cable is full. A bound keeps a
        // flood from holding the worker here.
        const ROUNDS_MAX: usize = 64;
        let mut arrived = Batch::new();
        let before = into.len();
        for _ in 0..ROUNDS_MAX {
            while !into.is_full() && self.held.peek().is_some_and(|Reverse(h)| h.due <= now) {
                let Some(Reverse(held)) = self.held.pop() else { break };
                self.delivered += 1;
                self.delivered_bytes += held.packet.len() as u64;
                into.push(held.packet);
            }
            if into.is_full() || self.inner.receive(now, pool, &mut arrived) == 0 {
                break;
            }
            for packet in arrived.drain(..) {
                self.enter(now, pool, packet);
            }
        }
        into.len() - before
    }

    fn next_deadline(&self) -> Option<Time> {
        let first = self.held.peek().map(|Reverse(held)| held.due);
        [first, self.inner.next_deadline()].into_iter().flatten().min()
    }

    /// Packets dropped on purpose, or because the cable was full, count as overflow here;
    /// [`counts`](Faults::counts) distinguishes them.
    fn stats(&self) -> PortStats {
        let inner = self.inner.stats();
        let counts = self.counts;
        PortStats {
            rx_packets: self.delivered,
            rx_bytes: self.delivered_bytes,
            rx_overflow: inner.rx_overflow + counts.dropped + counts.overflowed + counts.discarded,
            ..inner
        }
    }

    fn close(&mut self, pool: &mut Pool) {
        for Reverse(held) in self.held.drain() {
            self.counts.discarded += 1;
            pool.free(held.packet);
        }
        self.inner.close(pool);
    }
}
