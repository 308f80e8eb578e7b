//! How much the workers have to do, for the controller: it shows each box's share of the traffic,
//! and may send a box that is busy fewer flows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_wire::Time;

/// How often the control plane tells the controller.
const EVERY: Duration = Duration::from_secs(1);

/// A worker's counts since it started. The worker writes them, and the control plane reads them.
#[derive(Debug, Default)]
pub(crate) struct WorkerLoad {
    /// Packets that it has routed.
    routed: AtomicU64,
    /// How long it has slept, because there was nothing to do, in nanoseconds.
    idle_ns: AtomicU64,
}

impl WorkerLoad {
    pub(crate) fn set_routed(&self, routed: u64) {
        self.routed.store(routed, Ordering::Relaxed);
    }

    pub(crate) fn slept(&self, time: Duration) {
        self.idle_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// The counts that the control plane has read of all workers.
#[derive(Debug, Default)]
pub(super) struct Loads {
    workers: Vec<(Arc<WorkerLoad>, u64)>,
    read_at: Time,
}

impl Loads {
    pub(super) fn new(workers: Vec<Arc<WorkerLoad>>) -> Loads {
        let workers = workers.into_iter().map(|worker| (worker, 0)).collect();
        Loads { workers, read_at: Time::ZERO }
    }

    /// Once a second: packets routed since the start, and how busy the busiest worker was since the
    /// last time, in thousandths. A worker that is not allowed to run is busy.
    pub(super) fn read(&mut self, now: Time) -> Option<(u64, u16)> {
        let time = now.since(self.read_at);
        if time < EVERY {
            return None;
        }
        self.read_at = now;
        let (mut routed, mut busy) = (0, 0);
        for (worker, before) in &mut self.workers {
            routed += worker.routed.load(Ordering::Relaxed);
            let idle = worker.idle_ns.load(Ordering::Relaxed);
            let slept = idle - std::mem::replace(before, idle);
            let slept = u128::from(slept) * 1000 / time.as_nanos().max(1);
            busy = busy.max(1000 - slept.min(1000) as u16);
        }
        Some((routed, busy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_worker_counts_and_all_have_routed() {
        let workers = [Arc::new(WorkerLoad::default()), Arc::default()];
        let mut loads = Loads::new(workers.to_vec());
        let second = |n: u64| Time::from_nanos(n * 1_000_000_000);
        workers[0].slept(Duration::from_millis(900));
        workers[1].slept(Duration::from_millis(250));
        workers[0].set_routed(5);
        workers[1].set_routed(7);
        assert_eq!(loads.read(second(1)), Some((12, 750)));
        assert_eq!(loads.read(second(1) + Duration::from_millis(500)), None);
        // A sleep that began in the second before.
        workers[0].slept(Duration::from_millis(1100));
        workers[1].slept(Duration::from_millis(1000));
        assert_eq!(loads.read(second(2)), Some((12, 0)));
    }
}
