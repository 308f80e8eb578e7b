//! What the control plane tells the data plane of a fabric node: what each port is, its route
//! memory, and the stations admitted there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use plexus_config::LaneChoice;
use plexus_io::PortId;
use plexus_table::{PortRoutes, ROUTES_MAX, Route, RouteKey, RouteSet, Stations};
use plexus_wire::fabric::class::is_function;
use plexus_wire::fabric::message::{Class, Hops};
use plexus_wire::fabric::{CONTROL_HOP, Kind, Partition, ROUTER_HOP, Repr, encapsulation, message};
use plexus_wire::{FlowKey, MacAddr, Prefix, Time};

use super::parts::Parts;
use crate::control::ControlLimits;

/// Where plans are published. Readers never wait.
pub type PublishedFabric = Arc<ArcSwap<FabricPlan>>;

/// Most ports of a fabric node: what a hop can name beside router and control plane.
pub const FABRIC_PORTS_MAX: usize = ROUTER_HOP as usize;

/// What is at the other end of a port's cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortRole {
    /// Not known yet: only bootstrap frames pass, to the control plane.
    #[default]
    Unknown,
    /// A host, or anything else that is no fabric node.
    Host,
    /// A fabric node.
    Fabric(Encapsulation),
    /// A controller: control and error frames pass, hosts' frames do not.
    Controller(Encapsulation),
}

/// How fabric frames travel on a link. UDP encapsulation is not among them: a tunnel's port removes
/// and adds the datagram itself, so that its link is native.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// The fabric header is the first byte on the cable.
    Native,
    /// Behind an Ethernet header of the fabric's EtherType.
    EtherType {
        /// The header of frames that we send: from our port to the peer's.
        out: [u8; 14],
        /// The header of frames that we take: from the peer's port to ours.
        back: [u8; 14],
        /// Whether the peer takes what packets owe.
        takes_owed: bool,
    },
}

impl Encapsulation {
    /// EtherType encapsulation between our port and the peer's.
    pub const fn ethertype(own: MacAddr, peer: MacAddr) -> Encapsulation {
        Encapsulation::EtherType {
            out: encapsulation::ethertype_header(peer, own),
            back: encapsulation::ethertype_header(own, peer),
            takes_owed: false,
        }
    }

    /// The same, to a peer that takes what packets owe, or not.
    #[must_use]
    pub const fn taking_owed(self, takes: bool) -> Encapsulation {
        match self {
            Encapsulation::EtherType { out, back, .. } => {
                Encapsulation::EtherType { out, back, takes_owed: takes }
            }
            Encapsulation::Native => Encapsulation::Native,
        }
    }
}

/// A host of this node, named by a plan: its port, and its place among the port's stations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostId(u32);

impl HostId {
    /// None for a port or a place that is too high: such a host has no ready headers.
    pub(super) fn new(port: PortId, place: usize) -> Option<HostId> {
        let (port, place) = (u8::try_from(port).ok()?, u32::try_from(place).ok()?);
        (place < 1 << 24).then_some(HostId(u32::from(port) << 24 | place))
    }

    /// Both in one number.
    #[inline(always)]
    pub(super) fn number(self) -> u32 {
        self.0
    }
}

/// One port's route memory and stations.
#[derive(Clone, Debug)]
pub struct PortTables {
    /// From the hosts here to their destinations.
    pub routes: PortRoutes,
    /// The hosts that are admitted here.
    pub stations: Stations,
    /// Routing daemons are here: ARP and neighbour discovery are the control plane's, even those to
    /// a single host, because they would tell it an Ethernet address for the group's own IP
    /// address.
    pub daemons: bool,
}

/// The data plane's part of a fabric node, as one immutable value.
#[derive(Clone, Debug, Default)]
pub struct FabricPlan {
    roles: Vec<PortRole>,
    ports: Vec<Arc<PortTables>>,
    lanes: LaneChoice,
    limits: ControlLimits,
    /// The group's address as a router, and whether this node is a part of it.
    gateway: Option<MacAddr>,
    routes: bool,
    /// Routes of packets that other nodes have sent to the router of this one; the port is
    /// [`ROUTER_HOP`].
    router: Option<Arc<PortTables>>,
    /// The ways to nodes that route for this one, in fixed places.
    forwarders: Arc<[Hops]>,
    /// Classes of routed packets that pass a function.
    classes: Arc<[Class]>,
    /// The parts of the table that these hold.
    parts: Parts,
    /// By number. Shared with earlier plans until one comes or goes.
    trees: Arc<BTreeMap<u32, PortSet>>,
    /// By port, when frames of a fabric node last came in. All plans of a node share these times.
    /// Workers write nothing else of a plan.
    heard: Arc<[AtomicU64]>,
}

/// A set of ports of a fabric node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortSet([u64; 4]);

impl PortSet {
    /// The ports, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |port| self.contains(*port))
    }

    /// Whether a port is in the set.
    pub fn contains(self, port: u8) -> bool {
        self.0[usize::from(port / 64)] >> (port % 64) & 1 == 1
    }
}

impl FromIterator<u8> for PortSet {
    fn from_iter<I: IntoIterator<Item = u8>>(ports: I) -> PortSet {
        let mut set = PortSet::default();
        for port in ports {
            set.0[usize::from(port / 64)] |= 1 << (port % 64);
        }
        set
    }
}

impl FabricPlan {
    /// What a port is; unknown if there is none of this number.
    #[inline(always)]
    pub fn role(&self, port: PortId) -> &PortRole {
        self.roles.get(usize::from(port)).unwrap_or(&PortRole::Unknown)
    }

    /// The group's address as a router, if it routes: the source of routed packets that leave the
    /// fabric.
    pub fn gateway(&self) -> Option<MacAddr> {
        self.gateway
    }

    /// The same plan, which notes for itself when frames come in.
    pub(crate) fn detached(&self) -> FabricPlan {
        FabricPlan { heard: Arc::default(), ..self.clone() }
    }

    /// Whether an address is the group's own.
    pub(crate) fn is_own(&self, mac: MacAddr) -> bool {
        self.gateway == Some(mac)
    }

    /// Whether hosts' IP packets to the group's address are left to the router of this node.
    #[inline(always)]
    pub(crate) fn routes(&self) -> bool {
        self.routes
    }

    /// Classes of routed packets that pass a function.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Whether a station is a function: it passes on packets of any source.
    pub(crate) fn is_function(&self, station: u64) -> bool {
        is_function(&self.classes, MacAddr::from_u64(station))
    }

    /// The parts of the table that forwarders hold.
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The places where a packet can be routed, as bits.
    pub(super) fn places(&self, key: &FlowKey) -> u8 {
        self.parts.places(key)
    }

    /// A station, if it is admitted at a port from which all IP packets to the group are left to
    /// the router.
    #[inline]
    pub(crate) fn admitted(&self, port: PortId, station: u64) -> Option<HostId> {
        let is_host = *self.role(port) == PortRole::Host && !self.parts.is_partitioned();
        let tables = self.tables(port).filter(|tables| is_host && !tables.daemons)?;
        HostId::new(port, tables.stations.find(station)?)
    }

    /// A port's tables.
    #[inline(always)]
    pub fn tables(&self, port: PortId) -> Option<&PortTables> {
        match self.ports.get(usize::from(port)) {
            Some(tables) => Some(tables),
            None => self.router.as_deref().filter(|_| port == ROUTER_HOP.into()),
        }
    }

    /// The port that a station is admitted at.
    pub fn port_of(&self, station: MacAddr) -> Option<PortId> {
        let has_it = |tables: &Arc<PortTables>| tables.stations.contains(station.to_u64());
        self.ports.iter().position(has_it).map(|port| port as PortId)
    }

    /// The ports of a tree.
    pub fn tree(&self, number: u32) -> Option<PortSet> {
        self.trees.get(&number).copied()
    }

    /// How many ports there are.
    pub fn ports(&self) -> usize {
        self.roles.len()
    }

    /// Which of several routes a host's flow takes.
    pub fn lanes(&self) -> LaneChoice {
        self.lanes
    }

    /// The control plane's protection.
    pub fn limits(&self) -> &ControlLimits {
        &self.limits
    }

    /// Notes that frames of a fabric node have come in.
    #[inline]
    pub(crate) fn hear(&self, port: PortId, now: Time) {
        // To a millisecond or so, so that workers seldom write.
        let now = now.as_nanos() & !0xF_FFFF;
        if let Some(heard) = self.heard.get(usize::from(port))
            && heard.load(Ordering::Relaxed) != now
        {
            heard.store(now, Ordering::Relaxed);
        }
    }

    /// When frames of a fabric node last came in by a port, to a millisecond or so.
    pub fn heard_at(&self, port: u8) -> Time {
        let heard = self.heard.get(usize::from(port));
        Time::from_nanos(heard.map_or(0, |heard| heard.load(Ordering::Relaxed)))
    }

    /// A place to publish this and later plans.
    pub fn publish(self) -> PublishedFabric {
        Arc::new(ArcSwap::from_pointee(self))
    }
}

/// Where the control plane keeps the plan that it is changing. Tables are shared with the plans
/// that were made, and copied when they are changed: those of the ports touched, and of their
/// routes only the shards touched.
#[derive(Clone, Debug)]
pub struct FabricTables(FabricPlan);

impl FabricTables {
    /// A node of `ports` ports of which nothing is known; none if hops cannot name them all.
    /// `seed` keys the tables' hashes and should be secret.
    pub fn new(ports: usize, seed: u64) -> Option<FabricTables> {
        if ports > FABRIC_PORTS_MAX {
            return None;
        }
        let tables = |port: u64| {
            let seed = seed.wrapping_add(port);
            let (routes, stations) = (PortRoutes::new(seed), Stations::new(seed));
            Arc::new(PortTables { routes, stations, daemons: false })
        };
        let router = tables(ROUTER_HOP.into());
        let tables = (0..ports as u64).map(tables);
        Some(FabricTables(FabricPlan {
            roles: vec![PortRole::Unknown; ports],
            ports: tables.collect(),
            lanes: LaneChoice::default(),
            gateway: None,
            routes: false,
            router: Some(router),
            forwarders: Arc::default(),
            classes: Arc::default(),
            parts: Parts::default(),
            limits: ControlLimits::default(),
            trees: Arc::default(),
            heard: (0..FABRIC_PORTS_MAX).map(|_| AtomicU64::new(0)).collect(),
        }))
    }

    /// Makes room for ports up to this number, of which nothing is known; false if hops cannot name
    /// them all.
    pub fn grow(&mut self, ports: usize, seed: u64) -> bool {
        let Some(more) = FabricTables::new(ports, seed) else { return false };
        let known = self.0.ports.len();
        self.0.ports.extend(more.0.ports.into_iter().skip(known));
        self.0.roles.resize(self.0.ports.len(), PortRole::Unknown);
        self.lead_to_forwarders();
        true
    }

    /// The plan as it stands, to be published.
    pub fn plan(&self) -> Arc<FabricPlan> {
        Arc::new(self.0.clone())
    }

    /// What has been decided so far.
    pub fn current(&self) -> &FabricPlan {
        &self.0
    }

    /// Sets a port's role. False if there is no such port.
    pub fn set_role(&mut self, port: PortId, role: PortRole) -> bool {
        let known = self.0.roles.get_mut(usize::from(port));
        known.map(|known| *known = role).is_some()
    }

    /// Sets what the control plane has found out about a port. `ends`: our address and the peer's;
    /// an encapsulated link is of use only once they are known. `takes_owed`: the peer takes what
    /// packets owe. False if there is no such port.
    pub fn set_link(
        &mut self,
        port: PortId,
        role: message::PortRole,
        ends: Option<(MacAddr, MacAddr)>,
        native: bool,
        takes_owed: bool,
    ) -> bool {
        let encapsulation = match native {
            true => Some(Encapsulation::Native),
            false => {
                ends.map(|(own, peer)| Encapsulation::ethertype(own, peer).taking_owed(takes_owed))
            }
        };
        let role = match (role, encapsulation) {
            (message::PortRole::Host, _) => PortRole::Host,
            (message::PortRole::Fabric, Some(link)) => PortRole::Fabric(link),
            (message::PortRole::Controller, Some(link)) => PortRole::Controller(link),
            _ => PortRole::Unknown,
        };
        self.set_role(port, role)
    }

    /// Puts an entry of the control plane into its port's memory: the routes that a header holds,
    /// as many as a set holds; without any, the key's are taken out. False if nothing changed.
    pub fn install_entry(&mut self, entry: &message::RouteEntry) -> bool {
        let key = RouteKey { destination: entry.destination, source: entry.source };
        let routes = entry.routes.iter().filter_map(|path| route_along(entry.port, path));
        match RouteSet::new(routes.take(ROUTES_MAX).collect()) {
            Some(set) => self.install(entry.port.into(), key, set),
            None => self.remove(entry.port.into(), key),
        }
    }

    /// Routing daemons of the group are at a port.
    pub fn set_daemons(&mut self, port: PortId) {
        if let Some(tables) = self.0.ports.get_mut(usize::from(port)) {
            Arc::make_mut(tables).daemons = true;
        }
    }

    /// Says which of several routes a host's flow takes.
    pub fn set_lanes(&mut self, lanes: LaneChoice) {
        self.0.lanes = lanes;
    }

    /// Sets the group's address as a router; `None`: the group does not route. If `here`, hosts' IP
    /// packets to it are left to the router of this node.
    pub fn set_gateway(&mut self, gateway: Option<MacAddr>, here: bool) {
        let before = self.0.gateway.filter(|before| Some(*before) != gateway);
        if let Some(destination) = before {
            let key = RouteKey { destination, source: None };
            (0..self.0.ports()).for_each(|port| _ = self.remove(port as PortId, key));
        }
        (self.0.gateway, self.0.routes) = (gateway, here);
        self.lead_to_forwarders();
    }

    /// Sets the ways to nodes that route for this one, each ending in [`ROUTER_HOP`]; an empty one
    /// keeps the place of a node that is not to be used, and one of a single hop is this node's
    /// own. `partition`: how they share the table out; `None`: each holds all of it.
    pub fn set_forwarders(&mut self, ways: Vec<Hops>, partition: Option<Partition>) {
        let own = ways.iter().position(|way| way[..] == [ROUTER_HOP]);
        self.0.parts.set_partition(partition, own);
        self.0.forwarders = ways.into_iter().take(ROUTES_MAX).collect();
        self.lead_to_forwarders();
    }

    /// Sets the classes of routed packets that pass a function.
    pub fn set_classes(&mut self, classes: Vec<Class>) {
        self.0.classes = classes.into();
    }

    /// Sets the networks of the group: no route leads there.
    pub fn set_networks(&mut self, networks: impl IntoIterator<Item = Prefix>) {
        self.0.parts.set_networks(networks);
    }

    /// Sets the stations that lead to other networks. False if they are known.
    pub fn set_leading(&mut self, stations: impl IntoIterator<Item = MacAddr>) -> bool {
        self.0.parts.set_leading(stations)
    }

    /// Installs the routes of hosts' packets to the group's address at each port, if any of them
    /// are not routed here.
    fn lead_to_forwarders(&mut self) {
        let Some(destination) = self.0.gateway else { return };
        let (key, ways) = (RouteKey { destination, source: None }, self.0.forwarders.clone());
        for port in 0..self.0.ports() as PortId {
            // A place without a way is never chosen, and keeps the flows of the others where they
            // are.
            let nowhere = || Route { port: CONTROL_HOP, header: Default::default() };
            let route = |way: &Hops| route_along(port as u8, way).unwrap_or_else(nowhere);
            let routes = RouteSet::new(ways.iter().map(route).collect());
            match routes.filter(|_| !self.0.routes || self.0.parts.is_partitioned()) {
                Some(routes) => self.install(port, key, routes),
                None => self.remove(port, key),
            };
        }
    }

    /// Puts a tree in place, or in place of one of the same number; without ports, takes it out.
    pub fn set_tree(&mut self, number: u32, ports: Option<PortSet>) {
        let trees = Arc::make_mut(&mut self.0.trees);
        match ports {
            Some(ports) => trees.insert(number, ports),
            None => trees.remove(&number),
        };
    }

    /// Sends a host's frames to a group along a tree, with so many credits; `None` ends that.
    /// False if nothing changed.
    pub fn set_group(
        &mut self,
        port: u8,
        source: MacAddr,
        group: MacAddr,
        tree: Option<(u32, u8)>,
    ) -> bool {
        let key = RouteKey { destination: group, source: Some(source) };
        let header = tree.and_then(|(tree, credits)| Repr::tree(tree, credits, port));
        match header.and_then(|repr| repr.to_bytes().ok()) {
            Some(header) => {
                let route = Route { port: CONTROL_HOP, header };
                self.install(port.into(), key, route.into())
            }
            None => self.remove(port.into(), key),
        }
    }

    /// Limits what ports may send to the control plane.
    pub fn set_limits(&mut self, limits: ControlLimits) {
        self.0.limits = limits;
    }

    /// Puts routes into a port's memory, or replaces those of the key. False if there is no such
    /// port, or the key has an address of zero.
    pub fn install(&mut self, port: PortId, key: RouteKey, routes: RouteSet) -> bool {
        self.change(port, |tables| tables.routes.insert(key, routes)).unwrap_or(false)
    }

    /// Takes routes out of a port's memory; false if it had none for the key.
    pub fn remove(&mut self, port: PortId, key: RouteKey) -> bool {
        self.change(port, |tables| tables.routes.remove(key)).unwrap_or(false)
    }

    /// Admits a station at a port; false if it was admitted, or there is no such port.
    pub fn admit(&mut self, port: PortId, station: MacAddr) -> bool {
        self.change(port, |tables| tables.stations.insert(station)).unwrap_or(false)
    }

    /// No longer admits a station at a port; false if it was not admitted there.
    pub fn expel(&mut self, port: PortId, station: MacAddr) -> bool {
        self.change(port, |tables| tables.stations.remove(station)).unwrap_or(false)
    }

    /// Changes a port's tables; none if there is no such port.
    pub fn change<R>(
        &mut self,
        port: PortId,
        change: impl FnOnce(&mut PortTables) -> R,
    ) -> Option<R> {
        let tables = match self.0.ports.get_mut(usize::from(port)) {
            Some(tables) => tables,
            None => self.0.router.as_mut().filter(|_| port == ROUTER_HOP.into())?,
        };
        Some(change(Arc::make_mut(tables)))
    }
}

/// The route of a host at port `in_port` along a path of hops from this node on: the first is the
/// local output port, the last the port of the destination. The header is as the next node shall
/// find it; a path of a single hop, to a host at this node, has none. None if there is no hop, or
/// more than a header holds.
pub fn route_along(in_port: u8, path: &[u8]) -> Option<Route> {
    let (&port, rest) = path.split_first()?;
    if rest.is_empty() {
        return Some(Route { port, header: Default::default() });
    }
    let mut repr = Repr::new(Kind::Ethernet, rest)?;
    repr.reverse.push(in_port);
    Some(Route { port, header: repr.to_bytes().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_copies_the_port_that_it_touches() {
        let mut tables = FabricTables::new(3, 1).unwrap();
        let before = tables.plan();
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let key = RouteKey { destination: mac, source: None };
        assert!(tables.install(1, key, route_along(1, &[2, 5]).unwrap().into()));
        assert!(tables.admit(1, mac) && !tables.admit(1, mac));
        let after = tables.plan();
        assert!(Arc::ptr_eq(&before.ports[0], &after.ports[0]));
        assert!(Arc::ptr_eq(&before.ports[2], &after.ports[2]));
        assert!(before.tables(1).unwrap().routes.is_empty());
        assert_eq!(after.tables(1).unwrap().routes.len(), 1);
        assert!(tables.remove(1, key) && tables.expel(1, mac) && !tables.expel(1, mac));
        assert!(!tables.set_role(3, PortRole::Host) && !tables.admit(3, mac));
        assert!(FabricTables::new(256, 1).is_none());
    }

    #[test]
    fn what_the_control_plane_says_becomes_roles_and_routes() {
        let mut tables = FabricTables::new(2, 1).unwrap();
        let (own, peer) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let link = Encapsulation::ethertype(own, peer);
        assert!(tables.set_link(0, message::PortRole::Fabric, Some((own, peer)), false, false));
        assert_eq!(*tables.current().role(0), PortRole::Fabric(link));
        assert!(tables.set_link(0, message::PortRole::Fabric, None, false, false));
        assert_eq!(*tables.current().role(0), PortRole::Unknown);
        assert!(tables.set_link(0, message::PortRole::TooSmall, Some((own, peer)), false, false));
        assert_eq!(*tables.current().role(0), PortRole::Unknown);
        assert!(tables.set_link(0, message::PortRole::Controller, None, true, false));
        assert_eq!(*tables.current().role(0), PortRole::Controller(Encapsulation::Native));
        // Ten routes, one of them of no use: eight are kept.
        let mut routes = vec![vec![1, 2]; 9];
        routes.insert(0, vec![]);
        let entry =
            message::RouteEntry { port: 1, source: None, destination: peer, version: 1, routes };
        assert!(tables.install_entry(&entry));
        let found = tables.current().tables(1).unwrap().routes.get(peer, own).unwrap();
        assert_eq!(found.len(), ROUTES_MAX);
        assert!(tables.install_entry(&message::RouteEntry { routes: vec![], ..entry }));
        assert!(tables.current().tables(1).unwrap().routes.is_empty());
    }

    #[test]
    fn a_route_begins_in_the_state_after_the_first_node() {
        let route = route_along(4, &[2, 5, 7]).unwrap();
        assert_eq!((route.port, &route.header[6..]), (2, &[5, 7, 4][..]));
        assert!(route_along(4, &[2]).unwrap().header.is_empty());
        assert!(route_along(4, &[]).is_none());
        assert!(route_along(4, &[1; 100]).is_some() && route_along(4, &[1; 101]).is_none());
    }
}
