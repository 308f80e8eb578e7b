//! Output queues and rates as a user sees them.

use std::sync::Arc;
use std::time::Duration;

use plexus_config::{QueueOrder, Suspects, Trust};

use crate::common::{Plan, Rig, frame, mac, tagged, trunk};
use plexus_io::{BATCH, Capabilities, Checksum, Offload, Segmentation};
use plexus_plane::DropReason;
use plexus_wire::Time;

/// Two ports that know each other's stations: 1 on port 0, 2 on port 1.
fn acquainted(plan: Plan) -> Rig {
    let mut rig = plan.build();
    for (port, (to, from)) in [(2, 1), (1, 2)].into_iter().enumerate() {
        rig.send(port, &frame(mac(to), mac(from)));
        rig.now = Time::from_secs(2 + port as u64);
        rig.settle();
        rig.take();
    }
    rig
}

fn long_frame() -> Vec<u8> {
    let mut f = frame(mac(2), mac(1));
    f.resize(1226, 0); // 1,250 bytes on a cable: 100 us at 100 Mbit/s
    f
}

#[test]
fn a_port_keeps_to_its_rate_frame_by_frame() {
    let mut plan = Plan::new(2);
    plan.ports[1].rate_bits_per_s = Some(100_000_000);
    let mut rig = acquainted(plan);
    let start = rig.now;
    for _ in 0..100 {
        rig.offer(0, &long_frame());
    }
    rig.settle();
    let mut departures = Vec::new();
    for _ in rig.take() {
        departures.push(Duration::ZERO);
    }
    while departures.len() < 100 {
        let deadline = rig.workers[0].next_deadline();
        assert!(deadline > rig.now && deadline < Time::FOREVER);
        rig.now = deadline;
        rig.settle();
        departures.extend(rig.take().iter().map(|_| deadline.since(start)));
    }
    let expected: Vec<_> = (0..100).map(|i| Duration::from_micros(100 * i)).collect();
    assert_eq!(departures, expected);
    assert_eq!(rig.workers[0].next_deadline(), Time::FOREVER);
}

#[test]
fn queues_are_limited_in_packets_and_in_bytes() {
    let full = |packets, bytes| {
        let mut plan = Plan::new(2);
        plan.ports[1].rate_bits_per_s = Some(1_000_000);
        (plan.ports[1].queue.packets, plan.ports[1].queue.bytes) = (packets, bytes);
        let mut rig = acquainted(plan);
        for _ in 0..30 {
            rig.offer(0, &long_frame());
        }
        rig.settle();
        rig
    };
    // All 30 come in one batch: 20 wait, and the first leaves only after they were queued.
    let rig = full(20, 1_000_000);
    assert_eq!(rig.drops(1, DropReason::QueuePackets), 10);
    assert_eq!(rig.account().held, 19);
    let rig = full(1000, 10 * 1226);
    assert_eq!(rig.drops(1, DropReason::QueueBytes), 20);
}

#[test]
fn higher_classes_leave_first_and_each_in_order() {
    let mut plan = Plan::new(2);
    plan.ports = vec![trunk(&[(1, 1)], None), trunk(&[(1, 1)], None)];
    plan.ports[0].trust = Trust::Pcp;
    plan.ports[1].rate_bits_per_s = Some(1_000_000);
    let mut rig = plan.build();
    rig.offer(1, &tagged(mac(1), mac(2), 0, 1));
    rig.settle();
    rig.take();
    let mut sent = Vec::new();
    for (i, priority) in [0, 1, 7, 0, 7, 3].into_iter().enumerate() {
        let mut f = tagged(mac(2), mac(1), priority, 1);
        f[59] = i as u8;
        rig.offer(0, &f);
        sent.push(f);
    }
    let order: Vec<u8> = rig.drain().iter().map(|(_, f)| f[59]).collect();
    assert_eq!(order, [2, 4, 5, 1, 0, 3]);
}

#[test]
fn capable_packets_are_marked_from_the_threshold_on() {
    let mut plan = Plan::new(2);
    plan.ports[1].rate_bits_per_s = Some(1_000_000);
    plan.ports[1].queue.ecn_bytes = Some(5 * 60);
    let mut rig = acquainted(plan);
    let mut f = frame(mac(2), mac(1));
    f[12..14].copy_from_slice(&[0x08, 0x00]);
    f[14..34]
        .copy_from_slice(&[0x45, 0x02, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = plexus_wire::checksum::checksum(&f[14..34]);
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    for _ in 0..12 {
        rig.offer(0, &f);
    }
    rig.settle();
    assert_eq!(rig.workers[0].pipeline().counters().ports[1].ecn_marked, 7);
    let marks: Vec<u8> = rig.drain().iter().map(|(_, f)| f[15] & 3).collect();
    assert_eq!(marks, [2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3]);
}

#[test]
fn a_full_device_holds_packets_back_and_loses_none() {
    let mut plan = Plan::new(2);
    plan.depth = 64;
    plan.ports[1].queue.packets = 1000;
    let mut rig = acquainted(plan);
    for _ in 0..5 {
        for _ in 0..60 {
            rig.offer(0, &frame(mac(2), mac(1)));
        }
        rig.settle();
    }
    let out = std::iter::from_fn(|| {
        let out = rig.take().len();
        rig.settle();
        (out > 0).then_some(out)
    });
    assert_eq!(out.sum::<usize>(), 300);
}

#[test]
fn a_pool_that_runs_dry_drops_copies_by_name() {
    let mut plan = Plan::new(4);
    plan.frames = 8;
    let mut rig = plan.build();
    for _ in 0..3 {
        rig.offer(0, &frame(mac(9), mac(1)));
    }
    rig.settle();
    let out = rig.take().len() as u64;
    let dropped: u64 = (0..4).map(|p| rig.drops(p, DropReason::NoFrame)).sum();
    assert_eq!(out + dropped, 9);
    assert_eq!(dropped, 1); // three frames and five copies fit eight frames
}

#[test]
fn frames_too_long_for_the_way_out_are_dropped_by_name() {
    let mut rig = acquainted(Plan::new(2));
    let mut f = frame(mac(2), mac(1));
    f.resize(1515, 0);
    assert!(rig.send(0, &f).is_empty());
    assert_eq!(rig.drops(1, DropReason::TooLong), 1);
}

/// A TCP super-packet from station 1 to station 2 with 3,000 bytes of payload.
fn super_packet() -> (Vec<u8>, Offload) {
    let mut f = frame(mac(2), mac(1));
    f.truncate(12);
    f.extend([0x08, 0x00, 0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let total = (40u16 + 3000).to_be_bytes();
    f[16..18].copy_from_slice(&total);
    f.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x10, 0, 0, 0, 0, 0]);
    f.resize(f.len() + 3000, 7);
    let offload = Offload {
        checksum: Checksum::Partial,
        segmentation: Segmentation::TcpV4,
        checksum_start: 34,
        checksum_offset: 16,
        segment_size: 1000,
        header_len: 54,
    };
    (f, offload)
}

#[test]
fn a_super_packet_is_cut_for_a_worker_with_smaller_frames() {
    let mut plan = Plan::new(2);
    plan.workers = 2;
    plan.frame_sizes = vec![69_632, 2048];
    let mut rig = acquainted(plan);
    let (f, offload) = super_packet();
    rig.offer_owing(0, &f, offload);
    rig.settle();
    let out = rig.take();
    assert_eq!(out.iter().map(|(port, f)| (*port, f.len())).collect::<Vec<_>>(), [(1, 1054); 3]);
    assert_eq!(rig.account().copied, 2);
}

#[test]
fn a_rate_is_kept_whatever_the_metadata_says() {
    // A device that cuts super-packets itself; the sender claims that all of it is header.
    let mut plan = Plan::new(2);
    plan.frame_sizes = vec![69_632];
    plan.capabilities = Some(Capabilities { checksum: true, segmentation: true, max_frame: 1514 });
    plan.ports[1].rate_bits_per_s = Some(100_000_000);
    let mut rig = acquainted(plan);
    let start = rig.now;
    let (f, mut offload) = super_packet();
    offload.header_len = f.len() as u16;
    (0..3).for_each(|_| rig.offer_owing(0, &f, offload));
    assert_eq!(rig.drain().len(), 3);
    // Three frames of 1,054 and 24 bytes each: the last packet leaves when two have passed.
    assert_eq!(rig.now.since(start), Duration::from_nanos(2 * 3 * (1054 + 24) * 80));
    // And one whose headers are not what its metadata says is dropped.
    rig.offer_owing(0, &frame(mac(2), mac(1)), offload);
    rig.settle();
    assert_eq!(rig.drops(1, DropReason::BadOffload), 1);
}

#[test]
fn congested_ports_leave_frames_to_receive_into() {
    let mut plan = Plan::new(4);
    plan.frames = 900;
    for port in &mut plan.ports[1..3] {
        port.rate_bits_per_s = Some(1_000_000);
    }
    let mut rig = plan.build();
    for port in 1..4 {
        rig.send(port, &frame(mac(99), mac(port as u64)));
    }
    rig.now = Time::from_secs(9);
    rig.settle();
    rig.take();
    for _ in 0..20 {
        for _ in 0..20 {
            rig.offer(0, &frame(mac(1), mac(7)));
            rig.offer(0, &frame(mac(2), mac(7)));
        }
        rig.settle();
    }
    assert!(rig.drops(1, DropReason::PoolShare) > 0);
    let available = rig.workers[0].pool().available();
    assert!((290..=310).contains(&available), "{available} of 900 frames are free");
    rig.take();
    assert_eq!(rig.ports_reached(0, &frame(mac(3), mac(7))), [3]);
}

#[test]
fn a_host_cannot_raise_its_own_priority_unless_it_is_trusted() {
    let mut plan = Plan::new(2);
    plan.ports[1].rate_bits_per_s = Some(1_000_000);
    let mut rig = acquainted(plan);
    for (i, priority) in [0, 7, 5, 7].into_iter().enumerate() {
        let mut f = tagged(mac(2), mac(1), priority, 1);
        f[59] = i as u8;
        rig.offer(0, &f);
    }
    let order: Vec<u8> = rig.drain().iter().map(|(_, f)| *f.last().unwrap()).collect();
    assert_eq!(order, [0, 1, 2, 3]);
}

#[test]
fn an_owed_checksum_that_points_outside_is_dropped_by_name() {
    let mut rig = acquainted(Plan::new(2));
    let (checksum, checksum_start, checksum_offset) = (Checksum::Partial, 50, 16);
    let owed = Offload { checksum, checksum_start, checksum_offset, ..Offload::NONE };
    rig.offer_owing(0, &frame(mac(2), mac(1)), owed);
    rig.settle();
    assert!(rig.take().is_empty());
    assert_eq!(rig.drops(1, DropReason::BadOffload), 1);
}

/// A frame of station 1 that tells its number.
fn numbered(to: u64, number: u16) -> Vec<u8> {
    let mut f = frame(mac(to), mac(1));
    f[20..22].copy_from_slice(&number.to_be_bytes());
    f
}

#[test]
fn whole_batches_in_a_row_go_through_in_order_and_without_a_queue() {
    let mut plan = Plan::new(2);
    // What had to wait in a queue would be dropped.
    plan.ports[1].queue.packets = 0;
    let mut rig = acquainted(plan);
    let frames: Vec<_> = (0..10 * BATCH as u16).map(|n| numbered(2, n)).collect();
    frames.iter().for_each(|f| rig.offer(0, f));
    rig.settle();
    assert_eq!(rig.take_from(1), frames);
}

#[test]
fn a_lone_packet_among_whole_batches_waits_some_microseconds_at_most() {
    let mut rig = acquainted(Plan::new(3));
    rig.send(2, &frame(mac(1), mac(3)));
    let busy = |rig: &mut Rig, lone: bool| {
        (0..BATCH as u16).for_each(|n| {
            let to = if lone && n == 0 { 3 } else { 2 };
            rig.offer(0, &numbered(to, n));
        });
        rig.workers[0].turn(rig.now);
        rig.take_from(1);
        rig.take_from(2).len()
    };
    // As fast as packets can come, it leaves with others of a few batches.
    busy(&mut rig, false);
    let mut left = busy(&mut rig, true);
    for _ in 0..7 {
        left += busy(&mut rig, false);
    }
    assert_eq!(left, 1);
    // Where batches come more slowly, it leaves with its own.
    for _ in 0..10 {
        rig.now = rig.now + Duration::from_micros(20);
        assert_eq!(busy(&mut rig, true), 1);
    }
    // It is there when nothing follows, too.
    rig.settle();
    busy(&mut rig, true);
    rig.settle();
    assert_eq!(rig.take_from(2).len(), 1);
}

#[test]
fn a_worker_that_closes_hands_over_what_it_has_gathered() {
    let mut rig = acquainted(Plan::new(2));
    let frames: Vec<_> = (0..BATCH as u16).map(|n| numbered(2, n)).collect();
    frames.iter().for_each(|f| rig.offer(0, f));
    let now = rig.now;
    rig.workers[0].turn(now);
    rig.workers[0].close(now);
    assert_eq!(rig.take_from(1), frames);
}

/// Frames that each of four stations gets through a cable of 100 Mbit/s in a second; a frame takes
/// 100 us. Station 1, at port 0, offers half of what the cable carries. Stations 11, 12 and 13, at
/// port 1, each offer all of it.
fn shares(order: QueueOrder) -> [usize; 4] {
    let mut plan = Plan::new(3);
    plan.ports[2].rate_bits_per_s = Some(100_000_000);
    plan.ports[2].queue.order = order;
    let mut rig = plan.build();
    rig.send(2, &frame(mac(1), mac(2)));
    rig.settle();
    rig.take();
    let start = Time::from_secs(2);
    let stations = [(0, 1), (1, 11), (1, 12), (1, 13)];
    let mut got = [0; 4];
    let mut random = 1_u64;
    // Seven frames in 200 us in random order, one of them station 1's.
    for step in 0..35_000_u64 {
        rig.now = start + Duration::from_nanos(28_571 * step);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (port, station) = stations[((random >> 33) % 7).div_ceil(2) as usize];
        let mut bytes = frame(mac(2), mac(station));
        bytes.resize(1226, 0);
        rig.offer(port, &bytes);
        rig.settle();
        for (_, bytes) in rig.take().iter().filter(|(port, _)| *port == 2) {
            let from = stations.iter().position(|s| bytes[6..12] == mac(s.1).0);
            got[from.unwrap()] += 1;
        }
    }
    rig.now = start + Duration::from_secs(100);
    rig.settle();
    let mut out = rig.take();
    while !out.is_empty() {
        rig.settle();
        out = rig.take();
    }
    got
}

#[test]
fn flows_or_input_ports_share_a_full_cable_as_configured() {
    // First come, first served: the cable is shared as it is asked for, 1 to 7.
    let [through, ..] = shares(QueueOrder::Fifo);
    assert!((1300..1600).contains(&through), "{through}");
    // Four flows, each with a quarter.
    let fair = shares(QueueOrder::Fair);
    assert!(fair.iter().all(|n| (2400..2600).contains(n)), "{fair:?}");
    // Two ports: the flow that is alone at one gets all that it asks for.
    let [through, rest @ ..] = shares(QueueOrder::Port);
    assert!((4800..5200).contains(&through), "{through}");
    assert!((4800..5200).contains(&rest.iter().sum::<usize>()), "{rest:?}");
}

/// Two ports; the second sends 100 Mbit/s from a deep queue of ten packets, with this budget.
fn deep(bytes: u64) -> Rig {
    let mut plan = Plan::new(2);
    plan.switch.deep_buffer.bytes = bytes;
    let port = &mut plan.ports[1];
    port.rate_bits_per_s = Some(100_000_000);
    (port.queue.order, port.queue.packets) = (QueueOrder::Deep, 10);
    acquainted(plan)
}

/// Lets time pass until nothing waits; what has left.
fn drain(rig: &mut Rig) -> Vec<Vec<u8>> {
    let mut left = Vec::new();
    rig.settle();
    left.extend(rig.take());
    while rig.workers[0].next_deadline() != Time::FOREVER {
        rig.now = rig.workers[0].next_deadline();
        rig.settle();
        left.extend(rig.take());
    }
    left.into_iter().map(|(_, frame)| frame).collect()
}

#[test]
fn a_deep_queue_keeps_a_burst_that_its_port_has_no_room_for() {
    let mut rig = deep(1_000_000);
    let sent: Vec<Vec<u8>> = (0..500).map(|number| numbered(2, number)).collect();
    sent.iter().for_each(|frame| rig.offer(0, frame));
    rig.settle();
    let report = rig.workers[0].deep(rig.now).unwrap();
    let (port, state, counts) = report.ports[0];
    assert_eq!((port, state.own.0, state.redirects), (1, 7, true));
    assert!(counts.saved > 480 && report.used > 0, "{counts:?}");
    assert!(drain(&mut rig) == sent);
    assert_eq!(rig.workers[0].deep(rig.now).unwrap().used, 0);
    assert_eq!(rig.account().dropped, 0);
}

#[test]
fn a_cable_that_is_idle_while_a_suspect_is_shaped_saves_up_no_time() {
    let mut plan = Plan::new(3);
    let deep = &mut plan.switch.deep_buffer;
    (deep.bytes, deep.suspects, deep.shape_bits_per_s) = (4_000_000, Suspects::Shape, 10_000_000);
    let port = &mut plan.ports[1];
    port.rate_bits_per_s = Some(100_000_000);
    (port.queue.order, port.queue.packets) = (QueueOrder::Deep, 10);
    let mut rig = acquainted(plan);
    let from = |station: u64| {
        let mut frame = frame(mac(2), mac(station));
        frame.resize(1226, 0);
        frame
    };
    // Bursts of 20 ms, until their source is a suspect, and then without end.
    let mut is_suspect = false;
    for tick in 0..700u64 {
        if is_suspect || tick % 32 == 0 {
            (0..if is_suspect { 20 } else { 200 }).for_each(|_| rig.offer(0, &from(1)));
        }
        let until = rig.now + Duration::from_millis(10);
        while rig.now < until {
            rig.settle();
            rig.take();
            rig.now = until.min(rig.workers[0].next_deadline());
        }
        rig.maintain();
        is_suspect |= rig.workers[0].deep(rig.now).is_some_and(|deep| !deep.suspects.is_empty());
    }
    assert!(is_suspect);
    // A host that is none sends a burst: it leaves at the rate of the port.
    (0..100).for_each(|_| rig.offer(2, &from(7)));
    rig.settle();
    let at_once = rig.take_from(1).len();
    assert!(at_once <= 2, "{at_once} of 100 at once");
    assert!(rig.account().balances());
}

#[test]
fn what_no_deep_buffer_has_room_for_is_dropped_by_name() {
    let mut rig = deep(100 * 84);
    (0..500).for_each(|number| rig.offer(0, &numbered(2, number)));
    rig.settle();
    let full = rig.drops(1, DropReason::DeepFull);
    assert_eq!(drain(&mut rig).len() as u64 + full, 500);
    assert!((380..400).contains(&full), "{full}");
    // Without any budget the port's own queue is all there is.
    let mut rig = deep(0);
    (0..500).for_each(|number| rig.offer(0, &numbered(2, number)));
    rig.settle();
    assert!(rig.drops(1, DropReason::QueuePackets) > 480);
    drain(&mut rig);
}

#[test]
fn a_deep_queue_ends_with_its_link() {
    let mut rig = deep(1_000_000);
    (0..300).for_each(|number| rig.offer(0, &numbered(2, number)));
    rig.settle();
    let held = rig.account().held;
    assert!(held > 290);
    rig.plug(1, false);
    rig.maintain();
    assert_eq!((rig.account().held, rig.drops(1, DropReason::PortDown)), (0, held));
}

#[test]
fn a_port_that_changes_its_order_sends_what_waits_first() {
    for (before, after) in
        [(QueueOrder::Deep, QueueOrder::Fifo), (QueueOrder::Fifo, QueueOrder::Deep)]
    {
        let mut plan = Plan::new(2);
        let port = &mut plan.ports[1];
        port.rate_bits_per_s = Some(100_000_000);
        (port.queue.packets, port.queue.order) = (600, before);
        let mut rig = acquainted(plan.clone());
        let sent: Vec<Vec<u8>> = (0..1000).map(|number| numbered(2, number)).collect();
        sent[..500].iter().for_each(|frame| rig.offer(0, frame));
        rig.settle();
        plan.ports[1].queue.order = after;
        rig.published.store(Arc::new(plan.snapshot()));
        rig.settle();
        sent[500..].iter().for_each(|frame| rig.offer(0, frame));
        assert!(drain(&mut rig) == sent, "{before:?} to {after:?}");
        assert_eq!(rig.account().dropped, 0);
        rig.now = rig.now + Duration::from_millis(200);
        rig.maintain();
        let ports = rig.workers[0].deep(rig.now).map(|deep| deep.ports.len());
        assert_eq!(ports, Some(usize::from(after == QueueOrder::Deep)));
    }
}
