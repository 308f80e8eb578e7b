//! Answers of daemons. Field names are those of the JSON.

use serde::{Deserialize, Serialize};

pub mod config;
pub mod explain;
pub mod fabric;
pub mod named;
pub mod network;
pub mod node;
pub mod router;

/// To a request that has nothing to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Always true.
    pub done: bool,
}

/// To [`Request::Version`](crate::Request::Version).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// [`VERSION`](crate::VERSION).
    pub api: u32,
    /// The daemon's own version.
    pub plexus: String,
    /// `node` or `controller`.
    pub daemon: String,
    /// Its name.
    pub name: String,
}

impl About {
    /// Of a daemon of this version.
    pub fn new(daemon: &str, name: &str) -> About {
        let plexus = env!("CARGO_PKG_VERSION").into();
        About { api: crate::VERSION, plexus, daemon: daemon.into(), name: name.into() }
    }
}

/// To [`Request::Metrics`](crate::Request::Metrics).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// The daemon's metrics in the text format of Prometheus.
    pub metrics: String,
}

/// A line of [`Request::Trace`](crate::Request::Trace). A line `{}` says only that the node still
/// lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// When it passed, in nanoseconds since the node started.
    pub now_ns: u64,
    /// It left by the port; else it came in.
    pub out: bool,
    /// Frames that the client was too slow for, since the line before. In a trace of samples
    /// also those that were skipped because there were too many at once.
    pub missed: u64,
    /// It is one of several that the kernel has forwarded; the others are not shown.
    #[serde(default)]
    pub sample: bool,
    /// Its length in bytes. Zero from daemons that take no samples: `frame` has all of it.
    #[serde(default)]
    pub len: usize,
    /// Its bytes, in hexadecimal; of a sample the first ones.
    pub frame: String,
}
