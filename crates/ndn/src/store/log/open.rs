//! Opening a log: finding the packets that a disk has.

use std::io;
use std::sync::Arc;

use super::super::Buffer;
use super::format::{self, SUPERBLOCK, Super};
use super::ring::{Filling, Segment};
use super::{Displaced, Phase, SegmentLog};

/// A segment's number is below this. No ring gets that far in its lifetime.
const SEQ_MAX: u64 = 1 << 63;
/// Most numbers between the newest segments: more than writes can fail before the log stops
/// writing.
const SEQ_JUMP: u64 = 1 << 20;

impl<B: Buffer> SegmentLog<B> {
    /// Takes over an existing log, or creates one.
    pub(super) fn on_superblock(&mut self, result: io::Result<&[u8]>) {
        let Ok(block) = result else { return self.discard() };
        if let Some(Super { geometry, part, identity }) = format::read_superblock(block) {
            if geometry == self.geometry && part == self.part {
                self.identity = identity;
                self.phase = Phase::Heads { next: 0, under_way: 0 };
                return;
            }
            self.displaced =
                Some(if part == self.part { Displaced::Size } else { Displaced::Part(part) });
        }
        if !format::is_free(block) {
            self.phase = Phase::Foreign;
            return;
        }
        self.phase = Phase::Ready;
        let Some(mut buffer) = self.free.pop() else { return };
        let Some(block) = Arc::get_mut(&mut buffer) else { return };
        let SegmentLog { geometry, part, identity, .. } = *self;
        format::write_superblock(block.as_mut(), &Super { geometry, part, identity });
        let filling = Filling { segment: None, seq: 0, buffer, units: 0, records: 0 };
        self.write(filling, 0, SUPERBLOCK);
    }

    /// Indexes a segment's packets by its head.
    pub(super) fn on_head(&mut self, segment: u32, result: io::Result<&[u8]>, now_ms: u64) {
        let head = result.ok().and_then(|bytes| format::read_head(bytes, self.identity));
        let count = u64::from(self.geometry.segments);
        let is_here = |h: &format::Head<'_>| {
            (count..SEQ_MAX).contains(&h.seq) && h.seq % count == segment.into()
        };
        // A longer record would not fit into a buffer of the driver: its read would fail, and after
        // some of these the disk would be discarded.
        let units_max = format::record_units(self.limits.packet_bytes);
        if let Some(head) = head.filter(is_here) {
            self.ring.segments[segment as usize] = Segment { seq: head.seq, live: 0 };
            self.ring.next_seq = self.ring.next_seq.max(head.seq + 1);
            // After the clock was set back, freshness is unknown.
            let is_later = head.written_ms > now_ms;
            for mut entry in head.entries() {
                let end = u32::from(entry.unit) + u32::from(entry.units);
                let units = usize::from(entry.units);
                if !(1..=units_max).contains(&units) || end > self.geometry.units() {
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
                self.drop_implausible();
                self.erased.opened(self.ring.next_seq);
                Phase::Ready
            } else {
                Phase::Heads { next, under_way: under_way - 1 }
            };
        }
    }

    /// Clears segments whose numbers are far beyond those of all others. Otherwise the ring would
    /// continue after such a number, and soon reach the largest one.
    fn drop_implausible(&mut self) {
        let segments = 0..self.geometry.segments;
        let mut newest: Vec<_> =
            segments.map(|s| (self.ring.segments[s as usize].seq, s)).filter(|s| s.0 > 0).collect();
        newest.sort_unstable();
        while let [.., (before, _), (seq, segment)] = newest[..]
            && seq - before > SEQ_JUMP
        {
            self.clear(segment);
            self.ring.next_seq = before + 1;
            newest.pop();
        }
    }
}
