//! Port back-ends behind one narrow trait, and the frame pool they share.
//!
//! A [`Pool`] is one worker's memory: fixed-size frames in one mapping. A [`Packet`] is a small
//! descriptor that owns one frame of the pool. A [`Port`] moves packets in [`Batch`]es between
//! the pool and a device. Everything above this crate is safe code.

pub mod memory;
pub mod namespace;
mod packet;
mod pool;
mod port;

pub use packet::{BATCH, Batch, Checksum, Offload, PORT_NONE, Packet, PortId, Segmentation};
pub use pool::{HEADROOM, Pool};
pub use port::{Capabilities, Link, Port, PortStats};
