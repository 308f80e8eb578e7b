//! Invariants. Reachability is judged only by the packets that hosts receive.

use std::collections::BTreeSet;

use plexus_wire::MacAddr;
use plexus_wire::fabric::message::PortRole;

use super::{End, World};

/// Two hosts, one way.
pub(crate) type Pair = (usize, usize);

impl World {
    /// Every pair of these hosts, both ways.
    pub(crate) fn pairs(hosts: &[usize]) -> Vec<Pair> {
        let others = |a: usize| hosts.iter().copied().filter(move |&b| b != a);
        hosts.iter().flat_map(|&a| others(a).map(move |b| (a, b))).collect()
    }

    pub(crate) fn all_pairs(&self) -> Vec<Pair> {
        World::pairs(&(0..self.hosts.len()).collect::<Vec<_>>())
    }

    /// Sends a packet for each pair, again every 20 ms, within a time limit; returns the pairs
    /// without an arrival. Time passes only as far as needed.
    pub(crate) fn unreached(&mut self, pairs: &[Pair], within_ms: u64) -> Vec<Pair> {
        let mut left: Vec<(Pair, u32)> = pairs.iter().map(|&pair| (pair, self.number())).collect();
        let end = self.now + std::time::Duration::from_millis(within_ms);
        loop {
            for &((from, to), number) in &left {
                let ip = self.hosts[to].ip;
                self.send(from, ip, number);
            }
            self.run(20);
            left.retain(|&(pair, number)| self.arrivals(pair, number) == 0);
            if left.is_empty() || self.now >= end {
                return left.into_iter().map(|(pair, _)| pair).collect();
            }
        }
    }

    /// How often a packet has arrived: from its host, or from the group that has routed it.
    pub(crate) fn arrivals(&self, (from, to): Pair, number: u32) -> usize {
        let (source, target) = (&self.hosts[from], &self.hosts[to]);
        let sender = match source.is_near(target.ip) {
            true => source.mac,
            false => self.config.group_mac,
        };
        target.received.iter().filter(|got| **got == (sender, number)).count()
    }

    /// Sends one packet for each pair; returns the pairs whose packet did not arrive exactly once.
    pub(crate) fn unreached_at_once(&mut self, pairs: &[Pair]) -> Vec<Pair> {
        let sent: Vec<(Pair, u32)> = pairs.iter().map(|&pair| (pair, self.number())).collect();
        for &((from, to), number) in &sent {
            let ip = self.hosts[to].ip;
            self.send(from, ip, number);
        }
        self.run(10);
        let left = sent.into_iter().filter(|&(pair, number)| self.arrivals(pair, number) != 1);
        left.map(|(pair, _)| pair).collect()
    }

    /// The nodes that are up and connected with this one by working links.
    pub(crate) fn component(&self, of: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::from([of]);
        let mut new = vec![of];
        while let Some(n) = new.pop() {
            for (&a, &b) in &self.cables {
                let (End::Node(x, _), End::Node(y, _)) = (a, b) else { continue };
                let works = x == n && !self.is_silent(a) && self.nodes[y].is_some();
                if works && found.insert(y) {
                    new.push(y);
                }
            }
        }
        found
    }

    /// Whether a station is at this end of a cable, or behind the switch there.
    pub(crate) fn is_behind(&self, end: End, mac: MacAddr) -> bool {
        match end {
            End::Host(h) => self.hosts[h].mac == mac || self.hosts[h].is_promiscuous,
            End::Switch(id, _) => {
                let ports = self.cables.range(End::Switch(id, 0)..End::Switch(id + 1, 0));
                let mut hosts = ports.filter(|(_, to)| matches!(to, End::Host(_)));
                hosts.any(|(_, host)| self.is_behind(*host, mac))
            }
            _ => false,
        }
    }

    /// Every route in these nodes' memories that does not lead to its destination, or uses a failed
    /// part.
    pub(crate) fn stale_routes(&self, nodes: &BTreeSet<usize>) -> Vec<String> {
        let mut wrong = Vec::new();
        for &n in nodes {
            let Some(boxed) = &self.nodes[n] else { continue };
            let routes = boxed.node().routes();
            assert_eq!(boxed.routes_in_plane(), routes.len(), "node {n}'s two memories differ");
            for entry in &routes {
                let at = self.cables.get(&End::Node(n, entry.port));
                let is_host = at.is_some_and(|end| match entry.source {
                    Some(mac) => self.is_behind(*end, mac),
                    None => matches!(end, End::Host(_) | End::Switch(..)),
                });
                if !is_host || entry.routes.is_empty() {
                    wrong.push(format!("node {n}: {entry:?} at {at:?}"));
                }
                for path in &entry.routes {
                    let (end, by) = self.walk(n, path);
                    let arrives = end.is_some_and(|end| self.is_behind(end, entry.destination));
                    if !arrives || !self.works(n, path) {
                        wrong.push(format!("node {n}: {entry:?} leads by {by:?} to {end:?}"));
                    }
                }
            }
        }
        wrong
    }

    /// Routes in nodes' memories that the last controller does not know: it would not reroute them
    /// after a failure.
    pub(crate) fn orphans(&self) -> Vec<String> {
        let Some(brain) = self.controllers.iter().rev().flatten().next() else { return vec![] };
        let known: BTreeSet<_> =
            brain.core.flows().map(|f| (f.node, f.port, f.source, f.destination)).collect();
        let all = self.nodes.iter().enumerate().filter_map(|(n, b)| Some((n, b.as_ref()?)));
        let routes = all.flat_map(|(n, b)| b.node().routes().into_iter().map(move |r| (n, r)));
        routes
            .filter(|(n, r)| !known.contains(&(*n as u64 + 1, r.port, r.source, r.destination)))
            .map(|(n, r)| format!("node {n}: {r:?}"))
            .collect()
    }

    /// Whether every node on a path is up, and every cable passes frames.
    fn works(&self, from: usize, path: &[u8]) -> bool {
        let mut at = from;
        for (i, &hop) in path.iter().enumerate() {
            let Some(boxed) = &self.nodes[at] else { return false };
            let is_last = i + 1 == path.len();
            let role = if is_last { PortRole::Host } else { PortRole::Fabric };
            if boxed.node().role(hop) != role || self.is_silent(End::Node(at, hop)) {
                return false;
            }
            match self.cables.get(&End::Node(at, hop)) {
                Some(&End::Node(next, _)) => at = next,
                Some(End::Host(_) | End::Switch(..)) => return is_last,
                _ => return false,
            }
        }
        false
    }
}

/// Invariants at the end of every test.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.nodes.iter().flatten().for_each(super::Boxed::check_account);
        assert!(self.astray.is_empty(), "wrong reverse paths: {:?}", self.astray);
    }
}
