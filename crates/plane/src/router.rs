//! The IP router (RFC 1812; RFC 8200): which neighbour a packet goes to.
//!
//! - In: packets as they came in; those to an interface's Ethernet address are the router's, all
//!   others are the switch's, with what their classification has found.
//! - Out: `verdict`, and the frame rewritten: addresses, time to live, header checksum, VLAN.
//! - Parameters: [`RouterPlan`], and the forwarding table beside it.
//! - Verdicts to drop: `bad_ip_header`, `ip_checksum`, `bad_ip_option`, `source_routed`, `martian`,
//!   `beyond_scope`, `reverse_path`, `no_route`, `ttl_expired`, `too_big`, `blackhole`,
//!   `unreachable`, `prohibited`, `directed_broadcast`, `own_address`, `not_for_us`. Where the
//!   sender is to hear of it, the control plane gets the packet.
//!
//! A batch is read in passes: headers are read, what was read is checked, destinations are looked
//! up together so that their cache misses overlap, then frames are rewritten.
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
mod usual;

use arrayvec::ArrayVec;
use plexus_config::ReversePath;
use plexus_io::{BATCH, PORT_NONE, Packet, Pool, PortId, Segmentation};
use plexus_wire::flow::FlowKey;

use crate::drops::DropReason;
use crate::fabric::{Punt, control};
use crate::pipeline::Context;
use crate::switch::Switch;
use crate::switch::vlan::{self, Addresses};
use crate::verdict::Verdict;
use fib::FibBatch;
use plan::{Group, GroupKind, InterfacePlan};
use usual::Usual;

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
    read: Summaries,
    /// Packets that it has left to the switch.
    pub(crate) switched: Places,
    /// Packets that it has decided, but of which the switch is to learn the source.
    pub(crate) to_learn: Places,
    /// Bit for each packet of the batch: the switch knows by which port of its VLAN it leaves.
    pub(crate) to_place: u64,
}

/// Packets by their places in the batch, with their addresses.
pub(crate) type Places = ArrayVec<(u8, Addresses), BATCH>;

/// Packets routed, of one port in a row.
struct Tally {
    port: PortId,
    count: u64,
}

impl Tally {
    fn book(&self, context: &mut Context<'_>) {
        context.counters.routed(self.port, self.count);
    }
}

/// Packets of one family: their places in the batch, and where they go.
struct Found<A> {
    count: usize,
    places: [u8; BATCH],
    destinations: [A; BATCH],
}

impl<A> Found<A> {
    fn push(&mut self, place: usize, destination: A) {
        self.places[self.count] = place as u8;
        self.destinations[self.count] = destination;
        self.count += 1;
    }
}

impl<A: Copy + Default> Default for Found<A> {
    fn default() -> Found<A> {
        Found { count: 0, places: [0; BATCH], destinations: [A::default(); BATCH] }
    }
}

/// Headers that have been read and are yet to be checked.
struct Summaries {
    sums: [u64; BATCH],
    ends: [u64; BATCH],
    /// Where the headers are, of all packets in `v4`.
    at: [ipv4::At; BATCH],
}

impl Default for Summaries {
    fn default() -> Summaries {
        Summaries { sums: [0; BATCH], ends: [0; BATCH], at: [ipv4::At::default(); BATCH] }
    }
}

impl Router {
    pub(crate) fn new(seed: u64) -> Router {
        Router { seed, ..Router::default() }
    }

    /// Decides for the packets of the batch that are the router's, and finds out about the others
    /// what the switch must know: see `switched`.
    #[inline(never)]
    pub(crate) fn run(&mut self, context: &mut Context<'_>, batch: &mut [Packet]) {
        self.clear();
        let Some(fib) = context.fib else {
            return self.switched.extend(classified(context, batch));
        };
        let unusual = self.read(context, batch) | self.check();
        for place in bits(unusual) {
            self.classify(context, fib, place, &mut batch[place]);
        }
        self.send(context, fib, batch);
    }

    /// Reads the headers of a batch: those of usual packets are in `v4` and `read`, or `v6`. Bit
    /// for each packet that is not usual.
    ///
    /// A loop of its own, as are those that send: together they have more in use than there are
    /// registers.
    #[inline(never)]
    fn read(&mut self, context: &mut Context<'_>, batch: &mut [Packet]) -> u64 {
        let Router { v4, v6, read, .. } = self;
        let mut usual = Usual::NEVER;
        let (mut unusual, mut count) = (0, 0);
        for (place, packet) in batch.iter_mut().enumerate() {
            if usual.port != packet.in_port {
                usual = Usual::of(context, packet.in_port);
            }
            if let Some(header) = usual.read_v4(context.pool, packet) {
                // Fewer than there are places.
                let i = count % BATCH;
                v4.places[i] = place as u8;
                (read.sums[i], read.ends[i], read.at[i]) = (header.sum, header.ends, header.at);
                count += 1;
            } else if !read_v6(context.pool, &usual, place, packet, v6) {
                unusual |= 1 << place;
            }
        }
        v4.count = count;
        unusual
    }

    /// Checks the headers that have been read, and notes where their packets go. Bit for each
    /// packet whose header is not right; it is not in `v4` any more.
    #[inline(always)]
    fn check(&mut self) -> u64 {
        let Router { v4, read, .. } = self;
        let count = v4.count.min(BATCH);
        let read = read.sums[..count].iter().zip(&read.ends[..count]);
        let mut all_right = true;
        for ((&sum, &ends), destination) in read.zip(&mut v4.destinations[..count]) {
            all_right &= ipv4::is_right(sum, ends);
            *destination = ends as u32;
        }
        if all_right { 0 } else { self.sort_out() }
    }

    /// Takes the packets whose headers are not right out of `v4`.
    #[cold]
    fn sort_out(&mut self) -> u64 {
        let Router { v4, read, .. } = self;
        let count = std::mem::take(&mut v4.count);
        let mut wrong = 0;
        for i in 0..count {
            let place = usize::from(v4.places[i]);
            match ipv4::is_right(read.sums[i], read.ends[i]) {
                true => {
                    read.at[v4.count] = read.at[i];
                    v4.push(place, read.ends[i] as u32);
                }
                false => wrong |= 1 << place,
            }
        }
        wrong
    }

    /// Decides for a packet whose addresses are known. False if it is not the router's.
    pub(crate) fn run_one(
        &mut self,
        context: &mut Context<'_>,
        packet: &mut Packet,
        addresses: &Addresses,
    ) -> bool {
        self.clear();
        let Some(fib) = context.fib else { return false };
        let claimed = self.claim(context, fib, 0, packet, addresses);
        self.send(context, fib, std::slice::from_mut(packet));
        claimed
    }

    fn clear(&mut self) {
        (self.v4.count, self.v6.count) = (0, 0);
        self.switched.clear();
        self.to_learn.clear();
        self.to_place = 0;
    }

    /// The general way of a packet.
    #[inline(never)]
    fn classify(
        &mut self,
        context: &mut Context<'_>,
        fib: &FibBatch<'_>,
        place: usize,
        packet: &mut Packet,
    ) {
        let addresses = Switch::classify(context, packet);
        // Without a source it has been dropped already.
        if addresses.source != 0 && !self.claim(context, fib, place, packet, &addresses) {
            self.switched.push((place as u8, addresses));
        }
    }

    /// If a packet is the router's, checks its header, and notes where it goes or decides for it.
    fn claim(
        &mut self,
        context: &mut Context<'_>,
        fib: &FibBatch<'_>,
        place: usize,
        packet: &mut Packet,
        a: &Addresses,
    ) -> bool {
        let Some(interface) = context.router.interface(a.vlan) else { return false };
        let own = interface.mac.to_u64();
        if interface.kernel == Some(packet.in_port) {
            return false;
        }
        if a.source == own {
            Verdict::Drop(DropReason::OwnAddress).store(packet);
            return true;
        }
        if a.destination != own {
            return a.destination & GROUP_ADDRESS != 0
                && is_news(context.pool.data(packet), a)
                && self.overhear(context, interface, packet);
        }
        if interface.port.is_none() {
            self.to_learn.push((place as u8, *a));
        }
        if packet.flags & vlan::TAGGED != 0 {
            vlan::untag(context.pool, packet);
        }
        let verdict = match a.ethertype {
            IPV4 => match ipv4::check(context, fib, interface, packet) {
                Ok((destination, at)) => {
                    self.read.at[self.v4.count] = at;
                    self.v4.push(place, destination);
                    return true;
                }
                Err(verdict) => verdict,
            },
            IPV6 => match ipv6::check(context, fib, interface, packet) {
                Ok(Some(destination)) => {
                    self.v6.push(place, destination);
                    return true;
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
        true
    }

    /// Looks up where the packets go that have been noted, and rewrites them.
    fn send(&mut self, context: &mut Context<'_>, fib: &FibBatch<'_>, batch: &mut [Packet]) {
        if self.v4.count > 0 {
            self.send_v4(context, fib, batch);
        }
        if self.v6.count > 0 {
            self.send_v6(context, fib, batch);
        }
    }

    #[inline(never)]
    fn send_v4(&mut self, context: &mut Context<'_>, fib: &FibBatch<'_>, batch: &mut [Packet]) {
        let mut groups = [None; BATCH];
        let mut routed = Tally { port: PORT_NONE, count: 0 };
        let groups = &mut groups[..self.v4.count];
        fib.lookup_v4(&self.v4.destinations[..groups.len()], groups);
        for (i, group) in groups.iter().enumerate() {
            let place = usize::from(self.v4.places[i]);
            let (packet, group) = (&mut batch[place], context.router.group(*group));
            match ipv4::send(context.pool, packet, self.read.at[i], group) {
                true => self.sent(context, &mut routed, place, packet, group),
                false => self.decide(context, place, packet, group, ipv4::forward),
            }
        }
        routed.book(context);
    }

    #[inline(never)]
    fn send_v6(&mut self, context: &mut Context<'_>, fib: &FibBatch<'_>, batch: &mut [Packet]) {
        let mut groups = [None; BATCH];
        let mut routed = Tally { port: PORT_NONE, count: 0 };
        let groups = &mut groups[..self.v6.count];
        fib.lookup_v6(&self.v6.destinations[..groups.len()], groups);
        for (i, group) in groups.iter().enumerate() {
            let place = usize::from(self.v6.places[i]);
            let (packet, group) = (&mut batch[place], context.router.group(*group));
            match ipv6::send(context.pool, packet, group) {
                true => self.sent(context, &mut routed, place, packet, group),
                false => self.decide(context, place, packet, group, ipv6::forward),
            }
        }
        routed.book(context);
    }

    /// Where a packet goes that has been rewritten for its group's one neighbour.
    #[inline(always)]
    fn sent(
        &mut self,
        context: &mut Context<'_>,
        routed: &mut Tally,
        place: usize,
        packet: &mut Packet,
        to: &Group,
    ) {
        if packet.in_port != routed.port {
            routed.book(context);
            *routed = Tally { port: packet.in_port, count: 0 };
        }
        routed.count += 1;
        context.router.mark_used(to.neighbour());
        packet.vlan = to.adjacency.vlan;
        Verdict::Forward(to.adjacency.port).store(packet);
        if to.adjacency.port == PORT_NONE {
            self.to_place |= 1 << place;
        }
    }

    /// Decides for a packet to any group.
    #[inline(never)]
    fn decide(
        &mut self,
        context: &mut Context<'_>,
        place: usize,
        packet: &mut Packet,
        group: &Group,
        forward: impl FnOnce(&mut Context<'_>, &mut Packet, &Group, u64) -> Verdict,
    ) {
        let verdict = match group.kind {
            GroupKind::Forward => forward(context, packet, group, self.seed),
            _ => self.special(context, packet, group),
        };
        if let Verdict::Forward(port) | Verdict::Fragment(port) = verdict
            && group.kind == GroupKind::Forward
        {
            context.counters.routed(packet.in_port, 1);
            if port == PORT_NONE {
                self.to_place |= 1 << place;
            }
        }
        verdict.store(packet);
    }

    /// What becomes of a packet that is not forwarded.
    #[cold]
    fn special(&self, context: &mut Context<'_>, packet: &mut Packet, group: &Group) -> Verdict {
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

/// Notes where a usual packet of IPv6 goes; false if it is none.
#[inline(never)]
fn read_v6(
    pool: &Pool,
    usual: &Usual,
    place: usize,
    packet: &mut Packet,
    found: &mut Found<u128>,
) -> bool {
    let destination = usual.read_v6(pool, packet);
    if let Some(destination) = destination {
        found.push(place, destination);
    }
    destination.is_some()
}

/// The numbers of the bits that are set, from the lowest.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
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
fn may_come_from(context: &Context<'_>, interface: &InterfacePlan, group: &Group) -> bool {
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

/// The packets that have not been dropped at once, with their addresses.
fn classified(context: &mut Context<'_>, batch: &mut [Packet]) -> Places {
    let packets = batch.iter_mut().enumerate();
    let all = packets.map(|(place, packet)| (place as u8, Switch::classify(context, packet)));
    all.filter(|(_, addresses)| addresses.source != 0).collect()
}
