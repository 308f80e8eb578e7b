//! The disk tier: a log of segments in one file or device ([`format`] describes its layout).
//!
//! Records are gathered in a segment buffer and written at once; when the ring of segments is full,
//! the oldest is overwritten. A packet still in demand by then survives in memory, and is written
//! again when it is evicted from there ([`SegmentLog::insert`]): eviction reads nothing.
//!
//! ```text
//! requests   out of `poll_request`, results into `on_read` and `on_written`, in any order
//! bounded    reads in flight, waiting queries, segment buffers; beyond them: a miss, or not stored
//! late       after one second a read's waiters miss; the disk gets no requests until it answers
//! opening    superblock, then every segment's head; until then everything misses
//! trust      none: a record counts if checksum, segment number and full name are right
//! ```
//!
//! So the process may be killed at any instant: a torn segment has no valid head, or records that
//! do not verify. Nothing is synced: a power failure costs only cached data.

mod erased;
mod format;
mod index;
mod insert;
mod interface;
mod limits;
mod lookup;
mod open;
mod reads;
mod ring;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Buffer;
use erased::Erasures;
pub use format::Part;
use format::{Geometry, SUPERBLOCK};
use index::{Index, Place};
pub use interface::{Displaced, Found, Health, LogStats, Lookup, Request};
pub use limits::{BadLimits, LogLimits};
use reads::{Purpose, Reads};
use ring::{Filling, Ring, Segment};

/// Consecutive errors after which a disk is no longer written, or no longer used.
pub const ERRORS_MAX: u32 = 8;

enum Phase {
    Superblock,
    /// Reads heads: the next segment, and how many reads are in flight.
    Heads {
        next: u32,
        under_way: u32,
    },
    Ready,
    Discarded,
    Foreign,
}

/// Objects on one disk, found by name.
pub struct SegmentLog<B> {
    limits: LogLimits,
    geometry: Geometry,
    part: Part,
    displaced: Option<Displaced>,
    /// Seed of hashes and checksums; the one on the disk, if there is a log.
    identity: u64,
    phase: Phase,
    is_writable: bool,
    /// A read timed out, and none has succeeded since.
    is_stalled: bool,
    /// The latest time passed in, Unix time, milliseconds.
    now_ms: u64,
    /// Units that may be rewritten: as many as recent new objects took, at most a segment.
    credit: u64,
    index: Index,
    ring: Ring,
    filling: Option<Filling<B>>,
    writing: Vec<Option<Filling<B>>>,
    free: Vec<Arc<B>>,
    reads: Reads,
    erased: Erasures,
    requests: VecDeque<Request<B>>,
    read_errors: u32,
    write_errors: u32,
    stats: LogStats,
}

impl<B: Buffer> SegmentLog<B> {
    /// Opens the log on the disk, or creates one with this identity, which has to be random. It
    /// needs two or more buffers of a segment each; with more, more writes can be in flight.
    ///
    /// # Errors
    /// When the limits are invalid.
    pub fn new(
        limits: LogLimits,
        identity: u64,
        buffers: Vec<B>,
    ) -> Result<SegmentLog<B>, BadLimits> {
        let geometry = limits.geometry()?;
        let segment = geometry.segment_bytes as usize;
        if buffers.len() < 2 || buffers.iter().any(|b| b.as_ref().len() < segment) {
            let problem = format!("it needs two or more buffers of {segment} bytes");
            return Err(BadLimits { problem });
        }
        let mut log = SegmentLog {
            limits,
            geometry,
            part: Part::WHOLE,
            displaced: None,
            identity,
            phase: Phase::Superblock,
            is_writable: true,
            is_stalled: false,
            now_ms: 0,
            credit: 0,
            index: Index::new(limits.objects),
            ring: Ring {
                segments: vec![Segment::default(); geometry.segments as usize],
                units: geometry.units(),
                // Not 0, which marks empty segments.
                next_seq: u64::from(geometry.segments),
            },
            filling: None,
            writing: buffers.iter().map(|_| None).collect(),
            requests: VecDeque::with_capacity(limits.reads + buffers.len()),
            free: buffers.into_iter().map(Arc::new).collect(),
            reads: Reads::new(limits.reads, limits.waiters, limits.packet_bytes),
            erased: Erasures::default(),
            read_errors: 0,
            write_errors: 0,
            stats: LogStats::default(),
        };
        log.read(Purpose::Superblock, 0, SUPERBLOCK);
        Ok(log)
    }

    /// The same, for a part of the names only. A log that was made for another part is not taken
    /// over: its packets would never be found.
    #[must_use]
    pub fn for_part(self, part: Part) -> SegmentLog<B> {
        SegmentLog { part, ..self }
    }

    /// Which names it is for.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Why an existing log was replaced, if there was one.
    pub fn displaced(&self) -> Option<Displaced> {
        self.displaced
    }

    /// What it can still do.
    pub fn health(&self) -> Health {
        match self.phase {
            Phase::Superblock | Phase::Heads { .. } => Health::Opening,
            Phase::Discarded => Health::Discarded,
            Phase::Foreign => Health::Foreign,
            Phase::Ready if self.is_stalled => Health::Stalled,
            Phase::Ready if self.is_writable => Health::Good,
            Phase::Ready => Health::ReadOnly,
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> LogStats {
        self.stats
    }

    /// Bytes of the index.
    pub fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Requested reads and writes without a result yet.
    pub fn under_way(&self) -> usize {
        self.reads.under_way() + self.writing.iter().flatten().count()
    }

    /// The next request to the disk.
    pub fn poll_request(&mut self) -> Option<Request<B>> {
        if let Phase::Heads { next, under_way } = self.phase
            && self.requests.is_empty()
            && next < self.geometry.segments
        {
            let (offset, len) = (self.geometry.offset(next), self.geometry.head_bytes());
            if self.read(Purpose::Head(next), offset, len) {
                self.phase = Phase::Heads { next: next + 1, under_way: under_way + 1 };
            }
        }
        self.requests.pop_front()
    }

    /// Requests a read, if another one may be in flight.
    fn read(&mut self, purpose: Purpose, offset: u64, len: usize) -> bool {
        let Some(token) = self.reads.begin(purpose, self.now_ms) else { return false };
        self.requests.push_back(Request::Read { token, offset, len });
        true
    }

    fn hash(&self, name: &[u8]) -> u64 {
        xxh3_64_with_seed(name, self.identity)
    }

    /// Where a name's packet is, unless its segment was overwritten.
    fn locate(&self, hash: u64) -> Option<Place> {
        let place = self.index.find(hash)?;
        self.ring.age(&place).map(|_| place)
    }

    fn discard(&mut self) {
        self.phase = Phase::Discarded;
        self.filling = None;
        self.stats.objects = 0;
    }

    /// Erases the packet with exactly this name. A restart may bring it back.
    pub fn erase(&mut self, name: &[u8]) -> bool {
        let hash = self.hash(name);
        let Some(place) = self.locate(hash) else { return false };
        self.index.remove(hash, place.unit);
        self.forget(self.ring.segment_of(&place));
        true
    }

    /// Erases every packet under a prefix; the prefix is remembered until the ring has gone round
    /// once. A restart may bring them back.
    pub fn erase_under(&mut self, prefix: &[u8], now_ms: u64) {
        // Later packets go to another segment.
        self.flush(now_ms);
        let before = match self.health() {
            Health::Opening => u64::MAX,
            _ => self.ring.next_seq,
        };
        let Some(below) = self.erased.add(prefix, before) else { return };
        for segment in 0..self.geometry.segments {
            if self.ring.segments[segment as usize].seq < below {
                self.clear(segment);
            }
        }
    }
}
