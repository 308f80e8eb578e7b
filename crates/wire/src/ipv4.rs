//! IPv4 (RFC 791, 3.1; validity by RFC 1122, 3.2.1 and RFC 1812, 5.2.2; ECN by RFC 3168).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-----------+---+-------------------------------+
//! |Version|  IHL  |   DSCP    |ECN|          total length         |
//! +-------+-------+-----------+---+-----+-------------------------+
//! |        identification         |0|D|M|     fragment offset     |
//! +---------------+---------------+-----+-------------------------+
//! | time to live  |   protocol    |        header checksum        |
//! +---------------+---------------+-------------------------------+
//! |                        source address                         |
//! |                      destination address                      |
//! |                    options (0 to 40 bytes)                    |
//! +---------------------------------------------------------------+
//! ```

use std::fmt;
use std::net::Ipv4Addr;

use arrayvec::ArrayVec;

use crate::bytes::{fields, next_option, put, put_u16, u16_at, u32_at};
use crate::checksum;
use crate::error::{Error, Format, need};
use crate::ip::Protocol;

/// Bytes in a header without options.
pub const HEADER_LEN: usize = 20;
/// Most bytes of options.
pub const OPTIONS_LEN_MAX: usize = 40;

/// A view of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

fields! {
    Packet {
        /// Identification, the same in all fragments of a packet.
        identification: u16 = 4,
        /// Time to live, in hops.
        ttl: u8 = 8,
        /// The payload's protocol.
        protocol: Protocol = 9,
        /// The header checksum as stored.
        checksum: u16 = 10,
        /// Source address.
        src: Ipv4Addr = 12,
        /// Destination address.
        dst: Ipv4Addr = 16,
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks version, header length and total length against the buffer (RFC 1812, 5.2.2,
    /// points 1, 3, 4 and 5). Bytes behind the total length are padding.
    ///
    /// # Errors
    /// Truncated: the buffer ends before the header or the total length. Invalid: version other
    /// than 4, header shorter than 20 bytes, total length shorter than the header.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Packet<T>, Error> {
        let packet = Packet::new_excerpt(bytes)?;
        need(Format::Ipv4, packet.0.as_ref().len(), packet.total_len())?;
        Ok(packet)
    }

    /// Checks version, header length and total length of a packet of which the buffer may hold only
    /// the beginning, with a complete header; the payload is then the available part.
    ///
    /// # Errors
    /// As [`new_checked`](Self::new_checked), except for a buffer that ends within the payload.
    #[inline]
    pub fn new_excerpt(bytes: T) -> Result<Packet<T>, Error> {
        let b = bytes.as_ref();
        need(Format::Ipv4, b.len(), HEADER_LEN)?;
        if b[0] >> 4 != 4 {
            return Err(Error::invalid(Format::Ipv4, "version", (b[0] >> 4).into()));
        }
        let header_len = usize::from(b[0] & 15) * 4;
        if header_len < HEADER_LEN {
            return Err(Error::invalid(Format::Ipv4, "header length", header_len as u32));
        }
        need(Format::Ipv4, b.len(), header_len)?;
        let total_len = usize::from(u16_at(b, 2));
        if total_len < header_len {
            return Err(Error::invalid(Format::Ipv4, "total length", total_len as u32));
        }
        Ok(Packet(bytes))
    }

    /// Bytes in the header, options included: 20 to 60.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[0] & 15) * 4
    }

    /// Bytes in header and payload.
    #[inline(always)]
    pub fn total_len(&self) -> usize {
        usize::from(u16_at(self.0.as_ref(), 2))
    }

    /// Differentiated services code point, 0 to 63 (RFC 2474).
    #[inline(always)]
    pub fn dscp(&self) -> u8 {
        self.0.as_ref()[1] >> 2
    }

    /// Explicit congestion notification: 0 not capable, 1 and 2 capable, 3 congestion met.
    #[inline(always)]
    pub fn ecn(&self) -> u8 {
        self.0.as_ref()[1] & 3
    }

    /// Routers must not fragment it.
    #[inline(always)]
    pub fn dont_fragment(&self) -> bool {
        self.0.as_ref()[6] & 0x40 != 0
    }

    /// More fragments follow.
    #[inline(always)]
    pub fn more_fragments(&self) -> bool {
        self.0.as_ref()[6] & 0x20 != 0
    }

    /// Where the payload belongs in the whole, in bytes.
    #[inline(always)]
    pub fn fragment_offset(&self) -> usize {
        usize::from(u16_at(self.0.as_ref(), 6) & 0x1FFF) * 8
    }

    /// True for every fragment, the first and the last included.
    #[inline(always)]
    pub fn is_fragment(&self) -> bool {
        u16_at(self.0.as_ref(), 6) & 0x3FFF != 0
    }

    /// True if the header checksum is right.
    #[inline]
    pub fn checksum_ok(&self) -> bool {
        checksum::verify(&self.0.as_ref()[..self.header_len()])
    }

    /// The options, as bytes.
    #[inline]
    pub fn options_bytes(&self) -> &[u8] {
        &self.0.as_ref()[HEADER_LEN..self.header_len()]
    }

    /// Walks the options.
    pub fn options(&self) -> Options<'_> {
        Options { rest: self.options_bytes() }
    }
}

impl<'a> Packet<&'a [u8]> {
    /// The payload: the total length without the header.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..self.total_len().min(self.0.len())]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Rewrites the ECN field (its lower 2 bits) and mends the checksum.
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        let b = self.0.as_mut();
        let old = u16_at(b, 0);
        let new = old & !3 | u16::from(ecn & 3);
        let sum = checksum::update(u16_at(b, 10), old, new);
        put_u16(b, 0, new);
        put_u16(b, 10, sum);
    }

    /// Rewrites the source address and mends the header checksum; a transport checksum over the
    /// pseudo-header is the caller's (`checksum::update_u32`).
    #[inline]
    pub fn set_src(&mut self, addr: Ipv4Addr) {
        self.set_addr(12, addr);
    }

    /// Rewrites the destination address, as [`set_src`](Self::set_src).
    #[inline]
    pub fn set_dst(&mut self, addr: Ipv4Addr) {
        self.set_addr(16, addr);
    }

    fn set_addr(&mut self, at: usize, addr: Ipv4Addr) {
        let b = self.0.as_mut();
        let sum = checksum::update_u32(u16_at(b, 10), u32_at(b, at), addr.to_bits());
        put(b, at, &addr.octets());
        put_u16(b, 10, sum);
    }

    /// Computes the header checksum afresh.
    pub fn fill_checksum(&mut self) {
        let len = self.header_len();
        let b = self.0.as_mut();
        put_u16(b, 10, 0);
        let sum = checksum::checksum(&b[..len]);
        put_u16(b, 10, sum);
    }

    /// The payload, for rewriting.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (from, to) = (self.header_len(), self.total_len().min(self.0.as_ref().len()));
        &mut self.0.as_mut()[from..to]
    }
}

/// One option (RFC 791, 3.1), as its type and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// The option type: copied flag, class and number.
    pub kind: u8,
    /// The bytes after the length byte; empty for no-operation.
    pub data: &'a [u8],
}

/// Walks options up to the end-of-options byte. A malformed option is yielded as one error, and
/// the walk ends.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv4Option<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let option = next_option(&mut self.rest, Format::Ipv4Options)?;
        Some(option.map(|(kind, data)| Ipv4Option { kind, data }))
    }
}

/// The meaning of an IPv4 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Explicit congestion notification, 0 to 3.
    pub ecn: u8,
    /// Identification.
    pub identification: u16,
    /// Routers must not fragment it.
    pub dont_fragment: bool,
    /// More fragments follow.
    pub more_fragments: bool,
    /// Where the payload belongs, in bytes: a multiple of 8 up to 65,528.
    pub fragment_offset: usize,
    /// Time to live, in hops.
    pub ttl: u8,
    /// The payload's protocol.
    pub protocol: Protocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// The options as bytes, a multiple of 4.
    pub options: ArrayVec<u8, OPTIONS_LEN_MAX>,
    /// Bytes after the header.
    pub payload_len: usize,
}

impl Repr {
    /// A header without options for a whole packet, TTL 64 (RFC 1700), as a host sends it.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, payload_len: usize) -> Repr {
        Repr {
            dscp: 0,
            ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            src,
            dst,
            options: ArrayVec::new(),
            payload_len,
        }
    }

    /// The meaning of `packet`'s header.
    ///
    /// # Errors
    /// Checksum: the header's is wrong (RFC 1122, 3.2.1.2: discard silently). Truncated or
    /// invalid: a malformed option.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        if !packet.checksum_ok() {
            return Err(Error::checksum(Format::Ipv4));
        }
        packet.options().try_for_each(|o| o.map(drop))?;
        let mut options = ArrayVec::new();
        options.extend(packet.options_bytes().iter().copied());
        Ok(Repr {
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
            src: packet.src(),
            dst: packet.dst(),
            options,
            payload_len: packet.total_len() - packet.header_len(),
        })
    }

    /// Bytes that `emit` writes: the header.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header, checksum included, at the start of `buf`; the payload is the caller's.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: a field is out of its range.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        let len = self.buffer_len();
        need(Format::Ipv4, buf.len(), len)?;
        let total = u16::try_from(len + self.payload_len)
            .map_err(|_| Error::invalid(Format::Ipv4, "payload length", clamp(self.payload_len)))?;
        let at = self.fragment_offset;
        for (field, value, is_valid) in [
            ("options length", self.options.len(), self.options.len().is_multiple_of(4)),
            ("fragment offset", at, at.is_multiple_of(8) && at <= 0x1FFF * 8),
            ("code point", self.dscp.into(), self.dscp <= 63),
            ("ECN", self.ecn.into(), self.ecn <= 3),
        ] {
            if !is_valid {
                return Err(Error::invalid(Format::Ipv4, field, clamp(value)));
            }
        }
        buf[0] = 0x40 | (len / 4) as u8;
        buf[1] = self.dscp << 2 | self.ecn;
        put_u16(buf, 2, total);
        put_u16(buf, 4, self.identification);
        let flags = u16::from(self.dont_fragment) << 14 | u16::from(self.more_fragments) << 13;
        put_u16(buf, 6, flags | (self.fragment_offset / 8) as u16);
        buf[8] = self.ttl;
        buf[9] = self.protocol.0;
        put_u16(buf, 10, 0);
        put(buf, 12, &self.src.octets());
        put(buf, 16, &self.dst.octets());
        put(buf, HEADER_LEN, &self.options);
        let sum = checksum::checksum(&buf[..len]);
        put_u16(buf, 10, sum);
        Ok(())
    }
}

fn clamp(v: usize) -> u32 {
    u32::try_from(v).unwrap_or(u32::MAX)
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {} ttl {}", self.src, self.dst, self.protocol, self.ttl)?;
        if self.ecn == 3 {
            f.write_str(" CE")?;
        }
        if self.more_fragments || self.fragment_offset != 0 {
            let more = if self.more_fragments { "+" } else { "" };
            let (id, len, at) = (self.identification, self.payload_len, self.fragment_offset);
            write!(f, " frag {id}:{len}@{at}{more}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 172.16.10.99 > 172.16.10.12, TCP, 60 bytes, checksum b1e6 (a well-known worked example).
    const HEADER: [u8; 20] = [
        0x45, 0x00, 0x00, 0x3C, 0x1C, 0x46, 0x40, 0x00, 0x40, 0x06, 0xB1, 0xE6, 0xAC, 0x10, 0x0A,
        0x63, 0xAC, 0x10, 0x0A, 0x0C,
    ];

    fn packet() -> [u8; 60] {
        let mut b = [0; 60];
        b[..20].copy_from_slice(&HEADER);
        b
    }

    #[test]
    fn a_header_is_read_and_written_back() {
        let bytes = packet();
        let view = Packet::new_checked(&bytes[..]).unwrap();
        assert!(view.checksum_ok());
        let repr = Repr::parse(&view).unwrap();
        assert_eq!(repr.to_string(), "172.16.10.99 > 172.16.10.12 TCP ttl 64");
        assert_eq!((repr.payload_len, repr.dont_fragment), (40, true));
        assert_eq!(view.payload().len(), 40);
        let mut out = [0xEE; 20];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, HEADER);
    }

    #[test]
    fn an_excerpt_has_a_whole_header_and_what_there_is_of_the_payload() {
        let b = packet();
        assert_eq!(Packet::new_excerpt(&b[..27]).unwrap().payload(), &b[20..27]);
        assert_eq!(Packet::new_excerpt(&b[..20]).unwrap().payload(), []);
        assert!(Packet::new_excerpt(&b[..19]).unwrap_err().is_truncated());
    }

    #[test]
    fn bad_headers_are_refused_by_name() {
        let cases: [(usize, u8, &str); 5] = [
            (0, 0x65, "IPv4: bad version 6"),
            (0, 0x44, "IPv4: bad header length 16"),
            (3, 19, "IPv4: bad total length 19"),
            (3, 61, "IPv4: truncated, 61 bytes needed and 60 there"),
            (2, 1, "IPv4: truncated, 316 bytes needed and 60 there"),
        ];
        for (at, value, text) in cases {
            let mut b = packet();
            b[at] = value;
            assert_eq!(Packet::new_checked(&b[..]).unwrap_err().to_string(), text);
        }
        let mut b = packet();
        b[0] = 0x4F;
        assert!(Packet::new_checked(&b[..59]).unwrap_err().is_truncated());
        b = packet();
        b[11] ^= 1;
        let e = Repr::parse(&Packet::new_checked(&b[..]).unwrap()).unwrap_err();
        assert_eq!(e.to_string(), "IPv4: wrong checksum");
    }

    #[test]
    fn padding_is_not_payload() {
        let mut b = [0; 46];
        Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP, 8)
            .emit(&mut b)
            .unwrap();
        assert_eq!(Packet::new_checked(&b[..]).unwrap().payload().len(), 8);
    }

    #[test]
    fn rewrites_keep_the_checksum_right() {
        let mut b = packet();
        let mut view = Packet::new_checked(&mut b[..]).unwrap();
        view.set_ecn(3);
        assert_eq!((view.ecn(), view.dscp()), (3, 0));
        assert!(view.checksum_ok());
        view.set_src([192, 0, 2, 1].into());
        view.set_dst([192, 0, 2, 255].into());
        assert!(view.checksum_ok());
        let before = view.checksum();
        view.fill_checksum();
        assert_eq!(view.checksum(), before);
    }

    #[test]
    fn options_are_walked_to_their_end_or_first_fault() {
        let mut repr = Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP, 0);
        // No-operation, router alert (RFC 2113), end, padding.
        repr.options.extend([1, 148, 4, 0, 0, 0, 0, 0]);
        let mut b = [0; 28];
        repr.emit(&mut b).unwrap();
        let view = Packet::new_checked(&b[..]).unwrap();
        let options: Result<Vec<_>, _> = view.options().collect();
        let alert = Ipv4Option { kind: 148, data: &[0, 0] };
        assert_eq!(options.unwrap(), [Ipv4Option { kind: 1, data: &[] }, alert]);
        assert_eq!(Repr::parse(&view).unwrap(), repr);
        for (bytes, text) in [
            ([1, 1, 1, 7], "IPv4 option: truncated, 2 bytes needed and 1 there"),
            ([7, 5, 0, 0], "IPv4 option: truncated, 5 bytes needed and 4 there"),
            ([7, 1, 0, 0], "IPv4 option: bad length 1"),
            ([7, 0, 0, 0], "IPv4 option: bad length 0"),
        ] {
            let mut walk = Options { rest: &bytes };
            let e = walk.by_ref().find_map(Result::err).unwrap();
            assert_eq!(e.to_string(), text);
            assert_eq!(walk.next(), None, "the walk ends at the fault");
        }
    }

    #[test]
    fn fragments_are_told() {
        let mut repr = Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP, 16);
        repr.identification = 7;
        repr.dont_fragment = false;
        repr.more_fragments = true;
        repr.fragment_offset = 1480;
        let mut b = [0; 36];
        repr.emit(&mut b).unwrap();
        let view = Packet::new_checked(&b[..]).unwrap();
        assert!(view.is_fragment() && view.more_fragments());
        assert_eq!(view.fragment_offset(), 1480);
        assert_eq!(repr.to_string(), "10.0.0.1 > 10.0.0.2 UDP ttl 64 frag 7:16@1480+");
        repr.fragment_offset = 1481;
        assert_eq!(repr.emit(&mut b).unwrap_err().to_string(), "IPv4: bad fragment offset 1481");
    }
}
