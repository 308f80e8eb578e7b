//! Headers in front: a host's frame becomes a fabric frame, a fabric frame takes the form of its
//! link.
//!
//! No device can complete a checksum or cut a super-packet behind a fabric header, so that work is
//! done before the header is pushed. So is the fragmentation of what the router has sent and is too
//! long for its neighbour. A packet that owes nothing has its header pushed by the lookup; the
//! others keep the verdict `Route` until here. Either way a packet that crosses to
//! another worker carries its final bytes.

use plexus_io::{Offload, Packet, Pool, PortId};
use plexus_table::Found;
use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::{ethernet, fabric};

use super::plan::{Encapsulation, FabricPlan, PortRole};
use super::{ROUTED, TOO_LONG};
use crate::context::Context;
use crate::drops::DropReason;
use crate::offload;
use crate::router::fragment;
use crate::stage::output::OutputQueues;
use crate::verdict::FORWARDED;

/// Puts the header of a route in front of a host's frame. False if the frame has no room for it.
#[inline(always)]
pub(super) fn push_route(pool: &mut Pool, packet: &mut Packet, header: &[u8]) -> bool {
    let fits = push(pool, packet, header);
    if packet.flags & ROUTED != 0 {
        packet.flags &= !(ROUTED | FORWARDED);
        fabric::set_routed(pool.data_mut(packet));
    }
    fits
}

/// Puts a header in front. False if the frame has no room for it.
#[inline(always)]
pub(super) fn push(pool: &mut Pool, packet: &mut Packet, header: &[u8]) -> bool {
    if !pool.push_front(packet, header.len()) {
        return false;
    }
    let data = pool.data_mut(packet);
    // Two copies of eight bytes, which may overlap, are quicker than one of unknown length.
    match (header.first_chunk::<8>(), header.last_chunk::<8>()) {
        (Some(first), Some(last)) if header.len() <= 16 => {
            data[..8].copy_from_slice(first);
            data[header.len() - 8..header.len()].copy_from_slice(last);
        }
        _ => data[..header.len()].copy_from_slice(header),
    }
    true
}

/// Gives a fabric frame the form of a link.
#[inline(always)]
pub(super) fn encapsulate(pool: &mut Pool, packet: &mut Packet, link: &Encapsulation) -> bool {
    match link {
        Encapsulation::Native => true,
        Encapsulation::EtherType { out, .. } => push(pool, packet, out),
    }
}

/// Sends a host's packet by the route of this number in the set that its port's memory has for it:
/// first its owed work is done.
pub(super) fn send(
    context: &mut Context<'_>,
    queues: &mut OutputQueues,
    index: usize,
    packet: Packet,
) {
    let plan = context.fabric;
    let route = routes_of(plan, context.pool, &packet).and_then(|found| found.get(index));
    let route = route.map(|(port, header)| (PortId::from(port), header));
    let Some((port, header, &PortRole::Fabric(link))) = route.map(|(p, h)| (p, h, plan.role(p)))
    else {
        let in_port = packet.in_port;
        return context.drop(packet, in_port, DropReason::HopToNowhere);
    };
    let is_too_long = packet.flags & TOO_LONG != 0;
    let finish = |context: &mut Context<'_>, part| {
        finish(context, queues, port, header, &link, part);
    };
    match is_too_long {
        true => fragment::cut(context, packet, finish),
        false => offload::complete(context, port, packet, finish),
    }
}

/// The port whose memory has the routes of a packet: its own, or the router's for one that another
/// node has sent there.
#[inline(always)]
pub(super) fn origin(packet: &Packet) -> PortId {
    if packet.flags & FORWARDED != 0 { ROUTER_HOP.into() } else { packet.in_port }
}

/// The routes of a host's packet, which the lookup has just found in the same plan.
pub(crate) fn routes_of<'a>(
    plan: &'a FabricPlan,
    pool: &Pool,
    packet: &Packet,
) -> Option<Found<'a>> {
    let frame = ethernet::Frame::new_checked(pool.data(packet)).ok()?;
    plan.tables(origin(packet))?.routes.get(frame.dst(), frame.src())
}

fn finish(
    context: &mut Context<'_>,
    queues: &mut OutputQueues,
    port: PortId,
    header: &[u8],
    link: &Encapsulation,
    mut packet: Packet,
) {
    packet.offload = Offload::NONE;
    packet.flags &= !TOO_LONG;
    if push_route(context.pool, &mut packet, header) && encapsulate(context.pool, &mut packet, link)
    {
        queues.enqueue(context, port, packet);
    } else {
        context.drop(packet, port, DropReason::TooLong);
    }
}
