//! The queue of events: the earliest of millions.
//!
//! A radix heap (Ahuja et al., "Faster algorithms for the shortest path problem", 1990) in base 32.
//! No event is inserted before the current one, so events need no full order: they only have to be
//! apart from much later ones. An event's slot is the highest base-32 digit in which its time
//! differs from a base, and the value of that digit. So an event moves at most once per digit,
//! however many others there are, and memory is walked in order.
//!
//! The next slot is sorted once it holds few events, like the bottom of a ladder queue (Tang et
//! al., "Ladder queue: an O(1) priority queue structure for large-scale discrete event simulation",
//! 2005). New events of its time range are inserted there. When it becomes long, its later half
//! goes back into the heap. So a small network, which has few events to come, keeps them in a few
//! cache lines.
//!
//! Events of the same instant happen in the order of their insertion: they are always in the same
//! slot, one behind the other. This makes runs reproducible.

use crate::time::SimTime;

/// Digits of 64 bits.
const LEVELS: usize = 13;
const BITS: u32 = 5;
const SLOTS: usize = 1 << BITS;

/// A slot with so many events is put in order, one with more is taken apart.
const NEAR_FEW: usize = 24;
/// Of so many events that are in order, half go back.
const NEAR_MANY: usize = 64;

/// Events by time. They are copied as they move about: small ones are better.
#[derive(Debug)]
pub struct EventQueue<T> {
    /// The time of the current event, or of the last one.
    now: u64,
    len: usize,
    /// The next events in order, from `next` on: all those before `horizon`.
    near: Vec<(u64, T)>,
    /// Those before it have happened.
    next: usize,
    /// No event in the slots is earlier.
    horizon: u64,
    /// The base that times are compared with. No event in the slots is earlier.
    base: u64,
    /// Bit `l`: there is something at level `l`.
    levels: u16,
    /// Bit `s` of level `l`: there is something in its slot `s`.
    slots: [u32; LEVELS],
    /// Level by level.
    events: Vec<Vec<(u64, T)>>,
}

impl<T> Default for EventQueue<T> {
    fn default() -> EventQueue<T> {
        EventQueue {
            now: 0,
            len: 0,
            near: Vec::new(),
            next: 0,
            horizon: 0,
            base: 0,
            levels: 0,
            slots: [0; LEVELS],
            events: std::iter::repeat_with(Vec::new).take(LEVELS * SLOTS).collect(),
        }
    }
}

impl<T: Clone> EventQueue<T> {
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

    /// Inserts an event. An event of the past happens now, after the other events of now.
    #[inline]
    pub fn push(&mut self, at: SimTime, event: T) {
        let at = at.as_picos().max(self.now);
        self.len += 1;
        if at < self.horizon {
            self.insert_near(at, event);
        } else {
            self.insert(at, event);
        }
    }

    /// Inserts an event into `near`, behind all that are not later.
    #[inline]
    fn insert_near(&mut self, at: u64, event: T) {
        if self.near.len() - self.next >= NEAR_MANY {
            self.shorten();
            if at >= self.horizon {
                return self.insert(at, event);
            }
        }
        self.place(at, event);
    }

    /// Puts an event where it belongs in `near`.
    #[inline]
    fn place(&mut self, at: u64, event: T) {
        // Rather than growing, for much of it is past.
        if self.near.len() == self.near.capacity() && self.next > self.near.len() / 2 {
            self.near.drain(..self.next);
            self.next = 0;
        }
        let later = self.near[self.next..].iter().rev().take_while(|(other, _)| *other > at);
        let place = self.near.len() - later.count();
        self.near.insert(place, (at, event));
    }

    /// Gives the later half of `near` back to the slots. Events of one instant stay together, so it
    /// may be less, or nothing.
    #[cold]
    fn shorten(&mut self) {
        let near = &self.near[self.next..];
        let middle = near[near.len() / 2].0;
        let from = match near.partition_point(|(at, _)| *at < middle) {
            0 => near.partition_point(|(at, _)| *at <= middle),
            from => from,
        };
        if let Some(&(first, _)) = near.get(from) {
            let mut near = std::mem::take(&mut self.near);
            for (at, event) in near.drain(self.next + from..) {
                self.insert(at, event);
            }
            (self.near, self.horizon) = (near, first);
        }
    }

    #[inline]
    fn insert(&mut self, at: u64, event: T) {
        let differs = at ^ self.base;
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
        if self.next == self.near.len() {
            self.refill(until)?;
        }
        let (at, event) = self.near.get(self.next)?;
        if *at > until.as_picos() {
            return None;
        }
        let (at, event) = (*at, event.clone());
        self.now = at;
        self.next += 1;
        self.len -= 1;
        Some((SimTime::from_picos(at), event))
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(SimTime, T)> {
        self.pop_until(SimTime::FOREVER)
    }

    /// When the next event is.
    pub fn next_at(&self) -> Option<SimTime> {
        let first = match self.near.get(self.next) {
            Some((at, _)) => Some(*at),
            None => self.first().and_then(|index| earliest(&self.events[index])),
        };
        first.map(SimTime::from_picos)
    }

    /// The slot whose events come first.
    #[inline]
    fn first(&self) -> Option<usize> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        Some(level * SLOTS + self.slots[level].trailing_zeros() as usize)
    }

    /// Sorts the events of the next slot, after all earlier ones have happened. The first of them
    /// happens at once, so no event is ever inserted before the base.
    fn refill(&mut self, until: SimTime) -> Option<()> {
        self.near.clear();
        self.next = 0;
        while self.near.is_empty() {
            let index = self.first()?;
            let first = earliest(&self.events[index]).filter(|at| *at <= until.as_picos())?;
            let (level, slot) = (index / SLOTS, index % SLOTS);
            self.slots[level] &= !(1 << slot);
            if self.slots[level] == 0 {
                self.levels &= !(1 << level);
            }
            self.base = first;
            let mut events = std::mem::take(&mut self.events[index]);
            if level == 0 || events.len() <= NEAR_FEW {
                // As far as the slot reaches.
                self.horizon = (first | ((1 << (level as u32 * BITS)) - 1)).saturating_add(1);
                events.drain(..).for_each(|(at, event)| self.place(at, event));
            } else {
                events.drain(..).for_each(|(at, event)| self.insert(at, event));
            }
            // It will grow to this size again.
            self.events[index] = events;
        }
        Some(())
    }
}

/// When the earliest of these is.
#[inline]
fn earliest<T>(events: &[(u64, T)]) -> Option<u64> {
    events.iter().map(|(at, _)| *at).min()
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

    #[test]
    fn what_has_happened_takes_no_room() {
        let mut queue = EventQueue::new();
        // Two that are far away and in one slot: once the first has happened, all that comes before
        // the second is put in order at once.
        (0..2).for_each(|n| queue.push(at((1 << 50) + (n << 40)), n));
        assert!(queue.pop().is_some());
        for n in 2..100_000 {
            queue.push(queue.now() + at(10), n);
            assert_eq!(queue.pop(), Some((at((1 << 50) + 10 * (n - 1)), n)));
        }
        assert_eq!(queue.len(), 1);
        let room: usize = queue.events.iter().map(Vec::capacity).sum();
        assert!(queue.near.capacity() + room < 1_000);
    }

    #[test]
    fn very_many_of_one_instant_at_the_head_stay_together_and_the_rest_goes_back() {
        const INSTANT: u64 = (1 << 50) + 1_000;
        let mut queue = EventQueue::new();
        let mut expected = vec![];
        let mut put = |queue: &mut EventQueue<usize>, time: u64| {
            queue.push(at(time), expected.len());
            expected.push((at(time), expected.len()));
        };
        // All that comes before the last of these is put in order at once.
        for time in [1 << 50, INSTANT + 10, INSTANT + 20, INSTANT + 30, (1 << 50) + (1 << 40)] {
            put(&mut queue, time);
        }
        let mut came = vec![queue.pop().unwrap()];
        (0..100).for_each(|_| put(&mut queue, INSTANT));
        // They are all that is still in order; what is later was not sorted along with each.
        assert_eq!((queue.near.len() - queue.next, queue.horizon), (100, INSTANT + 10));
        for time in [INSTANT - 1, INSTANT + 5, INSTANT, INSTANT + 10, INSTANT + 25, INSTANT - 2] {
            put(&mut queue, time);
        }
        came.extend(std::iter::from_fn(|| queue.pop()));
        expected.sort();
        assert_eq!(came, expected);
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
