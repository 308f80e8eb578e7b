//! The queue of events: what happens next, of millions.
//!
//! A radix heap (Ahuja et al., "Faster algorithms for the shortest path problem", 1990) in base 64:
//! since no event is ever put before the one that is happening, events need not be in order but
//! only apart from those that come much later. The slot of an event is the highest base-64 digit in
//! which its time differs from now, and that digit; so an event moves at most once per digit until
//! it happens, whatever the number of others, and memory is walked in order.
//!
//! Events of the same instant happen in the order in which they were put in: they are always in the
//! same slot, one behind the other. This makes a run the same every time.

use crate::time::SimTime;

/// Digits of 64 bits.
const LEVELS: usize = 11;
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;

/// Events by time.
#[derive(Debug)]
pub struct EventQueue<T> {
    /// When the event that is happening, or the last one, is.
    now: u64,
    len: usize,
    /// Bit `l`: there is something at level `l`.
    levels: u16,
    /// Bit `s` of level `l`: there is something in its slot `s`.
    slots: [u64; LEVELS],
    /// Level by level.
    events: Vec<Vec<(u64, T)>>,
    /// What happens at `now`, the next one last.
    ready: Vec<T>,
}

impl<T> Default for EventQueue<T> {
    fn default() -> EventQueue<T> {
        EventQueue {
            now: 0,
            len: 0,
            levels: 0,
            slots: [0; LEVELS],
            events: std::iter::repeat_with(Vec::new).take(LEVELS * SLOTS).collect(),
            ready: Vec::new(),
        }
    }
}

impl<T> EventQueue<T> {
    /// An empty queue at the beginning of time.
    pub fn new() -> EventQueue<T> {
        EventQueue::default()
    }

    /// How many events are to come.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing will happen any more.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When the event that was taken last is.
    pub fn now(&self) -> SimTime {
        SimTime::from_picos(self.now)
    }

    /// Puts an event in; one for a time that has passed happens now, after those that are to happen
    /// now already.
    #[inline]
    pub fn push(&mut self, at: SimTime, event: T) {
        let at = at.as_picos().max(self.now);
        self.len += 1;
        self.insert(at, event);
    }

    #[inline]
    fn insert(&mut self, at: u64, event: T) {
        let differs = at ^ self.now;
        // Of no difference as of one in the last digit.
        let level = (63 - (differs | 1).leading_zeros()) / BITS;
        let slot = (at >> (level * BITS)) as usize % SLOTS;
        let level = level as usize;
        self.levels |= 1 << level;
        self.slots[level] |= 1 << slot;
        self.events[level * SLOTS + slot].push((at, event));
    }

    /// Takes the next event, unless it is later than `until`.
    #[inline]
    pub fn pop_until(&mut self, until: SimTime) -> Option<(SimTime, T)> {
        if let Some(event) = self.ready.pop() {
            if self.now > until.as_picos() {
                self.ready.push(event);
                return None;
            }
            self.len -= 1;
            return Some((self.now(), event));
        }
        self.refill(until)?;
        let event = self.ready.pop()?;
        self.len -= 1;
        Some((self.now(), event))
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(SimTime, T)> {
        self.pop_until(SimTime::FOREVER)
    }

    /// When the next event is.
    pub fn next_at(&self) -> Option<SimTime> {
        if !self.ready.is_empty() {
            return Some(self.now());
        }
        self.first().map(|(.., first)| SimTime::from_picos(first))
    }

    /// The level and slot of the next event that is not ready yet, and its time.
    #[inline]
    fn first(&self) -> Option<(usize, usize, u64)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.slots[level].trailing_zeros() as usize;
        // At the lowest level all of a slot is at one instant.
        let first = match level {
            0 => self.now & !(SLOTS as u64 - 1) | slot as u64,
            _ => self.events[level * SLOTS + slot].iter().map(|(at, _)| *at).min()?,
        };
        Some((level, slot, first))
    }

    /// Goes on to the next instant at which something happens.
    fn refill(&mut self, until: SimTime) -> Option<()> {
        let (level, slot, first) = self.first()?;
        let index = level * SLOTS + slot;
        if first > until.as_picos() {
            return None;
        }
        self.now = first;
        self.slots[level] &= !(1 << slot);
        if self.slots[level] == 0 {
            self.levels &= !(1 << level);
        }
        let mut events = std::mem::take(&mut self.events[index]);
        if level == 0 {
            self.ready.extend(events.drain(..).rev().map(|(_, event)| event));
        } else {
            for (at, event) in events.drain(..) {
                if at == first {
                    self.ready.push(event);
                } else {
                    self.insert(at, event);
                }
            }
            self.ready.reverse();
        }
        // What it has grown to it will be again.
        self.events[index] = events;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn at(ps: u64) -> SimTime {
        SimTime::from_picos(ps)
    }

    #[test]
    fn events_come_by_time_and_those_of_an_instant_in_the_order_in_which_they_were_put() {
        let mut queue = EventQueue::new();
        for (time, name) in [(70, "d"), (5, "a"), (70, "e"), (u64::MAX, "z"), (5, "b"), (64, "c")] {
            queue.push(at(time), name);
        }
        assert_eq!(queue.pop(), Some((at(5), "a")));
        // While something happens, more comes for now and for soon.
        queue.push(at(5), "b2");
        queue.push(at(70), "f");
        // The past is now.
        queue.push(at(1), "b3");
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop().map(|(_, name)| name)).collect();
        assert_eq!(rest, ["b", "b2", "b3", "c", "d", "e", "f", "z"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_is_later_than_the_limit_stays_and_leaves_room_before_it() {
        let mut queue = EventQueue::new();
        queue.push(at(1 << 40), "late");
        assert_eq!(queue.pop_until(at(1 << 39)), None);
        queue.push(at(3), "soon");
        assert_eq!(queue.pop_until(at(1 << 39)), Some((at(3), "soon")));
        assert_eq!((queue.len(), queue.now()), (1, at(3)));
        assert_eq!(queue.pop_until(at(1 << 40)), Some((at(1 << 40), "late")));
    }

    proptest! {
        /// Against a map sorted by time and number.
        #[test]
        fn a_sorted_map_gives_the_same_order(seed in any::<u64>(), spread in 0_u32..64) {
            let mut random = Pcg64::seed_from_u64(seed);
            let (mut queue, mut model) = (EventQueue::new(), BTreeMap::new());
            let (mut now, mut number) = (0_u64, 0_u64);
            for _ in 0..2_000 {
                if random.random_bool(0.55) {
                    let later = random.random::<u64>() >> spread.min(random.random_range(0..64));
                    let time = now.saturating_add(later >> random.random_range(0..60));
                    queue.push(at(time), number);
                    model.insert((time, number), ());
                    number += 1;
                } else {
                    let limit = match random.random_bool(0.5) {
                        true => u64::MAX,
                        false => now.saturating_add(random.random::<u64>() >> 30),
                    };
                    let first = model.first_key_value().map(|(key, ())| *key);
                    let expected = first.filter(|(time, _)| *time <= limit);
                    prop_assert_eq!(
                        queue.pop_until(at(limit)).map(|(t, n)| (t.as_picos(), n)),
                        expected
                    );
                    if let Some(key) = expected {
                        model.remove(&key);
                        now = key.0;
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
