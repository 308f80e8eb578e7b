//! Packets of a class pass a function on their way to their neighbour (SPEC.md, 17).

use plexus_io::Packet;
use plexus_table::PortRoutes;
use plexus_wire::MacAddr;
use plexus_wire::fabric::class::{self, Detour};
use plexus_wire::flow::FlowKey;

use crate::context::Context;

/// The station that a routed packet of a host goes to: its neighbour, or a function if it is of a
/// class. None: it is not to go on without one. A packet whose host has no way to the neighbour yet
/// is left to the control plane, which knows the classes too.
#[cold]
pub(super) fn detour(
    context: &mut Context<'_>,
    routes: &PortRoutes,
    packet: &mut Packet,
    source: u64,
    destination: u64,
) -> Option<u64> {
    let key = FlowKey::from_frame(context.pool.data(packet));
    let classes = context.fabric.classes();
    let by = key.and_then(|key| class::detour(classes, MacAddr::from_u64(source), &key));
    let Some(by) = by else { return Some(destination) };
    // No class is a way around the rules between hosts.
    if routes.find(destination, source, routes.prefetch(destination)).is_none() {
        return Some(destination);
    }
    let Detour::By { mac, .. } = by else { return None };
    if let Some(to) = context.pool.data_mut(packet).first_chunk_mut() {
        *to = mac.0;
    }
    Some(mac.to_u64())
}
