//! `plexus doctor`: what is wrong with this box, and the command that mends it.

use std::path::{Path, PathBuf};

use plexus_config::NodeFile;
use plexus_setup::doctor::{Facts, Finding, Level, examine};
use plexus_setup::interface::{Candidate, candidates};
use plexus_setup::port;

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Say what is wrong with this box, and the command that mends it.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  sudo plexus doctor
  sudo plexus doctor eth1 eth2

It looks at the kernel, the clock, the node's identity, and each port: driver and XDP, MTU,
offloads, and other users of the interface. It changes nothing. Without a node's file it looks at
the Ethernet interfaces that are free, or at those that are named.

Exit code: 0 no problem, perhaps warnings; 1 a problem; 2 it could not look.")]
pub(crate) struct Args {
    /// Interfaces that could become ports.
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// The node's file; by default the one in /etc/plexus.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let found = look(args).map_err(Failure::unusable)?;
    if args.json {
        let json = serde_json::to_string(&found).map_err(Failure::unusable)?;
        print(&format!("{json}\n"))?;
    } else {
        print(&table(&found))?;
    }
    match found.iter().filter(|finding| finding.level == Level::Problem).count() {
        0 => Ok(()),
        1 => Err(Failure::No("there is a problem".into())),
        problems => Err(Failure::No(format!("there are {problems} problems"))),
    }
}

fn look(args: &Args) -> Result<Vec<Finding>, String> {
    let file = match &args.config {
        Some(file) => Some(file.clone()),
        None => port::node_file(Path::new("/etc/plexus")).ok(),
    };
    let node = file.map(|file| NodeFile::read(&file).map_err(|e| e.to_string())).transpose()?;
    let mut interfaces = args.interfaces.clone();
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
fn table(found: &[Finding]) -> String {
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
