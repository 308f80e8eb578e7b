//! Requests and answers of a log.

use std::sync::Arc;

use super::super::Packet;
use super::Part;
#[expect(unused_imports, reason = "for the documentation")]
use super::{ERRORS_MAX, SegmentLog};

/// A request to the disk. Offsets and lengths are multiples of the device's block, and of 4,096 for
/// writes.
pub enum Request<B> {
    /// Read bytes; pass them to [`SegmentLog::on_read`] with the token.
    Read {
        /// Which read.
        token: u32,
        /// From the start of the file.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// Write the first bytes of a buffer; after dropping this reference to it, pass the outcome to
    /// [`SegmentLog::on_written`] with the token.
    Write {
        /// Which write.
        token: u32,
        /// From the start of the file.
        offset: u64,
        /// Bytes.
        len: usize,
        /// What to write.
        buffer: Arc<B>,
    },
}

/// A packet found on a disk.
#[derive(Clone)]
pub struct Found<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// Unix time from which it is stale, milliseconds.
    pub stale_at_ms: u64,
    /// It was read ahead, and no query has asked for it yet.
    pub is_ahead: bool,
}

/// Result of a lookup.
pub enum Lookup<'a> {
    /// Found in a buffer being written to the disk.
    Found(Found<'a>),
    /// A read was started; the answer comes with [`SegmentLog::on_read`].
    Reading,
    /// Not there, or too many requests are in flight.
    Miss,
}

/// Why an existing log was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displaced {
    /// It was of another size.
    Size,
    /// It was for other names: the number or order of workers or disks was different.
    Part(Part),
}

/// The state of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is being opened.
    Opening,
    /// Fully usable.
    Good,
    /// Unused until it answers again: a read took longer than a second.
    Stalled,
    /// Read only: writes failed [`ERRORS_MAX`] times in a row.
    ReadOnly,
    /// Unused: reads failed [`ERRORS_MAX`] times in a row, or the very first read or write.
    Discarded,
    /// Unused: the disk contains something other than a log, which is not overwritten. To use the
    /// disk, clear its first 4 KiB.
    Foreign,
}

/// Counters of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Objects that can be found, approximately: those displaced in the index are not counted.
    pub objects: u64,
    /// Objects found at opening.
    pub recovered: u64,
    /// Queries answered from a buffer being written.
    pub buffer_hits: u64,
    /// Queries answered from the disk.
    pub hits: u64,
    /// Queries for missing packets.
    pub misses: u64,
    /// Queries that missed because too many reads or queries were in flight.
    pub busy: u64,
    /// Reads requested.
    pub reads: u64,
    /// Of these, reads ahead of any query.
    pub ahead: u64,
    /// Reads ahead that a query joined before they ended.
    pub ahead_joined: u64,
    /// Queries that joined a read in flight.
    pub coalesced: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Reads that took longer than a second: their waiters missed.
    pub late: u64,
    /// Reads that returned other bytes than were written, or another name's packet.
    pub mismatches: u64,
    /// Objects inserted.
    pub inserted: u64,
    /// Objects evicted from memory that the disk still has.
    pub kept: u64,
    /// Objects refused: too large, no buffer free, or the disk is no longer written.
    pub refused: u64,
    /// Segments that were written.
    pub writes: u64,
    /// Writes that failed.
    pub write_errors: u64,
}
