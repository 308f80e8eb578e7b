//! `ndn-batch`: what batches do for a router with a cache on a disk (seed augustus, "Main design
//! challenges"): packets that come and go so many at a time, and chunks that are read from the disk
//! with the others of their batch.
//!
//! The forwarder runs in this process, without sockets: flows hand it Interests and take Data; the
//! disk is a file, read directly.

mod rig;

use std::fmt::Write as _;
use std::time::Duration;

use plexus_report::Failure;

use super::Setting;
use super::ndn_rig::{device, device_text};
use super::plot::{Axis, Chart, Line};
use super::report::{Findings, Row};
use super::rig::Scratch;
use rig::{CONTENT, FLOWS, Outcome, READS, Rig, SEED};

const FULL: Effort = Effort {
    items: 64,
    batches: &[1, 2, 4, 8, 16, 32, 64],
    warm_up: Duration::from_millis(700),
    time: Duration::from_secs(4),
};
const QUICK: Effort = Effort {
    items: 8,
    batches: &[1, 16, 64],
    warm_up: Duration::from_millis(50),
    time: Duration::from_millis(150),
};
/// The slides' choice.
const CHOSEN: usize = 16;

/// How long, and how large.
struct Effort {
    items: u64,
    batches: &'static [usize],
    warm_up: Duration,
    time: Duration,
}

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let effort = if setting.quick { QUICK } else { FULL };
    let scratch = Scratch::new("ndn-batch").map_err(Failure::unusable)?;
    let file = scratch.join("disk");
    setting.progress.say("filling the disk");
    let mut rig = Rig::fill(&file, effort.items).map_err(Failure::unusable)?;
    let mut findings = Findings::new(
        SEED,
        "prefetch,batch,data_per_s,memory_hits,disk_hits,misses,joined,reads,reads_ahead,\
         reads_ahead_used,latency_us_p50,latency_us_p99,latency_us_mean,device_reads,\
         device_read_bytes,device_busy_ms\n",
    );
    let mut lines: [Vec<Line>; 2] = Default::default();
    for prefetch in [false, true] {
        let name = if prefetch { "with prefetch" } else { "without prefetch" };
        let mut points: [Vec<(f64, f64)>; 3] = Default::default();
        for &batch in effort.batches {
            setting.progress.say(&format!("batches of {batch} {name}"));
            rig.run(batch, prefetch, effort.warm_up, SEED + 1).map_err(Failure::unusable)?;
            let before = device(&file);
            let outcome = rig.run(batch, prefetch, effort.time, SEED).map_err(Failure::unusable)?;
            let after = device(&file);
            let done = before.zip(after).map(|(b, a)| a.since(&b)).unwrap_or_default();
            let Outcome { data, counted, reads, ahead, used, latency_us, .. } = &outcome;
            let [p50, p99, mean] = *latency_us;
            let per_s = *data as f64 / outcome.seconds;
            // Flows that asked for what another one had asked for already.
            let joined = data.saturating_sub(counted.total());
            let _ = writeln!(
                findings.runs,
                "{prefetch},{batch},{per_s:.0},{},{},{},{joined},{reads},{ahead},{used},{p50:.1},\
                 {p99:.1},{mean:.1},{},{},{}",
                counted.memory_hits,
                counted.disk_hits,
                counted.misses,
                done.reads,
                done.read_bytes,
                done.busy_ms
            );
            let part = |n: u64| n as f64 / (*data).max(1) as f64 * 100.0;
            let title = format!("batches of {batch} {name}");
            let chosen = if batch == CHOSEN { "the slides' choice; " } else { "" };
            findings.rows.extend([
                Row::new(format!("{title}: content"), "Mbit/s", per_s * CONTENT as f64 * 8.0 / 1e6)
                    .note(format!(
                        "{chosen}DRAM {:.1} %, SSD {:.1} %, with another flow {:.1} %; {reads} \
                         reads, {ahead} of them ahead, {used} of these used; {}",
                        part(counted.memory_hits),
                        part(counted.disk_hits),
                        part(joined),
                        device_text(before, after)
                    )),
                Row::new(format!("{title}: latency, mean"), "us", mean)
                    .note(format!("p50 {p50:.0}, p99 {p99:.0}")),
            ]);
            if counted.misses > 0 || counted.total() > *data {
                findings.doubts.push(format!(
                    "{title}: {data} Data, {} looked up, {} of them missed",
                    counted.total(),
                    counted.misses
                ));
            }
            let x = batch as f64;
            let values = [per_s * CONTENT as f64 * 8.0 / 1e6, p50, p99];
            points.iter_mut().zip(values).for_each(|(line, y)| line.push((x, y)));
        }
        let [rate, p50, p99] = points;
        lines[0].push(Line::ours(name, rate));
        lines[1].push(Line::ours(format!("p50 {name}"), p50));
        lines[1].push(Line::ours(format!("p99 {name}"), p99));
    }
    let [rates, latencies] = lines;
    for (what, y, series) in [
        ("Content", Axis::linear("Mbit/s"), rates),
        ("Latency", Axis::log("latency (us)"), latencies),
    ] {
        let title = format!("{what} out of two caches, by the size of a batch");
        findings.charts.push(Chart::lines(title, Axis::log("packets in a batch"), y, series));
    }
    findings.remarks.push(format!(
        "{FLOWS} flows ask for an item's chunks one after the other, items by Zipf 0.8: {} items \
         of 1,250 chunks on the disk, a tenth of that in memory; an Interest waits until a batch \
         is full, so that latency begins when its flow could ask",
        effort.items
    ));
    findings.remarks.push(
        "with prefetch, the store reads as that of a node does by [named] prefetch: both set it by \
         one call, and Interests ask it by one path"
            .into(),
    );
    findings.remarks.push(format!(
        "{}; up to {READS} reads under way, half of them at most ahead",
        rig.engine()
    ));
    Ok(findings)
}
