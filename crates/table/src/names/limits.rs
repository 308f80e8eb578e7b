//! What a FIB may grow to, what it takes, and why it refuses.

use std::fmt;

use super::hash::COMPONENTS_MAX;

/// What a table may grow to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameLimits {
    /// Prefixes: 22 bytes each, taken when the table is made.
    pub prefixes: usize,
    /// Bytes for records: a prefix takes 8 and its name, up to the next multiple of 8; 32 GiB at
    /// most. Memory of the machine is taken as names come.
    pub record_bytes: usize,
}

impl Default for NameLimits {
    /// A million prefixes of 88 bytes.
    fn default() -> NameLimits {
        NameLimits { prefixes: 1_000_000, record_bytes: 96_000_000 }
    }
}

/// Why a prefix was not taken in; the table is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRefused {
    /// The prefix has more than [`COMPONENTS_MAX`] components.
    Components,
    /// There are as many prefixes as there may be.
    Prefixes {
        /// How many that is.
        limit: usize,
    },
    /// The records would outgrow their limit.
    Records {
        /// The limit, bytes.
        limit: usize,
    },
    /// Memory is held up by a batch that has not ended.
    ReaderBusy,
    /// By an accident of the key, no line near the prefix's place has room.
    Crowded,
    /// The system did not give the address space.
    OutOfMemory,
}

impl fmt::Display for NameRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameRefused::Components => {
                write!(
                    f,
                    "a prefix has at most {COMPONENTS_MAX} components: announce a shorter one"
                )
            }
            NameRefused::Prefixes { limit } => {
                write!(f, "the table holds {limit} prefixes, as many as it may: raise the limit")
            }
            NameRefused::Records { limit } => write!(
                f,
                "the names of prefixes would outgrow their limit of {limit} bytes: raise the limit"
            ),
            NameRefused::ReaderBusy => f.write_str(
                "a worker has not ended its batch for thousands of updates: memory waits for it",
            ),
            NameRefused::Crowded => f.write_str(
                "no room near the prefix's place, though the table is half empty: try another key",
            ),
            NameRefused::OutOfMemory => {
                f.write_str("the system does not give the table's address space: lower the limits")
            }
        }
    }
}

impl std::error::Error for NameRefused {}

/// Bytes of memory that a table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameMemory {
    /// From hashes to records, and which lengths to search for.
    pub index: usize,
    /// Records, free ones included.
    pub records: usize,
    /// What the writer keeps beside.
    pub writer: usize,
}

impl NameMemory {
    /// All together.
    pub fn total(&self) -> usize {
        self.index + self.records + self.writer
    }
}
