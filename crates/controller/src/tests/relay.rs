//! DHCP by a server that is a host: node 1 has the clients, node 2 the server.

use std::net::Ipv4Addr;

use plexus_wire::Prefix;
use plexus_wire::dhcpv4::{DhcpOption, MessageType, Repr, option};
use plexus_wire::fabric::message::HostFrame;

use super::dhcp::{Sent, frame, frame_of, message, net as net_of, sent, v4, with};
use super::net::{HOST_PORT, Net, ip, mac};
use crate::{Config, Drop, Input};
use plexus_config::{Reservation, Subnet};

/// The server's number, its address's last byte, and its identifier.
const SERVER: u8 = 53;
const CALLED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);

fn config() -> Config {
    let mut subnet = Subnet::new(Prefix::new(ip(0), 24).unwrap());
    subnet.gateway = Some(ip(254));
    subnet.relay = Some(v4(SERVER));
    let server = Reservation { mac: mac(SERVER), ip: v4(SERVER) };
    Config { subnets: vec![subnet], reservations: vec![server], ..Config::default() }
}

fn net() -> Net {
    let mut net = net_of(config());
    net.seen(SERVER, (2, HOST_PORT), Some(ip(SERVER)));
    net.taken(|_| Some(()));
    net
}

fn ask(net: &mut Net, asked: &Repr) -> Vec<Sent> {
    net.say(1, HostFrame { port: HOST_PORT, frame: frame(asked) });
    sent(net)
}

/// The server's answer to a relayed message.
fn answer(relayed: &Repr, kind: MessageType, ip: Ipv4Addr) -> Repr {
    let mut answer = Repr { is_request: false, yiaddr: ip, message_type: kind, ..relayed.clone() };
    answer.options.retain(|o| o.code == option::RELAY_AGENT);
    answer.options.push(DhcpOption::seconds(option::LEASE_TIME, 600));
    with(answer, option::SERVER_ID, CALLED)
}

fn say_server(net: &mut Net, answer: &Repr) -> Vec<Sent> {
    say_from(net, (2, SERVER), answer)
}

fn say_from(net: &mut Net, (node, from): (u64, u8), answer: &Repr) -> Vec<Sent> {
    let group = net.controller.config.group_mac;
    let frame = frame_of(answer, (mac(from), group), (v4(SERVER), v4(254)), 67);
    net.say(node, HostFrame { port: HOST_PORT, frame });
    sent(net)
}

fn drops(net: &Net) -> Vec<(Drop, u64)> {
    net.controller.drops().collect()
}

/// The client's DISCOVER as the server receives it.
fn discovered(net: &mut Net, client: u8) -> Repr {
    let [(node, to, to_ip, ports, relayed)] =
        <[Sent; 1]>::try_from(ask(net, &message(MessageType::DISCOVER, client))).unwrap();
    assert_eq!((node, to, to_ip, ports), (2, mac(SERVER), v4(SERVER), (67, 67)));
    relayed
}

/// The client's REQUEST for the offered address, as the server receives it.
fn requested(net: &mut Net, client: u8, ip: Ipv4Addr) -> Repr {
    let request = with(message(MessageType::REQUEST, client), option::SERVER_ID, v4(254));
    ask(net, &with(request, option::REQUESTED_ADDRESS, ip)).pop().unwrap().4
}

#[test]
fn a_server_leases_through_the_group_and_is_not_seen() {
    let mut net = net();
    let relayed = discovered(&mut net, 1);
    assert_eq!((relayed.giaddr, relayed.hops, relayed.chaddr), (v4(254), 1, mac(1)));
    let circuit = [&[1, 6][..], format!("s1:{HOST_PORT}").as_bytes()].concat();
    assert_eq!(relayed.option(option::RELAY_AGENT), Some(&circuit[..]));

    let offered = say_server(&mut net, &answer(&relayed, MessageType::OFFER, v4(7)));
    let [(1, to, to_ip, (67, 68), offer)] = &offered[..] else { panic!("{offered:?}") };
    assert_eq!((*to, *to_ip, offer.yiaddr), (mac(1), v4(7), v4(7)));
    assert_eq!(offer.address(option::SERVER_ID), Some(v4(254)));
    assert_eq!(offer.option(option::RELAY_AGENT), None);

    // The server gets its own identifier back; the lease is stored here before the client is told.
    let relayed = requested(&mut net, 1, v4(7));
    assert_eq!(relayed.address(option::SERVER_ID), Some(CALLED));
    net.holds_tickets = true;
    assert!(say_server(&mut net, &answer(&relayed, MessageType::ACK, v4(7))).is_empty());
    for ticket in std::mem::take(&mut net.tickets) {
        net.input(Input::Stored { ticket });
    }
    net.holds_tickets = false;
    let acked = sent(&mut net);
    let [(1, .., ack)] = &acked[..] else { panic!("{acked:?}") };
    assert_eq!((ack.message_type, ack.yiaddr), (MessageType::ACK, v4(7)));
    assert_eq!(net.controller.hosts().find(|h| h.mac == mac(1)).unwrap().ips, [ip(7)]);

    // A renewal, which the client sends to the gateway, takes the same path.
    let renewal = Repr { ciaddr: v4(7), ..message(MessageType::REQUEST, 1) };
    let relayed = ask(&mut net, &renewal).pop().unwrap().4;
    assert_eq!((relayed.ciaddr, relayed.giaddr), (v4(7), v4(254)));
    let acked = say_server(&mut net, &answer(&relayed, MessageType::ACK, v4(7)));
    assert_eq!((acked.len(), acked[0].2), (1, v4(7)));

    // A released address is free, and the server is told.
    let back = Repr { ciaddr: v4(7), ..message(MessageType::RELEASE, 1) };
    assert_eq!(ask(&mut net, &back).pop().unwrap().4.message_type, MessageType::RELEASE);
    assert!(net.controller.hosts().find(|h| h.mac == mac(1)).unwrap().ips.is_empty());
}

#[test]
fn only_the_server_answers_and_only_what_was_asked() {
    let mut net = net();
    let relayed = discovered(&mut net, 1);
    let good = answer(&relayed, MessageType::OFFER, v4(7));
    // A host that poses as the server; an answer to another exchange, to no client, or around the
    // relay.
    assert!(say_from(&mut net, (1, 9), &good).is_empty());
    assert!(say_server(&mut net, &Repr { xid: 1, ..good.clone() }).is_empty());
    assert!(say_server(&mut net, &Repr { chaddr: mac(8), ..good.clone() }).is_empty());
    assert!(say_server(&mut net, &Repr { giaddr: v4(1), ..good.clone() }).is_empty());
    assert_eq!(drops(&net), [(Drop::ForeignDhcp, 4)]);
    // Foreign addresses: the gateway's, another host's, another network's.
    net.seen(3, (1, HOST_PORT), Some(ip(3)));
    net.taken(|_| Some(()));
    for taken in [v4(254), v4(3), Ipv4Addr::new(10, 9, 9, 9)] {
        let offer = answer(&relayed, MessageType::OFFER, taken);
        assert!(say_server(&mut net, &offer).is_empty(), "{taken}");
    }
    assert_eq!(say_server(&mut net, &good).len(), 1);
    // Too late.
    net.wait_s(11);
    net.taken(|_| Some(()));
    assert!(say_server(&mut net, &good).is_empty());
}

/// The whole exchange.
fn leased(net: &mut Net, client: u8, ip: Ipv4Addr) -> bool {
    let relayed = discovered(net, client);
    say_server(net, &answer(&relayed, MessageType::OFFER, ip));
    let relayed = requested(net, client, ip);
    say_server(net, &answer(&relayed, MessageType::ACK, ip)).len() == 1
}

fn addresses(net: &Net, host: u8) -> Vec<std::net::IpAddr> {
    net.controller.hosts().find(|h| h.mac == mac(host)).map_or(vec![], |h| h.ips)
}

#[test]
fn claiming_the_servers_address_does_not_make_a_server() {
    let mut net = net_of(config());
    // The server is absent; another host claims its address, and answers a search.
    net.seen(9, (1, HOST_PORT), Some(ip(SERVER)));
    net.hosts.push(super::net::Host {
        mac: mac(9),
        ips: vec![ip(SERVER)],
        at: (1, HOST_PORT),
        answers: true,
    });
    net.taken(|_| Some(()));
    assert!(ask(&mut net, &message(MessageType::DISCOVER, 1)).is_empty());
    net.wait_ms(400);
    assert!(sent(&mut net).is_empty() && addresses(&net, 9).is_empty());
}

#[test]
fn a_client_is_its_ethernet_address_at_the_server_too() {
    let mut net = net();
    let mut named = message(MessageType::DISCOVER, 1);
    named.options.push(DhcpOption::new(option::CLIENT_ID, [1, 2, 0, 0, 0, 0, 2]));
    let relayed = ask(&mut net, &named).pop().unwrap().4;
    assert_eq!(relayed.option(option::CLIENT_ID), None);
    assert!(leased(&mut net, 1, v4(7)) && leased(&mut net, 2, v4(8)));
    // Another host's lease can neither be released nor declined.
    let back = Repr { ciaddr: v4(8), ..message(MessageType::RELEASE, 1) };
    assert!(ask(&mut net, &back).is_empty());
    let spoil = with(message(MessageType::DECLINE, 1), option::REQUESTED_ADDRESS, v4(8));
    assert!(ask(&mut net, &spoil).is_empty());
    assert_eq!(drops(&net), [(Drop::NotLeased, 2)]);
    assert_eq!(addresses(&net, 2), [ip(8)]);
}

#[test]
fn relayed_leases_end_move_and_are_bounded() {
    let mut limited = config();
    limited.limits.leases_per_port = 2;
    let mut net = net_of(limited);
    net.seen(SERVER, (2, HOST_PORT), Some(ip(SERVER)));
    net.taken(|_| Some(()));
    assert!(leased(&mut net, 1, v4(7)));
    // The server gives another address: the first is free.
    assert!(leased(&mut net, 1, v4(9)));
    assert_eq!(addresses(&net, 1), [ip(9)]);
    assert_eq!(net.stored.len(), 1);
    assert!(leased(&mut net, 2, v4(7)));
    // The port's share is used up; a host with a lease may still renew it.
    assert!(ask(&mut net, &message(MessageType::DISCOVER, 3)).is_empty());
    assert_eq!(ask(&mut net, &message(MessageType::DISCOVER, 1)).len(), 1);
    // Ten minutes and the grace without a renewal.
    for _ in 0..607 {
        net.wait_s(1);
    }
    net.taken(|_| Some(()));
    assert!(addresses(&net, 1).is_empty() && addresses(&net, 2).is_empty());
    assert!(leased(&mut net, 3, v4(7)));
}

#[test]
fn leased_addresses_are_kept_from_other_hosts() {
    let mut net = net();
    for (client, last) in [(1, 7), (2, 7)] {
        let relayed = discovered(&mut net, client);
        let offers = say_server(&mut net, &answer(&relayed, MessageType::OFFER, v4(last)));
        assert_eq!(offers.len(), usize::from(client == 1), "a server that gives one twice");
        if client == 1 {
            let relayed = requested(&mut net, client, v4(last));
            assert_eq!(say_server(&mut net, &answer(&relayed, MessageType::ACK, v4(7))).len(), 1);
        }
    }
}

#[test]
fn an_unknown_server_is_searched() {
    let mut net = net_of(config());
    // It is there, without a known address.
    net.seen(SERVER, (2, HOST_PORT), None);
    net.taken(|_| Some(()));
    // It does not answer: the messages that waited for it are dropped.
    assert!(ask(&mut net, &message(MessageType::DISCOVER, 1)).is_empty());
    net.wait_ms(400);
    assert_eq!(drops(&net), [(Drop::NoServer, 1)]);
    assert!(sent(&mut net).is_empty());
    let host = super::net::Host {
        mac: mac(SERVER),
        ips: vec![ip(SERVER)],
        at: (2, HOST_PORT),
        answers: true,
    };
    net.hosts.push(host);
    // It answers: the message that triggered the search is not lost.
    assert_eq!(discovered(&mut net, 1).giaddr, v4(254));
    // A message that has already passed a relay, and one in a loop.
    let mut passed = message(MessageType::DISCOVER, 1);
    passed.options.push(DhcpOption::new(option::RELAY_AGENT, [1, 0]));
    assert!(ask(&mut net, &passed).is_empty());
    let circled = Repr { hops: 16, ..message(MessageType::DISCOVER, 1) };
    assert!(ask(&mut net, &circled).is_empty());
}
