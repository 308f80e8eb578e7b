//! A node that cuts through: what it does with a frame whose end is still to come.
//!
//! The data plane processes the frame once its header is there. The output cable is not faster than
//! the input cable, so bits never leave before they have come ([`forward`](crate::forward)). The
//! control plane waits for the whole frame. A damaged frame is passed on, because its checksum
//! comes last, and is dropped by the device that receives it whole. A damaged frame with several
//! ways out, or none, is dropped by this node: its copies would carry no mark.

use std::collections::VecDeque;

use plexus_io::Packet;
use plexus_plane::ToControl;
use plexus_wire::ethernet::{self, Frame};
use plexus_wire::fabric::message::PortRole;
use plexus_wire::fabric::{Fields, Hop, Kind, encapsulation};

use crate::cable::PortIndex;
use crate::core::Core;
use crate::node::SimNode;
use crate::time::SimTime;

/// Frames that the control plane gets once they are whole, in order of time.
#[derive(Default)]
pub(crate) struct Early {
    coming: VecDeque<(SimTime, ToControl)>,
}

impl Early {
    /// Keeps what comes up to the control plane until it is whole.
    fn keep(&mut self, whole_at: SimTime, waiting: ToControl) {
        let place = self.coming.partition_point(|(at, _)| *at <= whole_at);
        self.coming.insert(place, (whole_at, waiting));
    }

    /// When the next one is whole.
    pub(crate) fn next_deadline(&self) -> SimTime {
        self.coming.front().map_or(SimTime::FOREVER, |(at, _)| *at)
    }

    /// The next one that is whole by now.
    pub(crate) fn next(&mut self, now: SimTime) -> Option<ToControl> {
        self.coming.pop_front_if(|(at, _)| *at <= now).map(|(_, waiting)| waiting)
    }

    /// Gives the frames back.
    pub(crate) fn clear(&mut self, core: &mut Core) {
        self.coming.drain(..).for_each(|(_, waiting)| core.free(waiting.packet));
    }
}

impl SimNode {
    /// The header of a frame has come in.
    pub(crate) fn receive_early(&mut self, core: &mut Core, port: u16, packet: Packet) {
        let whole_at = core.now + core.to_come(self.first + PortIndex::from(port), packet.len());
        let is_damaged = core.take_damage(&packet);
        if is_damaged && !self.has_one_way(core, port, &packet) {
            return self.drop_damaged(core, packet);
        }
        let frame = packet.frame();
        let before = if is_damaged { self.waiting() } else { vec![] };
        self.take_in(port, packet);
        self.run(core);
        if is_damaged {
            let mut ports = (self.first..).zip(self.waiting()).zip(before);
            if let Some(((port, _), _)) = ports.find(|((_, after), before)| after > before) {
                core.damage(frame, Some(port));
            }
        }
        let Some(early) = &mut self.early else { return };
        while let Some(waiting) = self.pipeline.to_control().pop_front() {
            match is_damaged {
                true => core.free(waiting.packet),
                false => early.keep(whole_at, waiting),
            }
        }
        self.run_until_idle(core);
    }

    /// How many frames wait at each port.
    fn waiting(&self) -> Vec<usize> {
        let ports = self.pipeline.plan().ports.len() as u16;
        (0..ports).map(|port| self.pipeline.queued(port).0).collect()
    }

    /// Whether a frame leaves by one port, as far as its header says.
    fn has_one_way(&self, core: &Core, port: u16, packet: &Packet) -> bool {
        let bytes = core.pool.data(packet);
        let Ok(frame) = Frame::new_checked(bytes) else { return false };
        let Some(own) = &self.fabric else {
            let mut stations = self.pipeline.switch().stations(core.now.floor());
            return stations.any(|(key, ..)| key.mac() == frame.dst());
        };
        if own.fabric.control().role(port as u8) != PortRole::Fabric {
            return !frame.dst().is_multicast();
        }
        let is_encapsulated = frame.ethertype() == encapsulation::ETHERTYPE;
        let header = if is_encapsulated { &bytes[ethernet::HEADER_LEN..] } else { bytes };
        Fields::read(header).is_ok_and(|fields| {
            fields.kind() == Kind::Ethernet && matches!(fields.next_hop(), Some(Hop::Port(_)))
        })
    }
}
