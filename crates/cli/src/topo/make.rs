//! `plexus topo make`: writes a topology of a known shape.

use clap::{Args, Subcommand};
use plexus_config::units::parse_rate;
use plexus_topo::{Options, RANDOM_LOW_DEGREE, RANDOM_LOW_HOSTS, Shape, generate};

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Arguments of `plexus topo make`.
#[derive(Args)]
pub(crate) struct Make {
    #[command(subcommand)]
    shape: ShapeArg,
    /// Hosts on each node that has any; by default 1, or as many as make the shape complete
    #[arg(long, value_name = "N", global = true)]
    hosts: Option<usize>,
    /// Hosts in all, spread evenly over the same nodes
    #[arg(long, value_name = "N", global = true, conflicts_with = "hosts")]
    total_hosts: Option<usize>,
    /// Rate of every link that --host-rate does not set, as in 1Gbit
    #[arg(long, value_parser = rate, global = true)]
    rate: Option<u64>,
    /// Rate of the hosts' links, as in 100Mbit
    #[arg(long, value_parser = rate, value_name = "RATE", global = true)]
    host_rate: Option<u64>,
    /// Parallel cables between two nodes, besides what the shape has
    #[arg(long, value_name = "N", default_value_t = 1, global = true)]
    lanes: usize,
}

#[derive(Subcommand)]
enum ShapeArg {
    /// Each node joined with the next
    #[command(after_help = "Example:\n  plexus topo make line 4 > line.toml")]
    Line {
        /// How many nodes
        nodes: usize,
    },
    /// A line whose ends are joined
    #[command(after_help = "Example:\n  plexus topo make ring 8 > ring.toml")]
    Ring {
        /// How many nodes
        nodes: usize,
    },
    /// One node in the middle; the hosts are on the others
    #[command(after_help = "Example:\n  plexus topo make star 6 --hosts 4 > star.toml")]
    Star {
        /// How many nodes besides the one in the middle
        leaves: usize,
    },
    /// A grid that closes in every dimension
    #[command(after_help = "Example:\n  plexus topo make torus 4x4x4 > torus.toml")]
    Torus {
        /// Nodes along each dimension, as in 4x4 or 8x8x8
        #[arg(value_parser = sides)]
        sides: Sides,
    },
    /// Edge, aggregation and core of boxes with K ports: K³/4 hosts
    #[command(after_help = "Examples:\n  plexus topo make fat-tree 4 > fat-tree.toml\n  \
                            plexus topo make fat-tree 60 --total-hosts 50000 > large.toml")]
    FatTree {
        /// Ports of each box, an even number
        #[arg(value_name = "K")]
        ports: usize,
    },
    /// A K-ary N-flat flattened butterfly: in each of N - 1 dimensions every two are joined
    #[command(after_help = "\
Examples:
  plexus topo make butterfly 4 3 > butterfly.toml
  plexus topo make butterfly 2 4 --dilation 2 --fast 2 --rate 1Gbit > seed.toml
                  the seed's 16 ports on 8 boards: two 1 Gb/s Ethernet cables in one
                  dimension, one 2 Gb/s SATA cable in each of the others")]
    Butterfly {
        /// Nodes along each dimension, and hosts on each node
        #[arg(value_name = "K")]
        ary: usize,
        /// Dimensions and one more
        #[arg(value_name = "N")]
        flat: usize,
        /// Make every channel so many times as wide, with as many cables
        #[arg(long, value_name = "D", default_value_t = 1)]
        dilation: usize,
        /// In so many dimensions, the last, widen channels by one faster cable instead
        #[arg(long, value_name = "DIMENSIONS", default_value_t = 0)]
        fast: usize,
    },
    /// A Clos network of leaves and spines
    #[command(after_help = "Examples:\n  plexus topo make clos 4 4 > clos.toml\n  \
                            plexus topo make clos 4 4 --unfolded > boards.toml")]
    Clos {
        /// Leaves, each joined with every spine
        leaves: usize,
        /// Spines, and hosts on each leaf
        spines: usize,
        /// Three stages, inputs and outputs cabled apart: LEAVES boxes, SPINES, LEAVES again
        #[arg(long)]
        unfolded: bool,
    },
    /// The Axon paper's random graph with a mean degree of 4, and 10 hosts on each node
    #[command(after_help = "Example:\n  plexus topo make random-low 1000 --seed 7 > low.toml")]
    RandomLow {
        /// How many nodes
        nodes: usize,
        /// Mean number of links of a node
        #[arg(long, value_name = "N", default_value_t = RANDOM_LOW_DEGREE)]
        degree: usize,
        #[command(flatten)]
        seed: Seed,
    },
    /// The Axon paper's random graph, as large and with as many links as a flattened butterfly
    #[command(after_help = "Example:\n  plexus topo make random-high 4 3 --seed 7 > high.toml")]
    RandomHigh {
        /// Of the butterfly: nodes along each dimension, and hosts on each node
        #[arg(value_name = "K")]
        ary: usize,
        /// Of the butterfly: dimensions and one more
        #[arg(value_name = "N")]
        flat: usize,
        #[command(flatten)]
        seed: Seed,
    },
    /// A random graph whose nodes all have equally many links
    #[command(after_help = "Example:\n  plexus topo make jellyfish 20 4 --seed 7 > jelly.toml")]
    Jellyfish {
        /// How many nodes
        nodes: usize,
        /// Links of each
        degree: usize,
        #[command(flatten)]
        seed: Seed,
    },
    /// Complete groups joined by global links
    #[command(after_help = "Examples:\n  plexus topo make dragonfly 4 2 > dragonfly.toml\n  \
                            plexus topo make dragonfly 4 2 --groups 5 --hosts 2 > part.toml")]
    Dragonfly {
        /// Nodes of a group
        routers: usize,
        /// Global links of a node, and hosts on it
        global: usize,
        /// How many groups; by default as many as there are links for
        #[arg(long, value_name = "N")]
        groups: Option<usize>,
    },
    /// A distributed router's layer-2 boxes in front and layer-3 boxes behind, all joined
    #[command(after_help = "Example:\n  plexus topo make two-stage 4 2 --hosts 2 > router.toml")]
    TwoStage {
        /// Boxes in front, with hosts
        fronts: usize,
        /// Boxes behind
        backs: usize,
    },
}

#[derive(Args)]
struct Seed {
    /// Where the random choices start: the same seed gives the same graph
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Sides(Vec<usize>);

fn rate(text: &str) -> Result<u64, String> {
    match parse_rate(text) {
        Ok(0) => Err("a rate of 0 lets nothing through".to_string()),
        Ok(rate) => Ok(rate),
        Err(e) => Err(e.to_string()),
    }
}

fn sides(text: &str) -> Result<Sides, String> {
    let sides: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
    sides.map(Sides).map_err(|_| "write the sides as in 4x4 or 8x8x8".to_string())
}

impl ShapeArg {
    /// The shape, and hosts on a node unless one says otherwise.
    fn shape(self) -> (Shape, usize) {
        let shape = match self {
            ShapeArg::Line { nodes } => Shape::Line { nodes },
            ShapeArg::Ring { nodes } => Shape::Ring { nodes },
            ShapeArg::Star { leaves } => Shape::Star { leaves },
            ShapeArg::Torus { sides } => Shape::Torus { sides: sides.0 },
            ShapeArg::FatTree { ports } => Shape::FatTree { ports },
            ShapeArg::Butterfly { ary, flat, dilation, fast } => {
                Shape::Butterfly { ary, flat, dilation, fast }
            }
            ShapeArg::Clos { leaves, spines, unfolded: false } => Shape::Clos { leaves, spines },
            ShapeArg::Clos { leaves, spines, unfolded: true } => {
                Shape::UnfoldedClos { outer: leaves, middle: spines }
            }
            ShapeArg::RandomLow { nodes, degree, seed } => {
                return (Shape::Random { nodes, degree, seed: seed.seed }, RANDOM_LOW_HOSTS);
            }
            ShapeArg::RandomHigh { ary, flat, seed } => {
                return (Shape::random_high(ary, flat, seed.seed), ary);
            }
            ShapeArg::Jellyfish { nodes, degree, seed } => {
                Shape::Jellyfish { nodes, degree, seed: seed.seed }
            }
            ShapeArg::Dragonfly { routers, global, groups } => {
                Shape::dragonfly(routers, global, groups)
            }
            ShapeArg::TwoStage { fronts, backs } => Shape::TwoStage { fronts, backs },
        };
        let hosts = shape.usual_hosts();
        (shape, hosts)
    }
}

impl Make {
    /// Makes it and prints the file.
    pub(crate) fn run(self) -> Outcome {
        let (shape, usual_hosts) = self.shape.shape();
        let options = Options {
            hosts_per_node: self.hosts.unwrap_or(usual_hosts),
            hosts_total: self.total_hosts,
            host_rate_bits_per_s: self.host_rate.or(self.rate),
            link_rate_bits_per_s: self.rate,
            lanes: self.lanes,
        };
        print(&generate(&shape, options).map_err(Failure::unusable)?.to_toml())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_numbers_with_x_between() {
        assert_eq!(sides("4x4x2"), Ok(Sides(vec![4, 4, 2])));
        for bad in ["", "4x", "x4", "4×4", "-4x4", "99999999999999999999"] {
            assert!(sides(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn random_high_is_as_large_as_the_butterfly_and_random_low_as_the_paper_says() {
        let seed = || Seed { seed: 7 };
        let high = ShapeArg::RandomHigh { ary: 4, flat: 3, seed: seed() };
        assert_eq!(high.shape(), (Shape::Random { nodes: 16, degree: 6, seed: 7 }, 4));
        let low = ShapeArg::RandomLow { nodes: 50, degree: 4, seed: seed() };
        assert_eq!(low.shape(), (Shape::Random { nodes: 50, degree: 4, seed: 7 }, 10));
        let beyond = ShapeArg::RandomHigh { ary: usize::MAX, flat: usize::MAX, seed: seed() };
        assert!(generate(&beyond.shape().0, Options::default()).is_err());
    }
}
