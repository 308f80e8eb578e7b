//! What survives a restart.

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
    /// When it ends, in seconds since 1970. An ended one is kept while nobody else takes the
    /// address, so that the host gets it again.
    pub until_unix_s: u64,
}

/// Something stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A lease; one per address.
    Lease(Lease),
}

/// A change of what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// This is so from now on, in place of a record about the same thing.
    Put(Record),
    /// There is no lease of this address any more.
    RemoveLease(Ipv4Addr),
}
