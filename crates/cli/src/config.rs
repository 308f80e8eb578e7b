//! `plexus config`: checks and changes the files people write, and has daemons run them.

mod change;
mod common;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use plexus_analysis::facts::summary;
use plexus_config::document::{read_text, top_level_keys};
use plexus_config::{CommonFile, ControllerFile, FileError, NodeFile, is_common_file};
use plexus_topo::Topology;
use plexus_wire::fabric::LINK_MTU_MIN;

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

fn check(path: &Path) -> Result<String, FileError> {
    check_text(&path.display().to_string(), &read_text(path)?)
}

/// Which kind of file a text is, with a summary.
fn check_text(file: &str, text: &str) -> Result<String, FileError> {
    if is_topology(text) {
        let topology = Topology::parse(file, text)?;
        return Ok(format!("a topology: {}", summary(&topology)));
    }
    if is_controller(text) {
        let controller = ControllerFile::parse(file, text)?;
        let subnets = controller.settings.subnets.len();
        let s = if subnets == 1 { "" } else { "s" };
        return Ok(format!("a controller: {}, {subnets} subnet{s}", controller.name));
    }
    if is_common_file(text) {
        let common = CommonFile::parse(file, text)?;
        let nodes = common.names().count();
        let s = if nodes == 1 { "" } else { "s" };
        return Ok(format!("a common file of a group, with parts for {nodes} node{s}"));
    }
    let node = NodeFile::parse(file, text)?;
    let ports = node.ports.len();
    let named = if node.named.is_some() { "; forwards named data" } else { "" };
    let s = if ports == 1 { "" } else { "s" };
    let fabric = match node.fabric {
        Some(_) => format!(
            "; cables to other nodes need an MTU of {LINK_MTU_MIN} bytes, to which the node raises \
             it if it has CAP_NET_ADMIN"
        ),
        None => String::new(),
    };
    Ok(format!("a node: {}, {ports} port{s}{named}{fabric}", node.name))
}

/// A topology file has nodes, hosts, bridges or links; a node file has neither.
fn is_topology(text: &str) -> bool {
    top_level_keys(text)
        .iter()
        .any(|key| ["node", "host", "bridge", "link", "traffic", "assert"].contains(&key.as_str()))
}

/// A controller file has keys at its top that a node file has not.
fn is_controller(text: &str) -> bool {
    const OWN: &str = "allow balance class deny device drained etcd forwarder group group_mac \
                       heartbeat identity limits multicast partition policy reservation revoked \
                       routes state strangers_may_talk subnet web";
    let own: Vec<&str> = OWN.split(' ').collect();
    top_level_keys(text).iter().any(|key| own.contains(&key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_two_kinds_of_file_apart() {
        assert!(is_topology("name = \"a\"\n[[node]]\nname = \"s1\"\n"));
        assert!(is_topology("[[host]]\nname = \"h1\"\n"));
        assert!(!is_topology("name = \"a\"\n[[port]]\nname = \"p1\"\n"));
        assert!(!is_topology(""));
        assert!(is_controller("name = \"c1\"\nidentity = \"c1.identity\"\n"));
        assert!(is_controller("name = \"c1\"\n[web]\n[[group]]\nname = \"a\"\n"));
        assert!(!is_controller("name = \"n1\"\n[fabric]\nidentity = \"n1.identity\"\n"));
        // A broken line does not hide what the file is.
        assert!(is_topology("name = s1\n[[link]]\nends = [\"a\", \"b\"]\n"));
    }

    #[test]
    fn checks_what_ships() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = |file: &str| check(&root.join(file)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found("examples/switch.toml"), "a node: sw1, 4 ports");
        let named = "a node: ndn1, 0 ports; forwards named data";
        assert_eq!(found("examples/ndn.toml"), named);
        let fabric = found("examples/fabric-node.toml");
        assert!(fabric.starts_with("a node: n1, 4 ports; ") && fabric.contains("MTU of 1624"));
        assert_eq!(found("examples/controller.toml"), "a controller: c1, 3 subnets");
        let common = "a common file of a group, with parts for 0 nodes";
        assert_eq!(found("examples/common.toml"), common);
        assert!(found("labs/switch.toml").starts_with("a topology: 1 node, 4 hosts, 4 links"));
        assert!(check(&root.join("no-such-file.toml")).is_err());
    }
}
