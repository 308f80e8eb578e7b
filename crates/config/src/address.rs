//! Addresses as files write them: a prefix, and a device's own address in its network.

use std::fmt;
use std::net::IpAddr;

use crate::controller_settings::Prefix;
use crate::document::{At, Section, quoted};
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
        Prefix { address: network(self.address, self.prefix_len), len: self.prefix_len }
    }

    /// Whether another address is in the same network; link-local ones always are (RFC 4291,
    /// 2.5.6).
    pub fn reaches(&self, other: IpAddr) -> bool {
        let link_local = matches!((self.address, other), (IpAddr::V6(_), IpAddr::V6(b))
            if b.is_unicast_link_local());
        link_local || self.network().contains(other)
    }
}

/// An address without the bits behind a prefix.
fn network(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
            IpAddr::V4((a.to_bits() & mask).into())
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0);
            IpAddr::V6((a.to_bits() & mask).into())
        }
    }
}

/// A prefix, as in `10.0.0.0/24`.
///
/// # Errors
/// When it is none, or has bits behind its length.
pub fn parse_prefix(text: &str) -> Result<Prefix, ValueError> {
    let wrong = |message: &str, help: String| ValueError::new(message, help);
    let help = || "write a prefix such as \"10.0.0.0/24\" or \"fd00::/64\"".to_string();
    let parts = text.split_once('/');
    let parsed = parts.and_then(|(ip, len)| Some((ip.parse().ok()?, len.parse().ok()?)));
    let Some((address, len)): Option<(IpAddr, u8)> = parsed else {
        return Err(wrong("this is no prefix", help()));
    };
    if len > if address.is_ipv4() { 32 } else { 128 } {
        return Err(wrong("the prefix is longer than its address", help()));
    }
    let prefix = Prefix { address: network(address, len), len };
    if address != prefix.address {
        let help = format!("write {}", quoted(&prefix.to_string()));
        return Err(wrong("the address has bits behind the prefix", help));
    }
    Ok(prefix)
}

/// The addresses of a device, under the key `address`; problems are noted.
pub fn read_addresses(section: &Section<'_>) -> Vec<InterfaceAddress> {
    let mut addresses: Vec<InterfaceAddress> = Vec::new();
    for At { value, span } in section.texts("address").unwrap_or_default() {
        match parse_interface_address(value) {
            Ok(new) if addresses.iter().any(|a| a.address == new.address) => {
                let message = format!("{} is given twice", new.address);
                section.problems().add(span, message, "name each address once");
            }
            Ok(new) => addresses.push(new),
            Err(e) => section.problems().add(span, e.message, e.help),
        }
    }
    addresses
}

/// A device's address with its prefix length, as in `10.0.0.1/24`.
///
/// # Errors
/// When it is not, or when it cannot be a host's: unspecified, multicast, the network itself or
/// its broadcast address.
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
    let prefix_len = len.parse::<u8>().ok().filter(|l| digits && *l <= bits);
    let Some(prefix_len) = prefix_len else {
        return refuse(&format!("has a prefix length outside 0 to {bits}"));
    };
    if address.is_unspecified() || address.is_multicast() {
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
