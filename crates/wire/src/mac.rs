//! Ethernet addresses (IEEE 802, 8.2).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A 48-bit Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones: every station.
    pub const BROADCAST: MacAddr = MacAddr([0xFF; 6]);

    /// True for group addresses, broadcast included.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// The address as an integer of 48 bits, first byte highest.
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address in the lower 48 bits.
    pub const fn from_u64(v: u64) -> MacAddr {
        let [_, _, a, b, c, d, e, f] = v.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    /// An address derived from a name: locally administered, the same for the same name (FNV-1a);
    /// `attempt` counts the addresses already in use.
    pub fn derived(name: &str, attempt: u64) -> MacAddr {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        // FNV's upper bits move little for short names: fold them with the lower ones.
        let folded = (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        MacAddr::from_u64(0x0200_0000_0000 | folded & 0x00FF_FFFF_FFFF)
    }

    /// The IPv6 link-local address derived from it (RFC 4291, appendix A).
    pub const fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        let id = u64::from_be_bytes([a ^ 2, b, c, 0xFF, 0xFE, d, e, f]);
        Ipv6Addr::from_bits(0xFE80 << 112 | id as u128)
    }

    /// Where packets to an IP group go (RFC 1112, 6.4: 32 IPv4 groups share an address; RFC 2464,
    /// 7). None: not a group's address.
    pub fn of_group(ip: IpAddr) -> Option<MacAddr> {
        if !ip.is_multicast() {
            return None;
        }
        Some(match ip {
            IpAddr::V4(ip) => {
                let [_, b, c, d] = ip.octets();
                MacAddr([0x01, 0x00, 0x5E, b & 0x7F, c, d])
            }
            IpAddr::V6(ip) => {
                let [.., c, d, e, f] = ip.octets();
                MacAddr([0x33, 0x33, c, d, e, f])
            }
        })
    }
}

/// As text, so that files and recordings are human-readable.
impl serde::Serialize for MacAddr {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for MacAddr {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<MacAddr, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, w: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(w, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// Why a text is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an Ethernet address is six hexadecimal bytes, as in 02:00:00:00:00:01")]
pub struct MacAddrError;

impl FromStr for MacAddr {
    type Err = MacAddrError;

    fn from_str(s: &str) -> Result<MacAddr, MacAddrError> {
        let separator = if s.contains('-') { '-' } else { ':' };
        let mut bytes = [0; 6];
        let mut parts = s.split(separator);
        for byte in &mut bytes {
            let part = parts.next().ok_or(MacAddrError)?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(MacAddrError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| MacAddrError)?;
        }
        if parts.next().is_some() { Err(MacAddrError) } else { Ok(MacAddr(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_addresses_that_the_standards_say() {
        let of = |ip: &str| MacAddr::of_group(ip.parse().unwrap()).map(|mac| mac.to_string());
        assert_eq!(of("224.0.0.251").as_deref(), Some("01:00:5e:00:00:fb"));
        assert_eq!(of("239.255.1.2"), of("224.127.1.2"));
        assert_eq!(of("ff02::1:ff00:1").as_deref(), Some("33:33:ff:00:00:01"));
        for host in ["10.0.0.1", "255.255.255.255", "fe80::1"] {
            assert_eq!(of(host), None, "{host}");
        }
    }

    #[test]
    fn text_and_integer_forms_agree() {
        let mac: MacAddr = "02:00:5e:10:20:30".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:5e:10:20:30");
        assert_eq!("02-00-5E-10-20-30".parse(), Ok(mac));
        assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
        for bad in ["", "02:00", "02:00:5e:10:20:30:40", "02:00:5e:10:20:3g", "+2:00:5e:10:20:30"] {
            assert_eq!(bad.parse::<MacAddr>(), Err(MacAddrError), "{bad:?}");
        }
    }
}
