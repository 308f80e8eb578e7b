//! What the router wants done, in order.

use std::net::IpAddr;

use plexus_wire::{MacAddr, Prefix};
use serde::{Deserialize, Serialize};

use super::input::{InterfaceId, NeighbourId};

/// What packets of one or more prefixes have in common. Numbers run from 0 to 32,766 and are taken
/// up again, the longest unused first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub u16);

/// An output. Carried out one by one, they never leave a prefix with a group that is not there, a
/// group with a neighbour that is somebody else, or a route that stays without its prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Send a whole untagged frame out by an interface.
    Send {
        /// Which.
        interface: InterfaceId,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Process a frame as if it had come in now: what it waited for is known.
    Again {
        /// By which interface it came in.
        interface: InterfaceId,
        /// The frame as it was received.
        frame: Vec<u8>,
    },
    /// Frames to a neighbour; absent: its link address is not known (any more).
    Adjacency {
        /// Which.
        id: NeighbourId,
        /// How to reach it.
        entry: Option<Adjacency>,
    },
    /// What a group is; absent: no prefix has it any more.
    Group {
        /// Which.
        id: GroupId,
        /// What it is now.
        group: Option<Group>,
    },
    /// A prefix of the forwarding table; absent: it is taken out.
    Fib {
        /// Which.
        prefix: Prefix,
        /// Its group.
        group: Option<GroupId>,
    },
    /// Something that people should hear of.
    Tell(Event),
}

/// How to reach a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Adjacency {
    /// By which interface.
    pub interface: InterfaceId,
    /// Its link address.
    pub mac: MacAddr,
}

/// What is done with packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// They go to one of these; never empty. If one has an adjacency all have; if none has, the
    /// packet is handed over as unresolved, with the neighbour that was chosen.
    Via(Vec<Member>),
    /// The destination is on this link, its link address unknown: handed over as unresolved.
    Glean(InterfaceId),
    /// The box itself is the destination.
    Local,
    /// To everybody on a link: not forwarded.
    Broadcast,
    /// Dropped silently.
    Blackhole,
    /// Dropped; the sender hears that the host is unreachable.
    Unreachable,
    /// Dropped; the sender hears that it is prohibited.
    Prohibited,
}

/// One neighbour of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Which.
    pub neighbour: NeighbourId,
    /// The interface that it is behind.
    pub interface: InterfaceId,
    /// Its share, at least 1.
    pub weight: u8,
}

/// What people should hear of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Somebody else says that one of our addresses is its own.
    Conflict {
        /// On which interface.
        interface: InterfaceId,
        /// The address.
        address: IpAddr,
        /// Who says so.
        mac: MacAddr,
    },
    /// A gateway of routes in use has been found, or has moved; absent: it does not answer.
    Gateway {
        /// On which interface.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
        /// Its link address.
        mac: Option<MacAddr>,
    },
    /// A route was refused because there are too many; told once until there is room again.
    RoutesFull,
    /// A route was refused because there are too many sets of next hops; told likewise.
    GroupsFull,
    /// The forwarding table has no room for a route that is in use; told once until all are in.
    TableFull,
}
