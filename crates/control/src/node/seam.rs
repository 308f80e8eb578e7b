//! A driver passes inputs to a node, and carries out its outputs.

use std::net::IpAddr;

use plexus_wire::fabric::message::{
    Class, Counters, Explain, Explained, FibTarget, Forwarders, Gateway, GroupRoute, LinkFacts,
    PortRole, RouteEntry,
};
use plexus_wire::{MacAddr, Prefix};
use serde::{Deserialize, Serialize};

use super::Event;
use super::common::{Done, Part, Task};
use crate::link::Pin;

/// Input from the driver. Recorded inputs can be replayed: the outputs are the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A port gained or lost its carrier, or its facts have changed; absent: no carrier.
    Port {
        /// The port.
        port: u8,
        /// Its facts, as sent to its neighbour.
        facts: Option<LinkFacts>,
    },
    /// A port's role is restricted. Comes before the port's first [`Input::Port`].
    Pinned {
        /// The port.
        port: u8,
        /// The restriction.
        pin: Pin,
    },
    /// The data plane passes a frame to the control plane.
    Frame {
        /// The port on which it arrived.
        port: u8,
        /// Why it was passed.
        kind: FrameKind,
        /// The frame.
        bytes: Vec<u8>,
    },
    /// Frames have come in by these ports during the last Heartbeat interval: asked of those of
    /// [`Node::silent`](super::Node::silent) alone, before any other input.
    Heard(Vec<u8>),
    /// How much the node has to do, once a second, for the controller.
    Load {
        /// Packets that it has routed since it started.
        routed: u64,
        /// How busy its busiest worker was, in thousandths.
        busy: u16,
    },
    /// The node's counters, while it is [watched](super::Node::is_watched), for the
    /// controller.
    Counters(Counters),
    /// The answer to an [`Output::Explain`].
    Explained(Box<Explained>),
    /// Packets were routed to these addresses since the last such input. Once every few seconds is
    /// often enough.
    Used(Vec<IpAddr>),
    /// Prefixes to which the node's forwarder of named data has routes, as URIs, and how many there
    /// are. With [`Input::Counters`].
    Names(Vec<String>, usize),
    /// The part of the common file with which the node starts, or to which it had to go back.
    Keeps(Part),
    /// The driver has carried out an [`Output::Common`].
    Common(Done),
    /// The node's own file has changed: a part that it did not fit may fit now.
    OwnFile,
    /// Time has passed: [`Node::next_deadline`](super::Node::next_deadline) has come.
    Tick,
    /// The node stops and tells its neighbours, so that they need not time out. The last input.
    Stop,
}

/// Why a frame was passed to the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameKind {
    /// A complete frame to the bootstrap address.
    Bootstrap,
    /// A complete frame from a host: no route, unknown station, or a group address.
    Host,
    /// A fabric control frame whose next hop was the control plane, after hop processing.
    Control,
    /// The beginning of a fabric frame for a station that is not behind its route's port, before
    /// hop processing; its kind is error.
    Stale,
    /// The same for a frame that could not be forwarded for another reason.
    Error,
}

/// Actions for the driver, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Send a frame out of a port as it is.
    Transmit {
        /// The port.
        port: u8,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Pass a fabric frame to the data plane as if from port 0xFF, the control plane.
    Send {
        /// The frame, starting with its fabric header.
        frame: Vec<u8>,
    },
    /// Set a port's role in the data plane.
    Role {
        /// The port.
        port: u8,
        /// Its role.
        role: PortRole,
        /// The neighbour's Ethernet address, of a fabric or controller port.
        neighbour: Option<MacAddr>,
        /// Frames travel without encapsulation.
        native: bool,
        /// The neighbour takes frames that owe what their hosts have left to devices.
        takes_owed: bool,
    },
    /// Admit a station to a host port: it may send and receive there.
    Admit {
        /// The port.
        port: u8,
        /// The station.
        mac: MacAddr,
    },
    /// Remove a station from a port.
    Expel {
        /// The port.
        port: u8,
        /// The station.
        mac: MacAddr,
    },
    /// Set an entry of the route memory; an entry without routes is removed.
    Install(RouteEntry),
    /// Set a tree's ports in the data plane; absent: remove the tree.
    Tree {
        /// Its number.
        tree: u32,
        /// Its ports.
        ports: Option<Vec<u8>>,
    },
    /// Set the tree for a host's frames to a group; without one the control plane gets them.
    Group(GroupRoute),
    /// The group's router has this Ethernet address and these IP addresses, each with its network;
    /// none: the group does not route.
    Gateways {
        /// Its Ethernet address.
        mac: MacAddr,
        /// Its IP addresses.
        addresses: Vec<Gateway>,
    },
    /// What becomes of the router's packets for a network; absent: there is no route to it.
    Route {
        /// The network.
        prefix: Prefix,
        /// What becomes of them.
        target: Option<FibTarget>,
    },
    /// The router has all routes of the group, so that it may route; or its table is wrong.
    HasRoutes(bool),
    /// Set the ways to the nodes that route for this one, as far as it does not: an empty way keeps
    /// the place of one that is not to be used. The parts that they hold make sense.
    Forwarders(Forwarders),
    /// These hosts lead to other networks, and no others do.
    Leading(Vec<IpAddr>),
    /// Set the classes of routed packets that pass a function.
    Classes(Vec<Class>),
    /// Set the station that has an address which packets are routed to; absent: remove it.
    Neighbour {
        /// The address.
        address: IpAddr,
        /// The station.
        mac: Option<MacAddr>,
    },
    /// A host's packet is for one of the router's own addresses.
    Own {
        /// The frame, as the host sent it.
        frame: Vec<u8>,
    },
    /// Route a host's packet again, as if it had just arrived.
    Again {
        /// The port.
        port: u8,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A host's packet cannot be routed, because no station has its destination: its sender has to
    /// be told.
    Unreachable {
        /// The frame, as the host sent it.
        frame: Vec<u8>,
    },
    /// The controller asks what the data plane would do with a frame: an [`Input::Explained`]
    /// answers.
    Explain(Explain),
    /// Check or run the node's part of the common file, then answer by [`Input::Common`].
    Common(Task),
    /// An event for the log.
    Tell(Event),
}
