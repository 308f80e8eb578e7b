//! The replay window of counters (RFC 6479 describes the idea; this keeps one bit per counter in a
//! ring).

use super::Refused;

/// Counters below the highest one seen that are still distinguished.
pub const REPLAY_WINDOW: u64 = 1024;
const WORDS: usize = (REPLAY_WINDOW / 64) as usize;

/// The last [`REPLAY_WINDOW`] counters, and which of them were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    /// One above the highest counter seen.
    next: u64,
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// The counter with these lowest bits that is nearest to the next one (RFC 9000, A.3).
    pub fn nearest(&self, low: u64, bits: u32) -> u64 {
        let all = 1u64 << bits;
        let counter = (self.next & !(all - 1)) | low;
        if counter + all / 2 <= self.next {
            counter + all
        } else if counter > self.next + all / 2 && counter >= all {
            counter - all
        } else {
            counter
        }
    }

    /// Whether a message with this counter may still be opened.
    ///
    /// # Errors
    /// When it was seen, or is too old to tell.
    pub fn check(&self, counter: u64) -> Result<(), Refused> {
        if counter >= self.next {
            return Ok(());
        }
        if self.next - counter > REPLAY_WINDOW {
            return Err(Refused::TooOld);
        }
        let (word, bit) = place(counter);
        if self.seen[word] & bit != 0 { Err(Refused::Replayed) } else { Ok(()) }
    }

    /// Records the counter of an authentic message, which [`ReplayWindow::check`] allowed and which
    /// is not `u64::MAX`.
    pub fn note(&mut self, counter: u64) {
        if counter >= self.next {
            if counter - self.next >= REPLAY_WINDOW {
                self.seen = [0; WORDS];
            } else {
                for skipped in self.next..counter {
                    let (word, bit) = place(skipped);
                    self.seen[word] &= !bit;
                }
            }
            self.next = counter.saturating_add(1);
        }
        let (word, bit) = place(counter);
        self.seen[word] |= bit;
    }
}

/// Word and bit of a counter in the ring.
fn place(counter: u64) -> (usize, u64) {
    ((counter / 64) as usize % WORDS, 1 << (counter % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compared with a set that forgets nothing.
        #[test]
        fn agrees_with_a_set(
            base in prop_oneof![Just(0u64), Just(1 << 32), 0..1u64 << 60],
            steps in prop::collection::vec((0u8..4, 0u64..3000), 1..600),
        ) {
            let (mut window, mut seen) = (ReplayWindow::default(), HashSet::new());
            let mut highest = None;
            let mut at = base;
            for (how, by) in steps {
                at = match how {
                    0 => at + 1,
                    1 => at + by,
                    2 => at.saturating_sub(by),
                    _ => highest.unwrap_or(at).max(1u64) - 1,
                };
                let expected = match highest {
                    Some(h) if h >= at && h - at >= REPLAY_WINDOW => Err(Refused::TooOld),
                    _ if seen.contains(&at) => Err(Refused::Replayed),
                    _ => Ok(()),
                };
                prop_assert_eq!(window.check(at), expected, "{}", at);
                if expected.is_ok() {
                    window.note(at);
                    seen.insert(at);
                    highest = Some(highest.unwrap_or(0).max(at));
                }
            }
        }
    }
}
