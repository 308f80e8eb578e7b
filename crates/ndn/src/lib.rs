//! Named data networking: what a node keeps of the Data that passes through it.
//!
//! Nothing here reads a clock, opens a file or starts a thread: time and the results of disk I/O
//! come in, requests go out.

#![deny(missing_docs)]

pub mod store;
