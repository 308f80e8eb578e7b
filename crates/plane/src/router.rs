//! The IP router (RFC 1812; RFC 8200): which neighbour a packet goes to.
//!
//! - In: packets that the switch has classified, with their addresses; those to an interface's
//!   Ethernet address are the router's, all others stay the switch's.
//! - Out: `verdict`, and the frame rewritten: addresses, time to live, header checksum, VLAN.
//! - Parameters: [`RouterPlan`], and the forwarding table beside it.
//! - Verdicts to drop: `bad_ip_header`, `ip_checksum`, `bad_ip_option`, `source_routed`, `martian`,
//!   `beyond_scope`, `reverse_path`, `no_route`, `ttl_expired`, `too_big`, `blackhole`,
//!   `unreachable`, `prohibited`, `directed_broadcast`, `own_address`, `not_for_us`. Where the
//!   sender is to hear of it, the control plane gets the packet's beginning.
//!
//! A batch is read in passes: headers are checked and destinations collected, these are looked up
//! together so that their cache misses overlap, then frames are rewritten.
//!
//! What is for the box itself goes to the kernel's device in the interface's VLAN, or to our
//! control plane. So do packets whose neighbour is not known, as they came in: the control plane
//! has them processed again once it is. News of neighbours (ARP, neighbour discovery) is copied to
//! it wherever it passes.

pub(crate) mod fib;
pub(crate) mod fragment;
mod ipv4;
mod ipv6;
pub(crate) mod plan;

use arrayvec::ArrayVec;
use plexus_io::{BATCH, Packet, PortId, Segmentation};
use plexus_wire::flow::FlowKey;

use crate::drops::DropReason;
use crate::fabric::{Punt, control};
use crate::pipeline::Context;
use crate::switch::vlan::{self, Addresses};
use crate::verdict::Verdict;
use fib::FibBatch;
use plan::{Group, GroupKind, InterfacePlan, ReversePath};

/// Bytes of an untagged Ethernet header; the router's packets have no tag.
const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xDD];
const ARP: [u8; 2] = [0x08, 0x06];
/// The group bit of an address as a 48-bit integer.
const GROUP_ADDRESS: u64 = 1 << 40;

/// The router of one worker.
#[derive(Default)]
pub(crate) struct Router {
    /// Keys the choice among next hops.
    seed: u64,
    v4: Found<u32>,
    v6: Found<u128>,
    /// Bit for each packet of the batch: the router has decided it.
    pub(crate) claimed: u64,
    /// Of those: the switch is to learn its source.
    pub(crate) to_learn: u64,
    /// Of those: the switch knows by which port of its VLAN it leaves.
    pub(crate) to_place: u64,
}

/// Packets of one family, in the order of the batch.
struct Found<A> {
    /// Places in the batch.
    places: ArrayVec<u8, BATCH>,
    destinations: ArrayVec<A, BATCH>,
}

impl<A> Default for Found<A> {
    fn default() -> Found<A> {
        Found { places: ArrayVec::new(), destinations: ArrayVec::new() }
    }
}

impl Router {
    pub(crate) fn new(seed: u64) -> Router {
        Router { seed, ..Router::default() }
    }

    /// Decides for the packets of the batch that are the router's: see `claimed`.
    #[inline(never)]
    pub(crate) fn run(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut [Packet],
        addresses: &[Addresses],
    ) {
        (self.claimed, self.to_learn, self.to_place) = (0, 0, 0);
        let Some(fib) = context.fib else { return };
        self.claim(context, fib, batch, addresses);
        if !self.v4.places.is_empty() {
            self.run_v4(context, fib, batch);
        }
        if !self.v6.places.is_empty() {
            self.run_v6(context, fib, batch);
        }
    }

    /// Finds the router's packets, and checks their headers.
    fn claim(
        &mut self,
        context: &mut Context<'_>,
        fib: &FibBatch<'_>,
        batch: &mut [Packet],
        addresses: &[Addresses],
    ) {
        self.v4.places.clear();
        self.v4.destinations.clear();
        self.v6.places.clear();
        self.v6.destinations.clear();
        let plan = context.router;
        for (place, (packet, a)) in batch.iter_mut().zip(addresses).enumerate() {
            let Some(interface) = plan.interface(a.vlan) else { continue };
            let own = interface.mac.to_u64();
            // Without a source it has been dropped already.
            if a.source == 0 || interface.kernel == Some(packet.in_port) {
                continue;
            }
            if a.source == own {
                self.claimed |= 1 << place;
                Verdict::Drop(DropReason::OwnAddress).store(packet);
                continue;
            }
            if a.destination != own {
                if a.destination & GROUP_ADDRESS != 0
                    && is_news(context.pool.data(packet), a)
                    && self.overhear(context, interface, packet)
                {
                    self.claimed |= 1 << place;
                }
                continue;
            }
            self.claimed |= 1 << place;
            if interface.port.is_none() {
                self.to_learn |= 1 << place;
            }
            if packet.flags & vlan::TAGGED != 0 {
                vlan::untag(context.pool, packet);
            }
            let verdict = match a.ethertype {
                IPV4 => match ipv4::check(context, fib, interface, packet) {
                    Ok(destination) => {
                        self.v4.places.push(place as u8);
                        self.v4.destinations.push(destination);
                        continue;
                    }
                    Err(verdict) => verdict,
                },
                IPV6 => match ipv6::check(context, fib, interface, packet) {
                    Ok(Some(destination)) => {
                        self.v6.places.push(place as u8);
                        self.v6.destinations.push(destination);
                        continue;
                    }
                    Ok(None) => self.keep(context, interface, packet),
                    Err(verdict) => verdict,
                },
                ARP => match interface.kernel {
                    Some(kernel) => {
                        hand_over_copy(context, packet);
                        Verdict::Forward(kernel)
                    }
                    None => Verdict::Control(Punt::Neighbour),
                },
                _ => interface.kernel.map_or(Verdict::Drop(DropReason::NotForUs), Verdict::Forward),
            };
            verdict.store(packet);
        }
    }

    fn run_v4(&mut self, context: &mut Context<'_>, fib: &FibBatch<'_>, batch: &mut [Packet]) {
        let mut groups = [None; BATCH];
        let count = self.v4.places.len();
        fib.lookup_v4(&self.v4.destinations, &mut groups[..count]);
        for (i, group) in groups[..count].iter().enumerate() {
            let place = usize::from(self.v4.places[i]);
            let packet = &mut batch[place];
            let group = context.router.group(*group);
            let verdict = match group.kind {
                GroupKind::Forward => {
                    let verdict = ipv4::forward(context, packet, group, self.seed);
                    self.sent(place, verdict)
                }
                _ => self.special(context, packet, group),
            };
            verdict.store(packet);
        }
    }

    fn run_v6(&mut self, context: &mut Context<'_>, fib: &FibBatch<'_>, batch: &mut [Packet]) {
        let mut groups = [None; BATCH];
        let count = self.v6.places.len();
        fib.lookup_v6(&self.v6.destinations, &mut groups[..count]);
        for (i, group) in groups[..count].iter().enumerate() {
            let place = usize::from(self.v6.places[i]);
            let packet = &mut batch[place];
            let group = context.router.group(*group);
            let verdict = match group.kind {
                GroupKind::Forward => {
                    let verdict = ipv6::forward(context, packet, group, self.seed);
                    self.sent(place, verdict)
                }
                _ => self.special(context, packet, group),
            };
            verdict.store(packet);
        }
    }

    /// Marks a packet whose port the switch knows.
    #[inline(always)]
    fn sent(&mut self, place: usize, verdict: Verdict) -> Verdict {
        if let Verdict::Forward(plexus_io::PORT_NONE) | Verdict::Fragment(plexus_io::PORT_NONE) =
            verdict
        {
            self.to_place |= 1 << place;
        }
        verdict
    }

    /// What becomes of a packet that is not forwarded.
    #[cold]
    fn special(&self, context: &mut Context<'_>, packet: &mut Packet, group: Group) -> Verdict {
        let Some(interface) = context.router.interface(packet.vlan) else {
            return Verdict::Drop(DropReason::NoRoute);
        };
        let tell = |reason| Verdict::Control(Punt::Error(reason));
        match group.kind {
            GroupKind::Local => self.keep(context, interface, packet),
            GroupKind::Glean if ttl(context.pool.data(packet)) <= 1 => tell(DropReason::TtlExpired),
            GroupKind::Glean => Verdict::Control(Punt::Unresolved(None)),
            GroupKind::Broadcast => Verdict::Drop(DropReason::DirectedBroadcast),
            GroupKind::Blackhole => Verdict::Drop(DropReason::Blackhole),
            GroupKind::Prohibited => tell(DropReason::Prohibited),
            GroupKind::Unreachable => tell(DropReason::Unreachable),
            GroupKind::None | GroupKind::Forward => tell(DropReason::NoRoute),
        }
    }

    /// A packet for the box itself.
    #[cold]
    fn keep(
        &self,
        context: &mut Context<'_>,
        interface: &InterfacePlan,
        packet: &mut Packet,
    ) -> Verdict {
        let is_news = ipv6::is_discovery(context.pool.data(packet));
        match interface.kernel {
            Some(kernel) => {
                if is_news {
                    hand_over_copy(context, packet);
                }
                Verdict::Forward(kernel)
            }
            None if is_news => Verdict::Control(Punt::Neighbour),
            None => Verdict::Control(Punt::Local),
        }
    }

    /// News of neighbours to everybody: the control plane hears it too. True if nobody else can.
    #[cold]
    fn overhear(
        &self,
        context: &mut Context<'_>,
        interface: &InterfacePlan,
        packet: &mut Packet,
    ) -> bool {
        if interface.port.is_some() && interface.kernel.is_none() {
            if packet.flags & vlan::TAGGED != 0 {
                vlan::untag(context.pool, packet);
            }
            Verdict::Control(Punt::Neighbour).store(packet);
            return true;
        }
        hand_over_copy(context, packet);
        false
    }
}

/// Whether a frame to a group is ARP or neighbour discovery.
#[inline]
fn is_news(frame: &[u8], a: &Addresses) -> bool {
    a.ethertype == ARP || (a.ethertype == IPV6 && ipv6::is_discovery(untagged(frame)))
}

/// A frame from its last EtherType's header on: without its tag, if it has one. Of the addresses
/// only the second is then where an Ethernet header has them, which nobody reads.
fn untagged(frame: &[u8]) -> &[u8] {
    match frame.get(12..14) {
        Some([0x81, 0x00]) => frame.get(vlan::TAG_LEN..).unwrap_or(&[]),
        _ => frame,
    }
}

/// Hands a copy of a packet to the control plane.
fn hand_over_copy(context: &mut Context<'_>, packet: &Packet) {
    let in_port = packet.in_port;
    // A copy that could not be made is accounted for as made and dropped.
    context.counters.copied(in_port, 1);
    match context.pool.duplicate(packet) {
        Some(mut copy) => {
            if copy.flags & vlan::TAGGED != 0 {
                vlan::untag(context.pool, &mut copy);
            }
            control::hand_over(context, Punt::Neighbour, copy);
        }
        None => context.counters.drop(in_port, DropReason::NoFrame),
    }
}

/// Time to live or hop limit.
fn ttl(frame: &[u8]) -> u8 {
    let at = if frame.get(12..14) == Some(&IPV6) { 21 } else { 22 };
    frame.get(at).copied().unwrap_or(0)
}

/// Which of several next hops a packet's flow takes: all packets of a flow the same.
#[cold]
fn flow_hash(frame: &[u8], seed: u64) -> u64 {
    FlowKey::from_frame(frame).map_or(0, |key| FlowKey { vlan: None, ..key }.hash(seed))
}

/// Whether the route to a packet's source lets it in.
#[cold]
fn may_come_from(context: &Context<'_>, interface: &InterfacePlan, group: Group) -> bool {
    match interface.reverse_path {
        ReversePath::Off => true,
        ReversePath::Loose => matches!(group.kind, GroupKind::Forward | GroupKind::Glean),
        ReversePath::Strict => context.router.leads_to(group, interface.vlan),
    }
}

/// Bytes of a packet's longest IP packet on the cable: those of a super-packet are its segments.
#[inline(always)]
fn longest(packet: &Packet, total_len: usize) -> usize {
    let o = &packet.offload;
    if o.segmentation == Segmentation::None {
        return total_len;
    }
    let headers = usize::from(o.header_len).saturating_sub(ETHERNET);
    total_len.min(headers + usize::from(o.segment_size))
}

/// Where a packet goes whose neighbour is known, once it has been rewritten.
#[inline(always)]
fn leave(packet: &mut Packet, adjacency: &plan::Adjacency) -> PortId {
    packet.vlan = adjacency.vlan;
    adjacency.port
}
