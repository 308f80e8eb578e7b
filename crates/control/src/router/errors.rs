//! ICMP errors to the senders of undelivered packets (RFC 1812, 4.3; RFC 4443, 2.4 and 3).
//!
//! None is sent about an ICMP error, a later fragment, a packet to more than one station, or one
//! whose source is not a single station. The part of the packet that the error quotes must be
//! there. The source of an error is an address of the interface on which the packet arrived, so
//! that a traceroute shows the path; RFC 1812 (4.3.2.4) asks for the outgoing interface, but
//! predates that use. Of several addresses it is the one in the network of the station that sent
//! the packet. An error about a packet to ourselves has the packet's destination as source
//! (RFC 4443, 2.2 (a)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_wire::ethernet::{self, EtherType};
use plexus_wire::{MacAddr, Protocol, Time, icmpv4, icmpv6, ipv4, ipv6};

use super::Router;
use super::input::{Fault, InterfaceId};
use super::interfaces::is_unicast;
use super::nd::{icmpv6_packet, is_source_for};
use super::output::Group;
use super::refusal::Refusal;

/// Longest error, with header (RFC 1812, 4.3.2.3).
const LEN_MAX_V4: usize = 576;
/// The minimum MTU of IPv6, into which errors fit (RFC 4443, 2.4 (c)).
const LEN_MAX_V6: usize = 1280;

/// The cause of an error.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause {
    /// A packet to forward.
    Fault(Fault),
    /// A packet to ourselves, to a closed port.
    Port,
    /// The same, of an unsupported protocol; its number is at this byte of the packet.
    Protocol(usize),
}

fn message_v4(cause: Cause) -> Option<icmpv4::Repr> {
    let unreachable = |code| icmpv4::Repr::Unreachable { code, mtu: 0 };
    Some(match cause {
        Cause::Fault(Fault::TtlExpired) => icmpv4::Repr::TimeExceeded { code: 0 },
        Cause::Fault(Fault::NoRoute) => unreachable(0),
        Cause::Fault(Fault::Unreachable | Fault::AddressUnreachable) => unreachable(1),
        Cause::Fault(Fault::Prohibited) => unreachable(13),
        Cause::Fault(Fault::TooBig { mtu }) => icmpv4::Repr::Unreachable { code: 4, mtu },
        Cause::Fault(Fault::ParameterProblem { pointer, .. }) => {
            let rest = [u8::try_from(pointer).unwrap_or(u8::MAX), 0, 0, 0];
            icmpv4::Repr::Other { kind: 12, code: 0, rest }
        }
        // IPv4 addresses have no scope.
        Cause::Fault(Fault::BeyondScope) => return None,
        Cause::Protocol(_) => unreachable(2),
        Cause::Port => unreachable(3),
    })
}

fn message_v6(cause: Cause) -> icmpv6::Repr {
    let unreachable = |code| icmpv6::Repr::Unreachable { code };
    match cause {
        Cause::Fault(Fault::TtlExpired) => icmpv6::Repr::TimeExceeded { code: 0 },
        Cause::Fault(Fault::NoRoute) => unreachable(0),
        Cause::Fault(Fault::Prohibited) => unreachable(1),
        Cause::Fault(Fault::BeyondScope) => unreachable(2),
        Cause::Fault(Fault::Unreachable | Fault::AddressUnreachable) => unreachable(3),
        Cause::Fault(Fault::TooBig { mtu }) => {
            icmpv6::Repr::PacketTooBig { mtu: u32::from(mtu).max(LEN_MAX_V6 as u32) }
        }
        Cause::Fault(Fault::ParameterProblem { code, pointer }) => {
            icmpv6::Repr::ParameterProblem { code, pointer: pointer.into() }
        }
        Cause::Protocol(at) => {
            let pointer = u32::try_from(at).unwrap_or(u32::MAX);
            icmpv6::Repr::ParameterProblem { code: 1, pointer }
        }
        Cause::Port => unreachable(4),
    }
}

/// A known ICMP type that is not an error (IANA "ICMP Type Numbers").
fn is_query_v4(kind: u8) -> bool {
    matches!(kind, 0 | 8..=10 | 13..=18 | 42 | 43)
}

impl Router {
    /// A packet was dropped: sends an error to its sender.
    pub(super) fn error(
        &mut self,
        now: Time,
        interface: InterfaceId,
        fault: Fault,
        frame: &[u8],
    ) -> Result<(), Refusal> {
        self.complain(now, interface, Cause::Fault(fault), frame)
    }

    pub(super) fn complain(
        &mut self,
        now: Time,
        interface: InterfaceId,
        cause: Cause,
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let frame = ethernet::Frame::new_checked(bytes).map_err(|_| Refusal::Malformed)?;
        let is_group = frame.dst().is_multicast();
        let packet = match frame.ethertype() {
            EtherType::IPV4 if is_group => return Err(Refusal::LinkGroup),
            EtherType::IPV4 => {
                self.error_v4(now, (interface, frame.src()), cause, frame.payload())?
            }
            EtherType::IPV6 => {
                self.error_v6(now, (interface, frame.src()), cause, is_group, frame.payload())?
            }
            _ => return Err(Refusal::Malformed),
        };
        self.send_own(now, interface, bytes, packet)
    }

    /// Whether one more error may be sent.
    fn spend_error(&mut self, now: Time, interface: InterfaceId) -> Result<(), Refusal> {
        let may = self.allowance(interface).errors.spend(now) && self.errors.spend(now);
        may.then_some(()).ok_or(Refusal::ErrorsLimited)
    }

    fn error_v4(
        &mut self,
        now: Time,
        (interface, station): (InterfaceId, MacAddr),
        cause: Cause,
        bytes: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        let packet = ipv4::Packet::new_excerpt(bytes).map_err(|_| Refusal::Malformed)?;
        let room = LEN_MAX_V4 - ipv4::HEADER_LEN - icmpv4::HEADER_LEN;
        let quoted = bytes.get(..packet.total_len().min(room)).ok_or(Refusal::Malformed)?;
        if !packet.checksum_ok() {
            return Err(Refusal::Checksum);
        }
        let (src, dst) = (packet.src(), packet.dst());
        let is_everybodys = dst.is_multicast() || dst.is_unspecified();
        if is_everybodys || self.interfaces.is_broadcast(dst.into()) {
            return Err(Refusal::IsGroup);
        }
        self.check_source(src.into())?;
        if packet.fragment_offset() != 0 {
            return Err(Refusal::LaterFragment);
        }
        if packet.protocol() == Protocol::ICMPV4
            && !packet.payload().first().is_some_and(|kind| is_query_v4(*kind))
        {
            return Err(Refusal::IsError);
        }
        let own = match cause {
            Cause::Fault(_) => {
                let near = self.near(interface, src.into(), station);
                self.source_v4(interface, near).ok_or(Refusal::NoSource)?
            }
            Cause::Port | Cause::Protocol(_) => dst,
        };
        let repr = message_v4(cause).ok_or(Refusal::NotSpoken)?;
        self.spend_error(now, interface)?;
        // RFC 1812, 4.3.2.5: the precedence of internetwork control, and the packet's TOS.
        let dscp = 0x30 | packet.dscp() & 7;
        Ok(icmpv4_packet(ipv4::Repr { dscp, ..header_v4(own, src) }, repr, quoted))
    }

    fn error_v6(
        &mut self,
        now: Time,
        (interface, station): (InterfaceId, MacAddr),
        cause: Cause,
        is_link_group: bool,
        bytes: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        let packet = ipv6::Packet::new_excerpt(bytes).map_err(|_| Refusal::Malformed)?;
        let room = LEN_MAX_V6 - ipv6::HEADER_LEN - icmpv6::HEADER_LEN;
        let len = ipv6::HEADER_LEN + packet.payload_len();
        let quoted = bytes.get(..len.min(room)).ok_or(Refusal::Malformed)?;
        let (src, dst) = (packet.src(), packet.dst());
        // RFC 4443, 2.4 (e.3): path MTU discovery works for groups too.
        let may_be_group = matches!(
            cause,
            Cause::Fault(Fault::TooBig { .. } | Fault::ParameterProblem { code: 2, .. })
        );
        if !may_be_group && (is_link_group || dst.is_multicast()) {
            return Err(if is_link_group { Refusal::LinkGroup } else { Refusal::IsGroup });
        }
        self.check_source(src.into())?;
        match packet.upper() {
            Ok(upper) if upper.protocol == Protocol::ICMPV6 => {
                let kind = packet.payload().get(upper.offset).filter(|_| upper.has_header());
                if kind.is_none_or(|kind| *kind < 128 || *kind == 137) {
                    return Err(Refusal::IsError);
                }
            }
            Ok(_) => {}
            Err(_) if matches!(cause, Cause::Fault(Fault::ParameterProblem { .. })) => {}
            Err(_) => return Err(Refusal::Malformed),
        }
        let is_anycast = || self.interfaces.iter().any(|(_, facts)| facts.is_anycast(dst.into()));
        let own = match cause {
            Cause::Port | Cause::Protocol(_) if !is_anycast() => dst,
            _ => {
                let near = self.near(interface, src.into(), station);
                self.source_v6(interface, src, near).ok_or(Refusal::NoSource)?
            }
        };
        self.spend_error(now, interface)?;
        let mut message = vec![0; icmpv6::HEADER_LEN];
        message_v6(cause).emit(&mut message).map_err(|_| Refusal::Malformed)?;
        message.extend_from_slice(quoted);
        Ok(icmpv6_packet(ipv6::Repr::new(own, src, Protocol::ICMPV6, 0), &message))
    }

    /// Refuses to answer addresses that are not a single station's, or are our own.
    pub(super) fn check_source(&self, src: IpAddr) -> Result<(), Refusal> {
        let is_good =
            is_unicast(src) && !self.interfaces.is_broadcast(src) && !self.interfaces.is_own(src);
        is_good.then_some(()).ok_or(Refusal::BadSource)
    }

    /// The address on a link by which packets to this one go: its own if it is on the link, else
    /// that of its gateway, of several the one that is this station.
    fn near(&self, interface: InterfaceId, to: IpAddr, station: MacAddr) -> IpAddr {
        if self.interfaces.is_on_link(interface, to) {
            return to;
        }
        let group = self.rib.find(to, |_, entry| entry.told());
        let Some(Group::Via(members)) = group.and_then(|group| self.groups.told(group)) else {
            return to;
        };
        let on_link = members.iter().filter(|m| m.interface == interface);
        let gateways = on_link.filter_map(|m| self.neighbours.get(m.neighbour));
        let mut gateways = gateways.filter(|n| n.address.is_ipv4() == to.is_ipv4());
        let station = gateways.clone().find(|n| n.mac == Some(station));
        station.or_else(|| gateways.next()).map_or(to, |gateway| gateway.address)
    }

    /// A source address: of this interface, otherwise of any; of several the one in the network of
    /// the address `near`.
    fn source_v4(&self, interface: InterfaceId, near: IpAddr) -> Option<Ipv4Addr> {
        let others = self.interfaces.iter().map(|(id, _)| id);
        std::iter::once(interface).chain(others).find_map(|id| {
            match self.interfaces.source(id, near) {
                Some(IpAddr::V4(own)) => Some(own),
                _ => None,
            }
        })
    }

    /// The same, for packets to `to`.
    pub(super) fn source_v6(
        &self,
        interface: InterfaceId,
        to: Ipv6Addr,
        near: IpAddr,
    ) -> Option<Ipv6Addr> {
        let others = self.interfaces.iter().map(|(id, _)| id);
        std::iter::once(interface).chain(others).find_map(|id| {
            match self.interfaces.source(id, near) {
                Some(IpAddr::V6(own)) if is_source_for(own, to) => Some(own),
                _ => None,
            }
        })
    }
}

/// The header of a packet of our own, still without its length.
pub(super) fn header_v4(own: Ipv4Addr, to: Ipv4Addr) -> ipv4::Repr {
    ipv4::Repr::new(own, to, Protocol::ICMPV4, 0)
}

/// A complete IPv4 packet with an ICMP message.
pub(super) fn icmpv4_packet(mut header: ipv4::Repr, repr: icmpv4::Repr, data: &[u8]) -> Vec<u8> {
    header.payload_len = icmpv4::HEADER_LEN + data.len();
    let at = header.buffer_len();
    let mut packet = vec![0; at + icmpv4::HEADER_LEN];
    if header.emit(&mut packet).and_then(|()| repr.emit(&mut packet[at..])).is_err() {
        return Vec::new();
    }
    packet.extend_from_slice(data);
    if let Ok(mut view) = icmpv4::Packet::new_checked(&mut packet[at..]) {
        view.fill_checksum();
    }
    packet
}
