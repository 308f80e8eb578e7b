//! Questions after neighbours and their answers: ARP (RFC 826) for IPv4 and neighbour discovery
//! (RFC 4861) for IPv6, in one vocabulary.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_wire::ndp::{HOP_LIMIT, Message, NdpOption, Repr, solicited_node};
use plexus_wire::{EtherType, MacAddr, arp, ethernet, frame, ipv6, ndp};

/// Every node on the link (RFC 4291, 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
/// A message between two stations; without the other one it goes to the group `dst`.
fn ndp(mac: MacAddr, to: Option<MacAddr>, ends: (Ipv6Addr, Ipv6Addr), repr: &Repr) -> Vec<u8> {
    let group = MacAddr::of_group(ends.1.into());
    let to = to.or(group).unwrap_or(MacAddr::BROADCAST);
    // No host has a multicast address.
    frame::ndp((mac, to), ends, repr).unwrap_or_default()
}

/// `mac` asks for `target`: the station `to` directly, or all that may have the address. `from` is
/// the asker's address; without one it asks whether another station has `target` already
/// (RFC 5227, 2.1.1; RFC 4862, 5.4.2).
pub(super) fn question(
    mac: MacAddr,
    from: Option<IpAddr>,
    to: Option<MacAddr>,
    target: IpAddr,
) -> Vec<u8> {
    match target {
        IpAddr::V4(target_ip) => {
            let repr = arp::Repr {
                operation: arp::Operation::REQUEST,
                sender_mac: mac,
                sender_ip: v4(from),
                target_mac: MacAddr::default(),
                target_ip,
            };
            frame::arp(to.unwrap_or(MacAddr::BROADCAST), &repr)
        }
        IpAddr::V6(target) => {
            let src = match from {
                Some(IpAddr::V6(src)) => src,
                _ => Ipv6Addr::UNSPECIFIED,
            };
            let options = match src.is_unspecified() {
                true => vec![],
                false => vec![NdpOption::SourceLinkLayer(mac)],
            };
            let repr = Repr { message: Message::NeighborSolicitation { target }, options };
            let dst = if to.is_some() { target } else { solicited_node(target) };
            ndp(mac, to, (src, dst), &repr)
        }
    }
}

/// `mac` tells the asker that it has the address `own`: the station `to`, and its address. An asker
/// without an IPv6 address is told with all others.
pub(super) fn answer(mac: MacAddr, own: IpAddr, to: MacAddr, to_ip: Option<IpAddr>) -> Vec<u8> {
    match (own, to_ip) {
        (IpAddr::V4(sender_ip), to_ip) => {
            let repr = arp::Repr {
                operation: arp::Operation::REPLY,
                sender_mac: mac,
                sender_ip,
                target_mac: to,
                target_ip: v4(to_ip),
            };
            frame::arp(to, &repr)
        }
        (IpAddr::V6(own), Some(IpAddr::V6(dst))) => advertisement(mac, own, Some(to), dst),
        (IpAddr::V6(own), _) => advertisement(mac, own, None, ALL_NODES),
    }
}

/// `mac` tells all stations that it has the address `own` (RFC 5227, 2.3; RFC 4861, 7.2.6).
pub(super) fn announcement(mac: MacAddr, own: IpAddr) -> Vec<u8> {
    match own {
        IpAddr::V4(_) => question(mac, Some(own), None, own),
        IpAddr::V6(own) => advertisement(mac, own, None, ALL_NODES),
    }
}

fn advertisement(mac: MacAddr, target: Ipv6Addr, to: Option<MacAddr>, dst: Ipv6Addr) -> Vec<u8> {
    let message = Message::NeighborAdvertisement {
        router: false,
        solicited: to.is_some(),
        override_cache: true,
        target,
    };
    let repr = Repr { message, options: vec![NdpOption::TargetLinkLayer(mac)] };
    ndp(mac, to, (target, dst), &repr)
}

fn v4(ip: Option<IpAddr>) -> Ipv4Addr {
    match ip {
        Some(IpAddr::V4(ip)) => ip,
        _ => Ipv4Addr::UNSPECIFIED,
    }
}

/// A frame's content about neighbours.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Who has `target`? The asker is at `mac`, and has the address `from`, or none yet.
    Asks { from: Option<IpAddr>, mac: MacAddr, target: IpAddr },
    /// `ip` is at `mac`.
    Has { ip: IpAddr, mac: MacAddr, confirms: Confirms },
}

/// The weight of an answer (RFC 4861, 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Confirms {
    /// It answers a question, so packets arrive there.
    pub(super) is_answer: bool,
    /// It replaces another Ethernet address.
    pub(super) overrides: bool,
}

impl Confirms {
    /// An ARP packet is always believed (RFC 826).
    pub(super) const ALL: Confirms = Confirms { is_answer: true, overrides: true };
    /// A solicitation shows only that packets arrive from there.
    pub(super) const ADDRESS: Confirms = Confirms { is_answer: false, overrides: true };
}

/// Reads a frame of ARP or neighbour discovery whose checksum is right; `None`: it is none, or says
/// nothing that a host believes.
pub(super) fn parse(frame: &[u8]) -> Option<Said> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    if frame.ethertype() == EtherType::ARP {
        let repr = arp::Repr::parse(&arp::Packet::new_checked(frame.payload()).ok()?).ok()?;
        let (ip, mac) = (repr.sender_ip, repr.sender_mac);
        let from = (!ip.is_unspecified()).then_some(ip.into());
        return Some(match repr.operation {
            arp::Operation::REQUEST => Said::Asks { from, mac, target: repr.target_ip.into() },
            _ => Said::Has { ip: ip.into(), mac, confirms: Confirms::ALL },
        });
    }
    let packet = ipv6::Packet::new_checked(frame.payload()).ok()?;
    if packet.hop_limit() != HOP_LIMIT {
        return None;
    }
    let repr = Repr::parse(&ndp::Packet::new_checked(packet.payload()).ok()?).ok()?;
    let stated = repr.options.iter().find_map(|option| match option {
        NdpOption::SourceLinkLayer(mac) | NdpOption::TargetLinkLayer(mac) => Some(*mac),
        _ => None,
    });
    let mac = stated.unwrap_or(frame.src());
    match repr.message {
        Message::NeighborSolicitation { target } => {
            let from = (!packet.src().is_unspecified()).then_some(packet.src().into());
            // RFC 4861, 7.1.1.
            let is_sound =
                from.is_some() || (packet.dst() == solicited_node(target) && stated.is_none());
            is_sound.then_some(Said::Asks { from, mac, target: target.into() })
        }
        Message::NeighborAdvertisement { solicited, override_cache, target, .. } => {
            // RFC 4861, 7.1.2.
            let is_sound = !(solicited && packet.dst().is_multicast());
            let confirms = Confirms { is_answer: solicited, overrides: override_cache };
            is_sound.then_some(Said::Has { ip: target.into(), mac, confirms })
        }
        _ => None,
    }
}
