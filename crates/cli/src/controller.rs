//! `plexus controller`: the daemon that knows the whole fabric.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_api::answer::Done;
use plexus_api::answer::config::{Common as State, Text};
use plexus_api::answer::fabric::{Controllers, Leases};
use plexus_api::{Common, Request, Topic};
use plexus_daemon::controller::{CommonVersion, Restored, Snapshot, restore};
use plexus_report::say;

use crate::ask::Which;
use crate::exit::{Failure, Outcome};
use crate::files::write_private;
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
    /// Copy the store into a file, or a file into the store.
    Snapshot {
        #[command(subcommand)]
        command: SnapshotCommand,
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

#[derive(clap::Subcommand)]
enum SnapshotCommand {
    /// Copy the store of a running controller, which leads, into a new file.
    #[command(after_help = "\
Example:
  plexus controller snapshot save leases-2026-11-27.json --node c1

The file is JSON. It has all that a controller keeps: the addresses that it has leased, and the
versions of the common file.")]
    Save {
        /// The file to write.
        file: PathBuf,
        #[command(flatten)]
        which: Which,
    },
    /// Write a snapshot into the store, while no controller of the group runs.
    #[command(after_help = "\
Example:
  sudo systemctl stop plexus-controller
  sudo plexus controller snapshot restore leases-2026-11-27.json --config c1.toml
  sudo systemctl start plexus-controller

Addresses that were leased after the snapshot was taken are unknown to the restored store, so
another host may get them. Restore only if the store itself is lost.")]
    Restore {
        /// The snapshot.
        file: PathBuf,
        /// The controller's configuration, which says where its store is.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Replace what the store has.
        #[arg(long)]
        replace: bool,
    },
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Run { config, log } => {
            start_log(log);
            plexus_daemon::controller::run(&config).map_err(Failure::unusable)
        }
        Command::Drain { which } => drain(&which),
        Command::Snapshot { command: SnapshotCommand::Save { file, which } } => save(&file, &which),
        Command::Snapshot { command: SnapshotCommand::Restore { file, config, replace } } => {
            let restored = restore(&config, &file, replace).map_err(Failure::unusable)?;
            let Restored { before, leases, common, goes_on } = restored;
            say!("{leases} leases restored, in place of {before}");
            if common > 0 {
                say!("{common} versions of the common file restored");
            }
            if !goes_on {
                say!(
                    "if this etcd was made anew, restart the nodes: they obey the highest epoch \
                     that they have seen"
                );
            }
            Ok(())
        }
    }
}

fn save(file: &Path, which: &Which) -> Outcome {
    let common = Request::Common;
    let mut client = which.connect()?;
    let leases: Leases = client.get(&Request::Show(Topic::Leases)).map_err(Failure::unusable)?;
    if leases.in_doubt {
        let text = "its lease on leadership may have ended, so another controller may know more";
        return Err(Failure::unusable(format!("{}: {text}", leases.controller)));
    }
    let state: State = client.get(&common(Common::State(true))).map_err(Failure::unusable)?;
    let mut versions = Vec::new();
    for version in state.versions {
        let text: Text =
            client.get(&common(Common::Text(version.number))).map_err(Failure::unusable)?;
        versions.push(CommonVersion {
            version: version.number,
            kept_unix_s: version.kept_unix_s,
            comment: version.comment,
            plexus: version.plexus,
            kept: version.good,
            text: text.text,
        });
    }
    let snapshot = Snapshot::of(leases, versions);
    write_private(file, &snapshot.to_json()).map_err(Failure::unusable)?;
    say!("{} leases saved in {}", snapshot.count(), file.display());
    Ok(())
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
            say!("{leader} leads in place of {before}, after {took} ms");
            return Ok(());
        }
        if begun.elapsed() > HANDOVER_LIMIT {
            let text = "no other controller has taken over: `plexus show controllers` says more";
            return Err(Failure::unusable(text));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
