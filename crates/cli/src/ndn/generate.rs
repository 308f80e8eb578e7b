//! `plexus ndn gen`: consumers that ask and measure.

use std::path::PathBuf;
use std::time::Duration;

use plexus_ndn_apps::consume::{Config, Consumer, Counts, Names, Pace, Share};
use plexus_ndn_apps::side_by_side::measure;
use plexus_ndn_web::list::read_list;
use plexus_report::{json, si};
use plexus_wire::ndn::NameBuf;
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
        Some(path) => Names::List(read_list(path).map_err(Failure::unusable)?.into()),
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
    let (counts, counted) = measure(&uri, consumers, &stop).map_err(unusable)?;
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
