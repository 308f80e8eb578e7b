//! IPv4 and IPv6 packets of hosts in one vocabulary: headers, and the checksums that cover them.

use std::net::IpAddr;

use plexus_wire::checksum::Sum;
use plexus_wire::{EtherType, MacAddr, Protocol, ethernet, icmpv4, icmpv6, ipv4, ipv6};

/// Bytes of the IP header in packets to this address.
pub(crate) fn header_len(to: IpAddr) -> usize {
    if to.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}

/// Bytes of a simulated host's frame before the payload of its IP packet.
fn payload_at(frame: &[u8]) -> usize {
    // The type is the last part of the Ethernet header.
    let is_v6 = frame[..ethernet::HEADER_LEN].ends_with(&EtherType::IPV6.0.to_be_bytes());
    ethernet::HEADER_LEN + if is_v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }
}

/// The payload of a simulated host's frame, and the padding behind it.
pub(crate) fn payload(frame: &[u8]) -> &[u8] {
    frame.get(payload_at(frame)..).unwrap_or_default()
}

/// The same, for writing.
pub(crate) fn payload_mut(frame: &mut [u8]) -> &mut [u8] {
    let at = payload_at(frame);
    frame.get_mut(at..).unwrap_or_default()
}

/// A frame's IP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ip<'a> {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) ecn: u8,
    pub(crate) payload: &'a [u8],
}

impl<'a> Ip<'a> {
    /// Reads a packet. The payload of one with IPv6 extension headers is of a protocol that no
    /// program uses.
    #[inline]
    pub(crate) fn parse(frame: &'a [u8]) -> Option<Ip<'a>> {
        let frame = ethernet::Frame::new_checked(frame).ok()?;
        if frame.ethertype() == EtherType::IPV6 {
            let packet = ipv6::Packet::new_checked(frame.payload()).ok()?;
            return Some(Ip {
                src: packet.src().into(),
                dst: packet.dst().into(),
                protocol: packet.next_header(),
                ecn: packet.ecn(),
                payload: packet.payload(),
            });
        }
        let packet = ipv4::Packet::new_checked(frame.payload()).ok()?;
        Some(Ip {
            src: packet.src().into(),
            dst: packet.dst().into(),
            protocol: packet.protocol(),
            ecn: packet.ecn(),
            payload: packet.payload(),
        })
    }

    /// Whether the payload's checksum is right where IPv6 prescribes one (RFC 8200, 8.1). Over IPv4
    /// simulated hosts leave UDP's and TCP's to the interface, and it computes none.
    #[inline]
    pub(crate) fn is_sound(&self) -> bool {
        let has_checksum =
            matches!(self.protocol, Protocol::ICMPV6 | Protocol::UDP | Protocol::TCP);
        self.pseudo().is_none_or(|p| has_checksum && p.with(self.payload).is_right())
    }

    /// The pseudo header of IPv6.
    #[inline]
    fn pseudo(&self) -> Option<Sum> {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (self.src, self.dst) else { return None };
        Some(Sum::pseudo_v6(src, dst, self.protocol, self.payload.len() as u32))
    }

    /// Whether it is an echo request.
    pub(crate) fn is_echo_request(&self) -> bool {
        match self.protocol {
            Protocol::ICMPV4 => {
                icmpv4::Packet::new_checked(self.payload).is_ok_and(|p| p.kind() == 8)
            }
            Protocol::ICMPV6 => {
                icmpv6::Packet::new_checked(self.payload).is_ok_and(|p| p.kind() == 128)
            }
            _ => false,
        }
    }
}

/// Writes the headers of a frame from `mac`; its destination is not known yet. `None`: they do not
/// fit, or the addresses are of different versions.
pub(crate) fn emit(
    frame: &mut [u8],
    mac: MacAddr,
    (from, to): (IpAddr, IpAddr),
    (protocol, payload_len): (Protocol, usize),
    ecn: u8,
) -> Option<()> {
    let ethertype = if to.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    ethernet::Repr { dst: MacAddr::default(), src: mac, ethertype }.emit(frame).ok()?;
    let packet = &mut frame[ethernet::HEADER_LEN..];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = ipv4::Repr::new(from, to, protocol, payload_len);
            ipv4::Repr { ecn, ..header }.emit(packet).ok()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = ipv6::Repr::new(from, to, protocol, payload_len);
            ipv6::Repr { traffic_class: ecn, ..header }.emit(packet).ok()
        }
        _ => None,
    }
}

/// Completes an IPv6 packet with the checksum of its payload.
pub(crate) fn fill_checksum(frame: &mut [u8]) {
    let Some(ip) = Ip::parse(frame).filter(|ip| ip.dst.is_ipv6()) else { return };
    let (ends, protocol, len) = ((ip.src, ip.dst), ip.protocol, ip.payload.len());
    plexus_wire::frame::fill_checksum(ends, protocol, &mut payload_mut(frame)[..len]);
}

/// Turns an echo request into the frame that answers it (RFC 792; RFC 4443, 4.2). `None`: it is
/// none.
pub(crate) fn answer_echo(frame: &mut [u8], mac: MacAddr) -> Option<()> {
    let ip = Ip::parse(frame)?;
    let (ends, of, ecn) = ((ip.dst, ip.src), (ip.protocol, ip.payload.len()), ip.ecn);
    let start = payload_at(frame);
    emit(frame, mac, ends, of, ecn)?;
    let message = &mut frame[start..start + of.1];
    match of.0 {
        Protocol::ICMPV6 => {
            let header = icmpv6::Repr::parse(&icmpv6::Packet::new_checked(&*message).ok()?).ok()?;
            let icmpv6::Repr::EchoRequest { identifier, sequence } = header else { return None };
            icmpv6::Repr::EchoReply { identifier, sequence }.emit(message).ok()
        }
        _ => {
            icmpv4::Packet::new_checked(message).ok()?.answer_echo();
            Some(())
        }
    }
}
