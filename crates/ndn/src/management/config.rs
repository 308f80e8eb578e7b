//! What management goes by, and what it counts.

use super::{RibLimits, Trust};

/// What management goes by.
#[derive(Clone, Debug, Default)]
pub struct ManagementConfig {
    /// Who may command.
    pub trust: Trust,
    /// What it may keep.
    pub limits: ManagementLimits,
    /// What `status/general` calls the node.
    pub version: String,
    /// When the node started, in milliseconds since 1970.
    pub start_unix_ms: u64,
}

/// What management may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagementLimits {
    /// Routes.
    pub rib: RibLimits,
    /// Prefixes with a strategy of their own. Each change makes the plan of all of them anew.
    pub strategies: usize,
    /// Datasets that can still be asked for by segments.
    pub datasets: usize,
    /// Bytes of them; the newest of each is kept whatever it takes, and one that is fetched. What
    /// is still being written is not counted.
    pub dataset_bytes: usize,
    /// Faces, and keys that are trusted no more, of which signed commands are remembered: so many
    /// of each, at most.
    pub signers: usize,
    /// Commands that are remembered of each.
    pub commands_per_signer: usize,
    /// Notifications that can still be asked for.
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

/// What came of the Interests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagementCounters {
    /// Commands that were carried out.
    pub done: u64,
    /// Commands that were accepted and failed.
    pub failed: u64,
    /// Commands of names that nobody knows.
    pub unknown: u64,
    /// Commands without a signature, or with one that cannot be read.
    pub unsigned: u64,
    /// Commands whose signature or digest of parameters is wrong.
    pub forged: u64,
    /// Commands by a key that is not trusted, or from where nobody may command.
    pub untrusted: u64,
    /// Commands of neighbours whose signature, or that of the announcement in them, was not
    /// verified, as there were too many.
    pub unverified: u64,
    /// Commands that came before.
    pub replayed: u64,
    /// Commands that say a time too far from now, or none.
    pub stale: u64,
    /// Segments of datasets that were served.
    pub segments: u64,
    /// Notifications that were served.
    pub notifications: u64,
    /// Interests that came to nothing: no name of management, a segment that is not kept.
    pub dropped: u64,
    /// Changes of next hops that the FIB did not take.
    pub untaken: u64,
}
