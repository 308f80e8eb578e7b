//! The usual packet to the group's router: from a host that is admitted at its port, to the group's
//! own address, in IP without options, from an address of that host. The router reads such packets
//! and looks them up in the passes that it has for routed ports. It leaves all others unchanged to
//! the general way, which also finds the reason to drop them.

use std::ops::Range;

use arrayvec::ArrayVec;
use plexus_config::ReversePath;
use plexus_io::{BATCH, Head, HeadsMut, Packet, PortId};
use plexus_table::lpm::GroupId;

use super::fib::FibBatch;
use super::plan::{Adjacency, GROUP_VLAN, InterfacePlan, RouterPlan};
use super::usual::Usual;
use super::{ETHERNET, Found, Router, ipv4, ipv6};
use crate::bits::range;
use crate::context::Context;
use crate::fabric::plan::HostId;

/// Packets of hosts that go to neighbours in the group.
pub(crate) struct Routed {
    /// In the order of the batch.
    pub(crate) runs: ArrayVec<Run, BATCH>,
    /// By place, the groups of packets that are left: each of one neighbour.
    pub(crate) groups: [Option<GroupId>; BATCH],
}

impl Default for Routed {
    fn default() -> Routed {
        Routed { runs: ArrayVec::new(), groups: [None; BATCH] }
    }
}

/// Packets of one host in a row.
pub(crate) struct Run {
    pub(crate) id: HostId,
    /// The host's port, and its Ethernet address.
    pub(crate) port: PortId,
    pub(crate) host: u64,
    /// Bit for each packet that has been rewritten, but is still to be sent to its neighbour.
    pub(crate) left: u64,
    places: Range<usize>,
}

/// The ways from one host to the neighbours, each named by a group that has no other.
pub(crate) trait Onward {
    /// Packets will be sent to these soon.
    fn expect(&self, groups: &[Option<GroupId>]);

    /// Sends a packet to a neighbour; `at`: where its frame begins. False, without a change, if it
    /// cannot be sent at once.
    fn send(
        &self,
        heads: &mut HeadsMut<'_>,
        packet: &mut Packet,
        at: Head<ETHERNET>,
        group: Option<GroupId>,
    ) -> bool;
}

impl Router {
    /// Routes the usual packets of hosts in a batch. Bit for each packet, which is rewritten but
    /// for its source address: that is still the host's. Packets that cannot be sent at once are
    /// left, in `routed`. `onward`: the ways from a host.
    pub(crate) fn run_usual<O: Onward>(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut [Packet],
        onward: &impl Fn(HostId) -> O,
        routed: &mut Routed,
    ) -> u64 {
        routed.runs.clear();
        let interface = context.router.interface(GROUP_VLAN);
        let (Some(fib), Some(interface)) = (context.fib, interface) else { return 0 };
        self.clear();
        let (mut place, mut port, mut usual) = (0, None, None);
        while let Some(packet) = batch.get(place) {
            if port.replace(packet.in_port) != Some(packet.in_port) {
                usual = Usual::of_hosts(context, packet.in_port, interface);
            }
            let host = usual.as_ref().and_then(|usual| usual.sender(context.pool.heads(), packet));
            let id = host.and_then(|host| context.fabric.admitted(packet.in_port, host));
            let (Some(usual), Some(host), Some(id)) = (&usual, host, id) else {
                place += 1;
                continue;
            };
            let from = place;
            let port = packet.in_port;
            place = self.read_of_host(context, fib, interface, usual, host, batch, place);
            match place == from {
                true => place += 1,
                false => routed.runs.push(Run { id, port, host, left: 0, places: from..place }),
            }
        }
        match self.v4.set | self.v6.set {
            0 => 0,
            _ => self.send_usual(context, fib, batch, onward, routed),
        }
    }

    /// Reads packets of one host as long as they are usual: from place `from` to before the one
    /// that it returns. Some of them may turn out to have a wrong header, and are then not taken.
    #[expect(clippy::too_many_arguments, reason = "one pass over what its caller has at hand")]
    fn read_of_host(
        &mut self,
        context: &Context<'_>,
        fib: &FibBatch<'_>,
        interface: &InterfacePlan,
        usual: &Usual,
        host: u64,
        batch: &mut [Packet],
        from: usize,
    ) -> usize {
        let may_have = |group| has_address(context, interface, host, group);
        let heads = context.pool.heads();
        let (mut known_v4, mut known_v6) = (None, None);
        let mut place = from;
        loop {
            let before = place;
            place = usual.read_v4(heads, batch, place, &mut self.v4, |head| {
                let look_up = |source| may_have(fib.find_v4(u32::from_be_bytes(source)));
                usual.is_from(host, head) && holds(&mut known_v4, ipv4::ends(head)[0], look_up)
            });
            self.check(before, place);
            place = usual.read_v6(heads, batch, place, &mut self.v6, |head| {
                let look_up = |source| may_have(fib.find_v6(u128::from_be_bytes(source)));
                usual.is_from(host, head) && holds(&mut known_v6, ipv6::source(head), look_up)
            });
            if place == before {
                return place;
            }
        }
    }

    /// Looks up where the packets go that have been read, and rewrites those with one neighbour.
    /// Bit for each of these.
    fn send_usual<O: Onward>(
        &mut self,
        context: &mut Context<'_>,
        fib: &FibBatch<'_>,
        batch: &mut [Packet],
        onward: &impl Fn(HostId) -> O,
        routed: &mut Routed,
    ) -> u64 {
        let Router { v4, v6, .. } = self;
        if v4.set != 0 {
            v4.look_up(|addresses, groups| fib.lookup_v4(addresses, groups));
        }
        if v6.set != 0 {
            v6.look_up(|addresses, groups| fib.lookup_v6(addresses, groups));
        }
        let (plan, mut all, left) = (context.router, 0, &mut routed.groups);
        for run in &mut routed.runs {
            let (mut sent, onward) = (0, onward(run.id));
            let heads = context.pool.heads_mut();
            if v4.set != 0 {
                let rewrite = ipv4::send_in_group;
                sent |= v4.send_in_group(plan, heads, batch, run, left, rewrite, &onward);
            }
            let heads = context.pool.heads_mut();
            if v6.set != 0 {
                let rewrite = ipv6::send_in_group;
                sent |= v6.send_in_group(plan, heads, batch, run, left, rewrite, &onward);
            }
            context.counters.routed(run.port, sent.count_ones().into());
            all |= sent;
        }
        all
    }
}

impl<A, const N: usize, R> Found<A, N, R> {
    /// Rewrites the packets of a run whose group has one neighbour, for which they are not too
    /// long, and sends them. Bit for each packet; the others are as they were.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "one pass over what its caller has at hand")]
    fn send_in_group(
        &self,
        plan: &RouterPlan,
        mut heads: HeadsMut<'_>,
        batch: &mut [Packet],
        run: &mut Run,
        left: &mut [Option<GroupId>; BATCH],
        rewrite: impl Fn(&mut [u8; N], &Adjacency) -> bool,
        onward: &impl Onward,
    ) -> u64 {
        let Some(marks) = plan.marks() else { return 0 };
        let mut sent = self.set & range(run.places.start, run.places.end);
        let places = run.places.start..run.places.end.min(batch.len()).min(BATCH);
        // Those of packets of the other family are old, and do no harm.
        onward.expect(&self.groups[places.clone()]);
        for place in places {
            if self.set >> place & 1 == 0 {
                continue;
            }
            let packet = &mut batch[place];
            let (group, at) = (self.groups[place], self.at[place]);
            let to = plan.known_group(group).filter(|to| packet.len() <= to.frame_max());
            let Some(to) = to.filter(|to| rewrite(heads.get(packet, at), &to.adjacency)) else {
                unset(&mut sent, place);
                continue;
            };
            marks.set(to.neighbour());
            if !onward.send(&mut heads, packet, at.first(), group) {
                left[place] = group;
                set(&mut run.left, place);
            }
        }
        sent
    }
}

/// Sets a bit that is rarely set: in memory, not in a register.
#[cold]
#[inline(never)]
fn set(set: &mut u64, place: usize) {
    *set |= 1 << place;
}

/// Clears a bit that is rarely cleared: in memory, not in a register.
#[cold]
#[inline(never)]
fn unset(set: &mut u64, place: usize) {
    *set &= !(1 << place);
}

/// Whether a source address is right. Most packets in a row have the same, which is looked up once.
#[inline(always)]
fn holds<A: Copy + PartialEq>(
    known: &mut Option<A>,
    source: A,
    is_right: impl FnOnce(A) -> bool,
) -> bool {
    if *known == Some(source) {
        return true;
    }
    let is_right = is_right(source);
    *known = Some(source).filter(|_| is_right);
    is_right
}

/// Whether an address with this group is the host's, or beyond it.
#[inline(never)]
fn has_address(
    context: &Context<'_>,
    interface: &InterfacePlan,
    host: u64,
    group: Option<GroupId>,
) -> bool {
    match interface.reverse_path {
        ReversePath::Off => true,
        ReversePath::Loose => false,
        ReversePath::Strict => {
            let [.., a, b, c, d, e, f] = host.to_be_bytes();
            context.router.is_behind(context.router.group(group), &[a, b, c, d, e, f])
                || context.fabric.is_function(host)
        }
    }
}
