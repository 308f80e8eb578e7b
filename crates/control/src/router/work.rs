//! Work on the whole table, done piece by piece as outputs are taken: what is most urgent, groups
//! that lose members, is out before a million prefixes have been looked at, and outputs do not pile
//! up. The next input finds all of it done.

use std::vec;

use plexus_wire::{Prefix, Time};

use super::Router;
use super::output::GroupId;
use super::rib::{ORIGINS, Origin};

/// Prefixes that are looked at, or withdrawn, in one piece.
const PIECE: usize = 4096;

/// What is still to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// Every prefix from this one on whose routes have one of these groups (a flag for each number)
    /// may have another best route.
    Settle { now: Time, from: Option<Prefix>, turned: Vec<bool> },
    /// These routes of a source were not named.
    Withdraw { now: Time, origin: Origin, routes: vec::IntoIter<(Prefix, u32)> },
}

impl Router {
    /// Looks again at every prefix with one of these groups.
    pub(super) fn settle_all(&mut self, now: Time, groups: &[GroupId]) {
        let len = groups.iter().map(|group| usize::from(group.0) + 1).max().unwrap_or(0);
        let mut turned = vec![false; len];
        groups.iter().for_each(|group| turned[usize::from(group.0)] = true);
        self.work.push_back(Work::Settle { now, from: None, turned });
    }

    /// Does all that is left to do.
    pub(super) fn finish_work(&mut self) {
        while self.work_on() {}
    }

    /// Does a piece of what is left to do; false if nothing was left.
    pub(super) fn work_on(&mut self) -> bool {
        let Some(work) = self.work.pop_front() else { return false };
        match work {
            Work::Settle { now, from, turned } => {
                let is_turned = |group: GroupId| turned.get(usize::from(group.0)) == Some(&true);
                let (found, next) = self.rib.scan(from, PIECE, |prefix, entry| {
                    let mut first = ORIGINS.iter().filter_map(|origin| entry.group(*origin));
                    first.any(is_turned)
                        || self.rib.has_spares()
                            && self.rib.candidates_in(prefix, *entry).any(|(.., g)| is_turned(g))
                });
                found.iter().for_each(|prefix| self.settle(now, prefix));
                self.settle_effects(now);
                if next.is_some() {
                    self.work.push_front(Work::Settle { now, from: next, turned });
                }
            }
            Work::Withdraw { now, origin, mut routes } => {
                for (prefix, metric) in routes.by_ref().take(PIECE) {
                    self.withdraw(now, &prefix, origin, metric);
                }
                self.settle_effects(now);
                if routes.len() > 0 {
                    self.work.push_front(Work::Withdraw { now, origin, routes });
                }
            }
        }
        true
    }
}
