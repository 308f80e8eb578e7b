//! Latencies of a flow: a list of the first few, a histogram from then on.
//!
//! A histogram takes some 100 KiB, whatever the count. Most of a simulation's 50,000 flows have few
//! packets.

use std::borrow::Cow;

use hdrhistogram::Histogram;

use crate::stats::SIGNIFICANT_DIGITS;

/// This many are kept individually.
const FEW: usize = 128;

/// Latencies in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    few: Vec<u64>,
    /// All, once they are not few.
    many: Option<Box<Histogram<u64>>>,
}

impl Latencies {
    /// Adds one.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        match &mut self.many {
            Some(many) => {
                // The histogram grows to any value, so recording cannot fail.
                let _ = many.record(ns);
            }
            None => self.record_few(ns),
        }
    }

    fn record_few(&mut self, ns: u64) {
        self.few.push(ns);
        if self.few.len() == FEW {
            self.many = self.histogram().map(|all| Box::new(all.into_owned()));
            self.few = Vec::new();
        }
    }

    /// Adds another instance's latencies.
    pub(crate) fn add(&mut self, other: &Latencies) {
        match (&mut self.many, &other.many) {
            (Some(mine), Some(theirs)) => {
                // Both resize as needed and count in 64 bits, so adding cannot fail.
                let _ = mine.add(&**theirs);
            }
            (None, Some(theirs)) => {
                let few = std::mem::take(&mut self.few);
                self.many = Some(theirs.clone());
                few.into_iter().for_each(|ns| self.record(ns));
            }
            (_, None) => other.few.iter().for_each(|ns| self.record(*ns)),
        }
    }

    /// All latencies, to three significant digits.
    pub(crate) fn histogram(&self) -> Option<Cow<'_, Histogram<u64>>> {
        if let Some(many) = &self.many {
            return Some(Cow::Borrowed(many));
        }
        // As many digits are always possible.
        let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).ok()?;
        for ns in &self.few {
            let _ = histogram.record(*ns);
        }
        Some(Cow::Owned(histogram))
    }
}

impl From<Histogram<u64>> for Latencies {
    fn from(histogram: Histogram<u64>) -> Latencies {
        Latencies { few: Vec::new(), many: Some(Box::new(histogram)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_tell_the_same_and_add_up() {
        let latency = |i: u64| i * i * 977 % 5_000_011;
        let made = |range: std::ops::Range<u64>| {
            let mut latencies = Latencies::default();
            range.for_each(|i| latencies.record(latency(i)));
            latencies
        };
        let reference = |n: u64| {
            let mut histogram = Histogram::<u64>::new(SIGNIFICANT_DIGITS).unwrap();
            (0..n).for_each(|i| histogram.record(latency(i)).unwrap());
            histogram
        };
        let few = FEW as u64;
        for n in [0, 1, few - 1, few, few + 1, 10 * few] {
            assert_eq!(made(0..n).histogram().as_deref(), Some(&reference(n)), "{n}");
            for at in [0, n / 10, n / 2, n] {
                let mut sum = made(0..at);
                sum.add(&made(at..n));
                assert_eq!(sum.histogram().as_deref(), Some(&reference(n)), "{at} of {n}");
            }
        }
        assert!(made(0..few - 1).many.is_none() && made(0..few).few.is_empty());
    }
}
