//! Finds the flaws of a box, and the command that mends each. [`Facts`] are gathered first, and
//! then judged: a test can feed any facts. Gathering changes nothing.

mod facts;
mod machine;
mod port;

use std::fmt;
use std::path::Path;

use plexus_config::{Backend, NodeFile, PortUse, Tunnel, VlanMode};
use serde::Serialize;

use crate::interface::{Candidate, candidates};
use crate::port::node_file;

pub use facts::{Facts, Gathered, Packet};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and something would be better.
    Warning,
    /// It does not work like this.
    Problem,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The interface, or the part of the machine.
    pub subject: String,
    /// How bad it is.
    pub level: Level,
    /// In one line.
    pub text: String,
    /// The command that mends it, if there is one.
    pub mend: Option<String>,
}

/// Findings about one subject.
struct Findings {
    subject: String,
    all: Vec<Finding>,
}

impl Findings {
    fn about(subject: &str) -> Findings {
        Findings { subject: subject.into(), all: Vec::new() }
    }

    fn add(&mut self, level: Level, text: impl Into<String>, mend: Option<String>) {
        let (subject, text) = (self.subject.clone(), text.into());
        self.all.push(Finding { subject, level, text, mend });
    }

    fn ok(&mut self, text: impl Into<String>) {
        self.add(Level::Ok, text, None);
    }
}

/// A port, as far as the doctor is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Planned {
    device: String,
    backend: Backend,
    role: PortUse,
    in_fabric: bool,
    has_tags: bool,
    tunnel: Option<Tunnel>,
}

impl Planned {
    /// The ports of a node's file.
    fn of(node: &NodeFile) -> Vec<Planned> {
        let planned = |port: &plexus_config::PortFile| Planned {
            device: port.device.clone(),
            backend: port.backend.unwrap_or(node.backend),
            role: port.role,
            in_fabric: node.fabric.is_some() && port.role != PortUse::Switch,
            has_tags: matches!(port.settings.vlan, VlanMode::Trunk { .. }),
            tunnel: port.tunnel,
        };
        node.ports.iter().map(planned).collect()
    }

    /// A device that could become a port of a fabric.
    fn any(device: &str) -> Planned {
        Planned {
            device: device.into(),
            backend: Backend::Auto,
            role: PortUse::Auto,
            in_fabric: true,
            has_tags: false,
            tunnel: None,
        }
    }
}

/// Looks at this box: at the ports of a node's file (that of the usual folder, unless one is named)
/// and at these interfaces. Where there is neither, at all that could become ports.
///
/// # Errors
/// In words, when the file is not right, or the kernel cannot be asked.
pub fn look(config: Option<&Path>, interfaces: &[String]) -> Result<Vec<Finding>, String> {
    let file = match config {
        Some(file) => Some(file.to_path_buf()),
        None => node_file(Path::new("/etc/plexus")).ok(),
    };
    let node = file.map(|file| NodeFile::read(&file).map_err(|e| e.to_string())).transpose()?;
    let mut interfaces = interfaces.to_vec();
    let mut in_use = Vec::new();
    if node.is_none() && interfaces.is_empty() {
        // One that is in use is hardly meant to be a port: no command that frees it.
        let (used, free): (Vec<_>, Vec<_>) =
            candidates()?.into_iter().partition(|c| !c.objections.is_empty());
        interfaces = free.into_iter().map(|c| c.info.name).collect();
        in_use = used.into_iter().map(left_alone).collect();
    }
    let facts = Facts::gather(node.as_ref())?;
    Ok([examine(&facts, node.as_ref(), &interfaces), in_use].concat())
}

fn left_alone(candidate: Candidate) -> Finding {
    let remarks = candidate.remarks();
    let text = format!("left alone, unless it is named: {remarks}");
    Finding { subject: candidate.info.name, level: Level::Ok, text, mend: None }
}

/// One line for each finding, and one for the command that mends it.
pub fn table(found: &[Finding]) -> String {
    let width = found.iter().map(|finding| finding.subject.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { subject, level, text: told, mend } in found {
        text.push_str(&format!("{level:<7}  {subject:<width$}  {told}\n"));
        if let Some(mend) = mend {
            text.push_str(&format!("{:9}{:width$}    {mend}\n", "", ""));
        }
    }
    text
}

/// Judges a box by its node's file and these interfaces.
pub fn examine(facts: &Facts, node: Option<&NodeFile>, interfaces: &[String]) -> Vec<Finding> {
    let mut ports = node.map(Planned::of).unwrap_or_default();
    for name in interfaces {
        if !ports.iter().any(|port| port.device == *name) {
            ports.push(Planned::any(name));
        }
    }
    let mut found = machine::examine(facts, node, &ports);
    ports.iter().for_each(|port| found.extend(port::examine(facts, port)));
    found
}

#[cfg(test)]
mod tests;
