//! `plexus topo loads`: what every cable carries when demands are laid on a topology.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plexus_analysis::facts::LoadFacts;
use plexus_analysis::{Routing, loads, read_demands};
use plexus_topo::Topology;

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Arguments of `plexus topo loads`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  plexus topo loads labs/torus-3x3.toml --routing ecmp --demands demands.csv
  plexus topo loads labs/torus-3x3.toml --routing best --demands demands.csv --json

The demands are lines of src,dst,amount: two names of hosts or nodes, and a number, in bits/s where
links have rates. There is a row for each direction of each cable; a link of several lanes has as
many rows. Shortest means fewest links. `ecmp` shares equally over all cables that lead closer.
Where a link has a rate, `ksp-lp` and `best` level utilisation (load over rate), else load. No
routing whatever can have a smaller maximum load than the lower bound.")]
pub(super) struct LoadsArgs {
    /// The topology file
    file: PathBuf,
    /// How demands find their ways
    #[arg(long, value_name = "ROUTING")]
    routing: RoutingArg,
    /// The demands, a CSV file
    #[arg(long, value_name = "FILE.csv")]
    demands: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoutingArg {
    /// One shortest path per pair, always the same
    Shortest,
    /// Equal shares over all shortest next hops, cable by cable, at every hop
    Ecmp,
    /// Each flow in turn the path on which least is (SPAIN)
    Spain,
    /// The best shares over the eight shortest paths of each pair, by linear program
    KspLp,
    /// By way of every node in equal parts (Valiant), whatever the demands
    Oblivious,
    /// The best of all these and of the linear program over all ways
    Best,
}

impl LoadsArgs {
    /// Lays the demands and prints the loads.
    pub(super) fn run(self) -> Outcome {
        let topology = Topology::read(&self.file).map_err(Failure::unusable)?;
        let demands = read_demands(&self.demands, &topology).map_err(Failure::unusable)?;
        let routing = match self.routing {
            RoutingArg::Shortest => Routing::Shortest,
            RoutingArg::Ecmp => Routing::Ecmp,
            RoutingArg::Spain => Routing::Spain,
            RoutingArg::KspLp => Routing::KspLp,
            RoutingArg::Oblivious => Routing::Oblivious,
            RoutingArg::Best => Routing::Best,
        };
        let found = loads(&topology, &demands, routing).map_err(Failure::unusable)?;
        let answer = LoadFacts::new(&topology, &found);
        if self.json {
            return print(&plexus_report::json(&answer)?);
        }
        print(&answer.text(demands.len()))
    }
}
