//! All routes by prefix, of every source, and the published forwarding table.
//!
//! A full table is a million prefixes whose routes have one source and few distinct sets of next
//! hops. So an entry holds only the numbers of groups; the rare second route of one source to one
//! prefix, of another metric, is kept apart.

mod entry;

use std::collections::{BTreeMap, btree_map};
use std::net::IpAddr;

use super::output::GroupId;
use entry::{EMPTY, Key6, NONE, key4, key6, known, prefix4, prefix6};
use plexus_wire::Prefix;

pub(super) use entry::{Entry, ORIGINS, Origin};

/// A route that waits behind one with a lower metric.
#[derive(Clone, Copy, Debug)]
struct Spare {
    group: GroupId,
    round: bool,
}

/// The routes.
#[derive(Debug, Default)]
pub(super) struct Rib {
    /// By address, then length.
    v4: BTreeMap<u64, Entry>,
    v6: BTreeMap<Key6, Entry>,
    /// Number of prefixes of each length, so that a lookup tries only lengths that occur.
    lengths4: Vec<u32>,
    lengths6: Vec<u32>,
    spares: BTreeMap<(Prefix, Origin, u32), Spare>,
    /// Static and kernel routes, including spares.
    routes: usize,
    /// The current round of each origin's list; it changes when one begins.
    round: [bool; 4],
    /// A list has begun and not ended.
    naming: [bool; 4],
}

/// Applies `change` to an entry of a map: its result, and whether the map has one more or less.
fn edit_in<K: Ord, R>(
    at: btree_map::Entry<'_, K, Entry>,
    change: impl FnOnce(&mut Entry) -> R,
) -> (R, bool, bool) {
    match at {
        btree_map::Entry::Occupied(mut at) => {
            let result = change(at.get_mut());
            let is_empty = at.get().is_empty();
            if is_empty {
                at.remove();
            }
            (result, false, is_empty)
        }
        btree_map::Entry::Vacant(at) => {
            let mut entry = EMPTY;
            let result = change(&mut entry);
            let is_there = !entry.is_empty();
            if is_there {
                at.insert(entry);
            }
            (result, is_there, false)
        }
    }
}

impl Rib {
    pub(super) fn get(&self, prefix: &Prefix) -> Option<&Entry> {
        match prefix.addr() {
            IpAddr::V4(a) => self.v4.get(&key4(a, prefix.len())),
            IpAddr::V6(a) => self.v6.get(&key6(a, prefix.len())),
        }
    }

    /// Applies `change` to a prefix's entry, which is created and removed as needed.
    fn edit<R>(&mut self, prefix: &Prefix, change: impl FnOnce(&mut Entry) -> R) -> R {
        let (lengths, (result, more, less)) = match prefix.addr() {
            IpAddr::V4(a) => {
                (&mut self.lengths4, edit_in(self.v4.entry(key4(a, prefix.len())), change))
            }
            IpAddr::V6(a) => {
                (&mut self.lengths6, edit_in(self.v6.entry(key6(a, prefix.len())), change))
            }
        };
        lengths.resize(usize::from(prefix.width()) + 1, 0);
        let count = &mut lengths[usize::from(prefix.len())];
        *count = *count + u32::from(more) - u32::from(less);
        result
    }

    /// Number of static and kernel routes.
    pub(super) const fn routes(&self) -> usize {
        self.routes
    }

    /// Number of prefixes with a route of any kind.
    pub(super) fn prefixes(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// The group of one route.
    pub(super) fn route(&self, prefix: &Prefix, origin: Origin, metric: u32) -> Option<GroupId> {
        let entry = self.get(prefix)?;
        let group = entry.group(origin).filter(|_| entry.metric(origin) == metric);
        group.or_else(|| self.spares.get(&(*prefix, origin, metric)).map(|s| s.group))
    }

    /// Sets a route; returns its previous group.
    pub(super) fn set(
        &mut self,
        prefix: &Prefix,
        origin: Origin,
        metric: u32,
        group: GroupId,
    ) -> Option<GroupId> {
        let round = self.round[origin as usize];
        let (before, was) = self.edit(prefix, |entry| {
            let before = entry.group(origin);
            let was = (entry.metric(origin), entry.round(origin));
            if before.is_none() || metric <= was.0 {
                entry.put(origin, metric, group, round);
            }
            (before, was)
        });
        let replaced = match before {
            Some(_) if was.0 < metric => {
                let spare = Spare { group, round };
                self.spares.insert((*prefix, origin, metric), spare).map(|s| s.group)
            }
            Some(group) if was.0 > metric => {
                let spare = Spare { group, round: was.1 };
                self.spares.insert((*prefix, origin, was.0), spare);
                None
            }
            before => before,
        };
        let is_counted = matches!(origin, Origin::Static | Origin::Kernel);
        self.routes += usize::from(is_counted && replaced.is_none());
        replaced
    }

    /// Removes a route; returns its group.
    pub(super) fn take(&mut self, prefix: &Prefix, origin: Origin, metric: u32) -> Option<GroupId> {
        let entry = *self.get(prefix)?;
        let taken = match entry.group(origin) {
            Some(group) if entry.metric(origin) == metric => {
                let next = self.spares(prefix, origin).next();
                if let Some((metric, spare)) = next {
                    self.spares.remove(&(*prefix, origin, metric));
                    self.edit(prefix, |e| e.put(origin, metric, spare.group, spare.round));
                } else {
                    self.edit(prefix, |e| e.groups[origin as usize] = NONE);
                }
                Some(group)
            }
            _ => self.spares.remove(&(*prefix, origin, metric)).map(|spare| spare.group),
        };
        let is_counted = matches!(origin, Origin::Static | Origin::Kernel);
        self.routes -= usize::from(is_counted && taken.is_some());
        taken
    }

    fn spares(
        &self,
        prefix: &Prefix,
        origin: Origin,
    ) -> impl Iterator<Item = (u32, Spare)> + use<'_> {
        let range = (*prefix, origin, 0)..=(*prefix, origin, u32::MAX);
        self.spares.range(range).map(|((_, _, metric), spare)| (*metric, *spare))
    }

    /// A prefix's routes, the best first: origin, metric, group.
    pub(super) fn candidates(
        &self,
        prefix: &Prefix,
    ) -> impl Iterator<Item = (Origin, u32, GroupId)> {
        self.candidates_in(prefix, self.get(prefix).copied().unwrap_or(EMPTY))
    }

    /// The same for a given entry.
    pub(super) fn candidates_in(
        &self,
        prefix: &Prefix,
        entry: Entry,
    ) -> impl Iterator<Item = (Origin, u32, GroupId)> {
        let prefix = *prefix;
        ORIGINS.into_iter().flat_map(move |origin| {
            let first = entry.group(origin).map(|group| (origin, entry.metric(origin), group));
            let has_more = first.is_some() && !self.spares.is_empty();
            let more = has_more.then(|| self.spares(&prefix, origin)).into_iter().flatten();
            first.into_iter().chain(more.map(move |(metric, spare)| (origin, metric, spare.group)))
        })
    }

    /// Records what was published.
    pub(super) fn tell(&mut self, prefix: &Prefix, group: Option<GroupId>) {
        self.edit(prefix, |entry| entry.told = group.map_or(NONE, |group| group.0));
    }

    /// The longest matching prefix for which `pick` returns something.
    pub(super) fn find<R>(
        &self,
        addr: IpAddr,
        pick: impl Fn(&Prefix, &Entry) -> Option<R>,
    ) -> Option<R> {
        let lengths = if addr.is_ipv4() { &self.lengths4 } else { &self.lengths6 };
        lengths.iter().enumerate().rev().filter(|(_, count)| **count > 0).find_map(|(len, _)| {
            let prefix = known(addr, len as u8);
            self.get(&prefix).and_then(|entry| pick(&prefix, entry))
        })
    }

    /// True if any source has two routes to one prefix.
    pub(super) fn has_spares(&self) -> bool {
        !self.spares.is_empty()
    }

    /// Of the next `count` prefixes (from the first, or from this one on) those whose entry `pick`
    /// selects; and where to continue, if there are more.
    pub(super) fn scan(
        &self,
        from: Option<Prefix>,
        count: usize,
        pick: impl Fn(&Prefix, &Entry) -> bool,
    ) -> (Vec<Prefix>, Option<Prefix>) {
        let mut all = self.entries(from);
        let found = all.by_ref().take(count).filter(|(prefix, entry)| pick(prefix, entry));
        (found.map(|(prefix, _)| prefix).collect(), all.next().map(|(prefix, _)| prefix))
    }

    /// All prefixes, in order, from this one on.
    fn entries(&self, from: Option<Prefix>) -> impl Iterator<Item = (Prefix, &Entry)> {
        let (from4, from6) = match from.map(|prefix| (prefix.addr(), prefix.len())) {
            None => (0, (0, 0, 0)),
            Some((IpAddr::V4(a), len)) => (key4(a, len), (0, 0, 0)),
            Some((IpAddr::V6(a), len)) => (u64::MAX, key6(a, len)),
        };
        let v4 = self.v4.range(from4..).map(|(key, entry)| (prefix4(*key), entry));
        v4.chain(self.v6.range(from6..).map(|(key, entry)| (prefix6(*key), entry)))
    }

    /// Up to `count` prefixes from this one on, in order.
    pub(super) fn from(&self, first: &Prefix, count: usize) -> Vec<Prefix> {
        self.entries(Some(*first)).take(count).map(|(prefix, _)| prefix).collect()
    }

    /// A source begins a full list of its routes.
    pub(super) fn begin(&mut self, origin: Origin) {
        let at = origin as usize;
        if self.naming[at] {
            // It begins anew: routes listed so far do not count.
            let round = self.round[at];
            let reset = |e: &mut Entry| e.rounds ^= u8::from(e.round(origin) == round) << at;
            self.v4.values_mut().for_each(reset);
            self.v6.values_mut().for_each(reset);
            let spares = self.spares.iter_mut().filter(|((_, o, _), _)| *o == origin);
            spares.for_each(|(_, spare)| spare.round = !round);
            return;
        }
        self.naming[at] = true;
        self.round[at] = !self.round[at];
    }

    /// The list is complete: returns the routes that are not in it.
    pub(super) fn end(&mut self, origin: Origin) -> Vec<(Prefix, u32)> {
        let at = origin as usize;
        if !std::mem::take(&mut self.naming[at]) {
            return Vec::new();
        }
        let round = self.round[at];
        let is_old = |e: &Entry| e.group(origin).is_some() && e.round(origin) != round;
        let old = self.entries(None).filter(|(_, entry)| is_old(entry));
        let mut old: Vec<_> = old.map(|(prefix, e)| (prefix, e.metric(origin))).collect();
        let spares = self.spares.iter().filter(|((_, o, _), s)| *o == origin && s.round != round);
        old.extend(spares.map(|((prefix, _, metric), _)| (*prefix, *metric)));
        old
    }
}
