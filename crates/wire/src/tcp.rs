//! The TCP header (RFC 9293, 3.1; options: RFC 7323, RFC 2018).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |                        sequence number                        |
//! |                     acknowledgement number                    |
//! +-------+-------+---------------+-------------------------------+
//! | offset| resrv |C|E|U|A|P|R|S|F|            window             |
//! +-------+-------+---------------+-------------------------------+
//! |           checksum            |        urgent pointer         |
//! +-------------------------------+-------------------------------+
//! |                    options (0 to 40 bytes)                    |
//! +---------------------------------------------------------------+
//! ```

use std::fmt::{self, Write};

use arrayvec::ArrayVec;

use crate::bytes::{fields, next_option, put, put_u16, put_u32, u16_at, u32_at};
use crate::checksum::Sum;
use crate::error::{Error, Format, need};

/// Bytes in a header without options.
pub const HEADER_LEN: usize = 20;
/// Most bytes of options.
pub const OPTIONS_LEN_MAX: usize = 40;

/// The control bits, as the byte that holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// True if all bits of `other` are set.
    #[inline(always)]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    /// As tcpdump: `S` SYN, `F` FIN, `R` RST, `P` PSH, `.` ACK, `U` URG, `E` ECE, `W` CWR.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        let letters = "FSRP.UEW".chars().enumerate();
        letters.filter(|(bit, _)| self.0 >> bit & 1 == 1).try_for_each(|(_, c)| f.write_char(c))
    }
}

/// A view of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<T>(T);

fields! {
    Segment {
        /// Source port.
        src_port: u16 = 0,
        /// Destination port.
        dst_port: u16 = 2,
        /// Sequence number.
        seq: u32 = 4,
        /// Acknowledgement number; counts if ACK is set.
        ack: u32 = 8,
        /// The control bits.
        flags: Flags = 13,
        /// Window, unscaled.
        window: u16 = 14,
        /// The checksum as stored.
        checksum / set_checksum: u16 = 16,
        /// Urgent pointer; counts if URG is set.
        urgent: u16 = 18,
    }
}

impl<T: AsRef<[u8]>> Segment<T> {
    /// Checks the data offset against the buffer.
    ///
    /// # Errors
    /// Truncated: the buffer ends before the header. Invalid: a data offset below 20 bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Segment<T>, Error> {
        let b = bytes.as_ref();
        need(Format::Tcp, b.len(), HEADER_LEN)?;
        let len = usize::from(b[12] >> 4) * 4;
        if len < HEADER_LEN {
            return Err(Error::invalid(Format::Tcp, "data offset", len as u32));
        }
        need(Format::Tcp, b.len(), len)?;
        Ok(Segment(bytes))
    }

    /// Bytes in the header, options included: 20 to 60.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[12] >> 4) * 4
    }

    /// True if the checksum is right; the buffer must end where the segment does.
    pub fn checksum_ok(&self, pseudo_header: Sum) -> bool {
        pseudo_header.with(self.0.as_ref()).is_right()
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

impl<'a> Segment<&'a [u8]> {
    /// The payload.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Segment<T> {
    /// Computes the checksum afresh; the buffer must end where the segment does.
    pub fn fill_checksum(&mut self, pseudo_header: Sum) {
        self.set_checksum(0);
        self.set_checksum(pseudo_header.with(self.0.as_ref()).finish());
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding (kind 1).
    NoOperation,
    /// Maximum segment size, in bytes (kind 2).
    MaxSegmentSize(u16),
    /// Window scale, a shift count (kind 3).
    WindowScale(u8),
    /// Selective acknowledgements are welcome (kind 4).
    SackPermitted,
    /// Selective acknowledgement (kind 5): 1 to 4 pairs of left and right edge.
    Sack(&'a [u8]),
    /// Timestamps: value and echo reply (kind 8).
    Timestamps(u32, u32),
    /// Any other kind, or one of the above with an unusual length, with its data.
    Other(u8, &'a [u8]),
}

impl TcpOption<'_> {
    /// Bytes that [`push`](Self::push) adds.
    pub fn len(&self) -> usize {
        match self {
            TcpOption::NoOperation => 1,
            TcpOption::SackPermitted => 2,
            TcpOption::WindowScale(_) => 3,
            TcpOption::MaxSegmentSize(_) => 4,
            TcpOption::Timestamps(..) => 10,
            TcpOption::Sack(data) | TcpOption::Other(_, data) => 2 + data.len(),
        }
    }

    /// Never: every option takes a byte at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Adds this option to those of a header. Their sum must be made a multiple of 4, with
    /// [`TcpOption::NoOperation`], before [`Repr::emit`].
    ///
    /// # Errors
    /// Truncated: no room for it among the 40 bytes; nothing is added then.
    pub fn push(&self, options: &mut ArrayVec<u8, OPTIONS_LEN_MAX>) -> Result<(), Error> {
        need(Format::TcpOptions, options.remaining_capacity(), self.len())?;
        let mut head = |kind: u8| options.extend([kind, self.len() as u8]);
        match *self {
            TcpOption::NoOperation => options.push(1),
            TcpOption::MaxSegmentSize(size) => {
                head(2);
                options.extend(size.to_be_bytes());
            }
            TcpOption::WindowScale(shift) => {
                head(3);
                options.push(shift);
            }
            TcpOption::SackPermitted => head(4),
            TcpOption::Sack(data) => {
                head(5);
                options.extend(data.iter().copied());
            }
            TcpOption::Timestamps(value, echo) => {
                head(8);
                options.extend(value.to_be_bytes());
                options.extend(echo.to_be_bytes());
            }
            TcpOption::Other(kind, data) => {
                head(kind);
                options.extend(data.iter().copied());
            }
        }
        Ok(())
    }
}

/// Walks options up to the end-of-options byte. A malformed option is yielded as one error, and
/// the walk ends.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Walks the options of a header, as [`Repr::options`] holds them.
    pub fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let option = next_option(&mut self.rest, Format::TcpOptions)?;
        Some(option.map(|(kind, data)| match (kind, data.len()) {
            (1, _) => TcpOption::NoOperation,
            (2, 2) => TcpOption::MaxSegmentSize(u16_at(data, 0)),
            (3, 1) => TcpOption::WindowScale(data[0]),
            (4, 0) => TcpOption::SackPermitted,
            (5, 8 | 16 | 24 | 32) => TcpOption::Sack(data),
            (8, 8) => TcpOption::Timestamps(u32_at(data, 0), u32_at(data, 4)),
            _ => TcpOption::Other(kind, data),
        }))
    }
}

/// The meaning of a TCP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// The control bits.
    pub flags: Flags,
    /// Window, unscaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// The options as bytes, a multiple of 4.
    pub options: ArrayVec<u8, OPTIONS_LEN_MAX>,
}

impl Repr {
    /// The meaning of `segment`'s header; the checksum is for `checksum_ok`.
    ///
    /// # Errors
    /// Truncated or invalid: a malformed option.
    pub fn parse<T: AsRef<[u8]>>(segment: &Segment<T>) -> Result<Repr, Error> {
        segment.options().try_for_each(|o| o.map(drop))?;
        let mut options = ArrayVec::new();
        options.extend(segment.options_bytes().iter().copied());
        Ok(Repr {
            src_port: segment.src_port(),
            dst_port: segment.dst_port(),
            seq: segment.seq(),
            ack: segment.ack(),
            flags: segment.flags(),
            window: segment.window(),
            urgent: segment.urgent(),
            options,
        })
    }

    /// Bytes that `emit` writes: the header.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header, without a checksum, at the start of `buf`. With the payload in place,
    /// [`Segment::fill_checksum`] completes it.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: options not a multiple of 4.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        let len = self.buffer_len();
        need(Format::Tcp, buf.len(), len)?;
        if self.options.len() % 4 != 0 {
            let len = self.options.len() as u32;
            return Err(Error::invalid(Format::Tcp, "options length", len));
        }
        put_u16(buf, 0, self.src_port);
        put_u16(buf, 2, self.dst_port);
        put_u32(buf, 4, self.seq);
        put_u32(buf, 8, self.ack);
        buf[12] = (len / 4) as u8 * 16;
        buf[13] = self.flags.0;
        put_u16(buf, 14, self.window);
        put_u16(buf, 16, 0);
        put_u16(buf, 18, self.urgent);
        put(buf, HEADER_LEN, &self.options);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repr { src_port, dst_port, seq, flags, .. } = self;
        write!(f, "{src_port} > {dst_port} TCP [{flags}] seq {seq}")?;
        if self.flags.contains(Flags::ACK) {
            write!(f, " ack {}", self.ack)?;
        }
        write!(f, " win {}", self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN as Linux sends it: MSS 1460, SACK permitted, timestamps, no-op, window scale 7.
    const SYN: [u8; 40] = [
        0xC0, 0x00, 0x00, 0x50, 0, 0, 0, 1, 0, 0, 0, 0, 0xA0, 0x02, 0xFA, 0xF0, 0, 0, 0, 0, 2, 4,
        0x05, 0xB4, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 3, 3, 7,
    ];

    #[test]
    fn a_syn_is_read_and_written_back() {
        let view = Segment::new_checked(&SYN[..]).unwrap();
        let repr = Repr::parse(&view).unwrap();
        assert_eq!(repr.to_string(), "49152 > 80 TCP [S] seq 1 win 64240");
        let options: Result<Vec<_>, _> = view.options().collect();
        assert_eq!(
            options.unwrap(),
            [
                TcpOption::MaxSegmentSize(1460),
                TcpOption::SackPermitted,
                TcpOption::Timestamps(5, 0),
                TcpOption::NoOperation,
                TcpOption::WindowScale(7),
            ]
        );
        let mut out = [0xEE; 40];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, SYN);
    }

    #[test]
    fn options_are_written_as_they_were_read_and_no_further_than_there_is_room() {
        let mut all = SYN[HEADER_LEN..].to_vec();
        all.extend([5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 254, 5, 7, 7, 7, 1]);
        let mut out = ArrayVec::new();
        for option in (Options { rest: &all }) {
            option.unwrap().push(&mut out).unwrap();
        }
        assert_eq!(out[..], all[..]);
        assert!(TcpOption::MaxSegmentSize(1).push(&mut out).is_ok());
        assert!(TcpOption::NoOperation.push(&mut out).unwrap_err().is_truncated());
        assert_eq!(out.len(), OPTIONS_LEN_MAX);
    }

    #[test]
    fn cuts_and_short_offsets_are_refused() {
        for n in 0..40 {
            assert!(Segment::new_checked(&SYN[..n]).unwrap_err().is_truncated());
        }
        let mut b = SYN;
        b[12] = 0x40;
        assert_eq!(Segment::new_checked(b).unwrap_err().to_string(), "TCP: bad data offset 16");
    }

    #[test]
    fn malformed_options_end_the_walk() {
        for (bytes, text) in [
            ([1, 1, 1, 2], "TCP option: truncated, 2 bytes needed and 1 there"),
            ([2, 5, 0, 0], "TCP option: truncated, 5 bytes needed and 4 there"),
            ([2, 1, 0, 0], "TCP option: bad length 1"),
        ] {
            let mut walk = Options { rest: &bytes };
            assert_eq!(walk.find_map(Result::err).unwrap().to_string(), text);
            assert_eq!(walk.next(), None);
        }
        let odd: Vec<_> = Options { rest: &[2, 3, 9, 0] }.map(Result::unwrap).collect();
        assert_eq!(odd, [TcpOption::Other(2, &[9])]);
    }

    #[test]
    fn the_checksum_covers_header_and_payload() {
        let mut b = SYN.to_vec();
        b.extend(b"odd");
        let pseudo = Sum::pseudo_v6(
            "2001:db8::1".parse().unwrap(),
            "2001:db8::2".parse().unwrap(),
            crate::Protocol::TCP,
            43,
        );
        let mut view = Segment::new_checked(&mut b[..]).unwrap();
        assert!(!view.checksum_ok(pseudo));
        view.fill_checksum(pseudo);
        assert!(view.checksum_ok(pseudo));
        b[13] |= Flags::ACK.0;
        let view = Segment::new_checked(&b[..]).unwrap();
        assert_eq!((view.flags().to_string(), view.payload()), ("S.".into(), &b"odd"[..]));
        assert!(!view.checksum_ok(pseudo));
    }
}
