//! Greedy load-spreading after SPAIN (seed §5.5): the weight of a link is the number of routes on
//! it times a large number, plus one; a flow gets the one route of least weight.
//!
//! The seed's search is unbounded, and its routes are 1 % longer than the shortest. Here a route
//! may be at most [`DETOUR`] links longer than the shortest one, which bounds the search to the
//! nodes between the two hosts and makes every route fit the header that a shortest one fits. Among
//! these, the search finds one of least weight; of equals, one of the shortest.
//!
//! It first finds the best of the shortest routes, then better detours: a detour is skipped if even
//! the least loaded links of the whole fabric could not make it better. This policy keeps loads
//! even, so few are examined.

use super::{Ask, Policy, RouteSet};
use crate::topology::{Edge, NONE};

/// Links that a route may exceed the shortest by.
const DETOUR: u8 = 2;
const LEVELS: usize = DETOUR as usize + 1;
/// The weight of one more route on a link; the 1 for each link decides between equals.
const LOAD_WEIGHT: u64 = 1 << 16;

/// A partial path to a node: the detour used determines its number of links.
#[derive(Clone, Copy, Debug)]
struct Way {
    node: u32,
    /// The partial path that it extends, and the port taken there.
    before: u32,
    weight: u64,
    port: u8,
    detour: u8,
    /// The node's distance to the target.
    distance: u8,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Spain {
    /// First those without detour, then the others, each in the order of their number of links.
    ways: Vec<Way>,
    /// The best path to (node, detour) so far: its index in `ways`, or `NONE`.
    at: Vec<u32>,
    hops: Vec<u8>,
}

impl Spain {
    /// Extends a path by a link; true if there was no better one to that node.
    #[inline]
    fn go_on(&mut self, before: u32, edge: &Edge, weight: u64, detour: u8, distance: u8) -> bool {
        let way = Way { node: edge.to, before, weight, port: edge.port, detour, distance };
        let at = &mut self.at[edge.to as usize * LEVELS + usize::from(detour)];
        if *at == NONE {
            *at = self.ways.len() as u32;
            self.ways.push(way);
            return true;
        }
        let known = &mut self.ways[*at as usize];
        if weight < known.weight {
            *known = way;
            return true;
        }
        false
    }

    /// Whether every path to a node with less detour is heavier: otherwise that one, with any
    /// continuation, would be as good. Such paths are complete, because they have fewer links.
    #[inline]
    fn is_best_so_far(&self, node: u32, detour: u8, weight: u64) -> bool {
        let first = node as usize * LEVELS;
        let less = self.at[first..first + usize::from(detour)].iter().filter(|at| **at != NONE);
        less.map(|at| self.ways[*at as usize].weight).all(|known| weight < known)
    }

    /// Finds the best paths without detour.
    fn straight(&mut self, ask: &Ask<'_>) {
        let mut next = 0;
        // A path is final when its turn comes: the paths that reach its node are all one link
        // shorter.
        while let Some(&way) = self.ways.get(next) {
            for edge in ask.topology.edges(way.node) {
                let there = ask.distance[edge.to as usize];
                if there < way.distance {
                    self.go_on(next as u32, edge, way.weight + weight(ask, edge), 0, there);
                }
            }
            next += 1;
        }
    }

    /// Finds the paths with detours that may arrive with less weight than `best`.
    fn around(&mut self, ask: &Ask<'_>, detour_max: u8, mut best: u64) {
        let total = self.ways.first().map_or(0, |way| way.distance);
        let links = |way: &Way| total + way.detour - way.distance;
        let (mut straight, mut around) = (0, self.ways.len());
        let end = around;
        loop {
            let first = self.ways[..end].get(straight);
            let second = self.ways.get(around);
            let is_straight = match (first, second) {
                (None, None) => return,
                (Some(a), Some(b)) => links(a) <= links(b),
                (first, _) => first.is_some(),
            };
            let next = if is_straight { &mut straight } else { &mut around };
            let (at, way) = (*next, self.ways[*next]);
            *next += 1;
            // A path without detour still has one before it, and so at least one more link.
            let left = usize::from(way.distance) + usize::from(is_straight);
            if way.distance == 0 || way.weight + bound(ask, left) >= best {
                continue;
            }
            for edge in ask.topology.edges(way.node) {
                let there = ask.distance[edge.to as usize];
                // From any neighbour the target is at most one link farther than from here.
                if there > way.distance + 1 {
                    continue;
                }
                let detour = way.detour + there + 1 - way.distance.min(there + 1);
                if detour == 0 || detour > detour_max {
                    continue;
                }
                let weight = way.weight + weight(ask, edge);
                if weight + bound(ask, usize::from(there)) < best
                    && self.is_best_so_far(edge.to, detour, weight)
                    && self.go_on(at as u32, edge, weight, detour, there)
                    && there == 0
                {
                    best = weight;
                }
            }
        }
    }
}

/// The weight of a link.
#[inline]
fn weight(ask: &Ask<'_>, edge: &Edge) -> u64 {
    u64::from(ask.loads.on(edge.link)) * LOAD_WEIGHT + 1
}

/// A lower bound of the weight of this many different links.
#[inline]
fn bound(ask: &Ask<'_>, links: usize) -> u64 {
    ask.loads.at_least(links) * LOAD_WEIGHT + links as u64
}

impl Policy for Spain {
    fn weighs_load(&self) -> bool {
        true
    }

    fn routes(&mut self, ask: &Ask<'_>) -> RouteSet {
        self.at.resize(ask.distance.len() * LEVELS, NONE);
        let distance = ask.distance[ask.from as usize];
        let detour_max = DETOUR.min(ask.hops_max.saturating_sub(usize::from(distance) + 1) as u8);
        let (node, before) = (ask.from, NONE);
        self.at[node as usize * LEVELS] = 0;
        self.ways.push(Way { node, before, weight: 0, port: 0, detour: 0, distance });
        self.straight(ask);
        let arrived = |ways: &[Way]| {
            let arrived = ways.iter().filter(|w| w.distance == 0);
            arrived.min_by_key(|w| (w.weight, w.detour)).copied()
        };
        if let Some(best) = arrived(&self.ways) {
            self.around(ask, detour_max, best.weight);
        }
        self.hops.clear();
        if let Some(mut way) = arrived(&self.ways) {
            self.hops.push(ask.port);
            while way.before != NONE {
                self.hops.push(way.port);
                way = self.ways[way.before as usize];
            }
            self.hops.reverse();
        }
        for way in self.ways.drain(..) {
            self.at[way.node as usize * LEVELS + usize::from(way.detour)] = NONE;
        }
        RouteSet::from_hops([&self.hops[..]])
    }
}
