//! `axon-overhead`: what control messages cost each link (`axon.txt` §5.4, figure 6).
//!
//! Nodes and controller are the daemons' code, and every message is a frame that crosses simulated
//! cables and is counted there. First nobody asks for anything: what is sent then are Heartbeats,
//! and what each node tells the controller once in a second. Then every host asks for hosts that it
//! has not asked for before, until all have been answered; what was sent beyond that, divided by
//! the questions, is what a question costs each link. As the paper does, this is scaled to 10
//! questions of each host in a second.
//!
//! What that is compared with runs too: bridges with spanning tree between the same hosts and over
//! the same cables, which flood each question.

use std::fmt::Write as _;
use std::time::Duration;

use plexus_report::Failure;
use plexus_sim::memory_estimate;
use plexus_topo::Shape;

use super::Setting;
use super::ethernet::{self, FLOODED, Flood, HOSTS_MANY};
use super::fabric_cost::{ARP_PER_S, Case, Fabric, torus};
use super::plot::{Axis, Bars, Chart, Line, Series};
use super::report::{Findings, Row};
use super::side_by_side;

const SEED: u64 = 1;
/// The seed's links, in Mbit/s, of which an overhead is a share.
const LINK_MBIT: f64 = 1000.0;
/// The paper's bound on the average link's, in percent.
const PAPER_AVERAGE: f64 = 0.25;
/// With three controllers no link is to have more, in Mbit/s.
const SHARED_MOST: f64 = 500.0;
/// What is sent is counted over so long: some Heartbeats come once in a second, at all nodes in the
/// same instant.
const PERIOD: Duration = Duration::from_secs(1);
/// The same with controllers that stand by, which nodes tell their ports every 5 s.
const PERIOD_SHARED: Duration = Duration::from_secs(5);

/// Sizes of figure 6a's torus, of the other topologies, and how long hosts ask.
struct Effort {
    torus: &'static [usize],
    others: &'static [usize],
    asks: Duration,
}

const FULL: Effort = Effort {
    torus: &[1_000, 5_000, 10_000, 20_000, 50_000],
    others: &[5_000, 50_000],
    asks: Duration::from_millis(100),
};
const QUICK: Effort =
    Effort { torus: &[200, 400], others: &[200], asks: Duration::from_millis(100) };

/// Hosts of a node of torus and random-low, as in the paper.
const HOSTS: usize = 10;

/// The torus with several controllers, which share the questions.
const SHARED: &str = "torus, three controllers";

/// The five topologies of figure 6 for so many hosts, each with as few nodes as it needs, and the
/// torus once more.
fn cases(hosts: usize) -> [Case; 6] {
    let nodes = hosts / HOSTS;
    // Non-blocking: as many hosts on a node as a dimension is long (k^n in all), half of the ports
    // of an edge box in a fat tree (k^3 / 4 in all).
    let flat = if hosts > 5_000 { 4 } else { 3 };
    let ary = (2..).find(|k: &usize| k.pow(flat) >= hosts).unwrap_or(2);
    let ports = (2..).step_by(2).find(|k: &usize| k.pow(3) / 4 >= hosts).unwrap_or(2);
    let (butterfly_nodes, degree) = (ary.pow(flat - 1), (flat as usize - 1) * (ary - 1));
    let case = |name, shape| Case { name, shape, hosts, controllers: 1 };
    [
        case("torus", torus(nodes)),
        Case { controllers: 3, ..case(SHARED, torus(nodes)) },
        case("fat tree", Shape::FatTree { ports }),
        case("butterfly", Shape::Butterfly { ary, flat: flat as usize, dilation: 1, fast: 0 }),
        case("random-low", Shape::Random { nodes, degree: 4, seed: SEED }),
        case("random-high", Shape::Random { nodes: butterfly_nodes, degree, seed: SEED }),
    ]
}

/// What a run of the fabric found: Mbit/s of one direction of a link.
#[derive(Clone, Debug)]
struct Cost {
    nodes: usize,
    links: usize,
    asked: u64,
    /// On the average link, at the rate of [`ARP_PER_S`].
    heartbeats: f64,
    arp: f64,
    /// Of the busiest link between nodes, and of the controller's own cable.
    most: f64,
    controller: f64,
    /// Half of the questions were answered within so many microseconds.
    answer_us: f64,
}

impl Cost {
    fn average(&self) -> f64 {
        self.heartbeats + self.arp
    }
}

/// Builds a network, lets it find itself, and measures.
fn measure(case: &Case, asks: Duration, mut say: impl FnMut(&str)) -> Result<Cost, Failure> {
    say("building");
    let mut fabric = Fabric::new(case, SEED)?;
    fabric.settle(|sim| say(&format!("{:.2} s: finding itself", sim.work().time.as_secs_f64())))?;
    let period = if case.controllers > 1 { PERIOD_SHARED } else { PERIOD };
    let load = fabric.ask(case.hosts, ARP_PER_S, asks, period, say)?;
    let (heartbeats, arp) = (load.anyhow, load.arp);
    let total = |h: &[f64], a: &[f64]| h.iter().zip(a).map(|(h, a)| h + a).fold(0.0, f64::max);
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let links = heartbeats.len() - 2 * case.controllers;
    let (between, lead) = (0..links, links..);
    Ok(Cost {
        nodes: fabric.nodes,
        links: fabric.links.len(),
        asked: load.asked,
        heartbeats: mean(&heartbeats[between.clone()]),
        arp: mean(&arp[between.clone()]),
        most: total(&heartbeats[between.clone()], &arp[between]),
        controller: total(&heartbeats[lead.clone()], &arp[lead]),
        answer_us: load.answer_us,
    })
}

/// A network, and what its runs found.
struct Found {
    case: Case,
    cost: Cost,
    /// As an Ethernet, unless its spanning tree does not settle.
    flood: Option<Flood>,
}

/// What a network is run as.
#[derive(Clone, Copy, Debug)]
enum As {
    Fabric,
    Ethernet,
}

/// What came of that.
enum Ran {
    Fabric(Cost),
    Ethernet(Option<Flood>),
}

fn run_as(case: &Case, kind: As, asks: Duration, say: impl FnMut(&str)) -> Result<Ran, Failure> {
    Ok(match kind {
        As::Fabric => Ran::Fabric(measure(case, asks, say)?),
        As::Ethernet => Ran::Ethernet(ethernet::flood(case, SEED, say)?),
    })
}

/// Memory that a run takes, in bytes.
fn memory(case: &Case, kind: As) -> u64 {
    let Ok(topology) = case.topology() else { return 0 };
    match kind {
        As::Fabric => memory_estimate(&topology),
        As::Ethernet => ethernet::memory(&topology),
    }
}

/// Runs each network as both, side by side.
fn run_all(
    setting: &mut Setting<'_>,
    cases: &[Case],
    asks: Duration,
) -> Result<Vec<Found>, Failure> {
    // An Ethernet has no controllers.
    let is_new = |(case, kind): &(&Case, As)| case.controllers == 1 || matches!(kind, As::Fabric);
    let both = |case| [As::Fabric, As::Ethernet].map(|kind| (case, kind));
    let jobs: Vec<(&Case, As)> = cases.iter().flat_map(both).filter(is_new).collect();
    let weight = |(case, kind): &(&Case, As)| memory(case, *kind);
    let name = |(case, kind): &(&Case, As)| format!("{}, {}, {kind:?}", case.name, case.hosts);
    let run =
        |(case, kind): &(&Case, As), say: &mut dyn FnMut(&str)| run_as(case, *kind, asks, say);
    let ran = side_by_side::run(&jobs, setting.progress, name, weight, run)?;
    let mut found: Vec<Found> = vec![];
    for (ran, (case, _)) in ran.into_iter().zip(jobs) {
        match (ran, found.last_mut()) {
            (Ran::Fabric(cost), _) => found.push(Found { case: case.clone(), cost, flood: None }),
            (Ran::Ethernet(flood), Some(found)) => found.flood = flood,
            (Ran::Ethernet(_), None) => {}
        }
    }
    Ok(found)
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let effort = if setting.quick { QUICK } else { FULL };
    let mut findings = Findings::new(
        SEED,
        "topology,hosts,nodes,links,questions,heartbeats_mbit_per_s,arp_mbit_per_s,\
         busiest_link_mbit_per_s,controller_mbit_per_s,answer_us,ethernet_questions,\
         ethernet_mbit_per_s,ethernet_busiest_mbit_per_s,ethernet_bound_mbit_per_s\n",
    );
    let mut sizes: Vec<usize> = effort.torus.iter().chain(effort.others).copied().collect();
    sizes.sort_unstable();
    sizes.dedup();
    let largest = sizes.last().copied().unwrap_or(0);
    let wanted = |case: &Case| match case.name {
        "torus" => effort.torus.contains(&case.hosts),
        SHARED => effort.torus.last() == Some(&case.hosts),
        _ => effort.others.contains(&case.hosts),
    };
    let cases: Vec<Case> = sizes.into_iter().flat_map(cases).filter(wanted).collect();
    let found = run_all(setting, &cases, effort.asks)?;
    for found in &found {
        note_run(&mut findings, found);
    }
    for found in found.iter().filter(|found| found.case.hosts == largest) {
        report(&mut findings, found);
    }
    let [flooded, of_many] = FLOODED;
    findings.remarks.push(format!(
        "{largest} hosts, each asking for {ARP_PER_S} others in a second, drawn at random: the \
         paper's LBNL trace is not public. Figures are of one direction of a link, frames with \
         their checksum. Each network is run as an Ethernet too: bridges with spanning tree that \
         flood some {flooded} of these questions, {of_many} beyond {HOSTS_MANY} hosts, scaled; of \
         its links both \
         directions together, since a question crosses a link one way. Where that tree does not \
         settle there is no Ethernet to compare with"
    ));
    findings.charts.extend(charts(&found));
    Ok(findings)
}

fn note_run(findings: &mut Findings, found: &Found) {
    let Cost { nodes, links, asked, heartbeats, arp, most, controller, answer_us } = &found.cost;
    let (name, hosts) = (found.case.name, found.case.hosts);
    let bound = ethernet::bound(hosts);
    // Cells of what was not run are empty.
    let flood =
        found.flood.map_or(",,".into(), |f| format!("{},{},{}", f.asked, f.average, f.most));
    let _ = writeln!(
        findings.runs,
        "{name},{hosts},{nodes},{links},{asked},{heartbeats},{arp},{most},{controller},\
         {answer_us},{flood},{bound}"
    );
}

fn report(findings: &mut Findings, Found { case, cost, flood }: &Found) {
    let name = case.name;
    let share = cost.average() / LINK_MBIT * 100.0;
    let note = format!(
        "{} nodes, {} links: Heartbeats {:.3} and questions {:.3} Mbit/s",
        cost.nodes, cost.links, cost.heartbeats, cost.arp
    );
    let row = Row::new(format!("{name}, average link, of 1 Gbit/s"), "%", share);
    findings.rows.push(row.at_most(PAPER_AVERAGE).note(note));
    let bound = ethernet::bound(case.hosts);
    let busiest = format!("busiest between nodes {:.0}", cost.most);
    match flood {
        Some(flood) => {
            let quantity = format!("{name}, controller's link, of an Ethernet's average one");
            let row = Row::new(quantity, "ratio", cost.controller / flood.average);
            // A cost: to stay below the paper's is no failure.
            findings.rows.push(row.note(format!(
                "the paper: more than 2; {:.0} Mbit/s, {busiest}; the Ethernet: {:.1}, its busiest \
                 link {:.1}, by {} questions; the paper's bound, a formula: {bound:.1}",
                cost.controller, flood.average, flood.most, flood.asked
            )));
        }
        None if case.controllers > 1 => {
            let quantity = format!("{name}, the busiest of their links");
            let row = Row::new(quantity, "Mbit/s", cost.controller);
            findings.rows.push(row.at_most(SHARED_MOST).note(format!(
                "{busiest}; not in the paper, which has one controller: a node asks the nearest"
            )));
        }
        None => {
            let row = Row::new(format!("{name}, controller's link"), "Mbit/s", cost.controller);
            findings.rows.push(row.note(format!(
                "{busiest}; as an Ethernet its spanning tree did not settle; the paper's bound \
                 of one, a formula: {bound:.0}"
            )));
        }
    }
    let row = Row::new(format!("{name}, question to answer"), "us", cost.answer_us);
    findings.rows.push(row.note("median, idle cables of 10 Gbit/s; processors take no time"));
}

fn charts(found: &[Found]) -> [Chart; 2] {
    let torus = || found.iter().filter(|f| f.case.name == "torus");
    let line = |name: &str, of: &dyn Fn(&Found) -> f64| {
        Line::ours(name, torus().map(|f| (f.case.hosts as f64, of(f))).collect())
    };
    let flooded = torus().filter_map(|f| Some((f.case.hosts as f64, f.flood?.average)));
    let series = vec![
        line("Heartbeats, average link", &|f| f.cost.heartbeats),
        line("ARP, average link", &|f| f.cost.arp),
        line("together, average link", &|f| f.cost.average()),
        line("the controller's link", &|f| f.cost.controller),
        Line::ours("an Ethernet's average link", flooded.collect()),
        Line {
            paper: true,
            ..line("its least, every question once", &|f| ethernet::bound(f.case.hosts))
        },
    ];
    let sizes: Vec<usize> = torus().map(|f| f.case.hosts).collect();
    let largest = sizes.last().copied().unwrap_or(0);
    let of_size = |hosts| found.iter().filter(move |f| f.case.hosts == hosts);
    let hosts = if of_size(largest).count() == 1 { sizes[0] } else { largest };
    let groups =
        of_size(hosts).map(|f| (f.case.name.to_string(), vec![f.cost.heartbeats, f.cost.arp]));
    [
        Chart::lines(
            "Control messages on a torus, 10 questions of each host in a second",
            Axis::log("hosts"),
            Axis::log("Mbit/s of one direction"),
            series,
        ),
        Chart::Bars(Bars {
            title: format!("Control messages on the average link, {hosts} hosts"),
            axis: "Mbit/s of one direction".into(),
            series: ["Heartbeats", "ARP"].map(Series::ours).into(),
            groups: groups.collect(),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_are_no_larger_than_the_hosts_need() {
        let [torus, shared, tree, butterfly, low, high] = cases(50_000).map(|case| case.shape);
        assert_eq!(shared, torus);
        assert_eq!(torus, Shape::Torus { sides: vec![50, 100] });
        // 58^3 / 4 = 48,778 hosts are too few, and so are 14^4.
        assert_eq!(tree, Shape::FatTree { ports: 60 });
        assert_eq!(butterfly, Shape::Butterfly { ary: 15, flat: 4, dilation: 1, fast: 0 });
        assert_eq!(low, Shape::Random { nodes: 5_000, degree: 4, seed: SEED });
        assert_eq!(high, Shape::Random { nodes: 3_375, degree: 42, seed: SEED });
    }

    #[test]
    fn a_question_costs_what_its_messages_do() {
        // A question's messages go the same ways however many hosts there are, so its cost grows as
        // they do. What is sent anyhow does not, but that a node tells the states of its ports.
        let shape = Shape::Torus { sides: vec![2, 5] };
        let case = |hosts| Case { name: "torus", shape: shape.clone(), hosts, controllers: 1 };
        let few = measure(&case(10), Duration::from_millis(200), |_| ()).unwrap();
        let more = measure(&case(100), Duration::from_millis(200), |_| ()).unwrap();
        let anyhow = more.heartbeats / few.heartbeats;
        assert!((1.0..1.3).contains(&anyhow), "{anyhow}: {few:?} {more:?}");
        let ratio = more.arp / few.arp;
        assert!((7.0..13.0).contains(&ratio), "{ratio}: {few:?} {more:?}");
        assert!(more.controller > more.most * 0.9 && more.most > more.average());
    }

    #[test]
    fn controllers_that_share_the_questions_have_less_each_and_the_links_too() {
        let case = |controllers| Case {
            name: "torus",
            shape: Shape::Torus { sides: vec![6, 10] },
            hosts: 120,
            controllers,
        };
        let one = measure(&case(1), Duration::from_millis(100), |_| ()).unwrap();
        let three = measure(&case(3), Duration::from_millis(100), |_| ()).unwrap();
        assert!(three.controller < one.controller * 0.6, "{one:?} {three:?}");
        assert!(three.arp < one.arp, "{one:?} {three:?}");
    }
}
