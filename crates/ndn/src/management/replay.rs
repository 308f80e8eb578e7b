//! Replay protection: signed commands are carried out once.
//!
//! A command carries its time, which has to be close to now (NFD: within two minutes). So it is
//! enough to remember which key signed which command within that time, by the hash of the signed
//! bytes, because ECDSA allows anyone to write the same signature in another way. Commands may be
//! reordered. When too many have to be remembered, the oldest are forgotten, and anything not newer
//! than these is refused. A signer that uses SigSeqNum has to count up, with or without a time.
//!
//! A key's commands are remembered even when it loses trust: it may come back within these two
//! minutes, or at any time if it counts. Of such keys only those that commanded last are
//! remembered. For an unknown key, a command not newer than the forgotten ones is refused, and so
//! is one without a time unless its number is higher than all of theirs.
//!
//! Where anyone may command, a signer whose key is unknown here is identified by its face. If its
//! key is added within two minutes, its commands may be replayed once more, as may those that it
//! signed for other nodes: a command does not say for which node it is.

use std::collections::{BTreeMap, BTreeSet};

use plexus_wire::ndn::name::DIGEST_LEN;

use super::verify::Maker;
use crate::face::FaceId;

/// Largest difference of a command's time from now, in milliseconds (ndn-cxx,
/// `ValidationPolicyCommandInterest`: `gracePeriod`).
pub(super) const GRACE_MS: u64 = 120_000;

/// The signer: a key; or, for an unknown key, the face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Signer {
    Key([u8; 32]),
    Face(FaceId),
}

/// Lower bound: everything at or below is refused, even if it was never seen.
#[derive(Clone, Copy, Default)]
struct Floor {
    /// Commands of this time or earlier.
    time_ms: Option<u64>,
    /// Commands without a time, with this number or a lower one.
    seq_num: Option<u64>,
}

#[derive(Default)]
struct Record {
    /// Received commands, by time.
    seen: BTreeSet<(u64, [u8; DIGEST_LEN])>,
    floor: Floor,
    /// The last number.
    seq_num: Option<u64>,
    /// When the signer last commanded, by a count of uses.
    used: u64,
    /// The key is no longer trusted.
    is_gone: bool,
}

/// The properties of a command that matter here.
pub(super) struct Command {
    pub(super) maker: Maker,
    pub(super) from: FaceId,
    pub(super) time_ms: Option<u64>,
    pub(super) seq_num: Option<u64>,
    /// The hash of the signed bytes.
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

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It was received before.
    Replayed,
    /// Its time is too far from now, or it has neither time nor number.
    Stale,
}

/// The remembered commands.
pub(super) struct Replay {
    signers: BTreeMap<Signer, Record>,
    signers_max: usize,
    commands_max: usize,
    uses: u64,
    /// No command of a forgotten key is above it.
    forgotten: Floor,
}

impl Replay {
    pub(super) fn new(signers_max: usize, commands_max: usize) -> Replay {
        let signers = BTreeMap::new();
        Replay { signers, signers_max, commands_max, uses: 0, forgotten: Floor::default() }
    }

    /// The face was removed; signers identified by it are forgotten.
    pub(super) fn forget(&mut self, face: FaceId) {
        self.signers.remove(&Signer::Face(face));
    }

    /// The keys with these digests are trusted from now on.
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

    /// Whether to accept a command whose signature is valid.
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

    /// Records a command that passed [`check`](Self::check), so that it is not accepted again.
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

    /// The lower bound for an unknown signer.
    fn floor_of_new(&self, signer: Signer) -> Floor {
        match signer {
            Signer::Key(_) => self.forgotten,
            Signer::Face(_) => Floor::default(),
        }
    }

    /// Forgets the face that has not commanded for longest, if there is no room for a new one.
    /// Trusted keys are bounded by the configuration and never forgotten.
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

    /// If there are more than `most` of a kind, the one that has not commanded for longest.
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
    /// No accepted command is above this.
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
