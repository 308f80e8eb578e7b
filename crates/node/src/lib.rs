//! One box, without threads, clocks or sockets: what a node's file makes of its ports
//! ([`ports`]), and its control planes joined to the data plane ([`fabric`] with the group's
//! router, [`router`]).
//!
//! The daemon, the simulator and the tests all drive it, so that they do the same. A control plane
//! and the data plane know nothing of each other.

pub mod explain;
pub mod fabric;
mod group;
pub mod interface;
pub mod ports;
pub mod router;
pub mod routes;

use plexus_control::node::common::Task;
use plexus_wire::fabric::message::Explain;

/// The driver's work once tables and plans are up to date.
#[derive(Debug)]
pub struct Rest<E> {
    /// Frames to send, in order.
    pub frames: Vec<(plexus_plane::Injection, Vec<u8>)>,
    /// Events that a person may want to know of.
    pub events: Vec<E>,
    /// Questions of the controller about frames.
    pub questions: Vec<Explain>,
    /// Work on the node's part of the common file, in order.
    pub tasks: Vec<Task>,
}

impl<E> Default for Rest<E> {
    fn default() -> Rest<E> {
        Rest { frames: Vec::new(), events: Vec::new(), questions: Vec::new(), tasks: Vec::new() }
    }
}
