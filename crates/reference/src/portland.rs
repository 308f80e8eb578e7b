//! PortLand's control plane (Niranjana Mysore et al., *PortLand: A Scalable Fault-Tolerant Layer 2
//! Data Center Network Fabric*, SIGCOMM 2009): switches that discover their place in a fat tree,
//! give hosts addresses that encode this place (PMACs), and answer ARP with the help of a fabric
//! manager. Written from the paper; [`Switch`] and [`Manager`] exchange the messages of
//! `message.rs`.
//!
//! - **Location discovery** (§3.4). Each switch regularly announces what it knows about itself. A
//!   switch with hosts is an edge switch, one above an edge switch an aggregation switch, one with
//!   only aggregation switches as neighbours a core switch. Edge switches propose positions to
//!   those above until most of these agree; position 0 asks the manager for the pod's number, and
//!   the other switches of the pod learn it.
//! - **PMACs** (§3.2): pod 16 bits, position 8, port 8, number at that port 16.
//! - **ARP** (§3.3). The edge switch passes a host's question to the manager, which knows the PMAC,
//!   or makes all edge switches ask their hosts; the answers register them.
//! - **Forwarding** (§3.5) by pod and position, upwards by the flow's hash.
//!
//! Choices where the paper is silent:
//!
//! - *The manager is in band*, at a port of one switch. Locations carry the hops to it, so that all
//!   switches form a tree of shortest paths; among equal ones the neighbour with the lowest
//!   identifier wins. Branches without hosts are pruned from broadcasts. In a fat tree that leaves
//!   one core switch, one aggregation switch of each pod, and all edge switches.
//! - *Without levels* (an edge switch next to an edge switch: torus, butterfly, random graphs) each
//!   edge switch is a place of its own, numbered by the manager; keep-alives, registrations and
//!   questions are as in a fat tree. There is no forwarding by location then, so answers to a
//!   broadcast return through the manager, and data is not forwarded.
//! - The "fraction" of the ports with hosts that makes an edge switch is one port. A port leads to
//!   a host when it has had a carrier for three intervals without an announcement.
//! - *Not implemented*, because no comparison needs it: the fault matrix, multicast groups, moved
//!   hosts. A failed cable is noticed after five intervals, and the path to the manager is
//!   repaired.

mod edge;
mod location;
mod manager;
mod message;
mod switch;

use std::time::Duration;

use plexus_wire::MacAddr;

pub use location::Place;
pub use manager::Manager;
pub use message::{ETHERTYPE, Level};
pub use switch::Switch;

/// How often a location is said, in the experiments; the paper's switches say it each 10 ms.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// An output of a switch or the manager: send this frame on this port.
pub type Output = (u16, Vec<u8>);

/// An address that says where a host is: pod, position, port, and number at that port.
pub fn pmac(place: Place, port: u8, number: u16) -> MacAddr {
    let ([a, b], [c, d]) = (place.pod.to_be_bytes(), number.to_be_bytes());
    MacAddr([a, b, place.position, port, c, d])
}
