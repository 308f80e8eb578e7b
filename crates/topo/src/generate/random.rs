//! Random topologies, the same on every machine for the same seed.
//!
//! Numbers come from PCG64 (`rand_pcg`), whose stream is held against reference vectors. Which of
//! `n` things is drawn from a number is decided here: `rand` may do that differently in its next
//! version, and a seed that is published must mean the same graph then.

use std::collections::HashSet;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::ShapeError;
use super::plan::Joint;

/// How often a graph that is not in one piece is drawn again, or mended.
const ATTEMPTS_MAX: usize = 10_000;
/// Swaps per link that make a regular graph random.
const SWAPS_PER_LINK: usize = 10;

/// Draws numbers.
pub(crate) struct Dice(Pcg64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        // The stream is π's; the state is mixed before the first draw.
        let mut pcg = Pcg64::new(u128::from(seed), 0x243F_6A88_85A3_08D3);
        pcg.next_u64();
        Dice(pcg)
    }

    /// 0 to `n - 1`, each as likely (Lemire 2019, "Fast random integer generation in an
    /// interval"); `n` is not 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let n = n as u64;
        let tail = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(n);
            if product as u64 >= tail {
                return (product >> 64) as usize;
            }
        }
    }
}

/// Links without direction, each once.
#[derive(Default)]
struct Links {
    list: Vec<[usize; 2]>,
    set: HashSet<[usize; 2]>,
}

fn ordered(a: usize, b: usize) -> [usize; 2] {
    [a.min(b), a.max(b)]
}

impl Links {
    fn add(&mut self, a: usize, b: usize) -> bool {
        let fresh = a != b && self.set.insert(ordered(a, b));
        if fresh {
            self.list.push(ordered(a, b));
        }
        fresh
    }

    fn has(&self, a: usize, b: usize) -> bool {
        self.set.contains(&ordered(a, b))
    }

    /// Puts other ends to two links: a-b and c-d become a-c and b-d. Refuses what would join two
    /// nodes twice or a node with itself.
    fn swap(&mut self, i: usize, j: usize, crosswise: bool) -> bool {
        let [a, b] = self.list[i];
        let [c, d] = if crosswise { [self.list[j][1], self.list[j][0]] } else { self.list[j] };
        if i == j || a == c || b == d || self.has(a, c) || self.has(b, d) {
            return false;
        }
        for (at, from, to) in [(i, [a, b], [a, c]), (j, [c, d], [b, d])] {
            self.set.remove(&ordered(from[0], from[1]));
            self.set.insert(ordered(to[0], to[1]));
            self.list[at] = ordered(to[0], to[1]);
        }
        true
    }

    /// Of each node: the least node of its piece.
    fn pieces(&self, nodes: usize) -> Vec<usize> {
        let mut parent: Vec<usize> = (0..nodes).collect();
        fn root(parent: &mut [usize], mut at: usize) -> usize {
            while parent[at] != at {
                parent[at] = parent[parent[at]];
                at = parent[at];
            }
            at
        }
        for [a, b] in &self.list {
            let (a, b) = (root(&mut parent, *a), root(&mut parent, *b));
            parent[a.max(b)] = a.min(b);
        }
        (0..nodes).map(|node| root(&mut parent, node)).collect()
    }

    fn piece_count(&self, nodes: usize) -> usize {
        self.pieces(nodes).iter().enumerate().filter(|(node, piece)| node == *piece).count()
    }

    fn joints(self) -> Vec<Joint> {
        self.list.into_iter().map(|[a, b]| Joint::single(a, b)).collect()
    }
}

/// The Axon paper's random topologies (axon.txt §5): each node in turn makes `degree / 2` links to
/// random other nodes, where `degree` is odd every second node one more. Where the paper does not
/// say: no two nodes are joined twice, and a graph in several pieces is drawn again.
pub(super) fn visiting(nodes: usize, degree: usize, seed: u64) -> Result<Vec<Joint>, ShapeError> {
    let mut dice = Dice::new(seed);
    for _ in 0..ATTEMPTS_MAX.min(100_000_000 / (nodes * degree).max(1)).max(1) {
        let mut links = Links::default();
        let mut joined = vec![0; nodes];
        for node in 0..nodes {
            for _ in 0..(degree + (node + 1) % 2) / 2 {
                if joined[node] == nodes - 1 {
                    break;
                }
                let other = loop {
                    let other = dice.below(nodes);
                    if links.add(node, other) {
                        break other;
                    }
                };
                joined[node] += 1;
                joined[other] += 1;
            }
        }
        if links.piece_count(nodes) == 1 {
            return Ok(links.joints());
        }
    }
    Err(ShapeError(format!(
        "no random graph of {nodes} nodes with a mean degree of {degree} was in one piece: \
         take a higher degree, or another --seed"
    )))
}

/// A random regular graph (Singla et al. 2012, "Jellyfish"): a regular ring whose links exchange
/// their ends at random, which keeps every degree; then pieces are joined the same way.
pub(super) fn regular(nodes: usize, degree: usize, seed: u64) -> Result<Vec<Joint>, ShapeError> {
    let mut dice = Dice::new(seed);
    let mut links = Links::default();
    for node in 0..nodes {
        for step in 1..=degree / 2 {
            links.add(node, (node + step) % nodes);
        }
        if degree % 2 == 1 {
            links.add(node, (node + nodes / 2) % nodes);
        }
    }
    let count = links.list.len();
    for _ in 0..count * SWAPS_PER_LINK {
        let (i, j) = (dice.below(count), dice.below(count));
        links.swap(i, j, dice.below(2) == 1);
    }
    let mut pieces = links.piece_count(nodes);
    for _ in 0..ATTEMPTS_MAX {
        if pieces == 1 {
            return Ok(links.joints());
        }
        let of = links.pieces(nodes);
        let (i, j) = (dice.below(count), dice.below(count));
        if of[links.list[i][0]] == of[links.list[j][0]] {
            continue;
        }
        let before = [links.list[i], links.list[j]];
        if links.swap(i, j, false) {
            let now = links.piece_count(nodes);
            if now <= pieces {
                pieces = now;
                continue;
            }
            for (at, was) in [(i, before[0]), (j, before[1])] {
                links.set.remove(&links.list[at]);
                links.list[at] = was;
            }
            links.set.extend(before);
        }
    }
    Err(ShapeError(format!(
        "no random graph of {nodes} nodes with {degree} links each was in one piece: take a \
         higher degree, or another --seed"
    )))
}
