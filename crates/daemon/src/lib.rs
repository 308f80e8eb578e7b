//! What `plexus node run` and `plexus controller run` are: threads, clocks, sockets, reload,
//! metrics.
//!
//! [`node::run`] and [`controller::run`] return when a signal or a client of the control socket
//! asks for it. The state machines that they drive are in `plane`, `control`, `controller` and
//! `ndn`. The other public modules are formats of files that other commands read or write too;
//! [`replay`] plays a recording again.

mod adoption;
mod ask;
pub mod cache_disk;
pub mod certificate;
pub mod controller;
pub mod identity;
mod kernel;
pub mod ledger;
mod metrics;
pub mod node;
mod quiet;
pub mod recording;
pub mod replay;
mod socket;
mod versions;
