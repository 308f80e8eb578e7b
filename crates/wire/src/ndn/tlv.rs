//! Elements of type, length, value (packet format, "Type-Length-Value (TLV) Encoding").
//!
//! ```text
//! element = type, length of the value in bytes, value
//! type    = number in 1..=4294967295
//! number  = 00..FC | FD, 2 bytes | FE, 4 bytes | FF, 8 bytes; the shortest that holds it
//! ```
//!
//! A non-negative integer as a value is different: 1, 2, 4 or 8 bytes, not necessarily the
//! shortest.

use crate::error::{Error, Format, Reason, need};

/// An element within the bytes that a [`Reader`] walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Its type.
    pub kind: u32,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset of its value.
    pub value_at: usize,
    /// Its value.
    pub value: &'a [u8],
    format: Format,
}

impl<'a> Element<'a> {
    /// Offset of the byte after it.
    pub const fn end(&self) -> usize {
        self.value_at + self.value.len()
    }

    /// The elements within its value.
    pub const fn elements(&self) -> Reader<'a> {
        Reader::new(self.value, self.format)
    }

    /// The value as a non-negative integer.
    ///
    /// # Errors
    /// Invalid: it does not have 1, 2, 4 or 8 bytes.
    #[inline]
    pub fn number(&self) -> Result<u64, Error> {
        parse_number(self.value).ok_or(Error::invalid(
            self.format,
            "length of a number",
            self.value.len() as u32,
        ))
    }

    /// The value, of which the length is fixed.
    ///
    /// # Errors
    /// Invalid: it does not have `N` bytes; `field` is the name for it.
    #[inline]
    pub fn array<const N: usize>(&self, field: &'static str) -> Result<[u8; N], Error> {
        self.value
            .try_into()
            .map_err(|_| Error::invalid(self.format, field, self.value.len() as u32))
    }

    /// # Errors
    /// Invalid: the value is not empty; `field` is the name for it.
    #[inline]
    pub fn empty(&self, field: &'static str) -> Result<(), Error> {
        self.array::<0>(field).map(|_| ())
    }

    /// What to do about an element that is unknown, or not in its place (packet format,
    /// "Considerations for Evolvability"): nothing if it is not critical.
    ///
    /// # Errors
    /// Invalid: it is critical.
    #[inline]
    pub fn ignore(&self) -> Result<(), Error> {
        match is_critical(self.kind) {
            true => Err(Error::invalid(self.format, "critical element", self.kind)),
            false => Ok(()),
        }
    }
}

/// True if a reader that does not know the type has to refuse the whole.
pub const fn is_critical(kind: u32) -> bool {
    kind <= 31 || kind & 1 == 1
}

/// A non-negative integer; `None` unless there are 1, 2, 4 or 8 bytes.
#[inline]
pub fn parse_number(value: &[u8]) -> Option<u64> {
    Some(match *value {
        [a] => a.into(),
        [a, b] => u16::from_be_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    })
}

/// Reads elements one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    format: Format,
}

impl<'a> Reader<'a> {
    /// Reads the elements of `bytes`; errors will name `format`.
    pub const fn new(bytes: &'a [u8], format: Format) -> Reader<'a> {
        Reader { bytes, at: 0, format }
    }

    /// How many bytes have been read.
    #[inline(always)]
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Reads the next element if it has this type and length, both less than 253; returns the
    /// position of its value. A caller that expects an element tries this before the general case.
    #[inline(always)]
    pub(super) fn take_short(&mut self, kind: u32, len: usize) -> Option<usize> {
        let value_at = self.at + 2;
        let is_it = self.bytes.get(self.at..value_at) == Some(&[kind as u8, len as u8])
            && self.bytes.len() - value_at >= len;
        is_it.then(|| {
            self.at = value_at + len;
            value_at
        })
    }

    /// The next element; `None` after the last.
    ///
    /// # Errors
    /// Truncated: it exceeds the bytes. Invalid: type 0 or more than 32 bits, a number that is not
    /// in its shortest form. After an error the reader is unusable.
    #[inline(always)]
    #[allow(clippy::should_implement_trait)] // errors are not items: a reader ends with the first
    pub fn next(&mut self) -> Result<Option<Element<'a>>, Error> {
        let start = self.at;
        if start >= self.bytes.len() {
            return Ok(None);
        }
        let head = Head::read(self.bytes, start, self.format)?;
        let value_at = start + head.head_len;
        // In this order, a length of 64 bits cannot wrap.
        if head.value_len > (self.bytes.len() - value_at) as u64 {
            return Err(truncated(self.format, value_at, head.value_len, self.bytes.len()));
        }
        self.at = value_at + head.value_len as usize;
        let (kind, value) = (head.kind, &self.bytes[value_at..self.at]);
        Ok(Some(Element { kind, start, value_at, value, format: self.format }))
    }

    /// The next element, if it is of this type, which is less than 253.
    ///
    /// # Errors
    /// As [`Reader::next`].
    #[inline(always)]
    pub(super) fn next_if(&mut self, kind: u32) -> Result<Option<Element<'a>>, Error> {
        match self.bytes.get(self.at) {
            Some(&first) if u32::from(first) == kind => self.next(),
            _ => Ok(None),
        }
    }

    /// The next element, which has to be of type `kind`; `field` is the name for it.
    ///
    /// # Errors
    /// As [`Reader::next`]. Invalid: there is none, or it is another.
    #[inline]
    pub fn expect(&mut self, kind: u32, field: &'static str) -> Result<Element<'a>, Error> {
        match self.next()? {
            Some(element) if element.kind == kind => Ok(element),
            Some(element) => Err(Error::invalid(self.format, field, element.kind)),
            None => Err(Error::invalid(self.format, field, 0)),
        }
    }
}

#[cold]
fn truncated(format: Format, value_at: usize, value_len: u64, have: usize) -> Error {
    let need = usize::try_from(value_len).unwrap_or(usize::MAX).saturating_add(value_at);
    Error { format, reason: Reason::Truncated { need, have } }
}

/// Type and length of an element whose value may not have arrived yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The element's type.
    pub kind: u32,
    /// Bytes of type and length.
    pub head_len: usize,
    /// Bytes of the value.
    pub value_len: u64,
}

impl Head {
    /// The head of the element at `bytes[at..]`.
    ///
    /// # Errors
    /// Truncated: the head is not complete. Invalid: as [`Reader::next`].
    #[inline(always)]
    pub fn read(bytes: &[u8], at: usize, format: Format) -> Result<Head, Error> {
        // Nearly every element has a head of two bytes.
        if let Some(&[kind, len]) = bytes.get(at..at + 2)
            && kind.wrapping_sub(1) < 0xFC
            && len < 0xFD
        {
            return Ok(Head { kind: kind.into(), head_len: 2, value_len: len.into() });
        }
        Head::read_long(bytes, at, format)
    }

    fn read_long(bytes: &[u8], at: usize, format: Format) -> Result<Head, Error> {
        let (kind, kind_len) = read_var(bytes, at, format)?;
        let kind = match u32::try_from(kind) {
            Ok(kind @ 1..) => kind,
            Ok(0) => return Err(Error::invalid(format, "element type", 0)),
            Err(_) => return Err(Error::invalid(format, "element type", u32::MAX)),
        };
        let (value_len, len_len) = read_var(bytes, at + kind_len, format)?;
        Ok(Head { kind, head_len: kind_len + len_len, value_len })
    }

    /// Bytes of the whole element; `usize::MAX` if it could not be held.
    pub fn element_len(&self) -> usize {
        usize::try_from(self.value_len).unwrap_or(usize::MAX).saturating_add(self.head_len)
    }
}

/// Type and end of the element at `bytes[at..]`, if it is there with a head of two bytes, as almost
/// every one. Code that walks many elements tries this first.
#[inline(always)]
pub(super) fn short_element(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let &[kind, len] = bytes.get(at..at + 2)? else { return None };
    let end = at + 2 + usize::from(len);
    (kind.wrapping_sub(1) < 0xFC && len < 0xFD && end <= bytes.len()).then_some((kind, end))
}

/// A number as types and lengths are written, and how many bytes it takes.
fn read_var(bytes: &[u8], at: usize, format: Format) -> Result<(u64, usize), Error> {
    need(format, bytes.len(), at + 1)?;
    let more = match bytes[at] {
        first @ ..=0xFC => return Ok((first.into(), 1)),
        0xFD => 2,
        0xFE => 4,
        0xFF => 8,
    };
    need(format, bytes.len(), at + 1 + more)?;
    let value = bytes[at + 1..at + 1 + more].iter().fold(0, |n, b| n << 8 | u64::from(*b));
    match var_len(value) == 1 + more {
        true => Ok((value, 1 + more)),
        false => Err(Error::invalid(format, "number, not in its shortest form", value as u32)),
    }
}

/// Bytes that a number takes as a type or length.
pub const fn var_len(n: u64) -> usize {
    match n {
        ..=0xFC => 1,
        0xFD..=0xFFFF => 3,
        0x1_0000..=0xFFFF_FFFF => 5,
        _ => 9,
    }
}

/// Bytes that a number takes as a non-negative integer.
pub const fn number_len(n: u64) -> usize {
    match n {
        ..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

/// Bytes of an element whose value has `value_len`.
pub const fn element_len(kind: u32, value_len: usize) -> usize {
    var_len(kind as u64) + var_len(value_len as u64) + value_len
}

/// Writes elements into a buffer. Bytes that do not fit are counted and not written, so that a
/// writer without a buffer computes lengths, and errors need one check, at the end.
#[derive(Debug)]
pub struct Writer<'b> {
    buf: &'b mut [u8],
    at: usize,
}

impl<'b> Writer<'b> {
    /// Writes from the start of `buf`.
    pub fn new(buf: &'b mut [u8]) -> Writer<'b> {
        Writer { buf, at: 0 }
    }

    /// How many bytes `write` writes.
    pub fn count(write: impl FnOnce(&mut Writer<'_>)) -> usize {
        let mut counter = Writer::new(&mut []);
        write(&mut counter);
        counter.at
    }

    /// How many bytes have been written, or would have been.
    pub const fn len(&self) -> usize {
        self.at
    }

    /// True before anything has been written.
    pub const fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// The number of bytes written.
    ///
    /// # Errors
    /// Truncated: not all of them fitted; then the buffer's contents are undefined.
    pub fn finish(self, format: Format) -> Result<usize, Error> {
        need(format, self.buf.len(), self.at)?;
        Ok(self.at)
    }

    /// Writes bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(place) = self.buf.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    fn var(&mut self, n: u64) {
        let be = n.to_be_bytes();
        match var_len(n) {
            1 => self.bytes(&be[7..]),
            3 => self.bytes(&[0xFD, be[6], be[7]]),
            5 => self.bytes(&[0xFE, be[4], be[5], be[6], be[7]]),
            _ => {
                self.bytes(&[0xFF]);
                self.bytes(&be);
            }
        }
    }

    /// Writes a type and a length.
    #[inline]
    pub fn head(&mut self, kind: u32, value_len: usize) {
        if kind < 0xFD && value_len < 0xFD {
            return self.bytes(&[kind as u8, value_len as u8]);
        }
        self.var(kind.into());
        self.var(value_len as u64);
    }

    /// Writes an element.
    pub fn element(&mut self, kind: u32, value: &[u8]) {
        self.head(kind, value.len());
        self.bytes(value);
    }

    /// Writes a non-negative integer as short as it can be, without a head.
    pub fn number_value(&mut self, n: u64) {
        self.bytes(&n.to_be_bytes()[8 - number_len(n)..]);
    }

    /// Writes an element that holds a non-negative integer.
    pub fn number(&mut self, kind: u32, n: u64) {
        self.head(kind, number_len(n));
        self.number_value(n);
    }

    /// Writes an element if there is a number for it.
    pub fn optional_number(&mut self, kind: u32, n: Option<u64>) {
        if let Some(n) = n {
            self.number(kind, n);
        }
    }

    /// Writes an element whose value `write` writes; it is called twice, first to be counted.
    pub fn nested(&mut self, kind: u32, write: impl Fn(&mut Writer<'_>)) {
        self.head(kind, Writer::count(&write));
        write(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: Format = Format::NdnTlv;

    fn one(bytes: &[u8]) -> Result<(u32, &[u8]), Error> {
        Reader::new(bytes, F).next().map(|e| e.map(|e| (e.kind, e.value)).unwrap_or_default())
    }

    fn written(write: impl Fn(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = vec![0xEE; Writer::count(&write)];
        let mut writer = Writer::new(&mut out);
        write(&mut writer);
        assert_eq!(writer.finish(F), Ok(out.len()));
        out
    }

    #[test]
    fn numbers_take_the_shortest_form_and_no_other() {
        // Packet format, "Variable-Size Encoding": 1024 is FD0400, not FE00000400.
        assert_eq!(written(|w| w.head(1024, 0)), [0xFD, 4, 0, 0]);
        assert_eq!(one(&[0xFD, 4, 0, 0]), Ok((1024, &[][..])));
        let e = one(&[0xFE, 0, 0, 4, 0, 0]).unwrap_err();
        assert_eq!(e.to_string(), "NDN TLV: bad number, not in its shortest form 1024");
        for edge in [1, 252, 253, 0xFFFF, 0x1_0000, u32::MAX] {
            let bytes = written(|w| w.head(edge, 0));
            assert_eq!(one(&bytes), Ok((edge, &[][..])));
            assert_eq!(bytes.len(), var_len(edge.into()) + 1);
        }
        for long in [&[0xFD, 0, 252, 0][..], &[8, 0xFD, 0, 252], &[0xFE, 0, 0, 0xFF, 0xFF, 0]] {
            assert!(!one(long).unwrap_err().is_truncated(), "{long:?}");
        }
        let large = [8, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(Head::read(&large, 0, F).map(|h| h.value_len), Ok(1 << 32));
    }

    #[test]
    fn types_are_from_1_to_32_bits() {
        assert_eq!(one(&[0, 0]).unwrap_err().to_string(), "NDN TLV: bad element type 0");
        let e = one(&[0xFF, 0, 0, 0, 1, 0, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(e.to_string(), "NDN TLV: bad element type 4294967295");
    }

    #[test]
    fn lengths_are_held_against_what_is_there() {
        assert_eq!(one(&[8, 2, 1, 2]), Ok((8, &[1, 2][..])));
        let e = one(&[8, 3, 1, 2]).unwrap_err();
        assert_eq!(e.to_string(), "NDN TLV: truncated, 5 bytes needed and 4 there");
        let all = [8, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
        for n in 1..=all.len() {
            assert!(one(&all[..n]).unwrap_err().is_truncated(), "{n} bytes");
        }
        assert_eq!(Head::read(&all, 0, F).map(|h| h.element_len()), Ok(usize::MAX));
        assert_eq!(one(&[]), Ok((0, &[][..])));
    }

    #[test]
    fn integers_have_1_2_4_or_8_bytes() {
        // Packet format, "Non-Negative Integer Encoding", with 54 for TT.
        for (n, bytes) in [
            (0, &[54, 1, 0][..]),
            (1, &[54, 1, 1]),
            (255, &[54, 1, 0xFF]),
            (256, &[54, 2, 1, 0]),
            (65535, &[54, 2, 0xFF, 0xFF]),
            (65536, &[54, 4, 0, 1, 0, 0]),
            (1 << 32, &[54, 8, 0, 0, 0, 1, 0, 0, 0, 0]),
        ] {
            assert_eq!(written(|w| w.number(54, n)), bytes);
            let element = Reader::new(bytes, F).next().unwrap().unwrap();
            assert_eq!(element.number(), Ok(n));
        }
        assert_eq!(parse_number(&[0, 0, 0, 7]), Some(7));
        for len in [0, 3, 5, 6, 7, 9] {
            assert_eq!(parse_number(&vec![0; len]), None);
        }
    }

    #[test]
    fn criticality_is_the_lowest_bit_above_31() {
        for (kind, critical) in [(1, true), (20, true), (31, true), (32, false), (33, true)] {
            assert_eq!(is_critical(kind), critical, "{kind}");
        }
    }

    #[test]
    fn a_short_buffer_is_told_at_the_end() {
        let mut out = [0; 5];
        let mut writer = Writer::new(&mut out);
        writer.nested(7, |w| w.element(8, b"ab"));
        assert!(writer.finish(F).unwrap_err().is_truncated());
    }
}
