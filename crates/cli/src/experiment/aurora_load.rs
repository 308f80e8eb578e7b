//! `aurora-load`: loss against offered load (netfpga-aurora.txt §5, figure 12) on simulated boards.

use plexus_sim::board::Config;

use super::Setting;
use super::aurora::{
    Effort, HEAD, PAYLOAD, Pattern, SET2_C, SET3_C, TURNS, line, percent, run as simulate, streams,
};
use super::plot::{Chart, Line, Lines};
use super::report::{Findings, Row};
use crate::exit::Failure;

const SEED: u64 = 1;
/// Mbit/s of payload that each source offers.
const QUICK: [u64; 5] = [400, 800, 900, 950, 1000];
/// Less than this part lost is none: a frame more or less at the ends of the window.
const NONE: f64 = 0.000_5;

/// A pattern with what the paper says of it: no loss up to this load in Mbit/s.
const CASES: [(&Pattern, f64); 2] = [(&SET2_C, 900.0), (&SET3_C, 800.0)];

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let effort = Effort::new(setting.quick);
    let full = (0..=4).map(|i| i * 200).chain((42..=50).map(|i| i * 20));
    let loads: Vec<u64> = if setting.quick { QUICK.into() } else { full.collect() };
    let mut findings = Findings { seed: SEED, runs: HEAD.into(), ..Findings::default() };
    let mut series = Vec::new();
    for (name, config) in [("as stated", Config::STATED), (TURNS.name, TURNS.config)] {
        for (pattern, lossless) in CASES {
            let offered = streams(pattern.pairs, false);
            let (mut points, mut most, mut is_whole) = (Vec::new(), 0, true);
            for &load in &loads {
                setting.progress.detail(&format!("{}, {name}, {load} Mbit/s", pattern.name));
                let rate = load * 1_000_000;
                let outcome = simulate(&config, &offered, [PAYLOAD, rate], SEED, effort)?;
                findings.runs += &line([name, pattern.name, "static"], rate, SEED, &outcome);
                points.push((load as f64, percent(&outcome)));
                is_whole &= outcome.loss() < NONE;
                if is_whole {
                    most = load;
                }
            }
            let at_most = points.last().map_or(0.0, |p| p.1);
            let suffix = match name {
                "as stated" => String::new(),
                assumed => format!(", if {assumed}"),
            };
            let quantity = format!("highest load without loss, {}{suffix}", pattern.name);
            let note = "of the loads tried, which in the paper are 100 Mbit/s apart or more";
            let row = Row::new(quantity, "Mbit/s", most as f64).paper(lossless);
            findings.rows.push(row.note(note));
            let quantity = format!("loss at 1000 Mbit/s, {}{suffix}", pattern.name);
            findings.rows.push(Row::new(quantity, "%", at_most).paper(pattern.paper_loss));
            if name == "as stated" {
                let paper = vec![(0.0, 0.0), (lossless, 0.0), (1000.0, pattern.paper_loss)];
                series.push(Line { name: pattern.name.into(), points: paper, paper: true });
            }
            series.push(Line { name: pattern.name.to_string() + &suffix, points, paper: false });
        }
    }
    findings.remarks = vec![
        effort.remark(),
        "at 900 Mbit/s the paper's set 3 C already loses: a memory that turns around has room \
         until 920, and four sources as even as ours need none of its queues"
            .into(),
        "a load is UDP payload, as iperf counts; above 951.7 Mbit/s the cables are always busy. \
         The paper's figure 12 is known by its three points in the text"
            .into(),
    ];
    findings.charts.push(Chart::Lines(Lines {
        title: "Frames lost against offered load (figure 12)".into(),
        x: "offered by each source (Mbit/s of UDP payload)".into(),
        y: "lost (%)".into(),
        log_x: false,
        log_y: false,
        series,
    }));
    Ok(findings)
}
