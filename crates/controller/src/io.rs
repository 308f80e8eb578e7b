//! Inputs and outputs of the controller.

use plexus_wire::fabric::message::{Body, Hops};
use plexus_wire::{MacAddr, Time};
use serde::{Deserialize, Serialize};

use crate::follow::Others;
use crate::{Change, CommonAsk, Config, Event, NodeId, Record, Trace, TraceStart};

/// The initial state of a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Its settings.
    pub config: Config,
    /// This incarnation: higher than all before, and already stored.
    pub epoch: u64,
    /// It leads without a store: it tells routes, and promises nothing.
    pub provisional: bool,
    /// The instant of the start.
    pub now: Time,
    /// Seconds since 1970 at that instant: leases outlive the driver's clock.
    pub unix_s: u64,
    /// The stored records.
    pub stored: Vec<Record>,
    /// The only source of randomness.
    pub seed: [u8; 32],
}

/// An input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The cable of the controller's own port leads to this node, or to none.
    Attached {
        /// The node.
        to: Option<NodeId>,
    },
    /// A node's session is up: a new node, or a restarted one.
    NodeUp {
        /// Its identity.
        node: NodeId,
        /// Its name, from its credential.
        name: String,
        /// The version of the protocol that both speak.
        #[serde(default = "first_version")]
        version: u8,
    },
    /// A node's session was lost.
    NodeDown {
        /// Its identity.
        node: NodeId,
    },
    /// A node sent a message in its session.
    Message {
        /// The node.
        node: NodeId,
        /// Nonzero if it wants an answer that repeats it.
        request: u32,
        /// The message.
        body: Body,
    },
    /// The changes of this ticket, and of all before, are durable.
    Stored {
        /// Of the [`Output::Store`].
        ticket: u64,
    },
    /// A deadline has passed.
    Tick,
    /// Somebody looks at the network now: nodes are to tell their counters for a while.
    Watched,
    /// A frame is to be followed: an [`Output::Explained`] answers.
    Explain {
        /// The answer repeats it.
        question: u64,
        /// The frame.
        start: TraceStart,
    },
    /// An operator changes the group's common file: an [`Output::CommonTold`] answers.
    Common {
        /// The answer repeats it.
        question: u64,
        /// The request.
        ask: CommonAsk,
    },
    /// The settings have changed.
    Configure(Box<Config>),
    /// A device of routing daemons beside the controller is cabled to a port; absent: there is no
    /// such device any more.
    Device {
        /// Its name, as subnets name it.
        device: String,
        /// The Ethernet address of the port.
        port: Option<MacAddr>,
    },
    /// The controllers that stand by, as the store shows them.
    Others(Others),
    /// Whether the lease on leadership may have ended.
    Doubt(bool),
    /// Routes of the kernel beside the controller, where routing daemons write them: the inputs of
    /// a router whose interface 0 is the group.
    Kernel(Vec<plexus_control::router::Input>),
}

/// That of a recording which tells none.
fn first_version() -> u8 {
    plexus_control::version::FIRST
}

/// An output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Send a message in a node's session.
    Send {
        /// The node.
        node: NodeId,
        /// The request that it answers, or 0.
        request: u32,
        /// Retransmit until the node has acknowledged it.
        reliable: bool,
        /// The message.
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
        /// Increases each time.
        ticket: u64,
        /// The changes.
        changes: Vec<Change>,
    },
    /// The way of the frame of an [`Input::Explain`].
    Explained {
        /// The question's number.
        question: u64,
        /// The trace, or why there is none.
        told: Result<Trace, String>,
    },
    /// The answer to an [`Input::Common`].
    CommonTold {
        /// The question's number.
        question: u64,
        /// Names of nodes that have not said that they run the version, or the reason why it does
        /// not run.
        told: Result<Vec<String>, String>,
    },
    /// Another version of the common file is kept.
    CommonKept,
    /// A line for the log.
    Log(Event),
}
