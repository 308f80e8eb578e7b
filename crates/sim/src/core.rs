//! What all devices share: the events to come, the frames, the cables.

use std::collections::HashMap;
use std::ops::Range;

use plexus_controller::tenure::Answer;
use plexus_io::{Packet, Pool};
use rand_pcg::Pcg64;

use crate::asker::Resolutions;
use crate::cable::{Port, PortIndex};
use crate::queue::EventQueue;
use crate::store::Etcd;
use crate::time::SimTime;

/// A device's number, among all kinds.
pub(crate) type DeviceIndex = u32;

/// A frame under way: its place in [`Core::flying`]. The queue moves events, so they are small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flying(u32);

/// Something that is to happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A port takes up a frame, if the cable is still the one that it was sent on.
    Frame(PortIndex, u32, Flying),
    /// A device has something to do.
    Wake(DeviceIndex),
    /// A flow may begin.
    Flow(u32),
    /// Something fails or is mended; the number of the topology's event.
    Fault(u32, bool),
    /// A store has served a request, or a message from or to it arrives.
    Store {
        /// The controller that it is for; absent: the cluster that controllers share.
        device: Option<DeviceIndex>,
        /// Which.
        number: u64,
    },
}

/// What all devices share.
pub(crate) struct Core {
    pub(crate) now: SimTime,
    pub(crate) queue: EventQueue<Event>,
    pub(crate) pool: Pool,
    pub(crate) ports: Vec<Port>,
    /// Frames on their way, and the places that are free.
    flying: Vec<Option<Packet>>,
    landed: Vec<u32>,
    /// Frames with a wrong checksum, by their place in the pool, and the port in whose queues they
    /// wait; none while they are on a cable.
    pub(crate) damaged: HashMap<usize, Option<PortIndex>>,
    /// For random faults of cables.
    pub(crate) random: Pcg64,
    /// When each device is woken.
    wakes: Vec<SimTime>,
    /// Of every arrival, in order.
    pub(crate) digest: Digest,
    /// The store that several controllers share.
    pub(crate) etcd: Option<Etcd>,
    /// What hosts have asked for.
    pub(crate) resolutions: Resolutions,
    /// Frames that found no buffer.
    pub(crate) out_of_frames: u64,
}

impl Core {
    pub(crate) fn new(pool: Pool, ports: Vec<Port>, devices: usize, random: Pcg64) -> Core {
        Core {
            now: SimTime::ZERO,
            queue: EventQueue::new(),
            pool,
            ports,
            flying: vec![],
            landed: vec![],
            damaged: HashMap::new(),
            random,
            wakes: vec![SimTime::FOREVER; devices],
            digest: Digest::default(),
            etcd: None,
            resolutions: Resolutions::default(),
            out_of_frames: 0,
        }
    }

    /// Sends a frame out of a port, from now on.
    #[inline]
    pub(crate) fn transmit(&mut self, port: PortIndex, packet: Packet) {
        match self.ports[port as usize].troubles.is_empty() {
            true => self.launch(port, packet, SimTime::ZERO),
            false => self.transmit_badly(port, packet),
        }
    }

    /// Puts a frame on a cable, which holds it back for this long.
    #[inline]
    pub(crate) fn launch(&mut self, port: PortIndex, packet: Packet, later: SimTime) {
        let len = packet.len();
        if let Some(at) = self.damaged.get_mut(&packet.frame()).filter(|at| at.is_some()) {
            *at = None;
        }
        match self.ports[port as usize].send(self.now, len, &mut self.random) {
            Some((peer, at)) => {
                let cable = self.ports[peer as usize].cable;
                let place = self.landed.pop().unwrap_or_else(|| {
                    self.flying.push(None);
                    (self.flying.len() - 1) as u32
                });
                self.flying[place as usize] = Some(packet);
                self.queue.push(at + later, Event::Frame(peer, cable, Flying(place)));
            }
            None => self.free(packet),
        }
    }

    /// Both ports of the cable at this one.
    pub(crate) fn ends(&self, own: PortIndex) -> Option<[PortIndex; 2]> {
        self.ports[own as usize].peer.map(|peer| [own, peer])
    }

    /// Does something with the store that several controllers share, if there is one.
    pub(crate) fn with_etcd<T>(
        &mut self,
        work: impl FnOnce(&mut Etcd, SimTime, &mut EventQueue<Event>) -> T,
    ) -> Option<T> {
        let etcd = self.etcd.as_mut()?;
        Some(work(etcd, self.now, &mut self.queue))
    }

    /// A message from or to the shared store arrives: an answer, if it is one.
    pub(crate) fn arrive_at_etcd(&mut self, number: u64) -> Option<Answer> {
        self.with_etcd(|etcd, now, queue| etcd.arrive(now, queue, number))?
    }

    /// How much of a frame that this port takes up now is still to come.
    pub(crate) fn to_come(&self, port: PortIndex, len: usize) -> SimTime {
        let from = self.ports[port as usize].peer.map(|peer| &self.ports[peer as usize]);
        from.map_or(SimTime::ZERO, |from| from.uptake.to_come(from.serialisation(len)))
    }

    /// Whether this port takes up frames whose end is still to come.
    pub(crate) fn takes_up_early(&self, port: PortIndex) -> bool {
        let from = self.ports[port as usize].peer.map(|peer| &self.ports[peer as usize]);
        from.is_some_and(|from| from.uptake.is_early())
    }

    /// Frames that waited at these ports are gone: forgets their marks.
    pub(crate) fn forget_marks(&mut self, ports: Range<PortIndex>) {
        self.damaged.retain(|_, at| at.is_none_or(|port| !ports.contains(&port)));
    }

    /// The frame that was on its way; `None` if it has landed already.
    #[inline]
    pub(crate) fn land(&mut self, frame: Flying) -> Option<Packet> {
        self.landed.push(frame.0);
        self.flying[frame.0 as usize].take()
    }

    /// A frame with these bytes, if there is room for one. The caller never makes one too long.
    pub(crate) fn frame(&mut self, bytes: &[u8]) -> Option<Packet> {
        let packet = self.pool.alloc_from(bytes);
        let fits = bytes.len() <= self.pool.max_len();
        self.out_of_frames += u64::from(packet.is_none() && fits);
        packet
    }

    /// Wakes a device at this time, or earlier if that was wanted before.
    #[inline]
    pub(crate) fn wake(&mut self, device: DeviceIndex, at: SimTime) {
        // Deadlines are whole nanoseconds: one of now may have passed by a fraction.
        let at = at.max(self.now);
        let wake = &mut self.wakes[device as usize];
        if at < *wake {
            *wake = at;
            self.queue.push(at, Event::Wake(device));
        }
    }

    /// Whether the device waits for the wake-up that comes now; if so, it waits no longer.
    #[inline]
    pub(crate) fn is_due(&mut self, device: DeviceIndex) -> bool {
        let wake = &mut self.wakes[device as usize];
        let is_due = *wake == self.now;
        if is_due {
            *wake = SimTime::FOREVER;
        }
        is_due
    }
}

/// A hash of every frame's arrival, in order: when, where, how long it is and its first 64 bytes.
/// Runs with different digests were different; equal ones were alike as far as chance allows (64
/// bits). Not for adversaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        // The mixer of wyhash: a full product folded.
        let product = u128::from(self.0.rotate_left(25) ^ 0x9E37_79B9_7F4A_7C15)
            * u128::from(value ^ 0xA076_1D64_78BD_642F);
        self.0 ^= value ^ product as u64 ^ (product >> 64) as u64;
    }

    /// Adds a frame by its length and its first bytes: addresses and headers.
    #[inline]
    pub(crate) fn add_frame(&mut self, bytes: &[u8]) {
        // Products of their own, which do not wait for each other.
        const KEYS: [u64; 4] = [
            0x2D35_8DCC_AA6C_78A5,
            0x8BB8_4B93_962E_ACC9,
            0x4B33_A62E_D433_D4A3,
            0x4D5A_2DA5_1DE1_AA47,
        ];
        let word = |b: &[u8]| {
            let mut word = [0; 8];
            word[..b.len()].copy_from_slice(b);
            u64::from_le_bytes(word)
        };
        let mut sum = bytes.len() as u64;
        let (pairs, rest) = bytes[..bytes.len().min(64)].as_chunks::<16>();
        for (pair, key) in pairs.iter().zip(KEYS) {
            let product = u128::from(word(&pair[..8]) ^ key)
                * u128::from(word(&pair[8..]) ^ key.rotate_left(32));
            sum ^= product as u64 ^ (product >> 64) as u64;
        }
        self.add(sum);
        for rest in rest.chunks(8) {
            self.add(word(rest));
        }
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_deadline_of_this_nanosecond_does_not_silence_a_device() {
        let pool = Pool::new(1, 2048).unwrap();
        let mut core = Core::new(pool, vec![], 1, Pcg64::seed_from_u64(1));
        // An event between two nanoseconds, whose device wants to be woken "now".
        core.now = SimTime::from_picos(1_700);
        core.queue.push(core.now, Event::Flow(0));
        core.queue.pop();
        core.wake(0, SimTime::from(core.now.floor()));
        for at in [1_700, 5_000] {
            let (time, event) = core.queue.pop().unwrap();
            core.now = time;
            assert!(matches!(event, Event::Wake(0)));
            assert_eq!(time, SimTime::from_picos(at));
            assert!(core.is_due(0), "at {time}");
            core.wake(0, SimTime::from_picos(5_000));
        }
    }
}
