//! `aurora-link`: what the serial link of netfpga-aurora.txt carries, by frame size.
//!
//! A lane is run frame after frame, for goodput; two hosts' full gigabit cables are run over it,
//! from board to board, for what is lost. The formula stands beside both.

use std::fmt::Write as _;

use plexus_report::Failure;

use crate::board::{CLOCK_HZ, Config, Lane, Link};

use super::Setting;
use super::aurora::{Effort, GIGABIT, SET2_C, percent, run as simulate, streams};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};

/// Ethernet frames with their checksum, in bytes: smallest and largest, powers of two, the paper's
/// (1300 bytes of UDP payload), and one of odd length.
const SIZES: [u64; 8] = [64, 65, 128, 256, 512, 1024, 1346, 1518];
const PAPER_SIZE: u64 = 1346;
const FCS: u64 = 4;
/// Preamble and gap.
const AROUND: u64 = 20;
/// Ethernet, IPv4 and UDP headers.
const HEADERS: u64 = 42;
const SEED: u64 = 1;

/// Mean clocks from frame to frame of a lane that is never idle.
fn measured(link: Link, bytes: u64, frames: u64) -> f64 {
    let mut lane = Lane::new(link);
    let (first, _) = lane.send(0, bytes);
    let last = (0..frames).map(|_| lane.send(0, bytes).0).last().unwrap_or(first);
    (last - first) as f64 / frames as f64
}

/// Clocks in which two gigabit cables bring a frame of this size each, halved: a byte in each.
fn two_cables(size: u64) -> f64 {
    (size + AROUND) as f64 / 2.0
}

/// The part of two full cables that does not fit.
fn lost(size: u64, clocks: f64) -> f64 {
    (1.0 - two_cables(size) / clocks).max(0.0) * 100.0
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    find(setting, Effort::new(setting.quick))
}

fn find(setting: &mut Setting<'_>, effort: Effort) -> Result<Findings, Failure> {
    let frames = if setting.quick { 20_000 } else { 2_000_000 };
    let mut findings = Findings::new(
        SEED,
        "frame_bytes,clocks_per_frame,clocks_formula,goodput_bits_per_s,cables,lost_formula,\
         lost_boards\n",
    );
    // Nothing but bytes: a long frame's delimiters are too few to be seen.
    let bare = Link { idle_clocks: 0, compensation: None, ..Link::STATED };
    let long = 1 << 40;
    let raw = long as f64 * 8.0 / measured(bare, long, 1) * CLOCK_HZ as f64 / 1e9;
    findings.rows.push(Row::new("raw rate of a link", "Gbit/s", raw).put_in(2.0));
    let mut goodputs = Vec::new();
    let (mut formula_lost, mut boards_lost) = (Vec::new(), Vec::new());
    for size in SIZES {
        setting.progress.detail(&format!("{size}-byte frames"));
        let (bytes, link) = (size - FCS, Link::STATED);
        let clocks = measured(link, bytes, frames);
        let goodput = bytes as f64 * 8.0 / clocks * CLOCK_HZ as f64 / 1e9;
        let cables = 2.0 * two_cables(size) / clocks;
        let computed = lost(size, link.mean_clocks(bytes));
        let note = format!(
            "{clocks:.2} clocks per frame, by formula {:.2}; carries {cables:.4} full gigabit \
             cables",
            link.mean_clocks(bytes)
        );
        let quantity = format!("goodput of a link, {size}-byte frames");
        findings.rows.push(Row::new(quantity, "Gbit/s", goodput).note(note));
        let offered = streams(SET2_C.pairs, false);
        let load = [bytes - HEADERS, GIGABIT];
        let outcome = simulate(&Config::STATED, &offered, load, SEED, effort)?;
        // Odd lengths would be a saw's teeth.
        if size % 2 == 0 {
            goodputs.push((size as f64, goodput));
            formula_lost.push((size as f64, computed));
            boards_lost.push((size as f64, percent(&outcome)));
        }
        let quantity = format!("lost of two full cables on a link, {size}-byte frames");
        let row = Row::new(quantity, "%", percent(&outcome));
        let row = if size == PAPER_SIZE { row.paper(SET2_C.paper_loss) } else { row };
        findings.rows.push(row.note(format!("through both boards; by formula {computed:.2} %")));
        let _ = writeln!(
            findings.runs,
            "{size},{clocks:.4},{:.4},{:.0},{cables:.5},{:.6},{:.6}",
            link.mean_clocks(bytes),
            goodput * 1e9,
            computed / 100.0,
            outcome.loss()
        );
    }
    for (what, link) in [
        ("without idle clocks", Link { idle_clocks: 0, ..Link::STATED }),
        ("without frame delimiters", Link { delimiters: false, ..Link::STATED }),
        ("padded to 64 bits", Link { word_bytes: 8, ..Link::STATED }),
        ("without compensation", Link { compensation: None, ..Link::STATED }),
        ("without idle clocks and compensation", bare),
    ] {
        let clocks = measured(link, PAPER_SIZE - FCS, frames);
        let cables = 2.0 * two_cables(PAPER_SIZE) / clocks;
        let quantity = format!("full gigabit cables on a link, {PAPER_SIZE}-byte frames, {what}");
        findings.rows.push({
            let lost = lost(PAPER_SIZE, clocks);
            Row::new(quantity, "cables", cables)
                .note(format!("two fit from 2.0 on; loses {lost:.2} %"))
        });
    }
    findings.remarks = vec![
        effort.remark(),
        "a frame leaves its 4 bytes of checksum and 20 of preamble and gap at the MAC, which is 12 \
         clocks of two cables: just what the 12 idle clocks take. Compensation (6 of 5000) comes \
         on top, and so do the delimiters of Aurora's framing (2 clocks, which the paper does not \
         name): two full cables never fit, whatever the frame's size"
            .into(),
    ];
    findings.charts.push(Chart::lines(
        "Two full gigabit cables on one serial link",
        Axis::log("frame, FCS included (bytes)"),
        Axis::linear("lost (%)"),
        vec![
            Line::paper("", vec![(PAPER_SIZE as f64, SET2_C.paper_loss)]),
            Line::ours("through both boards", boards_lost),
            Line::ours("formula", formula_lost),
        ],
    ));
    findings.charts.push(Chart::lines(
        "Goodput of a serial link that is never idle",
        Axis::log("frame, FCS included (bytes)"),
        Axis::linear("frames' bits (Gbit/s)"),
        vec![Line::ours("lane, simulated", goodputs)],
    ));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::aurora::tiny;
    use super::*;

    #[test]
    fn without_delimiters_the_link_loses_0_12_per_cent_and_padding_has_a_row_too() {
        let findings = tiny(find);
        for (what, lost) in [("without frame delimiters", 0.12), ("padded to 64 bits", 0.56)] {
            let quantity = format!("full gigabit cables on a link, 1346-byte frames, {what}");
            let row = findings.row(&quantity);
            assert!(row.note.ends_with(&format!("loses {lost:.2} %")), "{}", row.note);
            let found = (1.0 - row.ours / 2.0) * 100.0;
            assert!((found - lost).abs() < 0.005, "{what}: {found}");
        }
        // What the text states is counted with the delimiters, and the page says so.
        assert!(findings.remarks.iter().any(|r| r.contains("the delimiters of Aurora's framing")));
    }

    #[test]
    fn a_lane_carries_what_the_formula_says_and_never_two_full_cables() {
        for size in SIZES {
            let clocks = measured(Link::STATED, size - FCS, 20_000);
            let formula = Link::STATED.mean_clocks(size - FCS);
            assert!((clocks / formula - 1.0).abs() < 1e-4, "{size}: {clocks} {formula}");
            assert!(lost(size, clocks) > 0.3, "{size}");
        }
        let bare = Link { idle_clocks: 0, ..Link::STATED };
        assert_eq!(lost(PAPER_SIZE, measured(bare, PAPER_SIZE - FCS, 20_000)), 0.0);
    }
}
