//! `aurora-load`: loss against offered load (netfpga-aurora.txt §5, figure 12) on simulated boards.
//! The highest load without loss is found by bisection.

use plexus_report::Failure;

use crate::board::Config;

use super::Setting;
use super::aurora::{
    Effort, HEAD, PAYLOAD, Pattern, REFERENCE, REFERENCE_SERIES, SET2_C, SET3_C, STATED, line,
    percent, run as simulate, streams,
};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};

const SEED: u64 = 1;
/// Mbit/s of payload that each source offers in any case, for the chart.
const LOADS: [u64; 7] = [0, 200, 400, 600, 800, 900, FULL_LOAD];
const QUICK: [u64; 3] = [0, 800, FULL_LOAD];
const FULL_LOAD: u64 = 1000;
/// Less than this part lost is none: a frame more or less at the ends of the window.
const NONE: f64 = 0.000_5;

/// A pattern with what the paper says of it: no loss up to the first load in Mbit/s, some at the
/// second, the next of its loads.
const CASES: [(&Pattern, [f64; 2]); 2] = [(&SET2_C, [900.0, 1000.0]), (&SET3_C, [800.0, 900.0])];

/// Finds where loss begins, to a whole Mbit/s divided by `step`: the highest load known to lose
/// nothing and the lowest known to lose, of those tried. `loses` is asked for loads between the
/// two, which it is true of from some load on.
///
/// # Errors
/// What `loses` says.
fn bisect<E>(
    mut whole: u64,
    mut lossy: u64,
    step: u64,
    mut loses: impl FnMut(u64) -> Result<bool, E>,
) -> Result<[u64; 2], E> {
    while lossy - whole > step {
        let middle = whole.midpoint(lossy);
        match loses(middle)? {
            true => lossy = middle,
            false => whole = middle,
        }
    }
    Ok([whole, lossy])
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    find(setting, Effort::new(setting.quick))
}

fn find(setting: &mut Setting<'_>, effort: Effort) -> Result<Findings, Failure> {
    let (loads, step) = if setting.quick { (&QUICK[..], 20) } else { (&LOADS[..], 1) };
    let mut findings = Findings::new(SEED, HEAD);
    let mut series = Vec::new();
    for (name, config) in [(STATED, Config::STATED), (REFERENCE.name, REFERENCE.config)] {
        for (pattern, [whole, lossy]) in CASES {
            let offered = streams(pattern.pairs, false);
            let mut points = Vec::new();
            let mut loses = |load: u64| -> Result<bool, Failure> {
                setting.progress.detail(&format!("{}, {name}, {load} Mbit/s", pattern.name));
                let rate = load * 1_000_000;
                let outcome = simulate(&config, &offered, [PAYLOAD, rate], SEED, effort)?;
                findings.runs += &line([name, pattern.name, "static"], rate, SEED, &outcome);
                points.push((load as f64, percent(&outcome)));
                Ok(outcome.loss() >= NONE)
            };
            let mut ends = [0, FULL_LOAD];
            let mut is_whole = true;
            for &load in loads {
                is_whole &= !loses(load)?;
                match is_whole {
                    true => ends[0] = load,
                    false => ends[1] = ends[1].min(load),
                }
            }
            let ends = bisect(ends[0], ends[1], step, &mut loses)?;
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let at_full = points.last().map_or(0.0, |p| p.1);
            let suffix = match name {
                STATED => String::new(),
                assumed => format!(", if {assumed}"),
            };
            let quantity = format!("highest load without loss, {}{suffix}", pattern.name);
            // Only what is stated is a prediction.
            let judged = |row: Row| if name == STATED { row } else { row.detail() };
            let row = judged(Row::new(quantity, "Mbit/s", ends[0] as f64));
            findings.rows.push(match is_whole {
                true => row.or_more().between(whole, lossy),
                false => row.between(whole, lossy).note(format!(
                    "by bisection: {} Mbit/s loses; the paper's next load is {lossy:.0}",
                    ends[1]
                )),
            });
            let quantity = format!("loss at 1000 Mbit/s, {}{suffix}", pattern.name);
            findings.rows.push(judged(Row::new(quantity, "%", at_full).paper(pattern.paper_loss)));
            if name == STATED {
                let paper = vec![(0.0, 0.0), (whole, 0.0), (1000.0, pattern.paper_loss)];
                series.push(Line::paper(pattern.name, paper));
            }
            let name = match name {
                STATED => pattern.name.to_string(),
                _ => format!("{}, {REFERENCE_SERIES}", pattern.name),
            };
            series.push(Line::ours(name, points));
        }
    }
    findings.remarks = vec![
        effort.remark(),
        "at 900 Mbit/s the paper's set 3 C already loses, as its text has it; four sources as even \
         as ours need none of the memory's queues"
            .into(),
        "a load is UDP payload, as iperf counts; above 951.7 Mbit/s the cables are always busy. \
         The paper's figure 12 is known by its three points in the text"
            .into(),
    ];
    findings.charts.push(Chart::lines(
        "Frames lost against offered load (figure 12)",
        Axis::linear("offered by each source (Mbit/s of UDP payload)"),
        Axis::linear("lost (%)"),
        series,
    ));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::aurora::tiny;
    use super::*;

    #[test]
    fn the_reference_design_has_a_line_beside_each_of_the_papers() {
        let findings = tiny(find);
        let table = findings.charts[0].table();
        let lost = |series: &str, whose: &str| -> Vec<f64> {
            let points = table.iter().filter(|row| row[0] == series && row[1] == whose);
            points.map(|row| row[3].parse().unwrap()).collect()
        };
        for (pattern, _) in CASES {
            let name = pattern.name;
            assert_eq!(lost(name, "paper").last(), Some(&pattern.paper_loss));
            let built = lost(&format!("{name}, {REFERENCE_SERIES}"), "ours");
            let quantity = format!("loss at 1000 Mbit/s, {name}, if {}", REFERENCE.name);
            let row = findings.row(&quantity);
            // Rows are rounded.
            let at_full = built.last().unwrap();
            assert!((at_full - row.ours).abs() < 1e-4, "{name}: {built:?} {row:?}");
            assert!(built.len() >= QUICK.len() && lost(name, "ours").len() >= QUICK.len());
        }
    }

    #[test]
    fn bisection_ends_at_the_two_loads_between_which_loss_begins() {
        for limit in [0, 1, 417, 951, 999] {
            let mut asked = 0;
            let found = bisect::<()>(0, FULL_LOAD, 1, |load| {
                asked += 1;
                Ok(load > limit)
            });
            assert_eq!(found, Ok([limit, limit + 1]));
            assert!(asked <= 10, "{asked}");
        }
        // What loses nothing at all leaves the ends as they are.
        assert_eq!(bisect::<()>(1000, 1000, 1, |_| Ok(true)), Ok([1000, 1000]));
        assert_eq!(bisect(0, 9, 1, |_| Err("why")), Err("why"));
    }
}
