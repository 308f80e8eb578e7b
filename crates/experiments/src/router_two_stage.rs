//! `router-two-stage`: front boxes that balance and back boxes that route (distributed-router.txt,
//! §V). It measures throughput by the number of back boxes, unequal back boxes, the loss of a back
//! box under load, and the mesh beside it. [`router_cut`](super::router_cut) takes the box away.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use plexus_report::Failure;

use super::Setting;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, Spread, geometric_mean};
use super::router_bench::{SEED, internet};
use super::router_cut::{Cut, Loss, lose_a_back_box};
use super::router_group::{Back, FRONTS, Fast, Kind, Layout, Load, Outcome, Plan, Rig};
use super::verdict::Verdict;

const SIZES: [u32; 3] = [64, 576, 1470];
const LOADS: [(Load, &str); 3] =
    [(Load::Each, "two flows"), (Load::Few, "48 flows"), (Load::Many, "many flows")];
const ROUTES: usize = 1_000;

/// Front boxes have no quota, and their kernels forward. They are not to be the limit: a packet
/// passes two of them. A back box with a smaller quota than a tenth of a processor stands still for
/// longer than its neighbours wait for it.
const SMALL: Back = Back { percent: 10, weight: 1 };
const LARGE: Back = Back { percent: 20, weight: 1 };
const HEAVY: Back = Back { percent: 20, weight: 2 };
const NUMBERS: [&[Back]; 3] = [&[SMALL], &[SMALL; 2], &[SMALL; 4]];
const EQUAL_WEIGHTS: &[Back] = &[SMALL, LARGE];
const UNEQUAL_WEIGHTS: &[Back] = &[SMALL, HEAVY];
const REDUNDANT: &[Back] = &[LARGE; 2];
/// Processors of each of four boxes where the mesh and two stages are compared.
const EVEN_CPU: f64 = 0.1;
const EVEN: &[Back] = &[Back { percent: 10, weight: 2 }; 2];

/// The load offered to the back boxes, in parts of their capacity.
const OFFERED: f64 = 1.2;
/// Packets/s from each source until a back box's capacity is known.
const FIRST_PPS: u64 = 40_000;
/// The load when a back box is lost, in parts of the other one's capacity.
const LIGHT: f64 = 0.6;
/// Front boxes that passed less than this of what they were offered were the limit.
const PASSED: f64 = 0.9;

/// One case. A run of it is in each list.
struct Case {
    layout: Layout,
    load: Load,
    load_name: &'static str,
    size: u32,
    offered: f64,
    received: Vec<f64>,
    /// The least and the greatest flow, in parts of an equal share.
    flows: Vec<[f64; 2]>,
    /// Each back box's share of all routed packets.
    boxes: Vec<Vec<f64>>,
    /// The share of the offered packets that came to the back boxes.
    passed: Vec<f64>,
}

impl Case {
    fn median(&self) -> f64 {
        Spread::of(self.received.iter().copied()).median
    }

    fn boxes_text(&self) -> String {
        let shares = self.boxes.last().into_iter().flatten();
        let shares: Vec<String> = shares.map(|s| format!("{:.0}", s * 100.0)).collect();
        shares.join(" : ")
    }

    fn is(&self, layout: Layout, load: Load, size: u32) -> bool {
        (self.layout, self.load, self.size) == (layout, load, size)
    }
}

fn layout_name(layout: Layout) -> String {
    match layout {
        Layout::Stages(backs) if backs == UNEQUAL_WEIGHTS => "unequal boxes, weights 1 : 2".into(),
        Layout::Stages(backs) if backs == EQUAL_WEIGHTS => "unequal boxes, weights 1 : 1".into(),
        Layout::Stages(backs) if backs == EVEN => "two front and two back boxes".into(),
        Layout::Stages(backs) => match backs.len() {
            1 => "one back box".into(),
            2 => "two back boxes".into(),
            n => format!("{n} back boxes"),
        },
        Layout::Quad => "the mesh of four boxes".into(),
        other => other.name().into(),
    }
}

/// How the runs are made.
struct Bench<'a> {
    table: &'a [(Ipv4Addr, u8)],
    time: Duration,
}

impl Bench<'_> {
    fn rig(
        &self,
        layout: Layout,
        cpu: Option<f64>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Rig, String> {
        let (kind, table) = (Kind::Group, self.table);
        // No quota holds a kernel.
        let fast = if cpu.is_some() { Fast::No } else { Fast::Fronts };
        Rig::up(&Plan { kind, layout, table, routes: ROUTES, cpu, fast }, say)
    }

    /// Runs a case so often, and writes each run into the CSV.
    fn case(
        &self,
        rig: &Rig,
        layout: Layout,
        (load, load_name): (Load, &'static str),
        size: u32,
        (pps, runs): (u64, usize),
        csv: &mut String,
    ) -> Result<Case, String> {
        let (received, flows, boxes, passed) = Default::default();
        let offered = 0.0;
        let mut case =
            Case { layout, load, load_name, size, offered, received, flows, boxes, passed };
        for run in 1..=runs {
            let before = rig.back_counts()?;
            let outcome = rig.run(load, size, pps, self.time)?;
            let counts = rig.back_counts()?;
            let changes = || counts.iter().zip(&before);
            let routed: Vec<f64> =
                changes().map(|(now, was)| (now.routed - was.routed) as f64).collect();
            let came: f64 = changes().map(|(now, was)| (now.came - was.came) as f64).sum();
            let all = routed.iter().sum::<f64>().max(1.0);
            case.boxes.push(routed.iter().map(|r| r / all).collect());
            case.passed.push(came / (outcome.offered() * self.time.as_secs_f64()).max(1.0));
            case.flows.push(flow_shares(load, &outcome));
            case.received.push(outcome.received());
            case.offered = outcome.offered();
            let [least, greatest] = *case.flows.last().unwrap_or(&[0.0; 2]);
            let _ = writeln!(
                csv,
                "{},{size},{load_name},{run},{:.0},{:.0},{least:.3},{greatest:.3},{},{:.3}",
                layout_name(layout).replace(',', ""),
                outcome.offered(),
                outcome.received(),
                case.boxes_text(),
                case.passed.last().unwrap_or(&0.0)
            );
        }
        Ok(case)
    }
}

/// The least and the greatest flow, in parts of an equal share. The many flows of a run are too
/// short to be compared: of them the sinks are.
fn flow_shares(load: Load, outcome: &Outcome) -> [f64; 2] {
    let rates: Vec<f64> = match load {
        Load::Few => outcome.flows.iter().map(|f| f.received as f64).collect(),
        _ => outcome.received.clone(),
    };
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let Spread { min, max, .. } = Spread::of(rates);
    [min, max].map(|rate| rate / mean.max(f64::MIN_POSITIVE))
}

/// Packets/s from each source to back boxes of this many hundredths of a processor; a small one
/// routes `capacity`.
fn pps(percent: u32, capacity: f64, of: f64) -> u64 {
    let units = f64::from(percent) / f64::from(SMALL.percent);
    (of * capacity * units / FRONTS as f64) as u64
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let (sizes, runs, time): (&[u32], _, _) = match setting.quick {
        true => (&SIZES[..1], 1, Duration::from_millis(300)),
        false => (&SIZES, 2, Duration::from_millis(800)),
    };
    let table = internet().map_err(Failure::unusable)?;
    let bench = Bench { table, time };
    let progress = &mut *setting.progress;
    let head = "layout,size,load,run,offered_pps,received_pps,least_share,greatest_share,\
                boxes_percent,passed_by_fronts\n";
    let mut findings = Findings::new(SEED, head);
    let is_quick = setting.quick;
    let mut measure = || -> Result<(Vec<Case>, Option<Loss>), String> {
        let mut cases = Vec::new();
        let mut capacity = 0.0;
        let numbers = if is_quick { &NUMBERS[..2] } else { &NUMBERS };
        for backs in numbers {
            let layout = Layout::Stages(backs);
            progress.say(&layout_name(layout));
            let rig = bench.rig(layout, None, &mut |text| progress.detail(text))?;
            if backs.len() == 1 {
                // A quota may be overdrawn in one run.
                let run = || Ok(rig.run(Load::Each, SIZES[0], FIRST_PPS, time)?.received());
                let runs: Result<Vec<f64>, String> =
                    (0..if is_quick { 1 } else { 3 }).map(|_| run()).collect();
                capacity = Spread::of(runs?).median;
            }
            let pps = pps(backs.iter().map(|b| b.percent).sum(), capacity, OFFERED);
            for &size in sizes {
                for load in LOADS {
                    progress.detail(load.1);
                    let csv = &mut findings.runs;
                    cases.push(bench.case(&rig, layout, load, size, (pps, runs), csv)?);
                }
            }
        }
        if is_quick {
            return Ok((cases, None));
        }
        for backs in [EQUAL_WEIGHTS, UNEQUAL_WEIGHTS] {
            let layout = Layout::Stages(backs);
            progress.say(&layout_name(layout));
            let rig = bench.rig(layout, None, &mut |text| progress.detail(text))?;
            let pps = pps(SMALL.percent + LARGE.percent, capacity, OFFERED);
            for load in &LOADS[1..] {
                let csv = &mut findings.runs;
                cases.push(bench.case(&rig, layout, *load, SIZES[0], (pps, runs), csv)?);
            }
        }
        progress.say("a back box is lost and comes back");
        let rig = Layout::Stages(REDUNDANT);
        let rig = bench.rig(rig, None, &mut |text| progress.detail(text))?;
        let light = pps(LARGE.percent, capacity, LIGHT);
        let lost = lose_a_back_box(&rig, light, &mut |text| progress.detail(text))?;
        drop(rig);
        for layout in [Layout::Quad, Layout::Stages(EVEN)] {
            progress.say(&layout_name(layout));
            let rig = bench.rig(layout, Some(EVEN_CPU), &mut |text| progress.detail(text))?;
            let all = pps(2 * SMALL.percent, capacity, OFFERED);
            let pps = all * FRONTS as u64 / layout.sources().len() as u64;
            for load in [LOADS[0], LOADS[2]] {
                let csv = &mut findings.runs;
                cases.push(bench.case(&rig, layout, load, SIZES[0], (pps, runs), csv)?);
            }
        }
        Ok((cases, Some(lost)))
    };
    let (cases, lost) = measure().map_err(Failure::unusable)?;
    judge(&mut findings, &cases, lost.as_ref());
    findings.remarks = vec![format!(
        "front boxes have no quota and a fast table, a back box has 0.1 or 0.2 processors and no \
         fast table; the back boxes are offered \
         {OFFERED} times what they route of small packets"
    )];
    Ok(findings)
}

/// The geometric mean, the least and the greatest of the ratios of a layout's throughputs to those
/// of another at the same sizes.
fn ratio(cases: &[Case], layout: Layout, to: Layout, load: Load) -> Option<Spread> {
    let of = |case: &Case| {
        let base = cases.iter().find(|c| c.is(to, load, case.size))?.median();
        (base > 0.0 && case.median() > 0.0).then(|| case.median() / base)
    };
    let of_layout = cases.iter().filter(|c| (c.layout, c.load) == (layout, load));
    let ratios: Vec<f64> = of_layout.filter_map(of).collect();
    let Spread { min, max, .. } = Spread::of(ratios.iter().copied());
    (!ratios.is_empty()).then(|| Spread { median: geometric_mean(&ratios), min, max })
}

fn met(holds: bool) -> &'static str {
    if holds { "met" } else { "missed" }
}

fn judge(findings: &mut Findings, cases: &[Case], lost: Option<&Loss>) {
    let [one, two, four] = NUMBERS.map(Layout::Stages);
    let [equal, unequal] = [EQUAL_WEIGHTS, UNEQUAL_WEIGHTS].map(Layout::Stages);
    let rows = &mut findings.rows;
    for (layout, goal) in [(two, 1.9), (four, 3.6)] {
        for (load, load_name) in LOADS {
            let Some(Spread { median, min, max }) = ratio(cases, layout, one, load) else {
                continue;
            };
            let title = format!("{} to one, {load_name}", layout_name(layout));
            let note = format!(
                "geometric mean; {min:.2} to {max:.2}; our goal of {goal} is {}",
                met(median >= goal)
            );
            rows.push(Row::new(title, "ratio", median).note(note));
        }
    }
    let weighted = ratio(cases, unequal, equal, Load::Few).map_or(0.0, |ratio| ratio.median);
    for (load, load_name) in &LOADS[1..] {
        let Some(Spread { median, .. }) = ratio(cases, unequal, equal, *load) else { continue };
        let shares = |layout| {
            let case = cases.iter().find(|c| c.is(layout, *load, SIZES[0]));
            case.map_or_else(String::new, Case::boxes_text)
        };
        let title = format!("unequal back boxes: weights 1 : 2 to 1 : 1, {load_name}");
        let note = format!(
            "the second box has twice the quota; the boxes routed {} % with weights 1 : 2 and {} % \
             with 1 : 1",
            shares(unequal),
            shares(equal)
        );
        rows.push(Row::new(title, "ratio", median).note(note));
    }
    if let Some(loss) = lost {
        redundancy(rows, loss);
    }
    for load in [LOADS[0], LOADS[2]] {
        let stages = ratio(cases, Layout::Stages(EVEN), Layout::Quad, load.0);
        let Some(Spread { median, .. }) = stages else { continue };
        let title = format!("two front and two back boxes to the mesh of four, {}", load.1);
        let note = format!("each of the four boxes has {EVEN_CPU} processors");
        rows.push(Row::new(title, "ratio", median).note(note));
    }
    for layout in [one, two, four] {
        for (load, load_name) in &LOADS[..2] {
            let of_layout = cases.iter().filter(|c| c.layout == layout && c.load == *load);
            let shares: Vec<[f64; 2]> = of_layout.flat_map(|c| c.flows.iter().copied()).collect();
            let least = Spread::of(shares.iter().map(|s| s[0])).min;
            let most = Spread::of(shares.iter().map(|s| s[1])).max;
            let title = format!("{}, {load_name}: the least flow", layout_name(layout));
            let note = format!("of an equal share, in any run; the greatest {most:.2}");
            rows.push(Row::new(title, "share", least).note(note));
        }
    }
    for case in cases {
        let Case { size, load_name, .. } = case;
        let title = format!("{}, {size} bytes, {load_name}", layout_name(case.layout));
        let mut note = format!("of {:.1} offered", case.offered / 1e3);
        if matches!(case.layout, Layout::Stages(_)) {
            let passed = Spread::of(case.passed.iter().copied()).min * 100.0;
            let _ = write!(
                note,
                "; {passed:.0} % came to the back boxes, which routed {} %",
                case.boxes_text()
            );
        }
        rows.push(Row::new(title, "kpackets/s", case.median() / 1e3).note(note).detail());
    }
    let limits = cases.iter().filter(|c| NUMBERS.map(Layout::Stages).contains(&c.layout));
    let held: Vec<&Case> = limits.filter(|c| c.passed.iter().any(|p| *p < PASSED)).collect();
    if let Some(first) = held.first() {
        findings.remarks.push(format!(
            "in {} cases the front boxes passed less than {:.0} % of what was offered, the first \
             {}, {} bytes, {}",
            held.len(),
            PASSED * 100.0,
            layout_name(first.layout),
            first.size,
            first.load_name
        ));
    }
    let bar = |layout: Layout, load: Load| {
        let case = cases.iter().find(|c| c.is(layout, load, SIZES[0]));
        case.map_or(0.0, |case| case.median() / 1e3)
    };
    let group = |(load, name): (Load, &str)| {
        (name.to_string(), [one, two, four].map(|layout| bar(layout, load)).into())
    };
    findings.charts.push(Chart::Bars(Bars {
        title: "64 bytes through two stages, by back boxes of equal quotas".into(),
        axis: "forwarded (kpackets/s)".into(),
        series: [one, two, four].map(|layout| Series::ours(layout_name(layout))).into(),
        groups: LOADS.map(group).into(),
    }));
    let Some(Loss { cut, .. }) = lost else {
        let why = "a quick run loses no back box, and has none of other speed";
        findings.verdict = Some(Verdict::open(why));
        return;
    };
    let holds = weighted > 1.0 && cut.stood_ms_max() <= STOOD_MS && cut.others_lost == 0;
    findings.verdict = Some(Verdict::new(
        holds,
        format!(
            "unequal back boxes route {weighted:.2} times as much with weights as without; when a \
             back box is lost, its flows stand still for at most {:.0} ms (asked: {STOOD_MS:.0}), \
             and the others lose {} packets (asked: 0)",
            cut.stood_ms_max(),
            cut.others_lost
        ),
    ));
}

/// How long flows may stand still when their back box is lost, in milliseconds.
const STOOD_MS: f64 = 50.0;

fn redundancy(rows: &mut Vec<Row>, Loss { cut, returned }: &Loss) {
    let Cut { own, other, own_lost, others_lost, others_reordered, .. } = cut;
    let stood = Spread::of(cut.stood_ms.iter().copied());
    let note = format!(
        "the longest of the {own} flows of the lost box; median {:.1}; our goal of {STOOD_MS:.0} \
         is {}",
        stood.median,
        met(cut.stood_ms_max() <= STOOD_MS)
    );
    let row = |title: &str, count: u64| Row::new(title, "packets", count as f64);
    rows.push(Row::new("a back box is lost: its flows stand still", "ms", stood.max).note(note));
    rows.push(row("a back box is lost: lost of its flows", *own_lost));
    let note = format!("of {other} flows; our goal of 0 is {}", met(*others_lost == 0));
    rows.push(row("a back box is lost: lost of the others", *others_lost).note(note));
    rows.push(row("a back box is lost: reordered of the others", *others_reordered));
    let note = match returned.after_ms {
        Some(ms) => format!("it routes again {ms:.0} ms after its cables are back"),
        None => "it does not route again within 8 s".into(),
    };
    let lost = row("a back box comes back: lost of its flows", returned.own_lost);
    rows.push(lost.note(format!("{} reordered; {note}", returned.own_reordered)));
    let lost = row("a back box comes back: lost of the others", returned.others_lost);
    rows.push(lost.note(format!("{} reordered", returned.others_reordered)));
    let note = "flows that go by another box than before it was lost";
    let moved = returned.moved as f64;
    rows.push(Row::new("a back box comes back: flows moved", "flows", moved).note(note));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Answer;

    fn case(backs: &'static [Back], load: Load, received: f64) -> Case {
        Case {
            layout: Layout::Stages(backs),
            load,
            load_name: "flows",
            size: 64,
            offered: 2.0 * received,
            received: vec![received],
            flows: vec![[0.5, 1.5]],
            boxes: vec![vec![0.25, 0.75]],
            passed: vec![1.0],
        }
    }

    fn judged(stood_ms: f64, others_lost: u64, weighted: f64) -> Findings {
        let mut findings = Findings::default();
        let cases = [
            case(NUMBERS[0], Load::Few, 20e3),
            case(NUMBERS[1], Load::Few, 39e3),
            case(EQUAL_WEIGHTS, Load::Few, 10e3),
            case(UNEQUAL_WEIGHTS, Load::Few, weighted),
        ];
        let cut = Cut { own: 1, stood_ms: vec![stood_ms], others_lost, ..Cut::default() };
        judge(&mut findings, &cases, Some(&Loss { cut, ..Loss::default() }));
        findings
    }

    #[test]
    fn the_claim_is_weights_that_help_and_a_loss_that_others_do_not_notice() {
        let answer =
            |stood_ms, lost, weighted| judged(stood_ms, lost, weighted).verdict.unwrap().answer;
        assert_eq!(answer(20.0, 0, 12e3), Answer::Holds);
        assert_eq!(answer(51.0, 0, 12e3), Answer::DoesNotHold);
        assert_eq!(answer(20.0, 1, 12e3), Answer::DoesNotHold);
        assert_eq!(answer(20.0, 0, 9e3), Answer::DoesNotHold);
        let findings = judged(20.0, 0, 12e3);
        let row = findings.row("two back boxes to one, 48 flows");
        assert_eq!(row.ours, 1.95);
        assert!(row.note.ends_with("our goal of 1.9 is met"), "{}", row.note);
        let row = findings.row("unequal back boxes: weights 1 : 2 to 1 : 1, 48 flows");
        assert!(row.note.contains("25 : 75 % with weights 1 : 2"), "{}", row.note);
    }

    #[test]
    fn back_boxes_are_offered_as_much_as_their_quotas_allow() {
        assert_eq!(pps(10, 20e3, 1.5), 15_000);
        assert_eq!(pps(40, 20e3, 1.5), 60_000);
    }
}
