//! What the parts of the node's control plane want done; `node.rs` turns it into outputs.

use plexus_wire::MacAddr;
use plexus_wire::fabric::message::{Body, GroupRoute, Hops, RouteEntry};
use serde::{Deserialize, Serialize};

use crate::link::Stranger;

/// One thing to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A frame for a host, as it is.
    Host { port: u8, frame: Vec<u8> },
    /// A body for the controller, sealed; `sure`: repeated until it is acknowledged.
    Controller { body: Body, sure: bool },
    /// A body for another node's control plane, sealed by an exchange's key.
    Keyed { path: Hops, exchange: u64, key: [u8; 32], body: Body },
    /// A host's frame that came before its route, along that.
    Along { path: Hops, frame: Vec<u8> },
    /// A station may send and receive at this port.
    Admit { port: u8, mac: MacAddr },
    /// It may no longer.
    Expel { port: u8, mac: MacAddr },
    /// An entry of the route memory; without routes it is taken out.
    Route(RouteEntry),
    /// A host's frame that came before its tree, along that.
    AlongTree { port: u8, tree: u32, credits: u8, frame: Vec<u8> },
    /// A tree's ports; absent: it is gone.
    Tree { tree: u32, ports: Option<Vec<u8>> },
    /// A host's way to a group; without a tree it is taken out.
    Group(GroupRoute),
    /// Something that people should hear of.
    Tell(Event),
}

/// What a node tells people; a driver logs and counts it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A host's frame was not served: the reason, as in `show drops`.
    Dropped(u8, Unserved),
    /// A port's role has changed.
    Role(u8, plexus_wire::fabric::message::PortRole),
    /// A message was refused; the reason in words.
    Refused(Option<u8>, String),
    /// The path to the controller has changed; none: it is out of reach.
    Uplink(Option<Hops>),
    /// The group's own address was a sender's: the port leads back into the fabric.
    Loop(u8),
    /// Whoever is at a port says what nodes say, and is not proved.
    Stranger(u8, Stranger),
    /// The controller has refused this node: another that is alive has its number.
    NumberTaken {
        /// The public key of that node.
        key: [u8; 32],
        /// It is this node's own: two boxes use one identity.
        same: bool,
    },
    /// A fabric frame that could not go on came in here.
    Astray(u8),
    /// A frame came for a station that is not behind its route's port.
    Stale(u8, MacAddr),
    /// A station was admitted at a port.
    Station(u8, MacAddr),
    /// A station is gone from a port.
    Gone(u8, MacAddr),
    /// A station's claim was refused.
    Denied(u8, MacAddr, Option<std::net::IpAddr>, plexus_wire::fabric::message::Refusal),
}

/// Why the control plane did nothing for a host's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unserved {
    /// ARP or neighbour discovery that contradicts itself, its frame or the group.
    Forged,
    /// The controller has refused the station.
    Refused,
    /// The controller has refused the address to the station.
    Claimed,
    /// To a group: nothing is flooded.
    NotFlooded,
    /// No route yet, or never.
    NoRoute,
    /// More stations, addresses or questions from this port than are kept.
    TooMany,
    /// Not a frame.
    Runt,
    /// Too long for a control message.
    TooLong,
    /// It asks for a group that no policy serves.
    GroupRefused,
    /// More groups than are kept for its station or port.
    TooManyGroups,
    /// The station asked for is behind the same port: it has heard the question itself.
    SamePort,
}
