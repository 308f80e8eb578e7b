//! Signed commands are carried out once.
//!
//! A command says when it was made, and that has to be about now (NFD: two minutes either way). So
//! it is enough to remember who signed what within that time: what was signed, by its hash, since
//! ECDSA lets anyone write the same signature in another way. Commands may overtake each other.
//! When there are too many to remember, the oldest are forgotten, and what is not newer than these
//! is refused. Who counts (SigSeqNum) has to count up, with or without a time.
//!
//! What a key has commanded is remembered when it is trusted no more: it may come back within these
//! two minutes, and one that counts whenever. Of such keys, too, those that commanded last are
//! remembered, and of a key that is not known what is not newer than the rest is refused; and what
//! says no time, if its number is not higher than all of theirs.
//!
//! Where anyone may command, who has no key here is told by the face. If the key comes within two
//! minutes, what it has signed may be brought as its own once more, as may what it has signed for
//! other nodes: a command does not say for which node it is.

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

/// What is refused, whether it is known or not.
#[derive(Clone, Copy, Default)]
struct Floor {
    /// What is of this time or before.
    time_ms: Option<u64>,
    /// What says no time, and this number or a lower one.
    seq_num: Option<u64>,
}

#[derive(Default)]
struct Record {
    /// What came, by its time.
    seen: BTreeSet<(u64, [u8; DIGEST_LEN])>,
    floor: Floor,
    /// The last number.
    seq_num: Option<u64>,
    /// When it was used last, by a count of uses.
    used: u64,
    /// Of a key that is trusted no more.
    is_gone: bool,
}

/// What is known of a command.
pub(super) struct Command {
    pub(super) maker: Maker,
    pub(super) from: FaceId,
    pub(super) time_ms: Option<u64>,
    pub(super) seq_num: Option<u64>,
    /// The hash of what was signed.
    pub(super) signed: [u8; DIGEST_LEN],
}

impl Command {
    fn signer(&self) -> Signer {
        match self.maker {
            Maker::Key(key) => Signer::Key(key),
            Maker::Anyone => Signer::Face(self.from),
        }
    }
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
    /// Below it are all commands of keys that were forgotten.
    forgotten: Floor,
}

impl Replay {
    pub(super) fn new(signers_max: usize, commands_max: usize) -> Replay {
        let signers = BTreeMap::new();
        Replay { signers, signers_max, commands_max, uses: 0, forgotten: Floor::default() }
    }

    /// The face has gone, and with it who is known by it.
    pub(super) fn forget(&mut self, face: FaceId) {
        self.signers.remove(&Signer::Face(face));
    }

    /// The keys of these digests are trusted from now on.
    pub(super) fn trust(&mut self, trusted: &BTreeSet<[u8; 32]>) {
        for (signer, record) in &mut self.signers {
            record.is_gone = matches!(signer, Signer::Key(key) if !trusted.contains(key));
        }
        while let Some(oldest) = self.oldest_beyond(|_, record| record.is_gone, self.signers_max) {
            let last = self.signers.remove(&oldest).map_or(Floor::default(), |r| r.newest());
            let Floor { time_ms, seq_num } = &mut self.forgotten;
            *time_ms = last.time_ms.max(*time_ms);
            *seq_num = last.seq_num.max(*seq_num);
        }
    }

    /// Whether a command may be taken down whose signature is right.
    pub(super) fn check(&self, unix_ms: u64, command: &Command) -> Result<(), Fault> {
        let Command { time_ms, seq_num, signed, .. } = *command;
        if time_ms.map_or(seq_num.is_none(), |time| time.abs_diff(unix_ms) > GRACE_MS) {
            return Err(Fault::Stale);
        }
        let signer = command.signer();
        let known = self.signers.get(&signer);
        let floor = known.map_or(self.floor_of_new(signer), |record| record.floor);
        let last = known.and_then(|record| record.seq_num);
        let is_past = match time_ms {
            Some(time) => {
                let is_seen = known.is_some_and(|record| record.seen.contains(&(time, signed)));
                is_seen || time_ms <= floor.time_ms
            }
            None => seq_num <= floor.seq_num,
        };
        match is_past || seq_num.is_some() && seq_num <= last {
            true => Err(Fault::Replayed),
            false => Ok(()),
        }
    }

    /// Takes down what was [checked](Self::check): it does not come a second time.
    pub(super) fn take_down(&mut self, unix_ms: u64, command: &Command) {
        let signer = command.signer();
        self.make_room(signer);
        self.uses += 1;
        let floor = self.floor_of_new(signer);
        let new = || Record { floor, ..Record::default() };
        let record = self.signers.entry(signer).or_insert_with(new);
        record.used = self.uses;
        if let Some(time) = command.time_ms {
            record.seen.insert((time, command.signed));
            record.trim(unix_ms, self.commands_max);
        }
        record.seq_num = command.seq_num.or(record.seq_num);
    }

    /// Of who is not known.
    fn floor_of_new(&self, signer: Signer) -> Floor {
        match signer {
            Signer::Key(_) => self.forgotten,
            Signer::Face(_) => Floor::default(),
        }
    }

    /// Forgets the face that has not commanded for longest, if a new one finds no room. Trusted
    /// keys are as many as are configured, and are not forgotten.
    fn make_room(&mut self, signer: Signer) {
        if self.signers.contains_key(&signer) || matches!(signer, Signer::Key(_)) {
            return;
        }
        let is_face = |signer: &Signer, _: &Record| matches!(signer, Signer::Face(_));
        let most = self.signers_max.saturating_sub(1);
        if let Some(oldest) = self.oldest_beyond(is_face, most) {
            self.signers.remove(&oldest);
        }
    }

    /// Of more than `most` of a kind, the one that has not commanded for longest.
    fn oldest_beyond(
        &self,
        is_one: impl Fn(&Signer, &Record) -> bool,
        most: usize,
    ) -> Option<Signer> {
        let all = || self.signers.iter().filter(|(signer, record)| is_one(signer, record));
        let oldest = all().min_by_key(|(_, record)| record.used).map(|(signer, _)| *signer);
        oldest.filter(|_| all().count() > most)
    }
}

impl Record {
    /// Nothing that it has accepted is above.
    fn newest(&self) -> Floor {
        let time_ms = self.seen.last().map(|(time, _)| *time);
        Floor {
            time_ms: time_ms.max(self.floor.time_ms),
            seq_num: self.seq_num.max(self.floor.seq_num),
        }
    }

    fn trim(&mut self, unix_ms: u64, max: usize) {
        while let Some(&(time, _)) = self.seen.first() {
            let is_past = time.saturating_add(GRACE_MS) < unix_ms;
            if !is_past && self.seen.len() <= max {
                break;
            }
            self.seen.pop_first();
            self.floor.time_ms = self.floor.time_ms.max(Some(time));
        }
    }
}
