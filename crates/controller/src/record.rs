//! Records that survive a restart.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use plexus_wire::MacAddr;
use serde::{Deserialize, Serialize};

/// An address that was leased to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The address.
    pub ip: Ipv4Addr,
    /// The host.
    pub mac: MacAddr,
    /// When it expires, in seconds since 1970: a few seconds later than the host was told. An
    /// expired lease is kept while no other host takes the address, so that the host gets it again.
    pub until_unix_s: u64,
}

/// A version of the group's common file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonVersion {
    /// Its number: higher than those of all earlier ones.
    pub version: u64,
    /// When it was applied, in seconds since 1970.
    pub kept_unix_s: u64,
    /// The comment that a person gave it.
    pub comment: String,
    /// The version of the controller that kept it; earlier ones do not tell theirs.
    #[serde(default)]
    pub plexus: String,
    /// Nodes were told to keep it. Else it was offered to them at most, and its number is used up.
    pub kept: bool,
    /// The common file.
    pub text: String,
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A lease; one per address.
    Lease(Lease),
    /// A version of the common file; one per number.
    Common(CommonVersion),
}

/// The thing that a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    /// The lease of this address.
    Lease(Ipv4Addr),
    /// The version of the common file of this number.
    Common(u64),
}

/// A change of the stored records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Store this record, replacing the one about the same thing.
    Put(Record),
    /// Remove the lease of this address.
    RemoveLease(Ipv4Addr),
    /// Remove the version of the common file of this number.
    RemoveCommon(u64),
}

impl Change {
    /// The thing that it is about.
    pub fn key(&self) -> RecordKey {
        match self {
            Change::Put(Record::Lease(lease)) => RecordKey::Lease(lease.ip),
            Change::Put(Record::Common(version)) => RecordKey::Common(version.version),
            Change::RemoveLease(ip) => RecordKey::Lease(*ip),
            Change::RemoveCommon(version) => RecordKey::Common(*version),
        }
    }

    /// Makes it in records.
    pub fn make(self, records: &mut BTreeMap<RecordKey, Record>) {
        let key = self.key();
        match self {
            Change::Put(record) => drop(records.insert(key, record)),
            Change::RemoveLease(_) | Change::RemoveCommon(_) => drop(records.remove(&key)),
        }
    }
}
