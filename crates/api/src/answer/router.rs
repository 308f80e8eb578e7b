//! Of an IP router.

use std::net::IpAddr;

use plexus_wire::MacAddr;
use serde::{Deserialize, Serialize};

/// Of `show fib`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fib {
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
    /// Routes, used or not.
    pub routes: usize,
    /// Groups of next hops.
    pub groups: usize,
    /// Neighbours.
    pub neighbours: usize,
    /// The table of IPv4.
    pub ipv4: Table,
    /// The table of IPv6.
    pub ipv6: Table,
    /// Routes that the tables had no room for.
    pub refused: u64,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether it can be used.
    pub up: bool,
    /// Its VLAN.
    pub vlan: u16,
    /// It is a port by itself, and the VLAN is internal.
    pub routed_port: bool,
    /// Its Ethernet address, while it is up.
    pub mac: Option<MacAddr>,
    /// Its MTU in bytes, while it is up.
    pub mtu: Option<u16>,
    /// `ADDRESS/LENGTH` each.
    pub addresses: Vec<String>,
    /// The check of source addresses (RFC 3704).
    pub reverse_path: String,
}

/// How much is in a forwarding table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Prefixes.
    pub entries: usize,
    /// Memory that lookups read, in bytes.
    pub lookup_bytes: usize,
    /// Memory that changes need besides, in bytes.
    pub writer_bytes: usize,
}

/// Of `show neighbours`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbours {
    /// Those behind the interfaces.
    pub neighbours: Vec<Neighbour>,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// The interface that it is behind.
    pub interface: String,
    /// Its Ethernet address, if that is known.
    pub mac: Option<MacAddr>,
    /// `incomplete`, `reachable`, `stale`, `delay`, `probe` (RFC 4861, 7.3.2) or `failed`.
    pub state: String,
    /// For how long it has been in that state.
    pub age_s: f64,
    /// It is the gateway of routes in use.
    pub gateway: bool,
    /// Packets that wait for its Ethernet address.
    pub waiting: usize,
}

/// Of `show route ADDRESS`: what is done with packets to an address, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The address.
    pub address: IpAddr,
    /// Whether there is a lookup at all.
    pub class: Class,
    /// The prefix that the router's routes say; absent if there is none, or no lookup.
    pub prefix: Option<String>,
    /// The group of next hops that the packet path's own table says.
    pub group: Option<u16>,
    /// Whether both say the same.
    pub agrees: bool,
    /// Every route that was weighed, the longest prefix first.
    pub routes: Vec<Weighed>,
}

/// How the packet path classes an address before any lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Looked up.
    Routed,
    /// Never forwarded: packets to it are dropped (RFC 1812, 5.3.7).
    Martian,
    /// For the box itself on its link, never forwarded.
    LinkLocal,
}

/// A route that was weighed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weighed {
    /// Its prefix.
    pub prefix: String,
    /// `connected`, `static`, `kernel` or `neighbour`.
    pub source: String,
    /// Of one source's routes to a prefix, the lowest metric wins.
    pub metric: u32,
    /// The action on its packets.
    pub kind: Kind,
    /// Where they go.
    pub next_hops: Vec<NextHop>,
    /// The number of its group of next hops.
    pub group: u16,
    /// `in_use`, `inactive` or `worse`.
    pub standing: String,
    /// The same in words.
    pub why: String,
}

/// The action of a route on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Forwards them to next hops.
    Via,
    /// They are for the box itself.
    Local,
    /// They are for all of a subnet.
    Broadcast,
    /// Drops them in silence.
    Blackhole,
    /// Drops them and says that the destination is unreachable.
    Unreachable,
    /// Drops them and says that this is prohibited.
    Prohibited,
}

/// A next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextHop {
    /// The interface.
    pub interface: String,
    /// The gateway; absent: the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// Its share of the flows.
    pub weight: u8,
    /// `usable`, or why not.
    pub state: String,
    /// The gateway's Ethernet address, if that is known.
    pub mac: Option<MacAddr>,
    /// The gateway's state as a neighbour.
    pub neighbour: Option<String>,
}

/// Of `show routes`: a part of the routes in use, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routes {
    /// Lines as a file of routes has them, with `dev` and `neighbour` besides.
    pub routes: Vec<String>,
    /// Those for which the packet path's own table says something else.
    pub disagree: Vec<String>,
    /// Where the next part begins; absent after the last one.
    pub next: Option<String>,
}
