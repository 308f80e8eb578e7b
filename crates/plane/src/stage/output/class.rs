//! The packets of one traffic class that wait at a port, and whose turn it is.
//!
//! Packets are sorted into buckets: all into one (`fifo`), by the port that they came in by
//! (`port`), or by flow (`fair`). Buckets take turns by deficit round robin (Shreedhar and
//! Varghese, 1996): each gets the same share of the cable's time, whatever the size of its packets.
//! A bucket that has just begun to wait comes before those that have been waiting (RFC 8290, 4.2):
//! so a flow of a few packets is not held up by large ones. The order within a bucket is kept.
//!
//! A class that is full drops the packet of a bucket that has its share of what waits, and takes
//! the room for others from a bucket that has more.

use plexus_config::QueueOrder;
use plexus_io::Packet;

use super::shelf::{Chain, Shelf};
use crate::pace::wire_bytes;

/// Buckets of a class that is not `fifo`: 8 KiB, made when a packet first waits there.
const BUCKETS: usize = 256;
/// A flow may take any bucket of a group of this size, so that two flows rarely share one while
/// others are empty (as in Hoeiland-Joergensen et al., "Piece of CAKE", 2018).
const WAYS: usize = 8;
/// Bytes on the cable that a bucket may send in its turn: a full-size frame.
const QUANTUM: i64 = 1538;

/// Which bucket a packet belongs to: anything that its flow has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(pub(super) u32);

/// One class of a port.
pub(crate) struct Class {
    /// Bytes that wait.
    pub(crate) bytes: usize,
    /// Packets that wait.
    pub(crate) packets: usize,
    buckets: Vec<Bucket>,
    /// Buckets that have begun to wait and have not had a turn yet.
    fresh: Line,
    /// The others that take turns.
    steady: Line,
    /// Buckets with packets.
    backlogged: usize,
    /// A bucket that had the most bytes when something was put into it.
    fattest: u16,
}

#[derive(Clone, Copy)]
struct Bucket {
    chain: Chain,
    bytes: usize,
    /// Bytes that it may still send in this turn; below zero when the last packet was larger.
    credit: i64,
    key: Key,
    /// It takes turns, even if it is empty: it has just become so, or has a debt to work off.
    in_line: bool,
    /// Flows other than that of `key` have put packets into it.
    is_shared: bool,
    /// The bucket whose turn comes after it.
    next: u16,
}

/// Buckets in the order of their turns.
#[derive(Clone, Copy)]
struct Line {
    first: u16,
    last: u16,
}

const NONE: u16 = u16::MAX;

const IDLE: Bucket = Bucket {
    chain: Chain::EMPTY,
    bytes: 0,
    credit: 0,
    key: Key(0),
    in_line: false,
    is_shared: false,
    next: NONE,
};

impl Default for Class {
    fn default() -> Class {
        let empty = Line { first: NONE, last: NONE };
        Class {
            bytes: 0,
            packets: 0,
            buckets: Vec::new(),
            fresh: empty,
            steady: empty,
            backlogged: 0,
            fattest: 0,
        }
    }
}

impl Class {
    /// The bucket for packets with this key.
    pub(super) fn bucket(&mut self, order: QueueOrder, key: Key) -> usize {
        let wanted = if order == QueueOrder::Fifo { 1 } else { BUCKETS };
        if self.buckets.len() < wanted {
            self.buckets.resize(wanted, IDLE);
        }
        if order == QueueOrder::Fifo {
            return 0;
        }
        let group = key.0 as usize % (BUCKETS / WAYS) * WAYS;
        let ways = &mut self.buckets[group..group + WAYS];
        let last = key.0 as usize / BUCKETS % WAYS;
        let found = ways.iter().position(|b| b.in_line && b.key == key).or_else(|| {
            // Packets of this flow may wait in the bucket that it shared when all were taken.
            match ways[last].is_shared {
                true => Some(last),
                false => ways.iter().position(|b| !b.in_line),
            }
        });
        let way = found.unwrap_or(last);
        ways[way].is_shared |= ways[way].in_line && ways[way].key != key;
        group + way
    }

    /// Appends a packet to its bucket.
    pub(super) fn push(&mut self, shelf: &mut Shelf, bucket: usize, key: Key, packet: Packet) {
        self.bytes += packet.len();
        self.packets += 1;
        let own = &mut self.buckets[bucket];
        self.backlogged += usize::from(own.chain.is_empty());
        own.bytes += packet.len();
        let bytes = own.bytes;
        shelf.append(&mut own.chain, packet);
        if !own.in_line {
            (own.in_line, own.key, own.credit) = (true, key, QUANTUM);
            self.fresh.append(&mut self.buckets, bucket as u16);
        }
        if bytes > self.buckets[usize::from(self.fattest)].bytes {
            self.fattest = bucket as u16;
        }
    }

    /// The packet whose turn it is.
    #[inline]
    pub(super) fn pop(&mut self, shelf: &mut Shelf) -> Option<Packet> {
        loop {
            let is_fresh = self.fresh.first != NONE;
            let line = if is_fresh { &mut self.fresh } else { &mut self.steady };
            let first = line.first;
            let bucket = self.buckets.get_mut(usize::from(first))?;
            // A debt first: a bucket that is empty after each large packet would never pay.
            if bucket.credit <= 0 {
                bucket.credit += QUANTUM;
                line.leave(&mut self.buckets);
                self.steady.append(&mut self.buckets, first);
            } else if bucket.chain.is_empty() {
                line.leave(&mut self.buckets);
                // It could come back as a fresh one at once, and keep the steady ones waiting.
                match is_fresh && self.steady.first != NONE {
                    true => self.steady.append(&mut self.buckets, first),
                    false => self.buckets[usize::from(first)].rest(),
                }
            } else {
                let packet = self.take(shelf, usize::from(first))?;
                self.buckets[usize::from(first)].credit -= wire_bytes(&packet) as i64;
                if self.packets == 0 {
                    self.rest();
                }
                return Some(packet);
            }
        }
    }

    /// Takes the oldest packet of a bucket that has its share of what waits.
    pub(super) fn evict(&mut self, shelf: &mut Shelf) -> Option<Packet> {
        let known = usize::from(self.fattest);
        if self.bytes_of(known) * self.backlogged < self.bytes {
            let bytes = self.buckets.iter().map(|b| b.bytes).enumerate();
            self.fattest = bytes.max_by_key(|b| b.1)?.0 as u16;
        }
        let packet = self.take(shelf, usize::from(self.fattest));
        if self.packets == 0 {
            self.rest();
        }
        packet
    }

    fn bytes_of(&self, bucket: usize) -> usize {
        self.buckets.get(bucket).map_or(0, |b| b.bytes)
    }

    /// Whether a bucket will have at least its share of what waits, once it has so many bytes more.
    pub(super) fn has_its_share(&self, bucket: usize, more: usize) -> bool {
        let own = self.bytes_of(bucket);
        let buckets = self.backlogged + usize::from(own == 0);
        (own + more) * buckets >= self.bytes + more
    }

    /// No packets wait: turns and debts are void.
    fn rest(&mut self) {
        for line in [&mut self.fresh, &mut self.steady] {
            while let Some(first) = self.buckets.get_mut(usize::from(line.first)) {
                line.first = first.next;
                first.rest();
            }
        }
    }

    #[inline(always)]
    fn take(&mut self, shelf: &mut Shelf, bucket: usize) -> Option<Packet> {
        let own = self.buckets.get_mut(bucket)?;
        let packet = shelf.take_first(&mut own.chain)?;
        own.bytes -= packet.len();
        self.backlogged -= usize::from(own.chain.is_empty());
        self.bytes -= packet.len();
        self.packets -= 1;
        Some(packet)
    }
}

impl Bucket {
    /// Takes no turns.
    fn rest(&mut self) {
        (self.in_line, self.is_shared) = (false, false);
    }
}

impl Line {
    fn append(&mut self, buckets: &mut [Bucket], bucket: u16) {
        buckets[usize::from(bucket)].next = NONE;
        match self.first {
            NONE => self.first = bucket,
            _ => buckets[usize::from(self.last)].next = bucket,
        }
        self.last = bucket;
    }

    /// The first one leaves.
    fn leave(&mut self, buckets: &mut [Bucket]) {
        self.first = buckets[usize::from(self.first)].next;
    }
}

const _: () = assert!(size_of::<Bucket>() * BUCKETS == 8192);

#[cfg(test)]
mod tests;
