//! `plexus sim`: a topology file's network, simulated, and a live node's recording, played again.

mod replay;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use plexus_sim::once::{self, Request};
use plexus_sim::seeds::{self, Seeds};
use plexus_topo::Fidelity;

use crate::exit::{Failure, Outcome};
use crate::generate::stop_flag;
use crate::text::print;
use crate::web;

/// Arguments of `plexus sim`.
#[derive(Args)]
#[command(after_help = "Example: plexus sim run labs/ring.toml")]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    /// Run a file's traffic through a simulated network and check its assertions.
    ///
    /// Nodes and controller are the code of the daemons; hosts, cables and time are simulated. The
    /// same file and seed give the same run, event by event. Equal digests show that.
    #[command(after_help = "\
Examples:
  plexus sim run labs/ring.toml --seed 7 --json
  plexus sim run sims/fat-tree.toml --seeds 1..20
  plexus sim run sims/questions.toml --fidelity control
  plexus sim run sims/named-data.toml --json | jq .sim.named
  plexus lab run labs/ring.toml --json > real.json
  plexus sim run labs/ring.toml --against real.json
                  model and reality side by side
  plexus sim run labs/ring.toml --web
                  watch it in a browser, at http://127.0.0.1:8440/
  plexus sim run labs/ring.toml --attach h1=tap:vm1 --attach h3=tap:vm3
                  what is behind these devices talks through the simulated ring, in real time; for
                  the host's lease it takes the host's Ethernet address (`mac` in the file)")]
    Run(RunArgs),
    /// Play a live node's recorded inputs into a new one, and compare its outputs, byte by byte.
    ///
    /// A fabric node whose file has `record = "FILE"` writes down every input of its control plane
    /// and every output. Exit code 1: an output differs, and the answer says where.
    #[command(after_help = "Example: plexus sim replay n1.record --identity n1.identity")]
    Replay(replay::ReplayArgs),
}

#[derive(Args)]
struct RunArgs {
    /// The topology file, as for plexus lab.
    file: PathBuf,
    /// The seed of everything random, instead of the file's.
    #[arg(long)]
    seed: Option<u64>,
    /// Run it with every seed from A to B on all processors, and print means and spreads.
    #[arg(long, value_name = "A..B", conflicts_with_all = [
        "seed", "out", "against", "attach",
    ])]
    seeds: Option<Seeds>,
    /// full: with queues; control: control messages alone, in order on each cable but without
    /// queues, and the file's traffic is left out. Otherwise as the file says.
    #[arg(long, value_parser = fidelity, value_name = "full|control")]
    fidelity: Option<Fidelity>,
    /// Print the result as JSON: what plexus lab run prints, and what the engine did; of nodes
    /// that forward named data, where every Interest and Data went.
    #[arg(long)]
    json: bool,
    /// Say by how much the rates differ from those of another run of the file: what plexus lab run
    /// --json has printed, or plexus sim run --json.
    #[arg(long, value_name = "REPORT.json")]
    against: Option<PathBuf>,
    /// Put a device of this machine in the place of a host, and run in real time: tap makes or
    /// takes a TAP device, af_packet one that is there. The host's flows are left out.
    #[arg(long, value_name = "HOST=BACKEND:DEVICE", conflicts_with = "against")]
    attach: Vec<String>,
    /// How long a run in real time lasts, as in 60s; otherwise it lasts until Ctrl-C.
    #[arg(long = "for", value_name = "TIME", requires = "attach")]
    lasts: Option<String>,
    /// Serve a page that shows the network and drives its clock, until Ctrl-C: the run goes at a
    /// person's pace, can be paused, and its cables break by a click.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true,
        default_missing_value = web::USUAL, value_parser = web::address,
        conflicts_with_all = ["seeds", "attach", "against"])]
    web: Option<SocketAddr>,
    /// Write report.json and links.csv (what left by each end of each cable) here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn fidelity(text: &str) -> Result<Fidelity, String> {
    let known = Fidelity::NAMES.iter().find(|(name, _)| *name == text);
    known.map(|(_, fidelity)| *fidelity).ok_or_else(|| "write full or control".to_string())
}

/// Runs `plexus sim`.
pub(crate) fn run(args: SimArgs) -> Outcome {
    match args.command {
        SimCommand::Run(args) => run_file(&args),
        SimCommand::Replay(args) => replay::run(&args),
    }
}

fn run_file(args: &RunArgs) -> Outcome {
    let stopped = stop_flag()?;
    if let Some(seeds) = args.seeds {
        let found = seeds::run(&args.file, seeds, args.fidelity, &stopped)?;
        match args.json {
            true => print(&format!("{}\n", found.json()))?,
            false => print(&found.to_string())?,
        }
        return if found.passed() { Ok(()) } else { Err(Failure::No(String::new())) };
    }
    let request = Request {
        file: &args.file,
        seed: args.seed,
        fidelity: args.fidelity,
        against: args.against.as_deref(),
        attach: &args.attach,
        lasts: args.lasts.as_deref(),
        web: args.web,
        out: args.out.as_deref(),
    };
    let ran = once::run(&request, &stopped)?;
    match args.json {
        true => print(&format!("{}\n", ran.facts))?,
        false => print(&ran.to_string())?,
    }
    if ran.report.facts.passed { Ok(()) } else { Err(Failure::No(String::new())) }
}
