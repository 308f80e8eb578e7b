//! `plexus ndn fetch`: an object by its name.

use std::path::PathBuf;
use std::time::Duration;

use plexus_ndn_apps::endpoint::random_seed;
use plexus_ndn_apps::fetch::{Discovery, Fetch};
use plexus_ndn_apps::save::{SaveError, save};
use plexus_ndn_apps::segments::Settings;
use plexus_ndn_apps::window::Algorithm;
use plexus_report::{Progress, json, si};
use plexus_view::ndn::saved;
use plexus_wire::ndn::NameBuf;

use super::transport::Transport;
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
    let seed = random_seed().map_err(Failure::unusable)?;
    let fetch = Fetch::new(args.name.clone(), args.discovery, settings, seed);
    let (mut progress, mut due) = (Progress::new(), Duration::ZERO);
    let fetched = save(fetch, &uri, args.output.as_deref(), &stop, |took, fetch| {
        if took >= due && progress.is_seen() {
            due = took + SHOWN;
            show(&mut progress, fetch, took);
        }
    });
    progress.clear();
    let fetched = fetched.map_err(|why| match why {
        SaveError::Fetch(_) | SaveError::Interrupted => Failure::No(why.to_string()),
        SaveError::Endpoint(_) | SaveError::Write { .. } => Failure::unusable(why),
    })?;
    let text = if args.json { json(&fetched)? } else { saved(&fetched) };
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
