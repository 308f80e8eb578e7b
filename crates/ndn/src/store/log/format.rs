//! The on-disk format: superblock, segment heads and records. Numbers are little-endian.
//!
//! ```text
//! file      superblock (4 KiB) | segment 0 | segment 1 | …
//! segment   head: header (64) + table | records, each at a multiple of 512
//! record    header (48) + packet, filled up with zeros
//! ```
//!
//! Checksums are XXH3 seeded with the log's identity, which is chosen at random when a log is
//! created: so nothing of another or an earlier log is accepted.

use std::fmt;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes before the first segment: a page, the largest block of a device.
pub(super) const SUPERBLOCK: usize = 4096;
/// Records begin at multiples of this, and are counted in it.
pub(super) const UNIT: usize = 512;
/// Bytes of a segment's header, and of an entry of its table.
const SEGMENT_HEADER: usize = 64;
const ENTRY: usize = 16;
pub(super) const RECORD_HEADER: usize = 48;

const SUPER_MAGIC: &[u8; 8] = b"PLXCACHE";
const SEGMENT_MAGIC: &[u8; 8] = b"PLXSEGMT";
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"PLXR");
/// 2: the superblock names the part.
const VERSION: u32 = 2;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Which names a log holds: those of one worker, on one of its disks. In a log made for other
/// names, no packet would ever be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which worker, and of how many.
    pub worker: u8,
    /// At least one.
    pub workers: u8,
    /// Which of its disks, and of how many.
    pub disk: u8,
    /// At least one.
    pub disks: u8,
}

impl Part {
    /// All names.
    pub const WHOLE: Part = Part { worker: 0, workers: 1, disk: 0, disks: 1 };

    fn to_bytes(self) -> [u8; 4] {
        [self.worker, self.workers.saturating_sub(1), self.disk, self.disks.saturating_sub(1)]
    }

    fn from_bytes([worker, workers, disk, disks]: [u8; 4]) -> Part {
        let (workers, disks) = (workers.saturating_add(1), disks.saturating_add(1));
        Part { worker, workers, disk, disks }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { worker, workers, disk, disks } = self;
        write!(f, "disk {disk} of {disks} of worker {worker} of {workers}")
    }
}

/// The layout of a log in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) segment_bytes: u32,
    pub(super) segments: u32,
}

impl Geometry {
    pub(super) fn offset(&self, segment: u32) -> u64 {
        SUPERBLOCK as u64 + u64::from(segment) * u64::from(self.segment_bytes)
    }

    /// Bytes of a segment's header and table: a 32nd, so that a table has room for records of
    /// one unit each.
    pub(super) fn head_bytes(&self) -> usize {
        self.segment_bytes as usize / (UNIT / ENTRY)
    }

    /// Records that a segment's table has room for.
    pub(super) fn records_max(&self) -> usize {
        (self.head_bytes() - SEGMENT_HEADER) / ENTRY
    }

    /// Units in a segment, its head included.
    pub(super) fn units(&self) -> u32 {
        self.segment_bytes / UNIT as u32
    }
}

pub(super) struct Super {
    pub(super) geometry: Geometry,
    pub(super) part: Part,
    pub(super) identity: u64,
}

pub(super) fn write_superblock(block: &mut [u8], about: &Super) {
    let Super { geometry, part, identity } = *about;
    block[..SUPERBLOCK].fill(0);
    put(block, 0, SUPER_MAGIC);
    put(block, 8, &VERSION.to_le_bytes());
    put(block, 12, &geometry.segment_bytes.to_le_bytes());
    put(block, 16, &geometry.segments.to_le_bytes());
    put(block, 20, &part.to_bytes());
    put(block, 24, &identity.to_le_bytes());
    let sum = xxh3_64_with_seed(&block[..32], identity);
    put(block, 32, &sum.to_le_bytes());
}

/// Reads the superblock of an existing log, if there is one.
pub(super) fn read_superblock(block: &[u8]) -> Option<Super> {
    let block = block.get(..40)?;
    let identity = u64_at(block, 24);
    let is_ours = block.starts_with(SUPER_MAGIC)
        && u32_at(block, 8) == VERSION
        && u64_at(block, 32) == xxh3_64_with_seed(&block[..32], identity);
    is_ours.then(|| Super {
        geometry: Geometry { segment_bytes: u32_at(block, 12), segments: u32_at(block, 16) },
        part: Part::from_bytes([block[20], block[21], block[22], block[23]]),
        identity,
    })
}

/// Whether a log may be created where this superblock was read: over zeros, or over another log.
pub(super) fn is_free(block: &[u8]) -> bool {
    block.starts_with(SUPER_MAGIC) || block.iter().all(|byte| *byte == 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableEntry {
    pub(super) hash: u64,
    /// Where it begins, in units from the segment's beginning.
    pub(super) unit: u16,
    pub(super) units: u8,
    /// Unix time, seconds; rounded down.
    pub(super) stale_at_s: u32,
}

/// Writes entry `i` of the table into the segment that begins with these bytes.
pub(super) fn write_entry(segment: &mut [u8], i: usize, entry: TableEntry) {
    let at = SEGMENT_HEADER + i * ENTRY;
    put(segment, at, &entry.hash.to_le_bytes());
    put(segment, at + 8, &entry.unit.to_le_bytes());
    put(segment, at + 10, &[entry.units, 0]);
    put(segment, at + 12, &entry.stale_at_s.to_le_bytes());
}

/// Completes the head of a segment whose table has `records` entries.
pub(super) fn write_head(segment: &mut [u8], identity: u64, seq: u64, records: u32, now_ms: u64) {
    put(segment, 0, SEGMENT_MAGIC);
    put(segment, 8, &seq.to_le_bytes());
    put(segment, 16, &now_ms.to_le_bytes());
    put(segment, 24, &records.to_le_bytes());
    put(segment, 28, &[0; 28]);
    let table = SEGMENT_HEADER..SEGMENT_HEADER + records as usize * ENTRY;
    let sum = head_sum(segment, table, identity);
    put(segment, 56, &sum.to_le_bytes());
}

fn head_sum(segment: &[u8], table: Range<usize>, identity: u64) -> u64 {
    let entries = xxh3_64_with_seed(&segment[table], identity);
    xxh3_64_with_seed(&segment[..56], entries)
}

pub(super) struct Head<'a> {
    pub(super) seq: u64,
    /// When it was written, Unix time.
    pub(super) written_ms: u64,
    table: &'a [u8],
}

impl Head<'_> {
    pub(super) fn entries(&self) -> impl Iterator<Item = TableEntry> + '_ {
        self.table.chunks_exact(ENTRY).map(|entry| TableEntry {
            hash: u64_at(entry, 0),
            unit: u16_at(entry, 8),
            units: entry[10],
            stale_at_s: u32_at(entry, 12),
        })
    }
}

/// Reads a segment's head; `None` if it is missing, torn, or of another log.
pub(super) fn read_head(head: &[u8], identity: u64) -> Option<Head<'_>> {
    if head.len() < SEGMENT_HEADER || !head.starts_with(SEGMENT_MAGIC) {
        return None;
    }
    let table = SEGMENT_HEADER..SEGMENT_HEADER + u32_at(head, 24) as usize * ENTRY;
    let entries = head.get(table.clone())?;
    (u64_at(head, 56) == head_sum(head, table, identity)).then(|| Head {
        seq: u64_at(head, 8),
        written_ms: u64_at(head, 16),
        table: entries,
    })
}

/// The header before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) len: u32,
    pub(super) name_start: u16,
    pub(super) name_len: u16,
    /// The segment's number, never used twice.
    pub(super) seq: u64,
    /// Of the name, by the log's own identity.
    pub(super) hash: u64,
    /// Unix time, milliseconds.
    pub(super) stale_at_ms: u64,
}

/// Units of a record of a packet of this length.
pub(super) fn record_units(len: usize) -> usize {
    (RECORD_HEADER + len).div_ceil(UNIT)
}

/// Writes the header of a record whose packet is already in place.
pub(super) fn write_record(record: &mut [u8], header: RecordHeader, identity: u64) {
    put(record, 0, &RECORD_MAGIC.to_le_bytes());
    put(record, 4, &header.len.to_le_bytes());
    put(record, 8, &header.name_start.to_le_bytes());
    put(record, 10, &header.name_len.to_le_bytes());
    put(record, 12, &[0; 4]);
    put(record, 16, &header.seq.to_le_bytes());
    put(record, 24, &header.hash.to_le_bytes());
    put(record, 32, &header.stale_at_ms.to_le_bytes());
    let sum = record_sum(record, header.len as usize, identity);
    put(record, 40, &sum.to_le_bytes());
}

fn record_sum(record: &[u8], len: usize, identity: u64) -> u64 {
    let packet = xxh3_64_with_seed(&record[RECORD_HEADER..RECORD_HEADER + len], identity);
    xxh3_64_with_seed(&record[..40], packet)
}

/// Reads a record; `None` unless every bit of header and packet is intact.
pub(super) fn read_record(record: &[u8], identity: u64) -> Option<(RecordHeader, &[u8])> {
    if record.len() < RECORD_HEADER || u32_at(record, 0) != RECORD_MAGIC {
        return None;
    }
    let header = RecordHeader {
        len: u32_at(record, 4),
        name_start: u16_at(record, 8),
        name_len: u16_at(record, 10),
        seq: u64_at(record, 16),
        hash: u64_at(record, 24),
        stale_at_ms: u64_at(record, 32),
    };
    let packet = record[RECORD_HEADER..].get(..header.len as usize)?;
    let name_end = usize::from(header.name_start) + usize::from(header.name_len);
    (name_end <= packet.len() && u64_at(record, 40) == record_sum(record, packet.len(), identity))
        .then_some((header, packet))
}
