//! The flow table: counters of a million flows and more, in fixed memory (`traffic-coprocessor.txt`
//! §3.1).
//!
//! A flow has one slot in one of its two buckets and keeps it to its end, so a slot's number names
//! the flow in other arrays. A look-up reads the tags of both buckets and, for a hit, nearly always
//! one record more. Batches prefetch both ([`FlowTable::prefetch`],
//! [`FlowTable::prefetch_record`]).
//!
//! ```text
//! bucket, 16 bytes: | tag 0 | … | tag 7 |     a tag is 16 bits of the hash, 0 in an empty slot
//! record, 64 bytes: | key 40 | packets 8 | bytes 8 | first ms 4 | last ms 4 |
//! ```
//!
//! Senders choose their flows, so the hash is SipHash-1-3 with a secret seed. If both buckets are
//! full, a new flow evicts the longest idle flow there that has aged, or else has one packet only.
//! So a flood of one-packet flows evicts itself. If there is none, the new flow is refused and
//! counted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_wire::{FlowKey, Protocol, Time};

use crate::names::Sip;
use crate::prefetch::prefetch;

const WAYS: usize = 8;
/// Slots for two flows of the capacity: so that every flow finds room, but for a few of a billion.
/// With 2.5 of them, 200 of a million do not.
const SLOTS_FOR_TWO: usize = 3;
/// Flows that a table may be made for.
const CAPACITY_MAX: usize = 1 << 28;

const VLAN: u64 = 1 << 52;
const PORTS: u64 = 1 << 53;
const V6: u64 = 1 << 54;

/// A flow's key in five words: source and destination address, two words each, then protocol,
/// ports, VLAN and their presence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackedFlow([u64; 5]);

impl PackedFlow {
    /// A keyed hash, SipHash-1-3: without the seed nobody can choose it.
    #[inline]
    pub fn hash(&self, seed: [u64; 2]) -> u64 {
        self.hash_from(Sip::new(seed))
    }

    #[inline]
    fn hash_from(&self, mut state: Sip<1, 3>) -> u64 {
        let [a, b, c, d, rest] = self.0;
        // The last word says which family it is, and so how many words there are.
        state.absorb(rest);
        if rest & V6 != 0 {
            state.absorb(a);
            state.absorb(c);
        }
        state.absorb(b);
        state.absorb(d);
        state.finish()
    }
}

impl From<&FlowKey> for PackedFlow {
    #[inline]
    fn from(key: &FlowKey) -> PackedFlow {
        let (src, dst, v6) = match (key.src, key.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (src.to_bits().into(), dst.to_bits().into(), 0),
            (src, dst) => (v6_bits(src), v6_bits(dst), V6),
        };
        let (from, to) = key.ports.unwrap_or_default();
        let rest = u64::from(from) << 16
            | u64::from(to)
            | u64::from(key.protocol.0) << 32
            | u64::from(key.vlan.unwrap_or(0) & 0xFFF) << 40
            | if key.vlan.is_some() { VLAN } else { 0 }
            | if key.ports.is_some() { PORTS } else { 0 }
            | v6;
        let half = |bits: u128| [(bits >> 64) as u64, bits as u64];
        let ([a, b], [c, d]) = (half(src), half(dst));
        PackedFlow([a, b, c, d, rest])
    }
}

impl From<PackedFlow> for FlowKey {
    fn from(PackedFlow([a, b, c, d, rest]): PackedFlow) -> FlowKey {
        let ip = |high: u64, low: u64| match rest & V6 {
            0 => IpAddr::V4(Ipv4Addr::from_bits(low as u32)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))),
        };
        FlowKey {
            vlan: (rest & VLAN != 0).then_some((rest >> 40) as u16 & 0xFFF),
            src: ip(a, b),
            dst: ip(c, d),
            protocol: Protocol((rest >> 32) as u8),
            ports: (rest & PORTS != 0).then_some(((rest >> 16) as u16, rest as u16)),
        }
    }
}

fn v6_bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V6(ip) => ip.to_bits(),
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
    }
}

/// The counters of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time of its first packet, in milliseconds modulo 2^32.
    pub first_ms: u32,
    /// Time of its last packet, likewise.
    pub last_ms: u32,
}

/// A flow's hash, computed once for prefetch and look-up.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowHash(u64);

/// The number of a flow's slot, below [`FlowTable::slots`]. It is the flow's until the table
/// removes or evicts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowSlot(pub u32);

/// The result of counting a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The flow was known.
    Known(FlowSlot),
    /// The flow is new, and took this slot: an empty one, or that of a flow that it evicted.
    New(FlowSlot),
    /// The flow is new, and found no room.
    Refused,
}

#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Record {
    key: PackedFlow,
    counts: FlowCounts,
}

type Bucket = [u16; WAYS];

/// Five-tuple → counters.
pub struct FlowTable {
    buckets: Box<[Bucket]>,
    records: Box<[Record]>,
    hasher: Sip<1, 3>,
    idle_ms: u32,
    len: usize,
    evicted: u64,
    refused: u64,
}

impl FlowTable {
    /// A table for `capacity` flows, each of which ages when no packet has come for `idle_ms`.
    /// `seed` should be secret and random. All memory is taken here.
    pub fn new(capacity: usize, idle_ms: u32, seed: [u64; 2]) -> FlowTable {
        let slots = capacity.clamp(1, CAPACITY_MAX) * SLOTS_FOR_TWO / 2;
        let buckets = slots.div_ceil(WAYS).max(2);
        FlowTable {
            buckets: vec![[0; WAYS]; buckets].into(),
            records: vec![Record::default(); buckets * WAYS].into(),
            hasher: Sip::new(seed),
            idle_ms,
            len: 0,
            evicted: 0,
            refused: 0,
        }
    }

    /// Flows that it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slots, 1.5 times the capacity at least.
    pub fn slots(&self) -> usize {
        self.records.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.buckets) + size_of_val(&*self.records)
    }

    /// Flows that were evicted for a new one, since the beginning.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Packets of flows that found no room, since the beginning.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The hash of a flow.
    #[inline]
    pub fn hash(&self, key: &PackedFlow) -> FlowHash {
        FlowHash(key.hash_from(self.hasher))
    }

    /// Hashes a flow and prefetches the tags of its buckets.
    #[inline]
    pub fn prefetch(&self, key: &PackedFlow) -> FlowHash {
        let hash = self.hash(key);
        self.places(hash).into_iter().for_each(|bucket| prefetch(&self.buckets[bucket]));
        hash
    }

    /// Prefetches the record that a look-up will probably touch. Call it some packets after
    /// [`FlowTable::prefetch`].
    #[inline]
    pub fn prefetch_record(&self, hash: FlowHash) {
        let places = self.places(hash);
        let known = places.into_iter().find_map(|bucket| {
            first(ways_of(&self.buckets[bucket], tag(hash))).map(|way| bucket * WAYS + way)
        });
        if let Some(at) = known.or_else(|| self.empty(places)) {
            prefetch(&self.records[at]);
        }
    }

    /// Finds a flow.
    #[inline]
    pub fn find(&self, key: &PackedFlow, hash: FlowHash) -> Option<FlowSlot> {
        self.places(hash).into_iter().find_map(|bucket| {
            let mut ways = ways_of(&self.buckets[bucket], tag(hash));
            while let Some(way) = first(ways) {
                if self.records[bucket * WAYS + way].key == *key {
                    return Some(slot(bucket, way));
                }
                ways &= ways - 1;
            }
            None
        })
    }

    /// Counts a packet of `bytes` bytes. A new flow is inserted.
    #[inline]
    pub fn count(&mut self, key: &PackedFlow, hash: FlowHash, now: Time, bytes: u32) -> Counted {
        let now_ms = ms(now);
        let (slot, counted) = match self.find(key, hash) {
            Some(slot) => (slot, Counted::Known(slot)),
            None => match self.room(hash, now_ms) {
                Some(slot) => {
                    let counts = FlowCounts { first_ms: now_ms, ..FlowCounts::default() };
                    self.records[slot.0 as usize] = Record { key: *key, counts };
                    (slot, Counted::New(slot))
                }
                None => {
                    self.refused += 1;
                    return Counted::Refused;
                }
            },
        };
        let counts = &mut self.records[slot.0 as usize].counts;
        counts.packets += 1;
        counts.bytes += u64::from(bytes);
        counts.last_ms = now_ms;
        counted
    }

    /// Adds packets to the flow in a slot, which is in use.
    pub fn add(&mut self, slot: FlowSlot, packets: u64, bytes: u64) {
        let counts = &mut self.records[slot.0 as usize].counts;
        counts.packets += packets;
        counts.bytes += bytes;
    }

    /// The flow in a slot.
    pub fn at(&self, slot: FlowSlot) -> Option<(PackedFlow, FlowCounts)> {
        let at = slot.0 as usize;
        let used = *self.buckets.get(at / WAYS)?.get(at % WAYS)? != 0;
        used.then(|| (self.records[at].key, self.records[at].counts))
    }

    /// Removes a flow.
    pub fn remove(&mut self, key: &PackedFlow) -> Option<FlowCounts> {
        let at = self.find(key, self.hash(key))?.0 as usize;
        self.clear(at);
        Some(self.records[at].counts)
    }

    /// Removes the aged flows among `count` slots from `from` on, and returns where to continue. A
    /// whole turn must take less than 2^31 milliseconds. `removed` hears of each.
    pub fn sweep(
        &mut self,
        from: usize,
        count: usize,
        now: Time,
        mut removed: impl FnMut(FlowSlot),
    ) -> usize {
        let total = self.slots();
        let mut at = from % total;
        for _ in 0..count.min(total) {
            let used = self.buckets[at / WAYS][at % WAYS] != 0;
            if used && self.idle_for(at, ms(now)) >= self.idle_ms {
                self.clear(at);
                removed(FlowSlot(at as u32));
            }
            at = (at + 1) % total;
        }
        at
    }

    /// Every flow, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (FlowSlot, PackedFlow, FlowCounts)> {
        let at = |slot| self.at(slot).map(|(key, counts)| (slot, key, counts));
        (0..self.slots() as u32).filter_map(move |slot| at(FlowSlot(slot)))
    }

    /// The two buckets of a hash; they differ.
    #[inline(always)]
    fn places(&self, hash: FlowHash) -> [usize; 2] {
        let buckets = self.buckets.len() as u64;
        let first = ((hash.0 & 0xFFFF_FFFF) * buckets) >> 32;
        // The upper half, as far as the tag leaves it.
        let second = ((hash.0.rotate_left(16) & 0xFFFF_FFFF) * buckets) >> 32;
        let second = if second == first { (first + 1) % buckets } else { second };
        [first as usize, second as usize]
    }

    /// An empty slot, in the emptier bucket.
    #[inline]
    fn empty(&self, places: [usize; 2]) -> Option<usize> {
        let empty = places.map(|bucket| ways_of(&self.buckets[bucket], 0));
        let emptier = usize::from(empty[1].count_ones() > empty[0].count_ones());
        first(empty[emptier]).map(|way| places[emptier] * WAYS + way)
    }

    /// A slot for a new flow: in the emptier bucket, or that of an evicted flow.
    fn room(&mut self, hash: FlowHash, now_ms: u32) -> Option<FlowSlot> {
        let places = self.places(hash);
        let at = match self.empty(places) {
            Some(at) => {
                self.len += 1;
                at
            }
            None => {
                let slots = places.into_iter().flat_map(|b| b * WAYS..(b + 1) * WAYS);
                let idle = |at: &usize| self.idle_for(*at, now_ms);
                let may =
                    |at: &usize| idle(at) >= self.idle_ms || self.records[*at].counts.packets <= 1;
                let at = slots.filter(may).max_by_key(idle)?;
                self.evicted += 1;
                at
            }
        };
        self.buckets[at / WAYS][at % WAYS] = tag(hash);
        Some(FlowSlot(at as u32))
    }

    /// Milliseconds since a record's last packet; none if `now_ms` is before it.
    fn idle_for(&self, at: usize, now_ms: u32) -> u32 {
        let idle = now_ms.wrapping_sub(self.records[at].counts.last_ms);
        if idle > u32::MAX / 2 { 0 } else { idle }
    }

    fn clear(&mut self, at: usize) {
        self.buckets[at / WAYS][at % WAYS] = 0;
        self.len -= 1;
    }
}

fn ms(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// The tag of a hash; never zero.
#[inline(always)]
fn tag(hash: FlowHash) -> u16 {
    (hash.0 >> 32) as u16 | 1 << 15
}

/// The ways with a tag, one bit each.
#[inline(always)]
fn ways_of(bucket: &Bucket, tag: u16) -> u32 {
    (0..WAYS).fold(0, |ways, way| ways | u32::from(bucket[way] == tag) << way)
}

#[inline(always)]
fn first(ways: u32) -> Option<usize> {
    (ways != 0).then(|| ways.trailing_zeros() as usize)
}

#[inline(always)]
fn slot(bucket: usize, way: usize) -> FlowSlot {
    FlowSlot((bucket * WAYS + way) as u32)
}

#[cfg(test)]
mod tests;
