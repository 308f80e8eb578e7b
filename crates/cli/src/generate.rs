//! `plexus gen`: sends test packets through a device until told to stop.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plexus_config::units;
use plexus_report::{PacketProgress, json, packets};
use plexus_traffic::live::{Event, send};
use plexus_traffic::via::{self, Via};
use plexus_traffic::{
    Choice, Encapsulation, FlowSpec, GeneratorConfig, Pattern, Rate, Sizes, parse_destinations,
};
use plexus_wire::MacAddr;

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

/// Why a command fails whose device has gone meanwhile.
pub(crate) fn gone(device: &str) -> Failure {
    Failure::No(format!("{device} is gone: it was removed, renamed, or moved to another namespace"))
}

/// Runs `plexus gen`.
pub(crate) fn run(args: &Args) -> Outcome {
    let config = args.config()?;
    let stop = stop_flag()?;
    let device = &args.device;
    let mut progress = PacketProgress::new(Duration::from_secs(1));
    let mut tell = |event| match event {
        Event::Note(text) => eprintln!("plexus: {device} {text}"),
        Event::Passed { at, packets, bytes } => progress.show(at, "sent", packets, bytes),
    };
    let sent = send(device, args.backend, &config, args.duration, &stop, &mut tell);
    progress.end();
    let sent = sent.map_err(Failure::unusable)?;
    print(&if args.json { json(&sent)? } else { packets::sending(&sent) })?;
    if sent.is_device_gone {
        return Err(gone(device));
    }
    if sent.is_vanished {
        return Err(Failure::No(format!(
            "{device} counts none of them as sent: it must be up; of a virtual cable (veth), the \
             far end needs an XDP program or GRO turned on (`ethtool -K DEVICE gro off; ethtool -K \
             DEVICE gro on`); another device's driver must take redirected frames"
        )));
    }
    Ok(())
}
