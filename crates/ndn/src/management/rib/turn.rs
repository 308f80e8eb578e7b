//! Work done in parts because it may concern every prefix: propagating inherited next hops, and
//! removing expired routes and those of removed faces.

use plexus_wire::Time;
use plexus_wire::ndn::Name;

use super::entry::{Entry, Routes, Ways};
use super::leaves::shared;
use super::{Publish, Rib, fall_back, lead, name};
use crate::face::FaceId;

/// Prefixes of a range that are processed before other work takes its turn.
const AT_ONCE: usize = 32;

impl Rib {
    /// True if something is left for the next turn.
    pub fn is_behind(&self) -> bool {
        !self.pending.is_empty() || !self.gone.is_empty()
    }

    /// When [`turn`](Self::turn) is due.
    pub fn next_deadline(&self) -> Option<Time> {
        match self.is_behind() {
            true => Some(Time::ZERO),
            false => self.ends.first().map(|end| end.0),
        }
    }

    /// Processes as many prefixes as [`RibLimits`](super::RibLimits) allows; true if anything
    /// changed.
    pub fn turn(&mut self, now: Time, publish: &mut Publish<'_>) -> bool {
        self.left = self.limits.turn;
        self.go_on(now, publish)
    }

    /// Does as much as the current turn allows. At [`Time::ZERO`] no route expires.
    pub(in super::super) fn go_on(&mut self, now: Time, publish: &mut Publish<'_>) -> bool {
        let mut any = false;
        loop {
            let before = self.left;
            if self.left > 0 {
                self.end_one(now, publish);
            }
            if self.left > 0
                && let Some(&face) = self.gone.first()
            {
                self.forget_one(face, publish);
            }
            if self.left > 0
                && let Some((from, to)) = self.pending.next()
            {
                self.walk(&from, &to, publish);
            }
            if self.left == before {
                return any;
            }
            any = true;
        }
    }

    fn end_one(&mut self, now: Time, publish: &mut Publish<'_>) {
        let Some((_, leaf)) = self.ends.first().filter(|end| end.0 <= now).copied() else { return };
        let ends = |routes: &Routes| routes.ends().any(|at| at <= now);
        let edit = |routes: &mut Routes| routes.retain(|r| r.expires.is_none_or(|at| at > now));
        self.change_one(leaf, ends, edit, publish);
    }

    fn forget_one(&mut self, face: FaceId, publish: &mut Publish<'_>) {
        let leaf = self.by_face.range((face, 0)..=(face, u32::MAX)).next().map(|(_, leaf)| *leaf);
        let Some(leaf) = leaf else {
            self.gone.remove(&face);
            return;
        };
        let leads = |routes: &Routes| routes.faces().any(|f| f == face);
        self.change_one(leaf, leads, |routes| routes.remove_face(face), publish);
    }

    /// Removes from the first prefix of a leaf that needs it.
    fn change_one(
        &mut self,
        leaf: u32,
        is_it: impl Fn(&Routes) -> bool,
        edit: impl FnOnce(&mut Routes),
        publish: &mut Publish<'_>,
    ) {
        self.left = self.left.saturating_sub(1);
        let mut entries = self.leaves.values(leaf).iter();
        if let Some(at) = entries.position(|entry| is_it(self.routes.get(entry.routes))) {
            let of = self.leaves.name(leaf, at);
            let _ = self.edit(name(&of), edit, publish); // a removal always takes effect
        }
    }

    /// Recomputes the next hops of the first prefixes of a range.
    fn walk(&mut self, from: &[u8], to: &[u8], publish: &mut Publish<'_>) {
        let Some(first) = self.leaves.first(from).filter(|first| first[..] < *to) else {
            self.left -= 1;
            return self.pending.done(from, to);
        };
        // What the prefixes of the last name pass on, by length, the longest last.
        let mut above: Vec<(usize, Ways)> = Vec::new();
        let ends = std::iter::once(0).chain(name(&first).ends());
        for end in ends.take_while(|end| *end < first.len()) {
            if let Some(entry) = self.leaves.get(&first[..end]) {
                let none = Ways::new();
                let inherited = above.last().map_or(&none, |(_, ways)| ways);
                let passes = self.routes.get(entry.routes).passes(inherited);
                above.push((end, passes));
            }
        }
        let (mut last, mut next) = (first.clone(), None);
        let mut count = self.left.min(AT_ONCE);
        self.left -= count;
        let Rib { leaves, routes, sets, limits, untaken, .. } = self;
        leaves.walk(&first, |of, entry: &mut Entry| {
            if count == 0 || *of >= *to {
                next = (*of < *to).then(|| of.to_vec());
                return false;
            }
            count -= 1;
            let common = shared(&last, of);
            while above.last().is_some_and(|(len, _)| *len > common) {
                above.pop();
            }
            let none = Ways::new();
            let inherited = above.last().map_or(&none, |(_, ways)| ways);
            let own = routes.get(entry.routes);
            let (prefix, led, old) = (name(of), own.lead(inherited), entry.hops);
            entry.hops = lead(sets, limits, prefix, &led, old, publish).unwrap_or_else(|_| {
                *untaken += 1;
                fall_back(sets, prefix, &led, old, publish)
            });
            let passes = own.passes(inherited);
            above.push((of.len(), passes));
            last.truncate(common);
            last.extend_from_slice(&of[common..]);
            true
        });
        self.left += count;
        let next = next.unwrap_or_else(|| to.to_vec());
        self.pending.done(from, &next);
    }

    /// Removes all routes to a face, in this turn or later.
    pub(in super::super) fn remove_face(&mut self, face: FaceId, publish: &mut Publish<'_>) {
        self.gone.insert(face);
        self.go_on(Time::ZERO, publish);
    }

    /// Removes leftover routes of an earlier face with the same number: numbers are reused after
    /// thousands of faces.
    pub(super) fn forget_namesake(&mut self, face: FaceId, publish: &mut Publish<'_>) {
        while self.gone.contains(&face) {
            self.forget_one(face, publish);
        }
    }

    /// The next hops that a prefix inherits from shorter ones.
    pub(super) fn inherited(&self, prefix: Name<'_>) -> Ways {
        let value = prefix.value();
        let ends = std::iter::once(0).chain(prefix.ends()).take_while(|end| *end < value.len());
        ends.filter_map(|end| self.leaves.get(&value[..end]))
            .fold(Ways::new(), |inherited, entry| self.routes.get(entry.routes).passes(&inherited))
    }
}
