//! A heavy-hitter sketch in place of a counter for each flow: HeavyKeeper (Gong et al.,
//! "HeavyKeeper: An Accurate Algorithm for Finding Top-k Elephant Flows", USENIX ATC 2018).
//!
//! Each of two rows has cells of a key and its bytes. A packet of the cell's flow adds its bytes. A
//! packet of another flow decays the cell with a probability that falls exponentially with the
//! cell's count, and takes the cell when nothing is left. So mice wear each other down, and an
//! elephant stays. An estimate is never more than the truth.
//!
//! # Crates that were weighed
//! `heavykeeper` 0.7 is maintained and has the right licence. It counts items: a weight `w` is `w`
//! separate draws per row (`add_with_evicted`), so a packet of 1,500 bytes may cost 3,000 random
//! numbers. Its default hash has a fixed seed. `streaming_algorithms` 0.3 and `pdatastructs` 0.7
//! have count-min sketches without decay. Ranking needs bytes, so the algorithm is here: one draw
//! per row and packet. Cells hold whole keys, as there are few of them. So no fingerprint collides,
//! and no heap beside the sketch is needed.

use plexus_table::PackedFlow;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const ROWS: usize = 2;
/// The paper's base of the decay, per packet.
const BASE: f64 = 1.08;
/// Bytes that decay as one packet of the paper.
const UNIT: u64 = 1500;
/// Counts, in units, with a chance to decay; beyond it is 3e-9.
const DECAYING: usize = 256;

#[derive(Clone, Copy, Default)]
struct Cell {
    key: PackedFlow,
    /// 0 in an empty cell.
    bytes: u64,
}

/// Bytes of the largest flows, estimated in fixed memory.
pub struct Sketch {
    rows: [Box<[Cell]>; ROWS],
    seed: [u64; 2],
    rng: Pcg64Mcg,
    /// Chances of decay in 2^-32, by units in the cell.
    chances: [u32; DECAYING],
    found: Vec<(u64, PackedFlow)>,
}

impl Sketch {
    /// A sketch of two rows of `width` cells of 48 bytes. `seed` should be secret.
    pub fn new(width: usize, seed: [u64; 2]) -> Sketch {
        let row = || vec![Cell::default(); width.max(1)].into_boxed_slice();
        Sketch {
            rows: [row(), row()],
            seed,
            rng: Pcg64Mcg::seed_from_u64(seed[0] ^ seed[1].rotate_left(32)),
            chances: std::array::from_fn(|units| {
                (BASE.powi(-(units as i32)) * f64::from(u32::MAX)) as u32
            }),
            found: Vec::new(),
        }
    }

    /// Counts bytes of a flow.
    pub fn add(&mut self, key: &PackedFlow, bytes: u32) {
        let (hash, bytes) = (key.hash(self.seed), u64::from(bytes));
        let draws = self.rng.next_u64();
        for (row, cells) in self.rows.iter_mut().enumerate() {
            let cell = &mut cells[place(hash, row, cells.len())];
            if cell.bytes == 0 {
                *cell = Cell { key: *key, bytes };
            } else if cell.key == *key {
                cell.bytes += bytes;
            } else {
                let units = (cell.bytes / UNIT) as usize;
                let chance = self.chances.get(units).copied().unwrap_or(0);
                if ((draws >> (32 * row)) as u32) < chance {
                    *cell = match cell.bytes > bytes {
                        true => Cell { bytes: cell.bytes - bytes, ..*cell },
                        false => Cell { key: *key, bytes: bytes - cell.bytes },
                    };
                }
            }
        }
    }

    /// The estimate for a flow, in bytes; at most the truth.
    pub fn bytes(&self, key: &PackedFlow) -> u64 {
        let hash = key.hash(self.seed);
        let cells = self.rows.iter().enumerate().map(|(row, c)| &c[place(hash, row, c.len())]);
        cells.filter(|cell| cell.key == *key).map(|cell| cell.bytes).max().unwrap_or(0)
    }

    /// Ends an interval: the `k` largest flows, largest first, and an empty sketch.
    pub fn take(&mut self, k: usize, largest: &mut Vec<(PackedFlow, u64)>) {
        self.found.clear();
        let cells = self.rows.iter_mut().flatten();
        let used = cells.map(std::mem::take).filter(|cell| cell.bytes > 0);
        self.found.extend(used.map(|cell| (cell.bytes, cell.key)));
        // A flow may be in both rows: its larger count comes first.
        self.found.sort_unstable_by(|a, b| (a.1, b.0).cmp(&(b.1, a.0)));
        self.found.dedup_by_key(|found| found.1);
        self.found.sort_unstable_by(|a, b| b.cmp(a));
        largest.clear();
        largest.extend(self.found.iter().take(k).map(|(bytes, key)| (*key, *bytes)));
    }
}

fn place(hash: u64, row: usize, width: usize) -> usize {
    let half = (hash >> (32 * row)) & 0xFFFF_FFFF;
    ((half * width as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::offload::tests::flow;

    const SEED: [u64; 2] = [1, 2];

    proptest! {
        #[test]
        fn estimates_are_at_most_the_truth(
            packets in prop::collection::vec((0u32..30, 1u32..3000), 1..400),
            width in 1usize..40,
        ) {
            let mut sketch = Sketch::new(width, SEED);
            let mut truth = HashMap::new();
            for (i, bytes) in packets {
                sketch.add(&flow(i), bytes);
                *truth.entry(flow(i)).or_insert(0) += u64::from(bytes);
            }
            prop_assert!(truth.iter().all(|(key, bytes)| sketch.bytes(key) <= *bytes));
            let mut largest = vec![];
            sketch.take(usize::MAX, &mut largest);
            prop_assert!(largest.is_sorted_by(|a, b| a.1 >= b.1));
            let keys: std::collections::HashSet<_> = largest.iter().map(|l| l.0).collect();
            prop_assert_eq!(keys.len(), largest.len());
            prop_assert!(largest.iter().all(|(key, bytes)| *bytes <= truth[key]));
            sketch.take(1, &mut largest);
            prop_assert_eq!(largest, vec![]);
        }
    }

    /// 100 elephants among 100,000 mice of as many bytes, in cells for 2,000 flows.
    #[test]
    fn elephants_are_found_among_mice() {
        let mut sketch = Sketch::new(1000, SEED);
        for turn in 0..1000 {
            (0..100).for_each(|elephant| sketch.add(&flow(elephant), 1500));
            (0..100).for_each(|mouse| sketch.add(&flow(1000 + turn * 100 + mouse), 1500));
        }
        let mut largest = vec![];
        sketch.take(100, &mut largest);
        let elephants: Vec<_> = (0..100).map(flow).collect();
        let found = largest.iter().filter(|l| elephants.contains(&l.0)).count();
        assert!(found >= 95, "{found}");
        let counted: u64 = largest.iter().map(|l| l.1).sum();
        assert!(counted > 100 * 1000 * 1500 / 100 * 97, "{counted}");
    }
}
