//! VLAN tags (IEEE 802.1Q-2018, 9.3 to 9.6): single, stacked (802.1ad) and priority-only.
//!
//! ```text
//!  Ethernet addresses | TPID 0x8100 or 0x88A8 | TCI | next EtherType | …
//!
//!  0                   1
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
//! +-----+-+-----------------------+-------------------------------+
//! | PCP |D|          VID          |        next EtherType         |
//! +-----+-+-----------------------+-------------------------------+
//! ```
//!
//! A tag's view starts at the TCI: the TPID is the EtherType field before it.

use std::fmt;

use crate::bytes::{fields, put_u16};
use crate::error::{Error, Format, need};
use crate::ethernet::{self, EtherType};

/// Bytes of a tag: TCI and the next EtherType, or TPID and TCI (a frame grows by this).
pub const TAG_LEN: usize = 4;
/// Deepest stack that is read. Nothing honest carries more than two; four leaves room.
pub const MAX_TAGS: usize = 4;

/// A view of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag<T>(T);

fields! {
    Tag {
        /// The tag control information, whole.
        tci: u16 = 0,
        /// The type of the bytes after the tag.
        ethertype: EtherType = 2,
    }
}

impl<T: AsRef<[u8]>> Tag<T> {
    /// Checks that TCI and the next EtherType are there.
    ///
    /// # Errors
    /// Truncated: fewer than 4 bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Tag<T>, Error> {
        need(Format::Vlan, bytes.as_ref().len(), TAG_LEN)?;
        Ok(Tag(bytes))
    }

    /// Priority code point, 0 to 7.
    #[inline(always)]
    pub fn priority(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    /// Drop eligible.
    #[inline(always)]
    pub fn drop_eligible(&self) -> bool {
        self.tci() & 0x1000 != 0
    }

    /// VLAN identifier, 0 (priority-tagged: no VLAN) to 4095 (reserved).
    #[inline(always)]
    pub fn vid(&self) -> u16 {
        self.tci() & 0x0FFF
    }
}

impl<'a> Tag<&'a [u8]> {
    /// The bytes after the tag.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        &self.0[TAG_LEN..]
    }
}

/// The meaning of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Priority code point, 0 to 7.
    pub priority: u8,
    /// Drop eligible.
    pub drop_eligible: bool,
    /// VLAN identifier, 0 to 4095.
    pub vid: u16,
    /// The type of the bytes after the tag.
    pub ethertype: EtherType,
}

impl Repr {
    /// The meaning of `tag`.
    ///
    /// # Errors
    /// None today; a reserved VID is for the reader to judge.
    pub fn parse<T: AsRef<[u8]>>(tag: &Tag<T>) -> Result<Repr, Error> {
        Ok(Repr {
            priority: tag.priority(),
            drop_eligible: tag.drop_eligible(),
            vid: tag.vid(),
            ethertype: tag.ethertype(),
        })
    }

    /// The tag control information.
    pub const fn tci(&self) -> u16 {
        (self.priority as u16 & 7) << 13 | (self.drop_eligible as u16) << 12 | self.vid & 0x0FFF
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes TCI and next EtherType at the start of `buf`.
    ///
    /// # Errors
    /// Truncated: `buf` is shorter than `buffer_len`. Invalid: priority above 7, VID above 4095.
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), Error> {
        need(Format::Vlan, buf.len(), TAG_LEN)?;
        if self.priority > 7 {
            return Err(Error::invalid(Format::Vlan, "priority", self.priority.into()));
        }
        if self.vid > 0x0FFF {
            return Err(Error::invalid(Format::Vlan, "VLAN identifier", self.vid.into()));
        }
        put_u16(buf, 0, self.tci());
        put_u16(buf, 2, self.ethertype.0);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vlan {}", self.vid)?;
        if self.priority != 0 {
            write!(f, " p{}", self.priority)?;
        }
        f.write_str(if self.drop_eligible { " dei" } else { "" })
    }
}

/// The tags of a frame and the position of the bytes after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// How many tags there are.
    pub depth: usize,
    /// The outermost tag, if there is one.
    pub outer: Option<Repr>,
    /// The innermost tag, if there is one; the outermost when there is only one.
    pub inner: Option<Repr>,
    /// The EtherType after the last tag.
    pub ethertype: EtherType,
    /// Where the payload starts, in bytes from the start of the frame.
    pub payload_offset: usize,
}

impl Stack {
    /// The VLAN that the outermost tag names; none for untagged and priority-tagged frames
    /// (802.1Q, 6.9: VID 0 says nothing about the VLAN).
    pub fn vlan(&self) -> Option<u16> {
        self.outer.map(|t| t.vid).filter(|&vid| vid != 0)
    }
}

/// Walks the tags of `frame`.
///
/// # Errors
/// Truncated: the frame ends within a tag. Too many: more than [`MAX_TAGS`].
#[inline]
pub fn stack<T: AsRef<[u8]>>(frame: &ethernet::Frame<T>) -> Result<Stack, Error> {
    let mut s = Stack {
        depth: 0,
        outer: None,
        inner: None,
        ethertype: frame.ethertype(),
        payload_offset: ethernet::HEADER_LEN,
    };
    while s.ethertype.is_vlan() {
        if s.depth == MAX_TAGS {
            return Err(Error::too_many(Format::Vlan, MAX_TAGS));
        }
        let tag = Tag::new_checked(&frame.as_bytes()[s.payload_offset..])?;
        let repr = Repr::parse(&tag)?;
        s.outer = s.outer.or(Some(repr));
        s.inner = Some(repr);
        s.ethertype = repr.ethertype;
        s.payload_offset += TAG_LEN;
        s.depth += 1;
    }
    Ok(s)
}

/// Inserts a tag after the addresses. `buf` is a frame with [`TAG_LEN`] unused bytes before it;
/// afterwards the tagged frame fills `buf`.
///
/// # Errors
/// Truncated: fewer than 18 bytes, including the four before the frame; `buf` is then unchanged.
#[inline]
pub fn push(buf: &mut [u8], tpid: EtherType, tci: u16) -> Result<(), Error> {
    need(Format::Vlan, buf.len(), TAG_LEN + ethernet::HEADER_LEN)?;
    buf.copy_within(TAG_LEN..TAG_LEN + 12, 0);
    put_u16(buf, 12, tpid.0);
    put_u16(buf, 14, tci);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Service tag 100 (priority 5, drop eligible), customer tag 7, IPv4.
    const STACKED: [u8; 23] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xA8, 0xB0, 0x64, 0x81, 0x00, 0x00, 0x07, 0x08,
        0x00, 0x45,
    ];

    #[test]
    fn a_stack_is_walked_to_the_payload() {
        let s = stack(&ethernet::Frame::new_checked(&STACKED[..]).unwrap()).unwrap();
        let outer = s.outer.unwrap();
        assert_eq!((outer.vid, outer.priority, outer.drop_eligible), (100, 5, true));
        assert_eq!(outer.to_string(), "vlan 100 p5 dei");
        assert_eq!(s.inner.unwrap().vid, 7);
        assert_eq!((s.depth, s.vlan()), (2, Some(100)));
        assert_eq!((s.ethertype, s.payload_offset), (EtherType::IPV4, 22));
        let mut out = [0; 4];
        outer.emit(&mut out).unwrap();
        assert_eq!(out, STACKED[14..18]);
    }

    #[test]
    fn every_cut_within_the_tags_is_refused() {
        for n in 14..22 {
            let frame = ethernet::Frame::new_checked(&STACKED[..n]).unwrap();
            assert!(stack(&frame).unwrap_err().is_truncated(), "{n} bytes");
        }
    }

    #[test]
    fn a_priority_tag_names_no_vlan_and_a_long_stack_is_refused() {
        let mut f = STACKED;
        f[14..16].copy_from_slice(&[0xE0, 0x00]);
        let s = stack(&ethernet::Frame::new_checked(&f[..]).unwrap()).unwrap();
        assert_eq!((s.vlan(), s.outer.unwrap().priority), (None, 7));
        let mut deep = vec![0; 12];
        deep.extend([0x81, 0x00, 0, 1].repeat(MAX_TAGS + 1));
        deep.extend([0x08, 0x00]);
        let e = stack(&ethernet::Frame::new_checked(&deep[..]).unwrap()).unwrap_err();
        assert_eq!(e.to_string(), "802.1Q tag: more than 4 in a row");
    }

    #[test]
    fn a_tag_is_pushed_before_those_that_are_there() {
        let mut f = [&[0; TAG_LEN][..], &STACKED[..12], &STACKED[16..]].concat();
        push(&mut f, EtherType::SERVICE_VLAN, 0xB064).unwrap();
        assert_eq!(f, STACKED);
        assert!(push(&mut f[..17], EtherType::VLAN, 7).unwrap_err().is_truncated());
    }
}
