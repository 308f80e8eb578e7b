//! The ends of named data: applications that point at a forwarder, and no part of one.
//!
//! An [`Application`](app::Application) takes packets and time and gives packets; an
//! [`Endpoint`](endpoint::Endpoint) has the clock and the socket and drives it. There are
//! [`fetch`], a consumer of segmented objects; [`publisher`], a producer of [`files`] or of
//! whatever a library finds; and the traffic of experiments: [`consume`] and [`produce`]. By a
//! [`key`] they sign commands and the [`certificate`]s of others.

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
pub mod segments;
pub mod window;

pub use failure::Failure;
