//! The memory tier: Data packets of one worker.
//!
//! Everything is allocated when the store is created: packet pieces ([`arena`]), 32 bytes per
//! entry, 24 for the policy, 18 for the map of names and 37 for prefixes.
//!
//! A prefix query finds the newest packet that arrived after an Interest asked for the prefix, as
//! far as a hint table remembers both ([`PrefixHints`]). The first such Interest is forwarded to a
//! producer, as with NDN-DPDK. If that packet was evicted or does not match, the query misses.
//! Lists of all packets under a prefix would find more, but cost some ten cache lines for each
//! packet inserted or evicted.

mod arena;
#[cfg(test)]
mod tests;

use plexus_table::names::{NameMap, PrefixHints, Spot};
use plexus_table::prefetch;

use super::policy::Policy;
use super::{Bytes, Data, Packet, Query};
use arena::Arena;
pub(super) use arena::Chain;

/// A packet requested by its own name may be inserted with the hashes of only this many prefixes,
/// the longest; shorter prefixes then do not find it.
pub const DEPTH: usize = 3;
/// Hints for each packet; some are stale.
const HINTS: usize = 4;
const HINTS_MIN: usize = 1 << 10;
/// Bytes of the longest packet.
pub const PACKET_MAX: usize = u16::MAX as usize;

/// How much a store may hold.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// Bytes for packets, in pieces of 256.
    pub bytes: u64,
    /// Packets; none if 0.
    pub entries: usize,
}

/// Bytes of a cache for each packet: the tables take 177 bytes each.
const BYTES_PER_PACKET: u64 = 1024;

impl MemoryLimits {
    /// For a cache of this many bytes.
    pub fn of(bytes: u64) -> MemoryLimits {
        let entries = usize::try_from(bytes / BYTES_PER_PACKET).unwrap_or(usize::MAX);
        MemoryLimits { bytes, entries }
    }
}

/// Most packets evicted at once when the capacity has been reduced.
const TRIM_MAX: usize = 64;

/// Requested since it was inserted, or known to have been requested before: worth a place on the
/// disk.
const WORTHY: u8 = 1;
/// It was on the disk when it was inserted.
const ON_DISK: u8 = 2;
/// It was read from the disk ahead, and no Interest has asked for it yet.
const AHEAD: u8 = 4;

#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    stale_at_ms: u64,
    first: u32,
    spot: Spot,
    len: u16,
    name_start: u16,
    name_len: u16,
    flags: u8,
}

/// Counters of a store, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Queries that found a packet.
    pub hits: u64,
    /// Queries that found none.
    pub misses: u64,
    /// Packets that were read ahead and asked for later.
    pub ahead_hits: u64,
    /// Packets inserted, new ones and new versions.
    pub inserted: u64,
    /// Packets evicted to make room.
    pub evicted: u64,
    /// Packets refused: larger than the store or 65,535 bytes, arriving while the capacity is 0, or
    /// with a crowded bucket in the map of names.
    pub refused: u64,
}

/// A packet that is evicted.
pub struct Evicted<'a> {
    /// The packet and its name.
    pub packet: Packet<'a>,
    /// Unix time from which it is stale, milliseconds.
    pub stale_at_ms: u64,
    /// It has been requested.
    pub is_worthy: bool,
    /// It was on the disk when it was inserted.
    pub was_on_disk: bool,
}

/// Data packets by name.
pub struct MemoryStore<P> {
    policy: P,
    arena: Arena,
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_name: NameMap,
    by_prefix: PrefixHints,
    pieces: u32,
    /// Capacity in packets.
    capacity: usize,
    stats: MemoryStats,
}

impl<P: Policy> MemoryStore<P> {
    /// An empty store, with the policy that `build` makes for slots and capacity (in bytes).
    pub fn new(limits: MemoryLimits, build: impl FnOnce(usize, u64) -> P) -> MemoryStore<P> {
        let pieces = (limits.bytes / arena::PIECE as u64).clamp(1, u64::from(u32::MAX) - 1) as u32;
        // An entry takes at least one piece.
        let slots = limits.entries.clamp(1, NameMap::CAPACITY_MAX.min(pieces as usize));
        let hints = (HINTS * slots).max(HINTS_MIN);
        let entry = Entry {
            hash: 0,
            stale_at_ms: 0,
            first: 0,
            spot: Spot::NONE,
            len: 0,
            name_start: 0,
            name_len: 0,
            flags: 0,
        };
        MemoryStore {
            policy: build(slots, u64::from(pieces) * arena::PIECE as u64),
            arena: Arena::new(pieces),
            entries: vec![entry; slots],
            free: (0..slots as u32).rev().collect(),
            by_name: NameMap::new(slots).expect("address space for names"),
            by_prefix: PrefixHints::new(hints).expect("address space for prefixes"),
            pieces,
            capacity: limits.entries.min(slots),
            stats: MemoryStats::default(),
        }
    }

    /// Packets in the store.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Capacity in packets.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the capacity in packets, at most the one at creation; returns the new value. Packets
    /// that exceed it are evicted by [`MemoryStore::trim`].
    pub fn set_capacity(&mut self, entries: usize) -> usize {
        self.capacity = entries.min(self.entries.len());
        self.capacity
    }

    /// True if there are more packets than the capacity.
    pub fn is_over(&self) -> bool {
        self.len() > self.capacity
    }

    /// Evicts some packets that exceed the capacity, at most 64. Calls `evicted` for each before.
    pub fn trim(&mut self, mut evicted: impl FnMut(Evicted<'_>)) {
        for _ in 0..TRIM_MAX {
            if !self.is_over() || !self.evict(&mut evicted) {
                return;
            }
        }
    }

    fn evict(&mut self, evicted: &mut impl FnMut(Evicted<'_>)) -> bool {
        let Some(slot) = self.policy.victim() else { return false };
        evicted(self.leaving(slot));
        self.stats.evicted += 1;
        self.release(slot);
        // Prefetches the next victim, and the memory that its eviction frees for the new packet.
        let [next, after] = self.policy.upcoming();
        if let Some((slot, _)) = next {
            self.arena.prefetch(self.entries[slot as usize].first);
        }
        if let Some((slot, hash)) = after {
            prefetch(&self.entries[slot as usize]);
            self.by_name.prefetch(hash);
            self.policy.prefetch(hash);
        }
        true
    }

    /// Prefetches the memory where a search for this hash begins.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.by_name.prefetch(hash);
    }

    /// Prefetches the memory that inserting a packet with this hash changes.
    #[inline(always)]
    pub fn prefetch_insert(&self, hash: u64) {
        self.by_name.prefetch(hash);
        self.policy.prefetch(hash);
    }

    /// Once that has arrived, prefetches what the search is likely to find; false if that is
    /// nothing.
    #[inline(always)]
    pub fn prefetch_found(&self, hash: u64) -> bool {
        let likely = self.by_name.likely(hash);
        likely.into_iter().for_each(|slot| prefetch(&self.entries[slot as usize]));
        likely.is_some()
    }

    /// Bytes of pieces in use.
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.pieces - self.arena.available()) * arena::PIECE as u64
    }

    /// Bytes of all pieces.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.pieces) * arena::PIECE as u64
    }

    /// Counters so far.
    pub fn stats(&self) -> MemoryStats {
        self.stats
    }

    fn packet(&self, slot: u32) -> Packet<'_> {
        let entry = &self.entries[slot as usize];
        let start = usize::from(entry.name_start);
        let name = start..start + usize::from(entry.name_len);
        Packet::new(Bytes::Chain(self.arena.packet(entry.first, entry.len.into())), name)
    }

    fn leaving(&self, slot: u32) -> Evicted<'_> {
        let Entry { stale_at_ms, flags, .. } = self.entries[slot as usize];
        Evicted {
            packet: self.packet(slot),
            stale_at_ms,
            is_worthy: flags & WORTHY != 0,
            was_on_disk: flags & ON_DISK != 0,
        }
    }

    /// Whether the entry's name begins with these bytes, and with `exactly` is no longer.
    fn is_named(&self, slot: u32, name: &[u8], exactly: bool) -> bool {
        let entry = &self.entries[slot as usize];
        let len = usize::from(entry.name_len);
        (if exactly { len == name.len() } else { len >= name.len() })
            && self
                .arena
                .packet(entry.first, entry.len.into())
                .has_at(entry.name_start.into(), name)
    }

    fn exact(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.by_name.find(hash, |slot| {
            self.entries[slot as usize].hash == hash && self.is_named(slot, name, true)
        })
    }

    /// Notes that an Interest asks for the prefix with this hash: later packets are recorded under
    /// it.
    pub fn ask_prefix(&mut self, hash: u64) {
        self.by_prefix.ask(hash);
    }

    /// The packet that answers a query: with exactly this name, or else the newest recorded under
    /// it.
    pub fn get(&mut self, query: &Query<'_>, now_ms: u64) -> Option<Packet<'_>> {
        if query.can_be_prefix {
            self.ask_prefix(query.hash);
        }
        let suits =
            |slot: &u32| !query.must_be_fresh || now_ms < self.entries[*slot as usize].stale_at_ms;
        let exact = self.exact(query.hash, query.name).filter(suits);
        let found = exact.or_else(|| {
            let is_below = |slot: u32| {
                self.entries[slot as usize].len > 0
                    && self.is_named(slot, query.name, false)
                    && suits(&slot)
            };
            let hint = || self.by_prefix.find(query.hash, is_below);
            query.can_be_prefix.then(hint).flatten()
        });
        let Some(slot) = found else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        let flags = &mut self.entries[slot as usize].flags;
        *flags |= WORTHY;
        if *flags & AHEAD != 0 {
            self.use_ahead(slot);
        }
        self.policy.on_hit(slot);
        Some(self.packet(slot))
    }

    /// The first query for a packet that was read ahead.
    #[cold]
    fn use_ahead(&mut self, slot: u32) {
        self.entries[slot as usize].flags &= !AHEAD;
        self.stats.ahead_hits += 1;
    }

    /// Marks the packet with exactly this name as read ahead.
    pub fn note_ahead(&mut self, hash: u64, name: &[u8]) {
        if let Some(slot) = self.exact(hash, name) {
            self.entries[slot as usize].flags |= AHEAD;
        }
    }

    /// Whether a packet with exactly this name is there, whatever its age. Not counted as a hit.
    pub fn contains(&self, hash: u64, name: &[u8]) -> bool {
        self.exact(hash, name).is_some()
    }

    /// Inserts a packet, replacing one with the same name. Calls `evicted` for each packet that
    /// makes room. False if it is refused ([`MemoryStats::refused`]).
    pub fn insert(
        &mut self,
        data: &Data<'_>,
        stale_at_ms: u64,
        from_disk: bool,
        mut evicted: impl FnMut(Evicted<'_>),
    ) -> bool {
        let pieces = Arena::pieces_of(data.packet.len());
        if data.packet.len() > PACKET_MAX || pieces > self.pieces || self.capacity == 0 {
            self.stats.refused += 1;
            return false;
        }
        let old = self.exact(data.hash, data.name());
        // A name that was fetched again had been requested again.
        let mut is_worthy = from_disk || old.is_some();
        if let Some(slot) = old {
            self.policy.on_remove(slot);
            self.release(slot);
        }
        while self.arena.available() < pieces || self.free.is_empty() {
            if !self.evict(&mut evicted) {
                return false;
            }
        }
        // One only: further packets over the capacity are evicted by `trim`.
        if self.len() >= self.capacity {
            self.evict(&mut evicted);
        }
        let Some(slot) = self.free.pop() else { return false };
        let Ok(spot) = self.by_name.insert(data.hash, slot) else {
            self.free.push(slot);
            self.stats.refused += 1;
            return false;
        };
        let first = self.arena.store(data.packet);
        let weight = pieces * arena::PIECE as u32;
        is_worthy |= self.policy.on_insert(slot, data.hash, weight);
        self.by_prefix.note(data.prefix_hashes, slot);
        self.entries[slot as usize] = Entry {
            hash: data.hash,
            stale_at_ms,
            first,
            spot,
            len: data.packet.len() as u16,
            name_start: data.name_at.start as u16,
            name_len: data.name_at.len() as u16,
            flags: if is_worthy { WORTHY } else { 0 } | if from_disk { ON_DISK } else { 0 },
        };
        self.stats.inserted += 1;
        true
    }

    /// Erases the packet with exactly this name. False if there was none.
    pub fn erase(&mut self, hash: u64, name: &[u8]) -> bool {
        let Some(slot) = self.exact(hash, name) else { return false };
        self.policy.on_remove(slot);
        self.release(slot);
        true
    }

    /// Erases packets under a prefix among `looks` entries from this one on, at most `limit`;
    /// returns how many were erased, and where to continue.
    pub(super) fn erase_under(
        &mut self,
        prefix: &[u8],
        from: usize,
        looks: usize,
        limit: usize,
    ) -> (usize, Option<usize>) {
        let mut count = 0;
        for slot in from..self.entries.len().min(from.saturating_add(looks)) {
            if count == limit {
                return (count, Some(slot));
            }
            if self.entries[slot].len > 0 && self.is_named(slot as u32, prefix, false) {
                self.policy.on_remove(slot as u32);
                self.release(slot as u32);
                count += 1;
            }
        }
        let next = from.saturating_add(looks);
        (count, (next < self.entries.len()).then_some(next))
    }

    /// Frees the entry's memory; the policy has already forgotten it.
    fn release(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        let removed = self.by_name.remove(entry.hash, slot, entry.spot);
        debug_assert!(removed, "packet {slot} is missing in the index");
        self.arena.release(entry.first);
        self.entries[slot as usize].len = 0;
        self.free.push(slot);
    }
}
