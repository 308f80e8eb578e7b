//! `plexus meter`: receives test packets from a device and tells how they fared.

mod xdp;

use std::time::Duration;

use plexus_config::Backend;
use plexus_report::{PacketProgress, json, si};
use plexus_traffic::drive::{self, Told, Until, now};
use plexus_traffic::via::{self, Use, Via};
use plexus_traffic::{Arrived, FlowStats, Latency, Meter, MeterConfig, Start, Summary};
use plexus_wire::Time;
use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::generate::{open, parse_duration, stop_flag};
use crate::text::print;

/// How many flows are listed in a report.
const LISTED: usize = 1_000;

/// Receive test traffic. Latencies compare the clocks of sender and meter, so both must be on one
/// machine (its namespaces share a clock). A capture file has no useful latencies.
#[derive(clap::Args)]
#[command(after_help = "\
Example: ten seconds of what `plexus gen` sends, as JSON:
  plexus meter eth2 --duration 10s --json

With --backend xdp a program in the kernel counts and drops the probes; other frames go on to the
stack. It needs root (CAP_BPF, CAP_NET_ADMIN), tells 65,536 flows apart (further ones are counted
only), keeps latencies for all flows together, and remembers some 1,000 packets of each flow to tell
late ones from duplicates. --max-frame means nothing to it.")]
pub(crate) struct Args {
    /// Network device to receive from.
    device: String,
    /// How to receive: auto, af_xdp, af_packet, tap, pcap for a capture file of that name, or xdp,
    /// the fastest (see below). "auto" takes AF_XDP where it works, else a packet socket, and says
    /// so.
    #[arg(long, default_value = "auto", value_parser = via::parse_meter)]
    backend: Via,
    /// Stop after this time (10s); otherwise at Ctrl-C.
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Stop after so many probes.
    #[arg(long)]
    count: Option<u64>,
    /// Stop when no probe has come for so long after the last one.
    #[arg(long, value_parser = parse_duration)]
    idle: Option<Duration>,
    /// Time between progress lines.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    interval: Duration,
    /// The meter runs before the sender starts: packets that are missing at the beginning are lost.
    #[arg(long)]
    from_start: bool,
    /// UDP port that probes come to.
    #[arg(long, default_value_t = plexus_traffic::PROBE_UDP_PORT)]
    port: u16,
    /// Longest frame to receive, in bytes.
    #[arg(long, default_value_t = 1518)]
    max_frame: usize,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What `meter --json` prints.
#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    backend: String,
    seconds: f64,
    arrived: Arrived,
    /// Packets that the kernel or the port dropped before the meter saw them. The meter, and not
    /// the network, lost them.
    overflow: u64,
    total: Summary,
    flow_count: usize,
    /// The first thousand.
    flows: Vec<FlowReport>,
}

#[derive(Serialize)]
struct FlowReport {
    flow: u32,
    #[serde(flatten)]
    summary: Summary,
}

impl Args {
    fn until(&self) -> Until {
        Until { duration: self.duration, count: self.count, idle: self.idle, is_file: false }
    }

    fn progress(&self, begin: Time) -> PacketProgress {
        PacketProgress::new(begin, self.interval.max(Duration::from_millis(10)))
    }
}

/// Runs `plexus meter`.
pub(crate) fn run(args: &Args) -> Outcome {
    let stop = stop_flag()?;
    let start = if args.from_start { Start::Zero } else { Start::Seen };
    let config = MeterConfig { udp_port: args.port, start, ..MeterConfig::default() };
    let backend = match args.backend {
        Via::Kernel => return xdp::run(args, &config, &stop),
        Via::Port(backend) => backend,
    };
    let (mut pool, opened) = open(&args.device, backend, args.max_frame, Use::Receive)?;
    let mut port = opened.port;
    let mut meter = Meter::new(config);
    let begin = now();
    let is_file = opened.backend == Backend::Pcap;
    let mut progress = args.progress(begin);
    let mut tell = |at, told| {
        if let Told::Passed { packets, bytes } = told {
            progress.show(at, "received", packets, bytes);
        }
    };
    let until = Until { is_file, ..args.until() };
    drive::receive(&mut meter, &mut pool, &mut *port, until, &stop, &mut tell);
    progress.end();
    let seconds = now().since(begin).as_secs_f64();
    let overflow = port.stats().rx_overflow;
    port.close(&mut pool);
    let flows = |(flow, stats): (u32, &FlowStats)| FlowReport { flow, summary: stats.summary() };
    let report = Report {
        device: &args.device,
        backend: opened.backend.to_string(),
        seconds,
        arrived: meter.arrived(),
        overflow,
        total: meter.total(),
        flow_count: meter.flows().count(),
        flows: meter.flows().take(LISTED).map(flows).collect(),
    };
    finish(args, &report)
}

/// Prints the report; that nothing arrived is an answer, too.
fn finish(args: &Args, report: &Report<'_>) -> Outcome {
    print(&if args.json { json(report)? } else { text(report) })?;
    if report.total.received == 0 {
        return Err(Failure::No(format!("no probe arrived at {}", args.device)));
    }
    Ok(())
}

/// The result for people.
fn text(report: &Report<'_>) -> String {
    let mut lines = Vec::new();
    let total = &report.total;
    lines.push(format!("received   {} packets by {}", total.received, report.backend));
    lines.push(format!("lost       {} ({:.4} %)", total.lost, total.loss * 100.0));
    lines.push(format!("duplicates {}", total.duplicates));
    lines.push(format!("reordered  {}", total.reordered));
    lines.push(format!("rate       {}packets/s", si(total.packets_per_s)));
    lines.push(format!("           {}bit/s of frames with FCS", si(total.bits_per_s)));
    if let Some(l) = &total.latency {
        lines.push(format!("latency    {}", latency(l)));
    }
    for (count, what) in [
        (report.overflow, "packets dropped here, before the meter: the loss is not the network's"),
        (report.arrived.foreign, "frames that were no probes"),
        (total.ancient, "packets too late to tell from duplicates"),
        (total.restarts, "new beginnings of a sender"),
        (total.clock_errors, "packets stamped by another clock"),
    ] {
        if count > 0 {
            lines.push(format!("           {count} {what}"));
        }
    }
    if (2..=16).contains(&report.flow_count) {
        lines.push(format!(
            "{:>10} {:>12} {:>10} {:>14}  latency",
            "flow", "received", "lost", "packets/s"
        ));
        for FlowReport { flow, summary: s } in &report.flows {
            let rate = si(s.packets_per_s);
            let l = s.latency.as_ref().map(latency).unwrap_or_default();
            lines.push(format!("{flow:>10} {:>12} {:>10} {rate:>14}  {l}", s.received, s.lost));
        }
    }
    lines.join("\n") + "\n"
}

fn latency(l: &Latency) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    format!(
        "{:.1} us median, p90 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
        us(l.p50_ns),
        us(l.p90_ns),
        us(l.p99_ns),
        us(l.p999_ns),
        us(l.max_ns)
    )
}
