//! Of a whole network at one instant: what the page of a controller, a lab or a simulator shows.
//!
//! Nodes have places in a list and are named by these, so that the answer for ten thousand hosts
//! stays small and is made in one pass.

use std::collections::BTreeMap;
use std::net::IpAddr;

use plexus_wire::MacAddr;
use serde::{Deserialize, Serialize};

use super::fabric::GroupRouter;

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Its boxes and cables.
    pub map: Map,
    /// Its hosts.
    pub hosts: Vec<NetworkHost>,
    /// The boxes' counters. A box that has not told them is missing.
    pub counters: Vec<BoxCounters>,
    /// The group's router, if the group routes.
    pub router: Option<GroupRouter>,
    /// The latest events, the oldest first.
    pub events: Vec<NetworkEvent>,
    /// The clock of a simulation.
    pub clock: Option<Clock>,
}

/// Boxes and cables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// The name of the network, or of the controller.
    pub title: String,
    /// The limit of this answer, for a person: the controller stands by.
    pub notice: Option<String>,
    /// The boxes. Others name them by their place in this list.
    pub boxes: Vec<NetworkBox>,
    /// The cables between them.
    pub cables: Vec<Cable>,
    /// The names of the groups that hosts belong to: tenants.
    pub tenants: Vec<String>,
}

/// A box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkBox {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: BoxKind,
    /// It has been heard recently.
    pub up: bool,
}

/// The kind of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoxKind {
    /// A node.
    Node,
    /// A controller.
    Controller,
    /// An ordinary switch.
    Bridge,
}

/// A cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cable {
    /// Both ends: box, and its port's number.
    pub ends: [(u32, u8); 2],
    /// Its rate; 0: not known.
    pub rate_mbit_per_s: u32,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkHost {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its name, where one is known.
    pub name: Option<String>,
    /// Its box and the port's number there.
    pub at: (u32, u8),
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The groups that it belongs to, by their places in the list of tenants.
    pub tenants: Vec<u16>,
}

/// A box's counters since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxCounters {
    /// The box.
    pub at: u32,
    /// When, in milliseconds of a clock that does not jump.
    pub time_ms: u64,
    /// Its ports.
    pub ports: Vec<PortCounters>,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Its forwarder of named data.
    pub named: Option<NamedCounters>,
}

/// A port's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// Its number.
    pub port: u8,
    /// Packets that came in.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
}

/// The counters of a forwarder of named data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCounters {
    /// Interests that the content store answered.
    pub hits: u64,
    /// Interests that it did not answer.
    pub misses: u64,
    /// Packets in the store's memory.
    pub packets: u64,
    /// Pending Interests.
    pub pending: u64,
    /// Prefixes that have routes, as URIs, the first few.
    pub prefixes: Vec<String>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkEvent {
    /// It grows from event to event.
    pub number: u64,
    /// When, in milliseconds since 1970, or of a simulation's clock.
    pub time_ms: u64,
    /// Something is lost or refused.
    pub bad: bool,
    /// The event, for a person.
    pub text: String,
}

/// The clock of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Its time.
    pub now_s: f64,
    /// How many times as fast as a person's it is to go.
    pub speed: f64,
    /// It stands still.
    pub paused: bool,
    /// The share of the run that is done, 0 to 1.
    pub done: Option<f64>,
}

/// The ways that the network has for the flows of a host, or of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// The ways.
    pub ways: Vec<HostWay>,
    /// How many more there are.
    pub more: usize,
}

/// A way through the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostWay {
    /// The host that uses it; absent: all hosts of the first port.
    pub from: Option<MacAddr>,
    /// The host that it leads to.
    pub to: MacAddr,
    /// The boxes on it, each with the ports' numbers by which packets come in and leave.
    pub boxes: Vec<(u32, u8, u8)>,
}

/// The hosts whose ways are asked for: at least one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Ways from this host.
    pub from: Option<MacAddr>,
    /// Ways to this host.
    pub to: Option<MacAddr>,
}
