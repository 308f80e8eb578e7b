//! Gaps: times in which nothing of a flow arrived although packets were in flight.

use std::time::Duration;

/// Finds them. All times are since the start of the run.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// Shorter ones are the sender's own unevenness.
    least: Duration,
    last: Option<Duration>,
    found: Vec<(Duration, Duration)>,
}

impl Gaps {
    /// Gaps kept at most: the longest.
    const MAX: usize = 1000;

    /// For a flow that sends once in each `interval`.
    pub fn new(interval: Duration) -> Gaps {
        Gaps { least: (interval * 3).max(Duration::from_millis(2)), last: None, found: Vec::new() }
    }

    /// Something has arrived.
    pub fn arrival(&mut self, now: Duration) {
        if let Some(last) = self.last.replace(now)
            && now.saturating_sub(last) >= self.least
        {
            self.note((last, now - last));
        }
    }

    /// The sender has ended at `end`, and not all has arrived: the last gap is still open.
    pub fn end(&mut self, end: Duration) {
        let open = self.last.map(|last| (last, end.saturating_sub(last)));
        if let Some(gap) = open.filter(|(_, gap)| *gap >= self.least) {
            self.note(gap);
        }
    }

    fn note(&mut self, gap: (Duration, Duration)) {
        if self.found.len() < Gaps::MAX {
            self.found.push(gap);
        } else if let Some(shortest) = self.found.iter_mut().min_by_key(|(_, gap)| *gap)
            && shortest.1 < gap.1
        {
            *shortest = gap;
        }
    }

    /// The longest gaps: when they began, how long they were.
    pub fn into_longest(self) -> Vec<(Duration, Duration)> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gaps_are_kept_and_one_that_never_closed_counts() {
        let start = Duration::from_secs(5);
        let ms = Duration::from_millis;
        let mut gaps = Gaps::new(ms(1));
        gaps.note((start, ms(700)));
        (0..2 * Gaps::MAX).for_each(|i| gaps.note((start, ms(3 + i as u64 % 5))));
        assert_eq!(gaps.found.len(), Gaps::MAX);
        assert!(gaps.found.contains(&(start, ms(700))));
        gaps.last = Some(start);
        gaps.end(start + ms(900));
        assert!(gaps.found.contains(&(start, ms(900))));
        let before = gaps.found.clone();
        gaps.end(start + ms(1));
        assert_eq!(gaps.found, before, "the sender's own unevenness");
    }
}
