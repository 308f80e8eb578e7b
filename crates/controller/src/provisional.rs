//! A controller without its store: it tells routes between hosts, so that the store can be reached
//! over them. Whatever a host could rely on later is the next leader's to say.
//!
//! Hosts are admitted as always, by their nodes' reports and with probes. An address that the store
//! has leased to another host is refused when a leader knows the store.

use plexus_wire::fabric::message::Body;

/// Whether a controller that leads provisionally may send a message to a node. It may not if the
/// message carries a promise to a host (DHCP, router advertisements), the group's forwarding
/// table, or numbers of its own that another provisional leader could use too (multicast trees).
pub(crate) fn may_say(body: &Body) -> bool {
    matches!(
        body,
        Body::Welcome(_)
            | Body::Ack(_)
            | Body::HostVerdict(_)
            | Body::HostProbe(_)
            | Body::ResolveForward(_)
            | Body::ShortForward(_)
            | Body::ResolveFailed(_)
            | Body::Way(_)
            | Body::RouteUpdate(_)
            | Body::PortBlock(_)
            | Body::Revoked(_)
            | Body::Watch(_)
            | Body::Explain(_)
    )
}
