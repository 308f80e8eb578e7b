//! `plexus topo show`: what is in a topology, and how far apart its nodes are.

use std::path::PathBuf;

use clap::Args;
use plexus_config::units::format_rate;
use plexus_topo::{Device, Graph, Topology};
use serde::Serialize;

use super::{print, summary};
use crate::exit::{Failure, Outcome};

/// Above this many nodes, the distances between all pairs are not worked out.
const DISTANCES_NODES_MAX: usize = 4096;
/// Lines of a table that are printed before it is cut.
const ROWS_SHOWN: usize = 40;

/// Arguments of `plexus topo show`.
#[derive(Args)]
pub(crate) struct Show {
    /// The topology file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    /// Reads the file and prints what is in it.
    pub(crate) fn run(&self) -> Outcome {
        let topology = Topology::read(&self.file).map_err(Failure::unusable)?;
        let facts = Facts::new(&topology);
        print(&if self.json { facts.json()? } else { facts.text(&topology) })
    }
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
    use plexus_topo::{Options, Shape, generate};

    use super::*;

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
