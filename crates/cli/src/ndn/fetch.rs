//! `plexus ndn fetch`: an object by its name.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use plexus_ndn_apps::app::Application;
use plexus_ndn_apps::endpoint::{Endpoint, now, random_seed};
use plexus_ndn_apps::fetch::{Discovery, Fetch};
use plexus_ndn_apps::segments::{Settings, Stats};
use plexus_ndn_apps::window::Algorithm;
use plexus_report::{Progress, json, si};
use plexus_wire::Time;
use plexus_wire::ndn::NameBuf;
use serde::Serialize;

use super::transport::Transport;
use super::{counts, unusable};
use crate::exit::{Failure, Outcome};
use crate::generate::{parse_duration, stop_flag};
use crate::text::print;

/// How often progress is shown.
const SHOWN: Duration = Duration::from_millis(200);

/// Fetch an object of one or many segments. SHA-256 digests are verified; other signatures, for
/// which keys would be needed, are counted.
#[derive(clap::Args)]
#[command(after_help = "\
Example: the newest version of a file, and how that went:
  plexus ndn fetch /example/files/song.ogg -o song.ogg --json

A name that ends with a version (v=N) is fetched in just that.")]
pub(crate) struct Args {
    /// Its name.
    name: NameBuf,
    /// Where to write it; otherwise to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How its version is found: metadata (RDR), prefix (an Interest that a longer name may
    /// answer), auto (the first, or else the second), or none (it has none).
    #[arg(long, default_value = "auto")]
    discovery: Discovery,
    /// How the window changes: cubic, aimd or fixed.
    #[arg(long, default_value = "cubic")]
    window_kind: Algorithm,
    /// The window at first, in Interests.
    #[arg(long, default_value_t = Settings::default().window)]
    window: usize,
    /// The window at most.
    #[arg(long, default_value_t = Settings::default().window_max)]
    window_max: usize,
    /// How long an Interest lives.
    #[arg(long, default_value = "4s", value_parser = parse_duration)]
    lifetime: Duration,
    /// Interests for one segment, at most. The question for the version is asked at most three
    /// times, for a second each.
    #[arg(long, default_value_t = Settings::default().tries)]
    tries: u32,
    /// Print a summary as JSON, to standard output if the object goes to a file, else to standard
    /// error.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transport: Transport,
}

/// What `fetch --json` prints.
#[derive(Serialize)]
struct Report {
    name: String,
    bytes: u64,
    seconds: f64,
    goodput_bits_per_s: f64,
    #[serde(flatten)]
    stats: Stats,
    rtt_us_p50: Option<u64>,
    rtt_us_p99: Option<u64>,
}

impl Report {
    fn new(fetch: &Fetch, took: Duration) -> Report {
        let stats = fetch.stats().cloned().unwrap_or_default();
        let bytes = fetch.progress().0;
        let seconds = took.as_secs_f64();
        let rtt = stats.rtt_us.as_ref().filter(|rtt| !rtt.is_empty());
        let quantile = |q| rtt.map(|rtt| rtt.value_at_quantile(q));
        Report {
            name: fetch.object().to_string(),
            bytes,
            seconds,
            goodput_bits_per_s: if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 },
            rtt_us_p50: quantile(0.5),
            rtt_us_p99: quantile(0.99),
            stats,
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{}\n{} bytes in {:.3} s, {}bit/s, {} segments, {} asked for again\n",
            self.name,
            self.bytes,
            self.seconds,
            si(self.goodput_bits_per_s),
            self.stats.segments,
            self.stats.retransmissions
        );
        if let (Some(p50), Some(p99)) = (self.rtt_us_p50, self.rtt_us_p99) {
            text += &format!("round trip {p50} us median, p99 {p99}\n");
        }
        text + &counts(
            "",
            &[
                (self.stats.marks, "marks of congestion"),
                (self.stats.nacks, "Nacks"),
                (self.stats.damaged, "packets with a wrong digest, asked for again"),
                (self.stats.unverified, "packets with a signature that was not verified"),
            ],
        )
    }
}

/// Runs `plexus ndn fetch`.
pub(crate) fn run(args: &Args) -> Outcome {
    let uri = args.transport.uri()?;
    let settings = Settings {
        algorithm: args.window_kind,
        window: args.window,
        window_max: args.window_max,
        lifetime: args.lifetime,
        tries: args.tries,
        keep_rtt: true,
        ..Settings::default()
    };
    let stop = stop_flag()?;
    let mut endpoint = Endpoint::connect(&uri).map_err(unusable)?;
    let seed = random_seed().map_err(Failure::unusable)?;
    let mut fetch = Fetch::new(args.name.clone(), args.discovery, settings, seed);
    let mut output = Output::new(args.output.clone());
    let mut progress = Progress::new();
    let (begin, mut shown) = (now(), Time::ZERO);
    let mut written = Ok(());
    let ran = endpoint.run_with(&mut fetch, &stop, |at, fetch| {
        while written.is_ok()
            && let Some(content) = fetch.take()
        {
            written = output.write(&content);
        }
        if written.is_err() {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        if at.since(shown) >= SHOWN && progress.is_seen() {
            shown = at;
            show(&mut progress, fetch, at.since(begin));
        }
    });
    progress.clear();
    ran.map_err(unusable)?;
    let took = now().since(begin);
    if let Some(failure) = fetch.failure() {
        return Err(Failure::No(failure.to_string()));
    }
    written.and_then(|()| output.flush()).map_err(|e| output.failure(&e))?;
    if !fetch.is_done() {
        return Err(Failure::No("interrupted".into()));
    }
    let report = Report::new(&fetch, took);
    let text = if args.json { json(&report)? } else { report.text() };
    match args.json && args.output.is_some() {
        true => print(&text),
        false => {
            eprint!("{text}");
            Ok(())
        }
    }
}

fn show(progress: &mut Progress, fetch: &Fetch, took: Duration) {
    let (bytes, size) = fetch.progress();
    let rate = bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9);
    let text = format!("{}B  {}bit/s", si(bytes as f64), si(rate));
    match size.filter(|size| *size > 0) {
        Some(size) => progress.share(bytes as f64 / size as f64, &text),
        None => progress.detail(&text),
    }
}

/// A file, made when the first bytes come, or standard output.
struct Output {
    path: Option<PathBuf>,
    file: Option<File>,
}

impl Output {
    fn new(path: Option<PathBuf>) -> Output {
        Output { path, file: None }
    }

    fn open(&mut self) -> io::Result<Option<&mut File>> {
        if let (None, Some(path)) = (&self.file, &self.path) {
            self.file = Some(File::create(path)?);
        }
        Ok(self.file.as_mut())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.open()? {
            Some(file) => file.write_all(bytes),
            None => io::stdout().write_all(bytes),
        }
    }

    /// An empty object is a file too.
    fn flush(&mut self) -> io::Result<()> {
        match self.open()? {
            Some(file) => file.flush(),
            None => io::stdout().flush(),
        }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let to = self.path.as_ref().map_or("standard output".into(), |p| p.display().to_string());
        Failure::Unusable(format!("cannot write to {to}: {error}"))
    }
}
