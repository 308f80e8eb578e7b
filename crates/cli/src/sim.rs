//! `plexus sim`: a topology file's network, simulated.

mod seeds;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use plexus_report::RunReport;
use plexus_sim::{Sim, Work, memory_estimate};
use plexus_topo::Topology;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Failure, Outcome};
use crate::memory;
use crate::progress::Progress;

/// How often a person is told how far a run is.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

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
    /// same file and seed give the same run, event by event: the digest says whether they did.
    #[command(after_help = "\
Examples:
  plexus sim run labs/ring.toml --seed 7 --json
  plexus sim run sims/fat-tree.toml --seeds 1..20")]
    Run(RunArgs),
}

#[derive(Args)]
struct RunArgs {
    /// The topology file, as for plexus lab.
    file: PathBuf,
    /// Where everything random starts, instead of what the file says.
    #[arg(long)]
    seed: Option<u64>,
    /// Run it with every seed from A to B on all processors, and print means and spreads.
    #[arg(long, value_name = "A..B", conflicts_with_all = ["seed", "out"])]
    seeds: Option<seeds::Seeds>,
    /// Print the result as JSON: what plexus lab run prints, and what the engine did.
    #[arg(long)]
    json: bool,
    /// Write report.json and links.csv (what left by each end of each cable) here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs `plexus sim`.
pub(crate) fn run(args: SimArgs) -> Outcome {
    let SimCommand::Run(args) = args.command;
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stopped.clone())
            .map_err(|e| Failure::unusable(format!("waiting for signals: {e}")))?;
    }
    if let Some(seeds) = args.seeds {
        return seeds::run(&args.file, seeds, args.json, &stopped);
    }
    let topology = Topology::read_seeded(&args.file, args.seed).map_err(Failure::unusable)?;
    let unusable = |e: String| Failure::unusable(format!("{}: {e}", args.file.display()));
    check_memory(&topology, 1).map_err(unusable)?;
    let seed = topology.seed;
    let started = Instant::now();
    let mut progress = Progress::new();
    let (mut said, mut is_running) = (Duration::ZERO, false);
    let sim = simulate(&topology, seed, |sim| {
        // Before it is said that traffic runs: who stops it then sees some.
        let go_on = !stopped.load(Ordering::Relaxed);
        if !is_running && sim.share_done().is_some() {
            is_running = true;
            progress.say("the network has found itself, traffic runs");
        }
        if progress.is_seen() && started.elapsed() >= said + PROGRESS_EVERY {
            said = started.elapsed();
            let speed = speed(&sim.work(), started);
            match sim.share_done() {
                Some(share) => progress.share(share, &speed),
                None => progress.detail(&format!("the network finds itself: {speed}")),
            }
        }
        go_on
    });
    progress.clear();
    let sim = sim.map_err(unusable)?;
    let (work, speed) = (sim.work(), speed(&sim.work(), started));
    let links = args.out.is_some().then(|| links_csv(&sim));
    let mut report = sim.report();
    if stopped.load(Ordering::Relaxed) {
        report.notes.push("interrupted: this is what was known by then".into());
        report.facts.passed = false;
    }
    let facts = facts(&report, &work, seed)?;
    if let Some(dir) = &args.out {
        write(dir, &facts, &links.unwrap_or_default()).map_err(Failure::unusable)?;
    }
    if args.json {
        println!("{facts}");
    } else {
        println!("{report}");
        println!("seed {seed}, digest {:016x}: {speed}", work.digest);
    }
    if report.facts.passed { Ok(()) } else { Err(Failure::No(String::new())) }
}

/// Builds a network, lets it find itself and runs its traffic, as long as `go_on` gives true.
///
/// # Errors
/// When it cannot be built, or has not found itself.
fn simulate(
    topology: &Topology,
    seed: u64,
    mut go_on: impl FnMut(&Sim) -> bool,
) -> Result<Sim, String> {
    let mut sim = Sim::new(topology, seed)?;
    let mut is_stopped = false;
    let is_settled = sim.settle(|sim| {
        is_stopped = !go_on(sim);
        !is_stopped
    });
    if !is_settled {
        let why = match is_stopped {
            true => "interrupted before the network had found itself",
            false => "the network has not found itself within a minute of its own time",
        };
        return Err(format!("{why}: {}", sim.unsettled().join(", ")));
    }
    sim.run(go_on);
    Ok(sim)
}

/// How far it is and how fast it goes, for people.
fn speed(work: &Work, started: Instant) -> String {
    let seconds = started.elapsed().as_secs_f64();
    let rate = work.events as f64 / seconds.max(1e-6) / 1e6;
    let memory = memory::held_mib().map_or(String::new(), |m| format!(", {m} MiB"));
    format!(
        "{:.3} s simulated in {seconds:.1} s, {} events ({rate:.2} M/s), {} frame hops{memory}",
        work.time.as_secs_f64(),
        work.events,
        work.hops
    )
}

/// Refuses what memory is too short for, when so many are run at a time.
///
/// # Errors
/// In words, with what makes it large.
fn check_memory(topology: &Topology, at_a_time: u64) -> Result<(), String> {
    let estimate = memory_estimate(topology).saturating_mul(at_a_time);
    match memory::available() {
        Some(available) if estimate > available => {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let several = match at_a_time {
                1 => String::new(),
                n => format!(", {n} of them at a time,"),
            };
            Err(format!(
                "{} nodes, {} hosts and {} flows{several} would take some {:.1} GiB, and {:.1} GiB \
                 are free: make the network or the switches' mac_table smaller",
                topology.nodes.len() + topology.bridges.len(),
                topology.hosts.len(),
                topology.traffic.len(),
                gib(estimate),
                gib(available)
            ))
        }
        _ => Ok(()),
    }
}

/// The facts of the run, without anything that differs from one run to the next.
fn facts(report: &RunReport, work: &Work, seed: u64) -> Result<Value, Failure> {
    let mut facts = serde_json::to_value(&report.facts).map_err(Failure::unusable)?;
    facts["sim"] = engine(work, seed);
    Ok(facts)
}

/// What the engine did.
fn engine(work: &Work, seed: u64) -> Value {
    json!({
        "seed": seed,
        "digest": format!("{:016x}", work.digest),
        "events": work.events,
        "hops": work.hops,
        "simulated_s": work.time.as_secs_f64(),
    })
}

fn links_csv(sim: &Sim) -> String {
    let rows = sim.traffic().map(|(end, t)| format!("{end},{},{}\n", t.frames, t.bytes));
    std::iter::once("end,frames,bytes\n".to_string()).chain(rows).collect()
}

fn write(dir: &Path, facts: &Value, links: &str) -> Result<(), String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |e: std::io::Error| format!("{path}: {e}")
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    for (name, text) in
        [("report.json", &format!("{facts:#}\n")), ("links.csv", &links.to_string())]
    {
        let path = dir.join(name);
        fs::write(&path, text).map_err(failed(&path))?;
    }
    Ok(())
}
