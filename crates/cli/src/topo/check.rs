//! `plexus topo check`: what a topology holds, and whether it is non-blocking.

use std::path::PathBuf;

use clap::Args;
use plexus_analysis::facts::{NonBlockingFacts, summary};
use plexus_analysis::{Answer, non_blocking};
use plexus_topo::Topology;

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Arguments of `plexus topo check`.
#[derive(Args)]
#[command(after_help = "\
Example:
  plexus topo make torus 2x2x2 --hosts 2 --lanes 2 > board.toml
  plexus topo check board.toml

A network is rearrangeably non-blocking if for every permutation (each host sends to one other at
its line rate, each receives from one) whole-flow routes exist that no cable is too slow for. Where
no link has a rate, a cable carries what one host sends.

Exit code: 0 rearrangeably non-blocking, proven or as far as was tried; 1 blocking, with the
permutation and the cut that show it; 2 the file is not good. `plexus config check` only reads the
file.")]
pub(crate) struct Check {
    /// The topology file
    file: PathBuf,
    /// Seed of the permutations that are tried
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Checks and prints; blocking is the answer no.
    pub(crate) fn run(self) -> Outcome {
        let topology = Topology::read(&self.file).map_err(Failure::unusable)?;
        let file = self.file.display();
        let found = non_blocking(&topology, self.seed)
            .map_err(|e| Failure::unusable(format!("{file}: {e}")))?;
        let report = NonBlockingFacts::new(&topology, &found);
        if self.json {
            print(&plexus_report::json(&report)?)?;
        } else {
            print(&format!("{file}: {}\n{}", summary(&topology), report.text()))?;
        }
        match found.answer {
            Answer::Blocking(_) => Err(Failure::No(String::new())),
            _ => Ok(()),
        }
    }
}
