//! IP prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An IP prefix without host bits. Order: IPv4 before IPv6, then by address, the shorter first: a
/// prefix comes before all that it covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

/// Why something is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Not `address/length`.
    #[error("a prefix is ADDRESS/LENGTH, as in 192.0.2.0/24")]
    Form,
    /// Longer than the address: 32 or 128 bits at most.
    #[error("length {0}: IPv4 has at most 32 bits, IPv6 128")]
    Length(u8),
    /// Host bits are set; this is the prefix without them.
    #[error("bits behind the length are set; without them it is {0}")]
    HostBits(Prefix),
}

/// Bits of an address.
const fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

fn masked(addr: IpAddr, len: u8) -> IpAddr {
    match addr {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            Ipv4Addr::from_bits(a.to_bits() & mask).into()
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            Ipv6Addr::from_bits(a.to_bits() & mask).into()
        }
    }
}

impl Prefix {
    /// The prefix with this address and length.
    ///
    /// # Errors
    /// The length exceeds the address, or host bits are set.
    pub fn new(addr: IpAddr, len: u8) -> Result<Prefix, PrefixError> {
        let prefix = Prefix::around(addr, len)?;
        if prefix.addr == addr { Ok(prefix) } else { Err(PrefixError::HostBits(prefix)) }
    }

    /// The prefix of this length that the address is in.
    ///
    /// # Errors
    /// The length is beyond the address.
    pub fn around(addr: IpAddr, len: u8) -> Result<Prefix, PrefixError> {
        if len > width(addr) {
            return Err(PrefixError::Length(len));
        }
        Ok(Prefix { addr: masked(addr, len), len })
    }

    /// The prefix of this address alone.
    pub fn host(addr: IpAddr) -> Prefix {
        Prefix { addr, len: width(addr) }
    }

    /// The lowest address.
    pub const fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The highest address.
    pub fn last(&self) -> IpAddr {
        match self.addr {
            IpAddr::V4(a) => {
                let host = u32::MAX.checked_shr(self.len.into()).unwrap_or(0);
                Ipv4Addr::from_bits(a.to_bits() | host).into()
            }
            IpAddr::V6(a) => {
                let host = u128::MAX.checked_shr(self.len.into()).unwrap_or(0);
                Ipv6Addr::from_bits(a.to_bits() | host).into()
            }
        }
    }

    /// How many bits it fixes.
    #[expect(clippy::len_without_is_empty, reason = "a length in bits, not of a collection")]
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// How many bits its addresses have.
    pub const fn width(&self) -> u8 {
        width(self.addr)
    }

    /// True if it is of one address.
    pub const fn is_host(&self) -> bool {
        self.len == width(self.addr)
    }

    /// True if the address is in it.
    pub fn contains(&self, addr: IpAddr) -> bool {
        width(addr) == width(self.addr) && masked(addr, self.len) == self.addr
    }

    /// True if all of the other's addresses are in it: of its own too.
    pub fn covers(&self, other: &Prefix) -> bool {
        self.len <= other.len && self.contains(other.addr)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (addr, len) = text.split_once('/').ok_or(PrefixError::Form)?;
        if len.is_empty() || !len.bytes().all(|b| b.is_ascii_digit()) {
            return Err(PrefixError::Form);
        }
        let addr = addr.parse().map_err(|_| PrefixError::Form)?;
        Prefix::new(addr, len.parse().map_err(|_| PrefixError::Form)?)
    }
}

/// As text, so that files and recordings are human-readable.
impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Prefix, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_back_and_host_bits_are_refused() {
        for text in ["0.0.0.0/0", "10.0.0.0/8", "192.0.2.1/32", "::/0", "2001:db8::/32", "::1/128"]
        {
            let prefix: Prefix = text.parse().unwrap();
            assert_eq!(prefix.to_string(), text);
            assert!(prefix.contains(prefix.addr()) && prefix.contains(prefix.last()));
        }
        let host: Prefix = "10.0.0.0/8".parse().unwrap();
        assert_eq!("10.1.0.0/8".parse::<Prefix>(), Err(PrefixError::HostBits(host)));
        assert_eq!("10.0.0.0/33".parse::<Prefix>(), Err(PrefixError::Length(33)));
        for bad in ["", "10.0.0.0", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "::/999", "/8"] {
            assert_eq!(bad.parse::<Prefix>(), Err(PrefixError::Form), "{bad:?}");
        }
    }

    #[test]
    fn covered_addresses_are_between_the_first_and_the_last() {
        let p = |text: &str| text.parse::<Prefix>().unwrap();
        assert!(p("10.0.0.0/8").covers(&p("10.2.0.0/16")));
        assert!(p("10.0.0.0/8").covers(&p("10.0.0.0/8")));
        assert!(!p("10.2.0.0/16").covers(&p("10.0.0.0/8")));
        assert!(!p("0.0.0.0/0").covers(&p("::/0")));
        assert_eq!(p("10.0.0.0/8").last().to_string(), "10.255.255.255");
        assert_eq!(p("0.0.0.0/0").last().to_string(), "255.255.255.255");
        assert_eq!(p("2001:db8::/127").last().to_string(), "2001:db8::1");
        assert!(p("10.0.0.0/8") < p("10.0.0.0/16") && p("10.255.0.0/16") < p("11.0.0.0/8"));
    }
}
