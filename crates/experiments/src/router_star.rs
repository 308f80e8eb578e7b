//! `router-star`: one router from one, two and four boxes of equal quotas of processor time
//! (distributed-router.txt, §IV, figures 6 to 9), by frame size, flows, and routes in its table.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use plexus_report::Failure;

use super::Setting;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, Spread, geometric_mean};
use super::router_bench::{SEED, internet};
use super::router_group::{Fast, Kind, Layout, Load, Outcome, Plan, Rig};

const SIZES: [u32; 3] = [64, 576, 1470];
const TABLES: [usize; 5] = [10, 1_000, 10_000, 167_000, 901_899];
const LAYOUTS: [Layout; 4] = [Layout::Single, Layout::Pair, Layout::Star, Layout::Quad];
const LOADS: [Load; 3] = [Load::One(0), Load::Each, Load::Many];
/// With the fast table only many flows: of a few the kernel routes every packet, and no quota
/// bounds it. Of many, each is too small for a rule, and the kernel sends on what other boxes have
/// routed.
const FAST: ([Layout; 3], [Load; 1]) = ([Layout::Single, Layout::Pair, Layout::Quad], [Load::Many]);

/// Processors of each box: small enough that generators and meters keep ahead of four boxes.
pub(super) const CPU: f64 = 0.1;
/// What a box is offered, in parts of what one box forwards.
const OFFERED: f64 = 1.5;
/// What each source offers until it is known what a box forwards, in packets/s.
const FIRST_PPS: u64 = 60_000;
/// Generators that sent less than this of what they should have were the limit.
const SENT: f64 = 0.9;
/// A box that forwarded more than this of what it was offered was not the limit.
const FORWARDED: f64 = 0.9;

/// In names of cases.
const FAST_TABLE: &str = " with the fast table";

/// What is run.
struct Effort {
    tables: &'static [usize],
    layouts: &'static [Layout],
    sizes: &'static [u32],
    runs: usize,
    time: Duration,
}

const FULL: Effort = Effort {
    tables: &TABLES,
    layouts: &LAYOUTS,
    sizes: &SIZES,
    runs: 1,
    time: Duration::from_millis(800),
};
const QUICK: Effort = Effort {
    tables: TABLES.split_at(1).0,
    layouts: LAYOUTS.split_at(2).0,
    sizes: SIZES.split_at(1).0,
    runs: 1,
    time: Duration::from_millis(300),
};

fn load_name(load: Load) -> &'static str {
    match load {
        Load::One(_) => "one flow",
        Load::Each => "a flow from each source",
        Load::Few => "few flows",
        Load::Many => "many flows",
    }
}

/// One case: throughputs of its runs in packets/s.
struct Case {
    /// Whether the kernel takes flows over.
    fast: bool,
    layout: Layout,
    load: Load,
    size: u32,
    routes: usize,
    received: Vec<f64>,
    /// The least and the greatest sink's share, in parts of an equal one.
    shares: Vec<[f64; 2]>,
    offered: f64,
}

impl Case {
    fn median(&self) -> f64 {
        Spread::of(self.received.iter().copied()).median
    }

    fn title(&self) -> String {
        let (layout, load) = (self.layout.name(), load_name(self.load));
        let fast = if self.fast { FAST_TABLE } else { "" };
        format!("{layout}{fast}, {} routes, {} bytes, {load}", self.routes, self.size)
    }
}

/// What a box with this quota forwards of small packets, in packets/s.
pub(super) fn capacity(
    table: &[(Ipv4Addr, u8)],
    cpu: f64,
    time: Duration,
    say: &mut dyn FnMut(&str),
) -> Result<Outcome, String> {
    let (kind, layout) = (Kind::Group, Layout::Single);
    let plan = Plan { kind, layout, table, routes: TABLES[0], cpu: Some(cpu), fast: Fast::No };
    Rig::up(&plan, say)?.run(Load::Each, SIZES[0], FIRST_PPS, time)
}

/// What each source offers so that its box is offered [`OFFERED`] times what one forwards.
pub(super) fn pps(layout: Layout, load: Load, capacity: f64) -> u64 {
    let sources = match load {
        Load::One(_) => 1,
        // As many at each box that has one.
        Load::Each | Load::Few | Load::Many => {
            layout.sources().iter().filter(|b| **b == layout.sources()[0]).count()
        }
    };
    (OFFERED * capacity / sources as f64) as u64
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let effort = if setting.quick { QUICK } else { FULL };
    let table = internet().map_err(Failure::unusable)?;
    let progress = &mut *setting.progress;
    let head = "layout,fast_table,routes,size,load,run,offered_pps,received_pps,least_share,\
        greatest_share\n";
    let mut findings = Findings::new(SEED, head);
    progress.say("what one box forwards, and with twice the quota");
    let [once, twice] = [CPU, 2.0 * CPU]
        .map(|cpu| capacity(table, cpu, effort.time, &mut |text| progress.detail(text)));
    let (once, twice) = (once.map_err(Failure::unusable)?, twice.map_err(Failure::unusable)?);
    let capacity = once.received();
    if capacity == 0.0 {
        return Err(Failure::unusable("one box forwards nothing"));
    }
    let mut cases = Vec::new();
    let mut starved = (0, 0);
    let plain = effort.layouts.iter().map(|layout| (*layout, false, &LOADS[..]));
    let fast = effort.layouts.iter().filter(|layout| FAST.0.contains(layout));
    let boxes: Vec<_> = plain.chain(fast.map(|layout| (*layout, true, &FAST.1[..]))).collect();
    for &routes in effort.tables {
        // All are up at once, and take turns: what is compared is measured within some seconds.
        let mut rigs = Vec::new();
        for &(layout, fast, loads) in &boxes {
            let with = if fast { FAST_TABLE } else { "" };
            progress.say(&format!("{routes} routes, {}{with}", layout.name()));
            let (kind, cpu) = (Kind::Group, Some(CPU));
            let plan = Plan { kind, layout, table, routes, cpu, fast: Fast::all(fast) };
            let rig = Rig::up(&plan, &mut |text| progress.detail(text));
            rigs.push((layout, fast, loads, rig.map_err(Failure::unusable)?));
        }
        let turns = effort.sizes.iter().flat_map(|size| LOADS.map(|load| (*size, load)));
        for (size, load) in turns {
            let with_load = rigs.iter().filter(|(_, _, loads, _)| loads.contains(&load));
            for &(layout, fast, _, ref rig) in with_load {
                let (received, shares) = (Vec::new(), Vec::new());
                let mut case =
                    Case { fast, layout, load, size, routes, received, shares, offered: 0.0 };
                progress.detail(&case.title());
                let pps = pps(layout, load, capacity);
                for run in 1..=effort.runs {
                    let outcome = rig.run(load, size, pps, effort.time);
                    let outcome = outcome.map_err(Failure::unusable)?;
                    let wanted = (pps * outcome.offered.len() as u64) as f64;
                    starved.0 += usize::from(outcome.offered() < SENT * wanted);
                    starved.1 += 1;
                    let share = shares_of(&outcome.received);
                    let _ = writeln!(
                        findings.runs,
                        "{},{fast},{routes},{size},{},{run},{:.0},{:.0},{:.3},{:.3}",
                        layout.name().replace(',', ""),
                        load_name(load),
                        outcome.offered(),
                        outcome.received(),
                        share[0],
                        share[1]
                    );
                    case.received.push(outcome.received());
                    case.shares.push(share);
                    case.offered = outcome.offered();
                }
                cases.push(case);
            }
        }
    }
    progress.say("what each further box adds to the latency");
    // Without and with the fast table, by which the kernel routes the packets in the first box and
    // passes them on in the others: through one, two and three boxes, in microseconds.
    let mut latencies = [[0.0; 3]; 2];
    for (latency, fast) in latencies.iter_mut().zip([false, true]) {
        let (kind, layout, fast) = (Kind::Group, Layout::Line, Fast::all(fast));
        let plan = Plan { kind, layout, table, routes: TABLES[0], cpu: None, fast };
        let rig = Rig::up(&plan, &mut |text| progress.detail(text)).map_err(Failure::unusable)?;
        let doubts = &mut findings.doubts;
        let found = rig.latencies_us(SIZES[0], effort.time, setting.quick, doubts);
        *latency = found.map_err(Failure::unusable)?;
    }
    judge(&mut findings, &cases, latencies);
    let (one, two) = (once.received() / 1e3, twice.received() / 1e3);
    let note = format!(
        "{one:.1} and {two:.1} kpackets/s of {:.1} offered: the box is the limit",
        once.offered() / 1e3
    );
    findings.rows.push(Row::new("one box, twice the quota", "ratio", two / one).note(note));
    let idle: Vec<&Case> = cases.iter().filter(|c| c.median() > FORWARDED * c.offered).collect();
    if let Some(first) = idle.first() {
        findings.doubts.push(format!(
            "{} of {} cases forwarded nearly all that was offered: {}",
            idle.len(),
            cases.len(),
            first.title()
        ));
    }
    if starved.0 * 10 > starved.1 {
        findings.doubts.push(format!(
            "in {} of {} runs the generators sent less than {:.0} % of what they should",
            starved.0,
            starved.1,
            SENT * 100.0
        ));
    }
    findings.remarks = vec![
        format!(
            "each box has {CPU} processors; a box is offered {OFFERED} times what one forwards"
        ),
        "a packet whose sink is at another box takes the time of two boxes: one routes it and \
         pushes the fabric's header, the other takes the header off and sends it; with the fast \
         table the other's kernel does that, whose time is not in the box's quota"
            .into(),
    ];
    Ok(findings)
}

/// The least and the greatest of some rates, in parts of an equal share.
fn shares_of(rates: &[f64]) -> [f64; 2] {
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let Spread { min, max, .. } = Spread::of(rates.iter().copied());
    [min, max].map(|rate| rate / mean.max(1.0))
}

/// The mean ratio of a layout's throughput to one box's, over tables and sizes; `None`: nothing was
/// run.
fn ratio(cases: &[Case], fast: bool, layout: Layout, load: Load) -> Option<Spread> {
    let of_layout = cases.iter().filter(|c| (c.fast, c.layout, c.load) == (fast, layout, load));
    let ratios: Vec<f64> = of_layout
        .filter_map(|case| {
            let is_single = |c: &&Case| {
                (c.fast, c.layout, c.load, c.size, c.routes)
                    == (fast, Layout::Single, load, case.size, case.routes)
            };
            let single = cases.iter().find(is_single)?.median();
            (single > 0.0 && case.median() > 0.0).then(|| case.median() / single)
        })
        .collect();
    let Spread { min, max, .. } = Spread::of(ratios.iter().copied());
    (!ratios.is_empty()).then(|| Spread { median: geometric_mean(&ratios), min, max })
}

fn judge(findings: &mut Findings, cases: &[Case], latencies: [[f64; 3]; 2]) {
    // §IV: "about the same" for one flow, "almost double for every case with more than one flow".
    let paper = [(Load::One(0), 1.0), (Load::Each, 2.0), (Load::Many, 2.0)];
    for (load, paper) in paper {
        let Some(Spread { median, min, max }) = ratio(cases, false, Layout::Star, load) else {
            continue;
        };
        let title = format!("the paper's star of four boxes to one box, {}", load_name(load));
        let row = Row::new(title, "ratio", median).paper(paper);
        findings.rows.push(row.note(format!("geometric mean; {min:.2} to {max:.2}")));
    }
    for (layout, goal) in [(Layout::Pair, 1.9), (Layout::Quad, 3.6)] {
        for (fast, load) in [(false, Load::Each), (false, Load::Many), (true, Load::Many)] {
            let ratio = ratio(cases, fast, layout, load);
            let Some(Spread { median, min, max }) = ratio else { continue };
            let with = if fast { FAST_TABLE } else { "" };
            let title = format!("{} to one box{with}, {}", layout.name(), load_name(load));
            let met = if median >= goal { "met" } else { "missed" };
            let note = format!("geometric mean; {min:.2} to {max:.2}; our goal of {goal} is {met}");
            findings.rows.push(Row::new(title, "ratio", median).note(note));
        }
    }
    let is_run = |layout: &Layout| cases.iter().any(|case| case.layout == *layout);
    let layouts: Vec<Layout> = LAYOUTS.into_iter().filter(is_run).collect();
    for &layout in &layouts {
        let of_layout =
            cases.iter().filter(|c| !c.fast && c.layout == layout && c.load == Load::Each);
        let shares: Vec<[f64; 2]> = of_layout.flat_map(|c| c.shares.iter().copied()).collect();
        let least = Spread::of(shares.iter().map(|s| s[0])).min;
        let most = Spread::of(shares.iter().map(|s| s[1])).max;
        let title = format!("{}, a flow from each source: the least flow", layout.name());
        let note = format!("of an equal share, in any run; the greatest {most:.2}");
        findings.rows.push(Row::new(title, "share", least).note(note));
    }
    for ([one, two, three], with) in latencies.into_iter().zip(["", FAST_TABLE]) {
        let hop = (three - one) / 2.0;
        let share = 100.0 * hop / one;
        let met = if share <= 15.0 { "met" } else { "missed" };
        let note = format!(
            "medians of 1, 2 and 3 boxes: {one:.1}, {two:.1}, {three:.1} us; a hop adds \
             {share:.0} % of the first box's; our goal of 15 % is {met}"
        );
        let title = format!("latency that each further box adds{with}");
        findings.rows.push(Row::new(title, "us", hop).note(note));
    }
    for case in cases {
        let note = format!("of {:.1} offered", case.offered / 1e3);
        let row = Row::new(case.title(), "kpackets/s", case.median() / 1e3);
        findings.rows.push(row.note(note).detail());
    }
    let mut routes: Vec<usize> = cases.iter().map(|c| c.routes).collect();
    routes.dedup();
    let bar = |routes: usize, layout: Layout| {
        let is_it = |c: &&Case| {
            (c.fast, c.routes, c.layout, c.load, c.size)
                == (false, routes, layout, Load::Many, SIZES[0])
        };
        cases.iter().find(is_it).map_or(0.0, |case| case.median() / 1e3)
    };
    let group = |n: usize| (n.to_string(), layouts.iter().map(|layout| bar(n, *layout)).collect());
    findings.charts.push(Chart::Bars(Bars {
        title: "Many flows of 64 bytes through one router of several boxes, by routes".into(),
        axis: "forwarded (kpackets/s)".into(),
        series: layouts.iter().map(|layout| Series::ours(layout.name())).collect(),
        groups: routes.into_iter().map(group).collect(),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(layout: Layout, load: Load, size: u32, received: f64) -> Case {
        let (shares, received) = (vec![[0.9, 1.1]], vec![received]);
        Case { fast: false, layout, load, size, routes: 10, received, shares, offered: 1e5 }
    }

    #[test]
    fn ratios_are_those_of_the_same_size_flows_and_table() {
        let many = Load::Many;
        let cases = [
            case(Layout::Single, many, 64, 100.0),
            case(Layout::Single, many, 576, 50.0),
            case(Layout::Single, Load::Each, 64, 7.0),
            case(Layout::Star, many, 64, 200.0),
            case(Layout::Star, many, 576, 50.0),
        ];
        let spread = ratio(&cases, false, Layout::Star, many).unwrap();
        assert!((spread.median - 2_f64.sqrt()).abs() < 1e-9, "{spread:?}");
        assert_eq!((spread.min, spread.max), (1.0, 2.0));
        assert_eq!(ratio(&cases, false, Layout::Pair, many), None);
        let mut findings = Findings::default();
        judge(&mut findings, &cases, [[10.0, 12.0, 14.0], [10.0, 10.5, 11.0]]);
        let row = findings.row("latency that each further box adds");
        assert_eq!(row.ours, 2.0);
        assert!(row.note.contains("adds 20 % of the first box's; our goal of 15 % is missed"));
        let row = findings.row("latency that each further box adds with the fast table");
        assert!(row.note.contains("adds 5 % of the first box's; our goal of 15 % is met"));
    }

    #[test]
    fn every_box_is_offered_as_much() {
        assert_eq!(pps(Layout::Single, Load::Each, 60e3), 45_000);
        assert_eq!(pps(Layout::Single, Load::One(0), 60e3), 90_000);
        for layout in [Layout::Pair, Layout::Star, Layout::Quad] {
            assert_eq!(pps(layout, Load::Many, 60e3), 90_000);
        }
        assert_eq!(shares_of(&[50.0, 150.0]), [0.5, 1.5]);
    }
}
