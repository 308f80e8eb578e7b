//! Why something was not done, and how often.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why the router did not do something.
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
    InterfaceMac = "interface facts: the address is a group's or zero",
    InterfaceMtu = "interface facts: the MTU is below 68",
    InterfaceAddress = "interface address that no station can have, dropped",
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
    NeighbourEvicted = "neighbour that gave way to another one",
    RequestsLimited = "question for a link address, over the interface's rate",
    QueueFull = "packet that waited for a link address and gave way",
    Excerpt = "super-packet that came while its link address was not known: only asked for",
    NotOnLink = "neighbour's address that is not on its interface's link",
    NotUnresolved = "packet for a link address whose destination is on no link",
    NoSource = "no own address to send from",
    Malformed = "bytes that are not what they were handed over as",
    Checksum = "wrong checksum",
    HopLimit = "neighbour discovery that came through a router",
    BadLinkAddress = "link address that no neighbour can have",
    OwnEcho = "our own message come back",
    Conflict = "claim to an own address",
    Unsolicited = "answer that nobody asked for, of a stranger",
    NotForUs = "question for somebody else's address",
    KernelAnswers = "question that the kernel answers",
    NotSpoken = "message that a router does not act on",
    BadSource = "packet from an address that nobody can send from",
    LinkGroup = "packet to everybody on the link",
    IsGroup = "packet to a group or broadcast address",
    IsError = "no ICMP error is sent about an ICMP error",
    LaterFragment = "no ICMP error is sent about a later fragment",
    Fragment = "fragment to an own address: not reassembled",
    SourceRoute = "packet to an own address with a source route",
    ErrorsLimited = "ICMP error, over the rate",
    RepliesLimited = "reply, over the interface's rate",
    NoWayBack = "own packet without a way to its destination",
    OwnTooLong = "own packet longer than its link carries",
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
