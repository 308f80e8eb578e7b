//! Packets as hosts send and read them, made of bytes and not by the router's own code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_wire::checksum::{Sum, checksum};
use plexus_wire::{MacAddr, Protocol};

pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86DD;
const UDP: u8 = 17;
const ICMPV4: u8 = 1;
const ICMPV6: u8 = 58;

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(crate) fn frame(to: MacAddr, from: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0, &from.0, &ethertype.to_be_bytes()[..], payload].concat()
}

/// An IP packet.
pub(crate) fn packet(src: IpAddr, dst: IpAddr, ttl: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut bytes = vec![0x45, 0];
            bytes.extend((20 + payload.len() as u16).to_be_bytes());
            bytes.extend([0x12, 0x34, 0, 0, ttl, next, 0, 0]);
            bytes.extend(src.octets());
            bytes.extend(dst.octets());
            fix_sum(&mut bytes);
            bytes.extend(payload);
            bytes
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut bytes = vec![0x60, 0, 0, 0];
            bytes.extend((payload.len() as u16).to_be_bytes());
            bytes.extend([next, ttl]);
            bytes.extend(src.octets());
            bytes.extend(dst.octets());
            bytes.extend(payload);
            bytes
        }
        _ => panic!("{src} and {dst} are of different families"),
    }
}

fn fix_sum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Forbids an IPv4 packet's fragmentation.
pub(crate) fn whole(mut packet: Vec<u8>) -> Vec<u8> {
    packet[6] |= 0x40;
    fix_sum(&mut packet);
    packet
}

/// A datagram of a flow (its source port), with a number, and so many bytes of payload.
pub(crate) fn datagram(
    (src, dst): (IpAddr, IpAddr),
    ttl: u8,
    flow: u16,
    id: u32,
    len: usize,
) -> Vec<u8> {
    let mut bytes = flow.to_be_bytes().to_vec();
    bytes.extend(7u16.to_be_bytes());
    bytes.extend((8 + len as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(id.to_be_bytes());
    bytes.extend((4..len).map(|i| i as u8));
    let sum = pseudo(src, dst, UDP, &bytes);
    bytes[6..8].copy_from_slice(&sum.finish_udp().to_be_bytes());
    packet(src, dst, ttl, UDP, &bytes)
}

fn pseudo(src: IpAddr, dst: IpAddr, next: u8, payload: &[u8]) -> Sum {
    let mut sum = match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            Sum::pseudo_v4(s, d, Protocol(next), payload.len() as u16)
        }
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            Sum::pseudo_v6(s, d, Protocol(next), payload.len() as u32)
        }
        _ => panic!("{src} and {dst} are of different families"),
    };
    sum.add(payload);
    sum
}

/// An ICMP message of the addresses' family: type, code, four bytes, data.
pub(crate) fn icmp(
    (src, dst): (IpAddr, IpAddr),
    ttl: u8,
    head: [u8; 2],
    rest: [u8; 4],
    data: &[u8],
) -> Vec<u8> {
    let mut bytes = [&head[..], &[0, 0], &rest, data].concat();
    let (next, sum) = match src {
        IpAddr::V4(_) => (ICMPV4, checksum(&bytes)),
        IpAddr::V6(_) => (ICMPV6, pseudo(src, dst, ICMPV6, &bytes).finish()),
    };
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    packet(src, dst, ttl, next, &bytes)
}

/// An echo request.
pub(crate) fn ping(src: IpAddr, dst: IpAddr, ttl: u8, id: u16, data: &[u8]) -> Vec<u8> {
    let kind = if src.is_ipv4() { 8 } else { 128 };
    let [a, b] = id.to_be_bytes();
    icmp((src, dst), ttl, [kind, 0], [a, b, 0, 1], data)
}

/// What a host has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Datagram { src: IpAddr, dst: IpAddr, ttl: u8, flow: u16, id: u32, len: usize },
    Icmp { src: IpAddr, dst: IpAddr, kind: u8, code: u8, rest: [u8; 4], data: Vec<u8> },
    Fragment { at: usize, more: bool, data: Vec<u8> },
}

/// Reads an IP packet, and checks every checksum in it.
pub(crate) fn read(bytes: &[u8]) -> Seen {
    let (src, dst, ttl, next, payload) = match bytes[0] >> 4 {
        4 => {
            assert_eq!(checksum(&bytes[..20]), 0, "a wrong header checksum: {bytes:02x?}");
            let len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            let (src, dst) = (v4(&bytes[12..16]), v4(&bytes[16..20]));
            let field = u16::from_be_bytes([bytes[6], bytes[7]]);
            if field & 0x3FFF != 0 {
                let (at, more) = (usize::from(field & 0x1FFF) * 8, field & 0x2000 != 0);
                return Seen::Fragment { at, more, data: bytes[20..len].to_vec() };
            }
            (src, dst, bytes[8], bytes[9], &bytes[20..len])
        }
        _ => {
            let len = 40 + usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            (v6(&bytes[8..24]), v6(&bytes[24..40]), bytes[7], bytes[6], &bytes[40..len])
        }
    };
    match next {
        UDP => {
            assert_eq!(pseudo(src, dst, UDP, payload).finish(), 0, "a wrong UDP checksum");
            let flow = u16::from_be_bytes([payload[0], payload[1]]);
            let id = u32::from_be_bytes([payload[8], payload[9], payload[10], payload[11]]);
            Seen::Datagram { src, dst, ttl, flow, id, len: payload.len() - 8 }
        }
        _ => {
            let sum = match src {
                IpAddr::V4(_) => checksum(payload),
                IpAddr::V6(_) => pseudo(src, dst, next, payload).finish(),
            };
            assert_eq!(sum, 0, "a wrong ICMP checksum: {payload:02x?}");
            let rest = [payload[4], payload[5], payload[6], payload[7]];
            let (kind, code) = (payload[0], payload[1]);
            Seen::Icmp { src, dst, kind, code, rest, data: payload[8..].to_vec() }
        }
    }
}

pub(crate) fn v4(bytes: &[u8]) -> IpAddr {
    let octets: [u8; 4] = bytes.try_into().expect("four bytes");
    Ipv4Addr::from(octets).into()
}

pub(crate) fn v6(bytes: &[u8]) -> IpAddr {
    let octets: [u8; 16] = bytes.try_into().expect("sixteen bytes");
    Ipv6Addr::from(octets).into()
}
