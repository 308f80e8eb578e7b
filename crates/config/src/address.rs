//! Addresses in files: prefixes, and a device's own address in its network.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use plexus_wire::address::{is_routable, is_unicast};
use plexus_wire::{Prefix, PrefixError};

use crate::document::{Section, quoted};
use crate::error::{ValueError, quote};

/// An address of a device with the length of its network's prefix, as in `10.0.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The device's own address.
    pub address: IpAddr,
    /// Bits of the prefix: at most 32 or 128.
    pub prefix_len: u8,
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

impl InterfaceAddress {
    /// The network that the address is in.
    pub fn network(&self) -> Prefix {
        Prefix::around(self.address, self.prefix_len).unwrap_or(Prefix::host(self.address))
    }

    /// Whether another address is in the same network; link-local ones always are (RFC 4291,
    /// 2.5.6).
    pub fn reaches(&self, other: IpAddr) -> bool {
        let link_local = matches!((self.address, other), (IpAddr::V6(_), IpAddr::V6(b))
            if b.is_unicast_link_local());
        link_local || self.network().contains(other)
    }
}

/// A prefix, as in `10.0.0.0/24`.
///
/// # Errors
/// When it is not a prefix, or has host bits set.
pub fn parse_prefix(text: &str) -> Result<Prefix, ValueError> {
    text.parse().map_err(|error| {
        let help = "write a prefix such as \"10.0.0.0/24\" or \"fd00::/64\"".to_string();
        match error {
            PrefixError::Form => ValueError::new("this is no prefix", help),
            PrefixError::Length(_) => {
                ValueError::new("the prefix is longer than its address", help)
            }
            PrefixError::HostBits(prefix) => {
                let help = format!("write {}", quoted(&prefix.to_string()));
                ValueError::new("the address has bits behind the prefix", help)
            }
        }
    })
}

/// The prefix of a route.
///
/// # Errors
/// When it is none, or no router forwards to it.
pub fn parse_route_prefix(text: &str) -> Result<Prefix, ValueError> {
    let prefix = parse_prefix(text)?;
    if is_routable(&prefix) {
        return Ok(prefix);
    }
    let help = "routes lead to other networks: not to groups, loopback or link-local addresses";
    Err(ValueError::new(format!("no router forwards to {prefix}"), help))
}

/// The addresses of a device, under the key `address`; problems are noted.
pub fn read_addresses(section: &Section<'_>) -> Vec<InterfaceAddress> {
    let mut seen = HashSet::new();
    let addresses = section.list("address", |text| {
        let new = parse_interface_address(text)?;
        if !seen.insert(new.address) {
            let message = format!("{} is given twice", new.address);
            return Err(ValueError::new(message, "name each address once"));
        }
        Ok(new)
    });
    addresses.unwrap_or_default()
}

/// A device's address with its prefix length, as in `10.0.0.1/24`.
///
/// # Errors
/// When it is not, or when it cannot be a host's on a network: loopback, multicast, reserved, the
/// network itself or its broadcast address.
pub fn parse_interface_address(text: &str) -> Result<InterfaceAddress, ValueError> {
    let help = "write address and prefix length, as in \"10.0.0.1/24\" or \"fd00::1/64\"";
    let refuse = |why: &str| Err(ValueError::new(format!("{} {why}", quote(text)), help));
    let Some((address, len)) = text.split_once('/') else {
        return match text.parse::<IpAddr>() {
            Ok(_) => refuse("lacks the length of its network's prefix"),
            Err(_) => refuse("is not an IP address"),
        };
    };
    let Ok(address) = address.parse::<IpAddr>() else { return refuse("is not an IP address") };
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let digits = !len.is_empty() && len.bytes().all(|b| b.is_ascii_digit());
    let prefix_len = len.parse::<u8>().ok().filter(|l| digits && (1..=bits).contains(l));
    let Some(prefix_len) = prefix_len else {
        return refuse(&format!("has a prefix length outside 1 to {bits}"));
    };
    if !is_unicast(address) {
        return refuse("is no address of a single host");
    }
    if let IpAddr::V4(v4) = address
        && prefix_len < 31
    {
        let host_part = v4.to_bits() & (u32::MAX >> prefix_len);
        if host_part == 0 {
            return refuse("is the address of the network, not of a host in it");
        }
        if host_part == u32::MAX >> prefix_len {
            return refuse("is the broadcast address of its network");
        }
    }
    Ok(InterfaceAddress { address, prefix_len })
}
