//! `plexus lab`: a whole network on this machine.

mod shell;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use plexus_analysis::exchange;
use plexus_config::{LaneChoice, WebSettings};
use plexus_lab::{Launch, NodeProgram, Part, RunReport, Up};
use plexus_report::{Progress, say};
use plexus_topo::Topology;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::{Failure, Outcome};
use crate::text::print;
use crate::web;

/// Arguments of `plexus lab`.
#[derive(Args)]
#[command(after_help = "Example: plexus lab run labs/switch.toml")]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Build the lab of a topology file; it stays until `plexus lab down`.
    #[command(after_help = "\
Examples:
  plexus lab up labs/switch.toml
  plexus lab up labs/demo-fabric.toml --web
                  and show it in a browser, at http://127.0.0.1:8440/, until Ctrl-C
  plexus lab up labs/demo-fabric.toml --prometheus
                  and have Prometheus watch all daemons, at http://127.0.0.1:9090/, until Ctrl-C

On several machines, each with the same file and the same secret:
  (umask 077; openssl rand -hex 32 > lab.secret)                              # once; copy it
  plexus lab up labs/two-machines.toml --machine left --secret lab.secret     # on the first
  plexus lab up labs/two-machines.toml --machine right --secret lab.secret    # on the second")]
    Up {
        #[command(flatten)]
        file: FileArgs,
        /// Build the part of the lab that this [[machine]] of the file has; others have the rest.
        #[arg(long, value_name = "NAME", requires = "secret")]
        machine: Option<String>,
        /// The file of a secret that all machines have, by which they make the same identities:
        /// 64 hexadecimal digits that only its owner can read.
        #[arg(long, value_name = "FILE", requires = "machine")]
        secret: Option<PathBuf>,
        /// Serve a page that shows the lab, until Ctrl-C.
        #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true,
            default_missing_value = web::USUAL, value_parser = web::address)]
        web: Option<SocketAddr>,
        /// Start Prometheus, which watches all daemons, until Ctrl-C.
        #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true,
            default_missing_value = "127.0.0.1:9090", value_parser = web::address)]
        prometheus: Option<SocketAddr>,
    },
    /// Run a file's traffic and check its assertions, in a lab that is up or in one for the run.
    #[command(after_help = "Example: plexus lab run labs/switch.toml --json")]
    Run {
        #[command(flatten)]
        file: FileArgs,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List all labs, or show one with its devices and links.
    #[command(after_help = "Example: plexus lab status switch")]
    Status {
        /// A lab's name or file; all labs if left out.
        #[arg(add = ArgValueCandidates::new(labs))]
        lab: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// End a lab, or all of this user's, and remove what killed ones left.
    #[command(after_help = "Example: plexus lab down switch")]
    Down {
        /// A lab's name or file.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        #[arg(add = ArgValueCandidates::new(labs))]
        lab: Option<String>,
        /// Every lab of this user.
        #[arg(long)]
        all: bool,
    },
    /// Run a command inside a host, node or bridge of a lab; its exit code is the command's.
    #[command(after_help = "Example: plexus lab exec switch h1 -- ping -c1 10.0.0.2")]
    Exec {
        /// A lab's name or file.
        #[arg(add = ArgValueCandidates::new(labs))]
        lab: String,
        /// A host, node or bridge of it.
        #[arg(add = ArgValueCandidates::new(places))]
        place: String,
        /// The command and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Give commands to a lab: pingall, iperf, link down, or any command inside a device.
    #[command(after_help = "Examples:\n  plexus lab shell switch\n  \
                            plexus lab shell switch -c pingall -c 'h1 ping -c3 h2'")]
    Shell(shell::Shell),
    /// Draw the topology of a lab as SVG.
    #[command(after_help = "Example: plexus lab graph switch > switch.svg")]
    Graph {
        /// A lab's name.
        #[arg(add = ArgValueCandidates::new(labs))]
        lab: String,
    },
    /// The process behind a lab, which `up` and `run` start.
    #[command(hide = true)]
    Supervise,
}

#[derive(Args)]
struct FileArgs {
    /// The topology file.
    file: PathBuf,
    /// What moves frames in the nodes: Plexus, or the Linux bridge to compare it with.
    #[arg(long, value_enum, default_value_t = Program::Plexus)]
    node_program: Program,
    /// How flows of a fabric choose a lane, instead of what the file says.
    #[arg(long, value_enum)]
    lanes: Option<Lanes>,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Lanes {
    /// By the destination's port.
    Static,
    /// By the hash of the flow.
    PerFlow,
    /// The lane with the least load when the flow begins.
    LeastLoaded,
}

#[derive(Clone, Copy, ValueEnum)]
enum Program {
    Plexus,
    Bridge,
}

impl FileArgs {
    fn launch(self) -> Launch {
        let node_program = match self.node_program {
            Program::Plexus => NodeProgram::Plexus,
            Program::Bridge => NodeProgram::Bridge,
        };
        let lanes = self.lanes.map(|lanes| match lanes {
            Lanes::Static => LaneChoice::Static,
            Lanes::PerFlow => LaneChoice::PerFlow,
            Lanes::LeastLoaded => LaneChoice::LeastLoaded,
        });
        Launch { file: self.file, node_program, lanes, part: None }
    }
}

/// The labs that are up, for completion.
fn labs() -> Vec<CompletionCandidate> {
    let all = plexus_lab::list().unwrap_or_default();
    let up = all.into_iter().filter(|listed| listed.alive);
    up.map(|listed| CompletionCandidate::new(listed.lab)).collect()
}

/// Hosts and nodes of the labs that are up, for completion.
fn places() -> Vec<CompletionCandidate> {
    let all = plexus_lab::list().unwrap_or_default();
    let states = all.into_iter().filter(|listed| listed.alive).filter_map(|listed| listed.state);
    let names = states.flat_map(|state| [state.hosts, state.nodes].concat());
    names.map(CompletionCandidate::new).collect()
}

/// Runs `plexus lab`.
pub(crate) fn run(args: LabArgs) -> Outcome {
    match args.command {
        LabCommand::Up { file, machine, secret, web, prometheus } => {
            let part = machine.zip(secret).map(|(machine, secret)| Part { machine, secret });
            up(&Launch { part, ..file.launch() }, web, prometheus)
        }
        LabCommand::Run { file, json } => run_traffic(&file.launch(), json),
        LabCommand::Status { lab, json } => status(lab.as_deref(), json),
        LabCommand::Down { lab, all: _ } => down(lab.as_deref()),
        LabCommand::Exec { lab, place, command } => exec(&lab, &place, &command),
        LabCommand::Shell(shell) => shell.run(),
        LabCommand::Graph { lab } => print(&drawing(&plexus_lab::status(&name_of(&lab)?)?.file)?),
        LabCommand::Supervise => std::process::exit(plexus_lab::supervise()),
    }
}

/// A lab's name from a name or the path of a file.
fn name_of(lab: &str) -> Result<String, Failure> {
    plexus_lab::name_of(lab).map_err(Failure::unusable)
}

/// A topology file's drawing.
fn drawing(file: &Path) -> Result<String, Failure> {
    let topology = Topology::read(file).map_err(Failure::unusable)?;
    exchange::svg(&topology).map_err(Failure::unusable)
}

fn up(launch: &Launch, web: Option<SocketAddr>, prometheus: Option<SocketAddr>) -> Outcome {
    let mut progress = Progress::new();
    let made = plexus_lab::up(launch, &mut |text| progress.say(text));
    progress.clear();
    let (made, name) = made.map_err(Failure::unusable)?;
    match made {
        Up::Made => say!("lab {name} is up"),
        Up::Already => say!("lab {name} is up already"),
    }
    if web.is_none() && prometheus.is_none() {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|e| Failure::unusable(format!("waiting for signals: {e}")))?;
    if let Some(address) = web {
        let page = plexus_lab::serve_page(&name, &WebSettings::new(address));
        say!("the page is at {} until Ctrl-C", page.map_err(Failure::unusable)?.url);
    }
    let watching = prometheus.map(|at| plexus_lab::start_prometheus(&name, at).map(|p| (p, at)));
    let watching = watching.transpose().map_err(Failure::unusable)?;
    if let Some((_, at)) = &watching {
        say!("Prometheus is at http://{at}/ until Ctrl-C");
    }
    signals.forever().next();
    drop(watching);
    say!("the lab stays: plexus lab down {name}");
    Ok(())
}

fn run_traffic(launch: &Launch, json: bool) -> Outcome {
    let mut progress = Progress::new();
    let report = plexus_lab::run_file(launch, &mut |text| progress.say(text));
    progress.clear();
    let report = report.map_err(Failure::unusable)?;
    print_report(&report, json)?;
    if report.facts.passed { Ok(()) } else { Err(Failure::No(String::new())) }
}

fn print_report(report: &RunReport, json: bool) -> Outcome {
    let text = if json { as_json(&report.facts)? } else { report.to_string() };
    print(&format!("{text}\n"))
}

fn status(lab: Option<&str>, json: bool) -> Outcome {
    let text = match lab {
        Some(lab) => {
            let status = plexus_lab::status(&name_of(lab)?)?;
            if json { as_json(&status)? } else { status.to_string() }
        }
        None => {
            let all = plexus_lab::list().map_err(Failure::unusable)?;
            match json {
                true => as_json(&all)?,
                false if all.is_empty() => "no labs".into(),
                false => all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            }
        }
    };
    print(&format!("{text}\n"))
}

fn as_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(Failure::unusable)
}

fn down(lab: Option<&str>) -> Outcome {
    let names = match lab {
        Some(lab) => vec![name_of(lab)?],
        None => {
            let all = plexus_lab::list().map_err(Failure::unusable)?;
            all.into_iter().map(|l| l.lab).collect()
        }
    };
    for name in &names {
        match plexus_lab::down(name).map_err(Failure::unusable)? {
            true => say!("lab {name} is down"),
            // It was killed. Listing it has removed what it left.
            false if lab.is_none() => say!("lab {name} is gone"),
            false => return Err(Failure::No(format!("no lab named {name:?} is up"))),
        }
    }
    if names.is_empty() {
        say!("no labs");
    }
    Ok(())
}

fn exec(lab: &str, place: &str, command: &[String]) -> Outcome {
    let name = name_of(lab)?;
    let code = plexus_lab::exec(&name, place, command).map_err(Failure::unusable)?;
    std::process::exit(code)
}
