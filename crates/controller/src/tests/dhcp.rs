use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_config::{ControllerLimits, Reservation, Subnet};
use plexus_wire::checksum::Sum;
use plexus_wire::dhcpv4::{DhcpOption, MessageType, Packet, Repr, option};
use plexus_wire::fabric::message::{Body, HostFrame, HostGone};
use plexus_wire::ndp::{self, NdpOption};
use plexus_wire::{MacAddr, Prefix, Protocol, ethernet, icmpv6, ipv4, ipv6, udp};
use proptest::prelude::*;

use super::net::{HOST_PORT, Net, ip, mac};
use crate::{Config, Drop, Input};

pub(super) fn v4(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

fn config() -> Config {
    let mut subnet = Subnet::new(Prefix::new(ip(0), 24).unwrap());
    subnet.gateway = Some(ip(254));
    subnet.range = Some((v4(100), v4(103)));
    subnet.dns = vec![ip(253), "fd00::1".parse().unwrap()];
    subnet.ntp = vec![v4(252)];
    subnet.domain = Some("lab.example".into());
    subnet.mtu = Some(1400);
    let mut six = Subnet::new(Prefix::new("fd00::".parse().unwrap(), 64).unwrap());
    six.advertise = true;
    Config {
        subnets: vec![subnet, six],
        reservations: vec![Reservation { mac: mac(77), ip: v4(50) }],
        ..Config::default()
    }
}

/// Hosts have no addresses of their own: nodes 1 and 2, each with a host port.
pub(super) fn net(config: Config) -> Net {
    let mut net = Net::joined(config, 2, &[(0, 1)]);
    for id in [1, 2] {
        net.nodes.get_mut(&id).unwrap().host_ports.insert(HOST_PORT);
        net.hello(id);
    }
    net
}

pub(super) fn message(kind: MessageType, from: u8) -> Repr {
    let none = Ipv4Addr::UNSPECIFIED;
    Repr {
        is_request: true,
        hops: 0,
        xid: 0xABCD,
        secs: 0,
        broadcast: false,
        ciaddr: none,
        yiaddr: none,
        siaddr: none,
        giaddr: none,
        chaddr: mac(from),
        message_type: kind,
        options: vec![],
    }
}

pub(super) fn with(mut message: Repr, code: u8, address: Ipv4Addr) -> Repr {
    message.options.push(DhcpOption::addresses(code, &[address]));
    message
}

pub(super) fn frame(message: &Repr) -> Vec<u8> {
    let ends = (message.ciaddr, Ipv4Addr::BROADCAST);
    frame_of(message, (message.chaddr, MacAddr::BROADCAST), ends, 68)
}

/// A message to port 67: source and destination on either layer.
pub(super) fn frame_of(
    message: &Repr,
    stations: (MacAddr, MacAddr),
    (src, dst): (Ipv4Addr, Ipv4Addr),
    src_port: u16,
) -> Vec<u8> {
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload).unwrap();
    let ends = (src.into(), dst.into());
    plexus_wire::frame::udp(stations, ends, (src_port, 67), &payload).unwrap()
}

/// Messages in frames to hosts: node, Ethernet and IP destination, UDP ports, the message.
pub(super) type Sent = (u64, MacAddr, Ipv4Addr, (u16, u16), Repr);

pub(super) fn sent(net: &mut Net) -> Vec<Sent> {
    let group = net.controller.config.group_mac;
    let frames = net.taken(|b| match b {
        Body::HostSend(s) if s.frame[12..14] == [8, 0] => Some((s.port, s.frame.clone())),
        _ => None,
    });
    let read = |(node, (port, frame)): (u64, (u8, Vec<u8>))| {
        assert_eq!(port, HOST_PORT);
        let ethernet = ethernet::Frame::new_checked(&frame[..]).unwrap();
        assert_eq!(ethernet.src(), group);
        let ip = ipv4::Packet::new_checked(ethernet.payload()).unwrap();
        assert_eq!(ip.src(), v4(254));
        let udp = udp::Datagram::new_checked(ip.payload()).unwrap();
        let pseudo = Sum::pseudo_v4(ip.src(), ip.dst(), Protocol::UDP, udp.datagram_len() as u16);
        assert!(ip.checksum_ok() && udp.checksum_ok(pseudo) && udp.checksum() != 0);
        let repr = Repr::parse(&Packet::new_checked(udp.payload()).unwrap()).unwrap();
        (node, ethernet.dst(), ip.dst(), (udp.src_port(), udp.dst_port()), repr)
    };
    frames.into_iter().map(read).collect()
}

/// Answers to [`message`]s: node, Ethernet and IP destination, and the message.
fn answers(net: &mut Net) -> Vec<(u64, MacAddr, Ipv4Addr, Repr)> {
    let read = |(node, to, to_ip, ports, repr): Sent| {
        assert_eq!((ports, repr.xid, repr.is_request), ((67, 68), 0xABCD, false));
        (node, to, to_ip, repr)
    };
    sent(net).into_iter().map(read).collect()
}

fn send(net: &mut Net, node: u64, message: &Repr) -> Vec<(MessageType, Ipv4Addr)> {
    net.say(node, HostFrame { port: HOST_PORT, frame: frame(message) });
    answers(net).into_iter().map(|(.., m)| (m.message_type, m.yiaddr)).collect()
}

/// The whole exchange; returns the leased address.
fn lease(net: &mut Net, node: u64, host: u8) -> Option<Ipv4Addr> {
    let offer = send(net, node, &message(MessageType::DISCOVER, host)).pop()?;
    assert_eq!(offer.0, MessageType::OFFER);
    let request = with(message(MessageType::REQUEST, host), option::SERVER_ID, v4(254));
    let request = with(request, option::REQUESTED_ADDRESS, offer.1);
    let ack = send(net, node, &request).pop()?;
    assert_eq!(ack, (MessageType::ACK, offer.1));
    Some(offer.1)
}

fn drops(net: &Net) -> Vec<(Drop, u64)> {
    net.controller.drops().collect()
}

#[test]
fn a_host_gets_an_address_and_all_it_needs_to_know() {
    let mut net = net(config());
    net.say(1, HostFrame { port: HOST_PORT, frame: frame(&message(MessageType::DISCOVER, 1)) });
    let [(node, to, to_ip, offer)] = &answers(&mut net)[..] else { panic!() };
    assert_eq!((*node, *to, *to_ip), (1, mac(1), v4(100)));
    let option = |code| offer.option(code).map(<[u8]>::to_vec);
    assert_eq!(option(option::SUBNET_MASK), Some(vec![255, 255, 255, 0]));
    assert_eq!(option(option::ROUTER), Some(vec![10, 0, 0, 254]));
    assert_eq!(option(option::DNS), Some(vec![10, 0, 0, 253]));
    assert_eq!(option(option::NTP), Some(vec![10, 0, 0, 252]));
    assert_eq!(option(option::DOMAIN_NAME), Some(b"lab.example".to_vec()));
    assert_eq!(option(option::MTU), Some(vec![5, 120]));
    assert_eq!(option(option::BROADCAST_ADDRESS), Some(vec![10, 0, 0, 255]));
    assert_eq!(option(option::LEASE_TIME), Some(3600_u32.to_be_bytes().to_vec()));
    assert_eq!(option(option::RENEWAL_TIME), Some(1800_u32.to_be_bytes().to_vec()));
    assert_eq!(option(option::REBINDING_TIME), Some(3150_u32.to_be_bytes().to_vec()));
    assert_eq!(offer.address(option::SERVER_ID), Some(v4(254)));
    assert_eq!(lease(&mut net, 1, 1), Some(v4(100)));
    // The host's address is now known: another host finds it.
    assert_eq!(lease(&mut net, 2, 2), Some(v4(101)));
    for n in [1, 2] {
        let leased = IpAddr::from(v4(99 + n));
        let at = (n.into(), HOST_PORT);
        let host = super::net::Host { mac: mac(n), ips: vec![leased], at, answers: true };
        net.hosts.push(host);
    }
    net.ask_for(1, v4(101).into());
    assert!(net.delivers(1, 2) && net.delivers(2, 1));
}

#[test]
fn nothing_is_confirmed_before_it_is_stored() {
    let mut net = net(config());
    net.holds_tickets = true;
    let offer = send(&mut net, 1, &message(MessageType::DISCOVER, 1));
    assert_eq!(offer, [(MessageType::OFFER, v4(100))]);
    let request = with(message(MessageType::REQUEST, 1), option::SERVER_ID, v4(254));
    let mut request = with(request, option::REQUESTED_ADDRESS, v4(100));
    assert_eq!(send(&mut net, 1, &request), []);
    // The host asks again, this time for a broadcast; it is stored once.
    request.broadcast = true;
    assert_eq!(send(&mut net, 1, &request), []);
    assert_eq!(net.tickets.len(), 1);
    assert_eq!(net.controller.hosts().find(|h| h.mac == mac(1)).unwrap().ips, [] as [IpAddr; 0]);
    net.wait_ms(100);
    let ticket = net.tickets[0];
    net.input(Input::Stored { ticket });
    let [(_, to, to_ip, ack)] = &answers(&mut net)[..] else { panic!() };
    assert_eq!((*to, *to_ip), (MacAddr::BROADCAST, Ipv4Addr::BROADCAST));
    assert_eq!((ack.message_type, ack.yiaddr), (MessageType::ACK, v4(100)));
    // If the store does not answer, it is asked again when the host asks again.
    for seconds in [0, 1, 3] {
        net.wait_s(seconds);
        send(&mut net, 1, &request);
    }
    assert_eq!(net.tickets.len(), 3);
}

#[test]
fn renewing_rebooting_and_being_wrong() {
    let mut net = net(config());
    assert_eq!(lease(&mut net, 1, 1), Some(v4(100)));
    let (ack, nak) = (MessageType::ACK, MessageType::NAK);
    let none = Ipv4Addr::UNSPECIFIED;
    // Renewing: unicast to the address in use.
    let mut renew = message(MessageType::REQUEST, 1);
    renew.ciaddr = v4(100);
    assert_eq!(send(&mut net, 1, &renew), [(ack, v4(100))]);
    let reboot =
        |host, last| with(message(MessageType::REQUEST, host), option::REQUESTED_ADDRESS, v4(last));
    assert_eq!(send(&mut net, 1, &reboot(1, 100)), [(ack, v4(100))]);
    assert_eq!(send(&mut net, 1, &reboot(1, 101)), [(nak, none)]);
    // From another network: refused, even for an unknown host.
    let far = Ipv4Addr::new(192, 168, 7, 7);
    let lost = with(message(MessageType::REQUEST, 9), option::REQUESTED_ADDRESS, far);
    assert_eq!(send(&mut net, 1, &lost), [(nak, none)]);
    // A host without a record gets no answer, and another host's lease is not given out.
    assert_eq!(send(&mut net, 1, &reboot(8, 101)), []);
    assert_eq!(send(&mut net, 2, &reboot(7, 100)), []);
    // Another server was chosen: the offer ends.
    send(&mut net, 2, &message(MessageType::DISCOVER, 6));
    let other = with(message(MessageType::REQUEST, 6), option::SERVER_ID, v4(1));
    let other = with(other, option::REQUESTED_ADDRESS, v4(33));
    assert_eq!(send(&mut net, 2, &other), []);
    assert_eq!(drops(&net), [(Drop::NotLeased, 3)]);
    // Settings only, for an address of its own.
    let mut inform = message(MessageType::INFORM, 5);
    inform.ciaddr = v4(20);
    net.say(2, HostFrame { port: HOST_PORT, frame: frame(&inform) });
    let [(_, to, to_ip, told)] = &answers(&mut net)[..] else { panic!() };
    assert_eq!((*to, *to_ip, told.yiaddr), (mac(5), v4(20), none));
    assert!(told.option(option::LEASE_TIME).is_none() && told.option(option::DNS).is_some());
}

#[test]
fn a_pool_ends_and_addresses_come_back() {
    let mut net = net(config());
    for host in 1..=4 {
        assert_eq!(lease(&mut net, 1, host), Some(v4(99 + host)));
    }
    assert_eq!(lease(&mut net, 2, 5), None);
    let mut release = message(MessageType::RELEASE, 2);
    release.ciaddr = v4(101);
    // Another host cannot release it.
    let mut forged = message(MessageType::RELEASE, 5);
    forged.ciaddr = v4(101);
    send(&mut net, 2, &forged);
    assert_eq!(lease(&mut net, 2, 5), None);
    send(&mut net, 1, &release);
    assert_eq!(lease(&mut net, 2, 5), Some(v4(101)));
    assert_eq!(net.stored.len(), 4);
    // All leases expire; a host that returns gets its old address.
    for _ in 0..3700 / 100 {
        net.wait_ms(100_000);
    }
    net.keep_alive();
    net.hello(1);
    net.hello(2);
    assert_eq!(lease(&mut net, 2, 5), Some(v4(101)));
    assert_eq!(lease(&mut net, 1, 3), Some(v4(102)));
}

#[test]
fn an_address_that_is_in_use_is_not_leased() {
    let mut net = net(config());
    // A host that took an address of the pool by itself.
    net.seen(9, (2, HOST_PORT), Some(ip(100)));
    assert_eq!(lease(&mut net, 1, 1), Some(v4(101)));
    // It was in use after all.
    let decline = with(message(MessageType::DECLINE, 1), option::REQUESTED_ADDRESS, v4(101));
    send(&mut net, 1, &decline);
    assert!(net.stored.is_empty());
    assert_eq!(lease(&mut net, 1, 1), Some(v4(102)));
    assert_eq!(lease(&mut net, 2, 2), Some(v4(103)));
    assert_eq!(lease(&mut net, 2, 3), None);
    // A leased address cannot be taken by another host, answering or not.
    net.seen(9, (2, HOST_PORT), Some(ip(102)));
    net.seen(9, (2, HOST_PORT), Some(ip(50)));
    assert_eq!(net.refusals().len(), 2);
}

#[test]
fn one_port_cannot_empty_the_pool() {
    let limits = ControllerLimits { leases_per_port: 2, dhcp_per_s: 10, ..Default::default() };
    let mut net = net(Config { limits, ..config() });
    for host in 10..30 {
        send(&mut net, 1, &message(MessageType::DISCOVER, host));
    }
    // Declining does not help either.
    for host in 10..12 {
        for last in 100..104 {
            let message = message(MessageType::DECLINE, host);
            send(&mut net, 1, &with(message, option::REQUESTED_ADDRESS, v4(last)));
        }
        send(&mut net, 1, &message(MessageType::DISCOVER, host));
    }
    assert!(lease(&mut net, 2, 1).is_some() && lease(&mut net, 2, 2).is_some());
    let rate = drops(&net).into_iter().find(|(drop, _)| *drop == Drop::RateExceeded);
    assert!(rate.is_some_and(|(_, count)| count >= 9), "{:?}", drops(&net));
}

#[test]
fn static_addresses_in_the_pool_count_against_the_port() {
    let limits = ControllerLimits { leases_per_port: 2, ..Default::default() };
    let mut net = net(Config { limits, ..config() });
    assert_eq!(lease(&mut net, 1, 1), Some(v4(100)));
    net.seen(9, (1, HOST_PORT), Some(ip(103)));
    net.seen(9, (1, HOST_PORT), Some(ip(50)));
    assert_eq!(net.refusals().len(), 1, "the reserved one");
    // The share is used up: one lease, and one address without.
    assert_eq!(lease(&mut net, 1, 2), None);
    net.seen(10, (1, HOST_PORT), Some(ip(102)));
    assert_eq!(net.refusals().len(), 1);
    // A lease is renewed, what is outside the pool is free, and other ports have their own share.
    assert_eq!(lease(&mut net, 1, 1), Some(v4(100)));
    net.seen(11, (1, HOST_PORT), Some(ip(60)));
    assert_eq!(net.refusals(), []);
    assert_eq!(lease(&mut net, 2, 3), Some(v4(101)));
    // The host asks for a lease in place of its own address, as after a lease that has ended.
    let offers = send(&mut net, 1, &message(MessageType::DISCOVER, 9));
    assert_eq!(offers, [(MessageType::OFFER, v4(102))]);
    // The host has gone, and its addresses are free again.
    net.say(1, HostGone { port: HOST_PORT, mac: mac(9) });
    net.wait_s(31);
    assert_eq!(lease(&mut net, 1, 2), Some(v4(103)));
}

#[test]
fn a_reservation_holds_wherever_its_host_is() {
    let mut net = net(config());
    assert_eq!(lease(&mut net, 1, 77), Some(v4(50)));
    net.say(1, HostGone { port: HOST_PORT, mac: mac(77) });
    assert_eq!(lease(&mut net, 2, 77), Some(v4(50)));
    // A lease from before the reservation is not renewed.
    assert_eq!(lease(&mut net, 2, 3), Some(v4(100)));
    let mut changed = config();
    changed.reservations.push(Reservation { mac: mac(3), ip: v4(51) });
    net.input(Input::Configure(Box::new(changed)));
    let mut renew = message(MessageType::REQUEST, 3);
    renew.ciaddr = v4(100);
    let refused = [(MessageType::NAK, Ipv4Addr::UNSPECIFIED)];
    assert_eq!(send(&mut net, 2, &renew), refused);
    assert_eq!(lease(&mut net, 2, 3), Some(v4(51)));
}

#[test]
fn foreign_and_relayed_messages_are_dropped() {
    let mut net = net(config());
    let mut foreign = frame(&message(MessageType::DISCOVER, 1));
    foreign[11] = 2;
    net.say(1, HostFrame { port: HOST_PORT, frame: foreign });
    let mut relayed = message(MessageType::DISCOVER, 1);
    relayed.giaddr = v4(9);
    send(&mut net, 1, &relayed);
    let mut reply = message(MessageType::DISCOVER, 1);
    reply.is_request = false;
    send(&mut net, 1, &reply);
    assert_eq!(drops(&net), [(Drop::ForeignDhcp, 3)]);
}

fn solicitation(from: u8, source: Ipv6Addr) -> Vec<u8> {
    let to = "ff02::2".parse().unwrap();
    let repr = ndp::Repr { message: ndp::Message::RouterSolicitation, options: vec![] };
    let dst = MacAddr([0x33, 0x33, 0, 0, 0, 2]);
    plexus_wire::frame::ndp((mac(from), dst), (source, to), &repr).unwrap()
}

#[test]
fn a_solicitation_is_answered_and_the_answer_repeated() {
    let mut config = config();
    config.subnets[1].mtu = Some(1400);
    let mut other = Subnet::new("fd01::/64".parse().unwrap());
    (other.advertise, other.mtu) = (true, Some(1300));
    config.subnets.push(other);
    let mut net = net(config);
    let own: Ipv6Addr = "fe80::1".parse().unwrap();
    net.say(1, HostFrame { port: HOST_PORT, frame: solicitation(1, own) });
    let advertised = |net: &mut Net| {
        let frames = net.taken(|b| match b {
            Body::HostSend(s) if s.frame[12..14] == [0x86, 0xDD] => Some(s.frame.clone()),
            _ => None,
        });
        frames.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>()
    };
    let frames = advertised(&mut net);
    let [frame] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(frame[..6], mac(1).0);
    let packet = ipv6::Packet::new_checked(&frame[14..]).unwrap();
    assert_eq!((packet.hop_limit(), packet.src().octets()[0]), (255, 0xFE));
    let message = packet.payload();
    let pseudo = Sum::pseudo_v6(packet.src(), packet.dst(), Protocol::ICMPV6, message.len() as u32);
    assert!(icmpv6::Packet::new_checked(message).unwrap().checksum_ok(pseudo));
    let repr = ndp::Repr::parse(&ndp::Packet::new_checked(message).unwrap()).unwrap();
    let prefix = repr.options.iter().find_map(|o| match o {
        NdpOption::Prefix(prefix) => Some((prefix.prefix, prefix.prefix_len, prefix.autonomous)),
        _ => None,
    });
    assert_eq!(prefix, Some(("fd00::".parse().unwrap(), 64, true)));
    // Hosts have addresses in both networks.
    assert!(repr.options.contains(&NdpOption::Mtu(1300)), "{repr:?}");
    // No gateway: the group is no router.
    let ndp::Message::RouterAdvertisement { router_lifetime_s, .. } = repr.message else {
        panic!()
    };
    assert_eq!(router_lifetime_s, 0);
    for _ in 0..6 {
        net.wait_ms(100_000);
    }
    assert_eq!(advertised(&mut net).len(), 1);
    // Forged and malformed ones are not answered.
    for (at, value) in [(21, 64), (54, 134), (57, 1), (20, 17)] {
        let mut bad = solicitation(1, own);
        bad[at] = value;
        net.say(1, HostFrame { port: HOST_PORT, frame: bad });
        net.wait_ms(1000);
    }
    assert_eq!(advertised(&mut net).len(), 0);
    net.say(1, HostGone { port: HOST_PORT, mac: mac(1) });
    for _ in 0..12 {
        net.wait_ms(100_000);
    }
    assert_eq!(advertised(&mut net).len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Whatever hosts send, no address is confirmed to two of them, and nothing panics.
    #[test]
    fn no_two_hosts_hold_an_address(
        steps in proptest::collection::vec(
            (1..6_u8, 0..6_u8, 98..106_u8, any::<bool>(), 0..4_u64,
             proptest::option::of((any::<prop::sample::Index>(), any::<u8>()))), 1..60))
    {
        let mut net = net(config());
        let mut held: std::collections::BTreeMap<Ipv4Addr, (MacAddr, u64)> = Default::default();
        let mut second = 0_u64;
        for (host, kind, last, here, wait, damage) in steps {
            let kinds = [MessageType::DISCOVER, MessageType::REQUEST, MessageType::REQUEST,
                MessageType::REQUEST, MessageType::DECLINE, MessageType::RELEASE];
            let mut m = message(kinds[usize::from(kind)], host);
            match kind {
                1 => {
                    m = with(m, option::SERVER_ID, v4(254));
                    m = with(m, option::REQUESTED_ADDRESS, v4(last));
                }
                2 | 4 => m = with(m, option::REQUESTED_ADDRESS, v4(last)),
                3 | 5 => m.ciaddr = v4(last),
                _ => {}
            }
            let mut bytes = frame(&m);
            if let Some((at, value)) = damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            } else if kind == 5 || kind == 4 {
                held.retain(|ip, (owner, _)| !(*ip == v4(last) && *owner == mac(host)));
            }
            net.say(if here { 1 } else { 2 }, HostFrame { port: HOST_PORT, frame: bytes });
            for (.., m) in answers(&mut net) {
                if m.message_type != MessageType::ACK || m.yiaddr.is_unspecified() { continue }
                held.retain(|_, (owner, _)| *owner != m.chaddr);
                let before = held.insert(m.yiaddr, (m.chaddr, second + 3600));
                let ended = |(owner, until)| owner == m.chaddr || until <= second;
                prop_assert!(before.is_none_or(ended),
                    "{} to {} and {:?}", m.yiaddr, m.chaddr, before);
            }
            for _ in 0..wait { net.wait_ms(500_000); }
            second += wait * 500;
        }
    }
}
