//! Copies of a controller's store: a file that people can read, with the leases and the common
//! file, and the way back.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use plexus_api::answer::fabric::{Lease as Shown, Leases};
use plexus_config::{COMMON_VERSION_MAX, CommonFile, ControllerFile};
use plexus_controller::tenure::{Answer, Ask, Member};
use plexus_controller::{Change, CommonVersion, Lease, Record, RecordKey};
use plexus_io::clock::unix_ms;
use plexus_keeper::Keeper;
use plexus_wire::{Time, hex};
use serde::{Deserialize, Serialize};

use super::{leading, make_folder};
use crate::identity;

/// The form of the file. A field that a later version adds is ignored; what this one would misread
/// has another number.
const FORMAT: u32 = 1;
/// How long a store may take for one step of a restore.
const LIMIT: Duration = Duration::from_secs(10);
/// The length of the lease with which a store is held.
const LEASE: Duration = Duration::from_secs(60);
/// Changes of one step.
const STEP: usize = 1000;
/// More than a controller with a store of its own starts from one snapshot to the next. Numbers of
/// multicast trees repeat every 1024 epochs, hence no multiple of that.
const STARTS: u64 = (1 << 20) + 512;
/// The highest epoch that a snapshot may have: versions of routes are 2^32 times as high.
const EPOCH_MAX: u64 = (1 << 32) - (1 << 24);
/// The name under which a store is held.
const NAME: &str = "a snapshot's restore";

/// A copy of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The versions of the common file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    common: Vec<CommonVersion>,
}

/// The outcome of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Leases that it had.
    pub before: usize,
    /// Leases that it has now.
    pub leases: usize,
    /// Versions of the common file that it has now.
    pub common: usize,
    /// Whether its epochs go on above all that nodes have seen. Of an etcd nobody knows: if the
    /// cluster was made anew, nodes refuse its epochs until they are restarted.
    pub goes_on: bool,
}

impl Snapshot {
    /// A copy of what a leader has told.
    pub fn of(leases: Leases, common: Vec<CommonVersion>) -> Snapshot {
        let Leases { controller, epoch, group, leases, .. } = leases;
        let taken_unix_s = unix_ms() / 1000;
        Snapshot { format: FORMAT, group, controller, epoch, taken_unix_s, leases, common }
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
        if snapshot.epoch > EPOCH_MAX {
            return Err(format!("{file} has an impossible epoch: {}", snapshot.epoch));
        }
        let (mut addresses, mut hosts) = (BTreeSet::new(), BTreeSet::new());
        for Shown { address, mac, .. } in &snapshot.leases {
            if !addresses.insert(*address) {
                return Err(format!("{file} has {address} twice"));
            }
            if !hosts.insert(*mac) {
                return Err(format!("{file} has {mac} twice"));
            }
            if mac.is_multicast() {
                return Err(format!("{file} leases {address} to {mac}, which is no host's"));
            }
        }
        let mut versions = BTreeSet::new();
        for CommonVersion { version, text, .. } in &snapshot.common {
            let shown = format!("{file}: version {version} of the common file");
            if *version > COMMON_VERSION_MAX {
                return Err(format!("{file} has an impossible version: {version}"));
            }
            if !versions.insert(*version) {
                return Err(format!("{shown} is there twice"));
            }
            CommonFile::parse(&shown, text).map_err(|e| e.to_string())?;
        }
        Ok(snapshot)
    }
}

/// Writes a snapshot into the store of a controller's file, in place of what is there.
///
/// # Errors
/// In words: files that cannot be read, another group, a store that is in use, has records of its
/// own (unless they are to be replaced), or cannot be written.
pub fn restore(config: &Path, from: &Path, replace: bool) -> Result<Restored, String> {
    let snapshot = Snapshot::read(from)?;
    let file = ControllerFile::read(config).map_err(|e| e.to_string())?;
    let identity = identity::read(&file.identity, plexus_control::identity::Role::Controller)?;
    let group = identity.claims().group;
    if hex(&group) != snapshot.group {
        let text =
            "is of another group: a controller of this one would promise what is not its own";
        return Err(format!("{} {text}", from.display()));
    }
    make_folder(&file.state)?;
    let mut store =
        Held::open(leading::keeper(&file, NAME, &group, || {})?, leading::times(&file).report)?;
    let before = std::mem::take(&mut store.stored);
    if !before.is_empty() && !replace {
        let text = "has records of its own: add --replace to replace them";
        return Err(format!("{} {text} ({} of them)", store.keeper.describe(), before.len()));
    }
    let goes_on = store.keeper.raise_epoch(snapshot.epoch + STARTS)?;
    let lease = |Shown { address: ip, mac, until_unix_s }| Lease { ip, mac, until_unix_s };
    let leases: Vec<Change> =
        snapshot.leases.into_iter().map(lease).map(|l| Change::Put(Record::Lease(l))).collect();
    let common: Vec<Change> =
        snapshot.common.into_iter().map(|v| Change::Put(Record::Common(v))).collect();
    let is_lease = |record: &&Record| matches!(record, Record::Lease(_));
    let restored = Restored {
        before: before.iter().filter(is_lease).count(),
        leases: leases.len(),
        common: common.len(),
        goes_on,
    };
    let kept: BTreeSet<RecordKey> = leases.iter().chain(&common).map(Change::key).collect();
    let removed = before.into_iter().map(|record| Change::Put(record).key());
    let removed = removed.filter(|key| !kept.contains(key)).map(|key| match key {
        RecordKey::Lease(ip) => Change::RemoveLease(ip),
        RecordKey::Common(version) => Change::RemoveCommon(version),
    });
    let removed: Vec<Change> = removed.collect();
    // New records first, so that the store never lacks one that it had and will have. The long
    // texts go one by one.
    let steps = leases.chunks(STEP).chain(common.chunks(1)).chain(removed.chunks(STEP));
    for (number, some) in (1..).zip(steps) {
        store
            .write(number, some.to_vec())
            .map_err(|why| format!("{why}. A part is restored: run this again with --replace"))?;
    }
    Ok(restored)
}

/// A store that no controller leads meanwhile.
struct Held {
    keeper: Box<dyn Keeper>,
    lease: Option<u64>,
    epoch: u64,
    stored: Vec<Record>,
    /// How often it reports, so that no controller takes it for dead.
    report: Duration,
    report_at: Instant,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(lease) = self.lease {
            self.keeper.ask(Ask::Release { lease });
        }
    }
}

impl Held {
    /// Becomes the leader of a store that has none.
    fn open(keeper: Box<dyn Keeper>, report: Option<Duration>) -> Result<Held, String> {
        let (report, report_at) = (report.unwrap_or(LIMIT), Instant::now());
        let mut held = Held { keeper, lease: None, epoch: 0, stored: vec![], report, report_at };
        held.wait(|answer| match answer {
            Answer::Leader(None) => Some(Ok(())),
            Answer::Leader(Some(leader)) => {
                let text = "leads: stop all controllers of the group, or wait until its lease ends";
                Some(Err(format!("{} {text}", leader.name)))
            }
            _ => None,
        })?;
        held.keeper.ask(Ask::Lease { time: LEASE, asked: Time::ZERO });
        let lease = held.wait(|answer| match answer {
            Answer::Leased { lease, .. } => Some(Ok(lease)),
            _ => None,
        })?;
        held.lease = Some(lease);
        held.keeper.ask(Ask::Campaign { lease, instead_of: 0 });
        (held.epoch, held.stored) = held.wait(|answer| match answer {
            Answer::Won { epoch, stored, .. } => Some(Ok((epoch, stored))),
            Answer::Beaten => Some(Err("a controller has just begun to lead: stop it".into())),
            _ => None,
        })?;
        Ok(held)
    }

    fn write(&mut self, ticket: u64, changes: Vec<Change>) -> Result<(), String> {
        self.keeper.ask(Ask::Write { epoch: self.epoch, ticket, changes });
        self.wait(|answer| match answer {
            Answer::Written { ticket: written, .. } if written == ticket => Some(Ok(())),
            Answer::Fenced { .. } => Some(Err("a controller leads by now: stop it".into())),
            _ => None,
        })
    }

    /// Waits for an answer that ends a step.
    fn wait<T>(
        &mut self,
        mut ends: impl FnMut(Answer) -> Option<Result<T, String>>,
    ) -> Result<T, String> {
        let limit = Instant::now() + LIMIT;
        let mut trouble = None;
        while Instant::now() < limit {
            if let Some(lease) = self.lease
                && self.report_at <= Instant::now()
            {
                self.report_at = Instant::now() + self.report;
                self.keeper.ask(Ask::Keep { lease, asked: Time::ZERO });
                // Controllers do not replace a leader that reports and reaches a node.
                let member = Member { nodes: 1, attached: true, ..Member::default() };
                self.keeper.ask(Ask::Report { lease, member });
            }
            match self.keeper.poll() {
                None => std::thread::sleep(Duration::from_millis(2)),
                Some(Answer::Trouble(why)) => trouble = Some(why),
                Some(Answer::Ended { .. }) => return Err("the hold of the store has ended".into()),
                Some(answer) => {
                    if let Some(end) = ends(answer) {
                        return end;
                    }
                }
            }
        }
        let (store, seconds) = (self.keeper.describe(), LIMIT.as_secs());
        Err(trouble.unwrap_or_else(|| format!("{store} does not answer within {seconds} s")))
    }
}
