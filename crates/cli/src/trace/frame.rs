//! A frame made of a description: what `plexus trace --explain` sends nowhere, and asks about.

use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;
use std::path::Path;

use plexus_io::pcap::Reader;
use plexus_wire::{
    EtherType, MacAddr, Protocol, checksum::Sum, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, udp,
    vlan,
};

/// The upper layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upper {
    Tcp(u16, u16),
    Udp(u16, u16),
    Echo,
}

/// A packet from one end to another. Addresses that are zero are to be found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Described {
    pub(super) from: (MacAddr, Option<IpAddr>),
    pub(super) to: (MacAddr, Option<IpAddr>),
    pub(super) upper: Upper,
    pub(super) vlan: Option<u16>,
    pub(super) ttl: u8,
    /// Bytes of the frame without its tag.
    pub(super) length: Option<usize>,
}

impl Described {
    /// The frame.
    ///
    /// # Errors
    /// When the description contradicts itself.
    pub(super) fn frame(&self) -> Result<Vec<u8>, String> {
        let (src, dst) = (self.from.0, self.to.0);
        let (ethertype, packet) = match (self.from.1, self.to.1) {
            (Some(IpAddr::V4(from)), Some(IpAddr::V4(to))) => {
                let upper = self.upper(ipv4::HEADER_LEN, |protocol, len| {
                    Sum::pseudo_v4(from, to, protocol, len as u16)
                })?;
                let repr = ipv4::Repr::new(from, to, self.protocol(false), upper.len());
                let mut packet = vec![0; ipv4::HEADER_LEN];
                let repr = ipv4::Repr { ttl: self.ttl, ..repr };
                repr.emit(&mut packet).map_err(|e| e.to_string())?;
                (EtherType::IPV4, [packet, upper].concat())
            }
            (Some(IpAddr::V6(from)), Some(IpAddr::V6(to))) => {
                let upper = self.upper(ipv6::HEADER_LEN, |protocol, len| {
                    Sum::pseudo_v6(from, to, protocol, len as u32)
                })?;
                let repr = ipv6::Repr::new(from, to, self.protocol(true), upper.len());
                let mut packet = vec![0; ipv6::HEADER_LEN];
                let repr = ipv6::Repr { hop_limit: self.ttl, ..repr };
                repr.emit(&mut packet).map_err(|e| e.to_string())?;
                (EtherType::IPV6, [packet, upper].concat())
            }
            // Without IP addresses it is a frame of a protocol for experiments (RFC 5342).
            (None, _) | (_, None) => (EtherType(0x88B6), vec![]),
            _ => return Err("the one end has an IPv4 address and the other one IPv6".into()),
        };
        let mut frame = vec![0; ethernet::HEADER_LEN];
        ethernet::Repr { dst, src, ethertype }.emit(&mut frame).map_err(|e| e.to_string())?;
        frame.extend(packet);
        let length = self.length.unwrap_or(ethernet::MIN_FRAME_LEN).max(ethernet::MIN_FRAME_LEN);
        if frame.len() < length {
            frame.resize(length, 0);
        }
        if let Some(tci) = self.vlan {
            frame.splice(..0, [0; vlan::TAG_LEN]);
            vlan::push(&mut frame, EtherType::VLAN, tci).map_err(|e| e.to_string())?;
        }
        Ok(frame)
    }

    fn protocol(&self, is_v6: bool) -> Protocol {
        match self.upper {
            Upper::Tcp(..) => Protocol::TCP,
            Upper::Udp(..) => Protocol::UDP,
            Upper::Echo if is_v6 => Protocol::ICMPV6,
            Upper::Echo => Protocol::ICMPV4,
        }
    }

    /// Header and payload of the upper layer, behind an IP header of so many bytes.
    fn upper(
        &self,
        ip_header: usize,
        pseudo: impl Fn(Protocol, usize) -> Sum,
    ) -> Result<Vec<u8>, String> {
        let headers = ethernet::HEADER_LEN + ip_header;
        let payload =
            |header: usize| self.length.map_or(0, |length| length.saturating_sub(headers + header));
        let problem = |e: plexus_wire::Error| e.to_string();
        match self.upper {
            Upper::Tcp(src_port, dst_port) => {
                let mut bytes = vec![0; tcp::HEADER_LEN + payload(tcp::HEADER_LEN)];
                let repr = tcp::Repr {
                    src_port,
                    dst_port,
                    seq: 1,
                    ack: 0,
                    flags: tcp::Flags::SYN,
                    window: u16::MAX,
                    urgent: 0,
                    options: Default::default(),
                };
                repr.emit(&mut bytes).map_err(problem)?;
                let sum = pseudo(Protocol::TCP, bytes.len());
                tcp::Segment::new_checked(&mut bytes[..]).map_err(problem)?.fill_checksum(sum);
                Ok(bytes)
            }
            Upper::Udp(src_port, dst_port) => {
                let payload_len = payload(udp::HEADER_LEN);
                let mut bytes = vec![0; udp::HEADER_LEN + payload_len];
                let repr = udp::Repr { src_port, dst_port, payload_len };
                repr.emit(&mut bytes).map_err(problem)?;
                let sum = pseudo(Protocol::UDP, bytes.len());
                udp::Datagram::new_checked(&mut bytes[..]).map_err(problem)?.fill_checksum(sum);
                Ok(bytes)
            }
            Upper::Echo => {
                let mut bytes = vec![0; icmpv4::HEADER_LEN + payload(icmpv4::HEADER_LEN)];
                if ip_header == ipv6::HEADER_LEN {
                    let echo = icmpv6::Repr::EchoRequest { identifier: 1, sequence: 1 };
                    echo.emit(&mut bytes).map_err(problem)?;
                    let sum = pseudo(Protocol::ICMPV6, bytes.len());
                    icmpv6::Packet::new_checked(&mut bytes[..])
                        .map_err(problem)?
                        .fill_checksum(sum);
                } else {
                    let echo = icmpv4::Repr::EchoRequest { identifier: 1, sequence: 1 };
                    echo.emit(&mut bytes).map_err(problem)?;
                    icmpv4::Packet::new_checked(&mut bytes[..]).map_err(problem)?.fill_checksum();
                }
                Ok(bytes)
            }
        }
    }
}

/// The first frame of a capture file.
///
/// # Errors
/// When there is none.
pub(super) fn first_of(path: &Path) -> Result<Vec<u8>, String> {
    let problem = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let file = File::open(path).map_err(|e| problem(&e))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(|e| problem(&e))?;
    let mut frame = Vec::new();
    match reader.next(&mut frame).map_err(|e| problem(&e))? {
        Some(_) => Ok(frame),
        None => Err(problem(&"it has no frame")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(from: &str, to: &str, upper: Upper) -> Described {
        let end = |text: &str, n| (MacAddr([2, 0, 0, 0, 0, n]), text.parse().ok());
        let (from, to) = (end(from, 1), end(to, 2));
        Described { from, to, upper, vlan: None, ttl: 9, length: None }
    }

    #[test]
    fn a_description_becomes_a_packet_with_right_checksums() {
        for upper in [Upper::Tcp(1, 80), Upper::Udp(1, 53), Upper::Echo] {
            for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
                for length in [None, Some(100), Some(900)] {
                    let described = Described { length, ..described(from, to, upper) };
                    let frame = described.frame().unwrap();
                    assert_eq!(frame.len(), length.unwrap_or(60).max(frame.len().min(74)));
                    let key = plexus_wire::FlowKey::from_frame(&frame).unwrap();
                    assert_eq!(
                        (key.src.to_string(), key.dst.to_string()),
                        (from.into(), to.into())
                    );
                    let text = plexus_wire::describe(&frame).to_string();
                    assert!(!text.contains("checksum"), "{text}");
                }
            }
        }
        let tagged = Described { vlan: Some(10), ..described("10.0.0.1", "10.0.0.2", Upper::Echo) };
        assert_eq!(tagged.frame().unwrap()[12..16], [0x81, 0, 0, 10]);
        assert_eq!(described("", "", Upper::Echo).frame().unwrap()[12..14], [0x88, 0xB6]);
        assert!(described("10.0.0.1", "fd00::1", Upper::Echo).frame().is_err());
    }
}
