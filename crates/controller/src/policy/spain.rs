//! Greedy load-spreading after SPAIN (seed §5.5): a link weighs the number of routes on it times a
//! large number, plus one; a flow gets the one route of least weight.
//!
//! The seed searches without bound, and its routes come out 1 % longer than the shortest. Here a
//! route may be [`DETOUR`] links longer than the shortest one, which bounds the search to the
//! nodes between the two hosts and makes every route fit the header that a shortest one fits.
//! Among routes so bounded the one found is of least weight.

use super::{Ask, Policy, RouteSet};
use crate::topology::NONE;

/// Links that a route may have more than the shortest.
const DETOUR: usize = 2;
/// What one more route on a link weighs; the 1 for each link itself decides between equals.
const LOAD_WEIGHT: u64 = 1 << 16;

/// A way to a node: with the links of detour used, its number of links is determined.
#[derive(Clone, Copy, Debug)]
struct Way {
    node: u32,
    detour: usize,
    weight: u64,
    /// The way that it continues, and the port taken there.
    before: u32,
    port: u8,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Spain {
    ways: Vec<Way>,
    /// The best way to (node, detour) so far: its place in `ways`, or `NONE`.
    at: Vec<u32>,
}

impl Policy for Spain {
    fn weighs_load(&self) -> bool {
        true
    }

    fn routes(&mut self, ask: &Ask<'_>) -> RouteSet {
        self.at.resize(ask.distance.len() * (DETOUR + 1), NONE);
        let shortest = usize::from(ask.distance[ask.from as usize]);
        let detour_max = DETOUR.min(ask.hops_max.saturating_sub(shortest + 1));
        self.ways.push(Way { node: ask.from, detour: 0, weight: 0, before: NONE, port: 0 });
        self.at[ask.from as usize * (DETOUR + 1)] = 0;
        // Ways are appended in the order of their number of links, so one pass sees each complete.
        let mut next = 0;
        while let Some(&way) = self.ways.get(next) {
            let here = usize::from(ask.distance[way.node as usize]);
            for edge in &ask.topology.node(way.node).edges {
                let there = usize::from(ask.distance[edge.to as usize]);
                // From any neighbour the target is at most one link farther than from here.
                let detour = way.detour + 1 + there - here.min(there + 1);
                if here == 0 || there > here + 1 || detour > detour_max {
                    continue;
                }
                let load = ask.load.get(edge.link as usize).copied().unwrap_or(0);
                let weight = way.weight + u64::from(load) * LOAD_WEIGHT + 1;
                let longer =
                    Way { node: edge.to, detour, weight, before: next as u32, port: edge.port };
                let at = &mut self.at[edge.to as usize * (DETOUR + 1) + detour];
                if *at == NONE {
                    *at = self.ways.len() as u32;
                    self.ways.push(longer);
                } else if weight < self.ways[*at as usize].weight {
                    self.ways[*at as usize] = longer;
                }
            }
            next += 1;
        }
        let arrived = self.ways.iter().filter(|w| ask.distance[w.node as usize] == 0);
        let best = arrived.min_by_key(|w| (w.weight, w.detour)).copied();
        let mut hops = Vec::with_capacity(shortest + DETOUR + 1);
        if let Some(mut way) = best {
            hops.push(ask.port);
            while way.before != NONE {
                hops.push(way.port);
                way = self.ways[way.before as usize];
            }
            hops.reverse();
        }
        for way in self.ways.drain(..) {
            self.at[way.node as usize * (DETOUR + 1) + way.detour] = NONE;
        }
        RouteSet::from_hops([&hops[..]])
    }
}
