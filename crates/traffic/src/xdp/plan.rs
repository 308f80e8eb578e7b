//! The plan of the generator in the kernel: templates that it sends in rotation.
//!
//! A template is a record of 21 words in the machine's byte order:
//!
//! ```text
//! byte 0     4       8      12   16         24          32            102    104      120    168
//!     +-----+-------+------+----+----------+-----------+-------------+------+--------+------+
//!     | len | frame | flow |    | gap (ns) | remainder | 0 … headers | mark |  body  | 0 …  |
//!     +-----+-------+------+----+----------+-----------+-------------+------+--------+------+
//! ```
//!
//! Headers end where the probe begins, so that the probe's body is aligned whatever they are;
//! *frame* says where they begin. The next packet is due *gap* nanoseconds after this one and
//! *remainder* / rate more.

use plexus_io::OpenError;
use plexus_io::bpf::Program;
use plexus_wire::Time;

use crate::flows::{self, Choice, Chooser, Flow, FlowError, FlowSpec};
use crate::generator::GeneratorConfig;
use crate::probe::{PROBE_LEN, Probe};
use crate::schedule::{Pattern, Rate, Schedule};
use crate::sizes::{FCS, Sizes};

/// The most templates: 44 MB of the kernel's memory.
pub const TEMPLATES_MAX: usize = 1 << 18;

/// Random choices and sizes repeat after at least this many packets.
const SAMPLE: usize = 1 << 16;

/// Words of a record, and the offsets in it.
pub(super) const RECORD: usize = 21;
pub(super) const LEN: i16 = 0;
pub(super) const FRAME: i16 = 4;
pub(super) const FLOW: i16 = 8;
pub(super) const GAP: i16 = 16;
pub(super) const REMAINDER: i16 = 24;
pub(super) const MARK: i16 = 102;

/// The longest headers followed by a probe.
const HEAD_MAX: usize = 80;

/// Where the shortest headers begin.
pub(super) const FRAME_AT_MAX: i32 = MARK as i32 - 14;

const _: () = assert!(FRAME_AT_MAX as usize + HEAD_MAX == RECORD * 8);

/// Why the kernel cannot send the requested packets.
#[derive(Debug, thiserror::Error)]
pub enum XdpPlanError {
    /// Flows or sizes that no generator can send.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// The device, or BPF.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What another back-end can.
    #[error("xdp_live cannot send {what}: use --backend af_xdp or af_packet")]
    Unable {
        /// The request.
        what: String,
    },
}

fn unable<T>(what: impl Into<String>) -> Result<T, XdpPlanError> {
    Err(XdpPlanError::Unable { what: what.into() })
}

/// Templates and the program's parameters.
pub(super) struct Plan {
    pub(super) records: Vec<[u64; RECORD]>,
    pub(super) flows: usize,
    /// Bytes of every frame that are written from its template: headers and probe.
    pub(super) head: usize,
    /// The shortest and the longest frame, without FCS.
    pub(super) len: (usize, usize),
    /// The divisor of remainders; `None`: always due.
    pub(super) per_s: Option<u64>,
}

impl Plan {
    pub(super) fn new(config: &GeneratorConfig) -> Result<Plan, XdpPlanError> {
        let spec = FlowSpec { seed: config.seed, ..config.flows.clone() };
        let len = (config.sizes.min().saturating_sub(FCS), config.sizes.max() - FCS);
        if len.1 > Program::LIVE_FRAME_MAX {
            let most = Program::LIVE_FRAME_MAX + FCS;
            return unable(format!("frames over {most} bytes (FCS included)"));
        }
        if config.pattern == Pattern::Poisson {
            return unable("departures at random (--pattern poisson)");
        }
        let per_s = match config.rate {
            Rate::Max if config.pattern == Pattern::Constant => None,
            Rate::Max => Some(1),
            Rate::Packets(n) | Rate::Layer1(n) | Rate::Layer2(n) => Some(n),
        };
        if per_s.is_some_and(|n| n == 0 || n > 1 << 62) {
            return unable("at this rate");
        }
        let count = templates(config)?;
        let built = flows::build(&spec)?;
        let needed = built.iter().map(Flow::len_min).max().unwrap_or(0);
        if len.0 < needed {
            let given = config.sizes.min();
            return Err(FlowError::TooSmall { given, needed: needed + FCS }.into());
        }
        // The same draws as those of the generator with a port.
        let mut chooser = Chooser::new(spec.count, config.choice, config.seed ^ 1);
        let mut sizes = config.sizes.sequence(config.seed ^ 2);
        let mut schedule = Schedule::new(config.rate, config.pattern, config.seed ^ 3, Time::ZERO);
        let mut frame = vec![0; len.1.max(HEAD_MAX)];
        let mut records = Vec::with_capacity(count);
        for _ in 0..count {
            let size = sizes.next_size();
            let at = chooser.next_flow();
            let gap = match config.pattern {
                Pattern::Constant => config.rate.gap(size),
                _ => {
                    let before = schedule.departure();
                    schedule.advance(size);
                    (schedule.departure().since(before).as_nanos() as u64, 0)
                }
            };
            let flow = &built[at];
            let frame = &mut frame[..size - FCS];
            flow.write(frame, &Probe::new(at as u32, 0, Time::ZERO));
            records.push(record(frame, flow.header_len(), at as u32, gap));
        }
        Ok(Plan { records, flows: built.len(), head: len.0.min(HEAD_MAX), len, per_s })
    }
}

fn record(frame: &[u8], headers: usize, flow: u32, gap: (u64, u64)) -> [u64; RECORD] {
    let mut bytes = [0; RECORD * 8];
    let at = MARK as usize - headers;
    bytes[0..4].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
    bytes[4..8].copy_from_slice(&(at as u32).to_ne_bytes());
    bytes[8..12].copy_from_slice(&flow.to_ne_bytes());
    bytes[16..24].copy_from_slice(&gap.0.to_ne_bytes());
    bytes[24..32].copy_from_slice(&gap.1.to_ne_bytes());
    let head = headers + PROBE_LEN;
    bytes[at..at + head].copy_from_slice(&frame[..head]);
    let mut words = [0; RECORD];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ]);
    }
    words
}

/// The number of templates until every periodic property repeats.
fn templates(config: &GeneratorConfig) -> Result<usize, XdpPlanError> {
    let flows = config.flows.count.max(1) as usize;
    let drawn = matches!(config.choice, Choice::Zipf(_)) && flows > 1;
    let mut count = if drawn { Some(1) } else { Some(flows) };
    if config.sizes == Sizes::Imix {
        count = count.and_then(|n| common_multiple(n, Sizes::IMIX_PERIOD));
    }
    if let Pattern::Burst { packets, .. } = config.pattern {
        count = count.and_then(|n| common_multiple(n, packets.max(1) as usize));
    }
    let random = drawn || matches!(config.sizes, Sizes::Range(..));
    let count = count.map(|n| if random { n * SAMPLE.div_ceil(n) } else { n });
    match count {
        Some(n) if n <= TEMPLATES_MAX && flows <= TEMPLATES_MAX => Ok(n),
        _ => unable(format!(
            "so many flows, sizes and bursts that they repeat after more than {TEMPLATES_MAX} \
             packets"
        )),
    }
}

fn common_multiple(a: usize, b: usize) -> Option<usize> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn config(flows: u32, sizes: &str) -> GeneratorConfig {
        GeneratorConfig {
            flows: FlowSpec { count: flows, ..FlowSpec::default() },
            sizes: sizes.parse().unwrap(),
            ..GeneratorConfig::default()
        }
    }

    fn number(record: &[u64; RECORD], at: i16) -> u32 {
        let word = record[at as usize / 8].to_ne_bytes();
        let at = at as usize % 8;
        u32::from_ne_bytes([word[at], word[at + 1], word[at + 2], word[at + 3]])
    }

    #[test]
    fn templates_come_round_when_flows_and_sizes_do() {
        let count = |flows, sizes| templates(&config(flows, sizes)).unwrap();
        assert_eq!([count(1, "64"), count(7, "64"), count(10, "imix")], [1, 7, 60]);
        let drawn = GeneratorConfig { choice: Choice::Zipf(1.0), ..config(10, "64") };
        assert_eq!(templates(&drawn).unwrap(), SAMPLE);
        assert_eq!(count(7, "64-1518"), 7 * SAMPLE.div_ceil(7));
        let plan = Plan::new(&config(8, "imix")).unwrap();
        let of = |n| plan.records.iter().filter(|r| number(r, LEN) == n).count();
        assert_eq!((plan.records.len(), of(60), of(590), of(1514)), (24, 14, 8, 2));
        for flow in 0..8 {
            assert_eq!(plan.records.iter().filter(|r| number(r, FLOW) == flow).count(), 3);
        }
    }

    #[test]
    fn a_template_holds_the_frame_that_a_port_would_send() {
        let plan = Plan::new(&config(3, "1518")).unwrap();
        let bytes: Vec<u8> = plan.records[2].iter().flat_map(|w| w.to_ne_bytes()).collect();
        let at = number(&plan.records[2], FRAME) as usize;
        let mut frame = bytes[at..at + plan.head].to_vec();
        frame.resize(1514, 0);
        let probe = crate::find_probe(&frame, crate::PROBE_UDP_PORT).unwrap();
        assert_eq!((probe.flow, plan.head), (2, 80));
        let packet = plexus_wire::ipv4::Packet::new_checked(&frame[14..]).unwrap();
        assert_eq!(packet.total_len(), 1500);
    }

    #[test]
    fn gaps_keep_rate_and_bursts() {
        let paced = |rate, pattern| {
            let plan = Plan::new(&GeneratorConfig { rate, pattern, ..config(1, "64") }).unwrap();
            plan.records.iter().map(|r| (r[2], r[3])).collect::<Vec<_>>()
        };
        let gaps = paced(Rate::Packets(3), Pattern::Constant);
        assert_eq!(gaps, [(333_333_333, 1)]);
        let every = Duration::from_micros(10);
        let gaps = paced(Rate::Max, Pattern::Burst { packets: 3, every });
        assert_eq!(gaps, [(0, 0), (0, 0), (10_000, 0)]);
    }

    #[test]
    fn unsupported_requests_are_refused() {
        let refused = |config: GeneratorConfig| match Plan::new(&config) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it was taken"),
        };
        let poisson = GeneratorConfig {
            rate: Rate::Packets(1000),
            pattern: Pattern::Poisson,
            ..config(1, "64")
        };
        assert!(refused(poisson).contains("poisson"));
        assert!(refused(config(1, "9000")).contains("3004 bytes"));
        assert!(refused(config(300_000, "64")).contains("262144"));
        assert!(refused(config(262_143, "imix")).contains("262144"));
        let stopped = GeneratorConfig { rate: Rate::Packets(0), ..config(1, "64") };
        assert!(refused(stopped).contains("rate"));
        let v6 = FlowSpec { destination_ip: "2001:2::1".parse().unwrap(), ..FlowSpec::default() };
        assert!(refused(GeneratorConfig { flows: v6, ..config(1, "64") }).contains("84 is the"));
    }
}
