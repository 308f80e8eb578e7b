//! Ethernet faces (EtherType 0x8624), over any port back-end: a multi-access face for the group,
//! and a face for each station that sends to this node.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use plexus_io::{Batch, Pool, Port};
use plexus_ndn::face::FaceId;
use plexus_wire::{MacAddr, Time};

/// EtherType of named data (IEEE).
pub const ETHERTYPE: u16 = 0x8624;
/// The group that forwarders listen to (NFD: `face_system.ether.mcast_group`).
pub const GROUP: MacAddr = MacAddr([0x01, 0x00, 0x5E, 0x00, 0x17, 0xAA]);
/// Destination, source, EtherType.
const HEADER_LEN: usize = 14;

/// A port to an Ethernet.
pub struct Ends {
    /// The port, of which the name is the device's.
    pub port: Box<dyn Port>,
    /// Its pool, used by nothing else.
    pub pool: Pool,
    /// Queries the source address; called whenever the port is maintained. `None`: unchanged. The
    /// first call has to return one.
    pub own: Box<dyn FnMut() -> Option<MacAddr> + Send>,
    /// Longest link packet in bytes; `None`: the device's MTU.
    pub mtu: Option<usize>,
}

/// A port and the faces behind it.
pub(crate) struct Ether {
    port: Box<dyn Port>,
    pool: Pool,
    own: MacAddr,
    own_now: Box<dyn FnMut() -> Option<MacAddr> + Send>,
    /// Longest configured link packet.
    mtu: Option<usize>,
    /// Longest link packet at present.
    pub(crate) mtu_now: usize,
    /// Frames that the port has not accepted yet.
    out: Batch,
    frame: Vec<u8>,
    pub(crate) group: FaceId,
    pub(crate) stations: HashMap<MacAddr, FaceId>,
    /// A new station found no room since the last sweep.
    pub(crate) is_full: bool,
    /// The watched descriptor; a device that comes back has a new one.
    pub(crate) watched: Option<RawFd>,
}

impl Ether {
    /// `None` if the port has no address.
    pub(crate) fn new(ends: Ends, group: FaceId) -> Option<Ether> {
        let Ends { port, pool, own: mut own_now, mtu } = ends;
        Some(Ether {
            port,
            pool,
            own: own_now()?,
            own_now,
            mtu,
            mtu_now: 0,
            out: Batch::new(),
            frame: Vec::new(),
            group,
            stations: HashMap::new(),
            is_full: false,
            watched: None,
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.port.name()
    }

    /// Longest link packet: the device's MTU, or less if configured.
    pub(crate) fn mtu(&self) -> usize {
        let frame = self.port.capabilities().max_frame.min(self.pool.max_len());
        let most = frame.saturating_sub(HEADER_LEN);
        self.mtu.map_or(most, |mtu| mtu.min(most))
    }

    /// Enqueues a frame; false if the queue is full.
    pub(crate) fn push(&mut self, now: Time, to: MacAddr, head: &[u8], piece: &[u8]) -> bool {
        if self.out.is_full() {
            self.flush(now);
        }
        self.frame.clear();
        self.frame.extend_from_slice(&to.0);
        self.frame.extend_from_slice(&self.own.0);
        self.frame.extend_from_slice(&ETHERTYPE.to_be_bytes());
        self.frame.extend_from_slice(head);
        self.frame.extend_from_slice(piece);
        if self.out.is_full() {
            return false;
        }
        let Some(packet) = self.pool.alloc_from(&self.frame) else { return false };
        self.out.push(packet);
        true
    }

    /// Passes the queued frames to the port; true if it accepted all.
    pub(crate) fn flush(&mut self, now: Time) -> bool {
        if !self.out.is_empty() {
            self.port.transmit(now, &mut self.pool, &mut self.out);
        }
        self.out.is_empty()
    }

    /// Received NDN frames: the sender of each, whether it was sent to the group, and its link
    /// packet with any padding.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        mut take: impl FnMut(MacAddr, bool, &[u8]),
    ) -> usize {
        let mut batch = Batch::new();
        let n = self.port.receive(now, &mut self.pool, &mut batch);
        for packet in batch.drain(..) {
            if let Some((to, from, bytes)) = read(self.pool.data(&packet))
                && from.0[0] & 1 == 0
                && (to == GROUP || to == self.own)
            {
                take(from, to == GROUP, bytes);
            }
            self.pool.free(packet);
        }
        n
    }

    /// Maintains the device; returns the descriptor to watch, if it has changed.
    pub(crate) fn maintain(&mut self, now: Time) -> Option<BorrowedFd<'_>> {
        self.port.maintain(now, &mut self.pool);
        if let Some(own) = (self.own_now)().filter(|own| *own != self.own) {
            tracing::info!(device = self.port.name(), %own, "has another address");
            self.own = own;
        }
        let fd = self.port.fd();
        let raw = fd.as_ref().map(|fd| fd.as_raw_fd());
        let is_other = raw != self.watched;
        self.watched = raw;
        fd.filter(|_| is_other)
    }

    /// True if no descriptor reports received frames.
    pub(crate) fn is_polled(&self) -> bool {
        self.port.fd().is_none()
    }
}

impl Drop for Ether {
    fn drop(&mut self) {
        self.out.drain(..).for_each(|packet| self.pool.free(packet));
        self.port.close(&mut self.pool);
    }
}

/// Destination, source, and payload of an NDN frame; `None` for other frames.
pub fn read(frame: &[u8]) -> Option<(MacAddr, MacAddr, &[u8])> {
    let (header, rest) = frame.split_first_chunk::<HEADER_LEN>()?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
    let is_ours = u16::from_be_bytes([t0, t1]) == ETHERTYPE;
    is_ours.then_some((MacAddr([d0, d1, d2, d3, d4, d5]), MacAddr([s0, s1, s2, s3, s4, s5]), rest))
}
