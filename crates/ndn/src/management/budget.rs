//! Limits how many of neighbours' signatures are verified.
//!
//! Verifying takes far longer than forging a signature (0.2 ms with P-256, up to 0.9 ms with RSA),
//! and it runs in the thread that also forwards. So each face has a token bucket of verifications:
//! a small one at first, a large one once a trusted key's command has arrived on it. An attacker
//! that can create faces at will, as by datagrams with forged sources, gets as many small buckets;
//! so all small buckets also share one.
//!
//! A known neighbour is not affected by strangers, unless they can forge its address on the link. A
//! newcomer is affected by a hundred strangers that all forge without pause: its commands are then
//! answered 503 and have to be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plexus_wire::Time;

use crate::face::FaceId;

/// A burst of verifications, and then one per `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationRate {
    /// Size of the burst.
    pub burst: u32,
    /// Time between two, from then on.
    pub every: Duration,
}

impl VerificationRate {
    /// For a face on which no trusted key's command has arrived: one valid command is enough.
    pub const STRANGER: VerificationRate =
        VerificationRate { burst: 4, every: Duration::from_secs(1) };
    /// For a face on which one has: a neighbour that comes up registers all its prefixes in a row,
    /// and later a few more.
    pub const KNOWN: VerificationRate =
        VerificationRate { burst: 256, every: Duration::from_millis(10) };
    /// For all strangers together: several neighbours that come up at once. With P-256 that is 28
    /// ms at once and then a fiftieth of a processor; with RSA, the slowest, four times that.
    pub const STRANGERS: VerificationRate =
        VerificationRate { burst: 128, every: Duration::from_millis(10) };
}

/// A bucket: the time at which it will be full again.
#[derive(Clone, Copy, Default)]
struct Bucket(Time);

impl Bucket {
    /// The bucket after one is taken; `None` if fewer than `spare` would be left (or than the
    /// burst, if that is smaller).
    fn without_one(self, now: Time, rate: VerificationRate, spare: usize) -> Option<Bucket> {
        let full = self.0.max(now) + rate.every;
        let spare = u32::try_from(spare).unwrap_or(u32::MAX).min(rate.burst - 1);
        (full.since(now) + rate.every * spare <= rate.every * rate.burst).then_some(Bucket(full))
    }
}

#[derive(Default)]
struct Spent {
    own: Bucket,
    /// The trusted key whose command arrived on the face.
    known_by: Option<[u8; 32]>,
}

/// What verifications faces may still use.
#[derive(Default)]
pub(super) struct Budget {
    faces: BTreeMap<FaceId, Spent>,
    strangers: Bucket,
}

impl Budget {
    /// Takes a verification for a face; false unless `more` remain for the same signature and, on a
    /// known face, `spare` besides. A stranger needs no reserve: a valid command makes it known.
    fn take(&mut self, now: Time, face: FaceId, more: usize, spare: usize) -> bool {
        let spent = self.faces.entry(face).or_default();
        let is_stranger = spent.known_by.is_none();
        let rate = if is_stranger { VerificationRate::STRANGER } else { VerificationRate::KNOWN };
        let spare = if is_stranger { more } else { more + spare };
        let Some(own) = spent.own.without_one(now, rate, spare) else { return false };
        if is_stranger {
            let strangers = self.strangers.without_one(now, VerificationRate::STRANGERS, more);
            let Some(strangers) = strangers else { return false };
            self.strangers = strangers;
        }
        spent.own = own;
        true
    }

    /// A command of a trusted key, given by its digest, arrived on the face for the first time.
    pub(super) fn know(&mut self, face: FaceId, key: [u8; 32]) {
        let spent = self.faces.entry(face).or_default();
        if spent.known_by.replace(key).is_none() {
            spent.own = Bucket::default();
        }
    }

    /// Only keys with these digests are trusted from now on.
    pub(super) fn trust(&mut self, trusted: &BTreeSet<[u8; 32]>) {
        for spent in self.faces.values_mut() {
            if spent.known_by.is_some_and(|key| !trusted.contains(&key)) {
                *spent = Spent::default();
            }
        }
    }

    /// The face was removed.
    pub(super) fn forget(&mut self, face: FaceId) {
        self.faces.remove(&face);
    }
}

/// Permission to verify, for commands that arrived on one face.
pub(super) struct Leave<'a> {
    /// `None`: unlimited.
    pub(super) budget: Option<&'a mut Budget>,
    pub(super) now: Time,
    pub(super) face: FaceId,
    /// Verifications to keep in reserve for later steps.
    pub(super) spare: usize,
}

impl Leave<'_> {
    /// Takes one verification, for a signature that may need `more`; false if the limit is reached.
    pub(super) fn take(&mut self, more: usize) -> bool {
        let Leave { budget, now, face, spare } = self;
        budget.as_mut().is_none_or(|budget| budget.take(*now, *face, more, *spare))
    }
}
