//! Whether the machine's processors stood still during a run: those of a virtual machine do while
//! its host runs others on them. A node that does not run for some Heartbeats loses its neighbours,
//! and packets with them, through no fault of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plexus_io::process::go_before_others;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How often a thread on each processor looks at the clock.
const TICK: Duration = Duration::from_millis(10);

/// Runs `work` beside a thread on each processor, as urgent as a node. Gives what it returns, and
/// the longest time by which such a thread was late.
pub(crate) fn watch<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let done = &AtomicBool::new(false);
    std::thread::scope(|s| {
        let threads = processors().into_iter().map(|cpu| s.spawn(move || latest(cpu, done)));
        let threads: Vec<_> = threads.collect();
        let ended = Ended(done);
        let result = work();
        drop(ended);
        let late = threads.into_iter().filter_map(|thread| thread.join().ok()).max();
        (result, late.unwrap_or_default())
    })
}

/// Work that has ended when this is dropped, also by a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The processors that this process may use.
pub(crate) fn processors() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect()
}

/// Keeps the thread to a processor, if it may be.
pub(crate) fn keep_to(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu);
    let _ = sched_setaffinity(None, &one);
}

fn latest(cpu: usize, done: &AtomicBool) -> Duration {
    keep_to(cpu);
    go_before_others();
    let mut latest = Duration::ZERO;
    while !done.load(Ordering::Relaxed) {
        let due = Instant::now() + TICK;
        std::thread::sleep(TICK);
        latest = latest.max(due.elapsed());
    }
    latest
}
