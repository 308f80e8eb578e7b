//! The datasets that tell of prefixes, of which there may be millions: written a part at a time.
//!
//! An Interest that asks for one begins it, and writes down as many prefixes as may be gone through
//! in one turn ([`RibLimits::turn`](super::RibLimits)). If these are not all, the driver's next
//! turns go on, and who asks waits for the end: only then is it known which segment is the last.
//! NFD sends the first ones without, but ndnd's client gives up unless the first says it.
//!
//! # What is in a dataset that has taken several turns
//! Each prefix as it was when it was written. All that are there from beginning to end are in it
//! once, in order; others may be. Who asks while it is written is answered with it, whatever has
//! changed since it was begun; who asks later gets it only if nothing has.

use plexus_wire::Time;
use plexus_wire::ndn::nfd::{FibEntry, NextHopRecord, Record, RibEntry, Route};
use plexus_wire::ndn::{Name, NameBuf};

use super::Management;
use super::command::Dataset;
use super::dataset::segment;

/// How many names may wait for a dataset.
const AWAITED_MAX: usize = 64;
/// After so many bytes a turn is over: names may be long, and routes of one many.
const TURN_BYTES: usize = 64 << 10;

/// A dataset of which more is to be written.
pub(super) struct Writing {
    pub(super) dataset: Dataset,
    pub(super) content: Vec<u8>,
    /// The bytes of the prefix from which on all are still to be written.
    next: Vec<u8>,
    /// How many changes there had been when it was begun.
    changes: u64,
    /// When that was.
    unix_ms: u64,
    /// Under which names it is asked for.
    awaited: Vec<NameBuf>,
}

impl Writing {
    pub(super) fn new(dataset: Dataset, changes: u64, unix_ms: u64) -> Writing {
        let (content, next, awaited) = (Vec::new(), Vec::new(), Vec::new());
        Writing { dataset, content, next, changes, unix_ms, awaited }
    }

    /// Lets somebody wait for it under a name; false if as many do as may.
    pub(super) fn add_waiting(&mut self, prefix: Name<'_>) -> bool {
        let is_known = self.awaited.iter().any(|name| name.as_name() == prefix);
        if !is_known && self.awaited.len() < AWAITED_MAX {
            self.awaited.push(prefix.to_buf());
            return true;
        }
        is_known
    }
}

impl Management {
    /// Goes on with a dataset, by a turn; true if there is still more to be written.
    pub(super) fn write_part(&self, now: Time, writing: &mut Writing) -> bool {
        let Writing { dataset, content, next, .. } = writing;
        let end = content.len() + TURN_BYTES;
        let mut prefixes = self.rib.listed_from(next);
        for of in prefixes.by_ref().take(self.config.limits.rib.turn.max(1)) {
            let record = match dataset {
                Dataset::Rib if !of.routes.is_empty() => {
                    let record = |route: &super::Route| Route {
                        face_id: route.face.number(),
                        origin: route.origin,
                        cost: route.cost,
                        flags: route.flags,
                        expiration_ms: route.expires.map(|end| end.since(now).as_millis() as u64),
                    };
                    let routes = of.routes.iter().map(record).collect();
                    RibEntry { name: of.prefix(), routes }.to_bytes()
                }
                Dataset::Fib if !of.hops.is_empty() => {
                    let record = |hop: &crate::fib::NextHop| NextHopRecord {
                        face_id: hop.face.number(),
                        cost: hop.cost,
                    };
                    let next_hops = of.hops.iter().map(record).collect();
                    FibEntry { name: of.prefix(), next_hops }.to_bytes()
                }
                _ => continue,
            };
            content.extend(record);
            if content.len() >= end {
                break;
            }
        }
        let more = prefixes.next();
        drop(prefixes);
        let is_more = more.is_some();
        *next = more.map_or_else(Vec::new, |of| of.key);
        is_more
    }

    /// Goes on with a dataset that takes several turns, and answers who waits for it if it is
    /// complete. To be called once in a turn of the driver's, like [`tick`](Self::tick).
    pub fn write_datasets(&mut self, now: Time, answer: &mut impl FnMut(&[u8])) {
        let Some(mut writing) = self.writing.pop_front() else { return };
        if self.write_part(now, &mut writing) {
            self.writing.push_back(writing);
            return;
        }
        let Writing { dataset, content, changes, unix_ms, awaited, .. } = writing;
        let written = self.snapshots.keep((dataset, &[]), (now, unix_ms), changes, content);
        for packet in awaited.iter().filter_map(|name| segment(name.as_name(), 0, written)) {
            self.counters.segments += 1;
            answer(&packet);
        }
    }
}
