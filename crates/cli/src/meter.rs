//! `plexus meter`: receives test packets from a device and tells how they fared.

use std::time::Duration;

use plexus_report::{PacketProgress, json, packets};
use plexus_traffic::drive::Until;
use plexus_traffic::live::{Event, receive};
use plexus_traffic::via::{self, Via};
use plexus_traffic::{MeterConfig, Start};

use crate::exit::{Failure, Outcome};
use crate::generate::{gone, parse_duration, stop_flag};
use crate::text::print;

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

/// Runs `plexus meter`.
pub(crate) fn run(args: &Args) -> Outcome {
    let stop = stop_flag()?;
    let start = if args.from_start { Start::Zero } else { Start::Seen };
    let config = MeterConfig { udp_port: args.port, start, ..MeterConfig::default() };
    let Args { device, duration, count, idle, .. } = args;
    let until = Until { duration: *duration, count: *count, idle: *idle, is_file: false };
    let mut progress = PacketProgress::new(args.interval.max(Duration::from_millis(10)));
    let mut tell = |event| match event {
        Event::Note(text) => eprintln!("plexus: {device} {text}"),
        Event::Passed { at, packets, bytes } => progress.show(at, "received", packets, bytes),
    };
    let received = receive(device, args.backend, config, args.max_frame, until, &stop, &mut tell);
    progress.end();
    let received = received.map_err(Failure::unusable)?;
    print(&if args.json { json(&received)? } else { packets::metering(&received) })?;
    if received.is_device_gone {
        return Err(gone(device));
    }
    // That nothing arrived is an answer, too.
    if received.total.received == 0 {
        return Err(Failure::No(format!("no probe arrived at {device}")));
    }
    Ok(())
}
