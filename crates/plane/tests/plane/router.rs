//! The router as its neighbours see it: frames in, frames out, and what the control plane gets.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{frame, mac, tagged};
use crate::router_rig::{
    BLACKHOLE, GLEAN, LOCAL, PROHIBITED, Router, UNREACHABLE, VLANS, fix_sum, hop, ipv4, ipv6, own,
};
use plexus_config::ReversePath;
use plexus_plane::{DropReason, Injection, Punt};
use plexus_wire::MacAddr;

const HOST: [u8; 4] = [10, 0, 0, 9];
const FAR: [u8; 4] = [192, 0, 2, 1];

/// A router with a route to 192.0.2.0/24 by neighbour 1 behind port 1.
fn router() -> Router {
    let mut router = Router::new();
    router.neighbour(1, 1);
    router.route4([192, 0, 2, 0], 24, 1);
    router.route6("2001:db8::", 32, 1);
    router
}

/// A frame of ARP from station 0x77.
fn arp(to: MacAddr) -> Vec<u8> {
    let mut frame = frame(to, mac(0x77));
    frame[12..14].copy_from_slice(&[0x08, 0x06]);
    frame
}

#[test]
fn of_a_mixed_batch_each_port_counts_the_packets_that_it_had_routed() {
    let mut router = router();
    router.neighbour(0, 0);
    router.route4([198, 51, 100, 0], 24, 0);
    router.route4([203, 0, 113, 0], 24, BLACKHOLE);
    let v4 = |port: usize, dst, ttl| ipv4(own(port), HOST, dst, ttl, &[7; 26]);
    let v6 = |port: usize| ipv6(own(port), "2001:db9::1", "2001:db8::9", 17, 64, &[9; 26]);
    let hole = [203, 0, 113, 1];
    let mut wrong_sum = v4(0, FAR, 64);
    wrong_sum[24] ^= 1;
    let from_0 = [v4(0, FAR, 64), v6(0), wrong_sum, v4(0, FAR, 1), v6(0), v4(0, FAR, 9)];
    let from_1 = [v6(1), v4(1, hole, 64), v4(1, [198, 51, 100, 3], 2), v6(1), v6(1)];
    for (port, frames) in [(0, &from_0[..]), (1, &from_1[..])] {
        frames.iter().for_each(|frame| router.rig.offer(port, frame));
    }
    router.rig.settle();
    let counters = router.rig.workers[0].pipeline().counters();
    let routed: Vec<u64> = counters.ports[..3].iter().map(|port| port.routed).collect();
    assert_eq!(routed, [4, 4, 0]);
    // In the order in which they came in.
    let sent = [&from_0[0], &from_0[1], &from_0[4], &from_0[5], &from_1[0], &from_1[3], &from_1[4]];
    let sent: Vec<_> = sent.into_iter().map(|frame| hop(frame, mac(1), own(1))).collect();
    assert_eq!(router.rig.take_from(1), sent);
    assert_eq!(router.rig.take_from(0), [hop(&from_1[2], mac(0), own(0))]);
}

#[test]
fn frames_to_other_stations_are_switched_and_never_routed() {
    let mut router = router();
    router.neighbour(2, 2);
    let sent = ipv4(mac(8), HOST, FAR, 64, &[1; 26]);
    assert_eq!(router.send(2, &sent).iter().map(|(p, _)| *p).collect::<Vec<_>>(), [3, 4]);
    assert!(router.send(0, &sent).iter().all(|(port, frame)| *port == 5 && *frame == sent));
}

#[test]
fn bridged_and_routed_ports_share_a_box() {
    let mut router = router();
    router.neighbour(2, 2);
    router.route4([10, 10, 0, 0], 16, 2);
    // Out into a VLAN: to all of it until the switch has heard the neighbour, tagged on the trunk.
    let sent = ipv4(own(0), HOST, [10, 10, 0, 2], 9, &[3; 26]);
    let got = router.send(0, &sent);
    let plain = hop(&sent, mac(2), own(2));
    assert_eq!(got.iter().map(|(p, _)| *p).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!((&got[0].1, &got[2].1), (&plain, &plain));
    assert_eq!(got[1].1[12..18], [0x81, 0, 0, 10, 8, 0]);
    router.send(3, &tagged(MacAddr::BROADCAST, mac(2), 0, 10));
    let got = router.send(0, &sent);
    assert_eq!(got.len(), 1);
    assert_eq!((got[0].0, &got[0].1[16..]), (3, &plain[12..]));
    // In from the trunk, tagged, and out by a routed port; the switch learns the sender.
    let mut inside = ipv4(own(2), [10, 10, 0, 7], FAR, 64, &[4; 26]);
    inside[6..12].copy_from_slice(&mac(7).0);
    let mut on_trunk = inside.clone();
    on_trunk.splice(12..12, [0x81, 0, 0, 10]);
    assert_eq!(router.send(3, &on_trunk), [(1, hop(&inside, mac(1), own(1)))]);
    assert_eq!(router.rig.ports_reached(2, &frame(mac(7), mac(5))), [3]);
}

#[test]
fn a_new_address_of_the_router_is_no_stations_and_the_old_one_may_be() {
    let mut router = router();
    router.neighbour(1, 1);
    router.route4([198, 51, 100, 0], 24, 1);
    let new = mac(0xAB);
    let to = |station| {
        let mut sent = ipv4(station, [10, 10, 0, 7], [198, 51, 100, 1], 64, &[4; 26]);
        sent[6..12].copy_from_slice(&mac(7).0);
        sent
    };
    // A station behind port 4 has the address that the router gets next.
    router.send(4, &frame(MacAddr::BROADCAST, new));
    assert_eq!(router.rig.ports_reached(2, &to(new)), [4]);
    for (now, before) in [(new, own(2)), (own(2), new)] {
        let mut interface = *router.tables.plan().interface(10).unwrap();
        interface.mac = now;
        router.tables.set_interface(10, Some(interface));
        router.publish();
        assert_eq!(router.send(2, &to(now)), [(1, hop(&to(now), mac(1), own(1)))]);
        assert_eq!(router.rig.ports_reached(2, &to(before)), [3, 4]);
        // Nobody takes the router's address.
        assert_eq!(router.rig.ports_reached(4, &frame(MacAddr::BROADCAST, now)), []);
        assert_eq!(router.send(2, &to(now)), [(1, hop(&to(now), mac(1), own(1)))]);
        // The other address is a station's, as any is.
        router.send(4, &frame(MacAddr::BROADCAST, before));
        assert_eq!(router.rig.ports_reached(2, &to(before)), [4]);
    }
    assert_eq!(router.drops(DropReason::OwnAddress), 2);
}

#[test]
fn bad_headers_are_dropped_by_name() {
    let mut router = router();
    let good = ipv4(own(0), HOST, FAR, 64, &[1; 26]);
    let with = |at: usize, byte: u8, mend: bool| {
        let mut bad = good.clone();
        bad[at] = byte;
        if mend {
            fix_sum(&mut bad);
        }
        bad
    };
    let from = |src: [u8; 4]| ipv4(own(0), src, FAR, 64, &[1; 26]);
    let to = |dst: [u8; 4]| ipv4(own(0), HOST, dst, 64, &[1; 26]);
    let mut own_source = good.clone();
    own_source[6..12].copy_from_slice(&own(0).0);
    let mut other = good.clone();
    other[12..14].copy_from_slice(&[0x88, 0xB5]);
    let v6 = |src, dst| ipv6(own(0), src, dst, 17, 64, &[1; 8]);
    let mut short_v6 = v6("2001:db9::1", "2001:db8::9");
    short_v6[19] = 9;
    let mut version_7 = v6("2001:db9::1", "2001:db8::9");
    version_7[14] = 0x70;
    let cases = [
        (with(14, 0x55, true), DropReason::BadIpHeader),
        (with(14, 0x44, false), DropReason::BadIpHeader),
        (with(14, 0x4F, false), DropReason::BadIpHeader),
        (with(17, 19, true), DropReason::BadIpHeader),
        (with(17, 47, true), DropReason::BadIpHeader),
        (with(16, 1, true), DropReason::BadIpHeader),
        (good[..33].to_vec(), DropReason::BadIpHeader),
        (good[..14].to_vec(), DropReason::BadIpHeader),
        (with(24, good[24] ^ 1, false), DropReason::IpChecksum),
        (with(33, 9, false), DropReason::IpChecksum),
        (from([127, 0, 0, 1]), DropReason::Martian),
        (from([224, 0, 0, 1]), DropReason::Martian),
        (from([255, 255, 255, 255]), DropReason::Martian),
        (from([0, 0, 0, 0]), DropReason::Martian),
        (from([169, 254, 1, 1]), DropReason::Martian),
        (to([127, 1, 2, 3]), DropReason::Martian),
        (to([239, 1, 2, 3]), DropReason::Martian),
        (to([0, 1, 2, 3]), DropReason::Martian),
        (v6("::1", "2001:db8::9"), DropReason::Martian),
        (v6("::", "2001:db8::9"), DropReason::Martian),
        (v6("ff02::1", "2001:db8::9"), DropReason::Martian),
        (v6("2001:db9::1", "ff0e::1"), DropReason::Martian),
        (v6("::ffff:10.0.0.1", "2001:db8::9"), DropReason::Martian),
        (short_v6, DropReason::BadIpHeader),
        (version_7, DropReason::BadIpHeader),
        (own_source, DropReason::OwnAddress),
        (other, DropReason::NotForUs),
    ];
    for (i, (bad, reason)) in cases.iter().enumerate() {
        router.rig.expect_drop(0, bad, *reason);
        assert_eq!(router.punted(), [], "nobody is to hear of case {i}");
    }
}

#[test]
fn whose_packet_cannot_go_on_is_to_hear_of_it() {
    let mut router = router();
    router.route4([198, 51, 100, 0], 24, PROHIBITED);
    router.route4([203, 0, 113, 0], 24, UNREACHABLE);
    router.neighbour(3, 1);
    let to = |dst, ttl| ipv4(own(0), HOST, dst, ttl, &[1; 26]);
    let mut options = to(FAR, 64);
    options[14] = 0x46;
    options.splice(34..34, [131, 4, 4, 0]);
    options[17] += 4;
    fix_sum(&mut options);
    let mut bad_option = options.clone();
    bad_option[34..38].copy_from_slice(&[7, 9, 4, 0]);
    fix_sum(&mut bad_option);
    let v6 = |src, dst, hops| ipv6(own(0), src, dst, 17, hops, &[1; 8]);
    let cases = [
        (to(FAR, 1), DropReason::TtlExpired),
        (to(FAR, 0), DropReason::TtlExpired),
        (to([8, 8, 8, 8], 64), DropReason::NoRoute),
        (to([198, 51, 100, 1], 64), DropReason::Prohibited),
        (to([203, 0, 113, 1], 64), DropReason::Unreachable),
        (options, DropReason::SourceRouted),
        (bad_option, DropReason::BadIpOption),
        (v6("2001:db9::1", "2001:db8::9", 1), DropReason::TtlExpired),
        (v6("2001:db9::1", "2001:dba::9", 64), DropReason::NoRoute),
        (v6("fe80::1", "2001:db8::9", 64), DropReason::BeyondScope),
    ];
    let mut dropped = BTreeMap::new();
    for (i, (sent, reason)) in cases.into_iter().enumerate() {
        // Not all at once, or the control plane is spared some.
        router.rig.now = router.rig.now + Duration::from_secs(1);
        assert_eq!(router.send(0, &sent), [], "case {i}");
        assert_eq!(router.punted(), [(Punt::Error(reason), 0, VLANS[0], sent)], "case {i}");
        *dropped.entry(reason).or_insert(0) += 1;
        assert_eq!(router.drops(reason), dropped[&reason], "case {i}");
    }
}

#[test]
fn a_packet_waits_with_the_control_plane_until_its_neighbour_is_known() {
    let mut router = router();
    router.silent_neighbour(4, 1);
    router.route4([203, 0, 113, 0], 24, 4);
    router.route4([10, 0, 1, 0], 24, GLEAN);
    let by_gateway = ipv4(own(0), HOST, [203, 0, 113, 7], 64, &[1; 26]);
    let on_link = ipv4(own(0), HOST, [10, 0, 1, 7], 64, &[2; 26]);
    assert_eq!(router.send(0, &by_gateway), []);
    assert_eq!(router.send(0, &on_link), []);
    let waiting = router.punted();
    assert_eq!(
        waiting,
        [
            (Punt::Unresolved(Some(4)), 0, VLANS[0], by_gateway.clone()),
            (Punt::Unresolved(None), 0, VLANS[0], on_link.clone()),
        ]
    );
    router.neighbour(4, 1);
    router.neighbour(5, 1);
    router.route4([10, 0, 1, 7], 32, 5);
    let again = |router: &mut Router, frame: &[u8]| {
        router.rig.inject(frame, Injection::Received(VLANS[0])).unwrap()
    };
    assert_eq!(again(&mut router, &by_gateway), [(1, hop(&by_gateway, mac(4), own(1)))]);
    assert_eq!(again(&mut router, &on_link), [(1, hop(&on_link, mac(5), own(1)))]);
    // One whose time has run out does not wait.
    router.route4([10, 0, 1, 8], 32, GLEAN);
    router.send(0, &ipv4(own(0), HOST, [10, 0, 1, 8], 1, &[2; 26]));
    assert_eq!(router.punted()[0].0, Punt::Error(DropReason::TtlExpired));
}

#[test]
fn the_control_plane_speaks_on_an_interface_to_one_or_to_all() {
    let mut router = router();
    let to_all = frame(MacAddr::BROADCAST, own(2));
    let got = router.rig.inject(&to_all, Injection::Vlan(10)).unwrap();
    assert_eq!(got.iter().map(|(p, _)| *p).collect::<Vec<_>>(), [2, 3, 4]);
    router.send(4, &frame(MacAddr::BROADCAST, mac(9)));
    let to_one = frame(mac(9), own(2));
    assert_eq!(router.rig.inject(&to_one, Injection::Vlan(10)).unwrap(), [(4, to_one)]);
    let stranger = ipv4(mac(1), HOST, FAR, 64, &[]);
    assert_eq!(router.rig.inject(&stranger, Injection::Received(101)), Err(DropReason::NotForUs));
    assert_eq!(router.rig.inject(&[0; 9], Injection::Received(101)), Err(DropReason::Runt));
}

#[test]
fn what_is_for_the_box_goes_to_the_kernel_or_to_the_control_plane() {
    let local = ipv4(own(0), HOST, [10, 0, 0, 1], 1, &[1; 26]);
    let link_local = ipv6(own(0), "fe80::9", "fe80::1", 17, 64, &[1; 8]);
    let solicitation = ipv6(own(0), "fe80::9", "fe80::1", 58, 255, &[135, 0, 0, 0, 1, 2, 3, 4]);
    let touched = ipv6(own(0), "fe80::9", "fe80::1", 58, 254, &[135, 0, 0, 0, 1, 2, 3, 4]);
    let (arp, arp_to_all) = (arp(own(0)), arp(MacAddr::BROADCAST));
    let mut to_group = solicitation.clone();
    to_group[..6].copy_from_slice(&[0x33, 0x33, 0xFF, 0, 0, 1]);

    let mut alone = Router::new();
    alone.route4([10, 0, 0, 1], 32, LOCAL);
    let cases = [
        (&local, Punt::Local),
        (&link_local, Punt::Local),
        (&touched, Punt::Local),
        (&solicitation, Punt::Neighbour),
        (&arp, Punt::Neighbour),
        (&arp_to_all, Punt::Neighbour),
        (&to_group, Punt::Neighbour),
    ];
    for (i, (sent, punt)) in cases.into_iter().enumerate() {
        assert_eq!(alone.send(0, sent), [], "case {i}");
        assert_eq!(alone.punted(), [(punt, 0, VLANS[0], sent.clone())], "case {i}");
    }

    let mut beside = Router::with(|i| i.kernel = (i.vlan == 101).then_some(5));
    beside.route4([10, 0, 0, 1], 32, LOCAL);
    for (sent, is_news) in [
        (&local, false),
        (&link_local, false),
        (&touched, false),
        (&solicitation, true),
        (&arp, true),
        (&arp_to_all, true),
        (&to_group, true),
    ] {
        assert_eq!(beside.send(0, sent), [(5, sent.clone())]);
        let news = is_news.then(|| (Punt::Neighbour, 0, VLANS[0], sent.clone()));
        assert_eq!(beside.punted(), Vec::from_iter(news));
    }
    // Our control plane speaks to the cable, not to the kernel.
    let asked = frame(MacAddr::BROADCAST, own(0));
    assert_eq!(beside.rig.inject(&asked, Injection::Vlan(VLANS[0])).unwrap(), [(0, asked)]);
    // What the kernel says goes out as it is, its own address and all.
    let mut said = ipv4(mac(0x77), [10, 0, 0, 1], HOST, 64, &[1; 26]);
    said[6..12].copy_from_slice(&own(0).0);
    assert_eq!(beside.send(5, &said), [(0, said)]);
}

#[test]
fn news_in_a_vlan_of_bridged_ports_reaches_everybody() {
    let mut router = router();
    let arp = arp(MacAddr::BROADCAST);
    assert_eq!(router.rig.ports_reached(2, &arp), [3, 4]);
    assert_eq!(router.punted(), [(Punt::Neighbour, 2, 10, arp.clone())]);
    let mut on_trunk = arp.clone();
    on_trunk.splice(12..12, [0x81, 0, 0, 10]);
    assert_eq!(router.rig.ports_reached(3, &on_trunk), [2, 4]);
    assert_eq!(router.punted(), [(Punt::Neighbour, 3, 10, arp)]);
}

#[test]
fn a_flow_keeps_its_way_and_flows_spread_by_weight() {
    let mut router = Router::new();
    router.neighbour(1, 0);
    router.neighbour(2, 1);
    // Neighbour 2 twice: a third of the flows by the one, two thirds by the other.
    router.group(7, &[1, 2, 2]);
    router.route4([192, 0, 2, 0], 24, 7);
    router.route6("2001:db8::", 32, 7);
    let mut by = [0; 2];
    for flow in 0..600u16 {
        let [a, b] = flow.to_be_bytes();
        let udp = [a, b, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
        let sent = match flow % 2 {
            0 => ipv4(own(2), HOST, FAR, 64, &udp),
            _ => ipv6(own(2), "2001:db9::1", "2001:db8::1", 17, 64, &udp),
        };
        let first = router.rig.ports_reached(2, &sent);
        assert_eq!(first, router.rig.ports_reached(2, &sent), "the same flow");
        by[first[0]] += 1;
    }
    assert!((140..=260).contains(&by[0]), "{by:?}");
}

#[test]
fn packets_are_let_in_from_where_a_silent_neighbour_would_be() {
    let mut router = Router::with(|i| i.reverse_path = ReversePath::Strict);
    router.neighbour(1, 1);
    router.route4([192, 0, 2, 0], 24, 1);
    router.route4([10, 0, 0, 0], 24, 2);
    router.route4([10, 0, 1, 0], 24, 3);
    // The number was somebody's behind interface 1 before.
    router.neighbour(2, 1);
    router.silent_neighbour(2, 0);
    router.silent_neighbour(3, 1);
    let from = |src| ipv4(own(0), src, FAR, 64, &[1; 26]);
    assert_eq!(router.send(0, &from([10, 0, 0, 9])).len(), 1);
    router.rig.expect_drop(0, &from([10, 0, 1, 9]), DropReason::ReversePath);
}

#[test]
fn link_local_addresses_reach_the_box_and_nobody_else() {
    let mut router = router();
    router.route4([169, 254, 10, 1], 32, LOCAL);
    router.route4([10, 0, 0, 1], 32, LOCAL);
    let near = [169, 254, 10, 2];
    let ours = [
        ipv4(own(0), near, [169, 254, 10, 1], 64, &[1; 26]),
        ipv4(own(0), near, [10, 0, 0, 1], 64, &[1; 26]),
        ipv4(own(0), HOST, [169, 254, 10, 1], 64, &[1; 26]),
    ];
    for frame in &ours {
        assert_eq!(router.send(0, frame), []);
        assert_eq!(router.punted(), [(Punt::Local, 0, VLANS[0], frame.clone())]);
    }
    for (from, to) in [(near, FAR), (HOST, [169, 254, 10, 3]), ([127, 0, 0, 1], [10, 0, 0, 1])] {
        let sent = ipv4(own(0), from, to, 64, &[1; 26]);
        router.rig.expect_drop(0, &sent, DropReason::Martian);
    }
    assert_eq!(router.punted(), []);
}

#[test]
fn a_routed_packet_finds_a_silent_station_at_the_port_it_came_by() {
    let mut router = router();
    router.neighbour(2, 2);
    router.route4([10, 0, 3, 0], 24, 2);
    // Nobody has heard where neighbour 2 is: behind the same port, perhaps.
    let sent = ipv4(own(2), HOST, [10, 0, 3, 9], 64, &[1; 26]);
    assert_eq!(router.rig.ports_reached(2, &sent), [2, 3, 4]);
}

#[test]
fn a_flood_of_pings_leaves_room_for_neighbours_and_a_scan_for_path_mtus() {
    let mut router = router();
    router.route4([10, 0, 0, 1], 32, LOCAL);
    let ping = ipv4(own(0), HOST, [10, 0, 0, 1], 64, &[8; 26]);
    let scan = ipv4(own(0), HOST, [203, 0, 113, 7], 64, &[1; 26]);
    for _ in 0..5000 {
        router.send(0, &ping);
        router.send(0, &scan);
        router.punted();
    }
    assert!(router.drops(DropReason::ControlRate) > 0);
    let arp = arp(own(0));
    router.send(0, &arp);
    assert_eq!(router.punted(), [(Punt::Neighbour, 0, VLANS[0], arp)]);
    let mut long = ipv4(own(0), HOST, FAR, 64, &[1; 1490]);
    long[20] = 0x40;
    fix_sum(&mut long);
    router.send(0, &long);
    // As much as an error may quote.
    long.truncate(14 + 1280);
    assert_eq!(router.punted(), [(Punt::TooBig(1500), 0, VLANS[0], long)]);
}
