//! Greedy load-spreading after SPAIN (seed `axon` §5.5): each flow in turn gets the one path of
//! least weight, where a cable weighs the load on it times a large number, plus one.
//!
//! The rule is that of the controller's policy (crate `plexus-controller`, `policy/spain.rs`): a
//! path may be [`DETOUR`] links longer than the shortest, which bounds the search. The code is not
//! shared: the controller searches live ports and counts routes in 32 bits, this one searches a
//! whole file's channels and weighs amounts, relative to their mean and to capacity.

use plexus_topo::UNREACHABLE;

use super::Demand;
use super::net::Net;

/// Links that a path may have more than the shortest.
const DETOUR: usize = 2;
/// What a mean amount on a cable weighs; the 1 for each link itself decides between equals.
const LOAD_WEIGHT: f64 = 65536.0;
/// Distances that are kept at once, over all destinations: 4 bytes each.
const DISTANCES_KEPT: usize = 1 << 26;
const NONE: u32 = u32::MAX;

/// A way to a vertex: with the links of detour used, its number of links is determined.
#[derive(Clone, Copy, Debug)]
struct Way {
    vertex: u32,
    detour: u32,
    weight: f64,
    /// The way that it continues, and the channel taken there.
    before: u32,
    channel: u32,
}

/// Lays each flow on a path, in their order; `path` gets every flow's cables.
pub(crate) fn spain(
    net: &Net,
    flows: &[Demand],
    capacity: &[f64],
    loads: &mut [f64],
    mut path: impl FnMut(&[usize]),
) {
    let mean = flows.iter().map(|f| f.amount / flows.len() as f64).sum::<f64>();
    // The usual capacity weighs 1: the greatest that is bounded.
    let greatest = capacity.iter().copied().filter(|c| c.is_finite()).fold(0.0, f64::max);
    let unit = |cable: usize| match capacity[cable] {
        c if c.is_finite() && c > 0.0 => greatest / c * LOAD_WEIGHT / mean,
        _ => 0.0,
    };
    let unit: Vec<f64> = (0..net.cables.len()).map(unit).collect();
    let mut search = Search::new(net);
    for flow in flows {
        let cables = search.cheapest(flow, |cable| loads[cable] * unit[cable]);
        for cable in &cables {
            loads[*cable] += flow.amount;
        }
        path(&cables);
    }
}

/// Finds paths; its memory outlives each, its answers depend on none before.
pub(crate) struct Search<'a> {
    net: &'a Net,
    /// Distances to each destination that was asked for.
    hops: Vec<Option<Box<[u32]>>>,
    kept: usize,
    order: Vec<u32>,
    ways: Vec<Way>,
    /// The best way to (vertex, detour) so far: its place in `ways`, or `NONE`.
    at: Vec<u32>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(net: &'a Net) -> Search<'a> {
        Search {
            net,
            hops: vec![None; net.vertices()],
            kept: 0,
            order: Vec::new(),
            ways: Vec::new(),
            at: vec![NONE; net.vertices() * (DETOUR + 1)],
        }
    }

    /// The cables of the path of least weight, `weight` being that of a cable beyond the 1 for
    /// each link; empty where there is no path. Of several cables in a channel the lightest is
    /// taken, of equals the first.
    pub(crate) fn cheapest(&mut self, flow: &Demand, weight: impl Fn(usize) -> f64) -> Vec<usize> {
        if self.hops[flow.to].is_none() {
            self.kept += self.net.vertices();
            if self.kept > DISTANCES_KEPT {
                self.hops.fill(None);
                self.kept = self.net.vertices();
            }
            let hops = self.net.hops_to(flow.to, &mut self.order);
            self.hops[flow.to] = Some(hops.into());
        }
        let Some(hops) = &self.hops[flow.to] else { return Vec::new() };
        if hops[flow.from] == UNREACHABLE {
            return Vec::new();
        }
        let lightest = |channel: u32| {
            let cables = self.net.channels[channel as usize].cables.clone();
            let weighed = cables.map(|cable| (weight(cable), cable));
            weighed.reduce(|best, next| if next.0 < best.0 { next } else { best })
        };
        let first =
            Way { vertex: flow.from as u32, detour: 0, weight: 0.0, before: NONE, channel: NONE };
        self.ways.push(first);
        self.at[flow.from * (DETOUR + 1)] = 0;
        // Ways are appended in the order of their number of links, so one pass sees each complete.
        let mut next = 0;
        while let Some(&way) = self.ways.get(next) {
            let here = hops[way.vertex as usize];
            // The source may be a host; no other vertex on the way is.
            if here == 0 {
                next += 1;
                continue;
            }
            for channel in self.net.out_of(way.vertex as usize) {
                let to = self.net.channels[channel].to;
                let there = hops[to as usize];
                if there == UNREACHABLE || !self.net.passes(&self.net.channels[channel], flow.to) {
                    continue;
                }
                // From any neighbour the destination is at most one link farther than from here;
                // a source that is a host with several cables stays out of it.
                let detour = (way.detour + 1 + there).saturating_sub(here) as usize;
                if detour > DETOUR {
                    continue;
                }
                let Some((cable, _)) = lightest(channel as u32) else { continue };
                let longer = Way {
                    vertex: to,
                    detour: detour as u32,
                    weight: way.weight + cable + 1.0,
                    before: next as u32,
                    channel: channel as u32,
                };
                let at = &mut self.at[to as usize * (DETOUR + 1) + detour];
                if *at == NONE {
                    *at = self.ways.len() as u32;
                    self.ways.push(longer);
                } else if longer.weight < self.ways[*at as usize].weight {
                    self.ways[*at as usize] = longer;
                }
            }
            next += 1;
        }
        let arrived = self.ways.iter().filter(|w| w.vertex as usize == flow.to);
        let best =
            arrived.min_by(|a, b| a.weight.total_cmp(&b.weight).then(a.detour.cmp(&b.detour)));
        let mut cables = Vec::new();
        let mut way = best.copied();
        while let Some(last) = way.filter(|w| w.before != NONE) {
            cables.extend(lightest(last.channel).map(|(_, cable)| cable));
            way = self.ways.get(last.before as usize).copied();
        }
        cables.reverse();
        for way in self.ways.drain(..) {
            self.at[way.vertex as usize * (DETOUR + 1) + way.detour as usize] = NONE;
        }
        cables
    }
}
