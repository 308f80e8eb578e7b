//! `butterfly-scale`: 2-dilated flattened butterflies of up to 1,024 ports, beside Clos networks and
//! undilated butterflies (netfpga-aurora.txt §4).
//!
//! The paper compares boards. Boards of a larger butterfly have more ports, so ports are compared,
//! too, and a Clos network of boxes that are as large.

use std::fmt::Write as _;

use plexus_topo::analysis::{Analysis, Cost};
use plexus_topo::{Answer, NonBlocking, Options, Shape, Topology, generate, non_blocking};

use super::Setting;
use super::plot::{Chart, Line, Lines};
use super::report::{Findings, Row};
use crate::exit::Failure;

const SEED: u64 = 1;
const RATE: u64 = 1_000_000_000;
/// Ports of the boards of which the paper's Clos network consists.
const BOARD_PORTS: u64 = 4;
/// k and n of the butterflies: k^n ports.
const FULL: [(usize, usize); 15] = [
    (2, 2),
    (2, 3),
    (2, 4),
    (2, 5),
    (2, 6),
    (2, 7),
    (2, 8),
    (2, 9),
    (2, 10),
    (4, 2),
    (4, 3),
    (4, 4),
    (4, 5),
    (8, 3),
    (32, 2),
];
const QUICK: [(usize, usize); 5] = [(2, 3), (2, 4), (2, 5), (4, 2), (4, 3)];

fn made(ary: usize, flat: usize, dilation: usize) -> Result<Topology, Failure> {
    let shape = Shape::Butterfly { ary, flat, dilation, fast: 0 };
    let options = Options {
        hosts_per_node: ary,
        host_rate_bits_per_s: Some(RATE),
        link_rate_bits_per_s: Some(RATE),
        ..Options::default()
    };
    generate(&shape, options).map_err(|e| Failure::unusable(e.to_string()))
}

/// Switches that a frame passes in a folded Clos network of so many boxes for so many hosts, mean
/// over all pairs, cabled as a fat tree: levels as `folded_clos` counts them.
fn clos_switches(hosts: u64, ports: u64) -> f64 {
    let half = ports / 2;
    // Hosts below a box of each level, and at the top all.
    let mut reached = vec![];
    let mut below = half;
    while 2 * below < hosts && half > 1 {
        reached.push(below);
        below *= half;
    }
    reached.push(hosts);
    let (mut before, mut sum) = (1, 0.0);
    for (level, reach) in reached.iter().enumerate() {
        let here = (*reach).min(hosts);
        sum += (here - before) as f64 * (2 * level + 1) as f64;
        before = here;
    }
    sum / (hosts - 1) as f64
}

fn told(found: &NonBlocking) -> (&'static str, String) {
    let tried = found.permutations;
    match &found.answer {
        Answer::Proven(_) => ("yes, proven", format!("{tried} permutations routed besides")),
        Answer::NoCounterExample => ("no counter-example", format!("in {tried} permutations")),
        Answer::Blocking(example) => ("no", example.why.clone()),
    }
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let sizes = if setting.quick { &QUICK[..] } else { &FULL };
    let mut findings = Findings { seed: SEED, ..Findings::default() };
    findings.runs.push_str(
        "ary,flat,ports,dilation,boards,board_ports,cables,switches_mean,non_blocking,\
         permutations,hashing_blocked,greedy_blocked,clos_unfolded_boards,clos_unfolded_cables,\
         clos_folded_boards,clos_folded_ports,clos_folded_cables\n",
    );
    let mut boards: Vec<Line> = ["dilated butterfly", "Clos as the paper counts", "folded Clos"]
        .map(|name| Line { name: name.into(), points: vec![], paper: false })
        .into();
    let mut ports = boards.clone();
    ports.remove(1);
    for &(ary, flat) in sizes {
        for dilation in [2, 1] {
            setting.progress.detail(&format!("{ary}-ary {flat}-flat, {dilation}-dilated"));
            let topology = made(ary, flat, dilation)?;
            let radix = topology.nodes.iter().map(|n| n.ports.len()).max().unwrap_or(0) as u64;
            let (own, found) = (
                Analysis::new(&topology, Some(BOARD_PORTS)),
                non_blocking(&topology, SEED).map_err(|e| Failure::No(e.to_string()))?,
            );
            let folded = plexus_topo::analysis::folded_clos(topology.hosts.len() as u64, radix);
            let size = Size { ary, flat, dilation, radix, own, found, folded };
            size.tell(&mut findings);
            if dilation == 2 && ary == 2 {
                size.draw(&mut boards, &mut ports);
            }
        }
    }
    findings.remarks.push(
        "boards of an n-dimensional butterfly have k + 2 (k - 1) n ports, so only boards are fewer \
         at every size, not ports: beside a folded Clos network of boxes that are as large, the \
         dilated butterfly needs more of both from 64 ports on. The paper's boards have room for \
         three dimensions of 2"
            .into(),
    );
    for (title, y, series) in [
        ("Boards, by ports of the switch (2-ary butterflies)", "boards", boards),
        ("Ports of all boards, by ports of the switch (2-ary butterflies)", "ports", ports),
    ] {
        findings.charts.push(Chart::Lines(Lines {
            title: title.into(),
            x: "ports of the switch".into(),
            y: y.into(),
            log_x: true,
            log_y: true,
            series,
        }));
    }
    Ok(findings)
}

/// A butterfly and what is known of it.
struct Size {
    ary: usize,
    flat: usize,
    dilation: usize,
    /// Ports of a board.
    radix: u64,
    own: Analysis,
    found: NonBlocking,
    /// The Clos network of boxes with as many ports.
    folded: Option<Cost>,
}

impl Size {
    fn hosts(&self) -> u64 {
        self.found.hosts as u64
    }

    fn tell(&self, findings: &mut Findings) {
        let Size { ary, flat, dilation, radix, own, found, folded } = self;
        let hosts = self.hosts();
        let name = match dilation {
            1 => format!("undilated {ary}-ary {flat}-flat, {hosts} ports"),
            _ => format!("{dilation}-dilated {ary}-ary {flat}-flat, {hosts} ports"),
        };
        let switches = own.host_mean_hops.map_or(f64::NAN, |h| h - 1.0);
        let Cost { boxes, ports, cables } = own.cost;
        let (answer, why) = told(found);
        let unfolded = own.clos.unfolded;
        let text = |cost: Option<Cost>, what: fn(Cost) -> u64| {
            cost.map_or("-".to_string(), |c| what(c).to_string())
        };
        let _ = writeln!(
            findings.runs,
            "{ary},{flat},{hosts},{dilation},{boxes},{radix},{cables},{switches:.4},{answer},{},{},\
             {},{},{},{},{},{}",
            found.permutations,
            found.hashing.blocked,
            found.greedy.blocked,
            text(unfolded, |c| c.boxes),
            text(unfolded, |c| c.cables),
            text(*folded, |c| c.boxes),
            text(*folded, |c| c.ports),
            text(*folded, |c| c.cables)
        );
        let blocking = format!("non-blocking: {answer} ({why})");
        if *dilation == 1 {
            let row = Row::new(format!("boards, {name}"), "boards", boxes as f64);
            findings.rows.push(row.note(blocking));
            return;
        }
        let online = format!(
            "hashing overloads a cable in {} of {}, greedy in {}",
            found.hashing.blocked, found.permutations, found.greedy.blocked
        );
        let row = Row::new(format!("boards, {name}"), "boards", boxes as f64);
        findings.rows.push(row.note(format!("{blocking}; {online}")));
        let row = Row::new(
            format!("boards over those of the paper's Clos, {name}"),
            "ratio",
            unfolded.map_or(f64::NAN, |c| boxes as f64 / c.boxes as f64),
        );
        findings.rows.push(row.note(format!(
            "{} boards of {BOARD_PORTS} ports in and out against {boxes} of {radix}",
            text(unfolded, |c| c.boxes)
        )));
        let row = Row::new(
            format!("ports over those of a folded Clos, {name}"),
            "ratio",
            folded.map_or(f64::NAN, |c| ports as f64 / c.ports as f64),
        );
        findings.rows.push(row.note(format!(
            "boxes of {radix} ports: {} with {} cables, against {boxes} with {cables}",
            text(*folded, |c| c.boxes),
            text(*folded, |c| c.cables)
        )));
        let row = Row::new(format!("switches on the way, {name}"), "switches", switches);
        findings.rows.push(row.note(format!(
            "mean over all pairs; that folded Clos {:.2}, by formula",
            clos_switches(hosts, *radix)
        )));
    }

    fn draw(&self, boards: &mut [Line], ports: &mut [Line]) {
        let at = self.hosts() as f64;
        let put = |line: &mut Line, value: Option<u64>| {
            line.points.extend(value.map(|v| (at, v as f64)));
        };
        let unfolded = self.own.clos.unfolded;
        put(&mut boards[0], Some(self.own.cost.boxes));
        put(&mut boards[1], unfolded.map(|c| c.boxes));
        put(&mut boards[2], self.folded.map(|c| c.boxes));
        put(&mut ports[0], Some(self.own.cost.ports));
        put(&mut ports[1], self.folded.map(|c| c.ports));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_in_a_folded_clos_are_those_of_a_fat_tree() {
        for ports in [4, 6, 8] {
            let shape = Shape::FatTree { ports };
            let options = Options { hosts_per_node: shape.usual_hosts(), ..Options::default() };
            let tree = generate(&shape, options).unwrap();
            let mean = Analysis::new(&tree, None).host_mean_hops.unwrap() - 1.0;
            let ours = clos_switches(tree.hosts.len() as u64, ports as u64);
            assert!((mean - ours).abs() < 1e-9, "{ports}: {mean} {ours}");
        }
        assert_eq!(clos_switches(4, 8), 1.0);
    }
}
