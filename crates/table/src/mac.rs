//! The MAC table: (VLAN, address) → port, for a million stations and more.
//!
//! A cuckoo hash table with buckets of one cache line: five keys, their five values, and a count of
//! the keys that are in their second bucket, so that most lookups, hits and misses alike, touch a
//! single line. The hash is keyed with a secret seed, because stations choose their own addresses:
//! without the seed an attacker cannot aim at a bucket.
//!
//! ```text
//! bucket, 64 bytes
//! | key 0 | key 1 | key 2 | key 3 | key 4 | v0 | v1 | v2 | v3 | v4 | displaced |
//!    8       8       8       8       8      4    4    4    4    4       4
//! value: | stamp 16 | static 1 | 0 | port 14 |
//! ```
//!
//! Time stamps are 16-bit counts of a unit that the caller chooses; a sweep must visit every
//! entry before the count wraps.

use plexus_wire::MacAddr;

use crate::hash::Hasher;
use crate::prefetch::prefetch;

const WAYS: usize = 5;
const EMPTY: u64 = 0;
const STATIC: u32 = 1 << 15;
const PORT_MASK: u32 = (1 << 14) - 1;

/// Buckets tried in the search for room. At the load that `MacTable::new` allows (half) the first
/// few suffice; the bound is for tables that are nearly full or under attack.
const MAX_STEPS: usize = 128;
/// The search begins at a key's two buckets.
const ROOTS: usize = 2;

/// A VLAN (1 to 4094) and an address, packed in 60 bits; never zero for a valid VLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacKey(u64);

impl MacKey {
    /// The key of a station.
    #[inline]
    pub const fn new(vlan: u16, mac: MacAddr) -> MacKey {
        MacKey::from_u64(vlan, mac.to_u64())
    }

    /// The key of a station whose address is the lower 48 bits of `mac`.
    #[inline]
    pub const fn from_u64(vlan: u16, mac: u64) -> MacKey {
        MacKey((vlan as u64) << 48 | mac & 0xFFFF_FFFF_FFFF)
    }

    /// True if the address is multicast, including broadcast.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0 >> 40 & 1 == 1
    }

    /// True if it is the broadcast address.
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        self.0 & 0xFFFF_FFFF_FFFF == 0xFFFF_FFFF_FFFF
    }

    /// The VLAN.
    pub const fn vlan(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The address as an integer of 48 bits.
    #[inline]
    pub const fn mac_u64(self) -> u64 {
        self.0 & 0xFFFF_FFFF_FFFF
    }

    /// The address.
    pub const fn mac(self) -> MacAddr {
        MacAddr::from_u64(self.0 & 0xFFFF_FFFF_FFFF)
    }
}

/// The table's record of a station, in four bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Station(u32);

impl Station {
    /// A station that was heard on `port` (below 16,384) at `stamp`.
    #[inline]
    pub const fn learned(port: u16, stamp: u16) -> Station {
        Station((stamp as u32) << 16 | port as u32 & PORT_MASK)
    }

    /// A station that is configured to be on `port`.
    pub const fn fixed(port: u16) -> Station {
        Station(STATIC | port as u32 & PORT_MASK)
    }

    /// Its port.
    #[inline]
    pub const fn port(self) -> u16 {
        (self.0 & PORT_MASK) as u16
    }

    /// When it was last heard.
    #[inline]
    pub const fn stamp(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// True if it is configured: then it neither moves nor ages.
    #[inline]
    pub const fn is_static(self) -> bool {
        self.0 & STATIC != 0
    }
}

impl std::fmt::Debug for Station {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.is_static() { "static" } else { "learned" };
        write!(f, "{kind} on port {} at {}", self.port(), self.stamp())
    }
}

/// A key's hash, computed once and used for prefetch, lookup and insertion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed(u64);

/// The slot of a key; valid until the table is changed by anything but `set`.
#[derive(Clone, Copy, Debug)]
pub struct Slot(u32);

/// The table is full, or found no room for this station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    keys: [u64; WAYS],
    values: [Station; WAYS],
    /// How many keys whose first bucket this is are in their second one.
    displaced: u32,
}

/// A bucket reached by the search for room, by moving `way` of step `from`.
#[derive(Clone, Copy, Default)]
struct Step {
    bucket: usize,
    from: usize,
    way: usize,
}

const EMPTY_BUCKET: Bucket =
    Bucket { keys: [EMPTY; WAYS], values: [Station(0); WAYS], displaced: 0 };

/// (VLAN, address) → station.
pub struct MacTable {
    buckets: Box<[Bucket]>,
    mask: u64,
    hasher: Hasher,
    len: usize,
    capacity: usize,
}

impl MacTable {
    /// A table for `capacity` stations. `seed` should be secret.
    pub fn new(capacity: usize, seed: u64) -> MacTable {
        let capacity = MacTable::capacity_for(capacity);
        let count = (capacity * 2).div_ceil(WAYS).next_power_of_two().max(2);
        MacTable {
            buckets: vec![EMPTY_BUCKET; count].into_boxed_slice(),
            mask: count as u64 - 1,
            hasher: Hasher::new(seed),
            len: 0,
            capacity,
        }
    }

    /// The capacity that a table gets when `wanted` is asked for.
    pub fn capacity_for(wanted: usize) -> usize {
        wanted.clamp(1, 1 << 28)
    }

    /// How many stations it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many stations it may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of memory that the table occupies.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Hashes a key and prefetches its most likely bucket.
    #[inline]
    pub fn prefetch(&self, key: MacKey) -> Hashed {
        let hashed = self.hash(key);
        prefetch(&self.buckets[self.first(hashed)]);
        hashed
    }

    /// The key's hash.
    #[inline]
    pub fn hash(&self, key: MacKey) -> Hashed {
        Hashed(self.hasher.hash(key.0))
    }

    /// Finds a key.
    #[inline(always)]
    pub fn find(&self, key: MacKey, hashed: Hashed) -> Option<Slot> {
        let first = self.first(hashed);
        let bucket = &self.buckets[first];
        if let Some(way) = bucket.way_of(key.0) {
            return Some(Slot::new(first, way));
        }
        if bucket.displaced == 0 {
            return None;
        }
        let second = self.second(hashed);
        self.buckets[second].way_of(key.0).map(|way| Slot::new(second, way))
    }

    /// The station in a slot.
    #[inline]
    pub fn at(&self, slot: Slot) -> Station {
        self.buckets[slot.bucket()].values[slot.way()]
    }

    /// Replaces the station in a slot.
    #[inline]
    pub fn set(&mut self, slot: Slot, station: Station) {
        self.buckets[slot.bucket()].values[slot.way()] = station;
    }

    /// The station of a key.
    pub fn get(&self, key: MacKey) -> Option<Station> {
        self.find(key, self.hash(key)).map(|slot| self.at(slot))
    }

    /// Inserts a station, or replaces its record; returns the previous one.
    ///
    /// # Errors
    /// [`Full`]: nothing was changed.
    pub fn insert(&mut self, key: MacKey, station: Station) -> Result<Option<Station>, Full> {
        let hashed = self.hash(key);
        if let Some(slot) = self.find(key, hashed) {
            let before = self.at(slot);
            self.set(slot, station);
            return Ok(Some(before));
        }
        if self.len >= self.capacity || key.0 == EMPTY {
            return Err(Full);
        }
        let (first, second) = (self.first(hashed), self.second(hashed));
        if !self.place(first, key.0, station) {
            let free = if self.has_room(second) { Some(second) } else { None };
            let free = free.or_else(|| self.make_room(first, second)).ok_or(Full)?;
            self.place(free, key.0, station);
            self.buckets[first].displaced += u32::from(free == second);
        }
        self.len += 1;
        Ok(None)
    }

    /// Removes a station.
    pub fn remove(&mut self, key: MacKey) -> Option<Station> {
        let hashed = self.hash(key);
        let slot = self.find(key, hashed)?;
        let station = self.at(slot);
        self.clear(slot.bucket(), slot.way());
        Some(station)
    }

    /// Visits `count` buckets starting with `from`, wrapping around, and removes the stations for
    /// which `keep` is false. Returns where to continue.
    pub fn sweep(
        &mut self,
        from: usize,
        count: usize,
        mut keep: impl FnMut(MacKey, Station) -> bool,
    ) -> usize {
        let total = self.buckets.len();
        let mut index = from % total;
        for _ in 0..count.min(total) {
            for way in 0..WAYS {
                let (key, station) =
                    (self.buckets[index].keys[way], self.buckets[index].values[way]);
                if key != EMPTY && !keep(MacKey(key), station) {
                    self.clear(index, way);
                }
            }
            index = (index + 1) % total;
        }
        index
    }

    /// How many buckets there are: `sweep(0, buckets(), …)` visits every station.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Every station, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (MacKey, Station)> {
        self.buckets.iter().flat_map(|b| {
            (0..WAYS).filter(|&w| b.keys[w] != EMPTY).map(|w| (MacKey(b.keys[w]), b.values[w]))
        })
    }

    #[inline]
    fn first(&self, hashed: Hashed) -> usize {
        (hashed.0 & self.mask) as usize
    }

    #[inline]
    fn second(&self, hashed: Hashed) -> usize {
        let first = hashed.0 & self.mask;
        let second = (hashed.0 >> 32) & self.mask;
        (if second == first { second ^ 1 } else { second }) as usize
    }

    fn has_room(&self, bucket: usize) -> bool {
        self.buckets[bucket].way_of(EMPTY).is_some()
    }

    fn place(&mut self, bucket: usize, key: u64, station: Station) -> bool {
        let bucket = &mut self.buckets[bucket];
        let Some(way) = bucket.way_of(EMPTY) else { return false };
        bucket.keys[way] = key;
        bucket.values[way] = station;
        true
    }

    fn clear(&mut self, bucket: usize, way: usize) {
        let key = MacKey(self.buckets[bucket].keys[way]);
        let first = self.first(self.hash(key));
        if first != bucket {
            self.buckets[first].displaced -= 1;
        }
        self.buckets[bucket].keys[way] = EMPTY;
        self.len -= 1;
    }

    /// Frees a way of one of the two buckets by moving stations to their other buckets, and returns
    /// which. The shortest chain is found first (breadth first) and processed from its far end, so
    /// that a failure changes nothing.
    fn make_room(&mut self, first: usize, second: usize) -> Option<usize> {
        let mut steps = [Step::default(); MAX_STEPS];
        steps[0].bucket = first;
        steps[1].bucket = second;
        let mut known = 2;
        for from in 0..MAX_STEPS {
            if from >= known {
                return None;
            }
            let bucket = steps[from].bucket;
            for way in 0..WAYS {
                let next = self.other(bucket, way);
                if self.has_room(next) {
                    return Some(self.push_along(&steps, Step { bucket, from, way }, next));
                }
                if known < MAX_STEPS && steps[..known].iter().all(|s| s.bucket != next) {
                    steps[known] = Step { bucket: next, from, way };
                    known += 1;
                }
            }
        }
        None
    }

    /// Moves the station of `last` into `into`, its predecessor into its place, and so on; returns
    /// the root bucket, which now has room.
    fn push_along(&mut self, steps: &[Step], last: Step, mut into: usize) -> usize {
        let (mut at, mut way) = (last.from, last.way);
        loop {
            let bucket = steps[at].bucket;
            let (key, station) = (self.buckets[bucket].keys[way], self.buckets[bucket].values[way]);
            let first = self.first(self.hash(MacKey(key)));
            self.buckets[bucket].keys[way] = EMPTY;
            self.place(into, key, station);
            if into == first {
                self.buckets[first].displaced -= 1;
            } else {
                self.buckets[first].displaced += 1;
            }
            if at < ROOTS {
                return bucket;
            }
            into = bucket;
            (at, way) = (steps[at].from, steps[at].way);
        }
    }

    /// The other bucket of the key in this way.
    fn other(&self, bucket: usize, way: usize) -> usize {
        let hashed = self.hash(MacKey(self.buckets[bucket].keys[way]));
        let (first, second) = (self.first(hashed), self.second(hashed));
        if bucket == first { second } else { first }
    }
}

impl Bucket {
    /// The way of a key, without a branch per way, because the way is unpredictable.
    #[inline(always)]
    fn way_of(&self, key: u64) -> Option<usize> {
        let mut hits = 0u32;
        for way in 0..WAYS {
            hits |= u32::from(self.keys[way] == key) << way;
        }
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }
}

impl Slot {
    #[inline]
    fn new(bucket: usize, way: usize) -> Slot {
        Slot((bucket as u32) << 3 | way as u32)
    }

    #[inline]
    fn bucket(self) -> usize {
        (self.0 >> 3) as usize
    }

    #[inline]
    fn way(self) -> usize {
        (self.0 & 7) as usize
    }
}

#[cfg(test)]
mod tests;
