//! The dead nonce list: nonces of Interests that have left the PIT, so that an Interest which
//! returns late is still detected as a loop (NFD developer guide, "Dead Nonce List").
//!
//! An entry is 8 bytes: the upper 48 bits of a keyed hash of name and nonce, and 16 bits of time.
//! The lower bits of the hash select one cache line. Entries older than the lifetime do not count;
//! a full line evicts its oldest. So the memory is fixed, and under a flood all entries are
//! forgotten earlier, evenly: a loop then lives one round longer, nothing else. A bitmap of recent
//! nonces filters lookups, because almost no Interest is dead, and the list is larger than any
//! cache.

use std::time::Duration;

use plexus_table::{AgingBits, prefetch};
use plexus_wire::Time;

/// How long a nonce stays dead, as with NFD.
pub const LIFETIME: Duration = Duration::from_secs(6);
const LINE: usize = 8;
/// Time is counted in 2^27 ns, an eighth of a second; 16 bits of it last 2.4 hours.
const UNIT_BITS: u32 = 27;
const LIFETIME_UNITS: u16 = (LIFETIME.as_nanos() as u64 >> UNIT_BITS) as u16 + 1;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u64; LINE]);

/// Nonces for each bit of the bitmap.
const NONCES_PER_BIT: usize = 8;

/// The list.
pub struct DeadNonces {
    lines: Box<[Line]>,
    lately: AgingBits,
    /// When the bitmaps were last rotated.
    turned: u16,
}

fn unit(now: Time) -> u16 {
    // 0 marks empty slots.
    ((now.as_nanos() >> UNIT_BITS) as u16).max(1)
}

fn age(entry: u64, now: u16) -> u16 {
    match entry as u16 {
        0 => u16::MAX,
        stamp => now.wrapping_sub(stamp),
    }
}

impl DeadNonces {
    /// A list of 8 bytes for each of about `capacity` nonces.
    pub fn new(capacity: usize) -> DeadNonces {
        let lines = (capacity / LINE).max(1).next_power_of_two();
        let lately = AgingBits::new(capacity / NONCES_PER_BIT);
        DeadNonces { lines: vec![Line([0; LINE]); lines].into(), lately, turned: 0 }
    }

    #[inline(always)]
    fn line(&self, hash: u64) -> usize {
        hash as usize & (self.lines.len() - 1)
    }

    /// Prefetches the line of the list, if the nonce may be there.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        if self.lately.has(hash) {
            prefetch(&self.lines[self.line(hash)]);
        }
    }

    /// True if the nonce of this hash was added within the lifetime.
    #[inline(always)]
    pub fn has(&self, hash: u64, now: Time) -> bool {
        self.lately.has(hash) && self.lists(hash, now)
    }

    #[cold]
    fn lists(&self, hash: u64, now: Time) -> bool {
        let line = &self.lines[self.line(hash)].0;
        // All slots are compared side by side; mostly none matches.
        let fits = |entry: u64| (entry ^ hash) >> 16 == 0;
        if !line.iter().fold(false, |any, entry| any | fits(*entry)) {
            return false;
        }
        let now = unit(now);
        line.iter().any(|entry| fits(*entry) && age(*entry, now) <= LIFETIME_UNITS)
    }

    /// Adds a nonce.
    pub fn add(&mut self, hash: u64, now: Time) {
        let now = unit(now);
        // After two rotations the bitmaps have forgotten only expired nonces.
        if now.wrapping_sub(self.turned) > LIFETIME_UNITS {
            self.lately.turn();
            self.turned = now;
        }
        self.lately.insert(hash);
        let line = self.line(hash);
        let line = &mut self.lines[line].0;
        let at = line
            .iter()
            .position(|e| (e ^ hash) >> 16 == 0)
            .or_else(|| (0..LINE).max_by_key(|&at| age(line[at], now)));
        if let Some(at) = at {
            line[at] = hash >> 16 << 16 | u64::from(now);
        }
    }

    /// Bytes of its memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.lines[..]) + self.lately.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_dead_for_six_seconds() {
        let mut list = DeadNonces::new(64);
        let then = Time::from_secs(100);
        list.add(7 << 32, then);
        assert!(list.has(7 << 32, then) && !list.has(8 << 32, then));
        assert!(list.has(7 << 32, then + LIFETIME));
        assert!(!list.has(7 << 32, then + LIFETIME + Duration::from_millis(300)));
    }

    #[test]
    fn a_full_line_forgets_its_oldest() {
        let mut list = DeadNonces::new(LINE);
        let at = |i: u64| Time::from_millis(1_000 + 200 * i);
        (1..=9).for_each(|i| list.add(i << 32, at(i)));
        assert!(!list.has(1 << 32, at(9)));
        assert!((2..=9).all(|i| list.has(i << 32, at(9))));
        // A nonce that is in the list takes no second slot.
        list.add(9 << 32, at(9));
        assert!(list.has(2 << 32, at(9)));
        assert_eq!(list.bytes(), 64 + 16);
    }

    /// Rotating the bitmaps never forgets a dead nonce, neither at time zero nor when the 16 bits
    /// of time wrap.
    #[test]
    fn a_nonce_is_dead_whatever_comes_after_it() {
        for from in [0, 1, (1 << 16 << UNIT_BITS) / 1_000_000_000 - 60] {
            nonces_are_dead_from(Time::from_secs(from));
        }
    }

    fn nonces_are_dead_from(mut at: Time) {
        let mut list = DeadNonces::new(1 << 16);
        let step = Duration::from_millis(700);
        let hash = |i: u64| i << 40 | i << 14 | i;
        for i in 1..200 {
            list.add(hash(i), at);
            let lives = (1..=i).rev().take_while(|i| list.has(hash(*i), at)).count();
            assert!(lives >= 9.min(i as usize), "{lives} of {i}");
            assert!(lives < 12, "{lives} of {i}");
            at = at + step;
        }
    }
}
