//! Outputs of the router, to be carried out in order.

use std::net::IpAddr;

use plexus_wire::{MacAddr, Prefix};
use serde::{Deserialize, Serialize};

use super::input::{InterfaceId, NeighbourId};

/// Number of a group. Numbers run from 0 to 32,766 and are reused, the longest unused first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub u16);

/// An output. Carried out in order, they never leave a prefix with a missing group, a group with a
/// wrong neighbour, or a route without its prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Send a complete untagged frame on an interface.
    Send {
        /// The interface.
        interface: InterfaceId,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Process a frame as if it had just arrived: the address that it waited for is known.
    Again {
        /// The interface on which it arrived.
        interface: InterfaceId,
        /// The frame as it was received.
        frame: Vec<u8>,
    },
    /// Set a neighbour's adjacency; absent: its link address is unknown.
    Adjacency {
        /// The neighbour.
        id: NeighbourId,
        /// How to reach it.
        entry: Option<Adjacency>,
    },
    /// Set a group; absent: no prefix uses it any more.
    Group {
        /// The group.
        id: GroupId,
        /// Its new state.
        group: Option<Group>,
    },
    /// Set a prefix of the forwarding table; absent: remove it.
    Fib {
        /// The prefix.
        prefix: Prefix,
        /// Its group.
        group: Option<GroupId>,
    },
    /// An event for the log.
    Tell(Event),
}

/// How to reach a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Adjacency {
    /// The outgoing interface.
    pub interface: InterfaceId,
    /// Its link address.
    pub mac: MacAddr,
}

/// What a group does with packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Send to one of these; never empty. Either all of them have an adjacency, or none: then the
    /// packet is passed up as unresolved, with the chosen neighbour.
    Via(Vec<Member>),
    /// The destination is on this link, its link address unknown: passed up as unresolved.
    Glean(InterfaceId),
    /// The box itself is the destination.
    Local,
    /// To all stations on a link: not forwarded.
    Broadcast,
    /// Dropped silently.
    Blackhole,
    /// Dropped; the sender is told that the host is unreachable.
    Unreachable,
    /// Dropped; the sender is told that it is prohibited.
    Prohibited,
}

/// One neighbour of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The neighbour.
    pub neighbour: NeighbourId,
    /// The interface that it is behind.
    pub interface: InterfaceId,
    /// Its weight, at least 1.
    pub weight: u8,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Another station claims one of our addresses.
    Conflict {
        /// The interface.
        interface: InterfaceId,
        /// The address.
        address: IpAddr,
        /// The claimant.
        mac: MacAddr,
    },
    /// A gateway of routes in use was found or has moved; absent: it does not answer.
    Gateway {
        /// The interface.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
        /// Its link address.
        mac: Option<MacAddr>,
    },
    /// A route was refused because there are too many; reported once until there is room again.
    RoutesFull,
    /// There is room again after [`RoutesFull`](Event::RoutesFull) or
    /// [`GroupsFull`](Event::GroupsFull): the sources are to tell their routes once more.
    RoutesFit,
    /// A route was refused because there are too many sets of next hops; reported once likewise.
    GroupsFull,
    /// The forwarding table has no room for a route in use; reported once until all are in.
    TableFull,
}
