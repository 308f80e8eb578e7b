//! The virtio-net header that packet sockets and TAP devices put before a frame, and the
//! [`Offload`] it stands for. Read virtio 1.2, section 5.1.6 first.
//!
//! Both use the legacy layout: 10 bytes in the machine's byte order.

use crate::packet::{Checksum, Offload, Segmentation};

/// The header, as the kernel lays it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct VnetHeader {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

/// Bytes of the header.
pub(crate) const VNET_LEN: usize = size_of::<VnetHeader>();

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

impl VnetHeader {
    /// The header in the bytes that the kernel wrote.
    pub(crate) fn from_bytes(b: [u8; VNET_LEN]) -> VnetHeader {
        let field = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
        VnetHeader {
            flags: b[0],
            gso_type: b[1],
            hdr_len: field(2),
            gso_size: field(4),
            csum_start: field(6),
            csum_offset: field(8),
        }
    }

    /// Its bytes for the kernel.
    pub(crate) fn to_bytes(self) -> [u8; VNET_LEN] {
        let mut b = [0; VNET_LEN];
        b[..2].copy_from_slice(&[self.flags, self.gso_type]);
        let fields = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        for (i, field) in fields.into_iter().enumerate() {
            b[2 + 2 * i..4 + 2 * i].copy_from_slice(&field.to_ne_bytes());
        }
        b
    }

    /// The offload work of a received frame of `len` bytes, or `None` if the header contradicts the
    /// frame or requires something that [`Offload`] cannot express.
    pub(crate) fn to_offload(self, len: usize) -> Option<Offload> {
        let mut offload = Offload::NONE;
        if self.flags & NEEDS_CSUM != 0 {
            offload.checksum = Checksum::Partial;
            offload.checksum_start = self.csum_start;
            offload.checksum_offset = self.csum_offset;
        } else if self.flags & DATA_VALID != 0 {
            offload.checksum = Checksum::Verified;
        }
        offload.segmentation = match self.gso_type {
            GSO_NONE => Segmentation::None,
            GSO_TCPV4 => Segmentation::TcpV4,
            t if t == GSO_TCPV4 | GSO_ECN => Segmentation::TcpV4Ecn,
            GSO_TCPV6 => Segmentation::TcpV6,
            t if t == GSO_TCPV6 | GSO_ECN => Segmentation::TcpV6Ecn,
            GSO_UDP_L4 => Segmentation::Udp,
            _ => return None,
        };
        if offload.segmentation != Segmentation::None {
            offload.segment_size = self.gso_size;
            offload.header_len = self.hdr_len;
        }
        is_consistent(&offload, len).then_some(offload)
    }

    /// The header for a frame that owes this.
    pub(crate) fn from_offload(offload: &Offload) -> VnetHeader {
        let mut header = VnetHeader::default();
        if offload.checksum == Checksum::Partial {
            header.flags = NEEDS_CSUM;
            header.csum_start = offload.checksum_start;
            header.csum_offset = offload.checksum_offset;
        }
        header.gso_type = match offload.segmentation {
            Segmentation::None => return header,
            Segmentation::TcpV4 => GSO_TCPV4,
            Segmentation::TcpV4Ecn => GSO_TCPV4 | GSO_ECN,
            Segmentation::TcpV6 => GSO_TCPV6,
            Segmentation::TcpV6Ecn => GSO_TCPV6 | GSO_ECN,
            Segmentation::Udp => GSO_UDP_L4,
        };
        header.gso_size = offload.segment_size;
        header.hdr_len = offload.header_len;
        header
    }
}

/// Cutting a packet into single bytes would take a worker milliseconds. Linux makes any number of
/// segments of this many bytes, and some hundred shorter ones: of a connection with a small MSS, of
/// datagrams (`UDP_MAX_SEGMENTS`), or of what it has joined on the way in.
const SEGMENT_MIN: usize = 32;
/// Most segments that are shorter.
const SHORT_MAX: usize = 512;

/// Whether the checksum lies in a frame of `len` bytes, and a super-packet has segments, and not
/// too many of them.
pub(crate) fn is_consistent(offload: &Offload, len: usize) -> bool {
    let end = usize::from(offload.checksum_start) + usize::from(offload.checksum_offset) + 2;
    let checksum = offload.checksum != Checksum::Partial || end <= len;
    let size = usize::from(offload.segment_size);
    let is_few = size >= SEGMENT_MIN || size > 0 && len / size <= SHORT_MAX;
    let segments = offload.segmentation == Segmentation::None
        || (is_few && usize::from(offload.header_len) <= len);
    checksum && segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_ten_bytes() {
        assert_eq!(VNET_LEN, 10);
    }

    #[test]
    fn offload_work_survives_the_header() {
        use Segmentation::*;
        for segmentation in [None, TcpV4, TcpV4Ecn, TcpV6, TcpV6Ecn, Udp] {
            let owed = Offload {
                checksum: Checksum::Partial,
                segmentation,
                checksum_start: 34,
                checksum_offset: 16,
                segment_size: if segmentation == None { 0 } else { 1448 },
                header_len: if segmentation == None { 0 } else { 66 },
            };
            let header = VnetHeader::from_offload(&owed);
            assert_eq!(VnetHeader::from_bytes(header.to_bytes()), header);
            assert_eq!(header.to_offload(3000), Some(owed));
        }
        assert_eq!(VnetHeader::default().to_offload(60), Some(Offload::NONE));
    }

    #[test]
    fn a_header_that_contradicts_its_frame_is_refused() {
        let outside = VnetHeader { flags: NEEDS_CSUM, csum_start: 50, ..VnetHeader::default() };
        assert_eq!(outside.to_offload(51), None);
        assert!(outside.to_offload(52).is_some());
        let unknown = VnetHeader { gso_type: 3, gso_size: 1, ..VnetHeader::default() };
        assert_eq!(unknown.to_offload(1500), None);
        let no_size = VnetHeader { gso_type: GSO_TCPV4, ..VnetHeader::default() };
        assert_eq!(no_size.to_offload(1500), None);
        // So many that cutting the packet would take milliseconds.
        for (gso_type, gso_size, len, is_sound) in [
            (GSO_TCPV4, 1, 1500, false),
            (GSO_TCPV4, 31, 60_000, false),
            (GSO_TCPV6, 32, 60_000, true),
            // Two writes of ten bytes that GRO has joined.
            (GSO_TCPV4, 10, 86, true),
            (GSO_UDP_L4, 1, 62 + 128, true),
        ] {
            let header = VnetHeader { gso_type, gso_size, ..VnetHeader::default() };
            assert_eq!(header.to_offload(len).is_some(), is_sound, "{gso_size}");
        }
    }
}
