//! Frames of other stations.

use std::net::{Ipv4Addr, Ipv6Addr};

use plexus_control::router::InterfaceId;
use plexus_wire::ethernet::{self, EtherType};
use plexus_wire::ndp::{self, Message, NdpOption};
use plexus_wire::{MacAddr, Protocol, frame};

use crate::plane::{ip, mac, own_mac};

pub(crate) fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

pub(crate) fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// A frame from station `n` to the router's interface that holds an IP packet.
pub(crate) fn packet(to: InterfaceId, n: u8, packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 };
    frame::ethernet((mac(n), own_mac(to)), ethertype, packet)
}

/// An IP packet of either family.
pub(crate) fn ip_packet(src: &str, dst: &str, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    frame::packet((ip(src), ip(dst)), (protocol, 64), payload).unwrap()
}

/// A whole UDP packet, to a port of a traceroute.
pub(crate) fn udp(src: &str, dst: &str, data: &[u8]) -> Vec<u8> {
    let ends = (ip(src), ip(dst));
    let frame = frame::udp(Default::default(), ends, (5000, 33434), data).unwrap();
    frame[ethernet::HEADER_LEN..].to_vec()
}

/// A whole ICMP or ICMPv6 message: type, code, the rest of the header, data.
pub(crate) fn icmp(src: &str, dst: &str, kind: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend_from_slice(&rest);
    message.extend_from_slice(data);
    let protocol = if ip(src).is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
    ip_packet(src, dst, protocol, &message)
}

/// A neighbour discovery message from station `n`.
pub(crate) fn nd(
    n: u8,
    (src, dst): (&str, &str),
    message: Message,
    options: Vec<NdpOption>,
) -> Vec<u8> {
    let to = MacAddr::of_group(ip(dst)).unwrap_or(own_mac(crate::plane::A));
    let message = ndp::Repr { message, options };
    frame::ndp((mac(n), to), (v6(src), v6(dst)), &message).unwrap()
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
