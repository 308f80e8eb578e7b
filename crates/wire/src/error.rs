//! Errors of parsing: why bytes are not a valid packet.

use std::fmt;

/// The format that was being read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it all
pub enum Format {
    Ethernet,
    Vlan,
    Arp,
    Ipv4,
    Ipv4Options,
    Ipv6,
    HopByHop,
    Routing,
    Fragment,
    DestinationOptions,
    Authentication,
    Icmpv4,
    Icmpv6,
    Igmp,
    Mld,
    Ndp,
    NdpOption,
    Udp,
    Tcp,
    TcpOptions,
    Dhcpv4,
    FabricMessage,
    Fabric,
    NdnTlv,
    NdnName,
    NdnInterest,
    NdnData,
    NdnSignature,
    NdnLp,
    NdnManagement,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Ethernet => "Ethernet",
            Format::Vlan => "802.1Q tag",
            Format::Arp => "ARP",
            Format::Ipv4 => "IPv4",
            Format::Ipv4Options => "IPv4 option",
            Format::Ipv6 => "IPv6",
            Format::HopByHop => "IPv6 hop-by-hop options",
            Format::Routing => "IPv6 routing header",
            Format::Fragment => "IPv6 fragment header",
            Format::DestinationOptions => "IPv6 destination options",
            Format::Authentication => "authentication header",
            Format::Icmpv4 => "ICMPv4",
            Format::Icmpv6 => "ICMPv6",
            Format::Igmp => "IGMP",
            Format::Mld => "MLD",
            Format::Ndp => "neighbour discovery",
            Format::NdpOption => "neighbour discovery option",
            Format::Udp => "UDP",
            Format::Tcp => "TCP",
            Format::TcpOptions => "TCP option",
            Format::Dhcpv4 => "DHCP",
            Format::FabricMessage => "fabric message",
            Format::Fabric => "fabric",
            Format::NdnTlv => "NDN TLV",
            Format::NdnName => "NDN name",
            Format::NdnInterest => "NDN Interest",
            Format::NdnData => "NDN Data",
            Format::NdnSignature => "NDN signature",
            Format::NdnLp => "NDNLPv2",
            Format::NdnManagement => "NDN management",
        })
    }
}

/// The problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The bytes end before the format does, both in bytes from its first one. When writing: the
    /// buffer is too small.
    Truncated {
        /// Bytes that the format needs.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A field holds a value that the format forbids or that this crate does not speak.
    Invalid {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
    /// The checksum does not match the bytes.
    Checksum,
    /// More nested headers than any honest sender uses.
    TooMany {
        /// The limit.
        limit: usize,
    },
}

/// A packet that was refused: the format, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = self.format;
        match self.reason {
            Reason::Truncated { need, have } => {
                write!(f, "{format}: truncated, {need} bytes needed and {have} there")
            }
            Reason::Invalid { field, value } => write!(f, "{format}: bad {field} {value}"),
            Reason::Checksum => write!(f, "{format}: wrong checksum"),
            Reason::TooMany { limit } => write!(f, "{format}: more than {limit} in a row"),
        }
    }
}

impl std::error::Error for Error {}
