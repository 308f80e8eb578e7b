//! Stage 3, output-port lookup: each packet gets its verdict.
//!
//! - In: packets with `in_port`.
//! - Out: the same packets with `verdict`, `vlan`, `priority` and `flags`.
//! - Drops: none here; a verdict may be to drop, with the forwarder's reason.
//!
//! This stage picks the forwarder. A box whose plan has a fabric is a fabric node; any other is a
//! switch, and if its plan has a router, a router too: for packets to the Ethernet address of a
//! router's interface. The forwarders know nothing of each other; where a router's interface is a
//! VLAN of several ports, this stage asks the switch which of them leads to a neighbour.

use plexus_io::{Batch, PORT_NONE, Packet};
use plexus_wire::MacAddr;

use crate::drops::DropReason;
use crate::fabric::Fabric;
use crate::pipeline::Context;
use crate::router::{Router, bits};
use crate::stage::output::OutputQueues;
use crate::switch::Switch;
use crate::switch::vlan::Addresses;
use crate::verdict::Verdict;

/// What kind of box it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoxKind {
    /// It switches.
    Switch,
    /// It switches and routes.
    Router,
    /// It is a node of a fabric.
    Fabric,
}

/// The forwarders.
pub(crate) struct Lookup {
    pub(crate) switch: Switch,
    pub(crate) fabric: Fabric,
    pub(crate) router: Router,
    pub(crate) kind: BoxKind,
}

impl Lookup {
    /// Decides for every packet of the batch. What waits in `queues` may be asked for.
    pub(crate) fn run(
        &mut self,
        context: &mut Context<'_>,
        queues: &OutputQueues,
        batch: &mut Batch,
    ) {
        match self.kind {
            BoxKind::Switch => self.switch.run(context, batch),
            BoxKind::Fabric => self.fabric.run(context, queues, batch),
            BoxKind::Router => self.route(context, batch),
        }
    }

    /// Routes the router's packets of a batch, and switches the others.
    fn route(&mut self, context: &mut Context<'_>, batch: &mut [Packet]) {
        let Lookup { switch, router, .. } = self;
        router.run(context, batch);
        if !router.switched.is_empty() {
            switch.run_some(context, batch, &router.switched);
        }
        for (place, addresses) in router.to_learn.drain(..) {
            let packet = &mut batch[usize::from(place)];
            if let Err(reason) = switch.learn_source(context, packet.in_port, &addresses) {
                router.to_place &= !(1 << place);
                Verdict::Drop(reason).store(packet);
            }
        }
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
        // It came by no port: its source is neither learned nor looked up.
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
