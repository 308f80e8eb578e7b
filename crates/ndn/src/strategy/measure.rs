//! Measurements per prefix and face: round-trip times, timeouts, next probe. The memory is bounded
//! ([`Recent`]): the least recently used are evicted.

use std::time::Duration;

use plexus_wire::Time;

use crate::face::FaceId;
use crate::recent::Recent;
use crate::rtt::Rtt;

/// How long an unused prefix is remembered.
const NAMESPACE_LIFETIME: Duration = Duration::from_secs(300);

/// A prefix.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Namespace {
    /// When the next probe is due; `None` before the first Interest.
    pub(super) probe_at: Option<Time>,
    /// Interests so far.
    pub(super) turns: u64,
}

/// How well a face serves a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Health {
    /// It answers, in this smoothed time.
    Works(Duration),
    /// Nothing is known.
    Unknown,
    /// It did not answer, or sent a Nack.
    Fails,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FaceInfo {
    rtt: Rtt,
    fails: bool,
    timeouts: u32,
    /// When the pending answer times out.
    timeout_at: Option<Time>,
}

impl FaceInfo {
    /// Records a timeout that has passed. It suffices to do that when the measurement is next read.
    fn note_timeout(&mut self, now: Time, max_timeouts: u32) {
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.timeout_at = None;
            self.missed(max_timeouts);
        }
    }

    fn missed(&mut self, max_timeouts: u32) {
        self.timeouts += 1;
        if self.timeouts >= max_timeouts {
            (self.fails, self.timeouts) = (true, 0);
        }
    }

    fn answered(&mut self, rtt: Duration) {
        self.rtt.sample(rtt, 1);
        (self.fails, self.timeouts, self.timeout_at) = (false, 0, None);
    }
}

pub(crate) struct Measurements {
    namespaces: Recent<Namespace>,
    faces: Recent<FaceInfo>,
}

fn of(key: u64, face: FaceId) -> u64 {
    (key ^ face.number()).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Measurements {
    /// For about `capacity` prefixes, and as many pairs of prefix and face.
    pub(crate) fn new(capacity: usize) -> Measurements {
        Measurements { namespaces: Recent::new(capacity), faces: Recent::new(capacity) }
    }

    pub(super) fn namespace(&mut self, key: u64, now: Time) -> &mut Namespace {
        self.namespaces.get_or_insert(key, now, now + NAMESPACE_LIFETIME, Namespace::default)
    }

    pub(super) fn health(&self, key: u64, face: FaceId, now: Time, max_timeouts: u32) -> Health {
        let Some(mut info) = self.faces.peek(of(key, face), now).copied() else {
            return Health::Unknown;
        };
        info.note_timeout(now, max_timeouts);
        match (info.fails, info.rtt.smoothed()) {
            (true, _) => Health::Fails,
            (_, Some(srtt)) => Health::Works(srtt),
            _ => Health::Unknown,
        }
    }

    /// An Interest was sent to the face, which should answer in time.
    pub(super) fn asked(
        &mut self,
        key: u64,
        face: FaceId,
        now: Time,
        max_timeouts: u32,
        lifetime: Duration,
    ) {
        let make = FaceInfo::default;
        let info = self.faces.get_or_insert(of(key, face), now, now + lifetime, make);
        info.note_timeout(now, max_timeouts);
        info.timeout_at = info.timeout_at.or(Some(now + info.rtt.timeout()));
    }

    /// The face has answered; true if it had a measurement.
    pub(crate) fn answered(
        &mut self,
        key: u64,
        face: FaceId,
        now: Time,
        rtt: Duration,
        lifetime: Duration,
    ) -> bool {
        let info = self.faces.get(of(key, face), now, now + lifetime);
        info.map(|info| info.answered(rtt)).is_some()
    }

    /// The face has sent a Nack.
    pub(crate) fn nacked(&mut self, key: u64, face: FaceId, now: Time, lifetime: Duration) {
        if let Some(info) = self.faces.get(of(key, face), now, now + lifetime) {
            info.missed(1);
        }
    }
}
