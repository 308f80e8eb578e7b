//! Limits, memory use and errors of the name FIB.

use super::hash::COMPONENTS_MAX;

/// Limits of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameLimits {
    /// Prefixes: 22 bytes each, allocated at creation.
    pub prefixes: usize,
    /// Bytes for records: a prefix takes 8 plus its name, rounded up to a multiple of 8; at most 32
    /// GiB. Memory is used as names are inserted.
    pub record_bytes: usize,
}

impl Default for NameLimits {
    /// A million prefixes of 88 bytes.
    fn default() -> NameLimits {
        NameLimits { prefixes: 1_000_000, record_bytes: 96_000_000 }
    }
}

/// Why a prefix was not inserted; the table is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameRefused {
    /// The prefix has more than [`COMPONENTS_MAX`] components.
    #[error("a prefix has at most {COMPONENTS_MAX} components: announce a shorter one")]
    Components,
    /// The limit of prefixes is reached.
    #[error("the table holds {limit} prefixes, as many as it may: raise the limit")]
    Prefixes {
        /// How many that is.
        limit: usize,
    },
    /// The records would exceed their limit.
    #[error("the names of prefixes would outgrow their limit of {limit} bytes: raise the limit")]
    Records {
        /// The limit, bytes.
        limit: usize,
    },
    /// A batch that has not ended holds up memory.
    #[error("a worker has not ended its batch for thousands of updates: memory waits for it")]
    ReaderBusy,
    /// By chance, no line near the prefix's slot has room.
    #[error("no room near the prefix's place, though the table is half empty: try another key")]
    Crowded,
    /// The system refused the address space.
    #[error("the system does not give the table's address space: lower the limits")]
    OutOfMemory,
}

/// Memory of a table in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameMemory {
    /// The index and the filter.
    pub index: usize,
    /// Records, including free ones.
    pub records: usize,
    /// The writer's other data.
    pub writer: usize,
}

impl NameMemory {
    /// All together.
    pub fn total(&self) -> usize {
        self.index + self.records + self.writer
    }
}
