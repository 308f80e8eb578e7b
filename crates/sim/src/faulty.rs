//! A port's own faults (`faults = { … }`): the daemon's wrapper around a port, here around an inbox
//! that cables fill.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use plexus_io::wrap::Faults;
use plexus_io::{Batch, Capabilities, Link, Packet, Pool, Port, PortStats};
use plexus_wire::Time;

/// The ports of a box that have faults, by their numbers.
pub(crate) type FaultyPorts = Vec<(u16, Faults<Inbox>)>;

/// Frames that have come in, in order.
#[derive(Default)]
pub(crate) struct Inbox(VecDeque<Packet>);

/// The faulty ports among these.
pub(crate) fn ports(node: &plexus_topo::Node) -> FaultyPorts {
    let ports = (0..).zip(&node.ports).filter_map(|(port, p)| {
        let settings = p.faults.as_ref()?.into();
        Some((port, Faults::new(Inbox::default(), settings)))
    });
    ports.collect()
}

/// A frame enters a faulty port, where it waits for [`Port::receive`]. A frame for any other port
/// comes back.
pub(crate) fn enter(ports: &mut FaultyPorts, port: u16, packet: Packet) -> Option<Packet> {
    match ports.iter_mut().find(|(number, _)| *number == port) {
        Some((_, faults)) => {
            faults.inner_mut().0.push_back(packet);
            None
        }
        None => Some(packet),
    }
}

/// When something that a faulty port holds back is due.
pub(crate) fn next_deadline(ports: &FaultyPorts) -> Time {
    ports.iter().filter_map(|(_, p)| p.next_deadline()).min().unwrap_or(Time::FOREVER)
}

impl Port for Inbox {
    fn name(&self) -> &str {
        "inbox"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { checksum: false, segmentation: false, max_frame: 0 }
    }

    fn receive(&mut self, _: Time, _: &mut Pool, into: &mut Batch) -> usize {
        let count = self.0.len().min(into.remaining_capacity());
        into.extend(self.0.drain(..count));
        count
    }

    /// Nothing leaves by it: the simulator sends on cables itself.
    fn transmit(&mut self, _: Time, _: &mut Pool, _: &mut Batch) -> usize {
        0
    }

    fn maintain(&mut self, _: Time, _: &mut Pool) -> Link {
        Link::Up
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> PortStats {
        PortStats::default()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.0.drain(..).for_each(|packet| pool.free(packet));
    }
}
