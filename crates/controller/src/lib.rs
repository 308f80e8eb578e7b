//! The controller's core: it knows the whole topology and every host, and answers the nodes (seed
//! §3.4, §4.2).
//!
//! [`Controller`] is a state machine without clock, socket, thread or unseeded randomness: inputs
//! go into [`handle`](Controller::handle), outputs come out of
//! [`poll_output`](Controller::poll_output) until there are none, and the driver calls again with
//! [`Input::Tick`] at [`next_deadline`](Controller::next_deadline). The driver owns sessions,
//! encryption and retransmission: it passes in decrypted messages and sends the returned ones;
//! messages may be duplicated or reordered. State that must survive a restart is output as
//! [`Output::Store`]; nothing is promised to a host before [`Input::Stored`].
//!
//! [`tenure`] decides which of several controllers leads; the crate `keeper` has the stores.

mod claims;
mod classes;
mod common;
mod control;
mod controller;
mod counters;
mod crossings;
mod daemons;
mod dhcp;
mod event;
mod explain;
mod fib;
mod flows;
mod follow;
mod forwarders;
mod groups;
mod hosts;
mod io;
mod keyed;
mod lists;
mod loads;
mod multicast;
mod node;
mod path;
mod policy;
mod provisional;
mod record;
pub mod reign;
mod resolve;
mod revoked;
mod router;
mod scan;
mod shares;
mod standbys;
pub mod tenure;
#[cfg(test)]
mod tests;
mod topology;
mod trees;
mod view;

pub use common::{CommonAsk, CommonTrial, CommonView};
pub use controller::Controller;
pub use counters::CountersView;
pub use event::{Drop, Event};
pub use explain::{Answer, Left, NextPlace, Pair, Passed, Trace, TraceStart};
pub use flows::EPOCH_MAX;
pub use follow::{Other, Others};
pub use io::{Input, Output, Start};
pub use multicast::GroupView;
pub use path::{Action, HostPath, NeighbourView, PathView, WayView};
pub use plexus_config::ControllerSettings as Config;
pub use record::{Change, CommonVersion, Lease, Record, RecordKey};
pub use shares::Share;
pub use view::{ClassView, Counts, FlowView, HostView, LinkView, NodeView};

/// A node's identity, as its credential states it.
pub type NodeId = u64;
