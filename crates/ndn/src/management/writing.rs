//! Datasets about prefixes, of which there may be millions, are written incrementally.
//!
//! An Interest begins one and writes as many prefixes as one turn allows
//! ([`RibLimits::turn`](super::RibLimits)). If there are more, the driver's next turns continue,
//! and clients wait for the end: only then is the number of the last segment known. NFD sends the
//! first segments without it, but ndnd's client gives up unless the first segment has it.
//!
//! # What is in a dataset that has taken several turns
//! Each prefix as it was when it was written. A
//! prefix that exists from beginning to end is in it once, in order; others may be. Clients that
//! ask while it is being written get it, whatever has changed since it was begun; later clients get
//! it only if nothing has changed.

use plexus_wire::Time;
use plexus_wire::ndn::nfd::{FibEntry, NextHopRecord, Record, RibEntry, Route};
use plexus_wire::ndn::{Name, NameBuf};

use super::Management;
use super::command::Dataset;
use super::dataset::segment;

/// Most names that may wait for a dataset.
const AWAITED_MAX: usize = 64;
/// A turn ends after this many bytes: names may be long, and a name may have many routes.
const TURN_BYTES: usize = 64 << 10;

/// A dataset that is still being written.
pub(super) struct Writing {
    pub(super) dataset: Dataset,
    pub(super) content: Vec<u8>,
    /// The bytes of the next prefix to write.
    next: Vec<u8>,
    /// The number of changes when it was begun.
    changes: u64,
    /// The time when it was begun.
    unix_ms: u64,
    /// The names under which clients wait for it.
    awaited: Vec<NameBuf>,
}

impl Writing {
    pub(super) fn new(dataset: Dataset, changes: u64, unix_ms: u64) -> Writing {
        let (content, next, awaited) = (Vec::new(), Vec::new(), Vec::new());
        Writing { dataset, content, next, changes, unix_ms, awaited }
    }

    /// Registers a waiting name; false if too many wait.
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
    /// Writes one turn's part of a dataset; true if there is more.
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

    /// Continues a dataset that takes several turns; once complete, answers the clients that wait
    /// for it. Call it once per driver turn, like [`tick`](Self::tick).
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
