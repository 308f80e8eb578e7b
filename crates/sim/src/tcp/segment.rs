//! A segment without its bytes, and the header that carries it.

use arrayvec::ArrayVec;
use plexus_wire::Error;
use plexus_wire::tcp::{Flags, HEADER_LEN, OPTIONS_LEN_MAX, Repr, TcpOption};

/// The ECN field of the IP header (RFC 3168, 5), as the number in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Codepoint {
    /// Not ECN-capable: a congested queue drops it.
    #[default]
    NotEct = 0,
    /// ECN-capable, the second of two.
    Ect1 = 1,
    /// ECN-capable.
    Ect0 = 2,
    /// ECN-capable, and congestion was met.
    Ce = 3,
}

impl Codepoint {
    /// What the lower two bits of `field` say.
    pub const fn from_bits(field: u8) -> Codepoint {
        match field & 3 {
            0 => Codepoint::NotEct,
            1 => Codepoint::Ect1,
            2 => Codepoint::Ect0,
            _ => Codepoint::Ce,
        }
    }
}

/// Most blocks of selective acknowledgement in a header (RFC 2018, 3).
pub const SACK_BLOCKS_MAX: usize = 4;

/// A segment as hosts exchange it: all that its headers say, and how long its payload is.
///
/// Sequence numbers are those on the wire. [`to_repr`](Segment::to_repr) and
/// [`from_repr`](Segment::from_repr) turn it into a real header and back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte, or of SYN.
    pub seq: u32,
    /// Next byte expected; counts if ACK is set.
    pub ack: u32,
    /// The control bits.
    pub flags: Flags,
    /// The window as in the header, to be shifted.
    pub window: u16,
    /// Bytes of payload.
    pub len: u32,
    /// The IP header's ECN field.
    pub ecn: Codepoint,
    /// Largest segment that the sender of this SYN receives, in bytes.
    pub mss: Option<u16>,
    /// The window's shift count, in a SYN (RFC 7323, 2).
    pub window_scale: Option<u8>,
    /// Selective acknowledgements are welcome, in a SYN (RFC 2018, 2).
    pub sack_permitted: bool,
    /// Time stamp and echo (RFC 7323, 3).
    pub timestamps: Option<(u32, u32)>,
    /// Edges of blocks that have arrived (RFC 2018, 3), a duplicate first (RFC 2883).
    pub sacks: ArrayVec<(u32, u32), SACK_BLOCKS_MAX>,
}

impl Segment {
    /// True if all of `flags` are set.
    #[inline(always)]
    pub fn has(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }

    /// Bytes of options, padding included: as Linux lays them out.
    pub fn options_len(&self) -> usize {
        let syn = 4 * usize::from(self.mss.is_some())
            + 4 * usize::from(self.window_scale.is_some())
            // Two of the bytes that align time stamps hold the option that allows blocks.
            + 4 * usize::from(self.sack_permitted && self.timestamps.is_none());
        syn + 12 * usize::from(self.timestamps.is_some()) + sack_len(self.sacks.len())
    }

    /// Bytes in TCP header and payload.
    pub fn wire_len(&self) -> usize {
        HEADER_LEN + self.options_len() + self.len as usize
    }

    /// The header that says this. Payload, checksum and the IP header are the caller's.
    ///
    /// # Errors
    /// Truncated: more options than 40 bytes hold, as four blocks besides time stamps.
    pub fn to_repr(&self, src_port: u16, dst_port: u16) -> Result<Repr, Error> {
        let mut options = ArrayVec::<u8, OPTIONS_LEN_MAX>::new();
        let pad = TcpOption::NoOperation;
        if let Some(mss) = self.mss {
            TcpOption::MaxSegmentSize(mss).push(&mut options)?;
        }
        if self.sack_permitted {
            if self.timestamps.is_none() {
                pad.push(&mut options)?;
                pad.push(&mut options)?;
            }
            TcpOption::SackPermitted.push(&mut options)?;
        } else if self.timestamps.is_some() {
            pad.push(&mut options)?;
            pad.push(&mut options)?;
        }
        if let Some((value, echo)) = self.timestamps {
            TcpOption::Timestamps(value, echo).push(&mut options)?;
        }
        if let Some(shift) = self.window_scale {
            pad.push(&mut options)?;
            TcpOption::WindowScale(shift).push(&mut options)?;
        }
        if !self.sacks.is_empty() {
            let mut edges = ArrayVec::<u8, { 8 * SACK_BLOCKS_MAX }>::new();
            for (left, right) in &self.sacks {
                edges.extend(left.to_be_bytes());
                edges.extend(right.to_be_bytes());
            }
            pad.push(&mut options)?;
            pad.push(&mut options)?;
            TcpOption::Sack(&edges).push(&mut options)?;
        }
        Ok(Repr {
            src_port,
            dst_port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options,
        })
    }

    /// What a header with `len` bytes of payload behind it says, in a packet with this ECN field.
    /// Options that nobody here knows are skipped, as RFC 9293, 3.1 asks.
    ///
    /// # Errors
    /// Truncated or invalid: a malformed option.
    pub fn from_repr(repr: &Repr, len: u32, ecn: Codepoint) -> Result<Segment, Error> {
        let mut segment = Segment {
            seq: repr.seq,
            ack: repr.ack,
            flags: repr.flags,
            window: repr.window,
            len,
            ecn,
            ..Segment::default()
        };
        for option in plexus_wire::tcp::Options::new(&repr.options) {
            match option? {
                TcpOption::MaxSegmentSize(mss) => segment.mss = Some(mss),
                TcpOption::WindowScale(shift) => segment.window_scale = Some(shift),
                TcpOption::SackPermitted => segment.sack_permitted = true,
                TcpOption::Timestamps(value, echo) => segment.timestamps = Some((value, echo)),
                TcpOption::Sack(edges) => {
                    let word = |b: &[u8]| b.iter().fold(0, |n, byte| n << 8 | u32::from(*byte));
                    // A second option of this kind adds what there is room for.
                    let room = segment.sacks.remaining_capacity();
                    let blocks = edges.chunks_exact(8).map(|b| (word(&b[..4]), word(&b[4..])));
                    segment.sacks.extend(blocks.take(room));
                }
                TcpOption::NoOperation | TcpOption::Other(..) => {}
            }
        }
        Ok(segment)
    }
}

/// Bytes of options that `blocks` blocks take.
pub(super) const fn sack_len(blocks: usize) -> usize {
    if blocks == 0 { 0 } else { 4 + 8 * blocks }
}

#[cfg(test)]
mod tests {
    use plexus_wire::tcp;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_syn_has_the_bytes_that_linux_sends() {
        let syn = Segment {
            seq: 1,
            flags: Flags::SYN,
            window: 64_240,
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((5, 0)),
            ..Segment::default()
        };
        let options = [2, 4, 5, 0xB4, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 3, 3, 7];
        assert_eq!(syn.to_repr(49_152, 80).unwrap().options[..], options);
    }

    proptest! {
        #[test]
        fn a_header_says_what_the_segment_said(
            (seq, ack, window, len) in any::<(u32, u32, u16, u16)>(),
            (flags, ecn) in any::<(u8, u8)>(),
            (mss, window_scale) in any::<(Option<u16>, Option<u8>)>(),
            (sack_permitted, timestamps) in any::<(bool, Option<(u32, u32)>)>(),
            blocks in proptest::collection::vec(any::<(u32, u32)>(), 0..=4),
        ) {
            let segment = Segment {
                seq, ack, window,
                flags: Flags(flags),
                len: len.into(),
                ecn: Codepoint::from_bits(ecn),
                mss, window_scale, sack_permitted, timestamps,
                sacks: blocks.into_iter().collect(),
            };
            let repr = segment.to_repr(7, 9);
            prop_assert_eq!(repr.is_ok(), segment.options_len() <= OPTIONS_LEN_MAX);
            let Ok(repr) = repr else { return Ok(()) };
            prop_assert_eq!(repr.buffer_len(), HEADER_LEN + segment.options_len());
            let mut bytes = vec![0; segment.wire_len()];
            repr.emit(&mut bytes).unwrap();
            let view = tcp::Segment::new_checked(&bytes[..]).unwrap();
            let read = Repr::parse(&view).unwrap();
            let read = Segment::from_repr(&read, view.payload().len() as u32, segment.ecn);
            prop_assert_eq!(read.unwrap(), segment);
        }

        #[test]
        fn no_options_panic(options in proptest::collection::vec(any::<u8>(), 0..=40)) {
            let repr = Repr {
                src_port: 1, dst_port: 2, seq: 3, ack: 4, flags: Flags::ACK, window: 5, urgent: 0,
                options: options.into_iter().collect(),
            };
            let _ = Segment::from_repr(&repr, 0, Codepoint::NotEct);
        }
    }
}
