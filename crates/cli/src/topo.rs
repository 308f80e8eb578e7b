//! `plexus topo`: make, show and check topology files, and lay traffic on them.

mod check;
mod loads;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use plexus_config::units::{format_rate, parse_rate};
use plexus_topo::{Device, Graph, Options, Shape, Topology, generate};
use serde::Serialize;

use crate::exit::{Failure, Outcome};

/// Above this many nodes, the distances between all pairs are not worked out.
const DISTANCES_NODES_MAX: usize = 4096;
/// Lines of a table that are printed before it is cut.
const ROWS_SHOWN: usize = 40;

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
    /// Write a regular topology to standard output
    #[command(
        after_help = "Example:\n  plexus topo make ring 8 --hosts 2 --rate 1Gbit > ring.toml"
    )]
    Make(Make),
    /// Show a topology: its nodes and links, and how far apart the nodes are
    #[command(after_help = "Example:\n  plexus topo show labs/switch.toml\n  \
                            plexus topo show labs/switch.toml --json")]
    Show {
        /// The topology file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Find out whether a network is non-blocking at its hosts' line rates
    Check(check::Check),
    /// What every cable carries when demands are laid on a topology by a routing
    Loads(loads::LoadsArgs),
}

#[derive(Args)]
struct Make {
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

impl Topo {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Make(make) => make.run(),
            Command::Show { file, json } => {
                let topology = Topology::read(&file).map_err(Failure::unusable)?;
                let facts = Facts::new(&topology);
                print(&if json { facts.json()? } else { facts.text(&topology) })
            }
            Command::Loads(args) => args.run(),
            Command::Check(args) => args.run(),
        }
    }
}

impl Make {
    fn run(self) -> Outcome {
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

/// Writes to standard output; a reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::unusable(e)),
        _ => Ok(()),
    }
}

/// What there is in a topology, in a line.
pub(crate) fn summary(topology: &Topology) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut counts = vec![
        count(topology.nodes.len(), "node"),
        count(topology.hosts.len(), "host"),
        count(topology.links.len(), "link"),
        count(topology.traffic.len(), "flow"),
        count(topology.assertions.len(), "assertion"),
    ];
    if !topology.bridges.is_empty() {
        counts.insert(1, count(topology.bridges.len(), "bridge"));
    }
    counts.join(", ")
}

/// What `plexus topo show` prints.
#[derive(Serialize)]
struct Facts {
    name: String,
    description: String,
    nodes: Vec<NodeFacts>,
    hosts: Vec<HostFacts>,
    links: Vec<LinkFacts>,
    /// Links between the two nodes that are farthest apart; `null` where some have no path, or
    /// there are too few or too many nodes.
    diameter: Option<u32>,
    /// Mean number of links over all ordered pairs of different nodes; `null` as above.
    mean_hops: Option<f64>,
}

#[derive(Serialize)]
struct NodeFacts {
    name: String,
    ports: usize,
    hosts: usize,
    neighbours: Vec<String>,
}

#[derive(Serialize)]
struct HostFacts {
    name: String,
    addresses: Vec<String>,
    macs: Vec<String>,
}

#[derive(Serialize)]
struct LinkFacts {
    ends: [String; 2],
    lanes: usize,
    rate_bits_per_s: Option<u64>,
    delay_us: f64,
    mtu: u16,
    loss: f64,
}

impl Facts {
    fn new(topology: &Topology) -> Facts {
        let graph = Graph::new(topology);
        let few = topology.nodes.len() <= DISTANCES_NODES_MAX;
        let distances = if few { graph.node_distances() } else { None };
        let nodes = topology.nodes.iter().enumerate().map(|(i, node)| {
            let beside = graph.edges(i).iter().map(|e| graph.device(e.to));
            let (hosts, mut nodes): (Vec<_>, Vec<_>) =
                beside.partition(|d| matches!(d, Device::Host(_)));
            nodes.dedup();
            NodeFacts {
                name: node.name.clone(),
                ports: node.ports.len(),
                hosts: hosts.len(),
                neighbours: nodes.iter().map(|d| topology.device_name(*d).to_string()).collect(),
            }
        });
        let hosts = topology.hosts.iter().map(|host| HostFacts {
            name: host.name.clone(),
            addresses: host.addresses.iter().map(ToString::to_string).collect(),
            macs: host.interfaces.iter().map(|i| i.mac.to_string()).collect(),
        });
        let links = topology.links.iter().map(|link| LinkFacts {
            ends: link.cables[0].map(|end| topology.end_name(end)),
            lanes: link.cables.len(),
            rate_bits_per_s: link.rate_bits_per_s,
            delay_us: link.delay.as_secs_f64() * 1e6,
            mtu: link.mtu,
            loss: link.loss,
        });
        Facts {
            name: topology.name.clone(),
            description: topology.description.clone(),
            nodes: nodes.collect(),
            hosts: hosts.collect(),
            links: links.collect(),
            diameter: distances.map(|d| d.diameter),
            mean_hops: distances.map(|d| d.mean),
        }
    }

    fn json(&self) -> Result<String, Failure> {
        let mut text = serde_json::to_string_pretty(self).map_err(Failure::unusable)?;
        text.push('\n');
        Ok(text)
    }

    fn text(&self, topology: &Topology) -> String {
        let mut out = format!("{}: {}\n", self.name, summary(topology));
        if !self.description.is_empty() {
            out.push_str(&format!("{}\n", self.description));
        }
        if let (Some(diameter), Some(mean)) = (self.diameter, self.mean_hops) {
            out.push_str(&format!("diameter {diameter}, mean {mean:.2} hops between nodes\n"));
        }
        let nodes = self.nodes.iter().map(|node| {
            let beside = node.neighbours.join(" ");
            vec![node.name.clone(), node.ports.to_string(), node.hosts.to_string(), beside]
        });
        out.push_str(&table(&["NODE", "PORTS", "HOSTS", "NEIGHBOURS"], nodes.collect()));
        let links = self.links.iter().map(|link| {
            let lanes = if link.lanes > 1 { format!(" x{}", link.lanes) } else { String::new() };
            let rate = link.rate_bits_per_s.map_or("-".to_string(), format_rate);
            let delay = match link.delay_us {
                0.0 => "-".to_string(),
                us => format!("{us}us"),
            };
            let [a, b] = &link.ends;
            vec![format!("{a} --- {b}{lanes}"), rate, delay, link.mtu.to_string()]
        });
        out.push_str(&table(&["LINK", "RATE", "DELAY", "MTU"], links.collect()));
        out
    }
}

/// Columns as wide as what they hold, after an empty line; long tables are cut, and say so.
fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let more = rows.len().saturating_sub(ROWS_SHOWN);
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let shown: Vec<&Vec<String>> =
        std::iter::once(&heads).chain(rows.iter().take(ROWS_SHOWN)).collect();
    let width = |column: usize| {
        shown.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..heads.len()).map(|c| width(c).unwrap_or(0)).collect();
    let mut out = String::from("\n");
    for row in shown {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    if more > 0 {
        out.push_str(&format!("… and {more} more (--json shows all)\n"));
    }
    out
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
    fn shows_distances_and_every_link() {
        let shape = Shape::Ring { nodes: 4 };
        let topology = generate(&shape, Options { lanes: 2, ..Options::default() }).unwrap();
        let facts = Facts::new(&topology);
        assert_eq!((facts.diameter, facts.nodes[0].neighbours.len()), (Some(2), 2));
        let text = facts.text(&topology);
        assert!(text.contains("diameter 2, mean 1.33 hops"), "{text}");
        assert!(text.contains("s1.p2 --- s2.p2 x2"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&facts.json().unwrap()).unwrap();
        assert_eq!(json["links"].as_array().unwrap().len(), 8);
        assert_eq!(json["links"][4]["lanes"], 2);
    }

    #[test]
    fn long_tables_are_cut_aloud() {
        let rows = (0..100).map(|i| vec![i.to_string()]).collect();
        assert!(table(&["N"], rows).ends_with("… and 60 more (--json shows all)\n"));
    }
}
