//! Whole frames and packets, as control planes, hosts and tests send them. Each is allocated: the
//! packet path writes headers into buffers that it has.

use std::net::{IpAddr, Ipv6Addr};

use crate::checksum::Sum;
use crate::error::{Error, Format};
use crate::ethernet::{self, EtherType};
use crate::ip::Protocol;
use crate::mac::MacAddr;
use crate::{arp, ipv4, ipv6, ndp, udp};

/// The frame of a payload between two stations, source and destination. It is not padded.
pub fn ethernet((src, dst): (MacAddr, MacAddr), ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    [&dst.0, &src.0, &ethertype.0.to_be_bytes()[..], payload].concat()
}

/// An ARP packet to a station, or to all, from the sender that it names. The frame is padded.
pub fn arp(dst: MacAddr, packet: &arp::Repr) -> Vec<u8> {
    let mut frame = ethernet((packet.sender_mac, dst), EtherType::ARP, &[]);
    frame.resize(ethernet::MIN_FRAME_LEN, 0);
    packet.emit(&mut frame[ethernet::HEADER_LEN..]).expect("the buffer holds a packet");
    frame
}

/// A message of neighbour discovery (RFC 4861) between two stations.
///
/// # Errors
/// Invalid: the message has a multicast target or an option of a wrong length.
pub fn ndp(
    stations: (MacAddr, MacAddr),
    (src, dst): (Ipv6Addr, Ipv6Addr),
    message: &ndp::Repr,
) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes)?;
    ip(stations, (src.into(), dst.into()), (Protocol::ICMPV6, ndp::HOP_LIMIT), &bytes)
}

/// A UDP datagram between two stations, with the hop limit of a host.
///
/// # Errors
/// See [`packet`].
pub fn udp(
    stations: (MacAddr, MacAddr),
    ends: (IpAddr, IpAddr),
    (src_port, dst_port): (u16, u16),
    payload: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; udp::HEADER_LEN];
    udp::Repr { src_port, dst_port, payload_len: payload.len() }.emit(&mut bytes)?;
    bytes.extend(payload);
    ip(stations, ends, (Protocol::UDP, 64), &bytes)
}

/// A [`packet`] between two stations.
///
/// # Errors
/// See [`packet`].
pub fn ip(
    stations: (MacAddr, MacAddr),
    ends: (IpAddr, IpAddr),
    head: (Protocol, u8),
    message: &[u8],
) -> Result<Vec<u8>, Error> {
    let ethertype = if ends.0.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    Ok(ethernet(stations, ethertype, &packet(ends, head, message)?))
}

/// An IP packet from one address to another. `ttl` is the hop limit; the checksum of the message is
/// completed.
///
/// # Errors
/// Invalid: the message is too long, or the addresses are of different versions.
pub fn packet(
    (src, dst): (IpAddr, IpAddr),
    (protocol, ttl): (Protocol, u8),
    message: &[u8],
) -> Result<Vec<u8>, Error> {
    let len = message.len();
    let mut bytes = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut header = vec![0; ipv4::HEADER_LEN];
            let repr = ipv4::Repr::new(src, dst, protocol, len);
            ipv4::Repr { ttl, ..repr }.emit(&mut header)?;
            header
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut header = vec![0; ipv6::HEADER_LEN];
            let repr = ipv6::Repr::new(src, dst, protocol, len);
            ipv6::Repr { hop_limit: ttl, ..repr }.emit(&mut header)?;
            header
        }
        _ => return Err(Error::invalid(Format::Ipv6, "version", 4)),
    };
    let at = bytes.len();
    bytes.extend(message);
    fill_checksum((src, dst), protocol, &mut bytes[at..]);
    Ok(bytes)
}

/// Completes the checksum of an ICMP, ICMPv6, UDP or TCP message between two addresses. Other
/// messages stay as they are.
pub fn fill_checksum(ends: (IpAddr, IpAddr), protocol: Protocol, message: &mut [u8]) {
    let Some(pseudo) = Sum::pseudo(ends, protocol, message.len()) else { return };
    let (at, sum) = match protocol {
        Protocol::ICMPV4 => (2, Sum::new()),
        Protocol::ICMPV6 => (2, pseudo),
        Protocol::UDP => (6, pseudo),
        Protocol::TCP => (16, pseudo),
        _ => return,
    };
    let Some(field) = message.get_mut(at..at + 2) else { return };
    field.fill(0);
    let sum = sum.with(message);
    let sum = if protocol == Protocol::UDP { sum.finish_udp() } else { sum.finish() };
    message[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{icmpv4, icmpv6, tcp};

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn ends(is_v6: bool) -> (IpAddr, IpAddr) {
        let texts = if is_v6 { ["2001:db8::1", "2001:db8::2"] } else { ["10.0.0.1", "10.0.0.2"] };
        let [src, dst] = texts.map(|text| text.parse().unwrap());
        (src, dst)
    }

    #[test]
    fn frames_read_as_what_they_were_made_of() {
        for is_v6 in [false, true] {
            let frame = udp((A, B), ends(is_v6), (1000, 53), b"hello").unwrap();
            let said = crate::describe(&frame).to_string();
            assert!(said.contains(".1000 > ") && said.contains(".53 UDP"), "{said}");
            let view = ethernet::Frame::new_checked(&frame[..]).unwrap();
            assert_eq!((view.src(), view.dst()), (A, B));
        }
        let packet = arp::Repr {
            operation: arp::Operation::REQUEST,
            sender_mac: A,
            sender_ip: [10, 0, 0, 1].into(),
            target_mac: MacAddr::default(),
            target_ip: [10, 0, 0, 2].into(),
        };
        let frame = arp(MacAddr::BROADCAST, &packet);
        let view = ethernet::Frame::new_checked(&frame[..]).unwrap();
        assert_eq!((view.src(), view.dst(), frame.len()), (A, MacAddr::BROADCAST, 60));
        let read = arp::Repr::parse(&arp::Packet::new_checked(view.payload()).unwrap());
        assert_eq!(read, Ok(packet));
    }

    #[test]
    fn checksums_are_those_that_views_accept() {
        for is_v6 in [false, true] {
            let (src, dst) = ends(is_v6);
            let sum = |protocol, message: &[u8]| {
                Sum::pseudo((src, dst), protocol, message.len()).unwrap()
            };
            // Every byte counts, also the last one of an odd length.
            let mut message = [7; 31];
            message[12] = 0x50;
            fill_checksum((src, dst), Protocol::TCP, &mut message);
            let segment = tcp::Segment::new_checked(&message[..]).unwrap();
            assert!(segment.checksum_ok(sum(Protocol::TCP, &message)));
            fill_checksum((src, dst), Protocol::ICMPV6, &mut message);
            let packet = icmpv6::Packet::new_checked(&message[..]).unwrap();
            assert!(packet.checksum_ok(sum(Protocol::ICMPV6, &message)));
            fill_checksum((src, dst), Protocol::ICMPV4, &mut message);
            assert!(icmpv4::Packet::new_checked(&message[..]).unwrap().checksum_ok());
            (message[4], message[5]) = (0, 31);
            fill_checksum((src, dst), Protocol::UDP, &mut message);
            let datagram = udp::Datagram::new_checked(&message[..]).unwrap();
            assert!(datagram.checksum_ok(sum(Protocol::UDP, &message)));
        }
    }

    #[test]
    fn what_no_packet_holds_is_refused() {
        assert!(packet((ends(false).0, ends(true).1), (Protocol::UDP, 1), &[0; 8]).is_err());
        assert!(packet(ends(false), (Protocol::UDP, 1), &vec![0; 65_516]).is_err());
        let mut short = [9; 3];
        fill_checksum(ends(false), Protocol::UDP, &mut short);
        assert_eq!(short, [9; 3]);
    }
}
