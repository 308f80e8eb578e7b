//! Ranges of a stream: what arrived beyond a hole, as the receiver keeps it and as the sender hears
//! of it.

use std::collections::VecDeque;

/// Disjoint ranges `[from, to)` of offsets, sorted, none touching the next.
///
/// There are as many as there are holes, which is few; so a sorted array is enough. It keeps its
/// room, and nothing is allocated once it has grown to what a connection needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    ranges: VecDeque<(u64, u64)>,
}

impl Ranges {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The lowest range.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }

    /// The highest range.
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.ranges.back().copied()
    }

    /// From the highest range to the lowest.
    pub(super) fn descending(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().rev().copied()
    }

    /// Number of the first range that ends at `at` or beyond.
    #[inline]
    fn ending_at_or_after(&self, at: u64) -> usize {
        // Most news is about the highest range.
        match self.ranges.back() {
            Some(last) if last.0 <= at => self.ranges.len() - usize::from(last.1 >= at),
            _ => self.ranges.partition_point(|range| range.1 < at),
        }
    }

    /// The range that holds offset `at`.
    pub(super) fn holding(&self, at: u64) -> Option<(u64, u64)> {
        let range = *self.ranges.get(self.ending_at_or_after(at + 1))?;
        (range.0 <= at).then_some(range)
    }

    /// Puts `[from, to)` in.
    pub(super) fn insert(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let at = self.ending_at_or_after(from);
        match self.ranges.get_mut(at) {
            Some(range) if range.0 <= to => {
                range.0 = range.0.min(from);
                if to <= range.1 {
                    return;
                }
                range.1 = to;
            }
            _ => {
                self.ranges.insert(at, (from, to));
                return;
            }
        }
        // It may have reached the next ones.
        while let Some(next) = self.ranges.get(at + 1).copied() {
            if next.0 > self.ranges[at].1 {
                break;
            }
            self.ranges[at].1 = self.ranges[at].1.max(next.1);
            self.ranges.remove(at + 1);
        }
    }

    /// Takes out what is below `to`; returns how many bytes that was.
    #[inline]
    pub(super) fn cut_below(&mut self, to: u64) -> u64 {
        let mut bytes = 0;
        while let Some(first) = self.ranges.front_mut() {
            if first.0 >= to {
                break;
            }
            bytes += first.1.min(to) - first.0;
            if first.1 > to {
                first.0 = to;
                break;
            }
            self.ranges.pop_front();
        }
        bytes
    }

    /// Calls `f` with every part of `[from, to)` that is in no range, in order.
    pub(super) fn gaps(&self, from: u64, to: u64, mut f: impl FnMut(u64, u64)) {
        let mut at = from;
        for &(start, end) in self.ranges.range(self.ending_at_or_after(from)..) {
            if start >= to {
                break;
            }
            if start > at {
                f(at, start);
            }
            at = at.max(end);
        }
        if at < to {
            f(at, to);
        }
    }

    /// The first part of `[from, to)` that is in no range.
    pub(super) fn first_gap(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let mut at = from;
        for &(start, end) in self.ranges.range(self.ending_at_or_after(from)..) {
            if start > at {
                return (at < to).then_some((at, start.min(to)));
            }
            at = at.max(end);
        }
        (at < to).then_some((at, to))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// The gaps of `model` in `[from, to)`.
    fn gaps_of(model: &[bool], from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        for at in from..to {
            match gaps.last_mut() {
                _ if model[at as usize] => {}
                Some(last) if last.1 == at => last.1 = at + 1,
                _ => gaps.push((at, at + 1)),
            }
        }
        gaps
    }

    proptest! {
        /// Against one truth value per byte.
        #[test]
        fn a_bitmap_says_the_same(seed in any::<u64>(), width in 1_u64..20) {
            const SPACE: u64 = 120;
            let mut random = Pcg64::seed_from_u64(seed);
            let (mut ranges, mut model) = (Ranges::default(), vec![false; SPACE as usize + 1]);
            for _ in 0..200 {
                let from = random.random_range(0..SPACE);
                let to = (from + random.random_range(0..=width)).min(SPACE);
                if random.random_bool(0.85) {
                    ranges.insert(from, to);
                    model[from as usize..to as usize].fill(true);
                } else {
                    let cut = model[..from as usize].iter().filter(|there| **there).count();
                    prop_assert_eq!(ranges.cut_below(from), cut as u64);
                    model[..from as usize].fill(false);
                }
                let mut gaps = Vec::new();
                ranges.gaps(from, to, |a, b| gaps.push((a, b)));
                let expected = gaps_of(&model, from, to);
                prop_assert_eq!(ranges.first_gap(from, to), expected.first().copied());
                prop_assert_eq!(gaps, expected);
                prop_assert_eq!(ranges.holding(from).is_some(), model[from as usize]);
                for pair in ranges.ranges.iter().collect::<Vec<_>>().windows(2) {
                    prop_assert!(pair[0].1 < pair[1].0);
                }
            }
        }
    }
}
