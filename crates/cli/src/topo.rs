//! `plexus topo`: make, show, check, import and export topology files, and lay traffic on them; one
//! module per subcommand.

mod check;
mod export;
mod import;
mod loads;
mod make;
mod show;

use clap::{Args, Subcommand};

use crate::exit::Outcome;

/// Arguments of `plexus topo`.
#[derive(Args)]
#[command(after_help = "Example:\n  plexus topo make torus 4x4 --hosts 2 > torus.toml\n  \
                        plexus topo show torus.toml")]
pub(crate) struct Topo {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a topology of a known shape to standard output
    #[command(
        after_help = "Example:\n  plexus topo make ring 8 --hosts 2 --rate 1Gbit > ring.toml"
    )]
    Make(make::Make),
    /// Show a topology: its nodes and links, distances, paths, bisection and cost
    #[command(after_help = "Example:\n  plexus topo show labs/switch.toml\n  \
                            plexus topo show labs/switch.toml --json")]
    Show(show::Show),
    /// Find out whether a network is rearrangeably non-blocking at its hosts' line rates
    Check(check::Check),
    /// Show the load of every cable under given demands and a routing
    Loads(loads::LoadsArgs),
    /// Make a topology file from another program's network: a graph, or a lab
    #[command(after_help = "\
Examples:
  plexus topo import Abilene.graphml --hosts 1 > abilene.toml
                  a network of the Internet Topology Zoo, with a host on each node
  plexus topo import graph.json --name campus > campus.toml
  plexus topo import lab.clab.yml > lab.toml
                  a lab of containerlab
  plexus topo import --format mininet topology.json > net.toml
                  a network that a script for Mininet reads; MiniEdit's files end with .mn

In graphs, nodes are nodes unless an attribute \"kind\" says \"host\" or \"bridge\"; links have
the rate that \"rate_bits_per_s\" or the Zoo's \"LinkSpeedRaw\" tells, and \"lanes\",
\"delay_ns\", \"mtu\", \"loss\", \"source_port\", \"target_port\".

Of containerlab's nodes, bridges are bridges, containers of kind linux with at most one link are
hosts, and all others are nodes; a label \"plexus-kind\" (node, host, bridge) says otherwise.
Hosts have the addresses and gateways of their exec lines. Of Mininet, hosts are hosts and switches
are nodes. What had to be changed or left out is told on standard error.")]
    Import(import::Import),
    /// Write a topology as a graph, a lab of containerlab, or a drawing
    #[command(after_help = "Examples:\n  \
                            plexus topo export labs/ring.toml --format svg > ring.svg\n  \
                            plexus topo export labs/ring.toml --format dot | neato -Tpdf > \
                            r.pdf\n  \
                            plexus topo export labs/ring.toml --format containerlab --out ring\n\n\
                            Of a fabric, --out also makes a new group with an identity for each \
                            node and the controller.")]
    Export(export::Export),
}

impl Topo {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Make(make) => make.run(),
            Command::Show(show) => show.run(),
            Command::Check(check) => check.run(),
            Command::Loads(args) => args.run(),
            Command::Import(import) => import.run(),
            Command::Export(export) => export.run(),
        }
    }
}
