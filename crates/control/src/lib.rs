//! The control plane of a node, sans-IO: it takes inputs and the time, and returns outputs. Clocks,
//! threads, sockets and the operating system's randomness belong to its driver.
//!
//! [`identity`]: who a box is, and who vouches for it. [`join`]: how a new box gets its identity.
//! [`session`]: authenticates a neighbour and then encrypts the conversation with it.
//!
//! - [`link`]: one port's neighbour, from carrier to proof to timeout.
//! - [`node`]: a node's control plane as a whole: neighbours, the path to the controller, hosts.
//! - [`hub`]: the controller's end: its port, and a session with every node.
//! - [`router`]: the control plane of an IP router, independent of the others.
//! - [`exchange`]: what two nodes whose hosts meet have in common.
//! - [`requests`]: reliable messages; [`timers`]: deadlines by name; [`version`]: what both sides
//!   of a session speak.

mod budget;
pub mod exchange;
mod hash;
pub mod hub;
pub mod identity;
pub mod join;
pub mod link;
pub mod node;
pub mod requests;
pub mod router;
pub mod session;
pub mod timers;
pub mod version;
