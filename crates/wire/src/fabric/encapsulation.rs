//! How fabric frames travel on a link that is not a bare cable between two nodes.
//!
//! - *Native*: the fabric header is the first byte of the frame on the cable (`axon.txt` §3.1).
//! - *EtherType*: an Ethernet header with type 0x88B5 (IEEE 802, "local experimental") before it,
//!   for devices that reject frames by address. Hellos and all other link messages travel so, to
//!   01-80-C2-00-00-0E, which bridges do not forward (IEEE 802.1Q, 8.6.3).
//! - *UDP*: Ethernet, IPv4 or IPv6, and UDP to port 18773, to cross a routed network. The kernel
//!   writes and reads these headers. The source port is taken from a hash of the flow, so that the
//!   network may spread flows (RFC 7510, 3).

use crate::ethernet::{self, EtherType};
use crate::fabric::{Fields, Kind};
use crate::flow::FlowKey;
use crate::mac::MacAddr;

/// The EtherType of fabric frames.
pub const ETHERTYPE: EtherType = EtherType(0x88B5);
/// Where link messages are sent: the nearest bridge, which does not forward them.
pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E]);

/// A hash of the flow that a frame of a UDP link belongs to: of the host's packet after the fabric
/// header, or of the Ethernet addresses if it is not an IP packet. All other frames have the same
/// hash.
pub fn flow_hash(frame: &[u8], seed: u64) -> u64 {
    let fields = Fields::read(frame).ok().filter(|f| f.kind() == Kind::Ethernet);
    let Some(carried) = fields.and_then(|f| frame.get(f.header_len()..)) else { return 0 };
    if let Some(key) = FlowKey::from_frame(carried) {
        return key.hash(seed);
    }
    // FNV-1a; the upper half is folded in, since its low bits know only those of the bytes.
    let addresses = carried.iter().take(12);
    let hash = addresses.fold(seed, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3));
    hash ^ hash >> 32
}

/// The Ethernet header of a fabric frame on a link of EtherType encapsulation.
pub const fn ethertype_header(dst: MacAddr, src: MacAddr) -> [u8; ethernet::HEADER_LEN] {
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (dst.0, src.0);
    let [m, n] = ETHERTYPE.0.to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric;

    #[test]
    fn a_flow_keeps_its_hash_and_others_have_others() {
        // A host's UDP datagram from this port, after a fabric header with this many hops.
        let carried = |from: u16, hops: &[u8]| {
            let header = fabric::Repr::new(Kind::Ethernet, hops).unwrap().to_bytes().unwrap();
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
            frame.extend([0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.extend(from.to_be_bytes());
            frame.extend([0, 53, 0, 8, 0, 0]);
            [&header[..], &frame].concat()
        };
        let hash = |from, hops: &[u8]| flow_hash(&carried(from, hops), 7);
        assert_eq!(hash(1000, &[1]), hash(1000, &[2, 3, 4]), "the path is not the flow");
        let ports: std::collections::BTreeSet<u64> =
            (1000..1200).map(|from| hash(from, &[1]) % 16).collect();
        assert_eq!(ports.len(), 16, "200 flows use every one of 16 source ports");
        // ARP: by its Ethernet addresses. Control messages and link messages have no flow.
        let arp = |host: u8| {
            let mut frame = carried(1, &[1]);
            (frame[7 + 11], frame[7 + 12], frame[7 + 13]) = (host, 8, 6);
            flow_hash(&frame, 7)
        };
        assert_ne!(arp(1) % 16, arp(2) % 16);
        let header = fabric::Repr::new(Kind::Control, &[1]).unwrap().to_bytes().unwrap();
        let link = ethertype_header(NEAREST_BRIDGE, MacAddr([2; 6]));
        assert_eq!([flow_hash(&header, 7), flow_hash(&link, 7), flow_hash(&[], 7)], [0; 3]);
    }

    #[test]
    fn a_link_header_names_both_ends() {
        let header = ethertype_header(MacAddr([2; 6]), MacAddr([4; 6]));
        let repr = ethernet::Repr::parse(&ethernet::Frame::new_checked(header).unwrap()).unwrap();
        assert_eq!((repr.dst, repr.src), (MacAddr([2; 6]), MacAddr([4; 6])));
        assert_eq!(repr.ethertype, ETHERTYPE);
    }
}
