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

/// A stored record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A lease; one per address.
    Lease(Lease),
}

/// A change of the stored records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Store this record, replacing the one about the same thing.
    Put(Record),
    /// Remove the lease of this address.
    RemoveLease(Ipv4Addr),
}

impl Change {
    /// The address that it is about.
    pub fn address(&self) -> Ipv4Addr {
        match self {
            Change::Put(Record::Lease(lease)) => lease.ip,
            Change::RemoveLease(ip) => *ip,
        }
    }

    /// Makes it in records by address.
    pub fn make(self, records: &mut BTreeMap<Ipv4Addr, Record>) {
        match self {
            Change::Put(record) => drop(records.insert(self.address(), record)),
            Change::RemoveLease(ip) => drop(records.remove(&ip)),
        }
    }
}
