//! What neighbours may have of the table, by their routes of origin *client*.

use std::collections::BTreeMap;

use plexus_wire::ndn::Name;
use plexus_wire::ndn::nfd::origin;

use super::entry::Entry;
use super::limits::RibError;
use crate::face::FaceId;

/// Bytes of a name for which a route counts once: a FIB has so many for each prefix.
const NAME_LEN: usize = 96;

/// What a neighbour may have in any case, however many others have taken what was free: of a table
/// of the usual size 15 short names, and half as much again of any if 16,384 neighbours insist.
fn guaranteed(limit: usize) -> usize {
    (limit >> 15).max(1)
}

/// How much each neighbour has, once it has asked for a route.
#[derive(Default)]
pub(super) struct Neighbours {
    shares: BTreeMap<FaceId, usize>,
    sum: usize,
}

/// What a prefix of this name takes.
fn weight(name: &[u8]) -> usize {
    1 + name.len() / NAME_LEN
}

/// What a prefix's routes to a face count.
pub(super) fn share(name: &[u8], entry: &Entry, face: FaceId) -> usize {
    let is_it = |r: &&super::Route| r.face == face && r.origin == origin::CLIENT;
    weight(name) * entry.routes.iter().filter(is_it).count()
}

impl Neighbours {
    /// From now on a face is a neighbour's; `share` is what it has.
    pub(super) fn know(&mut self, face: FaceId, share: impl FnOnce() -> usize) {
        let Neighbours { shares, sum } = self;
        shares.entry(face).or_insert_with(|| {
            let share = share();
            *sum += share;
            share
        });
    }

    /// Whether a neighbour may have one more prefix, of the `limit` of all.
    pub(super) fn check(
        &self,
        face: FaceId,
        prefix: Name<'_>,
        limit: usize,
    ) -> Result<(), RibError> {
        let has = self.shares.get(&face).copied().unwrap_or(0);
        let free = limit.saturating_sub(self.sum);
        match has + weight(prefix.value()) <= free.max(guaranteed(limit)) {
            true => Ok(()),
            false => Err(RibError::Share { has, free }),
        }
    }

    /// What a face has of one prefix was `before` and is `after`.
    pub(super) fn account(&mut self, face: FaceId, before: usize, after: usize) {
        if let Some(share) = self.shares.get_mut(&face) {
            *share = *share + after - before;
            self.sum = self.sum + after - before;
        }
    }

    /// The face has gone, and its routes.
    pub(super) fn forget(&mut self, face: FaceId) {
        self.sum -= self.shares.remove(&face).unwrap_or(0);
    }
}
