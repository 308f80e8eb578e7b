//! Counts the packets in the pipeline, by the flow that a rule would be for.

use plexus_io::fast::{Flow, Key, Routed};
use plexus_io::{Batch, Packet, Pool, PortId, Segmentation};
use plexus_wire::Time;
use plexus_wire::fabric::{Fields, Hop, Kind, ROUTER_HOP};

use super::rule::origin;
use super::{Fast, Plans, State, wait};
use crate::bits::bits;
use crate::fabric::plan::{Encapsulation, FabricPlan, PortRole};
use crate::fabric::{Forwarded, TOO_LONG, push};
use crate::flow::Queued;
use crate::verdict::Verdict;

impl Fast {
    /// Notes the packets of a batch that are to the router, before it changes them.
    #[inline]
    pub(crate) fn see_arrivals(&mut self, pool: &Pool, batch: &Batch, plans: Plans<'_>) {
        self.arrived_of = batch.len();
        if !plans.router.has_interfaces() || self.open_count == 0 {
            return;
        }
        for (place, packet) in (0..).zip(batch) {
            if !self.is_seen_open(packet.in_port) {
                continue;
            }
            let in_port = packet.in_port;
            let from_node = inner_frame(plans.fabric, in_port, pool.data(packet));
            let frame = from_node.unwrap_or_else(|| pool.data(packet));
            let flow = Flow::of(in_port, frame).filter(is_plain);
            let flow = flow.filter(|flow| plans.interface_of(flow).is_some());
            let routed = flow.and_then(|flow| plans.routed_flow(flow, frame));
            let routed = routed.map(|key| if from_node.is_some() { key.from_node() } else { key });
            self.arrived.extend(routed.map(|routed| (place, routed)));
        }
    }

    /// Counts the packets of a batch: those at the places of `switched` go out by one port of the
    /// switch, `in_fabric` has those that the fabric may have sent on. It also counts packets in
    /// `arrived` that the router sends on.
    #[inline]
    pub(crate) fn see(
        &mut self,
        now: Time,
        pool: &Pool,
        batch: &Batch,
        switched: u64,
        in_fabric: Forwarded,
        plan: &FabricPlan,
    ) {
        let Forwarded { passed_on, delivered, of_hosts } = in_fabric;
        for place in bits(switched | passed_on | delivered | of_hosts) {
            let packet = &batch[place];
            if !self.is_seen_open(packet.in_port) {
                continue;
            }
            let Some(out_port) = out_port(plan, pool, packet) else { continue };
            let (in_port, frame) = (packet.in_port, pool.data(packet));
            let is_in = |places: u64| places >> place & 1 != 0;
            let key = if is_in(passed_on) {
                Some(Key::Hop { in_port, hop: out_port as u8 })
            } else if is_in(delivered) {
                Flow::of(in_port, frame).map(|flow| Key::Delivery {
                    in_port,
                    hop: out_port as u8,
                    destination: flow.destination,
                    // By now these have the router's address.
                    is_routed: Some(flow.source) == plan.gateway(),
                })
            } else {
                let inner =
                    if is_in(of_hosts) { host_frame(plan, out_port, packet, frame) } else { frame };
                // The lookup has taken the tag off a frame that names no VLAN.
                let flow = Flow::of(in_port, inner).filter(is_plain);
                match is_in(of_hosts) {
                    true => flow.and_then(|flow| key_of_host(plan, flow, inner)),
                    false => flow.map(Key::Flow),
                }
            };
            let Some(key) = key else { continue };
            let segmentation = packet.offload.segmentation;
            // The table takes no super-packet of UDP into the fabric.
            if segmentation != Segmentation::Udp || !is_in(of_hosts) {
                self.candidates.count(key, out_port, packet.len());
            }
            if segmentation != Segmentation::None {
                self.note_super(&key, segmentation);
            }
        }
        if !self.arrived.is_empty() {
            self.see_routed(now, pool, batch, of_hosts, plan);
        }
    }

    fn note_super(&mut self, key: &Key, segmentation: Segmentation) {
        if !matches!(segmentation, Segmentation::None | Segmentation::Udp)
            && !self.waiting.is_empty()
            && let Some(rule) = self.rules.get_mut(key)
        {
            rule.has_super |= !rule.state.forwards();
        }
    }

    /// Those at the places of `of_hosts` are routed by other nodes.
    fn see_routed(
        &mut self,
        now: Time,
        pool: &Pool,
        batch: &Batch,
        of_hosts: u64,
        plan: &FabricPlan,
    ) {
        // The forwarder of names may have taken packets out, and others have other places now.
        let is_whole = batch.len() == self.arrived_of;
        for at in 0..if is_whole { self.arrived.len() } else { 0 } {
            let (place, key) = self.arrived[at];
            let packet = &batch[usize::from(place)];
            let goes_on = packet.flags & TOO_LONG == 0 && of_hosts >> place & 1 == 0;
            let out_port = out_port(plan, pool, packet).filter(|_| goes_on);
            let Some(out_port) = out_port else { continue };
            let key = key_of_routed(plan, out_port, packet, pool.data(packet), key);
            let Some(key) = key.map(Key::Routed) else { continue };
            // The table does not forward super-packets of UDP.
            if packet.offload.segmentation != Segmentation::Udp {
                self.candidates.count(key, out_port, packet.len());
            }
            self.note_super(&key, packet.offload.segmentation);
            // It has let a packet through that it does not send on as it is.
            if let Some(rule) = self.rules.get_mut(&key).filter(|rule| rule.state.forwards()) {
                rule.state = State::Waiting { since: now };
                wait(&mut self.waiting, &key, rule);
            }
        }
        self.arrived.clear();
    }
}

/// The port that a packet leaves by; none if it stays, or leaves by several.
fn out_port(plan: &FabricPlan, pool: &Pool, packet: &Packet) -> Option<PortId> {
    match Verdict::load(packet) {
        Verdict::Forward(port) => Some(port),
        // It still owes work, so its header is pushed later.
        Verdict::Route(index) => {
            let found = push::routes_of(plan, pool, packet)?;
            found.get(usize::from(index)).map(|(port, _)| port.into())
        }
        _ => None,
    }
}

/// The key of a host's frame: where it has several routes, that of its TCP or UDP flow. A frame to
/// the group's router always has the key of its flow, because other packets to that address may be
/// for this node.
fn key_of_host(plan: &FabricPlan, flow: Flow, frame: &[u8]) -> Option<Key> {
    let found = plan.tables(flow.in_port)?.routes.get(flow.destination, flow.source)?;
    match found.len() {
        1 if plan.gateway() != Some(flow.destination) => Some(Key::Flow(flow)),
        _ => Routed::of(flow, frame)?.with_ports_of(frame).map(Key::Routed),
    }
}

/// The key of a packet that the router has sent. Where its host has several routes to the
/// neighbour, that of its TCP or UDP flow.
fn key_of_routed(
    plan: &FabricPlan,
    out_port: PortId,
    packet: &Packet,
    frame: &[u8],
    pair: Routed,
) -> Option<Routed> {
    let is_of_host = *plan.role(packet.in_port) == PortRole::Host;
    let is_of_fabric = (is_of_host || pair.is_from_node) && pair.ports.is_none();
    let Some(tables) = plan.tables(origin(&pair)).filter(|_| is_of_fabric) else {
        return Some(pair);
    };
    let frame = host_frame(plan, out_port, packet, frame);
    let neighbour = Flow::of(packet.in_port, frame)?.destination;
    match tables.routes.get(neighbour, pair.flow.source)?.len() {
        1 => Some(pair),
        _ => pair.with_ports_of(frame),
    }
}

/// The frame of a host that another node has sent to the router of this one, in a frame that comes
/// in by a port; none in other frames.
#[inline]
fn inner_frame<'a>(plan: &FabricPlan, in_port: PortId, frame: &'a [u8]) -> Option<&'a [u8]> {
    let PortRole::Fabric(Encapsulation::EtherType { back, .. }) = plan.role(in_port) else {
        return None;
    };
    let frame = frame.strip_prefix(back).filter(|_| plan.routes())?;
    let fields = Fields::read(frame).ok()?;
    let is_for_router =
        fields.kind() == Kind::Ethernet && fields.next_hop() == Some(Hop::Port(ROUTER_HOP));
    // The table reads no header with more hops ahead.
    let is_short = fields.forward() <= 8;
    (is_for_router && is_short).then(|| frame.get(fields.header_len()..)).flatten()
}

/// The frame of a host, before which the header of the fabric may be already.
fn host_frame<'a>(
    plan: &FabricPlan,
    out_port: PortId,
    packet: &Packet,
    frame: &'a [u8],
) -> &'a [u8] {
    match Verdict::load(packet) {
        Verdict::Forward(_) => Queued::new(plan, out_port, frame).host_frame(),
        _ => frame,
    }
}

/// Whether a flow's frames have one tag at most, and a type: where a length stands in its place,
/// frames of one conversation would be flows of their own, and overtake each other.
fn is_plain(flow: &Flow) -> bool {
    flow.ethertype >= 0x0600 && !matches!(flow.ethertype, 0x8100 | 0x88A8 | 0x9100)
}
