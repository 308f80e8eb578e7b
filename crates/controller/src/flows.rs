//! Flows: the routes of each, and the flows on each link.
//!
//! A flow is one entry of a node's route memory. Between inputs every route of every flow runs over
//! existing links. When links go, their flows are released first (while the tables still know the
//! links), then the links are removed, and then those flows, and no others, get new routes.
//!
//! The indices of flows are kept per node, so that adding or removing one touches little memory:
//! the flows that begin there, in the order of their keys, and those that end there.

use std::collections::{BTreeMap, BTreeSet};

use plexus_config::RoutePolicy;
use plexus_wire::MacAddr;
use plexus_wire::fabric::message::RouteEntry;

use crate::crossings::Crossings;
use crate::loads::Loads;
use crate::policy::{self, Ask, Policy, RouteSet, mix};
use crate::topology::{Place, Topology};
use crate::trees::{FAR, Trees};

/// Longest route, in hops: what the fabric header may carry in both directions together.
pub(crate) const HOPS_MAX: usize = plexus_wire::fabric::HOPS_MAX;
/// The highest epoch: versions have it in their upper 32 bits.
pub const EPOCH_MAX: u64 = u32::MAX as u64;
/// After so many versions of an epoch another one is needed. Half of them can be used up by a node
/// that claims so ([`Flows::outlast`]).
const SPENT: u32 = 3 << 30;

/// The key of an entry of route memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    /// The host port of the source.
    pub(crate) at: Place,
    /// The station that uses it; absent: all stations of the port.
    pub(crate) source: Option<MacAddr>,
    pub(crate) destination: MacAddr,
}

impl FlowKey {
    /// Port, source and destination as one number of the same order.
    fn at_node(&self) -> u128 {
        let source = self.source.map_or(0, |mac| 1 << 48 | mac.to_u64());
        u128::from(self.at.port) << 97
            | u128::from(source) << 48
            | u128::from(self.destination.to_u64())
    }

    /// The first key of a port, or of one of its stations.
    fn first(at: Place, source: Option<MacAddr>) -> FlowKey {
        FlowKey { at, source, destination: MacAddr([0; 6]) }
    }
}

/// The flows that begin or end at a node.
#[derive(Clone, Debug, Default)]
struct AtNode {
    /// By port, source and destination.
    from: BTreeMap<u128, u32>,
    /// How many begin at each port.
    per_port: Vec<u32>,
    /// Destination and number of those that end here.
    towards: BTreeSet<(u64, u32)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) key: FlowKey,
    pub(crate) version: u64,
    /// Where the routes end.
    pub(crate) to: Place,
    /// Empty while there is no path.
    pub(crate) routes: RouteSet,
}

impl Flow {
    /// The entry to send to the flow's node.
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
    len: usize,
    at: Vec<AtNode>,
    /// The flows whose routes have been verified: they are in `loads` too.
    pub(crate) crossings: Crossings,
    /// Routes on each directed link, if the policy weighs them.
    loads: Loads,
    /// Flows without a path.
    pub(crate) stranded: BTreeSet<u32>,
    pub(crate) trees: Trees,
    /// The same around drained nodes.
    around: Trees,
    policy: Box<dyn Policy>,
    /// The last version used.
    version: u64,
    seed: u64,
}

impl Flows {
    pub(crate) fn new(policy: RoutePolicy, epoch: u64, seed: u64) -> Flows {
        Flows {
            slots: Vec::new(),
            free: Vec::new(),
            len: 0,
            at: Vec::new(),
            crossings: Crossings::default(),
            loads: Loads::default(),
            stranded: BTreeSet::new(),
            trees: Trees::default(),
            around: Trees::default(),
            policy: policy::of(policy),
            version: epoch << 32,
            seed,
        }
    }

    pub(crate) fn set_policy(&mut self, topology: &Topology, policy: RoutePolicy) {
        self.policy = policy::of(policy);
        self.loads = Loads::default();
        if !self.policy.weighs_load() {
            return;
        }
        for (id, flow) in (0..).zip(&self.slots) {
            let Some(flow) = flow.as_ref().filter(|_| self.crossings.has(id)) else { continue };
            for hops in flow.routes.iter() {
                topology.walk(flow.key.at.node, hops, |link| self.loads.add(link));
            }
        }
    }

    /// Versions from now on are of this epoch.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        self.version = self.version.max(epoch << 32);
    }

    /// A version above all others, including those of earlier incarnations. The last one of an
    /// epoch is used again and again: nodes take equal ones, and would refuse those of the next
    /// epoch if this one had used them.
    pub(crate) fn next_version(&mut self) -> u64 {
        if self.version as u32 != u32::MAX {
            self.version += 1;
        }
        self.version
    }

    /// Whether the versions of this epoch are nearly used up.
    pub(crate) fn is_spent(&self) -> bool {
        self.version as u32 >= SPENT
    }

    /// Uses up all but so many versions of the epoch.
    #[cfg(test)]
    pub(crate) fn spend(&mut self, left: u32) {
        self.version |= u64::from(u32::MAX);
        self.version -= u64::from(left);
    }

    /// Another controller has used this version of the same epoch: higher ones follow from now on.
    /// False if it was not higher than the last one. A node that claims half of all versions to be
    /// used is not believed.
    pub(crate) fn outlast(&mut self, version: u64) -> bool {
        let is_possible = version >> 31 == (self.version >> 32) << 1;
        let is_newer = version > self.version && is_possible;
        if is_newer {
            self.version = version;
        }
        is_newer
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn len_at(&self, port: Place) -> usize {
        let ports = self.at.get(port.node as usize).map(|at| &at.per_port);
        ports.and_then(|p| p.get(usize::from(port.port))).map_or(0, |count| *count as usize)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Flow> {
        self.slots.get(id as usize)?.as_ref()
    }

    pub(crate) fn find(&self, key: &FlowKey) -> Option<u32> {
        self.at.get(key.at.node as usize)?.from.get(&key.at_node()).copied()
    }

    /// All, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Flow)> {
        let all = self.at.iter().flat_map(|at| at.from.values());
        all.filter_map(|&id| Some((id, self.get(id)?)))
    }

    /// One past the highest number of a flow.
    pub(crate) fn ids_end(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Flows towards a station at a node.
    pub(crate) fn towards(&self, node: u32, mac: MacAddr) -> Vec<u32> {
        let Some(at) = self.at.get(node as usize) else { return Vec::new() };
        let mac = mac.to_u64();
        at.towards.range((mac, 0)..=(mac, u32::MAX)).map(|(_, id)| *id).collect()
    }

    /// Flows of a node, from this key on.
    fn behind(&self, first: FlowKey) -> impl Iterator<Item = (FlowKey, u32)> + '_ {
        let at = self.at.get(first.at.node as usize);
        let ids = at.into_iter().flat_map(move |at| at.from.range(first.at_node()..));
        ids.filter_map(|(_, &id)| Some((self.get(id)?.key, id)))
    }

    /// Flows that begin at a node.
    pub(crate) fn of_node(&self, node: u32) -> Vec<u32> {
        let first = FlowKey::first(Place { node, port: 0 }, None);
        self.behind(first).map(|(_, id)| id).collect()
    }

    /// Flows of a station at a port.
    pub(crate) fn of(&self, port: Place, mac: MacAddr) -> Vec<u32> {
        let of_it = |k: &FlowKey| k.at == port && k.source == Some(mac);
        let flows = self.behind(FlowKey::first(port, Some(mac)));
        flows.take_while(|(k, _)| of_it(k)).map(|(_, id)| id).collect()
    }

    /// A flow of a port to evict: the first at or after `near`, which should be random.
    pub(crate) fn victim(&self, port: Place, near: MacAddr) -> Option<u32> {
        let near = FlowKey { at: port, source: Some(near), destination: near };
        let first = |from| self.behind(from).next().filter(|(k, _)| k.at == port);
        first(near).or_else(|| first(FlowKey::first(port, None))).map(|(_, id)| id)
    }

    /// Routes between two places by the policy; none if there is no path.
    pub(crate) fn routes(&mut self, topology: &Topology, key: &FlowKey, to: Place) -> RouteSet {
        let from = key.at.node;
        if !topology.node(from).up || !topology.node(to.node).up {
            return RouteSet::default();
        }
        if from == to.node {
            return RouteSet::from_hops([&[to.port][..]]);
        }
        if self.policy.weighs_load() {
            self.loads.refresh(topology);
        }
        let around = self.around_drained(topology, from, to.node);
        let distance = match &around {
            Some(distance) => distance,
            None => self.trees.to(topology, to.node),
        };
        let links = distance[from as usize];
        if links == FAR || usize::from(links) + 1 > HOPS_MAX {
            return RouteSet::default();
        }
        let source = key.source.map_or(u64::from(key.at.port), MacAddr::to_u64);
        let hash = mix(mix(self.seed, source), key.destination.to_u64());
        let ask = Ask {
            topology,
            distance,
            loads: &self.loads,
            from,
            port: to.port,
            hash,
            hops_max: HOPS_MAX,
        };
        self.policy.routes(&ask)
    }

    /// The nodes that routes avoid, by dense number.
    pub(crate) fn drained(&self) -> &BTreeSet<u32> {
        self.around.avoided()
    }

    /// Sets the nodes that routes avoid, unless there is no other way. Routes that exist stay until
    /// they are improved.
    pub(crate) fn drain(&mut self, nodes: BTreeSet<u32>) {
        self.around.avoid(nodes);
    }

    /// Each node's distance on paths around drained nodes; `None` if none is drained, or no such
    /// path exists.
    fn around_drained(&mut self, topology: &Topology, from: u32, to: u32) -> Option<Vec<u8>> {
        if self.drained().is_empty() {
            return None;
        }
        let mut distance = self.around.to(topology, to).to_vec();
        if distance[from as usize] == FAR {
            // The source itself may be drained.
            let next = topology.edges(from).iter().map(|edge| distance[edge.to as usize]).min();
            distance[from as usize] = next.unwrap_or(FAR).saturating_add(1);
        }
        let found = usize::from(distance[from as usize]) < HOPS_MAX;
        found.then_some(distance)
    }

    /// Whether a route leads through a drained node on its way.
    fn passes_drained(&self, topology: &Topology, flow: (Place, Place), routes: &RouteSet) -> bool {
        let drained = self.drained();
        let (from, to) = flow;
        let is_on_way = |node: u32| node != from.node && node != to.node && drained.contains(&node);
        !drained.is_empty()
            && routes.iter().any(|hops| topology.nodes_on(from.node, hops, is_on_way))
    }

    /// How many flows lead through a drained node on their way.
    pub(crate) fn through_drained(&self, topology: &Topology, node: u32) -> usize {
        let passes = |flow: &Flow| {
            let is_it = |at: u32| at == node && at != flow.key.at.node && at != flow.to.node;
            flow.routes.iter().any(|hops| topology.nodes_on(flow.key.at.node, hops, is_it))
        };
        self.iter().filter(|(_, flow)| passes(flow)).count()
    }

    /// The reverse of a flow's only route, for the flow the other way: it is as short, and a
    /// message along it records the route itself. `None` if the policy weighs what is on the links.
    pub(crate) fn back(&self, topology: &Topology, flow: &Flow) -> Option<RouteSet> {
        let mut routes = flow.routes.iter();
        let (only, None) = (routes.next()?, routes.next()) else { return None };
        let back = topology.backwards(flow.key.at, only)?;
        (!self.policy.weighs_load()).then(|| RouteSet::from_hops([&back[..]]))
    }

    /// Renews a flow's version; returns its routes.
    pub(crate) fn set_version(&mut self, id: u32, version: u64) -> Option<Vec<Vec<u8>>> {
        let flow = self.slots.get_mut(id as usize)?.as_mut()?;
        flow.version = version;
        Some(flow.routes.to_hops())
    }

    /// Adds a flow, replacing one with the same key. Verified routes run over existing links.
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
            self.set_to(id, to);
            if let Some(flow) = &mut self.slots[id as usize] {
                (flow.routes, flow.version) = (routes, version);
            }
            self.index_routes(topology, id, is_proved);
            return id;
        }
        let id = self.free.pop().unwrap_or(self.slots.len() as u32);
        if id as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[id as usize] = Some(Flow { key, version, to, routes });
        self.len += 1;
        let at = self.at_node(key.at.node);
        at.from.insert(key.at_node(), id);
        let port = usize::from(key.at.port);
        if at.per_port.len() <= port {
            at.per_port.resize(port + 1, 0);
        }
        at.per_port[port] += 1;
        self.at_node(to.node).towards.insert((key.destination.to_u64(), id));
        self.index_routes(topology, id, is_proved);
        id
    }

    fn index_routes(&mut self, topology: &Topology, id: u32, is_proved: bool) {
        let Some(flow) = self.get(id) else { return };
        if flow.routes.is_empty() {
            self.stranded.insert(id);
        } else if is_proved {
            self.prove(topology, id);
        }
    }

    fn at_node(&mut self, node: u32) -> &mut AtNode {
        if self.at.len() <= node as usize {
            self.at.resize_with(node as usize + 1, AtNode::default);
        }
        &mut self.at[node as usize]
    }

    /// Sets a flow's destination.
    fn set_to(&mut self, id: u32, to: Place) {
        let Some(flow) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let before = std::mem::replace(&mut flow.to, to);
        if before.node != to.node {
            let entry = (flow.key.destination.to_u64(), id);
            self.at_node(before.node).towards.remove(&entry);
            self.at_node(to.node).towards.insert(entry);
        }
    }

    pub(crate) fn remove(&mut self, topology: &Topology, id: u32) -> Option<Flow> {
        self.release(topology, id);
        let flow = self.slots.get_mut(id as usize)?.take()?;
        self.free.push(id);
        self.stranded.remove(&id);
        self.len -= 1;
        let at = self.at_node(flow.key.at.node);
        at.from.remove(&flow.key.at_node());
        at.per_port[usize::from(flow.key.at.port)] -= 1;
        self.at_node(flow.to.node).towards.remove(&(flow.key.destination.to_u64(), id));
        Some(flow)
    }

    /// Verifies a flow's routes and adds them to the tables of links.
    fn prove(&mut self, topology: &Topology, id: u32) {
        if self.policy.weighs_load()
            && let Some(flow) = self.slots.get(id as usize).and_then(Option::as_ref)
        {
            for hops in flow.routes.iter() {
                topology.walk(flow.key.at.node, hops, |link| self.loads.add(link));
            }
        }
        self.crossings.enter(id, |id, slots| crossed(topology, &self.slots, id, slots));
    }

    /// Removes a flow's routes from the tables of links.
    fn release(&mut self, topology: &Topology, id: u32) {
        let Some(flow) = self.slots.get(id as usize).and_then(Option::as_ref) else { return };
        if !self.crossings.leave(id) || !self.policy.weighs_load() {
            return;
        }
        for hops in flow.routes.iter() {
            topology.walk(flow.key.at.node, hops, |link| self.loads.take(link));
        }
    }

    /// Releases the flows over these links, which are about to be removed, and returns them.
    pub(crate) fn release_crossing(&mut self, topology: &Topology, slots: &[u32]) -> Vec<u32> {
        let crossed = |id, out: &mut Vec<u32>| crossed(topology, &self.slots, id, out);
        let ids = self.crossings.of(slots, crossed);
        for &id in &ids {
            self.release(topology, id);
        }
        ids
    }

    /// Computes a flow's routes anew, to `to` if it has moved; true if they have changed.
    pub(crate) fn reroute(&mut self, topology: &Topology, id: u32, to: Option<Place>) -> bool {
        self.release(topology, id);
        let Some(flow) = self.get(id) else { return false };
        let (key, to) = (flow.key, to.unwrap_or(flow.to));
        let routes = self.routes(topology, &key, to);
        let changed = self.get(id).is_some_and(|flow| flow.routes != routes);
        if changed {
            let version = self.next_version();
            let Some(flow) = self.slots[id as usize].as_mut() else { return false };
            (flow.routes, flow.version) = (routes, version);
        }
        self.set_to(id, to);
        self.stranded.remove(&id);
        self.index_routes(topology, id, true);
        changed
    }

    /// Gives a flow better routes if there are some around drained nodes, shorter ones, or more of
    /// the same length.
    pub(crate) fn improve(&mut self, topology: &Topology, id: u32) -> bool {
        let Some(flow) = self.get(id).filter(|_| self.crossings.has(id)) else { return false };
        let (key, to, now) = (flow.key, flow.to, flow.routes.clone());
        let better = self.routes(topology, &key, to);
        let rank = |r: &RouteSet| {
            let drained = self.passes_drained(topology, (key.at, to), r);
            (drained, r.hops_max(), usize::MAX - r.iter().count())
        };
        !better.is_empty() && rank(&better) < rank(&now) && self.reroute(topology, id, None)
    }

    /// Checks the tables against the flows; for tests.
    #[cfg(test)]
    pub(crate) fn check(&self, topology: &Topology) {
        let mut loads = Loads::default();
        for (id, flow) in self.iter() {
            assert_eq!(self.stranded.contains(&id), flow.routes.is_empty(), "{flow:?}");
            assert_eq!(self.find(&flow.key), Some(id));
            assert!(self.towards(flow.to.node, flow.key.destination).contains(&id), "{flow:?}");
            if !self.crossings.has(id) {
                continue;
            }
            for hops in flow.routes.iter() {
                let end = topology.walk(flow.key.at.node, hops, |link| loads.add(link));
                assert_eq!(end, Some(flow.to), "{flow:?}");
            }
        }
        let slots = topology.directed_links().map(|link| link / 2).collect::<BTreeSet<u32>>();
        for slot in slots {
            let crosses = |id: &u32| {
                let mut slots = Vec::new();
                crossed(topology, &self.slots, *id, &mut slots);
                self.crossings.has(*id) && slots.contains(&slot)
            };
            let expected: BTreeSet<u32> = self.iter().map(|(id, _)| id).filter(crosses).collect();
            let of = |id, out: &mut Vec<u32>| crossed(topology, &self.slots, id, out);
            assert!(self.crossings.of(&[slot], of).into_iter().eq(expected), "link {slot}");
        }
        if self.policy.weighs_load() {
            for link in topology.directed_links() {
                assert_eq!(self.loads.on(link), loads.on(link), "link {link}");
            }
        }
        assert_eq!(self.at.iter().map(|at| at.from.len()).sum::<usize>(), self.len);
        assert_eq!(self.at.iter().map(|at| at.towards.len()).sum::<usize>(), self.len);
        assert_eq!(self.at.iter().flat_map(|at| &at.per_port).sum::<u32>(), self.len as u32);
    }
}

/// Appends the slots of the links on a flow's routes.
fn crossed(topology: &Topology, flows: &[Option<Flow>], id: u32, slots: &mut Vec<u32>) {
    let Some(flow) = &flows[id as usize] else { return };
    for hops in flow.routes.iter() {
        topology.walk(flow.key.at.node, hops, |link| slots.push(link / 2));
    }
}
