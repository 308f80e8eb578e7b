//! How many signatures of neighbours are verified.
//!
//! Verifying takes far longer than making up what is to be verified (0.2 ms with P-256, up to
//! 0.9 ms with RSA), in the thread that also forwards. So a face has a bucket of verifications: a
//! small one at first, a large one once a trusted key's command has come by it. Who makes faces at
//! will, as by datagrams of made-up senders, has as many small buckets; so these share one besides.
//!
//! Who is known does not notice what strangers do, as long as they cannot send in the known one's
//! name, as on a link where addresses can be made up. A newcomer does notice a hundred strangers
//! that all forge without pause: then commands are answered 503, and have to be tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plexus_wire::Time;

use crate::face::FaceId;

/// So many verifications at once, and then one each time that `every` has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationRate {
    /// At once.
    pub burst: u32,
    /// Between two, from then on.
    pub every: Duration,
}

impl VerificationRate {
    /// Of a face by which no trusted key's command has come: the first that is right is enough.
    pub const STRANGER: VerificationRate =
        VerificationRate { burst: 4, every: Duration::from_secs(1) };
    /// Of a face by which one has: a neighbour that has come up registers all its prefixes in a
    /// row, and then the one or other.
    pub const KNOWN: VerificationRate =
        VerificationRate { burst: 256, every: Duration::from_millis(10) };
    /// Of all strangers together: several neighbours that come up at once. With P-256 that is 28 ms
    /// at once and then a fiftieth of a processor; with RSA, where it is slowest, four times that.
    pub const STRANGERS: VerificationRate =
        VerificationRate { burst: 128, every: Duration::from_millis(10) };
}

/// A bucket: when it will be full again.
#[derive(Clone, Copy, Default)]
struct Bucket(Time);

impl Bucket {
    /// What it comes to if one is taken; `None` if that does not leave so many, or not all of them
    /// where there can be no more.
    fn without_one(self, now: Time, rate: VerificationRate, spare: usize) -> Option<Bucket> {
        let full = self.0.max(now) + rate.every;
        let spare = u32::try_from(spare).unwrap_or(u32::MAX).min(rate.burst - 1);
        (full.since(now) + rate.every * spare <= rate.every * rate.burst).then_some(Bucket(full))
    }
}

#[derive(Default)]
struct Spent {
    own: Bucket,
    /// The trusted key whose command has come by the face.
    known_by: Option<[u8; 32]>,
}

/// What faces may still cost.
#[derive(Default)]
pub(super) struct Budget {
    faces: BTreeMap<FaceId, Spent>,
    strangers: Bucket,
}

impl Budget {
    /// Takes a verification for a face; false if that does not leave so many more for the same
    /// signature, and besides so many to spare. A stranger whose command is right is none any more,
    /// and has others to spare then.
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

    /// The command of a trusted key, by its digest, has come by the face, and not before.
    pub(super) fn know(&mut self, face: FaceId, key: [u8; 32]) {
        let spent = self.faces.entry(face).or_default();
        if spent.known_by.replace(key).is_none() {
            spent.own = Bucket::default();
        }
    }

    /// Only the keys of these digests are trusted from now on.
    pub(super) fn trust(&mut self, trusted: &BTreeSet<[u8; 32]>) {
        for spent in self.faces.values_mut() {
            if spent.known_by.is_some_and(|key| !trusted.contains(&key)) {
                *spent = Spent::default();
            }
        }
    }

    /// The face has gone.
    pub(super) fn forget(&mut self, face: FaceId) {
        self.faces.remove(&face);
    }
}

/// The leave to verify that who asked by a face has.
pub(super) struct Leave<'a> {
    /// `None`: as often as they like.
    pub(super) budget: Option<&'a mut Budget>,
    pub(super) now: Time,
    pub(super) face: FaceId,
    /// Verifications that have to be left for what comes after.
    pub(super) spare: usize,
}

impl Leave<'_> {
    /// Takes one verification, of a signature that may take so many `more`; false if too many.
    pub(super) fn take(&mut self, more: usize) -> bool {
        let Leave { budget, now, face, spare } = self;
        budget.as_mut().is_none_or(|budget| budget.take(*now, *face, more, *spare))
    }
}
