//! Inserting packets: into a segment buffer, and with it to the disk.

use std::io;
use std::sync::Arc;

use super::super::{Buffer, Packet};
use super::format::{self, RECORD_HEADER, RecordHeader, TableEntry, UNIT};
use super::index::Place;
use super::limits::BLOCK_MAX;
use super::ring::Filling;
use super::{ERRORS_MAX, Phase, Request, SegmentLog};

impl<B: Buffer> SegmentLog<B> {
    /// Inserts a packet. One that `was_on_disk` when it came to memory is rewritten only if its
    /// segment is among the oldest quarter, which is overwritten soon. That keeps popular packets.
    /// No more is rewritten than was newly inserted, because rewriting ages all others: otherwise a
    /// log that is only read would be written for ever.
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
            || self.is_stalled
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
        // There is no other reference: see `begin_segment`.
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

    /// Adds a record of a segment to the index.
    pub(super) fn enter(&mut self, segment: u32, seq: u64, entry: TableEntry) {
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

    pub(super) fn forget(&mut self, segment: u32) {
        let live = &mut self.ring.segments[segment as usize].live;
        *live = live.saturating_sub(1);
        self.stats.objects = self.stats.objects.saturating_sub(1);
    }

    /// Marks a segment as empty.
    pub(super) fn clear(&mut self, segment: u32) {
        let old = std::mem::take(&mut self.ring.segments[segment as usize]);
        self.stats.objects = self.stats.objects.saturating_sub(old.live.into());
    }

    /// Begins to fill the next segment of the ring, if a buffer is free.
    fn begin_segment(&mut self) {
        // If a driver keeps a reference to a buffer, only that buffer stays unused.
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

    /// Writes the gathered records to the disk, even if the segment is not full. A driver calls it
    /// at shutdown.
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

    pub(super) fn write(&mut self, filling: Filling<B>, offset: u64, len: usize) {
        // There are as many slots as buffers.
        let Some(token) = self.writing.iter().position(Option::is_none) else { return };
        let buffer = filling.buffer.clone();
        self.writing[token] = Some(filling);
        self.requests.push_back(Request::Write { token: token as u32, offset, len, buffer });
    }

    /// A write completed or failed.
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
                // Unless the ring has reused it in the meantime.
                match segment {
                    Some(s) if self.ring.segments[s as usize].seq == written.seq => self.clear(s),
                    Some(_) => {}
                    // If the superblock cannot be written, there is no log.
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
}
