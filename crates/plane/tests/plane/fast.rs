//! The switch with a fast table: it does what the switch does without one, and no frame overtakes
//! another of its flow. The table is in memory, and the test hands it each frame first.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Plan, Rig, access, frame, frame_of, mac, tagged};
use crate::fabric::{ip_packet, owe_checksum};
use crate::fast_rig::{MANY, ROUND, rounds};
use plexus_config::{PortSettings, StaticMac, StormSettings, Trust, VlanMode};
use plexus_io::fast::chaos::{Chaos, Faults};
use plexus_io::fast::memory::{Fate, Memory};
use plexus_io::fast::{Counts, FastTable};
use plexus_io::{Offload, Segmentation};
use plexus_plane::DropReason;
use proptest::prelude::*;

/// A box with a fast table.
pub(crate) struct Fast {
    pub(crate) rig: Rig,
    pub(crate) table: Memory,
}

impl Fast {
    pub(crate) fn new(plan: &Plan) -> Fast {
        Fast::with(plan, Faults::default())
    }

    fn with(plan: &Plan, faults: Faults) -> Fast {
        let ports: Vec<u16> = (0..plan.ports.len() as u16).collect();
        let table = Memory::new(64, &ports);
        let mut rig = plan.clone().build();
        let clears: Arc<[_]> = ports.iter().map(|_| Default::default()).collect();
        for (seed, worker) in (0..).zip(&mut rig.workers) {
            let table = Chaos::new(table.clone(), faults, seed);
            worker.set_fast_table(Box::new(table), clears.clone(), 7);
        }
        Fast { rig, table }
    }

    /// Sends a frame into a port; what comes out, and whether it went by the table.
    fn send(&mut self, port: usize, frame: &[u8]) -> (Vec<(usize, Vec<u8>)>, bool) {
        match self.table.receive(port as u16, frame) {
            Fate::Sent(out, frame) => (vec![(out.into(), frame)], true),
            Fate::Dropped => (vec![], true),
            Fate::Passed => (self.rig.send(port, frame), false),
        }
    }

    pub(crate) fn is_fast(&mut self, port: usize, frame: &[u8]) -> bool {
        self.send(port, frame).1
    }

    fn rounds(&mut self, count: u32) {
        rounds(&mut self.rig, count);
    }

    /// Both stations are heard, and the first sends until its frames go by the table.
    pub(crate) fn offload(&mut self, from: usize, to: usize) {
        self.rounds(1);
        self.rig.send(to, &frame(mac(99), mac(to as u64)));
        let frame = frame(mac(to as u64), mac(from as u64));
        for _ in 0..MANY {
            self.rig.send(from, &frame);
        }
        self.rounds(2);
        assert!(self.is_fast(from, &frame), "from {from} to {to}");
    }
}

#[test]
fn many_frames_of_a_flow_get_it_a_rule_and_a_pause_ends_it() {
    let mut fast = Fast::new(&Plan::new(3));
    let to_1 = frame(mac(1), mac(0));
    fast.rig.send(1, &frame(mac(99), mac(1)));
    (0..8).for_each(|_| drop(fast.rig.send(0, &to_1)));
    fast.rounds(2);
    assert!(!fast.is_fast(0, &to_1), "eight frames are few");
    fast.offload(0, 1);
    assert_eq!(fast.send(0, &to_1), (vec![(1, to_1.clone())], true));
    assert!(!fast.is_fast(1, &frame(mac(0), mac(1))), "the way back is a flow of its own");
    fast.rounds(9);
    assert!(fast.is_fast(0, &to_1));
    fast.rounds(12);
    assert!(fast.table.rules().is_empty());
    // What went by the table is in the account.
    let worker = &mut fast.rig.workers[0];
    worker.count_fast(fast.rig.now);
    let port = worker.pipeline().counters().ports[0];
    assert_eq!((port.fast_received, port.fast_received_bytes), (3, 3 * 60));
    assert_eq!(worker.pipeline().counters().ports[1].fast_sent, 3);
    assert!(worker.account().balances());
}

/// A rule of a flow from port 0 to port 1 that has let one packet through, which is hidden.
fn with_a_hidden_packet() -> (Fast, Vec<u8>) {
    let mut fast = Fast::new(&Plan::new(2));
    let to_1 = frame(mac(1), mac(0));
    fast.rounds(1);
    fast.rig.send(1, &frame(mac(99), mac(1)));
    (0..MANY).for_each(|_| drop(fast.rig.send(0, &to_1)));
    fast.rig.now = fast.rig.now + ROUND;
    fast.rig.maintain();
    assert_eq!(fast.table.rules().len(), 1);
    fast.rig.plugs[0].hide_arrivals(true);
    assert_eq!(fast.send(0, &to_1), (vec![], false));
    (fast, to_1)
}

#[test]
fn a_rule_waits_for_packets_that_its_port_does_not_show_yet() {
    let (mut fast, to_1) = with_a_hidden_packet();
    for _ in 0..4 {
        fast.rounds(1);
        assert_eq!(fast.send(0, &to_1), (vec![], false), "it would overtake the hidden one");
    }
    fast.rig.plugs[0].hide_arrivals(false);
    fast.rig.settle();
    assert_eq!(fast.rig.take().len(), 5, "in their order");
    fast.rounds(1);
    assert!(fast.is_fast(0, &to_1));
}

#[test]
fn a_rule_waits_for_packets_that_its_output_port_has_not_sent_yet() {
    let (mut fast, to_1) = with_a_hidden_packet();
    fast.rig.plugs[1].keep_departures(true);
    fast.rig.plugs[0].hide_arrivals(false);
    fast.rounds(4);
    assert!(!fast.is_fast(0, &to_1));
    fast.rig.plugs[1].keep_departures(false);
    fast.rounds(1);
    assert!(fast.is_fast(0, &to_1));
}

#[test]
fn a_station_that_moves_ends_its_rules_before_its_first_frame_leaves() {
    let mut fast = Fast::new(&Plan::new(4));
    fast.offload(0, 1);
    fast.offload(2, 0);
    fast.offload(2, 1);
    // Station 1 is at port 3 now. Its frame is answered by a rule's flow at once.
    fast.rig.send(3, &frame(mac(2), mac(1)));
    assert_eq!(fast.send(0, &frame(mac(1), mac(0))), (vec![(3, frame(mac(1), mac(0)))], false));
    assert_eq!(fast.send(2, &frame(mac(1), mac(2))).0[0].0, 3);
    assert!(fast.is_fast(2, &frame(mac(0), mac(2))), "this one is not concerned");
    // The source of a rule moves: at its old port it is a station that has moved back.
    fast.rig.send(3, &frame(mac(0), mac(2)));
    let (sent, was_fast) = fast.send(2, &frame(mac(0), mac(2)));
    assert_eq!((sent[0].0, was_fast), (0, false));
    assert_eq!(fast.rig.send(0, &frame(mac(2), mac(0)))[0].0, 2);
}

#[test]
fn a_destination_that_is_silent_is_forgotten_no_later_than_by_the_switch() {
    let mut plan = Plan::new(3);
    plan.switch.ageing = Duration::from_secs(10);
    let mut fast = Fast::new(&plan);
    let mut plain = plan.build();
    plain.now = fast.rig.now + ROUND;
    plain.send(1, &frame(mac(99), mac(1)));
    fast.offload(0, 1);
    let to_1 = frame(mac(1), mac(0));
    while plain.send(0, &to_1).len() == 1 {
        fast.rounds(1);
        plain.now = fast.rig.now;
        fast.send(0, &to_1);
    }
    // The flow had no pause, so nothing else has ended the rule.
    assert_eq!(fast.send(0, &to_1), (vec![(1, to_1.clone()), (2, to_1)], false));
    assert!(fast.rig.now > plexus_wire::Time::from_secs(10));
}

#[test]
fn a_flow_by_the_table_keeps_its_source_known() {
    let mut plan = Plan::new(3);
    plan.switch.ageing = Duration::from_secs(10);
    let mut fast = Fast::new(&plan);
    fast.offload(0, 1);
    for _ in 0..60 {
        fast.rig.send(1, &frame(mac(77), mac(1)));
        fast.send(0, &frame(mac(1), mac(0)));
        fast.rounds(4);
    }
    assert_eq!(fast.rig.ports_reached(1, &frame(mac(0), mac(1))), [0], "after 24 s");
}

#[test]
fn a_plan_a_watched_port_and_a_link_that_goes_down_end_rules_at_once() {
    let plan = Plan::new(3);
    let mut fast = Fast::new(&plan);
    let to_1 = frame(mac(1), mac(0));
    // A new plan: station 1's port is in another VLAN.
    fast.offload(0, 1);
    let mut changed = plan.clone();
    changed.ports[1] = access(2);
    fast.rig.published.store(Arc::new(changed.snapshot()));
    fast.rig.settle();
    assert_eq!(fast.send(0, &to_1), (vec![(2, to_1.clone())], false));
    fast.rig.published.store(Arc::new(plan.snapshot()));
    fast.rig.settle();
    // An onlooker at either port.
    for port in [0, 1] {
        fast.offload(0, 1);
        let (seen, sees) = std::sync::mpsc::channel();
        let now = fast.rig.now;
        let see = Box::new(move |_: plexus_plane::Seen<'_>| seen.send(()).unwrap());
        fast.rig.workers[0].watch(now, port, 5, None, see);
        assert!(!fast.is_fast(0, &to_1));
        assert_eq!(sees.try_iter().count(), 1, "the onlooker at port {port}");
        fast.rig.workers[0].unwatch(now, 5);
        fast.table.open_without_kernel(port);
    }
    // The cable of either port.
    for port in [0, 1] {
        fast.offload(0, 1);
        fast.rig.plug(port, false);
        fast.rig.maintain();
        assert!(fast.table.rules().is_empty(), "{port}");
        fast.rig.plug(port, true);
        fast.rig.maintain();
        fast.table.open_without_kernel(port as u16);
    }
}

#[test]
fn a_port_of_another_worker_that_is_closed_ends_the_rules_to_it() {
    let mut plan = Plan::new(4);
    plan.workers = 2;
    let mut fast = Fast::new(&plan);
    fast.offload(0, 1);
    fast.rig.plug(1, false);
    let now = fast.rig.now;
    fast.rig.workers[1].maintain(now);
    assert!(!fast.is_fast(0, &frame(mac(1), mac(0))), "before its own worker hears of it");
    fast.rig.maintain();
    fast.table.open_without_kernel(1);
    fast.rounds(2);
    assert!(fast.table.rules().is_empty());
}

#[test]
fn flows_that_need_the_queues_get_no_rule() {
    let paced = PortSettings { rate_bits_per_s: Some(1 << 40), ..PortSettings::default() };
    let mut plan = Plan::new(3);
    plan.ports[1] = paced;
    let mut fast = Fast::new(&plan);
    fast.rig.send(1, &frame(mac(99), mac(1)));
    for _ in 0..MANY {
        fast.rig.send(0, &frame(mac(1), mac(0)));
    }
    fast.rounds(3);
    assert!(fast.table.rules().is_empty());
    fast.offload(0, 2);
}

#[test]
fn a_tag_whose_class_depends_on_the_packet_is_left_to_the_switch() {
    let mut plan = Plan::new(3);
    plan.ports[0].trust = Trust::Dscp;
    plan.ports[1].vlan = VlanMode::Trunk { allowed: vec![(1, 2)], native: None };
    let mut fast = Fast::new(&plan);
    fast.rig.send(1, &tagged(mac(99), mac(1), 0, 1));
    for class in [0, 2] {
        let mut bytes = frame(mac(1), mac(0));
        bytes[12..16].copy_from_slice(&[8, 0, 0x45, class << 5]);
        for _ in 0..MANY {
            let (sent, _) = fast.send(0, &bytes);
            assert_eq!(sent[0].1[14..16], [class << 5, 1]);
        }
        fast.rounds(2);
    }
    // Without a new tag it does not matter.
    fast.offload(0, 2);
}

/// Some 260,000 in a second: by their EtherTypes from a station that is known, and by addresses
/// that nobody has.
#[test]
fn flows_of_one_packet_get_no_rule_and_take_none_away() {
    let mut fast = Fast::new(&Plan::new(3));
    fast.offload(0, 1);
    let to_1 = frame(mac(1), mac(0));
    fast.rig.send(2, &frame(mac(99), mac(2)));
    for by_address in [false, true, false] {
        for ethertype in 0x8900..0xF000u16 {
            let from = if by_address { 1_000 + u64::from(ethertype) } else { 2 };
            fast.rig.send(2, &frame_of(mac(1), mac(from), &ethertype.to_be_bytes()));
            assert!(ethertype % 256 != 0 || fast.is_fast(0, &to_1));
        }
        fast.rounds(1);
        assert_eq!(fast.table.rules().len(), 1);
    }
    let worker = &mut fast.rig.workers[0];
    worker.count_fast(fast.rig.now);
    assert_eq!(worker.pipeline().counters().ports[2].fast_received, 0);
    assert!(worker.account().balances());
}

#[test]
fn a_full_table_leaves_flows_to_the_switch() {
    let mut fast = Fast::new(&Plan::new(3));
    fast.table.refuse(true);
    fast.rig.send(1, &frame(mac(99), mac(1)));
    for _ in 0..3 {
        for _ in 0..MANY {
            assert_eq!(fast.rig.ports_reached(0, &frame(mac(1), mac(0))), [1]);
        }
        fast.rounds(1);
    }
    assert!(!fast.is_fast(0, &frame(mac(1), mac(0))));
    fast.table.refuse(false);
    fast.offload(0, 1);
}

#[test]
fn a_table_that_lies_about_its_counts_does_no_harm() {
    let mut fast = Fast::new(&Plan::new(2));
    fast.offload(0, 1);
    let to_1 = frame(mac(1), mac(0));
    let all = |count| Some(Counts { packets: count, bytes: count, held: count, taken_off: count });
    for lie in [all(u64::MAX), all(0), all(u64::MAX / 2), all(7), None] {
        fast.table.lie(lie);
        fast.rounds(2);
        assert_eq!(fast.send(0, &to_1).0, [(1, to_1.clone())]);
    }
    fast.rounds(2);
    assert!(fast.rig.account().balances());
}

#[test]
fn flows_with_more_packets_take_the_place_of_those_with_fewer() {
    let mut plan = Plan::new(2);
    plan.switch.ageing = Duration::from_secs(300);
    let ports: Vec<u16> = vec![0, 1];
    let mut fast = Fast { table: Memory::new(2, &ports), rig: plan.build() };
    fast.rig.workers[0].set_fast_table(Box::new(fast.table.clone()), Arc::new([]), 7);
    fast.rig.send(1, &frame(mac(99), mac(1)));
    let flow = |n: u64| frame(mac(1), mac(10 + n));
    let mut round = |packets: [usize; 3]| {
        let mut by_table = [0; 3];
        for (n, count) in packets.into_iter().enumerate() {
            let count = (0..count).filter(|_| fast.is_fast(0, &flow(n as u64))).count();
            by_table[n] = count;
        }
        fast.rounds(1);
        by_table
    };
    for _ in 0..3 {
        round([50, 40, 0]);
    }
    assert_eq!(round([50, 40, 0]), [50, 40, 0]);
    // A third that is hardly greater changes nothing.
    for _ in 0..5 {
        round([50, 40, 60]);
    }
    assert_eq!(round([50, 40, 60]), [50, 40, 0]);
    // One that is far greater takes the place of the least, and nobody goes to and fro.
    for _ in 0..5 {
        round([50, 40, 200]);
    }
    for _ in 0..5 {
        assert_eq!(round([50, 40, 200]), [50, 0, 200]);
    }
    let report = fast.rig.workers[0].fast();
    assert_eq!((report.made, report.gave_way), (3, 1));
}

#[test]
fn rules_that_cannot_forward_give_way_to_other_flows() {
    let ports: Vec<u16> = vec![0, 1, 2];
    let mut fast = Fast { table: Memory::new(2, &ports), rig: Plan::new(3).build() };
    fast.rig.workers[0].set_fast_table(Box::new(fast.table.clone()), Arc::new([]), 7);
    for port in [1, 2] {
        fast.rig.send(port, &frame(mac(99), mac(port as u64)));
    }
    // The device of port 1 is never done, and two flows to it have all the rules.
    fast.rig.plugs[1].keep_departures(true);
    let stuck = [3, 4].map(|n| frame(mac(1), mac(n)));
    for _ in 0..MANY {
        stuck.iter().for_each(|frame| drop(fast.send(0, frame)));
    }
    fast.rounds(1);
    assert_eq!(fast.table.rules().len(), 2);
    let mut by_table = 0;
    for _ in 0..20 {
        // A packet in each round keeps a rule.
        stuck.iter().for_each(|frame| drop(fast.send(0, frame)));
        let other = frame(mac(2), mac(5));
        by_table += (0..MANY).filter(|_| fast.is_fast(0, &other)).count();
        fast.rounds(1);
    }
    assert!(by_table > MANY, "{by_table}");
}

#[test]
fn frames_with_a_length_in_place_of_a_type_stay_in_their_order() {
    let mut fast = Fast::new(&Plan::new(2));
    fast.rounds(1);
    fast.rig.send(1, &frame(mac(99), mac(1)));
    let mut of_length = frame(mac(1), mac(0));
    of_length[12..14].copy_from_slice(&46u16.to_be_bytes());
    for _ in 0..3 {
        (0..MANY).for_each(|_| assert!(!fast.is_fast(0, &of_length)));
        fast.rounds(1);
    }
    assert!(fast.table.rules().is_empty());
}

#[test]
fn a_flow_without_a_pause_is_held_back_if_its_port_drops_packets_or_they_are_super_packets() {
    for (overflows, is_super) in [(false, false), (true, false), (false, true)] {
        let is_held = overflows || is_super;
        let mut fast = Fast::new(&Plan::new(2));
        fast.rounds(1);
        fast.rig.send(1, &frame(mac(99), mac(1)));
        let mut bytes = ip_packet(true, 20, 9);
        bytes[..12].copy_from_slice(&frame(mac(1), mac(0))[..12]);
        let mut owed = Offload::NONE;
        if is_super {
            owed = owe_checksum(&mut bytes, true);
            (owed.segmentation, owed.segment_size, owed.header_len) = (Segmentation::TcpV4, 15, 54);
        }
        let (mut by_table, mut dropped) = (0, 0);
        for _ in 0..10 {
            // A whole batch comes in before each turn: the port is never seen empty.
            for _ in 0..4 {
                for _ in 0..plexus_io::BATCH {
                    let fate = match is_super {
                        true => fast.table.receive_super(0, &bytes),
                        false => fast.table.receive(0, &bytes),
                    };
                    match fate {
                        Fate::Passed => fast.rig.offer_owing(0, &bytes, owed),
                        Fate::Sent(..) => by_table += 1,
                        Fate::Dropped => dropped += 1,
                    }
                }
                let now = fast.rig.now;
                fast.rig.workers[0].turn(now);
                fast.rig.take();
            }
            if overflows {
                fast.rig.plugs[0].lose(1);
            }
            fast.rig.now = fast.rig.now + ROUND;
            fast.rig.maintain();
        }
        fast.rig.workers[0].count_fast(fast.rig.now);
        assert_eq!(by_table > 0, is_held, "{by_table} by the table, {dropped} dropped");
        assert_eq!(dropped > 0, is_held, "{dropped}");
        assert_eq!(fast.rig.drops(0, DropReason::Held), dropped);
        fast.rig.settle();
        if is_held {
            // A packet is counted after the rule has settled: it waits again, and holds no more.
            assert!(fast.is_fast(0, &bytes));
            fast.table.count_late();
            assert_eq!(fast.send(0, &bytes), (vec![(1, bytes.clone())], false));
            fast.rounds(2);
            assert!(fast.is_fast(0, &bytes), "and forwards again");
        }
    }
}

/// The worker never takes all that has come in, but all of the quiet port.
#[test]
fn a_flood_at_one_port_keeps_no_flow_of_another_from_the_table() {
    const QUIET: usize = 16;
    /// Frames that the flood leaves to others.
    const POOL: usize = 4 * plexus_io::BATCH;
    let mut fast = Fast::new(&Plan::new(4));
    fast.rounds(1);
    for station in [1, 3] {
        fast.rig.send(station, &frame(mac(99), mac(station as u64)));
    }
    let (flood, flow) = (frame(mac(3), mac(0)), frame(mac(1), mac(2)));
    let mut by_table = 0;
    for _ in 0..10 {
        for _ in 0..8 {
            while fast.rig.workers[0].pool().available() > POOL && fast.rig.try_offer(0, &flood) {}
            for _ in 0..QUIET {
                match fast.table.receive(2, &flow) {
                    Fate::Passed => fast.rig.offer(2, &flow),
                    _ => by_table += 1,
                }
            }
            let now = fast.rig.now;
            fast.rig.workers[0].turn(now);
            fast.rig.take();
        }
        fast.rig.now = fast.rig.now + ROUND;
        fast.rig.maintain();
    }
    fast.rig.settle();
    fast.rig.take();
    assert!(by_table > 4 * QUIET, "{by_table}");
}

/// Numbered frames of one flow, and what has left in which order.
struct Order {
    fast: Fast,
    next: u32,
    left: Vec<u32>,
}

impl Order {
    fn arrive(&mut self) {
        let mut bytes = frame(mac(1), mac(0));
        bytes[20..24].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        match self.fast.table.receive(0, &bytes) {
            Fate::Sent(_, bytes) => {
                // What is on the cable has left before.
                self.take(1);
                self.note(&bytes);
            }
            Fate::Dropped => {}
            Fate::Passed => self.fast.rig.offer(0, &bytes),
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.left.push(u32::from_be_bytes(bytes[20..24].try_into().unwrap()));
    }

    fn take(&mut self, port: usize) {
        for bytes in self.fast.rig.take_from(port) {
            self.note(&bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// A flow's frames leave in their order while it goes over to the table and back, however turns
    /// of the workers and arrivals lie between each other, and although the output port is full now
    /// and then.
    #[test]
    fn no_frame_overtakes_another(
        steps in prop::collection::vec((arrivals(), 0..2usize, 0..16u8), 20..150),
        workers in 1..=2usize,
        faults in faults(),
        lie in prop::sample::select(vec![0.0, 0.0, 0.3]),
    ) {
        let mut plan = Plan::new(2);
        (plan.workers, plan.depth) = (workers, 128);
        let mut fast = Fast::with(&plan, Faults { lie, ..faults });
        fast.rig.send(1, &frame(mac(99), mac(1)));
        fast.rig.take();
        let mut order = Order { fast, next: 0, left: vec![] };
        for (arrivals, worker, what) in steps {
            for _ in 0..arrivals {
                if order.fast.rig.cables[0].to_port.slots() > 0 {
                    order.arrive();
                }
            }
            let now = order.fast.rig.now;
            match what {
                0..8 => drop(order.fast.rig.workers[worker % workers].turn(now)),
                8..12 => order.take(1),
                12..15 => {
                    order.fast.rig.now = now + ROUND;
                    order.fast.rig.maintain();
                }
                // All rules end.
                _ => order.fast.rig.published.store(Arc::new(plan.snapshot())),
            }
        }
        // Whatever waits leaves, some frames at a time.
        for _ in 0..order.next {
            order.fast.rig.settle();
            order.take(1);
        }
        prop_assert!(order.left.is_sorted(), "{:?}", order.left);
        // The table counts the frames that were held back.
        if lie == 0.0 {
            let dropped = order.fast.rig.account().dropped;
            prop_assert_eq!(order.left.len() as u64 + dropped, u64::from(order.next));
        }
    }

    /// A box with a fast table and one without do the same, also if the table fails.
    #[test]
    fn it_does_what_the_switch_does(
        shape in shape(),
        steps in prop::collection::vec(step(), 1..60),
        faults in faults(),
    ) {
        let mut fast = Fast::with(&shape, faults);
        let mut plain = shape.clone().build();
        for step in steps {
            match step {
                Step::Send { port, to, from, tag, count } => {
                    let port = port % shape.ports.len();
                    let mut frame = match tag {
                        Some((priority, vlan)) => tagged(mac(to), mac(from), priority, vlan),
                        None => frame(mac(to), mac(from)),
                    };
                    if to == 1 {
                        // An IPv4 header as far as the class: 2 in the lowest half of the range.
                        let at = if tag.is_some() { 16 } else { 12 };
                        frame[at..at + 4].copy_from_slice(&[8, 0, 0x45, 0x40]);
                    }
                    for _ in 0..count {
                        let (mut out, was_fast) = fast.send(port, &frame);
                        let mut expected = plain.send(port, &frame);
                        out.sort();
                        expected.sort();
                        prop_assert_eq!(out, expected, "by the table: {}", was_fast);
                    }
                }
                Step::Rounds(count) => {
                    fast.rounds(count);
                    // Ports that have dropped out come back.
                    let gone: Vec<u16> = (0..4).filter(|port| !fast.table.is_open(*port)).collect();
                    gone.into_iter().for_each(|port| fast.table.open_without_kernel(port));
                    plain.now = fast.rig.now;
                    plain.maintain();
                }
                Step::Replug(port) => {
                    let port = port % shape.ports.len();
                    for is_in in [false, true] {
                        for rig in [&mut fast.rig, &mut plain] {
                            rig.plug(port, is_in);
                            rig.maintain();
                        }
                    }
                    fast.table.open_without_kernel(port as u16);
                }
                Step::Age => {
                    fast.rig.now = fast.rig.now + 2 * shape.switch.ageing;
                    plain.now = fast.rig.now;
                    fast.rounds(2);
                    plain.now = fast.rig.now;
                    plain.maintain();
                }
            }
        }
        let now = fast.rig.now;
        fast.rig.workers.iter_mut().for_each(|worker| worker.count_fast(now));
        for port in 0..shape.ports.len() {
            for reason in DropReason::ALL {
                let (ours, theirs) = (fast.rig.drops(port, *reason), plain.drops(port, *reason));
                prop_assert_eq!(ours, theirs, "{:?} at {}", reason, port);
            }
        }
        let (ours, theirs) = (fast.rig.account(), plain.account());
        prop_assert_eq!((ours.received, ours.sent), (theirs.received, theirs.sent));
        prop_assert!(ours.balances(), "{:?}", ours);
    }
}

/// None in two tables of three.
fn faults() -> impl Strategy<Value = Faults> {
    let probability = || prop::sample::select(vec![0.0, 0.1, 0.5]);
    let some = (probability(), probability(), probability(), 0..8u32);
    let some = some.prop_map(|(refuse, lose, drop_out, delay)| Faults {
        refuse,
        lose,
        drop_out,
        delay,
        ..Faults::default()
    });
    prop_oneof![2 => Just(Faults::default()), 1 => some]
}

/// Often none, now and then more than a batch.
fn arrivals() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), 0..4usize, 0..20usize, 60..100usize]
}

#[derive(Clone, Debug)]
enum Step {
    Send { port: usize, to: u64, from: u64, tag: Option<(u8, u16)>, count: usize },
    Rounds(u32),
    Replug(usize),
    Age,
}

fn step() -> impl Strategy<Value = Step> {
    let tag = prop::option::weighted(0.3, (0..8u8, prop::sample::select(vec![0u16, 1, 2, 3])));
    let count = prop::sample::select(vec![1, 1, 3, MANY]);
    let send = (0..4usize, 0..4u64, 0..4u64, tag, count);
    let send = send.prop_map(|(port, to, from, tag, count)| {
        // Most stations stay at their port.
        let port = if count == 3 { port } else { from as usize };
        Step::Send { port, to: to + 1, from: from + 1, tag, count }
    });
    prop_oneof![
        20 => send,
        10 => (1..4u32).prop_map(Step::Rounds),
        1 => (0..4usize).prop_map(Step::Replug),
        1 => Just(Step::Age),
    ]
}

fn shape() -> impl Strategy<Value = Plan> {
    let trunk = |native| VlanMode::Trunk { allowed: vec![(1, 2)], native };
    let vlan = prop_oneof![
        4 => Just(VlanMode::Access(1)),
        1 => Just(VlanMode::Access(2)),
        1 => Just(trunk(Some(1))),
        1 => Just(trunk(None)),
    ];
    let trust = prop::sample::select(vec![Trust::None, Trust::Pcp, Trust::Dscp]);
    let storm = prop::option::weighted(0.2, 1..100u32);
    let limits = (prop::option::weighted(0.1, 1..3u32), storm);
    let port = (vlan, trust, 0..8u8, limits, prop::bool::weighted(0.9));
    let port = port.prop_map(|(vlan, trust, priority, (mac_limit, unknown_pps), learning)| {
        let storm = StormSettings { unknown_pps, ..StormSettings::default() };
        PortSettings {
            vlan,
            trust,
            priority,
            mac_limit,
            storm,
            learning,
            ..PortSettings::default()
        }
    });
    let fixed = prop::option::weighted(0.2, (1..5u64, 0..4usize));
    (prop::collection::vec(port, 4), 1..=2usize, fixed).prop_map(|(ports, workers, fixed)| {
        let mut plan = Plan::new(4);
        (plan.ports, plan.workers) = (ports, workers);
        plan.switch.ageing = Duration::from_secs(300);
        if let Some((station, port)) = fixed
            && plan.ports[port].vlan == VlanMode::Access(1)
        {
            let port = format!("p{port}");
            plan.switch.static_macs = vec![StaticMac { vlan: 1, mac: mac(station), port }];
        }
        plan
    })
}
