//! The fabric: source-routed Ethernet between nodes (`axon.txt` §3.1) and its control messages.

pub mod class;
pub mod encapsulation;
mod fib;
mod field;
mod group;
mod header;
pub mod message;
mod partition;

pub use group::{is_reserved_group, reserved_groups};
pub use header::*;
pub use partition::{Holders, PART_LEN_V4, PLACES_MAX, Partition};
