//! Limits on what neighbours may use of the table.

use std::collections::BTreeMap;

use plexus_wire::ndn::Name;

use super::entry::Routes;
use super::limits::RibError;
use crate::face::FaceId;

/// Bytes of a name up to which a route counts once: a FIB has that many for each prefix.
const NAME_LEN: usize = 96;

/// What every neighbour may use, even if others have taken all that was free: in a table of the
/// usual size 15 short names, and half as much again of any kind if 16,384 neighbours insist.
fn guaranteed(limit: usize) -> usize {
    (limit >> 15).max(1)
}

/// How much each neighbour uses.
#[derive(Default)]
pub(super) struct Neighbours {
    shares: BTreeMap<FaceId, usize>,
    sum: usize,
}

fn weight(name: &[u8]) -> usize {
    1 + name.len() / NAME_LEN
}

impl Neighbours {
    /// Whether a neighbour may add one more prefix, out of the `limit` of all neighbours.
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

    /// Updates the use when a prefix's routes change from `before` to `after`.
    pub(super) fn account(&mut self, name: &[u8], before: &Routes, after: &Routes) {
        let weight = weight(name);
        for route in after.of_neighbours() {
            *self.shares.entry(route.face).or_default() += weight;
        }
        for route in before.of_neighbours() {
            if let Some(share) = self.shares.get_mut(&route.face) {
                *share -= weight;
                if *share == 0 {
                    self.shares.remove(&route.face);
                }
            }
        }
        self.sum += weight * after.of_neighbours().len();
        self.sum -= weight * before.of_neighbours().len();
    }
}
