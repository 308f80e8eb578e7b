//! The fabric: source-routed Ethernet between nodes (`axon.txt` §3.1) and its control messages.

pub mod encapsulation;
mod header;
pub mod message;

pub use header::*;
