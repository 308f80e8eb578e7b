//! The ends of a frame's way through this node: out by a link, to a host, or to the control plane
//! because it cannot follow its path.

use plexus_io::{Offload, Packet, PortId};
use plexus_wire::ethernet;
use plexus_wire::fabric::{self as header, Fields, Kind};

use super::plan::PortRole;
use super::{EXCERPT, ROUTED, push, set_source};
use crate::context::Context;
use crate::drops::DropReason;
use crate::verdict::{FORWARDED, Punt, Verdict};

/// Out by a fabric node's or a controller's port, in the form of its link.
pub(super) fn leave(context: &mut Context<'_>, out: PortId, packet: &mut Packet) -> Verdict {
    let fits = match context.fabric.role(out) {
        PortRole::Fabric(link) | PortRole::Controller(link) => {
            push::encapsulate(context.pool, packet, link)
        }
        PortRole::Host | PortRole::Unknown => false,
    };
    if fits { Verdict::Forward(out) } else { Verdict::Drop(DropReason::TooLong) }
}

/// From one host of this node to another: there is no header at all.
pub(super) fn to_neighbour(
    context: &mut Context<'_>,
    out: PortId,
    destination: u64,
    packet: &mut Packet,
) -> Verdict {
    if out == push::origin(packet) {
        return Verdict::Drop(DropReason::SamePort);
    }
    match context.fabric.tables(out) {
        Some(there) if there.stations.contains(destination) => {
            if packet.flags & ROUTED != 0 {
                set_gateway(context, packet);
            }
            Verdict::Forward(out)
        }
        _ => stale_here(context, out, packet),
    }
}

/// To a host: the header is removed, if the destination is still there.
#[inline(always)]
pub(super) fn deliver(
    context: &mut Context<'_>,
    fields: Fields,
    out: PortId,
    packet: &mut Packet,
) -> Verdict {
    let len = fields.header_len();
    let Some(inner) =
        context.pool.data(packet).get(len..).filter(|i| i.len() >= ethernet::HEADER_LEN)
    else {
        return Verdict::Drop(DropReason::Runt);
    };
    let destination = inner.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes) >> 16);
    match context.fabric.tables(out) {
        Some(there) if there.stations.contains(destination) => {
            context.pool.pull_front(packet, len);
            if fields.is_routed() {
                set_gateway(context, packet);
            }
            Verdict::Forward(out)
        }
        _ => fail(context, fields, packet, DropReason::StaleRoute),
    }
}

/// A routed packet leaves the fabric: its source becomes the group's address.
#[inline(never)]
pub(super) fn set_gateway(context: &mut Context<'_>, packet: &mut Packet) {
    packet.flags &= !(ROUTED | FORWARDED);
    let head = context.pool.data_mut(packet).first_chunk_mut();
    if let (Some(head), Some(gateway)) = (head, context.fabric.gateway()) {
        set_source(head, gateway.to_u64());
    }
}

/// A frame that cannot follow its path: the control plane gets its beginning, unchanged but for the
/// type, which is *error*.
#[cold]
pub(super) fn fail(
    context: &mut Context<'_>,
    fields: Fields,
    packet: &mut Packet,
    reason: DropReason,
) -> Verdict {
    let len = packet.len().min(fields.header_len() + EXCERPT);
    context.pool.set_len(packet, len);
    let first = &mut context.pool.data_mut(packet)[0];
    *first = (Kind::Error as u8) << 4 | *first & 0x0F;
    Verdict::Control(Punt::Error(reason))
}

/// A host's frame to a station that has left another port of this node: to the control plane, with
/// the header that it would have had on a cable.
#[cold]
pub(super) fn stale_here(context: &mut Context<'_>, out: PortId, packet: &mut Packet) -> Verdict {
    let header = header::Repr::new(Kind::Error, &[out as u8]).and_then(|r| r.to_bytes().ok());
    let Some(header) = header.filter(|h| push::push(context.pool, packet, h)) else {
        return Verdict::Drop(DropReason::StaleRoute);
    };
    packet.offload = Offload::NONE;
    let len = packet.len().min(header.len() + EXCERPT);
    context.pool.set_len(packet, len);
    Verdict::Control(Punt::Error(DropReason::StaleRoute))
}
