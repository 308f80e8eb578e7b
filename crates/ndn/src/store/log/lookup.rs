//! Lookups: in buffers being written, and on the disk.

use std::io;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::{Buffer, Bytes, Packet};
use super::format::{self, SUPERBLOCK, UNIT};
use super::index::Place;
use super::reads::Purpose;
use super::ring::unwritten;
use super::{ERRORS_MAX, Found, Lookup, Phase, Request, SegmentLog};

impl<B: Buffer> SegmentLog<B> {
    /// Looks up the packet with exactly this name. If a read is needed, `waiter` gets the answer.
    pub fn lookup(
        &mut self,
        name: &[u8],
        must_be_fresh: bool,
        waiter: u64,
        now_ms: u64,
    ) -> Lookup<'_> {
        self.now_ms = self.now_ms.max(now_ms);
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
        if self.is_stalled {
            self.stats.misses += 1;
            return Lookup::Miss;
        }
        if let Some(joined) = self.reads.join(place.unit, name, waiter, must_be_fresh) {
            let Some(first) = joined else {
                self.stats.busy += 1;
                return Lookup::Miss;
            };
            self.stats.coalesced += 1;
            self.stats.ahead_joined += u64::from(first);
            return Lookup::Reading;
        }
        let (purpose, offset, len) = self.read_of(place);
        let token = match self.reads.begin(purpose, self.now_ms) {
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

    /// Reads the packet with exactly this name ahead of any query, if the disk has it. Later
    /// queries join the read; the packet comes out of [`SegmentLog::on_read`]. At most half of the
    /// reads may be used for this, so that queries still find free ones.
    pub fn read_ahead(&mut self, name: &[u8]) {
        let is_ready = matches!(self.phase, Phase::Ready) && !self.is_stalled;
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
        let Some(token) = self.reads.begin(purpose, self.now_ms) else { return };
        self.reads.set_ahead(token, name);
        self.stats.reads += 1;
        self.stats.ahead += 1;
        self.requests.push_back(Request::Read { token, offset, len });
    }

    /// The read of a record in whole blocks: purpose, offset and bytes.
    fn read_of(&self, place: Place) -> (Purpose, u64, usize) {
        let block = self.limits.block_bytes as u64;
        let start = SUPERBLOCK as u64 + place.byte();
        let end = (start + u64::from(place.units) * UNIT as u64).next_multiple_of(block);
        let offset = start / block * block;
        let seq = self.ring.segments[self.ring.segment_of(&place) as usize].seq;
        let skip = (start - offset) as usize;
        (Purpose::Record { place, seq, skip }, offset, (end - offset) as usize)
    }

    /// A read completed. Calls `answer` for each waiter, with the packet or nothing. Returns the
    /// packet, for memory.
    pub fn on_read<'r>(
        &mut self,
        token: u32,
        result: io::Result<&'r [u8]>,
        now_ms: u64,
        mut answer: impl FnMut(u64, Option<&Found<'r>>),
    ) -> Option<Found<'r>> {
        let purpose = self.reads.purpose(token)?;
        self.now_ms = self.now_ms.max(now_ms);
        self.is_stalled &= result.is_err();
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
            Purpose::Probe => {}
            Purpose::Record { place, seq, skip } => {
                let name = self.reads.name(token);
                let bytes = result.as_ref().ok().and_then(|bytes| bytes.get(skip..));
                found = bytes.and_then(|b| found_in(b, name, seq, &place, self.identity));
                let is_other = found.is_none() && result.is_ok();
                self.stats.mismatches += u64::from(is_other);
                found = found.filter(|_| !self.erased.has(name, seq));
                let is_ahead = self.reads.is_ahead(token);
                found.iter_mut().for_each(|found| found.is_ahead = is_ahead);
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
        self.probe();
        found
    }

    /// When [`SegmentLog::expire`] is due, at the earliest: Unix time, milliseconds.
    pub fn next_late_ms(&self) -> Option<u64> {
        self.reads.next_late_ms()
    }

    /// Calls `answer` with a miss for each waiter of a read that has taken longer than a second.
    /// The disk then counts as stalled: it gets no requests and accepts no packets until a read
    /// succeeds. A late result is still passed to [`SegmentLog::on_read`]; until then its buffer
    /// belongs to the driver.
    pub fn expire(&mut self, now_ms: u64, mut answer: impl FnMut(u64)) {
        self.now_ms = self.now_ms.max(now_ms);
        let misses = &mut self.stats.misses;
        let late = self.reads.expire(now_ms, |waiter| {
            *misses += 1;
            answer(waiter);
        });
        self.stats.late += late as u64;
        self.is_stalled |= late > 0;
        self.probe();
    }

    /// Probes a stalled disk, one read at a time: its earlier requests may be lost.
    fn probe(&mut self) {
        let is_asked = self.reads.in_time() > 0 || self.reads.is_probing();
        if self.is_stalled && !is_asked && matches!(self.phase, Phase::Ready) {
            self.read(Purpose::Probe, 0, SUPERBLOCK);
        }
    }
}

/// The latest time at which the packet there may be fresh, Unix time, milliseconds.
fn stale_before(place: &Place) -> u64 {
    (u64::from(place.stale_at_s) + 1) * 1000
}

/// The packet of a record, if it is exactly the one that was written there.
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
        // If the index has an earlier time, that one is right.
        stale_at_ms: header.stale_at_ms.min(stale_before(place)),
        is_ahead: false,
    })
}
