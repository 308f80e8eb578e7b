//! Decisions about a frame explained, without carrying them out.
//!
//! The frame passes a pipeline of its own: the packet path's code with the plans in force and with
//! what the workers know of the frame's stations and of links. So the answer cannot differ from
//! the decision. Queues, counters, rate limits and marks of that pipeline are new and go with it.
//! A worker copies [`Facts`] between two batches, a few bytes for each port and station; all else
//! is the asker's work.

use std::net::IpAddr;
use std::sync::Arc;

use plexus_io::fast::{Flow, Key, Routed};
use plexus_io::{Batch, Capabilities, Link, Packet, Pool, PortId};
use plexus_table::{MacKey, Station};
use plexus_wire::fabric::message::{Choice, Handed, Limited, Step, Target};
use plexus_wire::fabric::{self, CONTROL_HOP, Fields, ROUTER_HOP};
use plexus_wire::{EtherType, MacAddr, Time, ethernet, ipv4, ipv6, vlan};

use super::Pipeline;
use crate::context::Context;
use crate::control::ToControl;
use crate::drops::DropReason;
use crate::fabric::lanes::Lanes;
use crate::fabric::plan::{Encapsulation, FabricPlan, PortRole};
use crate::router::fib::{FibBatch, FibReaders};
use crate::router::plan::{GROUP_VLAN, GroupKind, InterfacePlan};
use crate::snapshot::Snapshot;
use crate::stage::transmit;
use crate::switch::Switch;
use crate::verdict::{Origin, Punt, Verdict};

/// Bytes that a frame may grow by, beside its headroom.
const FRAME_SPARE: usize = 64;
/// Times that packets may wait for a paced port until all have left.
const WAITS_MAX: usize = 4096;

/// A frame that a box is asked about.
#[derive(Clone, Debug)]
pub struct Question {
    /// The port that it comes in by.
    port: PortId,
    frame: Vec<u8>,
    /// Stations that decide about it.
    stations: Vec<MacKey>,
}

/// A worker's knowledge that decides about the frame of a [`Question`].
pub struct Facts {
    now: Time,
    seed: u64,
    ports: Vec<(Link, Capabilities)>,
    stations: Vec<(MacKey, Station)>,
    learned: Vec<u32>,
    lanes: Option<Lanes>,
    is_in_kernel: bool,
}

/// A box's treatment of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The decisions in order.
    pub steps: Vec<Step>,
    /// Frames that leave, as the devices get them, by port.
    pub leaves: Vec<(PortId, Vec<u8>)>,
    /// Packets for another part of the box: why, and their bytes.
    pub handed: Vec<(Punt, Vec<u8>)>,
    /// Drops, and the port that counts each.
    pub dropped: Vec<(PortId, DropReason)>,
}

/// Explains what a box with this configuration would do with a frame that comes in by a port.
/// `ask` passes a question to every worker, and returns their facts by worker.
///
/// # Errors
/// There is no such port; or as `ask`.
pub fn explain(
    plan: &Arc<Snapshot>,
    port: PortId,
    frame: &[u8],
    mut ask: impl FnMut(&Question) -> Result<Vec<Facts>, String>,
) -> Result<Explanation, String> {
    let own = plan.ports.get(usize::from(port)).ok_or("there is no such port")?;
    let mut question = Question { port, frame: frame.to_vec(), stations: Vec::new() };
    if let Some(flow) = Flow::of(port, frame) {
        let tag = flow.tag.map(|tci| tci & 0x0FFF).filter(|vlan| *vlan != 0);
        let vlan = tag.unwrap_or(own.native);
        question.stations = [flow.source, flow.destination].map(|m| MacKey::new(vlan, m)).into();
    }
    loop {
        let facts = ask(&question)?;
        let (explanation, wanted) = Beside::new(plan, &question, &facts)?.run(&question);
        match wanted.filter(|station| !question.stations.contains(station)) {
            // The router sends it to a station that the switch may know: asked again with that one.
            Some(station) => question.stations.push(station),
            None => return Ok(explanation),
        }
    }
}

impl Pipeline {
    /// The knowledge here that decides about the frame of a question.
    pub fn facts(&self, now: Time, question: &Question) -> Facts {
        let switch = &self.lookup.switch;
        Facts {
            now,
            seed: self.seed,
            ports: self.output.port_facts(),
            stations: switch.known(&question.stations),
            learned: switch.counts().to_vec(),
            lanes: self.lookup.fabric.remembered_lanes(),
            is_in_kernel: self.fast.as_ref().is_some_and(|fast| {
                keys(&self.fabric, question).iter().any(|key| fast.forwards(key))
            }),
        }
    }
}

/// The keys that a rule for a frame may have.
fn keys(plan: &FabricPlan, question: &Question) -> Vec<Key> {
    let Question { port, frame, .. } = question;
    let flow = Flow::of(*port, frame);
    let routed = flow.and_then(|flow| Routed::of(flow, frame));
    let ports = routed.and_then(|routed| routed.with_ports_of(frame));
    let header = header(plan, *port, frame);
    let hop = header.and_then(|header| header.forward().first().copied());
    let inner = header.and_then(|header| Flow::of(*port, header.payload()));
    let is_routed = header.is_some_and(|header| header.is_routed());
    let delivery = hop.zip(inner).map(|(hop, inner)| Key::Delivery {
        in_port: *port,
        hop,
        destination: inner.destination,
        is_routed,
    });
    let to_router = header.zip(inner).filter(|_| hop == Some(ROUTER_HOP));
    let to_router = to_router.and_then(|(header, flow)| {
        let pair = Routed::of(flow, header.payload())?.from_node();
        Some([Some(pair), pair.with_ports_of(header.payload())])
    });
    let hop = hop.map(|hop| Key::Hop { in_port: *port, hop });
    let routed = [routed, ports].into_iter().chain(to_router.into_iter().flatten());
    let routed = routed.flatten().map(Key::Routed);
    flow.into_iter().map(Key::Flow).chain(routed).chain(hop).chain(delivery).collect()
}

/// The fabric frame in a frame at a port that leads to a node.
fn header<'a>(plan: &FabricPlan, port: PortId, frame: &'a [u8]) -> Option<fabric::Frame<&'a [u8]>> {
    let PortRole::Fabric(link) = plan.role(port) else { return None };
    let bytes = match link {
        Encapsulation::Native => frame,
        Encapsulation::EtherType { out, .. } => frame.get(out.len()..)?,
    };
    fabric::Frame::new_checked(bytes).ok()
}

/// A pipeline beside that of a worker.
struct Beside {
    pipeline: Pipeline,
    pool: Pool,
    now: Time,
    is_in_kernel: bool,
}

impl Beside {
    fn new(plan: &Arc<Snapshot>, question: &Question, facts: &[Facts]) -> Result<Beside, String> {
        let own = &plan.ports[usize::from(question.port)];
        let known = facts.get(own.worker).ok_or("a worker has not answered")?;
        let len = plexus_io::HEADROOM + question.frame.len() + FRAME_SPARE;
        let frames = plan.ports.len() + question.frame.len() / 8 + 64;
        let mut pool = Pool::new(frames, len).map_err(|e| format!("frames: {e}"))?;
        let switch = Switch::small(plan, known.seed);
        let mut pipeline = Pipeline::with_switch(plan.clone(), own.worker, known.seed, switch);
        // Plans that share no marks with those of the workers, and are not replaced.
        pipeline.fabric = Arc::new(pipeline.fabric.detached());
        pipeline.router = Arc::new(pipeline.router.detached());
        (pipeline.published, pipeline.published_router) = (None, None);
        pipeline.lookup.switch.remember(&known.stations, &known.learned);
        pipeline.output.own_all();
        for (port, plan) in (0..).zip(&plan.ports) {
            let links = facts.get(plan.worker).map_or(&[][..], |facts| &facts.ports);
            let Some((link, capabilities)) = links.get(usize::from(port)) else { continue };
            pipeline.set_capabilities(port, *capabilities);
            pipeline.set_link(known.now, &mut pool, port, *link);
        }
        if let Some(lanes) = &known.lanes {
            pipeline.lookup.fabric.set_lanes(lanes.clone());
        }
        Ok(Beside { pipeline, pool, now: known.now, is_in_kernel: known.is_in_kernel })
    }

    /// Passes the frame through, and notes what happens. Also the station that the router sends it
    /// to, if the switch does not know where that is.
    fn run(mut self, question: &Question) -> (Explanation, Option<MacKey>) {
        let Question { port, frame, .. } = question;
        let mut steps = Vec::new();
        if self.is_in_kernel {
            steps.push(Step::Kernel {});
        }
        let Some(mut packet) = self.pool.alloc_from(frame) else {
            let dropped = vec![(*port, DropReason::TooLong)];
            return (Explanation { steps, leaves: vec![], handed: vec![], dropped }, None);
        };
        packet.in_port = *port;
        let mut fib = self.pipeline.fib.take();
        let wanted = {
            let fib = fib.as_mut().map(FibReaders::batch);
            let has_interfaces = self.pipeline.router.has_interfaces();
            self.decide(packet, frame, fib.as_ref().filter(|_| has_interfaces), &mut steps)
        };
        let leaves = self.leaves();
        let Beside { mut pipeline, pool, .. } = self;
        let named = std::mem::take(pipeline.to_named());
        let handed = named.into_iter().chain(std::mem::take(pipeline.to_control()));
        let handed: Vec<(Punt, Vec<u8>)> = handed
            .map(|ToControl { punt, packet, .. }| (punt, pool.data(&packet).to_vec()))
            .collect();
        steps.extend(handed.iter().map(|(punt, _)| Step::Handed { to: side(*punt) }));
        let mut dropped = Vec::new();
        for (id, counters) in (0..).zip(&pipeline.counters.ports) {
            for (reason, count) in DropReason::ALL.iter().zip(counters.drops) {
                dropped.extend((0..count).map(|_| (id, *reason)));
            }
        }
        steps.extend(dropped.iter().map(|(port, reason)| Step::Dropped {
            port: *port,
            reason: reason.name().as_bytes().to_vec(),
        }));
        (Explanation { steps, leaves, handed, dropped }, wanted)
    }

    /// Stages 3 to 5.
    fn decide(
        &mut self,
        packet: Packet,
        frame: &[u8],
        fib: Option<&FibBatch<'_>>,
        steps: &mut Vec<Step>,
    ) -> Option<MacKey> {
        let Beside { pipeline, pool, now, .. } = self;
        let port = packet.in_port;
        let mut batch = Batch::new();
        batch.push(packet);
        let mut context = context!(pipeline, *now, pool, fib);
        pipeline.lookup.run(&mut context, &pipeline.output, &mut batch);
        let mut wanted = None;
        let is_routed = context.counters.ports[usize::from(port)].routed > 0;
        let view = View { context: &context, port, frame, is_routed };
        // The forwarder of names may have taken it.
        match batch.first() {
            Some(packet) => {
                let verdict = Verdict::load(packet);
                view.explain(packet, verdict, steps);
                if matches!(verdict, Verdict::FloodRouted | Verdict::Fragment(_)) {
                    let to = view.context.pool.data(packet).first_chunk().copied();
                    wanted = to.map(|to| MacKey::new(packet.vlan, MacAddr(to)));
                }
            }
            None => view.arrival(steps),
        }
        pipeline.output.run(&mut context, &mut pipeline.lookup, &mut batch);
        transmit::run(&mut context, &mut pipeline.output);
        wanted
    }

    /// The frames that leave, also those for which a paced port has to wait.
    fn leaves(&mut self) -> Vec<(PortId, Vec<u8>)> {
        let Beside { pipeline, pool, now, .. } = self;
        let mut leaves = Vec::new();
        for _ in 0..WAITS_MAX {
            for port in 0..pipeline.plan.ports.len() as PortId {
                for packet in std::mem::take(pipeline.to_transmit(port)) {
                    leaves.push((port, pool.data(&packet).to_vec()));
                    pool.free(packet);
                }
            }
            if pipeline.held() == 0 {
                break;
            }
            *now = pipeline.next_deadline().max(*now);
            let mut context = context!(pipeline, *now, pool);
            transmit::run(&mut context, &mut pipeline.output);
        }
        leaves.sort_by_key(|(port, _)| *port);
        leaves
    }
}

/// A frame as it came in, and the tables that decide about it.
struct View<'a, 'b> {
    context: &'a Context<'b>,
    port: PortId,
    frame: &'a [u8],
    /// The router has sent it on.
    is_routed: bool,
}

impl View<'_, '_> {
    /// Says what decided, from the tables that were read and from what became of the packet.
    fn explain(&self, packet: &Packet, verdict: Verdict, steps: &mut Vec<Step>) {
        self.arrival(steps);
        let fabric = self.context.fabric;
        let Some(to) = self.inner_came().first_chunk().copied().map(MacAddr) else {
            return;
        };
        let in_fabric = self.context.plan.is_in_fabric(self.port);
        let vlan = if in_fabric { GROUP_VLAN } else { self.vlan().map_or(0, |(vlan, _)| vlan) };
        let is_for_router = self.router(vlan).is_some_and(|i| i.mac == to);
        let is_from_node = matches!(fabric.role(self.port), PortRole::Fabric(_));
        let reaches_router = !in_fabric || self.is_at_router(verdict);
        if is_for_router && reaches_router {
            steps.push(Step::ToRouter {});
            self.routed(packet, verdict, steps);
        }
        match in_fabric {
            false => self.switched(packet, verdict, steps),
            true if is_from_node && !self.is_at_router(verdict) => self.passed_on(verdict, steps),
            true => self.carried(packet, verdict, steps),
        }
    }

    /// The port, and what it says of the frame.
    fn arrival(&self, steps: &mut Vec<Step>) {
        let fabric = self.context.fabric;
        if !self.context.plan.is_in_fabric(self.port) {
            steps.extend(self.vlan().map(|(vlan, tagged)| Step::Vlan { vlan, tagged }));
            return;
        }
        match fabric.role(self.port) {
            PortRole::Unknown => steps.push(Step::Unproved {}),
            PortRole::Controller(_) => steps.push(Step::FromController {}),
            PortRole::Host => {
                let source =
                    ethernet::Frame::new_checked(self.frame).ok().map(|f| f.src().to_u64());
                let tables = fabric.tables(self.port);
                let admitted = tables.zip(source).is_some_and(|(t, s)| t.stations.contains(s));
                steps.push(Step::FromHost { admitted });
            }
            PortRole::Fabric(_) => {
                steps.push(Step::FromNode {});
                let Some(came) = header(fabric, self.port, self.frame) else { return };
                if let Some((&hop, rest)) = came.forward().split_first() {
                    steps.push(Step::Hop { hop, left: rest.len() as u8 });
                }
            }
        }
    }

    /// The VLAN of a frame at a port of the switch, and whether its tag says it.
    fn vlan(&self) -> Option<(u16, bool)> {
        let port = &self.context.plan.ports[usize::from(self.port)];
        let tag = Flow::of(self.port, self.frame)?.tag.map(|tci| tci & 0x0FFF);
        match tag.filter(|vlan| *vlan != 0) {
            Some(vlan) => port.carries(vlan).then_some((vlan, true)),
            None => (port.native != 0).then_some((port.native, false)),
        }
    }

    /// The router's interface in a VLAN.
    fn router(&self, vlan: u16) -> Option<&InterfacePlan> {
        self.context.fib?;
        self.context.router.interface(vlan)
    }

    /// The host's frame, as it came in, behind the fabric's header if it had one.
    fn inner_came(&self) -> &[u8] {
        header(self.context.fabric, self.port, self.frame).map_or(self.frame, |came| came.payload())
    }

    /// Whether the router has decided about a packet that came in by a port of the fabric.
    fn is_at_router(&self, verdict: Verdict) -> bool {
        use DropReason as Why;
        let decides = match verdict {
            Verdict::Fragment(_) => true,
            Verdict::Control(punt) => matches!(
                punt,
                Punt::Local | Punt::Neighbour | Punt::Unresolved(_) | Punt::TooBig(_)
            ),
            Verdict::Drop(why) => {
                let later = [Why::NoRoute, Why::Blackhole, Why::DirectedBroadcast, Why::NotForUs];
                is_before_lookup(why) || later.contains(&why)
            }
            _ => false,
        };
        let tells = matches!(verdict, Verdict::Control(Punt::Error(why))
            if Punt::Error(why).side() == crate::verdict::Side::Router);
        self.is_routed || decides || tells
    }

    /// The router's look-up, and what it has changed.
    fn routed(&self, packet: &Packet, verdict: Verdict, steps: &mut Vec<Step>) {
        let is_refused = matches!(verdict, Verdict::Drop(why) if is_before_lookup(why));
        let came = ip(self.inner_came());
        let (Some((address, before)), Some(fib), false) = (came, self.context.fib, is_refused)
        else {
            return;
        };
        let id = match address {
            IpAddr::V4(address) => fib.find_v4(address.to_bits()),
            IpAddr::V6(address) => fib.find_v6(address.to_bits()),
        };
        let group = self.context.router.group(id);
        let next_hops = if group.kind == GroupKind::Forward { group.members() } else { 0 };
        let target = target(group.kind);
        steps.push(Step::Lookup { address, prefix_len: None, target, next_hops });
        if !self.is_routed && !matches!(verdict, Verdict::Fragment(_)) {
            return;
        }
        let left = self.inner_leaves(packet, verdict);
        if let Some(mac) = left.first_chunk().copied().map(MacAddr) {
            match self.context.fabric.is_function(mac.to_u64()) {
                true => steps.push(Step::Function { mac }),
                false => steps.push(Step::NextHop { mac, vlan: packet.vlan }),
            }
        }
        if let Some((_, after)) = ip(left).filter(|(_, after)| *after != before) {
            steps.push(Step::Ttl { from: before, to: after });
        }
        if let Verdict::Fragment(_) = verdict {
            steps.push(Step::Fragments { mtu: packet.offload.segment_size });
        }
    }

    /// The host's frame as the lookup leaves it, behind the header that it may have by now.
    fn inner_leaves(&self, packet: &Packet, verdict: Verdict) -> &[u8] {
        let data = self.context.pool.data(packet);
        let leaves = match verdict {
            Verdict::Forward(out) => header(self.context.fabric, out, data),
            _ => None,
        };
        leaves.map_or(data, |leaves| leaves.payload())
    }

    /// The switch's decision.
    fn switched(&self, packet: &Packet, verdict: Verdict, steps: &mut Vec<Step>) {
        let settings = &self.context.plan.ports[usize::from(self.port)].settings;
        let frame = self.context.pool.data(packet);
        let is_group = frame.first().is_some_and(|byte| byte & 1 == 1);
        let is_broadcast = frame.starts_with(&[0xFF; 6]);
        let storm = settings.storm;
        let (of, most) = match (is_group, is_broadcast) {
            (_, true) => (Limited::Broadcast, storm.broadcast_pps),
            (true, false) => (Limited::Multicast, storm.multicast_pps),
            (false, false) => (Limited::Unknown, storm.unknown_pps),
        };
        match verdict {
            Verdict::Forward(port) if self.router(packet.vlan).is_none_or(|i| i.port.is_none()) => {
                steps.push(Step::Station { port });
            }
            Verdict::Flood => {
                steps.push(if is_group { Step::Flooded {} } else { Step::Unknown {} });
                steps.extend(most.map(|most| Step::Limit { of, most }));
            }
            Verdict::FloodRouted => steps.push(Step::Unknown {}),
            Verdict::Drop(DropReason::MacLimit) => {
                let most = settings.mac_limit.unwrap_or_default();
                steps.push(Step::Limit { of: Limited::Stations, most });
            }
            _ => {}
        }
    }

    /// A frame of another node goes on, or reaches its host.
    fn passed_on(&self, verdict: Verdict, steps: &mut Vec<Step>) {
        let plan = self.context.fabric;
        match verdict {
            Verdict::Forward(out) if *plan.role(out) == PortRole::Host => {
                steps.push(Step::Stripped {});
            }
            Verdict::Tree(_) => {
                let came = header(plan, self.port, self.frame).map(|f| f.header_len());
                let start = came.and_then(|_| match plan.role(self.port) {
                    PortRole::Fabric(Encapsulation::EtherType { out, .. }) => {
                        self.frame.get(out.len()..)
                    }
                    _ => Some(self.frame),
                });
                steps.extend(start.and_then(|bytes| self.tree(bytes)));
            }
            _ => {}
        }
    }

    /// The tree that a header names.
    fn tree(&self, bytes: &[u8]) -> Option<Step> {
        let (tree, _) = fabric::tree(bytes, Fields::read(bytes).ok()?)?;
        let ports = self.context.fabric.tree(tree)?;
        Some(Step::Tree { tree, ports: ports.iter().collect() })
    }

    /// The way of a host's frame, or of a packet that the router here sends to a host.
    fn carried(&self, packet: &Packet, verdict: Verdict, steps: &mut Vec<Step>) {
        let plan = self.context.fabric;
        let (came, left) = (self.inner_came(), self.inner_leaves(packet, verdict));
        let origin = match plan.role(self.port) {
            PortRole::Host => self.port,
            _ => ROUTER_HOP.into(),
        };
        let address = |frame: &[u8], at: usize| {
            frame.get(at..at + 6).and_then(|bytes| bytes.first_chunk().copied()).map(MacAddr)
        };
        // Its source may be the group's by now.
        let ends = address(left, 0).zip(address(came, 6));
        let (Some((to, from)), Some(tables)) = (ends, plan.tables(origin)) else { return };
        let is_admitted = origin == ROUTER_HOP.into() || tables.stations.contains(from.to_u64());
        // The checks before the route memory have decided.
        let is_looked_up = match verdict {
            Verdict::Forward(_) | Verdict::Route(_) | Verdict::Tree(_) => true,
            Verdict::Control(Punt::Host) => is_admitted && !plan.is_own(to),
            Verdict::Control(Punt::Error(DropReason::StaleRoute)) => true,
            Verdict::Drop(why) => {
                matches!(why, DropReason::PortDown | DropReason::NoForwarder | DropReason::SamePort)
            }
            _ => false,
        };
        if !is_looked_up {
            return;
        }
        let Some(found) = tables.routes.get(to, from) else {
            return steps.push(Step::NoRoutes {});
        };
        if let Verdict::Tree(Origin::Host) = verdict {
            let entry = found.get(0).filter(|(port, _)| *port == CONTROL_HOP);
            return steps.extend(entry.and_then(|(_, header)| self.tree(header)));
        }
        let pushed = match verdict {
            Verdict::Forward(out) => header(plan, out, self.context.pool.data(packet)),
            _ => None,
        };
        let hops = pushed.as_ref().map(|frame| frame.forward());
        let takes = |(port, header): (u8, &[u8])| match verdict {
            Verdict::Forward(out) if PortId::from(port) == out => match hops {
                None => header.is_empty(),
                Some(hops) => fabric::Frame::new_checked(header).is_ok_and(|h| h.forward() == hops),
            },
            _ => false,
        };
        let chosen = match verdict {
            Verdict::Route(index) => Some(index),
            _ => (0..found.len()).position(|i| found.get(i).is_some_and(takes)).map(|i| i as u8),
        };
        let by = match plan.lanes() {
            _ if found.len() == 1 => Choice::Only,
            _ if plan.is_own(to) => Choice::Hosts,
            plexus_config::LaneChoice::Static => Choice::Static,
            plexus_config::LaneChoice::PerFlow => Choice::Flow,
            plexus_config::LaneChoice::LeastLoaded => Choice::Load,
        };
        steps.push(Step::Routes { count: found.len() as u8, chosen, by });
        let hops = hops.map(<[u8]>::to_vec);
        let of_route = || {
            found.get(usize::from(chosen?)).and_then(|(_, header)| {
                Some(fabric::Frame::new_checked(header).ok()?.forward().to_vec())
            })
        };
        let hops = hops.or_else(of_route);
        steps.extend(hops.map(|hops| Step::Pushed { hops }));
    }
}

/// Destination, and time to live or hop limit, of an IP packet in a frame.
fn ip(frame: &[u8]) -> Option<(IpAddr, u8)> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let stack = vlan::stack(&frame).ok()?;
    let payload = &frame.as_bytes()[stack.payload_offset..];
    match stack.ethertype {
        EtherType::IPV4 => {
            let packet = ipv4::Packet::new_checked(payload).ok()?;
            Some((packet.dst().into(), packet.ttl()))
        }
        EtherType::IPV6 => {
            let packet = ipv6::Packet::new_checked(payload).ok()?;
            Some((packet.dst().into(), packet.hop_limit()))
        }
        _ => None,
    }
}

/// Whether the router drops for this reason before it looks for a route.
fn is_before_lookup(why: DropReason) -> bool {
    use DropReason as Why;
    matches!(
        why,
        Why::BadIpHeader
            | Why::IpChecksum
            | Why::BadIpOption
            | Why::SourceRouted
            | Why::Martian
            | Why::BeyondScope
            | Why::ReversePath
            | Why::OwnAddress
    )
}

fn target(kind: GroupKind) -> Target {
    match kind {
        GroupKind::None => Target::None,
        GroupKind::Forward => Target::Forward,
        GroupKind::Glean => Target::Connected,
        GroupKind::Local => Target::Local,
        GroupKind::Broadcast => Target::Broadcast,
        GroupKind::Blackhole => Target::Blackhole,
        GroupKind::Unreachable => Target::Unreachable,
        GroupKind::Prohibited => Target::Prohibited,
    }
}

fn side(punt: Punt) -> Handed {
    match punt {
        Punt::Bootstrap => Handed::Link,
        Punt::Host => Handed::Host,
        Punt::Control => Handed::Control,
        Punt::Error(_) | Punt::TooBig(_) => Handed::Error,
        Punt::Neighbour => Handed::Neighbour,
        Punt::Local => Handed::Local,
        Punt::Unresolved(_) => Handed::Unresolved,
        Punt::Named => Handed::Named,
    }
}
