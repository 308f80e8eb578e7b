//! Applications of named data: programs that use a forwarder without being part of one.
//!
//! An [`Application`](app::Application) takes packets and time and returns packets; an
//! [`Endpoint`](endpoint::Endpoint) owns the clock and the socket and drives it. [`fetch`] is a
//! consumer of segmented objects, which [`save`] writes to a file; [`publisher`] a producer of
//! [`files`] or of any other library; [`consume`] and [`produce`] generate the traffic of
//! experiments. With a [`key`] they sign commands and other keys' [`certificate`]s.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod app;
pub mod ask;
pub mod certificate;
pub mod command;
pub mod consume;
pub mod digest;
pub mod endpoint;
pub mod failure;
pub mod fetch;
pub mod files;
pub mod key;
pub mod metadata;
pub mod object;
pub mod produce;
pub mod publisher;
pub mod save;
pub mod segments;
pub mod side_by_side;
pub mod window;

pub use failure::Failure;
