//! Limits of a log, and their checks.

use super::super::memory::PACKET_MAX;
use super::format::{Geometry, RECORD_HEADER, SUPERBLOCK, UNIT};

/// The largest block of a device, to which lengths of writes are rounded.
pub(super) const BLOCK_MAX: usize = 4096;
/// Bytes of the largest segment: places in it are counted by 16 bits.
const SEGMENT_MAX: u32 = 16 << 20;
const SEGMENT_MIN: u32 = 64 << 10;

/// Limits of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogLimits {
    /// Bytes of the file or device.
    pub bytes: u64,
    /// Bytes written at once: a power of two from 64 KiB to 16 MiB.
    pub segment_bytes: u32,
    /// Capacity of the index in objects, at 21.3 bytes each.
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

/// Why a log cannot be created with these limits.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cache: {problem}")]
pub struct BadLimits {
    pub(super) problem: String,
}

impl LogLimits {
    pub(super) fn geometry(&self) -> Result<Geometry, BadLimits> {
        let bad = |problem| Err(BadLimits { problem });
        let Self { bytes, segment_bytes, packet_bytes, block_bytes, .. } = *self;
        if !segment_bytes.is_power_of_two() || !(SEGMENT_MIN..=SEGMENT_MAX).contains(&segment_bytes)
        {
            return bad(format!(
                "segments of {segment_bytes} bytes: choose a power of two from {SEGMENT_MIN} to \
                 {SEGMENT_MAX}"
            ));
        }
        if packet_bytes > PACKET_MAX
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

    /// Bytes of the longest read, which a driver's buffers have to hold.
    pub fn read_bytes_max(&self) -> usize {
        let record = (self.packet_bytes + RECORD_HEADER).next_multiple_of(UNIT);
        // A record with an odd number of units may begin and end within a block.
        let spanned = (record + 2 * (self.block_bytes - UNIT)).next_multiple_of(self.block_bytes);
        spanned.max(self.segment_bytes as usize / (UNIT / 16)).max(SUPERBLOCK)
    }
}
