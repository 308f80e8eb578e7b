//! `plexus config common`: the file that the controllers of a group hand to its nodes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use plexus_api::answer::config::{Applied, Common as State, Text};
use plexus_api::{Common, CommonApply, Request};
use plexus_config::document::read_text;
use plexus_config::{CommonFile, with_revoked};
use plexus_io::clock::unix_ms;
use plexus_setup::edit;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::change::{
    Daemon, How, print_applied, print_difference, print_json, table, version_before,
};
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

fn ask<T: DeserializeOwned>(daemon: &Daemon, request: Common) -> Result<T, Failure> {
    let mut client = daemon.which().connect_for(PATIENCE)?;
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
                apply(&daemon, text, &how, "")
            }
            Command::Confirm { daemon } => tell(&daemon, &ask(&daemon, Common::Confirm(true))?),
            Command::Versions { daemon } => {
                let state: State = ask(&daemon, Common::State(true))?;
                match daemon.json {
                    true => print_json(&state),
                    false => print(&tables(&state, unix_ms() / 1000)),
                }
            }
            Command::Rollback { daemon, number, how } => rollback(&daemon, number, &how),
        }
    }
}

/// The text of a version, or of the one that runs; empty if there is none yet.
fn text(daemon: &Daemon, number: Option<u64>) -> Result<(Option<u64>, String), Failure> {
    let number = match number {
        Some(number) => Some(number),
        None => ask::<State>(daemon, Common::State(true))?.running,
    };
    let text = number.map(|number| ask::<Text>(daemon, Common::Text(number))).transpose()?;
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

fn apply(daemon: &Daemon, text: String, how: &How, usual_comment: &str) -> Outcome {
    let confirm_within_s = how.seconds();
    let comment = how.comment(usual_comment);
    let request = Common::Apply(CommonApply { text, confirm_within_s, comment });
    tell(daemon, &ask(daemon, request)?)
}

fn rollback(daemon: &Daemon, number: Option<u64>, how: &How) -> Outcome {
    let state: State = ask(daemon, Common::State(true))?;
    let number = match (number, state.trial) {
        (None, Some(_)) => return tell(daemon, &ask(daemon, Common::Back(true))?),
        (Some(number), _) => number,
        (None, None) => version_before(&state.versions, state.running)?,
    };
    let (_, back) = text(daemon, Some(number))?;
    let (_, runs) = text(daemon, None)?;
    let with = with_revoked(&back, &[&runs]);
    apply(daemon, with.unwrap_or(back), how, &format!("version {number} again"))
}

/// Says what the group runs now.
fn tell(daemon: &Daemon, applied: &Applied) -> Outcome {
    let told = match applied.version {
        Some(version) => format!("the group runs version {version} of the common file"),
        None => "the group runs no common file".to_string(),
    };
    print_applied(daemon, applied, told, &format!("plexus config common confirm {}", daemon.name))
}

/// The versions, and the one of each node.
fn tables(state: &State, now_unix_s: u64) -> String {
    let mut out = table(&state.versions, state.running, state.trial.is_some(), now_unix_s);
    out.push_str(&format!("\n{:<16} {:>7}  state\n", "node", "version"));
    for node in &state.nodes {
        let version = node.version.map_or("-".to_string(), |version| version.to_string());
        let first = |why: &String| why.lines().next().unwrap_or_default().to_string();
        let refused = node.refused.as_ref().map(|why| format!("refuses: {}", first(why)));
        let away = (!node.is_there).then(|| "away".to_string());
        let later = "keeps a later version than the group: apply the file again".to_string();
        let later = (node.version > state.running).then_some(later);
        let word: Vec<String> = away.into_iter().chain(later).chain(refused).collect();
        let line = format!("{:<16} {version:>7}  {}", node.node, word.join(", "));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_api::answer::config::{CommonNode, Trial, Version};

    #[test]
    fn versions_and_nodes_are_listed() {
        let version = |number, good| Version {
            number,
            kept_unix_s: 999_990,
            comment: format!("c{number}"),
            plexus: "0.1.0".into(),
            good,
        };
        let node = |name: &str, version, refused: Option<&str>| CommonNode {
            node: name.into(),
            is_there: version != Some(1),
            version,
            refused: refused.map(str::to_string),
        };
        let state = State {
            controller: "c1".into(),
            running: Some(4),
            trial: Some(Trial { version: 4, back_to: 3, left_s: 9 }),
            versions: vec![
                version(1, true),
                version(2, false),
                version(3, true),
                version(4, false),
            ],
            nodes: vec![
                node("n1", Some(3), None),
                node("n2", Some(1), None),
                node("n3", None, Some("there is no port eth9 here\n  3 | x")),
                node("n4", Some(5), None),
            ],
        };
        let expected = "\
version  kept       state       comment
      1  10 s ago               c1
      2  10 s ago   unconfirmed c2
      3  10 s ago               c3
      4  10 s ago   on trial    c4

node             version  state
n1                     3
n2                     1  away
n3                     -  refuses: there is no port eth9 here
n4                     5  keeps a later version than the group: apply the file again
";
        assert_eq!(tables(&state, 1_000_000), expected);
    }
}
