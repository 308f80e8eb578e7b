//! This process: its priority, and its [`memory`].

pub mod memory;

use std::sync::Once;

use rustix::process::setpriority_process;

const NICE: i32 = -10;

/// Lets the session that this process leads run before others, if it leads one and where that is
/// permitted. The scheduler shares a processor out among sessions (sched(7), autogroup), and the
/// priority of a thread counts in its own alone.
pub fn put_session_before_others() {
    // SAFETY: both only return a number: zero for a session whose leader is in no namespace that
    // this process sees.
    let leads = unsafe { libc::getsid(0) == libc::getpid() };
    if leads {
        // Without that file, and in a control group with a share of its own, there is no need.
        let _ = std::fs::write("/proc/self/autogroup", NICE.to_string());
    }
}

/// Lets the thread run before ordinary programs, where that is permitted: a box whose processors
/// are busy with other things must not be late with a Heartbeat, and lose its neighbours over it.
/// It sleeps when it has nothing to do, so that others are not kept from running for long.
pub fn go_before_others() {
    static TOLD: Once = Once::new();
    put_session_before_others();
    // Of this thread alone, and not on top of what it has from the one that started it.
    if let Err(error) = setpriority_process(None, NICE) {
        TOLD.call_once(|| {
            tracing::info!(%error, "may not run before ordinary programs (RLIMIT_NICE)");
        });
    }
}
