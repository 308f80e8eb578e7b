//! The web over named data: a producer that publishes a folder or an upstream site, and a proxy
//! that serves browsers.
//!
//! [`names`] maps URLs to names. Status and headers of a response are in the object's
//! [metadata](plexus_ndn_apps::metadata); its body is the object. So any consumer can fetch the
//! body like another object, and one packet suffices to answer a HEAD request, to answer "not
//! modified", or to find the segments of a range.
//!
//! `hyper` implements HTTP, on one `tokio` thread; named data have a thread of their own ([`desk`],
//! [`upstream`]), because their faces use a separate `epoll`.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod body;
pub mod desk;
pub mod folder;
pub mod freshness;
pub mod list;
pub mod names;
pub mod proxy;
pub mod publish;
pub mod range;
pub mod server;
mod unnamed;
pub mod upstream;
