//! `plexus node`: the daemon that makes a box a switch, a router or a node of a fabric.

mod boxed;
mod control;
mod fabric;
mod links;
mod metrics;
mod named;
mod news;
mod ports;
mod reload;
mod router;
mod show;
mod thread;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use plexus_config::NodeFile;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing_subscriber::EnvFilter;

use crate::exit::{Failure, Outcome};
use crate::socket;

pub(crate) use thread::go_before_others;

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
static stations, the choice of lanes, routes, who may command the forwarder of named data); ports
and workers need a restart. SIGINT and SIGTERM stop it.")]
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
    let file = NodeFile::read(&config).map_err(Failure::unusable)?;
    // Before any thread starts, so that no signal ends the process half way.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| Failure::unusable(format!("waiting for signals: {e}")))?;
    // Before any port is opened, so that a second node of the name disturbs no frame.
    let (listener, _socket) = socket::claim(&file.control).map_err(Failure::unusable)?;
    let node = Arc::new(boxed::Node::start(file).map_err(Failure::unusable)?);
    let answers = Arc::new(control::Answers { node: node.clone(), config: config.clone() });
    socket::serve(listener, answers, signals.handle()).map_err(Failure::unusable)?;
    if let Some(address) = node.file().metrics {
        let node = node.clone();
        crate::metrics::serve(address, move || metrics::text(&node)).map_err(Failure::unusable)?;
    }
    tracing::info!(node = node.file().name, ports = node.file().ports.len(), "running");
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        match node.reload(&config) {
            Ok(()) => tracing::info!("configuration read again"),
            Err(why) => tracing::error!("configuration kept as it was: {why}"),
        }
    }
    tracing::info!(node = node.file().name, "stopping");
    node.stop();
    Ok(())
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
