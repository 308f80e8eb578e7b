//! `plexus sim run --seeds A..B`: one scenario with many seeds, side by side on all processors.
//!
//! Runs share nothing, so each is what it would be alone, and the answer does not depend on how
//! many processors there are.

use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use plexus_io::process::memory;
use plexus_report::spread::{self, Quantity};
use plexus_report::{Facts, Progress};
use plexus_sim::Work;
use plexus_topo::{Fidelity, Topology};
use serde_json::{Value, json};

use super::{check_memory, simulate};
use crate::exit::{Failure, Outcome};

/// Most seeds of one command.
const SEEDS_MAX: u64 = 100_000;
/// Seeds from the first to the last, as in `1..8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seeds {
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

/// Runs all seeds, and tells what they have in common. `stopped` ends it early.
pub(super) fn run(
    file: &Path,
    seeds: Seeds,
    fidelity: Option<Fidelity>,
    as_json: bool,
    stopped: &AtomicBool,
) -> Outcome {
    // A mistake in the file is told once.
    let (first, left_out) = super::read(file, Some(seeds.first), fidelity)?;
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
    let passed = missing == 0 && runs.iter().all(|r| r.facts.passed);
    let facts: Vec<&Facts> = runs.iter().map(|r| &r.facts).collect();
    let quantities = spread::quantities(&facts);
    if as_json {
        println!("{}", answer(&first, passed, &runs, &quantities));
    } else {
        print!("{}", spread::table(&quantities, first.traffic.len()));
        for run in runs.iter().filter(|r| !r.facts.passed) {
            let failed = run.facts.assertions.iter().filter(|a| !a.passed);
            let texts: Vec<&str> = failed.map(|a| a.text.as_str()).collect();
            println!("seed {}: not {}", run.seed, texts.join(", not "));
        }
        if let Some(left_out) = left_out {
            println!("note: {left_out}");
        }
        if missing > 0 {
            println!("note: interrupted: {missing} of {count} seeds were not run");
        }
        let verdict = if passed { "passed" } else { "failed" };
        let fine = runs.iter().filter(|r| r.facts.passed).count();
        println!("{}: {verdict}, {fine} of {count} seeds", first.name);
    }
    if passed { Ok(()) } else { Err(Failure::No(String::new())) }
}

/// One seed; `None` where it was stopped.
fn one(
    file: &Path,
    seed: u64,
    fidelity: Option<Fidelity>,
    stopped: &AtomicBool,
) -> Result<Option<Run>, Failure> {
    let (topology, _) = super::read(file, Some(seed), fidelity)?;
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

fn answer(first: &Topology, passed: bool, runs: &[Run], quantities: &[Quantity]) -> Value {
    let seeds: Vec<Value> = (runs.iter())
        .map(|run| {
            let mut seed = super::engine(&run.work, run.seed);
            seed["passed"] = run.facts.passed.into();
            seed
        })
        .collect();
    json!({
        "lab": first.name, "passed": passed, "fidelity": first.fidelity.name(), "seeds": seeds,
        "quantities": quantities,
    })
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
