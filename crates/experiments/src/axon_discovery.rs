//! `axon-discovery`: what it takes until the controller knows the whole network (`axon.txt` §5.4).
//!
//! Nodes and controller are the daemons' code; every frame of theirs crosses simulated cables, and
//! these count. It ends when the controller knows all nodes and all links.

use std::fmt::Write as _;
use std::time::Duration;

use plexus_report::Failure;
use plexus_topo::Shape;

use super::Setting;
use super::fabric_cost::{Case, Fabric, torus};
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row};

/// How often is looked whether all is known.
const STEP: Duration = Duration::from_millis(1);
/// Beyond this something is wrong.
const LIMIT: Duration = Duration::from_secs(60);
/// The paper's: of the average link, and of the controller's, in Kbit.
const PAPER: [f64; 2] = [40.0, 108_000.0];

fn cases(quick: bool) -> Vec<Case> {
    let nodes = if quick { 100 } else { 5000 };
    let random = Shape::Random { nodes, degree: 4, seed: 1 };
    vec![
        Case { name: "torus", shape: torus(nodes), hosts: 0, controllers: 1 },
        Case { name: "random-low", shape: random, hosts: 0, controllers: 1 },
    ]
}

/// Runs a case until all is known; how long that took.
pub(super) fn discover(
    fabric: &mut Fabric,
    mut say: impl FnMut(String),
) -> Result<Duration, Failure> {
    loop {
        let known = fabric.sim.controller().map(|c| c.counts()).unwrap_or_default();
        let time: Duration = fabric.sim.work().time.into();
        if (known.nodes_up, known.links) == (fabric.nodes, fabric.links.len()) {
            return Ok(time);
        }
        if time >= LIMIT {
            let (nodes, links) = (fabric.nodes, fabric.links.len());
            return Err(Failure::No(format!(
                "after {LIMIT:?} the controller knows {} of {nodes} nodes, {} of {links} links",
                known.nodes_up, known.links
            )));
        }
        say(format!("{} of {} nodes known", known.nodes_up, fabric.nodes));
        fabric.run_for(STEP);
    }
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    const SEED: u64 = 1;
    let mut findings = Findings::new(SEED, "topology,nodes,links,time_s,direction,kbit\n");
    let mut groups = vec![("the paper".to_string(), PAPER.to_vec())];
    for case in cases(setting.quick) {
        let mut fabric = Fabric::new(&case, SEED)?;
        let took = discover(&mut fabric, |text| {
            setting.progress.detail(&format!("{}: {text}", case.name));
        })?;
        let bits = fabric.bits();
        let (nodes, links) = (fabric.nodes, fabric.links.len());
        let time = took.as_secs_f64();
        for (number, bits) in bits.links.iter().enumerate() {
            let kbit = *bits as f64 / 1e3;
            let _ = writeln!(findings.runs, "{},{nodes},{links},{time},{number},{kbit}", case.name);
        }
        for (name, bits) in ["to controller", "from controller"].iter().zip(bits.controllers[0]) {
            let kbit = bits as f64 / 1e3;
            let _ = writeln!(findings.runs, "{},{nodes},{links},{time},{name},{kbit}", case.name);
        }
        let row = |what: &str, kbit: f64| Row::new(format!("{}, {what}", case.name), "Kbit", kbit);
        let [to, from] = bits.controllers[0].map(|b| b as f64 / 1e3);
        let note = format!("{nodes} nodes, {links} links; each direction of a link by itself");
        let both = row("average link, both directions", bits.mean() * 2.0 / 1e3);
        findings.rows.push(at_full(both, PAPER[0], setting.quick).note(note));
        let controller = row("the controller's link, both directions", to + from);
        let note = format!("{to:.0} to the controller, {from:.0} from it");
        findings.rows.push(at_full(controller, PAPER[1], setting.quick).note(note));
        let busiest = row("busiest direction between nodes", bits.most() / 1e3);
        findings.rows.push(busiest.note("beside the controller"));
        let took = Row::new(format!("{}, until all is known", case.name), "ms", time * 1e3);
        findings.rows.push(took.note("simulated time; processors take none"));
        groups.push((format!("{}, ours", case.name), vec![bits.mean() * 2.0 / 1e3, to + from]));
    }
    findings.remarks.push(
        "a link is proved by a handshake with keys and sessions are sealed, where the paper has a \
         pre-shared key: our messages are larger. What was sent before all was known counts, \
         Heartbeats with it"
            .into(),
    );
    let series = ["average link", "the controller's link"].map(Series::ours);
    findings.charts.push(Chart::Bars(Bars {
        title: "Until the controller knows the whole network".into(),
        axis: "Kbit, both directions of a link".into(),
        series: series.into(),
        groups,
    }));
    Ok(findings)
}

/// Beside the paper's figure, where the network is as large as the paper's.
fn at_full(row: Row, paper: f64, quick: bool) -> Row {
    if quick { row } else { row.paper(paper) }
}
