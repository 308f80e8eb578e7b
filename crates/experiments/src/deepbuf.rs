//! The switch of `traffic-coprocessor.txt` §4, simulated: 16 hosts at 1 Gbit/s, a chip whose queues
//! hold 100 packets, and a processor behind a link of 4 Gbit/s.

use std::fmt::Write as _;
use std::time::Duration;

use plexus_config::{ChipSettings, QueueOrder, QueueSettings, Suspects};
use plexus_lab::RunReport;
use plexus_plane::DeepReport;
use plexus_report::Failure;
use plexus_sim::tcp::{Congestion, EcnUse, TcpConfig};
use plexus_sim::{Connected, Sim};
use plexus_topo::Topology;

use super::simulate;

/// Hosts of the prototype.
pub(super) const HOSTS: usize = 16;
/// Packets that a queue holds, and from which on ECN marks.
const LIMIT: u32 = 100;
const ECN_PACKETS: u32 = 20;
/// A full-size frame, without its checksum.
const FRAME: u32 = 1514;

/// The treatment of bursts at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// It has the chip's queue and nothing else.
    Shallow,
    /// The same, and ECN marks for DCTCP.
    Dctcp,
    /// Bursts are redirected to the processor, as in the paper.
    Chip,
    /// The same, without regard to the order of packets.
    Unordered,
    /// A box that does everything in software.
    Software,
}

impl Buffer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Buffer::Shallow => "TCP without deep buffer",
            Buffer::Dctcp => "DCTCP without deep buffer",
            Buffer::Chip => "TCP with deep buffer",
            Buffer::Unordered => "TCP with deep buffer, order not kept",
            Buffer::Software => "TCP with deep buffer, all in software",
        }
    }

    fn is_deep(self) -> bool {
        matches!(self, Buffer::Chip | Buffer::Unordered | Buffer::Software)
    }
}

/// Settings of a run besides the paper's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) buffer: Buffer,
    /// Bytes after which a flow may be long.
    pub(super) long_after: u64,
    /// Bytes of the deep buffer.
    pub(super) bytes: u64,
    /// The defence against low-rate bursts, if it is on.
    pub(super) detector: Option<plexus_config::Detector>,
}

/// The hosts of the paper's time, as far as it says: a SYN is sent again after 3 s, data after
/// 300 ms at least. The rest is what such hosts had: NewReno with SACK, an initial window of three
/// segments (RFC 3390), no time stamps, and a window of 64 KiB.
pub(super) fn paper_hosts(buffer: Buffer) -> impl Fn(&mut TcpConfig) {
    move |config| {
        *config = TcpConfig {
            congestion: match buffer {
                Buffer::Dctcp => Congestion::Dctcp,
                _ => Congestion::NewReno,
            },
            ecn: if buffer == Buffer::Dctcp { EcnUse::All } else { EcnUse::Off },
            initial_window: 3,
            receive_buffer: 65_535,
            rto_initial: Duration::from_secs(3),
            rto_min: Duration::from_millis(300),
            delayed_ack: Some(Duration::from_millis(40)),
            timestamps: false,
            hystart: false,
            mss: config.mss,
            initial_seq: config.initial_seq,
            ..TcpConfig::default()
        };
    }
}

/// The network: hosts `h0` to `h15` around `tor`. `traffic` is the file's part about flows.
pub(super) fn topology(case: &Case, traffic: &str) -> Result<Topology, String> {
    let mut text = String::from("name = \"deepbuf\"\n[[node]]\nname = \"tor\"\n");
    for host in 0..HOSTS {
        let address = host + 1;
        let _ = write!(
            text,
            "[[host]]\nname = \"h{host}\"\naddress = [\"10.0.0.{address}/24\"]\n\
             [[link]]\nends = [\"h{host}\", \"tor.p{host}\"]\nrate = \"1Gbit\"\ndelay = \"10us\"\n"
        );
    }
    text.push_str(traffic);
    let mut topology = Topology::parse("embedded", &text).map_err(|e| e.to_string())?;
    let node = &mut topology.nodes[0];
    let deep = &mut node.switch.deep_buffer;
    (deep.bytes, deep.long_after) = (case.bytes, case.long_after);
    if let Some(detector) = case.detector {
        (deep.suspects, deep.detector) = (Suspects::Shape, detector);
        deep.rto_min = Duration::from_millis(300);
    }
    deep.chip = (case.buffer != Buffer::Software).then(|| ChipSettings {
        keeps_order: case.buffer != Buffer::Unordered,
        ..ChipSettings::default()
    });
    let queue = QueueSettings {
        order: if case.buffer.is_deep() { QueueOrder::Deep } else { QueueOrder::Fifo },
        packets: LIMIT,
        bytes: u32::MAX,
        ecn_bytes: (case.buffer == Buffer::Dctcp).then_some(ECN_PACKETS * FRAME),
    };
    node.ports.iter_mut().for_each(|port| port.settings.queue = queue);
    Ok(topology)
}

/// The end of a run.
pub(super) struct Ended {
    pub(super) flows: Vec<Option<Connected>>,
    /// Packets that the switch dropped.
    pub(super) drops: u64,
    pub(super) deep: Option<DeepReport>,
    pub(super) report: RunReport,
}

/// Runs a network to its end.
pub(super) fn run(mut sim: Sim) -> Result<Ended, Failure> {
    simulate::settle(&mut sim)?;
    sim.run(|_| true);
    let (flows, deep) = (sim.connections(), sim.deep(0));
    let report = sim.report();
    let drops = report.facts.drops.values().sum();
    match report.accounts.values().all(|account| account.balances()) {
        true => Ok(Ended { flows, drops, deep, report }),
        false => Err(Failure::No(report.to_string())),
    }
}
