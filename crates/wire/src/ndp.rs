//! Neighbour discovery (RFC 4861, 4): the ICMPv6 messages 133 to 137 and their options.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |  type 133–137 |   code = 0    |           checksum            |
//! +---------------+---------------+-------------------------------+
//! | RS, NS, redirect: reserved   NA: R|S|O, reserved              |
//! | RA: hop limit | M|O, reserved | router lifetime (s)           |
//! +---------------------------------------------------------------+
//! | RA: reachable time (ms), retransmission timer (ms)            |
//! | NS, NA, redirect: target (16); redirect: destination (16)     |
//! +---------------+---------------+-------------------------------+
//! | option type   | len (8 bytes) | …                             |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! The caller checks what is outside the message: hop limit 255 ([`HOP_LIMIT`]), source address
//! and checksum (RFC 4861, 6.1 and 7.1).

use std::fmt;
use std::net::Ipv6Addr;

use crate::bytes::{array_at, put, put_u16, put_u32, u16_at, u32_at};
use crate::error::{Error, Format, need};
use crate::icmpv6;
use crate::mac::MacAddr;

/// Every message is sent with, and believed only with, this hop limit: no router passed it.
pub const HOP_LIMIT: u8 = 255;

/// The group in which a node listens for questions after this address (RFC 4291, 2.7.1).
pub const fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let low = target.to_bits() & 0xFF_FFFF;
    Ipv6Addr::from_bits(0xFF02 << 112 | 0x1_FF00_0000 | low)
}

/// Bytes before the options, by message type.
const fn fixed_len(kind: u8) -> Option<usize> {
    match kind {
        133 => Some(8),
        134 => Some(16),
        135 | 136 => Some(24),
        137 => Some(40),
        _ => None,
    }
}

/// A view of a message; the buffer must end where the message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks type, code, length, and that the target of NS, NA and redirect is not multicast
    /// (RFC 4861, 7.1.1, 7.1.2, 8.1). Options are checked as they are walked.
    ///
    /// # Errors
    /// Truncated: the message ends before its options. Invalid: the type is not 133 to 137, the
    /// code not 0, or the target multicast.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Packet<T>, Error> {
        let b = bytes.as_ref();
        need(Format::Ndp, b.len(), icmpv6::HEADER_LEN)?;
        let len = fixed_len(b[0]).ok_or(Error::invalid(Format::Ndp, "type", b[0].into()))?;
        if b[1] != 0 {
            return Err(Error::invalid(Format::Ndp, "code", b[1].into()));
        }
        need(Format::Ndp, b.len(), len)?;
        if matches!(b[0], 135..=137) && b[8] == 0xFF {
            return Err(Error::invalid(Format::Ndp, "target", b[8].into()));
        }
        Ok(Packet(bytes))
    }

    /// The type, 133 to 137.
    #[inline(always)]
    pub fn kind(&self) -> u8 {
        self.0.as_ref()[0]
    }

    /// The target of NS, NA and redirect; none in the others.
    #[inline(always)]
    pub fn target(&self) -> Option<Ipv6Addr> {
        matches!(self.kind(), 135..=137).then(|| array_at::<16>(self.0.as_ref(), 8).into())
    }

    /// Walks the options.
    pub fn options(&self) -> Options<'_> {
        let b = self.0.as_ref();
        Options { rest: &b[fixed_len(b[0]).unwrap_or(b.len())..] }
    }
}

/// Walks options as their type and whole bytes. A malformed one (RFC 4861, 4.6: length 0, or
/// beyond the end) is yielded as one error, and the walk ends.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u8, &'a [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        if let Err(e) = need(Format::NdpOption, rest.len(), 8) {
            return Some(Err(e));
        }
        let len = 8 * usize::from(rest[1]);
        if len == 0 {
            return Some(Err(Error::invalid(Format::NdpOption, "length", 0)));
        }
        if let Err(e) = need(Format::NdpOption, rest.len(), len) {
            return Some(Err(e));
        }
        self.rest = &rest[len..];
        Some(Ok((rest[0], &rest[..len])))
    }
}

/// One option (RFC 4861, 4.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NdpOption {
    /// Link-layer address of the sender (type 1).
    SourceLinkLayer(MacAddr),
    /// Link-layer address of the target (type 2).
    TargetLinkLayer(MacAddr),
    /// A prefix of the link (type 3).
    Prefix(Prefix),
    /// The link's MTU, in bytes (type 5).
    Mtu(u32),
    /// Any other option, or one of the above with an unusual length: its type and the bytes after
    /// its length byte, 6 bytes plus a multiple of 8.
    Other(u8, Vec<u8>),
}

/// A prefix (RFC 4861, 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Leading bits that count, 0 to 128.
    pub prefix_len: u8,
    /// Its addresses are on this link.
    pub on_link: bool,
    /// Hosts may make themselves addresses in it (RFC 4862).
    pub autonomous: bool,
    /// Seconds; all ones is for ever.
    pub valid_lifetime_s: u32,
    /// Seconds; all ones is for ever.
    pub preferred_lifetime_s: u32,
    /// The prefix.
    pub prefix: Ipv6Addr,
}

impl NdpOption {
    fn parse(kind: u8, b: &[u8]) -> Result<NdpOption, Error> {
        Ok(match (kind, b.len()) {
            (1, 8) => NdpOption::SourceLinkLayer(MacAddr(array_at(b, 2))),
            (2, 8) => NdpOption::TargetLinkLayer(MacAddr(array_at(b, 2))),
            (3, 32) if b[2] > 128 => {
                return Err(Error::invalid(Format::NdpOption, "prefix length", b[2].into()));
            }
            (3, 32) => NdpOption::Prefix(Prefix {
                prefix_len: b[2],
                on_link: b[3] & 0x80 != 0,
                autonomous: b[3] & 0x40 != 0,
                valid_lifetime_s: u32_at(b, 4),
                preferred_lifetime_s: u32_at(b, 8),
                prefix: array_at::<16>(b, 16).into(),
            }),
            (5, 8) => NdpOption::Mtu(u32_at(b, 4)),
            _ => NdpOption::Other(kind, b[2..].to_vec()),
        })
    }

    fn len(&self) -> usize {
        match self {
            NdpOption::Prefix(_) => 32,
            NdpOption::Other(_, data) => 2 + data.len(),
            _ => 8,
        }
    }

    /// Writes into exactly `len` bytes.
    fn emit(&self, b: &mut [u8]) -> Result<(), Error> {
        let units = match u8::try_from(b.len() / 8) {
            Ok(units @ 1..) if b.len().is_multiple_of(8) => units,
            _ => {
                let len = u32::try_from(b.len()).unwrap_or(u32::MAX);
                return Err(Error::invalid(Format::NdpOption, "length", len));
            }
        };
        b.fill(0);
        b[1] = units;
        match self {
            NdpOption::SourceLinkLayer(mac) => {
                b[0] = 1;
                put(b, 2, &mac.0);
            }
            NdpOption::TargetLinkLayer(mac) => {
                b[0] = 2;
                put(b, 2, &mac.0);
            }
            NdpOption::Prefix(p) => {
                if p.prefix_len > 128 {
                    let len = p.prefix_len.into();
                    return Err(Error::invalid(Format::NdpOption, "prefix length", len));
                }
                b[0] = 3;
                b[2] = p.prefix_len;
                b[3] = u8::from(p.on_link) << 7 | u8::from(p.autonomous) << 6;
                put_u32(b, 4, p.valid_lifetime_s);
                put_u32(b, 8, p.preferred_lifetime_s);
                put(b, 16, &p.prefix.octets());
            }
            NdpOption::Mtu(mtu) => {
                b[0] = 5;
                put_u32(b, 4, *mtu);
            }
            NdpOption::Other(kind, data) => {
                b[0] = *kind;
                put(b, 2, data);
            }
        }
        Ok(())
    }
}

/// A message's own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Router solicitation (133).
    RouterSolicitation,
    /// Router advertisement (134).
    RouterAdvertisement {
        /// Hop limit for hosts to use; 0 says nothing.
        hop_limit: u8,
        /// Addresses by DHCPv6.
        managed: bool,
        /// Other configuration by DHCPv6.
        other_config: bool,
        /// Seconds as a default router; 0 is not one.
        router_lifetime_s: u16,
        /// Milliseconds; 0 says nothing.
        reachable_ms: u32,
        /// Milliseconds between solicitations; 0 says nothing.
        retransmit_ms: u32,
    },
    /// Neighbour solicitation (135).
    NeighborSolicitation {
        /// The address whose link-layer address is requested.
        target: Ipv6Addr,
    },
    /// Neighbour advertisement (136).
    NeighborAdvertisement {
        /// The sender is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces the cached address.
        override_cache: bool,
        /// The address whose link-layer address is announced.
        target: Ipv6Addr,
    },
    /// Redirect (137).
    Redirect {
        /// The better first hop.
        target: Ipv6Addr,
        /// For this destination.
        destination: Ipv6Addr,
    },
}

/// The meaning of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Its own fields.
    pub message: Message,
    /// Its options, in order.
    pub options: Vec<NdpOption>,
}

impl Repr {
    /// The meaning of `packet`; the checksum is for `icmpv6::Packet::checksum_ok`.
    ///
    /// # Errors
    /// Truncated or invalid: an option is, which makes the whole message void (RFC 4861, 6.1.1:
    /// "all included options have a length that is greater than zero").
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        let b = packet.0.as_ref();
        let target = || Ipv6Addr::from(array_at::<16>(b, 8));
        let message = match b[0] {
            133 => Message::RouterSolicitation,
            134 => Message::RouterAdvertisement {
                hop_limit: b[4],
                managed: b[5] & 0x80 != 0,
                other_config: b[5] & 0x40 != 0,
                router_lifetime_s: u16_at(b, 6),
                reachable_ms: u32_at(b, 8),
                retransmit_ms: u32_at(b, 12),
            },
            135 => Message::NeighborSolicitation { target: target() },
            136 => Message::NeighborAdvertisement {
                router: b[4] & 0x80 != 0,
                solicited: b[4] & 0x40 != 0,
                override_cache: b[4] & 0x20 != 0,
                target: target(),
            },
            137 => {
                Message::Redirect { target: target(), destination: array_at::<16>(b, 24).into() }
            }
            kind => return Err(Error::invalid(Format::Ndp, "type", kind.into())),
        };
        let options = packet
            .options()
            .map(|o| o.and_then(|(kind, bytes)| NdpOption::parse(kind, bytes)))
            .collect::<Result<_, _>>()?;
        Ok(Repr { message, options })
    }

    fn kind(&self) -> u8 {
        match self.message {
            Message::RouterSolicitation => 133,
            Message::RouterAdvertisement { .. } => 134,
            Message::NeighborSolicitation { .. } => 135,
            Message::NeighborAdvertisement { .. } => 136,
            Message::Redirect { .. } => 137,
        }
    }

    /// Bytes that `emit` writes: the whole message.
    pub fn buffer_len(&self) -> usize {
        let options: usize = self.options.iter().map(NdpOption::len).sum();
        fixed_len(self.kind()).unwrap_or(0) + options
    }

    /// Writes the message, without a checksum, at the start of `buf`;
    /// [`icmpv6::Packet::fill_checksum`] completes it.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: an option's length is not a
    /// multiple of 8, a prefix longer than 128, or a multicast target.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        need(Format::Ndp, buf.len(), self.buffer_len())?;
        let kind = self.kind();
        let fixed = fixed_len(kind).unwrap_or(0);
        buf[..fixed].fill(0);
        buf[0] = kind;
        match self.message {
            Message::RouterSolicitation => {}
            Message::RouterAdvertisement {
                hop_limit,
                managed,
                other_config,
                router_lifetime_s,
                reachable_ms,
                retransmit_ms,
            } => {
                buf[4] = hop_limit;
                buf[5] = u8::from(managed) << 7 | u8::from(other_config) << 6;
                put_u16(buf, 6, router_lifetime_s);
                put_u32(buf, 8, reachable_ms);
                put_u32(buf, 12, retransmit_ms);
            }
            Message::NeighborSolicitation { target } => put(buf, 8, &target.octets()),
            Message::NeighborAdvertisement { router, solicited, override_cache, target } => {
                let flags = [router, solicited, override_cache];
                buf[4] = flags.iter().fold(0, |f, &bit| f << 1 | u8::from(bit)) << 5;
                put(buf, 8, &target.octets());
            }
            Message::Redirect { target, destination } => {
                put(buf, 8, &target.octets());
                put(buf, 24, &destination.octets());
            }
        }
        if matches!(kind, 135..=137) && buf[8] == 0xFF {
            return Err(Error::invalid(Format::Ndp, "target", 0xFF));
        }
        let mut rest = &mut buf[fixed..];
        for option in &self.options {
            let (here, behind) = rest.split_at_mut(option.len());
            option.emit(here)?;
            rest = behind;
        }
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message {
            Message::RouterSolicitation => f.write_str("router solicitation")?,
            Message::RouterAdvertisement { router_lifetime_s, .. } => {
                write!(f, "router advertisement, lifetime {router_lifetime_s} s")?;
            }
            Message::NeighborSolicitation { target } => write!(f, "who has {target}")?,
            Message::NeighborAdvertisement { target, .. } => write!(f, "{target} is here")?,
            Message::Redirect { target, destination } => {
                write!(f, "redirect {destination} to {target}")?;
            }
        }
        for option in &self.options {
            match option {
                NdpOption::SourceLinkLayer(mac) => write!(f, ", source {mac}")?,
                NdpOption::TargetLinkLayer(mac) => write!(f, ", is-at {mac}")?,
                NdpOption::Prefix(p) => write!(f, ", prefix {}/{}", p.prefix, p.prefix_len)?,
                NdpOption::Mtu(mtu) => write!(f, ", mtu {mtu}")?,
                NdpOption::Other(kind, _) => write!(f, ", option {kind}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn both_ways(repr: &Repr, text: &str) -> Vec<u8> {
        let mut out = vec![0xEE; repr.buffer_len()];
        repr.emit(&mut out).unwrap();
        assert_eq!(Repr::parse(&Packet::new_checked(&out[..]).unwrap()).as_ref(), Ok(repr));
        assert_eq!(repr.to_string(), text);
        assert!(repr.emit(&mut vec![0; out.len() - 1]).unwrap_err().is_truncated());
        out
    }

    #[test]
    fn a_solicitation_has_the_bytes_of_the_rfc() {
        let target = "fe80::2".parse().unwrap();
        let message = Message::NeighborSolicitation { target };
        let repr = Repr { message, options: vec![NdpOption::SourceLinkLayer(MAC)] };
        let bytes = both_ways(&repr, "who has fe80::2, source 02:00:00:00:00:01");
        let by_hand = [
            135, 0, 0, 0, 0, 0, 0, 0, 0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 1,
            2, 0, 0, 0, 0, 1,
        ];
        assert_eq!(bytes, by_hand);
        assert_eq!(Packet::new_checked(&bytes[..]).unwrap().target(), Some(target));
    }

    #[test]
    fn an_advertisement_puts_its_flags_in_place() {
        let target = "fe80::2".parse().unwrap();
        let message = Message::NeighborAdvertisement {
            router: true,
            solicited: false,
            override_cache: true,
            target,
        };
        let repr = Repr { message, options: vec![NdpOption::TargetLinkLayer(MAC)] };
        let bytes = both_ways(&repr, "fe80::2 is here, is-at 02:00:00:00:00:01");
        assert_eq!(bytes[..5], [136, 0, 0, 0, 0xA0]);
    }

    #[test]
    fn router_messages_and_redirects_go_both_ways() {
        let solicitation = Repr { message: Message::RouterSolicitation, options: vec![] };
        both_ways(&solicitation, "router solicitation");
        let message = Message::RouterAdvertisement {
            hop_limit: 64,
            managed: false,
            other_config: true,
            router_lifetime_s: 1800,
            reachable_ms: 30_000,
            retransmit_ms: 1_000,
        };
        let prefix = Prefix {
            prefix_len: 64,
            on_link: true,
            autonomous: true,
            valid_lifetime_s: u32::MAX,
            preferred_lifetime_s: 600,
            prefix: "2001:db8::".parse().unwrap(),
        };
        let other = NdpOption::Other(25, vec![0; 22]);
        let options = vec![NdpOption::Mtu(1500), NdpOption::Prefix(prefix), other];
        let bytes = both_ways(
            &Repr { message, options },
            "router advertisement, lifetime 1800 s, mtu 1500, prefix 2001:db8::/64, option 25",
        );
        assert_eq!(bytes[4..8], [64, 0x40, 0x07, 0x08]);
        assert_eq!(bytes[24..28], [3, 4, 64, 0xC0]);
        let target = "fe80::9".parse().unwrap();
        let destination = "2001:db8::7".parse().unwrap();
        let redirect = Message::Redirect { target, destination };
        both_ways(&Repr { message: redirect, options: vec![] }, "redirect 2001:db8::7 to fe80::9");
    }

    #[test]
    fn void_messages_are_refused_by_name() {
        let mut good = [0; 32];
        good[..2].copy_from_slice(&[135, 0]);
        good[24..26].copy_from_slice(&[1, 1]);
        for n in 0..24 {
            assert!(Packet::new_checked(&good[..n]).unwrap_err().is_truncated(), "{n}");
        }
        let cases: [(usize, u8, &str); 5] = [
            (0, 128, "neighbour discovery: bad type 128"),
            (1, 1, "neighbour discovery: bad code 1"),
            (8, 0xFF, "neighbour discovery: bad target 255"),
            (25, 0, "neighbour discovery option: bad length 0"),
            (25, 2, "neighbour discovery option: truncated, 16 bytes needed and 8 there"),
        ];
        for (at, value, text) in cases {
            let mut b = good;
            b[at] = value;
            let e = Packet::new_checked(&b[..]).and_then(|p| Repr::parse(&p)).unwrap_err();
            assert_eq!(e.to_string(), text);
        }
        let target = Ipv6Addr::LOCALHOST;
        let odd = Repr {
            message: Message::NeighborSolicitation { target },
            options: vec![NdpOption::Other(9, vec![0; 7])],
        };
        assert!(odd.emit(&mut vec![0; odd.buffer_len()]).is_err());
    }
}
