//! Named data, without clock, thread or socket: a driver gives packets, time and the results of
//! disk I/O, and carries out what is asked for.
//!
//! [`forwarder`] is one worker's: what became of a packet, and where it goes. It owns a
//! [`store`], a cache of Data on two floors, memory and disks. [`management`] is one per node:
//! what clients order and ask, and the RIB. [`link`] lies between Interests and Data and the
//! packets of a face.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod dispatch;
pub mod face;
pub mod fib;
pub mod forwarder;
pub mod link;
pub mod management;
pub mod names;
pub mod nonces;
mod pit;
pub mod plan;
mod recent;
pub mod rtt;
pub mod store;
pub mod strategy;
