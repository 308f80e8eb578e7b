//! What goes into the controller and what comes out.

use plexus_wire::Time;
use plexus_wire::fabric::message::{Body, Hops};
use serde::{Deserialize, Serialize};

use crate::{Change, Config, Event, NodeId, Record};

/// What a controller begins with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Its settings.
    pub config: Config,
    /// This incarnation: higher than all before it, and stored as such already.
    pub epoch: u64,
    /// The instant of the start.
    pub now: Time,
    /// Seconds since 1970 at that instant: leases outlive the driver's clock.
    pub unix_s: u64,
    /// What was stored.
    pub stored: Vec<Record>,
    /// The only source of randomness.
    pub seed: [u8; 32],
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The cable of the controller's own port leads to this node, or nowhere.
    Attached {
        /// The node.
        to: Option<NodeId>,
    },
    /// A node's session is up: a new node, or one that has started again.
    NodeUp {
        /// Its identity.
        node: NodeId,
        /// Its name, from its credential.
        name: String,
    },
    /// A node's session is gone.
    NodeDown {
        /// Its identity.
        node: NodeId,
    },
    /// A node sent a body through its session.
    Message {
        /// The node.
        node: NodeId,
        /// Not zero if it wants an answer that repeats it.
        request: u32,
        /// What it says.
        body: Body,
    },
    /// The changes of this ticket, and of all before, will survive.
    Stored {
        /// Of the [`Output::Store`].
        ticket: u64,
    },
    /// A deadline has passed.
    Tick,
    /// The settings have changed.
    Configure(Box<Config>),
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Send a body through a node's session.
    Send {
        /// The node.
        node: NodeId,
        /// The request that it answers, or 0.
        request: u32,
        /// Send again until the node has acknowledged it.
        reliable: bool,
        /// What to say.
        body: Body,
    },
    /// The controller's route to a node has changed.
    Path {
        /// The node.
        node: NodeId,
        /// Hops from the node that the controller is attached to, ending in 0xFF; absent: none.
        hops: Option<Hops>,
    },
    /// Make these changes durable, all or none, then answer [`Input::Stored`].
    Store {
        /// Counts up.
        ticket: u64,
        /// What has changed.
        changes: Vec<Change>,
    },
    /// For people.
    Log(Event),
}
