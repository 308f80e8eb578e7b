//! Signed commands are carried out once.
//!
//! A command says when it was made, and that has to be about now (NFD: two minutes either way). So
//! it is enough to remember who signed what within that time: what was signed, by its hash, since
//! ECDSA lets anyone write the same signature in another way. Commands may overtake each other.
//! When there are too many to remember, the oldest are forgotten, and what is not newer than these
//! is refused. Who counts (SigSeqNum) has to count up, with or without a time.

use std::collections::{BTreeMap, BTreeSet};

use plexus_wire::ndn::name::DIGEST_LEN;

use super::verify::Maker;
use crate::face::FaceId;

/// How far a command's time may be from now, in milliseconds (ndn-cxx,
/// `ValidationPolicyCommandInterest`: `gracePeriod`).
pub(super) const GRACE_MS: u64 = 120_000;

/// Who signed: a key; or who has none, by the face that it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Signer {
    Key([u8; 32]),
    Face(FaceId),
}

#[derive(Default)]
struct Record {
    /// What came, by its time.
    seen: BTreeSet<(u64, [u8; DIGEST_LEN])>,
    /// Nothing of this time or before is accepted.
    floor_ms: Option<u64>,
    /// The last number.
    seq_num: Option<u64>,
    /// When it was used last, by a count of uses.
    used: u64,
}

/// Why a command is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It came before.
    Replayed,
    /// Its time is not about now, or it says neither time nor number.
    Stale,
}

/// What is remembered.
pub(super) struct Replay {
    signers: BTreeMap<Signer, Record>,
    signers_max: usize,
    commands_max: usize,
    uses: u64,
}

impl Replay {
    pub(super) fn new(signers_max: usize, commands_max: usize) -> Replay {
        Replay { signers: BTreeMap::new(), signers_max, commands_max, uses: 0 }
    }

    /// The face has gone, and with it who is known by it.
    pub(super) fn forget(&mut self, face: FaceId) {
        self.signers.remove(&Signer::Face(face));
    }

    /// Only the keys of these digests count from now on.
    pub(super) fn trust(&mut self, trusted: &BTreeSet<[u8; 32]>) {
        self.signers.retain(|signer, _| match signer {
            Signer::Key(key) => trusted.contains(key),
            Signer::Face(_) => true,
        });
    }

    /// Takes a command down whose signature is right. `signed` is the hash of what was signed.
    pub(super) fn check(
        &mut self,
        unix_ms: u64,
        maker: Maker,
        from: FaceId,
        (time_ms, seq_num): (Option<u64>, Option<u64>),
        signed: [u8; DIGEST_LEN],
    ) -> Result<(), Fault> {
        if time_ms.map_or(seq_num.is_none(), |time| time.abs_diff(unix_ms) > GRACE_MS) {
            return Err(Fault::Stale);
        }
        let signer = match maker {
            Maker::Key(key) => Signer::Key(key),
            Maker::Anyone => Signer::Face(from),
        };
        self.make_room(signer);
        self.uses += 1;
        let record = self.signers.entry(signer).or_default();
        record.used = self.uses;
        if seq_num.is_some_and(|new| record.seq_num.is_some_and(|last| new <= last)) {
            return Err(Fault::Replayed);
        }
        if let Some(time) = time_ms {
            if record.floor_ms.is_some_and(|floor| time <= floor) {
                return Err(Fault::Replayed);
            }
            if !record.seen.insert((time, signed)) {
                return Err(Fault::Replayed);
            }
            record.trim(unix_ms, self.commands_max);
        }
        record.seq_num = seq_num.or(record.seq_num);
        Ok(())
    }

    /// Forgets the face that has not commanded for longest. Keys are as many as are configured, and
    /// are not forgotten.
    fn make_room(&mut self, signer: Signer) {
        if self.signers.contains_key(&signer) || self.signers.len() < self.signers_max {
            return;
        }
        let faces = self.signers.iter().filter(|(s, _)| matches!(s, Signer::Face(_)));
        if let Some(oldest) = faces.min_by_key(|(_, record)| record.used).map(|(s, _)| *s) {
            self.signers.remove(&oldest);
        }
    }
}

impl Record {
    fn trim(&mut self, unix_ms: u64, max: usize) {
        while let Some(&(time, _)) = self.seen.first() {
            let is_past = time.saturating_add(GRACE_MS) < unix_ms;
            if !is_past && self.seen.len() <= max {
                break;
            }
            self.seen.pop_first();
            self.floor_ms = self.floor_ms.max(Some(time));
        }
    }
}
