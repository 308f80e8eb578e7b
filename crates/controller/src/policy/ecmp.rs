//! Equal-cost multipath: up to eight of the shortest paths, lanes counted as paths. The node
//! spreads a flow's conversations over them by their hash.
//!
//! The i-th route writes i in digits, one for each node with a choice, in the base of the number of
//! its choices: so all routes are found if there are at most eight, and otherwise the first choices
//! all differ. After the digits the flow's hash decides, so that flows differ.

use super::{Ask, Policy, ROUTES_MAX, RouteSet, mix};
use crate::topology::Edge;
use crate::trees::FAR;

#[derive(Clone, Debug)]
pub(super) struct Ecmp {
    /// The routes, one per row.
    rows: [[u8; FAR as usize]; ROUTES_MAX],
    /// A node's candidate links.
    choices: [u8; 256],
}

/// A route under construction.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    node: u32,
    /// The remaining digits, and the product of the choices so far.
    digits: u32,
    product: u32,
    /// A checksum of the hops, different for different routes with high probability.
    sum: u64,
}

impl Default for Ecmp {
    fn default() -> Ecmp {
        Ecmp { rows: [[0; FAR as usize]; ROUTES_MAX], choices: [0; 256] }
    }
}

impl Ecmp {
    /// How many links lead from a node to the distance `next`; they are stored in `choices`.
    #[inline]
    fn choose(&mut self, ask: &Ask<'_>, edges: &[Edge], next: u8) -> u32 {
        // Branch-free, because it is unpredictable which links lead closer.
        let mut choices = 0;
        for (i, edge) in edges.iter().enumerate() {
            self.choices[usize::from(choices as u8)] = i as u8;
            choices += u32::from(ask.distance[edge.to as usize] == next);
        }
        choices
    }
}

impl Policy for Ecmp {
    fn routes(&mut self, ask: &Ask<'_>) -> RouteSet {
        let links = ask.distance[ask.from as usize];
        let mut ways = [Way::default(); ROUTES_MAX];
        ways[0] = Way { node: ask.from, digits: 0, product: 1, sum: 0 };
        let mut used = 1;
        // All routes advance one hop at a time, so that their cache misses overlap.
        for at in 0..links {
            for number in 0..ROUTES_MAX {
                if number == used {
                    break;
                }
                let way = ways[number];
                let edges = ask.topology.edges(way.node);
                let choices = self.choose(ask, edges, links - at - 1);
                if choices == 0 {
                    return RouteSet::default();
                }
                // Until the first choice all routes are the same.
                if choices > 1 && used == 1 {
                    used = ROUTES_MAX;
                    for (row, digits) in (1..ROUTES_MAX).zip(1..) {
                        ways[row] = Way { digits, ..way };
                        self.rows.copy_within(0..1, row);
                    }
                }
                let way = &mut ways[number];
                let mut pick = 0;
                if choices > 1 {
                    let shift = mix(ask.hash, u64::from(way.node));
                    let beyond = if way.product >= 8 { mix(shift, number as u64) } else { shift };
                    way.product = way.product.saturating_mul(choices);
                    if way.digits > 0 {
                        (pick, way.digits) = (way.digits % choices, way.digits / choices);
                    }
                    // The upper half of the hash, scaled to the number of choices.
                    pick += (((beyond >> 32) * u64::from(choices)) >> 32) as u32;
                    if pick >= choices {
                        pick -= choices;
                    }
                }
                let edge = &edges[usize::from(self.choices[pick as usize])];
                self.rows[number][usize::from(at)] = edge.port;
                way.node = edge.to;
                way.sum = way.sum.wrapping_mul(257).wrapping_add(edge.port.into());
            }
        }
        let end = usize::from(links);
        let mut found = 0;
        for number in 0..used {
            let same = |other: usize| {
                ways[other].sum == ways[number].sum
                    && self.rows[other][..end] == self.rows[number][..end]
            };
            if (0..found).any(same) {
                continue;
            }
            self.rows[number][end] = ask.port;
            self.rows.copy_within(number..number + 1, found);
            ways[found] = ways[number];
            found += 1;
        }
        RouteSet::from_hops(self.rows[..found].iter().map(|row| &row[..=end]))
    }
}
