//! The recording of a fabric node's control plane (`record` in its file): lines of JSON. The first
//! is a [`Start`], the others are a [`Line`] each, in the order in which things happened.

use std::path::PathBuf;

use plexus_control::node::{Input, Output};
use plexus_wire::Time;
use serde::{Deserialize, Serialize};

/// What the control plane began with.
#[derive(Serialize, Deserialize)]
pub struct Start {
    /// Where its random numbers begin: session keys follow from it, so a recording is secret.
    pub seed: [u8; 32],
    /// How often it says that it is there.
    pub heartbeat_ns: u64,
    /// The file of its identity, which is not in the recording.
    #[serde(default)]
    pub identity: Option<PathBuf>,
}

/// Something that it was told, or that it wanted done.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// It was told this.
    Input {
        /// When, by the daemon's clock.
        now: Time,
        /// What.
        input: Input,
    },
    /// It wanted this done, because of inputs before.
    Output {
        /// What.
        output: Output,
    },
}
