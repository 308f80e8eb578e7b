//! `plexus node`: the daemon that makes a box a switch, a router or a node of a fabric.

use std::io::IsTerminal;
use std::path::PathBuf;

use tracing_subscriber::EnvFilter;

use crate::exit::{Failure, Outcome};

/// Run this box as a node.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Switch frames between the ports of a configuration file until told to stop.
    #[command(after_help = "\
Example:
  plexus config check examples/switch.toml
  sudo plexus node run --config examples/switch.toml
  sudo plexus show ports

SIGHUP reads the file again and applies what can change while frames flow (VLANs, rates, limits,
static stations, the choice of lanes, routes, keys that may command the forwarder of named data, its
prefetch); ports and workers need a restart. SIGINT and SIGTERM stop it.")]
    Run {
        /// The node's configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Form of the log on standard error.
        #[arg(long, value_enum, default_value_t = LogForm::Text)]
        log: LogForm,
    },
}

/// Form of the log.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum LogForm {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

pub(crate) fn run(args: Args) -> Outcome {
    let Command::Run { config, log } = args.command;
    start_log(log);
    plexus_daemon::node::run(&config).map_err(Failure::unusable)
}

/// `RUST_LOG` chooses what is logged; the usual level is info.
pub(crate) fn start_log(form: LogForm) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Colours are for terminals; in the journal or a file they are noise.
    let log = log.with_ansi(std::io::stderr().is_terminal());
    match form {
        LogForm::Text => log.with_target(false).init(),
        LogForm::Json => log.json().init(),
    }
}
