//! `plexus experiment`: runs again what the papers behind Plexus report.
//!
//! An experiment is a file below that turns a [`Setting`] into [`Findings`], and an entry in
//! [`EXPERIMENTS`]; its claim, its command and where it deviates from the paper are in the folder
//! of the paper under `experiments/`. What it needs is embedded, so that it runs from anywhere. No
//! parameter is fitted to the paper's figures.

mod about;
mod aurora;
mod aurora_link;
mod aurora_load;
mod aurora_throughput;
mod axon_cam;
mod axon_discovery;
mod axon_header;
mod axon_latency;
mod axon_overhead;
mod axon_portland;
mod axon_postmark;
mod axon_table1;
mod axon_table1_sim;
mod axon_table2;
mod axon_vm;
mod boxes;
mod butterfly_16;
mod butterfly_scale;
mod chain;
mod ethernet;
mod fabric_cost;
mod files;
mod ndn_batch;
mod ndn_linerate;
mod ndn_probe;
mod ndn_rig;
mod ndn_web;
mod own_hop;
mod page;
mod plot;
mod record;
mod report;
mod router_bench;
mod router_linux_click;
mod router_single;
mod side_by_side;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};

use plexus_report::Progress;
use plexus_report::json;
use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::generate::emit;
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
    /// What the experiment shall look at, where it takes a file; the list says which.
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

impl RunArgs {
    fn is_all(&self) -> bool {
        self.name == "all"
    }
}

/// How an experiment comes to its figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Real hosts and nodes in namespaces.
    Lab,
    /// The simulator.
    Sim,
    /// Formulae, and what confirms them.
    Model,
    /// Packets, recorded or generated, that are looked at.
    Trace,
    /// Our own library in this process, on this machine's disk.
    Bench,
}

impl Kind {
    /// For a person.
    fn name(self) -> &'static str {
        match self {
            Kind::Lab => "lab",
            Kind::Sim => "sim",
            Kind::Model => "model",
            Kind::Trace => "trace",
            Kind::Bench => "bench",
        }
    }
}

/// An experiment that can be asked for by name.
#[derive(Serialize)]
struct Experiment {
    name: &'static str,
    /// The paper, as the folder under `experiments/` is called.
    paper: &'static str,
    kind: Kind,
    about: &'static str,
    /// What `--input` is to it, if anything.
    input: Option<&'static str>,
    #[serde(skip)]
    run: fn(&mut Setting<'_>) -> Result<Findings, Failure>,
}

/// What an experiment runs with.
struct Setting<'a> {
    /// A look, not a measurement.
    quick: bool,
    /// The file of `--input`, only for experiments that say that they take one.
    input: Option<&'a Path>,
    progress: &'a mut Progress,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "axon-table1",
        paper: "axon",
        kind: Kind::Lab,
        about: "six flows between three nodes, UDP and TCP, in a line and in a ring",
        input: None,
        run: axon_table1::run,
    },
    Experiment {
        name: "axon-table1-sim",
        paper: "axon",
        kind: Kind::Sim,
        about: "the same six flows over simulated cables of 1 Gbit/s, as the paper's are",
        input: None,
        run: axon_table1_sim::run,
    },
    Experiment {
        name: "axon-latency",
        paper: "axon",
        kind: Kind::Sim,
        about: "what each box on the way adds: cut-through against store-and-forward",
        input: None,
        run: axon_latency::run,
    },
    Experiment {
        name: "axon-postmark",
        paper: "axon",
        kind: Kind::Sim,
        about: "a file server's small requests over one to five boxes, Axons or switches",
        input: None,
        run: axon_postmark::run,
    },
    Experiment {
        name: "axon-header",
        paper: "axon",
        kind: Kind::Model,
        about: "what source routes cost, by hops and frame size: computed, and counted on cables",
        input: None,
        run: axon_header::run,
    },
    Experiment {
        name: "axon-overhead",
        paper: "axon",
        kind: Kind::Sim,
        about: "control messages on each link, by hosts and topology, to 50,000 hosts",
        input: None,
        run: axon_overhead::run,
    },
    Experiment {
        name: "axon-discovery",
        paper: "axon",
        kind: Kind::Sim,
        about: "what it takes until the controller knows 5,000 nodes and 10,000 links",
        input: None,
        run: axon_discovery::run,
    },
    Experiment {
        name: "axon-table2",
        paper: "axon",
        kind: Kind::Sim,
        about: "shortest paths and SPAIN's: routes over each link, and what a failed link costs",
        input: None,
        run: axon_table2::run,
    },
    Experiment {
        name: "axon-portland",
        paper: "axon",
        kind: Kind::Sim,
        about: "control messages of PortLand and of a flooding Ethernet beside ours",
        input: None,
        run: axon_portland::run,
    },
    Experiment {
        name: "axon-cam",
        paper: "axon",
        kind: Kind::Trace,
        about: "how large a route memory must be: reuse of destinations in packet traces",
        input: Some("a capture, pcap or pcapng, to look at besides generated traces"),
        run: axon_cam::run,
    },
    Experiment {
        name: "aurora-link",
        paper: "netfpga-aurora",
        kind: Kind::Sim,
        about: "what the serial link between two boards carries, by frame size",
        input: None,
        run: aurora_link::run,
    },
    Experiment {
        name: "aurora-throughput",
        paper: "netfpga-aurora",
        kind: Kind::Sim,
        about: "the eight-port switch of two boards under the traffic of table 3",
        input: None,
        run: aurora_throughput::run,
    },
    Experiment {
        name: "aurora-load",
        paper: "netfpga-aurora",
        kind: Kind::Sim,
        about: "what that switch loses, by offered load",
        input: None,
        run: aurora_load::run,
    },
    Experiment {
        name: "butterfly-16",
        paper: "netfpga-aurora",
        kind: Kind::Sim,
        about: "the 16-port dilated flattened butterfly of eight boards",
        input: None,
        run: butterfly_16::run,
    },
    Experiment {
        name: "butterfly-scale",
        paper: "netfpga-aurora",
        kind: Kind::Model,
        about: "dilated butterflies to 1,024 ports, beside Clos and undilated ones",
        input: None,
        run: butterfly_scale::run,
    },
    Experiment {
        name: "axon-vm",
        paper: "axon",
        kind: Kind::Lab,
        about: "real Linux hosts ping and send through simulated networks, in real time",
        input: None,
        run: axon_vm::run,
    },
    Experiment {
        name: "router-single",
        paper: "distributed-router",
        kind: Kind::Lab,
        about: "one router: frame sizes, flows, tables from 10 routes to the whole Internet's",
        input: None,
        run: router_single::run,
    },
    Experiment {
        name: "router-linux-click",
        paper: "distributed-router",
        kind: Kind::Lab,
        about: "the same packets through Linux forwarding, Plexus and, if installed, Click",
        input: None,
        run: router_linux_click::run,
    },
    Experiment {
        name: "ndn-linerate",
        paper: "augustus",
        kind: Kind::Lab,
        about: "a router of named data with two caches: by the size of memory and by disks",
        input: Some("a directory on a second disk, for the second file of L2"),
        run: ndn_linerate::run,
    },
    Experiment {
        name: "ndn-batch",
        paper: "augustus",
        kind: Kind::Bench,
        about: "batches of 1 to 64 packets, with and without reading a chunk's batch ahead",
        input: None,
        run: ndn_batch::run,
    },
    Experiment {
        name: "ndn-web",
        paper: "augustus",
        kind: Kind::Lab,
        about: "web objects fetched by name through the router's caches, by requests",
        input: None,
        run: ndn_web::run,
    },
];

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::List { json: false } => emit(&list()),
        Command::List { json: true } => emit(&json(&EXPERIMENTS)?),
        Command::Run(args) => run_chosen(args),
        Command::Readme(args) => record::readmes(&args.directory, args.check),
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

/// Refuses an input that nobody would look at, before anything runs.
fn check_input(args: &RunArgs, chosen: &[Experiment]) -> Outcome {
    let Some(path) = &args.input else { return Ok(()) };
    let takers: Vec<_> = EXPERIMENTS.iter().filter(|e| e.input.is_some()).map(|e| e.name).collect();
    match chosen {
        [one] if one.input.is_some() => fs::File::open(path)
            .map(drop)
            .map_err(|e| Failure::unusable(format!("opening {}: {e}", path.display()))),
        _ => Err(Failure::unusable(format!(
            "{} takes no --input; experiments that do, by themselves: {}",
            args.name,
            takers.join(", ")
        ))),
    }
}

/// Runs what was chosen. One that cannot run does not keep the others from it.
fn run_chosen(args: &RunArgs) -> Outcome {
    let experiments = chosen(&args.name)?;
    check_input(args, experiments)?;
    if let Some(directory) = &args.out {
        // Before anything has taken minutes.
        fs::create_dir_all(directory)
            .map_err(|e| Failure::unusable(format!("making {}: {e}", directory.display())))?;
    }
    let mut results = Vec::new();
    let (mut doubtful, mut unusable) = (Vec::new(), Vec::new());
    for experiment in experiments {
        let mut progress = Progress::new();
        progress.say(experiment.name);
        let input = args.input.as_deref();
        let mut setting = Setting { quick: args.quick, input, progress: &mut progress };
        let found = (experiment.run)(&mut setting);
        progress.clear();
        let named = |why: &str| format!("{}: {why}", experiment.name);
        let result = match found {
            Ok(findings) => {
                let report = Report::new(experiment, &findings, args.quick);
                // A look is taken with whatever machine there is.
                doubtful.extend(findings.doubts.iter().filter(|_| !args.quick).map(|d| named(d)));
                if !args.json {
                    emit(&report.text(&findings))?;
                }
                if let Some(directory) = &args.record {
                    record::keep(directory, experiment, &report)?;
                }
                page::Outcome::Ran(report, findings.into())
            }
            Err(Failure::No(why)) => {
                doubtful.push(named(&why));
                page::Outcome::Failed(why)
            }
            Err(Failure::Unusable(why)) => {
                unusable.push(named(&why));
                page::Outcome::Failed(why)
            }
        };
        results.push((experiment, result));
        if let Some(directory) = &args.out {
            files::write(directory, &results, args)?;
        }
    }
    let reports: Vec<&Report> = results.iter().filter_map(|(_, result)| result.report()).collect();
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
