//! Named data by frames (EtherType 0x8624): what reaches the node's forwarder of names.
//!
//! - In: packets as they came in, by ports of which the plan says that they take named data.
//! - Out: a frame to the port's own address leaves the batch for the forwarder of names. Of a frame
//!   to the group (01-00-5E-00-17-AA) the forwarder gets a copy, and the frame goes on like others.
//! - Parameters: [`PortPlan::named`](crate::snapshot::PortPlan::named), by port.
//! - Drops: `control_full`, `no_frame`, `bad_offload`.
//!
//! Example: an application at port p1 sends an Interest to the node's address. It waits in
//! [`Pipeline::to_named`](crate::Pipeline::to_named); the Data that answers it comes back by
//! [`Injection::Named`](crate::Injection::Named), and waits at p1 like any other frame.

use plexus_io::{Batch, Packet, take_each};
use plexus_wire::{EtherType, MacAddr};

use crate::context::Context;
use crate::drops::DropReason;
use crate::verdict::Punt;

/// The group of all forwarders on a link (NFD, "Ethernet multicast").
pub(crate) const GROUP: MacAddr = MacAddr([0x01, 0x00, 0x5E, 0x00, 0x17, 0xAA]);

/// Who a frame of named data is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Others,
    Node,
    Group,
}

fn whom(context: &Context<'_>, packet: &Packet) -> For {
    let Some(own) = context.plan.ports[usize::from(packet.in_port)].named else {
        return For::Others;
    };
    let frame = context.pool.data(packet);
    if frame.get(12..14) != Some(&EtherType::NDN.0.to_be_bytes()) {
        For::Others
    } else if frame.starts_with(&own.0) {
        For::Node
    } else if frame.starts_with(&GROUP.0) {
        For::Group
    } else {
        For::Others
    }
}

/// Takes the node's frames of named data out of a batch.
#[inline(never)]
pub(crate) fn take(context: &mut Context<'_>, batch: &mut Batch) {
    if batch.iter().all(|packet| whom(context, packet) == For::Others) {
        return;
    }
    let mut others = Batch::new();
    for packet in take_each(batch) {
        let packet = packet.into_packet();
        match whom(context, &packet) {
            For::Others => others.push(packet),
            For::Node => context.hand_over(Punt::Named, packet),
            For::Group => {
                hand_over_copy(context, &packet);
                others.push(packet);
            }
        }
    }
    *batch = others;
}

fn hand_over_copy(context: &mut Context<'_>, packet: &Packet) {
    let in_port = packet.in_port;
    // A copy that could not be made is accounted for as made and dropped.
    context.counters.copied(in_port, 1);
    match context.pool.duplicate(packet) {
        Some(copy) => context.hand_over(Punt::Named, copy),
        None => context.counters.drop(in_port, DropReason::NoFrame),
    }
}
