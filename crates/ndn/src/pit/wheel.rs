//! Timers of entries: a hierarchical wheel (Varghese, Lauck: "Hashed and Hierarchical Timing
//! Wheels", SOSP 1987).
//!
//! Almost every timer is cancelled before it expires, because Data arrives. With a wheel, setting
//! and cancelling are a few stores, whatever the number of entries; a heap would cost a path of
//! cache misses each time. A tick is 2^20 ns, a little more than a millisecond; six levels of 256
//! slots cover all times, so there is no horizon to observe.

use plexus_wire::Time;

use super::chains::NONE;

const TICK_BITS: u32 = 20;
const LEVELS: usize = 6;
const SLOTS: usize = 256;
const IDLE: u16 = u16::MAX;

/// An entry's place in the wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    prev: u32,
    next: u32,
    slot: u16,
}

impl Timer {
    pub(crate) const IDLE: Timer = Timer { prev: NONE, next: NONE, slot: IDLE };

    pub(crate) fn is_running(&self) -> bool {
        self.slot != IDLE
    }
}

/// An entry with a timer.
pub(crate) trait Timed {
    fn timer(&mut self) -> &mut Timer;
    /// When the timer expires.
    fn end(&self) -> Time;
}

pub(crate) struct Wheel {
    tick: u64,
    heads: Box<[u32]>,
    /// Which slots hold entries.
    bits: [[u64; SLOTS / 64]; LEVELS],
}

fn tick(now: Time) -> u64 {
    now.as_nanos() >> TICK_BITS
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        let heads = vec![NONE; LEVELS * SLOTS].into();
        Wheel { tick: 0, heads, bits: [[0; SLOTS / 64]; LEVELS] }
    }

    /// Starts an idle entry's timer. It expires at the first tick that lies entirely after its end.
    #[inline]
    pub(crate) fn start<T: Timed>(&mut self, entries: &mut [T], id: u32) {
        let at = (tick(entries[id as usize].end()) + 1).max(self.tick);
        // The highest level at which the tick of the timer differs from the present one.
        let level = ((at ^ self.tick).checked_ilog2().unwrap_or(0) / 8) as usize;
        let index = (at >> (8 * level)) as usize % SLOTS;
        let slot = level * SLOTS + index;
        let next = self.heads[slot];
        self.heads[slot] = id;
        self.bits[level][index / 64] |= 1 << (index % 64);
        *entries[id as usize].timer() = Timer { prev: NONE, next, slot: slot as u16 };
        if next != NONE {
            entries[next as usize].timer().prev = id;
        }
    }

    /// Stops an entry's timer, if it runs.
    #[inline]
    pub(crate) fn stop<T: Timed>(&mut self, entries: &mut [T], id: u32) {
        let timer = std::mem::replace(entries[id as usize].timer(), Timer::IDLE);
        if timer.slot == IDLE {
            return;
        }
        if timer.next != NONE {
            entries[timer.next as usize].timer().prev = timer.prev;
        }
        if timer.prev != NONE {
            entries[timer.prev as usize].timer().next = timer.next;
            return;
        }
        let slot = usize::from(timer.slot);
        self.heads[slot] = timer.next;
        if timer.next == NONE {
            self.bits[slot / SLOTS][slot % SLOTS / 64] &= !(1 << (slot % 64));
        }
    }

    /// The next slot, and the tick at which it begins. Lower levels come before all higher ones.
    fn next_slot(&self) -> Option<(usize, u64)> {
        (0..LEVELS).find_map(|level| {
            let from = (self.tick >> (8 * level)) as usize % SLOTS;
            let index = first_from(&self.bits[level], from)?;
            let above = self.tick >> (8 * (level + 1)) << (8 * (level + 1));
            Some((level * SLOTS + index, above | (index as u64) << (8 * level)))
        })
    }

    /// Stops and returns an entry whose timer has expired by `now`; the earliest ticks first.
    pub(crate) fn pop<T: Timed>(&mut self, entries: &mut [T], now: Time) -> Option<u32> {
        let now = tick(now);
        loop {
            let next = self.next_slot().filter(|(_, begins)| *begins <= now);
            let Some((slot, begins)) = next else {
                self.tick = self.tick.max(now);
                return None;
            };
            self.tick = self.tick.max(begins);
            let id = self.heads[slot];
            if slot < SLOTS {
                self.stop(entries, id);
                return Some(id);
            }
            // The slot begins: its entries go to lower levels.
            while self.heads[slot] != NONE {
                let id = self.heads[slot];
                self.stop(entries, id);
                self.start(entries, id);
            }
        }
    }

    /// The earliest time at which a timer may expire; at that time none may have expired yet.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next_slot()
            .map(|(_, begins)| Time::from_nanos(begins.checked_shl(TICK_BITS).unwrap_or(u64::MAX)))
    }

    /// True if `pop` may have something to do.
    #[inline(always)]
    pub(crate) fn is_behind(&self, now: Time) -> bool {
        tick(now) > self.tick
    }
}

/// The first bit from `from` on.
fn first_from(bits: &[u64; SLOTS / 64], from: usize) -> Option<usize> {
    let mut word = bits[from / 64] & (u64::MAX << (from % 64));
    let mut at = from / 64;
    while word == 0 {
        at += 1;
        word = *bits.get(at)?;
    }
    Some(at * 64 + word.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct E {
        timer: Timer,
        end: Time,
    }

    impl Timed for E {
        fn timer(&mut self) -> &mut Timer {
            &mut self.timer
        }

        fn end(&self) -> Time {
            self.end
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Steps of all sizes, from below a tick to years.
        #[test]
        fn timers_end_in_their_tick_and_never_early(
            steps in prop::collection::vec((0u32..4, any::<u64>(), 10u32..62, 0usize..16), 1..120)
        ) {
            let mut wheel = Wheel::new();
            let idle = || E { timer: Timer::IDLE, end: Time::FOREVER };
            let mut entries: Vec<E> = (0..16).map(|_| idle()).collect();
            let mut running = [false; 16];
            let mut now = Time::ZERO;
            for (kind, random, bits, at) in steps {
                let later = |t: Time| Time::from_nanos(
                    t.as_nanos().saturating_add(random >> bits));
                match kind {
                    0 => {
                        wheel.stop(&mut entries, at as u32);
                        running[at] = false;
                    }
                    1 => now = later(now),
                    _ if !running[at] => {
                        entries[at].end = later(now);
                        wheel.start(&mut entries, at as u32);
                        running[at] = true;
                    }
                    _ => {}
                }
                let next = wheel.next();
                let first = (0..16).filter(|&i| running[i]).map(|i| entries[i].end).min();
                if let Some(first) = first {
                    prop_assert!(next.unwrap() <= Time::from_nanos(
                        first.as_nanos().saturating_add(2 << TICK_BITS)));
                }
                while let Some(id) = wheel.pop(&mut entries, now) {
                    prop_assert!(entries[id as usize].end <= now);
                    prop_assert!(std::mem::replace(&mut running[id as usize], false));
                }
                for i in (0..16).filter(|&i| running[i]) {
                    prop_assert!(tick(entries[i].end) >= tick(now));
                }
            }
        }
    }
}
