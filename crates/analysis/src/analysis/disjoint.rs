//! Edge-disjoint paths between all pairs of nodes: as many maximum flows as there are boxes tell
//! all of them (Gusfield 1990, "Very simple methods for all pairs network flow analysis").

use crate::analysis::boxes::Boxes;

/// Looks at an edge that are spent before giving up: about three seconds.
const WORK_MAX: u64 = 600_000_000;

/// How many paths between two nodes share no cable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Disjoint {
    /// Mean over all pairs of different nodes.
    pub(crate) mean: f64,
    /// Of the pair that has the fewest.
    pub(crate) least: u64,
    /// Cables that must fail, at least, before two boxes have no path: as `least`, but bridges
    /// count as well.
    pub(crate) connectivity: u64,
}

impl Boxes {
    /// Edge-disjoint paths between all pairs; `None` for fewer than two nodes, or when it would
    /// take too long.
    pub(crate) fn disjoint_paths(&self) -> Option<Disjoint> {
        if self.nodes < 2 {
            return None;
        }
        let tree = self.flow_tree()?;
        let connectivity = tree.iter().map(|(flow, ..)| *flow).min()?;
        // From the widest edge of the tree to the narrowest: what one joins has that many paths.
        let mut edges = tree;
        edges.sort_unstable_by_key(|edge| std::cmp::Reverse(edge.0));
        let mut parent: Vec<usize> = (0..self.len()).collect();
        let mut nodes: Vec<u64> = (0..self.len()).map(|b| u64::from(b < self.nodes)).collect();
        let (mut sum, mut least) = (0_u128, u64::MAX);
        for (flow, a, b) in edges {
            let [a, b] = [a, b].map(|mut at| {
                while parent[at] != at {
                    parent[at] = parent[parent[at]];
                    at = parent[at];
                }
                at
            });
            let pairs = nodes[a] * nodes[b];
            if pairs > 0 {
                sum += u128::from(flow) * u128::from(pairs);
                least = flow;
            }
            parent[b] = a;
            nodes[a] += nodes[b];
        }
        let pairs = self.nodes as u128 * (self.nodes as u128 - 1) / 2;
        Some(Disjoint { mean: sum as f64 / pairs as f64, least, connectivity })
    }

    /// For each box but the first: the most paths to another, so that the least on the way
    /// between two boxes in this tree is the number for them.
    fn flow_tree(&self) -> Option<Vec<(u64, usize, usize)>> {
        let degree: Vec<u64> =
            (0..self.len()).map(|b| self.edges(b).iter().map(|e| self.lanes(e.1)).sum()).collect();
        let mut parent = vec![0; self.len()];
        let mut flow = Flow::new(self);
        let mut tree = Vec::with_capacity(self.len());
        for from in 1..self.len() {
            let to = parent[from];
            let bound = degree[from].min(degree[to]);
            let found = flow.between(from, to, bound)?;
            let side: &dyn Fn(usize) -> bool = if found == degree[from] {
                &|b| b == from
            } else if found == degree[to] {
                &|b| b != to
            } else {
                &|b| flow.on_source_side(b)
            };
            for (other, parent) in parent.iter_mut().enumerate().skip(from + 1) {
                if *parent == to && side(other) {
                    *parent = from;
                }
            }
            tree.push((found, from, to));
        }
        Some(tree)
    }

    fn lanes(&self, link: u32) -> u64 {
        u64::from(self.links[link as usize].lanes)
    }
}

/// Unit flows found one path at a time, from both ends at once.
struct Flow<'a> {
    boxes: &'a Boxes,
    /// Of each link: cables used from its first end to its second, less those the other way.
    used: Vec<i64>,
    changed: Vec<u32>,
    sides: [Side; 2],
    /// Which side had reached all it could when the last search ended.
    exhausted: usize,
    work: u64,
}

/// What was reached from one end.
struct Side {
    /// Of each box: the search that reached it, and over which edge.
    mark: Vec<u32>,
    by: Vec<(u32, u32)>,
    queue: Vec<u32>,
    next: usize,
    search: u32,
}

impl<'a> Flow<'a> {
    fn new(boxes: &'a Boxes) -> Flow<'a> {
        let side = || Side {
            mark: vec![0; boxes.len()],
            by: vec![(0, 0); boxes.len()],
            queue: Vec::new(),
            next: 0,
            search: 0,
        };
        Flow {
            boxes,
            used: vec![0; boxes.links.len()],
            changed: Vec::new(),
            sides: [side(), side()],
            exhausted: 0,
            work: 0,
        }
    }

    /// Most edge-disjoint paths, looked for up to `bound`; `None` when the work is too much.
    fn between(&mut self, from: usize, to: usize, bound: u64) -> Option<u64> {
        for link in self.changed.drain(..) {
            self.used[link as usize] = 0;
        }
        let mut found = 0;
        while found < bound {
            let Some(middle) = self.search(from, to) else { break };
            found += self.push(middle, [from, to], bound - found);
            if self.work > WORK_MAX {
                return None;
            }
        }
        Some(found)
    }

    /// Free cables from box `a` along a link.
    fn free(&self, a: u32, link: u32) -> i64 {
        let BoxEnds { first, lanes } = self.ends(link);
        if first == a { lanes - self.used[link as usize] } else { lanes + self.used[link as usize] }
    }

    fn ends(&self, link: u32) -> BoxEnds {
        let link = &self.boxes.links[link as usize];
        BoxEnds { first: link.ends[0], lanes: i64::from(link.lanes) }
    }

    /// A box where the searches from both ends meet.
    fn search(&mut self, from: usize, to: usize) -> Option<u32> {
        for (side, end) in self.sides.iter_mut().zip([from, to]) {
            side.search += 1;
            side.next = 0;
            side.queue.clear();
            side.queue.push(end as u32);
            side.mark[end] = side.search;
        }
        loop {
            let left = |s: &Side| s.queue.len() - s.next;
            if let Some(done) = self.sides.iter().position(|s| left(s) == 0) {
                self.exhausted = done;
                return None;
            }
            let turn = usize::from(left(&self.sides[1]) < left(&self.sides[0]));
            let at = self.sides[turn].queue[self.sides[turn].next];
            self.sides[turn].next += 1;
            let boxes = self.boxes;
            for &(other, link) in boxes.edges(at as usize) {
                self.work += 1;
                // From the source's side forward, from the other side against the flow.
                let free = if turn == 0 { self.free(at, link) } else { self.free(other, link) };
                let side = &mut self.sides[turn];
                if free <= 0 || side.mark[other as usize] == side.search {
                    continue;
                }
                side.mark[other as usize] = side.search;
                side.by[other as usize] = (at, link);
                side.queue.push(other);
                let across = &self.sides[1 - turn];
                if across.mark[other as usize] == across.search {
                    return Some(other);
                }
            }
        }
    }

    /// Sends along the path through `middle` what all its links can take.
    fn push(&mut self, middle: u32, ends: [usize; 2], most: u64) -> u64 {
        // Each step: the box that it leaves, and the link.
        let mut steps = Vec::new();
        for (turn, end) in ends.into_iter().enumerate() {
            let mut at = middle;
            while at as usize != end {
                let (before, link) = self.sides[turn].by[at as usize];
                steps.push(if turn == 0 { (before, link) } else { (at, link) });
                at = before;
            }
        }
        let free = steps.iter().map(|(a, link)| self.free(*a, *link)).min().unwrap_or(1);
        let sent = free.min(i64::try_from(most).unwrap_or(i64::MAX));
        for (a, link) in steps {
            let forward = self.ends(link).first == a;
            self.used[link as usize] += if forward { sent } else { -sent };
            self.changed.push(link);
        }
        sent.unsigned_abs()
    }

    /// Whether a box is with the source once no path is left.
    fn on_source_side(&self, at: usize) -> bool {
        let side = &self.sides[self.exhausted];
        (side.mark[at] == side.search) == (self.exhausted == 0)
    }
}

/// A link's first end and cables.
struct BoxEnds {
    first: u32,
    lanes: i64,
}
