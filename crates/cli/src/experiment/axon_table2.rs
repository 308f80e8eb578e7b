//! `axon-table2`: shortest paths beside SPAIN's (`axon.txt` §5.5, table 2).
//!
//! 10,000 simulated hosts ask for five others each; the routes are those that the daemons'
//! controller then holds, one in each direction. Then links are pulled out, one after the other,
//! and what the controller sends because of it is counted on its cable.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use plexus_config::RoutePolicy;
use plexus_controller::Controller;
use plexus_topo::{ArpLoad, ArpTargets, End, Shape};

use super::Setting;
use super::fabric_cost::{Case, Fabric, torus};
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row};
use crate::exit::Failure;

const SEED: u64 = 1;
const FLOWS_PER_HOST: u32 = 5;
const POLICIES: [(&str, RoutePolicy); 2] =
    [("shortest", RoutePolicy::Shortest), ("SPAIN", RoutePolicy::Spain)];
/// Questions and what follows from them are over within this time.
const SETTLED: Duration = Duration::from_secs(3);
/// Over which the controller's own cable is counted.
const PERIOD: Duration = Duration::from_secs(1);

/// The paper's figures for one topology and policy.
struct Paper {
    length: f64,
    mean: f64,
    deviation: f64,
    max: f64,
    failure_mean: f64,
    failure_max: f64,
}

const fn paper(values: [f64; 6]) -> Paper {
    let [length, mean, deviation, max, failure_mean, failure_max] = values;
    Paper { length, mean, deviation, max, failure_mean, failure_max }
}

/// For torus and random, shortest and SPAIN.
const PAPER: [[Paper; 2]; 2] = [
    [
        paper([28.469, 1511.0, 1310.0, 4300.0, 938.0, 2670.0]),
        paper([28.677, 1524.0, 1216.0, 2836.0, 948.0, 1765.0]),
    ],
    [
        paper([6.366, 324.0, 112.0, 1026.0, 145.0, 460.0]),
        paper([6.43, 330.0, 45.0, 494.0, 148.0, 222.0]),
    ],
];

/// What the routes of a network come to.
struct Spread {
    routes: usize,
    /// Mean number of nodes on a route: links and one.
    length: f64,
    /// Routes over each link, both directions together, with one end of it.
    flows: Vec<(u64, (u64, u8))>,
}

/// Follows every route that the controller holds.
fn follow(controller: &Controller) -> Result<Spread, Failure> {
    let mut ends = HashMap::new();
    let links = controller.links();
    for (number, link) in links.iter().enumerate() {
        let [a, b] = link.ends;
        ends.insert(a, (number, b.0));
        ends.insert(b, (number, a.0));
    }
    let mut flows: Vec<_> = links.iter().map(|link| (0, link.ends[0])).collect();
    let (mut routes, mut nodes) = (0, 0);
    for flow in controller.flows() {
        for route in &flow.routes {
            let mut at = flow.node;
            // The last hop is the host's port.
            let Some((_, hops)) = route.split_last() else { continue };
            for port in hops {
                let &(link, next) = ends
                    .get(&(at, *port))
                    .ok_or_else(|| Failure::No(format!("a route leaves node {at} by {port}")))?;
                flows[link].0 += 1;
                at = next;
            }
            routes += 1;
            nodes += route.len();
        }
    }
    Ok(Spread { routes, length: nodes as f64 / routes.max(1) as f64, flows })
}

/// What the controller sends when a link is pulled out, in kbit: for the busiest link, and on
/// average for as many others, which are evenly spread over the network.
fn failures(fabric: &mut Fabric, busiest: (u64, u8), count: usize) -> [f64; 2] {
    let apart = fabric.links.len().div_ceil(count.max(1));
    let links: Vec<End> = fabric.links.iter().copied().step_by(apart).collect();
    let end_of = |(node, port): (u64, u8)| {
        // Nodes are numbered from 1 in the order of the topology.
        End::Port { node: node as usize - 1, port: port.into() }
    };
    let quiet = fabric.bits();
    fabric.run_for(PERIOD);
    let usual = fabric.bits().since(&quiet).controller[1];
    let mut pull = |end: End| {
        let before = fabric.bits();
        fabric.sim.pull(end);
        fabric.run_for(PERIOD);
        let sent = fabric.bits().since(&before).controller[1];
        sent.saturating_sub(usual) as f64 / 1e3
    };
    let spread = links.len() as f64;
    let sent: f64 = links.into_iter().map(&mut pull).sum();
    [pull(end_of(busiest)), sent / spread]
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let nodes = if setting.quick { 100 } else { 1000 };
    let pulled = if setting.quick { 2 } else { 10 };
    let random = Shape::Random { nodes, degree: 4, seed: SEED };
    let mut findings = Findings { seed: SEED, ..Findings::default() };
    findings.runs = String::from("topology,policy,link,flows\n");
    let mut groups = vec![];
    for (t, (name, shape)) in [("torus", torus(nodes)), ("random-low", random)].iter().enumerate() {
        let case = Case { name, shape: shape.clone(), hosts: nodes * 10 };
        for (p, (policy_name, policy)) in POLICIES.into_iter().enumerate() {
            let mut say = |what: &str| {
                setting.progress.detail(&format!("{name}, {policy_name}: {what}"));
            };
            say("finding itself");
            let mut fabric = Fabric::with_policy(&case, SEED, policy)?;
            fabric.settle(|_| ())?;
            fabric.run_for(SETTLED);
            say("hosts ask");
            let load = ArpLoad {
                per_host_per_s: f64::from(FLOWS_PER_HOST),
                lasts: Duration::from_secs(1),
                targets: ArpTargets::Random,
            };
            fabric.sim.begin_arp(&load);
            fabric.run_for(SETTLED);
            let controller = fabric.sim.controller();
            let spread = follow(controller.ok_or_else(|| Failure::No("no controller".into()))?)?;
            say("links are pulled out");
            let busiest = spread.flows.iter().max().map_or((0, 0), |(_, end)| *end);
            let failure = failures(&mut fabric, busiest, pulled);
            let figures = Figures::of(&spread, failure);
            for (number, (flows, _)) in spread.flows.iter().enumerate() {
                let _ = writeln!(findings.runs, "{name},{policy_name},{number},{flows}");
            }
            let paper = (!setting.quick).then_some(&PAPER[t][p]);
            figures.report(&mut findings, &format!("{name}, {policy_name}"), &spread, paper);
            let theirs = &PAPER[t][p];
            groups.push((
                format!("{name}, {policy_name}"),
                vec![theirs.mean, figures.mean, theirs.max, figures.max],
            ));
        }
    }
    findings.remarks.push(
        "a flow is a route in one direction; a link counts those of both. The paper's policies \
         choose among equals in a way that it does not tell, ours by distance alone (shortest) or \
         by load and a detour of a few links at most (SPAIN). The paper's Mb per failure are kb: \
         a packet for each of 1,511 flows is 938 kb at 78 bytes each"
            .into(),
    );
    findings.charts.push(Chart::Bars(Bars {
        title: "Routes over a link".into(),
        axis: "routes, both directions".into(),
        series: vec![
            Series::paper("mean"),
            Series::ours("mean"),
            Series::paper("most"),
            Series::ours("most"),
        ],
        groups,
    }));
    Ok(findings)
}

/// A column of the table.
struct Figures {
    mean: f64,
    deviation: f64,
    max: f64,
    failure: [f64; 2],
}

impl Figures {
    fn of(spread: &Spread, failure: [f64; 2]) -> Figures {
        let flows = || spread.flows.iter().map(|(flows, _)| *flows as f64);
        let mean = flows().sum::<f64>() / spread.flows.len().max(1) as f64;
        let variance =
            flows().map(|f| (f - mean).powi(2)).sum::<f64>() / spread.flows.len().max(1) as f64;
        let max = flows().fold(0.0, f64::max);
        Figures { mean, deviation: variance.sqrt(), max, failure }
    }

    fn report(&self, findings: &mut Findings, name: &str, spread: &Spread, paper: Option<&Paper>) {
        let mut add = |what: &str, unit, ours: f64, theirs: fn(&Paper) -> f64, note: &str| {
            let row = Row::new(format!("{name}: {what}"), unit, ours).note(note);
            findings.rows.push(match paper {
                Some(paper) => row.paper(theirs(paper)),
                None => row,
            });
        };
        let routes = format!("{} routes", spread.routes);
        add("mean route", "nodes", spread.length, |p| p.length, &routes);
        add("routes over a link, mean", "routes", self.mean, |p| p.mean, "");
        add("standard deviation", "routes", self.deviation, |p| p.deviation, "");
        add("most", "routes", self.max, |p| p.max, "");
        let [worst, mean] = self.failure;
        let note = "links all over the network, pulled out: by the controller, within a second";
        add("sent for a failed link, mean", "kbit", mean, |p| p.failure_mean, note);
        add("for the busiest", "kbit", worst, |p| p.failure_max, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_cross_as_many_links_as_they_have_nodes_less_one() {
        let shape = Shape::Torus { sides: vec![3, 4] };
        let case = Case { name: "torus", shape, hosts: 24 };
        let mut fabric = Fabric::with_policy(&case, 3, RoutePolicy::Spain).unwrap();
        fabric.settle(|_| ()).unwrap();
        fabric.run_for(SETTLED);
        let targets = ArpTargets::Random;
        let lasts = Duration::from_secs(1);
        fabric.sim.begin_arp(&ArpLoad { per_host_per_s: 5.0, lasts, targets });
        fabric.run_for(SETTLED);
        let spread = follow(fabric.sim.controller().unwrap()).unwrap();
        let crossed: u64 = spread.flows.iter().map(|(flows, _)| flows).sum();
        let nodes = spread.length * spread.routes as f64;
        assert_eq!(crossed as f64, (nodes - spread.routes as f64).round());
        // Five questions of each host, some of a pair from both sides: two routes for a pair.
        assert!((120..=240).contains(&spread.routes), "{}", spread.routes);
        let [worst, _] = failures(&mut fabric, spread.flows.iter().max().unwrap().1, 1);
        assert!(worst > 1.0, "{worst}");
    }
}
