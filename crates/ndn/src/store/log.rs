//! The second floor: a log of segments in one file or device ([`format`] says how it lies there).
//!
//! Records are gathered in a buffer of a segment and written in one go; when the ring of segments
//! is full, the oldest is overwritten. What is still asked for by then survives in memory, and is
//! written anew when it leaves that ([`SegmentLog::insert`]): eviction reads nothing.
//!
//! ```text
//! requests   out of `poll_request`, results into `on_read` and `on_written`, in any order
//! bounded    reads in flight, queries waiting, segment buffers; beyond them: a miss, or not kept
//! opening    superblock, then every segment's head; until then everything misses
//! trust      none: a record counts if checksum, segment number and full name are right
//! ```
//!
//! So a process may be killed at any instant: a torn segment has no valid head, or records that
//! do not verify. Nothing is synced: what a power failure takes is a cache's loss.

mod erased;
mod format;
mod index;
mod reads;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Buffer, Bytes, Packet};
use erased::Erasures;
use format::{Geometry, RECORD_HEADER, RecordHeader, SUPERBLOCK, TableEntry, UNIT};
use index::{Index, Place};
use reads::{Purpose, Reads};

/// Errors in a row after which a disk is not written, or not used, any more.
pub const ERRORS_MAX: u32 = 8;
/// The largest block of a device, to which lengths of writes are rounded.
const BLOCK_MAX: usize = 4096;
/// Bytes of the largest segment: places in it are counted by 16 bits.
const SEGMENT_MAX: u32 = 16 << 20;
const SEGMENT_MIN: u32 = 64 << 10;

/// What a log is made for.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Bytes of the file or device.
    pub bytes: u64,
    /// Bytes that are written at once: a power of two from 64 KiB to 16 MiB.
    pub segment_bytes: u32,
    /// Objects that the index has room for, at 21.3 bytes each.
    pub objects: usize,
    /// Bytes of the longest packet; at most 65,535.
    pub packet_bytes: usize,
    /// Reads in flight.
    pub reads: usize,
    /// Queries that wait for reads.
    pub waiters: usize,
    /// Bytes of the device's block, 512 or 4,096: reads begin and end at multiples of it.
    pub block_bytes: usize,
}

/// Why a log cannot be made as it was asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cache: {problem}")]
pub struct BadLimits {
    problem: String,
}

impl LogLimits {
    fn geometry(&self) -> Result<Geometry, BadLimits> {
        let bad = |problem| Err(BadLimits { problem });
        let Self { bytes, segment_bytes, packet_bytes, block_bytes, .. } = *self;
        if !segment_bytes.is_power_of_two() || !(SEGMENT_MIN..=SEGMENT_MAX).contains(&segment_bytes)
        {
            return bad(format!(
                "segments of {segment_bytes} bytes: choose a power of two from {SEGMENT_MIN} to \
                 {SEGMENT_MAX}"
            ));
        }
        if packet_bytes > super::memory::PACKET_MAX
            || packet_bytes + RECORD_HEADER + UNIT > segment_bytes as usize / 2
        {
            return bad(format!(
                "packets of {packet_bytes} bytes: at most 65,535, and half a segment"
            ));
        }
        if !block_bytes.is_power_of_two() || !(UNIT..=BLOCK_MAX).contains(&block_bytes) {
            return bad(format!("blocks of {block_bytes} bytes: devices have 512 or 4,096"));
        }
        if self.reads == 0 || self.waiters < self.reads {
            return bad(format!(
                "{} reads for {} waiting queries: at least one, and a query for each",
                self.reads, self.waiters
            ));
        }
        let segments = bytes.saturating_sub(SUPERBLOCK as u64) / u64::from(segment_bytes);
        let units = u64::from(segment_bytes) / UNIT as u64;
        if segments < 4 || segments * units > u64::from(u32::MAX) {
            let least = 4 * u64::from(segment_bytes) + SUPERBLOCK as u64;
            return bad(format!("{bytes} bytes: give it from {least} bytes to 2 TiB"));
        }
        Ok(Geometry { segment_bytes, segments: segments as u32 })
    }

    /// Bytes of the longest read that will be asked for, which a driver's buffers have to hold.
    pub fn read_bytes_max(&self) -> usize {
        let record = (self.packet_bytes + RECORD_HEADER).next_multiple_of(UNIT);
        // A record of odd units may begin and end within a block.
        let spanned = (record + 2 * (self.block_bytes - UNIT)).next_multiple_of(self.block_bytes);
        spanned.max(self.segment_bytes as usize / (UNIT / 16)).max(SUPERBLOCK)
    }
}

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

/// What a log still does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It finds out what is there.
    Opening,
    /// Everything.
    Good,
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

#[derive(Clone, Copy, Default)]
struct Segment {
    /// 0: nothing valid is there. Otherwise the segment's place is `seq` modulo their number.
    seq: u64,
    live: u32,
}

/// The segments and which of them are valid.
struct Ring {
    segments: Vec<Segment>,
    /// Units in each.
    units: u32,
    /// Number of the next segment.
    next_seq: u64,
}

impl Ring {
    fn segment_of(&self, place: &Place) -> u32 {
        place.unit / self.units
    }

    fn round(&self, seq: u64) -> u8 {
        (seq / self.segments.len() as u64) as u8
    }

    /// How many segments were begun since the place's own; `None` if that was overwritten.
    fn age(&self, place: &Place) -> Option<u64> {
        let seq = self.segments.get(self.segment_of(place) as usize)?.seq;
        (seq != 0 && self.round(seq) == place.round).then(|| self.next_seq - seq)
    }
}

/// A segment that is being filled, or written.
struct Filling<B> {
    /// `None` for the superblock.
    segment: Option<u32>,
    seq: u64,
    buffer: Arc<B>,
    /// Units in use.
    units: u32,
    records: u32,
}

enum Phase {
    Superblock,
    /// Reading heads: the next segment, and how many are under way.
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
    /// Seed of hashes and checksums; the one on the disk, if there is a log.
    identity: u64,
    phase: Phase,
    is_writable: bool,
    /// Units that may be written anew: as many as new objects took lately, a segment at most.
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
    /// Opens the log that the disk holds, or makes one of this identity, which is to be random.
    /// Two or more buffers of a segment each; with more, more can be written at a time.
    ///
    /// # Errors
    /// When the limits make no sense.
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
            identity,
            phase: Phase::Superblock,
            is_writable: true,
            credit: 0,
            index: Index::new(limits.objects),
            ring: Ring {
                segments: vec![Segment::default(); geometry.segments as usize],
                units: geometry.units(),
                // Not 0, which is nobody's number.
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

    /// What it still does.
    pub fn health(&self) -> Health {
        match self.phase {
            Phase::Superblock | Phase::Heads { .. } => Health::Opening,
            Phase::Discarded => Health::Discarded,
            Phase::Foreign => Health::Foreign,
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

    /// Reads and writes that were asked for and have no result yet.
    pub fn under_way(&self) -> usize {
        self.reads.under_way() + self.writing.iter().flatten().count()
    }

    /// The next thing to do for the disk.
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

    /// Asks for bytes, if another read may be under way.
    fn read(&mut self, purpose: Purpose, offset: u64, len: usize) -> bool {
        let Some(token) = self.reads.begin(purpose) else { return false };
        self.requests.push_back(Request::Read { token, offset, len });
        true
    }

    fn hash(&self, name: &[u8]) -> u64 {
        xxh3_64_with_seed(name, self.identity)
    }

    /// Where a name's packet is, if its segment was not overwritten since.
    fn locate(&self, hash: u64) -> Option<Place> {
        let place = self.index.find(hash)?;
        self.ring.age(&place).map(|_| place)
    }

    /// Looks for the packet of exactly this name. If the disk has to be asked, `waiter` gets the
    /// answer.
    pub fn lookup(
        &mut self,
        name: &[u8],
        must_be_fresh: bool,
        waiter: u64,
        now_ms: u64,
    ) -> Lookup<'_> {
        let hash = self.hash(name);
        let is_ready = matches!(self.phase, Phase::Ready);
        let found = if is_ready { self.locate(hash) } else { None };
        let Some(place) = found.filter(|p| !must_be_fresh || now_ms < stale_before(p)) else {
            self.stats.misses += 1;
            return Lookup::Miss;
        };
        let segment = self.ring.segment_of(&place);
        let unwritten = unwritten(&self.filling, &self.writing, segment);
        if let Some(filling) = unwritten {
            let at = (place.unit % self.geometry.units()) as usize * UNIT;
            let bytes: &[u8] = (*filling.buffer).as_ref();
            let found = found_in(&bytes[at..], name, filling.seq, &place, self.identity);
            let suits = |f: &Found<'_>| {
                (!must_be_fresh || now_ms < f.stale_at_ms) && !self.erased.has(name, filling.seq)
            };
            return match found.filter(suits) {
                Some(found) => {
                    self.stats.buffer_hits += 1;
                    Lookup::Found(found)
                }
                None => {
                    self.stats.misses += 1;
                    Lookup::Miss
                }
            };
        }
        if let Some(joined) = self.reads.join(place.unit, name, waiter, must_be_fresh) {
            let counter = if joined { &mut self.stats.coalesced } else { &mut self.stats.busy };
            *counter += 1;
            return if joined { Lookup::Reading } else { Lookup::Miss };
        }
        let (purpose, offset, len) = self.read_of(place);
        let token = match self.reads.begin(purpose) {
            Some(token) if self.reads.wait(token, name, waiter, must_be_fresh) => token,
            refused => {
                refused.into_iter().for_each(|token| self.reads.end(token, |_, _| {}));
                self.stats.busy += 1;
                return Lookup::Miss;
            }
        };
        self.stats.reads += 1;
        self.requests.push_back(Request::Read { token, offset, len });
        Lookup::Reading
    }

    /// Reads the packet of exactly this name before anyone asks for it, if the disk has it. Who
    /// asks meanwhile joins the read; what is found comes out of [`SegmentLog::on_read`]. At most
    /// half of the reads may be under way for it: queries are not refused for want of the others.
    pub fn read_ahead(&mut self, name: &[u8]) {
        let is_ready = matches!(self.phase, Phase::Ready);
        if !is_ready || self.reads.under_way() >= self.limits.reads / 2 {
            return;
        }
        let Some(place) = self.locate(self.hash(name)) else { return };
        let segment = self.ring.segment_of(&place);
        let is_unwritten = unwritten(&self.filling, &self.writing, segment).is_some();
        if is_unwritten || self.reads.has(place.unit) {
            return;
        }
        let (purpose, offset, len) = self.read_of(place);
        let Some(token) = self.reads.begin(purpose) else { return };
        self.reads.set_name(token, name);
        self.stats.reads += 1;
        self.stats.ahead += 1;
        self.requests.push_back(Request::Read { token, offset, len });
    }

    /// The read of a record, by whole blocks: what it is for, offset and bytes.
    fn read_of(&self, place: Place) -> (Purpose, u64, usize) {
        let block = self.limits.block_bytes as u64;
        let start = SUPERBLOCK as u64 + place.byte();
        let end = (start + u64::from(place.units) * UNIT as u64).next_multiple_of(block);
        let offset = start / block * block;
        let seq = self.ring.segments[self.ring.segment_of(&place) as usize].seq;
        let skip = (start - offset) as usize;
        (Purpose::Record { place, seq, skip }, offset, (end - offset) as usize)
    }

    /// Takes a packet in. One that `was_on_disk` when it came to memory is not written again
    /// while the disk has it and will not overwrite it soon: only if its segment is among the
    /// oldest quarter. That is how what is asked for stays. No more is written anew than came in
    /// new, for it makes the others older: a log that is only read would be written for ever.
    pub fn insert(
        &mut self,
        name: &[u8],
        packet: &Packet<'_>,
        stale_at_ms: u64,
        was_on_disk: bool,
        now_ms: u64,
    ) {
        let hash = self.hash(name);
        if !matches!(self.phase, Phase::Ready)
            || !self.is_writable
            || packet.len() > self.limits.packet_bytes
        {
            self.stats.refused += 1;
            return;
        }
        let units = format::record_units(packet.len()) as u32;
        let present = self.index.find(hash).filter(|_| was_on_disk);
        if let Some(age) = present.and_then(|place| self.ring.age(&place)) {
            let is_old = age >= u64::from(self.geometry.segments) * 3 / 4;
            if !is_old || self.credit < u64::from(units) {
                self.stats.kept += 1;
                return;
            }
            self.credit -= u64::from(units);
        } else {
            let most = u64::from(self.geometry.units());
            self.credit = (self.credit + u64::from(units)).min(most);
        }
        let limit = (self.geometry.units(), self.geometry.records_max() as u32);
        let fits = |f: &Filling<B>| f.units + units <= limit.0 && f.records < limit.1;
        if !self.filling.as_ref().is_some_and(fits) {
            self.flush(now_ms);
            self.begin_segment();
        }
        let identity = self.identity;
        let Some(filling) = self.filling.as_mut() else {
            self.stats.refused += 1;
            return;
        };
        let Some(segment) = filling.segment else { return };
        // Nobody else has this share: see `begin_segment`.
        let Some(buffer) = Arc::get_mut(&mut filling.buffer) else { return };
        let unit = filling.units;
        let record = &mut buffer.as_mut()[unit as usize * UNIT..][..units as usize * UNIT];
        let (_, body) = record.split_at_mut(RECORD_HEADER);
        if packet.copy_to(body).is_none() {
            return;
        }
        body[packet.len()..].fill(0);
        let name_at = packet.name_at();
        let header = RecordHeader {
            len: packet.len() as u32,
            name_start: name_at.start as u16,
            name_len: name_at.len() as u16,
            seq: filling.seq,
            hash,
            stale_at_ms,
        };
        format::write_record(record, header, identity);
        let entry = TableEntry {
            hash,
            unit: unit as u16,
            units: units as u8,
            stale_at_s: u32::try_from(stale_at_ms / 1000).unwrap_or(u32::MAX),
        };
        format::write_entry(buffer.as_mut(), filling.records as usize, entry);
        filling.units += units;
        filling.records += 1;
        let seq = filling.seq;
        self.enter(segment, seq, entry);
        self.stats.inserted += 1;
    }

    /// Puts a record of a segment into the index.
    fn enter(&mut self, segment: u32, seq: u64, entry: TableEntry) {
        let unit = segment * self.geometry.units() + u32::from(entry.unit);
        let round = self.ring.round(seq);
        let place = Place::new(entry.hash, unit, entry.units, round, entry.stale_at_s);
        let ring = &self.ring;
        let displaced = self.index.insert(entry.hash, place, |place| ring.age(place));
        if let Some(displaced) = displaced {
            self.forget(self.ring.segment_of(&displaced));
        }
        self.ring.segments[segment as usize].live += 1;
        self.stats.objects += 1;
    }

    fn forget(&mut self, segment: u32) {
        let live = &mut self.ring.segments[segment as usize].live;
        *live = live.saturating_sub(1);
        self.stats.objects = self.stats.objects.saturating_sub(1);
    }

    /// Declares a segment's contents gone.
    fn clear(&mut self, segment: u32) {
        let old = std::mem::take(&mut self.ring.segments[segment as usize]);
        self.stats.objects = self.stats.objects.saturating_sub(old.live.into());
    }

    /// Begins to fill the next segment of the ring, if a buffer is free.
    fn begin_segment(&mut self) {
        // A driver that keeps its share of a buffer loses nothing but the buffer's use.
        let free = self.free.iter_mut().position(|buffer| Arc::get_mut(buffer).is_some());
        let Some(buffer) = free.map(|at| self.free.swap_remove(at)) else { return };
        let seq = self.ring.next_seq;
        self.ring.next_seq += 1;
        let segment = (seq % u64::from(self.geometry.segments)) as u32;
        self.clear(segment);
        self.erased.overwritten((seq + 1).saturating_sub(u64::from(self.geometry.segments)));
        self.ring.segments[segment as usize].seq = seq;
        let units = (self.geometry.head_bytes() / UNIT) as u32;
        self.filling = Some(Filling { segment: Some(segment), seq, buffer, units, records: 0 });
    }

    /// Sends what has been gathered to the disk, full or not. A driver calls it before it ends.
    pub fn flush(&mut self, now_ms: u64) {
        let Some(mut filling) = self.filling.take() else { return };
        let offset = filling.segment.map_or(0, |segment| self.geometry.offset(segment));
        if let Some(buffer) = Arc::get_mut(&mut filling.buffer) {
            let (seq, records) = (filling.seq, filling.records);
            format::write_head(buffer.as_mut(), self.identity, seq, records, now_ms);
        }
        let len = (filling.units as usize * UNIT).next_multiple_of(BLOCK_MAX);
        self.write(filling, offset, len);
    }

    fn write(&mut self, filling: Filling<B>, offset: u64, len: usize) {
        // There are as many places as buffers.
        let Some(token) = self.writing.iter().position(Option::is_none) else { return };
        let buffer = filling.buffer.clone();
        self.writing[token] = Some(filling);
        self.requests.push_back(Request::Write { token: token as u32, offset, len, buffer });
    }

    /// A write is over, well or not.
    pub fn on_written(&mut self, token: u32, result: io::Result<()>) {
        let Some(written) = self.writing.get_mut(token as usize).and_then(Option::take) else {
            return;
        };
        self.free.push(written.buffer);
        match (result, written.segment) {
            (Ok(()), Some(_)) => {
                self.stats.writes += 1;
                self.write_errors = 0;
            }
            (Ok(()), None) => {}
            (Err(_), segment) => {
                self.stats.write_errors += 1;
                self.write_errors += 1;
                // Unless the ring has come round to it in the meantime.
                match segment {
                    Some(s) if self.ring.segments[s as usize].seq == written.seq => self.clear(s),
                    Some(_) => {}
                    // A log that cannot be made is none.
                    None => self.discard(),
                }
                if self.write_errors >= ERRORS_MAX {
                    self.is_writable = false;
                    if let Some(Filling { segment: Some(s), buffer, .. }) = self.filling.take() {
                        self.clear(s);
                        self.free.push(buffer);
                    }
                }
            }
        }
    }

    fn discard(&mut self) {
        self.phase = Phase::Discarded;
        self.filling = None;
        self.stats.objects = 0;
    }

    /// A read is over. Who waited for it hears through `answer`: the packet, or nothing. What was
    /// found, for memory.
    pub fn on_read<'r>(
        &mut self,
        token: u32,
        result: io::Result<&'r [u8]>,
        now_ms: u64,
        mut answer: impl FnMut(u64, Option<&Found<'r>>),
    ) -> Option<Found<'r>> {
        let purpose = self.reads.purpose(token)?;
        if result.is_err() {
            self.stats.read_errors += 1;
            self.read_errors += 1;
            if self.read_errors >= ERRORS_MAX {
                self.discard();
            }
        } else {
            self.read_errors = 0;
        }
        let mut found = None;
        match purpose {
            Purpose::Superblock => self.on_superblock(result),
            Purpose::Head(segment) => self.on_head(segment, result, now_ms),
            Purpose::Record { place, seq, skip } => {
                let name = self.reads.name(token);
                let bytes = result.as_ref().ok().and_then(|bytes| bytes.get(skip..));
                found = bytes.and_then(|b| found_in(b, name, seq, &place, self.identity));
                let is_other = found.is_none() && result.is_ok();
                self.stats.mismatches += u64::from(is_other);
                found = found.filter(|_| !self.erased.has(name, seq));
                if found.is_none() {
                    let hash = xxh3_64_with_seed(name, self.identity);
                    let segment = self.ring.segment_of(&place);
                    if self.ring.segments[segment as usize].seq == seq {
                        self.index.remove(hash, place.unit);
                        self.forget(segment);
                    }
                }
            }
        }
        let stats = &mut self.stats;
        self.reads.end(token, |waiter, must_be_fresh| {
            let suits = |f: &&Found<'_>| !must_be_fresh || now_ms < f.stale_at_ms;
            let suited = found.as_ref().filter(suits);
            let counter = if suited.is_some() { &mut stats.hits } else { &mut stats.misses };
            *counter += 1;
            answer(waiter, suited);
        });
        found
    }

    /// Takes over the log that is there, or makes one.
    fn on_superblock(&mut self, result: io::Result<&[u8]>) {
        let Ok(block) = result else { return self.discard() };
        if let Some(identity) = format::read_superblock(block, self.geometry) {
            self.identity = identity;
            self.phase = Phase::Heads { next: 0, under_way: 0 };
            return;
        }
        if !format::is_free(block) {
            self.phase = Phase::Foreign;
            return;
        }
        self.phase = Phase::Ready;
        let Some(mut buffer) = self.free.pop() else { return };
        let Some(block) = Arc::get_mut(&mut buffer) else { return };
        format::write_superblock(block.as_mut(), self.geometry, self.identity);
        let filling = Filling { segment: None, seq: 0, buffer, units: 0, records: 0 };
        self.write(filling, 0, SUPERBLOCK);
    }

    /// Enters what a segment holds by its head.
    fn on_head(&mut self, segment: u32, result: io::Result<&[u8]>, now_ms: u64) {
        let head = result.ok().and_then(|bytes| format::read_head(bytes, self.identity));
        let count = u64::from(self.geometry.segments);
        let is_here = |h: &format::Head<'_>| h.seq >= count && h.seq % count == segment.into();
        if let Some(head) = head.filter(is_here) {
            self.ring.segments[segment as usize] = Segment { seq: head.seq, live: 0 };
            self.ring.next_seq = self.ring.next_seq.max(head.seq + 1);
            // When the clock was set back, nobody knows what is fresh.
            let is_later = head.written_ms > now_ms;
            for mut entry in head.entries() {
                let end = u32::from(entry.unit) + u32::from(entry.units);
                if entry.units == 0 || end > self.geometry.units() {
                    continue;
                }
                if is_later {
                    entry.stale_at_s = 0;
                }
                let known = self.locate(entry.hash).map(|place| self.ring.segment_of(&place));
                if known.is_none_or(|s| self.ring.segments[s as usize].seq <= head.seq) {
                    self.enter(segment, head.seq, entry);
                    self.stats.recovered += 1;
                }
            }
        }
        if let Phase::Heads { next, under_way } = self.phase {
            self.phase = if next == self.geometry.segments && under_way == 1 {
                self.erased.opened(self.ring.next_seq);
                Phase::Ready
            } else {
                Phase::Heads { next, under_way: under_way - 1 }
            };
        }
    }

    /// Forgets the packet of exactly this name. A restart may bring it back.
    pub fn erase(&mut self, name: &[u8]) -> bool {
        let hash = self.hash(name);
        let Some(place) = self.locate(hash) else { return false };
        self.index.remove(hash, place.unit);
        self.forget(self.ring.segment_of(&place));
        true
    }

    /// Forgets every packet under a prefix, which is remembered until the ring has gone round. A
    /// restart may bring them back.
    pub fn erase_under(&mut self, prefix: &[u8], now_ms: u64) {
        // What comes in from now on goes to another segment.
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

/// The buffer of a segment that is being filled or written.
fn unwritten<'a, B>(
    filling: &'a Option<Filling<B>>,
    writing: &'a [Option<Filling<B>>],
    segment: u32,
) -> Option<&'a Filling<B>> {
    filling.iter().chain(writing.iter().flatten()).find(|f| f.segment == Some(segment))
}

/// The latest time at which the place's packet may be fresh, Unix time, milliseconds.
fn stale_before(place: &Place) -> u64 {
    (u64::from(place.stale_at_s) + 1) * 1000
}

/// The packet of a record, if it is the very one that was written there.
fn found_in<'a>(
    record: &'a [u8],
    name: &[u8],
    seq: u64,
    place: &Place,
    identity: u64,
) -> Option<Found<'a>> {
    let (header, packet) = format::read_record(record, identity)?;
    let start = usize::from(header.name_start);
    let name_at = start..start + usize::from(header.name_len);
    (header.seq == seq && packet.get(name_at.clone())? == name).then(|| Found {
        packet: Packet::new(Bytes::Whole(packet), name_at),
        // A place that says stale earlier has a reason.
        stale_at_ms: header.stale_at_ms.min(stale_before(place)),
    })
}
