//! The packets of one traffic class that wait at a port, and whose turn it is.
//!
//! Packets are sorted into buckets: all into one (`fifo`), by the port that they came in by (`port`),
//! or by flow (`fair`). Buckets take turns by deficit round robin (Shreedhar and Varghese, 1996), so
//! that each gets the same share of the cable's time, whatever the size of its packets; one that has
//! just begun to wait comes before those that have been waiting (RFC 8290, 4.2), so that a flow of a
//! few packets is not held up by large ones. The order within a bucket is kept.
//!
//! A class that is full makes room at the cost of the bucket with the most bytes.

use plexus_config::QueueOrder;
use plexus_io::Packet;

use super::shelf::{Chain, Shelf};
use crate::pace::wire_bytes;

/// Buckets of a class that is not `fifo`: 8 KiB, made when a packet first waits there.
const BUCKETS: usize = 256;
/// A flow may take any bucket of a group of so many, so that two flows seldom share one while
/// others are empty (as in Hoeiland-Joergensen et al., "Piece of CAKE", 2018).
const WAYS: usize = 8;
/// What a bucket may send in its turn, in bytes on the cable: a full-size frame.
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
}

#[derive(Clone, Copy)]
struct Bucket {
    chain: Chain,
    bytes: usize,
    /// Bytes that it may still send in this turn; below zero when the last packet was larger.
    credit: i64,
    key: Key,
    /// It takes turns, even if it has just become empty.
    in_line: bool,
    /// The bucket behind it.
    behind: u16,
}

/// Buckets in the order of their turns.
#[derive(Clone, Copy)]
struct Line {
    first: u16,
    last: u16,
}

const NOBODY: u16 = u16::MAX;

const IDLE: Bucket = Bucket {
    chain: Chain::EMPTY,
    bytes: 0,
    credit: 0,
    key: Key(0),
    in_line: false,
    behind: NOBODY,
};

impl Default for Class {
    fn default() -> Class {
        let empty = Line { first: NOBODY, last: NOBODY };
        Class {
            bytes: 0,
            packets: 0,
            buckets: Vec::new(),
            fresh: empty,
            steady: empty,
            backlogged: 0,
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
        let ways = &self.buckets[group..group + WAYS];
        let own = ways.iter().position(|b| b.in_line && b.key == key);
        let found = own.or_else(|| ways.iter().position(|b| !b.in_line));
        // Where all are taken, flows share one.
        group + found.unwrap_or(key.0 as usize / BUCKETS % WAYS)
    }

    /// Appends a packet to its bucket.
    pub(super) fn push(&mut self, shelf: &mut Shelf, bucket: usize, key: Key, packet: Packet) {
        self.bytes += packet.len();
        self.packets += 1;
        let own = &mut self.buckets[bucket];
        self.backlogged += usize::from(own.chain.is_empty());
        own.bytes += packet.len();
        shelf.append(&mut own.chain, packet);
        if !own.in_line {
            (own.in_line, own.key, own.credit) = (true, key, QUANTUM);
            self.fresh.append(&mut self.buckets, bucket as u16);
        }
    }

    /// The packet whose turn it is.
    pub(super) fn pop(&mut self, shelf: &mut Shelf) -> Option<Packet> {
        loop {
            let is_fresh = self.fresh.first != NOBODY;
            let line = if is_fresh { &mut self.fresh } else { &mut self.steady };
            let first = line.first;
            let bucket = self.buckets.get_mut(usize::from(first))?;
            if bucket.chain.is_empty() {
                line.leave(&mut self.buckets);
                // It could come back as a fresh one at once, and keep the steady ones waiting.
                match is_fresh && self.steady.first != NOBODY {
                    true => self.steady.append(&mut self.buckets, first),
                    false => self.buckets[usize::from(first)].in_line = false,
                }
            } else if bucket.credit <= 0 {
                bucket.credit += QUANTUM;
                line.leave(&mut self.buckets);
                self.steady.append(&mut self.buckets, first);
            } else {
                let packet = self.take(shelf, usize::from(first))?;
                self.buckets[usize::from(first)].credit -= wire_bytes(&packet) as i64;
                return Some(packet);
            }
        }
    }

    /// Takes the oldest packet of the bucket with the most bytes, if it has more than `bytes`.
    pub(super) fn evict(&mut self, shelf: &mut Shelf, bytes: usize) -> Option<Packet> {
        let (fattest, most) =
            self.buckets.iter().map(|b| b.bytes).enumerate().max_by_key(|b| b.1)?;
        (most > bytes).then(|| self.take(shelf, fattest)).flatten()
    }

    /// Bytes that wait in a bucket.
    pub(super) fn bytes_of(&self, bucket: usize) -> usize {
        self.buckets[bucket].bytes
    }

    /// Whether a bucket has at least its share of what waits.
    pub(super) fn has_its_share(&self, bucket: usize) -> bool {
        self.bytes_of(bucket) * self.backlogged.max(1) >= self.bytes
    }

    fn take(&mut self, shelf: &mut Shelf, bucket: usize) -> Option<Packet> {
        let own = &mut self.buckets[bucket];
        let packet = shelf.take_first(&mut own.chain)?;
        own.bytes -= packet.len();
        self.backlogged -= usize::from(own.chain.is_empty());
        self.bytes -= packet.len();
        self.packets -= 1;
        Some(packet)
    }
}

impl Line {
    fn append(&mut self, buckets: &mut [Bucket], bucket: u16) {
        buckets[usize::from(bucket)].behind = NOBODY;
        match self.first {
            NOBODY => self.first = bucket,
            _ => buckets[usize::from(self.last)].behind = bucket,
        }
        self.last = bucket;
    }

    /// The first one leaves.
    fn leave(&mut self, buckets: &mut [Bucket]) {
        self.first = buckets[usize::from(self.first)].behind;
    }
}

const _: () = assert!(size_of::<Bucket>() * BUCKETS == 8192);

#[cfg(test)]
mod tests;
