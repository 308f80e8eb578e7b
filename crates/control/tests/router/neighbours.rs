//! Neighbours: resolution, verification, failure.

use plexus_control::router::{
    Event, Fault, Group, Input, Limits, NeighbourId, Output, Refusal, Route, Source, State, Why,
};
use plexus_wire::arp::{Operation, Repr};
use plexus_wire::ndp::{Message, NdpOption};
use plexus_wire::{MacAddr, Time};
use proptest::prelude::*;

use crate::frames::{advert, icmp, ip_packet, packet, solicit, udp, v4, v6};
use crate::plane::{A, B, Plane, arp, facts, hop, ip, mac, own_mac, via};

impl Plane {
    fn state(&self, addr: &str) -> Option<State> {
        let addr = ip(addr);
        self.router.neighbours(self.now).find(|n| n.address == addr).map(|n| n.state)
    }

    /// The data plane wants to send to an address on A's link, from B's.
    fn want(&mut self, addr: &str, mark: &str) -> Vec<u8> {
        let src = if addr.contains(':') { "2001:db8:2::9" } else { "10.0.2.9" };
        let frame = packet(B, 9, &udp(src, addr, mark.as_bytes()));
        self.frame(B, Why::Unresolved(None), frame.clone());
        frame
    }
}

#[test]
fn frames_wait_for_an_answer_the_newest_three_of_them() {
    for (addr, question) in [
        ("10.0.1.7", "who-has 10.0.1.7 tell 10.0.1.1"),
        ("2001:db8:1::7", "who has 2001:db8:1::7, source 02:aa:00:00:00:01"),
    ] {
        let mut plane = Plane::two();
        let frames: Vec<_> =
            ["a", "b", "c", "d"].iter().map(|mark| plane.want(addr, mark)).collect();
        let said = plane.said();
        assert_eq!(said.len(), 1, "asked once: {said:?}");
        assert!(said[0].starts_with("1 ") && said[0].contains(question), "{said:?}");
        assert_eq!(plane.refused(Refusal::QueueFull), 1);
        assert!(plane.again.is_empty());
        match addr {
            "10.0.1.7" => plane.answer(A, addr, 7),
            _ => plane.frame(A, Why::Nd, advert(addr, (true, true), Some(7))),
        }
        let again: Vec<_> = frames[1..].iter().map(|frame| (B, frame.clone())).collect();
        assert_eq!(plane.again, again);
        assert_eq!(plane.ways(addr), [(A, mac(7))]);
        assert_eq!(plane.state(addr), Some(State::Reachable));
        assert_eq!(plane.router.sizes().queued_bytes, 0);
    }
}

#[test]
fn the_beginning_of_a_super_packet_is_enough_to_ask() {
    for (addr, src) in [("10.0.1.7", "10.0.2.9"), ("2001:db8:1::7", "2001:db8:2::9")] {
        let mut plane = Plane::two();
        let mut frame = packet(B, 9, &udp(src, addr, &[0; 1400]));
        frame.truncate(128);
        plane.frame(B, Why::Unresolved(None), frame);
        assert_eq!(plane.said().len(), 1, "asked");
        assert_eq!(plane.refused(Refusal::Excerpt), 1);
        match addr {
            "10.0.1.7" => plane.answer(A, addr, 7),
            _ => plane.frame(A, Why::Nd, advert(addr, (true, true), Some(7))),
        }
        assert_eq!(plane.ways(addr), [(A, mac(7))]);
        assert_eq!(plane.again, [], "a part of a packet goes nowhere");
    }
}

#[test]
fn a_silent_neighbour_is_asked_three_times_and_senders_get_errors() {
    let mut plane = Plane::two();
    plane.answer(B, "10.0.2.9", 9);
    let ask = arp(B, Operation::REQUEST, ("10.0.2.9", 9), "10.0.2.1");
    plane.frame(B, Why::Arp, ask);
    plane.said();
    plane.want("10.0.1.7", "x");
    plane.pass_ms(2_900);
    let questions = plane.said();
    assert_eq!(questions.len(), 3, "{questions:?}");
    plane.pass_ms(200);
    let said = plane.said();
    assert_eq!(said.len(), 1, "{said:?}");
    let error = "10.0.2.1 > 10.0.2.9 ICMP";
    assert!(said[0].contains(error) && said[0].contains("host unreachable"), "{said:?}");
    assert_eq!(plane.state("10.0.1.7"), Some(State::Failed));
    // During the hold-down no question is sent, and the sender gets an error at once.
    plane.want("10.0.1.7", "y");
    let said = plane.said();
    assert!(said.len() == 1 && said[0].contains("host unreachable"), "{said:?}");
    plane.pass_ms(4_100);
    assert_eq!(plane.state("10.0.1.7"), None);
    plane.want("10.0.1.7", "z");
    assert!(plane.said()[0].contains("who-has 10.0.1.7"));
}

#[test]
fn a_neighbour_goes_through_the_states_of_rfc_4861() {
    let mut plane = Plane::two();
    plane.want("2001:db8:1::7", "x");
    assert_eq!(plane.state("2001:db8:1::7"), Some(State::Incomplete));
    plane.frame(A, Why::Nd, advert("2001:db8:1::7", (true, true), Some(7)));
    let id = plane.neighbour(A, "2001:db8:1::7").unwrap();
    plane.pass_ms(14_900);
    assert_eq!(plane.state("2001:db8:1::7"), Some(State::Reachable));
    plane.pass_ms(30_200);
    assert_eq!(plane.state("2001:db8:1::7"), Some(State::Stale));
    plane.pass_ms(400_000);
    assert_eq!(plane.state("2001:db8:1::7"), Some(State::Stale), "nothing is sent to it");
    plane.said();
    plane.input(Input::Used(vec![id, NeighbourId(77)]));
    assert_eq!(plane.state("2001:db8:1::7"), Some(State::Delay));
    plane.pass_ms(4_900);
    assert!(plane.said().is_empty());
    plane.pass_ms(200);
    assert_eq!(plane.state("2001:db8:1::7"), Some(State::Probe));
    assert_eq!(plane.ways("2001:db8:1::7"), [(A, mac(7))], "it is used meanwhile");
    // It is asked by unicast.
    let (_, frame) = plane.sent.pop().unwrap();
    assert_eq!(frame[..6], mac(7).0);
    plane.frame(A, Why::Nd, advert("2001:db8:1::7", (true, false), None));
    assert_eq!(plane.state("2001:db8:1::7"), Some(State::Reachable));
    plane.pass_ms(45_100);
    plane.input(Input::Used(vec![id]));
    plane.said();
    plane.pass_ms(8_100);
    assert_eq!(plane.said().len(), 3);
    assert_eq!(plane.state("2001:db8:1::7"), None, "gone, to be asked for anew when needed");
    assert!(plane.adjacencies.is_empty());
}

#[test]
fn an_unused_neighbour_is_verified_after_ten_minutes() {
    let mut plane = Plane::two();
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.7", 7), "10.0.1.1"));
    assert_eq!(plane.state("10.0.1.7"), Some(State::Stale));
    plane.said();
    plane.pass_ms(490_000);
    assert!(plane.said().is_empty());
    plane.pass_ms(215_000);
    assert_eq!(plane.said().len(), 3);
    assert_eq!(plane.state("10.0.1.7"), None);
    assert_eq!(plane.lookup("10.0.1.7"), Some(&Group::Glean(A)));
}

#[test]
fn gateways_are_found_before_they_are_needed_and_missed_without_traffic() {
    let mut plane = Plane::two();
    plane.set(Source::Kernel, "192.0.2.0/24", Route::Via(vec![hop(A, "10.0.1.2")]));
    assert!(plane.said()[0].contains("who-has 10.0.1.2"));
    plane.answer(A, "10.0.1.2", 2);
    let gateway = |mac| Event::Gateway { interface: A, address: ip("10.0.1.2"), mac };
    assert_eq!(std::mem::take(&mut plane.events), [gateway(Some(mac(2)))]);
    assert_eq!(plane.ways("192.0.2.1"), [(A, mac(2))]);
    // It falls silent: it is asked by unicast, then by broadcast, then given up and reported once.
    plane.pass_ms(45_000 + 5_000 + 3_000 + 3_100);
    assert_eq!(plane.ways("192.0.2.1"), []);
    assert!(matches!(plane.lookup("192.0.2.1"), Some(Group::Via(m)) if m.len() == 1));
    assert_eq!(std::mem::take(&mut plane.events), [gateway(None)]);
    plane.said();
    plane.pass_ms(600_000);
    let questions = plane.said().len();
    assert!((15..60).contains(&questions), "{questions} questions in ten minutes");
    assert_eq!(plane.events, [], "the same trouble is told once");
    // It returns as soon as it is heard.
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.2", 3), "10.0.1.1"));
    assert_eq!(plane.ways("192.0.2.1"), [(A, mac(3))]);
    assert_eq!(plane.events, [gateway(Some(mac(3)))]);
}

#[test]
fn gateways_that_fail_in_the_same_instant_leave_their_group_one_by_one() {
    let mut plane = Plane::two();
    let hops = vec![hop(A, "10.0.1.2"), hop(B, "10.0.2.2")];
    plane.set(Source::Kernel, "192.0.2.0/24", Route::Via(hops));
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.2", 2), "10.0.1.1"));
    plane.frame(B, Why::Arp, arp(B, Operation::REQUEST, ("10.0.2.2", 3), "10.0.2.1"));
    assert_eq!(plane.ways("192.0.2.1").len(), 2);
    // `Plane` asserts that the data plane never sees an invalid state.
    plane.pass_ms(8_000);
    assert_eq!(plane.ways("192.0.2.1"), []);
}

#[test]
fn a_packet_to_a_gateway_that_has_failed_is_answered_at_once() {
    let mut plane = Plane::two();
    plane.frame(B, Why::Arp, arp(B, Operation::REQUEST, ("10.0.2.9", 9), "10.0.2.1"));
    plane.set(Source::Kernel, "192.0.2.0/24", via(A, "10.0.1.2"));
    let Some(Group::Via(members)) = plane.lookup("192.0.2.1") else { panic!("no way") };
    let why = Why::Unresolved(Some(members[0].neighbour));
    let frame = packet(B, 9, &udp("10.0.2.9", "192.0.2.1", b"x"));
    plane.frame(B, why, frame.clone());
    assert_eq!(plane.router.neighbours(plane.now).find(|n| n.is_gateway).unwrap().waiting, 1);
    plane.pass_ms(3_100);
    plane.said();
    plane.frame(B, why, frame);
    let said = plane.said();
    assert!(said.len() == 1 && said[0].contains("host unreachable"), "{said:?}");
}

#[test]
fn observed_packets_create_no_neighbour() {
    let mut plane = Plane::two();
    let own = "10.0.1.1";
    plane.frame(A, Why::Arp, arp(A, Operation::REPLY, ("10.0.1.7", 7), own));
    assert_eq!(plane.refused(Refusal::Unsolicited), 1);
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.7", 7), "10.0.1.7"));
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.7", 7), "10.0.1.8"));
    assert_eq!(plane.refused(Refusal::NotForUs), 2);
    plane.frame(A, Why::Nd, advert("2001:db8:1::7", (false, true), Some(7)));
    assert_eq!(plane.refused(Refusal::Unsolicited), 2);
    // Nor from another link, nor with a broadcast address, nor with a group's link address.
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.2.7", 7), own));
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.255", 7), own));
    plane.frame(A, Why::Nd, solicit("2001:db8:2::7", "2001:db8:1::1", "2001:db8:1::1", Some(7)));
    assert_eq!(plane.refused(Refusal::NotOnLink), 3);
    for sender_mac in [MacAddr::BROADCAST, MacAddr::default()] {
        let operation = Operation::REQUEST;
        let (sender_ip, target_ip) = (v4("10.0.1.7"), v4(own));
        let target_mac = MacAddr::default();
        let repr = Repr { operation, sender_mac, sender_ip, target_mac, target_ip };
        plane.frame(A, Why::Arp, plexus_wire::frame::arp(MacAddr::BROADCAST, &repr));
    }
    assert_eq!(plane.refused(Refusal::BadLinkAddress), 2);
    assert_eq!(plane.router.neighbours(plane.now).count(), 0);
    assert_eq!(plane.said(), [""; 0], "and none of them hears anything");
    // A question to us does, because its sender expects an answer.
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.7", 7), own));
    assert_eq!(plane.ways("10.0.1.7"), [(A, mac(7))]);
    // Once known, an announcement moves it.
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.7", 8), "10.0.1.7"));
    assert_eq!(plane.ways("10.0.1.7"), [(A, mac(8))]);
}

#[test]
fn discovery_that_came_through_a_router_or_is_damaged_is_refused() {
    let good = || solicit("2001:db8:1::7", "2001:db8:1::1", "2001:db8:1::1", Some(7));
    let mut plane = Plane::two();
    let mut far = good();
    far[14 + 7] = 254;
    plane.frame(A, Why::Nd, far);
    assert_eq!(plane.refused(Refusal::HopLimit), 1);
    let mut damaged = good();
    *damaged.last_mut().unwrap() ^= 1;
    plane.frame(A, Why::Nd, damaged);
    assert_eq!(plane.refused(Refusal::Checksum), 1);
    // A duplicate address probe that contains a link address, or goes to a single station.
    plane.frame(A, Why::Nd, solicit("::", "ff02::1:ff00:1", "2001:db8:1::1", Some(7)));
    plane.frame(A, Why::Nd, solicit("::", "2001:db8:1::1", "2001:db8:1::1", None));
    assert_eq!(plane.refused(Refusal::Malformed), 2);
    assert_eq!(plane.said(), [""; 0]);
    plane.frame(A, Why::Nd, good());
    assert_eq!(plane.said().len(), 1);
}

#[test]
fn questions_for_own_addresses_are_answered() {
    let mut plane = Plane::two();
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.7", 7), "10.0.1.1"));
    let said = plane.said();
    let reply =
        "1 02:aa:00:00:00:01 > 02:00:00:00:00:07 ARP reply 10.0.1.1 is-at 02:aa:00:00:00:01";
    assert!(said.len() == 1 && said[0].starts_with(reply), "{said:?}");
    // A probe is answered, and reveals nothing about its sender.
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("0.0.0.0", 8), "10.0.1.1"));
    assert_eq!(plane.said().len(), 1);
    assert_eq!(plane.router.neighbours(plane.now).count(), 1);
    let group = "ff02::1:ff00:1";
    plane.frame(A, Why::Nd, solicit("2001:db8:1::7", group, "2001:db8:1::1", Some(7)));
    let (_, frame) = plane.sent.pop().unwrap();
    assert_eq!(frame[..6], mac(7).0);
    let flags = frame[14 + 40 + 4] >> 5;
    assert_eq!(flags, 0b111, "router, solicited, override");
    // A duplicate address probe is answered to all nodes (RFC 4861, 7.2.4).
    plane.frame(A, Why::Nd, solicit("::", group, "2001:db8:1::1", None));
    let (_, frame) = plane.sent.pop().unwrap();
    assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(frame[14 + 40 + 4] >> 5, 0b101);
    // An answer for the anycast address does not override (RFC 4861, 7.2.7).
    let anycast = "2001:db8:1::";
    plane.frame(A, Why::Nd, solicit("2001:db8:1::7", "ff02::1:ff00:0", anycast, Some(7)));
    let (_, frame) = plane.sent.pop().unwrap();
    assert_eq!(frame[14 + 40 + 4] >> 5, 0b110);
    assert_eq!(frame[14 + 8..14 + 24], [0x20, 1, 0xD, 0xB8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    // Questions for other stations' addresses are ignored.
    let elsewhere = solicit("2001:db8:1::7", "ff02::1:ff00:9", "2001:db8:1::9", Some(7));
    plane.frame(A, Why::Nd, elsewhere);
    assert_eq!(plane.said(), [""; 0]);
    let redirect = Message::Redirect { target: v6("fe80::7"), destination: v6("2001:db8::1") };
    let option = NdpOption::TargetLinkLayer(mac(7));
    let ends = ("fe80::7", "fe80::1");
    plane.frame(A, Why::Nd, crate::frames::nd(7, ends, redirect, vec![option]));
    assert_eq!(plane.refused(Refusal::NotSpoken), 1);
}

#[test]
fn where_the_kernel_answers_the_router_only_learns() {
    let mut plane = Plane::new();
    let mut with_kernel = facts(A, &["10.0.1.1/24", "2001:db8:1::1/64"]);
    with_kernel.kernel = true;
    plane.input(Input::Interface { id: A, facts: Some(with_kernel) });
    assert_eq!(plane.said(), [""; 0], "no announcement");
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.7", 7), "10.0.1.1"));
    plane.frame(A, Why::Nd, solicit("2001:db8:1::7", "2001:db8:1::1", "2001:db8:1::1", Some(7)));
    assert_eq!(plane.said(), [""; 0]);
    assert_eq!(plane.refused(Refusal::KernelAnswers), 2);
    assert_eq!(plane.ways("10.0.1.7"), [(A, mac(7))]);
    assert_eq!(plane.ways("2001:db8:1::7"), [(A, mac(7))]);
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.1", 8), "10.0.1.1"));
    assert_eq!(plane.said(), [""; 0], "nor does it defend");
    assert_eq!(plane.events.len(), 1);
    // To forward, the router asks itself.
    let frame = packet(A, 9, &udp("10.0.1.9", "10.0.1.8", b"x"));
    plane.frame(A, Why::Unresolved(None), frame);
    assert_eq!(plane.said().len(), 1);
}

#[test]
fn a_claim_to_an_own_address_is_told_and_defended_every_ten_seconds() {
    let mut plane = Plane::two();
    let claim = || arp(A, Operation::REQUEST, ("10.0.1.1", 7), "10.0.1.1");
    for _ in 0..5 {
        plane.frame(A, Why::Arp, claim());
    }
    let conflict = Event::Conflict { interface: A, address: ip("10.0.1.1"), mac: mac(7) };
    assert_eq!(plane.events, [conflict]);
    assert!(plane.said().len() == 1 && plane.refused(Refusal::Conflict) == 5);
    plane.pass_ms(10_000);
    plane.frame(A, Why::Arp, claim());
    assert_eq!(plane.said().len(), 1);
    plane.frame(A, Why::Nd, advert("2001:db8:1::1", (false, true), Some(7)));
    assert_eq!(plane.events.len(), 3);
    // Our own message returned by a loop is not a claim.
    let mut own = claim();
    own[6..12].copy_from_slice(&own_mac(A).0);
    own[22..28].copy_from_slice(&own_mac(A).0);
    plane.frame(A, Why::Arp, own);
    assert_eq!(plane.refused(Refusal::OwnEcho), 1);
}

#[test]
fn two_links_may_have_the_same_link_local_gateway() {
    let mut plane = Plane::two();
    plane.set(Source::Kernel, "2001:db8:8::/48", via(A, "fe80::9"));
    plane.set(Source::Kernel, "192.0.2.0/24", via(B, "fe80::9"));
    let nd = |own: &str, n| {
        let message = Message::NeighborAdvertisement {
            router: true,
            solicited: true,
            override_cache: true,
            target: v6("fe80::9"),
        };
        let option = NdpOption::TargetLinkLayer(mac(n));
        crate::frames::nd(n, ("fe80::9", own), message, vec![option])
    };
    plane.frame(A, Why::Nd, nd("fe80::1", 3));
    plane.frame(B, Why::Nd, nd("fe80::1", 4));
    assert_eq!(plane.ways("2001:db8:8::1"), [(A, mac(3))]);
    assert_eq!(plane.ways("192.0.2.1"), [(B, mac(4))]);
    assert!(plane.router.neighbours(plane.now).all(|n| n.is_router && n.is_gateway));
}

#[test]
fn a_scan_of_a_connected_prefix_stays_within_its_bounds() {
    let limits = Limits { neighbours: 1000, incomplete: 200, ..Limits::default() };
    let mut plane = Plane::with(limits);
    plane.up(A, &["10.1.0.1/16", "2001:db8:1::1/64"]);
    plane.up(B, &["10.0.2.1/24"]);
    plane.set(Source::Kernel, "192.0.2.0/24", via(A, "10.1.0.2"));
    plane.answer(A, "10.1.0.2", 2);
    plane.frame(B, Why::Arp, arp(B, Operation::REQUEST, ("10.0.2.9", 9), "10.0.2.1"));
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.1.0.9", 5), "10.1.0.1"));
    let used = plane.neighbour(A, "10.1.0.9").unwrap();
    plane.input(Input::Used(vec![used]));
    let before = plane.sent_count;
    // 10,000 packets in a second, to as many addresses of both families.
    let mut answered = 0;
    for n in 0..10_000u32 {
        plane.now = plane.now + std::time::Duration::from_micros(100);
        let dst = std::net::Ipv4Addr::from(0x0A01_1000 + n).to_string();
        let dst6 = format!("2001:db8:1::{:x}:{:x}", n / 100 + 1, n);
        let dst = if n % 2 == 0 { dst } else { dst6 };
        let src = if n % 2 == 0 { "10.0.2.9" } else { "2001:db8:2::9" };
        plane.frame(B, Why::Unresolved(None), packet(B, 9, &udp(src, &dst, &[0; 1000])));
        // A live station answers within a millisecond, and is still resolved.
        if n % 500 == 0 {
            let who = format!("10.1.200.{}", n / 500);
            plane.frame(B, Why::Unresolved(None), packet(B, 9, &udp("10.0.2.9", &who, b"x")));
            if plane.said().iter().any(|said| said.contains(&format!("who-has {who} "))) {
                plane.answer(A, &who, 6);
                answered += usize::from(plane.ways(&who) == [(A, mac(6))]);
            }
        }
        assert!(plane.router.neighbours(plane.now).count() <= 1000);
    }
    assert!(answered >= 1, "no station was found during the scan");
    let sizes = plane.router.sizes();
    let incomplete = plane.router.neighbours(plane.now).filter(|n| n.state == State::Incomplete);
    assert!(incomplete.count() <= 200 && sizes.queued_bytes <= limits.queue_bytes);
    assert!(plane.refused(Refusal::RequestsLimited) > 5_000);
    let asked = plane.sent_count - before;
    assert!(asked <= 1_200, "{asked} questions in a second");
    for (addr, way) in [("192.0.2.1", (A, mac(2))), ("10.0.2.9", (B, mac(9)))] {
        assert_eq!(plane.ways(addr), [way], "{addr} suffered");
    }
    assert_eq!(plane.ways("10.1.0.9"), [(A, mac(5))]);
}

#[test]
fn a_flood_of_invented_neighbours_ends_at_the_table() {
    let mut plane = Plane::with(Limits { neighbours: 100, ..Limits::default() });
    plane.up(A, &["10.1.0.1/16"]);
    plane.up(B, &["10.0.2.1/24"]);
    plane.frame(B, Why::Arp, arp(B, Operation::REQUEST, ("10.0.2.9", 9), "10.0.2.1"));
    plane.set(Source::Kernel, "192.0.2.0/24", via(A, "10.1.0.2"));
    for n in 0..5_000u32 {
        let sender = std::net::Ipv4Addr::from(0x0A01_1000 + n).to_string();
        plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, (&sender, 7), "10.1.0.1"));
        assert!(plane.router.neighbours(plane.now).count() <= 100);
    }
    assert_eq!(plane.ways("10.0.2.9"), [(B, mac(9))], "another interface's neighbour");
    assert!(plane.neighbour(A, "10.1.0.2").is_some(), "a gateway");
    assert_eq!(plane.fib.len(), plane.router.sizes().prefixes);
    assert_eq!(plane.adjacencies.len(), 99);
    // When gateways occupy the whole table, a further one finds no room, and its route is not used.
    for n in 0..120 {
        plane.set(Source::Kernel, &format!("172.16.{n}.0/24"), via(A, &format!("10.1.1.{n}")));
    }
    assert!(plane.refused(Refusal::NeighboursFull) > 0);
    assert!(plane.router.neighbours(plane.now).count() <= 100);
    assert_eq!(plane.lookup("172.16.119.1"), None);
}

#[test]
fn a_gateway_without_room_is_used_once_there_is_some() {
    let limits = Limits { neighbours: 4, ..Limits::default() };
    let mut plane = Plane::with(limits);
    plane.up(A, &["10.0.1.1/24"]);
    let route = |plane: &mut Plane, to: &str, metric, route| {
        let (source, prefix) = (Source::Static, crate::plane::prefix(to));
        plane.input(Input::Route { source, prefix, metric, route });
    };
    for n in 1..=5 {
        let gateway = format!("10.0.1.{}", 100 + n);
        route(&mut plane, &format!("192.0.{n}.0/24"), 0, Some(via(A, &gateway)));
        // As an alternative where the other gateway has no room.
        route(&mut plane, &format!("192.0.{n}.0/24"), 1, Some(via(A, "10.0.1.101")));
    }
    for n in 1..=4 {
        plane.answer(A, &format!("10.0.1.{}", 100 + n), 100 + n);
    }
    assert_eq!(plane.ways("192.0.4.1"), [(A, mac(104))]);
    assert_eq!(plane.ways("192.0.5.1"), [(A, mac(101))], "the second best");
    let changes = plane.fib_changes;
    plane.pass_ms(6_000);
    assert_eq!(plane.fib_changes, changes, "no room was made");
    route(&mut plane, "192.0.2.0/24", 0, None);
    plane.pass_ms(6_000);
    plane.answer(A, "10.0.1.105", 105);
    assert_eq!(plane.ways("192.0.5.1"), [(A, mac(105))]);
}

#[test]
fn removing_an_interface_removes_its_neighbours() {
    let mut plane = Plane::two();
    for (addr, n) in [("10.0.1.7", 7), ("10.0.1.8", 8)] {
        plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, (addr, n), "10.0.1.1"));
    }
    plane.frame(B, Why::Arp, arp(B, Operation::REQUEST, ("10.0.2.7", 7), "10.0.2.1"));
    plane.want("10.0.1.99", "x");
    // With another prefix, the neighbours in the old one are removed.
    plane.up(A, &["10.0.1.1/29"]);
    assert!(plane.neighbour(A, "10.0.1.7").is_none() && plane.neighbour(A, "10.0.1.8").is_none());
    plane.down(A);
    assert_eq!(plane.router.neighbours(plane.now).count(), 1);
    assert_eq!(plane.adjacencies.len(), 1);
    assert_eq!(plane.router.sizes().queued_bytes, 0);
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.7", 7), "10.0.1.1"));
    assert_eq!(plane.refused(Refusal::NoInterface), 1);
}

#[test]
fn waiting_bytes_are_bounded_and_the_oldest_dropped() {
    let limits = Limits { queue_bytes: 10_000, ..Limits::default() };
    let mut plane = Plane::with(limits);
    plane.up(A, &["10.0.1.1/24"]);
    plane.up(B, &["10.0.2.1/24"]);
    for n in 10..60 {
        let frame = packet(B, 9, &udp("10.0.2.9", &format!("10.0.1.{n}"), &[0; 958]));
        assert_eq!(frame.len(), 1000);
        plane.frame(B, Why::Unresolved(None), frame);
        assert!(plane.router.sizes().queued_bytes <= 10_000);
    }
    assert_eq!(plane.refused(Refusal::QueueFull), 40);
    plane.answer(A, "10.0.1.12", 2);
    assert!(plane.again.is_empty());
    plane.answer(A, "10.0.1.59", 2);
    assert_eq!(plane.again.len(), 1);
}

#[test]
fn a_neighbour_that_another_source_tells_of_is_neither_asked_nor_replaced_by_messages() {
    let mut plane = Plane::two();
    let tell = |plane: &mut Plane, mac: Option<u8>| {
        let (interface, address) = (A, ip("10.0.1.7"));
        plane.input(Input::Neighbour { interface, address, mac: mac.map(self::mac) });
    };
    tell(&mut plane, Some(7));
    let known = |plane: &Plane| {
        let mut all = plane.router.neighbours(plane.now);
        all.find(|n| n.address == ip("10.0.1.7")).map(|n| (n.state, n.mac))
    };
    let permanent = |n| Some((State::Permanent, Some(mac(n))));
    assert_eq!(known(&plane), permanent(7));
    let sent = plane.sent.len();
    // Longer than any neighbour stays unverified.
    plane.pass_ms(1_800_000);
    assert_eq!(plane.sent.len(), sent);
    plane.frame(A, Why::Arp, arp(A, Operation::REPLY, ("10.0.1.7", 8), "10.0.1.1"));
    assert_eq!(known(&plane), permanent(7));
    tell(&mut plane, Some(8));
    assert_eq!(known(&plane), permanent(8));
    assert_eq!(plane.adjacencies.len(), 1);
    tell(&mut plane, None);
    assert_eq!((known(&plane), plane.adjacencies.len()), (None, 0));
    // One that is on no link of the interface is refused.
    let (interface, address) = (A, ip("192.0.2.1"));
    plane.input(Input::Neighbour { interface, address, mac: Some(mac(9)) });
    assert_eq!(plane.refused(Refusal::NotOnLink), 1);
}

/// The effect of a message or of time on one unused IPv6 neighbour.
#[derive(Clone, Copy, Debug)]
enum Step {
    Advert { solicited: bool, overrides: bool, link: Option<u8> },
    Question { link: Option<u8> },
    Wanted,
    Minute,
}

fn step() -> impl Strategy<Value = Step> {
    let link = || prop_oneof![Just(None), Just(Some(7)), Just(Some(8))];
    prop_oneof![
        4 => (any::<bool>(), any::<bool>(), link())
            .prop_map(|(solicited, overrides, link)| Step::Advert { solicited, overrides, link }),
        2 => link().prop_map(|link| Step::Question { link }),
        2 => Just(Step::Wanted),
        1 => Just(Step::Minute),
    ]
}

/// RFC 4861, appendix C and 7.2.5, written from the text: the state and link address after a step.
fn rfc(known: Option<(State, Option<u8>)>, step: Step) -> Option<(State, Option<u8>)> {
    use State::{Delay, Incomplete, Probe, Reachable, Stale};
    match (step, known) {
        // A question with a link address creates or updates an entry; the same address changes
        // nothing, another one makes it stale.
        (Step::Question { link: Some(n) }, Some((state, Some(old)))) if n == old => {
            Some((state, Some(old)))
        }
        (Step::Question { link: Some(n) }, _) => Some((Stale, Some(n))),
        (Step::Question { link: None }, known) => known,
        (Step::Advert { .. }, None) => None,
        (Step::Advert { link: None, .. }, Some((Incomplete, mac))) => Some((Incomplete, mac)),
        (Step::Advert { solicited, link: Some(n), .. }, Some((Incomplete, _))) => {
            // Waiting packets are sent, so a stale neighbour is in use at once: delay.
            Some((if solicited { Reachable } else { Delay }, Some(n)))
        }
        (Step::Advert { solicited, overrides, link }, Some((state, mac))) => {
            let is_other = link.is_some() && link != mac;
            match (solicited, overrides, is_other) {
                (_, false, true) if state == Reachable => Some((Stale, mac)),
                (_, false, true) => Some((state, mac)),
                (true, _, false) => Some((Reachable, mac)),
                (true, true, true) => Some((Reachable, link)),
                (false, true, true) => Some((Stale, link)),
                (false, _, false) => Some((state, mac)),
            }
        }
        (Step::Wanted, None) => Some((Incomplete, None)),
        (Step::Wanted, Some((Stale, mac))) => Some((Delay, mac)),
        (Step::Wanted, known) => known,
        (Step::Minute, Some((Reachable | Stale, mac))) => Some((Stale, mac)),
        (Step::Minute, Some((Incomplete | Delay | Probe | State::Failed, _))) => None,
        (Step::Minute, None) => None,
        (Step::Minute, Some((State::Permanent, _))) => unreachable!("no source tells of it"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn messages_change_a_neighbour_as_rfc_4861_says(steps in prop::collection::vec(step(), 1..40)) {
        let addr = "2001:db8:1::7";
        let mut plane = Plane::two();
        let mut model = None;
        let mut minutes = 0;
        for step in steps {
            match step {
                Step::Advert { solicited, overrides, link } => {
                    plane.frame(A, Why::Nd, advert(addr, (solicited, overrides), link));
                }
                Step::Question { link } => {
                    let own = "2001:db8:1::1";
                    plane.frame(A, Why::Nd, solicit(addr, own, own, link));
                }
                Step::Wanted => drop(plane.want(addr, "x")),
                // After eight minutes a stale one would be verified.
                Step::Minute if minutes == 7 => continue,
                Step::Minute => {
                    minutes += 1;
                    plane.pass_ms(60_000);
                }
            }
            // A question that releases waiting packets puts the neighbour to use.
            let is_freed = matches!((step, model), (Step::Question { link: Some(_) },
                Some((State::Incomplete, _))));
            model = rfc(model, step);
            if is_freed {
                model = model.map(|(_, mac)| (State::Delay, mac));
            }
            let found = plane.router.neighbours(plane.now).find(|n| n.address == ip(addr));
            let found = found.map(|n| (n.state, n.mac.map(|mac| mac.0[5])));
            prop_assert_eq!(found, model, "after {:?}", step);
        }
    }
}

/// So that a field recording can be analysed elsewhere.
#[test]
fn inputs_can_be_recorded_and_played_back() {
    let inputs = [
        Input::Interface { id: A, facts: Some(facts(A, &["10.0.1.1/24"])) },
        Input::Route {
            source: Source::Static,
            prefix: "192.0.2.0/24".parse().unwrap(),
            metric: 7,
            route: Some(via(A, "10.0.1.2")),
        },
        Input::Frame {
            interface: A,
            why: Why::Error(Fault::TooBig { mtu: 1400 }),
            frame: packet(A, 7, &icmp("10.0.1.7", "192.0.2.1", 8, [0; 4], &[])),
        },
        Input::Begin(Source::Kernel),
        Input::Used(vec![NeighbourId(0)]),
        Input::Frame {
            interface: A,
            why: Why::Unresolved(Some(NeighbourId(0))),
            frame: packet(
                A,
                7,
                &ip_packet("10.0.1.7", "192.0.2.1", plexus_wire::Protocol(99), b"x"),
            ),
        },
        Input::Tick,
    ];
    let text = serde_json::to_string(&inputs).unwrap();
    let again: Vec<Input> = serde_json::from_str(&text).unwrap();
    assert_eq!(again, inputs);
    let run = |inputs: &[Input]| -> Vec<Output> {
        let mut router = plexus_control::router::Router::new(Limits::default(), [3; 32]);
        let mut outputs = Vec::new();
        for (n, input) in inputs.iter().enumerate() {
            router.handle(Time::from_secs(n as u64), input.clone());
            outputs.extend(std::iter::from_fn(|| router.poll_output()));
        }
        outputs
    };
    assert_eq!(run(&inputs), run(&again));
}
