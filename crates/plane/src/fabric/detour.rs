//! Packets of a class pass a function on their way to their neighbour (SPEC.md, 17).

use plexus_io::Packet;
use plexus_table::PortRoutes;
use plexus_wire::MacAddr;
use plexus_wire::address::is_link_local;
use plexus_wire::fabric::class::{self, Detour};
use plexus_wire::flow::FlowKey;

use super::plan::FabricPlan;
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
    let by = class::detour(classes, MacAddr::from_u64(source), key.as_ref());
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

/// Whether a host's IP packet that is not for the router may go on, while there are classes. A host
/// can learn Ethernet addresses beyond its own network. It must neither pass by a function with
/// these, nor have a function, from which any source is taken, send on what it likes.
#[cold]
pub(super) fn may_pass(plan: &FabricPlan, frame: &[u8], source: u64, destination: u64) -> bool {
    let (from, to) = (MacAddr::from_u64(source), MacAddr::from_u64(destination));
    let classes = plan.classes();
    let Some(key) = FlowKey::from_frame(frame) else {
        return class::detour(classes, from, None).is_none();
    };
    if is_link_local(key.dst) {
        return true;
    }
    if plan.is_function(destination) {
        // It gets what is for itself.
        let mut functions = classes.iter().flat_map(|class| &class.functions);
        return functions.any(|function| function.mac == Some(to) && function.ip == key.dst);
    }
    plan.parts().are_together(key.src, key.dst)
        || key.dst.is_multicast()
        || class::detour(classes, from, Some(&key)).is_none()
}
