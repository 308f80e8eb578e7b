//! Snapshots of datasets, for clients that fetch their segments.

use std::collections::VecDeque;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::ndn::{Name, types};

use super::command::{Dataset, PARAMETERS_AT};
use super::reply::FRESHNESS_MS;

/// The parsed name of an Interest for a dataset.
pub(super) struct Wanted<'a> {
    pub(super) dataset: Dataset,
    /// The filter; empty for everything.
    pub(super) filter: &'a [u8],
    /// Components before the version.
    pub(super) len: usize,
    pub(super) version: Option<u64>,
    pub(super) segment: Option<u64>,
}

impl<'a> Wanted<'a> {
    /// `None` if the name has an unexpected component.
    pub(super) fn new(dataset: Dataset, name: Name<'a>) -> Option<Wanted<'a>> {
        let mut rest = name.components().skip(PARAMETERS_AT).peekable();
        let mut len = PARAMETERS_AT;
        let mut take = |kind: u32| {
            let found = rest.next_if(|c| u32::from(c.kind) == kind);
            len += usize::from(found.is_some());
            found
        };
        let filter = match dataset {
            Dataset::FaceQuery => take(types::GENERIC_COMPONENT)?.value,
            _ => &[],
        };
        take(types::PARAMETERS_SHA256_DIGEST);
        let version = rest.next().map(|c| c.number(types::VERSION).ok_or(())).transpose().ok()?;
        let segment = rest.next().map(|c| c.number(types::SEGMENT).ok_or(())).transpose().ok()?;
        let ends = rest.next().is_none();
        ends.then_some(Wanted { dataset, filter, len, version, segment })
    }
}

/// How long a client may take from one segment to the next: the usual lifetime of an Interest.
const FETCHING: Duration = Duration::from_secs(4);
/// Snapshots not requested within this are evicted first.
const IDLE: Duration = Duration::from_secs(60);

/// A dataset at one point in time.
pub(super) struct Snapshot {
    dataset: Dataset,
    filter: Vec<u8>,
    pub(super) version: u64,
    made: Time,
    /// When it was last requested.
    asked: Time,
    changes: u64,
    pub(super) content: Vec<u8>,
}

/// The snapshots available to clients.
pub(super) struct Snapshots {
    kept: VecDeque<Snapshot>,
    count_max: usize,
    bytes_max: usize,
    bytes: usize,
    last_version: u64,
}

impl Snapshots {
    pub(super) fn new(count_max: usize, bytes_max: usize) -> Snapshots {
        Snapshots { kept: VecDeque::new(), count_max, bytes_max, bytes: 0, last_version: 0 }
    }

    /// The newest snapshot, if it is still valid.
    pub(super) fn recent(
        &mut self,
        asked: &Wanted<'_>,
        now: Time,
        changes: u64,
    ) -> Option<&Snapshot> {
        let mut newest = self.kept.iter_mut().rev();
        let found = newest.find(|s| s.is(asked))?;
        let is_recent = now.since(found.made) < Duration::from_millis(FRESHNESS_MS);
        if !is_recent || found.changes != changes {
            return None;
        }
        found.asked = now;
        Some(found)
    }

    pub(super) fn version(
        &mut self,
        asked: &Wanted<'_>,
        version: u64,
        now: Time,
    ) -> Option<&Snapshot> {
        let found = self.kept.iter_mut().find(|s| s.version == version && s.is(asked))?;
        found.asked = now;
        Some(found)
    }

    /// Stores a snapshot, taken at this number of changes. Its version is unique: microseconds
    /// since 1970.
    pub(super) fn keep(
        &mut self,
        (dataset, filter): (Dataset, &[u8]),
        (now, unix_ms): (Time, u64),
        changes: u64,
        mut content: Vec<u8>,
    ) -> &Snapshot {
        self.last_version = unix_ms.saturating_mul(1000).max(self.last_version.saturating_add(1));
        content.shrink_to_fit();
        self.bytes += content.len() + filter.len();
        self.kept.push_back(Snapshot {
            dataset,
            filter: filter.to_vec(),
            version: self.last_version,
            made: now,
            asked: now,
            changes,
            content,
        });
        self.evict(now);
        self.kept.back().expect("the newest stays")
    }

    /// Evicts snapshots that exceed the limits.
    pub(super) fn evict(&mut self, now: Time) {
        while (self.kept.len() > self.count_max || self.bytes > self.bytes_max)
            && let Some(spare) = (0..self.kept.len()).find(|at| self.is_spare(*at, now))
        {
            let old = self.kept.remove(spare);
            self.bytes -= old.map_or(0, |s| s.content.len() + s.filter.len());
        }
    }

    /// Whether it may be evicted. The newest snapshot of each dataset stays whatever its size, and
    /// so does the one before it while a client fetches it: otherwise no long dataset could be read
    /// while others ask for it.
    fn is_spare(&self, at: usize, now: Time) -> bool {
        let newest = |at: usize| {
            let of = self.kept[at].dataset;
            self.kept.iter().skip(at + 1).all(|s| s.dataset != of)
        };
        let this = &self.kept[at];
        let is_fetched = now.since(this.asked) < FETCHING;
        let is_later = |other: &usize| {
            let s = &self.kept[*other];
            s.dataset == this.dataset && (s.asked, s.version) > (this.asked, this.version)
        };
        let is_another_fetched = || (0..self.kept.len()).filter(is_later).any(|s| !newest(s));
        now.since(this.asked) >= IDLE || !newest(at) && (!is_fetched || is_another_fetched())
    }
}

impl Snapshot {
    fn is(&self, asked: &Wanted<'_>) -> bool {
        self.dataset == asked.dataset && self.filter == asked.filter
    }
}
