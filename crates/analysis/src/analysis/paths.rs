//! Equal-cost shortest paths between all pairs of nodes, and how traffic among all hosts that is
//! shared out evenly over them loads the links.

use plexus_topo::UNREACHABLE;

use crate::analysis::boxes::Boxes;

/// Looks at a link that are spent before sources are sampled: about three seconds.
const WORK_MAX: u64 = 1_500_000_000;

/// What the searches from the sources found.
pub(crate) struct ShortestPaths {
    /// Shortest paths between two nodes, over the pairs with any: the mean and the least.
    pub(crate) mean: f64,
    /// The least.
    pub(crate) least: f64,
    /// Sources that were searched from; all nodes unless there are too many.
    pub(crate) sources: usize,
    /// Greatest load of a link for its capacity, when each unit of weight sends one to each other;
    /// `None` unless every node was a source.
    pub(crate) load_max: Option<f64>,
}

impl Boxes {
    /// Counts shortest paths between nodes, a cable more being a way more, and the load that
    /// `weights` of the boxes put on links. `None` where no two nodes have a path.
    pub(crate) fn shortest_paths(&self, weights: &[u64]) -> Option<ShortestPaths> {
        // Twice out, once back.
        let each = 3 * self.edge_count() as u64 + self.len() as u64;
        let affordable = (WORK_MAX / each.max(1)).max(1) as usize;
        let step = self.nodes.div_ceil(affordable).max(1);
        let mut search = Search::new(self.len());
        let mut loads = vec![0.0; self.edge_count()];
        let (mut least, mut sum, mut pairs) = (f64::INFINITY, 0.0, 0_u64);
        let mut sources = 0;
        let heavy = (self.nodes..self.len()).filter(|b| weights[*b] > 0).collect::<Vec<_>>();
        for from in (0..self.nodes).step_by(step).chain(heavy) {
            search.run(self, from);
            if from < self.nodes {
                sources += 1;
                for &to in &search.order[1..] {
                    if (to as usize) < self.nodes {
                        let ways = search.ways[to as usize].min(f64::MAX);
                        least = least.min(ways);
                        sum += ways;
                        pairs += 1;
                    }
                }
            }
            if step == 1 && weights[from] > 0 {
                search.spread(self, from, weights, &mut loads);
            }
        }
        let capacities = self.all_edges().map(|(_, link)| self.links[link as usize].capacity);
        let load = |(load, capacity): (&f64, u128)| load / capacity.max(1) as f64;
        let load_max = loads.iter().zip(capacities).map(load).fold(0.0, f64::max);
        let load_max = (step == 1).then_some(load_max);
        (pairs > 0).then(|| ShortestPaths { mean: sum / pairs as f64, least, sources, load_max })
    }
}

/// A search from one box.
struct Search {
    hops: Vec<u32>,
    /// Shortest paths from the source; a float, for there may be more than integers count.
    ways: Vec<f64>,
    /// What the boxes behind this one are to get through it.
    behind: Vec<f64>,
    /// The boxes in the order in which they were reached.
    order: Vec<u32>,
}

impl Search {
    fn new(boxes: usize) -> Search {
        Search {
            hops: vec![UNREACHABLE; boxes],
            ways: vec![0.0; boxes],
            behind: vec![0.0; boxes],
            order: Vec::with_capacity(boxes),
        }
    }

    fn run(&mut self, boxes: &Boxes, from: usize) {
        self.hops.fill(UNREACHABLE);
        self.ways.fill(0.0);
        self.order.clear();
        self.hops[from] = 0;
        self.ways[from] = 1.0;
        self.order.push(from as u32);
        let mut next = 0;
        while let Some(&at) = self.order.get(next) {
            next += 1;
            let (hops, ways) = (self.hops[at as usize] + 1, self.ways[at as usize]);
            for &(to, link) in boxes.edges(at as usize) {
                if self.hops[to as usize] == UNREACHABLE {
                    self.hops[to as usize] = hops;
                    self.order.push(to);
                }
                if self.hops[to as usize] == hops {
                    self.ways[to as usize] += ways * f64::from(boxes.links[link as usize].lanes);
                }
            }
        }
    }

    /// Sends the source's weight times each box's weight to it, each path carrying the same
    /// (Brandes 2001, "A faster algorithm for betweenness centrality").
    fn spread(&mut self, boxes: &Boxes, from: usize, weights: &[u64], loads: &mut [f64]) {
        for &at in &self.order {
            self.behind[at as usize] = weights[at as usize] as f64;
        }
        let own = weights[from] as f64;
        for &at in self.order.iter().rev() {
            let share = self.behind[at as usize] / self.ways[at as usize];
            for (i, &(before, link)) in boxes.edges(at as usize).iter().enumerate() {
                if self.hops[before as usize] + 1 == self.hops[at as usize] {
                    let lanes = f64::from(boxes.links[link as usize].lanes);
                    let carried = share * self.ways[before as usize] * lanes;
                    self.behind[before as usize] += carried;
                    // The edge as `at` sees it stands for the direction towards `at`.
                    loads[boxes.first_edge(at as usize) + i] += carried * own;
                }
            }
        }
    }
}
