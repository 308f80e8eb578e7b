//! The control plane of a node, sans-IO: it takes inputs and the time, and gives outputs; clocks,
//! threads, sockets and the operating system's randomness stay with its driver.
//!
//! [`identity`]: who a box is, by whose word. [`session`]: proving it to a neighbour, and talking
//! to that neighbour afterwards so that nobody else can.

pub mod identity;
pub mod session;
