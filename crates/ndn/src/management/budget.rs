//! How many signatures of neighbours are verified.
//!
//! Verifying takes far longer than making up what is to be verified (0.2 ms with P-256, up to
//! 0.9 ms with RSA), in the thread that also forwards. So a face has a bucket of verifications. Who
//! makes faces at will, as by datagrams of made-up senders, has as many buckets; so faces of which
//! no trusted key's command has come yet share one besides. Who is known by such a command does not
//! notice what strangers do.

use std::collections::BTreeMap;
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
    /// Of a face: a neighbour that has come up registers all its prefixes in a row, and then the
    /// one or other.
    pub const FACE: VerificationRate =
        VerificationRate { burst: 32, every: Duration::from_millis(50) };
    /// Of all faces together of which no trusted key's command has come: several neighbours that
    /// come up at once. With P-256 that is 28 ms at once and then a fiftieth of a processor.
    pub const STRANGERS: VerificationRate =
        VerificationRate { burst: 128, every: Duration::from_millis(10) };
}

/// A bucket: when it will be full again.
#[derive(Clone, Copy, Default)]
struct Bucket(Time);

impl Bucket {
    /// What it comes to if one is taken; `None` if none is left.
    fn without_one(self, now: Time, rate: VerificationRate) -> Option<Bucket> {
        let full = self.0.max(now) + rate.every;
        (full.since(now) <= rate.every * rate.burst).then_some(Bucket(full))
    }
}

#[derive(Default)]
struct Spent {
    own: Bucket,
    is_known: bool,
}

/// What faces may still cost.
#[derive(Default)]
pub(super) struct Budget {
    faces: BTreeMap<FaceId, Spent>,
    strangers: Bucket,
}

impl Budget {
    /// Takes a verification for a face; false if there is none left.
    fn take(&mut self, now: Time, face: FaceId) -> bool {
        let spent = self.faces.entry(face).or_default();
        let own = spent.own.without_one(now, VerificationRate::FACE);
        let Some(own) = own else { return false };
        if !spent.is_known {
            let strangers = self.strangers.without_one(now, VerificationRate::STRANGERS);
            let Some(strangers) = strangers else { return false };
            self.strangers = strangers;
        }
        spent.own = own;
        true
    }

    /// A trusted key's command has come by the face, and not before.
    pub(super) fn know(&mut self, face: FaceId) {
        self.faces.entry(face).or_default().is_known = true;
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
}

impl Leave<'_> {
    /// Takes one verification; false if that is too many.
    pub(super) fn take(&mut self) -> bool {
        let Leave { budget, now, face } = self;
        budget.as_mut().is_none_or(|budget| budget.take(*now, *face))
    }
}
