//! `axon-table1-sim`: table 1 (`axon.txt` §5.1) at the paper's own rate, in the simulator.
//!
//! The same two labs as `axon-table1`, with cables of 1 Gbit/s, run by `plexus-sim`: the nodes and
//! the controller are the daemons' code, hosts and time are not real, so no processor can be short.
//! A run differs from the next one by its seed, which says when each flow begins and when its
//! datagrams leave. TCP is a machine without chance: connections that began in one instant would
//! stay in step, and seeds would give equal runs.

use std::fmt::Write as _;
use std::time::Duration;

use plexus_config::QueueOrder;
use plexus_report::Failure;
use plexus_topo::{Extent, Proto, Topology};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::Setting;
use super::axon_table1::{
    LABS, LINE, PAPER, PAPER_GAIN, PROTOS, RING, UDP_SIZE, ends, flow_rows, line_and_ring,
};
use super::plot::{Bars, Chart};
use super::report::{Findings, Row, Spread};
use super::simulate;

/// The paper's cables.
const RATE: u64 = 1_000_000_000;

/// Runs of each case, and how long a flow lasts.
struct Effort {
    runs: u64,
    time: Duration,
}

const FULL: Effort = Effort { runs: 5, time: Duration::from_secs(5) };
const QUICK: Effort = Effort { runs: 1, time: Duration::from_millis(100) };

/// Programs that a script starts begin within this time, in no order.
const STARTS: Duration = Duration::from_millis(10);

/// The lab of a file with the paper's cables and the flows of one protocol, whose begins the seed
/// decides. The same seed gives the same begins in every lab.
fn topology(
    text: &str,
    (proto, order): (Proto, QueueOrder),
    time: Duration,
    seed: u64,
) -> Result<Topology, String> {
    let mut topology = Topology::parse("embedded", text).map_err(|e| e.to_string())?;
    let mut random = Pcg64::seed_from_u64(seed);
    topology.keep_flows(|f| f.proto == proto);
    topology.assertions.clear();
    topology.links.iter_mut().for_each(|l| l.rate_bits_per_s = Some(RATE));
    let ports = topology.nodes.iter_mut().flat_map(|n| &mut n.ports);
    ports.for_each(|port| port.settings.queue.order = order);
    for flow in &mut topology.traffic {
        if proto == Proto::Udp {
            (flow.rate_bits_per_s, flow.size) = (Some(RATE), UDP_SIZE);
        }
        flow.extent = Extent::Duration(time);
        flow.start = random.random_range(Duration::ZERO..STARTS);
        flow.verify = false;
    }
    Ok(topology)
}

/// Payload that arrived, of each flow, in Mbit/s.
fn received(
    text: &str,
    (proto, order): (Proto, QueueOrder),
    effort: &Effort,
    seed: u64,
    line: impl Fn(&str) -> String,
    runs: &mut String,
) -> Result<Vec<f64>, Failure> {
    let topology = topology(text, (proto, order), effort.time, seed).map_err(Failure::unusable)?;
    let report = simulate::run(&topology, seed)?;
    if !report.facts.passed {
        return Err(Failure::No(report.to_string()));
    }
    for f in &report.facts.flows {
        let (sent, received) = (f.sent_bits_per_s, f.received_bits_per_s);
        let _ = writeln!(runs, "{}{sent:.0},{received:.0}", line(&f.name));
    }
    Ok(report.facts.flows.iter().map(|f| f.received_bits_per_s / 1e6).collect())
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let effort = if setting.quick { QUICK } else { FULL };
    let head = "seed,lab,proto,flow,sent_bits_per_s,received_bits_per_s\n";
    let mut findings = Findings::new(1, head);
    let mut groups = Vec::new();
    let mut flows: [[Vec<[f64; 2]>; 2]; 2] = Default::default();
    for (p, proto) in PROTOS.into_iter().enumerate() {
        let upper = proto.name().to_uppercase();
        let mut cases: [Vec<f64>; 2] = Default::default();
        for seed in 1..=effort.runs {
            for (lab, text) in [LINE, RING].into_iter().enumerate() {
                let name = LABS[lab];
                setting.progress.detail(&format!("{upper}, {name}, seed {seed}"));
                let line = |flow: &str| format!("{seed},{name},{},{flow},", proto.name());
                let case = (proto, QueueOrder::default());
                let received = received(text, case, &effort, seed, line, &mut findings.runs)?;
                cases[lab].push(received.iter().sum());
                flows[p][lab].push(ends(&received));
            }
        }
        let number = effort.runs as usize;
        let mut bars = Vec::new();
        for (lab, name) in LABS.iter().enumerate() {
            let spread = Spread::of(cases[lab].iter().copied());
            let row =
                Row::new(format!("{upper}, {name}, six flows together"), "Mbit/s", spread.median);
            findings.rows.push(row.paper(PAPER[p][lab]).note(spread.text(number)));
            bars.extend([PAPER[p][lab], spread.median]);
        }
        let [line, ring] = &cases;
        let gains = line.iter().zip(ring).map(|(l, r)| (r / l - 1.0) * 100.0);
        let gain = Spread::of(gains);
        let row = Row::new(format!("{upper}, gain of the ring"), "%", gain.median);
        findings.rows.push(row.paper(PAPER_GAIN[p]).note(gain.text(number)));
        groups.push((upper, bars));
    }
    let flows = flows.each_ref().map(|labs| labs.each_ref().map(|runs| &runs[..]));
    findings.rows.extend(flow_rows(flows, RATE as f64 / 1e6));
    for order in [QueueOrder::Port, QueueOrder::Fifo] {
        setting.progress.detail(&format!("UDP, line, queue = \"{}\"", order.name()));
        let no_line = |_: &str| String::new();
        let case = (Proto::Udp, order);
        let received = received(LINE, case, &effort, 1, no_line, &mut String::new())?;
        for (which, value) in ["least", "greatest"].into_iter().zip(ends(&received)) {
            let name = format!("UDP, line, {which} of the six flows, queue = \"{}\"", order.name());
            findings.rows.push(Row::new(name, "Mbit/s", value).note("seed 1").detail());
        }
    }
    findings.remarks.push(format!(
        "cables of 1Gbit as in the paper; flows of {:.1} s of simulated time, which begin within \
         {} ms of each other by the seed; TCP is cubic. What a processor takes is not simulated, \
         nor what a board's memory allows",
        effort.time.as_secs_f64(),
        STARTS.as_millis()
    ));
    findings.charts.push(Chart::Bars(Bars {
        title: "Six flows between three nodes, simulated".into(),
        axis: "arrived, in Mbit/s".into(),
        series: line_and_ring(),
        groups,
    }));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_cable_carries_udp_as_in_the_paper() {
        let effort = Effort { runs: 1, time: Duration::from_millis(100) };
        let case = (Proto::Udp, QueueOrder::default());
        let run = |text, seed| -> f64 {
            let flows = received(text, case, &effort, seed, |_| String::new(), &mut String::new());
            flows.unwrap().iter().sum()
        };
        let (line, ring) = (run(LINE, 1), run(RING, 1));
        // The ring carries every flow whole: 1,472 bytes of 1,538 in the cable's time, less the
        // route's header; the line has four directions of cables for six flows' eight hops.
        assert!((5500.0..6.0 * 957.1).contains(&ring), "{ring}");
        assert!(line < ring * 0.6, "{line}");
    }

    #[test]
    fn a_seed_gives_one_run_and_another_seed_another() {
        let effort = Effort { runs: 1, time: Duration::from_millis(100) };
        for proto in PROTOS {
            for text in [LINE, RING] {
                let run = |seed| -> Vec<f64> {
                    let no_line = |_: &str| String::new();
                    let case = (proto, QueueOrder::default());
                    received(text, case, &effort, seed, no_line, &mut String::new()).unwrap()
                };
                let one = run(1);
                assert_ne!(one, run(2), "{proto:?}");
                assert_eq!(one, run(1), "{proto:?}");
            }
        }
    }
}
