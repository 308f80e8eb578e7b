//! `axon-table1`: what the third cable of a ring brings (`axon.txt` §5.1, table 1).
//!
//! Three nodes with two hosts each, six flows, in a line and in a ring: the labs `labs/line.toml`
//! and `labs/ring.toml`, embedded. Here UDP flows offer what their host's cable carries and more,
//! as netperf does, and every flow runs for a time. Both labs are up together and take turns, so
//! that what disturbs the machine disturbs both.

use std::fmt::Write as _;
use std::time::Duration;

use plexus_config::units::format_rate;
use plexus_lab::{NodeProgram, RunReport, Tied};
use plexus_report::Failure;
use plexus_topo::{Device, Extent, Proto, Topology};

use super::Setting;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, Spread};

pub(super) const LINE: &str = include_str!("../../../labs/line.toml");
pub(super) const RING: &str = include_str!("../../../labs/ring.toml");

/// UDP payload of a full frame: 1,500 bytes less IPv4 and UDP headers.
pub(super) const UDP_SIZE: u16 = 1472;
/// A node busier than this may have been the limit, and not its cables.
const BUSY: f64 = 0.8;
/// A lab's run ends this long after the last packet of UDP flows that lost some: its nodes' shares
/// of a core are means over that as well.
const TAIL: Duration = Duration::from_secs(1);
/// Why nodes drop frames whose cable is down, or not yet known to lead to a node.
const OUTAGES: [&str; 2] = ["port_down", "port_unknown"];
/// Bytes that a full frame takes on a cable, with header, FCS, preamble and gap.
const ON_CABLE: f64 = 1538.0;
/// A sender that offered less than this of what its cable carries was short of processor time
/// itself. The shaper counts frames in steps of 8 bytes, and takes up to 1 % more for them.
const OFFERED: f64 = 0.98;

/// Runs of each case, and how long a flow lasts.
struct Effort {
    runs: usize,
    time: Duration,
}

const FULL: Effort = Effort { runs: 5, time: Duration::from_secs(10) };
const QUICK: Effort = Effort { runs: 1, time: Duration::from_secs(1) };

pub(super) const LABS: [&str; 2] = ["line", "ring"];
pub(super) const PROTOS: [Proto; 2] = [Proto::Udp, Proto::Tcp];
/// The paper's cables, in Mbit/s.
const PAPER_LINK: f64 = 1000.0;
/// Table 1, aggregates in Mbit/s: of each protocol the line's and the ring's.
pub(super) const PAPER: [[f64; 2]; 2] = [[2906.0, 5690.0], [2425.0, 3951.0]];
/// The least and the greatest of the table's six flows, likewise.
const PAPER_FLOWS: [[[f64; 2]; 2]; 2] =
    [[[476.0, 509.0], [930.0, 952.0]], [[243.0, 598.0], [493.0, 815.0]]];
/// §5.1: "96 %" and "63 %".
pub(super) const PAPER_GAIN: [f64; 2] = [96.0, 63.0];

/// Why ours may differ.
const DIFFERENCE: &str = "TCP hangs on what the paper does not give: its queues (here a host's \
    shaper and a node's port hold their usual limits), its kernel and its congestion control";

/// One case, a protocol in a lab, over all runs.
#[derive(Clone, Debug)]
struct Case {
    /// Payload that arrived, all flows together, in Mbit/s.
    aggregates: Vec<f64>,
    /// The least and the greatest flow's part of it, likewise.
    ends: Vec<[f64; 2]>,
    /// The busiest node's fraction of a core in any run, at most.
    cpu: f64,
    busiest: String,
    /// The least part of what it should offer that a UDP sender sent.
    offered: f64,
    /// Frames that nodes dropped because they had lost each other.
    cut_off: u64,
}

impl Default for Case {
    fn default() -> Case {
        let busiest = String::new();
        let (aggregates, ends) = (Vec::new(), Vec::new());
        Case { aggregates, ends, cpu: 0.0, busiest, offered: 1.0, cut_off: 0 }
    }
}

impl Case {
    fn add(&mut self, report: &RunReport, effort: &Effort, offered_bits_per_s: Option<u64>) {
        let flows = &report.facts.flows;
        let received: Vec<f64> = flows.iter().map(|f| f.received_bits_per_s / 1e6).collect();
        self.aggregates.push(received.iter().sum());
        self.ends.push(ends(&received));
        let whole = (effort.time + TAIL).as_secs_f64() / effort.time.as_secs_f64();
        for (node, fraction) in &report.facts.cpu {
            if fraction * whole > self.cpu {
                (self.cpu, self.busiest) = (fraction * whole, node.clone());
            }
        }
        let drops = |reason: &&str| report.facts.drops.get(*reason);
        self.cut_off += OUTAGES.iter().filter_map(drops).sum::<u64>();
        if let Some(rate) = offered_bits_per_s {
            // Beyond what the cable carries its socket's buffer is full, and the sender waits.
            let carried = rate as f64 * f64::from(UDP_SIZE) / ON_CABLE;
            let parts = flows.iter().map(|f| f.sent_bits_per_s / carried);
            self.offered = parts.fold(self.offered, f64::min);
        }
    }

    fn spread(&self) -> Spread {
        Spread::of(self.aggregates.iter().copied())
    }

    /// Why its figures may be those of this machine, not of the cables.
    fn doubts(&self) -> Vec<String> {
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let mut doubts = Vec::new();
        if self.cpu > BUSY {
            let (used, most) = (percent(self.cpu), percent(BUSY));
            doubts.push(format!("node {} used {used} of a core, over {most}", self.busiest));
        }
        if self.offered < OFFERED {
            let part = format!("{:.1} %", self.offered * 100.0);
            doubts.push(format!("a sender was short of time and offered {part} of its share"));
        }
        if self.cut_off > 0 {
            let frames = self.cut_off;
            doubts.push(format!("nodes lost each other for a time, and {frames} frames by that"));
        }
        doubts
    }
}

/// The lab of a file for the time of a run, and its cables' rate in bits/s.
fn topology(text: &str, effort: &Effort) -> Result<(Topology, u64), String> {
    let mut topology = Topology::parse("embedded", text).map_err(|e| e.to_string())?;
    topology.name = format!("axon-table1-{}", topology.name);
    let rate = topology.links.first().and_then(|l| l.rate_bits_per_s);
    let rate = rate.ok_or("the cables have no rate")?;
    if topology.links.iter().any(|l| l.rate_bits_per_s != Some(rate)) {
        return Err("the cables' rates differ".into());
    }
    for flow in &mut topology.traffic {
        match flow.proto {
            Proto::Udp => (flow.rate_bits_per_s, flow.size) = (Some(rate), UDP_SIZE),
            Proto::Tcp => {}
            Proto::Icmp | Proto::Request | Proto::Web | Proto::Named => continue,
        }
        flow.extent = Extent::Duration(effort.time);
    }
    Ok((topology, rate))
}

fn flows(topology: &Topology, proto: Proto) -> Vec<String> {
    let flows = topology.traffic.iter().filter(|f| f.proto == proto);
    flows.map(|f| f.name.clone()).collect()
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let effort = if setting.quick { QUICK } else { FULL };
    let progress = &mut *setting.progress;
    let mut labs = Vec::new();
    for text in [LINE, RING] {
        let (topology, rate) = topology(text, &effort).map_err(Failure::unusable)?;
        let title = topology.name.clone();
        let tied = Tied::of(topology.clone(), &title, NodeProgram::Plexus, &mut |text| {
            progress.say(&format!("{title}: {text}"));
        });
        labs.push((topology, rate, tied.map_err(Failure::unusable)?));
    }
    let mut run = |lab: usize, proto: Proto, title: &str| -> Result<RunReport, Failure> {
        let (topology, _, tied) = &labs[lab];
        progress.say(title);
        let report = plexus_lab::run_flows(tied.name(), flows(topology, proto), &mut |text| {
            progress.detail(&format!("{title}: {text}"));
        });
        let report = report.map_err(Failure::unusable)?;
        if report.facts.passed {
            return Ok(report);
        }
        let failed = report.facts.assertions.iter().filter(|a| !a.passed);
        let failed: Vec<&str> = failed.map(|a| a.text.as_str()).collect();
        Err(Failure::No(format!("{title}: does not hold: {}", failed.join(", "))))
    };
    // Every pair of hosts finds each other before anything is measured.
    for (lab, name) in LABS.iter().enumerate() {
        run(lab, Proto::Icmp, &format!("{name}: the hosts ping"))?;
    }
    let mut cases: [[Case; 2]; 2] = Default::default();
    let mut runs = String::from("run,lab,proto,flow,from,to,sent_bits_per_s,received_bits_per_s\n");
    for turn in 1..=effort.runs {
        for (p, proto) in PROTOS.into_iter().enumerate() {
            for (lab, name) in LABS.iter().enumerate() {
                let upper = proto.name().to_uppercase();
                let title = format!("run {turn} of {}: {name}, {upper}", effort.runs);
                let report = run(lab, proto, &title)?;
                for f in &report.facts.flows {
                    let (sent, received) = (f.sent_bits_per_s, f.received_bits_per_s);
                    let _ = writeln!(
                        runs,
                        "{turn},{name},{},{},{},{},{sent:.0},{received:.0}",
                        f.proto, f.name, f.from, f.to
                    );
                }
                let offered = (proto == Proto::Udp).then_some(labs[lab].1);
                cases[p][lab].add(&report, &effort, offered);
            }
        }
    }
    let (topology, rate, _) = &labs[0];
    let links = labs.iter().map(|(t, ..)| cables_between_nodes(t)).collect::<Vec<_>>();
    let mut findings = judge(&cases, *rate, &effort);
    findings.remarks.push(format!(
        "cables of {} (the paper: 1Gbit), {} of them between nodes in the line, {} in the ring; \
         hosts shaped by TBF; flows of {} s",
        format_rate(*rate),
        links[0],
        links[1],
        effort.time.as_secs()
    ));
    findings.remarks.push(DIFFERENCE.into());
    findings.seed = topology.seed;
    findings.runs = runs;
    Ok(findings)
}

fn cables_between_nodes(topology: &Topology) -> usize {
    let nodes = |l: &&plexus_topo::Link| l.devices().iter().all(|d| matches!(d, Device::Node(_)));
    topology.links.iter().filter(nodes).map(|l| l.cables.len()).sum()
}

/// The rows of table 1, from the cases of each protocol, in a line and in a ring.
fn judge(cases: &[[Case; 2]; 2], rate: u64, effort: &Effort) -> Findings {
    let link = rate as f64 / 1e6;
    let mut findings = Findings::default();
    let mut groups = Vec::new();
    for (p, proto) in PROTOS.into_iter().enumerate() {
        let upper = proto.name().to_uppercase();
        let doubts_before = findings.doubts.len();
        for (lab, name) in LABS.iter().enumerate() {
            let case = &cases[p][lab];
            let spread = case.spread();
            let median = spread.median;
            let paper = PAPER[p][lab];
            let note = format!(
                "{:.2} of a cable's rate, the paper {:.2}; {}; busiest node at most \
                 {:.0} % of a core",
                median / link,
                paper / PAPER_LINK,
                spread.text(effort.runs),
                case.cpu * 100.0
            );
            let doubts = case.doubts();
            let row = Row::new(format!("{upper}, {name}, six flows together"), "Mbit/s", median);
            let row = row.paper_at(paper, PAPER_LINK, link);
            findings.rows.push(row.note(doubtful(note, &doubts)));
            findings.doubts.extend(doubts.iter().map(|d| format!("{upper}, {name}: {d}")));
        }
        let [line, ring] = &cases[p];
        let pairs = line.aggregates.iter().zip(&ring.aggregates);
        let gains = pairs.filter(|(l, _)| **l > 0.0).map(|(l, r)| (r / l - 1.0) * 100.0);
        let gain = Spread::of(gains);
        let median = gain.median;
        let note = format!("median of the runs' own gains; {}", gain.text(effort.runs));
        let row = Row::new(format!("{upper}, gain of the ring"), "%", median);
        let note = doubtful(note, &findings.doubts[doubts_before..]);
        findings.rows.push(row.paper(PAPER_GAIN[p]).note(note));
        let [line, ring] = [line, ring].map(|c| c.spread().median);
        findings.remarks.push(format!(
            "{upper}: line {line:.1}, ring {ring:.1} Mbit/s: {median:+.0} % (the paper: {:+.0} %)",
            PAPER_GAIN[p]
        ));
        let [paper_line, paper_ring] = PAPER[p].map(|mbit| mbit / PAPER_LINK);
        groups.push((upper, vec![paper_line, line / link, paper_ring, ring / link]));
    }
    let ends = cases.each_ref().map(|labs| labs.each_ref().map(|case| &case.ends[..]));
    findings.rows.extend(flow_rows(ends, link));
    findings.charts.push(Chart::Bars(Bars {
        title: "Six flows between three nodes".into(),
        axis: "arrived, in rates of a cable".into(),
        series: line_and_ring(),
        groups,
    }));
    findings
}

/// The least and the greatest of some flows' rates.
pub(super) fn ends(received: &[f64]) -> [f64; 2] {
    let Spread { min, max, .. } = Spread::of(received.iter().copied());
    [min, max]
}

/// The least and the greatest flow beside the paper's, whose cables carry [`PAPER_LINK`] and ours
/// `link` Mbit/s: a total hides which of six flows starve. `ends` are those of every run, by
/// protocol and lab.
pub(super) fn flow_rows(ends: [[&[[f64; 2]]; 2]; 2], link: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (lab, name) in LABS.iter().enumerate() {
        for (p, proto) in PROTOS.into_iter().enumerate() {
            for (end, which) in ["least", "greatest"].into_iter().enumerate() {
                let spread = Spread::of(ends[p][lab].iter().map(|run| run[end]));
                let upper = proto.name().to_uppercase();
                let row = Row::new(
                    format!("{upper}, {name}, {which} of the six flows"),
                    "Mbit/s",
                    spread.median,
                );
                let row = row.paper_at(PAPER_FLOWS[p][lab][end], PAPER_LINK, link);
                rows.push(row.note(spread.text(ends[p][lab].len())));
            }
        }
    }
    rows
}

/// The bars of a protocol, as table 1 has them.
pub(super) fn line_and_ring() -> Vec<Series> {
    LABS.into_iter().flat_map(|lab| [Series::paper(lab), Series::ours(lab)]).collect()
}

/// A row's note with what makes the row doubtful.
fn doubtful(note: String, doubts: &[String]) -> String {
    if doubts.is_empty() { note } else { format!("{note}; DOUBTFUL: {}", doubts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(aggregates: [f64; 3], cpu: f64) -> Case {
        let ends = aggregates.map(|sum| [sum / 12.0, sum / 4.0]).into();
        Case { aggregates: aggregates.into(), ends, cpu, busiest: "n2".into(), ..Case::default() }
    }

    fn json(findings: &Findings) -> serde_json::Value {
        serde_json::to_value(&findings.rows).unwrap()
    }

    #[test]
    fn the_rows_are_table_1_beside_the_medians() {
        let cases = [
            [case([140.0, 138.0, 144.0], 0.3), case([270.0, 280.0, 276.0], 0.3)],
            [case([100.0, 140.0, 120.0], 0.3), case([200.0, 210.0, 216.0], 0.3)],
        ];
        let findings = judge(&cases, 50_000_000, &FULL);
        let rows = json(&findings);
        let column = |key: &str| -> Vec<f64> {
            rows.as_array().unwrap().iter().map(|r| r[key].as_f64().unwrap()).collect()
        };
        let (paper, ours) = (column("paper"), column("ours"));
        assert_eq!(paper[..6], [2906.0, 5690.0, 96.0, 2425.0, 3951.0, 63.0]);
        // The gains of each run: 92.857, 102.899, 91.667; 100, 50, 80.
        assert_eq!(ours[..6], [140.0, 276.0, 92.8571, 120.0, 210.0, 80.0]);
        // A total hides that a flow has a third of another's rate.
        assert_eq!(paper[6..], [476.0, 509.0, 243.0, 598.0, 930.0, 952.0, 493.0, 815.0]);
        assert_eq!(ours[6..], [11.6667, 35.0, 10.0, 30.0, 23.0, 69.0, 17.5, 52.5]);
        assert_eq!(rows[6]["quantity"], "UDP, line, least of the six flows");
        assert_eq!(findings.rows[6].beside, "x 0.49 to scale");
        let note = rows[0]["note"].as_str().unwrap();
        assert!(
            note.starts_with("2.80 of a cable's rate, the paper 2.91; 138.0 to 144.0"),
            "{note}"
        );
        assert!(findings.doubts.is_empty() && findings.remarks[0].starts_with("UDP: line 140.0"));
        let [Chart::Bars(chart)] = &findings.charts[..] else { panic!("{:?}", findings.charts) };
        assert_eq!(chart.groups[1], ("TCP".into(), vec![2.425, 2.4, 3.951, 4.2]));
    }

    #[test]
    fn a_busy_node_and_a_starved_sender_make_their_rows_doubtful() {
        let good = case([1.0; 3], 0.5);
        let starved = Case { offered: 0.979, ..good.clone() };
        let cut_off = Case { cut_off: 7, ..case([1.0; 3], 0.81) };
        let cases = [[starved, good.clone()], [good.clone(), cut_off]];
        let findings = judge(&cases, 50_000_000, &FULL);
        let rows = json(&findings);
        let doubtful: Vec<bool> =
            (0..6).map(|i| rows[i]["note"].as_str().unwrap().contains("DOUBTFUL")).collect();
        assert_eq!(doubtful, [true, false, true, false, true, true]);
        assert_eq!(findings.doubts.len(), 3, "{:?}", findings.doubts);
        assert!(findings.doubts[1].contains("TCP, ring: node n2 used 81 % of a core"));
        assert!(findings.doubts[2].contains("7 frames"));
    }

    #[test]
    fn a_case_is_the_worst_of_its_runs() {
        let flow = plexus_lab::FlowReport {
            // 45 Mbit/s of frames that take 1,538 bytes for 1,472.
            sent_bits_per_s: 43_068_920.676,
            received_bits_per_s: 20e6,
            ..Default::default()
        };
        let facts = plexus_lab::Facts {
            lab: String::new(),
            passed: true,
            flows: vec![flow; 6],
            assertions: vec![],
            outages: vec![],
            drops: [("port_down".into(), 3), ("queue_packets".into(), 9)].into(),
            cpu: [("n1".into(), 0.2), ("n2".into(), 0.4)].into(),
            cpu_quota: [].into(),
            stalled_ms: None,
            fast: [].into(),
        };
        let (accounts, named) = Default::default();
        let report = RunReport { facts, accounts, named, notes: vec![] };
        let mut case = Case::default();
        case.add(&report, &FULL, Some(50_000_000));
        case.add(&report, &FULL, None);
        assert_eq!((&case.aggregates[..], case.cut_off), (&[120.0, 120.0][..], 6));
        assert_eq!(case.ends, [[20.0, 20.0]; 2]);
        assert!(case.busiest == "n2" && (case.offered - 0.9).abs() < 1e-9, "{}", case.offered);
        // 0.4 of 11 s, if all of it was in the 10 s of the flows.
        assert!((case.cpu - 0.44).abs() < 1e-9, "{}", case.cpu);
    }

    #[test]
    fn the_ends_of_a_run_are_its_least_and_its_greatest_flow() {
        assert_eq!(ends(&[481.0, 476.0, 509.0]), [476.0, 509.0]);
    }

    #[test]
    fn the_labs_are_alike_but_for_a_cable() {
        let [line, ring] = [LINE, RING].map(|text| topology(text, &QUICK).unwrap());
        assert_eq!((line.1, cables_between_nodes(&line.0)), (ring.1, 2));
        assert_eq!(cables_between_nodes(&ring.0), 3);
        assert_eq!(line.0.traffic, ring.0.traffic);
        assert_eq!(line.0.hosts, ring.0.hosts);
        assert_ne!(line.0.name, ring.0.name);
        for proto in PROTOS {
            assert_eq!(flows(&line.0, proto).len(), 6);
        }
        for flow in &line.0.traffic {
            match flow.proto {
                Proto::Tcp => assert_eq!(flow.congestion.as_deref(), Some("cubic")),
                // All that the host's cable takes.
                Proto::Udp => assert_eq!(flow.rate_bits_per_s, Some(line.1)),
                Proto::Icmp | Proto::Request | Proto::Web | Proto::Named => continue,
            }
            assert_eq!(flow.extent, Extent::Duration(QUICK.time));
        }
    }

    #[test]
    fn every_pair_of_nodes_has_a_flow_each_way() {
        let (ring, _) = topology(RING, &QUICK).unwrap();
        let node = |host: usize| {
            let own = |l: &&plexus_topo::Link| l.devices().contains(&Device::Host(host));
            ring.links.iter().find(own).unwrap().devices()[1]
        };
        let mut pairs: Vec<_> = ring
            .traffic
            .iter()
            .filter(|f| f.proto == Proto::Tcp)
            .map(|f| match f.to {
                plexus_topo::Target::Host(to) => (node(f.from), node(to)),
                other => panic!("{other:?}"),
            })
            .collect();
        pairs.sort();
        let all = (0..3).flat_map(|a| (0..3).filter(move |b| a != *b).map(move |b| (a, b)));
        let all: Vec<_> = all.map(|(a, b)| (Device::Node(a), Device::Node(b))).collect();
        assert_eq!(pairs, all);
    }
}
