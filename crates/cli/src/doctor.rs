//! `plexus doctor`: what is wrong with this box, and the command that mends it.

use std::path::PathBuf;

use plexus_setup::doctor::{Level, look, table};

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Say what is wrong with this box, and the command that mends it.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  sudo plexus doctor
  sudo plexus doctor eth1 eth2

It looks at the kernel, the clock, the node's identity, and each port: driver and XDP, MTU,
offloads, and other users of the interface. It changes nothing. Without a node's file it looks at
the Ethernet interfaces that are free, or at those that are named.

Exit code: 0 no problem, perhaps warnings; 1 a problem; 2 it could not look.")]
pub(crate) struct Args {
    /// Interfaces that could become ports.
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// The node's file; by default the one in /etc/plexus.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let found = look(args.config.as_deref(), &args.interfaces).map_err(Failure::unusable)?;
    if args.json {
        let json = serde_json::to_string(&found).map_err(Failure::unusable)?;
        print(&format!("{json}\n"))?;
    } else {
        print(&table(&found))?;
    }
    match found.iter().filter(|finding| finding.level == Level::Problem).count() {
        0 => Ok(()),
        1 => Err(Failure::No("there is a problem".into())),
        problems => Err(Failure::No(format!("there are {problems} problems"))),
    }
}
