//! `plexus controller`: the daemon that knows the whole fabric.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plexus_api::answer::Done;
use plexus_api::answer::fabric::Controllers;
use plexus_api::{Request, Topic};

use crate::ask::Which;
use crate::exit::{Failure, Outcome};
use crate::node::{LogForm, start_log};

/// How long a handover may take.
const HANDOVER_LIMIT: Duration = Duration::from_secs(10);

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
    /// Hand over to another controller of the group, before an upgrade.
    #[command(after_help = "\
Example:
  plexus show controllers --node c1
  plexus controller drain --node c1

Hosts notice nothing. The one that has handed over stands by, and leaves leading to the others for
10 s: enough to stop it.")]
    Drain {
        #[command(flatten)]
        which: Which,
    },
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Run { config, log } => {
            start_log(log);
            plexus_daemon::controller::run(&config).map_err(Failure::unusable)
        }
        Command::Drain { which } => drain(&which),
    }
}

/// Asks for the handover, and waits until it is done.
fn drain(which: &Which) -> Outcome {
    let mut client = which.connect()?;
    let begun = Instant::now();
    client.get::<Done>(&Request::Drain(true)).map_err(Failure::unusable)?;
    loop {
        let state: Controllers =
            client.get(&Request::Show(Topic::Controllers)).map_err(Failure::unusable)?;
        let before = &state.controller;
        if let Some(leader) = state.leader.filter(|leader| leader != before) {
            let took = begun.elapsed().as_millis();
            println!("{leader} leads in place of {before}, after {took} ms");
            return Ok(());
        }
        if begun.elapsed() > HANDOVER_LIMIT {
            let text = "no other controller has taken over: `plexus show controllers` says more";
            return Err(Failure::unusable(text));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
