//! IGMP and MLD queries to a port's hosts, sent in the group's name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_wire::checksum::Sum;
use plexus_wire::{EtherType, MacAddr, Protocol, ethernet, icmpv6, igmp, ipv4, ipv6, mld};

use super::super::stations::Group;

/// IGMPv3 query from the group's address, or none if it has none (RFC 3376, 4.1; RFC 4541, 2.1).
pub(super) fn igmp_query(from: &Group, which: Ipv4Addr, seconds: u8) -> Option<Vec<u8>> {
    let v3 = igmp::QueryV3 { robustness: 2, interval_code: 125, ..Default::default() };
    let query = igmp::Repr::Query { response_code: 10 * seconds, group: which, v3: Some(v3) };
    let own = from.gateways.iter().find_map(|g| match g.ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    });
    let all = Ipv4Addr::new(224, 0, 0, 1);
    let dst = if which.is_unspecified() { all } else { which };
    let src = own.unwrap_or(Ipv4Addr::UNSPECIFIED);
    let mut ip = ipv4::Repr::new(src, dst, Protocol::IGMP, query.buffer_len());
    ip.ttl = 1;
    // Router alert (RFC 2113).
    ip.options = [148, 4, 0, 0].into_iter().collect();
    let at = ethernet::HEADER_LEN + ip.buffer_len();
    let mut frame = vec![0; (at + query.buffer_len()).max(ethernet::MIN_FRAME_LEN)];
    let dst = MacAddr::of_group(dst.into())?;
    ethernet::Repr { dst, src: from.mac, ethertype: EtherType::IPV4 }.emit(&mut frame).ok()?;
    ip.emit(&mut frame[ethernet::HEADER_LEN..]).ok()?;
    query.emit(&mut frame[at..]).ok()?;
    Some(frame)
}

/// MLDv2 query from the group's link-local address (RFC 3810, 5.1).
pub(super) fn mld_query(from: &Group, which: Ipv6Addr, seconds: u8) -> Option<Vec<u8>> {
    // Router alert and padding (RFC 2711).
    const OPTIONS: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];
    let v2 = mld::QueryV2 { robustness: 2, interval_code: 125, ..Default::default() };
    let response_code = 1000 * u16::from(seconds);
    let query = mld::Repr::Query { response_code, group: which, v2: Some(v2) };
    let all = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
    let (src, dst) = (from.mac.link_local(), if which.is_unspecified() { all } else { which });
    let len = query.buffer_len();
    let mut ip = ipv6::Repr::new(src, dst, Protocol::HOP_BY_HOP, OPTIONS.len() + len);
    ip.hop_limit = 1;
    let at = ethernet::HEADER_LEN + ip.buffer_len();
    let mut frame = vec![0; at + OPTIONS.len() + len];
    let to = MacAddr::of_group(dst.into())?;
    ethernet::Repr { dst: to, src: from.mac, ethertype: EtherType::IPV6 }.emit(&mut frame).ok()?;
    ip.emit(&mut frame[ethernet::HEADER_LEN..]).ok()?;
    frame[at..at + OPTIONS.len()].copy_from_slice(&OPTIONS);
    let message = &mut frame[at + OPTIONS.len()..];
    query.emit(message).ok()?;
    let pseudo = Sum::pseudo_v6(src, dst, Protocol::ICMPV6, len as u32);
    icmpv6::Packet::new_checked(message).ok()?.fill_checksum(pseudo);
    Some(frame)
}
