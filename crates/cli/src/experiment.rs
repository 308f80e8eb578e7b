//! `plexus experiment`: runs what [`plexus_experiments`] holds.

use std::path::PathBuf;

use plexus_experiments::{EXPERIMENTS, Experiment, Ran, Request, readmes};
use plexus_report::json;

use crate::exit::Outcome;
use crate::text::print;

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
  plexus experiment run axon-cam --input trace.pcapng
  plexus experiment run all --out results

With --out each experiment leaves NAME.html, a page that stands alone, and beside it NAME.json,
NAME.csv (every single run) and its charts as NAME-fig1.svg, .png and .csv; `all` leaves index.html
as well. With --json one experiment is an object, all of them are a list of such.
The exit code is 1 where an experiment ran but its figures are not to be trusted.")]
    Run(RunArgs),
    /// Write recorded results into the READMEs of the papers' folders.
    #[command(after_help = "\
Example:
  sudo plexus experiment run all --record experiments
  plexus experiment readme experiments

`run --record DIR` keeps each full run as DIR/PAPER/results/NAME.json. This renders the findings in
DIR/PAPER/README.md from these files. --check writes nothing; its exit code is 1 if a README differs
from its results.")]
    Readme(ReadmeArgs),
}

#[derive(clap::Args)]
struct ReadmeArgs {
    /// The directory with a folder for each paper.
    directory: PathBuf,
    /// Compare only.
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct RunArgs {
    /// Its name, or `all`; `plexus experiment list` names them.
    name: String,
    /// Shorter and fewer runs: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// The file that the experiment reads, if it takes one; the list says which do.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Write pages, tables and charts into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the results of a full run in this directory, which has a folder for each paper.
    #[arg(long, value_name = "DIR", conflicts_with = "quick")]
    record: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::List { json: false } => print(&list()),
        Command::List { json: true } => print(&json(&EXPERIMENTS)?),
        Command::Run(args) => run_chosen(args),
        Command::Readme(args) => {
            let rendered = readmes(&args.directory, args.check)?;
            let lines = rendered.iter().map(|path| format!("{}: rendered\n", path.display()));
            print(&lines.collect::<String>())
        }
    }
}

fn list() -> String {
    let width = |text: fn(&Experiment) -> &str| {
        EXPERIMENTS.iter().map(|e| text(e).len()).max().unwrap_or(0)
    };
    let (name, kind) = (width(|e| e.name), width(|e| e.kind.name()));
    let line = |e: &Experiment| {
        let first = format!("{:<name$}  {:<kind$}  {}\n", e.name, e.kind.name(), e.about);
        let input = e.input.map(|i| format!("{:<name$}  {:<kind$}  --input FILE: {i}\n", "", ""));
        first + &input.unwrap_or_default()
    };
    EXPERIMENTS.iter().map(line).collect()
}

fn run_chosen(args: &RunArgs) -> Outcome {
    let request = Request {
        name: args.name.clone(),
        quick: args.quick,
        input: args.input.clone(),
        out: args.out.clone(),
        record: args.record.clone(),
        commit: env!("PLEXUS_COMMIT"),
        profile: env!("PLEXUS_PROFILE"),
    };
    let mut told = |text: &str| if args.json { Ok(()) } else { print(text) };
    let Ran { reports, outcome } = plexus_experiments::run(&request, &mut told)?;
    match (&reports[..], args.json) {
        ([one], true) if !request.is_all() => print(&json(one)?)?,
        (_, true) if request.is_all() => print(&json(&reports)?)?,
        _ => {}
    }
    outcome
}
