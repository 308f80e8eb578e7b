//! `plexus controller`: the daemon that knows the whole fabric.

use std::path::PathBuf;

use crate::exit::{Failure, Outcome};
use crate::node::{LogForm, start_log};

/// Run the controller of a fabric.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Serve the nodes of a fabric until told to stop.
    #[command(after_help = "\
Example:
  plexus config check examples/controller.toml
  sudo plexus controller run --config examples/controller.toml
  sudo plexus show topology --node c1

Its device is cabled to any node's port: a real cable, or one end of a veth pair whose other end is
a port of a node on this machine. While it is down, flows go on; hosts that are new wait.

SIGHUP reads the configuration again and applies what can change while running: policy, networks,
reservations, groups, rules and limits. SIGINT and SIGTERM stop it.")]
    Run {
        /// The controller's configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Form of the log on standard error.
        #[arg(long, value_enum, default_value_t = LogForm::Text)]
        log: LogForm,
    },
}

pub(crate) fn run(args: Args) -> Outcome {
    let Command::Run { config, log } = args.command;
    start_log(log);
    plexus_daemon::controller::run(&config).map_err(Failure::unusable)
}
