//! `plexus config`: checks and changes the files people write, and has daemons run them.

mod change;
mod common;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use plexus_setup::check::check;

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Arguments of `plexus config`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  plexus config check examples/switch.toml
  plexus config set n1 port.eth1.vlan 20
  plexus config diff n1
  plexus config apply n1 --confirm-within 2m
  plexus config confirm n1
  plexus config rollback n1

Files are edited by hand or by `set`, and run once they are applied. docs/operating.md has more.")]
pub(crate) struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what is wrong with node, controller, common and topology files, if anything
    #[command(after_help = "Example:\n  plexus config check examples/switch.toml\n  \
                            plexus config check examples/*.toml labs/*.toml\n\n\
                            Exit code: 0 all files are good, 2 one is not.")]
    Check {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Change one key of a file, or remove it; comments and all other lines stay
    Set(change::Set),
    /// Print the text that a daemon runs, with a node's part of the common file
    Show(change::Show),
    /// Compare what a daemon runs with what its file has
    Diff(change::Diff),
    /// Have a daemon run its file, for a trial or for good
    Apply(change::Apply),
    /// Keep the version that is on trial
    Confirm(change::Confirm),
    /// List the kept versions of a daemon's file
    Versions(change::Versions),
    /// Write an earlier version into the file and run it; during a trial, end the trial
    Rollback(change::Rollback),
    /// One file for all nodes of a group, which its controllers hand out
    Common {
        #[command(subcommand)]
        command: common::Command,
    },
}

impl Config {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Check { files } => check_all(&files),
            Command::Set(set) => set.run(),
            Command::Diff(diff) => diff.run(),
            Command::Apply(apply) => apply.run(),
            Command::Confirm(confirm) => confirm.run(),
            Command::Versions(versions) => versions.run(),
            Command::Rollback(rollback) => rollback.run(),
            Command::Show(show) => show.run(),
            Command::Common { command } => command.run(),
        }
    }
}

fn check_all(files: &[PathBuf]) -> Outcome {
    let mut problems = Vec::new();
    for file in files {
        match check(file) {
            Ok(found) => print(&format!("{}: {found}\n", file.display()))?,
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::unusable(problems.join("\n"))) }
}
