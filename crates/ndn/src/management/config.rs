//! Configuration and counters of management.

use super::{RibLimits, Trust};

/// Configuration of management.
#[derive(Clone, Debug, Default)]
pub struct ManagementConfig {
    /// Who may command.
    pub trust: Trust,
    /// Its limits.
    pub limits: ManagementLimits,
    /// The version that `status/general` reports.
    pub version: String,
    /// When the node started, in milliseconds since 1970.
    pub start_unix_ms: u64,
}

/// Limits of what management stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagementLimits {
    /// Routes.
    pub rib: RibLimits,
    /// Prefixes with a strategy of their own. Each change rebuilds the plan for all of them.
    pub strategies: usize,
    /// Datasets whose segments are kept.
    pub datasets: usize,
    /// Bytes of them. The newest version of each is kept regardless of size, and so is one that a
    /// client is fetching. A dataset still being written does not count.
    pub dataset_bytes: usize,
    /// For how many faces, and for how many keys that are no longer trusted, signed commands are
    /// remembered.
    pub signers: usize,
    /// Commands remembered for each.
    pub commands_per_signer: usize,
    /// Notifications kept for clients.
    pub notifications: usize,
}

impl Default for ManagementLimits {
    fn default() -> ManagementLimits {
        ManagementLimits {
            rib: RibLimits::default(),
            strategies: 1024,
            datasets: 32,
            dataset_bytes: 4 << 20,
            signers: 256,
            commands_per_signer: 1024,
            notifications: 64,
        }
    }
}

/// Counters of processed Interests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagementCounters {
    /// Commands that were carried out.
    pub done: u64,
    /// Commands that were authorized and failed.
    pub failed: u64,
    /// Commands with unknown names.
    pub unknown: u64,
    /// Commands without a signature, or with one that cannot be parsed.
    pub unsigned: u64,
    /// Commands whose signature or parameters digest is wrong.
    pub forged: u64,
    /// Commands by an untrusted key, or from a place where no commands are accepted.
    pub untrusted: u64,
    /// Neighbours' commands whose signature, or that of the announcement in them, was not verified
    /// because of the limit.
    pub unverified: u64,
    /// Replayed commands.
    pub replayed: u64,
    /// Commands whose time is too far from now, or missing.
    pub stale: u64,
    /// Segments of datasets that were served.
    pub segments: u64,
    /// Notifications that were served.
    pub notifications: u64,
    /// Interests dropped: not a management name, or a segment that is no longer kept.
    pub dropped: u64,
    /// Changes of next hops that the FIB refused.
    pub untaken: u64,
}
