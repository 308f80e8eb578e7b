//! ICMP for IPv4 (RFC 792; fragmentation needed: RFC 1191; rules: RFC 1122, 3.2.2).
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |     type      |     code      |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |  by type: identifier, sequence | unused, MTU | gateway | …    |
//! +---------------------------------------------------------------+
//! |  echo data, or the header and start of the packet concerned   |
//! +---------------------------------------------------------------+
//! ```

use std::fmt;
use std::net::Ipv4Addr;

use crate::bytes::{fields, put, put_u16, u16_at};
use crate::checksum;
use crate::error::{Error, Format, need};

/// Bytes in the header.
pub const HEADER_LEN: usize = 8;

/// A view of a message; the buffer must end where the message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

fields! {
    Packet {
        /// The type.
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
        need(Format::Icmpv4, bytes.as_ref().len(), HEADER_LEN)?;
        Ok(Packet(bytes))
    }

    /// True if the checksum is right.
    pub fn checksum_ok(&self) -> bool {
        checksum::verify(self.0.as_ref())
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
    /// Turns an echo request into its reply in place (RFC 792, "Echo"). The checksum is computed
    /// afresh: a reply may be all zero, where RFC 1624's update fails (see `checksum::update`).
    pub fn answer_echo(&mut self) {
        self.0.as_mut()[0] = 0;
        self.fill_checksum();
    }

    /// Computes the checksum afresh.
    pub fn fill_checksum(&mut self) {
        put_u16(self.0.as_mut(), 2, 0);
        let sum = checksum::checksum(self.0.as_ref());
        put_u16(self.0.as_mut(), 2, sum);
    }
}

/// The meaning of a message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// Echo request (type 8).
    EchoRequest {
        /// Distinguishes pings.
        identifier: u16,
        /// Distinguishes the requests of one ping.
        sequence: u16,
    },
    /// Echo reply (type 0): identifier and sequence of the request.
    EchoReply {
        /// As in the request.
        identifier: u16,
        /// As in the request.
        sequence: u16,
    },
    /// Destination unreachable (type 3).
    Unreachable {
        /// 0 net, 1 host, 2 protocol, 3 port, 4 fragmentation needed, … (RFC 1812, 5.2.7.1).
        code: u8,
        /// Next-hop MTU in bytes with code 4 (RFC 1191, 4); else 0.
        mtu: u16,
    },
    /// Redirect (type 5).
    Redirect {
        /// 0 net, 1 host, 2 and 3 the same for a type of service.
        code: u8,
        /// The router to use.
        gateway: Ipv4Addr,
    },
    /// Time exceeded (type 11).
    TimeExceeded {
        /// 0 in transit, 1 in reassembly.
        code: u8,
    },
    /// Any other message, as it is.
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
            (8, 0) => Repr::EchoRequest { identifier: high, sequence: low },
            (0, 0) => Repr::EchoReply { identifier: high, sequence: low },
            (3, 4) => Repr::Unreachable { code, mtu: low },
            (3, _) => Repr::Unreachable { code, mtu: 0 },
            (5, _) => Repr::Redirect { code, gateway: rest.into() },
            (11, _) => Repr::TimeExceeded { code },
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
        need(Format::Icmpv4, buf.len(), HEADER_LEN)?;
        let pair = |high: u16, low: u16| (u32::from(high) << 16 | u32::from(low)).to_be_bytes();
        let (kind, code, rest) = match *self {
            Repr::EchoRequest { identifier, sequence } => (8, 0, pair(identifier, sequence)),
            Repr::EchoReply { identifier, sequence } => (0, 0, pair(identifier, sequence)),
            Repr::Unreachable { code, mtu } => (3, code, pair(0, mtu)),
            Repr::Redirect { code, gateway } => (5, code, gateway.octets()),
            Repr::TimeExceeded { code } => (11, code, [0; 4]),
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
            Repr::EchoRequest { identifier, sequence } => {
                write!(f, "ICMP echo request id {identifier} seq {sequence}")
            }
            Repr::EchoReply { identifier, sequence } => {
                write!(f, "ICMP echo reply id {identifier} seq {sequence}")
            }
            Repr::Unreachable { code: 0, .. } => f.write_str("ICMP net unreachable"),
            Repr::Unreachable { code: 1, .. } => f.write_str("ICMP host unreachable"),
            Repr::Unreachable { code: 2, .. } => f.write_str("ICMP protocol unreachable"),
            Repr::Unreachable { code: 3, .. } => f.write_str("ICMP port unreachable"),
            Repr::Unreachable { code: 4, mtu } => write!(f, "ICMP needs fragments, mtu {mtu}"),
            Repr::Unreachable { code, .. } => write!(f, "ICMP unreachable code {code}"),
            Repr::Redirect { gateway, .. } => write!(f, "ICMP redirect to {gateway}"),
            Repr::TimeExceeded { code: 0 } => f.write_str("ICMP time exceeded in transit"),
            Repr::TimeExceeded { code } => write!(f, "ICMP time exceeded code {code}"),
            Repr::Other { kind, code, .. } => write!(f, "ICMP type {kind} code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo request, id 1, seq 2, data "abc": an odd length.
    const ECHO: [u8; 11] = [8, 0, 0x33, 0x9A, 0, 1, 0, 2, b'a', b'b', b'c'];

    #[test]
    fn an_echo_is_read_written_and_answered() {
        let view = Packet::new_checked(&ECHO[..]).unwrap();
        assert!(view.checksum_ok());
        let repr = Repr::parse(&view).unwrap();
        assert_eq!(repr, Repr::EchoRequest { identifier: 1, sequence: 2 });
        assert_eq!(
            (repr.to_string().as_str(), view.payload()),
            ("ICMP echo request id 1 seq 2", &b"abc"[..])
        );
        let mut out = ECHO;
        out[..8].fill(0xEE);
        repr.emit(&mut out).unwrap();
        let mut mutable = Packet::new_checked(&mut out[..]).unwrap();
        mutable.fill_checksum();
        assert_eq!(mutable.0, ECHO);
        mutable.answer_echo();
        assert!(mutable.checksum_ok());
        assert_eq!(Repr::parse(&mutable), Ok(Repr::EchoReply { identifier: 1, sequence: 2 }));
        assert!(Packet::new_checked(&ECHO[..7]).unwrap_err().is_truncated());
    }

    #[test]
    fn the_all_zero_reply_has_a_right_checksum() {
        let mut zero = [8, 0, 0xF7, 0xFF, 0, 0, 0, 0];
        let mut view = Packet::new_checked(&mut zero[..]).unwrap();
        view.answer_echo();
        assert!(view.checksum_ok());
        assert_eq!(zero[2..4], [0xFF, 0xFF]);
    }

    #[test]
    fn errors_are_read_and_written_back() {
        for (bytes, text) in [
            ([3, 3, 0, 0, 0, 0, 0, 0], "ICMP port unreachable"),
            ([3, 4, 0, 0, 0, 0, 0x05, 0xDC], "ICMP needs fragments, mtu 1500"),
            ([11, 0, 0, 0, 0, 0, 0, 0], "ICMP time exceeded in transit"),
            ([5, 1, 0, 0, 192, 0, 2, 9], "ICMP redirect to 192.0.2.9"),
            ([13, 0, 0, 0, 1, 2, 3, 4], "ICMP type 13 code 0"),
            ([8, 9, 0, 0, 1, 2, 3, 4], "ICMP type 8 code 9"),
        ] {
            let repr = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()).unwrap();
            assert_eq!(repr.to_string(), text);
            let mut out = [0xEE; 8];
            repr.emit(&mut out).unwrap();
            assert_eq!(out, bytes);
        }
    }
}
