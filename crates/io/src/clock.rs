//! The time of day, the time since boot, and the time that is measured by.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plexus_wire::Time;
use rustix::time::{ClockId, clock_gettime};

/// The time since the machine was booted. Nobody sets this clock, and it goes on while the machine
/// sleeps (clock_gettime(2), `CLOCK_BOOTTIME`).
pub fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The time now, by the clock that all namespaces of a machine share and nobody sets
/// (`CLOCK_MONOTONIC`).
pub fn now() -> Time {
    let t = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Milliseconds of Unix time, which signatures and what is on disks go by.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Whether something keeps the time of day right, such as NTP (adjtimex(2)).
///
/// # Errors
/// When the kernel does not say.
pub fn is_synchronised() -> io::Result<bool> {
    // SAFETY: the structure is integers; zero is a value of each, and no mode asks for a change.
    let mut asked: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads and writes one live structure.
    let state = crate::sys::check(unsafe { libc::adjtimex(&raw mut asked) })?;
    Ok(state != libc::TIME_ERROR && asked.status & libc::STA_UNSYNC == 0)
}
