//! Sets of next hops in use by prefixes, and how many of them exist for neighbours alone.

use super::interned::Interned;
use crate::fib::NextHop;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SetNumber(u32);

impl SetNumber {
    /// No next hops.
    pub(super) const NONE: SetNumber = SetNumber(u32::MAX);
    /// Flag of a set that the prefix has independently of neighbours.
    const OWN: u32 = 1 << 31;

    fn is_own(self) -> bool {
        self.0 & SetNumber::OWN != 0
    }

    fn number(self) -> Option<u32> {
        (self != SetNumber::NONE).then_some(self.0 & !SetNumber::OWN)
    }
}

pub(super) struct Sets {
    sets: Interned<Box<[NextHop]>>,
    /// By number: how many prefixes have it independently of neighbours.
    own: Vec<usize>,
    /// Sets that prefixes have only because of neighbours.
    neighbours: usize,
    pub(super) prefixes: usize,
}

impl Sets {
    pub(super) fn new() -> Sets {
        Sets { sets: Interned::new(), own: Vec::new(), neighbours: 0, prefixes: 0 }
    }

    pub(super) fn get(&self, set: SetNumber) -> &[NextHop] {
        set.number().map_or(&[], |number| self.sets.get(number))
    }

    /// True if neighbours' routes may give these hops to a prefix that has `old`, where at most
    /// `max` such sets are allowed.
    pub(super) fn has_room(&self, hops: &[NextHop], old: SetNumber, max: usize) -> bool {
        let goes = old.number().is_some_and(|old| !self.is_own(old) && self.sets.count(old) == 1);
        self.neighbours - usize::from(goes) < max || self.sets.number(&hops.into()).is_some()
    }

    fn is_own(&self, number: u32) -> bool {
        self.own[number as usize] > 0
    }

    pub(super) fn acquire(&mut self, hops: &[NextHop], is_own: bool) -> SetNumber {
        if hops.is_empty() {
            return SetNumber::NONE;
        }
        let number = self.sets.acquire(hops.into());
        self.prefixes += 1;
        if number as usize >= self.own.len() {
            self.own.push(0);
        }
        let was_neighbours = self.sets.count(number) > 1 && !self.is_own(number);
        self.own[number as usize] += usize::from(is_own);
        self.neighbours += usize::from(!self.is_own(number));
        self.neighbours -= usize::from(was_neighbours);
        SetNumber(number | if is_own { SetNumber::OWN } else { 0 })
    }

    pub(super) fn release(&mut self, set: SetNumber) {
        let Some(number) = set.number() else { return };
        self.prefixes -= 1;
        let was_neighbours = !self.is_own(number);
        self.own[number as usize] -= usize::from(set.is_own());
        let stays = self.sets.count(number) > 1;
        self.neighbours += usize::from(stays && !self.is_own(number));
        self.neighbours -= usize::from(was_neighbours);
        self.sets.release(number);
    }
}
