//! `plexus gen`: sends test packets through a device until told to stop.

mod live;
pub(crate) mod via;

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plexus_config::units;
use plexus_io::{Batch, Link, Pool, Port};
use plexus_report::{json, si};
use plexus_traffic::{
    Choice, Encapsulation, FCS, FlowSpec, Generator, GeneratorConfig, Pattern, Rate, Sent, Sizes,
    idle_until, parse_destinations,
};
use plexus_wire::{MacAddr, Time};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use self::via::{Use, Via};
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
    #[arg(long, default_value = "max", value_parser = parse_rate)]
    rate: Rate,
    /// Frame size with FCS (64, 1518), range (64-1518), "imix" (64, 594, 1518 bytes as 7:4:1), or
    /// UDP payload (udp:1470; 1470 alone means that).
    #[arg(long, default_value = "64")]
    size: Sizes,
    /// How many flows; by default one, or one per line of the destination file.
    #[arg(long)]
    flows: Option<u32>,
    /// Which flow sends next: round-robin, uniform, or zipf:EXPONENT.
    #[arg(long, default_value = "round-robin", value_parser = parse_choice)]
    choice: Choice,
    /// How departures are spread: constant, poisson, or burst:PACKETS/PERIOD (burst:32/1ms).
    #[arg(long, default_value = "constant", value_parser = parse_pattern)]
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

fn parse_rate(text: &str) -> Result<Rate, String> {
    let explain = |e: plexus_config::ValueError| e.to_string();
    if text == "max" {
        Ok(Rate::Max)
    } else if let Some(bits) = text.strip_prefix("l2:") {
        units::parse_rate(bits).map(Rate::Layer2).map_err(explain)
    } else if text.contains("bit") {
        units::parse_rate(text).map(Rate::Layer1).map_err(explain)
    } else {
        units::parse_packet_rate(text).map(Rate::Packets).map_err(|_| {
            "write packets/s (1Mpps), bits/s as on a cable (100Mbit), bits/s of frames \
             (l2:100Mbit), or max"
                .into()
        })
    }
}

fn parse_choice(text: &str) -> Result<Choice, String> {
    match (text, text.strip_prefix("zipf:").map(str::parse::<f64>)) {
        ("round-robin", _) => Ok(Choice::RoundRobin),
        ("uniform", _) => Ok(Choice::Zipf(0.0)),
        (_, Some(Ok(s))) if (0.0..=10.0).contains(&s) => Ok(Choice::Zipf(s)),
        _ => Err("write round-robin, uniform or zipf:EXPONENT, 0 to 10, as in zipf:1.1".into()),
    }
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    let help = || "write constant, poisson or burst:PACKETS/PERIOD, as in burst:32/1ms".to_string();
    match text {
        "constant" => Ok(Pattern::Constant),
        "poisson" => Ok(Pattern::Poisson),
        _ => {
            let burst = text.strip_prefix("burst:").ok_or_else(help)?;
            let (packets, every) = burst.split_once('/').ok_or_else(help)?;
            let packets = packets.parse().ok().filter(|&n: &u32| n > 0).ok_or_else(help)?;
            let every = units::parse_duration(every).map_err(|e| e.to_string())?;
            Ok(Pattern::Burst { packets, every })
        }
    }
}

/// A duration as people write it, for clap.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(|e| e.to_string())
}

/// Now, by the clock that all namespaces of a machine share.
pub(crate) fn now() -> Time {
    let t = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// A flag that Ctrl-C and SIGTERM raise. The results so far are then printed.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::unusable)?;
    }
    Ok(stop)
}

/// Progress on standard error: one line rewritten on a terminal, lines of their own elsewhere.
pub(crate) struct Progress {
    terminal: bool,
    /// When the next line is due, and how often.
    next: Time,
    every: Duration,
    last: (Time, u64, u64),
}

impl Progress {
    /// Lines every `every` from `now` on.
    pub(crate) fn new(now: Time, every: Duration) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { terminal, next: now + every, every, last: (now, 0, 0) }
    }

    /// Prints a line if it is due, with the rates since the last one.
    pub(crate) fn show(&mut self, now: Time, what: &str, packets: u64, bytes: u64) {
        if now < self.next {
            return;
        }
        let seconds = now.since(self.last.0).as_secs_f64();
        let pps = (packets - self.last.1) as f64 / seconds;
        let bps = (bytes - self.last.2) as f64 * 8.0 / seconds;
        let line = format!("{what} {packets}  {}/s  {}bit/s", si(pps), si(bps));
        if self.terminal {
            eprint!("\r\x1b[K{line}");
        } else {
            eprintln!("{line}");
        }
        let _ = std::io::stderr().flush();
        self.last = (now, packets, bytes);
        self.next = now + self.every;
    }

    /// Clears the line on a terminal.
    pub(crate) fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
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
    let (mut pool, opened) = via::open(&args.device, backend, longest, Use::Send)?;
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
    let last = send(&mut generator, &mut pool, &mut *port, end, &stop);
    generator.stop(&mut pool);
    let stats = port.stats();
    flush(&mut pool, &mut *port);
    port.close(&mut pool);
    let sent = generator.sent();
    let elapsed = last.since(begin);
    let report = Report::new(args, &config, &backend, sent, stats.tx_rejected, elapsed);
    print(&if args.json { json(&report)? } else { text(&report) })
}

/// Sends until the end, the count or the flag; returns when it stopped.
fn send(
    generator: &mut Generator,
    pool: &mut Pool,
    port: &mut dyn Port,
    end: Time,
    stop: &AtomicBool,
) -> Time {
    let mut at = now();
    let mut progress = Progress::new(at, Duration::from_secs(1));
    let mut maintain = at;
    let mut link = Link::Up;
    loop {
        generator.turn(at, pool, port);
        if generator.is_done() || at >= end || stop.load(Ordering::Relaxed) {
            progress.end();
            return at;
        }
        if at >= maintain {
            let state = port.maintain(at, pool);
            if state != link {
                eprintln!(
                    "plexus: {} is {}",
                    port.name(),
                    if state == Link::Up { "up" } else { "down: waiting for it" }
                );
                link = state;
            }
            maintain = at + Duration::from_millis(100);
            progress.show(at, "sent", generator.sent().packets, generator.sent().bytes);
        }
        let due = generator.next_departure().min(end);
        if let Some(idle) = idle_until(due, at) {
            // A full ring may still be on its way out.
            port.transmit(at, pool, &mut Batch::new());
            std::thread::sleep(idle.min(Duration::from_millis(50)));
        }
        at = now();
    }
}

/// Waits until the device has sent what it took. A device that is stuck is waited for in vain,
/// for a bounded time.
fn flush(pool: &mut Pool, port: &mut dyn Port) {
    let begin = now();
    let mut held = pool.available();
    let mut changed = begin;
    loop {
        let at = now();
        port.transmit(at, pool, &mut Batch::new());
        let available = pool.available();
        if available != held {
            (held, changed) = (available, at);
        }
        if at.since(changed) > Duration::from_millis(5) || at.since(begin).as_secs() >= 1 {
            return;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_patterns_and_choices_read_as_people_write_them() {
        assert_eq!(parse_rate("max"), Ok(Rate::Max));
        assert_eq!(parse_rate("1Mpps"), Ok(Rate::Packets(1_000_000)));
        assert_eq!(parse_rate("100Mbit"), Ok(Rate::Layer1(100_000_000)));
        assert_eq!(parse_rate("l2:1Gbit"), Ok(Rate::Layer2(1_000_000_000)));
        assert!(parse_rate("fast").is_err());
        let every = Duration::from_millis(1);
        assert_eq!(parse_pattern("burst:32/1ms"), Ok(Pattern::Burst { packets: 32, every }));
        for bad in ["burst", "burst:0/1ms", "burst:5/1", "sometimes"] {
            assert!(parse_pattern(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_choice("zipf:1.1"), Ok(Choice::Zipf(1.1)));
        assert!(parse_choice("zipf:NaN").is_err());
    }
}
