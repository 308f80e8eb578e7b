//! The policies of the traffic co-processor (`traffic-coprocessor.txt`), sans-IO: a small fast
//! table, and a CPU behind it with room for all flows and for bursts.
//!
//! | policy | where |
//! |---|---|
//! | which flows have a rule in the fast table | [`Offload`] |
//! | the paper's switching chip, as a policy sees it | [`chip`] |
//! | bursts wait in a deep buffer, long flows do not | [`deep`] |
//! | senders of low-rate bursts are found | [`lowrate`] |
//!
//! Drivers are the data plane, the simulator and experiments. Time comes in as an argument, and
//! seeds make all choices repeatable. No input may make a policy panic or grow without bound.

pub mod chip;
pub mod deep;
pub mod lowrate;
mod offload;
mod rank;
mod sketch;

pub use chip::{Chip, ChipModel, ChipSpec};
pub use offload::{Counting, Offload, OffloadConfig, OffloadCounters, Place};
pub use rank::{Interval, swaps};
pub use sketch::Sketch;
