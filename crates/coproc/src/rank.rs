//! The flows that shall be in the fast table (`traffic-coprocessor.txt` §3.1): the bytes of each
//! flow in an interval, the largest of them, and the swaps that these are worth.
//!
//! A million flows are ranked in a few milliseconds (`plexus bench rank`): one pass over a dense
//! array collects the flows with traffic, and a selection finds the largest. Only these are sorted.

use plexus_table::FlowSlot;

/// The bytes of each flow since the last ranking, by its slot in the flow table.
pub struct Interval {
    bytes: Box<[u32]>,
    /// Flows with traffic: bytes, then slot. Kept for its memory.
    found: Vec<u64>,
}

impl Interval {
    /// For a flow table of so many slots.
    pub fn new(slots: usize) -> Interval {
        Interval { bytes: vec![0; slots].into(), found: Vec::new() }
    }

    /// Counts bytes of a flow; they saturate at 4 GiB. A slot that is none counts nothing.
    #[inline]
    pub fn add(&mut self, slot: FlowSlot, bytes: u32) {
        if let Some(sum) = self.bytes.get_mut(slot.0 as usize) {
            *sum = sum.saturating_add(bytes);
        }
    }

    /// The bytes of a flow.
    pub fn bytes(&self, slot: FlowSlot) -> u32 {
        self.bytes.get(slot.0 as usize).copied().unwrap_or(0)
    }

    /// Forgets a flow's bytes: the slot is another flow's now.
    pub fn clear(&mut self, slot: FlowSlot) {
        if let Some(sum) = self.bytes.get_mut(slot.0 as usize) {
            *sum = 0;
        }
    }

    /// Ends the interval. The `k` flows with most bytes come first in the result, with their bytes;
    /// flows without traffic are not among them. Of equal flows, the higher slot comes first.
    pub fn take(&mut self, k: usize, largest: &mut Vec<(FlowSlot, u32)>) {
        self.found.clear();
        for (slot, bytes) in self.bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            self.found.push(u64::from(*bytes) << 32 | slot as u64);
        }
        self.bytes.fill(0);
        let rest = self.found.len().saturating_sub(k);
        if rest > 0 && k > 0 {
            self.found.select_nth_unstable(rest);
        }
        let top = &mut self.found[rest..];
        top.sort_unstable_by(|a, b| b.cmp(a));
        largest.clear();
        largest.extend(top.iter().map(|f| (FlowSlot(*f as u32), (*f >> 32) as u32)));
    }
}

/// How many of the `challengers` take the place of as many `incumbents`: the first ones each.
/// Challengers are sorted by descending bytes, incumbents by ascending bytes. A challenger needs
/// more than `factor` times the incumbent's bytes. 1 is the paper's rule; more is hysteresis.
pub fn swaps(challengers: &[u32], incumbents: &[u32], factor: f64) -> usize {
    let pairs = challengers.iter().zip(incumbents);
    pairs.take_while(|(new, old)| f64::from(**new) > f64::from(**old) * factor).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_largest_are_those_of_a_sort(
            packets in prop::collection::vec((0u32..40, 0u32..1000), 0..200),
            k in 0usize..50,
        ) {
            let mut interval = Interval::new(32);
            let mut naive = [0u32; 32];
            for (slot, bytes) in &packets {
                interval.add(FlowSlot(*slot), *bytes);
                if let Some(sum) = naive.get_mut(*slot as usize) {
                    *sum += bytes;
                }
            }
            let mut wanted: Vec<(FlowSlot, u32)> =
                (0..32).map(|s| (FlowSlot(s), naive[s as usize])).filter(|f| f.1 > 0).collect();
            wanted.sort_by_key(|f| std::cmp::Reverse((f.1, f.0)));
            wanted.truncate(k);
            let mut largest = vec![];
            interval.take(k, &mut largest);
            prop_assert_eq!(&largest, &wanted);
            // The next interval begins at zero.
            interval.take(k, &mut largest);
            prop_assert_eq!(&largest, &[]);
        }

        /// Without hysteresis the table holds the k largest of all afterwards; with it, it swaps
        /// less, and only for the factor.
        #[test]
        fn swaps_leave_the_largest_in_the_table(
            mut challengers in prop::collection::vec(0u32..100, 0..40),
            mut incumbents in prop::collection::vec(0u32..100, 0..40),
            factor in 1.0f64..3.0,
        ) {
            challengers.sort_unstable_by(|a, b| b.cmp(a));
            incumbents.sort_unstable();
            let n = swaps(&challengers, &incumbents, 1.0);
            let mut table = [&challengers[..n], &incumbents[n..]].concat();
            let mut all = [&challengers[..], &incumbents[..]].concat();
            all.sort_unstable_by(|a, b| b.cmp(a));
            all.truncate(incumbents.len());
            table.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert_eq!(table, all);
            let fewer = swaps(&challengers, &incumbents, factor);
            prop_assert!(fewer <= n);
            for i in 0..fewer {
                prop_assert!(f64::from(challengers[i]) > f64::from(incumbents[i]) * factor);
            }
        }
    }

    #[test]
    fn bytes_saturate_and_are_forgotten() {
        let mut interval = Interval::new(2);
        interval.add(FlowSlot(1), u32::MAX);
        interval.add(FlowSlot(1), 1);
        assert_eq!(interval.bytes(FlowSlot(1)), u32::MAX);
        interval.clear(FlowSlot(1));
        interval.clear(FlowSlot(9));
        assert_eq!(interval.bytes(FlowSlot(1)), 0);
    }
}
