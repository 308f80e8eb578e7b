//! How many hops lie between all pairs, by breadth-first searches that run 512 at a time.
//!
//! Each box has a word of 512 bits: which of the searches have reached it. A step of all of them
//! is then an OR along each link (Then et al. 2014, "The More the Merrier: Efficient Multi-Source
//! Graph Traversal"). Boxes that no search reached in the last step are not looked at again, so
//! that a long line costs no more than it must.

use crate::analysis::boxes::{Boxes, HostGroup};

/// Searches that run together.
const BATCH: usize = 64 * WORDS;
const WORDS: usize = 8;
type Word = [u64; WORDS];

/// How many ordered pairs of different devices are how far from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hops {
    /// At index `n`: the pairs with `n` links between them. The last is not 0.
    pub pairs: Vec<u64>,
    /// Pairs with no path between them.
    pub apart: u64,
}

impl Hops {
    /// Hops of the pair that is farthest apart; `None` where there is no pair, or one without a
    /// path.
    pub fn diameter(&self) -> Option<u32> {
        let farthest = self.pairs.len().checked_sub(1)?;
        (self.apart == 0).then_some(farthest as u32)
    }

    /// Mean over all pairs; `None` as for the diameter.
    pub fn mean(&self) -> Option<f64> {
        self.diameter()?;
        let sum: u128 = (0_u128..).zip(&self.pairs).map(|(hops, n)| hops * u128::from(*n)).sum();
        let count: u128 = self.pairs.iter().map(|n| u128::from(*n)).sum();
        Some(sum as f64 / count as f64)
    }

    fn add(&mut self, hops: usize, pairs: u64) {
        if pairs > 0 {
            self.pairs.resize(self.pairs.len().max(hops + 1), 0);
            self.pairs[hops] += pairs;
        }
    }
}

impl Boxes {
    /// Between nodes, bridges on the way counted.
    pub(crate) fn node_hops(&self) -> Hops {
        let one = |node| HostGroup { at: vec![node], hosts: 1 };
        let groups: Vec<HostGroup> = (0..self.nodes as u32).map(one).collect();
        self.hops_between(&groups, 0)
    }

    /// Between hosts, both hosts' cables counted.
    pub(crate) fn host_hops(&self) -> Hops {
        self.hops_between(&self.groups, 2)
    }

    /// Between members of groups: two members are as far as the nearest two of their boxes, and
    /// `more`.
    fn hops_between(&self, groups: &[HostGroup], more: usize) -> Hops {
        let mut hops = Hops::default();
        let total: u64 = groups.iter().map(|g| g.hosts).sum();
        let mut reached = 0_u64;
        let own = |g: &HostGroup| g.hosts * (g.hosts - 1);
        let near: u64 = groups.iter().filter(|g| !g.at.is_empty()).map(own).sum();
        hops.add(more, near);
        reached += near;
        // Which groups a box belongs to.
        let mut of: Vec<Vec<u32>> = vec![Vec::new(); self.len()];
        for (i, group) in groups.iter().enumerate() {
            group.at.iter().for_each(|at| of[*at as usize].push(i as u32));
        }
        let order = self.order_of(groups);
        let mut search = Search::new(self.len(), groups.len());
        for batch in order.chunks(BATCH) {
            search.start(batch, groups);
            for level in 0.. {
                if search.active.is_empty() {
                    break;
                }
                let found = search.count(level == 0, batch, groups, &of);
                hops.add(level + more, found);
                reached += found;
                search.step(self);
            }
        }
        hops.apart = (total * total.saturating_sub(1)).saturating_sub(reached);
        hops
    }

    /// The groups, neighbours near each other: searches from nearby boxes share their way.
    fn order_of(&self, groups: &[HostGroup]) -> Vec<u32> {
        let mut position = vec![u32::MAX; self.len()];
        let mut queue = Vec::with_capacity(self.len());
        for start in 0..self.len() {
            if position[start] != u32::MAX {
                continue;
            }
            position[start] = queue.len() as u32;
            queue.push(start);
            let mut next = queue.len() - 1;
            while let Some(&at) = queue.get(next) {
                next += 1;
                for (to, _) in self.edges(at) {
                    if position[*to as usize] == u32::MAX {
                        position[*to as usize] = queue.len() as u32;
                        queue.push(*to as usize);
                    }
                }
            }
        }
        let placed = |g: &u32| groups[*g as usize].at.first().map(|at| position[*at as usize]);
        let mut order: Vec<u32> =
            (0..groups.len() as u32).filter(|g| placed(g).is_some()).collect();
        order.sort_by_key(placed);
        order
    }
}

/// The state of up to [`BATCH`] searches. Of each box or group: one bit for each search.
struct Search {
    /// Which have reached a box.
    seen: Vec<Word>,
    /// Which reached it in the last step, and which do in this one.
    fresh: Vec<Word>,
    next: Vec<Word>,
    /// Boxes with a bit in `fresh`, and in `next`.
    active: Vec<u32>,
    touched: Vec<u32>,
    /// Which have reached a group.
    met: Vec<Word>,
}

const NONE: Word = [0; WORDS];

impl Search {
    fn new(boxes: usize, groups: usize) -> Search {
        Search {
            seen: vec![NONE; boxes],
            fresh: vec![NONE; boxes],
            next: vec![NONE; boxes],
            active: Vec::new(),
            touched: Vec::new(),
            met: vec![NONE; groups],
        }
    }

    fn start(&mut self, batch: &[u32], groups: &[HostGroup]) {
        self.seen.fill(NONE);
        self.met.fill(NONE);
        self.fresh.fill(NONE);
        for (bit, group) in batch.iter().enumerate() {
            let (word, mask) = (bit / 64, 1 << (bit % 64));
            // Its own members were counted without a search.
            self.met[*group as usize][word] |= mask;
            for at in &groups[*group as usize].at {
                if self.seen[*at as usize] == NONE {
                    self.active.push(*at);
                }
                self.seen[*at as usize][word] |= mask;
                self.fresh[*at as usize][word] |= mask;
            }
        }
    }

    /// Pairs of members whose groups were met in the last step.
    fn count(&mut self, first: bool, batch: &[u32], groups: &[HostGroup], of: &[Vec<u32>]) -> u64 {
        let alone = |g: u32| groups[g as usize].at.len() == 1;
        let even =
            batch.iter().all(|g| groups[*g as usize].hosts == groups[batch[0] as usize].hosts);
        let mut found = 0;
        for at in &self.active {
            for group in &of[*at as usize] {
                // At the start, a group of one box is met only by itself and by groups of several.
                if first && alone(*group) && of[*at as usize].len() == 1 {
                    continue;
                }
                let met = &mut self.met[*group as usize];
                let hosts = groups[*group as usize].hosts;
                let fresh = &self.fresh[*at as usize];
                for (word, (met, fresh)) in met.iter_mut().zip(fresh).enumerate() {
                    let mut new = fresh & !*met;
                    *met |= new;
                    if even {
                        let each = groups[batch[0] as usize].hosts;
                        found += u64::from(new.count_ones()) * each * hosts;
                        continue;
                    }
                    while new != 0 {
                        let bit = word * 64 + new.trailing_zeros() as usize;
                        found += groups[batch[bit] as usize].hosts * hosts;
                        new &= new - 1;
                    }
                }
            }
        }
        found
    }

    /// One hop further.
    fn step(&mut self, boxes: &Boxes) {
        for at in &self.active {
            let fresh = self.fresh[*at as usize];
            for (to, _) in boxes.edges(*at as usize) {
                let next = &mut self.next[*to as usize];
                if *next == NONE {
                    self.touched.push(*to);
                }
                for word in 0..WORDS {
                    next[word] |= fresh[word];
                }
            }
            self.fresh[*at as usize] = NONE;
        }
        self.active.clear();
        for at in self.touched.drain(..) {
            let seen = &mut self.seen[at as usize];
            let mut new = std::mem::replace(&mut self.next[at as usize], NONE);
            for word in 0..WORDS {
                new[word] &= !seen[word];
                seen[word] |= new[word];
            }
            if new != NONE {
                self.fresh[at as usize] = new;
                self.active.push(at);
            }
        }
    }
}
