//! The router whole: control plane and data plane joined as in the daemon, among hosts and routers
//! that answer for their addresses. Every test ends with the account of every packet.

#[path = "../../plane/tests/plane/common.rs"]
mod common;
#[path = "world/net.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plexus_control::router::{Event, Limits, Refusal, Route};
use plexus_wire::MacAddr;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;

use common::mac;
use plexus_plane::Punt;
use world::packet::{ARP, IPV4, Seen, datagram, frame, icmp, ip, ping, whole};
use world::{End, Machine, Net, interface};

const A4: &str = "10.0.0.9";
const A6: &str = "2001:db8:a::9";
const SECOND: Duration = Duration::from_secs(1);

/// Interface 0 at port 0, interface 1 at port 1, and interface 2 on the bridged ports 2 and 3; host
/// 0 is at port 0, host 1 at port 1, host 2 at port 2.
fn net_with(limits: Limits) -> Net {
    let mut net = Net::new(vec![Machine::new(
        limits,
        vec![
            interface(0, 0, &[0], &["10.0.0.1/24", "2001:db8:a::1/64"]),
            interface(0, 1, &[1], &["10.1.0.1/16", "2001:db8:b::1/64"]),
            interface(0, 2, &[2, 3], &["10.2.0.1/24", "2001:db8:c::1/64"]),
        ],
    )]);
    net.host((0, 0), &[A4, A6], &["10.0.0.1", "2001:db8:a::1"]);
    net.host((0, 1), &["10.1.0.9", "2001:db8:b::9"], &["10.1.0.1", "2001:db8:b::1"]);
    net.host((0, 2), &["10.2.0.9", "2001:db8:c::9"], &["10.2.0.1", "2001:db8:c::1"]);
    net
}

fn net() -> Net {
    net_with(Limits::default())
}

/// A datagram from host 0.
fn to(dst: &str, ttl: u8, flow: u16, id: u32) -> Vec<u8> {
    sized(dst, ttl, flow, id, 26)
}

fn sized(dst: &str, ttl: u8, flow: u16, id: u32, len: usize) -> Vec<u8> {
    let dst = ip(dst);
    let src = ip(if dst.is_ipv4() { A4 } else { A6 });
    datagram((src, dst), ttl, flow, id, len)
}

/// The one ICMP message among what a host has received: its sender, type, code, rest, and quote.
fn one_icmp(net: &mut Net, host: usize) -> (String, u8, u8, [u8; 4], Vec<u8>) {
    let mut seen = net.hosts[host].take();
    assert_eq!(seen.len(), 1, "{seen:?}");
    let Some(Seen::Icmp { src, kind, code, rest, data, .. }) = seen.pop() else {
        panic!("no ICMP message came")
    };
    (src.to_string(), kind, code, rest, data)
}

#[test]
fn the_first_packets_to_a_host_wait_and_arrive_once_with_one_hop_less() {
    let mut net = net();
    for (host, addresses) in
        [(1, ["10.1.0.9", "2001:db8:b::9"]), (2, ["10.2.0.9", "2001:db8:c::9"])]
    {
        for dst in addresses {
            let asked = net.hosts[host].asked;
            // Together, before the answer can come: all of them wait.
            (0..3).for_each(|id| net.hosts[0].send(to(dst, 64, 5, id)));
            net.run();
            let got = net.hosts[host].take();
            let (src, dst) = (net.hosts[0].address(ip(dst)), ip(dst));
            let expected = |id| Seen::Datagram { src, dst, ttl: 63, flow: 5, id, len: 26 };
            assert_eq!(got, [0, 1, 2].map(expected));
            net.send(0, datagram((src, dst), 64, 5, 3, 26));
            assert_eq!(net.hosts[host].take(), [expected(3)]);
            assert_eq!(net.hosts[host].asked, asked + 1, "{dst} is asked for once");
        }
    }
    let sizes = net.machines[0].router.control().sizes();
    assert_eq!(sizes.queued_bytes, 0);
}

#[test]
fn who_waits_too_long_hears_that_the_host_is_unreachable() {
    let mut net = net();
    for (dst, from, head) in
        [("10.1.7.7", "10.0.0.1", (3, 1)), ("2001:db8:b::7", "2001:db8:a::1", (1, 3))]
    {
        let sent = to(dst, 64, 5, 0);
        net.send(0, sent.clone());
        assert_eq!(net.hosts[0].take(), [], "it is being asked for");
        net.pass(5 * SECOND);
        let (src, kind, code, _, quote) = one_icmp(&mut net, 0);
        assert_eq!((src.as_str(), (kind, code)), (from, head));
        assert_eq!(quote, sent);
    }
}

#[test]
fn who_moves_without_a_word_is_found_again_while_packets_are_sent() {
    for dst in ["10.1.0.9", "2001:db8:b::9"] {
        let mut net = net();
        net.send(0, to(dst, 64, 5, 0));
        assert_eq!(net.hosts[1].take_ids(), [0]);
        // Another card, and not a word of it: reachable for 45 s at most, verified 5 s after the
        // next packet, asked thrice at the old address.
        net.hosts[1].mac = mac(0xAB_CDEF);
        let mut id = 0;
        while net.hosts[1].take_ids().is_empty() {
            assert!(id < 45 + 5 + 3 + 3, "{dst} is lost for good");
            id += 1;
            net.pass(SECOND);
            net.send(0, to(dst, 64, 5, id));
        }
        assert!(id > 15, "a reachable neighbour is believed");
        net.send(0, to(dst, 64, 5, 0));
        assert_eq!(net.hosts[1].take_ids(), [0]);
    }
}

#[test]
fn who_is_used_is_verified_and_who_is_not_is_left_alone() {
    let mut net = net();
    for dst in ["10.1.0.9", "10.2.0.9"] {
        net.send(0, to(dst, 64, 5, 0));
    }
    let asked = [1, 2].map(|host| net.hosts[host].asked);
    assert_eq!(asked, [1, 1]);
    for id in 1..400 {
        net.pass(SECOND);
        net.send(0, to("10.1.0.9", 64, 5, id));
    }
    // Each time within 45 s and 5 s, at least 15 s after the last answer.
    assert!((400 / 50..=400 / 15).contains(&net.hosts[1].asked), "{}", net.hosts[1].asked);
    assert_eq!(net.hosts[2].asked, asked[1], "nobody sends to it");
    assert_eq!(net.hosts[1].take_ids().len(), 400);
}

#[test]
fn routes_lead_by_gateways_of_either_family() {
    let mut net = net();
    let machine = &mut net.machines[0];
    machine.route("192.0.2.0/24", Some(&[(1, "10.1.0.9")]));
    machine.route("2001:db8:ff::/48", Some(&[(2, "2001:db8:c::9")]));
    // RFC 8950.
    machine.route("198.51.100.0/24", Some(&[(1, "2001:db8:b::9")]));
    net.run();
    for (host, dst) in [(1, "192.0.2.5"), (2, "2001:db8:ff::5"), (1, "198.51.100.5")] {
        net.send(0, to(dst, 9, 1, 77));
        let src = net.hosts[0].address(ip(dst));
        let expected = Seen::Datagram { src, dst: ip(dst), ttl: 8, flow: 1, id: 77, len: 26 };
        assert_eq!(net.hosts[host].take(), [expected]);
    }
    // What has no route.
    let sent = to("203.0.113.1", 9, 1, 78);
    net.send(0, sent.clone());
    let (src, kind, code, _, quote) = one_icmp(&mut net, 0);
    assert_eq!((src.as_str(), kind, code, quote), ("10.0.0.1", 3, 0, sent));
}

/// Sends a datagram of each flow from host 0, and says which host each came to, once.
fn spread(net: &mut Net, flows: std::ops::Range<u16>, hosts: &[usize]) -> BTreeMap<u16, usize> {
    flows.clone().for_each(|flow| net.hosts[0].send(to("192.0.2.1", 64, flow, flow.into())));
    net.run();
    let mut found = BTreeMap::new();
    for &host in hosts {
        for id in net.hosts[host].take_ids() {
            assert_eq!(found.insert(id as u16, host), None, "flow {id} came twice");
        }
    }
    assert!(found.keys().copied().eq(flows), "{found:?}");
    found
}

#[test]
fn flows_leave_a_gateway_that_dies_and_come_back() {
    let mut net = net();
    [1, 2].iter().for_each(|h| net.hosts[*h].is_alive = false);
    net.machines[0].route("192.0.2.0/24", Some(&[(1, "10.1.0.9"), (2, "10.2.0.9")]));
    net.run();
    // While neither answers, packets wait for the one that their flow goes to.
    (0..6).for_each(|flow| net.hosts[0].send(to("192.0.2.1", 64, flow, flow.into())));
    net.run();
    net.hosts[1].is_alive = true;
    net.pass(SECOND + SECOND / 2);
    let delivered: BTreeSet<u32> = net.hosts[1].take_ids().into_iter().collect();
    assert!(!delivered.is_empty() && delivered.len() < 6, "{delivered:?}");
    // The other one's are lost, and their sender hears of it.
    net.pass(4 * SECOND);
    let lost = net.hosts[0].take().into_iter().map(|seen| match seen {
        Seen::Icmp { kind: 3, code: 1, data, .. } => u32::from(data[21]),
        other => panic!("{other:?}"),
    });
    let lost: BTreeSet<u32> = lost.collect();
    assert!(delivered.is_disjoint(&lost) && !lost.is_empty());
    // Of more than a queue holds the newest stay.
    let too_many = net.machines[0].router.control().refused(Refusal::QueueFull) as usize;
    assert!(delivered.len() <= 3 && delivered.len() + lost.len() + too_many == 6);
    assert!(spread(&mut net, 0..64, &[1, 2]).values().all(|host| *host == 1));
    // It comes back, is found, and gets its share.
    net.hosts[2].is_alive = true;
    net.pass(60 * SECOND);
    let both = spread(&mut net, 0..64, &[1, 2]);
    let second = both.values().filter(|host| **host == 2).count();
    assert!((16..=48).contains(&second), "{second} of 64 flows");
    assert_eq!(spread(&mut net, 0..64, &[1, 2]), both, "a flow stays where it is");
    // The first one dies: soon nothing is lost, and the second one's flows have not moved.
    net.hosts[1].is_alive = false;
    net.pass(60 * SECOND);
    assert!(spread(&mut net, 0..64, &[1, 2]).values().all(|host| *host == 2));
}

#[test]
fn routes_change_under_packets_and_none_goes_astray() {
    let mut net = net();
    let gateways = [(1, "10.1.0.9"), (2, "10.2.0.9")];
    // Two more behind the bridged ports, and the default.
    let third = net.host((0, 3), &["10.2.0.10"], &["10.2.0.1"]);
    net.machines[0].route("0.0.0.0/0", Some(&[(2, "10.2.0.10")]));
    let mut random = Pcg32::seed_from_u64(11);
    let mut routes: [Option<usize>; 8] = [None; 8];
    let mut id = 0;
    for round in 0..400 {
        let which = random.random_range(0..routes.len());
        let change = [None, Some(0), Some(1)][random.random_range(0..3)];
        let prefix = format!("192.0.{which}.0/24");
        let mut expected = BTreeMap::new();
        let mut packets = |net: &mut Net, routes: &[Option<usize>; 8]| {
            for (subnet, route) in routes.iter().enumerate() {
                net.hosts[0].send(to(&format!("192.0.{subnet}.1"), 64, round, id));
                expected.insert(id, route.map_or(third, |gateway| gateway + 1));
                id += 1;
            }
        };
        // Packets on their way when the route changes follow the new one.
        let before = random.random_range(0..2) == 0;
        let mut new = routes;
        new[which] = change;
        if before {
            packets(&mut net, &new);
            let hop = change.map(|gateway| gateways[gateway]);
            net.machines[0].route(&prefix, hop.as_ref().map(std::slice::from_ref));
        } else {
            let hop = change.map(|gateway| gateways[gateway]);
            net.machines[0].route(&prefix, hop.as_ref().map(std::slice::from_ref));
            net.run();
            packets(&mut net, &new);
        }
        routes = new;
        net.run();
        let mut found = BTreeMap::new();
        for host in [1, 2, third] {
            for id in net.hosts[host].take_ids() {
                assert_eq!(found.insert(id, host), None, "packet {id} came twice");
            }
        }
        if round == 0 || found == expected {
            // In the first round some wait for their gateways, more than a queue holds.
            continue;
        }
        panic!("round {round}: {found:?} instead of {expected:?}");
    }
}

#[test]
fn the_last_hop_is_told_of_from_where_the_packet_came_in() {
    let mut net = net();
    net.machines[0].route("192.0.2.0/24", Some(&[(1, "10.1.0.9")]));
    net.machines[0].route("2001:db8:ff::/48", Some(&[(1, "2001:db8:b::9")]));
    net.run();
    let cases = [
        ("192.0.2.1", "10.0.0.1", 11),
        ("10.1.200.200", "10.0.0.1", 11),
        ("2001:db8:ff::1", "2001:db8:a::1", 3),
        ("2001:db8:b::7777", "2001:db8:a::1", 3),
    ];
    for (dst, from, kind) in cases {
        for (ttl, len) in [(1, 26), (0, 26), (1, 1400)] {
            // Errors are limited, by the second.
            net.pass(SECOND);
            let sent = sized(dst, ttl, 3, 9, len);
            net.send(0, sent.clone());
            let (src, got, code, rest, quote) = one_icmp(&mut net, 0);
            assert_eq!((src.as_str(), got, code, rest), (from, kind, 0, [0; 4]), "{dst}");
            // As much as fits into 576 and 1,280 bytes.
            let room = if ip(dst).is_ipv4() { 576 - 28 } else { 1280 - 48 };
            assert_eq!(quote, sent[..sent.len().min(room)]);
        }
    }
    assert_eq!(net.hosts[1].take(), []);
}

#[test]
fn a_traceroute_shows_every_router_in_a_row() {
    // a 10.0.0.9 - r0 - 10.8.0.0/30 - r1 - 10.8.0.4/30 - r2 - 10.9.0.9 b, and likewise IPv6.
    let make = |n: u64, left: [&str; 2], right: [&str; 2]| {
        let sides = vec![interface(n, 0, &[0], &left), interface(n, 1, &[1], &right)];
        Machine::new(Limits::default(), sides)
    };
    let mut machines = vec![
        make(0, ["10.0.0.1/24", "2001:db8:a::1/64"], ["10.8.0.1/30", "2001:db8:1::1/64"]),
        make(1, ["10.8.0.2/30", "2001:db8:1::2/64"], ["10.8.0.5/30", "2001:db8:2::1/64"]),
        make(2, ["10.8.0.6/30", "2001:db8:2::2/64"], ["10.9.0.1/24", "2001:db8:b::1/64"]),
    ];
    machines[0].route("10.0.0.0/8", Some(&[(1, "10.8.0.2")]));
    machines[1].route("10.9.0.0/24", Some(&[(1, "10.8.0.6")]));
    machines[1].route("10.0.0.0/24", Some(&[(0, "10.8.0.1")]));
    machines[2].route("0.0.0.0/0", Some(&[(0, "10.8.0.5")]));
    machines[0].route("2001:db8::/32", Some(&[(1, "2001:db8:1::2")]));
    machines[1].route("2001:db8:b::/64", Some(&[(1, "2001:db8:2::2")]));
    machines[1].route("2001:db8:a::/64", Some(&[(0, "2001:db8:1::1")]));
    machines[2].route("::/0", Some(&[(0, "2001:db8:2::1")]));
    let mut net = Net::new(machines);
    net.cables.push((End::Port(0, 1), End::Port(1, 0)));
    net.cables.push((End::Port(1, 1), End::Port(2, 0)));
    net.host((0, 0), &[A4, A6], &["10.0.0.1", "2001:db8:a::1"]);
    let b = net.host((2, 1), &["10.9.0.9", "2001:db8:b::9"], &["10.9.0.1", "2001:db8:b::1"]);
    // The gateways were asked for before the cables were there.
    net.pass(30 * SECOND);
    let ways = [
        ("10.9.0.9", ["10.0.0.1", "10.8.0.2", "10.8.0.6"], 11),
        ("2001:db8:b::9", ["2001:db8:a::1", "2001:db8:1::2", "2001:db8:2::2"], 3),
    ];
    for (dst, hops, kind) in ways {
        for (ttl, hop) in (1..).zip(hops) {
            let mut expected = to(dst, ttl, 1, 2);
            net.send(0, expected.clone());
            let (src, got, _, _, quote) = one_icmp(&mut net, 0);
            assert_eq!((src.as_str(), got), (hop, kind));
            // Quoted as the router received it, with what hop is left.
            let at = if kind == 11 { 8 } else { 7 };
            expected[at] = 1;
            assert_eq!((quote[at], &quote[12..]), (1, &expected[12..]));
        }
        net.send(0, to(dst, 4, 1, 2));
        let src = net.hosts[0].address(ip(dst));
        let dst = ip(dst);
        let arrived = Seen::Datagram { src, dst, ttl: 1, flow: 1, id: 2, len: 26 };
        assert_eq!(net.hosts[b].take(), [arrived]);
    }
}

/// A net whose interface 1 carries at most 1,300 bytes, its hosts known.
fn narrow() -> Net {
    let mut net = net();
    net.machines[0].interfaces[1].facts.mtu = 1300;
    net.machines[0].up(1);
    net.send(0, to("10.1.0.9", 64, 1, 0));
    net.send(0, to("2001:db8:b::9", 64, 1, 0));
    assert_eq!(net.hosts[1].take().len(), 2);
    net
}

#[test]
fn what_is_too_long_is_cut_or_its_sender_told_the_limit() {
    let mut net = narrow();
    // 1,300 bytes fit, headers and all.
    for (dst, len) in [("10.1.0.9", 1272), ("2001:db8:b::9", 1252)] {
        net.send(0, sized(dst, 64, 1, 1, len));
        assert_eq!(net.hosts[1].take_ids(), [1]);
    }
    let sent = whole(sized("10.1.0.9", 64, 1, 1, 1273));
    net.send(0, sent.clone());
    let (src, kind, code, rest, quote) = one_icmp(&mut net, 0);
    assert_eq!((src.as_str(), kind, code, rest), ("10.0.0.1", 3, 4, [0, 0, 5, 20]));
    assert_eq!(quote, sent[..548]);
    let sent = sized("2001:db8:b::9", 64, 1, 1, 1253);
    net.send(0, sent.clone());
    let (src, kind, code, rest, quote) = one_icmp(&mut net, 0);
    assert_eq!((src.as_str(), kind, code, rest), ("2001:db8:a::1", 2, 0, [0, 0, 5, 20]));
    assert_eq!(quote, sent[..1232]);
    // In pieces, which make the whole again.
    let sent = sized("10.1.0.9", 64, 1, 1, 1400);
    net.send(0, sent.clone());
    let mut bytes = vec![0; sent.len() - 20];
    let mut last = false;
    for piece in net.hosts[1].take() {
        let Seen::Fragment { at, more, data } = piece else { panic!("{piece:?}") };
        assert!(data.len() <= 1280);
        bytes[at..at + data.len()].copy_from_slice(&data);
        last |= !more && at + data.len() == bytes.len();
    }
    assert!(last && bytes == sent[20..]);
}

#[test]
fn own_addresses_answer_pings_and_refuse_the_rest() {
    let mut net = net();
    let own = ["10.0.0.1", "10.1.0.1", "10.2.0.1", "2001:db8:a::1", "2001:db8:c::1"];
    for dst in own {
        let src = net.hosts[0].address(ip(dst));
        let reply = if src.is_ipv4() { 0 } else { 129 };
        for len in [0, 56, 1400] {
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            // A packet to the router itself is not forwarded: one hop is enough.
            net.send(0, ping(src, ip(dst), 1, 0x1234, &data));
            let got = one_icmp(&mut net, 0);
            assert_eq!(got, (dst.to_string(), reply, 0, [0x12, 0x34, 0, 1], data));
        }
        let sent = to(dst, 9, 1, 1);
        net.send(0, sent.clone());
        let (from, kind, code, _, quote) = one_icmp(&mut net, 0);
        let closed = if src.is_ipv4() { (3, 3) } else { (1, 4) };
        assert_eq!((from.as_str(), (kind, code), quote), (dst, closed, sent));
    }
    // An error is never answered with one.
    let error = icmp((ip(A4), ip("10.9.9.9")), 9, [3, 1], [0; 4], &to("10.0.0.1", 1, 1, 1));
    net.send(0, error);
    assert_eq!(net.hosts[0].take(), []);
}

#[test]
fn a_scan_fills_no_memory_and_harms_nobody_else() {
    let limits =
        Limits { neighbours: 600, incomplete: 100, queue_bytes: 16 << 10, ..Limits::default() };
    let mut net = net_with(limits);
    net.machines[0].route("192.0.2.0/24", Some(&[(1, "10.1.0.9")]));
    net.run();
    for dst in ["10.2.0.9", "10.1.0.9", "2001:db8:b::9"] {
        net.send(0, to(dst, 64, 1, 0));
    }
    [1, 2].iter().for_each(|h| drop(net.hosts[*h].take()));
    let mut random = Pcg32::seed_from_u64(5);
    for round in 0..200u32 {
        // A burst to addresses of a /16 and a /64 where nobody is.
        for i in 0..100 {
            let n = round * 100 + i;
            let near = format!("10.1.{}.{}", 16 + n / 256 % 240, n % 256);
            net.hosts[0].send(to(&near, 64, 1, n));
            let far = format!("2001:db8:b::{:x}:{:x}", random.random::<u16>() | 1, n % 0xFFFF);
            net.hosts[0].send(to(&far, 64, 1, n));
        }
        // On the scanned link and elsewhere, to neighbours and by gateways.
        let good = [("10.2.0.9", 2), ("10.1.0.9", 1), ("2001:db8:b::9", 1), ("192.0.2.1", 1)];
        for (dst, _) in good {
            net.hosts[0].send(to(dst, 64, 1, round));
        }
        net.run();
        assert_eq!(net.hosts[2].take_ids(), [round; 1]);
        assert_eq!(net.hosts[1].take_ids(), [round; 3]);
        let sizes = net.machines[0].router.control().sizes();
        assert!(sizes.neighbours <= 600 && sizes.queued_bytes <= 16 << 10, "{sizes:?}");
        assert!(sizes.groups < 700 && sizes.prefixes < 700, "{sizes:?}");
        net.hosts[0].take();
        net.pass(Duration::from_millis(50));
    }
    // Soon afterwards nothing is left of it, and a new host is found at once.
    net.pass(30 * SECOND);
    let sizes = net.machines[0].router.control().sizes();
    assert!(sizes.neighbours < 10 && sizes.queued_bytes == 0, "{sizes:?}");
    net.hosts[1].addresses.push(ip("10.1.3.3"));
    net.send(0, to("10.1.3.3", 64, 1, 1));
    assert_eq!(net.hosts[1].take_ids(), [1]);
}

#[test]
fn an_interface_that_goes_down_takes_its_routes_along_and_brings_them_back() {
    let mut net = net();
    net.machines[0].route("192.0.2.0/24", Some(&[(1, "10.1.0.9")]));
    net.machines[0].route("192.0.0.0/16", Some(&[(2, "10.2.0.9")]));
    net.run();
    let send = |net: &mut Net, dst| {
        net.send(0, to(dst, 64, 1, 1));
        [1, 2].map(|h| net.hosts[h].take_ids().len())
    };
    for _ in 0..3 {
        assert_eq!(send(&mut net, "192.0.2.1"), [1, 0]);
        assert_eq!(send(&mut net, "10.1.0.9"), [1, 0]);
        assert_eq!(send(&mut net, "10.2.0.9"), [0, 1]);
        net.machines[0].down(1);
        net.run();
        assert_eq!(send(&mut net, "192.0.2.1"), [0, 1], "the next best route");
        assert_eq!(send(&mut net, "10.2.0.9"), [0, 1]);
        assert_eq!(send(&mut net, "10.1.0.9"), [0, 0]);
        let (src, kind, code, ..) = one_icmp(&mut net, 0);
        assert_eq!((src.as_str(), kind, code), ("10.0.0.1", 3, 0), "no route");
        // Nor is its own address there.
        net.send(0, ping(ip(A4), ip("10.1.0.1"), 9, 1, &[]));
        let (_, kind, code, ..) = one_icmp(&mut net, 0);
        assert_eq!((kind, code), (3, 0));
        net.machines[0].up(1);
        net.run();
    }
}

#[test]
fn neighbours_follow_when_an_interface_changes() {
    let mut net = net();
    net.machines[0].route("192.0.2.0/24", Some(&[(1, "10.1.0.9")]));
    net.run();
    let ways = ["10.1.0.9", "192.0.2.1", "2001:db8:b::9"];
    let by = |net: &mut Net| -> Vec<MacAddr> {
        let mut seen = Vec::new();
        for dst in ways {
            net.hosts[0].send(to(dst, 64, 1, 1));
            let frames = net.hosts[0].out.drain(..).collect::<Vec<_>>();
            frames.into_iter().for_each(|f| net.machines[0].rig.offer(0, &f));
            net.machines[0].rig.settle();
            let out = net.machines[0].rig.take();
            seen.extend(out.iter().map(|(_, f)| MacAddr(f[6..12].try_into().expect("a frame"))));
        }
        seen
    };
    for dst in ways {
        net.send(0, to(dst, 64, 1, 1));
    }
    let (old, new) = (net.machines[0].interfaces[1].facts.mac, mac(0xAB_CDEF));
    assert_eq!(by(&mut net), [old; 3]);
    net.hosts[1].take();
    // Another Ethernet address: packets leave with it, and hosts that know the old one hear of it.
    net.hosts[1].send(datagram((ip("10.1.0.9"), ip(A4)), 64, 1, 1, 26));
    net.hosts[1].send(datagram((ip("2001:db8:b::9"), ip(A6)), 64, 1, 1, 26));
    net.run();
    assert_eq!(net.hosts[0].take_ids(), [1, 1]);
    net.machines[0].interfaces[1].facts.mac = new;
    net.machines[0].up(1);
    net.run();
    assert_eq!(by(&mut net), [new; 3]);
    net.send(1, datagram((ip("10.1.0.9"), ip(A4)), 64, 1, 2, 26));
    net.send(1, datagram((ip("2001:db8:b::9"), ip(A6)), 64, 1, 2, 26));
    assert_eq!(net.hosts[0].take_ids(), [2, 2], "the old address is not used any more");
    // A shorter MTU holds for known neighbours too, and so does a longer one.
    for (mtu, fits) in [(1300, false), (1500, true)] {
        net.machines[0].interfaces[1].facts.mtu = mtu;
        net.machines[0].up(1);
        net.run();
        for dst in ways {
            let long = sized(dst, 64, 1, 4, 1400);
            net.send(0, if ip(dst).is_ipv4() { whole(long) } else { long });
            assert_eq!(net.hosts[1].take_ids().len(), usize::from(fits), "{dst}");
            assert_eq!(net.hosts[0].take().len(), usize::from(!fits), "{dst}");
        }
    }
}

#[test]
fn blackholes_are_silent_and_refusals_are_not() {
    let mut net = net();
    for (prefix, route) in [
        ("192.0.0.0/24", Route::Blackhole),
        ("192.0.1.0/24", Route::Unreachable),
        ("192.0.2.0/24", Route::Prohibited),
    ] {
        net.machines[0].set(prefix, Some(route));
    }
    net.run();
    net.send(0, to("192.0.0.1", 9, 1, 1));
    assert_eq!(net.hosts[0].take(), []);
    for (dst, expected) in [("192.0.1.1", 1), ("192.0.2.1", 13)] {
        net.send(0, to(dst, 9, 1, 1));
        let (_, kind, code, ..) = one_icmp(&mut net, 0);
        assert_eq!((kind, code), (3, expected));
    }
}

/// The table has room for routes beyond /24 in 32,768 different /24s. Those beyond are told of, and
/// go in as soon as others leave.
#[test]
fn routes_that_do_not_fit_wait_until_others_leave() {
    let mut machine = Machine::new(Limits::default(), vec![interface(0, 0, &[0], &[])]);
    let prefix = |n: u32| format!("10.{}.{}.1/32", n >> 8, n & 0xFF);
    let is_in = |machine: &Machine, n: u32| {
        let address = ip(&prefix(n)[..prefix(n).len() - 3]);
        machine.router.lookup(address).is_some()
    };
    const ROUTES: u32 = 33_500;
    for n in 0..ROUTES {
        machine.set(&prefix(n), Some(Route::Blackhole));
    }
    let told = |machine: &mut Machine| {
        let rest = machine.router.carry_out(|| panic!("no worker is at a batch"));
        rest.events.iter().filter(|event| **event == Event::TableFull).count()
    };
    assert_eq!(told(&mut machine), 1);
    let lacking = machine.router.lacking();
    assert_eq!((0..ROUTES).filter(|n| !is_in(&machine, *n)).count(), lacking);
    assert!((1..ROUTES as usize - 32_000).contains(&lacking), "{lacking}");
    // One that is not in the table may leave as any other.
    let missing = (0..ROUTES).find(|n| !is_in(&machine, *n)).expect("one that is lacking");
    machine.set(&prefix(missing), None);
    assert_eq!((told(&mut machine), machine.router.lacking()), (0, lacking - 1));
    for n in (0..missing).take(lacking) {
        machine.set(&prefix(n), None);
    }
    assert_eq!((told(&mut machine), machine.router.lacking()), (0, 0));
    let left = |n: &u32| *n >= lacking as u32 && *n != missing;
    assert!((0..ROUTES).filter(left).all(|n| is_in(&machine, n)));
}

/// Neighbours come and go and take each other's numbers while a worker of its own forwards to all
/// of them: no frame has one neighbour's IP address and another one's Ethernet address.
#[test]
fn no_packet_goes_to_who_has_taken_a_neighbours_number() {
    const HOSTS: u8 = 32;
    let limits = Limits { neighbours: 6, ..Limits::default() };
    let sides =
        vec![interface(0, 0, &[0], &["10.0.0.1/24"]), interface(0, 1, &[1], &["10.1.0.1/16"])];
    let Machine { mut rig, mut router, interfaces } = Machine::new(limits, sides);
    let (own, source) = (interfaces[0].facts.mac, mac(0x100));
    let now = rig.now;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut random = Pcg32::seed_from_u64(1);
            let mut delivered = 0;
            while !is_done.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    let dst = [10, 1, 0, 10 + random.random_range(0..HOSTS)];
                    let packet = datagram((ip(A4), IpAddr::from(dst)), 64, 1, 0, 26);
                    rig.offer(0, &frame(own, source, IPV4, &packet));
                }
                rig.settle();
                rig.workers[0].take_control(|_, _, _, _| {});
                for (_, out) in rig.take() {
                    assert_eq!(out[..6], mac(u64::from(out[33])).0, "to 10.1.0.{}", out[33]);
                    delivered += 1;
                }
            }
            delivered
        });
        let mut random = Pcg32::seed_from_u64(2);
        for _ in 0..5_000 {
            // Some of them ask for the router, and are known from then on.
            for _ in 0..3 {
                let host = 10 + random.random_range(0..HOSTS);
                let from = mac(host.into());
                let ask = [
                    &[0, 1, 8, 0, 6, 4, 0, 1][..],
                    &from.0,
                    &[10, 1, 0, host],
                    &[0; 6],
                    &[10, 1, 0, 1],
                ];
                let ask = frame(MacAddr::BROADCAST, from, ARP, &ask.concat());
                router.frame(now, Punt::Neighbour, 101, ask);
            }
            router.carry_out(std::thread::yield_now);
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(worker.join().expect("the worker") > 0);
    });
}
