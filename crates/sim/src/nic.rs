//! The transmit side of a host or a controller: it sends one frame after the other at the rate of
//! the cable, and queues the others.

use std::collections::VecDeque;

use plexus_io::Packet;

use crate::cable::PortIndex;
use crate::core::Core;
use crate::time::SimTime;

/// What a Linux interface queues unless told otherwise (`txqueuelen`).
const QUEUE_MAX: usize = 1000;

/// The length of the queue from which on a TCP socket holds back (as in "TCP small queues").
const FEW: usize = 2;

/// A network interface, sending.
pub(crate) struct Nic {
    port: PortIndex,
    /// When the cable is free.
    free_at: SimTime,
    waiting: VecDeque<Packet>,
    pub(crate) dropped: u64,
    /// Frames that came in with a wrong checksum.
    pub(crate) bad_fcs: u64,
}

impl Nic {
    pub(crate) fn new(port: PortIndex) -> Nic {
        Nic { port, free_at: SimTime::ZERO, waiting: VecDeque::new(), dropped: 0, bad_fcs: 0 }
    }

    /// Sends a frame, or queues it. False: there was no room.
    pub(crate) fn send(&mut self, core: &mut Core, packet: Packet) -> bool {
        if self.waiting.is_empty() && self.free_at <= core.now {
            self.begin(core, packet);
        } else if self.waiting.len() < QUEUE_MAX {
            self.waiting.push_back(packet);
        } else {
            self.dropped += 1;
            core.pool.free(packet);
            return false;
        }
        true
    }

    /// Gives a frame that has come in back if it is sound. A damaged frame is dropped and counted.
    #[inline]
    pub(crate) fn check(&mut self, core: &mut Core, packet: Packet) -> Option<Packet> {
        if !core.take_damage(&packet) {
            return Some(packet);
        }
        self.bad_fcs += 1;
        core.pool.free(packet);
        None
    }

    /// Sends what may leave by now.
    pub(crate) fn run(&mut self, core: &mut Core) {
        while self.free_at <= core.now
            && let Some(packet) = self.waiting.pop_front()
        {
            self.begin(core, packet);
        }
    }

    fn begin(&mut self, core: &mut Core, packet: Packet) {
        self.free_at = core.now + core.ports[self.port as usize].occupation(packet.len());
        core.transmit(self.port, packet);
    }

    /// Whether a socket that holds back may send one more.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < FEW
    }

    /// When it has something to do.
    pub(crate) fn next_deadline(&self) -> SimTime {
        if self.waiting.is_empty() { SimTime::FOREVER } else { self.free_at }
    }

    /// Gives the frames that wait back to the pool.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        self.waiting.drain(..).for_each(|packet| core.pool.free(packet));
    }
}
