//! Fast tables as a policy sees them, and a model of the paper's switching chip
//! (`traffic-coprocessor.txt` §4).
//!
//! Operations wait in a queue and take time; the chip does one after the other. A rule takes effect
//! some tens of microseconds after its insertion, and then the insertion is reported.
//!
//! # No packet overtakes another of its flow
//! A new rule first passes its packets on to the CPU and counts them, as rules of the kernel's fast
//! table do (`plexus_io::fast`). It forwards as soon as [`Op::Settle`] names exactly this count. A
//! rule that holds ([`Op::Hold`]) parks packets in the chip until it is settled. The paper's chip
//! lacks both: its rules forward at once ([`Op::Insert`] without `pass`), and the paper counts
//! early arrivals.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use plexus_table::PackedFlow;
use plexus_wire::Time;

/// An operation on a chip's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes a rule. With `pass` it passes packets to the CPU until it is settled.
    Insert {
        /// The flow.
        flow: PackedFlow,
        /// False: it forwards at once.
        pass: bool,
    },
    /// Of the packets that the rule passed, the first `passed` have left the box, and all from
    /// before it was made. If it passed no further one, it forwards from now on.
    Settle {
        /// The flow.
        flow: PackedFlow,
        /// Packets.
        passed: u64,
    },
    /// The rule parks packets until it is settled.
    Hold(PackedFlow),
    /// Ends a rule.
    Delete(PackedFlow),
    /// Reads a rule's counter.
    Read(PackedFlow),
}

impl Op {
    /// The flow.
    pub fn flow(&self) -> PackedFlow {
        match self {
            Op::Insert { flow, .. } | Op::Settle { flow, .. } => *flow,
            Op::Hold(flow) | Op::Delete(flow) | Op::Read(flow) => *flow,
        }
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done. Of a rule to be settled: whether it forwards.
    Done(bool),
    /// The bytes that a rule has forwarded.
    Bytes(u64),
    /// The table is full, or refuses.
    Refused,
    /// There is no rule of this flow.
    Missing,
}

/// The operation's number, as its caller chose it, and its result.
pub type Report = (u64, Outcome);

/// The chip's queue of operations is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// The way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The chip forwards it.
    Fast,
    /// The chip keeps it until the rule is settled, and then forwards it.
    Parked,
    /// To the CPU; `matched` if a rule passed it there.
    Cpu {
        /// A rule passed it.
        matched: bool,
    },
    /// A rule holds, and the room for parked packets is full.
    Dropped,
}

/// A fast table.
pub trait Chip {
    /// Rules that it holds.
    fn capacity(&self) -> usize;

    /// Enqueues an operation. Its number comes back in the report.
    ///
    /// # Errors
    /// [`Busy`].
    fn submit(&mut self, now: Time, number: u64, op: Op) -> Result<(), Busy>;

    /// An operation that has ended. Call it until there is none.
    fn poll(&mut self, now: Time) -> Option<Report>;

    /// When the next report is due.
    fn next(&self) -> Option<Time>;

    /// The way of a packet, or of a train of packets that stay together.
    fn packet(&mut self, flow: &PackedFlow, bytes: u32, packets: u32) -> Way;
}

/// A chip's limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChipSpec {
    /// Rules.
    pub rules: usize,
    /// Insertions per second.
    pub inserts_per_s: f64,
    /// Deletions per second.
    pub deletes_per_s: f64,
    /// Counters read per second; settling and holding cost as much as a read.
    pub reads_per_s: f64,
    /// From the end of an insertion until the rule takes effect.
    pub setup: Duration,
    /// Operations that wait.
    pub queue: usize,
    /// Bytes for parked packets.
    pub park_bytes: u64,
}

impl ChipSpec {
    /// The paper's chip (§4), with "tens of microseconds" (§3.2.1) as 50. Queue and parking room
    /// are ours: the paper gives none.
    pub const PAPER: ChipSpec = ChipSpec {
        rules: 1792,
        inserts_per_s: 14_144.0,
        deletes_per_s: 9_524.0,
        reads_per_s: 86_956.0,
        setup: Duration::from_micros(50),
        queue: 64,
        park_bytes: 256 << 10,
    };
}

struct Rule {
    bytes: u64,
    /// Packets that it passed to the CPU; none if it forwards.
    passed: Option<u64>,
    /// Parked bytes and packets, if it holds.
    held: Option<(u64, u64)>,
}

/// The counts of a chip since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChipCounters {
    /// Insertions, deletions, reads, and settlings or holdings that were done.
    pub ops: [u64; 4],
    /// Operations that were refused because the queue was full.
    pub busy: u64,
    /// Most bytes that were parked at a time.
    pub parked_max: u64,
    /// Packets dropped because the parking room was full, or their rule was deleted.
    pub dropped: u64,
}

/// The model of a switching chip.
pub struct ChipModel {
    spec: ChipSpec,
    rules: BTreeMap<PackedFlow, Rule>,
    /// Operations, with the time at which each ends, in order.
    queue: VecDeque<(Time, u64, Op)>,
    /// Insertions that wait for their effect.
    setting_up: VecDeque<(Time, u64, Op)>,
    free_at: Time,
    parked: u64,
    counters: ChipCounters,
}

impl ChipModel {
    /// A chip with an empty table.
    pub fn new(spec: ChipSpec) -> ChipModel {
        ChipModel {
            spec,
            rules: BTreeMap::new(),
            queue: VecDeque::new(),
            setting_up: VecDeque::new(),
            free_at: Time::ZERO,
            parked: 0,
            counters: ChipCounters::default(),
        }
    }

    /// Rules in the table.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether packets of a flow may be parked.
    pub fn holds(&self, flow: &PackedFlow) -> bool {
        self.rules.get(flow).is_some_and(|rule| rule.held.is_some())
    }

    /// Its counts.
    pub fn counters(&self) -> ChipCounters {
        self.counters
    }

    fn apply(&mut self, op: Op) -> Outcome {
        let kind = match op {
            Op::Insert { .. } => 0,
            Op::Delete(_) => 1,
            Op::Read(_) => 2,
            Op::Settle { .. } | Op::Hold(_) => 3,
        };
        self.counters.ops[kind] += 1;
        let room = self.rules.len() < self.spec.rules;
        let mut entry = match self.rules.entry(op.flow()) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                let Op::Insert { pass, .. } = op else { return Outcome::Missing };
                if !room {
                    return Outcome::Refused;
                }
                entry.insert(Rule { bytes: 0, passed: pass.then_some(0), held: None });
                return Outcome::Done(!pass);
            }
        };
        match op {
            Op::Insert { .. } => Outcome::Refused,
            Op::Read(_) => Outcome::Bytes(entry.get().bytes),
            Op::Delete(_) => {
                let (bytes, packets) = entry.remove().held.unwrap_or_default();
                self.parked -= bytes;
                self.counters.dropped += packets;
                Outcome::Done(true)
            }
            Op::Hold(_) => {
                let rule = entry.get_mut();
                if rule.passed.is_some() {
                    rule.held = rule.held.or(Some((0, 0)));
                }
                Outcome::Done(true)
            }
            Op::Settle { passed, .. } => {
                let rule = entry.get_mut();
                if rule.passed == Some(passed) {
                    rule.passed = None;
                    self.parked -= rule.held.take().unwrap_or_default().0;
                }
                Outcome::Done(rule.passed.is_none())
            }
        }
    }
}

impl Chip for ChipModel {
    fn capacity(&self) -> usize {
        self.spec.rules
    }

    fn submit(&mut self, now: Time, number: u64, op: Op) -> Result<(), Busy> {
        if self.queue.len() >= self.spec.queue {
            self.counters.busy += 1;
            return Err(Busy);
        }
        let per_s = match op {
            Op::Insert { .. } => self.spec.inserts_per_s,
            Op::Delete(_) => self.spec.deletes_per_s,
            Op::Read(_) | Op::Settle { .. } | Op::Hold(_) => self.spec.reads_per_s,
        };
        self.free_at = self.free_at.max(now) + Duration::from_secs_f64(1.0 / per_s);
        self.queue.push_back((self.free_at, number, op));
        Ok(())
    }

    fn poll(&mut self, now: Time) -> Option<Report> {
        loop {
            let due = |queue: &VecDeque<(Time, u64, Op)>| {
                queue.front().map(|(at, ..)| *at).filter(|at| *at <= now)
            };
            let (done, effect) = (due(&self.queue), due(&self.setting_up));
            if effect.is_some_and(|effect| done.is_none_or(|done| effect <= done)) {
                let (_, number, op) = self.setting_up.pop_front()?;
                return Some((number, self.apply(op)));
            }
            done?;
            let (at, number, op) = self.queue.pop_front()?;
            match op {
                Op::Insert { .. } => self.setting_up.push_back((at + self.spec.setup, number, op)),
                _ => return Some((number, self.apply(op))),
            }
        }
    }

    fn next(&self) -> Option<Time> {
        [&self.queue, &self.setting_up].into_iter().flat_map(|q| q.front()).map(|o| o.0).min()
    }

    fn packet(&mut self, flow: &PackedFlow, bytes: u32, packets: u32) -> Way {
        let Some(rule) = self.rules.get_mut(flow) else { return Way::Cpu { matched: false } };
        match (&mut rule.passed, &mut rule.held) {
            (None, _) => {
                rule.bytes += u64::from(bytes);
                Way::Fast
            }
            (Some(_), Some(held)) => {
                if self.parked + u64::from(bytes) > self.spec.park_bytes {
                    self.counters.dropped += u64::from(packets);
                    return Way::Dropped;
                }
                *held = (held.0 + u64::from(bytes), held.1 + u64::from(packets));
                rule.bytes += u64::from(bytes);
                self.parked += u64::from(bytes);
                self.counters.parked_max = self.counters.parked_max.max(self.parked);
                Way::Parked
            }
            (Some(passed), None) => {
                *passed += u64::from(packets);
                Way::Cpu { matched: true }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::tests::flow;

    const SPEC: ChipSpec = ChipSpec { rules: 2, queue: 4, park_bytes: 3000, ..ChipSpec::PAPER };

    fn us(us: u64) -> Time {
        Time::from_micros(us)
    }

    /// Runs operations one after the other and returns the last one's outcome.
    fn run(chip: &mut ChipModel, ops: &[Op]) -> Outcome {
        let mut last = Outcome::Refused;
        for op in ops {
            chip.submit(Time::ZERO, 0, *op).unwrap();
            last = chip.poll(Time::FOREVER).unwrap().1;
        }
        last
    }

    #[test]
    fn operations_take_their_time_one_after_the_other() {
        let mut chip = ChipModel::new(SPEC);
        let insert = |i| Op::Insert { flow: flow(i), pass: false };
        for i in 0..4 {
            chip.submit(Time::ZERO, i.into(), insert(i)).unwrap();
        }
        assert_eq!(chip.submit(Time::ZERO, 4, insert(4)), Err(Busy));
        assert_eq!(chip.counters().busy, 1);
        // 70.7 us each, and 50 us more until the rule takes effect.
        assert_eq!(chip.poll(us(120)), None);
        assert_eq!(chip.packet(&flow(0), 100, 1), Way::Cpu { matched: false });
        assert_eq!(chip.poll(us(121)), Some((0, Outcome::Done(true))));
        assert_eq!(chip.packet(&flow(0), 100, 1), Way::Fast);
        let rest: Vec<_> = std::iter::from_fn(|| chip.poll(us(400))).collect();
        let refused = |n| (n, Outcome::Refused);
        assert_eq!(rest, [(1, Outcome::Done(true)), refused(2), refused(3)]);
        assert_eq!((chip.len(), chip.next()), (2, None));
        chip.submit(us(1000), 9, Op::Delete(flow(0))).unwrap();
        assert_eq!(chip.next().map(|at| at.as_nanos() / 1000), Some(1104));
        assert_eq!(chip.poll(us(1105)), Some((9, Outcome::Done(true))));
        assert_eq!(chip.counters().ops, [4, 1, 0, 0]);
    }

    #[test]
    fn a_rule_forwards_when_its_very_count_is_settled() {
        let mut chip = ChipModel::new(SPEC);
        let [insert, settle] = [Op::Insert { flow: flow(1), pass: true }, Op::Hold(flow(1))];
        assert_eq!(run(&mut chip, &[insert]), Outcome::Done(false));
        assert_eq!(chip.packet(&flow(1), 1500, 2), Way::Cpu { matched: true });
        let at = |passed| Op::Settle { flow: flow(1), passed };
        assert_eq!(run(&mut chip, &[at(1)]), Outcome::Done(false));
        assert_eq!(run(&mut chip, &[settle]), Outcome::Done(true));
        assert_eq!(chip.packet(&flow(1), 2000, 1), Way::Parked);
        assert_eq!(chip.packet(&flow(1), 2000, 1), Way::Dropped);
        assert_eq!(run(&mut chip, &[at(2)]), Outcome::Done(true));
        assert_eq!(chip.packet(&flow(1), 2000, 1), Way::Fast);
        assert_eq!(run(&mut chip, &[Op::Read(flow(1))]), Outcome::Bytes(4000));
        assert_eq!((chip.counters().dropped, chip.counters().parked_max), (1, 2000));
        assert_eq!(run(&mut chip, &[Op::Read(flow(7))]), Outcome::Missing);
    }
}
