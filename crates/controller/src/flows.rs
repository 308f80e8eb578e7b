//! Flows: who uses which routes, and which routes use a link.
//!
//! A flow is one entry of a node's route memory. Between inputs every route of every flow runs
//! over links that exist: when links go, the flows over them are let go of first (the tables still
//! know the links), then the links are cut, then those flows, and no others, get new routes.
//!
//! For each link the flows are listed that may cross it. A flow that was moved away leaves its
//! number behind; it is judged by its routes when the list is used, and the list is swept once most
//! of it is left behind.

use std::collections::{BTreeMap, BTreeSet};

use plexus_config::RoutePolicy;
use plexus_wire::MacAddr;
use plexus_wire::fabric::message::RouteEntry;

use crate::policy::{self, Ask, Policy, RouteSet, mix};
use crate::topology::{Place, Topology};
use crate::trees::{FAR, Trees};

/// Longest route, in hops: what the fabric header may carry in both directions together.
pub(crate) const HOPS_MAX: usize = 64;
/// Numbers that may be left behind in a link's list, besides as many as there are flows.
const LEFT_BEHIND: usize = 64;

/// The flows of a link, in both directions.
#[derive(Clone, Debug, Default)]
struct Crossing {
    /// All that cross it, and some that did.
    flows: Vec<u32>,
    /// How many do.
    count: usize,
    /// The flow that was counted last, and whether in or out: its other routes over the same link
    /// follow at once and are not counted again.
    last: Option<(u32, bool)>,
}

impl Crossing {
    fn enter(&mut self, id: u32) {
        if self.last.replace((id, true)) != Some((id, true)) {
            self.count += 1;
            if self.flows.last() != Some(&id) {
                self.flows.push(id);
            }
        }
    }

    fn leave(&mut self, id: u32) {
        if self.last.replace((id, false)) != Some((id, false)) {
            self.count -= 1;
        }
    }

    fn is_stale(&self) -> bool {
        self.flows.len() > 2 * self.count + LEFT_BEHIND
    }
}

/// Names an entry of route memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    /// The host port of the source.
    pub(crate) at: Place,
    /// The station that uses it; absent: all of the port.
    pub(crate) source: Option<MacAddr>,
    pub(crate) destination: MacAddr,
}

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) key: FlowKey,
    pub(crate) version: u64,
    /// Where the routes end.
    pub(crate) to: Place,
    /// None while no path is left.
    pub(crate) routes: RouteSet,
    /// Its routes are in `crossing` and `load`: they have been seen to exist.
    pub(crate) is_proved: bool,
}

impl Flow {
    /// What is sent to the flow's node.
    pub(crate) fn entry(&self) -> RouteEntry {
        RouteEntry {
            port: self.key.at.port,
            source: self.key.source,
            destination: self.key.destination,
            version: self.version,
            routes: self.routes.to_hops(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Flows {
    slots: Vec<Option<Flow>>,
    free: Vec<u32>,
    by_key: BTreeMap<FlowKey, u32>,
    by_destination: BTreeSet<(MacAddr, u32)>,
    per_port: BTreeMap<Place, usize>,
    /// By link.
    crossing: Vec<Crossing>,
    /// Routes on each directed link, if the policy weighs them.
    load: Vec<u32>,
    /// Flows without a path.
    pub(crate) stranded: BTreeSet<u32>,
    pub(crate) trees: Trees,
    policy: Box<dyn Policy>,
    /// The last version given.
    version: u64,
    seed: u64,
}

impl Flows {
    pub(crate) fn new(policy: RoutePolicy, epoch: u64, seed: u64) -> Flows {
        Flows {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: BTreeMap::new(),
            by_destination: BTreeSet::new(),
            per_port: BTreeMap::new(),
            crossing: Vec::new(),
            load: Vec::new(),
            stranded: BTreeSet::new(),
            trees: Trees::default(),
            policy: policy::of(policy),
            version: epoch << 32,
            seed,
        }
    }

    pub(crate) fn set_policy(&mut self, topology: &Topology, policy: RoutePolicy) {
        self.policy = policy::of(policy);
        self.load.clear();
        if !self.policy.weighs_load() {
            return;
        }
        self.load.resize(topology.links_len(), 0);
        for flow in self.slots.iter().flatten().filter(|flow| flow.is_proved) {
            for hops in flow.routes.iter() {
                topology.walk(flow.key.at.node, hops, |link| self.load[link as usize] += 1);
            }
        }
    }

    /// A version above all others, of earlier incarnations too.
    pub(crate) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn len_at(&self, port: Place) -> usize {
        self.per_port.get(&port).copied().unwrap_or(0)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Flow> {
        self.slots.get(id as usize)?.as_ref()
    }

    pub(crate) fn find(&self, key: &FlowKey) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Flow)> {
        self.by_key.values().filter_map(|&id| Some((id, self.get(id)?)))
    }

    /// One past the highest number of a flow.
    pub(crate) fn ids_end(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Flows towards a station.
    pub(crate) fn towards(&self, mac: MacAddr) -> Vec<u32> {
        self.by_destination.range((mac, 0)..=(mac, u32::MAX)).map(|(_, id)| *id).collect()
    }

    /// Flows that begin at a port.
    pub(crate) fn at(&self, port: Place) -> impl Iterator<Item = u32> + '_ {
        let first = FlowKey { at: port, source: None, destination: MacAddr([0; 6]) };
        self.by_key.range(first..).take_while(move |(k, _)| k.at == port).map(|(_, id)| *id)
    }

    /// Flows that begin at a node, whose first key this is.
    pub(crate) fn of_node(&self, first: FlowKey) -> Vec<u32> {
        let same = |k: &FlowKey| k.at.node == first.at.node;
        self.by_key.range(first..).take_while(|(k, _)| same(k)).map(|(_, id)| *id).collect()
    }

    /// Flows of a station at a port.
    pub(crate) fn of(&self, port: Place, mac: MacAddr) -> Vec<u32> {
        let first = FlowKey { at: port, source: Some(mac), destination: MacAddr([0; 6]) };
        let same = |k: &FlowKey| k.at == port && k.source == Some(mac);
        self.by_key.range(first..).take_while(|(k, _)| same(k)).map(|(_, id)| *id).collect()
    }

    /// Some flow of a port, to make room: the first at or behind `near`, as random as that is.
    pub(crate) fn victim(&self, port: Place, near: MacAddr) -> Option<u32> {
        let from = FlowKey { at: port, source: Some(near), destination: near };
        let behind = self.by_key.range(from..).next().filter(|(k, _)| k.at == port);
        behind.map(|(_, id)| *id).or_else(|| self.at(port).next())
    }

    /// Routes from a place to another by the policy; none if there is no path.
    pub(crate) fn routes(&mut self, topology: &Topology, key: &FlowKey, to: Place) -> RouteSet {
        let from = key.at.node;
        if !topology.node(from).up || !topology.node(to.node).up {
            return RouteSet::default();
        }
        if from == to.node {
            return RouteSet::from_hops([&[to.port][..]]);
        }
        if self.policy.weighs_load() {
            self.load.resize(topology.links_len(), 0);
        }
        let distance = self.trees.to(topology, to.node);
        let links = distance[from as usize];
        if links == FAR || usize::from(links) + 1 > HOPS_MAX {
            return RouteSet::default();
        }
        let source = key.source.map_or(u64::from(key.at.port), MacAddr::to_u64);
        let hash = mix(mix(self.seed, source), key.destination.to_u64());
        let ask = Ask {
            topology,
            distance,
            load: &self.load,
            from,
            port: to.port,
            hash,
            hops_max: HOPS_MAX,
        };
        self.policy.routes(&ask)
    }

    /// Renews a flow's version; returns its routes.
    pub(crate) fn set_version(&mut self, id: u32, version: u64) -> Option<Vec<Vec<u8>>> {
        let flow = self.slots.get_mut(id as usize)?.as_mut()?;
        flow.version = version;
        Some(flow.routes.to_hops())
    }

    /// Enters a flow, in place of one of the same key. Proved routes run over links that exist.
    pub(crate) fn insert(
        &mut self,
        topology: &Topology,
        key: FlowKey,
        to: Place,
        routes: RouteSet,
        version: u64,
        is_proved: bool,
    ) -> u32 {
        if let Some(id) = self.find(&key) {
            self.release(topology, id);
            self.stranded.remove(&id);
            if let Some(flow) = &mut self.slots[id as usize] {
                (flow.to, flow.routes, flow.version) = (to, routes, version);
            }
            self.settle(topology, id, is_proved);
            return id;
        }
        let id = self.free.pop().unwrap_or(self.slots.len() as u32);
        if id as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[id as usize] = Some(Flow { key, version, to, routes, is_proved: false });
        self.by_key.insert(key, id);
        self.by_destination.insert((key.destination, id));
        *self.per_port.entry(key.at).or_default() += 1;
        self.settle(topology, id, is_proved);
        id
    }

    fn settle(&mut self, topology: &Topology, id: u32, is_proved: bool) {
        let Some(flow) = self.get(id) else { return };
        if flow.routes.is_empty() {
            self.stranded.insert(id);
        } else if is_proved {
            self.prove(topology, id);
        }
    }

    pub(crate) fn remove(&mut self, topology: &Topology, id: u32) -> Option<Flow> {
        self.release(topology, id);
        let flow = self.slots.get_mut(id as usize)?.take()?;
        self.free.push(id);
        self.stranded.remove(&id);
        self.by_key.remove(&flow.key);
        self.by_destination.remove(&(flow.key.destination, id));
        if let Some(count) = self.per_port.get_mut(&flow.key.at) {
            *count -= 1;
            if *count == 0 {
                self.per_port.remove(&flow.key.at);
            }
        }
        Some(flow)
    }

    /// Enters a flow's routes into the tables of links.
    fn prove(&mut self, topology: &Topology, id: u32) {
        if self.policy.weighs_load() {
            self.load.resize(topology.links_len(), 0);
        }
        self.crossing.resize_with(topology.links_len() / 2, Crossing::default);
        let Some(flow) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return };
        flow.is_proved = true;
        let mut stale = None;
        for hops in flow.routes.iter() {
            topology.walk(flow.key.at.node, hops, |link| {
                if let Some(load) = self.load.get_mut(link as usize) {
                    *load += 1;
                }
                let crossing = &mut self.crossing[link as usize / 2];
                crossing.enter(id);
                if crossing.is_stale() {
                    stale = Some(link / 2);
                }
            });
        }
        if let Some(slot) = stale {
            self.crossing[slot as usize].flows = self.crossing_now(topology, &[slot]);
        }
    }

    /// Takes a flow's routes out of the tables of links.
    fn release(&mut self, topology: &Topology, id: u32) {
        let Some(flow) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if !std::mem::take(&mut flow.is_proved) {
            return;
        }
        for hops in flow.routes.iter() {
            topology.walk(flow.key.at.node, hops, |link| {
                if let Some(load) = self.load.get_mut(link as usize) {
                    *load -= 1;
                }
                self.crossing[link as usize / 2].leave(id);
            });
        }
    }

    /// The flows that cross one of these links now, each once, in order.
    fn crossing_now(&self, topology: &Topology, slots: &[u32]) -> Vec<u32> {
        let lists = slots.iter().filter_map(|s| self.crossing.get(*s as usize));
        let mut ids: Vec<u32> = lists.flat_map(|crossing| &crossing.flows).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|&id| {
            let Some(flow) = self.get(id).filter(|f| f.is_proved) else { return false };
            let crosses = |hops: &[u8]| {
                let mut crosses = false;
                topology.walk(flow.key.at.node, hops, |l| crosses |= slots.contains(&(l / 2)));
                crosses
            };
            flow.routes.iter().any(crosses)
        });
        ids
    }

    /// Lets go of the flows over these links, which are about to be cut, and names them.
    pub(crate) fn release_crossing(&mut self, topology: &Topology, slots: &[u32]) -> Vec<u32> {
        let ids = self.crossing_now(topology, slots);
        for &id in &ids {
            self.release(topology, id);
        }
        for &slot in slots {
            if let Some(crossing) = self.crossing.get_mut(slot as usize) {
                *crossing = Crossing::default();
            }
        }
        ids
    }

    /// Gives a flow new routes, to `to` if it has moved; true if they are others than before.
    pub(crate) fn reroute(&mut self, topology: &Topology, id: u32, to: Option<Place>) -> bool {
        self.release(topology, id);
        let Some(flow) = self.get(id) else { return false };
        let (key, to) = (flow.key, to.unwrap_or(flow.to));
        let routes = self.routes(topology, &key, to);
        let version = self.next_version();
        let Some(flow) = self.slots[id as usize].as_mut() else { return false };
        let changed = flow.routes != routes;
        flow.to = to;
        if changed {
            (flow.routes, flow.version) = (routes, version);
        }
        self.stranded.remove(&id);
        self.settle(topology, id, true);
        changed
    }

    /// Gives a flow better routes if there are shorter ones, or more of the same length.
    pub(crate) fn improve(&mut self, topology: &Topology, id: u32) -> bool {
        let Some(flow) = self.get(id).filter(|f| f.is_proved) else { return false };
        let (key, to, now) = (flow.key, flow.to, flow.routes.clone());
        let better = self.routes(topology, &key, to);
        let rank = |r: &RouteSet| (r.hops_max(), usize::MAX - r.iter().count());
        !better.is_empty() && rank(&better) < rank(&now) && self.reroute(topology, id, None)
    }

    /// Holds the tables against the flows; for tests.
    #[cfg(test)]
    pub(crate) fn check(&self, topology: &Topology) {
        let mut load = vec![0; topology.links_len()];
        for (id, flow) in self.iter() {
            assert_eq!(self.stranded.contains(&id), flow.routes.is_empty(), "{flow:?}");
            if !flow.is_proved {
                continue;
            }
            for hops in flow.routes.iter() {
                let end = topology.walk(flow.key.at.node, hops, |link| {
                    load[link as usize] += 1;
                    assert!(self.crossing[link as usize / 2].flows.contains(&id));
                });
                assert_eq!(end, Some(flow.to), "{flow:?}");
            }
        }
        if self.policy.weighs_load() {
            let mut counted = self.load.clone();
            counted.resize(load.len(), 0);
            assert_eq!(load, counted);
        }
        for (slot, crossing) in self.crossing.iter().enumerate() {
            assert_eq!(crossing.count, self.crossing_now(topology, &[slot as u32]).len());
        }
        assert_eq!(self.by_destination.len(), self.by_key.len());
        assert_eq!(self.per_port.values().sum::<usize>(), self.by_key.len());
    }
}
