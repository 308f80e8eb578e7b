//! Port back-ends behind one narrow trait, and the frame pool they share.
//!
//! A [`Pool`] is one worker's memory: fixed-size frames in one mapping. A [`Packet`] is a small
//! descriptor that owns one frame of the pool. A [`Port`] moves packets in [`Batch`]es between
//! the pool and a device. Everything above this crate is safe code.

pub mod af_packet;
pub mod af_xdp;
mod device;
mod error;
pub mod memory;
pub mod namespace;
mod packet;
pub mod pcap;
mod pool;
mod port;
pub mod spec;
mod sys;
pub mod tap;
mod vnet;
pub mod wake;
pub mod wrap;

pub use af_packet::SUPER_FRAME;
pub use error::OpenError;
pub use packet::{BATCH, Batch, Checksum, Offload, PORT_NONE, Packet, PortId, Segmentation};
pub use pool::{HEADROOM, Pool};
pub use port::{Capabilities, Link, Port, PortStats};
