//! IPv6 (RFC 8200, 3). Extension headers are in [`ipv6_ext`](crate::ipv6_ext).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-----------+---+---------------------------------------+
//! |Version|   DSCP    |ECN|              flow label               |
//! +-------+-----------+---+-------+---------------+---------------+
//! |         payload length        |  next header  |   hop limit   |
//! +-------------------------------+---------------+---------------+
//! |                   source address (16 bytes)                   |
//! |                destination address (16 bytes)                 |
//! +---------------------------------------------------------------+
//! ```

use std::fmt;
use std::net::Ipv6Addr;

use crate::bytes::{fields, put, put_u16, put_u32, u16_at, u32_at};
use crate::error::{Error, Format, need};
use crate::ip::Protocol;
use crate::ipv6_ext::{self, Upper};

/// Bytes in the header.
pub const HEADER_LEN: usize = 40;

/// A view of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

fields! {
    Packet {
        /// The type of the next header: an extension header or the payload.
        next_header: Protocol = 6,
        /// Hop limit.
        hop_limit: u8 = 7,
        /// Source address.
        src: Ipv6Addr = 8,
        /// Destination address; not the final one under a routing header.
        dst: Ipv6Addr = 24,
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks version and payload length against the buffer. Bytes beyond it are padding.
    /// Jumbograms (RFC 2675) are not supported: a payload length of 0 means no payload.
    ///
    /// # Errors
    /// Truncated: the buffer ends before the header or the payload length. Invalid: version other
    /// than 6.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Packet<T>, Error> {
        let packet = Packet::new_excerpt(bytes)?;
        need(Format::Ipv6, packet.0.as_ref().len(), HEADER_LEN + packet.payload_len())?;
        Ok(packet)
    }

    /// Checks the version of a packet of which the buffer may hold only the beginning, with a
    /// complete header; the payload is then the available part.
    ///
    /// # Errors
    /// As [`new_checked`](Self::new_checked), except for a buffer that ends within the payload.
    #[inline]
    pub fn new_excerpt(bytes: T) -> Result<Packet<T>, Error> {
        let b = bytes.as_ref();
        need(Format::Ipv6, b.len(), HEADER_LEN)?;
        if b[0] >> 4 != 6 {
            return Err(Error::invalid(Format::Ipv6, "version", (b[0] >> 4).into()));
        }
        Ok(Packet(bytes))
    }

    /// Traffic class: code point and ECN.
    #[inline(always)]
    pub fn traffic_class(&self) -> u8 {
        (u16_at(self.0.as_ref(), 0) >> 4) as u8
    }

    /// Differentiated services code point, 0 to 63.
    #[inline(always)]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification, 0 to 3.
    #[inline(always)]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label, 20 bits (RFC 6437).
    #[inline(always)]
    pub fn flow_label(&self) -> u32 {
        u32_at(self.0.as_ref(), 0) & 0xF_FFFF
    }

    /// Bytes after the header, including extension headers.
    #[inline(always)]
    pub fn payload_len(&self) -> usize {
        usize::from(u16_at(self.0.as_ref(), 4))
    }
}

impl<'a> Packet<&'a [u8]> {
    /// The bytes covered by the payload length, including extension headers.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_LEN..(HEADER_LEN + self.payload_len()).min(self.0.len())]
    }

    /// Walks the extension headers to the upper-layer protocol. Its offset counts from the end
    /// of the IPv6 header, that is from the start of [`payload`](Self::payload).
    ///
    /// # Errors
    /// As [`ipv6_ext::find_upper`].
    #[inline]
    pub fn upper(&self) -> Result<Upper, Error> {
        ipv6_ext::find_upper(self.next_header(), self.payload())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Rewrites the ECN field (its lower 2 bits).
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        let b = self.0.as_mut();
        b[1] = b[1] & 0xCF | (ecn & 3) << 4;
    }

    /// The payload, for rewriting.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let to = (HEADER_LEN + self.payload_len()).min(self.0.as_ref().len());
        &mut self.0.as_mut()[HEADER_LEN..to]
    }
}

/// The meaning of an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Code point and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after the header, including extension headers.
    pub payload_len: usize,
    /// The type of the next header.
    pub next_header: Protocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Repr {
    /// A header as a host sends it, hop limit 64.
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: Protocol, payload_len: usize) -> Repr {
        let (traffic_class, flow_label, hop_limit) = (0, 0, 64);
        Repr { traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst }
    }

    /// The meaning of `packet`'s header.
    ///
    /// # Errors
    /// None today: the view has checked everything.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        Ok(Repr {
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload_len(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            src: packet.src(),
            dst: packet.dst(),
        })
    }

    /// Bytes that `emit` writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header at the start of `buf`; the payload is the caller's.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: a field is out of its range.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        need(Format::Ipv6, buf.len(), HEADER_LEN)?;
        let len = u16::try_from(self.payload_len).map_err(|_| {
            let len = u32::try_from(self.payload_len).unwrap_or(u32::MAX);
            Error::invalid(Format::Ipv6, "payload length", len)
        })?;
        if self.flow_label > 0xF_FFFF {
            return Err(Error::invalid(Format::Ipv6, "flow label", self.flow_label));
        }
        put_u32(buf, 0, 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label);
        put_u16(buf, 4, len);
        buf[6] = self.next_header.0;
        buf[7] = self.hop_limit;
        put(buf, 8, &self.src.octets());
        put(buf, 24, &self.dst.octets());
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr { src, dst, next_header, hop_limit, .. } = self;
        write!(f, "{src} > {dst} {next_header} hlim {hop_limit}")?;
        f.write_str(if self.traffic_class & 3 == 3 { " CE" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2001:db8::1 > 2001:db8::2, UDP, 8 bytes, class 0xb8, label 0x12345, hop limit 64.
    const BYTES: [u8; 48] = [
        0x6B, 0x81, 0x23, 0x45, 0x00, 0x08, 0x11, 0x40, 0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 1, 0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 53, 0, 53,
        0, 8, 0, 0,
    ];

    #[test]
    fn a_header_is_read_and_written_back() {
        let view = Packet::new_checked(&BYTES[..]).unwrap();
        let repr = Repr::parse(&view).unwrap();
        assert_eq!(repr.to_string(), "2001:db8::1 > 2001:db8::2 UDP hlim 64");
        assert_eq!((view.dscp(), view.ecn(), view.flow_label()), (46, 0, 0x12345));
        assert_eq!(view.payload(), &BYTES[40..]);
        let mut out = [0xEE; 40];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, BYTES[..40]);
        assert!(Repr { flow_label: 1 << 20, ..repr }.emit(&mut out).is_err());
        assert!(Repr { payload_len: 1 << 16, ..repr }.emit(&mut out).is_err());
    }

    #[test]
    fn an_excerpt_has_a_whole_header_and_what_there_is_of_the_payload() {
        assert_eq!(Packet::new_excerpt(&BYTES[..47]).unwrap().payload(), &BYTES[40..47]);
        assert!(Packet::new_excerpt(&BYTES[..39]).unwrap_err().is_truncated());
    }

    #[test]
    fn cuts_and_other_versions_are_refused() {
        for n in 0..48 {
            assert!(Packet::new_checked(&BYTES[..n]).unwrap_err().is_truncated(), "{n}");
        }
        let mut b = BYTES;
        b[0] = 0x45;
        assert_eq!(Packet::new_checked(b).unwrap_err().to_string(), "IPv6: bad version 4");
    }

    #[test]
    fn rewrites_touch_only_their_field() {
        let mut b = BYTES;
        let mut view = Packet::new_checked(&mut b[..]).unwrap();
        view.set_ecn(3);
        assert_eq!((view.dscp(), view.ecn(), view.flow_label()), (46, 3, 0x12345));
    }
}
