//! The policy with a chip, packet by packet, on a box that keeps the order of each flow on the CPU.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use plexus_wire::{FlowKey, Protocol};
use proptest::prelude::*;

use super::faulty::{Faults, Faulty};
use super::*;
use crate::chip::{ChipCounters, ChipModel, ChipSpec, Way};

pub(crate) fn flow(i: u32) -> PackedFlow {
    PackedFlow::from(&FlowKey {
        vlan: None,
        src: Ipv4Addr::from_bits(i).into(),
        dst: Ipv4Addr::new(192, 0, 2, 1).into(),
        protocol: Protocol::UDP,
        ports: Some((1, 2)),
    })
}

/// From a packet's arrival on the CPU until it has left.
const ON_CPU: Duration = Duration::from_micros(50);
const SMALL: ChipSpec = ChipSpec { rules: 8, ..ChipSpec::PAPER };
const OURS: OffloadConfig =
    OffloadConfig { counting: Counting::Full(4096), reserve: 1, ..OffloadConfig::OURS };

/// A box. Packets have numbers; those that left are checked for their order.
struct Rig<C> {
    offload: Offload,
    chip: C,
    now: Time,
    cpu: VecDeque<(Time, u64, u32, u64)>,
    parked: Vec<(u32, u64)>,
    sent: BTreeMap<u32, u64>,
    left: BTreeMap<u32, u64>,
    fast: u64,
    all: u64,
    early: u64,
    dropped: u64,
}

/// A chip as tests look into it.
trait Inner: Chip {
    fn model(&self) -> &ChipModel;
}

impl Inner for ChipModel {
    fn model(&self) -> &ChipModel {
        self
    }
}

impl Inner for Faulty<ChipModel> {
    fn model(&self) -> &ChipModel {
        self.chip()
    }
}

impl<C: Inner> Rig<C> {
    fn new(config: OffloadConfig, chip: C) -> Rig<C> {
        Rig {
            offload: Offload::new(config, chip.capacity()),
            chip,
            now: Time::ZERO,
            cpu: VecDeque::new(),
            parked: vec![],
            sent: BTreeMap::new(),
            left: BTreeMap::new(),
            fast: 0,
            all: 0,
            early: 0,
            dropped: 0,
        }
    }

    fn leave(&mut self, flow: u32, number: u64) {
        let last = self.left.entry(flow).or_insert(0);
        self.early += u64::from(number < *last);
        *last = number.max(*last);
    }

    /// Everything that is due up to a time.
    fn run_to(&mut self, to: Time) {
        loop {
            let leaves = self.cpu.front().map_or(Time::FOREVER, |packet| packet.0);
            let next = leaves.min(self.offload.next_deadline(&self.chip)).max(self.now);
            if next > to {
                break;
            }
            self.now = next;
            while let Some((_, seq, flow, number)) = self.cpu.pop_front_if(|p| p.0 <= next) {
                self.leave(flow, number);
                self.offload.left(next, seq);
            }
            self.poll();
            if next == to {
                break;
            }
        }
        self.now = to;
    }

    fn poll(&mut self) {
        self.offload.poll(self.now, &mut self.chip);
        let model = self.chip.model();
        assert!(model.len() <= model.capacity());
        assert!(self.offload.len() <= model.capacity() + WANTED_MAX);
        assert!(self.offload.out.len() <= OUTSTANDING_MAX);
        let parked = std::mem::take(&mut self.parked);
        for (id, number) in parked {
            match self.chip.model().holds(&flow(id)) {
                true => self.parked.push((id, number)),
                false => self.leave(id, number),
            }
        }
    }

    fn packet(&mut self, at: Time, id: u32, bytes: u32) {
        self.run_to(at);
        let sent = self.sent.entry(id).or_insert(0);
        *sent += 1;
        let number = *sent;
        self.all += u64::from(bytes);
        match self.chip.packet(&flow(id), bytes, 1) {
            Way::Fast => {
                self.fast += u64::from(bytes);
                self.leave(id, number);
            }
            Way::Parked => self.parked.push((id, number)),
            Way::Dropped => self.dropped += 1,
            Way::Cpu { matched } => {
                let seq = self.offload.on_cpu(at, &flow(id), bytes, 1, matched);
                self.cpu.push_back((at + ON_CPU, seq, id, number));
            }
        }
        self.poll();
    }

    /// A second of packets, one of each flow per `every` microseconds.
    fn second(&mut self, flows: std::ops::Range<u32>, every: u64) {
        let start = self.now;
        for us in (0..1_000_000).step_by(every as usize) {
            for id in flows.clone() {
                self.packet(start + Duration::from_micros(us), id, 1000);
            }
        }
    }

    fn share(&mut self) -> f64 {
        let share = self.fast as f64 / self.all as f64;
        (self.fast, self.all) = (0, 0);
        share
    }
}

#[test]
fn flows_that_fit_are_all_in_the_table() {
    let mut rig = Rig::new(OURS, ChipModel::new(SMALL));
    rig.second(0..7, 200);
    assert!(rig.share() > 0.99);
    assert_eq!((rig.early, rig.offload.counters().swaps), (0, 0));
    // Flows with pauses need no parking.
    assert_eq!(rig.chip.counters().parked_max, 0);
}

/// A flow without pauses is held, and neither dropped nor overtaken.
#[test]
fn a_flow_without_pauses_gets_in_by_parking() {
    let mut rig = Rig::new(OURS, ChipModel::new(SMALL));
    rig.second(0..1, 10);
    let counters: ChipCounters = rig.chip.counters();
    assert!(rig.share() > 0.98);
    assert!(counters.parked_max > 0 && counters.parked_max < 20_000, "{counters:?}");
    assert_eq!((rig.early, rig.dropped, counters.dropped), (0, 0, 0));
}

#[test]
fn without_parking_a_flow_without_pauses_stays_on_the_cpu() {
    let hold_after = Duration::from_secs(9);
    let mut rig = Rig::new(OffloadConfig { hold_after, ..OURS }, ChipModel::new(SMALL));
    rig.second(0..1, 10);
    assert_eq!((rig.share(), rig.early), (0.0, 0));
}

#[test]
fn rules_that_forward_at_once_let_packets_overtake() {
    let mut rig = Rig::new(OffloadConfig { in_order: false, ..OURS }, ChipModel::new(SMALL));
    rig.second(0..1, 10);
    assert!(rig.early > 0);
}

#[test]
fn larger_flows_displace_smaller_ones_but_not_equal_ones() {
    let mut rig = Rig::new(OURS, ChipModel::new(SMALL));
    rig.second(0..8, 1000);
    let before = rig.offload.counters().ranked;
    // As large as those in the table.
    rig.second(0..16, 1000);
    let equal = rig.offload.counters().ranked - before;
    // Ten times as many packets.
    rig.second(100..107, 100);
    rig.share();
    let start = rig.now;
    for us in (0..1_000_000u64).step_by(100) {
        let at = start + Duration::from_micros(us);
        (100..107).for_each(|id| rig.packet(at, id, 1000));
        if us % 1000 == 0 {
            (0..8).for_each(|id| rig.packet(at, id, 1000));
        }
    }
    assert!(equal <= 2, "{equal} swaps among equals");
    assert!(rig.share() > 0.85);
    assert_eq!(rig.early, 0);
}

#[test]
fn an_idle_flow_gives_its_place_to_a_new_one() {
    // No ranking: only the place of an idle flow is to be had.
    let idle = Duration::from_secs(1);
    let config = OffloadConfig { rank: false, place: Place::New, reserve: 0, idle, ..OURS };
    let mut rig = Rig::new(config, ChipModel::new(SMALL));
    rig.second(0..8, 1000);
    rig.share();
    rig.second(8..16, 1000);
    assert!(rig.share() < 0.1, "the first ones are not idle for long enough");
    // They are now; but these flows are not new.
    rig.second(8..16, 1000);
    assert_eq!(rig.share(), 0.0);
    rig.second(20..28, 1000);
    assert!(rig.share() > 0.9);
    assert_eq!(rig.offload.counters().swaps, 8);
}

#[test]
fn a_flow_that_was_idle_and_resumes_keeps_its_place() {
    let idle = Duration::from_secs(1);
    let config = OffloadConfig { rank: false, reserve: 0, idle, ..OURS };
    let mut rig = Rig::new(config, ChipModel::new(SMALL));
    rig.second(0..8, 1000);
    rig.run_to(rig.now + Duration::from_millis(1500));
    rig.second(0..8, 1000);
    rig.share();
    rig.second(10..18, 1000);
    assert!(rig.share() < 0.1);
}

#[test]
fn an_impossible_counter_is_no_traffic() {
    let mut rig = Rig::new(OURS, ChipModel::new(SMALL));
    rig.second(0..1, 1000);
    let at = rig.offload.index[&flow(0)];
    let rate = |rig: &Rig<ChipModel>| rig.offload.rules[at].as_ref().map(|rule| rule.rate);
    assert_eq!(rate(&rig), Some(100_000));
    for (lies, counter) in [(1, u64::MAX), (2, 1_000_000)] {
        rig.now = rig.now + Duration::from_millis(100);
        rig.offload.counter(rig.now, at, counter);
        assert_eq!((rate(&rig), rig.offload.counters().lies), (Some(0), lies));
    }
}

/// A flood of one-packet flows takes at most the swap budget, and the flows in the table stay.
#[test]
fn a_flood_of_one_packet_flows_swaps_no_more_than_the_budget() {
    let mut rig = Rig::new(OffloadConfig { swaps_per_s: 10.0, ..OURS }, ChipModel::new(SMALL));
    rig.second(0..4, 1000);
    rig.share();
    let start = rig.now;
    let (mut honest, mut fast) = (0, 0);
    for i in 0..200_000u32 {
        let at = start + Duration::from_micros(u64::from(i) * 10);
        if i % 100 == 0 {
            let before = rig.fast;
            (0..4).for_each(|id| rig.packet(at, id, 1000));
            (honest, fast) = (honest + 4000, fast + rig.fast - before);
        }
        rig.packet(at, 1_000_000 + i, 64);
    }
    let counters = rig.offload.counters();
    assert!(counters.swaps <= 22, "{counters:?}");
    assert!(fast * 10 > honest * 9, "{fast} of {honest}");
    assert_eq!(rig.early, 0);
}

#[test]
fn sketch_and_sampling_find_elephants_too() {
    for counting in [Counting::Sketch(256), Counting::Sampled(10, 4096)] {
        let mut rig = Rig::new(OffloadConfig { counting, ..OURS }, ChipModel::new(SMALL));
        let mut mouse = 1000;
        for second in 0..3 {
            rig.share();
            let start = rig.now;
            for us in (0..1_000_000).step_by(500) {
                (0..6).for_each(|id| rig.packet(start + Duration::from_micros(us), id, 1000));
                mouse += 1;
                rig.packet(start + Duration::from_micros(us), mouse, 64);
            }
            let share = rig.share();
            assert!(second == 0 || share > 0.9, "{counting:?} {second}: {share}");
        }
        assert_eq!(rig.early, 0, "{counting:?}");
    }
}

/// Whatever the chip does, state stays bounded, packets keep their order, and the CPU forwards.
/// Afterwards a sound chip is used again, and holds no rule that the policy does not know.
#[test]
fn a_chip_that_misbehaves_is_survived() {
    let delay = Duration::from_millis(150);
    let all = Faults { refuse: 0.2, lose: 0.2, lose_report: 0.2, lie: 0.5, delay };
    let none = Faults::default();
    let faults = [
        Faults { refuse: 0.5, ..none },
        Faults { refuse: 1.0, ..none },
        Faults { lose: 0.5, ..none },
        Faults { lose: 1.0, ..none },
        Faults { lose_report: 0.5, ..none },
        Faults { lie: 1.0, ..none },
        Faults { delay, ..none },
        all,
    ];
    for (seed, faults) in faults.into_iter().enumerate() {
        let chip = Faulty::new(ChipModel::new(SMALL), faults, seed as u64);
        let mut rig = Rig::new(OURS, chip);
        rig.second(0..20, 1000);
        rig.second(10..30, 1000);
        let counters = rig.offload.counters();
        let told = [counters.refused, counters.lost, counters.lies];
        assert!(faults.delay > Duration::ZERO || told.iter().sum::<u64>() > 0, "{faults:?}");
        rig.chip.set_faults(none);
        rig.second(30..36, 1000);
        rig.second(30..36, 1000);
        rig.share();
        rig.second(30..36, 1000);
        let share = rig.share();
        assert!(share > 0.95, "{faults:?}: {share} {:?}", rig.offload.counters());
        let known = (0..100).filter(|i| rig.offload.index.contains_key(&flow(*i))).count();
        assert!(rig.chip.chip().len() <= known, "{faults:?}");
        // Only a deletion without knowing what became of a rule may break the order.
        assert!(rig.early <= rig.offload.counters().lost, "{faults:?}: {}", rig.early);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_packet_overtakes_another_of_its_flow(
        packets in prop::collection::vec((0u32..12, 1u64..400), 200..1500),
        hold_us in 0u64..2000,
        factor in 1.0f64..2.0,
        reserve in 0usize..3,
    ) {
        // Rankings and inactivity come sooner, to have many moves.
        let config = OffloadConfig {
            hold_after: Duration::from_micros(hold_us),
            interval: Duration::from_millis(5),
            idle: Duration::from_millis(10),
            factor,
            reserve,
            ..OURS
        };
        let spec = ChipSpec { rules: 4, ..SMALL };
        let mut rig = Rig::new(config, ChipModel::new(spec));
        let mut at = Time::ZERO;
        for (id, pause) in packets {
            at = at + Duration::from_micros(pause);
            rig.packet(at, id, 1000);
        }
        rig.run_to(at + Duration::from_secs(1));
        prop_assert_eq!((rig.early, rig.parked.len()), (0, 0));
        let rules = rig.chip.counters();
        prop_assert_eq!(rig.left.values().sum::<u64>() + rules.dropped, rig.sent.values().sum());
    }
}
