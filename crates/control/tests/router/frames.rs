//! Frames of other stations.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_control::router::InterfaceId;
use plexus_wire::checksum::Sum;
use plexus_wire::ethernet::{self, EtherType};
use plexus_wire::ndp::{self, Message, NdpOption};
use plexus_wire::{MacAddr, Protocol, arp, icmpv4, icmpv6, ipv4, ipv6, udp};

use crate::plane::{ip, mac, own_mac};

pub(crate) fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

pub(crate) fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub(crate) fn frame(dst: MacAddr, src: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    ethernet::Repr { dst, src, ethertype }.emit(&mut frame).unwrap();
    frame.extend_from_slice(payload);
    frame
}

/// A frame from station `n` to the router's interface that holds an IP packet.
pub(crate) fn packet(to: InterfaceId, n: u8, packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 };
    frame(own_mac(to), mac(n), ethertype, packet)
}

/// An IP packet of either family; a checksum in the payload is the caller's.
pub(crate) fn ip_packet(src: &str, dst: &str, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let mut bytes;
    match (ip(src), ip(dst)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            bytes = vec![0; ipv4::HEADER_LEN];
            ipv4::Repr::new(src, dst, protocol, payload.len()).emit(&mut bytes).unwrap();
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            bytes = vec![0; ipv6::HEADER_LEN];
            ipv6::Repr::new(src, dst, protocol, payload.len()).emit(&mut bytes).unwrap();
        }
        _ => panic!("{src} and {dst} are of two families"),
    }
    bytes.extend_from_slice(payload);
    bytes
}

fn pseudo(src: &str, dst: &str, protocol: Protocol, len: usize) -> Sum {
    match (ip(src), ip(dst)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Sum::pseudo_v4(src, dst, protocol, len as u16),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Sum::pseudo_v6(src, dst, protocol, len as u32),
        _ => panic!("{src} and {dst} are of two families"),
    }
}

/// A whole UDP packet, to a port of a traceroute.
pub(crate) fn udp(src: &str, dst: &str, data: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; udp::HEADER_LEN];
    let repr = udp::Repr { src_port: 5000, dst_port: 33434, payload_len: data.len() };
    repr.emit(&mut payload).unwrap();
    payload.extend_from_slice(data);
    let sum = pseudo(src, dst, Protocol::UDP, payload.len());
    udp::Datagram::new_checked(&mut payload[..]).unwrap().fill_checksum(sum);
    ip_packet(src, dst, Protocol::UDP, &payload)
}

/// A whole ICMP or ICMPv6 message: type, code, the rest of the header, data.
pub(crate) fn icmp(src: &str, dst: &str, kind: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend_from_slice(&rest);
    message.extend_from_slice(data);
    if ip(src).is_ipv4() {
        icmpv4::Packet::new_checked(&mut message[..]).unwrap().fill_checksum();
        ip_packet(src, dst, Protocol::ICMPV4, &message)
    } else {
        let sum = pseudo(src, dst, Protocol::ICMPV6, message.len());
        icmpv6::Packet::new_checked(&mut message[..]).unwrap().fill_checksum(sum);
        ip_packet(src, dst, Protocol::ICMPV6, &message)
    }
}

/// An ARP packet in a frame.
pub(crate) fn arp_frame(dst: MacAddr, repr: arp::Repr) -> Vec<u8> {
    let mut payload = [0; arp::PACKET_LEN];
    repr.emit(&mut payload).unwrap();
    frame(dst, repr.sender_mac, EtherType::ARP, &payload)
}

/// A neighbour discovery message from station `n`.
pub(crate) fn nd(
    n: u8,
    (src, dst): (&str, &str),
    message: Message,
    options: Vec<NdpOption>,
) -> Vec<u8> {
    let repr = ndp::Repr { message, options };
    let mut payload = vec![0; repr.buffer_len()];
    repr.emit(&mut payload).unwrap();
    let sum = pseudo(src, dst, Protocol::ICMPV6, payload.len());
    icmpv6::Packet::new_checked(&mut payload[..]).unwrap().fill_checksum(sum);
    let mut packet = ip_packet(src, dst, Protocol::ICMPV6, &payload);
    packet[7] = ndp::HOP_LIMIT;
    let to = MacAddr::of_group(ip(dst)).unwrap_or(own_mac(crate::plane::A));
    frame(to, mac(n), EtherType::IPV6, &packet)
}

/// An advertisement by station `n` to the router at 2001:db8:1::1: its target, its flags
/// (solicited, override), and the station whose link address it carries.
pub(crate) fn advert(target: &str, flags: (bool, bool), link: Option<u8>) -> Vec<u8> {
    let message = Message::NeighborAdvertisement {
        router: false,
        solicited: flags.0,
        override_cache: flags.1,
        target: v6(target),
    };
    let options = link.map(|n| NdpOption::TargetLinkLayer(mac(n))).into_iter().collect();
    nd(link.unwrap_or(1), (target, "2001:db8:1::1"), message, options)
}

/// A solicitation for one of the router's addresses on A.
pub(crate) fn solicit(src: &str, dst: &str, target: &str, link: Option<u8>) -> Vec<u8> {
    let message = Message::NeighborSolicitation { target: v6(target) };
    let options = link.map(|n| NdpOption::SourceLinkLayer(mac(n))).into_iter().collect();
    nd(link.unwrap_or(1), (src, dst), message, options)
}
