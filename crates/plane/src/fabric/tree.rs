//! Trees: a frame to a group is copied to the ports of a tree, at each node on it (SPEC.md, 2.1).
//!
//! A host's frame gets here by an entry of its port's route memory whose header is a tree's: the
//! work that it owes is done first, then every copy is made of what is final. A frame of another
//! node names its tree. Of each copy the output port takes the form that it needs; a fabric port
//! gets none of a frame that has no credit left.
//!
//! Such frames are rare beside those to one station, so this code is kept out of their way.

use arrayvec::ArrayVec;
use plexus_io::{Offload, Packet, PortId};
use plexus_table::Found;
use plexus_wire::fabric::{self as header, CONTROL_HOP, Fields, HEADER_LEN_MAX, is_reserved_group};
use plexus_wire::{EtherType, MacAddr, Protocol, ethernet, icmpv6, ipv4, ipv6, mld};

use super::plan::{PortRole, PortSet};
use super::push;
use crate::context::Context;
use crate::drops::DropReason;
use crate::offload;
use crate::stage::output::OutputQueues;
use crate::storm::{Cast, Storms};
use crate::verdict::{Origin, Punt, Verdict};

/// A host's frame to a group: along the group's tree if the station has one. Otherwise, or if the
/// control plane answers such frames itself, it goes to the control plane.
#[cold]
#[inline(never)]
pub(super) fn find(
    context: &Context<'_>,
    packet: &Packet,
    destination: u64,
    found: Option<Found<'_>>,
) -> Verdict {
    let found = found.and_then(|found| found.get(0));
    let is_tree = found.is_some_and(|(port, _)| port == CONTROL_HOP);
    match is_tree && is_for_group(context.pool.data(packet), destination) {
        true => Verdict::Tree(Origin::Host),
        false => Verdict::Control(Punt::Host),
    }
}

/// Whether a frame is IP to a group of this Ethernet address, and none of what the control plane
/// answers: group management, neighbour discovery.
fn is_for_group(frame: &[u8], destination: u64) -> bool {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else { return false };
    let group = match frame.ethertype() {
        EtherType::IPV4 => match ipv4::Packet::new_checked(frame.payload()) {
            Ok(packet) if packet.protocol() != Protocol::IGMP => packet.dst().into(),
            _ => return false,
        },
        EtherType::IPV6 => match ipv6::Packet::new_checked(frame.payload()) {
            Ok(packet) if !is_control(&packet) => packet.dst().into(),
            _ => return false,
        },
        _ => return false,
    };
    MacAddr::of_group(group).is_some_and(|mac| mac.to_u64() == destination)
        && !is_reserved_group(group)
}

/// Neighbour discovery, listener discovery, and packets whose headers hide their protocol.
fn is_control(packet: &ipv6::Packet<&[u8]>) -> bool {
    let Ok(upper) = packet.upper() else { return true };
    if upper.protocol != Protocol::ICMPV6 || !upper.has_header() {
        return false;
    }
    let message = packet.payload().get(upper.offset..).unwrap_or_default();
    icmpv6::Packet::new_checked(message).map_or(true, |m| m.is_ndp() || mld::is_mld(m.kind()))
}

/// A frame with the header of a tree, from a fabric port or the control plane.
#[cold]
#[inline(never)]
pub(super) fn take(
    context: &mut Context<'_>,
    fields: Fields,
    is_controller: bool,
    packet: &mut Packet,
) -> Verdict {
    packet.priority = 0;
    match header::tree(context.pool.data(packet), fields) {
        _ if is_controller => Verdict::Drop(DropReason::NotControl),
        None => Verdict::Drop(DropReason::BadFabric),
        Some((number, _)) if context.fabric.tree(number).is_none() => {
            Verdict::Drop(DropReason::UnknownTree)
        }
        Some(_) if packet.len() < fields.header_len() + ethernet::HEADER_LEN => {
            Verdict::Drop(DropReason::Runt)
        }
        Some(_) => Verdict::Tree(Origin::Link),
    }
}

/// A frame of the control plane, processed as its host's frame would have been at the host's port.
pub(super) fn send_of_control(
    context: &mut Context<'_>,
    queues: &mut OutputQueues,
    packet: Packet,
) {
    let data = context.pool.data(&packet);
    let fields = Fields::read(data).ok();
    let host = fields.and_then(|f| {
        // Credits and number, then the host's port.
        data.get(header::FIXED_LEN + usize::from(f.forward())).filter(|_| f.reverse() == 1)
    });
    let (Some(fields), Some(&host)) = (fields, host) else {
        let account = packet.in_port;
        return context.drop(packet, account, DropReason::BadFabric);
    };
    let header: ArrayVec<u8, HEADER_LEN_MAX> = head(data, fields);
    let number = header::tree(data, fields).map(|(number, _)| number);
    let mut packet = packet;
    context.pool.pull_front(&mut packet, fields.header_len());
    copy(context, queues, number, Some(&header), host.into(), packet);
}

fn head(data: &[u8], fields: Fields) -> ArrayVec<u8, HEADER_LEN_MAX> {
    data.iter().take(fields.header_len()).copied().collect()
}

/// A frame of another node: its header is brought into the state for the next one.
pub(super) fn send_of_link(
    context: &mut Context<'_>,
    queues: &mut OutputQueues,
    mut packet: Packet,
) {
    let in_port = packet.in_port;
    let data = context.pool.data_mut(&mut packet);
    // The lookup has found both in these bytes.
    let Some((fields, (number, credits))) =
        Fields::read(data).ok().and_then(|f| Some((f, header::tree(data, f)?)))
    else {
        return context.drop(packet, in_port, DropReason::BadFabric);
    };
    header::rotate(data, fields, in_port as u8);
    let header = head(data, fields);
    context.pool.pull_front(&mut packet, fields.header_len());
    let header = (credits > 0).then_some(&header[..]);
    copy(context, queues, Some(number), header, in_port, packet);
}

/// A host's frame: the work that it owes is done before the copies are made.
pub(super) fn send_of_host(
    context: &mut Context<'_>,
    queues: &mut OutputQueues,
    storms: &mut Storms,
    packet: Packet,
) {
    let in_port = packet.in_port;
    if let Verdict::Drop(reason) = storms.admit(&packet, Cast::Multicast, context.now) {
        return context.drop(packet, in_port, reason);
    }
    let found =
        push::routes_of(context.fabric, context.pool, &packet).and_then(|found| found.get(0));
    let header = found.filter(|(port, _)| *port == CONTROL_HOP).map(|(_, header)| header);
    let number = header.and_then(|h| Some(header::tree(h, Fields::read(h).ok()?)?.0));
    offload::complete(context, in_port, packet, |context, part| {
        copy(context, queues, number, header, in_port, part);
    });
}

/// One copy of a finished frame, which begins with its Ethernet header, for every port of the tree
/// that can take it, but `except`. For fabric ports `header` is put in front; without it they get
/// no copy.
fn copy(
    context: &mut Context<'_>,
    queues: &mut OutputQueues,
    number: Option<u32>,
    header: Option<&[u8]>,
    except: PortId,
    mut packet: Packet,
) {
    let plan = context.fabric;
    let account = packet.in_port;
    let Some(ports) = number.and_then(|number| plan.tree(number)) else {
        return context.drop(packet, account, DropReason::UnknownTree);
    };
    packet.offload = Offload::NONE;
    let takes = |port: &PortId| {
        let role_fits = match plan.role(*port) {
            PortRole::Host => true,
            PortRole::Fabric(_) => header.is_some(),
            PortRole::Controller(_) | PortRole::Unknown => false,
        };
        *port != except && role_fits && queues.is_up(*port)
    };
    let ports: ArrayVec<PortId, 256> =
        PortSet::iter(ports).map(PortId::from).filter(takes).collect();
    let Some((&last, others)) = ports.split_last() else {
        return context.drop(packet, account, DropReason::NoMember);
    };
    // A copy that could not be made is accounted for as made and dropped.
    context.counters.copied(account, others.len() as u64);
    for &port in others {
        match context.pool.duplicate(&packet) {
            Some(copy) => leave(context, queues, port, header, copy),
            None => context.counters.drop(port, DropReason::NoFrame),
        }
    }
    leave(context, queues, last, header, packet);
}

fn leave(
    context: &mut Context<'_>,
    queues: &mut OutputQueues,
    port: PortId,
    header: Option<&[u8]>,
    mut packet: Packet,
) {
    let fits = match (context.fabric.role(port), header) {
        (PortRole::Fabric(link), Some(header)) => {
            push::push(context.pool, &mut packet, header)
                && push::encapsulate(context.pool, &mut packet, link)
        }
        _ => true,
    };
    match fits {
        true => queues.enqueue(context, port, packet),
        false => context.drop(packet, port, DropReason::TooLong),
    }
}
