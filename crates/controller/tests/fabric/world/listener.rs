//! Hosts as listeners: they join groups by IGMPv3 and MLDv2, answer queries, and send to groups.

use std::net::{IpAddr, Ipv6Addr};

use plexus_wire::checksum::Sum;
use plexus_wire::{
    EtherType, MacAddr, Protocol, ethernet, frame, icmpv6, igmp, ipv4, ipv6, ipv6_ext, mld, udp,
};

use super::World;
use super::host::packet;

/// Destination port of numbered packets.
const NUMBERED: u16 = 9000;

impl World {
    pub(crate) fn join_group(&mut self, host: usize, group: IpAddr) {
        self.hosts[host].groups.insert(group);
        self.report(host, group, igmp::RecordKind::TO_EXCLUDE);
    }

    pub(crate) fn leave_group(&mut self, host: usize, group: IpAddr) {
        self.hosts[host].groups.remove(&group);
        self.report(host, group, igmp::RecordKind::TO_INCLUDE);
    }

    fn report(&mut self, host: usize, group: IpAddr, kind: igmp::RecordKind) {
        let (mac, own) = (self.hosts[host].mac, self.hosts[host].ip);
        let frame = match group {
            IpAddr::V4(group) => {
                let records = vec![igmp::Record { kind, group, sources: vec![] }];
                let report = igmp::Repr::ReportV3(records);
                let dst = [224, 0, 0, 22].into();
                let mut ip = ipv4::Repr::new(own, dst, Protocol::IGMP, report.buffer_len());
                (ip.ttl, ip.options) = (1, [148, 4, 0, 0].into_iter().collect());
                let mut frame = vec![0; 14 + 24 + report.buffer_len()];
                let dst = MacAddr::of_group(dst.into()).unwrap();
                let header = ethernet::Repr { dst, src: mac, ethertype: EtherType::IPV4 };
                header.emit(&mut frame).unwrap();
                ip.emit(&mut frame[14..]).unwrap();
                report.emit(&mut frame[38..]).unwrap();
                frame
            }
            IpAddr::V6(group) => {
                let records = vec![mld::Record { kind, group, sources: vec![] }];
                let report = mld::Repr::ReportV2(records);
                let len = report.buffer_len();
                let (src, dst) = (mac.link_local(), Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0x16));
                let mut ip = ipv6::Repr::new(src, dst, Protocol::HOP_BY_HOP, 8 + len);
                ip.hop_limit = 1;
                let mut frame = vec![0; 62 + len];
                let to = MacAddr::of_group(dst.into()).unwrap();
                let header = ethernet::Repr { dst: to, src: mac, ethertype: EtherType::IPV6 };
                header.emit(&mut frame).unwrap();
                ip.emit(&mut frame[14..]).unwrap();
                frame[54..62].copy_from_slice(&[58, 0, 5, 2, 0, 0, 1, 0]);
                report.emit(&mut frame[62..]).unwrap();
                let pseudo = Sum::pseudo_v6(src, dst, Protocol::ICMPV6, len as u32);
                icmpv6::Packet::new_checked(&mut frame[62..]).unwrap().fill_checksum(pseudo);
                frame
            }
        };
        self.emit(host, frame);
    }

    /// A numbered packet to a group.
    pub(crate) fn multicast(&mut self, from: usize, group: IpAddr, number: u32) {
        let (mac, own) = (self.hosts[from].mac, self.hosts[from].ip);
        let to = MacAddr::of_group(group).unwrap();
        let payload = number.to_be_bytes();
        let frame = match group {
            IpAddr::V4(group) => packet((mac, own), (to, group), (10_000, NUMBERED), &payload),
            IpAddr::V6(dst) => {
                let ends = (mac.link_local().into(), dst.into());
                frame::udp((mac, to), ends, (10_000, NUMBERED), &payload).unwrap()
            }
        };
        self.emit(from, frame);
    }

    /// A multicast frame was received: a query, or a numbered packet.
    pub(crate) fn group_frame(&mut self, h: usize, bytes: &[u8]) {
        let frame = ethernet::Frame::new_checked(bytes).unwrap();
        let (dst, protocol, payload): (IpAddr, Protocol, &[u8]) = match frame.ethertype() {
            EtherType::IPV4 => {
                let ip = ipv4::Packet::new_checked(frame.payload()).unwrap();
                assert!(ip.checksum_ok());
                (ip.dst().into(), ip.protocol(), ip.payload())
            }
            _ => {
                let ip = ipv6::Packet::new_checked(frame.payload()).unwrap();
                let upper = ipv6_ext::find_upper(ip.next_header(), ip.payload()).unwrap();
                (ip.dst().into(), upper.protocol, &ip.payload()[upper.offset..])
            }
        };
        let asked: IpAddr = match protocol {
            Protocol::IGMP => {
                let packet = igmp::Packet::new_checked(payload).unwrap();
                assert!(packet.checksum_ok());
                let Ok(igmp::Repr::Query { group, v3: Some(_), .. }) = igmp::Repr::parse(&packet)
                else {
                    panic!("host {h} got {payload:?}");
                };
                group.into()
            }
            Protocol::ICMPV6 if mld::is_mld(payload[0]) => {
                let packet = mld::Packet::new_checked(payload).unwrap();
                let Ok(mld::Repr::Query { group, v2: Some(_), .. }) = mld::Repr::parse(&packet)
                else {
                    panic!("host {h} got {payload:?}");
                };
                group.into()
            }
            Protocol::UDP => {
                assert_eq!(MacAddr::of_group(dst), Some(frame.dst()));
                let datagram = udp::Datagram::new_checked(payload).unwrap();
                let number = datagram.payload()[..4].try_into().unwrap();
                return self.hosts[h].received.push((frame.src(), u32::from_be_bytes(number)));
            }
            // Neighbour discovery.
            _ => return,
        };
        let host = &self.hosts[h];
        let own = host.groups.iter().copied();
        let of_it = own
            .filter(|g| g.is_ipv4() == asked.is_ipv4() && (asked.is_unspecified() || *g == asked));
        let answers: Vec<IpAddr> = of_it.filter(|_| host.answers_queries).collect();
        for group in answers {
            self.report(h, group, igmp::RecordKind::IS_EXCLUDE);
        }
    }
}
