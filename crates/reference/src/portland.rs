//! PortLand's control plane (Niranjana Mysore et al., *PortLand: A Scalable Fault-Tolerant Layer 2
//! Data Center Network Fabric*, SIGCOMM 2009): switches that find out where in a fat tree they are,
//! give hosts addresses that say where these are (PMACs), and answer ARP with the help of a fabric
//! manager. Written from what the paper says; [`Switch`] and [`Manager`] exchange the messages of
//! `message.rs`.
//!
//! - **Location discovery** (§3.4). Each switch says at an interval what it knows of itself. One
//!   with hosts is an edge switch, one above it an aggregation switch, one with aggregation
//!   switches only a core switch. Edge switches propose positions to those above until most of
//!   these agree;
//!   position 0 asks the manager for the pod's number, and the others of the pod hear it.
//! - **PMACs** (§3.2): pod 16 bits, position 8, port 8, number at that port 16.
//! - **ARP** (§3.3). The edge switch takes a host's question to the manager, which knows the PMAC,
//!   or has all edge switches ask their hosts; whose answers register.
//! - **Forwarding** (§3.5) by pod and position, up by the flow's hash.
//!
//! What the paper leaves open, and what is done here:
//!
//! - *The manager is in band*, at a port of one switch. Locations carry the hops to it, so that all
//!   switches form a tree of shortest ways; of equal ones the neighbour with the least identifier
//!   is taken. Branches without hosts are left out of broadcasts. In a fat tree that makes the one
//!   core switch, below it one aggregation switch of each pod, and all edge switches.
//! - *Where there are no levels* (an edge switch next to an edge switch: torus, butterfly, random
//!   graphs) each edge switch is a place of its own, which the manager numbers; keep-alives,
//!   registrations and questions are as in a fat tree. There is no way to forward by location then,
//!   so answers to a broadcast go back by the manager, and data is not carried.
//! - "Some fraction" of the ports with hosts, which makes an edge switch, is one port. A port leads
//!   to a host when it has had a carrier for three intervals, and no word came.
//! - *Not here*, since nothing that is compared needs it: the fault matrix, multicast groups, moved
//!   hosts. A failed cable is noticed after five intervals, and the way to the manager is mended.

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

/// What a switch or the manager wants done: send this frame out of this port.
pub type Output = (u16, Vec<u8>);

/// An address that says where a host is: pod, position, port, and number at that port.
pub fn pmac(place: Place, port: u8, number: u16) -> MacAddr {
    let ([a, b], [c, d]) = (place.pod.to_be_bytes(), number.to_be_bytes());
    MacAddr([a, b, place.position, port, c, d])
}
