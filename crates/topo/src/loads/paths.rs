//! The k shortest loopless paths of a pair: Yen, "Finding the k shortest loopless paths in a
//! network" (1971), by number of links; of equally long ones the first in the order of channels.

use std::collections::BTreeSet;

use super::net::Net;
use crate::graph::UNREACHABLE;

/// Searches paths; keeps its memory from one pair to the next.
pub(crate) struct Paths<'a> {
    net: &'a Net,
    hops: Vec<u32>,
    order: Vec<u32>,
    /// Vertices and channels that the path searched for must not use.
    shut: Vec<bool>,
    barred: BTreeSet<u32>,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(net: &'a Net) -> Paths<'a> {
        let hops = vec![UNREACHABLE; net.vertices()];
        let shut = vec![false; net.vertices()];
        Paths { net, hops, order: Vec::new(), shut, barred: BTreeSet::new() }
    }

    /// Up to `k` paths, shortest first, each its channels.
    pub(crate) fn shortest(&mut self, from: usize, to: usize, k: usize) -> Vec<Vec<u32>> {
        let mut found: Vec<Vec<u32>> = Vec::new();
        // Ordered by length, then by channels; the place where it left its parent goes with it.
        let mut candidates: BTreeSet<(usize, Vec<u32>)> = BTreeSet::new();
        candidates.extend(self.first(from, to).map(|path| (path.len(), path)));
        while let Some((_, path)) = candidates.pop_first() {
            found.push(path);
            if found.len() == k {
                break;
            }
            let path = found[found.len() - 1].clone();
            let mut at = from;
            for spur in 0..path.len() {
                let root = &path[..spur];
                self.barred.clear();
                let same_root = found.iter().filter(|f| f.len() > spur && f[..spur] == *root);
                self.barred.extend(same_root.map(|f| f[spur]));
                if let Some(rest) = self.first(at, to) {
                    let whole = [root, &rest].concat();
                    candidates.insert((whole.len(), whole));
                }
                self.shut[at] = true;
                at = self.net.channels[path[spur] as usize].to as usize;
            }
            self.barred.clear();
            self.shut[from] = false;
            path.iter().for_each(|c| self.shut[self.net.channels[*c as usize].to as usize] = false);
        }
        found
    }

    /// A shortest path over what is open: the first in the order of channels.
    fn first(&mut self, from: usize, to: usize) -> Option<Vec<u32>> {
        // Backwards, so that following the distances from `from` gives the first in order.
        self.order.clear();
        self.order.push(to as u32);
        self.hops[to] = 0;
        let mut next = 0;
        while let Some(&vertex) = self.order.get(next) {
            next += 1;
            let here = vertex as usize;
            if here == from {
                break;
            }
            if !self.net.forwards[here] && here != to {
                continue;
            }
            for &channel in self.net.into(here) {
                let before = self.net.channels[channel as usize].from as usize;
                let open = !self.shut[before] && !self.barred.contains(&channel);
                if open && self.hops[before] == UNREACHABLE {
                    self.hops[before] = self.hops[here] + 1;
                    self.order.push(before as u32);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = from;
        while at != to && self.hops[at] != UNREACHABLE {
            let closer = |c: &usize| {
                let there = self.net.channels[*c].to as usize;
                self.hops[there] != UNREACHABLE
                    && self.hops[there] + 1 == self.hops[at]
                    && self.net.passes(&self.net.channels[*c], to)
                    && !self.barred.contains(&(*c as u32))
            };
            let Some(channel) = self.net.out_of(at).find(closer) else { break };
            path.push(channel as u32);
            at = self.net.channels[channel].to as usize;
        }
        self.order.drain(..).for_each(|v| self.hops[v as usize] = UNREACHABLE);
        (at == to && from != to).then_some(path)
    }
}
