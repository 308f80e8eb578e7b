//! DHCP messages in frames: parses those of clients, and builds the group's answers.

use std::net::{IpAddr, Ipv4Addr};

use plexus_config::Subnet;
use plexus_wire::checksum::Sum;
use plexus_wire::dhcpv4::{
    CLIENT_PORT, DhcpOption, MessageType, Packet, Repr, SERVER_PORT, option,
};
use plexus_wire::{MacAddr, Protocol, ipv4, udp};

/// Most name or time servers in an answer: more do not fit every client's buffer.
const SERVERS_MAX: usize = 8;

/// Parses a message to a server or relay in an IPv4 packet, if it is intact: returns the packet's
/// source and destination, the message's bytes, and its fields.
pub(super) fn read(bytes: &[u8]) -> Option<([Ipv4Addr; 2], &[u8], Repr)> {
    let ip = ipv4::Packet::new_checked(bytes).ok()?;
    let ends = [ip.src(), ip.dst()];
    if ip.protocol() != Protocol::UDP || ip.is_fragment() || !ip.checksum_ok() {
        return None;
    }
    let udp = udp::Datagram::new_checked(ip.payload()).ok()?;
    let pseudo = Sum::pseudo_v4(ip.src(), ip.dst(), Protocol::UDP, udp.datagram_len() as u16);
    if udp.dst_port() != SERVER_PORT || !udp.checksum_ok(pseudo) {
        return None;
    }
    let payload = udp.payload();
    let repr = Repr::parse(&Packet::new_checked(payload).ok()?).ok()?;
    Some((ends, payload, repr))
}

/// The answer to a message as a frame, from the subnet's gateway. Without an address it is a
/// refusal, or the answer to a client that already has one (RFC 2131, table 3).
pub(super) fn write(
    asked: &Repr,
    kind: MessageType,
    subnet: &Subnet,
    ip: Option<Ipv4Addr>,
    group_mac: MacAddr,
) -> Option<Vec<u8>> {
    let Some(IpAddr::V4(server)) = subnet.gateway else { return None };
    let refused = kind == MessageType::NAK;
    let mut options = vec![DhcpOption::addresses(option::SERVER_ID, &[server])];
    if ip.is_some() {
        let lease = subnet.lease_s;
        options.push(DhcpOption::seconds(option::LEASE_TIME, lease));
        // RFC 2131, 4.4.5: half of the lease, and seven eighths.
        options.push(DhcpOption::seconds(option::RENEWAL_TIME, lease / 2));
        options.push(DhcpOption::seconds(option::REBINDING_TIME, lease - lease / 8));
    }
    if refused {
        options.push(DhcpOption::new(option::MESSAGE, "this address is not yours here"));
    } else {
        settings(subnet, server, &mut options);
    }
    // RFC 6842: the client identifier is returned, if it fits into the message.
    if let Some(id) = asked.option(option::CLIENT_ID).filter(|id| id.len() <= 255) {
        options.push(DhcpOption::new(option::CLIENT_ID, id));
    }
    let unspecified = Ipv4Addr::UNSPECIFIED;
    let repr = Repr {
        is_request: false,
        hops: 0,
        xid: asked.xid,
        secs: 0,
        broadcast: asked.broadcast,
        ciaddr: if refused || kind == MessageType::OFFER { unspecified } else { asked.ciaddr },
        yiaddr: ip.unwrap_or(unspecified),
        siaddr: unspecified,
        giaddr: unspecified,
        chaddr: asked.chaddr,
        message_type: kind,
        options,
    };
    // RFC 2131, 4.1: to the address in use; by broadcast if the client asks for that or is refused;
    // otherwise to the address that it is about to get.
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(&mut message).ok()?;
    let (mac, to) = match (refused, asked.ciaddr, asked.broadcast) {
        (false, ciaddr, _) if !ciaddr.is_unspecified() => (asked.chaddr, ciaddr),
        (true, ..) | (_, _, true) => (MacAddr::BROADCAST, Ipv4Addr::BROADCAST),
        _ => (asked.chaddr, ip.unwrap_or(Ipv4Addr::BROADCAST)),
    };
    frame((group_mac, mac), (server, to), CLIENT_PORT, &message).ok()
}

/// The settings for hosts of a subnet.
fn settings(subnet: &Subnet, server: Ipv4Addr, options: &mut Vec<DhcpOption>) {
    let mask = u32::MAX.checked_shl(32 - u32::from(subnet.prefix.len().min(32))).unwrap_or(0);
    options.push(DhcpOption::addresses(option::SUBNET_MASK, &[mask.into()]));
    options.push(DhcpOption::addresses(option::ROUTER, &[server]));
    let dns: Vec<Ipv4Addr> = subnet
        .dns
        .iter()
        .filter_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None })
        .take(SERVERS_MAX)
        .collect();
    let ntp: Vec<Ipv4Addr> = subnet.ntp.iter().copied().take(SERVERS_MAX).collect();
    for (code, servers) in [(option::DNS, dns), (option::NTP, ntp)] {
        if !servers.is_empty() {
            options.push(DhcpOption::addresses(code, &servers));
        }
    }
    if let Some(domain) = &subnet.domain {
        options.push(DhcpOption::new(option::DOMAIN_NAME, domain.as_bytes()));
    }
    if let Some(mtu) = subnet.mtu {
        options.push(DhcpOption::new(option::MTU, mtu.to_be_bytes()));
    }
    if let IpAddr::V4(last) = subnet.prefix.last() {
        options.push(DhcpOption::addresses(option::BROADCAST_ADDRESS, &[last]));
    }
}

/// A message from a server or relay in a frame: source and destination on both layers.
pub(super) fn frame(
    stations: (MacAddr, MacAddr),
    (from, to): (Ipv4Addr, Ipv4Addr),
    dst_port: u16,
    message: &[u8],
) -> Result<Vec<u8>, plexus_wire::Error> {
    let ends = (from.into(), to.into());
    plexus_wire::frame::udp(stations, ends, (SERVER_PORT, dst_port), message)
}
