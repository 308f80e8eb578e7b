//! A router's interface to the Linux kernel (rtnetlink(7)): devices on which the routing daemons
//! communicate, and the routes that they write into the kernel's table.
//!
//! A Plexus router forwards packets itself. FRR or BIRD run unchanged on the machine's kernel,
//! where [`ensure_interface`] creates a veth pair for each router interface: one end is for the
//! daemons, the other is a port of the data plane. A [`Watcher`] reports every route, address and
//! device.
//!
//! Everything here concerns the network namespace of the thread that opens it.

mod cable;
mod event;
mod follow;
mod interface;
mod inventory;
mod message;
mod netdev;
mod next_hops;
mod parse;
mod routes;
mod socket;
mod watcher;

pub(crate) use cable::Cables;
pub use event::{Hop, KernelEvent, KernelRoute, RouteKey, TABLE_LOCAL, TABLE_MAIN};
pub use interface::{ADDRESS_MARK, Interface, InterfaceSpec, ensure_interface, leave_arp};
pub use inventory::{DeviceInfo, devices};
pub(crate) use netdev::Netdev;
pub use netdev::XdpFeatures;
pub use watcher::Watcher;
