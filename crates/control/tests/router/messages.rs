//! The router's own messages: ICMP errors, and answers where no kernel gives them.

use plexus_control::router::{Fault, Limits, Refusal, Route, Source, Why};
use plexus_wire::checksum::Sum;
use plexus_wire::{MacAddr, Protocol, icmpv4, icmpv6, ipv4, ipv6, tcp};

use crate::frames::{icmp, ip_packet, packet, udp, v4, v6};
use crate::plane::{A, B, Plane, arp, facts, ip, mac, own_mac, via};

/// Both hosts' link addresses are known: 10.0.1.7 and 2001:db8:1::7 on A (station 7), and a
/// gateway to everywhere on B.
fn world() -> Plane {
    world_of(Plane::two())
}

fn world_of(mut plane: Plane) -> Plane {
    use plexus_wire::arp::Operation;
    plane.frame(A, Why::Arp, arp(A, Operation::REQUEST, ("10.0.1.7", 7), "10.0.1.1"));
    let own = "2001:db8:1::1";
    plane.frame(A, Why::Nd, crate::frames::solicit("2001:db8:1::7", own, own, Some(7)));
    plane.frame(A, Why::Nd, crate::frames::solicit("fe80::7", "fe80::1", own, Some(7)));
    plane.set(Source::Kernel, "0.0.0.0/0", via(B, "10.0.2.2"));
    plane.answer(B, "10.0.2.2", 2);
    plane.sent.clear();
    plane
}

/// The only packet sent, to station `n` on A, with its checksums verified.
fn sent(plane: &mut Plane, n: u8) -> Vec<u8> {
    let [(interface, frame)] = &std::mem::take(&mut plane.sent)[..] else {
        panic!("one answer was expected")
    };
    assert_eq!((*interface, &frame[..6]), (A, &mac(n).0[..]));
    assert_eq!(frame[6..12], own_mac(A).0);
    let packet = frame[14..].to_vec();
    if packet[0] >> 4 == 4 {
        let view = ipv4::Packet::new_checked(&packet[..]).unwrap();
        assert!(view.checksum_ok() && view.total_len() == packet.len());
        if view.protocol() == Protocol::ICMPV4 {
            assert!(icmpv4::Packet::new_checked(view.payload()).unwrap().checksum_ok());
        }
    } else {
        let view = ipv6::Packet::new_checked(&packet[..]).unwrap();
        assert_eq!(ipv6::HEADER_LEN + view.payload_len(), packet.len());
        if view.next_header() == Protocol::ICMPV6 {
            let len = view.payload_len() as u32;
            let sum = Sum::pseudo_v6(view.src(), view.dst(), Protocol::ICMPV6, len);
            assert!(icmpv6::Packet::new_checked(view.payload()).unwrap().checksum_ok(sum));
        }
    }
    packet
}

#[test]
fn the_sender_of_a_dropped_ipv4_packet_gets_an_error() {
    let mut plane = world();
    let lost = udp("10.0.1.7", "192.0.2.1", &[0xAB; 1000]);
    for (fault, kind, code, rest) in [
        (Fault::TtlExpired, 11, 0, [0; 4]),
        (Fault::NoRoute, 3, 0, [0; 4]),
        (Fault::Unreachable, 3, 1, [0; 4]),
        (Fault::AddressUnreachable, 3, 1, [0; 4]),
        (Fault::Prohibited, 3, 13, [0; 4]),
        (Fault::TooBig { mtu: 1400 }, 3, 4, [0, 0, 5, 120]),
        (Fault::ParameterProblem { code: 0, pointer: 20 }, 12, 0, [20, 0, 0, 0]),
    ] {
        plane.fault(A, fault, packet(A, 7, &lost));
        let error = sent(&mut plane, 7);
        let view = ipv4::Packet::new_checked(&error[..]).unwrap();
        assert_eq!((view.src(), view.dst()), (v4("10.0.1.1"), v4("10.0.1.7")));
        assert_eq!((view.ttl(), view.dscp()), (64, 0x30), "{fault:?}");
        let icmp = icmpv4::Packet::new_checked(view.payload()).unwrap();
        assert_eq!((icmp.kind(), icmp.code(), icmp.rest()), (kind, code, rest), "{fault:?}");
        // As much of the received packet as fits into 576 bytes (RFC 1812, 4.3.2.3).
        assert_eq!(error.len(), 576);
        assert_eq!(icmp.payload(), &lost[..548]);
    }
    // A short packet is quoted entirely, without padding.
    let short = udp("10.0.1.7", "192.0.2.1", b"x");
    let mut frame = packet(A, 7, &short);
    frame.resize(60, 0xEE);
    plane.fault(A, Fault::TtlExpired, frame);
    assert_eq!(sent(&mut plane, 7)[28..], short);
}

#[test]
fn the_sender_of_a_dropped_ipv6_packet_gets_an_error() {
    let mut plane = world();
    let lost = udp("2001:db8:1::7", "2001:db8:77::1", &[0xAB; 1400]);
    for (fault, kind, code, rest) in [
        (Fault::TtlExpired, 3, 0, 0),
        (Fault::NoRoute, 1, 0, 0),
        (Fault::Prohibited, 1, 1, 0),
        (Fault::BeyondScope, 1, 2, 0),
        (Fault::AddressUnreachable, 1, 3, 0),
        (Fault::TooBig { mtu: 1400 }, 2, 0, 1400),
        (Fault::TooBig { mtu: 100 }, 2, 0, 1280),
        (Fault::ParameterProblem { code: 1, pointer: 6 }, 4, 1, 6),
    ] {
        plane.fault(A, fault, packet(A, 7, &lost));
        let error = sent(&mut plane, 7);
        let view = ipv6::Packet::new_checked(&error[..]).unwrap();
        assert_eq!((view.src(), view.dst()), (v6("2001:db8:1::1"), v6("2001:db8:1::7")));
        let icmp = icmpv6::Packet::new_checked(view.payload()).unwrap();
        assert_eq!((icmp.kind(), icmp.code()), (kind, code), "{fault:?}");
        assert_eq!(u32::from_be_bytes(icmp.rest()), rest);
        assert_eq!(error.len(), 1280, "RFC 4443, 2.4 (c)");
        assert_eq!(icmp.payload(), &lost[..1232]);
    }
    // To a link-local sender, from an address of the same scope.
    let near = udp("fe80::7", "2001:db8:77::1", b"x");
    plane.fault(A, Fault::BeyondScope, packet(A, 7, &near));
    let error = sent(&mut plane, 7);
    let view = ipv6::Packet::new_checked(&error[..]).unwrap();
    assert_eq!((view.src(), view.dst()), (v6("fe80::1"), v6("fe80::7")));
}

#[test]
fn an_error_needs_only_the_beginning_of_the_packet() {
    let mut plane = world();
    let v4 = udp("10.0.1.7", "192.0.2.1", &[0xAB; 1472]);
    let v6 = udp("2001:db8:1::7", "2001:db8:77::1", &[0xAB; 1452]);
    for (lost, error_len, quoted) in [(v4, 576, 548), (v6, 1280, 1232)] {
        let frame = packet(A, 7, &lost);
        plane.fault(A, Fault::TooBig { mtu: 1400 }, frame.clone());
        let whole = sent(&mut plane, 7);
        assert_eq!(whole.len(), error_len);
        for len in [14 + 1280, 14 + quoted] {
            plane.fault(A, Fault::TooBig { mtu: 1400 }, frame[..len].to_vec());
            let error = sent(&mut plane, 7);
            assert_eq!(error, whole, "{len}");
        }
        plane.fault(A, Fault::TooBig { mtu: 1400 }, frame[..14 + quoted - 1].to_vec());
        assert_eq!(plane.sent, []);
    }
}

#[test]
fn an_error_about_a_packet_from_afar_goes_to_the_gateway() {
    let mut plane = world();
    plane.fault(A, Fault::TtlExpired, packet(A, 7, &udp("198.51.100.1", "192.0.2.1", b"x")));
    let (interface, frame) = plane.sent.pop().unwrap();
    assert_eq!((interface, &frame[..6]), (B, &mac(2).0[..]));
    let view = ipv4::Packet::new_checked(&frame[14..]).unwrap();
    assert_eq!(view.src(), v4("10.0.1.1"), "where the packet came in, for a traceroute");
    // An unknown neighbour is asked for, and the error follows.
    plane.fault(A, Fault::TtlExpired, packet(A, 7, &udp("10.0.1.55", "192.0.2.1", b"x")));
    assert!(plane.said()[0].contains("who-has 10.0.1.55"));
    plane.answer(A, "10.0.1.55", 5);
    assert!(plane.said()[0].contains("time exceeded"));
    // Without a route back there is no error.
    plane.unset(Source::Kernel, "0.0.0.0/0");
    plane.fault(A, Fault::TtlExpired, packet(A, 7, &udp("198.51.100.1", "192.0.2.1", b"x")));
    assert_eq!(plane.refused(Refusal::NoWayBack), 1);
}

#[test]
fn some_packets_never_cause_an_error() {
    let mut plane = world();
    let mut refuse = |frame: Vec<u8>, refusal| {
        let before = plane.refused(refusal);
        plane.fault(A, Fault::TtlExpired, frame);
        assert_eq!(plane.said(), [""; 0], "{refusal:?}");
        assert_eq!(plane.refused(refusal), before + 1, "{refusal:?}");
    };
    for src in [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "10.0.1.255",
        "10.0.2.0",
        "10.0.2.1",
    ] {
        refuse(packet(A, 7, &udp(src, "192.0.2.1", b"x")), Refusal::BadSource);
    }
    for src in ["::", "::1", "ff02::1", "2001:db8:2::1", "::ffff:10.0.1.7", "2001:db8:2::"] {
        refuse(packet(A, 7, &udp(src, "2001:db8:77::1", b"x")), Refusal::BadSource);
    }
    for dst in ["224.0.0.9", "255.255.255.255", "10.0.2.255", "0.0.0.0"] {
        refuse(packet(A, 7, &udp("10.0.1.7", dst, b"x")), Refusal::IsGroup);
    }
    refuse(packet(A, 7, &udp("2001:db8:1::7", "ff0e::1", b"x")), Refusal::IsGroup);
    for kind in [3, 4, 5, 11, 12, 200] {
        let error = icmp("10.0.1.7", "192.0.2.1", kind, [0; 4], &[0; 28]);
        refuse(packet(A, 7, &error), Refusal::IsError);
    }
    for kind in [1, 2, 3, 4, 100, 127, 137] {
        let error = icmp("2001:db8:1::7", "2001:db8:77::1", kind, [0; 4], &[0; 48]);
        refuse(packet(A, 7, &error), Refusal::IsError);
    }
    let headless = ip_packet("10.0.1.7", "192.0.2.1", Protocol::ICMPV4, &[]);
    refuse(packet(A, 7, &headless), Refusal::IsError);
    for group in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5E, 0, 0, 9])] {
        let mut frame = packet(A, 7, &udp("10.0.1.7", "192.0.2.1", b"x"));
        frame[..6].copy_from_slice(&group.0);
        refuse(frame, Refusal::LinkGroup);
        let mut frame = packet(A, 7, &udp("2001:db8:1::7", "2001:db8:77::1", b"x"));
        frame[..6].copy_from_slice(&group.0);
        refuse(frame, Refusal::LinkGroup);
    }
    let mut later = udp("10.0.1.7", "192.0.2.1", b"x");
    later[6..8].copy_from_slice(&[0, 1]);
    ipv4::Packet::new_checked(&mut later[..]).unwrap().fill_checksum();
    refuse(packet(A, 7, &later), Refusal::LaterFragment);
    let mut damaged = udp("10.0.1.7", "192.0.2.1", b"x");
    damaged[8] = 1;
    refuse(packet(A, 7, &damaged), Refusal::Checksum);
    refuse(packet(A, 7, &udp("10.0.1.7", "192.0.2.1", b"x"))[..30].to_vec(), Refusal::Malformed);
    // A query is not an error; packet too big may be about a group's packet (RFC 4443, 2.4).
    plane.fault(A, Fault::TtlExpired, packet(A, 7, &icmp("10.0.1.7", "192.0.2.1", 8, [0; 4], b"")));
    assert_eq!(plane.said().len(), 1);
    let group = packet(A, 7, &udp("2001:db8:1::7", "ff0e::1", &[0; 1400]));
    plane.fault(A, Fault::TooBig { mtu: 1300 }, group);
    assert_eq!(plane.said().len(), 1);
}

#[test]
fn errors_are_limited_in_all_and_by_interface() {
    let limits = Limits { errors_per_s: 100, interface_errors_per_s: 50, ..Limits::default() };
    let mut plane = Plane::with(limits);
    for (id, n) in [(A, 1), (B, 2)] {
        let v6 = format!("2001:db8:{n}::1/64");
        plane.up(id, &[&format!("10.0.{n}.1/24"), &v6, "fe80::1/64"]);
    }
    let mut plane = world_of(plane);
    let mut count = |id, ms: u64| {
        for _ in 0..ms {
            plane.pass_ms(1);
            plane.fault(id, Fault::TtlExpired, packet(A, 7, &udp("10.0.1.7", "192.0.2.1", b"x")));
        }
        plane.said().iter().filter(|said| said.contains("time exceeded")).count()
    };
    // 50 a second after a burst of 5, of 1000 packets.
    let (a, b) = (count(A, 1000), count(B, 1000));
    assert!((54..=56).contains(&a) && (54..=56).contains(&b), "{a} and {b}");
    assert_eq!(plane.refused(Refusal::ErrorsLimited), 2000 - (a + b) as u64);
}

#[test]
fn pings_are_answered() {
    let mut plane = world();
    let mut request = icmp("10.0.1.7", "10.0.1.1", 8, [0x12, 0x34, 0, 9], &[0x5A; 1400]);
    request[1] = 0xB8;
    request[4..6].copy_from_slice(&[0xBE, 0xEF]);
    request[6] = 0;
    request[8] = 3;
    ipv4::Packet::new_checked(&mut request[..]).unwrap().fill_checksum();
    plane.frame(A, Why::Local, packet(A, 7, &request));
    let reply = sent(&mut plane, 7);
    let view = ipv4::Packet::new_checked(&reply[..]).unwrap();
    assert_eq!((view.src(), view.dst(), view.ttl()), (v4("10.0.1.1"), v4("10.0.1.7"), 64));
    assert_eq!((view.dscp(), view.dont_fragment(), view.identification()), (46, false, 0xBEEF));
    let icmp_reply = icmpv4::Packet::new_checked(view.payload()).unwrap();
    assert_eq!((icmp_reply.kind(), icmp_reply.rest()), (0, [0x12, 0x34, 0, 9]));
    assert_eq!(icmp_reply.payload(), [0x5A; 1400]);
    // Another interface's address is ours too; its subnet's anycast address answers as itself.
    for (dst, own) in [
        ("2001:db8:1::1", "2001:db8:1::1"),
        ("2001:db8:2::1", "2001:db8:2::1"),
        ("2001:db8:1::", "2001:db8:1::1"),
    ] {
        let request = icmp("2001:db8:1::7", dst, 128, [1, 2, 3, 4], b"data");
        plane.frame(A, Why::Local, packet(A, 7, &request));
        let reply = sent(&mut plane, 7);
        let view = ipv6::Packet::new_checked(&reply[..]).unwrap();
        assert_eq!((view.src(), view.dst()), (v6(own), v6("2001:db8:1::7")));
        assert_eq!(view.payload()[0], 129);
        assert_eq!(view.payload()[4..], [1, 2, 3, 4, b'd', b'a', b't', b'a']);
    }
}

#[test]
fn closed_ports_and_unknown_protocols_are_refused() {
    let mut plane = world();
    for (src, dst, kinds) in [
        ("10.0.1.7", "10.0.1.1", [(3, 3), (3, 2)]),
        ("2001:db8:1::7", "2001:db8:1::1", [(1, 4), (4, 1)]),
    ] {
        let header = if src.contains(':') { 40 } else { 20 };
        let strange = ip_packet(src, dst, Protocol(99), b"what");
        for (request, kind) in [udp(src, dst, b"probe"), strange].iter().zip(kinds) {
            plane.frame(A, Why::Local, packet(A, 7, request));
            let error = sent(&mut plane, 7);
            assert_eq!((error[header], error[header + 1]), kind);
            assert_eq!(error[header + 8..], request[..]);
        }
    }
    // RFC 4443, 3.4: the pointer is at the unknown number.
    let options = [99, 0, 1, 4, 0, 0, 0, 0, b'x'];
    let strange = ip_packet("2001:db8:1::7", "2001:db8:1::1", Protocol(60), &options);
    plane.frame(A, Why::Local, packet(A, 7, &strange));
    assert_eq!(sent(&mut plane, 7)[44..48], [0, 0, 0, 40]);
    let none = ip_packet("2001:db8:1::7", "2001:db8:1::1", Protocol::NO_NEXT_HEADER, b"");
    plane.frame(A, Why::Local, packet(A, 7, &none));
    assert_eq!(plane.said(), [""; 0]);
}

#[test]
fn a_closed_tcp_port_resets() {
    let mut plane = world();
    for (src, dst) in [("10.0.1.7", "10.0.1.1"), ("2001:db8:1::7", "2001:db8:1::1")] {
        let segment = |flags| {
            let mut bytes = vec![0; tcp::HEADER_LEN + 3];
            let repr = tcp::Repr {
                src_port: 4000,
                dst_port: 179,
                seq: u32::MAX,
                ack: 77,
                flags,
                window: 1,
                urgent: 0,
                options: Default::default(),
            };
            repr.emit(&mut bytes).unwrap();
            ip_packet(src, dst, Protocol::TCP, &bytes)
        };
        let header = if src.contains(':') { 40 } else { 20 };
        plane.frame(A, Why::Local, packet(A, 7, &segment(tcp::Flags::SYN)));
        let reply = sent(&mut plane, 7);
        let view = tcp::Segment::new_checked(&reply[header..]).unwrap();
        assert_eq!((view.src_port(), view.dst_port(), view.seq()), (179, 4000, 0));
        // The SYN and three bytes are acknowledged, past the wrap.
        assert_eq!((view.ack(), view.flags().0), (3, tcp::Flags::RST.0 | tcp::Flags::ACK.0));
        let sum = Sum::pseudo((ip(dst), ip(src)), Protocol::TCP, 20).unwrap();
        assert!(view.checksum_ok(sum));
        plane.frame(A, Why::Local, packet(A, 7, &segment(tcp::Flags::ACK)));
        let reply = sent(&mut plane, 7);
        let view = tcp::Segment::new_checked(&reply[header..]).unwrap();
        assert_eq!((view.seq(), view.flags()), (77, tcp::Flags::RST));
        plane.frame(A, Why::Local, packet(A, 7, &segment(tcp::Flags::RST)));
        assert_eq!(plane.said(), [""; 0], "a reset is not answered");
    }
}

#[test]
fn unsupported_packets_are_dropped_and_counted() {
    let mut plane = world();
    let refuse = |plane: &mut Plane, frame: Vec<u8>, refusal| {
        let before = plane.refused(refusal);
        plane.frame(A, Why::Local, frame);
        assert_eq!(plane.said(), [""; 0], "{refusal:?}");
        assert_eq!(plane.refused(refusal), before + 1, "{refusal:?}");
    };
    let ping = || icmp("10.0.1.7", "10.0.1.1", 8, [0; 4], &[0; 16]);
    let mut first = ping();
    first[6] = 0x20;
    ipv4::Packet::new_checked(&mut first[..]).unwrap().fill_checksum();
    refuse(&mut plane, packet(A, 7, &first), Refusal::Fragment);
    let fragment = [58, 0, 0, 1, 0, 0, 0, 1, 128, 0, 0, 0, 0, 0, 0, 0];
    let first = ip_packet("2001:db8:1::7", "2001:db8:1::1", Protocol::FRAGMENT, &fragment);
    refuse(&mut plane, packet(A, 7, &first), Refusal::Fragment);
    let segments = [58, 0, 0, 1, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0];
    let routed = ip_packet("2001:db8:1::7", "2001:db8:1::1", Protocol::ROUTING, &segments);
    refuse(&mut plane, packet(A, 7, &routed), Refusal::SourceRoute);
    let repr = ipv4::Repr {
        options: [131, 7, 4, 10, 0, 9, 9, 0].into_iter().collect(),
        ..ipv4::Repr::new(v4("10.0.1.7"), v4("10.0.1.1"), Protocol::UDP, 0)
    };
    let mut routed = vec![0; repr.buffer_len()];
    repr.emit(&mut routed).unwrap();
    refuse(&mut plane, packet(A, 7, &routed), Refusal::SourceRoute);
    let mut damaged = ping();
    *damaged.last_mut().unwrap() ^= 1;
    refuse(&mut plane, packet(A, 7, &damaged), Refusal::Checksum);
    refuse(&mut plane, packet(A, 7, &udp("10.0.1.7", "10.0.1.8", b"")), Refusal::NotForUs);
    refuse(
        &mut plane,
        packet(A, 7, &icmp("10.0.1.7", "10.0.1.1", 13, [0; 4], b"")),
        Refusal::NotSpoken,
    );
    refuse(
        &mut plane,
        packet(A, 7, &icmp("10.0.1.255", "10.0.1.1", 8, [0; 4], b"")),
        Refusal::BadSource,
    );
    refuse(
        &mut plane,
        packet(A, 7, &icmp("10.0.1.7", "10.0.1.255", 8, [0; 4], b"")),
        Refusal::IsGroup,
    );
    let mut everybody = packet(A, 7, &ping());
    everybody[..6].fill(0xFF);
    refuse(&mut plane, everybody, Refusal::LinkGroup);
    // A reply that the link cannot carry is not sent.
    let mut narrow = facts(A, &["10.0.1.1/24"]);
    narrow.mtu = 100;
    plane.input(plexus_control::router::Input::Interface { id: A, facts: Some(narrow) });
    plane.said();
    let ping = icmp("10.0.1.7", "10.0.1.1", 8, [0; 4], &[0; 200]);
    refuse(&mut plane, packet(A, 7, &ping), Refusal::OwnTooLong);
}

#[test]
fn the_kernels_ports_are_not_refused_on_another_interface() {
    let mut plane = world();
    let mut kernel = facts(B, &["10.0.2.1/24"]);
    kernel.kernel = true;
    plane.input(plexus_control::router::Input::Interface { id: B, facts: Some(kernel) });
    plane.said();
    plane.frame(A, Why::Local, packet(A, 7, &udp("10.0.1.7", "10.0.2.1", b"x")));
    assert_eq!(plane.refused(Refusal::KernelAnswers), 1);
    assert_eq!(plane.said(), [""; 0]);
    plane.frame(A, Why::Local, packet(A, 7, &icmp("10.0.1.7", "10.0.2.1", 8, [0; 4], b"")));
    assert_eq!(plane.said().len(), 1);
}

#[test]
fn replies_are_limited() {
    let mut plane = world();
    let ping = packet(A, 7, &icmp("10.0.1.7", "10.0.1.1", 8, [0; 4], b"x"));
    for _ in 0..1000 {
        plane.frame(A, Why::Local, ping.clone());
    }
    let count = plane.said().len();
    assert_eq!(count, 100, "a tenth of a second's at once");
    assert_eq!(plane.refused(Refusal::RepliesLimited), 900);
}

#[test]
fn a_ping_is_answered_along_the_routes() {
    let mut plane = world();
    plane.frame(A, Why::Local, packet(A, 7, &icmp("198.51.100.1", "10.0.1.1", 8, [0; 4], b"")));
    let (interface, frame) = plane.sent.pop().unwrap();
    assert_eq!((interface, &frame[..6]), (B, &mac(2).0[..]));
    plane.set(Source::Static, "198.51.100.0/24", Route::Blackhole);
    plane.frame(A, Why::Local, packet(A, 7, &icmp("198.51.100.1", "10.0.1.1", 8, [0; 4], b"")));
    assert_eq!(plane.refused(Refusal::NoWayBack), 1);
}
