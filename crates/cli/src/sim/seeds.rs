//! `plexus sim run --seeds A..B`: one scenario with many seeds, side by side on all processors.
//!
//! Runs share nothing, so each is what it would be alone, and the answer does not depend on how
//! many processors there are.

use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use plexus_config::units::format_rate;
use plexus_io::process::memory;
use plexus_report::{Facts, Progress};
use plexus_sim::Work;
use plexus_topo::{Fidelity, Topology};
use serde::Serialize;
use serde_json::{Value, json};

use super::{check_memory, simulate};
use crate::exit::{Failure, Outcome};

/// Most seeds of one command.
const SEEDS_MAX: u64 = 100_000;
/// Flows whose figures are printed one by one for people; JSON has all.
const FLOWS_SHOWN: usize = 16;

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

/// A figure of all runs.
#[derive(Serialize)]
struct Quantity {
    name: String,
    unit: &'static str,
    mean: Option<f64>,
    /// Sample standard deviation; null for fewer than two values.
    deviation: Option<f64>,
    least: Option<f64>,
    greatest: Option<f64>,
    /// In the order of the seeds; null where nothing was measured.
    values: Vec<Option<f64>>,
}

impl Quantity {
    fn new(name: impl Into<String>, unit: &'static str, values: Vec<Option<f64>>) -> Quantity {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let count = known.len() as f64;
        let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / count);
        let deviation = mean.filter(|_| known.len() > 1).map(|mean| {
            let squares: f64 = known.iter().map(|v| (v - mean).powi(2)).sum();
            (squares / (count - 1.0)).sqrt()
        });
        let least = known.iter().copied().reduce(f64::min);
        let greatest = known.iter().copied().reduce(f64::max);
        Quantity { name: name.into(), unit, mean, deviation, least, greatest, values }
    }

    fn text(&self, value: Option<f64>) -> String {
        match (value, self.unit) {
            (None, _) => "-".to_string(),
            (Some(v), "bit/s") => format_rate((v / 1e4).round() as u64 * 10_000),
            (Some(v), "fraction") => format!("{:.3} %", v * 100.0),
            (Some(v), unit) => format!("{v:.1} {unit}").trim_end().to_string(),
        }
    }
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
    let quantities = quantities(&runs);
    if as_json {
        println!("{}", answer(&first, passed, &runs, &quantities));
    } else {
        print!("{}", table(&quantities, first.traffic.len()));
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

fn quantities(runs: &[Run]) -> Vec<Quantity> {
    let of = |figure: &dyn Fn(&Facts) -> Option<f64>| -> Vec<Option<f64>> {
        runs.iter().map(|r| figure(&r.facts).filter(|v| v.is_finite())).collect()
    };
    let mut all = vec![
        Quantity::new(
            "received, all flows",
            "bit/s",
            of(&|f| Some(f.flows.iter().map(|f| f.received_bits_per_s).sum())),
        ),
        Quantity::new(
            "loss, mean of flows",
            "fraction",
            of(&|f| Some(f.flows.iter().map(|f| f.loss).sum::<f64>() / f.flows.len() as f64)),
        ),
        Quantity::new(
            "latency p99, worst flow",
            "us",
            of(&|f| f.flows.iter().filter_map(|f| f.latency_us_p99).reduce(f64::max)),
        ),
    ];
    let Some(first) = runs.first().map(|r| &r.facts) else { return all };
    // The first of them say that each flow arrived.
    for (i, assertion) in first.assertions.iter().enumerate().skip(first.flows.len()) {
        let values = of(&|f| f.assertions.get(i).and_then(|a| a.value));
        all.push(Quantity::new(&assertion.text, "", values));
    }
    for (i, flow) in first.flows.iter().enumerate() {
        let values = of(&|f| f.flows.get(i).map(|f| f.received_bits_per_s));
        all.push(Quantity::new(format!("{}.received", flow.name), "bit/s", values));
        let values = of(&|f| f.flows.get(i).map(|f| f.loss));
        all.push(Quantity::new(format!("{}.loss", flow.name), "fraction", values));
        let values = of(&|f| f.flows.get(i).and_then(|f| f.latency_us_p99));
        all.push(Quantity::new(format!("{}.latency_p99", flow.name), "us", values));
    }
    all
}

/// For people: what was measured of all flows and by assertions, and of few flows each one.
fn table(quantities: &[Quantity], flows: usize) -> String {
    let of_flows = 3 * flows;
    let shown = match flows <= FLOWS_SHOWN {
        true => quantities.len(),
        false => quantities.len().saturating_sub(of_flows),
    };
    let mut rows = vec![["", "mean", "deviation", "least", "greatest"].map(String::from)];
    for q in quantities[..shown].iter().filter(|q| q.mean.is_some()) {
        let values = [q.mean, q.deviation, q.least, q.greatest].map(|v| q.text(v));
        let [mean, deviation, least, greatest] = values;
        rows.push([q.name.clone(), mean, deviation, least, greatest]);
    }
    plexus_report::aligned(&rows, |column| column > 0)
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

    #[test]
    fn a_spread_is_that_of_what_was_measured() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].map(Some).into_iter();
        let q = Quantity::new("x", "us", values.chain([None]).collect());
        assert_eq!((q.mean, q.least, q.greatest), (Some(5.0), Some(2.0), Some(9.0)));
        assert!((q.deviation.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        let one = Quantity::new("x", "us", vec![Some(1.0), None]);
        assert_eq!((one.mean, one.deviation), (Some(1.0), None));
    }
}
