//! The web by name: a producer that publishes a folder or a site upstream, and a proxy that answers
//! browsers from named data.
//!
//! [`names`] says which name a URL has. Status and headers of a response are in the object's
//! [metadata](plexus_ndn_apps::metadata), its body is the object. So a consumer that knows nothing
//! of the web fetches the body as any other object, and one packet is enough to answer a HEAD, to
//! say that nothing has changed, or to know which segments a range needs.
//!
//! HTTP is `hyper`'s, on one thread of `tokio`; named data have a thread of their own
//! ([`desk`], [`upstream`]), as their faces have an `epoll` of their own.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod body;
pub mod desk;
pub mod folder;
pub mod freshness;
pub mod names;
pub mod proxy;
pub mod range;
pub mod server;
mod unnamed;
pub mod upstream;
