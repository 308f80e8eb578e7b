//! Runs that share nothing, side by side on all processors, as far as memory allows.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use plexus_report::{Failure, Progress};

/// What runs side by side takes at most together, in bytes, by estimates that are some three in a
/// hundred high for the largest networks. One that takes more runs alone.
const MEMORY: u64 = 6_100_000_000;

/// What came of the jobs so far. A thread keeps nothing else that it has allocated while it ran a
/// job: what lies behind the job's memory would hold all of it back from the system.
struct Outcomes<'a, T> {
    progress: &'a mut Progress,
    names: &'a [String],
    /// How far the jobs are that run.
    lines: BTreeMap<usize, String>,
    ended: BTreeMap<usize, Result<T, Failure>>,
}

/// Runs each job, and gives what came of them in the order of the jobs, whatever the order in which
/// they ran. `name` is what a person calls a job; `weight` is the memory that it takes, in bytes;
/// `run` says how far it is.
///
/// # Errors
/// What the first of the jobs that failed says. Jobs that have not begun by then do not.
pub(super) fn run<J: Sync, T: Send>(
    jobs: &[J],
    progress: &mut Progress,
    name: impl Fn(&J) -> String,
    weight: impl Fn(&J) -> u64,
    run: impl Fn(&J, &mut dyn FnMut(&str)) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let queue = Queue::new(jobs.iter().map(weight).collect(), MEMORY);
    let workers = thread::available_parallelism().map_or(1, |n| n.get()).min(jobs.len());
    let names: Vec<String> = jobs.iter().map(name).collect();
    let (names, lines, ended) = (&names[..], BTreeMap::new(), BTreeMap::new());
    let outcomes = Mutex::new(Outcomes { progress, names, lines, ended });
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(claim) = queue.take() {
                    let (job, began) = (claim.job, Instant::now());
                    let came = run(&jobs[job], &mut |text| locked(&outcomes).say(job, text));
                    if came.is_err() {
                        queue.stop();
                    }
                    locked(&outcomes).end(job, came, began.elapsed().as_secs_f64());
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.ended.into_values().collect()
}

/// Nothing panics while it is locked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Outcomes<'_, T> {
    fn say(&mut self, job: usize, text: &str) {
        if self.progress.is_seen() {
            self.lines.insert(job, format!("{}: {text}", self.names[job]));
            self.show();
        }
    }

    fn end(&mut self, job: usize, came: Result<T, Failure>, took_s: f64) {
        self.lines.remove(&job);
        self.ended.insert(job, came);
        if self.progress.is_seen() {
            return self.show();
        }
        let (name, done, all) = (&self.names[job], self.ended.len(), self.names.len());
        self.progress.say(&format!("{name}: {took_s:.1} s, {done} of {all} runs"));
    }

    fn show(&mut self) {
        let lines: Vec<&str> = self.lines.values().map(String::as_str).collect();
        self.progress.detail(&format!("{} done; {}", self.ended.len(), lines.join("; ")));
    }
}

/// The jobs that have not begun, and the memory of those that run.
struct Queue {
    weights: Vec<u64>,
    memory: u64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The heaviest first: it would otherwise run on alone at the end.
    waiting: Vec<usize>,
    running: usize,
    used: u64,
}

/// A job that runs; its memory is free again when this is dropped, though the job panicked.
struct Claim<'a> {
    queue: &'a Queue,
    job: usize,
}

impl Queue {
    fn new(weights: Vec<u64>, memory: u64) -> Queue {
        let mut waiting: Vec<usize> = (0..weights.len()).collect();
        waiting.sort_by_key(|job| std::cmp::Reverse(weights[*job]));
        let state = Mutex::new(State { waiting, running: 0, used: 0 });
        Queue { weights, memory, state, changed: Condvar::new() }
    }

    /// The next job, as soon as there is memory for it; `None` when all have begun.
    fn take(&self) -> Option<Claim<'_>> {
        let mut state = locked(&self.state);
        loop {
            if state.waiting.is_empty() {
                return None;
            }
            let State { waiting, running, used } = &mut *state;
            let fits = |job: &usize| *running == 0 || *used + self.weights[*job] <= self.memory;
            if let Some(at) = waiting.iter().position(fits) {
                let job = waiting.remove(at);
                *running += 1;
                *used += self.weights[job];
                return Some(Claim { queue: self, job });
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets no other job begin.
    fn stop(&self) {
        locked(&self.state).waiting.clear();
        self.changed.notify_all();
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // What comes next may be run by another thread, which has a heap of its own.
        plexus_io::heap::give_back();
        let mut state = locked(&self.queue.state);
        state.running -= 1;
        state.used -= self.queue.weights[self.job];
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_begin_and_none_beyond_the_memory() {
        let queue = Queue::new(vec![3, 11, 5, 6], 10);
        // More than the memory: alone.
        let alone = queue.take().unwrap();
        assert_eq!(alone.job, 1);
        drop(alone);
        let heavy = queue.take().unwrap();
        // Beside 6, 5 is too much and 3 is not.
        let light = queue.take().unwrap();
        assert_eq!((heavy.job, light.job), (3, 0));
        drop(heavy);
        assert_eq!(queue.take().unwrap().job, 2);
        assert!(queue.take().is_none());
    }

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        let jobs = [4u64, 1, 9, 2];
        let mut progress = Progress::new();
        let doubled = run(
            &jobs,
            &mut progress,
            |job| job.to_string(),
            |job| *job,
            |job, say| {
                say("doubling");
                Ok(2 * job)
            },
        );
        assert_eq!(doubled.unwrap(), [8, 2, 18, 4]);
        let failed = run(
            &jobs,
            &mut progress,
            |job| job.to_string(),
            |job| *job,
            |job, _| match job {
                9 => Err(Failure::No("nine".into())),
                job => Ok(*job),
            },
        );
        assert!(matches!(failed, Err(Failure::No(why)) if why == "nine"));
    }
}
