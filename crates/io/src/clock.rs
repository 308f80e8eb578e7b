//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds of Unix time, which signatures and what is on disks go by.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
