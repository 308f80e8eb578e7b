//! A fast table that misbehaves, for tests of its owner. It refuses, delays and loses operations,
//! ports drop out of it, and its counts lie. What [`FastTable`] promises for the packets' sake
//! still holds: a removed rule forwards nothing, and what is done late is done in order.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU32;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

use super::{Action, Counts, FabricLink, FastTable, Held, KernelEnd, Key, RuleId};
use crate::packet::PortId;

/// How often a table misbehaves; probabilities from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Rules, ports and links that are refused.
    pub refuse: f64,
    /// Settled counts, and orders to hold packets back, that are never carried out.
    pub lose: f64,
    /// Rules in place of which the port that their packets come in by drops out.
    pub drop_out: f64,
    /// Counts of rules that are any number.
    pub lie: f64,
    /// After so many further operations a settled count, or an order to hold, is carried out.
    pub delay: u32,
}

/// A table with faults.
pub struct Chaos<T> {
    table: T,
    faults: Faults,
    inner: RefCell<Inner>,
}

struct Inner {
    rng: Pcg32,
    /// Operations that are carried out late, each with the number of operations until then.
    late: VecDeque<(u32, Late)>,
}

#[derive(Clone, Copy)]
enum Late {
    Settle(RuleId, u64),
    Hold(RuleId, Held),
}

impl Late {
    fn rule(self) -> RuleId {
        match self {
            Late::Settle(id, _) | Late::Hold(id, _) => id,
        }
    }
}

impl<T: FastTable> Chaos<T> {
    /// The same seed and operations give the same faults.
    pub fn new(table: T, faults: Faults, seed: u64) -> Chaos<T> {
        let inner = Inner { rng: Pcg32::new(seed, 0), late: VecDeque::new() };
        Chaos { table, faults, inner: RefCell::new(inner) }
    }

    fn is(&self, probability: f64) -> bool {
        let number = self.inner.borrow_mut().rng.next_u32();
        f64::from(number) < probability * f64::from(u32::MAX)
    }

    /// An operation begins: it may be refused, and what is due is carried out before it.
    fn begin(&self) -> io::Result<()> {
        self.carry_out();
        if self.is(self.faults.refuse) { Err(io::Error::other("chaos")) } else { Ok(()) }
    }

    fn carry_out(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.late.iter_mut().for_each(|(left, _)| *left = left.saturating_sub(1));
        while let Some((_, late)) = inner.late.pop_front_if(|(left, _)| *left == 0) {
            match late {
                Late::Settle(id, passed) => self.table.settle(id, passed),
                Late::Hold(id, held) => self.table.hold(id, held),
            }
        }
    }

    fn later(&self, late: Late) {
        self.inner.borrow_mut().late.push_back((self.faults.delay + 1, late));
        self.carry_out();
    }

    /// A reading, or any number.
    fn told(&self, count: u64) -> u64 {
        if !self.is(self.faults.lie) {
            return count;
        }
        let mut inner = self.inner.borrow_mut();
        let shift = inner.rng.next_u32() % 64;
        inner.rng.next_u64() >> shift
    }
}

impl<T: FastTable> FastTable for Chaos<T> {
    fn insert(&mut self, key: &Key, action: &Action) -> io::Result<RuleId> {
        self.begin()?;
        if self.is(self.faults.drop_out) {
            self.table.close(key.in_port());
        }
        self.table.insert(key, action)
    }

    fn remove(&mut self, key: &Key, id: RuleId) {
        self.inner.get_mut().late.retain(|(_, late)| late.rule() != id);
        self.table.remove(key, id);
        self.carry_out();
    }

    fn forget(&mut self, id: RuleId) {
        self.table.forget(id);
    }

    fn read(&self, id: RuleId) -> Counts {
        let Counts { packets, bytes, held, taken_off } = self.table.read(id);
        let [packets, bytes, held] = [packets, bytes, held].map(|count| self.told(count));
        Counts { packets, bytes, held, taken_off }
    }

    fn passed(&self, id: RuleId) -> u64 {
        // The order of packets rests on it, so it is no count that may be wrong.
        self.table.passed(id)
    }

    fn settle(&self, id: RuleId, passed: u64) {
        if !self.is(self.faults.lose) {
            self.later(Late::Settle(id, passed));
        }
    }

    fn hold(&self, id: RuleId, held: Held) {
        // A rule that held packets back for ever would drop what no other table does.
        if held == Held::Nothing || !self.is(self.faults.lose) {
            self.later(Late::Hold(id, held));
        }
    }

    fn open(&mut self, port: PortId, end: KernelEnd<'_>) -> io::Result<()> {
        self.begin()?;
        self.table.open(port, end)
    }

    fn maintain(&mut self, port: PortId) {
        self.carry_out();
        self.table.maintain(port);
    }

    fn sample(&mut self, port: PortId, one_in: Option<NonZeroU32>) -> io::Result<()> {
        self.table.sample(port, one_in)
    }

    fn missed_samples(&self, port: PortId) -> u64 {
        self.table.missed_samples(port)
    }

    fn set_link(&mut self, port: PortId, link: &FabricLink) -> io::Result<()> {
        self.begin()?;
        self.table.set_link(port, link)
    }

    fn close(&mut self, port: PortId) {
        self.table.close(port);
    }

    fn detach(&mut self, port: PortId) {
        self.table.detach(port);
    }

    fn is_valid(&self, id: RuleId) -> bool {
        self.table.is_valid(id)
    }

    fn sends(&self, port: PortId) -> bool {
        self.table.sends(port)
    }

    fn takes_owed(&self, port: PortId) -> bool {
        self.table.takes_owed(port)
    }

    fn is_open(&self, port: PortId) -> bool {
        self.table.is_open(port)
    }
}
