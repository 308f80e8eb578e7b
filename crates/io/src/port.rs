//! The seam between `io` and `plane`.

use std::os::fd::BorrowedFd;

use plexus_wire::Time;

use crate::fast::KernelEnd;
use crate::packet::{Batch, Checksum, Packet, Segmentation};
use crate::pool::Pool;

/// A port: packets enter and leave the machine through it. One worker owns it, with the pool whose
/// frames it fills.
///
/// The contract, which the conformance suite checks for every back-end:
/// - Frames go from the pool to the port's queues and come back as packets, or return to the pool
///   when they have been sent; after [`close`](Port::close) the port holds none.
/// - No call blocks. A port with nothing to do returns 0.
/// - Order is kept, in each direction.
/// - A port whose device is missing has its link down: it receives nothing, accepts nothing, and
///   comes back from [`maintain`](Port::maintain) when the device does. A tunnel's device is its
///   local address and a route to the peer.
pub trait Port: Send {
    /// Its display name, as in the configuration.
    fn name(&self) -> &str;

    /// What this port can leave to the device. Only [`maintain`](Port::maintain) changes it, when
    /// the device's MTU has changed.
    fn capabilities(&self) -> Capabilities;

    /// Appends received packets to `into` until it is full, the port is empty, or the pool is.
    /// Returns how many. The packets' `offload` is set; `in_port` is the caller's to set.
    fn receive(&mut self, now: Time, pool: &mut Pool, into: &mut Batch) -> usize;

    /// Takes packets from the front of `from`, in order, as many as fit, and returns how many. The
    /// rest stays in `from`. A packet that the device can never send (too long, or with offload
    /// work that it cannot do) is taken too, freed, and counted in [`PortStats::tx_rejected`].
    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize;

    /// Called about ten times a second: observes carrier and MTU, reopens a device that returned.
    /// If a device was replaced since the last call, the link is down for one call (a tunnel loses
    /// nothing if its address returns before the call).
    fn maintain(&mut self, now: Time, pool: &mut Pool) -> Link;

    /// A descriptor that becomes readable when packets arrive; `None` if the port's owner has to
    /// poll it, or there is no device at the moment (its link is down: `maintain` will report it).
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// When the port wants to be called again though nothing arrived (a packet it is delaying).
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// The kernel's end of the port, for a fast table; `None` if it can have none, or has no device
    /// at the moment.
    fn kernel_end(&self) -> Option<KernelEnd<'_>> {
        None
    }

    /// Shows the samples of packets that have come in by this port and that the
    /// [fast table](crate::fast::FastTable::sample) has forwarded: the first bytes of each, and the
    /// bytes that the packet had. They come in with `receive`, and count as received nowhere.
    fn take_samples(&mut self, _see: &mut dyn FnMut(&[u8], usize)) {}

    /// Sets a mark behind the packets that the kernel has for this port by now, and returns its
    /// number. It is [passed](Port::passed_mark) when `receive` has returned them all; those that
    /// were lost do not count. Ports that show packets at once need none.
    fn mark(&mut self) -> u64 {
        0
    }

    /// The number of the last mark that was passed.
    fn passed_mark(&self) -> u64 {
        0
    }

    /// Whether the device has all packets that `transmit` took, so that none which it gets from
    /// elsewhere overtakes them.
    fn has_sent(&self) -> bool {
        true
    }

    /// Counts since the port was opened.
    fn stats(&self) -> PortStats;

    /// Stops, and returns every frame to the pool. The link is down afterwards.
    fn close(&mut self, pool: &mut Pool);
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn receive(&mut self, now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        (**self).receive(now, pool, into)
    }

    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        (**self).transmit(now, pool, from)
    }

    fn maintain(&mut self, now: Time, pool: &mut Pool) -> Link {
        (**self).maintain(now, pool)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).fd()
    }

    fn next_deadline(&self) -> Option<Time> {
        (**self).next_deadline()
    }

    fn kernel_end(&self) -> Option<KernelEnd<'_>> {
        (**self).kernel_end()
    }

    fn take_samples(&mut self, see: &mut dyn FnMut(&[u8], usize)) {
        (**self).take_samples(see);
    }

    fn mark(&mut self) -> u64 {
        (**self).mark()
    }

    fn passed_mark(&self) -> u64 {
        (**self).passed_mark()
    }

    fn has_sent(&self) -> bool {
        (**self).has_sent()
    }

    fn stats(&self) -> PortStats {
        (**self).stats()
    }

    fn close(&mut self, pool: &mut Pool) {
        (**self).close(pool);
    }
}

/// State of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Packets can pass.
    Up,
    /// No device, no carrier, or closed.
    Down,
}

impl Link {
    /// Changes the state, and counts when the link goes down.
    pub(crate) fn set(&mut self, to: Link, stats: &mut PortStats) {
        stats.link_downs += u64::from((*self, to) == (Link::Up, Link::Down));
        *self = to;
    }
}

/// Work that a port can leave to its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Completes partial checksums on transmit.
    pub checksum: bool,
    /// Cuts super-packets on transmit.
    pub segmentation: bool,
    /// Longest frame it sends, in bytes from destination address to before the FCS, super-packets
    /// aside. An 802.1Q tag may come on top.
    pub max_frame: usize,
}

impl Capabilities {
    /// Whether a port with these capabilities can send this packet: not too long, and owing
    /// nothing that the device cannot do.
    #[inline]
    pub fn admit(&self, pool: &Pool, packet: &Packet) -> bool {
        const TAG: usize = 4;
        if packet.offload.segmentation != Segmentation::None {
            return self.segmentation && self.checksum;
        }
        let len = packet.len();
        let fits =
            len <= self.max_frame || (len <= self.max_frame + TAG && is_tagged(pool.data(packet)));
        fits && (self.checksum || packet.offload.checksum != Checksum::Partial)
    }
}

/// Whether a frame's EtherType is that of a tag (802.1Q or 802.1ad).
fn is_tagged(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xA8]))
}

/// Counts since the port was opened. Every packet that entered by the port is in `rx_packets` or
/// in one of the `rx_` losses; every packet that `transmit` took is in `tx_packets` or
/// `tx_rejected`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets handed to the caller.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets that the kernel or the port dropped before they reached the caller: queue full.
    pub rx_overflow: u64,
    /// Packets that arrived whole but could not be used (longer than a frame, malformed file
    /// record).
    pub rx_invalid: u64,
    /// Datagrams from an address that is not the peer's: a tunnel's only.
    pub rx_foreign: u64,
    /// Packets given to the device.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets taken that the device can never send.
    pub tx_rejected: u64,
    /// How often the network answered (ICMP) that it could not deliver a packet that was sent: a
    /// tunnel's only.
    pub tx_refused: u64,
    /// How often the device disappeared or lost its carrier.
    pub link_downs: u64,
}
