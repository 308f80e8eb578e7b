//! The fabric forwarder: source-routed Ethernet (`axon.txt` §3.2, §4.1.1).
//!
//! - In: packets with `in_port`.
//! - Out: `verdict`: one port, the packet then being in its link's form; a route, when a header is
//!   to be pushed once the packet's owed work is done; the control plane; or a drop. `priority`:
//!   that of a host's frame by its port's settings, 7 for control and error frames, 0 for others
//!   of the fabric.
//! - Parameters: [`FabricPlan`], published apart from the snapshot.
//! - Verdicts to drop: `runt`, `bad_source`, `reserved`, `vlan_denied`, `untagged`, `double_tag`,
//!   `same_port`, `port_down`, `no_forwarder`, `port_unknown`, `fabric_on_host`, `bad_fabric`,
//!   `not_peer`, `not_control`, `unknown_tree`; with the frame's beginning to the control plane:
//!   `no_hop`, `hop_to_nowhere`, `not_ethernet_for_host`, `stale_route`.
//!
//! A frame from a fabric port is not looked up anywhere: its header says where it goes, and is
//! rewritten in place. A host's frame is looked up in its own port's route memory, in two passes as
//! in the switch. What leaves by a host port must be for a station admitted there.
//!
//! A host's IP packet to the group's own address is the router's. Once it is routed, its way leads
//! to the neighbour as if its host had sent it there ([`Fabric::place`]).
//!
//! A host's frame to a group that has a tree is copied to the ports of that tree, at each node on
//! it (`tree`); other frames to groups are the control plane's.
//!
//! VLANs do not exist here: a host's frame with a VLAN tag is dropped as `vlan_denied`, a priority
//! tag (VID 0) is removed.
//!
//! Example: the route memory of A's port leads to B by the ports 3, 5 and 1 of three nodes. The
//! first node pushes a header with the hops 5 and 1 before A's frame, which leaves by port 3. The
//! second node takes hop 5 from it, notes its input port for the way back, and sends it by port 5.
//! At the third, port 1 is a host's, and B is admitted there: the header is removed, and B gets A's
//! frame.

mod detour;
pub(crate) mod lanes;
mod out;
mod parts;
pub(crate) mod plan;
pub(crate) mod push;
mod tree;
mod ways;

use arrayvec::ArrayVec;
use plexus_io::{BATCH, Batch, Link, Offload, Packet, Pool, PortId};
use plexus_table::lpm::GroupId;
use plexus_table::{Found, PortRoutes, Probe};
use plexus_wire::fabric::{
    self as header, CONTROL_HOP, Fields, Hop, Kind, Passing, ROUTER_HOP, encapsulation,
};
use plexus_wire::{FlowKey, MacAddr, ethernet};

use detour::{detour, may_pass};
use lanes::{Candidate, Lanes};
use out::{deliver, fail, leave, to_neighbour};
use plan::{Encapsulation, FabricPlan, HostId, PortRole, PortTables};
use ways::{Way, Ways, WaysOf};

use crate::context::Context;
use crate::control::{CONTROL_CLASS, is_dhcp};
use crate::drops::DropReason;
use crate::runs::Run;
use crate::snapshot::PortPlan;
use crate::stage::output::OutputQueues;
use crate::storm::Storms;
use crate::verdict::{FORWARDED, Origin, Punt, Verdict};
use crate::vlan::{self, check};

/// Bytes of a dropped frame that the control plane sees behind its header.
const EXCERPT: usize = 64;

/// A port's role, or `Closed` while its link is down: one byte, so that all ports fit four cache
/// lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Class {
    /// Nothing: its role is unknown, or its link is down.
    #[default]
    Closed,
    Host,
    /// A fabric node's, without encapsulation.
    Native,
    /// A fabric node's, encapsulated.
    Encapsulated,
    Controller,
    /// The router of this node.
    Router,
}

/// More than any address.
const NOBODY: u64 = u64::MAX;

/// `Packet::flags`: the router has sent the packet, which still has its host's address.
const ROUTED: u8 = 2;
/// `Packet::flags`: the router has sent the packet, which is too long for its neighbour.
pub(crate) const TOO_LONG: u8 = 4;

/// The fabric forwarder of one worker.
pub(crate) struct Fabric {
    lanes: Lanes,
    classes: [Class; 256],
    up: [bool; 256],
    /// Of packets that the router has sent.
    ways: Ways,
    /// By port, the station that was last found there.
    present: [u64; 256],
    /// Limits on hosts' frames that are copied along trees.
    pub(crate) storms: Storms,
    forwarded: Forwarded,
}

/// Packets of a batch that the fabric may have sent on as the fast table does, one bit for each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Forwarded {
    /// From one encapsulated link to another.
    pub(crate) passed_on: u64,
    /// From an encapsulated link to a host.
    pub(crate) delivered: u64,
    /// From a host, not to the router. Some may go elsewhere, or nowhere.
    pub(crate) of_hosts: u64,
}

/// Packets of a batch that the fabric leaves, one bit for each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Left {
    /// They came in by ports that are not the fabric's: of a port all packets or none.
    pub(crate) others: u64,
    /// Hosts' IP packets to the group's own address.
    pub(crate) to_route: u64,
}

/// Frames from a fabric node that were not simply passed on.
#[derive(Default)]
struct Others {
    count: usize,
    /// Bit for each packet for the router of this node.
    to_route: u64,
    /// Whether some show that the node is there, and do not come from others on the same cable.
    are_heard: bool,
}

/// What the first pass finds out about a packet of a host that is admitted.
struct Lookup<'a> {
    packet: &'a mut Packet,
    routes: &'a PortRoutes,
    source: u64,
    destination: u64,
    probe: Probe<'a>,
}

impl Fabric {
    /// `seed` keys the choice among the routes of a set.
    pub(crate) fn new(seed: u64) -> Fabric {
        let (classes, up) = ([Class::Closed; 256], [false; 256]);
        let (ways, storms) = (Ways::default(), Storms::default());
        let (lanes, present) = (Lanes::new(seed), [NOBODY; 256]);
        Fabric { lanes, classes, up, ways, present, storms, forwarded: Forwarded::default() }
    }

    /// Follows a plan.
    pub(crate) fn adopt(&mut self, plan: &FabricPlan) {
        self.lanes.adopt(plan.lanes());
        self.ways.forget();
        self.present = [NOBODY; 256];
        for (port, class) in (0..).zip(&mut self.classes) {
            *class = match plan.role(port) {
                _ if !self.up[usize::from(port)] => Class::Closed,
                PortRole::Unknown => Class::Closed,
                PortRole::Host => Class::Host,
                PortRole::Fabric(Encapsulation::Native) => Class::Native,
                PortRole::Fabric(Encapsulation::EtherType { .. }) => Class::Encapsulated,
                PortRole::Controller(_) => Class::Controller,
            };
        }
        if plan.routes() {
            self.classes[usize::from(ROUTER_HOP)] = Class::Router;
        }
    }

    /// The places of a batch's packets that the fast table may take. The next batch begins.
    #[inline]
    pub(crate) fn take_forwarded(&mut self) -> Forwarded {
        std::mem::take(&mut self.forwarded)
    }

    /// Neighbours of the router have other addresses.
    pub(crate) fn forget_neighbours(&mut self) {
        self.ways.forget();
    }

    /// A port's link has changed.
    pub(crate) fn set_link(&mut self, plan: &FabricPlan, port: PortId, link: Link) {
        if let Some(up) = self.up.get_mut(usize::from(port)) {
            *up = link == Link::Up;
            self.adopt(plan);
        }
    }

    #[inline(always)]
    fn class(&self, port: u8) -> Class {
        self.classes[usize::from(port)]
    }

    /// Decides for the packets of the batch that came in by ports of the fabric, but those whose
    /// bit is set in `done`, and leaves the others. The arbiter takes port after port, so packets
    /// of one port stand together, and their port is examined once for all of them. Not inlined:
    /// that would slow down the switch's code beside it.
    #[inline(never)]
    pub(crate) fn run(
        &mut self,
        context: &mut Context<'_>,
        queues: &OutputQueues,
        batch: &mut Batch,
        runs: &[Run],
        done: u64,
    ) -> Left {
        let plan = context.fabric;
        let gateway = plan.gateway().map_or(u64::MAX, MacAddr::to_u64);
        let mut lookups: ArrayVec<Lookup<'_>, BATCH> = ArrayVec::new();
        let (mut left, mut rest) = (Left::default(), &mut batch[..]);
        for run in runs {
            let (place, in_port) = (run.from(), run.port);
            let packets = rest.split_off_mut(..run.to() - place).unwrap_or_default();
            match (plan.role(in_port), plan.tables(in_port)) {
                (PortRole::Fabric(link), _) => {
                    left.to_route |= self.take_from_node(context, in_port, link, place, packets);
                }
                (PortRole::Host, Some(tables)) => {
                    self.forwarded.of_hosts |= run.places() & !done;
                    let packets =
                        (place..).zip(packets).filter(|(place, _)| done >> place & 1 == 0);
                    left.to_route |=
                        take_from_host(context, in_port, tables, gateway, packets, &mut lookups);
                }
                (PortRole::Controller(link), _) => {
                    for packet in packets {
                        self.take_from_link(context, link, true, packet).store(packet);
                    }
                }
                _ if !context.plan.ports[usize::from(in_port)].in_fabric => {
                    left.others |= run.places();
                }
                (PortRole::Unknown | PortRole::Host, _) => {
                    for packet in packets {
                        let data = context.pool.data(packet);
                        bootstrap_or(DropReason::PortUnknown, data).store(packet);
                    }
                }
            }
        }
        for lookup in &mut lookups {
            self.route(context, queues, lookup).store(lookup.packet);
        }
        self.forwarded.of_hosts &= !left.to_route;
        left
    }

    /// The ready ways from a host to neighbours of the router.
    #[inline(always)]
    pub(crate) fn ways_of(&self, host: HostId) -> WaysOf<'_> {
        self.ways.of(host)
    }

    /// Makes a host's way to the one neighbour of a group ready, if the host has a single route to
    /// it and that leaves by a native link. The packet's frame is to the neighbour.
    #[cold]
    pub(crate) fn make_ready(
        &mut self,
        context: &Context<'_>,
        packet: &Packet,
        id: HostId,
        (port, host): (PortId, u64),
        group: Option<GroupId>,
    ) {
        let tables = context.fabric.tables(port);
        let head = context.pool.data(packet).first_chunk::<8>();
        let (Some(tables), Some(head)) = (tables, head) else { return };
        // While there are classes, each packet is looked at.
        if !context.fabric.classes().is_empty() || self.ways.of(id).has(group) {
            return;
        }
        let destination = u64::from_be_bytes(*head) >> 16;
        let found = tables.routes.find(destination, host, tables.routes.prefetch(destination));
        let Some((out, header)) = found.and_then(|found| found.single()) else { return };
        if self.class(out) == Class::Native
            && let Some(way) = Way::along(out, header)
        {
            self.ways.keep(id, group, way);
        }
    }

    /// Gives packets that the router has sent to neighbours in the group, at the places whose bits
    /// are set, the routes of their hosts to these. `sources`: the hosts, by place.
    pub(crate) fn place(
        &mut self,
        context: &mut Context<'_>,
        queues: &OutputQueues,
        batch: &mut [Packet],
        set: u64,
        sources: &[u64; BATCH],
    ) {
        let plan = context.fabric;
        let mut lookups: ArrayVec<Lookup<'_>, BATCH> = ArrayVec::new();
        for (place, packet) in batch.iter_mut().enumerate().filter(|(i, _)| set >> i & 1 != 0) {
            let tables = plan.tables(push::origin(packet));
            let head = context.pool.data_mut(packet).first_chunk_mut();
            let (Some(tables), Some(head)) = (tables, head) else {
                Verdict::Drop(DropReason::NoRoute).store(packet);
                continue;
            };
            // Inside the fabric a packet has its host's address: by it routes are looked up, lead
            // back when they are stale, and keep tenants apart.
            let source = sources[place];
            packet.flags |= ROUTED;
            let mut destination = set_source(head, source);
            packet.vlan = 0;
            let routes = &tables.routes;
            if !plan.classes().is_empty() {
                match detour(context, routes, packet, source, destination) {
                    Some(station) => destination = station,
                    None => {
                        Verdict::Drop(DropReason::NoFunction).store(packet);
                        continue;
                    }
                }
            }
            if let Verdict::Fragment(_) = Verdict::load(packet) {
                let found = routes.find(destination, source, routes.prefetch(destination));
                self.place_whole(context, queues, packet, destination, found).store(packet);
                continue;
            }
            let probe = routes.prefetch(destination);
            lookups.push(Lookup { packet, routes, source, destination, probe });
        }
        for lookup in &mut lookups {
            self.route(context, queues, lookup).store(lookup.packet);
        }
    }

    /// The same for a packet that stage 4 cuts before it takes the route. Without a route its
    /// fragments are for the control plane: the verdict is as the router left it.
    #[cold]
    fn place_whole(
        &mut self,
        context: &mut Context<'_>,
        queues: &OutputQueues,
        packet: &mut Packet,
        destination: u64,
        found: Option<Found<'_>>,
    ) -> Verdict {
        let Some(found) = found else { return Verdict::load(packet) };
        match self.choose(found, context, queues, packet, destination) {
            Some((_, port, [])) => match to_neighbour(context, port.into(), destination, packet) {
                Verdict::Forward(port) => Verdict::Fragment(port),
                verdict => verdict,
            },
            Some((index, ..)) => {
                packet.flags |= TOO_LONG;
                Verdict::Route(index as u8)
            }
            None => Verdict::Drop(DropReason::PortDown),
        }
    }

    /// Finishes a packet in stage 4: see [`Verdict::Route`] and [`Verdict::Tree`].
    pub(crate) fn finish(
        &mut self,
        context: &mut Context<'_>,
        queues: &mut OutputQueues,
        verdict: Verdict,
        packet: Packet,
    ) {
        match verdict {
            Verdict::Route(index) => push::send(context, queues, usize::from(index), packet),
            Verdict::Tree(Origin::Host) => {
                tree::send_of_host(context, queues, &mut self.storms, packet);
            }
            _ => tree::send_of_link(context, queues, packet),
        }
    }

    /// A frame of the control plane that goes along a tree.
    pub(crate) fn send_along_tree(
        &self,
        context: &mut Context<'_>,
        queues: &mut OutputQueues,
        packet: Packet,
    ) {
        tree::send_of_control(context, queues, packet);
    }

    /// Frames from a fabric node; `from`: the place of the first. Bit for each packet for the
    /// router of this one.
    #[inline(never)]
    fn take_from_node(
        &mut self,
        context: &mut Context<'_>,
        in_port: PortId,
        link: &Encapsulation,
        from: usize,
        packets: &mut [Packet],
    ) -> u64 {
        let (len, mut others) = (packets.len(), Others::default());
        for (place, packet) in (from..).zip(packets) {
            let is_passed_on = match link {
                Encapsulation::Native => self.pass_on(context, in_port as u8, packet),
                Encapsulation::EtherType { back, .. } => {
                    let passed = self.pass_on_behind(back, context, in_port as u8, packet);
                    self.forwarded.passed_on |= u64::from(passed) << place;
                    passed
                }
            };
            if !is_passed_on {
                self.take_other(context, link, place, packet, &mut others);
            }
        }
        if others.count < len || others.are_heard {
            context.fabric.hear(in_port, context.now);
        }
        others.to_route
    }

    /// A frame from a fabric node that is not the common case.
    #[inline(never)]
    fn take_other(
        &mut self,
        context: &mut Context<'_>,
        link: &Encapsulation,
        place: usize,
        packet: &mut Packet,
        others: &mut Others,
    ) {
        let owes = !packet.is_finished();
        let verdict = self.take_from_link(context, link, false, packet);
        verdict.store(packet);
        let is_for_router = packet.flags & FORWARDED != 0;
        others.count += 1;
        others.to_route |= u64::from(is_for_router) << place;
        others.are_heard |= is_for_router || matches!(verdict, Verdict::Forward(_));
        if let Verdict::Forward(out) = verdict {
            let out = self.class(out as u8);
            let passes = owes && out == Class::Encapsulated && *link != Encapsulation::Native;
            self.forwarded.passed_on |= u64::from(passes) << place;
            self.forwarded.delivered |= u64::from(out == Class::Host) << place;
        }
    }

    /// The common case of a packet in the fabric, kept short: a host's frame from a native link to
    /// another, or to a host. For any other packet it changes nothing and returns false.
    #[inline(always)]
    fn pass_on(&mut self, context: &mut Context<'_>, in_port: u8, packet: &mut Packet) -> bool {
        if !packet.is_finished() {
            return false;
        }
        let Some(frame) = Passing::read(context.pool.data_mut(packet)) else { return false };
        let out = frame.hop();
        // The control plane's hop is not the number of a port, and has no class.
        match self.class(out) {
            Class::Native => {
                frame.rotate(in_port);
                pass(packet, out);
                true
            }
            Class::Host => {
                let (len, is_routed) = (frame.header_len(), frame.is_routed());
                self.hand_out(context, out, len, is_routed, packet)
            }
            _ => false,
        }
    }

    /// Sends a frame to a host behind a header of so many bytes, if it is still there: in other
    /// words than [`deliver`], and for fewer cases.
    #[inline(always)]
    fn hand_out(
        &mut self,
        context: &mut Context<'_>,
        out: u8,
        header_len: usize,
        is_routed: bool,
        packet: &mut Packet,
    ) -> bool {
        let inner = context.pool.data_mut(packet).get_mut(header_len..);
        let Some(head) = inner.and_then(|inner| inner.first_chunk_mut::<14>()) else {
            return false;
        };
        let destination = u64::from_be_bytes(*head.first_chunk().unwrap_or(&[0; 8])) >> 16;
        if self.present[usize::from(out)] != destination {
            let tables = context.fabric.tables(out.into());
            if !tables.is_some_and(|there| there.stations.contains(destination)) {
                return false;
            }
            self.present[usize::from(out)] = destination;
        }
        if is_routed && let Some(gateway) = context.fabric.gateway() {
            head[6..12].copy_from_slice(&gateway.0);
        }
        context.pool.pull_front(packet, header_len);
        pass(packet, out);
        true
    }

    /// The same behind Ethernet headers: that of the one link becomes that of the other.
    #[inline(always)]
    fn pass_on_behind(
        &self,
        back: &[u8; ethernet::HEADER_LEN],
        context: &mut Context<'_>,
        in_port: u8,
        packet: &mut Packet,
    ) -> bool {
        if !packet.is_finished() {
            return false;
        }
        let data = context.pool.data_mut(packet).split_first_chunk_mut();
        let Some((outer, inner)) = data.filter(|(outer, _)| *outer == back) else { return false };
        let Some(frame) = Passing::read(inner) else { return false };
        let out = frame.hop();
        if self.class(out) != Class::Encapsulated {
            return false;
        }
        let role = context.fabric.role(out.into());
        let PortRole::Fabric(Encapsulation::EtherType { out: header, .. }) = role else {
            return false;
        };
        frame.rotate(in_port);
        *outer = *header;
        pass(packet, out);
        true
    }

    /// A frame from a fabric node or a controller.
    #[inline(never)]
    fn take_from_link(
        &self,
        context: &mut Context<'_>,
        link: &Encapsulation,
        is_controller: bool,
        packet: &mut Packet,
    ) -> Verdict {
        // On a virtual cable a frame may owe what its host has left to a device.
        let owes = !packet.is_finished();
        if !owes {
            packet.offload = Offload::NONE;
        }
        packet.vlan = 0;
        packet.flags &= !vlan::TAGGED;
        let verdict = match link {
            Encapsulation::EtherType { back, .. }
                if !context.pool.data(packet).starts_with(back) =>
            {
                bootstrap_or(DropReason::NotPeer, context.pool.data(packet))
            }
            _ => {
                if let Encapsulation::EtherType { back, .. } = link {
                    context.pool.pull_front(packet, back.len());
                }
                let in_port = packet.in_port as u8;
                self.process(context, in_port, is_controller, packet)
            }
        };
        if owes && matches!(verdict, Verdict::Control(_)) {
            // It gets the frame's beginning only.
            packet.offload = Offload::NONE;
        }
        verdict
    }

    /// Header processing (`axon.txt` §4.1.1) of a frame that begins with the fabric header.
    #[inline(always)]
    fn process(
        &self,
        context: &mut Context<'_>,
        in_port: u8,
        is_controller: bool,
        packet: &mut Packet,
    ) -> Verdict {
        let data = context.pool.data_mut(packet);
        let Ok(fields) = Fields::read(data) else {
            return bootstrap_or(DropReason::BadFabric, data);
        };
        if is_controller && fields.kind() == Kind::Ethernet {
            return Verdict::Drop(DropReason::NotControl);
        }
        if fields.kind() != Kind::Ethernet && !packet.is_finished() {
            return Verdict::Drop(DropReason::BadOffload);
        }
        packet.priority = match fields.kind() {
            Kind::Ethernet => 0,
            Kind::Tree => return tree::take(context, fields, is_controller, packet),
            _ => CONTROL_CLASS,
        };
        let port = match fields.next_hop() {
            Some(Hop::Port(port)) => port,
            Some(Hop::Control) if !packet.is_finished() => {
                return Verdict::Drop(DropReason::BadOffload);
            }
            Some(Hop::Control) => {
                header::rotate(data, fields, in_port);
                return Verdict::Control(Punt::Control);
            }
            None => return fail(context, fields, packet, DropReason::NoHop),
        };
        let out = PortId::from(port);
        match self.class(port) {
            Class::Controller if fields.kind() == Kind::Ethernet => {
                fail(context, fields, packet, DropReason::HopToNowhere)
            }
            Class::Native | Class::Encapsulated | Class::Controller => {
                header::rotate(data, fields, in_port);
                leave(context, out, packet)
            }
            Class::Host if fields.kind() == Kind::Ethernet => deliver(context, fields, out, packet),
            Class::Host => fail(context, fields, packet, DropReason::NotEthernetForHost),
            Class::Router if fields.kind() == Kind::Ethernet && !is_controller => {
                context.pool.pull_front(packet, fields.header_len());
                packet.flags |= FORWARDED;
                // Until the router has decided.
                Verdict::Drop(DropReason::NotForUs)
            }
            Class::Closed | Class::Router => {
                fail(context, fields, packet, DropReason::HopToNowhere)
            }
        }
    }

    /// A frame of the control plane, which begins with the fabric header.
    pub(crate) fn inject(&self, context: &mut Context<'_>, packet: &mut Packet) -> Verdict {
        self.process(context, CONTROL_HOP, false, packet)
    }

    /// Route lookup (`axon.txt` §4.1.1) of a host's frame.
    #[inline(always)]
    fn route(
        &mut self,
        context: &mut Context<'_>,
        queues: &OutputQueues,
        lookup: &mut Lookup<'_>,
    ) -> Verdict {
        let Lookup { ref mut packet, routes, source, destination, probe } = *lookup;
        if destination >> 40 & 1 == 1 {
            let found = routes.find(destination, source, probe);
            return tree::find(context, packet, destination, found);
        }
        let Some(found) = routes.find(destination, source, probe) else {
            return Verdict::Control(Punt::Host);
        };
        let Some((index, port, header)) = self.choose(found, context, queues, packet, destination)
        else {
            let to_group = context.fabric.gateway().map(MacAddr::to_u64) == Some(destination);
            let none = if to_group { DropReason::NoForwarder } else { DropReason::PortDown };
            return Verdict::Drop(none);
        };
        let out = PortId::from(port);
        if header.is_empty() {
            return to_neighbour(context, out, destination, packet);
        }
        if !packet.is_finished() {
            return Verdict::Route(index as u8);
        }
        packet.offload = Offload::NONE;
        if !push::push_route(context.pool, packet, header) {
            return Verdict::Drop(DropReason::TooLong);
        }
        match self.class(port) {
            Class::Native => Verdict::Forward(out),
            _ => leave(context, out, packet),
        }
    }

    /// Port and header of the route that all packets of a flow take, as long as plan and links stay
    /// as they are. Where there are several routes, its key decides, or the load when it began.
    /// Then it keeps the route until it pauses, or as long as it has a rule in the fast table. None
    /// if its packets may take several.
    pub(crate) fn route_of_flow<'a>(
        &self,
        found: Found<'a>,
        key: Option<&FlowKey>,
    ) -> Option<(u8, &'a [u8])> {
        let usable = |route: &Candidate<'_>| can_take(&self.classes, route.1, route.2);
        found.single().or_else(|| {
            let (_, port, header) = self.lanes.choose_for_flow(found, usable, key?)?;
            Some((port, header))
        })
    }

    /// The same of a flow to the group's router.
    pub(crate) fn route_to_router<'a>(
        &self,
        plan: &FabricPlan,
        found: Found<'a>,
        key: &FlowKey,
    ) -> Option<(u8, &'a [u8])> {
        let usable = |route: &Candidate<'_>| can_take(&self.classes, route.1, route.2);
        found.single().or_else(|| {
            let (_, port, header) = self.lanes.choose_forwarder(found, usable, plan, Some(key))?;
            Some((port, header))
        })
    }

    /// One of the routes whose port can take the frame, as [`Lanes`] chooses. None if no port can.
    #[inline(always)]
    fn choose<'a>(
        &mut self,
        found: Found<'a>,
        context: &Context<'_>,
        queues: &OutputQueues,
        packet: &Packet,
        destination: u64,
    ) -> Option<(usize, u8, &'a [u8])> {
        match found.single() {
            Some((port, header)) => {
                can_take(&self.classes, port, header).then_some((0, port, header))
            }
            None => {
                let classes = &self.classes;
                let usable = |route: &Candidate<'_>| can_take(classes, route.1, route.2);
                let gateway = context.fabric.gateway();
                match gateway.is_some_and(|mac| mac.to_u64() == destination) {
                    true => {
                        let key = FlowKey::from_frame(context.pool.data(packet));
                        self.lanes.choose_forwarder(found, usable, context.fabric, key.as_ref())
                    }
                    false => self.lanes.choose(found, usable, context, queues, packet),
                }
            }
        }
    }
}

/// Sends a fabric frame, which has been rewritten in place, out by a port.
#[inline(always)]
fn pass(packet: &mut Packet, out: u8) {
    (packet.vlan, packet.priority, packet.flags) = (0, 0, 0);
    packet.offload = Offload::NONE;
    Verdict::Forward(out.into()).store(packet);
}

/// A route with a header leads to a fabric node, one without to a host here.
#[inline(always)]
fn can_take(classes: &[Class; 256], port: u8, header: &[u8]) -> bool {
    match classes[usize::from(port)] {
        Class::Native | Class::Encapsulated => !header.is_empty(),
        Class::Host => header.is_empty(),
        // To the router of another node: this one has no route to its own.
        Class::Controller | Class::Closed | Class::Router => false,
    }
}

/// First pass over a frame of a host at a port: what to look up and where, or the decision if none
/// of it is needed. Bit for each packet to the gateway.
#[inline(always)]
fn take_from_host<'a>(
    context: &mut Context<'_>,
    in_port: PortId,
    tables: &'a PortTables,
    gateway: u64,
    packets: impl Iterator<Item = (usize, &'a mut Packet)>,
    lookups: &mut ArrayVec<Lookup<'a>, BATCH>,
) -> u64 {
    let settings = &context.plan.ports[usize::from(in_port)];
    // Most ports have one host. No station has address zero.
    let (mut admitted, mut to_route) = (0, 0);
    let has_classes = !context.fabric.classes().is_empty();
    for (place, packet) in packets {
        let (destination, source) = match examine(context.pool, settings, packet) {
            Ok(addresses) => addresses,
            Err(verdict) => {
                verdict.store(packet);
                continue;
            }
        };
        if source != admitted && !tables.stations.contains(source) {
            Verdict::Control(Punt::Host).store(packet);
            continue;
        }
        admitted = source;
        if tables.daemons && is_discovery(context.pool.data(packet)) {
            Verdict::Control(Punt::Host).store(packet);
            continue;
        }
        if destination == gateway {
            let frame = context.pool.data(packet);
            if context.fabric.routes() && is_ip(frame) && context.fabric.parts().is_here(frame) {
                to_route |= 1 << place;
                continue;
            }
            if is_for_this_node(frame) {
                Verdict::Control(Punt::Host).store(packet);
                continue;
            }
        }
        if has_classes && destination != gateway {
            let frame = context.pool.data(packet);
            if is_ip(frame) && !may_pass(context.fabric, frame, source, destination) {
                Verdict::Drop(DropReason::NoFunction).store(packet);
                continue;
            }
        }
        let routes = &tables.routes;
        let probe = routes.prefetch(destination);
        lookups.push(Lookup { packet, routes, source, destination, probe });
    }
    to_route
}

/// Whether an untagged frame is ARP, or neighbour discovery (RFC 4861, 4).
#[cold]
fn is_discovery(frame: &[u8]) -> bool {
    const ICMPV6: u8 = 58;
    match frame.get(12..14) {
        Some([0x08, 0x06]) => true,
        Some([0x86, 0xDD]) => {
            frame.get(20) == Some(&ICMPV6) && matches!(frame.get(54), Some(133..=137))
        }
        _ => false,
    }
}

/// Whether a host's frame to the group is the node's own business, also where other nodes route:
/// ARP, neighbour discovery, and DHCP (RFC 2131, 4.4.5).
#[cold]
fn is_for_this_node(frame: &[u8]) -> bool {
    !is_ip(frame) || is_discovery(frame) || is_dhcp(frame)
}

/// Whether an untagged frame is an IP packet.
fn is_ip(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xDD]))
}

/// Writes a frame's source address. Returns its destination.
fn set_source(head: &mut [u8; 12], source: u64) -> u64 {
    let [.., a, b, c, d, e, f] = source.to_be_bytes();
    head[6..].copy_from_slice(&[a, b, c, d, e, f]);
    head.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes) >> 16)
}

/// Destination and source of a host's frame, or the decision if these are not needed for it.
#[inline(always)]
fn examine(
    pool: &mut Pool,
    settings: &PortPlan,
    packet: &mut Packet,
) -> Result<(u64, u64), Verdict> {
    let addresses = vlan::ingress(pool, settings, packet).map_err(Verdict::Drop)?;
    if packet.flags & vlan::TAGGED != 0 {
        return Err(Verdict::Drop(DropReason::VlanDenied));
    }
    packet.vlan = 0;
    if u16::from_be_bytes(addresses.ethertype) == encapsulation::ETHERTYPE.0 {
        let is_bootstrap = addresses.destination == encapsulation::NEAREST_BRIDGE.to_u64();
        return Err(match is_bootstrap {
            true => Verdict::Control(Punt::Bootstrap),
            false => Verdict::Drop(DropReason::FabricOnHost),
        });
    }
    let vlan::Addresses { destination, source, .. } = check(addresses).map_err(Verdict::Drop)?;
    Ok((destination, source))
}

/// True for a Hello or another link message: the fabric's EtherType, to the nearest bridge.
fn is_bootstrap(frame: &[u8]) -> bool {
    frame.starts_with(&encapsulation::NEAREST_BRIDGE.0)
        && frame.get(12..14) == Some(&encapsulation::ETHERTYPE.0.to_be_bytes())
}

/// Hands a link message to the control plane, and drops any other frame for this reason. Link
/// messages travel with an Ethernet header on every link. No fabric header can begin like it: its
/// length would be 0x180C.
#[cold]
fn bootstrap_or(reason: DropReason, frame: &[u8]) -> Verdict {
    match is_bootstrap(frame) {
        true => Verdict::Control(Punt::Bootstrap),
        false => Verdict::Drop(reason),
    }
}
