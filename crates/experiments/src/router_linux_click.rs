//! `router-linux-click`: Linux forwarding and the Click modular router beside Plexus
//! (distributed-router.txt, §III A, figure 2), with 1,000 routes and many flows as there, and with
//! the whole Internet's table.

use std::fmt::Write as _;
use std::time::Duration;

use plexus_report::Failure;

use super::Setting;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, Spread};
use super::router_bench::click::Click;
use super::router_bench::{Bench, Flows, Program, SEED, internet};
use super::verdict::Verdict;

const SIZES: [u32; 3] = [64, 576, 1470];
const TABLES: [usize; 2] = [1_000, 901_899];
/// Which programs are held against each other, where both are there.
const RATIOS: [(&str, &str); 3] = [("Plexus", "Linux"), ("Plexus", "Click"), PAPER_RATIO];
/// What the paper's claim is about.
const PAPER_RATIO: (&str, &str) = ("Click", "Linux");

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let (tables, sizes, time, turns): (&[usize], &[u32], _, _) = match setting.quick {
        true => (&TABLES[..1], &SIZES[..1], Duration::from_millis(300), 1),
        false => (&TABLES, &SIZES, Duration::from_secs(3), 5),
    };
    let click = Click::installed().map_err(Failure::unusable)?;
    let mut programs = vec![Program::Plexus, Program::Linux];
    programs.extend(click.as_ref().map(Program::Click));
    let names: Vec<&str> = programs.iter().map(|p| p.name()).collect();
    let table = internet().map_err(Failure::unusable)?;
    let mut findings = Findings::new(SEED, "run,routes,size,program,input_pps,output_pps\n");
    let (mut groups, mut clicks) = (Vec::new(), Vec::new());
    for &routes in tables {
        setting.progress.say(&format!("a table of {routes} routes"));
        // All are there at once and take turns, so that what disturbs the machine disturbs each.
        let bench = |program: &Program<'_>| Bench::new(*program, table, routes);
        let benches: Result<Vec<_>, _> = programs.iter().map(bench).collect();
        let benches = benches.map_err(Failure::unusable)?;
        for &size in sizes {
            let mut received = vec![Vec::new(); programs.len()];
            for turn in 1..=turns {
                for (i, name) in names.iter().enumerate() {
                    setting.progress.detail(&format!("{size} bytes, {name}, run {turn}"));
                    let run = benches[i].run(Flows::Many, size, None, time);
                    let outcome = run.map_err(Failure::unusable)?;
                    let (input, output) = (outcome.offered(), outcome.received());
                    let program = name.to_lowercase();
                    let _ = writeln!(
                        findings.runs,
                        "{turn},{routes},{size},{program},{input:.0},{output:.0}"
                    );
                    received[i].push(output / 1e3);
                    if output == 0.0 {
                        let what = format!("{routes} routes, {size} bytes, {name}");
                        findings.doubts.push(format!("{what}: nothing arrived"));
                    }
                }
            }
            let title = format!("{routes} routes, {size} bytes");
            let mut bars = Vec::new();
            for (name, received) in names.iter().zip(&received) {
                let spread = Spread::of(received.iter().copied());
                let row = Row::new(format!("{title}: {name}"), "kpackets/s", spread.median);
                findings.rows.push(row.note(spread.text(turns)));
                bars.push(spread.median);
            }
            for (one, other) in RATIOS {
                let at = |name| Some(&received[names.iter().position(|n| *n == name)?]);
                let (Some(ones), Some(others)) = (at(one), at(other)) else { continue };
                let ratio = Spread::of(ratios(ones, others));
                if (one, other) == PAPER_RATIO {
                    clicks.push(ratio.median);
                }
                let note = format!("median of the runs' own ratios; {}", ratio.text(turns));
                let row = Row::new(format!("{title}: {one} to {other}"), "ratio", ratio.median);
                findings.rows.push(row.note(note));
            }
            groups.push((title, bars));
        }
    }
    findings.verdict = Some(judged(&clicks));
    findings.charts.push(Chart::Bars(Bars {
        title: format!("Many flows through {}", names.join(", ")),
        axis: "forwarded (kpackets/s)".into(),
        series: names.into_iter().map(Series::ours).collect(),
        groups,
    }));
    findings.remarks = vec![
        click.map_or_else(missing, |click| format!("Click is of version {}", click.version)),
        "generators, meters and router share this machine's processors; the router by AF_XDP and \
         Click are processes beside them, Linux forwards on the processor that the generator sends \
         by"
        .into(),
    ];
    Ok(findings)
}

/// By the ratios of Click to Linux: "mostly" is more than half of them.
fn judged(clicks: &[f64]) -> Verdict {
    if clicks.is_empty() {
        return Verdict::open("Click is not installed: its column of figure 2 is missing");
    }
    let ahead = clicks.iter().filter(|ratio| **ratio > 1.0).count();
    let why = format!("Click is ahead of Linux in {ahead} of {} cases", clicks.len());
    Verdict::new(2 * ahead > clicks.len(), why)
}

/// Of each turn in which the other forwarded anything.
fn ratios(ones: &[f64], others: &[f64]) -> Vec<f64> {
    let pairs = ones.iter().zip(others).filter(|(_, other)| **other > 0.0);
    pairs.map(|(one, other)| one / other).collect()
}

fn missing() -> String {
    "the Click modular router is not installed (a \"click\" in the PATH, or the program that CLICK \
     in the environment names; Debian's package of that name is another): its column of figure 2 \
     is missing"
        .into()
}
