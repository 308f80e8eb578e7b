//! Effects: actions that the parts of the node's control plane request; `node.rs` turns them into
//! outputs.

use plexus_wire::MacAddr;
use plexus_wire::fabric::message::{Body, GroupRoute, Hops, RouteEntry};
use serde::{Deserialize, Serialize};

use crate::link::Stranger;

/// One action, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A frame for a host, as it is.
    Host { port: u8, frame: Vec<u8> },
    /// A body for the controller, sealed; `sure`: repeated until it is acknowledged.
    Controller { body: Body, sure: bool },
    /// A body for another node's control plane, sealed by an exchange's key.
    Keyed { path: Hops, exchange: u64, key: [u8; 32], body: Body },
    /// Send a host's frame that arrived before its route along that route.
    Along { path: Hops, frame: Vec<u8> },
    /// Admit a station to this port.
    Admit { port: u8, mac: MacAddr },
    /// Remove a station from this port.
    Expel { port: u8, mac: MacAddr },
    /// Set an entry of the route memory; an entry without routes is removed.
    Route(RouteEntry),
    /// Send a host's frame that arrived before its tree along that tree.
    AlongTree { port: u8, tree: u32, credits: u8, frame: Vec<u8> },
    /// Set a tree's ports; absent: remove it.
    Tree { tree: u32, ports: Option<Vec<u8>> },
    /// Set a host's tree for a group; without one it is removed.
    Group(GroupRoute),
    /// An event for the log.
    Tell(Event),
}

/// An event; a driver logs and counts it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A host's frame was not served: the reason, as in `show drops`.
    Dropped(u8, Unserved),
    /// A port's role has changed.
    Role(u8, plexus_wire::fabric::message::PortRole),
    /// A message was refused; the reason in words.
    Refused(Option<u8>, String),
    /// The path to the controller has changed; absent: the controller is unreachable.
    Uplink(Option<Hops>),
    /// A frame's source was the group's own address: the port leads back into the fabric.
    Loop(u8),
    /// A port's neighbour speaks as nodes do, and has failed to authenticate.
    Stranger(u8, Stranger),
    /// The controller has refused this node: another that is alive has its number.
    NumberTaken {
        /// The public key of that node.
        key: [u8; 32],
        /// It is this node's own: two boxes use one identity.
        same: bool,
    },
    /// A fabric frame arrived here that could not be forwarded.
    Astray(u8),
    /// A frame arrived for a station that is not behind its route's port.
    Stale(u8, MacAddr),
    /// A station was admitted at a port.
    Station(u8, MacAddr),
    /// A station left a port.
    Gone(u8, MacAddr),
    /// A station's claim was refused.
    Denied(u8, MacAddr, Option<std::net::IpAddr>, plexus_wire::fabric::message::Refusal),
}

/// Why a host's frame was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unserved {
    /// ARP or neighbour discovery that contradicts itself, its frame or the group.
    Forged,
    /// The controller has refused the station.
    Refused,
    /// The controller has refused the address to the station.
    Claimed,
    /// To a group without a policy: the fabric does not flood.
    NotFlooded,
    /// No route yet, or none at all.
    NoRoute,
    /// More stations, addresses or questions from this port than are stored.
    TooMany,
    /// Not a frame.
    Runt,
    /// Too long for a control message.
    TooLong,
    /// It asks for a group that no policy serves.
    GroupRefused,
    /// More groups than are stored for its station or port.
    TooManyGroups,
    /// The target is behind the same port: it received the question itself.
    SamePort,
}
