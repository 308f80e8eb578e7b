//! `plexus trace`: the frames that pass a port of a running node, one packet across several, or
//! why a packet goes where it goes.

mod across;
mod explain;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use plexus_api::answer::Frame;
use plexus_api::{Request, Trace};
use plexus_io::pcap::{Direction, LinkType, Writer};
use plexus_view::Follow;
use plexus_wire::unhex;

use crate::ask::Which;
use crate::exit::{Failure, Outcome};
use crate::generate::parse_duration;

/// More bytes than any frame has: a node may lie.
const LEN_MAX: usize = 1 << 17;

/// Show the frames that pass a port of a running node, follow packets across several nodes, or
/// explain what becomes of a packet.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  plexus trace p1
  plexus trace p1 --count 100 --write p1.pcapng
  plexus trace p1 --filter 10.0.0.1
  plexus trace p1 --sample 1000
  plexus trace --across router-two-stage --filter 'ICMP echo request'
  plexus trace --across n1,n2 --count 10 --json
  plexus trace --explain --node c1 --from 10.0.0.1 --to 10.0.0.2 --tcp 80
  plexus trace --explain --node ring/c1 --from h1 --to h3
  plexus trace --explain p1 --node n1 --from 02:00:00:00:00:01 --to 02:00:00:00:00:02 --vlan 10

One line per frame. The filter is a word that the line must contain: an address, a protocol.

While a port is traced, its flows leave the kernel's fast table, so that every frame is seen, at the
speed of a box without that table. With --sample N they stay there. Of their packets that come in by
the port about one in N is shown, chosen at random, with the word `sample` in its line. So the trace
shows only a part of what passes: packets that leave by the port and come in by others are not among
the samples. Frames that the kernel leaves to the node are all shown, without that word. A sample is
the beginning of a packet: at most 128 bytes and its VLAN tag, as they came in; zeroes stand for the
rest. A super-packet, which the device would cut into many, counts as one. It needs a fast table of
tcx, and a port that `plexus show fast-table` says forwards. There are some 1,280 samples a second
from a port, and 128 at once, so that they leave room in its socket's buffer even with --sample 1;
lines tell how many were missed.

With --across, IP packets are followed through all of these nodes: for each box the ports by which a
packet comes in and leaves, its time to live, and how long it stays. A box changes neither addresses
nor contents, so it is known again behind the fabric's header and behind a router. A super-packet
that a box cuts is not, nor is a packet whose addresses a NAT changes.

With --explain, a controller follows a packet that is only described from node to node. Each says
what it would do with it, and why. A node explains a frame at one of its ports. Nothing is sent,
learned or counted. Limits of rates and full queues depend on other packets, and are not known. The
exit code is 0 if the packet arrives at a host, or leaves the node, and otherwise 1.

tcpdump and Wireshark on the device itself see nothing of a port by AF_XDP (`plexus show ports` says
which are): its frames bypass the kernel. A live capture in Wireshark:
  mkfifo /tmp/p1 && wireshark -k -i /tmp/p1 & plexus trace p1 --write /tmp/p1")]
pub(crate) struct Args {
    /// The port, by its name.
    #[arg(required_unless_present_any = ["across", "explain"])]
    port: Option<String>,
    /// Follow packets across these nodes: NAME or LAB/NAME, or a lab for all of its nodes. They
    /// have to run on this machine.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["port", "node", "control", "write", "explain"])]
    across: Vec<String>,
    /// Explain what becomes of a packet that is described, and does not exist.
    #[arg(long, conflicts_with_all = ["filter", "write", "count"])]
    explain: bool,
    #[command(flatten)]
    packet: explain::Packet,
    /// Give up when no packet that fits has passed for so long.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    #[arg(requires = "across")]
    wait: Duration,
    /// With --across or --explain: one line of JSON for each packet.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
    /// Only frames, or packets, whose line contains this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Leave flows in the kernel's fast table, and show about one in N of their packets that come
    /// in by the port.
    #[arg(long, value_name = "N", conflicts_with_all = ["across", "explain"])]
    sample: Option<NonZeroU32>,
    /// Write the frames to this file too, as pcapng.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Stop after so many frames; with --across after so many packets, usually one.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

pub(crate) fn run(args: Args) -> Outcome {
    if !args.across.is_empty() {
        let what = Follow {
            filter: args.filter.as_deref(),
            count: args.count.unwrap_or(1),
            wait: args.wait,
        };
        return across::run(&args.across, &what, args.json);
    }
    if args.explain {
        return explain::run(&args.packet, args.port.as_deref(), &args.which, args.json);
    }
    if args.json {
        let why = "--json is for --across and --explain: frames are written by --write";
        return Err(Failure::unusable(why));
    }
    let port = args.port.unwrap_or_default();
    let mut client = args.which.connect()?;
    let mut writer = match &args.write {
        Some(path) => {
            let problem = |e| Failure::unusable(format!("{}: {e}", path.display()));
            let file = BufWriter::new(File::create(path).map_err(problem)?);
            Some(Writer::new(file, LinkType::Ethernet, &port).map_err(problem)?)
        }
        None => None,
    };
    let mut out = std::io::stdout().lock();
    let mut seen = 0;
    let mut next = client.ask(&Request::Trace(Trace { port, sample: args.sample }));
    while args.count.is_none_or(|count| seen < count) {
        let answer = next.map_err(Failure::unusable)?;
        // A line without a frame says that the node is still there.
        if let Ok(at) = serde_json::from_value::<Frame>(answer)
            && let Some(frame) = unhex(&at.frame)
        {
            let line = line(&at, &frame);
            if args.filter.as_ref().is_none_or(|word| line.contains(word.as_str())) {
                seen += 1;
                if writeln!(out, "{line}").is_err() {
                    return Ok(());
                }
                if let Some(writer) = &mut writer {
                    let way = if at.out { Direction::Out } else { Direction::In };
                    // Flushed, since a trace usually ends by an interrupt.
                    let len = length(&at, &frame);
                    let written = writer.cut_packet(at.now_ns, way, &frame, len);
                    let written = written.and_then(|()| writer.flush());
                    written.map_err(|e| Failure::unusable(format!("writing the trace: {e}")))?;
                }
            }
        }
        if args.count == Some(seen) {
            break;
        }
        next = client.next_answer();
    }
    Ok(())
}

fn line(at: &Frame, frame: &[u8]) -> String {
    let way = if at.out { "out" } else { "in " };
    let missed = match at.missed {
        0 => String::new(),
        n => format!(" ({n} frames missed before this one)"),
    };
    let (s, us) = (at.now_ns / 1_000_000_000, at.now_ns / 1000 % 1_000_000);
    if !at.sample {
        return format!("{s}.{us:06} {way} {}{missed}", plexus_wire::describe(frame));
    }
    // Lengths in its headers are those of the whole packet.
    let mut whole = frame.to_vec();
    whole.resize(length(at, frame), 0);
    format!("{s}.{us:06} {way} sample {}{missed}", plexus_wire::describe(&whole))
}

/// The bytes of a frame, of which a sample has the first ones.
fn length(at: &Frame, frame: &[u8]) -> usize {
    at.len.min(LEN_MAX).max(frame.len())
}
