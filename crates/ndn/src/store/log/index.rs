//! The index of objects on the disk: 16 bytes each, in buckets of one cache line.
//!
//! An object may be in either of two buckets and goes to the emptier one; at three quarters full
//! (21.3 bytes per object) seven in a thousand are displaced early. Entries of overwritten segments
//! are not removed: they are recognised by the number of the round in which they were written, and
//! are reused for new entries.

use super::format::UNIT;

/// Entries per bucket.
const WAYS: usize = 4;
/// Objects per hundred entries that an index is made for.
const FILL_PERCENT: usize = 75;

/// The location of an object. Zero units: free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    tag_high: u32,
    /// In units from the first segment: up to 2 TiB.
    pub(super) unit: u32,
    /// Unix time, seconds; rounded down.
    pub(super) stale_at_s: u32,
    tag_low: u16,
    /// The low bits of the round in which it was written.
    pub(super) round: u8,
    pub(super) units: u8,
}

impl Place {
    pub(super) fn new(hash: u64, unit: u32, units: u8, round: u8, stale_at_s: u32) -> Place {
        let tag = tag(hash);
        Place { tag_high: tag.0, tag_low: tag.1, unit, stale_at_s, round, units }
    }

    fn is(&self, tag: (u32, u16)) -> bool {
        self.units > 0 && (self.tag_high, self.tag_low) == tag
    }

    /// Bytes from the first segment's beginning.
    pub(super) fn byte(&self) -> u64 {
        u64::from(self.unit) * UNIT as u64
    }
}

fn tag(hash: u64) -> (u32, u16) {
    ((hash >> 32) as u32, (hash >> 16) as u16)
}

#[repr(align(64))]
#[derive(Clone, Copy, Default)]
struct Bucket([Place; WAYS]);

pub(super) struct Index {
    buckets: Vec<Bucket>,
}

impl Index {
    /// For this many objects.
    pub(super) fn new(objects: usize) -> Index {
        let entries = objects.saturating_mul(100).div_ceil(FILL_PERCENT);
        Index { buckets: vec![Bucket::default(); entries.div_ceil(WAYS).max(2)] }
    }

    pub(super) fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// The two buckets of a hash: from its lower half, and from a mixture.
    fn homes(&self, hash: u64) -> [usize; 2] {
        let count = self.buckets.len() as u64;
        let scale = |bits: u64| (((bits & 0xFFFF_FFFF) * count) >> 32) as usize;
        let mixed = (hash ^ (hash >> 29)).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        [scale(hash), scale(mixed >> 32)]
    }

    pub(super) fn find(&self, hash: u64) -> Option<Place> {
        let tag = tag(hash);
        let of = |home: usize| self.buckets[home].0.iter().find(|place| place.is(tag)).copied();
        let [first, second] = self.homes(hash);
        of(first).or_else(|| of(second))
    }

    /// Removes the object with this hash, if it is at this location.
    pub(super) fn remove(&mut self, hash: u64, unit: u32) {
        let tag = tag(hash);
        for home in self.homes(hash) {
            let found = |place: &&mut Place| place.is(tag) && place.unit == unit;
            if let Some(place) = self.buckets[home].0.iter_mut().find(found) {
                *place = Place::default();
                return;
            }
        }
    }

    /// Inserts an object, replacing one with the same hash, a free entry, or the oldest. Entries
    /// without an age are free. Returns the entry that was evicted.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        place: Place,
        age: impl Fn(&Place) -> Option<u64>,
    ) -> Option<Place> {
        let homes = self.homes(hash);
        let tag = tag(hash);
        for home in homes {
            if let Some(old) = self.buckets[home].0.iter_mut().find(|old| old.is(tag)) {
                let old = std::mem::replace(old, place);
                return age(&old).map(|_| old);
            }
        }
        let free = |home: usize| {
            let is_free = |old: &Place| old.units == 0 || age(old).is_none();
            self.buckets[home].0.iter().filter(|old| is_free(old)).count()
        };
        let home = if free(homes[1]) > free(homes[0]) { homes[1] } else { homes[0] };
        let rank = |old: &&mut Place| if old.units == 0 { None } else { age(old) };
        // Free entries first, then the oldest.
        let key = |old: &&mut Place| rank(old).map_or(u64::MAX, |age| age.min(u64::MAX - 1));
        let slot = self.buckets[home].0.iter_mut().max_by_key(key)?;
        let old = std::mem::replace(slot, place);
        if old.units == 0 { None } else { age(&old).map(|_| old) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&i.to_le_bytes())
    }

    #[test]
    fn it_takes_at_most_24_bytes_per_object_and_finds_nearly_all() {
        const OBJECTS: usize = 100_000;
        let mut index = Index::new(OBJECTS);
        assert!(index.bytes() <= 24 * OBJECTS, "{} bytes", index.bytes());
        let mut lost = 0;
        for i in 0..OBJECTS as u64 {
            let place = Place::new(hash(i), i as u32, 1, 0, 0);
            lost +=
                usize::from(index.insert(hash(i), place, |p| Some(u64::from(p.unit))).is_some());
        }
        assert!(lost < OBJECTS / 100, "{lost} of {OBJECTS} were displaced");
        let found = (0..OBJECTS as u64)
            .filter(|&i| index.find(hash(i)).is_some_and(|place| place.unit == i as u32));
        assert_eq!(found.count(), OBJECTS - lost);
    }

    #[test]
    fn a_new_version_replaces_the_old_one_and_ageless_entries_are_free() {
        let mut index = Index::new(4);
        let at = |unit| Place::new(hash(1), unit, 1, 0, 0);
        assert_eq!(index.insert(hash(1), at(1), |_| Some(0)), None);
        assert_eq!(index.insert(hash(1), at(2), |_| Some(0)), Some(at(1)));
        assert_eq!(index.insert(hash(1), at(3), |_| None), None);
        index.remove(hash(1), 2);
        assert_eq!(index.find(hash(1)), Some(at(3)));
        index.remove(hash(1), 3);
        assert_eq!(index.find(hash(1)), None);
    }
}
