//! One run of a topology file, at the engine's speed, at a person's with a page, or in real time
//! with devices in place of hosts: what `plexus sim run` does.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plexus_config::WebSettings;
use plexus_config::units::parse_duration;
use plexus_io::process::memory;
use plexus_report::{Comparison, Facts, Failure, Progress, RunReport, first_of};
use plexus_topo::{Fidelity, Topology};
use serde_json::Value;

use crate::page::stage;
use crate::real_time::Kept;
use crate::run::{check_memory, facts, find_itself, links_csv, questions, read, simulate, write};
use crate::{Sim, Work, attach};

/// How often a person is told how far a run is.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// A run to make.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The topology file.
    pub file: &'a Path,
    /// The seed, instead of the file's.
    pub seed: Option<u64>,
    /// The fidelity, instead of the file's.
    pub fidelity: Option<Fidelity>,
    /// The JSON of another run of the file, to compare with.
    pub against: Option<&'a Path>,
    /// Devices of this machine in the place of hosts, as `HOST=BACKEND:DEVICE`.
    pub attach: &'a [String],
    /// How long a run with such devices lasts, as a person writes it.
    pub lasts: Option<&'a str>,
    /// Where to serve a page that drives the clock.
    pub web: Option<SocketAddr>,
    /// The folder for `report.json` and `links.csv`.
    pub out: Option<&'a Path>,
}

/// A run that was made. Its text is for people.
pub struct Ran {
    /// The results of the file's traffic.
    pub report: RunReport,
    /// All facts, for programs.
    pub facts: Value,
    questions: Option<Value>,
    comparison: Option<Comparison>,
    kept: Option<Kept>,
    /// The seed, the digest and the speed.
    engine: String,
}

impl Display for Ran {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.report)?;
        if let Some(questions) = &self.questions {
            let number = |key: &str| questions[key].as_f64().unwrap_or_default();
            writeln!(
                f,
                "questions: {} asked, {} answered, half of them within {:.1} us",
                number("asked"),
                number("answered"),
                number("latency_us_p50")
            )?;
        }
        if let Some(comparison) = &self.comparison {
            writeln!(f, "{comparison}")?;
        }
        if let Some(kept) = &self.kept {
            writeln!(f, "{kept}")?;
        }
        writeln!(f, "{}", self.engine)
    }
}

/// Runs a file; shows the progress on standard error. `stopped` ends it early.
///
/// # Errors
/// When the file or the request is mistaken, the run cannot be built, or its results cannot be
/// written.
pub fn run(request: &Request<'_>, stopped: &AtomicBool) -> Result<Ran, Failure> {
    let other = request.against.map(read_facts).transpose()?;
    let (mut topology, left_out) = read(request.file, request.seed, request.fidelity)?;
    let unusable = |e: String| Failure::unusable(format!("{}: {e}", request.file.display()));
    check_memory(&topology, 1).map_err(unusable)?;
    let seed = topology.seed;
    let lasts = request.lasts.map(parse_duration).transpose();
    let lasts = lasts.map_err(|e| Failure::unusable(format!("--for: {}", e.message)))?;
    let outside = attach(request.attach, &mut topology)
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
    let ran = match (outside, request.web) {
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
    let links = request.out.is_some().then(|| links_csv(&sim));
    let questions = questions(&sim);
    let has_begun = sim.share_done().is_some();
    // A run that is watched goes on after its traffic.
    let is_done = request.web.is_some() && sim.share_done() >= Some(1.0);
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
    let comparison = other.map(|facts| Comparison::of(&facts, &report.facts)).transpose();
    let comparison = comparison.map_err(|e| {
        let file = request.against.unwrap_or(request.file);
        Failure::unusable(format!("{}: {e}", file.display()))
    })?;
    let mut facts = facts(&report, &work, seed)?;
    facts["sim"]["fidelity"] = topology.fidelity.name().into();
    if let Some(questions) = &questions {
        facts["sim"]["questions"] = questions.clone();
    }
    if let Some(comparison) = &comparison {
        facts["against"] = serde_json::to_value(comparison).map_err(Failure::unusable)?;
    }
    if let Some(kept) = &kept {
        facts["real_time"] = serde_json::to_value(kept).map_err(Failure::unusable)?;
    }
    if let Some(dir) = request.out {
        write(dir, &facts, &links.unwrap_or_default()).map_err(Failure::unusable)?;
    }
    let engine = format!("seed {seed}, digest {:016x}: {speed}", work.digest);
    Ok(Ran { report, facts, questions, comparison, kept, engine })
}

/// Runs at a person's pace, with a page, as long as `go_on` gives true.
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
