//! Named data, without clock, thread or socket: a driver gives packets, time and the results of
//! disk I/O, and carries out what is asked for.
//!
//! [`forwarder`] is one worker's: what became of a packet, and where it goes. [`store`] is a cache
//! of Data on two floors, memory and disks; [`cache`] is the smaller one that the forwarder has.
//! [`link`] lies between Interests and Data and the packets of a face. [`management`] is what
//! clients command the node by: routes, and what follows from them for the FIB.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod cache;
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
pub mod store;
pub mod strategy;
