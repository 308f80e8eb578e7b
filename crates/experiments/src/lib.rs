//! What the papers behind Plexus report, run again: what `plexus experiment` runs.
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
pub mod board;
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

use plexus_report::{Failure, Progress};
use serde::Serialize;

use report::Findings;

pub use record::readmes;
pub use report::Report;

/// What to run, and where its results go.
#[derive(Clone, Debug)]
pub struct Request {
    /// An experiment's name, or `all`.
    pub name: String,
    /// Shorter and fewer runs: a look, not a measurement.
    pub quick: bool,
    /// What the experiment shall look at, where it takes a file.
    pub input: Option<PathBuf>,
    /// Where pages, tables and charts are written.
    pub out: Option<PathBuf>,
    /// Where the results of a full run are kept; it has a folder for each paper.
    pub record: Option<PathBuf>,
    /// The commit that the program was built from.
    pub commit: &'static str,
}

impl Request {
    /// Whether all experiments run.
    pub fn is_all(&self) -> bool {
        self.name == "all"
    }
}

/// What came of it.
pub struct Ran {
    /// Of each experiment that ran to its end.
    pub reports: Vec<Report>,
    /// Whether all ran, and their figures are to be trusted.
    pub outcome: Result<(), Failure>,
}

/// How an experiment comes to its figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
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
    pub fn name(self) -> &'static str {
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
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// The paper, as the folder under `experiments/` is called.
    pub paper: &'static str,
    /// How it comes to its figures.
    pub kind: Kind,
    /// What it looks at.
    pub about: &'static str,
    /// What `--input` is to it, if anything.
    pub input: Option<&'static str>,
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

/// Every experiment, in the order in which they run.
pub const EXPERIMENTS: &[Experiment] = &[
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
fn check_input(request: &Request, chosen: &[Experiment]) -> Result<(), Failure> {
    let Some(path) = &request.input else { return Ok(()) };
    let takers: Vec<_> = EXPERIMENTS.iter().filter(|e| e.input.is_some()).map(|e| e.name).collect();
    match chosen {
        [one] if one.input.is_some() => fs::File::open(path)
            .map(drop)
            .map_err(|e| Failure::unusable(format!("opening {}: {e}", path.display()))),
        _ => Err(Failure::unusable(format!(
            "{} takes no --input; experiments that do, by themselves: {}",
            request.name,
            takers.join(", ")
        ))),
    }
}

/// Runs what was chosen. One that cannot run does not keep the others from it. `told` hears of each
/// that ran, as text for a person.
///
/// # Errors
/// When there is no such experiment, its input is unusable, results cannot be written, or `told`
/// fails.
pub fn run(
    request: &Request,
    told: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<Ran, Failure> {
    let experiments = chosen(&request.name)?;
    check_input(request, experiments)?;
    if let Some(directory) = &request.out {
        // Before anything has taken minutes.
        fs::create_dir_all(directory)
            .map_err(|e| Failure::unusable(format!("making {}: {e}", directory.display())))?;
    }
    let mut results = Vec::new();
    let (mut doubtful, mut unusable) = (Vec::new(), Vec::new());
    for experiment in experiments {
        let mut progress = Progress::new();
        progress.say(experiment.name);
        let input = request.input.as_deref();
        let mut setting = Setting { quick: request.quick, input, progress: &mut progress };
        let found = (experiment.run)(&mut setting);
        progress.clear();
        let named = |why: &str| format!("{}: {why}", experiment.name);
        let result = match found {
            Ok(findings) => {
                let report = Report::new(experiment, &findings, request.quick, request.commit);
                // A look is taken with whatever machine there is.
                doubtful
                    .extend(findings.doubts.iter().filter(|_| !request.quick).map(|d| named(d)));
                told(&report.text(&findings))?;
                if let Some(directory) = &request.record {
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
        if let Some(directory) = &request.out {
            files::write(directory, &results, request)?;
        }
    }
    let outcome = match (unusable.is_empty(), doubtful.is_empty()) {
        (false, _) => {
            unusable.extend(doubtful);
            Err(Failure::Unusable(unusable.join("\n")))
        }
        (true, false) => Err(Failure::No(doubtful.join("\n"))),
        (true, true) => Ok(()),
    };
    let reports = results.into_iter().filter_map(|(_, result)| result.into_report()).collect();
    Ok(Ran { reports, outcome })
}
