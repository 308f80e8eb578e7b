//! `plexus topo loads`: what every cable carries when demands are laid on a topology.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plexus_analysis::{BoundBy, Loads, Routing, loads, read_demands};
use plexus_topo::Topology;
use serde::Serialize;

use super::show::table;
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

/// What `--json` prints (DESIGN, "JSON answers: topo loads").
#[derive(Serialize)]
struct Answer<'a> {
    links: Vec<Row<'a>>,
    max: f64,
    mean: f64,
    lower_bound: f64,
    unrouted: f64,
    routing: &'static str,
    /// `lp`: the bound is the optimum; `lengths`: the optimum may be greater.
    lower_bound_by: &'static str,
    max_utilisation: Option<f64>,
    utilisation_lower_bound: Option<f64>,
}

/// One direction of one cable.
#[derive(Serialize)]
struct Row<'a> {
    from: &'a str,
    to: &'a str,
    load: f64,
    from_port: &'a str,
    to_port: &'a str,
    lane: usize,
    utilisation: Option<f64>,
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
        let answer = Answer::new(&topology, &found);
        if self.json {
            return print(&plexus_report::json(&answer)?);
        }
        print(&answer.text(demands.len()))
    }
}

impl<'a> Answer<'a> {
    fn new(topology: &'a Topology, found: &Loads) -> Answer<'a> {
        let row = |cable: &plexus_analysis::CableLoad| {
            let [a, b] = topology.links[cable.link].cables[cable.lane];
            let [from, to] = if cable.reversed { [b, a] } else { [a, b] };
            Row {
                from: topology.device_name(from.device()),
                to: topology.device_name(to.device()),
                load: cable.load,
                from_port: port_name(topology, from),
                to_port: port_name(topology, to),
                lane: cable.lane,
                utilisation: cable.utilisation,
            }
        };
        Answer {
            links: found.cables.iter().map(row).collect(),
            max: found.max,
            mean: found.mean,
            lower_bound: found.lower_bound,
            unrouted: found.unrouted,
            routing: found.routing,
            lower_bound_by: match found.bound_by {
                BoundBy::Lp => "lp",
                BoundBy::Lengths => "lengths",
            },
            max_utilisation: found.max_utilisation,
            utilisation_lower_bound: found.utilisation_bound,
        }
    }

    /// The answer for people: the fullest cables first.
    fn text(&self, demands: usize) -> String {
        let s = if demands == 1 { "" } else { "s" };
        let mut out = format!(
            "{demands} demand{s} by {}: maximum load {}, mean {}, unrouted {}\n",
            self.routing,
            number(self.max),
            number(self.mean),
            number(self.unrouted),
        );
        let certainty = match self.lower_bound_by {
            "lp" => "the optimum",
            _ => "the optimum may be greater",
        };
        let bound = number(self.lower_bound);
        out.push_str(&format!("no routing has a smaller maximum than {bound} ({certainty})\n"));
        if let (Some(max), Some(bound)) = (self.max_utilisation, self.utilisation_lower_bound) {
            let (max, bound) = (number(max), number(bound));
            out.push_str(&format!("utilisation at most {max}, at best {bound}\n"));
        }
        let mut rows: Vec<&Row<'_>> = self.links.iter().collect();
        let fullness = |row: &Row<'_>| row.utilisation.unwrap_or(row.load);
        rows.sort_by(|a, b| fullness(b).total_cmp(&fullness(a)));
        let cells = |row: &&Row<'_>| {
            vec![
                format!("{}.{}", row.from, row.from_port),
                format!("{}.{}", row.to, row.to_port),
                number(row.load),
                row.utilisation.map_or("-".to_string(), number),
            ]
        };
        let rows = rows.iter().map(cells).collect();
        out.push_str(&table(&["FROM", "TO", "LOAD", "UTILISATION"], rows));
        out
    }
}

fn port_name(topology: &Topology, end: plexus_topo::End) -> &str {
    use plexus_topo::End;
    match end {
        End::Port { node, port } => &topology.nodes[node].ports[port].name,
        End::Host { host, interface } => &topology.hosts[host].interfaces[interface].name,
        End::Bridge { bridge, port } => &topology.bridges[bridge].ports[port],
    }
}

/// Six digits, and no more zeros than needed.
fn number(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e15).contains(&value) {
        return format!("{value:.5e}");
    }
    let before = value.abs().max(1.0).log10().floor() as usize;
    let text = format!("{value:.*}", 5_usize.saturating_sub(before));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use plexus_analysis::Demand;
    use plexus_topo::{Device, Graph, Options, Shape, generate};

    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (2.5, "2.5"),
            (1.0 / 3.0, "0.33333"),
            (1_234_567.0, "1234567"),
            (1e18, "1.00000e18"),
            (1e-6, "1.00000e-6"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn json_names_every_direction_of_every_lane() {
        let shape = Shape::Line { nodes: 2 };
        let options = Options {
            lanes: 2,
            host_rate_bits_per_s: Some(8),
            link_rate_bits_per_s: Some(4),
            ..Options::default()
        };
        let topology = generate(&shape, options).unwrap();
        let graph = Graph::new(&topology);
        let [from, to] = [Device::Host(0), Device::Node(1)].map(|d| graph.vertex(d));
        let demands = [Demand { from, to, amount: 6.0 }];
        let found = loads(&topology, &demands, Routing::Ecmp).unwrap();
        let json = serde_json::to_value(Answer::new(&topology, &found)).unwrap();
        let links = json["links"].as_array().unwrap();
        assert_eq!(links.len(), 2 * 4);
        let loaded: Vec<String> = links
            .iter()
            .filter(|l| l["load"].as_f64() > Some(0.0))
            .map(|l| format!("{} {} {} {}", l["from_port"], l["to"], l["load"], l["utilisation"]))
            .collect();
        let expected =
            [r#""eth0" "s1" 6.0 0.75"#, r#""p2" "s2" 3.0 0.75"#, r#""p2-2" "s2" 3.0 0.75"#];
        assert_eq!(loaded, expected);
        assert_eq!((json["max"].as_f64(), json["mean"].as_f64()), (Some(6.0), Some(1.5)));
        assert_eq!(
            (json["lower_bound"].as_f64(), json["unrouted"].as_f64()),
            (Some(6.0), Some(0.0))
        );
        assert_eq!(json["lower_bound_by"], "lp");
    }
}
