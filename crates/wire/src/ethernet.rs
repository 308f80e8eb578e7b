//! Ethernet II (IEEE 802.3, 3.2.6; RFC 894), from the destination to the byte before the FCS.
//!
//! ```text
//!  0               1               2               3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                      destination (48 bits)                    |
//! |                               +-------------------------------+
//! |                               |                               |
//! +-------------------------------+                               |
//! |                        source (48 bits)                       |
//! +-------------------------------+-------------------------------+
//! |     EtherType (or length)     |  payload (and padding) …      |
//! +-------------------------------+-------------------------------+
//! ```

use std::fmt;

use crate::bytes::{fields, numbers};
use crate::error::{Error, Format, need};
use crate::mac::MacAddr;

/// Bytes in the header.
pub const HEADER_LEN: usize = 14;
/// Shortest frame on a cable, FCS not counted (IEEE 802.3, 4.2.3.3).
pub const MIN_FRAME_LEN: usize = 60;

numbers! {
    /// The type of the payload (IANA "IEEE 802 Numbers").
    EtherType(u16) {
        IPV4 = 0x0800, "IPv4";
        ARP = 0x0806, "ARP";
        /// A customer VLAN tag.
        VLAN = 0x8100, "802.1Q";
        IPV6 = 0x86DD, "IPv6";
        /// Named data.
        NDN = 0x8624, "NDN";
        /// A service VLAN tag.
        SERVICE_VLAN = 0x88A8, "802.1ad";
        /// Link-layer discovery (802.1AB).
        LLDP = 0x88CC, "LLDP";
        _ => |f, n| match EtherType(n).is_length() {
            true => write!(f, "802.3 length {n}"),
            false => write!(f, "ethertype 0x{n:04x}"),
        }
    }
}

impl EtherType {
    /// True for values that are an 802.3 length, not a type (IEEE 802.3, 3.2.6: below 1536).
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }

    /// True for the two tag types that this crate reads.
    #[inline(always)]
    pub const fn is_vlan(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::SERVICE_VLAN)
    }
}

/// A view of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<T>(T);

fields! {
    Frame {
        /// The destination address.
        dst / set_dst: MacAddr = 0,
        /// The source address.
        src / set_src: MacAddr = 6,
        /// The outermost EtherType: a tag's if the frame is tagged.
        ethertype / set_ethertype: EtherType = 12,
    }
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// Truncated: fewer than 14 bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Frame<T>, Error> {
        need(Format::Ethernet, bytes.as_ref().len(), HEADER_LEN)?;
        Ok(Frame(bytes))
    }

    /// The whole frame.
    #[inline(always)]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl<'a> Frame<&'a [u8]> {
    /// The bytes after the EtherType, including padding.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// The bytes after the EtherType, for rewriting.
    #[inline(always)]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0.as_mut()[HEADER_LEN..]
    }
}

/// The meaning of an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Destination.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// The type of the payload.
    pub ethertype: EtherType,
}

impl Repr {
    /// The meaning of `frame`'s header.
    ///
    /// # Errors
    /// None today: every header of 14 bytes has a meaning.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Repr, Error> {
        Ok(Repr { dst: frame.dst(), src: frame.src(), ethertype: frame.ethertype() })
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header at the start of `buf`.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        let mut frame = Frame::new_checked(buf)?;
        frame.set_dst(self.dst);
        frame.set_src(self.src);
        frame.set_ethertype(self.ethertype);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.src, self.dst, self.ethertype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 16] =
        [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02, 0, 0, 0, 0, 0x01, 0x08, 0x06, 0xAA, 0xBB];

    #[test]
    fn a_frame_is_read_and_written_back() {
        let frame = Frame::new_checked(&BYTES[..]).unwrap();
        let repr = Repr::parse(&frame).unwrap();
        assert_eq!(repr.dst, MacAddr::BROADCAST);
        assert_eq!(repr.src, MacAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!(repr.ethertype, EtherType::ARP);
        assert_eq!(frame.payload(), [0xAA, 0xBB]);
        assert_eq!(repr.to_string(), "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff ARP");
        let mut out = [0; HEADER_LEN];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, BYTES[..14]);
    }

    #[test]
    fn thirteen_bytes_are_refused_both_ways() {
        let e = Frame::new_checked(&BYTES[..13]).unwrap_err();
        assert_eq!(e.to_string(), "Ethernet: truncated, 14 bytes needed and 13 there");
        let repr = Repr::parse(&Frame::new_checked(&BYTES[..]).unwrap()).unwrap();
        assert!(repr.emit(&mut [0; 13]).unwrap_err().is_truncated());
    }

    #[test]
    fn lengths_and_types_are_told_apart() {
        assert!(EtherType(1535).is_length());
        assert!(!EtherType(1536).is_length());
    }
}
