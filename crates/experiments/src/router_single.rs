//! `router-single`: what one router forwards (distributed-router.txt, §III B, figures 3 to 5), by
//! frame size, flows, and routes in its table; the whole Internet's table besides.

use std::fmt::Write as _;
use std::time::Duration;

use plexus_report::Failure;

use super::Setting;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, geometric_mean};
use super::router_bench::{Bench, Flows, Program, SEED, internet};
use super::verdict::Verdict;

/// UDP payloads would be other sizes: the paper's are those of packets on a cable.
const SIZES: [u32; 3] = [64, 576, 1470];
const TABLES: [usize; 5] = [10, 1_000, 10_000, 167_000, 901_899];
/// Input rates, in parts of what the generators reach; the last is all that they can.
const PARTS: [f64; 3] = [0.25, 0.5, 0.75];

/// Per cent by which single runs of one kind differ: a lesser fall is none.
const FALL: f64 = 10.0;

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let (tables, sizes, time, parts): (&[usize], &[u32], _, &[f64]) = match setting.quick {
        true => (&TABLES[..2], &SIZES[..1], Duration::from_millis(300), &[]),
        false => (&TABLES, &SIZES, Duration::from_secs(3), &PARTS),
    };
    let table = internet().map_err(Failure::unusable)?;
    let head = "routes,size,flows,input_pps,output_pps,input_1,input_2,output_1,output_2\n";
    let mut findings = Findings::new(SEED, head);
    let (mut groups, mut by_table) = (Vec::new(), Vec::new());
    for &routes in tables {
        setting.progress.say(&format!("a table of {routes} routes"));
        let bench = Bench::new(Program::Plexus, table, routes).map_err(Failure::unusable)?;
        for &size in sizes {
            let mut bars = Vec::new();
            for flows in Flows::ALL {
                let title = format!("{routes} routes, {size} bytes, {}", flows.name());
                setting.progress.detail(&title);
                let most = bench.run(flows, size, None, time).map_err(Failure::unusable)?;
                let mut outcomes = Vec::new();
                for part in parts {
                    let pps = Some((most.offered() * part) as u64);
                    outcomes.push(bench.run(flows, size, pps, time).map_err(Failure::unusable)?);
                }
                outcomes.push(most);
                for o in &outcomes {
                    let ([a, b], [c, d]) = (o.offered, o.received);
                    let _ = writeln!(
                        findings.runs,
                        "{routes},{size},{},{:.0},{:.0},{a:.0},{b:.0},{c:.0},{d:.0}",
                        flows.name(),
                        o.offered(),
                        o.received()
                    );
                }
                let mut note = format!("of {:.0} offered", most.offered() / 1e3);
                if flows == Flows::Two {
                    let [first, second] = most.received;
                    let share = 100.0 * first / (first + second).max(1.0);
                    let _ = write!(note, "; the first flow's share {share:.1} %");
                }
                let row = Row::new(title.clone(), "kpackets/s", most.received() / 1e3);
                findings.rows.push(row.note(note));
                if most.received() == 0.0 {
                    findings.doubts.push(format!("{title}: nothing arrived"));
                }
                bars.push(most.received() / 1e3);
            }
            by_table.push((routes, bars.clone()));
            if size == SIZES[0] {
                groups.push((routes.to_string(), bars));
            }
        }
    }
    findings.verdict = Some(judged(&by_table));
    findings.charts.push(Chart::Bars(Bars {
        title: "Packets of 64 bytes through one router, by routes in its table".into(),
        axis: "forwarded (kpackets/s)".into(),
        series: Flows::ALL.map(|flows| Series::ours(flows.name())).into(),
        groups,
    }));
    findings.remarks = vec![
        "generators, meters and router share this machine's processors: what is offered and what \
         is forwarded limit each other, so figures tell sizes, flows and tables apart, not how \
         fast a router by itself is"
            .into(),
        "the paper's text gives no figures, only what its charts show; cache misses are not \
         counted here: a virtual machine's counters seldom tell, and `perf stat -p` on the node \
         does where they do"
            .into(),
    ];
    Ok(findings)
}

/// By the geometric mean over lengths and flows, with the smallest table and with the largest.
fn judged(by_table: &[(usize, Vec<f64>)]) -> Verdict {
    let tables = by_table.iter().map(|(routes, _)| *routes);
    let (Some(least), Some(most)) = (tables.clone().min(), tables.max()) else {
        return Verdict::open("nothing was run");
    };
    let mean = |wanted: usize| {
        let bars = by_table.iter().filter(|(routes, _)| *routes == wanted).flat_map(|(_, b)| b);
        geometric_mean(&bars.copied().collect::<Vec<f64>>())
    };
    let fall = (1.0 - mean(most) / mean(least)) * 100.0;
    Verdict::new(
        fall > FALL,
        format!("from {least} to {most} routes throughput falls by {fall:.1} %, geometric mean"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Answer;

    #[test]
    fn a_larger_table_slows_the_router_if_throughput_falls_by_more_than_runs_differ() {
        let judged =
            |large: f64| judged(&[(10, vec![800.0, 200.0]), (900_000, vec![400.0, large])]).answer;
        assert_eq!(judged(100.0), Answer::Holds);
        assert_eq!(judged(399.0), Answer::DoesNotHold);
    }
}
