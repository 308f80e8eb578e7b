//! Groups reserved for the fabric itself: their frames go to the control plane, regardless of any
//! policy (SPEC.md, 14).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All systems, and where IGMPv3 reports go (RFC 3376, 4.2.14).
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::new(224, 0, 0, 22)];
/// All nodes, all routers, and where MLDv2 reports go (RFC 3810, 5.2.14).
const V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0x16),
];
/// Where neighbour solicitations go, 104 bits (RFC 4291, 2.7.1).
const SOLICITED: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00, 0);

/// The reserved groups, as prefixes: address and leading bits.
pub fn reserved_groups() -> impl Iterator<Item = (IpAddr, u8)> {
    let v4 = V4.into_iter().map(|ip| (IpAddr::V4(ip), 32));
    let v6 = V6.into_iter().map(|ip| (IpAddr::V6(ip), 128));
    v4.chain(v6).chain([(IpAddr::V6(SOLICITED), 104)])
}

/// Whether a group is one of those.
pub fn is_reserved_group(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => V4.contains(&ip),
        IpAddr::V6(ip) => V6.contains(&ip) || ip.to_bits() >> 24 == SOLICITED.to_bits() >> 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_neighbour_discovery_and_group_management_are_reserved() {
        for (ip, reserved) in [
            ("224.0.0.1", true),
            ("224.0.0.22", true),
            ("224.0.0.251", false),
            ("ff02::1", true),
            ("ff02::16", true),
            ("ff02::fb", false),
            ("ff02::1:ff12:3456", true),
            ("ff02::1:fe12:3456", false),
        ] {
            assert_eq!(is_reserved_group(ip.parse().unwrap()), reserved, "{ip}");
        }
        assert_eq!(reserved_groups().filter(|(ip, _)| is_reserved_group(*ip)).count(), 6);
    }
}
