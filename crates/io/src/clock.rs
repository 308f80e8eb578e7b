//! The time of day, and the time since boot.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The time since the machine was booted. Nobody sets this clock, and it goes on while the machine
/// sleeps (clock_gettime(2), `CLOCK_BOOTTIME`).
pub fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Milliseconds of Unix time, which signatures and what is on disks go by.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
