//! One scenario with many seeds, side by side on all processors.
//!
//! Runs share nothing, so each is what it would be alone, and the answer does not depend on how
//! many processors there are.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use plexus_io::process::memory;
use plexus_report::spread::{self, Quantity};
use plexus_report::{Facts, Failure, Progress};
use plexus_topo::{Fidelity, Topology};
use serde_json::{Value, json};

use crate::Work;
use crate::run::{check_memory, engine, read, simulate};

/// Most seeds of one command.
const SEEDS_MAX: u64 = 100_000;
/// Seeds from the first to the last, as in `1..8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    last: u64,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let wrong = || "write the first and the last seed, as in 1..8".to_string();
        let (first, last) = text.split_once("..").ok_or_else(wrong)?;
        let [first, last] = [first, last].map(|n| n.parse::<u64>().ok());
        let (Some(first), Some(last)) = (first, last) else { return Err(wrong()) };
        if last < first || last - first >= SEEDS_MAX {
            return Err(format!(
                "from the first to the last there are 1 to {SEEDS_MAX} seeds, as in 1..8"
            ));
        }
        Ok(Seeds { first, last })
    }
}

/// One seed's run.
struct Run {
    seed: u64,
    facts: Facts,
    work: Work,
}

/// The runs of all seeds.
pub struct RunSeeds {
    /// The topology with the first seed.
    first: Topology,
    /// A note about traffic that is left out.
    left_out: Option<String>,
    /// By seed.
    runs: Vec<Run>,
    count: u64,
    /// Seeds that were not run.
    missing: u64,
}

impl RunSeeds {
    /// Whether every seed was run, and passed.
    pub fn passed(&self) -> bool {
        self.missing == 0 && self.runs.iter().all(|r| r.facts.passed)
    }

    fn quantities(&self) -> Vec<Quantity> {
        let facts: Vec<&Facts> = self.runs.iter().map(|r| &r.facts).collect();
        spread::quantities(&facts)
    }

    /// The seeds' results and their spreads, for programs.
    pub fn json(&self) -> Value {
        let seeds: Vec<Value> = (self.runs.iter())
            .map(|run| {
                let mut seed = engine(&run.work, run.seed);
                seed["passed"] = run.facts.passed.into();
                seed
            })
            .collect();
        json!({
            "lab": self.first.name, "passed": self.passed(), "fidelity": self.first.fidelity.name(),
            "seeds": seeds, "quantities": self.quantities(),
        })
    }
}

impl Display for RunSeeds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let RunSeeds { first, left_out, runs, count, missing } = self;
        write!(f, "{}", spread::table(&self.quantities(), first.traffic.len()))?;
        for run in runs.iter().filter(|r| !r.facts.passed) {
            let failed = run.facts.assertions.iter().filter(|a| !a.passed);
            let texts: Vec<&str> = failed.map(|a| a.text.as_str()).collect();
            writeln!(f, "seed {}: not {}", run.seed, texts.join(", not "))?;
        }
        if let Some(left_out) = left_out {
            writeln!(f, "note: {left_out}")?;
        }
        if *missing > 0 {
            writeln!(f, "note: interrupted: {missing} of {count} seeds were not run")?;
        }
        let verdict = if self.passed() { "passed" } else { "failed" };
        let fine = runs.iter().filter(|r| r.facts.passed).count();
        writeln!(f, "{}: {verdict}, {fine} of {count} seeds", first.name)
    }
}

/// Runs all seeds. `stopped` ends it early.
///
/// # Errors
/// When the file is mistaken, or a run cannot be built.
pub fn run(
    file: &Path,
    seeds: Seeds,
    fidelity: Option<Fidelity>,
    stopped: &AtomicBool,
) -> Result<RunSeeds, Failure> {
    // A mistake in the file is told once.
    let (first, left_out) = read(file, Some(seeds.first), fidelity)?;
    let count = seeds.last - seeds.first + 1;
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let workers = processors.min(count);
    check_memory(&first, workers)
        .map_err(|e| Failure::unusable(format!("{}: {e}", file.display())))?;
    let started = Instant::now();
    let next = AtomicU64::new(0);
    let (done, results) = mpsc::channel();
    let mut runs: Vec<Run> = Vec::new();
    let mut failure = None;
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    // Not the seed itself, which may be the last that there is.
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count
                        || done.send(one(file, seeds.first + index, fidelity, stopped)).is_err()
                    {
                        break;
                    }
                }
            });
        }
        drop(done);
        let mut progress = Progress::new();
        for result in results {
            match result {
                Ok(run) => runs.extend(run),
                Err(e) => {
                    // The others end at their next look.
                    stopped.store(true, Ordering::Relaxed);
                    failure.get_or_insert(e);
                }
            }
            let events: u64 = runs.iter().map(|r| r.work.events).sum();
            let rate = events as f64 / started.elapsed().as_secs_f64().max(1e-6) / 1e6;
            let memory = memory::held_text();
            let share = runs.len() as f64 / count as f64;
            progress.share(
                share,
                &format!("{} of {count} seeds, {rate:.2} M events/s{memory}", runs.len()),
            );
        }
        progress.clear();
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    runs.sort_by_key(|r| r.seed);
    let missing = count.saturating_sub(runs.len() as u64);
    Ok(RunSeeds { first, left_out, runs, count, missing })
}

/// One seed; `None` where it was stopped.
fn one(
    file: &Path,
    seed: u64,
    fidelity: Option<Fidelity>,
    stopped: &AtomicBool,
) -> Result<Option<Run>, Failure> {
    let (topology, _) = read(file, Some(seed), fidelity)?;
    let unusable = |e| Failure::unusable(format!("{}: seed {seed}: {e}", file.display()));
    let go_on = |_: &_| !stopped.load(Ordering::Relaxed);
    let sim = simulate(&topology, seed, go_on);
    if stopped.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let sim = sim.map_err(unusable)?;
    let work = sim.work();
    Ok(Some(Run { seed, facts: sim.report().facts, work }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_first_and_a_last() {
        assert_eq!("1..8".parse(), Ok(Seeds { first: 1, last: 8 }));
        assert_eq!("5..5".parse(), Ok(Seeds { first: 5, last: 5 }));
        let last = Seeds { first: u64::MAX - 1, last: u64::MAX };
        assert_eq!("18446744073709551614..18446744073709551615".parse(), Ok(last));
        for bad in ["", "8", "8..1", "1..", "a..b", "-1..3", "0..18446744073709551615"] {
            assert!(bad.parse::<Seeds>().is_err(), "{bad}");
        }
    }
}
