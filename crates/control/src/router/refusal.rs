//! Reasons for refusing an action, and their counters.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why the router refused an action.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Refusal {
            $(#[doc = $text] $name,)*
        }

        impl Refusal {
            /// All of them.
            pub const ALL: &[Refusal] = &[$(Refusal::$name,)*];
        }

        impl fmt::Display for Refusal {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Refusal::$name => $text,)*
                })
            }
        }
    };
}

refusals! {
    InterfacesFull = "more interfaces than allowed",
    InterfaceMac = "interface facts: the address is multicast or zero",
    InterfaceMtu = "interface facts: the MTU is below 68",
    InterfaceAddress = "invalid interface address, dropped",
    AddressesFull = "interface address beyond the limit, dropped",
    NoInterface = "from or for an interface that is not up",
    NotRoutable = "route to a multicast, link-local or loopback prefix",
    BadNextHop = "route without next hops, or with one of no weight or of another family",
    TooManyNextHops = "route with more next hops than allowed",
    MixedOnLink = "route with several next hops, not all of which have a gateway",
    RoutesFull = "more routes than allowed",
    GroupsFull = "more sets of next hops than numbers",
    NoSuchRoute = "withdrawal of a route that was not there",
    NeighboursFull = "no room for another neighbour",
    NeighbourEvicted = "neighbour evicted for another one",
    RequestsLimited = "question for a link address, over the interface's rate",
    QueueFull = "packet dropped from the queue for a link address",
    Excerpt = "super-packet without a known link address: dropped, address requested",
    NotOnLink = "neighbour's address that is not on its interface's link",
    NotUnresolved = "packet for a link address whose destination is on no link",
    NoSource = "no own address to send from",
    Malformed = "malformed packet or wrong kind of packet",
    Checksum = "wrong checksum",
    HopLimit = "neighbour discovery that came through a router",
    BadLinkAddress = "invalid link address of a neighbour",
    OwnEcho = "our own message returned by a loop",
    Conflict = "claim to an own address",
    Unsolicited = "unsolicited answer of an unknown neighbour",
    NotForUs = "question for another station's address",
    KernelAnswers = "question that the kernel answers",
    NotSpoken = "message that a router does not act on",
    BadSource = "packet with an invalid source address",
    LinkGroup = "packet to all stations on the link",
    IsGroup = "packet to a multicast or broadcast address",
    IsError = "no ICMP error is sent about an ICMP error",
    LaterFragment = "no ICMP error is sent about a later fragment",
    Fragment = "fragment to an own address: not reassembled",
    SourceRoute = "packet to an own address with a source route",
    ErrorsLimited = "ICMP error, over the rate",
    RepliesLimited = "reply, over the interface's rate",
    NoWayBack = "own packet without a route to its destination",
    OwnTooLong = "own packet longer than the MTU of its link",
}

/// How often each refusal was met.
#[derive(Debug, Default)]
pub(super) struct Counts(std::collections::BTreeMap<Refusal, u64>);

impl Counts {
    pub(super) fn count(&mut self, refusal: Refusal) {
        let count = self.0.entry(refusal).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn get(&self, refusal: Refusal) -> u64 {
        self.0.get(&refusal).copied().unwrap_or(0)
    }
}
