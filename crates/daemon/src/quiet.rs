//! A log that hosts can cause lines in, kept short: of each kind the first few lines of ten seconds
//! are written, and the others counted.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use plexus_wire::Time;

/// Lines of one kind that are written in one period.
const LINES: u64 = 10;
const PERIOD: Duration = Duration::from_secs(10);

/// Which kinds of lines were written lately.
#[derive(Debug)]
pub(crate) struct Quiet<K> {
    kinds: HashMap<K, Kind>,
}

#[derive(Debug)]
struct Kind {
    /// When the period began.
    since: Time,
    lines: u64,
    /// The last line that was not written.
    last: String,
}

impl<K> Default for Quiet<K> {
    fn default() -> Quiet<K> {
        Quiet { kinds: HashMap::new() }
    }
}

impl<K: Hash + Eq> Quiet<K> {
    /// Whether a line of this kind is to be written; if not, it is counted.
    pub(crate) fn admits(&mut self, now: Time, kind: K, line: impl FnOnce() -> String) -> bool {
        let new = || Kind { since: now, lines: 0, last: String::new() };
        let kind = self.kinds.entry(kind).or_insert_with(new);
        kind.lines += 1;
        let is_within = kind.lines <= LINES;
        if !is_within {
            kind.last = line();
        }
        is_within
    }

    /// For each kind whose period is over and of which lines were not written: how many, and the
    /// last of them. To be called about once a second.
    pub(crate) fn take(&mut self, now: Time) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        self.kinds.retain(|_, kind| {
            let is_over = now.since(kind.since) >= PERIOD;
            if is_over && kind.lines > LINES {
                all.push((kind.lines - LINES, std::mem::take(&mut kind.last)));
            }
            !is_over
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_kind_is_counted_and_hides_no_other_kind() {
        let mut quiet = Quiet::default();
        let at = Time::from_secs(100);
        let written =
            (0..13_000).filter(|n| quiet.admits(at, "refused", || format!("refused {n}"))).count();
        assert_eq!(written, 10);
        assert!(quiet.admits(at, "leased", || unreachable!()));
        assert!(quiet.take(at + Duration::from_secs(9)).is_empty(), "the period is not over");
        let over = at + PERIOD;
        assert_eq!(quiet.take(over), [(12_990, "refused 12999".to_string())]);
        assert!(quiet.take(over).is_empty(), "it is said once");
        assert!(quiet.admits(over, "refused", || unreachable!()), "a new period begins");
    }
}
