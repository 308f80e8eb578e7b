//! What IPv4 and IPv6 share: the protocol numbers.

use std::fmt;

/// An IP protocol number (IANA "Assigned Internet Protocol Numbers"; IPv6 next header).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// ICMP for IPv4.
    pub const ICMPV4: Protocol = Protocol(1);
    /// Internet group management.
    pub const IGMP: Protocol = Protocol(2);
    /// An IPv4 packet (RFC 2003).
    pub const IPV4: Protocol = Protocol(4);
    /// TCP.
    pub const TCP: Protocol = Protocol(6);
    /// UDP.
    pub const UDP: Protocol = Protocol(17);
    /// An IPv6 packet (RFC 4213, RFC 2473).
    pub const IPV6: Protocol = Protocol(41);
    /// IPv6 routing header.
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Protocol = Protocol(44);
    /// Generic routing encapsulation (RFC 2784).
    pub const GRE: Protocol = Protocol(47);
    /// Encapsulating security payload: nothing after it is readable.
    pub const ESP: Protocol = Protocol(50);
    /// Authentication header.
    pub const AUTHENTICATION: Protocol = Protocol(51);
    /// ICMP for IPv6.
    pub const ICMPV6: Protocol = Protocol(58);
    /// Nothing follows (RFC 8200, 4.7).
    pub const NO_NEXT_HEADER: Protocol = Protocol(59);
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
    /// SCTP.
    pub const SCTP: Protocol = Protocol(132);
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Protocol::HOP_BY_HOP => "hop-by-hop",
            Protocol::ICMPV4 => "ICMP",
            Protocol::IGMP => "IGMP",
            Protocol::IPV4 => "IPv4",
            Protocol::TCP => "TCP",
            Protocol::UDP => "UDP",
            Protocol::IPV6 => "IPv6",
            Protocol::ROUTING => "routing",
            Protocol::FRAGMENT => "fragment",
            Protocol::GRE => "GRE",
            Protocol::ESP => "ESP",
            Protocol::AUTHENTICATION => "AH",
            Protocol::ICMPV6 => "ICMPv6",
            Protocol::NO_NEXT_HEADER => "no next header",
            Protocol::DESTINATION_OPTIONS => "destination options",
            Protocol::SCTP => "SCTP",
            Protocol(n) => return write!(f, "protocol {n}"),
        })
    }
}
