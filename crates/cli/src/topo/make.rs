//! `plexus topo make`: writes a topology of a known shape.

use clap::{Args, Subcommand};
use plexus_config::units::parse_rate;
use plexus_topo::{Options, Shape, generate};

use super::print;
use crate::exit::{Failure, Outcome};

/// Arguments of `plexus topo make`.
#[derive(Args)]
pub(crate) struct Make {
    #[command(subcommand)]
    shape: ShapeArg,
    /// Hosts on each node
    #[arg(long, value_name = "N", default_value_t = 1, global = true)]
    hosts: usize,
    /// Rate of every link that --host-rate does not set, as in 1Gbit
    #[arg(long, value_parser = rate, global = true)]
    rate: Option<u64>,
    /// Rate of the hosts' links, as in 100Mbit
    #[arg(long, value_parser = rate, value_name = "RATE", global = true)]
    host_rate: Option<u64>,
    /// Parallel cables between two nodes
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

impl Make {
    /// Makes it and prints the file.
    pub(crate) fn run(self) -> Outcome {
        let shape = match self.shape {
            ShapeArg::Line { nodes } => Shape::Line { nodes },
            ShapeArg::Ring { nodes } => Shape::Ring { nodes },
            ShapeArg::Star { leaves } => Shape::Star { leaves },
            ShapeArg::Torus { sides } => Shape::Torus { sides: sides.0 },
        };
        let options = Options {
            hosts_per_node: self.hosts,
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
}
