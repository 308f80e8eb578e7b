//! Inputs of the router. Recorded inputs can be replayed: the outputs are the same.

use std::net::IpAddr;

use plexus_wire::{MacAddr, Prefix};
use serde::{Deserialize, Serialize};

/// An IP interface: one VLAN of the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InterfaceId(pub u16);

/// A neighbour, resolved or pending. Numbers are small and reused, the longest unused first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NeighbourId(pub u32);

/// An input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// An interface is up with these facts, which may differ from earlier ones; absent: it is down
    /// or removed.
    Interface {
        /// The interface.
        id: InterfaceId,
        /// Its facts.
        facts: Option<InterfaceFacts>,
    },
    /// A route of a source; absent: it is withdrawn.
    Route {
        /// The source.
        source: Source,
        /// The destination.
        prefix: Prefix,
        /// Of a source's routes to one prefix the lowest metric wins; the others wait. Prefix,
        /// source and metric identify the route.
        metric: u32,
        /// The route.
        route: Option<Route>,
    },
    /// The source begins a full list of its routes.
    Begin(Source),
    /// The list is complete: routes not in it since [`Begin`](Input::Begin) are withdrawn. Without
    /// a `Begin` it has no effect.
    End(Source),
    /// The station that has an address on an interface's link, from a source that knows: it is
    /// neither asked for nor verified. Absent: the source does not know it any more.
    Neighbour {
        /// The interface.
        interface: InterfaceId,
        /// The neighbour's address.
        address: IpAddr,
        /// The station's.
        mac: Option<MacAddr>,
    },
    /// The data plane passes a frame that it cannot process alone.
    Frame {
        /// The interface on which it arrived.
        interface: InterfaceId,
        /// Why it was passed.
        why: Why,
        /// The untagged frame as received, with its TTL not decremented. For a dropped frame its
        /// beginning is enough, as long as an error to its sender may be.
        frame: Vec<u8>,
    },
    /// Frames were sent to these neighbours since the last such input: unused neighbours are
    /// evicted first, and used stale ones are verified (RFC 4861, 7.3.3). Once every few seconds is
    /// often enough.
    Used(Vec<NeighbourId>),
    /// Time has passed: `next_deadline` has come.
    Tick,
}

/// The source of a route. Connected routes, from interface addresses, come first; then static ones,
/// then the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The configuration file.
    Static,
    /// The Linux kernel's table, where routing daemons write.
    Kernel,
}

/// Facts of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceFacts {
    /// For display.
    pub name: String,
    /// The source address of our frames; frames to us must have it as destination.
    pub mac: MacAddr,
    /// The longest IP packet, in bytes: at least 68 (RFC 791).
    pub mtu: u16,
    /// Own addresses with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The kernel has a device here with the same addresses, and answers for them.
    pub kernel: bool,
    /// Another source tells of the neighbours ([`Input::Neighbour`]): nobody is asked, and packets
    /// of our own go to the station whose packet they answer.
    pub is_told: bool,
}

/// The target of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// To one of these, by the flow's hash in proportion to weights. 1 to [`NEXT_HOPS_MAX`]; only a
    /// route with one next hop may lack a gateway.
    Via(Vec<NextHop>),
    /// To the box itself.
    Local,
    /// To all stations on a link: not forwarded (RFC 2644).
    Broadcast,
    /// Dropped silently.
    Blackhole,
    /// Dropped; the sender is told that the host is unreachable.
    Unreachable,
    /// Dropped; the sender is told that it is prohibited.
    Prohibited,
}

/// Most next hops of one route.
pub const NEXT_HOPS_MAX: usize = 64;

/// A next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NextHop {
    /// The outgoing interface.
    pub interface: InterfaceId,
    /// The next router; absent: the destinations are on the link. An IPv4 route may have an IPv6
    /// gateway (RFC 8950), not vice versa.
    pub gateway: Option<IpAddr>,
    /// The gateway is on the link although it is in none of the interface's prefixes.
    pub on_link: bool,
    /// Its weight, at least 1.
    pub weight: u8,
}

/// Why the data plane passes a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is ARP.
    Arp,
    /// It is neighbour or router discovery: ICMPv6 types 133 to 137.
    Nd,
    /// It is for an own address, on an interface without a kernel's device.
    Local,
    /// This neighbour's link address is needed; absent: that of the on-link destination.
    Unresolved(Option<NeighbourId>),
    /// It was dropped; its sender has to be told.
    Error(Fault),
}

/// Why a packet was dropped, as reported to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Its TTL or hop limit was 1 or 0.
    TtlExpired,
    /// There is no route.
    NoRoute,
    /// The route is [`Route::Unreachable`].
    Unreachable,
    /// The route is [`Route::Prohibited`], or a filter refuses it.
    Prohibited,
    /// It exceeds the MTU of the next link and must not be fragmented.
    TooBig {
        /// The MTU of that link, in bytes.
        mtu: u16,
    },
    /// A header field is invalid.
    ParameterProblem {
        /// ICMPv6: 0 field, 1 next header, 2 option (RFC 4443, 3.4). Always 0 for IPv4.
        code: u8,
        /// Offset in the packet, in bytes.
        pointer: u16,
    },
    /// Its IPv6 source address must not leave its link (RFC 4443, 3.1, code 2).
    BeyondScope,
    /// Its next hop does not answer.
    AddressUnreachable,
}
