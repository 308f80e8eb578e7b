//! A frame made of a description, such as the one that `plexus trace --explain` asks about.

use std::net::IpAddr;

use plexus_wire::{
    EtherType, MacAddr, Protocol, ethernet, frame, icmpv4, icmpv6, ipv4, ipv6, tcp, udp, vlan,
};

/// The upper layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upper {
    /// A TCP segment with SYN, from and to these ports.
    Tcp(u16, u16),
    /// A UDP datagram, from and to these ports.
    Udp(u16, u16),
    /// An ICMP echo request.
    Echo,
}

/// A packet from one end to another. Addresses that are zero are to be found.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// The sender.
    pub from: (MacAddr, Option<IpAddr>),
    /// The destination.
    pub to: (MacAddr, Option<IpAddr>),
    /// The upper layer.
    pub upper: Upper,
    /// The VLAN of its tag, if it has one.
    pub vlan: Option<u16>,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Bytes of the frame without its tag.
    pub length: Option<usize>,
}

impl Described {
    /// The frame.
    ///
    /// # Errors
    /// When the description contradicts itself.
    pub fn frame(&self) -> Result<Vec<u8>, String> {
        let stations = (self.from.0, self.to.0);
        let problem = |e: plexus_wire::Error| e.to_string();
        let mut frame = match (self.from.1, self.to.1) {
            (Some(from), Some(to)) if from.is_ipv4() == to.is_ipv4() => {
                let upper = self.upper(from.is_ipv6()).map_err(problem)?;
                let head = (self.protocol(from.is_ipv6()), self.ttl);
                frame::ip(stations, (from, to), head, &upper).map_err(problem)?
            }
            // Without IP addresses it is a frame of a protocol for experiments (RFC 5342).
            (None, _) | (_, None) => frame::ethernet(stations, EtherType(0x88B6), &[]),
            _ => return Err("the one end has an IPv4 address and the other one IPv6".into()),
        };
        let length = self.length.unwrap_or(ethernet::MIN_FRAME_LEN).max(ethernet::MIN_FRAME_LEN);
        if frame.len() < length {
            frame.resize(length, 0);
        }
        if let Some(tci) = self.vlan {
            frame.splice(..0, [0; vlan::TAG_LEN]);
            vlan::push(&mut frame, EtherType::VLAN, tci).map_err(problem)?;
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

    /// Header and payload of the upper layer, without its checksum.
    fn upper(&self, is_v6: bool) -> Result<Vec<u8>, plexus_wire::Error> {
        let ip_header = if is_v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
        let room = self.length.unwrap_or(0).saturating_sub(ethernet::HEADER_LEN + ip_header);
        let of = |header: usize| vec![0; room.max(header)];
        match self.upper {
            Upper::Tcp(src_port, dst_port) => {
                let mut bytes = of(tcp::HEADER_LEN);
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
                repr.emit(&mut bytes)?;
                Ok(bytes)
            }
            Upper::Udp(src_port, dst_port) => {
                let mut bytes = of(udp::HEADER_LEN);
                let payload_len = bytes.len() - udp::HEADER_LEN;
                udp::Repr { src_port, dst_port, payload_len }.emit(&mut bytes)?;
                Ok(bytes)
            }
            Upper::Echo => {
                let mut bytes = of(icmpv4::HEADER_LEN);
                let (identifier, sequence) = (1, 1);
                match is_v6 {
                    true => icmpv6::Repr::EchoRequest { identifier, sequence }.emit(&mut bytes)?,
                    false => icmpv4::Repr::EchoRequest { identifier, sequence }.emit(&mut bytes)?,
                }
                Ok(bytes)
            }
        }
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
