//! The number of routes on each directed link, and a lower bound for sums over any links.

use crate::flows::HOPS_MAX;
use crate::topology::Topology;

/// The bound is recomputed after this many routes have left links, or been added to links.
const FALLEN_MAX: u32 = 64;
const RISEN_MAX: u32 = 4096;

/// Routes on directed links.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    of: Vec<u32>,
    /// By number of links: the sum over that many least loaded links at the last computation.
    least: Vec<u64>,
    /// An upper bound on how far any links' sum may have fallen since then.
    fallen: u32,
    risen: u32,
    /// The number of link changes accounted for then.
    changes: u64,
}

impl Loads {
    #[inline]
    pub(crate) fn on(&self, link: u32) -> u32 {
        self.of.get(link as usize).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, link: u32) {
        if self.of.len() <= link as usize {
            self.of.resize(link as usize + 1, 0);
        }
        self.of[link as usize] += 1;
        self.risen += 1;
    }

    pub(crate) fn take(&mut self, link: u32) {
        self.of[link as usize] -= 1;
        self.fallen += 1;
    }

    /// A lower bound for the sum over this many different links.
    #[inline]
    pub(crate) fn at_least(&self, links: usize) -> u64 {
        let least = self.least.get(links).or(self.least.last()).copied().unwrap_or(0);
        least.saturating_sub(self.fallen.into())
    }

    /// Recomputes the least loaded links if too much has changed.
    pub(crate) fn refresh(&mut self, topology: &Topology) {
        let is_good = self.changes == topology.changes_made()
            && self.fallen <= FALLEN_MAX
            && self.risen <= RISEN_MAX;
        if is_good && !self.least.is_empty() {
            return;
        }
        (self.changes, self.fallen, self.risen) = (topology.changes_made(), 0, 0);
        let mut carried: Vec<u32> = topology.directed_links().map(|link| self.on(link)).collect();
        let fewest = carried.len().min(HOPS_MAX);
        if fewest < carried.len() {
            carried.select_nth_unstable(fewest);
            carried.truncate(fewest);
        }
        carried.sort_unstable();
        let mut sum = 0;
        self.least = vec![0];
        self.least.extend(carried.into_iter().map(|load| {
            sum += u64::from(load);
            sum
        }));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::tests::joined;

    proptest! {
        #[test]
        fn no_links_carry_less_than_the_bound_says(
            steps in proptest::collection::vec((0..24_u32, 0..400_u32), 1..60), cut in 0..12_u32)
        {
            let pairs: Vec<(u32, u32)> = (0..12).map(|n| (n % 5, n % 4 + 5)).collect();
            let mut t = joined(9, &pairs);
            let mut loads = Loads::default();
            for (i, (link, times)) in steps.into_iter().enumerate() {
                if times % 3 > 0 {
                    (0..times).for_each(|_| loads.add(link));
                } else {
                    (0..times.min(loads.on(link))).for_each(|_| loads.take(link));
                }
                if i == 30 {
                    t.cut(&[cut]);
                }
                loads.refresh(&t);
                let mut carried: Vec<u32> = t.directed_links().map(|l| loads.on(l)).collect();
                carried.sort_unstable();
                let mut sum = 0;
                for (n, load) in (1..).zip(carried) {
                    sum += u64::from(load);
                    prop_assert!(loads.at_least(n) <= sum);
                    prop_assert!(loads.at_least(n) + u64::from(FALLEN_MAX + RISEN_MAX) >= sum);
                }
            }
        }
    }
}
