//! What IPv4 and IPv6 share: the protocol numbers.

use crate::bytes::numbers;

numbers! {
    /// An IP protocol number (IANA "Assigned Internet Protocol Numbers"; IPv6 next header).
    Protocol(u8) {
        /// IPv6 hop-by-hop options.
        HOP_BY_HOP = 0, "hop-by-hop";
        /// ICMP for IPv4.
        ICMPV4 = 1, "ICMP";
        /// Internet group management.
        IGMP = 2, "IGMP";
        /// An IPv4 packet (RFC 2003).
        IPV4 = 4, "IPv4";
        TCP = 6, "TCP";
        UDP = 17, "UDP";
        /// An IPv6 packet (RFC 4213, RFC 2473).
        IPV6 = 41, "IPv6";
        /// IPv6 routing header.
        ROUTING = 43, "routing";
        /// IPv6 fragment header.
        FRAGMENT = 44, "fragment";
        /// Generic routing encapsulation (RFC 2784).
        GRE = 47, "GRE";
        /// Encapsulating security payload: nothing after it is readable.
        ESP = 50, "ESP";
        /// Authentication header.
        AUTHENTICATION = 51, "AH";
        /// ICMP for IPv6.
        ICMPV6 = 58, "ICMPv6";
        /// Nothing follows (RFC 8200, 4.7).
        NO_NEXT_HEADER = 59, "no next header";
        /// IPv6 destination options.
        DESTINATION_OPTIONS = 60, "destination options";
        SCTP = 132, "SCTP";
        _ => |f, n| write!(f, "protocol {n}")
    }
}
