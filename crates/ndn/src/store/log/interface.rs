//! What a log asks for and answers.

use std::sync::Arc;

use super::super::Packet;
use super::Part;
#[expect(unused_imports, reason = "for the documentation")]
use super::{ERRORS_MAX, SegmentLog};

/// What a disk is asked to do. Offsets and lengths are multiples of the device's block, and of
/// 4,096 for writes.
pub enum Request<B> {
    /// Bytes are wanted; they go to [`SegmentLog::on_read`] with the token.
    Read {
        /// Which read.
        token: u32,
        /// From the file's beginning.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// The first bytes of a buffer are to be written; the outcome goes to
    /// [`SegmentLog::on_written`] with the token, after this share of the buffer was given up.
    Write {
        /// Which write.
        token: u32,
        /// From the file's beginning.
        offset: u64,
        /// Bytes.
        len: usize,
        /// What to write.
        buffer: Arc<B>,
    },
}

/// A packet that a disk had.
#[derive(Clone)]
pub struct Found<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// Unix time from which it is stale, milliseconds.
    pub stale_at_ms: u64,
}

/// What a look-up says.
pub enum Lookup<'a> {
    /// It is in a buffer that is on its way to the disk.
    Found(Found<'a>),
    /// The disk is asked; the answer comes with [`SegmentLog::on_read`].
    Reading,
    /// It is not there, or too much is going on to look.
    Miss,
}

/// A log that had to go, since it could not be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displaced {
    /// It was of another size.
    Size,
    /// It was for other names: there were more workers or disks, or fewer, or in another order.
    Part(Part),
}

/// What a log still does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It finds out what is there.
    Opening,
    /// Everything.
    Good,
    /// Nothing until it answers again: a read took longer than a second.
    Stalled,
    /// It answers; writes failed [`ERRORS_MAX`] times in a row.
    ReadOnly,
    /// Nothing: reads failed [`ERRORS_MAX`] times in a row, or the first write or read of all.
    Discarded,
    /// Nothing: the disk holds something else than a log, which is not touched. Who means to give
    /// it over clears its first 4 KiB.
    Foreign,
}

/// What happened to a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Objects that can be found, about: those that others displaced in the index are not.
    pub objects: u64,
    /// Objects found when it was opened.
    pub recovered: u64,
    /// Queries answered from a buffer on its way to the disk.
    pub buffer_hits: u64,
    /// Queries answered from the disk.
    pub hits: u64,
    /// Queries for what is not there.
    pub misses: u64,
    /// Queries that missed since too many reads or queries were waiting.
    pub busy: u64,
    /// Reads that the disk was asked for.
    pub reads: u64,
    /// Those of them that nobody had asked for yet.
    pub ahead: u64,
    /// Queries that joined a read under way.
    pub coalesced: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Reads that took longer than a second: who waited for them missed.
    pub late: u64,
    /// Reads that brought something else than was written, or another name's.
    pub mismatches: u64,
    /// Objects taken in.
    pub inserted: u64,
    /// Objects that came back from memory, and that the disk still has.
    pub kept: u64,
    /// Objects refused: too large, no buffer free, or the disk is not written any more.
    pub refused: u64,
    /// Segments that were written.
    pub writes: u64,
    /// Writes that failed.
    pub write_errors: u64,
}
