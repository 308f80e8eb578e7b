//! The contents of a topology, and the distances of its nodes.

use plexus_config::units::format_rate;
use plexus_topo::{Device, Graph, Topology};
use serde::Serialize;

use super::{summary, table};
use crate::{Analysis, Certainty, Cost};

/// A topology, as `plexus topo show --json` prints it.
#[derive(Serialize)]
pub struct TopologyFacts {
    name: String,
    description: String,
    nodes: Vec<NodeFacts>,
    hosts: Vec<HostFacts>,
    links: Vec<LinkFacts>,
    #[serde(flatten)]
    analysis: Analysis,
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

impl TopologyFacts {
    /// Of this topology; its cost is compared with Clos networks of boxes with so many ports.
    pub fn new(topology: &Topology, clos_ports: Option<u64>) -> TopologyFacts {
        let graph = Graph::new(topology);
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
        TopologyFacts {
            name: topology.name.clone(),
            description: topology.description.clone(),
            nodes: nodes.collect(),
            hosts: hosts.collect(),
            links: links.collect(),
            analysis: Analysis::new(topology, clos_ports),
        }
    }

    /// For people.
    pub fn text(&self, topology: &Topology) -> String {
        let mut out = format!("{}: {}\n", self.name, summary(topology));
        if !self.description.is_empty() {
            out.push_str(&format!("{}\n", self.description));
        }
        out.push_str(&summary_of(&self.analysis, self.nodes.len()));
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

/// The analysis in lines.
fn summary_of(found: &Analysis, nodes: usize) -> String {
    let mut out = String::new();
    let mut line = |head: &str, text: String| out.push_str(&format!("{head:<17}{text}\n"));
    match (found.diameter, found.mean_hops) {
        (Some(diameter), Some(mean)) => {
            let hosts = found.host_mean_hops.map(|m| format!(", {m:.2} between hosts"));
            let hosts = hosts.unwrap_or_default();
            line("hops", format!("diameter {diameter}, mean {mean:.2} between nodes{hosts}"));
        }
        _ if found.cost.boxes > 1 => line("hops", "some nodes have no path".to_string()),
        _ => {}
    }
    let ways = found.diversity;
    if let (Some(mean), Some(least)) = (ways.disjoint_mean, ways.disjoint_least) {
        line("disjoint paths", format!("mean {mean:.2}, least {least}"));
    }
    if let (Some(mean), Some(least)) = (ways.shortest_mean, ways.shortest_least) {
        let [mean, least] = [mean, least].map(short);
        let from = match ways.shortest_sources {
            sources if sources < nodes => format!(" (from {sources} of the nodes)"),
            _ => String::new(),
        };
        line("shortest paths", format!("mean {mean}, least {least}{from}"));
    }
    if let Some(cables) = found.edge_connectivity {
        line("connectivity", format!("{cables} cables must fail to part two boxes"));
    }
    if let Some(half) = found.bisection {
        let amount = |capacity: f64| match half.unit {
            "bits/s" => format_rate(capacity as u64),
            unit => format!("{capacity} {unit}"),
        };
        let bound = half.lower_bound.map(|b| format!(", and none is below {}", amount(b)));
        let why = match half.certainty {
            Certainty::Exhaustive => "all halves were tried".to_string(),
            Certainty::Known => "proved for this shape".to_string(),
            Certainty::Bound => "meets its lower bound".to_string(),
            Certainty::BestFound => format!("the best cut found{}", bound.unwrap_or_default()),
        };
        line("bisection", format!("{} ({why})", amount(half.capacity)));
    }
    let counts = |c: Cost| format!("{} boxes, {} ports, {} cables", c.boxes, c.ports, c.cables);
    line("cost", counts(found.cost));
    let clos = found.clos;
    for (form, cost) in [("unfolded", clos.unfolded), ("folded", clos.folded)] {
        if let Some(cost) = cost {
            let of = format!("boxes with {} ports", clos.ports_per_box);
            line(&format!("Clos, {form}"), format!("{} ({of})", counts(cost)));
        }
    }
    out
}

/// A number of paths: there may be more than digits tell.
fn short(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{n:.2e}"),
        n if n.fract() == 0.0 => format!("{n}"),
        n => format!("{n:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use plexus_topo::{Options, Shape, generate};

    use super::*;

    #[test]
    fn shows_distances_and_every_link() {
        let shape = Shape::Ring { nodes: 4 };
        let topology = generate(&shape, Options { lanes: 2, ..Options::default() }).unwrap();
        let facts = TopologyFacts::new(&topology, None);
        assert_eq!((facts.analysis.diameter, facts.nodes[0].neighbours.len()), (Some(2), 2));
        let text = facts.text(&topology);
        assert!(text.contains("diameter 2, mean 1.33 between nodes, 3.33 between hosts"), "{text}");
        assert!(text.contains("disjoint paths   mean 4.00, least 4"), "{text}");
        assert!(text.contains("bisection        4 cables (all halves were tried)"), "{text}");
        assert!(text.contains("s1.p2 --- s2.p2 x2"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&serde_json::to_string(&facts).unwrap()).unwrap();
        assert_eq!(json["links"].as_array().unwrap().len(), 8);
        assert_eq!(json["links"][4]["lanes"], 2);
        assert_eq!((&json["diameter"], &json["edge_connectivity"]), (&2.into(), &4.into()));
    }

    #[test]
    fn the_seeds_butterfly_is_compared_with_12_boards() {
        let shape = Shape::Butterfly { ary: 2, flat: 4, dilation: 2, fast: 2 };
        let gigabit = Some(1_000_000_000);
        let options = Options {
            hosts_per_node: 2,
            host_rate_bits_per_s: gigabit,
            link_rate_bits_per_s: gigabit,
            ..Options::default()
        };
        let topology = generate(&shape, options).unwrap();
        let text = TopologyFacts::new(&topology, None).text(&topology);
        assert!(text.contains("cost             8 boxes,"), "{text}");
        assert!(text.contains("Clos, unfolded   12 boxes,"), "{text}");
        assert!(text.contains("bisection        8Gbit (all halves were tried)"), "{text}");
    }
}
