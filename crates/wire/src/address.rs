//! Standard properties of IP addresses, independent of the network: one classification for files,
//! the control plane, and messages to users.

use std::net::{IpAddr, Ipv6Addr};

use crate::Prefix;

/// True for an IPv6 address that is valid on one link only (RFC 4291, 2.5.6).
pub fn is_link_local(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(a) if a.is_unicast_link_local())
}

/// True for an address that one station may have and send from (RFC 1812, 4.2.3.1 and 5.3.7;
/// RFC 4291, 2.5).
pub fn is_unicast(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(a) => {
            let first = a.octets()[0];
            first != 0 && first != 127 && first < 240 && !a.is_multicast()
        }
        // An address that holds an IPv4 one never travels (RFC 4291, 2.5.5.2).
        IpAddr::V6(a) => {
            let is_special = a == Ipv6Addr::UNSPECIFIED || a == Ipv6Addr::LOCALHOST;
            !is_special && !a.is_multicast() && a.to_ipv4_mapped().is_none()
        }
    }
}

/// True for an address that no packet on a network has, or that no router forwards (RFC 1812,
/// 5.3.7; RFC 6890; RFC 4291, 2.5 and 2.7): no single station's, or of IPv4 link-local (RFC 3927,
/// 7). IPv6's link-local ones are a matter of their link.
pub fn is_martian(addr: IpAddr) -> bool {
    !is_unicast(addr) || matches!(addr, IpAddr::V4(a) if a.is_link_local())
}

/// True for a prefix that a route may lead to. Those within groups, loopback and IPv6's link-local
/// addresses are none: no router forwards to them.
pub fn is_routable(prefix: &Prefix) -> bool {
    let (addr, len) = (prefix.addr(), prefix.len());
    match addr {
        IpAddr::V4(a) => !((a.is_multicast() && len >= 4) || (a.is_loopback() && len >= 8)),
        IpAddr::V6(a) => {
            let is_loopback = a.is_loopback() && len == 128;
            !((a.is_multicast() && len >= 8) || (is_link_local(addr) && len >= 10) || is_loopback)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_no_single_station_are_martians() {
        let none = ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.5", "240.0.0.1", "255.255.255.255"];
        let none_v6 = ["::", "::1", "ff02::1", "::ffff:10.0.0.1"];
        for text in none.into_iter().chain(none_v6) {
            let addr = text.parse().unwrap();
            assert!(!is_unicast(addr) && is_martian(addr), "{text}");
        }
        for text in ["1.0.0.0", "10.0.0.1", "126.1.2.3", "223.255.255.255", "2001:db8::1"] {
            let addr = text.parse().unwrap();
            assert!(is_unicast(addr) && !is_martian(addr) && !is_link_local(addr), "{text}");
        }
        // On its link a station may have them.
        for (text, martian) in [("169.254.1.1", true), ("fe80::1", false), ("febf::1", false)] {
            let addr = text.parse().unwrap();
            assert_eq!((is_unicast(addr), is_martian(addr)), (true, martian), "{text}");
            assert_eq!(is_link_local(addr), !martian);
        }
    }

    #[test]
    fn no_route_leads_to_groups_loopback_or_a_link() {
        let routable = |text: &str| is_routable(&text.parse().unwrap());
        for text in ["0.0.0.0/0", "10.0.0.0/8", "169.254.0.0/16", "::/0", "2001:db8::/32"] {
            assert!(routable(text), "{text}");
        }
        for text in ["224.0.0.0/4", "239.1.2.3/32", "127.0.0.0/8", "127.0.0.1/32"] {
            assert!(!routable(text), "{text}");
        }
        for text in ["ff00::/8", "fe80::/10", "fe80::/64", "::1/128"] {
            assert!(!routable(text), "{text}");
        }
    }
}
