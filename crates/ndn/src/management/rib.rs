//! Routes, and the next hops that follow from them (NFD developer guide, "RIB Management").
//!
//! A prefix has the next hops of its own routes; and unless one of these says *capture*, also those
//! that shorter prefixes pass on: routes that say *child inherit*, each face once, by the nearest
//! prefix that passes it on, up to and with the nearest one that captures. Of several routes to one
//! face the cheapest counts. A change is carried down from the prefix that it was made at, and only
//! if what that passes on has changed.
//!
//! Next hops that were set directly (`fib/add-nexthop`) stand beside: they are nobody else's, and
//! win over a route to the same face.

mod entry;
mod limits;
mod neighbours;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use plexus_wire::Time;
use plexus_wire::ndn::Name;

use super::Claim;
use crate::face::FaceId;
use crate::fib::{FibError, NextHop};
use crate::names::COMPONENTS_MAX;
pub use entry::Route;
use entry::{ByFace, Entry};
pub use limits::{RibError, RibLimits};
use neighbours::Neighbours;

type Key = Arc<[u8]>;

/// Who carries next hops into the FIB.
pub(super) type Publish<'a> = dyn FnMut(Name<'_>, &[NextHop]) -> Result<(), FibError> + 'a;

/// The routes.
pub struct Rib {
    limits: RibLimits,
    /// By the bytes of their names: longer prefixes follow the shorter.
    entries: BTreeMap<Key, Entry>,
    by_face: BTreeSet<(FaceId, Key)>,
    /// How many there are by a face.
    counts: BTreeMap<FaceId, usize>,
    neighbours: Neighbours,
    ends: BTreeSet<(Time, Key, FaceId, u64)>,
    len: usize,
    in_fib: usize,
    /// Changes of next hops that the FIB did not take.
    pub(super) untaken: u64,
}

fn name(key: &[u8]) -> Name<'_> {
    Name::new_checked(key).expect("a key is the value of a name")
}

impl Rib {
    /// Without routes.
    pub fn new(limits: RibLimits) -> Rib {
        Rib {
            limits,
            entries: BTreeMap::new(),
            by_face: BTreeSet::new(),
            counts: BTreeMap::new(),
            neighbours: Neighbours::default(),
            ends: BTreeSet::new(),
            len: 0,
            in_fib: 0,
            untaken: 0,
        }
    }

    /// How many routes there are, and next hops that were set directly.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many prefixes lead somewhere.
    pub fn prefixes(&self) -> usize {
        self.in_fib
    }

    /// Prefixes that have routes, in order of their bytes, and the routes.
    pub fn routes(&self) -> impl Iterator<Item = (Name<'_>, &[Route])> {
        let having = self.entries.iter().filter(|(_, entry)| !entry.routes.is_empty());
        having.map(|(key, entry)| (name(key), &entry.routes[..]))
    }

    /// Prefixes that lead somewhere, and where, the cheapest first: what the FIB has.
    pub fn next_hops(&self) -> impl Iterator<Item = (Name<'_>, &[NextHop])> {
        let having = self.entries.iter().filter(|(_, entry)| !entry.hops.is_empty());
        having.map(|(key, entry)| (name(key), &entry.hops[..]))
    }

    /// When the first route ends by itself.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.ends.first().map(|end| end.0)
    }

    fn check_room(&self, prefix: Name<'_>, face: FaceId) -> Result<(), RibError> {
        let by_face = self.counts.get(&face).copied().unwrap_or(0);
        let of_prefix = self.entries.get(prefix.value()).map_or(0, Entry::len);
        let RibLimits { routes, per_face, per_prefix, .. } = self.limits;
        for (count, max) in [(self.len, routes), (by_face, per_face), (of_prefix, per_prefix)] {
            if count >= max {
                return Err(RibError::Full(count));
            }
        }
        Ok(())
    }

    /// As [`add`](Self::add), of a route of origin *client* that a neighbour asks for: each may
    /// have as much of what is for neighbours as is still free.
    pub(super) fn add_for_neighbour(
        &mut self,
        prefix: Name<'_>,
        route: Route,
        publish: &mut Publish<'_>,
    ) -> Result<(), RibError> {
        let Rib { neighbours, entries, by_face, .. } = self;
        neighbours.know(route.face, || {
            let from = (route.face, Key::from(&[][..]));
            let keys = by_face.range(from..).take_while(|(face, _)| *face == route.face);
            let having = keys.filter_map(|(_, key)| Some((&key[..], entries.get(key)?)));
            having.map(|(key, entry)| neighbours::share(key, entry, route.face)).sum()
        });
        let same = |r: &Route| (r.face, r.origin) == (route.face, route.origin);
        let known = self.entries.get(prefix.value()).is_some_and(|e| e.routes.iter().any(same));
        if !known {
            self.neighbours.check(route.face, prefix, self.limits.neighbours)?;
        }
        self.add(prefix, route, publish)
    }

    /// Adds a route, or changes the one of the same face and origin. `publish` carries the next
    /// hops that a prefix has from now on into the FIB.
    ///
    /// # Errors
    /// [`RibError`]: nothing was changed.
    pub fn add(
        &mut self,
        prefix: Name<'_>,
        route: Route,
        publish: &mut Publish<'_>,
    ) -> Result<(), RibError> {
        let same = |r: &Route| (r.face, r.origin) == (route.face, route.origin);
        let old = self.entries.get(prefix.value()).and_then(|e| e.routes.iter().position(same));
        if prefix.len() > COMPONENTS_MAX {
            return Err(RibError::TooLong);
        }
        if old.is_none() {
            self.check_room(prefix, route.face)?;
        }
        let edit = |entry: &mut Entry| match old {
            Some(at) => entry.routes[at] = route,
            None => entry.routes.push(route),
        };
        Ok(self.edit(prefix, edit, publish)?)
    }

    /// Removes a route; false if there is none of the face and origin.
    pub(super) fn remove(
        &mut self,
        prefix: Name<'_>,
        face: FaceId,
        origin: u64,
        publish: &mut Publish<'_>,
    ) -> bool {
        let is_it = |r: &Route| (r.face, r.origin) == (face, origin);
        let entry = self.entries.get(prefix.value());
        let known = entry.is_some_and(|entry| entry.routes.iter().any(is_it));
        if known {
            let edit = |entry: &mut Entry| entry.routes.retain(|r| !is_it(r));
            let _ = self.edit(prefix, edit, publish); // what is taken away is always taken away
        }
        known
    }

    /// Sets a next hop directly, for a cost and by a right, or takes it back.
    pub(super) fn set_direct(
        &mut self,
        prefix: Name<'_>,
        face: FaceId,
        set: Option<(u64, Claim)>,
        publish: &mut Publish<'_>,
    ) -> Result<(), RibError> {
        let is_it = |(hop, _): &(NextHop, Claim)| hop.face == face;
        let entry = self.entries.get(prefix.value());
        let known = entry.is_some_and(|entry| entry.direct.iter().any(is_it));
        if prefix.len() > COMPONENTS_MAX {
            return Err(RibError::TooLong);
        }
        match set {
            None if !known => return Ok(()),
            Some(_) if !known => self.check_room(prefix, face)?,
            _ => {}
        }
        let edit = |entry: &mut Entry| {
            entry.direct.retain(|hop| !is_it(hop));
            entry.direct.extend(set.map(|(cost, claim)| (NextHop { cost, face }, claim)));
        };
        Ok(self.edit(prefix, edit, publish)?)
    }

    /// Removes everything that leads to a face.
    pub(super) fn remove_face(&mut self, face: FaceId, publish: &mut Publish<'_>) {
        let from = (face, Key::from(&[][..]));
        let of_face = self.by_face.range(from..).take_while(|(f, _)| *f == face);
        for key in of_face.map(|(_, key)| Arc::clone(key)).collect::<Vec<_>>() {
            let edit = |entry: &mut Entry| {
                entry.routes.retain(|r| r.face != face);
                entry.direct.retain(|(hop, _)| hop.face != face);
            };
            let _ = self.edit(name(&key), edit, publish);
        }
        self.neighbours.forget(face);
    }

    /// Removes what does not stand by its right; gives how much that was.
    pub(super) fn withdraw(
        &mut self,
        stands: &impl Fn(&Claim) -> bool,
        publish: &mut Publish<'_>,
    ) -> usize {
        let falls = |entry: &Entry| {
            let direct = entry.direct.iter().map(|(_, claim)| claim);
            entry.routes.iter().map(|r| &r.claim).chain(direct).any(|claim| !stands(claim))
        };
        let fallen = self.entries.iter().filter(|(_, entry)| falls(entry));
        let before = self.len;
        for key in fallen.map(|(key, _)| Arc::clone(key)).collect::<Vec<_>>() {
            let edit = |entry: &mut Entry| {
                entry.routes.retain(|r| stands(&r.claim));
                entry.direct.retain(|(_, claim)| stands(claim));
            };
            let _ = self.edit(name(&key), edit, publish);
        }
        before - self.len
    }

    /// Removes the routes that have ended by `now`; false if none has.
    pub(super) fn expire(&mut self, now: Time, publish: &mut Publish<'_>) -> bool {
        let mut any = false;
        while let Some((_, key, face, origin)) = self.ends.first().filter(|end| end.0 <= now) {
            let (key, face, origin) = (Arc::clone(key), *face, *origin);
            any |= self.remove(name(&key), face, origin, publish);
        }
        any
    }

    /// Edits what a prefix has, and carries what follows into the FIB. If the FIB does not take
    /// the prefix itself, all is as before; unless something is taken away, which is done anyhow.
    fn edit(
        &mut self,
        prefix: Name<'_>,
        edit: impl FnOnce(&mut Entry),
        publish: &mut Publish<'_>,
    ) -> Result<(), FibError> {
        let inherited = self.inherited(prefix);
        let old = self.entries.get_key_value(prefix.value());
        let key = old.map_or_else(|| Key::from(prefix.value()), |(key, _)| Arc::clone(key));
        let old = old.map(|(_, entry)| entry.clone()).unwrap_or_default();
        let mut new = old.clone();
        edit(&mut new);
        new.hops = new.derive(&inherited);
        if new.hops != old.hops
            && let Err(e) = publish(prefix, &new.hops)
        {
            if new.len() >= old.len() {
                return Err(e);
            }
            self.untaken += 1;
            new.hops.clone_from(&old.hops);
        }
        self.account(&key, &old, &new);
        let passes = new.passes(&inherited);
        let has_changed = old.passes(&inherited) != passes;
        match new.len() == 0 && new.hops.is_empty() {
            true => drop(self.entries.remove(&key)),
            false => drop(self.entries.insert(Arc::clone(&key), new)),
        }
        if has_changed {
            self.carry_down(key, passes, publish);
        }
        Ok(())
    }

    /// What shorter prefixes pass on to a prefix.
    fn inherited(&self, prefix: Name<'_>) -> ByFace {
        let value = prefix.value();
        let ends = std::iter::once(0).chain(prefix.ends()).take_while(|end| *end < value.len());
        ends.filter_map(|end| self.entries.get(&value[..end]))
            .fold(ByFace::new(), |inherited, entry| entry.passes(&inherited))
    }

    /// Derives the next hops of longer prefixes anew.
    fn carry_down(&mut self, key: Key, passes: ByFace, publish: &mut Publish<'_>) {
        let mut above = vec![(Arc::clone(&key), passes)];
        let mut barrier: Option<Key> = None;
        let longer = (Bound::Excluded(&key[..]), Bound::Unbounded);
        for (below, entry) in self.entries.range_mut::<[u8], _>(longer) {
            if !below.starts_with(&key) {
                break;
            }
            if barrier.as_ref().is_some_and(|barrier| below.starts_with(barrier)) {
                continue;
            }
            if entry.captures() {
                barrier = Some(Arc::clone(below));
                continue;
            }
            while above.len() > 1 && !below.starts_with(&above[above.len() - 1].0) {
                above.pop();
            }
            let inherited = &above[above.len() - 1].1;
            let hops = entry.derive(inherited);
            let passes = entry.passes(inherited);
            if hops != entry.hops {
                match publish(name(below), &hops) {
                    Ok(()) => {
                        // Only of what the FIB did not let go before.
                        self.in_fib -= usize::from(hops.is_empty());
                        entry.hops = hops;
                    }
                    Err(_) => self.untaken += 1,
                }
            }
            above.push((Arc::clone(below), passes));
        }
    }

    /// Keeps the indices and counts up to date.
    fn account(&mut self, key: &Key, old: &Entry, new: &Entry) {
        let ends = |entry: &Entry| {
            let ending = entry.routes.iter().filter_map(|r| Some((r.expires?, r.face, r.origin)));
            ending.map(|(at, face, origin)| (at, Arc::clone(key), face, origin)).collect::<Vec<_>>()
        };
        ends(old).iter().for_each(|end| drop(self.ends.take(end)));
        self.ends.extend(ends(new));
        let faces = |entry: &Entry| {
            let routes = entry.routes.iter().map(|r| r.face);
            routes.chain(entry.direct.iter().map(|(hop, _)| hop.face)).collect::<BTreeSet<_>>()
        };
        for face in faces(old).union(&faces(new)) {
            let (before, after) = (old.leads_to(*face), new.leads_to(*face));
            match after {
                0 => drop(self.by_face.remove(&(*face, Arc::clone(key)))),
                _ => drop(self.by_face.insert((*face, Arc::clone(key)))),
            }
            let count = self.counts.entry(*face).or_default();
            *count = *count + after - before;
            if *count == 0 {
                self.counts.remove(face);
            }
            let [before, after] = [old, new].map(|entry| neighbours::share(key, entry, *face));
            self.neighbours.account(*face, before, after);
        }
        self.len = self.len + new.len() - old.len();
        self.in_fib += usize::from(!new.hops.is_empty());
        self.in_fib -= usize::from(!old.hops.is_empty());
    }
}
