//! The content store: Data packets on two floors, in memory and on disks (seed augustus, "Main
//! design challenges" and "High-level design").
//!
//! A worker owns a [`ContentStore`]: a [`memory::MemoryStore`], and for each file or device a
//! [`log::SegmentLog`]. What leaves memory and was asked for more than once goes to a disk; what
//! a disk answers comes back to memory. Disks are never waited for: a look-up that needs one says
//! [`Answer::Reading`], a request comes out of [`ContentStore::poll_request`], and the driver
//! brings its result back.
//!
//! Names are compared in full wherever they are looked up. A name with an implicit digest is
//! looked up without it, by who then compares the digest.
//!
//! Times are Unix time in milliseconds, as what is on a disk outlives the process.

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

/// A Data packet that comes in.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    packet: &'a [u8],
    name_at: Range<usize>,
    hash: u64,
    prefix_hashes: &'a [u64],
}

impl<'a> Data<'a> {
    /// A packet, where the value of its Name TLV lies in it, the keyed hash of that value, and the
    /// hashes of its proper prefixes that it may be found by, the longest last: the longest
    /// [`memory::DEPTH`] at least. `None` if the name is not within the packet.
    pub fn new(
        packet: &'a [u8],
        name_at: Range<usize>,
        hash: u64,
        prefix_hashes: &'a [u64],
    ) -> Option<Data<'a>> {
        packet.get(name_at.clone())?;
        Some(Data { packet, name_at, hash, prefix_hashes })
    }

    /// The same of a packet that has been read.
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

/// What an Interest asks for (NDN packet format 0.3, "Interest Packet").
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The value of the Name TLV.
    pub name: &'a [u8],
    /// Its keyed hash, the same function as of [`Data`].
    pub hash: u64,
    /// A longer name will do.
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

    /// Where the value of its Name TLV lies.
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

    /// Copies it to the beginning of a buffer; what was written, or `None` if it does not fit.
    pub fn copy_to<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b mut [u8]> {
        let target = buffer.get_mut(..self.len())?;
        let mut at = 0;
        for piece in self.pieces() {
            target[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Some(target)
    }

    /// Its bytes in memory of their own.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces().flatten().copied().collect()
    }
}
