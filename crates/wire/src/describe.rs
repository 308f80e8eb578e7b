//! Describes a frame in one line, for display. It never fails: unreadable parts are reported.

use std::fmt;

use crate::error::{Error, Format};
use crate::ethernet::{self, EtherType};
use crate::fabric::{self, encapsulation};
use crate::ip::Protocol;
use crate::ndn::{Data, Interest};
use crate::{
    arp, dhcpv4, icmpv4, icmpv6, igmp, ipv4, ipv6, ipv6_ext, mld, ndn, ndp, tcp, udp, vlan,
};

/// A frame, to be formatted as one line without a line end.
#[derive(Clone, Copy, Debug)]
pub struct Describe<'a>(&'a [u8]);

/// One line about an Ethernet frame: addresses, tags, then the innermost readable protocol. A
/// truncated or malformed header is named with its problem, and ends the line.
pub fn describe(frame: &[u8]) -> Describe<'_> {
    Describe(frame)
}

type Line<'f, 'g> = &'f mut fmt::Formatter<'g>;

impl fmt::Display for Describe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.len();
        let frame = match ethernet::Frame::new_checked(self.0) {
            Ok(frame) => frame,
            Err(e) => return write!(f, "[{e}]"),
        };
        write!(f, "{} > {} ", frame.src(), frame.dst())?;
        let (mut ethertype, mut rest) = (frame.ethertype(), frame.payload());
        for depth in 0.. {
            if !ethertype.is_vlan() {
                break;
            }
            if depth == vlan::MAX_TAGS {
                return write!(f, "[more than {depth} tags], length {len}");
            }
            let tag = match vlan::Tag::new_checked(rest) {
                Ok(tag) => tag,
                Err(e) => return write!(f, "[{e}], length {len}"),
            };
            match vlan::Repr::parse(&tag) {
                Ok(repr) => write!(f, "{repr} ")?,
                Err(e) => return write!(f, "[{e}], length {len}"),
            }
            (ethertype, rest) = (tag.ethertype(), tag.payload());
        }
        match ethertype {
            EtherType::ARP => {
                let packet = arp::Packet::new_checked(rest);
                line(f, "ARP ", packet.and_then(|p| arp::Repr::parse(&p)))?;
            }
            EtherType::IPV4 => ip4(f, rest)?,
            EtherType::IPV6 => ip6(f, rest)?,
            EtherType::NDN => match ndn::lp::Packet::new_checked(rest) {
                Ok(packet) => named_data(f, &packet)?,
                Err(e) => write!(f, "[{e}]")?,
            },
            encapsulation::ETHERTYPE => carried(f, ethertype, rest)?,
            other => write!(f, "{other}")?,
        }
        write!(f, ", length {len}")
    }
}

/// A header after its protocol's name, or the problem with it.
fn line(f: Line<'_, '_>, name: &str, header: Result<impl fmt::Display, Error>) -> fmt::Result {
    match header {
        Ok(repr) => write!(f, "{name}{repr}"),
        Err(e) => write!(f, "[{e}]"),
    }
}

/// The payload of the fabric's EtherType. That number is for experiments of any kind, so bytes that
/// are not a fabric header do not belong to the fabric.
fn carried(f: Line<'_, '_>, ethertype: EtherType, bytes: &[u8]) -> fmt::Result {
    let Ok(frame) = fabric::Frame::new_checked(bytes) else { return write!(f, "{ethertype}") };
    line(f, "", fabric::Repr::parse(&frame))?;
    match (frame.kind(), ethernet::Frame::new_checked(frame.payload())) {
        (fabric::Kind::Ethernet | fabric::Kind::Tree, Ok(inner)) => {
            f.write_str(" of ")?;
            line(f, "", ethernet::Repr::parse(&inner))
        }
        _ => Ok(()),
    }
}

/// A link packet of named data, and its payload.
fn named_data(f: Line<'_, '_>, packet: &ndn::lp::Packet<'_>) -> fmt::Result {
    let mut acks = Vec::new();
    let (_, pieces) = packet.fragmentation();
    match ndn::lp::Repr::parse(packet, &mut acks) {
        Ok(repr) if repr.head_len() != 0 => write!(f, "{repr}")?,
        Ok(_) => f.write_str("NDN")?,
        Err(e) => write!(f, "[{e}]")?,
    }
    let Some(fragment) = packet.fragment() else { return Ok(()) };
    if pieces != 1 {
        return write!(f, " of {} bytes", fragment.len());
    }
    f.write_str(" ")?;
    match ndn::tlv::Head::read(fragment, 0, Format::NdnLp).map(|head| head.kind) {
        Ok(ndn::types::INTEREST) => {
            let interest = Interest::new_checked(fragment);
            line(f, "", interest.and_then(|p| ndn::interest::Repr::parse(&p)))
        }
        Ok(ndn::types::DATA) => {
            let data = Data::new_checked(fragment);
            line(f, "", data.and_then(|p| ndn::data::Repr::parse(&p)))
        }
        kind => line(f, "of element ", kind),
    }
}

fn ip4(f: Line<'_, '_>, bytes: &[u8]) -> fmt::Result {
    let p = match ipv4::Packet::new_checked(bytes) {
        Ok(p) => p,
        Err(e) => return write!(f, "[{e}]"),
    };
    let (src, dst) = (p.src(), p.dst());
    if p.fragment_offset() == 0 {
        upper(f, &src, &dst, p.protocol(), p.payload(), p.more_fragments())?;
    } else {
        write!(f, "{src} > {dst} {}", p.protocol())?;
    }
    if p.is_fragment() {
        let (id, len, at) = (p.identification(), p.payload().len(), p.fragment_offset());
        write!(f, " frag {id}:{len}@{at}{}", if p.more_fragments() { "+" } else { "" })?;
    }
    notes(f, p.ttl(), p.ecn())?;
    f.write_str(if p.checksum_ok() { "" } else { " [IPv4: wrong checksum]" })
}

fn ip6(f: Line<'_, '_>, bytes: &[u8]) -> fmt::Result {
    let p = match ipv6::Packet::new_checked(bytes) {
        Ok(p) => p,
        Err(e) => return write!(f, "[{e}]"),
    };
    let (src, dst) = (p.src(), p.dst());
    match p.upper() {
        Ok(u) => {
            let whole = u.fragment.is_none_or(|x| !x.more);
            match p.payload().get(u.offset..) {
                Some(rest) if u.has_header() => upper(f, &src, &dst, u.protocol, rest, !whole)?,
                _ => write!(f, "{src} > {dst} {}", u.protocol)?,
            }
            for header in ipv6_ext::Walk::new(p.next_header(), p.payload()).flatten() {
                match header.fragment() {
                    Some(fragment) => write!(f, " {fragment}")?,
                    None => write!(f, " +{}", header.kind)?,
                }
            }
        }
        Err(e) => write!(f, "{src} > {dst} [{e}]")?,
    }
    notes(f, p.hop_limit(), p.ecn())
}

/// Fields that are only shown when they are unusual.
fn notes(f: Line<'_, '_>, ttl: u8, ecn: u8) -> fmt::Result {
    if ttl <= 1 {
        write!(f, " ttl {ttl}")?;
    }
    f.write_str(if ecn == 3 { " CE" } else { "" })
}

/// `first` says that the bytes are the first fragment of more: lengths then mean the whole.
fn upper(
    f: Line<'_, '_>,
    src: &dyn fmt::Display,
    dst: &dyn fmt::Display,
    protocol: Protocol,
    bytes: &[u8],
    first: bool,
) -> fmt::Result {
    match protocol {
        Protocol::UDP => {
            if let Ok(d) = udp::Datagram::new_checked(bytes) {
                let len = d.payload().len();
                if let (67 | 68, 67 | 68) = (d.src_port(), d.dst_port())
                    && let Ok(view) = dhcpv4::Packet::new_checked(d.payload())
                    && let Ok(repr) = dhcpv4::Repr::parse(&view)
                {
                    return write!(f, "{src} > {dst} {repr}");
                }
                write!(f, "{src}.{} > {dst}.{} ", d.src_port(), d.dst_port())?;
                if (d.src_port() == ndn::PORT || d.dst_port() == ndn::PORT)
                    && let Ok(packet) = ndn::lp::Packet::new_checked(d.payload())
                {
                    return named_data(f, &packet);
                }
                return write!(f, "UDP {len}");
            }
        }
        Protocol::TCP => {
            if let Ok(s) = tcp::Segment::new_checked(bytes) {
                let (sp, dp, len) = (s.src_port(), s.dst_port(), s.payload().len());
                write!(f, "{src}.{sp} > {dst}.{dp} TCP [{}] seq {}", s.flags(), s.seq())?;
                if s.flags().contains(tcp::Flags::ACK) {
                    write!(f, " ack {}", s.ack())?;
                }
                return write!(f, " win {} len {len}", s.window());
            }
        }
        _ => {}
    }
    write!(f, "{src} > {dst} ")?;
    // UDP and TCP get here only if they could not be parsed.
    match protocol {
        Protocol::UDP if first => f.write_str("UDP"),
        Protocol::UDP => line(f, "", udp::Datagram::new_checked(bytes).map(|_| "")),
        Protocol::TCP => line(f, "", tcp::Segment::new_checked(bytes).map(|_| "")),
        Protocol::ICMPV4 => {
            let packet = icmpv4::Packet::new_checked(bytes);
            line(f, "", packet.and_then(|p| icmpv4::Repr::parse(&p)))
        }
        Protocol::IGMP => {
            let packet = igmp::Packet::new_checked(bytes);
            line(f, "", packet.and_then(|p| igmp::Repr::parse(&p)))
        }
        Protocol::ICMPV6 => match icmpv6::Packet::new_checked(bytes) {
            Ok(p) if mld::is_mld(p.kind()) => {
                let packet = mld::Packet::new_checked(bytes);
                line(f, "", packet.and_then(|p| mld::Repr::parse(&p)))
            }
            Ok(p) if p.is_ndp() => {
                let packet = ndp::Packet::new_checked(bytes);
                line(f, "ICMPv6 ", packet.and_then(|p| ndp::Repr::parse(&p)))
            }
            packet => line(f, "", packet.and_then(|p| icmpv6::Repr::parse(&p))),
        },
        _ => write!(f, "{protocol}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MacAddr;

    fn frame(ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
        let (dst, src) = (MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]));
        let mut f = vec![0; 14];
        ethernet::Repr { dst, src, ethertype }.emit(&mut f).unwrap();
        f.extend(payload);
        f
    }

    fn v4(protocol: Protocol, payload: &[u8]) -> Vec<u8> {
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut b = vec![0; 20];
        ipv4::Repr::new(src, dst, protocol, payload.len()).emit(&mut b).unwrap();
        b.extend(payload);
        frame(EtherType::IPV4, &b)
    }

    const MACS: &str = "02:00:00:00:00:01 > 02:00:00:00:00:02 ";

    #[track_caller]
    fn says(frame: &[u8], text: &str) {
        assert_eq!(describe(frame).to_string(), format!("{MACS}{text}"));
    }

    #[test]
    fn whole_frames_get_one_line() {
        says(
            &v4(Protocol::UDP, &[0, 20, 0, 10, 0, 10, 0, 0, 1, 2]),
            "10.0.0.1.20 > 10.0.0.2.10 UDP 2, length 44",
        );
        says(
            &v4(Protocol::ICMPV4, &[8, 0, 0, 0, 0, 1, 0, 2]),
            "10.0.0.1 > 10.0.0.2 ICMP echo request id 1 seq 2, length 42",
        );
        let mut syn = [0; 20];
        syn[1] = 9;
        syn[12..14].copy_from_slice(&[0x50, 0x12]);
        says(
            &v4(Protocol::TCP, &syn),
            "10.0.0.1.9 > 10.0.0.2.0 TCP [S.] seq 0 ack 0 win 0 len 0, length 54",
        );
        says(&v4(Protocol::SCTP, &[]), "10.0.0.1 > 10.0.0.2 SCTP, length 34");
        says(&frame(EtherType::LLDP, &[0; 46]), "LLDP, length 60");
        let mut tagged = vec![0x20, 7, 0x12, 0x34];
        tagged.resize(46, 0);
        says(&frame(EtherType::VLAN, &tagged), "vlan 7 p1 ethertype 0x1234, length 60");
    }

    #[test]
    fn neighbour_discovery_and_extension_headers_are_read() {
        let target = "fe80::2".parse().unwrap();
        let message = ndp::Message::NeighborSolicitation { target };
        let repr = ndp::Repr { message, options: vec![] };
        let mut b = vec![0; 40 + 8 + repr.buffer_len()];
        let src = "fe80::1".parse().unwrap();
        let payload_len = b.len() - 40;
        let mut ip = ipv6::Repr::new(src, target, Protocol::HOP_BY_HOP, payload_len);
        ip.hop_limit = ndp::HOP_LIMIT;
        ip.emit(&mut b).unwrap();
        b[40..48].copy_from_slice(&[58, 0, 1, 4, 0, 0, 0, 0]);
        repr.emit(&mut b[48..]).unwrap();
        let f = frame(EtherType::IPV6, &b);
        says(&f, "fe80::1 > fe80::2 ICMPv6 who has fe80::2 +hop-by-hop, length 86");
    }

    #[test]
    fn group_management_is_read() {
        let join = igmp::Repr::ReportV2([239, 1, 2, 3].into());
        let mut b = vec![0; join.buffer_len()];
        join.emit(&mut b).unwrap();
        says(&v4(Protocol::IGMP, &b), "10.0.0.1 > 10.0.0.2 IGMP v2 report of 239.1.2.3, length 42");
        says(
            &v4(Protocol::IGMP, &[0x16; 6]),
            "10.0.0.1 > 10.0.0.2 [IGMP: truncated, 8 bytes needed and 6 there], length 40",
        );
        let done = mld::Repr::Done("ff05::7".parse().unwrap());
        let mut b = vec![0; 64];
        let (src, dst) = ("fe80::1".parse().unwrap(), "ff02::2".parse().unwrap());
        ipv6::Repr::new(src, dst, Protocol::ICMPV6, 24).emit(&mut b).unwrap();
        done.emit(&mut b[40..]).unwrap();
        says(&frame(EtherType::IPV6, &b), "fe80::1 > ff02::2 MLD done with ff05::7, length 78");
    }

    #[test]
    fn a_fabric_frame_shows_its_paths_and_what_it_carries() {
        let inner = frame(EtherType::ARP, &[0; 28]);
        let mut header = vec![0, 0, 0xA0, 2, 0, 0x20, 3, 255, 1, 255];
        let f = frame(encapsulation::ETHERTYPE, &[&header[..], &inner].concat());
        let ours = "02:00:00:00:00:01 > 02:00:00:00:00:02 ARP";
        says(&f, &format!("fabric Ethernet to 3.ctl back 1.ctl of {ours}, length 66"));
        header[0] = 0x90;
        says(&frame(encapsulation::ETHERTYPE, &header), "ethertype 0x88b5, length 24");
    }

    #[test]
    fn named_data_is_read_over_ethernet_and_udp() {
        use crate::ndn::vectors::{DATA_DIGEST, LP_NACK, NDNTS_LP_FRAGMENT, hex};
        let mut padded = hex(LP_NACK);
        padded.resize(46, 0);
        says(
            &frame(EtherType::NDN, &padded),
            "NDNLP nack (no route) Interest /a/b nonce 00000005 lifetime 4000 ms, length 60",
        );
        says(
            &frame(EtherType::NDN, &hex(NDNTS_LP_FRAGMENT)),
            "NDNLP seq 4096 frag 1/3 token 01020304 mark 1 of 2 bytes, length 47",
        );
        says(&frame(EtherType::NDN, &[100, 0]), "NDNLP idle, length 16");
        says(
            &frame(EtherType::NDN, &[5, 2, 7, 0]),
            "NDN [NDN Interest: bad count of name components 0], length 18",
        );
        says(&frame(EtherType::NDN, &[7, 0]), "[NDNLPv2: bad packet type 7], length 16");
        let data = hex(DATA_DIGEST);
        let len = data.len() as u8 + 8;
        let udp = [&[0x18, 0xDB, 0x18, 0xDB, 0, len, 0, 0][..], &data].concat();
        says(
            &v4(Protocol::UDP, &udp),
            "10.0.0.1.6363 > 10.0.0.2.6363 NDN Data /a/b/v=3/seg=0 content 12 fresh 10000 ms \
             final seg=9, length 125",
        );
        let not_ndn = [0x18, 0xDB, 0, 9, 0, 10, 0, 0, 1, 2];
        says(&v4(Protocol::UDP, &not_ndn), "10.0.0.1.6363 > 10.0.0.2.9 UDP 2, length 44");
    }

    #[test]
    fn broken_frames_say_what_is_wrong() {
        assert_eq!(
            describe(&[0; 5]).to_string(),
            "[Ethernet: truncated, 14 bytes needed and 5 there]"
        );
        let f = v4(Protocol::UDP, &[0, 20, 0, 10, 0, 99, 0, 0, 1, 2]);
        says(&f, "10.0.0.1 > 10.0.0.2 [UDP: truncated, 99 bytes needed and 10 there], length 44");
        says(&f[..30], "[IPv4: truncated, 20 bytes needed and 16 there], length 30");
        let mut wrong = v4(Protocol::SCTP, &[]);
        wrong[14 + 8] = 1;
        says(&wrong, "10.0.0.1 > 10.0.0.2 SCTP ttl 1 [IPv4: wrong checksum], length 34");
        let deep = [0x81, 0, 0, 1].repeat(6);
        let f = frame(EtherType::VLAN, &deep[2..]);
        says(&f, "vlan 1 vlan 1 vlan 1 vlan 1 [more than 4 tags], length 36");
    }
}
