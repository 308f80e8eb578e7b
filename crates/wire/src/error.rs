//! Errors of parsing: why bytes are not a valid packet.

use std::fmt;

macro_rules! formats {
    ($($name:ident $text:literal,)*) => {
        /// The format that was being read or written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {$(
            #[doc = $text]
            $name,
        )*}

        impl fmt::Display for Format {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Format::$name => $text,)*
                })
            }
        }
    };
}

formats! {
    Ethernet "Ethernet",
    Vlan "802.1Q tag",
    Arp "ARP",
    Ipv4 "IPv4",
    Ipv4Options "IPv4 option",
    Ipv6 "IPv6",
    HopByHop "IPv6 hop-by-hop options",
    Routing "IPv6 routing header",
    Fragment "IPv6 fragment header",
    DestinationOptions "IPv6 destination options",
    Authentication "authentication header",
    Icmpv4 "ICMPv4",
    Icmpv6 "ICMPv6",
    Igmp "IGMP",
    Mld "MLD",
    Ndp "neighbour discovery",
    NdpOption "neighbour discovery option",
    Udp "UDP",
    Tcp "TCP",
    TcpOptions "TCP option",
    Dhcpv4 "DHCP",
    FabricMessage "fabric message",
    Fabric "fabric",
    NdnTlv "NDN TLV",
    NdnName "NDN name",
    NdnInterest "NDN Interest",
    NdnData "NDN Data",
    NdnSignature "NDN signature",
    NdnLp "NDNLPv2",
    NdnManagement "NDN management",
}

/// The problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// The bytes end before the format does, both in bytes from its first one. When writing: the
    /// buffer is too small.
    #[error("truncated, {need} bytes needed and {have} there")]
    Truncated {
        /// Bytes that the format needs.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A field holds a value that the format forbids or that this crate does not speak.
    #[error("bad {field} {value}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
    /// The checksum does not match the bytes.
    #[error("wrong checksum")]
    Checksum,
    /// More nested headers than any honest sender uses.
    #[error("more than {limit} in a row")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

/// A packet that was refused: the format, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{format}: {reason}")]
pub struct Error {
    /// Which format.
    pub format: Format,
    /// The problem.
    pub reason: Reason,
}

impl Error {
    pub(crate) const fn invalid(format: Format, field: &'static str, value: u32) -> Error {
        Error { format, reason: Reason::Invalid { field, value } }
    }

    pub(crate) const fn checksum(format: Format) -> Error {
        Error { format, reason: Reason::Checksum }
    }

    pub(crate) const fn too_many(format: Format, limit: usize) -> Error {
        Error { format, reason: Reason::TooMany { limit } }
    }

    /// True if the bytes ended too early: more of the frame might have made it a packet.
    pub const fn is_truncated(&self) -> bool {
        matches!(self.reason, Reason::Truncated { .. })
    }
}

/// Refuses a buffer of fewer than `need` bytes.
#[inline(always)]
pub(crate) fn need(format: Format, have: usize, need: usize) -> Result<(), Error> {
    if have < need {
        return Err(Error { format, reason: Reason::Truncated { need, have } });
    }
    Ok(())
}
