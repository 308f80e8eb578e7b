//! `plexus gen`: sends test packets through a device until told to stop.

mod live;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plexus_config::{Backend, units};
use plexus_io::spec::Opened;
use plexus_io::{Link, Pool};
use plexus_report::{PacketProgress, json, si};
use plexus_traffic::drive::{self, Told, now};
use plexus_traffic::via::{self, Use, Via};
use plexus_traffic::{
    Choice, Encapsulation, FCS, FlowSpec, Generator, GeneratorConfig, Pattern, Rate, Sent, Sizes,
    parse_destinations,
};
use plexus_wire::{MacAddr, Time};
use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Send test traffic.
#[derive(clap::Args)]
#[command(after_help = "\
Example: a million smallest frames per second, from 1,000 flows:
  plexus gen eth1 --rate 1Mpps --size 64 --flows 1000 --duration 5s

With --backend xdp_live the kernel itself sends: an XDP program makes the frames and redirects them
to the device. It
  - needs root (CAP_BPF, CAP_NET_ADMIN) and Linux 5.18;
  - keeps a processor busy at every rate;
  - sends frames of 3,004 bytes at most, and no Poisson pattern; flows and sizes must repeat within
    262,144 packets, and random ones repeat after some 65,536;
  - needs a driver that takes redirected frames. Of a virtual cable (veth), the far end must have an
    XDP program (as AF_XDP ports and `plexus meter --backend xdp` do) or GRO turned on;
  - does not wait for room: what the far end of a virtual cable cannot take is lost there, and told
    as rejected.")]
pub(crate) struct Args {
    /// Network device to send through.
    device: String,
    /// How to send: auto, af_xdp, af_packet, tap, pcap for a capture file of that name, or
    /// xdp_live, the fastest (see below). "auto" takes AF_XDP where it works, else a packet socket,
    /// and says so.
    #[arg(long, default_value = "auto", value_parser = via::parse_gen)]
    backend: Via,
    /// Packets/s (1Mpps), bits/s as on a cable (100Mbit), of frames alone (l2:100Mbit), or "max".
    #[arg(long, default_value = "max")]
    rate: Rate,
    /// Frame size with FCS (64, 1518), range (64-1518), "imix" (64, 594, 1518 bytes as 7:4:1), or
    /// UDP payload (udp:1470; 1470 alone means that).
    #[arg(long, default_value = "64")]
    size: Sizes,
    /// How many flows; by default one, or one per line of the destination file.
    #[arg(long)]
    flows: Option<u32>,
    /// Which flow sends next: round-robin, uniform, or zipf:EXPONENT.
    #[arg(long, default_value = "round-robin")]
    choice: Choice,
    /// How departures are spread: constant, poisson, or burst:PACKETS/PERIOD (burst:32/1ms).
    #[arg(long, default_value = "constant")]
    pattern: Pattern,
    /// Probes right behind the Ethernet header (EtherType 0x88B6), without IP and UDP.
    #[arg(long)]
    ethernet: bool,
    /// First source station.
    #[arg(long, default_value = "02:00:00:00:00:01")]
    src_mac: MacAddr,
    /// How many source stations, counted up from the first.
    #[arg(long, default_value_t = 1)]
    src_macs: u32,
    /// First destination station.
    #[arg(long, default_value = "02:00:00:00:01:01")]
    dst_mac: MacAddr,
    /// How many destination stations, counted up from the first.
    #[arg(long, default_value_t = 1)]
    dst_macs: u32,
    /// Source address; by default one of the benchmarking networks.
    #[arg(long)]
    src_ip: Option<IpAddr>,
    /// Destination address.
    #[arg(long, default_value = "198.19.0.1")]
    dst_ip: IpAddr,
    /// UDP destination port.
    #[arg(long, default_value_t = plexus_traffic::PROBE_UDP_PORT)]
    dst_port: u16,
    /// File of destinations, one MAC or IP address or prefix per line, taken in turn by the flows.
    #[arg(long, value_name = "FILE")]
    destinations: Option<std::path::PathBuf>,
    /// Stop after so many packets.
    #[arg(long)]
    count: Option<u64>,
    /// Stop after this time (5s, 500ms).
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// The seed of everything random: the same seed gives the same run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// A duration as people write it, for clap.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(|e| e.to_string())
}

/// A flag that Ctrl-C and SIGTERM raise. The results so far are then printed.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::unusable)?;
    }
    Ok(stop)
}

/// A device as a port, and a pool for it; says which back-end `auto` has taken.
pub(crate) fn open(
    device: &str,
    backend: Backend,
    frame: usize,
    what_for: Use,
) -> Result<(Pool, Opened), Failure> {
    let (pool, opened) = via::open(device, backend, frame, what_for).map_err(Failure::unusable)?;
    if backend == Backend::Auto {
        eprintln!("plexus: {device} by {}: {}", opened.backend, opened.how);
    }
    Ok((pool, opened))
}

impl Args {
    fn config(&self) -> Result<GeneratorConfig, Failure> {
        let destinations = match &self.destinations {
            None => Vec::new(),
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path)
                    .map_err(|e| Failure::unusable(format!("cannot read {name}: {e}")))?;
                parse_destinations(&name, &text).map_err(Failure::unusable)?
            }
        };
        let count = self.flows.unwrap_or(u32::try_from(destinations.len().max(1)).unwrap_or(1));
        let flows = FlowSpec {
            count,
            encapsulation: match self.ethernet {
                true => Encapsulation::Ethernet,
                false => Encapsulation::Udp,
            },
            source_mac: self.src_mac,
            source_macs: self.src_macs,
            destination_mac: self.dst_mac,
            destination_macs: self.dst_macs,
            source_ip: self.src_ip,
            destination_ip: self.dst_ip,
            destination_port: self.dst_port,
            checksum: true,
            destinations,
            seed: self.seed,
        };
        Ok(GeneratorConfig {
            flows,
            choice: self.choice,
            sizes: self.size,
            rate: self.rate,
            pattern: self.pattern,
            count: self.count,
            seed: self.seed,
        })
    }
}

/// What `gen --json` prints.
#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    backend: &'a str,
    seed: u64,
    flows: u32,
    size: String,
    seconds: f64,
    #[serde(flatten)]
    sent: Sent,
    rejected: u64,
    packets_per_s: f64,
    bits_per_s: f64,
}

impl<'a> Report<'a> {
    fn new(
        args: &'a Args,
        config: &GeneratorConfig,
        backend: &'a str,
        sent: Sent,
        rejected: u64,
        elapsed: Duration,
    ) -> Report<'a> {
        let seconds = elapsed.as_secs_f64();
        let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        Report {
            device: &args.device,
            backend,
            seed: args.seed,
            flows: config.flows.count,
            size: args.size.to_string(),
            seconds,
            sent,
            rejected,
            packets_per_s: rate(sent.packets),
            bits_per_s: rate(sent.bytes * 8),
        }
    }
}

/// Runs `plexus gen`.
pub(crate) fn run(args: &Args) -> Outcome {
    let config = args.config()?;
    // Mistakes in the flows are reported before a device is touched.
    Generator::new(&config, Time::ZERO).map_err(Failure::unusable)?;
    let stop = stop_flag()?;
    let backend = match args.backend {
        Via::Kernel => return live::run(args, &config, &stop),
        Via::Port(backend) => backend,
    };
    let longest = args.size.max().max(1518);
    let (mut pool, opened) = open(&args.device, backend, longest, Use::Send)?;
    let (mut port, backend) = (opened.port, opened.backend.to_string());
    let longest = port.capabilities().max_frame + FCS;
    if args.size.max() > longest {
        let size = args.size.max();
        port.close(&mut pool);
        return Err(Failure::unusable(format!(
            "{} sends frames of {longest} bytes at most, {size} are asked for: raise its MTU or \
             choose a smaller --size",
            args.device
        )));
    }
    let begin = now();
    let mut generator = Generator::new(&config, begin).map_err(Failure::unusable)?;
    let end = args.duration.map_or(Time::FOREVER, |d| begin + d);
    let mut progress = PacketProgress::new(begin, Duration::from_secs(1));
    let mut tell = |at, told| match told {
        Told::Link(Link::Up) => eprintln!("plexus: {} is up", args.device),
        Told::Link(_) => eprintln!("plexus: {} is down: waiting for it", args.device),
        Told::Passed { packets, bytes } => progress.show(at, "sent", packets, bytes),
    };
    let last = drive::send(&mut generator, &mut pool, &mut *port, end, &stop, &mut tell);
    progress.end();
    generator.stop(&mut pool);
    let stats = port.stats();
    drive::flush(&mut pool, &mut *port);
    port.close(&mut pool);
    let sent = generator.sent();
    let elapsed = last.since(begin);
    let report = Report::new(args, &config, &backend, sent, stats.tx_rejected, elapsed);
    print(&if args.json { json(&report)? } else { text(&report) })
}

/// The result for people.
fn text(report: &Report<'_>) -> String {
    let Report { sent, seconds, .. } = report;
    let mut text = format!(
        "sent       {} packets in {seconds:.3} s by {}\n\
         rate       {}packets/s\n           {}bit/s of frames with FCS\n",
        sent.packets,
        report.backend,
        si(report.packets_per_s),
        si(report.bits_per_s)
    );
    if sent.late > 0 {
        let ms = sent.lag_ns_max as f64 / 1e6;
        text += &format!(
            "behind     {} packets left over 100 us late, the latest {ms:.3} ms\n",
            sent.late
        );
    }
    if report.rejected > 0 {
        text += &format!(
            "rejected   {} packets that the device had no room for or cannot send\n",
            report.rejected
        );
    }
    text
}
