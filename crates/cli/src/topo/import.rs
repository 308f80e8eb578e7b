//! `plexus topo import`: a topology file from another program's graph.

use std::path::PathBuf;

use clap::Args;
use plexus_analysis::exchange::{Format, ImportOptions, import};
use plexus_config::document::read_text;

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Arguments of `plexus topo import`.
#[derive(Args)]
pub(crate) struct Import {
    /// The network: GraphML, DOT, node-link JSON, a lab of containerlab, a network of Mininet
    file: PathBuf,
    /// Its format: graphml, dot, json, containerlab or mininet; by default what the file's name
    /// ends with: graphml or xml, dot or gv, json, yml or yaml (containerlab), mn (mininet)
    #[arg(long, value_parser = format)]
    format: Option<Format>,
    /// The topology's name; by default what the file calls the graph, or the file's own name
    #[arg(long)]
    name: Option<String>,
    /// Hosts to add on each node
    #[arg(long, value_name = "N", default_value_t = 0)]
    hosts: usize,
}

/// The names of the formats, for messages.
const FORMATS: &str = "graphml, dot, json, containerlab or mininet";

/// A format by its name.
pub(super) fn format(text: &str) -> Result<Format, String> {
    let found = Format::NAMES.iter().find(|(name, _)| *name == text);
    found.map(|(_, format)| *format).ok_or_else(|| format!("it is {FORMATS}"))
}

impl Import {
    /// Reads the graph, prints the topology file, and tells what was changed on standard error.
    pub(crate) fn run(self) -> Outcome {
        let file = self.file.display().to_string();
        let Some(format) = self.format.or_else(|| Format::of(&self.file)) else {
            let text = format!("{file}: its name tells no format: give --format {FORMATS}");
            return Err(Failure::unusable(text));
        };
        let text = read_text(&self.file).map_err(Failure::unusable)?;
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let options = ImportOptions { name: stem, hosts_per_node: self.hosts };
        let mut made = import(format, &file, &text, &options).map_err(Failure::unusable)?;
        if let Some(name) = self.name {
            plexus_config::name::check_name("topology", &name).map_err(Failure::unusable)?;
            made.topology.name = name;
        }
        for note in &made.notes {
            eprintln!("plexus: {file}: {note}");
        }
        print(&made.topology.to_toml())
    }
}
