//! What a router needs of the Linux kernel beneath it (rtnetlink(7)): devices for the routing
//! daemons to speak on, and the routes that they write into the kernel's table.
//!
//! A Plexus router forwards packets itself. FRR or BIRD run unchanged on the box's kernel, where
//! [`ensure_interface`] makes a veth pair for each router interface: one end is the daemons', the
//! other a port of the data plane. A [`Watcher`] tells of every route, address and device; a
//! [`RouteWriter`] writes routes in bulk, for tests, labs and experiments.
//!
//! Everything here concerns the network namespace of the thread that opens it.

mod event;
mod follow;
mod interface;
mod message;
mod next_hops;
mod parse;
mod routes;
mod socket;
mod watcher;
mod writer;

pub use event::{Hop, KernelEvent, KernelRoute, RouteKey, TABLE_LOCAL, TABLE_MAIN};
pub use interface::{ADDRESS_MARK, Interface, InterfaceSpec, ensure_interface, remove_interface};
pub use watcher::Watcher;
pub use writer::{RouteChange, RouteWriter, WriteFailure};
