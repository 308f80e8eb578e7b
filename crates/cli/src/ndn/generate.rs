//! `plexus ndn gen`: consumers that ask and measure.

use std::path::PathBuf;
use std::time::Duration;

use plexus_ndn_apps::consume::{Config, Names, Pace, Share};
use plexus_ndn_apps::side_by_side::{Measured, measure, split};
use plexus_ndn_web::list::read_list;
use plexus_report::json;
use plexus_view::ndn::measured;
use plexus_wire::ndn::NameBuf;

use super::transport::Transport;
use super::unusable;
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
    let config = Config {
        prefix: args.prefix.clone(),
        names,
        share: Share { nth: 0, of: 1 },
        pace: args.rate.map_or(Pace::Window(args.window), Pace::Rate),
        lifetime: args.lifetime,
        warm_up: args.warm_up,
        count: None,
        duration,
        seed: args.seed,
        verify: args.verify,
    };
    let consumers = split(&config, args.consumers).map_err(Failure::unusable)?;
    let (counts, counted) = measure(&uri, consumers, &stop).map_err(unusable)?;
    let report = Measured::new(&args.prefix, args.consumers, args.seed, &counts, counted);
    print(&if args.json { json(&report)? } else { measured(&report) })?;
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
