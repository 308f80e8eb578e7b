//! Traffic generators and meters.
//!
//! A generator sends frames that each carry a [`Probe`]: flow, sequence number, time of
//! transmission. A meter finds it again and keeps [`FlowStats`]: loss, latency, reordering,
//! duplicates, throughput. Neither reads a clock or knows what is behind its port.

mod probe;
mod stats;

pub use probe::{PROBE_ETHERTYPE, PROBE_LEN, PROBE_UDP_PORT, Probe};
pub use stats::{FlowStats, Latency, Start, Summary};
