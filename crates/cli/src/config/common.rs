//! `plexus config common`: the file that the controllers of a group hand to its nodes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use plexus_api::answer::config::{Applied, Common as State, Text};
use plexus_api::{Apply, Client, Common, CommonApply, Request};
use plexus_config::CommonFile;
use plexus_config::document::read_text;
use plexus_io::clock::unix_ms;
use plexus_setup::{edit, rollback};
use plexus_view::config as view;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::change::{Daemon, How, print_difference, print_json};
use crate::exit::{Failure, Outcome};
use crate::text::print;

/// All nodes and the store may take half a minute.
const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Subcommand)]
pub(super) enum Command {
    /// Print the common file that nodes are to run, or an earlier version
    #[command(after_help = "\
Example:
  plexus config common show c1 > common.toml")]
    Show {
        #[command(flatten)]
        daemon: Daemon,
        /// The version; the one that nodes are to run, if none is given
        #[arg(value_name = "VERSION")]
        number: Option<u64>,
    },
    /// Compare the common file that nodes are to run with a file
    #[command(after_help = "\
Example:
  plexus config common diff c1 common.toml

Lines with - run and are not in the file, lines with + are in the file and do not run.
Exit code: 0 they are the same, 1 they differ.")]
    Diff {
        #[command(flatten)]
        daemon: Daemon,
        /// The file
        file: PathBuf,
    },
    /// Have all nodes of the group run a common file, for a trial or for good
    #[command(after_help = "\
Examples:
  plexus config common apply c1 common.toml --comment \"storm limits\"
  plexus config common apply c1 common.toml --confirm-within 2m
  plexus config common confirm c1

The file has sections of a node's file: [all.switch], [all.fabric] and [[all.port]] are for all
nodes, [nodes.n1.switch] and [[nodes.n1.port]] for one. docs/operating.md has more.

All nodes that are there check the file before one of them runs it. If it does not fit one of them,
none runs it. A node that is away gets it once it is back. With --confirm-within each node goes back
by itself unless the version is confirmed in time, also if the change has cut it off.")]
    Apply {
        #[command(flatten)]
        daemon: Daemon,
        /// The file
        file: PathBuf,
        #[command(flatten)]
        how: How,
    },
    /// Have all nodes keep the version that is on trial
    #[command(after_help = "Example:\n  plexus config common confirm c1")]
    Confirm {
        #[command(flatten)]
        daemon: Daemon,
    },
    /// List the versions of the common file, and the one of each node
    #[command(after_help = "Example:\n  plexus config common versions c1")]
    Versions {
        #[command(flatten)]
        daemon: Daemon,
    },
    /// Have all nodes run an earlier version; during a trial, end the trial
    #[command(after_help = "\
Examples:
  plexus config common rollback c1
  plexus config common rollback c1 3 --confirm-within 2m

The earlier text gets a new number: numbers only grow. Keys that were revoked since stay revoked.")]
    Rollback {
        #[command(flatten)]
        daemon: Daemon,
        /// The version; the kept one before, if none is given
        #[arg(value_name = "VERSION")]
        number: Option<u64>,
        #[command(flatten)]
        how: How,
    },
}

fn connect(daemon: &Daemon) -> Result<Client, Failure> {
    daemon.which().connect_for(PATIENCE)
}

fn ask<T: DeserializeOwned>(client: &mut Client, request: Common) -> Result<T, Failure> {
    client.get(&Request::Common(request)).map_err(Failure::unusable)
}

impl Command {
    pub(super) fn run(self) -> Outcome {
        match self {
            Command::Show { daemon, number } => show(&daemon, number),
            Command::Diff { daemon, file } => diff(&daemon, &file),
            Command::Apply { daemon, file, how } => {
                CommonFile::read(&file).map_err(Failure::unusable)?;
                let text = read_text(&file).map_err(Failure::unusable)?;
                let Apply { confirm_within_s, comment } = how.apply();
                let apply = Common::Apply(CommonApply { text, confirm_within_s, comment });
                tell(&daemon, &ask(&mut connect(&daemon)?, apply)?)
            }
            Command::Confirm { daemon } => {
                tell(&daemon, &ask(&mut connect(&daemon)?, Common::Confirm(true))?)
            }
            Command::Versions { daemon } => {
                let state: State = ask(&mut connect(&daemon)?, Common::State(true))?;
                match daemon.json {
                    true => print_json(&state),
                    false => print(&view::common_versions(&state, unix_ms() / 1000)),
                }
            }
            Command::Rollback { daemon, number, how } => {
                let mut client = connect(&daemon)?;
                let applied = rollback::rollback_common(&mut client, number, how.apply());
                tell(&daemon, &applied.map_err(Failure::unusable)?)
            }
        }
    }
}

/// The text of a version, or of the one that runs; empty if there is none yet.
fn text(daemon: &Daemon, number: Option<u64>) -> Result<(Option<u64>, String), Failure> {
    let mut client = connect(daemon)?;
    let number = match number {
        Some(number) => Some(number),
        None => ask::<State>(&mut client, Common::State(true))?.running,
    };
    let text = number.map(|number| ask::<Text>(&mut client, Common::Text(number))).transpose()?;
    Ok((number, text.map(|text| text.text).unwrap_or_default()))
}

fn show(daemon: &Daemon, number: Option<u64>) -> Outcome {
    let (version, text) = text(daemon, number)?;
    match (version, daemon.json) {
        (version, true) => print_json(&json!({"version": version, "text": text})),
        (Some(_), false) => print(&text),
        (None, false) => Err(Failure::unusable("the group has no common file yet")),
    }
}

fn diff(daemon: &Daemon, path: &Path) -> Outcome {
    let (version, runs) = text(daemon, None)?;
    let file = read_text(path).map_err(Failure::unusable)?;
    let name = match version {
        Some(version) => format!("version {version} of the common file"),
        None => "no common file".to_string(),
    };
    let diff = edit::difference((&name, &runs), (&path.display().to_string(), &file));
    print_difference(daemon, json!({"version": version}), &diff)
}

/// Says which version the group runs now.
fn tell(daemon: &Daemon, applied: &Applied) -> Outcome {
    let confirm = format!("plexus config common confirm {}", daemon.name);
    match daemon.json {
        true => print_json(applied),
        false => print(&view::common_applied(applied, &confirm)),
    }
}
