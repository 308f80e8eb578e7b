//! The load of every cable.

use plexus_topo::Topology;
use serde::Serialize;

use super::table;
use crate::{BoundBy, Loads};

/// Loads, as `plexus topo loads --json` prints them.
#[derive(Serialize)]
pub struct LoadFacts<'a> {
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

impl<'a> LoadFacts<'a> {
    /// Of loads on this topology.
    pub fn new(topology: &'a Topology, found: &Loads) -> LoadFacts<'a> {
        let row = |cable: &crate::CableLoad| {
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
        LoadFacts {
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

    /// For people: the fullest cables first.
    pub fn text(&self, demands: usize) -> String {
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
    use plexus_topo::{Device, Graph, Options, Shape, generate};

    use super::*;
    use crate::{Demand, Routing, loads};

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
        let json = serde_json::to_value(LoadFacts::new(&topology, &found)).unwrap();
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
