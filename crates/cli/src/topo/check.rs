//! `plexus topo check`: whether a topology file is sound.

use std::path::PathBuf;

use clap::Args;
use plexus_topo::Topology;

use super::{print, summary};
use crate::exit::{Failure, Outcome};

/// Arguments of `plexus topo check`.
#[derive(Args)]
pub(crate) struct Check {
    /// The topology file
    file: PathBuf,
}

impl Check {
    /// Reads the file and says what is in it.
    pub(crate) fn run(&self) -> Outcome {
        let topology = Topology::read(&self.file).map_err(Failure::unusable)?;
        print(&format!("{}: {}\n", self.file.display(), summary(&topology)))
    }
}
