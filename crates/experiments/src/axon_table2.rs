//! `axon-table2`: shortest paths beside SPAIN's (`axon.txt` §5.5, table 2).
//!
//! 10,000 simulated hosts ask for five others each; the routes are those that the daemons'
//! controller then holds, one in each direction. Then one link is pulled out, and what the
//! controller sends because of it is counted on its cable. Every link is pulled out of a network of
//! its own, the busiest one first: a network that has lost a link has other routes already.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use plexus_config::RoutePolicy;
use plexus_controller::Controller;
use plexus_report::Failure;
use plexus_topo::{ArpLoad, ArpTargets, End, Shape};

use super::Setting;
use super::fabric_cost::{Case, Fabric, torus};
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row};
use super::side_by_side;

const SEED: u64 = 1;
const FLOWS_PER_HOST: u32 = 5;
const POLICIES: [(&str, RoutePolicy); 2] =
    [("shortest", RoutePolicy::Shortest), ("SPAIN", RoutePolicy::Spain)];
/// Questions and what follows from them are over within this time.
const SETTLED: Duration = Duration::from_secs(3);
/// Over which the controller's own cable is counted.
const PERIOD: Duration = Duration::from_secs(1);
/// Bytes of memory for each host of a network, about, while it runs.
const MEMORY_OF_HOST: u64 = 120_000;

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

/// A network and the link that it loses.
struct Job {
    name: &'static str,
    case: Case,
    policy: usize,
    /// 0: the busiest link; else one of `others`, which are evenly spaced when all links are sorted
    /// by their routes, 1 the least busy.
    pulled: usize,
    others: usize,
}

/// What came of a job.
struct Loss {
    spread: Spread,
    /// Routes over the link that was pulled out.
    routes: u64,
    /// What the controller sent because of it within [`PERIOD`], in kbit.
    sent_kbit: f64,
}

impl Job {
    fn title(&self) -> String {
        let (name, policy) = (self.name, POLICIES[self.policy].0);
        match self.pulled {
            0 => format!("{name}, {policy}, the busiest link"),
            n => format!("{name}, {policy}, link {n} of {}", self.others),
        }
    }

    /// The link to pull out, and the routes over it.
    fn link(&self, spread: &Spread) -> Option<(u64, (u64, u8))> {
        let mut sorted = spread.flows.clone();
        sorted.sort_unstable();
        match self.pulled {
            0 => sorted.last().copied(),
            n => sorted.get((2 * n - 1) * sorted.len() / (2 * self.others)).copied(),
        }
    }

    /// Builds the network, lets its hosts ask, and pulls out the link.
    fn run(&self, say: &mut dyn FnMut(&str)) -> Result<Loss, Failure> {
        say("finding itself");
        let mut fabric = Fabric::with_policy(&self.case, SEED, POLICIES[self.policy].1)?;
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
        say("the link is pulled out");
        let link = self.link(&spread).ok_or_else(|| Failure::No("there is no link".into()))?;
        let (routes, (node, port)) = link;
        let before = fabric.bits();
        fabric.run_for(PERIOD);
        let usual = fabric.bits().since(&before).controllers[0][1];
        let before = fabric.bits();
        // Nodes are numbered from 1 in the order of the topology.
        fabric.sim.pull(End::Port { node: node as usize - 1, port: port.into() });
        fabric.run_for(PERIOD);
        let sent = fabric.bits().since(&before).controllers[0][1];
        let sent_kbit = sent.saturating_sub(usual) as f64 / 1e3;
        Ok(Loss { spread, routes, sent_kbit })
    }
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let nodes = if setting.quick { 20 } else { 1000 };
    let others = if setting.quick { 1 } else { 5 };
    let random = Shape::Random { nodes, degree: 4, seed: SEED };
    let mut findings = Findings::new(SEED, "topology,policy,link,flows\n");
    let mut jobs = Vec::new();
    for (name, shape) in [("torus", torus(nodes)), ("random-low", random)] {
        for policy in 0..POLICIES.len() {
            let case = Case { name, shape: shape.clone(), hosts: nodes * 10, controllers: 1 };
            let job = |pulled| Job { name, case: case.clone(), policy, pulled, others };
            jobs.extend((0..=others).map(job));
        }
    }
    let losses = side_by_side::run(
        &jobs,
        setting.progress,
        Job::title,
        |job| job.case.hosts as u64 * MEMORY_OF_HOST,
        |job, say| job.run(say),
    )?;
    let mut groups = vec![];
    for (i, (jobs, losses)) in jobs.chunks(others + 1).zip(losses.chunks(others + 1)).enumerate() {
        let (Some(job), Some(busiest)) = (jobs.first(), losses.first()) else { continue };
        let (name, policy) = (job.name, POLICIES[job.policy].0);
        let figures = Figures::of(losses);
        for (number, (flows, _)) in busiest.spread.flows.iter().enumerate() {
            let _ = writeln!(findings.runs, "{name},{policy},{number},{flows}");
        }
        let theirs = &PAPER[i / POLICIES.len()][job.policy];
        let paper = (!setting.quick).then_some(theirs);
        figures.report(&mut findings, &format!("{name}, {policy}"), losses, paper);
        groups.push((
            format!("{name}, {policy}"),
            vec![theirs.mean, figures.mean, theirs.max, figures.max],
        ));
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
        series: ["mean", "most"]
            .into_iter()
            .flat_map(|name| [Series::paper(name), Series::ours(name)])
            .collect(),
        groups,
    }));
    Ok(findings)
}

/// A column of the table.
struct Figures {
    mean: f64,
    deviation: f64,
    max: f64,
    /// Sent for a failed link: the busiest, and the mean of the others.
    failure: [f64; 2],
}

impl Figures {
    /// Of the networks of a topology and policy, which are all the same until they lose a link: the
    /// busiest one, then others.
    fn of(losses: &[Loss]) -> Figures {
        let Some((busiest, others)) = losses.split_first() else {
            return Figures { mean: 0.0, deviation: 0.0, max: 0.0, failure: [0.0; 2] };
        };
        let spread = &busiest.spread;
        let sent: f64 = others.iter().map(|loss| loss.sent_kbit).sum();
        let failure = [busiest.sent_kbit, sent / others.len().max(1) as f64];
        let flows = || spread.flows.iter().map(|(flows, _)| *flows as f64);
        let mean = flows().sum::<f64>() / spread.flows.len().max(1) as f64;
        let variance =
            flows().map(|f| (f - mean).powi(2)).sum::<f64>() / spread.flows.len().max(1) as f64;
        let max = flows().fold(0.0, f64::max);
        Figures { mean, deviation: variance.sqrt(), max, failure }
    }

    fn report(&self, findings: &mut Findings, name: &str, losses: &[Loss], paper: Option<&Paper>) {
        let Some((busiest, others)) = losses.split_first() else { return };
        let spread = &busiest.spread;
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
        let routes: Vec<String> = others.iter().map(|loss| loss.routes.to_string()).collect();
        let note = format!(
            "by the controller, within a second; {} links of {} routes, each pulled out of a \
             network of its own",
            others.len(),
            routes.join(", ")
        );
        add("sent for a failed link, mean", "kbit", mean, |p| p.failure_mean, &note);
        let note = format!("{} routes, pulled out of a fresh network", busiest.routes);
        add("for the busiest", "kbit", worst, |p| p.failure_max, &note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(policy: usize, pulled: usize, others: usize) -> Job {
        let shape = Shape::Torus { sides: vec![3, 4] };
        let case = Case { name: "torus", shape, hosts: 24, controllers: 1 };
        Job { name: "torus", case, policy, pulled, others }
    }

    #[test]
    fn routes_cross_as_many_links_as_they_have_nodes_less_one() {
        let Loss { spread, routes, .. } = job(1, 0, 1).run(&mut |_| ()).unwrap();
        let crossed: u64 = spread.flows.iter().map(|(flows, _)| flows).sum();
        let nodes = spread.length * spread.routes as f64;
        assert_eq!(crossed as f64, (nodes - spread.routes as f64).round());
        // Five questions of each host, some of a pair from both sides: two routes for a pair.
        assert!((120..=240).contains(&spread.routes), "{}", spread.routes);
        assert_eq!(Some(routes), spread.flows.iter().map(|(flows, _)| *flows).max());
    }

    #[test]
    fn every_link_fails_in_a_network_that_has_lost_no_other_and_the_busiest_costs_most() {
        for policy in 0..POLICIES.len() {
            let losses: Vec<Loss> =
                (0..=3).map(|pulled| job(policy, pulled, 3).run(&mut |_| ()).unwrap()).collect();
            for loss in &losses[1..] {
                assert_eq!(loss.spread.flows, losses[0].spread.flows, "the same routes before");
                assert!(loss.routes <= losses[0].routes);
            }
            let [busiest, mean] = Figures::of(&losses).failure;
            assert!(busiest > mean && mean > 0.0, "{policy}: {busiest} {mean}");
        }
    }
}
