//! Port back-ends behind one narrow trait, and the frame pool they share.
//!
//! A [`Pool`] is one worker's memory: fixed-size frames in one mapping. A [`Packet`] is a small
//! descriptor that owns one frame of the pool. A [`Port`] moves packets in [`Batch`]es between
//! the pool and a device. Everything above this crate is safe code.
//!
//! A worker's loop, which its driver writes:
//! 1. `receive` from each port, then process, then `transmit` each port's packets. Both calls do
//!    all work with the device (reclaiming sent frames, waking the kernel), so no further call is
//!    needed. `receive` also retries what a device had no room for.
//! 2. Ten times a second, `maintain` each port; report changes of its link to the plane.
//! 3. When nothing was received and nothing is left to transmit: [`wake::Sleeper::sleep`] on the
//!    ports' descriptors until the earliest of `next_deadline`, the plane's own timers and the next
//!    `maintain`. A packet that a port left with its caller causes no event: do not sleep longer
//!    than some 50 µs then.
//! 4. At the end, `close` each port: the pool then has all its frames.

pub mod af_packet;
pub mod af_xdp;
pub mod bpf;
pub mod clock;
pub mod datagram;
mod device;
pub mod disk;
mod error;
pub mod fast;
pub mod heap;
pub mod memory;
mod messages;
pub mod namespace;
pub mod netlink;
mod packet;
pub mod pcap;
mod pool;
mod port;
pub mod process;
pub mod secret;
pub mod spec;
pub mod support;
mod sys;
pub mod tap;
pub mod udp;
pub mod unsent;
pub mod users;
mod vnet;
pub mod wake;
pub mod wrap;

pub use af_packet::SUPER_FRAME;
pub use device::{AddressOf, DeviceFacts, Presence, device_facts, device_of, set_mtu};
pub use error::OpenError;
pub use packet::{
    BATCH, Batch, Checksum, Class, Form, Offload, PORT_NONE, Packet, PortId, Segmentation, Taken,
    take_each,
};
pub use pool::{HEADROOM, Head, Header, Heads, HeadsMut, Pool};
pub use port::{Capabilities, Link, Port, PortStats};
