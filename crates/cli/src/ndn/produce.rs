//! `plexus ndn produce`: an answer to everything.

use std::time::Duration;

use plexus_ndn_apps::endpoint::publish;
use plexus_ndn_apps::produce::{Config, Producer, Signing};
use plexus_wire::ndn::{NameBuf, PACKET_LEN_MAX};

use super::signing::Key;
use super::transport::Transport;
use super::{tell, unusable};
use crate::exit::{Failure, Outcome};
use crate::generate::{parse_duration, stop_flag};

/// What name and heads leave of a packet.
const SIZE_MAX: usize = PACKET_LEN_MAX - 300;

/// Answer every Interest below a prefix with Data of one size. All but the name is made beforehand;
/// of the rest, the digest costs most.
#[derive(clap::Args)]
#[command(after_help = "\
Example: what `plexus ndn gen --prefix /bench` asks for:
  plexus ndn produce --prefix /bench --size 8000

With --signature none Data carry signature type 200 (none) and no value: consumers that validate
refuse them, so theirs has to be turned off.")]
pub(crate) struct Args {
    /// Prefix of all names.
    #[arg(long)]
    prefix: NameBuf,
    /// Bytes of content.
    #[arg(long, default_value_t = 8000)]
    size: usize,
    /// digest (SHA-256, of each packet) or none.
    #[arg(long, default_value = "digest")]
    signature: Signing,
    /// For how long Data are fresh.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    freshness: Duration,
    /// Say that an item has so many chunks (FinalBlockId).
    #[arg(long)]
    chunks: Option<u64>,
    /// The content follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this time; otherwise at Ctrl-C.
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Print what was counted as JSON, at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    transport: Transport,
}

/// Runs `plexus ndn produce`.
pub(crate) fn run(args: &Args) -> Outcome {
    let uri = args.transport.uri()?;
    let key = args.key.read()?;
    if args.size > SIZE_MAX {
        let why = format!("--size: a packet has room for {SIZE_MAX} bytes beside its name");
        return Err(Failure::Unusable(why));
    }
    if args.chunks == Some(0) {
        return Err(Failure::Unusable("--chunks: an item has at least one".into()));
    }
    let mut producer = Producer::new(Config {
        prefix: args.prefix.clone(),
        size: args.size,
        freshness: args.freshness,
        signing: args.signature,
        last: args.chunks.map(|chunks| chunks - 1),
        seed: args.seed,
    });
    let stop = stop_flag()?;
    if let Some(duration) = args.duration {
        let stop = stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(duration);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
    publish(&uri, std::slice::from_ref(&args.prefix), key.as_ref(), &mut producer, &stop, |_| {
        eprintln!("answering everything below {} at {uri}", args.prefix);
    })
    .map_err(unusable)?;
    let counters = producer.counters();
    tell(args.json, counters, || {
        let plexus_ndn_apps::produce::Counters { interests, data, ignored, .. } = counters;
        format!("{interests} Interests, {data} Data, {ignored} Interests not answered")
    })
}
