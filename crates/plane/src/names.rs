//! Named data by frames (EtherType 0x8624): which of them reach the node's forwarder of names.
//!
//! - In: packets by ports of which the plan says that they take named data.
//! - Out: frames to the port's own address or to the group (01-00-5E-00-17-AA) go to the forwarder
//!   of names. At ports in VLANs, classification (`vlan.rs`) asks [`is_ours`] for each frame with
//!   this EtherType; other frames cost a comparison. Ports of a fabric have no such
//!   classification: there these frames leave the batch beforehand ([`take`]).
//! - Parameters: [`PortPlan::named`](crate::snapshot::PortPlan::named), by port.
//! - Drops: `control_full`, `bad_offload`.
//!
//! A frame to the group ends here as a packet ends at a router: the forwarder decides which ports
//! the Interest leaves by, and the switch does not flood it.
//!
//! Example: an application at port p1 sends an Interest to the node's address. It waits in
//! [`Pipeline::to_named`](crate::Pipeline::to_named); the Data that answers it comes back by
//! [`Injection::Named`](crate::Injection::Named), and waits at p1 like any other frame.

use plexus_io::{Batch, Heads, Packet, take_each};
use plexus_wire::{EtherType, MacAddr};

use crate::context::Context;
use crate::verdict::Punt;

/// The group of all forwarders on a link (NFD, "Ethernet multicast").
pub(crate) const GROUP: MacAddr = MacAddr([0x01, 0x00, 0x5E, 0x00, 0x17, 0xAA]);

/// Whether a packet is a frame of named data, for this node or another.
#[inline(always)]
fn is_named(heads: Heads<'_>, packet: &Packet) -> bool {
    let ethertype = |head: &[u8; 14]| u16::from_be_bytes([head[12], head[13]]);
    heads.get(packet).is_some_and(|(_, head)| ethertype(head) == EtherType::NDN.0)
}

/// Whether a packet is a frame of named data for this node.
pub(crate) fn is_ours(context: &Context<'_>, packet: &Packet) -> bool {
    let Some(own) = context.plan.ports[usize::from(packet.in_port)].named else { return false };
    let frame = context.pool.data(packet);
    is_named(context.pool.heads(), packet)
        && (frame.starts_with(&own.0) || frame.starts_with(&GROUP.0))
}

/// Takes the node's frames of named data that came by ports of the fabric out of a batch.
#[inline(never)]
pub(crate) fn take(context: &mut Context<'_>, batch: &mut Batch) {
    // Most batches have none. To find that out, this reads EtherTypes only, without a branch for
    // each packet.
    let heads = context.pool.heads();
    if !batch.iter().fold(false, |any, packet| any | is_named(heads, packet)) {
        return;
    }
    let mut others = Batch::new();
    for packet in take_each(batch) {
        let packet = packet.into_packet();
        let in_fabric = context.plan.ports[usize::from(packet.in_port)].in_fabric;
        match in_fabric && is_ours(context, &packet) {
            true => context.hand_over(Punt::Named, packet),
            false => others.push(packet),
        }
    }
    *batch = others;
}
