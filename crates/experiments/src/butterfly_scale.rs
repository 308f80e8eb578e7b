//! `butterfly-scale`: 2-dilated flattened butterflies of up to 1,024 ports, beside Clos networks
//! and undilated butterflies (netfpga-aurora.txt §4).
//!
//! The paper compares boards. Boards of a larger butterfly have more ports, so ports are compared,
//! too, and a Clos network of boxes that are as large.

use plexus_analysis::{Analysis, Answer, Cost, NonBlocking, folded_clos, non_blocking};
use plexus_report::Failure;
use plexus_topo::Shape;

use super::Setting;
use super::butterfly_16::made;
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};

const SEED: u64 = 1;
/// Ports of the boards of which the paper's Clos network consists.
const BOARD_PORTS: u64 = 4;
/// k and n of the butterflies: k^n ports.
fn sizes(quick: bool) -> Vec<(usize, usize)> {
    let of = |ary, flats: std::ops::RangeInclusive<usize>| flats.map(move |flat| (ary, flat));
    match quick {
        true => of(2, 3..=5).chain(of(4, 2..=3)).collect(),
        false => of(2, 2..=10).chain(of(4, 2..=5)).chain([(8, 3), (32, 2)]).collect(),
    }
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

fn told(found: &NonBlocking) -> &'static str {
    match &found.answer {
        Answer::Proven(_) => "proven",
        Answer::NoCounterExample => "no counter-example",
        Answer::Blocking(_) => "blocking",
    }
}

fn text(cost: Option<Cost>, what: fn(Cost) -> u64) -> String {
    cost.map_or("-".to_string(), |c| what(c).to_string())
}

/// What the paper says of every size, beside the part of the sizes of which it is true.
fn claims(dilated: &[Size], undilated: &[Size]) -> Vec<Row> {
    let share = |quantity: &str, sizes: &[Size], is_true: &dyn Fn(&Size) -> bool| {
        let count = sizes.iter().filter(|s| is_true(s)).count();
        let percent = count as f64 / sizes.len().max(1) as f64 * 100.0;
        Row::new(quantity, "%", percent).note(format!("{count} of {} sizes", sizes.len()))
    };
    let cost = |s: &Size| s.own.cost;
    vec![
        share("sizes that are rearrangeably non-blocking, by proof", dilated, &Size::is_proven)
            .paper(100.0),
        share("the same of undilated butterflies", undilated, &Size::is_proven),
        share("sizes with fewer boards than the paper's Clos", dilated, &|s| {
            s.own.clos.unfolded.is_some_and(|c| cost(s).boxes < c.boxes)
        })
        .paper(100.0),
        share("sizes with fewer switches on the way than it", dilated, &|s| {
            s.stages().is_some_and(|stages| s.switches() < stages as f64)
        })
        .paper(100.0),
        share("sizes with fewer boards than a folded Clos of boxes as large", dilated, &|s| {
            s.folded.is_some_and(|c| cost(s).boxes < c.boxes)
        }),
        share("sizes with fewer ports than that", dilated, &|s| {
            s.folded.is_some_and(|c| cost(s).ports < c.ports)
        }),
        share("sizes with fewer switches on the way than that", dilated, &|s| {
            s.switches() < clos_switches(s.hosts(), s.radix)
        }),
    ]
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let mut findings = Findings::new(
        SEED,
        "ary,flat,ports,dilation,boards,board_ports,cables,switches_mean,non_blocking,\
         permutations,hashing_blocked,greedy_blocked,clos_unfolded_boards,clos_unfolded_cables,\
         clos_folded_boards,clos_folded_ports,clos_folded_cables\n",
    );
    let mut boards: Vec<Line> = ["dilated butterfly", "Clos as the paper counts", "folded Clos"]
        .map(|name| Line::ours(name, vec![]))
        .into();
    let mut ports = boards.clone();
    ports.remove(1);
    let mut dilated = Vec::new();
    let mut undilated = Vec::new();
    for (ary, flat) in sizes(setting.quick) {
        for dilation in [2, 1] {
            setting.progress.detail(&format!("{ary}-ary {flat}-flat, {dilation}-dilated"));
            let topology = made(&Shape::Butterfly { ary, flat, dilation, fast: 0 })?;
            let radix = topology.nodes.iter().map(|n| n.ports.len()).max().unwrap_or(0) as u64;
            let own = Analysis::new(&topology, Some(BOARD_PORTS));
            let found = non_blocking(&topology, SEED).map_err(|e| Failure::No(e.to_string()))?;
            let folded = folded_clos(topology.hosts.len() as u64, radix);
            let size = Size { ary, flat, dilation, radix, own, found, folded };
            findings.runs += &size.line();
            if dilation == 1 {
                undilated.push(size);
                continue;
            }
            findings.rows.extend(size.rows());
            if ary == 2 {
                size.draw(&mut boards, &mut ports);
            }
            dilated.push(size);
        }
    }
    findings.rows.splice(..0, claims(&dilated, &undilated));
    findings.remarks.push(
        "a board of a k-ary n-flat has k + 2 (k - 1) (n - 1) ports; the paper's Clos network has \
         boards of 4 ports at every size, so its many boards are small ones. A folded Clos network \
         of boxes as large as the butterfly's boards is the fair peer"
            .into(),
    );
    for (title, y, series) in [
        ("Boards, by ports of the switch (2-ary butterflies)", "boards", boards),
        ("Ports of all boards, by ports of the switch (2-ary butterflies)", "ports", ports),
    ] {
        findings.charts.push(Chart::lines(
            title,
            Axis::log("ports of the switch"),
            Axis::log(y),
            series,
        ));
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

    fn is_proven(&self) -> bool {
        matches!(self.found.answer, Answer::Proven(_))
    }

    /// Mean switches that a frame passes.
    fn switches(&self) -> f64 {
        self.own.host_mean_hops.map_or(f64::NAN, |h| h - 1.0)
    }

    /// Stages of the paper's Clos network: what a frame passes there.
    fn stages(&self) -> Option<u64> {
        self.own.clos.unfolded.map(|c| c.ports / (2 * self.hosts()))
    }

    fn line(&self) -> String {
        let Size { ary, flat, dilation, radix, own, found, folded } = self;
        let Cost { boxes, cables, .. } = own.cost;
        let unfolded = own.clos.unfolded;
        format!(
            "{ary},{flat},{},{dilation},{boxes},{radix},{cables},{:.4},{},{},{},{},{},{},{},{},\
             {}\n",
            self.hosts(),
            self.switches(),
            told(found),
            found.permutations,
            found.hashing.blocked,
            found.greedy.blocked,
            text(unfolded, |c| c.boxes),
            text(unfolded, |c| c.cables),
            text(*folded, |c| c.boxes),
            text(*folded, |c| c.ports),
            text(*folded, |c| c.cables)
        )
    }

    fn rows(&self) -> [Row; 2] {
        let Size { ary, flat, radix, own, found, folded, .. } = self;
        let hosts = self.hosts();
        let name = format!("{hosts} ports, {ary}-ary {flat}-flat");
        let Cost { boxes, ports, cables } = own.cost;
        let boards = format!(
            "{ports} ports, {radix} a board, {cables} cables; the paper's Clos {} of \
             {BOARD_PORTS}; folded Clos of {radix}-port boxes: {}, {} ports, {} cables",
            text(own.clos.unfolded, |c| c.boxes),
            text(*folded, |c| c.boxes),
            text(*folded, |c| c.ports),
            text(*folded, |c| c.cables)
        );
        let way = format!(
            "mean; the paper's Clos {}, that folded Clos {:.2}. Non-blocking: {}; of {} \
             permutations hashing overloads a cable in {}, greedy routing in {}",
            self.stages().map_or("-".to_string(), |s| s.to_string()),
            clos_switches(hosts, *radix),
            told(found),
            found.permutations,
            found.hashing.blocked,
            found.greedy.blocked
        );
        [
            Row::new(format!("boards, {name}"), "boards", boxes as f64).note(boards),
            Row::new(format!("switches on the way, {name}"), "switches", self.switches()).note(way),
        ]
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
    use plexus_topo::{Options, generate};

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
