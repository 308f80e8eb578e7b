//! `plexus bench`: in-process benchmarks.

mod switch;

use std::time::Duration;

use crate::exit::{Failure, Outcome};

/// Run in-process benchmarks.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> Outcome {
    for stations in [65_536, 1 << 20] {
        for named in [64, stations] {
            let load = switch::Load { stations, named };
            let mpps = switch::mpps(load, Duration::from_secs(2)).map_err(Failure::unusable)?;
            println!("{load:?} {mpps:.2}");
        }
    }
    Ok(())
}
