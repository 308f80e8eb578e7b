//! UDP (RFC 768; over IPv6, RFC 8200, 8.1).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |       length (header too)     |     checksum (0: none)        |
//! +-------------------------------+-------------------------------+
//! ```

use std::fmt;

use crate::bytes::{fields, put_u16, u16_at};
use crate::checksum::Sum;
use crate::error::{Error, Format, need};

/// Bytes in the header.
pub const HEADER_LEN: usize = 8;

/// A view of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<T>(T);

fields! {
    Datagram {
        /// Source port.
        src_port: u16 = 0,
        /// Destination port.
        dst_port: u16 = 2,
        /// The checksum as stored; 0 if the sender computed none.
        checksum / set_checksum: u16 = 6,
    }
}

impl<T: AsRef<[u8]>> Datagram<T> {
    /// Checks the length field against the buffer. Bytes behind it are not payload.
    ///
    /// # Errors
    /// Truncated: the buffer ends before the header or the stated length. Invalid: a length
    /// below 8.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Datagram<T>, Error> {
        let b = bytes.as_ref();
        need(Format::Udp, b.len(), HEADER_LEN)?;
        let len = u16_at(b, 4);
        if usize::from(len) < HEADER_LEN {
            return Err(Error::invalid(Format::Udp, "length", len.into()));
        }
        need(Format::Udp, b.len(), len.into())?;
        Ok(Datagram(bytes))
    }

    /// Bytes in header and payload.
    #[inline(always)]
    pub fn datagram_len(&self) -> usize {
        usize::from(u16_at(self.0.as_ref(), 4))
    }

    fn sum(&self, pseudo_header: Sum) -> Sum {
        pseudo_header.with(&self.0.as_ref()[..self.datagram_len()])
    }

    /// True if the checksum is right. Over IPv4 a missing one is right (RFC 768); over IPv6 it is
    /// not (RFC 8200, 8.1), so ask [`checksum`](Self::checksum) first there.
    pub fn checksum_ok(&self, pseudo_header: Sum) -> bool {
        self.checksum() == 0 || self.sum(pseudo_header).is_right()
    }
}

impl<'a> Datagram<&'a [u8]> {
    /// The payload.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_LEN..self.datagram_len()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// Computes the checksum afresh; never 0.
    pub fn fill_checksum(&mut self, pseudo_header: Sum) {
        self.set_checksum(0);
        self.set_checksum(self.sum(pseudo_header).finish_udp());
    }

    /// The payload, for rewriting.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let to = self.datagram_len();
        &mut self.0.as_mut()[HEADER_LEN..to]
    }
}

/// The meaning of a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes after the header.
    pub payload_len: usize,
}

impl Repr {
    /// The meaning of `datagram`'s header; the checksum is for `checksum_ok`.
    ///
    /// # Errors
    /// None today: the view has checked everything.
    pub fn parse<T: AsRef<[u8]>>(datagram: &Datagram<T>) -> Result<Repr, Error> {
        Ok(Repr {
            src_port: datagram.src_port(),
            dst_port: datagram.dst_port(),
            payload_len: datagram.datagram_len() - HEADER_LEN,
        })
    }

    /// Bytes that `emit` writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, without a checksum, at the start of `buf`. With the payload in place,
    /// [`Datagram::fill_checksum`] completes it.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: the payload is too long.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        need(Format::Udp, buf.len(), HEADER_LEN)?;
        let len = u16::try_from(HEADER_LEN + self.payload_len).map_err(|_| {
            let len = u32::try_from(self.payload_len).unwrap_or(u32::MAX);
            Error::invalid(Format::Udp, "payload length", len)
        })?;
        put_u16(buf, 0, self.src_port);
        put_u16(buf, 2, self.dst_port);
        put_u16(buf, 4, len);
        put_u16(buf, 6, 0);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} UDP length {}", self.src_port, self.dst_port, self.payload_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;

    /// 192.168.0.31 > 192.168.0.30, 20 > 10, "Hi".
    const BYTES: [u8; 10] = [0, 20, 0, 10, 0, 10, 0x35, 0xC5, b'H', b'i'];

    fn pseudo() -> Sum {
        let (src, dst) = ([192, 168, 0, 31].into(), [192, 168, 0, 30].into());
        Sum::pseudo_v4(src, dst, Protocol::UDP, 10)
    }

    #[test]
    fn a_datagram_is_read_and_written_back() {
        let view = Datagram::new_checked(&BYTES[..]).unwrap();
        let repr = Repr::parse(&view).unwrap();
        assert_eq!(repr.to_string(), "20 > 10 UDP length 2");
        assert_eq!(view.payload(), b"Hi");
        assert!(view.checksum_ok(pseudo()));
        let mut out = *b"xxxxxxxxHi";
        repr.emit(&mut out).unwrap();
        Datagram::new_checked(&mut out[..]).unwrap().fill_checksum(pseudo());
        assert_eq!(out, BYTES);
    }

    #[test]
    fn lengths_are_held_against_the_buffer() {
        let mut b = BYTES;
        b[5] = 11;
        assert!(Datagram::new_checked(b).unwrap_err().is_truncated());
        b[5] = 7;
        assert_eq!(Datagram::new_checked(b).unwrap_err().to_string(), "UDP: bad length 7");
        b[5] = 9;
        assert_eq!(Datagram::new_checked(&b[..]).unwrap().payload(), b"H");
        assert!(Datagram::new_checked(&BYTES[..7]).unwrap_err().is_truncated());
        let long = Repr { src_port: 1, dst_port: 2, payload_len: 65_528 };
        assert!(long.emit(&mut [0; 8]).is_err());
    }

    #[test]
    fn a_missing_checksum_is_right_and_a_wrong_one_is_not() {
        let mut b = BYTES;
        b[9] ^= 1;
        let mut view = Datagram::new_checked(b).unwrap();
        assert!(!view.checksum_ok(pseudo()));
        view.set_checksum(0);
        assert!(view.checksum_ok(pseudo()));
    }
}
