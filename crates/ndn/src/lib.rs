//! The named-data forwarder, without clock, thread or socket: a driver gives it packets and time.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod cache;
pub mod dispatch;
pub mod face;
pub mod fib;
pub mod forwarder;
pub mod names;
pub mod nonces;
mod pit;
pub mod plan;
mod recent;
pub mod strategy;
