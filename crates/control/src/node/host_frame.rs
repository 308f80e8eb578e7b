//! Parses a host's frame for the control plane, and builds the frames that answer it: ARP (RFC 826,
//! RFC 5227) and neighbour discovery (RFC 4861) in one vocabulary.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_wire::checksum::Sum;
use plexus_wire::membership::Record;
use plexus_wire::{
    EtherType, MacAddr, Protocol, arp, ethernet, frame, icmpv6, igmp, ipv4, ipv6, mld, ndp, udp,
};

/// A frame from a host port, as far as the control plane needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostFrame {
    /// Its source.
    pub(crate) source: MacAddr,
    /// Its destination.
    pub(crate) destination: MacAddr,
    /// Its subject.
    pub(crate) matter: Matter,
}

/// The subject of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Matter {
    /// Who has `target`? From a host that has `ip`.
    Ask { ip: IpAddr, target: IpAddr },
    /// Does anyone else have `ip`? (RFC 5227, 2.1.1; RFC 4862, 5.4)
    Probe { ip: IpAddr },
    /// I have `ip`: an answer or an announcement.
    Have { ip: IpAddr },
    /// DHCPv4 from a client, or a router solicitation: the controller answers.
    ForController,
    /// An IP packet to one station.
    Data { source: IpAddr, target: IpAddr },
    /// Anything else to one station.
    Unicast,
    /// IGMP or MLD: the groups that its sender joins (true) or leaves.
    Listens(Vec<(IpAddr, bool)>),
    /// An IP packet to a group.
    Multicast(IpAddr),
    /// Anything else to a group: dropped, since nothing is flooded.
    Group,
    /// ARP or neighbour discovery that contradicts itself or its frame.
    Forged,
}

impl HostFrame {
    /// Reads a frame; `None` if it is too short to be one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<HostFrame> {
        let frame = ethernet::Frame::new_checked(bytes).ok()?;
        let (source, destination) = (frame.src(), frame.dst());
        let matter = match frame.ethertype() {
            EtherType::ARP => arp_matter(source, frame.payload()),
            EtherType::IPV4 => ipv4_matter(frame.payload()),
            EtherType::IPV6 => ipv6_matter(source, frame.payload()),
            _ => None,
        };
        let is_group = destination.is_multicast();
        let matter = match matter {
            Some(Matter::Data { target, .. }) if is_group => {
                match MacAddr::of_group(target) == Some(destination) {
                    true => Matter::Multicast(target),
                    false => Matter::Group,
                }
            }
            Some(matter) => matter,
            None if is_group => Matter::Group,
            None => Matter::Unicast,
        };
        Some(HostFrame { source, destination, matter })
    }
}

fn arp_matter(source: MacAddr, bytes: &[u8]) -> Option<Matter> {
    let Ok(packet) = arp::Packet::new_checked(bytes) else { return Some(Matter::Forged) };
    if packet.sender_mac() != source {
        return Some(Matter::Forged);
    }
    let (ip, target) = (packet.sender_ip(), packet.target_ip());
    let usable = |ip: Ipv4Addr| {
        !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() || ip.is_loopback())
    };
    Some(match packet.operation() {
        arp::Operation::REQUEST if ip.is_unspecified() && usable(target) => {
            Matter::Probe { ip: target.into() }
        }
        _ if !usable(ip) => Matter::Forged,
        arp::Operation::REQUEST if ip == target => Matter::Have { ip: ip.into() },
        arp::Operation::REQUEST if usable(target) => {
            Matter::Ask { ip: ip.into(), target: target.into() }
        }
        arp::Operation::REPLY => Matter::Have { ip: ip.into() },
        _ => Matter::Forged,
    })
}

fn ipv4_matter(bytes: &[u8]) -> Option<Matter> {
    let packet = ipv4::Packet::new_checked(bytes).ok()?;
    if packet.protocol() == Protocol::UDP
        && !packet.is_fragment()
        && let Ok(datagram) = udp::Datagram::new_checked(packet.payload())
        && datagram.dst_port() == 67
    {
        return Some(Matter::ForController);
    }
    if packet.protocol() == Protocol::IGMP {
        return Some(igmp_matter(packet.payload()));
    }
    Some(Matter::Data { source: packet.src().into(), target: packet.dst().into() })
}

/// Hosts are not routers of the fabric: their queries are ordinary frames to a group.
fn igmp_matter(bytes: &[u8]) -> Matter {
    let Ok(packet) = igmp::Packet::new_checked(bytes) else { return Matter::Forged };
    Matter::Listens(match igmp::Repr::parse(&packet) {
        Err(_) => return Matter::Forged,
        Ok(_) if !packet.checksum_ok() => return Matter::Forged,
        Ok(igmp::Repr::Query { .. }) => return Matter::Group,
        Ok(igmp::Repr::ReportV1(group) | igmp::Repr::ReportV2(group)) => {
            vec![(group.into(), true)]
        }
        Ok(igmp::Repr::Leave(group)) => vec![(group.into(), false)],
        Ok(igmp::Repr::ReportV3(records)) => listens(&records),
    })
}

/// The groups that the sender of these records joins (true) or leaves.
fn listens<A: Copy + Into<IpAddr>>(records: &[Record<A>]) -> Vec<(IpAddr, bool)> {
    records.iter().filter_map(|r| Some((r.group.into(), r.listens()?))).collect()
}

/// The same for IPv6, where a report comes from the host's link-local address or none, and has not
/// passed a router (RFC 3810, 5.2.13 and 7.4).
fn mld_matter(packet: &ipv6::Packet<&[u8]>, bytes: &[u8]) -> Matter {
    let (src, dst) = (packet.src(), packet.dst());
    let pseudo = Sum::pseudo_v6(src, dst, Protocol::ICMPV6, bytes.len() as u32);
    let is_sound = icmpv6::Packet::new_checked(bytes).is_ok_and(|p| p.checksum_ok(pseudo))
        && packet.hop_limit() == 1
        && (src.is_unspecified() || src.is_unicast_link_local());
    if !is_sound {
        return Matter::Forged;
    }
    let message = mld::Packet::new_checked(bytes).and_then(|p| mld::Repr::parse(&p));
    Matter::Listens(match message {
        Err(_) => return Matter::Forged,
        Ok(mld::Repr::Query { .. }) => return Matter::Group,
        Ok(mld::Repr::ReportV1(group)) => vec![(group.into(), true)],
        Ok(mld::Repr::Done(group)) => vec![(group.into(), false)],
        Ok(mld::Repr::ReportV2(records)) => listens(&records),
    })
}

fn ipv6_matter(source: MacAddr, bytes: &[u8]) -> Option<Matter> {
    let packet = ipv6::Packet::new_checked(bytes).ok()?;
    let data = Some(Matter::Data { source: packet.src().into(), target: packet.dst().into() });
    if packet.next_header() == Protocol::HOP_BY_HOP
        && let Ok(upper) = packet.upper()
        && upper.protocol == Protocol::ICMPV6
        && upper.has_header()
        && let Some(message) = packet.payload().get(upper.offset..)
        && message.first().is_some_and(|kind| mld::is_mld(*kind))
    {
        return Some(mld_matter(&packet, message));
    }
    if packet.next_header() != Protocol::ICMPV6 {
        return data;
    }
    let Ok(icmp) = icmpv6::Packet::new_checked(packet.payload()) else { return data };
    if !icmp.is_ndp() {
        return data;
    }
    // RFC 4861, 6.1 and 7.1: a message that has passed a router, or is damaged, is ignored.
    let pseudo =
        Sum::pseudo_v6(packet.src(), packet.dst(), Protocol::ICMPV6, packet.payload().len() as u32);
    let repr = ndp::Packet::new_checked(packet.payload()).and_then(|p| ndp::Repr::parse(&p));
    let (Ok(repr), ndp::HOP_LIMIT, true) = (repr, packet.hop_limit(), icmp.checksum_ok(pseudo))
    else {
        return Some(Matter::Forged);
    };
    let lies = repr.options.iter().any(|option| match option {
        ndp::NdpOption::SourceLinkLayer(mac) | ndp::NdpOption::TargetLinkLayer(mac) => {
            *mac != source
        }
        _ => false,
    });
    let src = packet.src();
    Some(match repr.message {
        _ if lies || src.is_multicast() => Matter::Forged,
        ndp::Message::RouterSolicitation => Matter::ForController,
        ndp::Message::NeighborSolicitation { target } if src.is_unspecified() => {
            Matter::Probe { ip: target.into() }
        }
        ndp::Message::NeighborSolicitation { target } => {
            Matter::Ask { ip: src.into(), target: target.into() }
        }
        // A proxy may answer for others (RFC 4861, 7.2.8); here only the group does.
        ndp::Message::NeighborAdvertisement { target, .. } => Matter::Have { ip: target.into() },
        // Hosts are not routers of the fabric.
        ndp::Message::RouterAdvertisement { .. } | ndp::Message::Redirect { .. } => Matter::Forged,
    })
}

/// Whether an IP packet is an echo request (ICMP).
pub(crate) fn is_echo_request(bytes: &[u8]) -> bool {
    const ECHO_V4: u8 = 8;
    const ECHO_V6: u8 = 128;
    let Ok(frame) = ethernet::Frame::new_checked(bytes) else { return false };
    match frame.ethertype() {
        EtherType::IPV4 => ipv4::Packet::new_checked(frame.payload()).is_ok_and(|packet| {
            packet.protocol() == Protocol::ICMPV4 && packet.payload().first() == Some(&ECHO_V4)
        }),
        EtherType::IPV6 => ipv6::Packet::new_checked(frame.payload()).is_ok_and(|packet| {
            packet.next_header() == Protocol::ICMPV6 && packet.payload().first() == Some(&ECHO_V6)
        }),
        _ => false,
    }
}

/// A host or the group, by its Ethernet and IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) mac: MacAddr,
    pub(crate) ip: IpAddr,
}

/// The frame in which `from` asks the station `to` for the address `target`: unicast, so that no
/// other host behind the port receives it. `None` if the addresses are of different versions.
pub(crate) fn question(from: Party, to: MacAddr, target: IpAddr) -> Option<Vec<u8>> {
    match (from.ip, target) {
        (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) => {
            let packet = arp::Repr {
                operation: arp::Operation::REQUEST,
                sender_mac: from.mac,
                sender_ip,
                target_mac: MacAddr::default(),
                target_ip,
            };
            Some(frame::arp(to, &packet))
        }
        (IpAddr::V6(src), IpAddr::V6(target)) => {
            let message = ndp::Message::NeighborSolicitation { target };
            let options = vec![ndp::NdpOption::SourceLinkLayer(from.mac)];
            // Refused for a multicast target, which no host has.
            frame::ndp((from.mac, to), (src, target), &ndp::Repr { message, options }).ok()
        }
        _ => None,
    }
}

/// The frame that tells `to` that `who` has its address. To a prober without an address
/// (RFC 4862, 5.4.4) the advertisement goes to all nodes.
pub(crate) fn answer(who: Party, to: MacAddr, to_ip: Option<IpAddr>) -> Option<Vec<u8>> {
    match (who.ip, to_ip) {
        (IpAddr::V4(sender_ip), to_ip) => {
            let target_ip = match to_ip {
                Some(IpAddr::V4(ip)) => ip,
                Some(IpAddr::V6(_)) => return None,
                None => Ipv4Addr::UNSPECIFIED,
            };
            let packet = arp::Repr {
                operation: arp::Operation::REPLY,
                sender_mac: who.mac,
                sender_ip,
                target_mac: to,
                target_ip,
            };
            Some(frame::arp(to, &packet))
        }
        (IpAddr::V6(target), to_ip) => {
            let all_nodes = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
            let (dst, solicited) = match to_ip {
                Some(IpAddr::V6(ip)) => (ip, true),
                Some(IpAddr::V4(_)) => return None,
                None => (all_nodes, false),
            };
            let message = ndp::Message::NeighborAdvertisement {
                router: false,
                solicited,
                override_cache: true,
                target,
            };
            let options = vec![ndp::NdpOption::TargetLinkLayer(who.mac)];
            frame::ndp((who.mac, to), (target, dst), &ndp::Repr { message, options }).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn party(mac: MacAddr, ip: &str) -> Party {
        Party { mac, ip: ip.parse().unwrap() }
    }

    fn read(frame: &[u8]) -> HostFrame {
        HostFrame::parse(frame).unwrap()
    }

    #[test]
    fn questions_and_answers_of_both_versions_are_understood() {
        for (from, target) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (from, target) = (party(A, from), party(B, target));
            let asked = read(&question(from, B, target.ip).unwrap());
            assert_eq!((asked.source, asked.destination), (A, B));
            assert_eq!(asked.matter, Matter::Ask { ip: from.ip, target: target.ip });
            let answered = read(&answer(target, A, Some(from.ip)).unwrap());
            assert_eq!((answered.source, answered.destination), (B, A));
            assert_eq!(answered.matter, Matter::Have { ip: target.ip });
        }
        assert_eq!(question(party(A, "10.0.0.1"), B, "fd00::2".parse().unwrap()), None);
        assert_eq!(question(party(A, "fd00::1"), B, "ff02::1".parse().unwrap()), None);
    }

    #[test]
    fn probes_for_duplicates_are_told_from_questions() {
        let probe = party(A, "0.0.0.0");
        let asked = read(&question(probe, B, "10.0.0.2".parse().unwrap()).unwrap());
        assert_eq!(asked.matter, Matter::Probe { ip: "10.0.0.2".parse().unwrap() });
        let probe = party(A, "::");
        let asked = read(&question(probe, B, "fd00::2".parse().unwrap()).unwrap());
        assert_eq!(asked.matter, Matter::Probe { ip: "fd00::2".parse().unwrap() });
    }

    #[test]
    fn a_sender_address_that_is_not_the_frames_is_forged() {
        for (from, target) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let mut frame = question(party(A, from), B, target.parse().unwrap()).unwrap();
            frame[11] = 9;
            assert_eq!(read(&frame).matter, Matter::Forged);
        }
        // No host has a broadcast or multicast address.
        let frame = question(party(A, "255.255.255.255"), B, "10.0.0.2".parse().unwrap()).unwrap();
        assert_eq!(read(&frame).matter, Matter::Forged);
    }

    #[test]
    fn a_damaged_solicitation_is_not_believed() {
        let mut frame = question(party(A, "fd00::1"), B, "fd00::2".parse().unwrap()).unwrap();
        let last = frame.len() - 20;
        frame[last] ^= 1;
        assert_eq!(read(&frame).matter, Matter::Forged);
    }
}
