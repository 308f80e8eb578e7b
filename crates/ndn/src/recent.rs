//! A fixed-size table that evicts the least recently used value: eight slots per keyed hash.
//! Measurements are kept in it.

use plexus_wire::Time;

const WAYS: usize = 8;

struct Place<T> {
    key: u64,
    until: Time,
    used: Time,
    value: T,
}

/// Values by keyed hash, each with an end.
pub(crate) struct Recent<T> {
    places: Box<[Option<Place<T>>]>,
}

impl<T> Recent<T> {
    pub(crate) fn new(capacity: usize) -> Recent<T> {
        let places = capacity.max(WAYS).next_power_of_two();
        Recent { places: (0..places).map(|_| None).collect() }
    }

    fn ways(&self, key: u64) -> std::ops::Range<usize> {
        let first = (key >> 32) as usize & (self.places.len() - 1) & !(WAYS - 1);
        first..first + WAYS
    }

    /// The value of a key, if it has not expired; it now lasts until `until`.
    pub(crate) fn get(&mut self, key: u64, now: Time, until: Time) -> Option<&mut T> {
        let ways = self.ways(key);
        let place = self.places[ways].iter_mut().flatten().find(|p| p.key == key)?;
        if place.until <= now {
            return None;
        }
        (place.used, place.until) = (now, until);
        Some(&mut place.value)
    }

    /// The value of a key, without extending its life.
    pub(crate) fn peek(&self, key: u64, now: Time) -> Option<&T> {
        let place = self.places[self.ways(key)].iter().flatten().find(|p| p.key == key)?;
        (place.until > now).then_some(&place.value)
    }

    /// The value of a key; if there is none, a new one in the slot of an expired value, or else of
    /// the least recently used one.
    pub(crate) fn get_or_insert(
        &mut self,
        key: u64,
        now: Time,
        until: Time,
        make: impl FnOnce() -> T,
    ) -> &mut T {
        let ways = self.ways(key);
        let first = ways.start;
        let rank = |place: &Option<Place<T>>| match place {
            Some(p) if p.key == key => (0, Time::ZERO),
            None => (1, Time::ZERO),
            Some(p) if p.until <= now => (1, p.used),
            Some(p) => (2, p.used),
        };
        let at = (ways).min_by_key(|&at| rank(&self.places[at])).unwrap_or(first);
        let place = &mut self.places[at];
        if !matches!(place, Some(p) if p.key == key && p.until > now) {
            *place = None;
        }
        let place = place.get_or_insert_with(|| Place { key, until, used: now, value: make() });
        (place.used, place.until) = (now, until);
        &mut place.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_values_are_absent_and_unused_ones_are_evicted() {
        let mut table = Recent::new(8);
        let s = Time::from_secs;
        for key in 0..8u64 {
            table.get_or_insert(key, s(key), s(100), || key);
        }
        assert_eq!(table.get(0, s(50), s(100)), Some(&mut 0));
        // Nine do not fit: 1 is the least recently used.
        table.get_or_insert(8, s(51), s(100), || 8);
        assert_eq!((table.peek(1, s(51)), table.peek(0, s(51))), (None, Some(&0)));
        assert_eq!(table.peek(2, s(100)), None);
        assert_eq!(table.get(2, s(100), s(200)), None);
        assert_eq!(*table.get_or_insert(2, s(100), s(200), || 22), 22);
    }
}
