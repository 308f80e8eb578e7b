//! What all devices share: the events to come, the frames, the cables.

use plexus_io::{Packet, Pool};
use rand_pcg::Pcg64;

use crate::cable::{Port, PortIndex};
use crate::queue::EventQueue;
use crate::time::SimTime;

/// A device's number, among all kinds.
pub(crate) type DeviceIndex = u32;

/// Something that is to happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A frame has come to a port, whole, if the cable is still the one that it was sent on.
    Frame(PortIndex, u16, Packet),
    /// A device has something to do.
    Wake(DeviceIndex),
    /// A flow may begin.
    Flow(u32),
    /// A cable fails or is mended; the number of the topology's event.
    Fault(u32, bool),
    /// What a controller had to store is on its disk.
    Stored {
        /// The controller.
        device: DeviceIndex,
        /// Which store.
        ticket: u64,
    },
}

/// What all devices share.
pub(crate) struct Core {
    pub(crate) now: SimTime,
    pub(crate) queue: EventQueue<Event>,
    pub(crate) pool: Pool,
    pub(crate) ports: Vec<Port>,
    /// For what cables do at random.
    pub(crate) random: Pcg64,
    /// When each device is woken.
    wakes: Vec<SimTime>,
    /// Of every arrival, in order.
    pub(crate) digest: Digest,
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
            random,
            wakes: vec![SimTime::FOREVER; devices],
            digest: Digest::default(),
            out_of_frames: 0,
        }
    }

    /// Sends a frame out of a port, from now on.
    #[inline]
    pub(crate) fn transmit(&mut self, port: PortIndex, packet: Packet) {
        let len = packet.len();
        match self.ports[port as usize].send(self.now, len, &mut self.random) {
            Some((peer, at)) => {
                let cable = self.ports[peer as usize].cable;
                self.queue.push(at, Event::Frame(peer, cable, packet));
            }
            None => self.pool.free(packet),
        }
    }

    /// A frame with these bytes, if there is room for one.
    pub(crate) fn frame(&mut self, bytes: &[u8]) -> Option<Packet> {
        let packet = self.pool.alloc_from(bytes);
        self.out_of_frames += u64::from(packet.is_none());
        packet
    }

    /// Wakes a device at this time, or earlier if that was wanted before.
    #[inline]
    pub(crate) fn wake(&mut self, device: DeviceIndex, at: SimTime) {
        // Deadlines are whole nanoseconds: one that is now may have passed by a fraction.
        let at = at.max(self.now);
        let wake = &mut self.wakes[device as usize];
        if at < *wake {
            *wake = at;
            self.queue.push(at, Event::Wake(device));
        }
    }

    /// Whether a wake-up that comes now is the one that the device waits for; it has come then.
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
        self.add(bytes.len() as u64);
        let (words, rest) = bytes[..bytes.len().min(64)].as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.add(u64::from_le_bytes(word));
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
