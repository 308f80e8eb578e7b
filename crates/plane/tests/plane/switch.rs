//! The switch as a user sees it: frames in, frames out.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Plan, Rig, access, frame, ipv4, mac, static_mac, tagged, trunk};
use plexus_config::StormSettings;
use plexus_io::{Checksum, Offload, Segmentation};
use plexus_plane::{DropReason, Injection};
use plexus_wire::{MacAddr, Time};

#[test]
fn a_station_that_moves_is_found_at_its_new_port() {
    let mut rig = Rig::new(3);
    rig.send(0, &frame(mac(9), mac(1)));
    rig.send(1, &frame(mac(9), mac(1)));
    assert_eq!(rig.ports_reached(2, &frame(mac(1), mac(3))), [1]);
    assert_eq!(rig.workers[0].pipeline().counters().ports[1].moved, 1);
}

#[test]
fn a_frame_to_a_station_on_its_own_port_stays_there() {
    let mut rig = Rig::new(2);
    rig.send(0, &frame(mac(9), mac(1)));
    rig.send(0, &frame(mac(9), mac(2)));
    rig.expect_drop(0, &frame(mac(1), mac(2)), DropReason::SamePort);
}

#[test]
fn a_silent_station_is_forgotten_after_the_ageing_time_and_not_before() {
    let mut plan = Plan::new(3);
    plan.switch.ageing = Duration::from_secs(300);
    let mut rig = plan.build();
    rig.send(0, &frame(mac(9), mac(1)));
    // Two ports hear of it at 299 s: it is known. It does not speak itself.
    rig.now = Time::from_secs(300);
    assert_eq!(rig.ports_reached(1, &frame(mac(1), mac(2))), [0]);
    rig.now = Time::from_secs(304);
    assert_eq!(rig.ports_reached(1, &frame(mac(1), mac(2))), [0, 2]);
    // Sweeping takes it out of the table, and the limits' counts with it.
    for second in 305..700 {
        rig.now = Time::from_secs(second);
        rig.maintain();
    }
    assert_eq!(rig.workers[0].pipeline().switch().stations(rig.now).count(), 0);
}

#[test]
fn hostile_and_broken_frames_are_dropped_by_name() {
    let mut plan = Plan::new(3);
    plan.ports[2] = trunk(&[(1, 1)], None);
    let mut rig = plan.build();
    let group_source = frame(mac(2), MacAddr([0x01, 0, 0x5E, 0, 0, 1]));
    let no_source = frame(mac(2), MacAddr([0; 6]));
    let reserved = frame(MacAddr([0x01, 0x80, 0xC2, 0, 0, 0x0E]), mac(1));
    for (bytes, reason) in [
        (&[][..], DropReason::Runt),
        (&[2; 13], DropReason::Runt),
        (&tagged(mac(2), mac(1), 0, 1)[..17], DropReason::Runt),
        (&group_source, DropReason::BadSource),
        (&no_source, DropReason::BadSource),
        (&reserved, DropReason::Reserved),
        (&tagged(mac(2), mac(1), 0, 7), DropReason::VlanDenied),
    ] {
        rig.expect_drop(0, bytes, reason);
    }
    rig.expect_drop(2, &frame(mac(2), mac(1)), DropReason::Untagged);
    // None of them has taught the switch anything.
    assert_eq!(rig.workers[0].pipeline().switch().stations(rig.now).count(), 0);
}

#[test]
fn a_port_learns_no_more_stations_than_its_limit() {
    let mut plan = Plan::new(2);
    plan.ports[0].mac_limit = Some(3);
    plan.switch.ageing = Duration::from_secs(10);
    let mut rig = plan.build();
    for n in 0..10 {
        rig.send(0, &frame(mac(99), mac(100 + n)));
    }
    assert_eq!(rig.drops(0, DropReason::MacLimit), 7);
    assert_eq!(rig.ports_reached(0, &frame(mac(99), mac(101))), [1]);
    // Silent stations make room.
    for second in 2..40 {
        rig.now = Time::from_secs(second);
        rig.maintain();
    }
    assert_eq!(rig.ports_reached(0, &frame(mac(99), mac(150))), [1]);
}

#[test]
fn a_full_table_floods_and_says_so() {
    let mut plan = Plan::new(3);
    plan.switch.mac_table = 4;
    let mut rig = plan.build();
    for n in 0..10 {
        assert_eq!(rig.ports_reached(0, &frame(mac(99), mac(n + 1))), [1, 2]);
    }
    assert_eq!(rig.workers[0].pipeline().counters().ports[0].table_full, 6);
    assert_eq!(rig.ports_reached(1, &frame(mac(1), mac(99))), [0]);
}

#[test]
fn a_second_tag_does_not_hop_to_another_vlan() {
    let mut plan = Plan::new(2);
    plan.ports = vec![access(10), trunk(&[(20, 20)], Some(10))];
    let mut rig = plan.build();
    for outer in [0, 10] {
        let mut f = tagged(mac(9), mac(1), 0, outer);
        f[16..20].copy_from_slice(&[0x81, 0x00, 0x00, 0x14]);
        rig.expect_drop(0, &f, DropReason::DoubleTag);
    }
}

#[test]
fn configured_stations_find_room_in_a_full_table() {
    let mut plan = Plan::new(2);
    plan.switch.mac_table = 4;
    let mut rig = plan.build();
    for n in 1..5 {
        rig.send(0, &frame(mac(99), mac(n)));
    }
    let mut plan = Plan::new(2);
    plan.switch.mac_table = 4;
    plan.switch.static_macs = vec![static_mac(50, 1, 1)];
    rig.published.store(Arc::new(plan.snapshot()));
    rig.send(1, &frame(mac(98), mac(97)));
    rig.expect_drop(0, &frame(mac(99), mac(50)), DropReason::StaticElsewhere);
}

#[test]
fn storms_are_limited_by_kind_and_known_stations_are_not() {
    let mut plan = Plan::new(2);
    plan.ports[0].storm =
        StormSettings { broadcast_pps: Some(1000), multicast_pps: Some(100), unknown_pps: None };
    let mut rig = plan.build();
    rig.send(1, &frame(mac(50), mac(2)));
    let multicast = MacAddr([0x01, 0, 0x5E, 0, 0, 1]);
    for _ in 0..200 {
        rig.send(0, &frame(MacAddr::BROADCAST, mac(1)));
        rig.send(0, &frame(multicast, mac(1)));
        rig.send(0, &frame(mac(77), mac(1)));
        rig.send(0, &frame(mac(2), mac(1)));
    }
    // Bursts of 50 ms: 51 packets at 1,000 per second; 8 at least, at 100 per second 9.
    assert_eq!(rig.drops(0, DropReason::StormBroadcast), 200 - 51);
    assert_eq!(rig.drops(0, DropReason::StormMulticast), 200 - 9);
    assert_eq!(rig.drops(0, DropReason::StormUnknown), 0);
}

#[test]
fn a_storm_of_super_packets_is_limited_by_the_frames_that_they_are_cut_into() {
    let mut plan = Plan::new(2);
    plan.ports[0].storm.broadcast_pps = Some(1000);
    let mut rig = plan.build();
    let payload = [0; 8 + 1300];
    let to_all = [MacAddr::BROADCAST, mac(1)];
    let datagram = ipv4(to_all, [[10, 0, 0, 1], [255; 4]], (0, 64, 17), &payload);
    let owed = Offload {
        checksum: Checksum::Partial,
        checksum_start: 34,
        checksum_offset: 6,
        segmentation: Segmentation::Udp,
        segment_size: 100,
        header_len: 42,
    };
    for _ in 0..200 {
        rig.offer_owing(0, &datagram, owed);
    }
    rig.settle();
    // A burst has 51 frames: the fourth packet begins within it, and ends beyond.
    assert_eq!(rig.take().len(), 4 * 13);
    assert_eq!(rig.drops(0, DropReason::StormBroadcast), 200 - 4);
}

/// Four ports of two workers: 0 and 2 are the first worker's, 1 and 3 the second's.
fn two_workers() -> Plan {
    let mut plan = Plan::new(4);
    plan.workers = 2;
    plan
}

#[test]
fn a_station_learned_by_an_older_configuration_does_not_lead_out_of_its_vlan() {
    let mut rig = two_workers().build();
    rig.offer(0, &frame(mac(9), mac(1)));
    // The first worker learns and tells; the second hears after it has followed the new one.
    rig.workers[0].turn(rig.now);
    let mut plan = two_workers();
    plan.ports[0] = access(7);
    rig.published.store(Arc::new(plan.snapshot()));
    rig.workers[1].turn(rig.now);
    rig.settle();
    rig.take();
    assert_eq!(rig.ports_reached(1, &frame(mac(1), mac(2))), [2, 3]);
}

#[test]
fn a_frame_that_crosses_to_a_port_that_left_its_vlan_is_dropped() {
    let mut rig = two_workers().build();
    rig.offer(1, &frame(mac(9), mac(1)));
    rig.workers[1].turn(rig.now);
    let mut plan = two_workers();
    plan.ports[0] = access(7);
    rig.published.store(Arc::new(plan.snapshot()));
    rig.settle();
    let out: Vec<usize> = rig.take().into_iter().map(|(port, _)| port).collect();
    assert_eq!(out, [2, 3]);
    assert_eq!(rig.drops(0, DropReason::NoEgress), 1);
}

#[test]
fn a_station_heard_just_before_its_link_went_down_is_forgotten_by_every_worker() {
    let mut rig = two_workers().build();
    rig.offer(0, &frame(mac(9), mac(1)));
    rig.workers[0].turn(rig.now);
    rig.plug(0, false);
    rig.maintain();
    rig.settle();
    rig.take();
    assert_eq!(rig.ports_reached(1, &frame(mac(1), mac(2))), [2, 3]);
}

#[test]
fn a_port_that_was_made_deaf_hears_again_when_told() {
    let mut rig = Rig::new(2);
    rig.workers[0].silence(rig.now, 0, true);
    rig.expect_drop(0, &frame(mac(2), mac(1)), DropReason::Silenced);
    // It still speaks: only one direction is cut here, the other at the far end.
    assert_eq!(rig.ports_reached(1, &frame(mac(1), mac(2))), [0]);
    rig.workers[0].silence(rig.now, 0, false);
    assert_eq!(rig.ports_reached(0, &frame(mac(2), mac(1))), [1]);
}

/// More than a turn takes in, so that none may be left behind.
#[test]
fn exchanged_packets_leave_before_what_another_worker_receives_later() {
    let mut rig = Plan { workers: 3, ..Plan::new(3) }.build();
    let station = mac(0xB);
    rig.send(1, &frame(mac(0xA), station));
    rig.take();
    let injected: Vec<Vec<u8>> = (0..150).map(|n| frame(station, mac(0x100 + n))).collect();
    let now = rig.now;
    for bytes in &injected {
        // In the class of hosts' frames, as released packets are.
        rig.workers[2].inject(now, bytes, Injection::Named(1)).unwrap();
    }
    rig.workers[2].exchange(now);
    rig.workers.iter_mut().for_each(|worker| worker.exchange(now));
    rig.offer(0, &frame(station, mac(0xC)));
    rig.workers[0].turn(now);
    rig.settle();
    let mut expected = injected;
    expected.push(frame(station, mac(0xC)));
    assert!(rig.take_from(1) == expected);
    assert_eq!(rig.account().held, 0);
}
