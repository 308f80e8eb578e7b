//! A port's route memory (`axon.txt` §4.1.1): destination, or destination and source, to routes.
//!
//! Each route is a local output port and the ready-made header to prepend, so that a lookup ends
//! with a copy. Most destinations have one route of few hops: it is stored next to its key, and a
//! lookup touches one cache line. Longer headers and sets of several routes are stored separately.
//!
//! ```text
//! entry, 32 bytes
//! | destination 48 | source 48 | set 16 | port 8 | length 8 | header 16 bytes |
//! ```
//!
//! The table is divided into shards of some hundred entries behind `Arc`s. A clone shares them all,
//! and a change copies only its own shard: so installing a route takes microseconds, whatever the
//! size, while readers continue with their version of the table.

use std::sync::Arc;

use arrayvec::ArrayVec;
use plexus_wire::MacAddr;
use plexus_wire::fabric::HEADER_LEN_MAX;

use crate::hash::Hasher;
use crate::prefetch::prefetch;

/// Most routes of one destination.
pub const ROUTES_MAX: usize = 8;
/// Bytes of a header that is stored next to its key: ten hops.
const INLINE: usize = 16;
/// No set: the only route is in the entry.
const NO_SET: u16 = u16::MAX;
/// Average entries per shard above which the number of shards doubles.
const SHARD_LOAD: usize = 128;
const SLOTS_MIN: usize = 4;

/// The key of a route: the destination, or the destination and the source, if each station behind a
/// port may have routes of its own (`axon.txt` §3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    /// The destination; zero is no destination.
    pub destination: MacAddr,
    /// The source; none for the routes of every source without routes of its own.
    pub source: Option<MacAddr>,
}

/// A route to a destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The local output port.
    pub port: u8,
    /// The header to prepend, as the next node has to find it; empty for a host's port.
    pub header: ArrayVec<u8, HEADER_LEN_MAX>,
}

/// One to eight routes of a destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteSet(Vec<Route>);

impl RouteSet {
    /// A set of these routes; none unless they are one to eight.
    pub fn new(routes: Vec<Route>) -> Option<RouteSet> {
        (1..=ROUTES_MAX).contains(&routes.len()).then_some(RouteSet(routes))
    }

    /// The routes.
    pub fn routes(&self) -> &[Route] {
        &self.0
    }
}

impl From<Route> for RouteSet {
    fn from(route: Route) -> RouteSet {
        RouteSet(vec![route])
    }
}

/// The routes found for a destination.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    entry: &'a Entry,
    shard: &'a Shard,
}

impl<'a> Found<'a> {
    /// How many there are, at least one.
    #[inline]
    pub fn len(&self) -> usize {
        match self.single() {
            Some(_) => 1,
            None => self.set().len(),
        }
    }

    /// Never: there is at least one route.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Port and header of a route.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(u8, &'a [u8])> {
        match self.single() {
            Some(route) => (index == 0).then_some(route),
            None => self.set().get(index).map(|r| (r.port, &r.header[..])),
        }
    }

    /// Port and header of the only route, if it has few hops.
    #[inline(always)]
    pub fn single(&self) -> Option<(u8, &'a [u8])> {
        let len = usize::from(self.entry.len).min(INLINE);
        (self.entry.set == NO_SET).then_some((self.entry.port, &self.entry.header[..len]))
    }

    fn set(&self) -> &'a [Route] {
        self.shard.sets.get(usize::from(self.entry.set)).map_or(&[], RouteSet::routes)
    }

    fn to_set(self) -> RouteSet {
        match self.single() {
            Some((port, header)) => {
                RouteSet(vec![Route { port, header: header.iter().copied().collect() }])
            }
            None => RouteSet(self.set().to_vec()),
        }
    }
}

/// Where to search for a destination's routes: computed once, for prefetch and lookup.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    shard: &'a Shard,
    hashed: RouteHash,
}

/// A key's hash.
#[derive(Clone, Copy, Debug, Default)]
struct RouteHash(u64);

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Entry {
    /// Destination, then the upper 16 bits of the source; 0 if the slot is empty.
    high: u64,
    /// The lower 32 bits of the source.
    low: u32,
    set: u16,
    port: u8,
    len: u8,
    header: [u8; INLINE],
}

const EMPTY: Entry = Entry { high: 0, low: 0, set: NO_SET, port: 0, len: 0, header: [0; INLINE] };

/// A part of the entries: open addressing with linear probing, at most half full. The position and
/// number of slots are stored in the list of shards itself, so that a lookup follows one pointer.
#[derive(Clone, Debug)]
struct Shard {
    slots: Arc<[Entry]>,
    sets: Arc<Vec<RouteSet>>,
    len: usize,
}

/// Destination, or destination and source, to routes.
#[derive(Clone, Debug)]
pub struct PortRoutes {
    /// A power of two.
    shards: Box<[Shard]>,
    len: usize,
    /// How many keys have a source.
    sourced: usize,
    hasher: Hasher,
}

impl PortRoutes {
    /// A table without routes. `seed` should be secret.
    pub fn new(seed: u64) -> PortRoutes {
        let shards = vec![Shard::with_slots(SLOTS_MIN)].into_boxed_slice();
        PortRoutes { shards, len: 0, sourced: 0, hasher: Hasher::new(seed) }
    }

    /// How many keys have routes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no routes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Hashes a destination (the lower 48 bits of an integer) and prefetches the most likely line
    /// of its routes.
    #[inline(always)]
    pub fn prefetch(&self, destination: u64) -> Probe<'_> {
        let hashed = self.hash(destination, 0);
        let shard = self.shard(hashed);
        prefetch(&shard.slots[shard.slot(hashed)]);
        Probe { shard, hashed }
    }

    /// The routes from a source to a destination, each the lower 48 bits of an integer: those of
    /// that source if it has its own, otherwise those of every source. `probe` is what
    /// [`prefetch`](Self::prefetch) gave for the destination.
    #[inline(always)]
    pub fn find<'a>(
        &'a self,
        destination: u64,
        source: u64,
        probe: Probe<'a>,
    ) -> Option<Found<'a>> {
        if self.sourced > 0
            && let Some(found) = self.find_exactly(destination, source)
        {
            return Some(found);
        }
        probe.shard.find(destination, 0, probe.hashed)
    }

    /// [`find`](Self::find), including the hash.
    pub fn get(&self, destination: MacAddr, source: MacAddr) -> Option<Found<'_>> {
        let (destination, source) = (destination.to_u64(), source.to_u64());
        self.find(destination, source, self.prefetch(destination))
    }

    #[inline(never)]
    fn find_exactly(&self, destination: u64, source: u64) -> Option<Found<'_>> {
        let hashed = self.hash(destination, source);
        self.shard(hashed).find(destination, source, hashed)
    }

    /// Inserts routes, or replaces those of the key. False, without a change, if the destination or
    /// the source is zero, which is not an address.
    pub fn insert(&mut self, key: RouteKey, set: RouteSet) -> bool {
        let Some((destination, source)) = integers(key) else { return false };
        let hashed = self.hash(destination, source);
        let index = self.shard_index(hashed);
        let is_new =
            self.shards[index].insert((destination, source), set, |d, s| self.hasher.of(d, s));
        if is_new {
            self.len += 1;
            self.sourced += usize::from(source != 0);
            if self.len > self.shards.len() * SHARD_LOAD {
                self.grow();
            }
        }
        true
    }

    /// Removes a key's routes; false if it had none.
    pub fn remove(&mut self, key: RouteKey) -> bool {
        let Some((destination, source)) = integers(key) else { return false };
        let hashed = self.hash(destination, source);
        let index = self.shard_index(hashed);
        if self.shards[index].find(destination, source, hashed).is_none() {
            return false;
        }
        let others = self.shards[index].iter().filter(|(key, _)| *key != (destination, source));
        let shard = Shard::of(others.map(|(k, f)| (k, f.to_set())).collect(), &self.hasher);
        self.shards[index] = shard;
        self.len -= 1;
        self.sourced -= usize::from(source != 0);
        true
    }

    /// Removes the routes of all keys for which `keep` is false; returns how many there were.
    /// Unchanged shards are not copied.
    pub fn retain(&mut self, mut keep: impl FnMut(RouteKey, Found<'_>) -> bool) -> usize {
        let before = self.len;
        for shard in &mut self.shards {
            let mut kept = Vec::with_capacity(shard.len);
            kept.extend(shard.iter().filter(|&(k, found)| keep(key(k), found)));
            if kept.len() < shard.len {
                let gone = shard.len - kept.len();
                let sourced = |k: &(u64, u64)| k.1 != 0;
                let sourced_before = shard.iter().filter(|(k, _)| sourced(k)).count();
                self.sourced -= sourced_before - kept.iter().filter(|(k, _)| sourced(k)).count();
                self.len -= gone;
                let kept = kept.into_iter().map(|(k, f)| (k, f.to_set())).collect();
                *shard = Shard::of(kept, &self.hasher);
            }
        }
        before - self.len
    }

    /// Every key with its routes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (RouteKey, Found<'_>)> {
        self.shards.iter().flat_map(|s| s.iter()).map(|(k, found)| (key(k), found))
    }

    /// Doubles the number of shards.
    fn grow(&mut self) {
        let count = self.shards.len() * 2;
        let mut parts: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        for ((d, s), found) in self.shards.iter().flat_map(|shard| shard.iter()) {
            let part = (self.hash(d, s).0 >> 32) as usize & (count - 1);
            parts[part].push(((d, s), found.to_set()));
        }
        self.shards = parts.into_iter().map(|part| Shard::of(part, &self.hasher)).collect();
    }

    #[inline(always)]
    fn hash(&self, destination: u64, source: u64) -> RouteHash {
        self.hasher.of(destination, source)
    }

    #[inline(always)]
    fn shard_index(&self, hashed: RouteHash) -> usize {
        (hashed.0 >> 32) as usize & (self.shards.len() - 1)
    }

    #[inline(always)]
    fn shard(&self, hashed: RouteHash) -> &Shard {
        &self.shards[self.shard_index(hashed)]
    }
}

impl Hasher {
    #[inline(always)]
    fn of(&self, destination: u64, source: u64) -> RouteHash {
        match source {
            0 => RouteHash(self.hash(destination)),
            source => RouteHash(self.hash_pair(destination, source)),
        }
    }
}

/// A key as two integers, the source 0 for none; none for an address of zero.
fn integers(key: RouteKey) -> Option<(u64, u64)> {
    let source = key.source.map_or(0, MacAddr::to_u64);
    let sound = key.destination != MacAddr::default() && (key.source.is_none() || source != 0);
    sound.then_some((key.destination.to_u64(), source))
}

fn key((destination, source): (u64, u64)) -> RouteKey {
    let source = (source != 0).then_some(MacAddr::from_u64(source));
    RouteKey { destination: MacAddr::from_u64(destination), source }
}

impl Shard {
    fn with_slots(slots: usize) -> Shard {
        Shard { slots: vec![EMPTY; slots].into(), sets: Arc::default(), len: 0 }
    }

    /// A shard of entries with different keys.
    fn of(entries: Vec<((u64, u64), RouteSet)>, hasher: &Hasher) -> Shard {
        let slots = (entries.len() * 2).next_power_of_two().max(SLOTS_MIN);
        let mut shard = Shard::with_slots(slots);
        for ((d, s), set) in entries {
            shard.place((d, s), set, hasher.of(d, s));
        }
        shard
    }

    #[inline(always)]
    fn slot(&self, hashed: RouteHash) -> usize {
        hashed.0 as usize & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn find(&self, destination: u64, source: u64, hashed: RouteHash) -> Option<Found<'_>> {
        let (high, low) = words(destination, source);
        let mut at = hashed.0 as usize;
        loop {
            // There is an empty slot, since at most half are taken.
            let entry = &self.slots[at & (self.slots.len() - 1)];
            // Checked first, because destination zero must not match an empty slot.
            if entry.high == 0 {
                return None;
            }
            if entry.high == high && entry.low == low {
                return Some(Found { entry, shard: self });
            }
            at += 1;
        }
    }

    fn iter(&self) -> impl Iterator<Item = ((u64, u64), Found<'_>)> {
        self.slots.iter().filter(|e| e.high != 0).map(|e| {
            let key = (e.high >> 16, (e.high & 0xFFFF) << 32 | u64::from(e.low));
            (key, Found { entry: e, shard: self })
        })
    }

    /// Puts routes in or replaces those of the key; true if it is new.
    fn insert(
        &mut self,
        key: (u64, u64),
        set: RouteSet,
        hash: impl Fn(u64, u64) -> RouteHash,
    ) -> bool {
        let hashed = hash(key.0, key.1);
        let is_new = self.find(key.0, key.1, hashed).is_none();
        let is_full = is_new && (self.len + 1) * 2 > self.slots.len();
        if !is_new || is_full {
            // Rebuilt: larger, or without what is replaced.
            let others = self.iter().filter(|(k, _)| *k != key);
            let others: Vec<_> = others.map(|(k, found)| (k, found.to_set())).collect();
            let slots = ((others.len() + 1) * 2).next_power_of_two().max(SLOTS_MIN);
            *self = Shard::with_slots(slots);
            for ((d, s), set) in others {
                self.place((d, s), set, hash(d, s));
            }
        }
        self.place(key, set, hashed);
        is_new
    }

    /// Inserts a missing key; there has to be room.
    fn place(&mut self, key: (u64, u64), set: RouteSet, hashed: RouteHash) {
        let (high, low) = words(key.0, key.1);
        let mut entry = Entry { high, low, ..EMPTY };
        match set.routes() {
            [route] if route.header.len() <= INLINE => {
                entry.port = route.port;
                entry.len = route.header.len() as u8;
                entry.header[..route.header.len()].copy_from_slice(&route.header);
            }
            _ => {
                // A shard has at most some hundred entries: the hash spreads them.
                entry.set = self.sets.len() as u16;
                Arc::make_mut(&mut self.sets).push(set);
            }
        }
        let mask = self.slots.len() - 1;
        let mut at = self.slot(hashed);
        let slots = Arc::make_mut(&mut self.slots);
        while slots[at].high != 0 {
            at = (at + 1) & mask;
        }
        slots[at] = entry;
        self.len += 1;
    }
}

/// The encoding of a key in an entry; the first word is never zero for a key, because no
/// destination is.
#[inline(always)]
const fn words(destination: u64, source: u64) -> (u64, u32) {
    (destination << 16 | (source >> 32) & 0xFFFF, source as u32)
}

const _: () = assert!(size_of::<Entry>() == 32);

#[cfg(test)]
mod tests;
