//! `butterfly-16`: the 16-port 2-ary 2-dilated flattened butterfly of eight boards
//! (netfpga-aurora.txt §4, figure 9), as a topology and with frames in the simulator.
//!
//! One dimension is two Ethernet cables of 1 Gbit/s, each of the other two one SATA cable of 2.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use plexus_analysis::{Analysis, Answer, Cost, NonBlocking, non_blocking};
use plexus_config::{ControllerSettings, RoutePolicy};
use plexus_report::Failure;
use plexus_topo::{
    Arrivals, Controller, Device, Expect, Extent, Flow, Options, Proto, Shape, Target, Topology,
    generate,
};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::Setting;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, Spread};
use super::simulate;

const SEED: u64 = 1;
const RATE: u64 = 1_000_000_000;
/// Ethernet ports of a board: what the paper's Clos network is made of.
const BOARD_PORTS: u64 = 4;
/// What each host offers, as a part of what its cable carries: the fabric's header comes on top
/// between nodes, and no flow fills a cable there.
const LOAD: f64 = 0.9;
const PAYLOAD: u16 = 1300;
/// Cable time of such a datagram: UDP, IPv4, Ethernet, checksum, preamble and gap.
const WIRE: u64 = PAYLOAD as u64 + 66;
/// Between nodes: room for the fabric's header.
const FABRIC_MTU: u16 = 2000;
/// Frames of 1,000 that may be missing at the end of a run where none is lost.
const LOST: f64 = 0.001;

const BUTTERFLY: Shape = Shape::Butterfly { ary: 2, flat: 4, dilation: 2, fast: 2 };
/// Stages of the Clos network that the paper counts.
const CLOS_STAGES: f64 = 3.0;
const POLICIES: [(&str, RoutePolicy); 3] = [
    ("shortest", RoutePolicy::Shortest),
    ("ecmp", RoutePolicy::Ecmp),
    ("spain", RoutePolicy::Spain),
];

/// A shape with gigabit cables.
pub(super) fn made(shape: &Shape) -> Result<Topology, Failure> {
    let options = Options {
        hosts_per_node: shape.usual_hosts(),
        host_rate_bits_per_s: Some(RATE),
        link_rate_bits_per_s: Some(RATE),
        ..Options::default()
    };
    generate(shape, options).map_err(|e| Failure::unusable(e.to_string()))
}

/// The switches that a frame passes, mean over all pairs of hosts.
fn switches(analysis: &Analysis) -> Result<f64, Failure> {
    let hops = analysis.host_mean_hops.map(|hops| hops - 1.0);
    hops.ok_or_else(|| Failure::No("some hosts have no path".into()))
}

fn checked(topology: &Topology) -> Result<NonBlocking, Failure> {
    non_blocking(topology, SEED).map_err(|e| Failure::No(e.to_string()))
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let mut findings =
        Findings::new(SEED, "policy,permutation,flow,sent_bits_per_s,received_bits_per_s,lost\n");
    let butterfly = made(&BUTTERFLY)?;
    let own = Analysis::new(&butterfly, Some(BOARD_PORTS));
    let clos = made(&Shape::UnfoldedClos { outer: 4, middle: 4 })?;
    boards(&mut findings, &butterfly, &own, &clos)?;
    setting.progress.detail("blocking");
    blocking(&mut findings, &checked(&butterfly)?)?;
    let single = made(&Shape::Butterfly { ary: 2, flat: 4, dilation: 1, fast: 0 })?;
    let found = checked(&single)?;
    let why = match &found.answer {
        Answer::Blocking(example) => example.why.clone(),
        Answer::Proven(why) => why.clone(),
        Answer::NoCounterExample => String::new(),
    };
    let row = Row::new("rearrangeably non-blocking, undilated", "1 = yes", yes(&found));
    findings.rows.push(row.note(why));
    frames(setting, &mut findings, &butterfly)?;
    findings.remarks.push(
        "the paper's Clos network is unfolded: its boards have 4 ports in and 4 out, cabled apart. \
         With cables that carry both directions boards of 4 ports need more. Rearrangeably: routes \
         for all flows exist if they are chosen together. Chosen one by one they overload cables, \
         and frames are lost"
            .into(),
    );
    Ok(findings)
}

fn boards(
    findings: &mut Findings,
    butterfly: &Topology,
    own: &Analysis,
    clos: &Topology,
) -> Result<(), Failure> {
    let clos_cost = Analysis::new(clos, Some(BOARD_PORTS)).cost;
    let folded = own.clos.folded.unwrap_or(Cost { boxes: 0, ports: 0, cables: 0 });
    let row =
        |quantity: &str, unit, ours: f64, note: &str| Row::new(quantity, unit, ours).note(note);
    let ports = butterfly.nodes.iter().map(|n| n.ports.len()).max().unwrap_or(0);
    let each = format!("{ports} ports each: 2 hosts, 2 Ethernet cables, 2 SATA cables");
    let tree = made(&Shape::FatTree { ports: BOARD_PORTS as usize })?;
    let tree = switches(&Analysis::new(&tree, None))?;
    let [stages, one_way] =
        ["three stages of four, each cable one direction", "hosts' included, one direction each"];
    findings.rows.extend([
        row("boards, dilated butterfly", "boards", own.cost.boxes as f64, &each).paper(8.0),
        row("boards, Clos as the paper counts", "boards", clos_cost.boxes as f64, stages)
            .paper(12.0),
        row(
            "boards, folded Clos",
            "boards",
            folded.boxes as f64,
            "cables of both directions, boards of 4 ports",
        ),
        row("cables, dilated butterfly", "cables", own.cost.cables as f64, "hosts' included"),
        row("cables, Clos as the paper counts", "cables", clos_cost.cables as f64, one_way),
        row("cables, folded Clos", "cables", folded.cables as f64, "hosts' included"),
        row(
            "switches on the way, dilated butterfly",
            "switches",
            switches(own)?,
            "mean over all pairs of hosts, shortest paths; the paper: always fewer than in Clos",
        )
        .at_most(CLOS_STAGES),
        row(
            "switches on the way, Clos as the paper counts",
            "switches",
            CLOS_STAGES,
            "every path has three stages, between neighbours too",
        ),
        row(
            "switches on the way, folded Clos",
            "switches",
            tree,
            "a fat tree of boards with 4 ports",
        ),
    ]);
    Ok(())
}

fn yes(found: &NonBlocking) -> f64 {
    f64::from(u8::from(matches!(found.answer, Answer::Proven(_))))
}

fn blocking(findings: &mut Findings, found: &NonBlocking) -> Result<(), Failure> {
    let Answer::Proven(why) = &found.answer else {
        return Err(Failure::No(format!("no proof was found: {:?}", found.answer)));
    };
    let row = Row::new("rearrangeably non-blocking", "1 = yes", yes(found)).paper(1.0);
    findings.rows.push(row.note(format!("proven: {why}")));
    for (name, online) in [("per-flow hashing", found.hashing), ("greedy routing", found.greedy)] {
        let share = online.blocked as f64 / found.permutations.max(1) as f64 * 100.0;
        let quantity = format!("permutations that {name} overloads a cable in");
        let note = format!(
            "{} of {}; at worst to {:.2} of its rate",
            online.blocked, found.permutations, online.worst_utilisation
        );
        findings.rows.push(Row::new(quantity, "%", share).note(note));
    }
    Ok(())
}

/// Permutations in which every port is busy: named ones, then random ones without anyone who sends
/// to itself.
fn permutations(hosts: usize, random: usize) -> Vec<(String, Vec<usize>)> {
    let mut found = vec![
        ("reversal".to_string(), (0..hosts).rev().collect()),
        ("shift by half".to_string(), (0..hosts).map(|i| (i + hosts / 2) % hosts).collect()),
    ];
    let mut source = Pcg64::seed_from_u64(SEED);
    let mut to: Vec<usize> = (0..hosts).collect();
    while found.len() < 2 + random {
        to.shuffle(&mut source);
        if to.iter().enumerate().all(|(from, to)| from != *to) {
            found.push((format!("random {}", found.len() - 1), to.clone()));
        }
    }
    found
}

/// The butterfly as a fabric of ours, with a flow from each host to that of the permutation.
fn fabric(butterfly: &Topology, policy: RoutePolicy, to: &[usize], time: Duration) -> Topology {
    let mut topology = butterfly.clone();
    let settings = ControllerSettings { policy, ..ControllerSettings::default() };
    topology.controllers.push(Controller { name: "c1".into(), node: 0, settings });
    for link in &mut topology.links {
        if !link.devices().iter().any(|d| matches!(d, Device::Host(_))) {
            link.mtu = FABRIC_MTU;
        }
    }
    let mut random = Pcg64::seed_from_u64(SEED);
    for (from, &to) in to.iter().enumerate() {
        let v4 = topology.hosts[to].addresses.iter().map(|a| a.address).find(IpAddr::is_ipv4);
        let Some(to_address) = v4 else { continue };
        let rate = RATE as f64 * LOAD * f64::from(PAYLOAD) / WIRE as f64;
        topology.traffic.push(Flow {
            name: format!("f{}", from + 1),
            from,
            to: Target::Host(to),
            to_address,
            proto: Proto::Udp,
            rate_bits_per_s: Some(rate as u64),
            extent: Extent::Duration(time),
            size: PAYLOAD,
            // Nobody begins in the same instant as somebody else.
            start: Duration::from_micros(random.random_range(0..20_000)),
            after: None,
            verify: false,
            congestion: None,
            expect: Expect::Pass,
            arrivals: Arrivals::Even,
            dialogue: None,
            site: None,
            catalogue: None,
        });
    }
    topology
}

fn frames(
    setting: &mut Setting<'_>,
    findings: &mut Findings,
    butterfly: &Topology,
) -> Result<(), Failure> {
    let (random, time) = match setting.quick {
        true => (0, Duration::from_millis(60)),
        false => (10, Duration::from_millis(500)),
    };
    let permutations = permutations(butterfly.hosts.len(), random);
    let mut groups = Vec::new();
    for (policy_name, policy) in POLICIES {
        let (mut losses, mut lossy) = (Vec::new(), 0);
        for (name, to) in &permutations {
            setting.progress.detail(&format!("{policy_name}, {name}"));
            let topology = fabric(butterfly, policy, to, time);
            let (sent, received) = rates(&topology, [policy_name, name], findings)?;
            let lost = 1.0 - received / sent;
            lossy += usize::from(lost > LOST);
            losses.push(lost * 100.0);
        }
        let mean = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
        let spread = Spread::of(losses);
        let quantity = format!("lost with all 16 ports busy, routes by {policy_name}");
        let note = format!(
            "mean over {n} permutations, {lossy} of which lose any; {spread}",
            n = permutations.len(),
            spread = spread.text(permutations.len())
        );
        findings.rows.push(Row::new(quantity, "%", mean).note(note));
        groups.push((policy_name.to_string(), vec![mean, spread.max]));
    }
    findings.remarks.push(format!(
        "frames: UDP of {PAYLOAD} bytes, {:.0} % of each host's cable, {} ms, whole frames \
         switched by our fabric, in which a flow keeps its route",
        LOAD * 100.0,
        time.as_millis()
    ));
    findings.charts.push(Chart::Bars(Bars {
        title: "Lost with all 16 ports busy, by our routing policy".into(),
        axis: "lost (%)".into(),
        series: vec![Series::ours("mean"), Series::ours("worst permutation")],
        groups,
    }));
    Ok(())
}

/// What was sent and what arrived, in bits/s, all flows together.
fn rates(
    topology: &Topology,
    [policy, permutation]: [&str; 2],
    findings: &mut Findings,
) -> Result<(f64, f64), Failure> {
    let report = simulate::run(topology, SEED)?;
    let (mut sent, mut received) = (0.0, 0.0);
    for flow in &report.facts.flows {
        let (from, to) = (flow.sent_bits_per_s, flow.received_bits_per_s);
        let lost = flow.loss;
        let _ = writeln!(
            findings.runs,
            "{policy},{permutation},{},{from:.0},{to:.0},{lost:.6}",
            flow.name
        );
        sent += from;
        received += from * (1.0 - lost);
    }
    Ok((sent, received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_is_busy_in_every_permutation() {
        let found = permutations(16, 10);
        assert_eq!(found.len(), 12);
        for (name, to) in found {
            let mut sorted = to.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..16).collect::<Vec<_>>(), "{name}");
            assert!(to.iter().enumerate().all(|(from, to)| from != *to), "{name}");
        }
    }

    #[test]
    fn the_butterfly_is_the_papers() {
        let made = made(&BUTTERFLY).unwrap();
        assert_eq!((made.nodes.len(), made.hosts.len()), (8, 16));
        // Four Ethernet and two SATA ports.
        assert!(made.nodes.iter().all(|n| n.ports.len() == 6));
        let rate = |fast: u64| {
            made.links.iter().filter(|l| l.rate_bits_per_s == Some(fast * RATE)).count()
        };
        assert_eq!((rate(1), rate(2)), (16 + 4, 8));
    }
}
