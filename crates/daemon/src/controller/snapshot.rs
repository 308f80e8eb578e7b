//! Copies of a controller's store: a file of leases that people can read, and the way back.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use plexus_api::answer::fabric::{Lease as Shown, Leases};
use plexus_controller::tenure::{Answer, Ask};
use plexus_controller::{Change, Lease, Record};
use plexus_io::clock::unix_ms;
use plexus_keeper::Keeper;
use plexus_wire::{Time, hex};
use serde::{Deserialize, Serialize};

use super::{leading, make_folder, read};
use crate::identity;

/// The form of the file.
const FORMAT: u32 = 1;
/// How long a restored store may take for one step.
const LIMIT: Duration = Duration::from_secs(10);
/// How long the store is held at most.
const LEASE: Duration = Duration::from_secs(60);

/// A copy of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    format: u32,
    /// The group's number.
    group: String,
    /// The controller that led, and its epoch.
    controller: String,
    epoch: u64,
    /// When it was made, in seconds since 1970.
    taken_unix_s: u64,
    leases: Vec<Shown>,
}

/// What a restored store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Leases that it had.
    pub before: usize,
    /// Leases that it has now.
    pub leases: usize,
    /// Whether nodes refuse its epochs until they are restarted.
    pub is_behind: bool,
}

impl Snapshot {
    /// A copy of what a leader has told.
    pub fn of(leases: Leases) -> Snapshot {
        let Leases { controller, epoch, group, leases } = leases;
        let taken_unix_s = unix_ms() / 1000;
        Snapshot { format: FORMAT, group, controller, epoch, taken_unix_s, leases }
    }

    /// How many leases it has.
    pub fn count(&self) -> usize {
        self.leases.len()
    }

    /// The text of its file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Reads one.
    ///
    /// # Errors
    /// In words, when it cannot be read or is none.
    pub fn read(path: &Path) -> Result<Snapshot, String> {
        let file = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| format!("reading {file}: {e}"))?;
        let snapshot: Snapshot =
            serde_json::from_str(&text).map_err(|e| format!("{file} is no snapshot: {e}"))?;
        if snapshot.format != FORMAT {
            let found = snapshot.format;
            return Err(format!("{file} is of format {found}, this program reads {FORMAT}"));
        }
        let mut seen = BTreeSet::new();
        match snapshot.leases.iter().find(|lease| !seen.insert(lease.address)) {
            Some(twice) => Err(format!("{file} has {} twice", twice.address)),
            None => Ok(snapshot),
        }
    }
}

/// Writes a snapshot's leases into the store of a controller's file, in place of its own.
///
/// # Errors
/// In words: files that cannot be read, another group, a store that is in use, has leases of its
/// own (unless they are to be replaced), or cannot be written.
pub fn restore(config: &Path, from: &Path, replace: bool) -> Result<Restored, String> {
    let snapshot = Snapshot::read(from)?;
    let file = read(config)?;
    let identity = identity::read(&file.identity, plexus_control::identity::Role::Controller)?;
    let group = identity.claims().group;
    if hex(&group) != snapshot.group {
        let text =
            "is of another group: a controller of this one would promise what is not its own";
        return Err(format!("{} {text}", from.display()));
    }
    make_folder(&file.state)?;
    let mut store = Held::open(leading::keeper(&file, &group, || {})?, snapshot.epoch)?;
    let before = std::mem::take(&mut store.stored);
    if !before.is_empty() && !replace {
        let text = "has leases of its own: add --replace to replace them";
        return Err(format!("{} {text} ({} of them)", store.keeper.describe(), before.len()));
    }
    let mut changes: BTreeMap<Ipv4Addr, Change> =
        before.iter().map(|Record::Lease(old)| (old.ip, Change::RemoveLease(old.ip))).collect();
    for Shown { address: ip, mac, until_unix_s } in snapshot.leases {
        let lease = Lease { ip, mac, until_unix_s };
        changes.insert(ip, Change::Put(Record::Lease(lease)));
    }
    let leases = changes.values().filter(|change| matches!(change, Change::Put(_))).count();
    store.write(changes.into_values().collect())?;
    let is_behind = store.epoch <= snapshot.epoch;
    store.keeper.ask(Ask::Release { lease: store.lease });
    Ok(Restored { before: before.len(), leases, is_behind })
}

/// A store that nobody else leads meanwhile.
struct Held {
    keeper: Box<dyn Keeper>,
    lease: u64,
    epoch: u64,
    stored: Vec<Record>,
}

impl Held {
    /// Becomes the leader of a store that has none, with a higher epoch than `above` if the store
    /// can be told.
    fn open(mut keeper: Box<dyn Keeper>, above: u64) -> Result<Held, String> {
        keeper.raise_epoch(above)?;
        wait(&mut *keeper, |answer| match answer {
            Answer::Leader(None) => Some(Ok(())),
            Answer::Leader(Some(leader)) => {
                let text = "leads: stop all controllers of the group, or wait until its lease ends";
                Some(Err(format!("{} {text}", leader.name)))
            }
            _ => None,
        })?;
        keeper.ask(Ask::Lease { time: LEASE, asked: Time::ZERO });
        let lease = wait(&mut *keeper, |answer| match answer {
            Answer::Leased { lease, .. } => Some(Ok(lease)),
            _ => None,
        })?;
        keeper.ask(Ask::Campaign { lease, instead_of: 0 });
        let (epoch, stored) = wait(&mut *keeper, |answer| match answer {
            Answer::Won { epoch, stored, .. } => Some(Ok((epoch, stored))),
            Answer::Beaten => Some(Err("a controller has just begun to lead: stop it".into())),
            _ => None,
        })?;
        Ok(Held { keeper, lease, epoch, stored })
    }

    fn write(&mut self, changes: Vec<Change>) -> Result<(), String> {
        if changes.is_empty() {
            return Ok(());
        }
        self.keeper.ask(Ask::Write { epoch: self.epoch, ticket: 1, changes });
        wait(&mut *self.keeper, |answer| match answer {
            Answer::Written { .. } => Some(Ok(())),
            Answer::Fenced { .. } => Some(Err("a controller leads by now: stop it".into())),
            _ => None,
        })
    }
}

/// Waits for an answer that ends a step.
fn wait<T>(
    keeper: &mut dyn Keeper,
    mut ends: impl FnMut(Answer) -> Option<Result<T, String>>,
) -> Result<T, String> {
    let limit = Instant::now() + LIMIT;
    let mut trouble = None;
    while Instant::now() < limit {
        match keeper.poll() {
            None => std::thread::sleep(Duration::from_millis(5)),
            Some(Answer::Trouble(why)) => trouble = Some(why),
            Some(answer) => {
                if let Some(end) = ends(answer) {
                    return end;
                }
            }
        }
    }
    let store = keeper.describe();
    Err(trouble.unwrap_or_else(|| format!("{store} does not answer within {} s", LIMIT.as_secs())))
}
