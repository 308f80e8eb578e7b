//! `router-linux-click`: Linux forwarding beside Plexus (distributed-router.txt, §III A, figure
//! 2), with 1,000 routes and many flows as there, and with the whole Internet's table.

use std::fmt::Write as _;
use std::time::Duration;

use super::Setting;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, Spread};
use super::router_bench::{Bench, Flows, Program, SEED, internet};
use crate::exit::Failure;

const SIZES: [u32; 3] = [64, 576, 1470];
const TABLES: [usize; 2] = [1_000, 901_899];

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let (tables, sizes, time, turns): (&[usize], &[u32], _, _) = match setting.quick {
        true => (&TABLES[..1], &SIZES[..1], Duration::from_millis(300), 1),
        false => (&TABLES, &SIZES, Duration::from_secs(3), 5),
    };
    let table = internet().map_err(Failure::unusable)?;
    let mut findings = Findings { seed: SEED, ..Findings::default() };
    findings.runs = "run,routes,size,program,input_pps,output_pps\n".into();
    let mut groups = Vec::new();
    for &routes in tables {
        setting.progress.say(&format!("a table of {routes} routes"));
        // Both are there at once and take turns, so that what disturbs the machine disturbs both.
        let bench = |program| Bench::new(program, &table, routes).map_err(Failure::unusable);
        let benches = [bench(Program::Plexus)?, bench(Program::Linux)?];
        for &size in sizes {
            let mut received = [Vec::new(), Vec::new()];
            let mut ratios = Vec::new();
            for turn in 1..=turns {
                for (i, name) in ["plexus", "linux"].into_iter().enumerate() {
                    setting.progress.detail(&format!("{size} bytes, {name}, run {turn}"));
                    let run = benches[i].run(Flows::Many, size, None, time);
                    let outcome = run.map_err(Failure::unusable)?;
                    let (input, output) = (outcome.offered(), outcome.received());
                    let _ = writeln!(
                        findings.runs,
                        "{turn},{routes},{size},{name},{input:.0},{output:.0}"
                    );
                    received[i].push(output / 1e3);
                    if output == 0.0 {
                        let what = format!("{routes} routes, {size} bytes, {name}");
                        findings.doubts.push(format!("{what}: nothing arrived"));
                    }
                }
                let last = |i: usize| received[i].last().copied().unwrap_or(0.0);
                if last(1) > 0.0 {
                    ratios.push(last(0) / last(1));
                }
            }
            let title = format!("{routes} routes, {size} bytes");
            let [plexus, linux] = received.map(Spread::of);
            for (name, spread) in [("Plexus", plexus), ("Linux", linux)] {
                let row = Row::new(format!("{title}: {name}"), "kpackets/s", spread.median);
                findings.rows.push(row.note(spread.text(turns)));
            }
            let ratio = Spread::of(ratios);
            let note = format!("median of the runs' own ratios; {}", ratio.text(turns));
            let row = Row::new(format!("{title}: Plexus to Linux"), "ratio", ratio.median);
            findings.rows.push(row.note(note));
            groups.push((title, vec![plexus.median, linux.median]));
        }
    }
    findings.charts.push(Chart::Bars(Bars {
        title: "Many flows through Plexus and through Linux".into(),
        axis: "forwarded (kpackets/s)".into(),
        series: ["Plexus", "Linux"].map(Series::ours).into(),
        groups,
    }));
    findings.remarks = vec![
        "the Click modular router is in no distribution's packages, and was not built: its column \
         of figure 2 is missing"
            .into(),
        "generators, meters and router share this machine's processors; the router by AF_XDP is a \
         process beside them, Linux forwards on the processor that the generator sends by"
            .into(),
    ];
    Ok(findings)
}
