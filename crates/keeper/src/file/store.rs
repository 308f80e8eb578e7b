//! The file: `redb` tables. Values are JSON, so that records of older versions stay readable; a
//! transaction is durable when `apply` returns.

use std::fmt;
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use plexus_controller::{Change, CommonVersion, Lease, Record};
use plexus_wire::fabric::message::PROVISIONAL_EPOCH;
use redb::{Database, Key, ReadableDatabase, ReadableTable, TableDefinition};

use crate::checked;

/// Leases by address.
const LEASES: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("leases");
/// Versions of the common file by number.
const COMMON: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("common");
/// Single values by name.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// The last incarnation.
const EPOCH: &str = "epoch";
/// The layout of the file.
const FORMAT: &str = "format";
const FORMAT_NOW: u64 = 1;

/// Why the store cannot be used; the text names the file and says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreError {
    path: PathBuf,
    what: String,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for StoreError {}

/// An open store.
pub(super) struct Store {
    path: PathBuf,
    database: Database,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store, and creates it if there is none.
    ///
    /// # Errors
    /// When the file cannot be read or written, is not a store, is damaged or of a newer version,
    /// or is open in another process.
    pub(super) fn open(path: &Path) -> Result<Store, StoreError> {
        let opened = guarded(path, || {
            let exists = path.metadata().is_ok_and(|m| m.len() > 0);
            // An existing file is never created anew: redb would overwrite a file that it does not
            // recognise only if it is empty.
            let database = if exists { Database::open(path)? } else { Database::create(path)? };
            let write = database.begin_write()?;
            let format = {
                write.open_table(LEASES)?;
                write.open_table(COMMON)?;
                let mut meta = write.open_table(META)?;
                let format = meta.get(FORMAT)?.map(|f| f.value());
                if format.is_none() {
                    meta.insert(FORMAT, FORMAT_NOW)?;
                }
                format.unwrap_or(FORMAT_NOW)
            };
            write.commit()?;
            Ok((database, format))
        })?;
        match opened {
            (database, FORMAT_NOW) => Ok(Store { path: path.to_path_buf(), database }),
            (_, other) => Err(StoreError {
                path: path.to_path_buf(),
                what: format!("is of format {other}, this program reads {FORMAT_NOW}: update it"),
            }),
        }
    }

    /// Increments the incarnation and returns it, already stored. The first one is above that of
    /// controllers that lead provisionally.
    ///
    /// # Errors
    /// When the file cannot be written or is damaged, or there is no higher one.
    pub(super) fn next_epoch(&self) -> Result<u64, StoreError> {
        let epoch = self.set_epoch(|epoch| epoch.max(PROVISIONAL_EPOCH).saturating_add(1))?;
        checked(epoch).map_err(|what| StoreError { path: self.path.clone(), what })
    }

    /// Makes the next incarnation higher than this one.
    ///
    /// # Errors
    /// When the file cannot be written or is damaged.
    pub(super) fn raise_epoch(&self, above: u64) -> Result<(), StoreError> {
        self.set_epoch(|epoch| epoch.max(above)).map(drop)
    }

    fn set_epoch(&self, next: impl FnOnce(u64) -> u64) -> Result<u64, StoreError> {
        guarded(&self.path, || {
            let write = self.database.begin_write()?;
            let epoch = {
                let mut meta = write.open_table(META)?;
                let epoch = next(meta.get(EPOCH)?.map_or(0, |e| e.value()));
                meta.insert(EPOCH, epoch)?;
                epoch
            };
            write.commit()?;
            Ok(epoch)
        })
    }

    /// Everything stored.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub(super) fn load(&self) -> Result<Vec<Record>, StoreError> {
        let leases = self.values(LEASES)?.into_iter().map(|(ip, bytes)| {
            let lease: Result<Lease, _> = serde_json::from_slice(&bytes);
            let of = format!("the lease of {}", Ipv4Addr::from(ip));
            lease.map(Record::Lease).map_err(|e| (of, e))
        });
        let common = self.values(COMMON)?.into_iter().map(|(version, bytes)| {
            let common: Result<CommonVersion, _> = serde_json::from_slice(&bytes);
            let of = format!("version {version} of the common file");
            common.map(Record::Common).map_err(|e| (of, e))
        });
        let unreadable =
            |(of, e): (String, _)| damaged(&self.path, &format!("{of} is unreadable: {e}"));
        leases.chain(common).map(|record| record.map_err(unreadable)).collect()
    }

    /// The values of a table, by key.
    fn values<K: for<'a> Key<SelfType<'a> = K> + 'static>(
        &self,
        table: TableDefinition<'_, K, &[u8]>,
    ) -> Result<Vec<(K, Vec<u8>)>, StoreError> {
        guarded(&self.path, || {
            let table = self.database.begin_read()?.open_table(table)?;
            let rows = table.iter()?;
            rows.map(|row| Ok(row.map(|(key, v)| (key.value(), v.value().to_vec()))?)).collect()
        })
    }

    /// Applies changes: all of them, or none on error. They are durable on return.
    ///
    /// # Errors
    /// When the file cannot be written or is damaged.
    pub(super) fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        guarded(&self.path, || {
            let write = self.database.begin_write()?;
            {
                let mut leases = write.open_table(LEASES)?;
                let mut common = write.open_table(COMMON)?;
                for change in changes {
                    match change {
                        Change::Put(Record::Lease(lease)) => {
                            let bytes = serde_json::to_vec(lease).map_err(std::io::Error::from)?;
                            leases.insert(lease.ip.to_bits(), &bytes[..])?;
                        }
                        Change::Put(Record::Common(version)) => {
                            let bytes =
                                serde_json::to_vec(version).map_err(std::io::Error::from)?;
                            common.insert(version.version, &bytes[..])?;
                        }
                        Change::RemoveLease(ip) => drop(leases.remove(ip.to_bits())?),
                        Change::RemoveCommon(version) => drop(common.remove(version)?),
                    }
                }
            }
            write.commit()?;
            Ok(())
        })
    }
}

fn damaged(path: &Path, what: &str) -> StoreError {
    let what = format!(
        "is damaged ({what}): move it away to start with an empty store; hosts keep their \
         addresses until they renew"
    );
    StoreError { path: path.to_path_buf(), what }
}

/// Runs work on the database, which panics on some kinds of damage; that is reported as an error
/// here.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, StoreError> {
    let fail = |what: String| StoreError { path: path.to_path_buf(), what };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(redb::Error::DatabaseAlreadyOpen)) => {
            Err(fail("is open in another process: a store has one controller".to_string()))
        }
        Ok(Err(redb::Error::Io(e))) if e.kind() != std::io::ErrorKind::InvalidData => {
            Err(match e.kind() {
                std::io::ErrorKind::UnexpectedEof => damaged(path, "it ends too early"),
                _ => fail(format!("cannot be read or written: {e}")),
            })
        }
        Ok(Err(e)) => Err(damaged(path, &e.to_string())),
        Err(_) => Err(damaged(path, "its pages contradict each other")),
    }
}

#[cfg(test)]
mod tests;
