//! Which units of the IPv6 table's memory are nodes.

use crate::lpm::grace::Retired;

/// Units of the greatest node.
pub(super) const MOST: usize = 65;
/// Units of a cache line.
const LINE: usize = 4;

/// Units that were never used, free pieces by their size, and retired nodes.
pub(super) struct Space {
    fresh: usize,
    end: usize,
    free: [Vec<u32>; MOST + 1],
    /// Bit n: there are free pieces of n units.
    sizes: u128,
    pub(super) retired: Retired,
}

impl Space {
    /// The units from `first` to `end`.
    pub(super) fn new(first: usize, end: usize) -> Space {
        let free = std::array::from_fn(|_| Vec::new());
        Space { fresh: first, end, free, sizes: 0, retired: Retired::new() }
    }

    /// A node of so many units; there must be room for it.
    pub(super) fn take(&mut self, units: usize) -> u32 {
        let fits = self.sizes >> units << units;
        if fits != 0 {
            let size = fits.trailing_zeros() as usize;
            let piece = self.free[size].pop().expect("a piece of a size that has its bit set");
            if self.free[size].is_empty() {
                self.sizes &= !(1 << size);
            }
            self.give(piece + units as u32, size - units);
            return piece;
        }
        // Small nodes are one line.
        let left = LINE - self.fresh % LINE;
        if units <= LINE && units > left {
            self.give(self.fresh as u32, left);
            self.fresh += left;
        }
        self.fresh += units;
        (self.fresh - units) as u32
    }

    /// A piece that nobody uses any more.
    pub(super) fn give(&mut self, piece: u32, units: usize) {
        if units > 0 {
            self.free[units].push(piece);
            self.sizes |= 1 << units;
        }
    }

    /// True if there is room for `nodes` nodes of any size.
    pub(super) fn has_room(&self, nodes: usize) -> bool {
        self.fresh + nodes * (MOST + LINE) <= self.end || self.free[MOST].len() >= nodes
    }

    /// Joins free pieces that lie side by side.
    pub(super) fn join(&mut self) {
        let mut pieces: Vec<(u32, usize)> = Vec::new();
        for (units, free) in self.free.iter_mut().enumerate() {
            pieces.extend(free.drain(..).map(|piece| (piece, units)));
        }
        pieces.sort_unstable();
        self.sizes = 0;
        for run in pieces.chunk_by(|a, b| a.0 as usize + a.1 == b.0 as usize) {
            let (mut start, end) = (run[0].0 as usize, run[0].0 as usize);
            let end = end + run.iter().map(|piece| piece.1).sum::<usize>();
            if end == self.fresh {
                self.fresh = start;
                continue;
            }
            while start < end {
                let units = MOST.min(end - start);
                self.give(start as u32, units);
                start += units;
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.free.iter().map(|free| free.capacity() * 4).sum::<usize>() + self.retired.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    #[test]
    fn pieces_never_overlap_and_all_space_comes_back() {
        let end = 4000;
        let mut space = Space::new(1, end);
        let mut random = Pcg64::seed_from_u64(3);
        for round in 0..20 {
            let mut used = vec![false; end];
            let mut nodes = Vec::new();
            while space.has_room(1) {
                let units = random.random_range(1..=if round % 2 == 0 { MOST } else { 5 });
                let node = space.take(units) as usize;
                assert!(node > 0 && used[node..node + units].iter().all(|used| !used));
                used[node..node + units].fill(true);
                nodes.push((node, units));
                if random.random_range(0..4) == 0 {
                    let (node, units) = nodes.swap_remove(random.random_range(0..nodes.len()));
                    used[node..node + units].fill(false);
                    space.give(node as u32, units);
                }
            }
            assert!(used.iter().filter(|used| **used).count() > end / 4);
            for (node, units) in nodes {
                space.give(node as u32, units);
            }
            space.join();
            assert_eq!((space.fresh, space.sizes), (1, 0));
        }
    }
}
