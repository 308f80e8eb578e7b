//! Named data: what a forwarder of it consists of, without clock, socket or thread.
//!
//! [`link`] is what lies between a face's link packets and the forwarder's Interests and Data;
//! [`face`] is who it is.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod face;
pub mod link;
