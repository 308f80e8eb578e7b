//! What a driver tells the router. Recorded, inputs can be played back: the outputs are the same.

use std::net::IpAddr;

use plexus_wire::{MacAddr, Prefix};
use serde::{Deserialize, Serialize};

/// An IP interface: one VLAN of the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InterfaceId(pub u16);

/// A neighbour, known or asked for. Numbers are small and taken up again, the longest unused
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NeighbourId(pub u32);

/// An input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// An interface is up with these facts, which may differ from earlier ones; absent: it is down
    /// or gone.
    Interface {
        /// Which.
        id: InterfaceId,
        /// What it is.
        facts: Option<InterfaceFacts>,
    },
    /// A route of a source; absent: it is withdrawn.
    Route {
        /// By whose word.
        source: Source,
        /// Where to.
        prefix: Prefix,
        /// Of a source's routes to one prefix the lowest counts; the others wait. With the prefix
        /// and the source it names the route.
        metric: u32,
        /// How.
        route: Option<Route>,
    },
    /// The source begins to name all its routes.
    Begin(Source),
    /// It has named them all: those not named since [`Begin`](Input::Begin) are withdrawn. Without
    /// a beginning it means nothing.
    End(Source),
    /// The data plane cannot serve a frame by itself.
    Frame {
        /// By which interface it came in.
        interface: InterfaceId,
        /// Why it is here.
        why: Why,
        /// The untagged frame as received: the TTL is not yet decremented. Of one that was dropped
        /// the beginning is enough, as long as an error to its sender may be.
        frame: Vec<u8>,
    },
    /// Frames were sent to these neighbours since the last such input: what is unused goes first
    /// when there is no room, and what is used and stale is verified (RFC 4861, 7.3.3). Once in a
    /// few seconds is often enough.
    Used(Vec<NeighbourId>),
    /// Time has passed: `next_deadline` has come.
    Tick,
}

/// By whose word there is a route. Those that are connected, made from interfaces' addresses, come
/// before these; then static ones, then the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The box's file.
    Static,
    /// The Linux kernel's table, where routing daemons write.
    Kernel,
}

/// What an interface is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceFacts {
    /// For people.
    pub name: String,
    /// The address that frames are sent from and must be sent to.
    pub mac: MacAddr,
    /// The longest IP packet, in bytes: at least 68 (RFC 791).
    pub mtu: u16,
    /// Own addresses with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The kernel has a device here with the same addresses, and answers for them.
    pub kernel: bool,
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// To one of these, by the flow's hash in proportion to weights. 1 to [`NEXT_HOPS_MAX`];
    /// only a route with one next hop may be without a gateway.
    Via(Vec<NextHop>),
    /// To the box itself.
    Local,
    /// To everybody on a link: not forwarded (RFC 2644).
    Broadcast,
    /// Nowhere, silently.
    Blackhole,
    /// Nowhere; the sender hears that the host is unreachable.
    Unreachable,
    /// Nowhere; the sender hears that it is prohibited.
    Prohibited,
}

/// Next hops in one route, at most.
pub const NEXT_HOPS_MAX: usize = 64;

/// One way of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NextHop {
    /// Out by this interface.
    pub interface: InterfaceId,
    /// To this router; absent: the destinations themselves are on the link. An IPv4 route may have
    /// an IPv6 gateway (RFC 8950), not the other way round.
    pub gateway: Option<IpAddr>,
    /// The gateway is on the link although none of the interface's prefixes says so.
    pub on_link: bool,
    /// Its share, at least 1.
    pub weight: u8,
}

/// Why the data plane hands a frame over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is ARP.
    Arp,
    /// It is neighbour or router discovery: ICMPv6 types 133 to 137.
    Nd,
    /// It is for an own address, on an interface without a kernel's device.
    Local,
    /// This neighbour's link address is needed; absent: the destination's, which is on a link.
    Unresolved(Option<NeighbourId>),
    /// It was dropped; its sender is to hear of it.
    Error(Fault),
}

/// Why a packet was dropped, as far as its sender is to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Its TTL or hop limit was 1 or 0.
    TtlExpired,
    /// There is no route.
    NoRoute,
    /// The route is [`Route::Unreachable`].
    Unreachable,
    /// The route is [`Route::Prohibited`], or a filter says no.
    Prohibited,
    /// It is longer than the next link carries, and must not be cut.
    TooBig {
        /// What that link carries, in bytes.
        mtu: u16,
    },
    /// A field of its header makes no sense.
    ParameterProblem {
        /// ICMPv6: 0 field, 1 next header, 2 option (RFC 4443, 3.4). Always 0 for IPv4.
        code: u8,
        /// Where in the packet, in bytes.
        pointer: u16,
    },
    /// Its IPv6 source address must not leave its link (RFC 4443, 3.1, code 2).
    BeyondScope,
    /// Its next hop does not answer.
    AddressUnreachable,
}
