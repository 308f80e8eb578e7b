//! Named Data Networking without clock, thread or socket. A driver passes in packets, time and the
//! results of disk I/O, and carries out the requested actions.
//!
//! [`forwarder`] is the forwarder of one worker: it decides every packet's outcome and next hops.
//! It owns a [`store`], a Data cache with two tiers, memory and disks. [`management`] exists once
//! per node: clients' commands and queries, and the RIB. [`link`] converts between Interests and
//! Data and the link packets of a face.

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
