//! Which rule a flow gets: what the pipeline would do with all of its packets, as the plans have
//! it now.

use std::time::Duration;

use arrayvec::ArrayVec;
use plexus_config::Trust;
use plexus_io::fast::{Action, FRONT_MAX, FabricLink, Flow, Front, Key, Routed, Step, Tag};
use plexus_io::{PORT_NONE, PortId};
use plexus_table::MacKey;
use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::{MacAddr, Time, fabric};

use super::MARGIN;
use crate::fabric::Fabric;
use crate::fabric::plan::{Encapsulation, FabricPlan, PortRole, PortTables};
use crate::router::fib::FibBatch;
use crate::router::plan::{Adjacency, GROUP_VLAN, InterfacePlan, RouterPlan};
use crate::router::steady;
use crate::snapshot::{PortPlan, Snapshot};
use crate::switch::Switch;

/// The pipeline's grounds for its decisions, beside the stations that the switch has heard.
#[derive(Clone, Copy)]
pub(crate) struct Plans<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) fabric: &'a FabricPlan,
    /// It knows the links, by which it chooses among routes.
    pub(crate) forwarder: &'a Fabric,
    pub(crate) router: &'a RouterPlan,
    /// The router's tables, if the box routes.
    pub(crate) fib: Option<&'a FibBatch<'a>>,
    /// Keys the router's choice among next hops.
    pub(crate) seed: u64,
}

/// The rule of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) action: Action,
    /// Stations that the switch must go on to know where they are: its source, and where it goes.
    pub(super) stations: [Option<MacKey>; 2],
    /// The neighbour that a routed flow goes to.
    pub(super) neighbour: Option<u16>,
    /// The hash of a flow that the load has led to its route.
    pub(super) led_by_load: Option<u64>,
}

impl Plans<'_> {
    /// The rule for a flow that left by this port; none if it can have none.
    pub(super) fn rule(
        &self,
        now: Time,
        switch: &Switch,
        key: &Key,
        out_port: PortId,
    ) -> Option<Due> {
        match key {
            Key::Flow(flow) if self.is_in_fabric(flow.in_port) => {
                self.of_host(flow, None, out_port)
            }
            Key::Routed(key) if key.is_from_node => {
                link_of(self.fabric, key.flow.in_port)?;
                self.routed_in_fabric(key, out_port)
            }
            Key::Routed(key) if self.is_in_fabric(key.flow.in_port) => {
                match self.fabric.gateway() == Some(key.flow.destination) {
                    true if self.is_routed_here(key) => self.routed_in_fabric(key, out_port),
                    true => self.by_forwarder(key, out_port),
                    false => self.of_host(&key.flow, Some(key), out_port),
                }
            }
            Key::Flow(flow) => self.switched(now, switch, flow, out_port),
            Key::Routed(flow) => self.routed(now, switch, flow),
            Key::Hop { .. } => self.with_header(out_port, &[], None),
            Key::Delivery { in_port, destination, is_routed, .. } => {
                link_of(self.fabric, *in_port)?;
                let step = match is_routed {
                    // The station gets it from the group's address.
                    true => Some(step(*destination, self.fabric.gateway()?, u16::MAX)),
                    false => None,
                };
                self.at_station(out_port, destination.to_u64(), step)
            }
        }
    }

    /// Whether a rule depends on the fabric's plan.
    pub(super) fn is_of_fabric(&self, key: &Key) -> bool {
        key.is_in_fabric() || self.is_in_fabric(key.in_port())
    }

    fn is_in_fabric(&self, port: PortId) -> bool {
        self.snapshot.ports.get(usize::from(port)).is_some_and(|port| port.in_fabric)
    }

    /// Whether a station is admitted at a host's port.
    fn has_station(&self, port: PortId, station: u64) -> bool {
        *self.fabric.role(port) == PortRole::Host
            && self.fabric.tables(port).is_some_and(|there| there.stations.contains(station))
    }

    /// The rule for packets that leave the fabric by the port of a host, if it is there.
    fn at_station(&self, out_port: PortId, station: u64, step: Option<Step>) -> Option<Due> {
        self.has_station(out_port, station).then(|| self.in_fabric(out_port, None, step))?
    }

    /// The rule for frames that go on in the fabric, with a header of the fabric or nothing behind
    /// that of the link.
    fn with_header(&self, out_port: PortId, header: &[u8], step: Option<Step>) -> Option<Due> {
        let front = Front::new(&link_of(self.fabric, out_port)?.out, header)?;
        self.in_fabric(out_port, Some(front), step)
    }

    /// A rule to a port of the fabric, if packets need not pass its queues.
    fn in_fabric(&self, out_port: PortId, front: Option<Front>, step: Option<Step>) -> Option<Due> {
        let to = self.snapshot.ports.get(usize::from(out_port))?;
        let is_plain = to.in_fabric && !to.settings.needs_queue();
        let action = Action { out_port, tag: Tag::Keep, front, step };
        is_plain.then_some(Due { action, stations: [None; 2], neighbour: None, led_by_load: None })
    }

    /// The rule for IP packets from one host of the fabric to another; where there are several
    /// routes, for those of one flow. None where the pipeline looks at each of them: it leads them
    /// by functions, or watches for neighbour discovery.
    fn of_host(&self, flow: &Flow, key: Option<&Routed>, out_port: PortId) -> Option<Due> {
        let found = self.admitted(flow)?.routes.get(flow.destination, flow.source)?;
        let is_to_host =
            !flow.destination.is_multicast() && self.fabric.gateway() != Some(flow.destination);
        let is_due = is_to_host && (found.len() > 1) == key.is_some();
        let five_tuple = key.and_then(Routed::five_tuple);
        let route = self.forwarder.route_of_flow(found, five_tuple.as_ref());
        let header = by(out_port, route).filter(|_| is_due)?;
        let led_by_load = self.forwarder.led_by_load(found, five_tuple.as_ref());
        if header.is_empty() {
            let station = flow.destination.to_u64();
            let is_other = out_port != flow.in_port;
            let due = is_other.then(|| self.at_station(out_port, station, None))?;
            return due.map(|due| Due { led_by_load, ..due });
        }
        self.with_header(out_port, header, None).map(|due| Due { led_by_load, ..due })
    }

    /// Whether packets to the group's router are routed by this node.
    fn is_routed_here(&self, key: &Routed) -> bool {
        self.fabric.routes() && self.fabric.parts().has(&key.hosts())
    }

    /// The rule for a flow to the group's router, if another node routes it.
    fn by_forwarder(&self, key: &Routed, out_port: PortId) -> Option<Due> {
        let (flow, five_tuple) = (&key.flow, key.five_tuple()?);
        let found = self.admitted(flow)?.routes.get(flow.destination, flow.source)?;
        let route = self.forwarder.route_to_router(self.fabric, found, &five_tuple);
        self.with_header(out_port, by(out_port, route)?, None)
    }

    /// The tables of a flow's port, if its source is admitted there and the pipeline need not look
    /// at each of its packets.
    fn admitted(&self, flow: &Flow) -> Option<&PortTables> {
        const IPV6: u16 = 0x86DD;
        let is_plain = flow.tag.is_none() && matches!(flow.ethertype, 0x0800 | IPV6);
        let tables = self.fabric.tables(flow.in_port).filter(|_| is_plain)?;
        let goes_on = *self.fabric.role(flow.in_port) == PortRole::Host
            && tables.stations.contains(flow.source.to_u64())
            && self.fabric.classes().is_empty()
            && !(tables.daemons && flow.ethertype == IPV6);
        goes_on.then_some(tables)
    }

    /// The tables of the router's hop, if packets that other nodes send there are routed, whatever
    /// part of the table this node holds, and the pipeline need not look at each of them. Their
    /// sources are admitted elsewhere.
    fn of_router(&self) -> Option<&PortTables> {
        let is_plain = self.fabric.routes() && self.fabric.classes().is_empty();
        is_plain.then(|| self.fabric.tables(ROUTER_HOP.into()))?
    }

    /// The rule for packets of a host to the group's router, which come from the host or from
    /// another node. They are routed, and take the way of the host to the neighbour.
    fn routed_in_fabric(&self, key: &Routed, out_port: PortId) -> Option<Due> {
        let flow = &key.flow;
        let tables = if key.is_from_node { self.of_router()? } else { self.admitted(flow)? };
        let interface = self.interface_of(flow)?;
        if flow.source == interface.mac || self.ports_decide(key) != Some(key.ports.is_some()) {
            return None;
        }
        let (neighbour, adjacency) = self.next_hop(interface, key)?;
        let station = adjacency.destination();
        let is_in_group = adjacency.vlan == GROUP_VLAN && adjacency.port == PORT_NONE;
        let found = tables.routes.get(station, flow.source).filter(|_| is_in_group)?;
        let route = self.forwarder.route_of_flow(found, key.five_tuple().as_ref());
        let header = by(out_port, route)?;
        let due = if header.is_empty() {
            let step = step(station, interface.mac, adjacency.mtu);
            let is_other = key.is_from_node || out_port != flow.in_port;
            is_other.then(|| self.at_station(out_port, station.to_u64(), Some(step)))?
        } else {
            let mut header: ArrayVec<u8, FRONT_MAX> = header.try_into().ok()?;
            fabric::set_routed(&mut header);
            // Inside the fabric the packet has its host's address.
            let step = step(station, flow.source, adjacency.mtu);
            self.with_header(out_port, &header, Some(step))
        };
        let led_by_load = self.forwarder.led_by_load(found, key.five_tuple().as_ref());
        due.map(|due| Due { neighbour: Some(neighbour), led_by_load, ..due })
    }

    fn switched(&self, now: Time, switch: &Switch, flow: &Flow, out_port: PortId) -> Option<Due> {
        let (from, to) = (self.port(flow.in_port)?, self.out_port(out_port)?);
        let vlan = vlan_of(from, flow)?;
        let tag = match flow.tag {
            // A tag that stays keeps its priority.
            Some(_) if to.native != vlan => Tag::Keep,
            _ => tag_to(from, flow, to, vlan)?,
        };
        let source = MacKey::new(vlan, flow.source);
        let destination = MacKey::new(vlan, flow.destination);
        let are_there = switch.stays(now, Duration::ZERO, source, flow.in_port)
            && switch.stays(now, MARGIN, destination, out_port);
        let action = Action { out_port, tag, front: None, step: None };
        let stations = [Some(source), Some(destination)];
        are_there.then_some(Due { action, stations, neighbour: None, led_by_load: None })
    }

    /// The neighbour that a routed flow goes to.
    fn next_hop(&self, interface: &InterfacePlan, key: &Routed) -> Option<(u16, &Adjacency)> {
        let lies_beyond = || self.fabric.parts().lies_beyond(&key.hosts(), key.flow.source);
        steady::next_hop(self.router, self.fib?, interface, key, lies_beyond, self.seed)
    }

    fn routed(&self, now: Time, switch: &Switch, key: &Routed) -> Option<Due> {
        let flow = &key.flow;
        let interface = self.interface_of(flow)?;
        let from = self.port(flow.in_port).filter(|from| from.carries(interface.vlan))?;
        const NOBODY: MacAddr = MacAddr([0; 6]);
        if self.ports_decide(key) != Some(key.ports.is_some()) {
            return None;
        }
        if flow.source.is_multicast() || [interface.mac, NOBODY].contains(&flow.source) {
            return None;
        }
        let (neighbour, adjacency) = self.next_hop(interface, key)?;
        let next = adjacency.destination();
        let (out_port, destination) = match adjacency.port {
            PORT_NONE => {
                let port = switch.find(now, adjacency.vlan, next)?;
                (port, Some(MacKey::new(adjacency.vlan, next)))
            }
            port => (port, None),
        };
        let to = self.out_port(out_port).filter(|to| to.carries(adjacency.vlan))?;
        let tag = tag_to(from, flow, to, adjacency.vlan)?;
        // On an interface of several ports the switch learns where its stations are.
        let source = interface.port.is_none().then(|| MacKey::new(interface.vlan, flow.source));
        let are_there = source
            .is_none_or(|source| switch.stays(now, Duration::ZERO, source, flow.in_port))
            && destination.is_none_or(|station| switch.stays(now, MARGIN, station, out_port));
        let step = Some(Step { addresses: adjacency.addresses, mtu: adjacency.mtu });
        let action = Action { out_port, tag, front: None, step };
        let stations = [source, destination];
        let neighbour = Some(neighbour);
        are_there.then_some(Due { action, stations, neighbour, led_by_load: None })
    }

    /// The interface that the frames of a flow are to.
    #[inline]
    pub(super) fn interface_of(&self, flow: &Flow) -> Option<&InterfacePlan> {
        let port = self.snapshot.ports.get(usize::from(flow.in_port))?;
        let vlan = match port.in_fabric {
            true => {
                let is_to_group = self.fabric.gateway() == Some(flow.destination);
                (is_to_group && flow.tag.is_none()).then_some(GROUP_VLAN)?
            }
            false => vlan_of(port, flow)?,
        };
        self.router.interface(vlan).filter(|interface| {
            interface.mac == flow.destination && interface.kernel != Some(flow.in_port)
        })
    }

    /// The routed flow of a frame to the router: all packets between two addresses, or, where these
    /// go to several neighbours, those with its ports.
    #[inline]
    pub(super) fn routed_flow(&self, flow: Flow, frame: &[u8]) -> Option<Routed> {
        let pair = Routed::of(flow, frame)?;
        match steady::has_several(self.router, self.fib?, pair.destination) {
            true => pair.with_ports_of(frame),
            false => Some(pair),
        }
    }

    /// Whether the ports of a packet decide to which neighbour it goes, or by which route of the
    /// fabric. None if there is no way.
    fn ports_decide(&self, key: &Routed) -> Option<bool> {
        let (fib, flow) = (self.fib?, &key.flow);
        let several = steady::has_several(self.router, fib, key.destination);
        if several || !self.is_in_fabric(flow.in_port) {
            return Some(several);
        }
        let station = steady::only_neighbour(self.router, fib, key.destination)?.destination();
        let routes = &self.fabric.tables(origin(key))?.routes;
        Some(routes.get(station, flow.source)?.len() > 1)
    }

    /// A port that is not the fabric's.
    fn port(&self, port: PortId) -> Option<&PortPlan> {
        self.snapshot.ports.get(usize::from(port)).filter(|port| !port.in_fabric)
    }

    /// The same, if packets need not pass its queues.
    fn out_port(&self, port: PortId) -> Option<&PortPlan> {
        self.port(port).filter(|port| !port.settings.needs_queue())
    }
}

/// The VLAN of a flow's frames.
#[inline]
fn vlan_of(from: &PortPlan, flow: &Flow) -> Option<u16> {
    Some(flow.tag.map_or(from.native, |tci| tci & 0x0FFF)).filter(|vlan| *vlan != 0)
}

/// The change of a flow's tag when it leaves by a port in a VLAN; none if that depends on the
/// packet.
fn tag_to(from: &PortPlan, flow: &Flow, to: &PortPlan, vlan: u16) -> Option<Tag> {
    let tci = match (flow.tag, from.settings.trust) {
        (Some(tci), Trust::Pcp) => Some(tci & 0xE000 | vlan),
        (_, Trust::Dscp) => None,
        _ => Some(u16::from(from.settings.priority & 7) << 13 | vlan),
    };
    match (flow.tag, to.native == vlan) {
        (Some(_), true) => Some(Tag::Pop),
        (None, true) => Some(Tag::Keep),
        (Some(_), false) => tci.map(Tag::Swap),
        (None, false) => tci.map(Tag::Push),
    }
}

/// The port whose memory has the routes of packets in the fabric.
pub(super) fn origin(key: &Routed) -> PortId {
    if key.is_from_node { ROUTER_HOP.into() } else { key.flow.in_port }
}

/// The header of a route, if it leads out by this port.
fn by(out_port: PortId, route: Option<(u8, &[u8])>) -> Option<&[u8]> {
    let (port, header) = route?;
    (PortId::from(port) == out_port).then_some(header)
}

/// The step to a station from an address.
fn step(station: MacAddr, from: MacAddr, mtu: u16) -> Step {
    let mut addresses = [0; 12];
    addresses[..6].copy_from_slice(&station.0);
    addresses[6..].copy_from_slice(&from.0);
    Step { addresses, mtu }
}

/// The headers of a port's link, if it leads to a fabric node and is encapsulated.
pub(super) fn link_of(plan: &FabricPlan, port: PortId) -> Option<FabricLink> {
    match *plan.role(port) {
        PortRole::Fabric(Encapsulation::EtherType { out, back, takes_owed }) => {
            Some(FabricLink { out, back, takes_owed })
        }
        _ => None,
    }
}
