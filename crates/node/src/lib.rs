//! One box, without threads, clocks or sockets: what a node's file makes of its ports
//! ([`ports`]), and its control planes joined to the data plane ([`fabric`], [`router`]).
//!
//! The daemon, the simulator and the tests all drive it, so that they do the same. A control plane
//! and the data plane know nothing of each other.

pub mod fabric;
pub mod interface;
pub mod ports;
pub mod router;
pub mod routes;
