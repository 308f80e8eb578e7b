//! Faults of a cable besides loss: damage, duplication and reordering. Each fault is drawn once for
//! each frame, when it is sent.
//!
//! A damaged frame has one wrong bit. It is marked, by its place in the pool, and a device that
//! receives it whole sees a wrong checksum. A fault that is `hidden` from the checksum sets no
//! mark.

use plexus_io::Packet;
use plexus_topo::{Trouble, TroubleKind};
use rand::RngExt;

use crate::cable::PortIndex;
use crate::core::Core;
use crate::time::SimTime;

/// The faults that occurred on a cable, in the direction away from a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Struck {
    /// Frames lost.
    pub(crate) lost: u64,
    /// Frames with a wrong bit.
    pub(crate) damaged: u64,
    /// Frames that came twice.
    pub(crate) repeated: u64,
    /// Frames held back for others to overtake.
    pub(crate) held_back: u64,
}

impl Struck {
    /// Both together.
    pub(crate) fn and(self, other: Struck) -> Struck {
        Struck {
            lost: self.lost + other.lost,
            damaged: self.damaged + other.damaged,
            repeated: self.repeated + other.repeated,
            held_back: self.held_back + other.held_back,
        }
    }
}

impl Core {
    /// Sends a frame out of a port whose cable is in trouble.
    #[cold]
    pub(crate) fn transmit_badly(&mut self, port: PortIndex, mut packet: Packet) {
        let troubles = std::mem::take(&mut self.ports[port as usize].troubles);
        let (mut is_lost, mut repeats, mut later) = (false, 0, SimTime::ZERO);
        for (_, trouble) in &troubles {
            if !self.random.random_bool(trouble.chance) {
                continue;
            }
            let struck = &mut self.ports[port as usize].struck;
            match trouble.kind {
                TroubleKind::Loss => is_lost = true,
                TroubleKind::Corrupt { hidden } => {
                    struck.damaged += 1;
                    let bit = self.random.random_range(0..packet.len().max(1) * 8);
                    if let Some(byte) = self.pool.data_mut(&mut packet).get_mut(bit / 8) {
                        *byte ^= 1 << (bit % 8);
                    }
                    if !hidden {
                        self.damage(packet.frame(), None);
                    }
                }
                TroubleKind::Duplicate => {
                    struck.repeated += 1;
                    repeats += 1;
                }
                TroubleKind::Reorder { by } => {
                    struck.held_back += 1;
                    later += by.into();
                }
            }
        }
        self.ports[port as usize].troubles = troubles;
        if is_lost {
            self.ports[port as usize].count_lost(packet.len());
            return self.free(packet);
        }
        let is_damaged = self.is_damaged(&packet);
        for _ in 0..repeats {
            match self.pool.duplicate(&packet) {
                Some(twin) => {
                    if is_damaged {
                        self.damage(twin.frame(), None);
                    }
                    self.launch(port, twin, later);
                }
                None => self.out_of_frames += 1,
            }
        }
        self.launch(port, packet, later);
    }

    /// Marks a frame as damaged that waits at this port, or is on a cable.
    pub(crate) fn damage(&mut self, frame: usize, at: Option<PortIndex>) {
        self.damaged.insert(frame, at);
    }

    /// Whether a frame is marked.
    pub(crate) fn is_damaged(&self, packet: &Packet) -> bool {
        !self.damaged.is_empty() && self.damaged.contains_key(&packet.frame())
    }

    /// Whether a frame that has come in is damaged; the mark is taken off.
    #[inline]
    pub(crate) fn take_damage(&mut self, packet: &Packet) -> bool {
        !self.damaged.is_empty() && self.damaged.remove(&packet.frame()).is_some()
    }

    /// Gives a frame back, and its mark.
    #[inline]
    pub(crate) fn free(&mut self, packet: Packet) {
        self.take_damage(&packet);
        self.pool.free(packet);
    }
}

impl crate::cable::Port {
    /// A trouble begins, under this number.
    pub(crate) fn worsen(&mut self, number: u32, trouble: Trouble) {
        self.troubles.push((number, trouble));
    }

    /// The trouble of this number has passed.
    pub(crate) fn mend(&mut self, number: u32) {
        self.troubles.retain(|(n, _)| *n != number);
    }
}
