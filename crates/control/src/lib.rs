//! The control plane of a node, sans-IO: it takes inputs and the time, and gives outputs; clocks,
//! threads, sockets and the operating system's randomness stay with its driver.
//!
//! [`identity`]: who a box is, by whose word. [`session`]: proving it to a neighbour, and talking
//! to that neighbour afterwards so that nobody else can.
//!
//! - [`link`]: one port's neighbour, from carrier to proof to silence.
//! - [`node`]: a node's control plane, put together: neighbours, the way to the controller, hosts.
//! - [`hub`]: the controller's end: its port, and a session with every node.
//! - [`router`]: the control plane of an IP router, which stands by itself.
//! - [`requests`]: bodies that must arrive; [`timers`]: deadlines by name.

mod budget;
pub mod hub;
pub mod identity;
pub mod link;
pub mod node;
pub mod requests;
pub mod router;
pub mod session;
pub mod timers;
