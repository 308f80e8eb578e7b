//! The offload policy (`traffic-coprocessor.txt` §3.1). It decides which flows have a rule in a
//! fast table that is too small for all.
//!
//! A new flow begins on the CPU. It gets a rule at once if the table has room, or else the place of
//! an idle one. Every interval, the largest flows of the CPU challenge the smallest ones of the
//! table. All work is bounded by what the chip can do: a swap budget limits evictions, few
//! operations are outstanding at a time, and urgent ones come first. Counters are read in turn,
//! each once per interval.
//!
//! Beyond the paper: a rule may give way after one silent interval instead of a second, the longest
//! idle one first. A challenger must be larger by a factor (hysteresis). A reserve of free
//! entries lets a new flow in without waiting for a deletion. First packets of flows use at most
//! half the swap budget, so a flood of one-packet flows cannot take it all.
//!
//! # No packet overtakes another of its flow
//! A new rule passes packets on to the CPU. The CPU numbers its packets ([`Offload::on_cpu`]) and
//! says which have left the box ([`Offload::left`]). When all of a flow's have left, the policy
//! settles the rule. If the flow makes no pause for that, the policy has the chip park the flow's
//! packets in the meantime. When a rule ends, later packets take the slower way, behind the earlier
//! ones.
//!
//! # Bad chips
//! An operation without a report after 100 ms leaves a rule in doubt. The policy deletes
//! such a rule and tries again until the chip confirms. A refusal stops insertions for a
//! while. An impossible counter counts as no traffic. Packets are forwarded by the CPU all the
//! same.

#[cfg(test)]
mod faulty;
mod operations;
mod ranking;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use plexus_table::{Counted, FlowTable, PackedFlow};
use plexus_wire::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::chip::{Chip, Op, Outcome};
use crate::rank::Interval;
use crate::sketch::Sketch;
use operations::{OP_TIMEOUT, REFUSED};

/// Operations that the chip has at a time: more would make urgent ones wait.
const OUTSTANDING_MAX: usize = 3;
/// Flows that wait for their insertion, at most.
const WANTED_MAX: usize = 256;

/// How the CPU counts its flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Counting {
    /// Every packet, in a flow table for so many flows.
    Full(usize),
    /// One packet of so many, by chance, in a flow table for so many flows.
    Sampled(u32, usize),
    /// Every packet, in a [`Sketch`] of this width.
    Sketch(usize),
}

/// Which flows get a rule between rankings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// None.
    Never,
    /// New flows, as in the paper.
    New,
    /// All flows on the CPU.
    Any,
}

/// A policy's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffloadConfig {
    /// How the CPU counts.
    pub counting: Counting,
    /// Which flows get a rule between rankings.
    pub place: Place,
    /// Whether flows are ranked.
    pub rank: bool,
    /// A challenger needs more than this many times the bytes of the flow whose place it takes.
    pub factor: f64,
    /// Evictions per second, at most.
    pub swaps_per_s: f64,
    /// Entries that are kept free.
    pub reserve: usize,
    /// Whether rules keep the order of packets.
    pub in_order: bool,
    /// A rule that waits for a pause of its flow for longer parks packets.
    pub hold_after: Duration,
    /// Time between rankings.
    pub interval: Duration,
    /// A rule without packets for this long gives way to a new flow, the longest idle one first.
    pub idle: Duration,
    /// The CPU forgets a flow after this long without packets.
    pub inactive: Duration,
    /// Bytes per second that all ports carry. A higher counter lies.
    pub bytes_per_s_max: u64,
    /// Secret seed.
    pub seed: [u64; 2],
}

impl OffloadConfig {
    /// Our policy, for the paper's switch of 16 ports of 1 Gb/s.
    pub const OURS: OffloadConfig = OffloadConfig {
        counting: Counting::Full(1 << 17),
        place: Place::Any,
        rank: true,
        factor: 1.5,
        swaps_per_s: 2000.0,
        reserve: 16,
        in_order: true,
        hold_after: Duration::from_millis(1),
        interval: Duration::from_millis(100),
        idle: Duration::from_millis(100),
        inactive: Duration::from_secs(1),
        bytes_per_s_max: 2_000_000_000,
        seed: [0; 2],
    };

    /// The paper's rule: a new flow takes the place of an inactive one, and the largest flows are
    /// swapped in whatever it costs. Its rules forward at once.
    pub const PLAIN: OffloadConfig = OffloadConfig {
        place: Place::New,
        factor: 1.0,
        swaps_per_s: f64::INFINITY,
        reserve: 0,
        in_order: false,
        idle: Duration::from_secs(1),
        ..OffloadConfig::OURS
    };
}

/// The counts of a policy since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadCounters {
    /// Rules that took effect.
    pub rules: u64,
    /// Rules that were ended to make room: swaps.
    pub swaps: u64,
    /// Of these, swaps that a ranking decided.
    pub ranked: u64,
    /// Flows that found neither room nor an idle rule, or no swap budget.
    pub unplaced: u64,
    /// Operations that the chip refused.
    pub refused: u64,
    /// Operations without a report.
    pub lost: u64,
    /// Rules that were not in the chip any more.
    pub vanished: u64,
    /// Impossible counters.
    pub lies: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for an entry and its insertion.
    Wanted,
    Inserting,
    /// In the table, and passes packets to the CPU.
    Passing,
    Forwarding,
    /// Waits for its deletion, or for the report of it.
    Deleting,
}

struct Rule {
    flow: PackedFlow,
    state: State,
    /// The operation whose report is due, by its number.
    pending: Option<(u64, Op)>,
    /// An operation to settle or hold is enqueued.
    settling: bool,
    held: bool,
    /// Since when it passes packets.
    since: Time,
    /// The last packet of the flow on the CPU, and how many the rule passed.
    last: u64,
    passed: u64,
    /// The counter when it was read last, and when.
    read: Option<(u64, Time)>,
    /// Bytes per interval, between the last two reads.
    rate: u32,
    /// Time of the last packet, as far as known.
    active: Time,
    /// It is in the queue of idle rules.
    idle: bool,
}

/// The counters of the flows on the CPU.
enum Flows {
    Table { table: FlowTable, interval: Interval, sampled: u32, swept: usize },
    Sketch(Box<Sketch>),
}

/// The offload policy.
pub struct Offload {
    config: OffloadConfig,
    flows: Flows,
    rng: Pcg64Mcg,
    capacity: usize,
    rules: Vec<Option<Rule>>,
    /// The rules of flows. A tree: senders choose their flows, and could choose collisions.
    index: BTreeMap<PackedFlow, usize>,
    spare: Vec<usize>,
    /// Rules that the chip has, or may have; and of these the ones that end.
    in_chip: usize,
    deleting: usize,
    wanted: VecDeque<usize>,
    to_delete: VecDeque<usize>,
    to_settle: VecDeque<usize>,
    passing: Vec<usize>,
    /// Rules that hold, or may.
    holding: usize,
    /// Rules without traffic, the longest idle one first.
    idle: VecDeque<usize>,
    /// Operations that are out: timeout, number, rule; in this order.
    out: VecDeque<(Time, u64, usize)>,
    /// Deletions to try again, and when.
    again: VecDeque<(Time, usize)>,
    number: u64,
    /// The last packet of the CPU, and the last that left with all before it.
    seq: u64,
    left: u64,
    next_rank: Time,
    next_read: Time,
    read_at: usize,
    insert_after: Time,
    refused_for: Duration,
    tokens: f64,
    tokens_at: Time,
    counters: OffloadCounters,
}

impl Offload {
    /// A policy for a table of so many rules.
    pub fn new(config: OffloadConfig, capacity: usize) -> Offload {
        let idle_ms = u32::try_from(config.inactive.as_millis()).unwrap_or(u32::MAX);
        let table = |flows, sampled| {
            let table = FlowTable::new(flows, idle_ms, config.seed);
            let interval = Interval::new(table.slots());
            Flows::Table { table, interval, sampled, swept: 0 }
        };
        let slots = capacity + WANTED_MAX;
        Offload {
            config,
            flows: match config.counting {
                Counting::Full(flows) => table(flows, 1),
                Counting::Sampled(one_in, flows) => table(flows, one_in.max(1)),
                Counting::Sketch(width) => Flows::Sketch(Sketch::new(width, config.seed).into()),
            },
            rng: Pcg64Mcg::seed_from_u64(config.seed[0] ^ config.seed[1]),
            capacity,
            rules: (0..slots).map(|_| None).collect(),
            index: BTreeMap::new(),
            spare: (0..slots).rev().collect(),
            in_chip: 0,
            deleting: 0,
            wanted: VecDeque::new(),
            to_delete: VecDeque::new(),
            to_settle: VecDeque::new(),
            passing: Vec::new(),
            holding: 0,
            idle: VecDeque::new(),
            out: VecDeque::new(),
            again: VecDeque::new(),
            number: 0,
            seq: 0,
            left: 0,
            next_rank: Time::ZERO + config.interval,
            next_read: Time::ZERO,
            read_at: 0,
            insert_after: Time::ZERO,
            refused_for: REFUSED,
            tokens: 0.0,
            tokens_at: Time::ZERO,
            counters: OffloadCounters::default(),
        }
    }

    /// Its counts.
    pub fn counters(&self) -> OffloadCounters {
        self.counters
    }

    /// Rules in the chip, as far as is known, and flows that wait for one.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// A packet, or a train of packets, comes to the CPU; `matched` as the chip says
    /// ([`Way`](crate::chip::Way)). Returns its number.
    pub fn on_cpu(
        &mut self,
        now: Time,
        flow: &PackedFlow,
        bytes: u32,
        packets: u32,
        matched: bool,
    ) -> u64 {
        self.seq += 1;
        let known = self.index.get(flow).copied();
        if let Some(rule) = known.and_then(|at| self.rules[at].as_mut()) {
            rule.last = self.seq;
            rule.active = now;
            rule.passed += if matched { u64::from(packets) } else { 0 };
        }
        let Some(is_new) = self.count(now, flow, bytes, packets) else { return self.seq };
        let place = match self.config.place {
            Place::Never => false,
            Place::New => is_new,
            Place::Any => true,
        };
        if place && known.is_none() && !self.place(now, flow, is_new) {
            self.counters.unplaced += 1;
        }
        self.seq
    }

    /// Packets that a rule passed were dropped in front of the CPU.
    pub fn dropped(&mut self, flow: &PackedFlow, packets: u32) {
        if let Some(rule) = self.index.get(flow).and_then(|at| self.rules[*at].as_mut()) {
            rule.passed += u64::from(packets);
        }
    }

    /// All packets of the CPU up to this number have left the box.
    pub fn left(&mut self, now: Time, number: u64) {
        self.left = self.left.max(number);
        for i in 0..self.passing.len() {
            self.try_settle(now, self.passing[i]);
        }
    }

    /// Takes the chip's reports, ranks when it is time, and gives the chip work. Call it when
    /// [`Offload::next_deadline`] is reached, and after packets.
    pub fn poll(&mut self, now: Time, chip: &mut impl Chip) {
        while let Some((number, outcome)) = chip.poll(now) {
            self.report(now, number, outcome);
        }
        self.expire(now);
        if now >= self.next_rank {
            self.next_rank = now + self.config.interval;
            self.rank(now);
        }
        for i in 0..self.passing.len() {
            self.try_settle(now, self.passing[i]);
        }
        while self.out.len() < OUTSTANDING_MAX {
            let Some((at, op)) = self.next_op(now) else { return };
            self.number += 1;
            if let Some(rule) = &mut self.rules[at] {
                rule.pending = Some((self.number, op));
            }
            self.out.push_back((now + OP_TIMEOUT, self.number, at));
            if chip.submit(now, self.number, op).is_err() {
                self.report(now, self.number, Outcome::Refused);
            }
        }
    }

    /// When [`Offload::poll`] is due, packets apart.
    pub fn next_deadline(&self, chip: &impl Chip) -> Time {
        let read = if self.out.len() < OUTSTANDING_MAX { self.next_read } else { Time::FOREVER };
        let lost = self.out.front().map_or(Time::FOREVER, |out| out.0);
        let again = self.again.front().map_or(Time::FOREVER, |again| again.0);
        let chip = chip.next().unwrap_or(Time::FOREVER);
        self.next_rank.min(read).min(lost).min(again).min(chip)
    }

    /// Counts bytes on the CPU. Returns whether the flow is new, or nothing if it is not sampled or
    /// finds no room.
    fn count(&mut self, now: Time, flow: &PackedFlow, bytes: u32, packets: u32) -> Option<bool> {
        match &mut self.flows {
            Flows::Sketch(sketch) => {
                sketch.add(flow, bytes);
                Some(false)
            }
            Flows::Table { table, interval, sampled, .. } => {
                let mut bytes = bytes;
                if *sampled > 1 {
                    let one_in = *sampled;
                    let hits = (0..packets).filter(|_| self.rng.random_ratio(1, one_in)).count();
                    let each = u64::from(bytes) / u64::from(packets.max(1)) * u64::from(one_in);
                    bytes = u32::try_from(each * hits as u64).unwrap_or(u32::MAX);
                    if hits == 0 {
                        return None;
                    }
                }
                let hash = table.hash(flow);
                match table.count(flow, hash, now, bytes) {
                    Counted::Known(slot) => {
                        interval.add(slot, bytes);
                        Some(false)
                    }
                    Counted::New(slot) => {
                        interval.clear(slot);
                        interval.add(slot, bytes);
                        Some(true)
                    }
                    Counted::Refused => None,
                }
            }
        }
    }

    /// Wants a rule for a flow, if there is or will be an entry for it.
    fn place(&mut self, now: Time, flow: &PackedFlow, is_new: bool) -> bool {
        if self.wanted.len() >= WANTED_MAX || now < self.insert_after {
            return false;
        }
        if self.room() <= self.config.reserve as isize
            && self.budget(now, is_new)
            && let Some(at) = self.find_idle(now)
        {
            self.evict(at);
        }
        self.room() > 0 && self.want(now, *flow, true)
    }

    /// Entries that are or will be free, less the flows that wait for one.
    fn room(&self) -> isize {
        (self.capacity + self.deleting) as isize - (self.in_chip + self.wanted.len()) as isize
    }

    /// Whether the budget has a swap left. A flow's first packet has half the budget.
    fn budget(&mut self, now: Time, is_new: bool) -> bool {
        let depth = self.config.swaps_per_s * self.config.interval.as_secs_f64();
        if !depth.is_finite() {
            return true;
        }
        let earned = now.since(self.tokens_at).as_secs_f64() * self.config.swaps_per_s;
        self.tokens = (self.tokens + earned).min(depth);
        self.tokens_at = now;
        self.tokens >= if is_new { depth / 2.0 } else { 1.0 }
    }

    fn want(&mut self, now: Time, flow: PackedFlow, is_urgent: bool) -> bool {
        let Some(at) = self.spare.pop() else { return false };
        self.rules[at] = Some(Rule {
            flow,
            state: State::Wanted,
            pending: None,
            settling: false,
            held: false,
            since: now,
            last: self.seq,
            passed: 0,
            read: None,
            rate: 0,
            active: now,
            idle: false,
        });
        self.index.insert(flow, at);
        match is_urgent {
            true => self.wanted.push_front(at),
            false => self.wanted.push_back(at),
        }
        true
    }

    /// The rule that has been idle for longest, and for long enough.
    fn find_idle(&mut self, now: Time) -> Option<usize> {
        while let Some(at) = self.idle.pop_front() {
            let Some(rule) = &mut self.rules[at] else { continue };
            let idle = std::mem::take(&mut rule.idle)
                && rule.state == State::Forwarding
                && now.since(rule.active) >= self.config.idle;
            if idle {
                return Some(at);
            }
        }
        None
    }

    /// Ends a rule to make room.
    fn evict(&mut self, at: usize) {
        self.tokens -= 1.0;
        self.counters.swaps += 1;
        self.delete(at);
    }

    fn delete(&mut self, at: usize) {
        let Some(rule) = &mut self.rules[at] else { return };
        if rule.state != State::Deleting {
            rule.state = State::Deleting;
            self.deleting += 1;
            self.not_passing(at);
        }
        self.to_delete.push_back(at);
    }

    /// Forgets a rule that the chip does not have.
    fn forget(&mut self, at: usize) {
        self.not_passing(at);
        let Some(rule) = self.rules[at].take() else { return };
        self.in_chip -= 1;
        self.deleting -= usize::from(rule.state == State::Deleting);
        self.index.remove(&rule.flow);
        self.spare.push(at);
    }

    /// A rule neither passes nor holds any more.
    fn not_passing(&mut self, at: usize) {
        self.passing.retain(|passing| *passing != at);
        if let Some(rule) = &mut self.rules[at] {
            self.holding -= usize::from(std::mem::take(&mut rule.held));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
