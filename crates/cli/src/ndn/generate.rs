//! `plexus ndn gen`: consumers that ask and measure.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plexus_ndn_apps::consume::{Config, Consumer, Counts, Names, Pace, Share};
use plexus_ndn_apps::endpoint::{Endpoint, now};
use plexus_ndn_web::names::name_of;
use plexus_report::{json, si};
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::{Name, NameBuf};
use serde::Serialize;

use super::transport::Transport;
use super::{counts, unusable};
use crate::exit::{Failure, Outcome};
use crate::generate::{parse_duration, stop_flag};
use crate::text::print;

/// Ask for the items of a catalogue, drawn by Zipf's law, or for the names of a list, and tell how
/// it fared: a generator and a meter in one. What is not answered in time is not asked for again.
#[derive(clap::Args)]
#[command(after_help = "\
Example: a catalogue of 1.3 M items of 10 MB in chunks of 8 KB, 64 Interests on their way:
  plexus ndn gen --prefix /bench --catalogue 1300000 --chunks 1250 --zipf 0.8 \\
    --window 64 --duration 10s --warm-up 2s --json

Item I is /bench/I/seg=0 to seg=CHUNKS-1; `plexus ndn produce` says how large a chunk is. A list has
a name or a URL in each line, which stands behind the prefix; what begins with # is a comment.")]
pub(crate) struct Args {
    /// The prefix of all names.
    #[arg(long)]
    prefix: NameBuf,
    /// Items.
    #[arg(long, default_value_t = 1_000_000, conflicts_with = "trace")]
    catalogue: u64,
    /// Chunks of each.
    #[arg(long, default_value_t = 1, conflicts_with = "trace")]
    chunks: u64,
    /// The exponent of Zipf's law; 0: all items are equally popular.
    #[arg(long, default_value_t = 0.8, conflicts_with = "trace")]
    zipf: f64,
    /// A list of names instead, asked for in order, once.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// A consumer's window: Interests that are on their way at a time.
    #[arg(long, default_value_t = 16, conflicts_with = "rate")]
    window: usize,
    /// Interests a second of all consumers together, instead of a window.
    #[arg(long)]
    rate: Option<f64>,
    /// Consumers, each with a face and a thread of its own.
    #[arg(long, default_value_t = 1)]
    consumers: usize,
    /// Expected bytes of a chunk. Chunks of other sizes are reported.
    #[arg(long, value_name = "BYTES")]
    chunk_size: Option<u64>,
    /// How long an Interest lives.
    #[arg(long, default_value = "4s", value_parser = parse_duration)]
    lifetime: Duration,
    /// How long to ask and measure (10s); by default 10 s, or until a list is done. Interests on
    /// their way then are waited for until they expire.
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Time before the measurement begins (2s).
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    warm_up: Duration,
    /// The seed of everything random: the same seed gives the same run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Verify SHA-256 digests, which costs more than all the rest.
    #[arg(long)]
    verify: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transport: Transport,
}

/// What `gen --json` prints.
#[derive(Serialize)]
struct Report {
    prefix: String,
    consumers: usize,
    seed: u64,
    seconds: f64,
    interests: u64,
    satisfied: u64,
    nacked: Nacked,
    timed_out: u64,
    damaged: u64,
    marked: u64,
    merged: u64,
    late: u64,
    bytes: u64,
    data_per_s: f64,
    goodput_bits_per_s: f64,
    latency_us_p50: f64,
    latency_us_p99: f64,
    latency_us_mean: f64,
    latency_us_max: f64,
}

#[derive(Serialize)]
struct Nacked {
    congestion: u64,
    duplicate: u64,
    no_route: u64,
    other: u64,
}

impl Report {
    fn new(args: &Args, counts: &Counts, counted: Duration) -> Report {
        let seconds = counted.as_secs_f64();
        let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let [congestion, duplicate, no_route, other] = counts.nacked;
        let latency = &counts.latency_ns;
        let quantile = |q| latency.value_at_quantile(q) as f64 / 1e3;
        Report {
            prefix: args.prefix.to_string(),
            consumers: args.consumers,
            seed: args.seed,
            seconds,
            interests: counts.interests,
            satisfied: counts.satisfied,
            nacked: Nacked { congestion, duplicate, no_route, other },
            timed_out: counts.timed_out,
            damaged: counts.damaged,
            marked: counts.marked,
            merged: counts.merged,
            late: counts.late,
            bytes: counts.bytes,
            data_per_s: rate(counts.satisfied),
            goodput_bits_per_s: rate(counts.bytes * 8),
            latency_us_p50: quantile(0.5),
            latency_us_p99: quantile(0.99),
            latency_us_mean: latency.mean() / 1e3,
            latency_us_max: latency.max() as f64 / 1e3,
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "asked      {} Interests in {:.3} s\n\
             answered   {}\n\
             rate       {}Data/s\n           {}bit/s of content\n",
            self.interests,
            self.seconds,
            self.satisfied,
            si(self.data_per_s),
            si(self.goodput_bits_per_s)
        );
        if self.satisfied > 0 {
            text += &format!(
                "latency    {:.1} us median, p99 {:.1}, max {:.1}\n",
                self.latency_us_p50, self.latency_us_p99, self.latency_us_max
            );
        }
        text + &counts(
            "           ",
            &[
                (self.timed_out, "got no answer in time"),
                (self.nacked.no_route, "came back: no route"),
                (self.nacked.congestion, "came back: congestion"),
                (self.nacked.duplicate, "came back: duplicate"),
                (self.nacked.other, "came back without a reason"),
                (self.damaged, "answers with a wrong digest"),
                (self.marked, "answers with a mark of congestion"),
                (self.merged, "draws of a name that was on its way, drawn again"),
                (self.late, "left later than their rate says"),
            ],
        )
    }
}

/// Runs `plexus ndn gen`.
pub(crate) fn run(args: &Args) -> Outcome {
    let uri = args.transport.uri()?;
    if args.consumers == 0 {
        return Err(Failure::Unusable("--consumers: at least one has to ask".into()));
    }
    let names = match &args.trace {
        Some(path) => Names::List(read_list(path)?.into()),
        None => {
            Names::Catalogue { items: args.catalogue, chunks: args.chunks, exponent: args.zipf }
        }
    };
    let duration = match args.trace {
        Some(_) => args.duration,
        None => args.duration.or(Some(Duration::from_secs(10))),
    };
    let stop = stop_flag()?;
    let mut consumers = Vec::new();
    for nth in 0..args.consumers {
        let pace = match args.rate {
            Some(rate) => Pace::Rate(rate / args.consumers as f64),
            None => Pace::Window(args.window),
        };
        let config = Config {
            prefix: args.prefix.clone(),
            names: names.clone(),
            share: Share { nth, of: args.consumers },
            pace,
            lifetime: args.lifetime,
            warm_up: args.warm_up,
            count: None,
            duration,
            seed: args.seed.wrapping_add(nth as u64),
            verify: args.verify,
        };
        consumers.push(Consumer::new(config).map_err(Failure::unusable)?);
    }
    let (counts, counted) = measure(&uri, consumers, &stop)?;
    let report = Report::new(args, &counts, counted);
    print(&if args.json { json(&report)? } else { report.text() })?;
    if counts.satisfied == 0 {
        return Err(Failure::No(format!("nothing below {} was answered", args.prefix)));
    }
    match args.chunk_size {
        Some(size) if counts.bytes != counts.satisfied * size => Err(Failure::No(format!(
            "chunks of {size} bytes were expected, and {} on average came",
            counts.bytes as f64 / counts.satisfied as f64
        ))),
        _ => Ok(()),
    }
}

/// Runs consumers side by side; gives the sum of what they counted, and for how long.
fn measure(
    uri: &FaceUri,
    consumers: Vec<Consumer>,
    stop: &Arc<AtomicBool>,
) -> Result<(Counts, Duration), Failure> {
    // All are connected before the first begins.
    let mut endpoints = Vec::new();
    for _ in &consumers {
        endpoints.push(Endpoint::connect(uri).map_err(unusable)?);
    }
    let threads = consumers.into_iter().zip(endpoints).map(|(mut consumer, mut endpoint)| {
        let stop = stop.clone();
        thread::spawn(move || {
            let ran = endpoint.run(&mut consumer, &stop);
            // One failure ends all: the figures would be those of fewer consumers.
            ran.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            let counted = consumer.counted(now());
            Ok((consumer.counts().clone(), counted))
        })
    });
    let threads: Vec<_> = threads.collect();
    let (mut sum, mut counted) = (Counts::default(), Duration::ZERO);
    let mut failed = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok((counts, time))) => {
                sum.add(&counts);
                counted = counted.max(time);
            }
            Ok(Err(error)) => failed = Some(unusable(error)),
            Err(_) => failed = Some(Failure::Unusable("a consumer failed".into())),
        }
    }
    failed.map_or(Ok((sum, counted)), Err)
}

fn read_list(path: &Path) -> Result<Vec<NameBuf>, Failure> {
    let file = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Unusable(format!("cannot read {file}: {e}")))?;
    let mut names = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let name = read_name(line);
        names.push(name.map_err(|e| Failure::Unusable(format!("{file}:{}: {e}", i + 1)))?);
    }
    match names.is_empty() {
        true => Err(Failure::Unusable(format!("{file}: no name in it"))),
        false => Ok(names),
    }
}

/// A name, or a URL as `plexus ndn web-publish` names it.
fn read_name(line: &str) -> Result<NameBuf, String> {
    let Some(url) = line.strip_prefix("http://") else {
        return line.parse().map_err(|e: plexus_wire::ndn::name::UriError| e.to_string());
    };
    let (host, target) = url.split_at(url.find(['/', '?']).unwrap_or(url.len()));
    let target = if target.starts_with('/') { target.into() } else { format!("/{target}") };
    name_of(Name::ROOT, host, &target).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_names_and_urls() {
        for (line, name) in [
            ("/a/b", "/a/b"),
            ("http://H/a/?q", "/h/a/.../%3Fq"),
            ("http://h", "/h/..."),
            ("http://h?q", "/h/.../%3Fq"),
        ] {
            assert_eq!(read_name(line).unwrap().to_string(), name, "{line}");
        }
        for bad in ["a/b", "http:///a", "http://h/%zz", "https://h/"] {
            assert!(read_name(bad).is_err(), "{bad}");
        }
    }
}
