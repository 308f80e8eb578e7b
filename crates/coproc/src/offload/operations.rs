//! The operations that a policy gives its chip, and what their reports change.

use std::time::Duration;

use plexus_wire::Time;

use super::{Offload, Rule, State};
use crate::chip::{Op, Outcome};

/// An operation that takes longer is taken for lost.
pub(super) const OP_TIMEOUT: Duration = Duration::from_millis(100);
/// Rules that hold at a time: parked packets need room in the chip.
const HOLDING_MAX: usize = 4;
/// Pause after a refused insertion; it doubles up to the maximum.
pub(super) const REFUSED: Duration = Duration::from_millis(1);
const REFUSED_MAX: Duration = Duration::from_secs(1);

impl Offload {
    /// Settles a passing rule if none of its flow's packets is on the CPU, or has it hold.
    pub(super) fn try_settle(&mut self, now: Time, at: usize) {
        let holding = self.holding;
        let Some(rule) = self.rules[at].as_mut() else { return };
        if rule.state != State::Passing || rule.settling || rule.pending.is_some() {
            return;
        }
        let waits_long = !rule.held && now.since(rule.since) >= self.config.hold_after;
        if self.left >= rule.last || waits_long && holding < HOLDING_MAX {
            rule.settling = true;
            self.to_settle.push_back(at);
        }
    }

    /// The most urgent operation: settle, insert, delete, read.
    pub(super) fn next_op(&mut self, now: Time) -> Option<(usize, Op)> {
        while let Some(at) = self.to_settle.pop_front() {
            let Some(rule) = self.rules[at].as_mut().filter(|r| r.settling) else { continue };
            rule.settling = false;
            if rule.state != State::Passing || rule.pending.is_some() {
                continue;
            }
            if self.left >= rule.last {
                return Some((at, Op::Settle { flow: rule.flow, passed: rule.passed }));
            }
            if self.holding < HOLDING_MAX {
                rule.held = true;
                self.holding += 1;
                return Some((at, Op::Hold(rule.flow)));
            }
        }
        if self.in_chip < self.capacity
            && now >= self.insert_after
            && let Some(at) = self.wanted.pop_front()
            && let Some(rule) = &mut self.rules[at]
        {
            rule.state = State::Inserting;
            self.in_chip += 1;
            return Some((at, Op::Insert { flow: rule.flow, pass: self.config.in_order }));
        }
        for _ in 0..self.to_delete.len() {
            let at = self.to_delete.pop_front()?;
            match &self.rules[at] {
                Some(rule) if rule.pending.is_some() => self.to_delete.push_back(at),
                Some(rule) => return Some((at, Op::Delete(rule.flow))),
                None => {}
            }
        }
        self.next_read(now)
    }

    /// The counter whose turn it is.
    fn next_read(&mut self, now: Time) -> Option<(usize, Op)> {
        if now < self.next_read {
            return None;
        }
        let pause = self.config.interval / self.in_chip.max(1) as u32;
        self.next_read = self.next_read.max(now - pause) + pause;
        let is_due = |rule: &Rule| {
            let read_at = rule.read.map_or(rule.since, |(_, at)| at);
            matches!(rule.state, State::Passing | State::Forwarding)
                && rule.pending.is_none()
                && now.since(read_at) >= self.config.interval / 2
        };
        for _ in 0..self.rules.len() {
            let at = self.read_at;
            self.read_at = (at + 1) % self.rules.len();
            if let Some(rule) = self.rules[at].as_ref().filter(|rule| is_due(rule)) {
                return Some((at, Op::Read(rule.flow)));
            }
        }
        None
    }

    pub(super) fn report(&mut self, now: Time, number: u64, outcome: Outcome) {
        let Ok(i) = self.out.binary_search_by_key(&number, |out| out.1) else { return };
        let Some((_, _, at)) = self.out.remove(i) else { return };
        let Some(rule) = &mut self.rules[at] else { return };
        let Some((_, op)) = rule.pending.take_if(|(pending, _)| *pending == number) else { return };
        self.counters.refused += u64::from(outcome == Outcome::Refused);
        match (op, outcome) {
            (Op::Insert { .. }, Outcome::Done(forwards)) => {
                self.counters.rules += 1;
                self.refused_for = REFUSED;
                rule.since = now;
                rule.state = if forwards { State::Forwarding } else { State::Passing };
                if !forwards {
                    self.passing.push(at);
                }
            }
            (Op::Insert { .. }, _) => {
                self.insert_after = now + self.refused_for;
                self.refused_for = (self.refused_for * 2).min(REFUSED_MAX);
                self.forget(at);
            }
            (Op::Delete(_), Outcome::Refused) => self.again.push_back((now + OP_TIMEOUT, at)),
            (Op::Delete(_), _) => self.forget(at),
            (_, Outcome::Missing) => {
                self.counters.vanished += 1;
                self.forget(at);
            }
            (Op::Settle { .. }, Outcome::Done(true)) if rule.state == State::Passing => {
                rule.state = State::Forwarding;
                self.not_passing(at);
            }
            (Op::Hold(_), Outcome::Refused) => {
                rule.held = false;
                self.holding -= 1;
            }
            (Op::Read(_), Outcome::Bytes(bytes)) => self.counter(now, at, bytes),
            _ => {}
        }
    }

    /// Takes a counter that was read.
    pub(super) fn counter(&mut self, now: Time, at: usize, bytes: u64) {
        let Some(rule) = &mut self.rules[at] else { return };
        let (before, read_at) = rule.read.unwrap_or((0, rule.since));
        let seconds = now.since(read_at).as_secs_f64();
        let possible = seconds * self.config.bytes_per_s_max as f64 + 65_536.0;
        let counted = bytes.checked_sub(before).filter(|bytes| *bytes as f64 <= possible);
        self.counters.lies += u64::from(counted.is_none());
        let counted = counted.unwrap_or(0);
        rule.read = Some((bytes, now));
        let intervals = seconds / self.config.interval.as_secs_f64();
        rule.rate = (counted as f64 / intervals.max(f64::MIN_POSITIVE)) as u32;
        if counted > 0 {
            rule.active = now;
        } else if now.since(rule.active) >= self.config.idle && !rule.idle {
            rule.idle = true;
            self.idle.push_back(at);
        }
    }

    /// Ends operations without a report: their rules are in doubt, and are deleted.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some((_, number, at)) = self.out.pop_front_if(|out| out.0 <= now) {
            let Some(rule) = &mut self.rules[at] else { continue };
            if rule.pending.take_if(|(pending, _)| *pending == number).is_some() {
                self.counters.lost += 1;
                self.delete(at);
            }
        }
        while let Some((_, at)) = self.again.pop_front_if(|again| again.0 <= now) {
            self.to_delete.push_back(at);
        }
    }
}
