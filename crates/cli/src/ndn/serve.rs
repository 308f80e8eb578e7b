//! `plexus ndn serve`: files by name.

use std::path::PathBuf;
use std::time::Duration;

use plexus_ndn_apps::endpoint::publish;
use plexus_ndn_apps::files::{Files, Plain};
use plexus_ndn_apps::object::SEGMENT_SIZE;
use plexus_ndn_apps::publisher::Publisher;
use plexus_wire::ndn::NameBuf;

use super::signing::Key;
use super::transport::Transport;
use super::{parse_segment_size, tell, unusable};
use crate::exit::{Failure, Outcome};
use crate::generate::{parse_duration, stop_flag};

/// Publish a file, or the files of a folder, each under PREFIX and the parts of its path. The time
/// of the last change is the version. Packets carry a SHA-256 digest: it shows damage, not who
/// published.
#[derive(clap::Args)]
#[command(after_help = "\
Example: the files of a folder, until Ctrl-C:
  plexus ndn serve /example/files ~/files

Example: at a forwarder whose file says `signed` and has op.ndncert among its anchors:
  plexus ndn key make /example/op --out op
  plexus ndn serve /files ~/files --key op.key --certificate op.ndncert

Links are followed within the folder. A consumer learns the version by 32=metadata (RDR), as
ndncatchunks and NDNts do, or by an Interest that a longer name may answer.")]
pub(crate) struct Args {
    /// Prefix of all names.
    prefix: NameBuf,
    /// The file or folder.
    path: PathBuf,
    /// Bytes of a segment.
    #[arg(
        long,
        default_value_t = SEGMENT_SIZE,
        value_name = "BYTES",
        value_parser = parse_segment_size
    )]
    segment_size: usize,
    /// For how long caches may take a version for the newest.
    #[arg(long, default_value = "100ms", value_parser = parse_duration)]
    freshness: Duration,
    /// Memory for packets that have been made (256MB).
    #[arg(long, default_value = "256MB", value_parser = plexus_config::units::parse_size)]
    memory: u64,
    /// Print what was counted as JSON, at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    transport: Transport,
}

/// Runs `plexus ndn serve`.
pub(crate) fn run(args: &Args) -> Outcome {
    let uri = args.transport.uri()?;
    let key = args.key.read()?;
    let plain = Plain::open(&args.path, args.segment_size, args.freshness)
        .map_err(|e| Failure::Unusable(format!("{}: {e}", args.path.display())))?;
    let memory = usize::try_from(args.memory).unwrap_or(usize::MAX);
    let mut publisher = Publisher::new(args.prefix.clone(), Files::new(plain), memory);
    let stop = stop_flag()?;
    publish(&uri, std::slice::from_ref(&args.prefix), key.as_ref(), &mut publisher, &stop, |_| {
        eprintln!("publishing {} as {} at {uri}", args.path.display(), args.prefix);
    })
    .map_err(unusable)?;
    let counters = publisher.counters();
    tell(args.json, counters, || {
        format!(
            "{} Interests, {} segments and {} metadata sent, {} names that are not there",
            counters.interests, counters.segments, counters.metadata, counters.absent
        )
    })
}
