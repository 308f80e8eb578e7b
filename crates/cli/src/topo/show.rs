//! `plexus topo show`: what is in a topology, and how far apart its nodes are.

use std::path::PathBuf;

use clap::Args;
use plexus_analysis::facts::TopologyFacts;
use plexus_report::json;
use plexus_topo::Topology;

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Arguments of `plexus topo show`.
#[derive(Args)]
pub(crate) struct Show {
    /// The topology file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Ports of the boxes of the Clos networks that the cost is compared with; by default as many
    /// as the box has that has most ports at hosts' rate
    #[arg(long, value_name = "N")]
    clos_ports: Option<u64>,
}

impl Show {
    /// Reads the file and prints what is in it.
    pub(crate) fn run(&self) -> Outcome {
        let topology = Topology::read(&self.file).map_err(Failure::unusable)?;
        let facts = TopologyFacts::new(&topology, self.clos_ports);
        print(&if self.json { json(&facts)? } else { facts.text(&topology) })
    }
}
