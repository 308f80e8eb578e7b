//! IPv6 extension headers (RFC 8200, 4) and the authentication header (RFC 4302, 2).
//!
//! ```text
//! hop-by-hop (0), destination (60)      routing (43)
//! +------+-----+-----------------+      +------+-----+------+------+
//! | next | len | options …       |      | next | len | type | left |  data …
//! +------+-----+-----------------+      +------+-----+------+------+
//! fragment (44), always 8 bytes         authentication (51)
//! +------+-----+--------------+-+-+     +------+-----+-------------+
//! | next | res | offset (13)  |r|M|     | next | len | reserved    |  SPI, sequence, ICV …
//! +------+-----+--------------+-+-+     +------+-----+-------------+
//! |        identification         |
//! +-------------------------------+
//! ```
//!
//! `len` counts 8-byte units beyond the first; in the authentication header 4-byte units less
//! two. Behind these, ESP and everything else is an upper-layer protocol to us.

use std::fmt;

use crate::bytes::{put_u16, put_u32, u16_at, u32_at};
use crate::error::{Error, Format, need};
use crate::ip::Protocol;

/// Most extension headers in a packet. RFC 8200, 4.1 allows each once, destination options twice:
/// six. More of them only waste the receiver's time.
pub const MAX_HEADERS: usize = 8;

/// Bytes in a fragment header.
pub const FRAGMENT_LEN: usize = 8;

/// A view of one extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Which header this is.
    pub kind: Protocol,
    bytes: &'a [u8],
}

impl<'a> Header<'a> {
    /// Checks that the header `kind` at the start of `bytes` is whole.
    ///
    /// # Errors
    /// Truncated: it is not. Invalid: `kind` is not an extension header, or its length is too
    /// short for its fixed part.
    #[inline]
    pub fn new_checked(kind: Protocol, bytes: &'a [u8]) -> Result<Header<'a>, Error> {
        let format = match kind {
            Protocol::HOP_BY_HOP => Format::HopByHop,
            Protocol::ROUTING => Format::Routing,
            Protocol::FRAGMENT => Format::Fragment,
            Protocol::DESTINATION_OPTIONS => Format::DestinationOptions,
            Protocol::AUTHENTICATION => Format::Authentication,
            Protocol(n) => return Err(Error::invalid(Format::Ipv6, "next header", n.into())),
        };
        need(format, bytes.len(), 8)?;
        let len = match kind {
            Protocol::FRAGMENT => FRAGMENT_LEN,
            // RFC 4302, 2.2: at least the 12 fixed bytes.
            Protocol::AUTHENTICATION if bytes[1] == 0 => {
                return Err(Error::invalid(format, "length", 0));
            }
            Protocol::AUTHENTICATION => 4 * (usize::from(bytes[1]) + 2),
            _ => 8 * (usize::from(bytes[1]) + 1),
        };
        need(format, bytes.len(), len)?;
        Ok(Header { kind, bytes: &bytes[..len] })
    }

    /// The next header.
    #[inline(always)]
    pub fn next_header(&self) -> Protocol {
        Protocol(self.bytes[0])
    }

    /// The header as bytes; 8 or more.
    #[inline(always)]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The options of a hop-by-hop or destination header; of any other, none.
    pub fn options(&self) -> Options<'a> {
        let rest = match self.kind {
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS => &self.bytes[2..],
            _ => &[],
        };
        Options { rest }
    }

    /// The fields of a fragment header; of any other, none.
    pub fn fragment(&self) -> Option<Fragment> {
        (self.kind == Protocol::FRAGMENT).then(|| {
            let word = u16_at(self.bytes, 2);
            Fragment {
                next_header: self.next_header(),
                offset: usize::from(word & 0xFFF8),
                more: word & 1 == 1,
                identification: u32_at(self.bytes, 4),
            }
        })
    }

    /// Type and segments left of a routing header (RFC 8200, 4.4); of any other, none.
    pub fn routing(&self) -> Option<(u8, u8)> {
        (self.kind == Protocol::ROUTING).then(|| (self.bytes[2], self.bytes[3]))
    }
}

/// One option of a hop-by-hop or destination header (RFC 8200, 4.2). Padding is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Option<'a> {
    /// Its type; the two highest bits tell a node that does not know it what to do.
    pub kind: u8,
    /// Its data.
    pub data: &'a [u8],
}

/// Walks options, skipping Pad1 and PadN. A malformed one is yielded as an error and ends it.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv6Option<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = std::mem::take(&mut self.rest);
            let (kind, len) = match *rest {
                [] => return None,
                [0, ref tail @ ..] => {
                    self.rest = tail;
                    continue;
                }
                [_] => return Some(Err(need(Format::DestinationOptions, 1, 2).unwrap_err())),
                [kind, len, ..] => (kind, 2 + usize::from(len)),
            };
            if let Err(e) = need(Format::DestinationOptions, rest.len(), len) {
                return Some(Err(e));
            }
            self.rest = &rest[len..];
            if kind != 1 {
                return Some(Ok(Ipv6Option { kind, data: &rest[2..len] }));
            }
        }
    }
}

/// The meaning of a fragment header (RFC 8200, 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// The first header of the fragmentable part.
    pub next_header: Protocol,
    /// The offset of this fragment's data in bytes: a multiple of 8 up to 65,528.
    pub offset: usize,
    /// More fragments follow.
    pub more: bool,
    /// The same in all fragments of a packet.
    pub identification: u32,
}

impl Fragment {
    /// True for an *atomic* fragment, which is a whole packet (RFC 6946).
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        FRAGMENT_LEN
    }

    /// Writes the header at the start of `buf`.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: the offset is not a multiple of 8
    /// up to 65,528.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        need(Format::Fragment, buf.len(), FRAGMENT_LEN)?;
        let offset = u16::try_from(self.offset).ok().filter(|o| o % 8 == 0).ok_or_else(|| {
            let offset = u32::try_from(self.offset).unwrap_or(u32::MAX);
            Error::invalid(Format::Fragment, "offset", offset)
        })?;
        buf[0] = self.next_header.0;
        buf[1] = 0;
        put_u16(buf, 2, offset | u16::from(self.more));
        put_u32(buf, 4, self.identification);
        Ok(())
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.more { "+" } else { "" };
        write!(f, "frag 0x{:x}@{}{more}", self.identification, self.offset)
    }
}

/// The result of the walk over the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// The upper-layer protocol; of a fragment that is not the first, the first header of the
    /// fragmentable part.
    pub protocol: Protocol,
    /// Where its header starts, in bytes from the end of the IPv6 header. In a fragment that is
    /// not the first, what starts there is the middle of something.
    pub offset: usize,
    /// The fragment header, if there is one.
    pub fragment: Option<Fragment>,
    /// How many extension headers were passed.
    pub headers: usize,
}

impl Upper {
    /// True if a header of `protocol` starts at `offset`: not so in later fragments.
    #[inline(always)]
    pub fn has_header(&self) -> bool {
        self.fragment.is_none_or(|f| f.offset == 0)
    }
}

/// Iterates over extension headers, `first` being at the start of the bytes, up to the first
/// upper-layer protocol or a fragment that is not the first of its packet.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    next: Protocol,
    bytes: &'a [u8],
    offset: usize,
    headers: usize,
    fragment: Option<Fragment>,
}

impl<'a> Walk<'a> {
    /// A walk over `payload`, whose first header is `first`.
    #[inline]
    pub fn new(first: Protocol, payload: &'a [u8]) -> Walk<'a> {
        Walk { next: first, bytes: payload, offset: 0, headers: 0, fragment: None }
    }

    fn step(&mut self) -> Result<Option<Header<'a>>, Error> {
        let in_fragment = self.fragment.is_some_and(|f| f.offset != 0);
        match self.next {
            _ if in_fragment => return Ok(None),
            // RFC 8200, 4.1: only directly behind the IPv6 header.
            Protocol::HOP_BY_HOP if self.headers > 0 => {
                return Err(Error::invalid(Format::HopByHop, "position", self.headers as u32));
            }
            Protocol::HOP_BY_HOP
            | Protocol::ROUTING
            | Protocol::FRAGMENT
            | Protocol::DESTINATION_OPTIONS
            | Protocol::AUTHENTICATION => {}
            _ => return Ok(None),
        }
        if self.headers == MAX_HEADERS {
            return Err(Error::too_many(Format::Ipv6, MAX_HEADERS));
        }
        let header = Header::new_checked(self.next, &self.bytes[self.offset..])?;
        self.fragment = self.fragment.or(header.fragment());
        self.next = header.next_header();
        self.offset += header.as_bytes().len();
        self.headers += 1;
        Ok(Some(header))
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<Header<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().transpose();
        if matches!(step, Some(Err(_))) {
            self.next = Protocol::NO_NEXT_HEADER;
        }
        step
    }
}

/// Walks from `first`, at the start of `payload`, to the upper-layer protocol.
///
/// # Errors
/// Truncated or invalid: an extension header is. Invalid: hop-by-hop options elsewhere than
/// first. Too many: more than [`MAX_HEADERS`].
#[inline]
pub fn find_upper(first: Protocol, payload: &[u8]) -> Result<Upper, Error> {
    let mut walk = Walk::new(first, payload);
    while walk.step()?.is_some() {}
    let Walk { next, offset, headers, fragment, .. } = walk;
    Ok(Upper { protocol: next, offset, fragment, headers })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hop-by-hop (router alert, PadN), routing type 4 with nothing left, first fragment,
    /// authentication, destination options (Pad1 and an unknown one), UDP.
    const CHAIN: &[u8] = &[
        43, 0, 5, 2, 0, 0, 1, 0, // hop-by-hop
        44, 0, 4, 0, 0, 0, 0, 0, // routing
        51, 0, 0, 1, 0xDE, 0xAD, 0xBE, 0xEF, // fragment 0, more
        60, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 9, 1, 2, 3, 4, // authentication
        17, 0, 0, 0x1E, 2, 7, 7, 0, // destination
        0, 53, 0, 53, 0, 8, 0, 0, // UDP
    ];

    #[test]
    fn a_full_chain_is_walked_to_udp() {
        let upper = find_upper(Protocol::HOP_BY_HOP, CHAIN).unwrap();
        assert_eq!((upper.protocol, upper.offset, upper.headers), (Protocol::UDP, 48, 5));
        assert!(upper.has_header());
        let fragment = upper.fragment.unwrap();
        assert_eq!(fragment.to_string(), "frag 0xdeadbeef@0+");
        let headers: Result<Vec<_>, _> = Walk::new(Protocol::HOP_BY_HOP, CHAIN).collect();
        let headers = headers.unwrap();
        let hop: Vec<_> = headers[0].options().map(Result::unwrap).collect();
        assert_eq!(hop, [Ipv6Option { kind: 5, data: &[0, 0] }]);
        assert_eq!(headers[1].routing(), Some((4, 0)));
        let dst: Vec<_> = headers[4].options().map(Result::unwrap).collect();
        assert_eq!(dst, [Ipv6Option { kind: 0x1E, data: &[7, 7] }]);
        let mut out = [0; 8];
        fragment.emit(&mut out).unwrap();
        assert_eq!(out, CHAIN[16..24]);
        assert!(Fragment { offset: 4, ..fragment }.emit(&mut out).is_err());
    }

    #[test]
    fn every_cut_within_the_chain_is_refused() {
        for n in 0..48 {
            let e = find_upper(Protocol::HOP_BY_HOP, &CHAIN[..n]).unwrap_err();
            assert!(e.is_truncated(), "{n} bytes: {e}");
        }
    }

    #[test]
    fn a_later_fragment_hides_what_follows() {
        let bytes = [60, 0, 0x05, 0xC8, 0, 0, 0, 1, 0xFF, 0xFF];
        let upper = find_upper(Protocol::FRAGMENT, &bytes).unwrap();
        assert_eq!((upper.protocol, upper.offset), (Protocol::DESTINATION_OPTIONS, 8));
        assert!(!upper.has_header());
        assert_eq!(upper.fragment.unwrap().offset, 1480);
    }

    #[test]
    fn loops_and_misplaced_headers_are_refused_by_name() {
        let long = [60, 0, 1, 4, 0, 0, 0, 0].repeat(MAX_HEADERS + 1);
        let e = find_upper(Protocol::DESTINATION_OPTIONS, &long).unwrap_err();
        assert_eq!(e.to_string(), "IPv6: more than 8 in a row");
        let e = find_upper(Protocol::DESTINATION_OPTIONS, &[0; 16]).unwrap_err();
        assert_eq!(e.to_string(), "IPv6 hop-by-hop options: bad position 1");
        let e = find_upper(Protocol::AUTHENTICATION, &[0; 16]).unwrap_err();
        assert_eq!(e.to_string(), "authentication header: bad length 0");
        let mut walk = Walk::new(Protocol::AUTHENTICATION, &[0; 16]);
        assert!(walk.next().unwrap().is_err());
        assert!(walk.next().is_none(), "the walk ends at the fault");
    }

    #[test]
    fn a_malformed_option_ends_the_walk() {
        let bytes = [17, 0, 5, 9, 0, 0, 1, 0];
        let header = Header::new_checked(Protocol::HOP_BY_HOP, &bytes).unwrap();
        let walked: Vec<_> = header.options().collect();
        assert_eq!(walked.len(), 1);
        assert!(walked[0].unwrap_err().is_truncated());
    }
}
