//! This process: its priority, and its [`memory`].

pub mod memory;

use std::sync::Once;

/// Lets the thread run before ordinary programs, where that is permitted: a box whose processors
/// are busy with other things must not be late with a Heartbeat, and lose its neighbours over it.
/// It sleeps when it has nothing to do, so that others are not kept from running for long.
pub fn go_before_others() {
    const NICE: i32 = -10;
    static TOLD: Once = Once::new();
    // Of this thread alone, and not on top of what it has from the one that started it.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        TOLD.call_once(|| {
            tracing::info!(%error, "may not run before ordinary programs (RLIMIT_NICE)");
        });
    }
}
