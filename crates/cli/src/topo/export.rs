//! `plexus topo export`: a topology for other programs, or as a drawing.

use std::path::PathBuf;

use clap::Args;
use plexus_analysis::exchange::{self, Format};
use plexus_topo::Topology;

use super::{import, print};
use crate::exit::{Failure, Outcome};

/// Arguments of `plexus topo export`.
#[derive(Args)]
pub(crate) struct Export {
    /// The topology file
    file: PathBuf,
    /// What to write: graphml, dot, json (node-link, as networkx has it) or svg (a drawing)
    #[arg(long, value_parser = target)]
    format: Target,
}

/// What a topology is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Graph(Format),
    Svg,
}

fn target(text: &str) -> Result<Target, String> {
    match text {
        "svg" => Ok(Target::Svg),
        _ => import::format(text).map(Target::Graph).map_err(|help| format!("{help}, or svg")),
    }
}

impl Export {
    /// Reads the file and prints what it becomes.
    pub(crate) fn run(&self) -> Outcome {
        let topology = Topology::read(&self.file).map_err(Failure::unusable)?;
        print(&match self.format {
            Target::Graph(format) => exchange::export(&topology, format),
            Target::Svg => exchange::svg(&topology).map_err(Failure::unusable)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names() {
        assert_eq!(target("svg"), Ok(Target::Svg));
        assert_eq!(target("dot"), Ok(Target::Graph(Format::Dot)));
        assert_eq!(target("png"), Err("it is graphml, dot or json, or svg".to_string()));
    }
}
