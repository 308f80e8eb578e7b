//! The RIB: routes, and the next hops derived from them (NFD developer guide, "RIB Management").
//!
//! A prefix has the next hops of its own routes. Unless one of these has the *capture* flag, it
//! also inherits those of shorter prefixes: routes with the *child inherit* flag, each face once,
//! from the nearest prefix that has it, up to and including the nearest prefix that captures. Of
//! several routes to one face the cheapest counts.
//!
//! What a prefix passes on concerns all longer prefixes, possibly all in the table. So a change
//! takes effect at once at its own prefix; [`Rib::turn`] propagates it to longer ones, a bounded
//! number at a time, and the change itself does as much of that as the current turn allows. Expiry
//! of routes and removal of faces are done in turns as well.
//!
//! Next hops set directly (`fib/add-nexthop`) are kept apart: they are not inherited, and win over
//! a route to the same face.
//!
//! # What neighbours cannot take
//! Neighbours share half of the routes, half of each prefix's routes,
//! and half of the sets of next hops. A prefix for which neighbours' routes find no set uses the
//! next hops of the other routes; if a prefix has more next hops than allowed, those of the other
//! routes are kept.

mod entry;
mod interned;
mod leaves;
mod limits;
mod neighbours;
mod pending;
mod sets;
mod turn;
mod withdraw;

use std::collections::{BTreeMap, BTreeSet};

use plexus_wire::Time;
use plexus_wire::ndn::{Name, NameBuf};

use super::Claim;
use crate::face::FaceId;
use crate::fib::{FibError, NextHop};
use crate::names::COMPONENTS_MAX;
pub use entry::Route;
use entry::{Entry, Led, Routes};
use interned::Interned;
use leaves::Leaves;
pub use limits::{RibError, RibLimits};
use neighbours::Neighbours;
use pending::Pending;
use sets::{SetNumber, Sets};

/// Publishes next hops to the FIB.
pub(super) type Publish<'a> = dyn FnMut(Name<'_>, &[NextHop]) -> Result<(), FibError> + 'a;

/// The routes.
pub struct Rib {
    limits: RibLimits,
    /// Ordered by the bytes of their names: longer prefixes follow shorter ones.
    leaves: Leaves<Entry>,
    routes: Interned<Routes>,
    sets: Sets,
    /// Leaves with a prefix that has the face as a next hop.
    by_face: BTreeSet<(FaceId, u32)>,
    /// Leaves with a route that expires at this time.
    ends: BTreeSet<(Time, u32)>,
    /// How many routes each face has.
    counts: BTreeMap<FaceId, usize>,
    neighbours: Neighbours,
    pending: Pending,
    /// Removed faces to which routes may still exist.
    gone: BTreeSet<FaceId>,
    /// Prefixes that may still be processed in this turn.
    left: usize,
    len: usize,
    /// How many of these were set directly.
    direct: usize,
    /// Changes of next hops that the FIB refused.
    pub(super) untaken: u64,
}

/// The contents of a prefix.
pub(super) struct Listed<'a> {
    /// The prefix's bytes.
    pub(super) key: Vec<u8>,
    pub(super) routes: &'a [Route],
    pub(super) hops: &'a [NextHop],
}

impl Listed<'_> {
    pub(super) fn prefix(&self) -> NameBuf {
        name(&self.key).to_buf()
    }
}

fn name(key: &[u8]) -> Name<'_> {
    Name::new_checked(key).expect("a key is the value of a name")
}

/// Publishes new next hops for a prefix that had the set `old`; returns the new set.
fn lead(
    sets: &mut Sets,
    limits: &RibLimits,
    prefix: Name<'_>,
    led: &Led,
    old: SetNumber,
    publish: &mut Publish<'_>,
) -> Result<SetNumber, RibError> {
    let max = limits.neighbours_sets;
    let (hops, is_own) = match &led.without {
        None => (&led.hops, true),
        Some(_) if sets.has_room(&led.hops, old, max) => (&led.hops, false),
        Some(without) if without.is_empty() => return Err(RibError::NeighboursSets(max)),
        Some(without) => (without, true),
    };
    if *sets.get(old) != hops[..] {
        publish(prefix, hops)?;
    }
    let new = sets.acquire(hops, is_own);
    sets.release(old);
    Ok(new)
}

/// Fallback for a prefix that had the set `old` and whose new next hops were refused: it uses only
/// the node's own routes, or none. No packet follows a route that has been withdrawn.
fn fall_back(
    sets: &mut Sets,
    prefix: Name<'_>,
    led: &Led,
    old: SetNumber,
    publish: &mut Publish<'_>,
) -> SetNumber {
    if led.has_all(sets.get(old)) {
        return old;
    }
    let own = led.without.as_deref().unwrap_or(&[]);
    let Some(hops) = [own, &[]].into_iter().find(|hops| publish(prefix, hops).is_ok()) else {
        return old;
    };
    let new = sets.acquire(hops, true);
    sets.release(old);
    new
}

impl Rib {
    /// A RIB without routes.
    pub fn new(limits: RibLimits) -> Rib {
        Rib {
            limits,
            leaves: Leaves::new(),
            routes: Interned::new(),
            sets: Sets::new(),
            by_face: BTreeSet::new(),
            ends: BTreeSet::new(),
            counts: BTreeMap::new(),
            neighbours: Neighbours::default(),
            pending: Pending::default(),
            gone: BTreeSet::new(),
            left: limits.turn,
            len: 0,
            direct: 0,
            untaken: 0,
        }
    }

    /// How many routes there are, and next hops that were set directly.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many routes there are: as many as [`routes`](Self::routes) yields.
    pub fn routes_len(&self) -> usize {
        self.len - self.direct
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many prefixes have next hops.
    pub fn prefixes(&self) -> usize {
        self.sets.prefixes
    }

    /// Prefixes that have routes, in order of their bytes, with the routes.
    pub fn routes(&self) -> impl Iterator<Item = (NameBuf, &[Route])> {
        let all = self.listed_from(&[]).filter(|of| !of.routes.is_empty());
        all.map(|of| (of.prefix(), of.routes))
    }

    /// Prefixes that have next hops, with these, the cheapest first: the contents of the FIB.
    pub fn next_hops(&self) -> impl Iterator<Item = (NameBuf, &[NextHop])> {
        let all = self.listed_from(&[]).filter(|of| !of.hops.is_empty());
        all.map(|of| (of.prefix(), of.hops))
    }

    /// Everything from a prefix on, given by its bytes, in that order.
    pub(super) fn listed_from(&self, key: &[u8]) -> impl Iterator<Item = Listed<'_>> {
        self.leaves.iter(key).map(|(key, entry)| Listed {
            key,
            routes: &self.routes.get(entry.routes).all,
            hops: self.sets.get(entry.hops),
        })
    }

    fn of(&self, prefix: Name<'_>) -> Option<&Routes> {
        self.leaves.get(prefix.value()).map(|entry| &**self.routes.get(entry.routes))
    }

    fn check_room(&self, prefix: Name<'_>, face: FaceId) -> Result<(), RibError> {
        let by_face = self.counts.get(&face).copied().unwrap_or(0);
        let of_prefix = self.of(prefix).map_or(0, Routes::len);
        let RibLimits { routes, per_face, per_prefix, .. } = self.limits;
        match () {
            () if self.len >= routes => Err(RibError::Routes(self.len)),
            () if by_face >= per_face => Err(RibError::Face(by_face)),
            () if of_prefix >= per_prefix => Err(RibError::Prefix(of_prefix)),
            () => Ok(()),
        }
    }

    /// As [`add`](Self::add), for a route of origin *client* that a neighbour requests: each
    /// neighbour may have as many as are still free in the neighbours' share.
    pub(super) fn add_for_neighbour(
        &mut self,
        prefix: Name<'_>,
        route: Route,
        publish: &mut Publish<'_>,
    ) -> Result<(), RibError> {
        let of_neighbours = self.of(prefix).map_or(&[][..], Routes::of_neighbours);
        let same = |r: &Route| (r.face, r.origin) == (route.face, route.origin);
        if !of_neighbours.iter().any(same) {
            if of_neighbours.len() >= self.limits.per_prefix / 2 {
                return Err(RibError::NeighboursPrefix(of_neighbours.len()));
            }
            self.neighbours.check(route.face, prefix, self.limits.neighbours)?;
        }
        self.put(prefix, route, true, publish)
    }

    /// Adds a route, or changes the one with the same face and origin. `publish` passes the
    /// prefix's new next hops to the FIB.
    ///
    /// # Errors
    /// [`RibError`]: nothing was changed.
    pub fn add(
        &mut self,
        prefix: Name<'_>,
        route: Route,
        publish: &mut Publish<'_>,
    ) -> Result<(), RibError> {
        self.put(prefix, route, false, publish)
    }

    fn put(
        &mut self,
        prefix: Name<'_>,
        route: Route,
        is_neighbours: bool,
        publish: &mut Publish<'_>,
    ) -> Result<(), RibError> {
        self.forget_namesake(route.face, publish);
        if prefix.len() > COMPONENTS_MAX {
            return Err(RibError::TooLong);
        }
        if self.of(prefix).and_then(|of| of.position(route.face, route.origin)).is_none() {
            self.check_room(prefix, route.face)?;
        }
        self.edit(prefix, |routes| routes.put(route, is_neighbours), publish)?;
        self.go_on(Time::ZERO, publish);
        Ok(())
    }

    /// Removes a route; false if there is none with this face and origin.
    pub(super) fn remove(
        &mut self,
        prefix: Name<'_>,
        face: FaceId,
        origin: u64,
        publish: &mut Publish<'_>,
    ) -> bool {
        let known = self.of(prefix).and_then(|of| of.position(face, origin)).is_some();
        if known {
            let edit = |routes: &mut Routes| {
                routes.retain(|r| (r.face, r.origin) != (face, origin));
            };
            let _ = self.edit(prefix, edit, publish); // a removal always takes effect
            self.go_on(Time::ZERO, publish);
        }
        known
    }

    /// Sets a next hop directly, with a cost and a claim, or removes it.
    pub(super) fn set_direct(
        &mut self,
        prefix: Name<'_>,
        face: FaceId,
        set: Option<(u64, Claim)>,
        publish: &mut Publish<'_>,
    ) -> Result<(), RibError> {
        self.forget_namesake(face, publish);
        let is_it = |(hop, _): &(NextHop, Claim)| hop.face == face;
        let known = self.of(prefix).is_some_and(|of| of.direct.iter().any(is_it));
        if prefix.len() > COMPONENTS_MAX {
            return Err(RibError::TooLong);
        }
        match set {
            None if !known => return Ok(()),
            Some(_) if !known => self.check_room(prefix, face)?,
            _ => {}
        }
        let edit = |routes: &mut Routes| {
            routes.direct.retain(|hop| !is_it(hop));
            routes.direct.extend(set.map(|(cost, claim)| (NextHop { cost, face }, claim)));
        };
        self.edit(prefix, edit, publish)
    }

    /// Edits a prefix's routes and publishes its next hops; the effect on longer prefixes becomes
    /// pending. If the FIB refuses the prefix, the edit is undone, except for a removal, which
    /// always takes effect.
    fn edit(
        &mut self,
        prefix: Name<'_>,
        edit: impl FnOnce(&mut Routes),
        publish: &mut Publish<'_>,
    ) -> Result<(), RibError> {
        let key = prefix.value();
        let inherited = self.inherited(prefix);
        let old = self.leaves.get(key);
        let before = old.map_or_else(Default::default, |old| self.routes.get(old.routes).clone());
        let mut after = Routes::clone(&before);
        edit(&mut after);
        let set = old.map_or(SetNumber::NONE, |old| old.hops);
        let led = after.lead(&inherited);
        let hops = match lead(&mut self.sets, &self.limits, prefix, &led, set, publish) {
            Ok(hops) => hops,
            Err(e) if after.len() >= before.len() => return Err(e),
            Err(_) => {
                self.untaken += 1;
                fall_back(&mut self.sets, prefix, &led, set, publish)
            }
        };
        if before.passes(&inherited) != after.passes(&inherited) {
            self.pending.add_below(key);
        }
        let is_left = after.len() > 0 || hops != SetNumber::NONE;
        let routes = is_left.then(|| self.routes.acquire(after.clone()));
        let touched = self.leaves.set(key, routes.map(|routes| Entry { routes, hops }));
        old.into_iter().for_each(|old| self.routes.release(old.routes));
        self.account(key, &before, &after);
        self.index(touched, [&before, &after]);
        Ok(())
    }

    /// Updates the counts.
    fn account(&mut self, key: &[u8], before: &Routes, after: &Routes) {
        after.faces().for_each(|face| *self.counts.entry(face).or_default() += 1);
        for face in before.faces() {
            if let Some(count) = self.counts.get_mut(&face) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&face);
                }
            }
        }
        self.neighbours.account(key, before, after);
        self.len = self.len + after.len() - before.len();
        self.direct = self.direct + after.direct.len() - before.direct.len();
    }

    /// Updates the indices by face and by expiry.
    fn index(&mut self, touched: leaves::Touched, changed: [&Routes; 2]) {
        if touched.other.is_none() && changed[0].is_found_as(changed[1]) {
            return;
        }
        let both = [Some(touched.leaf), touched.other];
        let mut faces: BTreeSet<FaceId> =
            changed.iter().flat_map(|routes| routes.faces()).collect();
        let mut ends: BTreeSet<Time> = changed.iter().flat_map(|routes| routes.ends()).collect();
        let there = both.map(|leaf| {
            let numbers = leaf.map_or(&[][..], |leaf| self.leaves.values(leaf)).iter();
            let numbers: BTreeSet<u32> = numbers.map(|entry| entry.routes).collect();
            let all = numbers.iter().map(|number| self.routes.get(*number));
            all.fold((BTreeSet::new(), BTreeSet::new()), |(mut faces, mut ends), routes| {
                faces.extend(routes.faces());
                ends.extend(routes.ends());
                (faces, ends)
            })
        });
        if touched.other.is_some() {
            for (of_faces, of_ends) in &there {
                faces.extend(of_faces);
                ends.extend(of_ends);
            }
        }
        for (leaf, (of_faces, of_ends)) in both.into_iter().zip(&there) {
            let Some(leaf) = leaf else { continue };
            note(&mut self.by_face, leaf, &faces, of_faces);
            note(&mut self.ends, leaf, &ends, of_ends);
        }
    }
}

/// Notes in an index which of these keys a leaf has.
fn note<K: Copy + Ord>(
    index: &mut BTreeSet<(K, u32)>,
    leaf: u32,
    keys: &BTreeSet<K>,
    has: &BTreeSet<K>,
) {
    for key in keys {
        match has.contains(key) {
            true => index.insert((*key, leaf)),
            false => index.remove(&(*key, leaf)),
        };
    }
}
