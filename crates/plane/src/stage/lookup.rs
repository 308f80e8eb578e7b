//! Stage 3, output-port lookup: each packet gets its verdict.
//!
//! - In: packets with `in_port`.
//! - Out: the same packets with `verdict`, `vlan`, `priority` and `flags`; less those of named data
//!   for this node that came by ports of a fabric, which have left for the forwarder of names.
//! - Drops: those of `names.rs`; a verdict may be to drop, with the forwarder's reason.
//!
//! This stage picks the forwarder, packet by packet: names by EtherType and destination, the fabric
//! by the port, the router by the destination's Ethernet address, and the switch for all that is
//! left. Each decides for the packets that are its own and leaves the others; only those are asked
//! that the plan has. They know nothing of each other, but for one thing: the switch has the
//! router's addresses in its table. It learns a packet's source, finds that the packet is to the
//! router or to a group, and asks the router. Where a router's interface is a VLAN of several
//! ports, this stage asks the switch which of them leads to a neighbour. Where it is the fabric as
//! a whole ([`GROUP_VLAN`]), this stage asks the fabric for the route to a neighbour.
//!
//! Example: a box is a fabric's node by ports 0 and 1, and routes between ports 2 and 3. Of a batch
//! from ports 1 and 2, the fabric decides for the packets of port 1. Of those of port 2, the router
//! decides for the packets to its own address, and the switch for ARP to the broadcast address.

use plexus_io::{BATCH, Batch, PORT_NONE, Packet};
use plexus_wire::MacAddr;

use super::output::{Egress, OutputQueues};
use crate::bits::{bits, range};
use crate::context::Context;
use crate::drops::DropReason;
use crate::fabric::Fabric;
use crate::names;
use crate::router::hosts::{Routed, Run};
use crate::router::plan::GROUP_VLAN;
use crate::router::{Router, fragment};
use crate::runs;
use crate::switch::Switch;
use crate::verdict::{Punt, Verdict};
use crate::vlan::Addresses;

/// The forwarders.
pub(crate) struct Lookup {
    pub(crate) switch: Switch,
    pub(crate) fabric: Fabric,
    pub(crate) router: Router,
    /// Hosts' packets of the batch that the router has sent to neighbours in the group.
    pub(crate) routed: Routed,
}

impl Lookup {
    /// Decides for every packet of the batch. Forwarders may read the lengths of `queues`.
    pub(crate) fn run(
        &mut self,
        context: &mut Context<'_>,
        queues: &OutputQueues,
        batch: &mut Batch,
    ) {
        if context.plan.has_named_in_fabric {
            names::take(context, batch);
        }
        if context.plan.fabric.is_none() && context.fib.is_none() {
            return self.switch.run(context, batch);
        }
        let routed = self.route_usual(context, queues, batch);
        let all = range(0, batch.len());
        if routed == all {
            return;
        }
        let left = match context.plan.fabric {
            Some(_) => {
                let runs = runs::of(batch);
                let left = self.fabric.run(context, queues, batch, &runs, routed);
                if left.to_route != 0 {
                    self.route_for_group(context, queues, batch, left.to_route);
                }
                left.others
            }
            None => all,
        };
        match context.fib {
            _ if left == 0 => {}
            // The group's router has no packets at ports that are not the fabric's.
            Some(_) if context.router.interface(GROUP_VLAN).is_none() => {
                self.route(context, batch, left)
            }
            _ if left == all => self.switch.run(context, batch),
            _ => self.switch.run_some(context, batch, left, |_, _, _| false),
        }
    }

    /// Routes hosts' usual IP packets to the group's own address, and gives them their ways through
    /// the fabric. Bit for each.
    #[inline]
    fn route_usual(
        &mut self,
        context: &mut Context<'_>,
        queues: &OutputQueues,
        batch: &mut [Packet],
    ) -> u64 {
        if !context.fabric.routes() {
            return 0;
        }
        let Lookup { fabric, router, routed, .. } = self;
        let sent = router.run_usual(context, batch, &|host| fabric.ways_of(host), routed);
        for &Run { left, id, port, host, .. } in routed.runs.iter().filter(|run| run.left != 0) {
            for place in bits(left) {
                let group = routed.groups[place];
                fabric.make_ready(context, &batch[place], id, (port, host), group);
            }
            fabric.place(context, queues, batch, left, &[host; BATCH]);
        }
        sent
    }

    /// Routes hosts' other IP packets to the group's own address, at the places whose bits are set,
    /// and gives them their ways through the fabric.
    #[inline(never)]
    pub(crate) fn route_for_group(
        &mut self,
        context: &mut Context<'_>,
        queues: &OutputQueues,
        batch: &mut [Packet],
        set: u64,
    ) {
        let mut sources = [0; BATCH];
        self.router.run_addressed(context, batch, set, |place, addresses| {
            sources[place] = addresses.source;
        });
        self.fabric.place(context, queues, batch, self.router.to_place, &sources);
    }

    /// Routes the router's packets of a batch among those whose bits are set, and switches the
    /// others of them.
    fn route(&mut self, context: &mut Context<'_>, batch: &mut [Packet], set: u64) {
        let Lookup { switch, router, .. } = self;
        let unusual = router.read(context, batch, set);
        if unusual != 0 {
            switch.run_some(context, batch, unusual, router.claims());
        }
        router.send(context, batch);
        for place in bits(self.router.to_place) {
            self.place_routed(context, &mut batch[place]);
        }
    }

    /// Gives a routed packet the port of its VLAN that the switch knows, or all of them.
    fn place_routed(&self, context: &Context<'_>, packet: &mut Packet) {
        let port = self.place(context, packet);
        let verdict = match (Verdict::load(packet), port) {
            (Verdict::Fragment(_), port) => Verdict::Fragment(port.unwrap_or(PORT_NONE)),
            (_, Some(port)) => Verdict::Forward(port),
            (_, None) => Verdict::FloodRouted,
        };
        verdict.store(packet);
    }

    /// Decides for an untagged frame of the control plane as if it had come in by its VLAN's
    /// interface.
    pub(crate) fn receive(&mut self, context: &mut Context<'_>, packet: &mut Packet) -> Verdict {
        let addresses = Addresses::untagged(context.pool.data(packet), packet.vlan);
        let Some(addresses) = addresses else { return Verdict::Drop(DropReason::Runt) };
        // Without an input port its source is neither learned nor looked up.
        packet.in_port = PORT_NONE;
        if !self.router.run_one(context, packet, &addresses) {
            return Verdict::Drop(DropReason::NotForUs);
        }
        if self.router.to_place != 0 {
            self.place_routed(context, packet);
        }
        Verdict::load(packet)
    }

    /// The port of a packet's VLAN that leads to its destination, if the switch knows it.
    pub(crate) fn place(&self, context: &Context<'_>, packet: &Packet) -> Option<u16> {
        let to = context.pool.data(packet).first_chunk::<6>()?;
        self.switch.find(context.now, packet.vlan, MacAddr(*to))
    }
}

impl Egress for Lookup {
    fn finish(
        &mut self,
        context: &mut Context<'_>,
        queues: &mut OutputQueues,
        verdict: Verdict,
        packet: Packet,
    ) {
        match verdict {
            // Its host has no way to the neighbour.
            Verdict::Fragment(PORT_NONE) if context.plan.is_in_fabric(packet.in_port) => {
                fragment::cut(context, packet, |c, piece| c.hand_over(Punt::Host, piece));
            }
            Verdict::Fragment(port) => fragment::send(context, queues, port, packet),
            verdict => self.fabric.finish(context, queues, verdict, packet),
        }
    }
}
