//! ICMP for IPv6 (RFC 4443). Neighbour discovery, types 133 to 137, is in [`ndp`](crate::ndp).
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |     type      |     code      |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |  by type: identifier, sequence | unused | MTU | pointer | …    |
//! +---------------------------------------------------------------+
//! |  echo data, or as much of the packet concerned as fits        |
//! +---------------------------------------------------------------+
//! ```
//!
//! The checksum covers the IPv6 pseudo-header too (RFC 4443, 2.3).

use std::fmt;

use crate::bytes::{fields, put, put_u16, u16_at};
use crate::checksum::Sum;
use crate::error::{Error, Format, need};

/// Bytes in the header.
pub const HEADER_LEN: usize = 8;

/// A view of a message; the buffer must end where the message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

fields! {
    Packet {
        /// The type; 128 and above are informational.
        kind: u8 = 0,
        /// The code.
        code: u8 = 1,
        /// The checksum as stored.
        checksum: u16 = 2,
        /// The second half of the header, whose meaning depends on the type.
        rest: [u8; 4] = 4,
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// Truncated: fewer than 8 bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Packet<T>, Error> {
        need(Format::Icmpv6, bytes.as_ref().len(), HEADER_LEN)?;
        Ok(Packet(bytes))
    }

    /// True for the types of neighbour discovery (RFC 4861, 4).
    #[inline(always)]
    pub fn is_ndp(&self) -> bool {
        matches!(self.kind(), 133..=137)
    }

    /// The whole message.
    #[inline(always)]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// True if the checksum is right.
    pub fn checksum_ok(&self, pseudo_header: Sum) -> bool {
        pseudo_header.with(self.0.as_ref()).is_right()
    }
}

impl<'a> Packet<&'a [u8]> {
    /// Echo data, or the start of the packet that an error is about.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes the checksum afresh.
    pub fn fill_checksum(&mut self, pseudo_header: Sum) {
        put_u16(self.0.as_mut(), 2, 0);
        let sum = pseudo_header.with(self.0.as_ref());
        put_u16(self.0.as_mut(), 2, sum.finish());
    }
}

/// The meaning of a message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// Destination unreachable (type 1).
    Unreachable {
        /// 0 no route, 1 prohibited, 2 beyond scope, 3 address, 4 port, … (RFC 4443, 3.1).
        code: u8,
    },
    /// Packet too big (type 2).
    PacketTooBig {
        /// Next-hop MTU, in bytes.
        mtu: u32,
    },
    /// Time exceeded (type 3).
    TimeExceeded {
        /// 0 in transit, 1 in reassembly.
        code: u8,
    },
    /// Parameter problem (type 4).
    ParameterProblem {
        /// 0 field, 1 next header, 2 option.
        code: u8,
        /// Where in the packet, in bytes.
        pointer: u32,
    },
    /// Echo request (type 128).
    EchoRequest {
        /// Distinguishes pings.
        identifier: u16,
        /// Distinguishes the requests of one ping.
        sequence: u16,
    },
    /// Echo reply (type 129): identifier and sequence of the request.
    EchoReply {
        /// As in the request.
        identifier: u16,
        /// As in the request.
        sequence: u16,
    },
    /// Any other message, as it is; neighbour discovery has a repr of its own.
    Other {
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
        /// The second half of the header.
        rest: [u8; 4],
    },
}

impl Repr {
    /// The meaning of `packet`'s header; `checksum_ok` checks the checksum.
    ///
    /// # Errors
    /// None today: unknown messages are `Other`.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        let (kind, code, rest) = (packet.kind(), packet.code(), packet.rest());
        let (high, low) = (u16_at(&rest, 0), u16_at(&rest, 2));
        Ok(match (kind, code) {
            (1, _) => Repr::Unreachable { code },
            // RFC 4443, 3.2: the code is ignored by the receiver.
            (2, _) => Repr::PacketTooBig { mtu: u32::from_be_bytes(rest) },
            (3, _) => Repr::TimeExceeded { code },
            (4, _) => Repr::ParameterProblem { code, pointer: u32::from_be_bytes(rest) },
            (128, 0) => Repr::EchoRequest { identifier: high, sequence: low },
            (129, 0) => Repr::EchoReply { identifier: high, sequence: low },
            _ => Repr::Other { kind, code, rest },
        })
    }

    /// Bytes that `emit` writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, without a checksum, at the start of `buf`. With the payload in place,
    /// [`Packet::fill_checksum`] completes it.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        need(Format::Icmpv6, buf.len(), HEADER_LEN)?;
        let pair = |high: u16, low: u16| (u32::from(high) << 16 | u32::from(low)).to_be_bytes();
        let (kind, code, rest) = match *self {
            Repr::Unreachable { code } => (1, code, [0; 4]),
            Repr::PacketTooBig { mtu } => (2, 0, mtu.to_be_bytes()),
            Repr::TimeExceeded { code } => (3, code, [0; 4]),
            Repr::ParameterProblem { code, pointer } => (4, code, pointer.to_be_bytes()),
            Repr::EchoRequest { identifier, sequence } => (128, 0, pair(identifier, sequence)),
            Repr::EchoReply { identifier, sequence } => (129, 0, pair(identifier, sequence)),
            Repr::Other { kind, code, rest } => (kind, code, rest),
        };
        put(buf, 0, &[kind, code, 0, 0]);
        put(buf, 4, &rest);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Repr::Unreachable { code: 0 } => f.write_str("ICMPv6 no route"),
            Repr::Unreachable { code: 3 } => f.write_str("ICMPv6 address unreachable"),
            Repr::Unreachable { code: 4 } => f.write_str("ICMPv6 port unreachable"),
            Repr::Unreachable { code } => write!(f, "ICMPv6 unreachable code {code}"),
            Repr::PacketTooBig { mtu } => write!(f, "ICMPv6 packet too big, mtu {mtu}"),
            Repr::TimeExceeded { code: 0 } => f.write_str("ICMPv6 time exceeded in transit"),
            Repr::TimeExceeded { code } => write!(f, "ICMPv6 time exceeded code {code}"),
            Repr::ParameterProblem { code, pointer } => {
                write!(f, "ICMPv6 parameter problem code {code} at byte {pointer}")
            }
            Repr::EchoRequest { identifier, sequence } => {
                write!(f, "ICMPv6 echo request id {identifier} seq {sequence}")
            }
            Repr::EchoReply { identifier, sequence } => {
                write!(f, "ICMPv6 echo reply id {identifier} seq {sequence}")
            }
            Repr::Other { kind, code, .. } => write!(f, "ICMPv6 type {kind} code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_written_back() {
        for (bytes, text) in [
            ([1, 4, 0, 0, 0, 0, 0, 0], "ICMPv6 port unreachable"),
            ([2, 0, 0, 0, 0, 0, 0x05, 0x00], "ICMPv6 packet too big, mtu 1280"),
            ([3, 0, 0, 0, 0, 0, 0, 0], "ICMPv6 time exceeded in transit"),
            ([4, 1, 0, 0, 0, 0, 0, 6], "ICMPv6 parameter problem code 1 at byte 6"),
            ([128, 0, 0, 0, 0, 1, 0, 2], "ICMPv6 echo request id 1 seq 2"),
            ([129, 0, 0, 0, 0, 1, 0, 2], "ICMPv6 echo reply id 1 seq 2"),
            ([143, 0, 0, 0, 0, 0, 0, 1], "ICMPv6 type 143 code 0"),
        ] {
            let view = Packet::new_checked(&bytes[..]).unwrap();
            let repr = Repr::parse(&view).unwrap();
            assert_eq!(repr.to_string(), text);
            let mut out = [0xEE; 8];
            repr.emit(&mut out).unwrap();
            assert_eq!(out, bytes);
        }
        assert!(Packet::new_checked(&[128, 0, 0, 0, 0, 1, 0][..]).unwrap_err().is_truncated());
    }

    #[test]
    fn the_checksum_covers_the_pseudo_header() {
        let (a, b) = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
        let pseudo = Sum::pseudo_v6(a, b, crate::Protocol::ICMPV6, 8);
        let mut bytes = [128, 0, 0, 0, 0, 1, 0, 2];
        Packet::new_checked(&mut bytes[..]).unwrap().fill_checksum(pseudo);
        // By hand: fe80+1+fe80+2 + 8 + 3a + 8000 + 1 + 2 = 27d48, folded 7d4a, complement 82b5.
        assert_eq!(bytes[2..4], [0x82, 0xB5]);
        assert!(Packet::new_checked(&bytes[..]).unwrap().checksum_ok(pseudo));
        let other = Sum::pseudo_v6(a, a, crate::Protocol::ICMPV6, 8);
        assert!(!Packet::new_checked(&bytes[..]).unwrap().checksum_ok(other));
    }
}
