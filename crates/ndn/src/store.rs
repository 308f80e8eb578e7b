//! The content store: Data packets in two tiers, memory and disks (seed augustus, "Main design
//! challenges" and "High-level design").
//!
//! Each worker owns a [`ContentStore`]: a [`memory::MemoryStore`], and a [`log::SegmentLog`] for
//! each file or device. A packet that is evicted from memory and was requested more than once is
//! written to a disk; a packet read from a disk returns to memory. Nothing blocks on disks: a
//! lookup that needs one returns [`Answer::Reading`], a request comes out of
//! [`ContentStore::poll_request`], and the driver brings its result back.
//!
//! Every lookup compares names in full. A name with an implicit digest is looked up without it; the
//! caller then compares the digest. Times are Unix time in milliseconds, because data on disk
//! outlives the process.

mod content;
pub mod log;
pub mod memory;
pub mod policy;

use std::ops::Range;

use plexus_wire::ndn;

pub use content::{Answer, ContentStats, ContentStore, Erased, Erasing};

/// Memory for a segment, as the disk's driver needs it: aligned, pinned, or plain.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> {}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Buffer for B {}

/// A Data packet to insert.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    packet: &'a [u8],
    name_at: Range<usize>,
    hash: u64,
    prefix_hashes: &'a [u64],
}

impl<'a> Data<'a> {
    /// A packet, the position of its Name TLV's value, the keyed hash of that value, and the hashes
    /// of the proper prefixes under which it can be found, the longest last: at least the longest
    /// [`memory::DEPTH`]. `None` if the name is not within the packet.
    pub fn new(
        packet: &'a [u8],
        name_at: Range<usize>,
        hash: u64,
        prefix_hashes: &'a [u64],
    ) -> Option<Data<'a>> {
        packet.get(name_at.clone())?;
        Some(Data { packet, name_at, hash, prefix_hashes })
    }

    /// The same for a parsed packet.
    #[inline]
    pub fn of(packet: &ndn::Data<'a>, hash: u64, prefix_hashes: &'a [u64]) -> Option<Data<'a>> {
        // The name is a slice of the packet.
        let (packet, name) = (packet.as_bytes(), packet.name().value());
        let start = name.as_ptr().addr().wrapping_sub(packet.as_ptr().addr());
        Data::new(packet, start..start.checked_add(name.len())?, hash, prefix_hashes)
    }

    /// The value of the Name TLV: its components.
    pub fn name(&self) -> &'a [u8] {
        &self.packet[self.name_at.clone()]
    }
}

/// An Interest's query (NDN packet format 0.3, "Interest Packet").
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The value of the Name TLV.
    pub name: &'a [u8],
    /// Its keyed hash, by the same function as for [`Data`].
    pub hash: u64,
    /// A longer name matches too.
    pub can_be_prefix: bool,
    /// Only within its FreshnessPeriod.
    pub must_be_fresh: bool,
}

/// A stored packet, in one piece or several.
#[derive(Clone)]
pub struct Packet<'a> {
    bytes: Bytes<'a>,
    name_at: Range<usize>,
}

#[derive(Clone)]
enum Bytes<'a> {
    Chain(memory::Chain<'a>),
    Whole(&'a [u8]),
}

impl<'a> Packet<'a> {
    fn new(bytes: Bytes<'a>, name_at: Range<usize>) -> Packet<'a> {
        Packet { bytes, name_at }
    }

    /// Bytes of the packet.
    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub fn len(&self) -> usize {
        match &self.bytes {
            Bytes::Chain(chain) => chain.len(),
            Bytes::Whole(bytes) => bytes.len(),
        }
    }

    /// Position of its Name TLV's value.
    pub fn name_at(&self) -> Range<usize> {
        self.name_at.clone()
    }

    /// Its bytes, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (chain, whole) = match &self.bytes {
            Bytes::Chain(chain) => (Some(chain.clone()), None),
            Bytes::Whole(bytes) => (None, Some(*bytes)),
        };
        chain.into_iter().flatten().chain(whole)
    }

    /// Copies it to the start of a buffer; returns the written part, or `None` if it does not fit.
    pub fn copy_to<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b mut [u8]> {
        let target = buffer.get_mut(..self.len())?;
        let mut at = 0;
        for piece in self.pieces() {
            target[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Some(target)
    }

    /// Its bytes in a new vector.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces().flatten().copied().collect()
    }
}
