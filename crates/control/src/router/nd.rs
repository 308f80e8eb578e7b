//! Neighbour discovery: questions, answers, and learning from them (RFC 4861, 7).

use std::net::{IpAddr, Ipv6Addr};

use plexus_wire::checksum::Sum;
use plexus_wire::ethernet::{self, EtherType};
use plexus_wire::ndp::{self, HOP_LIMIT, Message, NdpOption, Repr, solicited_node};
use plexus_wire::{MacAddr, Protocol, Time, frame, icmpv6, ipv6};

use super::Router;
use super::input::InterfaceId;
use super::interfaces::is_link_local;
use super::neighbours::Heard;
use super::output::Output;
use super::refusal::Refusal;

/// Every node on the link (RFC 4291, 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);

/// A complete IPv6 packet with an ICMPv6 message, whose checksum is still missing.
pub(super) fn icmpv6_packet(mut header: ipv6::Repr, message: &[u8]) -> Vec<u8> {
    header.payload_len = message.len();
    let mut packet = vec![0; ipv6::HEADER_LEN];
    if header.emit(&mut packet).is_err() {
        return Vec::new();
    }
    packet.extend_from_slice(message);
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let pseudo = Sum::pseudo_v6(header.src, header.dst, Protocol::ICMPV6, len);
    if let Ok(mut view) = icmpv6::Packet::new_checked(&mut packet[ipv6::HEADER_LEN..]) {
        view.fill_checksum(pseudo);
    }
    packet
}

/// A received message whose envelope was checked (RFC 4861, 7.1).
struct Envelope {
    mac: MacAddr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    repr: Repr,
}

fn open(bytes: &[u8]) -> Result<Envelope, Refusal> {
    let malformed = |_| Refusal::Malformed;
    let ethernet = ethernet::Frame::new_checked(bytes).map_err(malformed)?;
    if ethernet.ethertype() != EtherType::IPV6 {
        return Err(Refusal::Malformed);
    }
    let packet = ipv6::Packet::new_checked(ethernet.payload()).map_err(malformed)?;
    let upper = packet.upper().map_err(malformed)?;
    // Discovery messages are not fragmented (RFC 6980, 5).
    if upper.protocol != Protocol::ICMPV6 || upper.fragment.is_some() {
        return Err(Refusal::Malformed);
    }
    if packet.hop_limit() != HOP_LIMIT {
        return Err(Refusal::HopLimit);
    }
    let bytes = &packet.payload()[upper.offset..];
    let icmp = icmpv6::Packet::new_checked(bytes).map_err(malformed)?;
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    if !icmp.checksum_ok(Sum::pseudo_v6(packet.src(), packet.dst(), Protocol::ICMPV6, len)) {
        return Err(Refusal::Checksum);
    }
    let view = ndp::Packet::new_checked(bytes).map_err(malformed)?;
    let repr = Repr::parse(&view).map_err(malformed)?;
    Ok(Envelope { mac: ethernet.src(), src: packet.src(), dst: packet.dst(), repr })
}

impl Router {
    /// Asks for the link address of a neighbour: by multicast, or its last known owner.
    pub(super) fn ask_nd(
        &mut self,
        interface: InterfaceId,
        target: Ipv6Addr,
        to: Option<MacAddr>,
    ) -> Result<(), Refusal> {
        // Without a source address it would be a duplicate address probe (RFC 4862, 5.4.2).
        let Some(IpAddr::V6(src)) = self.interfaces.source(interface, target.into()) else {
            return Err(Refusal::NoSource);
        };
        let dst = if to.is_some() { target } else { solicited_node(target) };
        let mac = self.interfaces.get(interface).ok_or(Refusal::NoInterface)?.mac;
        let options = vec![NdpOption::SourceLinkLayer(mac)];
        let repr = Repr { message: Message::NeighborSolicitation { target }, options };
        self.send_nd(interface, (src, dst), to, &repr)
    }

    /// Announces one of our addresses to all (RFC 4861, 7.2.6).
    pub(super) fn announce_nd(
        &mut self,
        interface: InterfaceId,
        own: Ipv6Addr,
    ) -> Result<(), Refusal> {
        self.advertise(interface, own, (ALL_NODES, None), false)
    }

    /// Announces our addresses to all, where the kernel does not.
    pub(super) fn announce(&mut self, interface: InterfaceId, addresses: &[IpAddr]) {
        if self.interfaces.get(interface).is_none_or(|facts| facts.kernel) {
            return;
        }
        for address in addresses {
            let told = match *address {
                IpAddr::V4(address) => self.announce_arp(interface, address),
                IpAddr::V6(address) => self.announce_nd(interface, address),
            };
            if let Err(refusal) = told {
                self.refuse(refusal);
            }
        }
    }

    fn advertise(
        &mut self,
        interface: InterfaceId,
        target: Ipv6Addr,
        (dst, to): (Ipv6Addr, Option<MacAddr>),
        solicited: bool,
    ) -> Result<(), Refusal> {
        let facts = self.interfaces.get(interface).ok_or(Refusal::NoInterface)?;
        // Other routers share an anycast address, and it is not used as a source.
        let is_anycast = facts.is_anycast(target.into());
        let src = match self.interfaces.source(interface, target.into()) {
            Some(IpAddr::V6(own)) if is_anycast => own,
            _ => target,
        };
        let (router, override_cache) = (true, !is_anycast);
        let message = Message::NeighborAdvertisement { router, solicited, override_cache, target };
        let repr = Repr { message, options: vec![NdpOption::TargetLinkLayer(facts.mac)] };
        self.send_nd(interface, (src, dst), to, &repr)
    }

    fn send_nd(
        &mut self,
        interface: InterfaceId,
        (src, dst): (Ipv6Addr, Ipv6Addr),
        to: Option<MacAddr>,
        repr: &Repr,
    ) -> Result<(), Refusal> {
        let mac = self.interfaces.get(interface).ok_or(Refusal::NoInterface)?.mac;
        let group = MacAddr::of_group(dst.into());
        let to = to.or(group).ok_or(Refusal::BadLinkAddress)?;
        let frame = frame::ndp((mac, to), (src, dst), repr).map_err(|_| Refusal::Malformed)?;
        self.outputs.push_back(Output::Send { interface, frame });
        Ok(())
    }

    /// A discovery message was received.
    pub(super) fn nd(
        &mut self,
        now: Time,
        interface: InterfaceId,
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let envelope = open(bytes)?;
        let own_mac = self.interfaces.get(interface).ok_or(Refusal::NoInterface)?.mac;
        if envelope.mac == own_mac {
            return Err(Refusal::OwnEcho);
        }
        let link_address = envelope.repr.options.iter().find_map(|option| {
            match (option, &envelope.repr.message) {
                (NdpOption::SourceLinkLayer(mac), Message::NeighborSolicitation { .. })
                | (NdpOption::TargetLinkLayer(mac), Message::NeighborAdvertisement { .. }) => {
                    Some(*mac)
                }
                _ => None,
            }
        });
        let is_bad = |mac: MacAddr| mac.is_multicast() || mac.to_u64() == 0 || mac == own_mac;
        if link_address.is_some_and(is_bad) {
            return Err(Refusal::BadLinkAddress);
        }
        match envelope.repr.message {
            Message::NeighborSolicitation { target } => {
                self.solicited(now, interface, &envelope, target, link_address)
            }
            Message::NeighborAdvertisement { .. } => {
                self.advertised(now, interface, &envelope, link_address)
            }
            // This router neither advertises itself nor obeys others (RFC 4861, 6.2.6, 8.2).
            _ => Err(Refusal::NotSpoken),
        }
    }

    /// A station asks for a link address (RFC 4861, 7.2.3 and 7.2.4).
    fn solicited(
        &mut self,
        now: Time,
        interface: InterfaceId,
        envelope: &Envelope,
        target: Ipv6Addr,
        link_address: Option<MacAddr>,
    ) -> Result<(), Refusal> {
        let Envelope { mac, src, dst, .. } = *envelope;
        let is_test = src.is_unspecified();
        // RFC 4861, 7.1.1: the only valid form of a duplicate address probe.
        if is_test && (dst != solicited_node(target) || link_address.is_some()) {
            return Err(Refusal::Malformed);
        }
        let facts = self.interfaces.get(interface).ok_or(Refusal::NoInterface)?;
        if !facts.is_own(target.into()) {
            return Err(Refusal::NotForUs);
        }
        let is_kernel = facts.kernel;
        if !is_test {
            let sender = IpAddr::V6(src);
            if facts.is_own(sender) {
                return self.conflict(now, interface, sender, mac);
            }
            let known = self.neighbours.find(interface, sender);
            match (known, link_address) {
                (Some(id), Some(mac)) => {
                    let heard = Heard { solicited: false, overrides: true };
                    self.neighbours.heard(now, id, mac, heard);
                }
                (Some(_), None) => {}
                (None, _) if !self.may_be_neighbour(interface, sender) => {
                    return Err(Refusal::NotOnLink);
                }
                (None, Some(mac)) => {
                    self.neighbours.create(now, interface, sender, Some(mac), false)?;
                }
                (None, None) => {}
            }
        }
        if is_kernel {
            return Err(Refusal::KernelAnswers);
        }
        // An asker with an address is answered at its link address; the answer to a duplicate
        // address probe goes to all nodes.
        let to = if is_test { (ALL_NODES, None) } else { (src, Some(link_address.unwrap_or(mac))) };
        self.advertise(interface, target, to, !is_test)
    }

    /// A station announces a link address (RFC 4861, 7.2.5).
    fn advertised(
        &mut self,
        now: Time,
        interface: InterfaceId,
        envelope: &Envelope,
        link_address: Option<MacAddr>,
    ) -> Result<(), Refusal> {
        let Message::NeighborAdvertisement { router, solicited, override_cache, target } =
            envelope.repr.message
        else {
            return Err(Refusal::Malformed);
        };
        // RFC 4861, 7.1.2.
        if envelope.dst.is_multicast() && solicited {
            return Err(Refusal::Malformed);
        }
        let facts = self.interfaces.get(interface).ok_or(Refusal::NoInterface)?;
        if facts.is_own(target.into()) {
            // Other routers share an anycast address.
            if facts.is_anycast(target.into()) {
                return Err(Refusal::NotForUs);
            }
            return self.conflict(
                now,
                interface,
                target.into(),
                link_address.unwrap_or(envelope.mac),
            );
        }
        let known = self.neighbours.find(interface, target.into());
        let id = known.ok_or(Refusal::Unsolicited)?;
        // An answer to a question of the kernel or of another station does not answer ours.
        let is_ours = facts.is_own(envelope.dst.into());
        let solicited = solicited && is_ours;
        match link_address {
            Some(mac) => {
                let heard = Heard { solicited, overrides: override_cache };
                self.neighbours.heard(now, id, mac, heard);
            }
            None if solicited => self.neighbours.confirmed(now, id),
            None => {}
        }
        self.neighbours.set_router(id, router);
        Ok(())
    }
}

/// Whether one of our IPv6 addresses may be a source towards `to`: link-local ones stay on the
/// link.
pub(super) fn is_source_for(own: Ipv6Addr, to: Ipv6Addr) -> bool {
    !is_link_local(own.into()) || is_link_local(to.into())
}
