//! Packets for the box itself, where no kernel answers: pings are answered, and packets to closed
//! ports are refused, so that a traceroute ends here (RFC 1122, 3.2.2; RFC 4443; RFC 9293,
//! 3.10.7.1).
//!
//! Fragments are not reassembled, and mandatory IPv6 options are not supported: these packets are
//! counted and dropped without an error.

use std::net::{IpAddr, Ipv6Addr};

use plexus_wire::checksum::Sum;
use plexus_wire::ethernet::{self, EtherType};
use plexus_wire::ipv6_ext::Walk;
use plexus_wire::{Protocol, Time, frame, icmpv4, icmpv6, ipv4, ipv6, tcp, udp};

use super::Router;
use super::errors::{Cause, header_v4, icmpv4_packet};
use super::input::InterfaceId;
use super::nd::icmpv6_packet;
use super::refusal::Refusal;

/// Source route options (RFC 791, 3.1).
const SOURCE_ROUTES: [u8; 2] = [131, 137];

impl Router {
    /// A packet for one of our addresses was received.
    pub(super) fn local(
        &mut self,
        now: Time,
        interface: InterfaceId,
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let frame = ethernet::Frame::new_checked(bytes).map_err(|_| Refusal::Malformed)?;
        if frame.dst().is_multicast() {
            return Err(Refusal::LinkGroup);
        }
        match frame.ethertype() {
            EtherType::IPV4 => self.local_v4(now, interface, bytes, frame.payload()),
            EtherType::IPV6 => self.local_v6(now, interface, bytes, frame.payload()),
            _ => Err(Refusal::Malformed),
        }
    }

    /// Refuses packets that are not for us, or whose sender cannot be answered.
    fn check_ends(&self, src: IpAddr, dst: IpAddr) -> Result<(), Refusal> {
        if dst.is_multicast() || self.interfaces.is_broadcast(dst) {
            return Err(Refusal::IsGroup);
        }
        if !self.interfaces.is_own(dst) {
            return Err(Refusal::NotForUs);
        }
        self.check_source(src)
    }

    /// Answers a frame with a packet.
    fn reply(
        &mut self,
        now: Time,
        interface: InterfaceId,
        frame: &[u8],
        packet: Vec<u8>,
    ) -> Result<(), Refusal> {
        if !self.allowance(interface).replies.spend(now) {
            return Err(Refusal::RepliesLimited);
        }
        self.send_own(now, interface, frame, packet)
    }

    fn local_v4(
        &mut self,
        now: Time,
        interface: InterfaceId,
        frame: &[u8],
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let packet = ipv4::Packet::new_checked(bytes).map_err(|_| Refusal::Malformed)?;
        if !packet.checksum_ok() {
            return Err(Refusal::Checksum);
        }
        let (src, dst) = (packet.src(), packet.dst());
        self.check_ends(src.into(), dst.into())?;
        for option in packet.options() {
            let option = option.map_err(|_| Refusal::Malformed)?;
            if SOURCE_ROUTES.contains(&option.kind) {
                return Err(Refusal::SourceRoute);
            }
        }
        if packet.is_fragment() {
            return Err(Refusal::Fragment);
        }
        let payload = packet.payload();
        let len = u16::try_from(payload.len()).map_err(|_| Refusal::Malformed)?;
        let pseudo = Sum::pseudo_v4(src, dst, packet.protocol(), len);
        let is_kernels = self.interfaces.is_kernels(dst.into());
        match packet.protocol() {
            Protocol::ICMPV4 => {
                let message = icmpv4::Packet::new_checked(payload);
                let message = message.map_err(|_| Refusal::Malformed)?;
                if !message.checksum_ok() {
                    return Err(Refusal::Checksum);
                }
                let repr = icmpv4::Repr::parse(&message).map_err(|_| Refusal::Malformed)?;
                let icmpv4::Repr::EchoRequest { identifier, sequence } = repr else {
                    return Err(Refusal::NotSpoken);
                };
                // Like the request in everything that matters for the return path (RFC 1812,
                // 4.3.3.6).
                let header = ipv4::Repr {
                    dscp: packet.dscp(),
                    identification: packet.identification(),
                    dont_fragment: packet.dont_fragment(),
                    ..header_v4(dst, src)
                };
                let repr = icmpv4::Repr::EchoReply { identifier, sequence };
                let reply = icmpv4_packet(header, repr, message.payload());
                self.reply(now, interface, frame, reply)
            }
            _ if is_kernels => Err(Refusal::KernelAnswers),
            Protocol::UDP => {
                let datagram = udp::Datagram::new_checked(payload);
                let datagram = datagram.map_err(|_| Refusal::Malformed)?;
                if datagram.checksum() != 0 && !datagram.checksum_ok(pseudo) {
                    return Err(Refusal::Checksum);
                }
                self.complain(now, interface, Cause::Port, frame)
            }
            Protocol::TCP => {
                let reply = reset((dst.into(), src.into()), payload, pseudo)?;
                self.reply(now, interface, frame, reply)
            }
            _ => self.complain(now, interface, Cause::Protocol(9), frame),
        }
    }

    fn local_v6(
        &mut self,
        now: Time,
        interface: InterfaceId,
        frame: &[u8],
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let packet = ipv6::Packet::new_checked(bytes).map_err(|_| Refusal::Malformed)?;
        let (src, dst) = (packet.src(), packet.dst());
        self.check_ends(src.into(), dst.into())?;
        let protocol_at = check_extensions(packet.next_header(), packet.payload())?;
        let upper = packet.upper().map_err(|_| Refusal::Malformed)?;
        if upper.fragment.is_some_and(|fragment| !fragment.is_atomic()) {
            return Err(Refusal::Fragment);
        }
        let payload = &packet.payload()[upper.offset..];
        let len = u32::try_from(payload.len()).map_err(|_| Refusal::Malformed)?;
        let pseudo = Sum::pseudo_v6(src, dst, upper.protocol, len);
        let is_kernels = self.interfaces.is_kernels(dst.into());
        match upper.protocol {
            Protocol::ICMPV6 => {
                let message = icmpv6::Packet::new_checked(payload);
                let message = message.map_err(|_| Refusal::Malformed)?;
                if !message.checksum_ok(pseudo) {
                    return Err(Refusal::Checksum);
                }
                let repr = icmpv6::Repr::parse(&message).map_err(|_| Refusal::Malformed)?;
                let icmpv6::Repr::EchoRequest { identifier, sequence } = repr else {
                    return Err(Refusal::NotSpoken);
                };
                let own = self.speaker_v6(interface, dst, src).ok_or(Refusal::NoSource)?;
                let header = ipv6::Repr {
                    traffic_class: packet.dscp() << 2,
                    flow_label: packet.flow_label(),
                    ..ipv6::Repr::new(own, src, Protocol::ICMPV6, 0)
                };
                let mut reply = vec![0; icmpv6::HEADER_LEN];
                let repr = icmpv6::Repr::EchoReply { identifier, sequence };
                repr.emit(&mut reply).map_err(|_| Refusal::Malformed)?;
                reply.extend_from_slice(message.payload());
                self.reply(now, interface, frame, icmpv6_packet(header, &reply))
            }
            _ if is_kernels => Err(Refusal::KernelAnswers),
            Protocol::UDP => {
                let datagram = udp::Datagram::new_checked(payload);
                let datagram = datagram.map_err(|_| Refusal::Malformed)?;
                // RFC 8200, 8.1: there is no UDP without a checksum.
                if datagram.checksum() == 0 || !datagram.checksum_ok(pseudo) {
                    return Err(Refusal::Checksum);
                }
                self.complain(now, interface, Cause::Port, frame)
            }
            Protocol::TCP => {
                let own = self.speaker_v6(interface, dst, src).ok_or(Refusal::NoSource)?;
                let reply = reset((own.into(), src.into()), payload, pseudo)?;
                self.reply(now, interface, frame, reply)
            }
            // RFC 8200, 4.7: to be ignored.
            Protocol::NO_NEXT_HEADER => Err(Refusal::NotSpoken),
            _ => self.complain(now, interface, Cause::Protocol(protocol_at), frame),
        }
    }

    /// The source of the answer: the address that was contacted, unless it is anycast.
    fn speaker_v6(&self, interface: InterfaceId, own: Ipv6Addr, to: Ipv6Addr) -> Option<Ipv6Addr> {
        let is_plain =
            self.interfaces.iter().any(|(_, f)| f.addresses.iter().any(|(a, _)| *a == own));
        if is_plain { Some(own) } else { self.source_v6(interface, to, to.into()) }
    }
}

/// Walks the extension headers; returns the offset of the upper protocol's number.
fn check_extensions(first: Protocol, payload: &[u8]) -> Result<usize, Refusal> {
    // The next header's number is in the IPv6 header, or at the start of the last extension.
    let (mut at, mut end) = (6, ipv6::HEADER_LEN);
    for header in Walk::new(first, payload) {
        let header = header.map_err(|_| Refusal::Malformed)?;
        if header.routing().is_some_and(|(_, left)| left > 0) {
            return Err(Refusal::SourceRoute);
        }
        for option in header.options() {
            // RFC 8200, 4.2: only 00 in the highest bits may be skipped.
            if option.map_err(|_| Refusal::Malformed)?.kind >> 6 != 0 {
                return Err(Refusal::NotSpoken);
            }
        }
        at = end;
        end += header.as_bytes().len();
    }
    Ok(at)
}

/// The packet in which a closed port answers a segment (RFC 9293, 3.10.7.1), from us to its sender.
/// `pseudo` is the segment's own pseudo-header.
fn reset(ends: (IpAddr, IpAddr), payload: &[u8], pseudo: Sum) -> Result<Vec<u8>, Refusal> {
    let segment = tcp::Segment::new_checked(payload).map_err(|_| Refusal::Malformed)?;
    if !segment.checksum_ok(pseudo) {
        return Err(Refusal::Checksum);
    }
    let flags = segment.flags();
    if flags.contains(tcp::Flags::RST) {
        return Err(Refusal::NotSpoken);
    }
    let is_ack = flags.contains(tcp::Flags::ACK);
    let marks = [tcp::Flags::SYN, tcp::Flags::FIN].map(|flag| u32::from(flags.contains(flag)));
    let data = u32::try_from(payload.len() - segment.header_len()).unwrap_or(u32::MAX);
    let next = segment.seq().wrapping_add(data).wrapping_add(marks[0] + marks[1]);
    let (rst, both) = (tcp::Flags::RST, tcp::Flags(tcp::Flags::RST.0 | tcp::Flags::ACK.0));
    let repr = tcp::Repr {
        src_port: segment.dst_port(),
        dst_port: segment.src_port(),
        seq: if is_ack { segment.ack() } else { 0 },
        ack: if is_ack { 0 } else { next },
        flags: if is_ack { rst } else { both },
        window: 0,
        urgent: 0,
        options: Default::default(),
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes).map_err(|_| Refusal::Malformed)?;
    frame::packet(ends, (Protocol::TCP, 64), &bytes).map_err(|_| Refusal::Malformed)
}
