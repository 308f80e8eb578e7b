//! Our decoders against etherparse's: the same packets accepted, the same fields read, the same
//! truncations refused, wherever the rules are the same. Where ours are stricter, the test says
//! how.

use etherparse::{
    ArpPacketSlice, Ethernet2HeaderSlice, IpNumber, Ipv4HeaderSlice, Ipv6ExtensionsSlice,
    Ipv6HeaderSlice, PacketBuilder, SingleVlanHeaderSlice, SlicedPacket, TcpSlice, UdpSlice,
    VlanId,
};
use plexus_wire::checksum::Sum;
use plexus_wire::{
    Error, EtherType, FlowKey, Protocol, arp, ethernet, ipv4, ipv6, ipv6_ext, tcp, udp, vlan,
};
use proptest::prelude::*;

/// A valid packet as etherparse builds it, with 0 to 2 tags, IPv4 or IPv6, UDP or TCP.
#[derive(Clone, Debug)]
struct Plan {
    tags: Vec<u16>,
    v6: bool,
    tcp: bool,
    addresses: [u8; 32],
    ports: (u16, u16),
    ttl: u8,
    payload: Vec<u8>,
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        prop::collection::vec(0u16..4096, 0..=2),
        any::<(bool, bool)>(),
        any::<[u8; 32]>(),
        any::<(u16, u16)>(),
        any::<u8>(),
        prop::collection::vec(any::<u8>(), 0..64),
    )
        .prop_map(|(tags, (v6, tcp), addresses, ports, ttl, payload)| Plan {
            tags,
            v6,
            tcp,
            addresses,
            ports,
            ttl,
            payload,
        })
}

impl Plan {
    fn v6(&self) -> ([u8; 16], [u8; 16]) {
        let (a, b) = self.addresses.split_at(16);
        (a.try_into().unwrap(), b.try_into().unwrap())
    }

    fn v4(&self) -> ([u8; 4], [u8; 4]) {
        (self.addresses[..4].try_into().unwrap(), self.addresses[4..8].try_into().unwrap())
    }

    fn build(&self) -> Vec<u8> {
        macro_rules! finish {
            ($step:expr) => {{
                let mut out = Vec::new();
                let (src, dst) = self.ports;
                if self.tcp {
                    let step = $step.tcp(src, dst, 7, 8).syn();
                    let mss = etherparse::TcpOptionElement::MaximumSegmentSize(1460);
                    step.options(&[mss]).unwrap().write(&mut out, &self.payload).unwrap();
                } else {
                    $step.udp(src, dst).write(&mut out, &self.payload).unwrap();
                }
                out
            }};
        }
        macro_rules! ip {
            ($step:expr) => {
                if self.v6 {
                    let (src, dst) = self.v6();
                    finish!($step.ipv6(src, dst, self.ttl))
                } else {
                    let (src, dst) = self.v4();
                    finish!($step.ipv4(src, dst, self.ttl))
                }
            };
        }
        let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let id = |n: usize| VlanId::try_new(self.tags[n]).unwrap();
        match self.tags.len() {
            0 => ip!(link),
            1 => ip!(link.single_vlan(id(0))),
            _ => ip!(link.double_vlan(id(0), id(1))),
        }
    }
}

/// Every layer down to the ports.
fn read(frame: &[u8]) -> Result<(), Error> {
    let frame = ethernet::Frame::new_checked(frame)?;
    let stack = vlan::stack(&frame)?;
    let payload = &frame.as_bytes()[stack.payload_offset..];
    let (protocol, upper) = match stack.ethertype {
        EtherType::IPV4 => {
            let p = ipv4::Packet::new_checked(payload)?;
            (p.protocol(), p.payload())
        }
        _ => {
            let p = ipv6::Packet::new_checked(payload)?;
            let upper = p.upper()?;
            (upper.protocol, &p.payload()[upper.offset..])
        }
    };
    match protocol {
        Protocol::UDP => udp::Datagram::new_checked(upper).map(drop),
        _ => tcp::Segment::new_checked(upper).map(drop),
    }
}

/// Bytes that start with `start` in one run of two, followed by noise.
fn noise(start: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..100);
    (any::<bool>(), bytes).prop_map(move |(like, mut bytes)| {
        if like {
            bytes.iter_mut().zip(start).for_each(|(b, s)| *b = *s);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn packets_that_etherparse_builds_are_read_alike(plan in plan()) {
        let bytes = plan.build();
        read(&bytes).unwrap();
        let key = FlowKey::from_frame(&bytes).unwrap();
        prop_assert_eq!(key.ports, Some(plan.ports));
        prop_assert_eq!(key.vlan, plan.tags.first().copied().filter(|&v| v != 0));
        let (src, dst) = if plan.v6 {
            (plan.v6().0.into(), plan.v6().1.into())
        } else {
            (plan.v4().0.into(), plan.v4().1.into())
        };
        prop_assert_eq!((key.src, key.dst), (src, dst));
    }

    #[test]
    fn the_checksums_of_etherparse_are_right(plan in plan()) {
        let plan = Plan { tags: vec![], ..plan };
        let bytes = plan.build();
        let (sum, upper) = if plan.v6 {
            let p = ipv6::Packet::new_checked(&bytes[14..]).unwrap();
            let len = p.payload_len() as u32;
            (Sum::pseudo_v6(p.src(), p.dst(), p.next_header(), len), p.payload())
        } else {
            let p = ipv4::Packet::new_checked(&bytes[14..]).unwrap();
            prop_assert!(p.checksum_ok());
            let len = p.payload().len() as u16;
            (Sum::pseudo_v4(p.src(), p.dst(), p.protocol(), len), p.payload())
        };
        if plan.tcp {
            prop_assert!(tcp::Segment::new_checked(upper).unwrap().checksum_ok(sum));
        } else {
            let d = udp::Datagram::new_checked(upper).unwrap();
            prop_assert!(d.checksum_ok(sum) && d.checksum() != 0);
        }
    }

    #[test]
    fn the_same_cuts_are_refused(plan in plan(), at in any::<prop::sample::Index>()) {
        let bytes = plan.build();
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(SlicedPacket::from_ethernet(cut).is_err());
        prop_assert!(read(cut).unwrap_err().is_truncated());
    }

    #[test]
    fn link_headers_are_read_alike(bytes in noise(&[])) {
        let ours = ethernet::Frame::new_checked(&bytes[..]);
        let theirs = Ethernet2HeaderSlice::from_slice(&bytes);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(o), Ok(t)) = (ours, theirs) {
            prop_assert_eq!(o.dst().0, t.destination());
            prop_assert_eq!(o.src().0, t.source());
            prop_assert_eq!(o.ethertype().0, t.ether_type().0);
        }
        let ours = vlan::Tag::new_checked(&bytes[..]);
        let theirs = SingleVlanHeaderSlice::from_slice(&bytes);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(o), Ok(t)) = (ours, theirs) {
            prop_assert_eq!(o.vid(), t.vlan_identifier().value());
            prop_assert_eq!(o.priority(), t.priority_code_point().value());
            prop_assert_eq!(o.drop_eligible(), t.drop_eligible_indicator());
            prop_assert_eq!(o.ethertype().0, t.ether_type().0);
        }
    }

    #[test]
    fn arp_is_read_alike(bytes in noise(&[0, 1, 8, 0, 6, 4, 0])) {
        // Theirs accepts any hardware and protocol; ours only IPv4 over Ethernet.
        let theirs = ArpPacketSlice::from_slice(&bytes)
            .ok()
            .filter(|t| t.slice()[..6] == [0, 1, 8, 0, 6, 4]);
        let ours = arp::Packet::new_checked(&bytes[..]);
        prop_assert_eq!(ours.is_ok(), theirs.is_some());
        if let (Ok(o), Some(t)) = (ours, theirs) {
            prop_assert_eq!(o.operation().0, t.operation().0);
            prop_assert_eq!(&o.sender_mac().0[..], t.sender_hw_addr());
            prop_assert_eq!(&o.sender_ip().octets()[..], t.sender_protocol_addr());
            prop_assert_eq!(&o.target_mac().0[..], t.target_hw_addr());
            prop_assert_eq!(&o.target_ip().octets()[..], t.target_protocol_addr());
        }
    }

    #[test]
    fn ipv4_headers_are_read_alike(bytes in noise(&[0x46, 0, 0])) {
        // Theirs checks the header; ours the total length too.
        let theirs = Ipv4HeaderSlice::from_slice(&bytes).ok().filter(|t| {
            (usize::from(t.ihl()) * 4..=bytes.len()).contains(&usize::from(t.total_len()))
        });
        let ours = ipv4::Packet::new_checked(&bytes[..]);
        prop_assert_eq!(ours.is_ok(), theirs.is_some());
        if let (Ok(o), Some(t)) = (ours, theirs) {
            prop_assert_eq!(o.dscp(), t.dcp().value());
            prop_assert_eq!(o.ecn(), t.ecn().value());
            prop_assert_eq!(o.identification(), t.identification());
            prop_assert_eq!(o.dont_fragment(), t.dont_fragment());
            prop_assert_eq!(o.more_fragments(), t.more_fragments());
            prop_assert_eq!(o.fragment_offset(), usize::from(t.fragments_offset().byte_offset()));
            prop_assert_eq!(o.is_fragment(), t.is_fragmenting_payload());
            prop_assert_eq!((o.ttl(), o.protocol().0), (t.ttl(), t.protocol().0));
            prop_assert_eq!((o.src(), o.dst()), (t.source_addr(), t.destination_addr()));
            prop_assert_eq!(o.options_bytes(), t.options());
            let right = t.to_header().calc_header_checksum() == t.header_checksum();
            // The reserved flag bit is lost in their header.
            if bytes[6] & 0x80 == 0 {
                prop_assert_eq!(o.checksum_ok(), right);
            }
        }
    }

    #[test]
    fn ipv6_headers_are_read_alike(bytes in noise(&[0x60, 0, 0, 0, 0, 8])) {
        // Theirs checks the header; ours the payload length too.
        let theirs = Ipv6HeaderSlice::from_slice(&bytes)
            .ok()
            .filter(|t| 40 + usize::from(t.payload_length()) <= bytes.len());
        let ours = ipv6::Packet::new_checked(&bytes[..]);
        prop_assert_eq!(ours.is_ok(), theirs.is_some());
        if let (Ok(o), Some(t)) = (ours, theirs) {
            prop_assert_eq!(o.traffic_class(), t.traffic_class());
            prop_assert_eq!(o.flow_label(), t.flow_label().value());
            prop_assert_eq!((o.next_header().0, o.hop_limit()), (t.next_header().0, t.hop_limit()));
            prop_assert_eq!((o.src(), o.dst()), (t.source_addr(), t.destination_addr()));
        }
    }

    #[test]
    fn extension_headers_are_walked_alike(
        first in next_header(), headers in prop::collection::vec(next_header(), 0..6),
        bytes in noise(&[]),
    ) {
        // A chain of 8- or 16-byte headers, then noise.
        let mut chain = Vec::new();
        for (i, next) in headers.iter().enumerate() {
            let mut header = vec![*next, (i % 2) as u8];
            header.resize(8 + 8 * (i % 2), (i % 3) as u8);
            chain.extend(header);
        }
        chain.extend(bytes);
        let ours = ipv6_ext::find_upper(Protocol(first), &chain);
        let theirs = Ipv6ExtensionsSlice::from_slice(IpNumber(first), &chain);
        match (ours, theirs) {
            (Ok(o), Ok((_, number, rest))) if o.has_header() => {
                prop_assert_eq!(o.protocol.0, number.0);
                prop_assert_eq!(o.offset, chain.len() - rest.len());
            }
            // Ours stops at a later fragment, whose bytes are not headers; theirs walks on.
            (Ok(o), _) => prop_assert!(!o.has_header()),
            (Err(e), Ok(_)) => {
                let too_many = plexus_wire::Reason::TooMany { limit: ipv6_ext::MAX_HEADERS };
                prop_assert_eq!(e.reason, too_many);
            }
            (Err(_), Err(_)) => {}
        }
    }

    #[test]
    fn tcp_is_read_alike(bytes in noise(&[0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0x70])) {
        let (ours, theirs) = (tcp::Segment::new_checked(&bytes[..]), TcpSlice::from_slice(&bytes));
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(o), Ok(t)) = (ours, theirs) {
            prop_assert_eq!((o.src_port(), o.dst_port()), (t.source_port(), t.destination_port()));
            prop_assert_eq!((o.seq(), o.ack()), (t.sequence_number(), t.acknowledgment_number()));
            prop_assert_eq!(o.flags().contains(tcp::Flags::SYN), t.syn());
            prop_assert_eq!(o.flags().contains(tcp::Flags::CWR), t.cwr());
            prop_assert_eq!((o.window(), o.checksum()), (t.window_size(), t.checksum()));
            prop_assert_eq!(o.urgent(), t.urgent_pointer());
            prop_assert_eq!(o.payload(), t.payload());
            // Theirs also refuses known options of unusual length; ours calls them `Other`.
            if t.options_iterator().all(|x| x.is_ok()) {
                prop_assert_eq!(o.options().count(), t.options_iterator().count());
            }
        }
    }

    #[test]
    fn udp_is_read_alike(bytes in noise(&[0, 1, 0, 2, 0])) {
        // Theirs interprets a length of 0 as the whole buffer (jumbograms); ours refuses it.
        let theirs = UdpSlice::from_slice(&bytes).ok().filter(|t| t.length() != 0);
        let ours = udp::Datagram::new_checked(&bytes[..]);
        prop_assert_eq!(ours.is_ok(), theirs.is_some());
        if let (Ok(o), Some(t)) = (ours, theirs) {
            prop_assert_eq!((o.src_port(), o.dst_port()), (t.source_port(), t.destination_port()));
            prop_assert_eq!((o.payload(), o.checksum()), (t.payload(), t.checksum()));
        }
    }
}

/// Extension header numbers mostly, and a few others.
fn next_header() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), Just(43), Just(44), Just(51), Just(60), Just(17), Just(59), any::<u8>()]
}
