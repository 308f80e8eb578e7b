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
mod coproc_active;
mod coproc_cpu;
mod coproc_rig;
mod coproc_tfor;
mod deepbuf;
mod deepbuf_flash;
mod deepbuf_long;
mod ethernet;
mod fabric_cost;
mod files;
mod lowrate_attack;
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
mod rig;
mod router_bench;
mod router_cut;
mod router_double;
mod router_group;
mod router_linux_click;
mod router_single;
mod router_star;
mod router_two_stage;
mod side_by_side;
mod simulate;
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
    /// The profile that it was built by.
    pub profile: &'static str,
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
    run: Run,
}

type Run = fn(&mut Setting<'_>) -> Result<Findings, Failure>;

impl Experiment {
    const fn about(self, about: &'static str) -> Experiment {
        Experiment { about, ..self }
    }

    const fn input(self, input: &'static str) -> Experiment {
        Experiment { input: Some(input), ..self }
    }
}

/// What an experiment runs with.
struct Setting<'a> {
    /// A look, not a measurement.
    quick: bool,
    /// The file of `--input`, only for experiments that say that they take one.
    input: Option<&'a Path>,
    progress: &'a mut Progress,
}

const fn experiment(paper: &'static str, kind: Kind, name: &'static str, run: Run) -> Experiment {
    Experiment { name, paper, kind, about: "", input: None, run }
}

const AXON: &str = "axon";
const AURORA: &str = "netfpga-aurora";
const ROUTER: &str = "distributed-router";
const AUGUSTUS: &str = "augustus";
const COPROC: &str = "traffic-coprocessor";

/// Every experiment, in the order in which they run.
pub const EXPERIMENTS: &[Experiment] = &[
    experiment(AXON, Kind::Lab, "axon-table1", axon_table1::run)
        .about("six flows between three nodes, UDP and TCP, in a line and in a ring"),
    experiment(AXON, Kind::Sim, "axon-table1-sim", axon_table1_sim::run)
        .about("the same six flows over simulated cables of 1 Gbit/s, as the paper's are"),
    experiment(AXON, Kind::Sim, "axon-latency", axon_latency::run)
        .about("what each box on the way adds: cut-through against store-and-forward"),
    experiment(AXON, Kind::Sim, "axon-postmark", axon_postmark::run)
        .about("a file server's small requests over one to five boxes, Axons or switches"),
    experiment(AXON, Kind::Model, "axon-header", axon_header::run)
        .about("what source routes cost, by hops and frame size: computed, and counted on cables"),
    experiment(AXON, Kind::Sim, "axon-overhead", axon_overhead::run)
        .about("control messages on each link, by hosts and topology, to 50,000 hosts"),
    experiment(AXON, Kind::Sim, "axon-discovery", axon_discovery::run)
        .about("what it takes until the controller knows 5,000 nodes and 10,000 links"),
    experiment(AXON, Kind::Sim, "axon-table2", axon_table2::run)
        .about("shortest paths and SPAIN's: routes over each link, and what a failed link costs"),
    experiment(AXON, Kind::Sim, "axon-portland", axon_portland::run)
        .about("control messages of PortLand and of a flooding Ethernet beside ours"),
    experiment(AXON, Kind::Trace, "axon-cam", axon_cam::run)
        .about("how large a route memory must be: reuse of destinations in packet traces")
        .input("a capture, pcap or pcapng, to look at besides generated traces"),
    experiment(AURORA, Kind::Sim, "aurora-link", aurora_link::run)
        .about("what the serial link between two boards carries, by frame size"),
    experiment(AURORA, Kind::Sim, "aurora-throughput", aurora_throughput::run)
        .about("the eight-port switch of two boards under the traffic of table 3"),
    experiment(AURORA, Kind::Sim, "aurora-load", aurora_load::run)
        .about("what that switch loses, by offered load"),
    experiment(AURORA, Kind::Sim, "butterfly-16", butterfly_16::run)
        .about("the 16-port dilated flattened butterfly of eight boards"),
    experiment(AURORA, Kind::Model, "butterfly-scale", butterfly_scale::run)
        .about("dilated butterflies to 1,024 ports, beside Clos and undilated ones"),
    experiment(AXON, Kind::Lab, "axon-vm", axon_vm::run)
        .about("real Linux hosts ping and send through simulated networks, in real time"),
    experiment(ROUTER, Kind::Lab, "router-single", router_single::run)
        .about("one router: frame sizes, flows, tables from 10 routes to the whole Internet's"),
    experiment(ROUTER, Kind::Lab, "router-star", router_star::run)
        .about("one router from one, two and four boxes of equal quotas of processor time"),
    experiment(ROUTER, Kind::Lab, "router-double", router_double::run)
        .about("the paper's star, in which two boxes route, beside the group, in which one does"),
    experiment(ROUTER, Kind::Lab, "router-two-stage", router_two_stage::run)
        .about("boxes that balance in front of boxes that route: numbers, weights, a lost box"),
    experiment(ROUTER, Kind::Lab, "router-linux-click", router_linux_click::run)
        .about("the same packets through Linux forwarding, Plexus and, if installed, Click"),
    experiment(AUGUSTUS, Kind::Lab, "ndn-linerate", ndn_linerate::run)
        .about("a router of named data with two caches: by the size of memory and by disks")
        .input("a directory on a second disk, for the second file of L2"),
    experiment(AUGUSTUS, Kind::Bench, "ndn-batch", ndn_batch::run)
        .about("batches of 1 to 64 packets, with and without reading a chunk's batch ahead"),
    experiment(AUGUSTUS, Kind::Lab, "ndn-web", ndn_web::run)
        .about("web objects fetched by name through the router's caches, by requests"),
    experiment(COPROC, Kind::Model, "coproc-tfor", coproc_tfor::run)
        .about("traffic that a table of 1,792 rules takes off the CPU, by policy and flow sizes"),
    experiment(COPROC, Kind::Lab, "coproc-cpu", coproc_cpu::run)
        .about("100,000 flows of real frames through one worker without a fast table"),
    experiment(COPROC, Kind::Trace, "coproc-active", coproc_active::run)
        .about("active flows, and the traffic of the largest 2,048 and 4,096 of each second")
        .input("a capture, pcap or pcapng, to look at besides generated flows"),
    experiment(COPROC, Kind::Sim, "deepbuf-flash", deepbuf_flash::run)
        .about("a crowd of requests over one cable: a switch with and without a deep buffer"),
    experiment(COPROC, Kind::Sim, "deepbuf-long", deepbuf_long::run)
        .about("long TCP flows through a deep buffer: throughput, and the order of packets"),
    experiment(COPROC, Kind::Sim, "lowrate-attack", lowrate_attack::run)
        .about("short bursts against a TCP flow, without and with the defence, and false alarms"),
];

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
                    record::keep(directory, experiment, &report, request.profile)?;
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
