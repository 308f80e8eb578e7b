//! Splits a stream of bytes (TCP, Unix) into link packets.
//!
//! A stream has no delimiters between packets: after a byte that does not parse, the rest cannot be
//! trusted, and the face closes.

use std::fmt;

use plexus_wire::Format;
use plexus_wire::ndn::{tlv, types};

/// What ends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The next element is not an Interest, Data or link packet, but has this type.
    Type(u32),
    /// The next element is malformed.
    Malformed,
    /// A packet of this many bytes.
    TooLong(usize),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Type(kind) => {
                write!(f, "an element of type {kind} where a packet should begin")
            }
            Broken::Malformed => {
                f.write_str("malformed type or length where a packet should begin")
            }
            Broken::TooLong(len) => write!(f, "a packet of {len} bytes"),
        }
    }
}

impl std::error::Error for Broken {}

/// Bytes read from a stream that do not form a complete packet yet.
#[derive(Debug)]
pub struct Cutter {
    /// The beginning of a packet; a complete one after it was returned.
    begun: Vec<u8>,
    /// Length of the packet that begins there; 0: not known yet.
    len: usize,
    len_max: usize,
    broken: Option<Broken>,
}

impl Cutter {
    /// For packets of at most `len_max` bytes. No more than that is kept.
    pub fn new(len_max: usize) -> Cutter {
        Cutter { begun: Vec::new(), len: 0, len_max, broken: None }
    }

    /// Bytes kept.
    pub fn kept(&self) -> usize {
        self.begun.len()
    }

    /// Takes the next packet out of `input`, the newly read bytes, if all of it lies there;
    /// otherwise [`next`](Self::next) has to assemble it.
    ///
    /// # Errors
    /// As those of `next`.
    pub fn whole<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<&'i [u8]>, Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        if self.len != 0 && self.begun.len() == self.len {
            self.begun.clear();
            self.len = 0;
        }
        if self.begun.is_empty() {
            let len = self.measure(input)?;
            if len != 0 && len <= input.len() {
                let (packet, rest) = input.split_at(len);
                *input = rest;
                return Ok(Some(packet));
            }
        }
        Ok(None)
    }

    /// Takes the next packet out of `input`, the newly read bytes; `None` when all of them are
    /// consumed. A packet that lies within `input` is not copied.
    ///
    /// # Errors
    /// When the stream cannot continue. All further calls return the same error.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'a [u8]>, Broken> {
        if let Some(packet) = self.whole(input)? {
            return Ok(Some(packet));
        }
        // The length is in the first few bytes.
        while self.len == 0 {
            let Some((first, rest)) = input.split_first() else { return Ok(None) };
            self.begun.push(*first);
            *input = rest;
            self.len =
                measure(&self.begun, self.len_max).inspect_err(|b| self.broken = Some(*b))?;
        }
        let missing = self.len - self.begun.len();
        let (more, rest) = input.split_at(missing.min(input.len()));
        self.begun.reserve_exact(missing);
        self.begun.extend_from_slice(more);
        *input = rest;
        Ok((more.len() == missing).then_some(self.begun.as_slice()))
    }

    fn measure(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        measure(bytes, self.len_max).inspect_err(|b| self.broken = Some(*b))
    }
}

/// Length of the packet at the start of `bytes`; 0: more bytes are needed.
fn measure(bytes: &[u8], len_max: usize) -> Result<usize, Broken> {
    match tlv::Head::read(bytes, 0, Format::NdnLp) {
        Ok(head) => match head.kind {
            types::INTEREST | types::DATA | types::LP_PACKET => match head.element_len() {
                len if len > len_max => Err(Broken::TooLong(len)),
                len => Ok(len),
            },
            other => Err(Broken::Type(other)),
        },
        Err(error) if error.is_truncated() => Ok(0),
        Err(_) => Err(Broken::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u8, value_len: usize) -> Vec<u8> {
        let mut bytes = vec![0; tlv::element_len(kind.into(), value_len)];
        let mut w = tlv::Writer::new(&mut bytes);
        w.element(kind.into(), &vec![kind; value_len]);
        bytes
    }

    fn cut(cutter: &mut Cutter, mut input: &[u8]) -> Result<Vec<Vec<u8>>, Broken> {
        let mut all = Vec::new();
        while let Some(packet) = cutter.next(&mut input)? {
            all.push(packet.to_vec());
        }
        assert!(input.is_empty());
        Ok(all)
    }

    #[test]
    fn packets_come_out_whole_wherever_the_stream_is_cut() {
        let packets = [packet(5, 3), packet(6, 300), packet(100, 0), packet(6, 252), packet(5, 1)];
        let stream = packets.concat();
        for first in 0..=stream.len() {
            for second in [first, (first + 1).min(stream.len()), (first + 256).min(stream.len())] {
                let mut cutter = Cutter::new(304);
                let mut all = cut(&mut cutter, &stream[..first]).unwrap();
                all.extend(cut(&mut cutter, &stream[first..second]).unwrap());
                all.extend(cut(&mut cutter, &stream[second..]).unwrap());
                assert_eq!(all, packets, "cut at {first} and {second}");
            }
        }
        let mut cutter = Cutter::new(304);
        let one_by_one = stream.iter().map(|b| cut(&mut cutter, &[*b]).unwrap());
        assert_eq!(one_by_one.flatten().collect::<Vec<_>>(), packets);
    }

    #[test]
    fn an_oversized_or_unknown_element_ends_the_stream_at_once() {
        let long = packet(6, 301);
        assert_eq!(cut(&mut Cutter::new(304), &long[..4]), Err(Broken::TooLong(305)));
        let huge = [6, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
        let mut cutter = Cutter::new(8800);
        assert_eq!(cut(&mut cutter, &huge[..9]), Ok(vec![]));
        assert_eq!(cut(&mut cutter, &huge[9..]), Err(Broken::TooLong(usize::MAX)));
        assert_eq!(cut(&mut cutter, b""), Err(Broken::TooLong(usize::MAX)));
        assert_eq!(cut(&mut Cutter::new(8800), b"GET / HTTP/1.1"), Err(Broken::Type(71)));
        assert_eq!(cut(&mut Cutter::new(8800), &[0, 0]), Err(Broken::Malformed));
        assert_eq!(cut(&mut Cutter::new(8800), &[6, 0xFD, 0, 1]), Err(Broken::Malformed));
    }

    #[test]
    fn no_more_than_a_packet_is_kept() {
        let mut cutter = Cutter::new(8800);
        let stream = [packet(6, 8000), packet(6, 8700)].concat();
        for piece in stream[..16_000].chunks(1000) {
            cut(&mut cutter, piece).unwrap();
            assert!(cutter.kept() <= 8800 && cutter.begun.capacity() <= 8800 + 64);
        }
    }
}
