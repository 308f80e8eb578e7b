//! `plexus sim replay`: what a live node was told, told to a new one.

use std::path::PathBuf;

use clap::Args;
use plexus_daemon::replay::play;
use plexus_report::json;

use crate::exit::{Failure, Outcome};
use crate::text::print;

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// What a node has written down: `record` in its file names it.
    recording: PathBuf,
    /// The node's identity, where it is not at the place that the recording names.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Plays a recording.
///
/// # Errors
/// When a file cannot be read or is none, or, with no text, when something differs.
pub(super) fn run(args: &ReplayArgs) -> Outcome {
    let replay = play(&args.recording, args.identity.as_deref()).map_err(Failure::unusable)?;
    let text = if args.json { json(&replay)? } else { format!("{replay}\n") };
    print(&text)?;
    if replay.identical { Ok(()) } else { Err(Failure::No(String::new())) }
}
