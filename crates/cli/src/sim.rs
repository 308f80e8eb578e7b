//! `plexus sim`: a topology file's network, simulated, and a live node's recording, played again.

mod replay;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use plexus_config::WebSettings;
use plexus_config::units::parse_duration;
use plexus_io::process::memory;
use plexus_report::{Comparison, Facts, Progress, first_of};
use plexus_sim::page::stage;
use plexus_sim::run::{
    check_memory, facts, find_itself, links_csv, questions, read, simulate, write,
};
use plexus_sim::seeds::{self, Seeds};
use plexus_sim::{Sim, Work, attach};
use plexus_topo::{Fidelity, Topology};

use crate::exit::{Failure, Outcome};
use crate::generate::stop_flag;
use crate::text::print;
use crate::web;

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
    let other = args.against.as_deref().map(read_facts).transpose()?;
    let stopped = stop_flag()?;
    if let Some(seeds) = args.seeds {
        let found = seeds::run(&args.file, seeds, args.fidelity, &stopped)?;
        match args.json {
            true => print(&format!("{}\n", found.json()))?,
            false => print(&found.to_string())?,
        }
        return if found.passed() { Ok(()) } else { Err(Failure::No(String::new())) };
    }
    let (mut topology, left_out) = read(&args.file, args.seed, args.fidelity)?;
    let unusable = |e: String| Failure::unusable(format!("{}: {e}", args.file.display()));
    check_memory(&topology, 1).map_err(unusable)?;
    let seed = topology.seed;
    let lasts = args.lasts.as_deref().map(parse_duration).transpose();
    let lasts = lasts.map_err(|e| Failure::unusable(format!("--for: {}", e.message)))?;
    let outside = attach(&args.attach, &mut topology)
        .map_err(|e| Failure::unusable(format!("--attach{e}")))?;
    let started = Instant::now();
    let mut progress = Progress::new();
    let (mut said, mut is_running) = (Duration::ZERO, false);
    let mut say = |sim: &Sim| {
        // Traffic has begun when the message says so, and a person who stops it then sees some.
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
    };
    let ran = match (outside, args.web) {
        (None, None) => simulate(&topology, seed, say).map(|sim| (sim, None)),
        (None, Some(address)) => watched(&topology, seed, address, say).map(|sim| (sim, None)),
        (Some(mut outside), _) => Sim::new(&topology, seed).and_then(|mut sim| {
            outside.attach_to(&mut sim)?;
            if !find_itself(&mut sim, &mut say)? {
                return Ok((sim, None));
            }
            sim.begin();
            let more = |sim: &Sim, elapsed| say(sim) && lasts.is_none_or(|lasts| elapsed < lasts);
            let kept = outside.run(&mut sim, more).map_err(|e| e.to_string())?;
            Ok((sim, Some(kept)))
        }),
    };
    progress.clear();
    let (sim, kept) = ran.map_err(unusable)?;
    let (work, speed) = (sim.work(), speed(&sim.work(), started));
    let links = args.out.is_some().then(|| links_csv(&sim));
    let questions = questions(&sim);
    let has_begun = sim.share_done().is_some();
    // A run that is watched goes on after its traffic.
    let is_done = args.web.is_some() && sim.share_done() >= Some(1.0);
    let unsettled = if has_begun { String::new() } else { first_of(&sim.unsettled()) };
    let mut report = sim.report();
    report.notes.extend(left_out);
    // A run in real time ends like that.
    if stopped.load(Ordering::Relaxed) && kept.is_none() && !is_done {
        report.notes.push(match has_begun {
            true => "interrupted: this is what was known by then".into(),
            false => format!("interrupted before the network had found itself: {unsettled}"),
        });
        report.facts.passed = false;
    }
    let other = other.map(|facts| Comparison::of(&facts, &report.facts)).transpose();
    let other = other.map_err(|e| {
        let file = args.against.as_deref().unwrap_or(&args.file);
        Failure::unusable(format!("{}: {e}", file.display()))
    })?;
    let mut facts = facts(&report, &work, seed)?;
    facts["sim"]["fidelity"] = topology.fidelity.name().into();
    if let Some(questions) = &questions {
        facts["sim"]["questions"] = questions.clone();
    }
    if let Some(other) = &other {
        facts["against"] = serde_json::to_value(other).map_err(Failure::unusable)?;
    }
    if let Some(kept) = &kept {
        facts["real_time"] = serde_json::to_value(kept).map_err(Failure::unusable)?;
    }
    if let Some(dir) = &args.out {
        write(dir, &facts, &links.unwrap_or_default()).map_err(Failure::unusable)?;
    }
    if args.json {
        print(&format!("{facts}\n"))?;
    } else {
        print(&format!("{report}\n"))?;
        if let Some(questions) = &questions {
            let number = |key: &str| questions[key].as_f64().unwrap_or_default();
            print(&format!(
                "questions: {} asked, {} answered, half of them within {:.1} us\n",
                number("asked"),
                number("answered"),
                number("latency_us_p50")
            ))?;
        }
        if let Some(other) = &other {
            print(&format!("{other}\n"))?;
        }
        if let Some(kept) = &kept {
            print(&format!("{kept}\n"))?;
        }
        print(&format!("seed {seed}, digest {:016x}: {speed}\n", work.digest))?;
    }
    if report.facts.passed { Ok(()) } else { Err(Failure::No(String::new())) }
}

/// The same at a person's pace, with a page, as long as `go_on` gives true.
///
/// # Errors
/// As [`simulate`], or when the page cannot be served.
fn watched(
    topology: &Topology,
    seed: u64,
    address: SocketAddr,
    mut go_on: impl FnMut(&Sim) -> bool,
) -> Result<Sim, String> {
    let mut sim = Sim::new(topology, seed)?;
    let (mut stage, visitor) = stage();
    let page = plexus_web::serve(&WebSettings::new(address), visitor)?;
    eprintln!("the page is at {} until Ctrl-C", page.url);
    let mut find = |sim: &Sim| {
        stage.answer(sim);
        go_on(sim)
    };
    if find_itself(&mut sim, &mut find)? {
        sim.begin();
        stage.run(&mut sim, go_on);
    }
    Ok(sim)
}

/// The facts of a run as `--json` has printed them.
fn read_facts(path: &Path) -> Result<Facts, Failure> {
    let unusable = |e: String| Failure::unusable(format!("{}: {e}", path.display()));
    let text = fs::read_to_string(path).map_err(|e| unusable(e.to_string()))?;
    serde_json::from_str(&text).map_err(|e| {
        unusable(format!("this is not what plexus lab run --json prints of a lab: {e}"))
    })
}

/// How far it is and how fast it goes, for people.
fn speed(work: &Work, started: Instant) -> String {
    let seconds = started.elapsed().as_secs_f64();
    let rate = work.events as f64 / seconds.max(1e-6) / 1e6;
    let memory = memory::held_text();
    format!(
        "{:.3} s simulated in {seconds:.1} s, {} events ({rate:.2} M/s), {} frame hops{memory}",
        work.time.as_secs_f64(),
        work.events,
        work.hops
    )
}
