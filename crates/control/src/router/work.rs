//! Work on the whole table, done in pieces as outputs are taken: the most urgent outputs, groups
//! that lose members, are out before a million prefixes have been scanned, and outputs do not
//! accumulate. All of it is done before the next input.

use std::vec;

use plexus_wire::{Prefix, Time};

use super::Router;
use super::output::GroupId;
use super::rib::{ORIGINS, Origin};

/// Prefixes that are scanned or withdrawn in one piece.
const PIECE: usize = 4096;

/// Work left to do.
#[derive(Debug)]
pub(super) enum Work {
    /// Every prefix from this one on, whose routes have one of these groups (a flag for each
    /// number), may have another best route.
    Update { now: Time, from: Option<Prefix>, turned: Vec<bool> },
    /// Withdraw these routes of a source, which were not in its list.
    Withdraw { now: Time, origin: Origin, routes: vec::IntoIter<(Prefix, u32)> },
}

impl Router {
    /// Re-evaluates every prefix with one of these groups.
    pub(super) fn update_prefixes_of(&mut self, now: Time, groups: &[GroupId]) {
        let len = groups.iter().map(|group| usize::from(group.0) + 1).max().unwrap_or(0);
        let mut turned = vec![false; len];
        groups.iter().for_each(|group| turned[usize::from(group.0)] = true);
        self.work.push_back(Work::Update { now, from: None, turned });
    }

    /// Finishes all work.
    pub(super) fn finish_work(&mut self) {
        while self.work_on() {}
    }

    /// Does a piece of the work; false if none was left.
    pub(super) fn work_on(&mut self) -> bool {
        let Some(work) = self.work.pop_front() else { return false };
        match work {
            Work::Update { now, from, turned } => {
                let is_turned = |group: GroupId| turned.get(usize::from(group.0)) == Some(&true);
                let (found, next) = self.rib.scan(from, PIECE, |prefix, entry| {
                    let mut first = ORIGINS.iter().filter_map(|origin| entry.group(*origin));
                    first.any(is_turned)
                        || self.rib.has_spares()
                            && self.rib.candidates_in(prefix, *entry).any(|(.., g)| is_turned(g))
                });
                found.iter().for_each(|prefix| self.update_prefix(now, prefix));
                self.apply_neighbour_effects(now);
                if next.is_some() {
                    self.work.push_front(Work::Update { now, from: next, turned });
                }
            }
            Work::Withdraw { now, origin, mut routes } => {
                for (prefix, metric) in routes.by_ref().take(PIECE) {
                    self.withdraw(now, &prefix, origin, metric);
                }
                self.apply_neighbour_effects(now);
                if routes.len() > 0 {
                    self.work.push_front(Work::Withdraw { now, origin, routes });
                }
            }
        }
        true
    }
}
