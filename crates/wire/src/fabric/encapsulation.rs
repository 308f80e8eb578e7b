//! How fabric frames travel on a link that is not a bare cable between two nodes.
//!
//! - *Native*: the fabric header is the first byte of the frame on the cable (`axon.txt` §3.1).
//! - *EtherType*: an Ethernet header with type 0x88B5 (IEEE 802, "local experimental") before it,
//!   for devices that reject frames by address. Hellos and all other link messages travel so, to
//!   01-80-C2-00-00-0E, which bridges do not forward (IEEE 802.1Q, 8.6.3).
//! - *UDP*: Ethernet, IPv4 or IPv6, and UDP to port 18773, to cross a routed network. The source
//!   port is taken from a hash of the flow, so that the network may spread flows (RFC 7510, 3).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::Sum;
use crate::error::{Error, Format, need};
use crate::ethernet::{self, EtherType};
use crate::fabric::{Fields, Kind};
use crate::flow::FlowKey;
use crate::ip::Protocol;
use crate::mac::MacAddr;
use crate::{ipv4, ipv6, udp};

/// The EtherType of fabric frames.
pub const ETHERTYPE: EtherType = EtherType(0x88B5);
/// Where link messages are sent: the nearest bridge, which does not forward them.
pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E]);
/// The UDP port of fabric frames.
pub const UDP_PORT: u16 = 18_773;

/// The source port of a flow: 14 bits of its hash, in the range that IANA leaves to dynamic use.
pub const fn entropy_port(flow_hash: u64) -> u16 {
    0xC000 | (flow_hash & 0x3FFF) as u16
}

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

/// The headers of a fabric frame that crosses a routed network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Udp {
    /// The next router's address, or the far end's.
    pub dst_mac: MacAddr,
    /// Our own.
    pub src_mac: MacAddr,
    /// The tunnel's ends.
    pub addresses: Addresses,
    /// What spreads flows: see [`entropy_port`].
    pub src_port: u16,
}

/// The ends of a tunnel, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// Source and destination.
    V4(Ipv4Addr, Ipv4Addr),
    /// Source and destination.
    V6(Ipv6Addr, Ipv6Addr),
}

impl Addresses {
    /// Source and destination.
    pub const fn pair(&self) -> (IpAddr, IpAddr) {
        match *self {
            Addresses::V4(src, dst) => (IpAddr::V4(src), IpAddr::V4(dst)),
            Addresses::V6(src, dst) => (IpAddr::V6(src), IpAddr::V6(dst)),
        }
    }

    const fn ip_header_len(&self) -> usize {
        match self {
            Addresses::V4(..) => ipv4::HEADER_LEN,
            Addresses::V6(..) => ipv6::HEADER_LEN,
        }
    }

    fn pseudo_header(&self, len: u16) -> Sum {
        match *self {
            Addresses::V4(src, dst) => Sum::pseudo_v4(src, dst, Protocol::UDP, len),
            Addresses::V6(src, dst) => Sum::pseudo_v6(src, dst, Protocol::UDP, len.into()),
        }
    }
}

impl Udp {
    /// Bytes that [`emit`](Self::emit) writes before the fabric header.
    pub const fn buffer_len(&self) -> usize {
        ethernet::HEADER_LEN + self.addresses.ip_header_len() + udp::HEADER_LEN
    }

    /// Writes the headers before a fabric frame, which starts in `frame` at
    /// [`buffer_len`](Self::buffer_len) and fills the rest. Checksums are complete, including
    /// UDP's: over IPv6 it is mandatory (RFC 8200, 8.1), and nothing else protects the paths.
    ///
    /// # Errors
    /// Truncated: no room for the headers. Invalid: more than a datagram holds.
    pub fn emit(&self, frame: &mut [u8]) -> Result<(), Error> {
        let headers = self.buffer_len();
        need(Format::Udp, frame.len(), headers)?;
        let carried = frame.len() - headers;
        let (mac, rest) = frame.split_at_mut(ethernet::HEADER_LEN);
        let (ip, datagram) = rest.split_at_mut(self.addresses.ip_header_len());
        // First of all, since it is the strictest about the length.
        udp::Repr { src_port: self.src_port, dst_port: UDP_PORT, payload_len: carried }
            .emit(datagram)?;
        let ethertype = match self.addresses {
            Addresses::V4(src, dst) => {
                ipv4::Repr::new(src, dst, Protocol::UDP, datagram.len()).emit(ip)?;
                EtherType::IPV4
            }
            Addresses::V6(src, dst) => {
                ipv6::Repr::new(src, dst, Protocol::UDP, datagram.len()).emit(ip)?;
                EtherType::IPV6
            }
        };
        ethernet::Repr { dst: self.dst_mac, src: self.src_mac, ethertype }.emit(mac)?;
        // `udp::Repr::emit` has found that the length fits.
        let sum = self.addresses.pseudo_header(datagram.len() as u16);
        udp::Datagram::new_checked(datagram)?.fill_checksum(sum);
        Ok(())
    }

    /// Reads the headers of a frame and finds the fabric frame in it.
    ///
    /// # Errors
    /// Not untagged IPv4 or IPv6 with UDP to [`UDP_PORT`] right behind it; fragments; wrong
    /// lengths or checksums. A UDP checksum may be missing over IPv4.
    pub fn parse(frame: &[u8]) -> Result<(Udp, &[u8]), Error> {
        let mac = ethernet::Frame::new_checked(frame)?;
        let (addresses, datagram) = match mac.ethertype() {
            EtherType::IPV4 => {
                let ip = ipv4::Packet::new_checked(mac.payload())?;
                let repr = ipv4::Repr::parse(&ip)?;
                if ip.is_fragment() {
                    let at = repr.fragment_offset as u32;
                    return Err(Error::invalid(Format::Ipv4, "fragment at", at));
                }
                next_is_udp(Format::Ipv4, repr.protocol)?;
                (Addresses::V4(repr.src, repr.dst), ip.payload())
            }
            EtherType::IPV6 => {
                let ip = ipv6::Packet::new_checked(mac.payload())?;
                next_is_udp(Format::Ipv6, ip.next_header())?;
                (Addresses::V6(ip.src(), ip.dst()), ip.payload())
            }
            other => return Err(Error::invalid(Format::Ethernet, "type", other.0.into())),
        };
        let datagram = udp::Datagram::new_checked(datagram)?;
        if datagram.dst_port() != UDP_PORT {
            return Err(Error::invalid(Format::Udp, "port", datagram.dst_port().into()));
        }
        let missing = datagram.checksum() == 0 && matches!(addresses, Addresses::V6(..));
        // The view has checked the length field, so it fits.
        let sum = addresses.pseudo_header(datagram.datagram_len() as u16);
        if missing || !datagram.checksum_ok(sum) {
            return Err(Error::checksum(Format::Udp));
        }
        let (dst_mac, src_mac) = (mac.dst(), mac.src());
        let src_port = datagram.src_port();
        Ok((Udp { dst_mac, src_mac, addresses, src_port }, datagram.payload()))
    }
}

fn next_is_udp(format: Format, protocol: Protocol) -> Result<(), Error> {
    match protocol {
        Protocol::UDP => Ok(()),
        other => Err(Error::invalid(format, "protocol", other.0.into())),
    }
}

impl fmt::Display for Udp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst) = self.addresses.pair();
        write!(f, "{src}.{} > {dst}.{UDP_PORT} fabric over UDP", self.src_port)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fabric;

    fn addresses() -> impl Strategy<Value = Addresses> {
        let v4 = any::<[[u8; 4]; 2]>();
        let v6 = any::<[[u8; 16]; 2]>();
        prop_oneof![
            v4.prop_map(|[a, b]| Addresses::V4(a.into(), b.into())),
            v6.prop_map(|[a, b]| Addresses::V6(a.into(), b.into())),
        ]
    }

    proptest! {
        #[test]
        fn written_values_parse_back(
            addresses in addresses(), macs in any::<[[u8; 6]; 2]>(), hash: u64,
            carried in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index,
        ) {
            let [dst_mac, src_mac] = macs.map(MacAddr);
            let udp = Udp { dst_mac, src_mac, addresses, src_port: entropy_port(hash) };
            let mut frame = vec![0xEE; udp.buffer_len()];
            frame.extend(&carried);
            udp.emit(&mut frame).unwrap();
            prop_assert_eq!(Udp::parse(&frame), Ok((udp, &carried[..])));
            // Padding is not part of it, and flipping any bit that is part of it is detected.
            frame.extend([0; 7]);
            prop_assert_eq!(Udp::parse(&frame), Ok((udp, &carried[..])));
            frame.truncate(frame.len() - 7);
            let sum = udp.buffer_len() - 2;
            let at = sum + at.index(frame.len() - sum);
            frame[at] ^= 0x10;
            let is_missing = frame[sum..sum + 2] == [0, 0];
            prop_assert!(is_missing || Udp::parse(&frame).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Ok((udp, carried)) = Udp::parse(&bytes) {
                prop_assert!(udp.buffer_len() + carried.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn other_traffic_is_refused_by_its_field() {
        let ends = Addresses::V4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let (dst_mac, src_mac) = (MacAddr([2; 6]), MacAddr([4; 6]));
        let udp = Udp { dst_mac, src_mac, addresses: ends, src_port: entropy_port(!0) };
        assert_eq!(udp.to_string(), "10.0.0.1.65535 > 10.0.0.2.18773 fabric over UDP");
        let mut frame = vec![0; udp.buffer_len() + 10];
        udp.emit(&mut frame).unwrap();
        let with = |at: usize, value: u8| {
            let mut f = frame.clone();
            f[at] = value;
            Udp::parse(&f).unwrap_err().to_string()
        };
        assert_eq!(with(13, 0x06), "Ethernet: bad type 2054");
        assert_eq!(with(14 + 8, 1), "IPv4: wrong checksum");
        assert_eq!(with(14 + 20 + 3, 0), "UDP: bad port 18688");
        assert!(udp.emit(&mut frame[..41]).unwrap_err().is_truncated());
        assert!(udp.emit(&mut vec![0; 42 + 65_528]).is_err());
    }

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
