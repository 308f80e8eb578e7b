//! Traffic generators and meters.
//!
//! A generator sends frames that each carry a [`Probe`]: flow, sequence number, time of
//! transmission. A meter finds it again and keeps [`FlowStats`]: loss, latency, reordering,
//! duplicates, throughput. Neither reads a clock or depends on the port's back-end; [`drive`],
//! [`via`] and [`live`] run them on a machine's devices.
//!
//! For recorded traffic, [`ReuseProfile`] computes the size that a table of destinations needs.
//! [`FlowSizes`] has the published distributions of flow sizes.

mod bench;
mod content;
mod described;
mod destinations;
pub mod drive;
mod flow_sizes;
mod flows;
mod generator;
mod latencies;
pub mod live;
mod locality;
mod meter;
mod ndr;
mod probe;
mod receive;
mod reuse;
mod schedule;
mod sizes;
mod stats;
pub mod via;
mod xdp;

pub use bench::{BenchError, bench_count, bench_generate};
pub use content::Content;
pub use described::{Described, Upper};
pub use destinations::{Destination, DestinationError, parse_destinations};
pub use flow_sizes::{FlowSizes, Published};
pub use flows::{Choice, Chooser, Encapsulation, FlowError, FlowSpec};
pub use generator::{Generator, GeneratorConfig, Sent, idle_until};
pub use locality::{DestinationTrace, Locality};
pub use meter::{Arrived, Meter, MeterConfig};
pub use ndr::{Found, Outcome, Search, SearchConfig};
pub use probe::{PROBE_ETHERTYPE, PROBE_LEN, PROBE_UDP_PORT, Probe};
pub use receive::find_probe;
pub use reuse::{Reading, Reuse, ReuseDistances, ReuseProfile};
pub use schedule::{FRAME_MIN, Pattern, Rate, Schedule, WIRE_OVERHEAD};
pub use sizes::{FCS, SIZE_MAX, SizeSequence, Sizes, SizesError};
pub use stats::{FlowStats, Latency, Start, Summary};
pub use xdp::{TEMPLATES_MAX, XdpCounted, XdpGenerator, XdpMeter, XdpPlanError, XdpSent};
