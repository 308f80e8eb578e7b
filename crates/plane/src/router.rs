//! The IP router (RFC 1812; RFC 8200): which neighbour a packet goes to.
//!
//! - In: packets as they came in; those to an interface's Ethernet address are the router's, all
//!   others are the switch's, with what their classification has found.
//! - Out: `verdict`, and the rewritten frame: addresses, time to live, header checksum, VLAN.
//! - Parameters: [`RouterPlan`], and the forwarding table beside it.
//! - Verdicts to drop: `bad_ip_header`, `ip_checksum`, `bad_ip_option`, `source_routed`, `martian`,
//!   `beyond_scope`, `reverse_path`, `no_route`, `ttl_expired`, `too_big`, `blackhole`,
//!   `unreachable`, `prohibited`, `directed_broadcast`, `own_address`, `not_for_us`. If the sender
//!   is due an ICMP error, the control plane gets the packet.
//!
//! A batch is read in passes: headers are read and checked, destinations are looked up together so
//! that their cache misses overlap, then frames are rewritten.
//!
//! Packets for the box itself go to the kernel's device in the interface's VLAN, or to our control
//! plane. The control plane also gets, unchanged, packets whose neighbour's Ethernet address is
//! unknown, and sends them through the lookup again once it is known. It gets a copy of each
//! message of ARP and neighbour discovery that passes.
//!
//! Example: a packet to 10.2.0.9 arrives at the address of p1's interface, with a time to live of
//! 64. The longest route, 10.2.0.0/16, leads to the neighbour 10.1.0.2 at p2. The frame leaves by
//! p2, from its interface's address to the neighbour's, with a time to live of 63.

pub(crate) mod fib;
pub(crate) mod fragment;
pub(crate) mod hosts;
mod ipv4;
mod ipv6;
pub(crate) mod plan;
pub(crate) mod steady;
mod usual;

use plexus_config::ReversePath;
use plexus_io::{BATCH, Head, HeadsMut, PORT_NONE, Packet, Segmentation};
use plexus_table::lpm::GroupId;
use plexus_wire::MacAddr;
use plexus_wire::flow::FlowKey;

use crate::bits::{bits, range};
use crate::context::Context;
use crate::drops::DropReason;
use crate::offload;
use crate::runs::{Run, Runs};
use crate::verdict::{FORWARDED, Punt, Verdict};
use crate::vlan::{self, Addresses};
use fib::FibBatch;
use ipv4::Summaries;
use plan::{Adjacency, GROUP_VLAN, Group, GroupKind, InterfacePlan, RouterPlan};
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
    v4: Found<u32, { ipv4::HEADERS }, Summaries>,
    v6: Found<u128, { ipv6::HEADERS }>,
    /// Packets of one port in a row; some may not be the router's.
    runs: Runs,
    /// Bit for each packet of the batch: the switch knows by which port of its VLAN it leaves.
    pub(crate) to_place: u64,
}

/// Packets of one family, by their places in the batch. `R`: parts of their headers that are
/// checked later.
struct Found<A, const N: usize, R = ()> {
    /// Bit for each packet.
    set: u64,
    destinations: [A; BATCH],
    /// Where their headers are.
    at: [Head<N>; BATCH],
    read: R,
    groups: [Option<GroupId>; BATCH],
    /// Bit for each packet that has not been sent: it or its group needs the general way.
    left: u64,
    /// Bit for each packet that has been, by a port that the switch knows.
    to_place: u64,
}

impl<A: Copy + Default, const N: usize, R> Found<A, N, R> {
    fn insert(&mut self, place: usize, destination: A, at: Head<N>) {
        self.set |= 1 << place;
        (self.destinations[place], self.at[place]) = (destination, at);
    }

    /// Looks the groups up, all in one call.
    #[inline(always)]
    fn look_up(&mut self, look_up: impl Fn(&[A], &mut [Option<GroupId>])) {
        let (from, count) = (self.set.trailing_zeros() as usize, self.set.count_ones() as usize);
        if self.set == range(from, from + count) {
            let places = from..from + count;
            look_up(&self.destinations[places.clone()], &mut self.groups[places]);
        } else {
            self.look_up_scattered(look_up);
        }
    }

    #[inline(never)]
    fn look_up_scattered(&mut self, look_up: impl Fn(&[A], &mut [Option<GroupId>])) {
        let (mut destinations, mut groups) = ([A::default(); BATCH], [None; BATCH]);
        for (destination, place) in destinations.iter_mut().zip(bits(self.set)) {
            *destination = self.destinations[place];
        }
        let count = self.set.count_ones() as usize;
        look_up(&destinations[..count], &mut groups[..count]);
        for (group, place) in groups.into_iter().zip(bits(self.set)) {
            self.groups[place] = group;
        }
    }

    /// Rewrites the packets whose group has one neighbour, and says where they go. The others are
    /// as they were, and in `left`.
    ///
    /// A loop of its own, as is the one that reads headers: together they have more in use than
    /// there are registers.
    #[inline(never)]
    fn send(
        &mut self,
        plan: &RouterPlan,
        mut heads: HeadsMut<'_>,
        batch: &mut [Packet],
        rewrite: impl Fn(&mut [u8; N], &Adjacency) -> bool,
    ) {
        (self.left, self.to_place) = (0, 0);
        let Some(marks) = plan.marks() else {
            self.left = self.set;
            return;
        };
        for place in 0..batch.len().min(BATCH) {
            if self.set >> place & 1 == 0 {
                continue;
            }
            let packet = &mut batch[place];
            let group = plan.known_group(self.groups[place]);
            let group = group.filter(|group| packet.len() <= group.frame_max());
            let at = self.at[place];
            let Some(to) = group.filter(|to| rewrite(heads.get(packet, at), &to.adjacency)) else {
                note(&mut self.left, place);
                continue;
            };
            marks.set(to.neighbour());
            packet.vlan = to.adjacency.vlan;
            Verdict::Forward(to.adjacency.port).store(packet);
            if to.adjacency.port == PORT_NONE {
                note(&mut self.to_place, place);
            }
        }
    }
}

/// Sets a bit that is rarely set: in memory, not in a register.
#[cold]
#[inline(never)]
fn note(set: &mut u64, place: usize) {
    *set |= 1 << place;
}

impl<A: Copy + Default, const N: usize, R: Default> Default for Found<A, N, R> {
    fn default() -> Found<A, N, R> {
        Found {
            set: 0,
            destinations: [A::default(); BATCH],
            at: [Head::default(); BATCH],
            read: R::default(),
            groups: [None; BATCH],
            left: 0,
            to_place: 0,
        }
    }
}

impl Router {
    pub(crate) fn new(seed: u64) -> Router {
        Router { seed, ..Router::default() }
    }

    /// Keys the choice among next hops.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Begins a batch: reads and checks the headers of its packets whose bits are set, of each port
    /// all or none. Usual packets are in `v4` or `v6`. Bit for each packet that is not usual: the
    /// caller asks [`claims`](Self::claims) about it.
    pub(crate) fn read(&mut self, context: &Context<'_>, batch: &mut [Packet], set: u64) -> u64 {
        self.clear();
        let (mut unusual, mut begin) = (0, 0);
        while let Some(&Packet { in_port: port, .. }) = batch.get(begin) {
            let usual = Usual::of(context, port).filter(|_| set >> begin & 1 != 0);
            let mut place = begin;
            while batch.get(place).is_some_and(|packet| packet.in_port == port) {
                let from = place;
                if let Some(usual) = &usual {
                    let heads = context.pool.heads();
                    let may = |head: &_| usual.is_from_a_station(head);
                    place = usual.read_v4(heads, batch, place, &mut self.v4, may);
                    unusual |= self.check(from, place);
                    let may = |head: &_| usual.is_from_a_station(head);
                    place = usual.read_v6(heads, batch, place, &mut self.v6, may);
                }
                if place == from {
                    unusual |= 1 << place;
                    place += 1;
                }
            }
            self.runs.push(Run::new(port, begin, place));
            begin = place;
        }
        unusual & set
    }

    /// Checks what has been read of the headers of IPv4 from one place to before another. Bit for
    /// each packet whose header is not right; all others are in `v4` now.
    #[inline(always)]
    fn check(&mut self, from: usize, to: usize) -> u64 {
        let v4 = &mut self.v4;
        let (sums, ends) = (&v4.read.sums[from..to], &v4.read.ends[from..to]);
        // A loop for each check: so the compiler vectorises them, to a few instructions a packet.
        let mut is_right = true;
        for &sum in sums {
            is_right &= ipv4::sum_is_right(sum);
        }
        for &end in ends.as_flattened() {
            is_right &= !ipv4::is_martian(u32::from_be_bytes(end));
        }
        for (destination, ends) in v4.destinations[from..to].iter_mut().zip(ends) {
            *destination = u32::from_be_bytes(ends[1]);
        }
        v4.set |= range(from, to);
        if is_right { 0 } else { self.sort_out(from, to) }
    }

    /// Takes the packets whose headers are not right out of `v4`.
    #[cold]
    fn sort_out(&mut self, from: usize, to: usize) -> u64 {
        let Found { set, read, .. } = &mut self.v4;
        let is_wrong = |&place: &usize| {
            let is_martian = |end| ipv4::is_martian(u32::from_be_bytes(end));
            !ipv4::sum_is_right(read.sums[place]) || read.ends[place].into_iter().any(is_martian)
        };
        let wrong = (from..to).filter(is_wrong).fold(0, |wrong, place| wrong | 1 << place);
        *set &= !wrong;
        wrong
    }

    /// Whether a packet that is not usual is the router's. If so, its header is checked, and where
    /// it goes is noted or decided. The caller has found that it is to the router or to a group.
    pub(crate) fn claims(&mut self) -> impl FnMut(&mut Context<'_>, usize, &mut Packet) -> bool {
        |context, place, packet| {
            let addresses = Addresses::of(context.pool.data(packet), packet);
            addresses.is_some_and(|addresses| self.claim(context, place, packet, &addresses))
        }
    }

    /// Decides for a packet whose addresses are known. False if it is not the router's.
    pub(crate) fn run_one(
        &mut self,
        context: &mut Context<'_>,
        packet: &mut Packet,
        addresses: &Addresses,
    ) -> bool {
        self.clear();
        let claimed = self.claim(context, 0, packet, addresses);
        self.send(context, std::slice::from_mut(packet));
        claimed
    }

    /// Decides for packets to the router's address whose port has been examined: those at the
    /// places whose bits are set. `see` gets their addresses.
    pub(crate) fn run_addressed(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut [Packet],
        set: u64,
        mut see: impl FnMut(usize, &Addresses),
    ) {
        self.clear();
        for place in bits(set) {
            let packet = &mut batch[place];
            // For a packet that is not the router's after all: its plan is behind the fabric's.
            Verdict::Drop(DropReason::NotForUs).store(packet);
            let addresses = Addresses::untagged(context.pool.data(packet), packet.vlan);
            let Some(addresses) = addresses else { continue };
            see(place, &addresses);
            if self.claim(context, place, packet, &addresses) {
                self.runs.push(Run::new(packet.in_port, place, place + 1));
            }
        }
        self.send(context, batch);
    }

    fn clear(&mut self) {
        (self.v4.set, self.v6.set) = (0, 0);
        self.runs.clear();
        self.to_place = 0;
    }

    /// If a packet is the router's, checks its header, and notes where it goes or decides for it.
    #[inline(never)]
    fn claim(
        &mut self,
        context: &mut Context<'_>,
        place: usize,
        packet: &mut Packet,
        a: &Addresses,
    ) -> bool {
        let Some(fib) = context.fib else { return false };
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
        if packet.flags & vlan::TAGGED != 0 {
            vlan::untag(context.pool, packet);
        }
        let verdict = match a.ethertype {
            IPV4 => match ipv4::check(context, fib, interface, packet) {
                Ok((destination, at)) => {
                    self.v4.insert(place, destination, at);
                    return true;
                }
                Err(verdict) => verdict,
            },
            IPV6 => match ipv6::check(context, fib, interface, packet) {
                Ok(Some((destination, at))) => {
                    self.v6.insert(place, destination, at);
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

    /// Ends a batch: looks up where the packets go that have been noted, and rewrites them.
    pub(crate) fn send(&mut self, context: &mut Context<'_>, batch: &mut [Packet]) {
        let Some(fib) = context.fib else { return };
        let mut sent = 0;
        if self.v4.set != 0 {
            sent |= self.send_v4(context, fib, batch);
        }
        if self.v6.set != 0 {
            sent |= self.send_v6(context, fib, batch);
        }
        for run in &self.runs {
            let of_run = sent & run.places();
            context.counters.routed(run.port, of_run.count_ones().into());
        }
    }

    /// Bit for each packet that went to its group's one neighbour: nearly all do.
    #[inline(never)]
    fn send_v4(
        &mut self,
        context: &mut Context<'_>,
        fib: &FibBatch<'_>,
        batch: &mut [Packet],
    ) -> u64 {
        self.v4.look_up(|addresses, groups| fib.lookup_v4(addresses, groups));
        self.v4.send(context.router, context.pool.heads_mut(), batch, ipv4::send);
        let sent = self.v4.set & !self.v4.left;
        self.to_place |= self.v4.to_place;
        for place in bits(self.v4.left) {
            let group = context.router.group(self.v4.groups[place]);
            self.decide(context, place, &mut batch[place], group, ipv4::forward);
        }
        sent
    }

    /// The same.
    #[inline(never)]
    fn send_v6(
        &mut self,
        context: &mut Context<'_>,
        fib: &FibBatch<'_>,
        batch: &mut [Packet],
    ) -> u64 {
        self.v6.look_up(|addresses, groups| fib.lookup_v6(addresses, groups));
        self.v6.send(context.router, context.pool.heads_mut(), batch, ipv6::send);
        let sent = self.v6.set & !self.v6.left;
        self.to_place |= self.v6.to_place;
        for place in bits(self.v6.left) {
            let group = context.router.group(self.v6.groups[place]);
            self.decide(context, place, &mut batch[place], group, ipv6::forward);
        }
        sent
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

    /// Decides for a packet that is not forwarded.
    #[cold]
    fn special(&self, context: &mut Context<'_>, packet: &mut Packet, group: &Group) -> Verdict {
        let Some(interface) = context.router.interface(packet.vlan) else {
            return Verdict::Drop(DropReason::NoRoute);
        };
        let tell = |reason| Verdict::Control(Punt::Error(reason));
        match group.kind {
            GroupKind::Local => self.keep(context, interface, packet),
            GroupKind::Glean if !may_go_on(ttl(context.pool.data(packet))) => {
                tell(DropReason::TtlExpired)
            }
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

    /// Copies a message about neighbours to the control plane. True if no other port can get it.
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

/// A frame without its tag, if it has one, for callers that read no addresses: these are then not
/// where an Ethernet header has them.
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
            context.hand_over(Punt::Neighbour, copy);
        }
        None => context.counters.drop(in_port, DropReason::NoFrame),
    }
}

/// Whether a packet with this time to live, or hop limit, may take one more hop (RFC 1812, 5.3.1;
/// RFC 8200, 3).
#[inline(always)]
fn may_go_on(ttl: u8) -> bool {
    ttl > 1
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

/// Refuses a packet if the route to its source does not allow its input port; where the interface
/// is a whole fabric, if it does not allow the station that has sent it.
#[cold]
fn may_come_from(
    context: &Context<'_>,
    interface: &InterfacePlan,
    group: &Group,
    packet: &Packet,
) -> Result<(), Verdict> {
    let plan = context.router;
    let may = match interface.reverse_path {
        ReversePath::Off => true,
        ReversePath::Loose => matches!(group.kind, GroupKind::Forward | GroupKind::Glean),
        ReversePath::Strict if interface.vlan == GROUP_VLAN => {
            let frame = context.pool.data(packet);
            let station = frame.get(6..12);
            let is_function = |mac: &[u8; 6]| context.fabric.is_function(MacAddr(*mac).to_u64());
            match group.kind {
                _ if station.and_then(<[u8]>::first_chunk).is_some_and(is_function) => true,
                // Its station may be about to be granted the address.
                GroupKind::Glean => return Err(Verdict::Control(Punt::Unresolved(None))),
                _ if station.is_some_and(|station| plan.is_behind(group, station)) => true,
                _ if context.fabric.parts().may_pass(frame) => true,
                // Of another node's host, this one may not know the addresses.
                _ if packet.flags & FORWARDED != 0 => {
                    return Err(Verdict::Control(Punt::Unresolved(None)));
                }
                _ => false,
            }
        }
        ReversePath::Strict => plan.leads_to(group, interface.vlan),
    };
    if may { Ok(()) } else { Err(Verdict::Drop(DropReason::ReversePath)) }
}

/// Rewrites a packet for the group's member that its flow goes to. `ttl`: the offset of its time to
/// live; `look`: bytes of the IP packet, and whether it may be fragmented.
#[inline(always)]
fn forward<const N: usize>(
    context: &mut Context<'_>,
    packet: &mut Packet,
    group: &Group,
    seed: u64,
    ttl: usize,
    look: impl FnOnce(&[u8; N]) -> (usize, bool),
    rewrite: impl FnOnce(&mut [u8; N], &Adjacency),
) -> Verdict {
    let plan = context.router;
    let frame = context.pool.data_mut(packet);
    let neighbour = plan.member(group, || flow_hash(frame, seed));
    let adjacency = plan.adjacency(neighbour);
    let Some(head) = frame.first_chunk::<N>() else {
        return Verdict::Drop(DropReason::BadIpHeader);
    };
    if !may_go_on(head[ttl]) {
        return Verdict::Control(Punt::Error(DropReason::TtlExpired));
    }
    if !adjacency.resolved {
        return Verdict::Control(Punt::Unresolved(Some(neighbour)));
    }
    let ((len, may_be_cut), mtu) = (look(head), usize::from(adjacency.mtu));
    let too_long = len > mtu && longest(frame, packet, len) > mtu;
    // Segments of a super-packet are never fragments: its sender learns the path's MTU.
    let is_whole = packet.offload.segmentation == Segmentation::None;
    if too_long && !(may_be_cut && is_whole) {
        return Verdict::Control(Punt::TooBig(adjacency.mtu));
    }
    if let Some(head) = frame.first_chunk_mut() {
        rewrite(head, adjacency);
    }
    plan.mark_used(neighbour);
    packet.vlan = adjacency.vlan;
    if too_long {
        packet.offload.segment_size = adjacency.mtu;
        return Verdict::Fragment(adjacency.port);
    }
    Verdict::Forward(adjacency.port)
}

/// Bytes of the longest IP packet that this one puts on the cable: a super-packet's segments count,
/// not the whole. The header length is read from the frame: the metadata's is a hint, and a kernel
/// may give it the length of whatever lies in one piece, the whole packet included.
#[inline(always)]
fn longest(frame: &[u8], packet: &Packet, total_len: usize) -> usize {
    if packet.offload.segmentation == Segmentation::None {
        return total_len;
    }
    offload::longest_segment(frame, &packet.offload)
        .map_or(total_len, |segment| segment.min(total_len))
}
