//! The k shortest loopless paths of a pair: Yen, "Finding the k shortest loopless paths in a
//! network" (1971), by number of links; of equally long ones the first in the order of channels.

use std::collections::BTreeSet;

use plexus_topo::UNREACHABLE;

use super::net::Net;

/// Searches paths; keeps its memory from one pair to the next, and is fastest when those with the
/// same destination follow each other.
pub(crate) struct Paths<'a> {
    net: &'a Net,
    /// Distances to the destination, which lead the search there (A*).
    to: Option<usize>,
    hops: Vec<u32>,
    order: Vec<u32>,
    /// The channel by which a vertex was reached, and the vertices that were.
    via: Vec<Option<u32>>,
    closed: Vec<bool>,
    reached: Vec<u32>,
    /// What is to be looked at: by how much longer a path through it is than the shortest.
    open: Vec<Vec<(u32, Option<u32>)>>,
    /// Vertices and channels that the path searched for must not use.
    shut: Vec<bool>,
    barred: BTreeSet<u32>,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(net: &'a Net) -> Paths<'a> {
        let n = net.vertices();
        Paths {
            net,
            to: None,
            hops: Vec::new(),
            order: Vec::new(),
            via: vec![None; n],
            closed: vec![false; n],
            reached: Vec::new(),
            open: Vec::new(),
            shut: vec![false; n],
            barred: BTreeSet::new(),
        }
    }

    /// Up to `k` paths, shortest first, each its channels.
    pub(crate) fn shortest(&mut self, from: usize, to: usize, k: usize) -> Vec<Vec<u32>> {
        if self.to != Some(to) {
            self.hops = self.net.hops_to(to, &mut self.order);
            self.to = Some(to);
        }
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

    /// A shortest path over what is open: of several the one that follows the first channels.
    fn first(&mut self, from: usize, to: usize) -> Option<Vec<u32>> {
        if from == to || self.hops[from] == UNREACHABLE {
            return None;
        }
        self.push(0, from as u32, None);
        let mut longer = 0;
        while longer < self.open.len() && !self.closed[to] {
            let Some((vertex, via)) = self.open[longer].pop() else {
                longer += 1;
                continue;
            };
            let here = vertex as usize;
            if std::mem::replace(&mut self.closed[here], true) {
                continue;
            }
            self.via[here] = via;
            self.reached.push(vertex);
            // The last that is pushed is the first that is looked at.
            for c in self.net.out_of(here).rev() {
                let channel = &self.net.channels[c];
                let next = channel.to as usize;
                let open = !self.shut[next] && !self.closed[next] && self.net.passes(channel, to);
                if !open || self.hops[next] == UNREACHABLE || self.barred.contains(&(c as u32)) {
                    continue;
                }
                let more = (self.hops[next] + 1).saturating_sub(self.hops[here]) as usize;
                self.push(longer + more, channel.to, Some(c as u32));
            }
        }
        let mut path = Vec::new();
        let mut at = to;
        while let Some(channel) = self.via[at].filter(|_| self.closed[to]) {
            path.push(channel);
            at = self.net.channels[channel as usize].from as usize;
        }
        path.reverse();
        for vertex in self.reached.drain(..) {
            self.via[vertex as usize] = None;
            self.closed[vertex as usize] = false;
        }
        self.open.iter_mut().for_each(Vec::clear);
        (!path.is_empty()).then_some(path)
    }

    fn push(&mut self, longer: usize, vertex: u32, via: Option<u32>) {
        if self.open.len() <= longer {
            self.open.resize_with(longer + 1, Vec::new);
        }
        self.open[longer].push((vertex, via));
    }
}
