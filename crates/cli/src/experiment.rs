//! `plexus experiment`: runs again what the papers behind Plexus report.
//!
//! An experiment is a file below that turns a [`Setting`] into [`Findings`], and an entry in
//! [`EXPERIMENTS`]; its claim, its command and where it deviates from the paper are in the folder
//! of the paper under `experiments/`. What it needs is embedded, so that it runs from anywhere. No
//! parameter is fitted to the paper's figures.

mod axon_header;
mod axon_table1;
mod axon_table1_sim;
mod axon_vm;
mod chain;
mod plot;
mod report;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::generate::{emit, json};
use crate::progress::Progress;
use report::{Findings, Report};

/// Run again what the papers behind Plexus report.
#[derive(clap::Args)]
#[command(after_help = "Example: plexus experiment run axon-header")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Name the experiments.
    #[command(after_help = "Example: plexus experiment list")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run one, or all, and print the paper's figures beside ours.
    #[command(after_help = "\
Examples:
  plexus experiment run axon-header
  plexus experiment run axon-table1 --quick --json
  plexus experiment run all --out results

With --json one experiment is an object, all of them are a list of such.
The exit code is 1 where an experiment ran but its figures are not to be trusted.")]
    Run(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// Its name, or `all`; `plexus experiment list` names them.
    name: String,
    /// Shorter and fewer runs: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Write NAME.json, NAME.csv (every single run) and NAME.svg into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// An experiment that can be asked for by name.
#[derive(Serialize)]
struct Experiment {
    name: &'static str,
    /// The paper, as the folder under `experiments/` is called.
    paper: &'static str,
    about: &'static str,
    #[serde(skip)]
    run: fn(&mut Setting<'_>) -> Result<Findings, Failure>,
}

/// What an experiment runs with.
struct Setting<'a> {
    /// A look, not a measurement.
    quick: bool,
    progress: &'a mut Progress,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "axon-table1",
        paper: "axon",
        about: "lab: six flows between three nodes, UDP and TCP, in a line and in a ring",
        run: axon_table1::run,
    },
    Experiment {
        name: "axon-table1-sim",
        paper: "axon",
        about: "sim: the same six flows over simulated cables of 1 Gbit/s, as the paper's are",
        run: axon_table1_sim::run,
    },
    Experiment {
        name: "axon-header",
        paper: "axon",
        about: "what source routes cost, by hops and frame size: computed, and counted on cables",
        run: axon_header::run,
    },
    Experiment {
        name: "axon-vm",
        paper: "axon",
        about: "sim: real Linux hosts ping and send through simulated networks, in real time",
        run: axon_vm::run,
    },
];

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::List { json: false } => emit(&list()),
        Command::List { json: true } => emit(&json(&EXPERIMENTS)?),
        Command::Run(args) => run_chosen(args),
    }
}

fn list() -> String {
    let width = EXPERIMENTS.iter().map(|e| e.name.len()).max().unwrap_or(0);
    EXPERIMENTS.iter().map(|e| format!("{:<width$}  {}\n", e.name, e.about)).collect()
}

/// The experiments of that name: one, or all.
fn chosen(name: &str) -> Result<&'static [Experiment], Failure> {
    if name == "all" {
        return Ok(EXPERIMENTS);
    }
    let at = EXPERIMENTS.iter().position(|e| e.name == name).ok_or_else(|| {
        let known: Vec<_> = EXPERIMENTS.iter().map(|e| e.name).collect();
        let known = known.join(", ");
        Failure::unusable(format!("no experiment is called {name:?}: {known} are, or all"))
    })?;
    Ok(&EXPERIMENTS[at..=at])
}

/// Runs what was chosen. One that cannot run does not keep the others from it.
fn run_chosen(args: &RunArgs) -> Outcome {
    let experiments = chosen(&args.name)?;
    if let Some(directory) = &args.out {
        // Before anything has taken minutes.
        fs::create_dir_all(directory)
            .map_err(|e| Failure::unusable(format!("making {}: {e}", directory.display())))?;
    }
    let mut reports = Vec::new();
    let (mut doubtful, mut unusable) = (Vec::new(), Vec::new());
    for experiment in experiments {
        let mut progress = Progress::new();
        progress.say(experiment.name);
        let found = (experiment.run)(&mut Setting { quick: args.quick, progress: &mut progress });
        progress.clear();
        let named = |why: &str| format!("{}: {why}", experiment.name);
        match found {
            Ok(findings) => {
                let report = Report::new(experiment.name, &findings, args.quick);
                if let Some(directory) = &args.out {
                    write(directory, experiment.name, &report, &findings)?;
                }
                // A look is taken with whatever machine there is.
                doubtful.extend(findings.doubts.iter().filter(|_| !args.quick).map(|d| named(d)));
                if !args.json {
                    emit(&report.text(&findings))?;
                }
                reports.push(report);
            }
            Err(Failure::No(why)) => doubtful.push(named(&why)),
            Err(Failure::Unusable(why)) => unusable.push(named(&why)),
        }
    }
    match (&reports[..], args.json) {
        ([one], true) if experiments.len() == 1 => emit(&json(one)?)?,
        (_, true) if experiments.len() > 1 => emit(&json(&reports)?)?,
        _ => {}
    }
    if !unusable.is_empty() {
        unusable.extend(doubtful);
        return Err(Failure::Unusable(unusable.join("\n")));
    }
    if doubtful.is_empty() { Ok(()) } else { Err(Failure::No(doubtful.join("\n"))) }
}

/// Writes the result, every run and the plot.
fn write(directory: &Path, name: &str, report: &Report, findings: &Findings) -> Outcome {
    let plot = findings.chart.as_ref().map(plot::svg);
    let files =
        [("json", Some(json(report)?)), ("csv", Some(findings.runs.clone())), ("svg", plot)];
    for (kind, text) in files {
        let Some(text) = text else { continue };
        let path = directory.join(format!("{name}.{kind}"));
        fs::write(&path, text)
            .map_err(|e| Failure::unusable(format!("writing {}: {e}", path.display())))?;
    }
    Ok(())
}
