//! The way of a packet, box by box, and the reasons for it.

use std::net::IpAddr;

use plexus_wire::MacAddr;
use plexus_wire::fabric::message::{Refusal, Step};
use serde::{Deserialize, Serialize};

use super::fabric::NodeName;

/// The question: a frame that comes in by a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// To a controller: the node. Absent: the one where the frame's source is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The port: its name to a node, its number to a controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The frame, in hexadecimal digits.
    pub frame: String,
    /// To a controller: the frame's source or destination address, where it is zero, is found from
    /// its IP address, as a host would by ARP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resolve: bool,
}

/// The way of the frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// The controller's word about its two hosts; absent: a node was asked, or the frame is not
    /// from one host to another.
    pub pair: Option<PairVerdict>,
    /// The boxes that it passes, the first one first.
    pub boxes: Vec<ExplainedBox>,
    /// Copies that were not followed.
    pub more: u32,
}

/// The controller's word when a host asks for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairVerdict {
    /// The asking host.
    pub from: MacAddr,
    /// The groups that it belongs to.
    pub from_groups: Vec<String>,
    /// The address that it asks for, if the frame has one.
    pub address: Option<IpAddr>,
    /// The station that it asks for, or the group's own; absent: none is known.
    pub to: Option<MacAddr>,
    /// The groups that this belongs to.
    pub to_groups: Vec<String>,
    /// Where it is.
    pub at: Option<(NodeName, u8)>,
    /// Why it gets no route; absent: it may have one.
    pub refused: Option<Refusal>,
    /// The rule that decides: the groups of a `deny` or `allow`, `None` for any host.
    pub rule: Option<PairRule>,
    /// The packet is for the group's router.
    pub routed: bool,
}

/// A rule of the controller's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairRule {
    /// It allows; otherwise it denies.
    pub allows: bool,
    /// The one group; absent: any host.
    pub from: Option<String>,
    /// The other group; absent: any host.
    pub to: Option<String>,
}

/// A box on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedBox {
    /// Its name.
    pub node: NodeName,
    /// The number of the port that the frame comes in by.
    pub port: u16,
    /// Its name, if the box has told.
    pub port_name: Option<String>,
    /// The frame, in hexadecimal digits.
    pub frame: String,
    /// Why the box does not tell; absent: it has.
    pub silent: Option<String>,
    /// Its decisions in order.
    pub steps: Vec<Step>,
    /// Frames that leave it.
    pub leaves: Vec<Leaves>,
    /// How many more leave.
    pub more: u32,
}

/// A frame that leaves a box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaves {
    /// The number of the port.
    pub port: u16,
    /// Its name, if the box has told.
    pub port_name: Option<String>,
    /// The frame, in hexadecimal digits.
    pub frame: String,
    /// Where it arrives.
    pub next: Next,
}

/// Where a frame arrives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// At the far end of the port's cable: a node was asked, which does not know more.
    Cable,
    /// At the box of this place in the list.
    Box(usize),
    /// At the host, which the controller knows there.
    Host(MacAddr),
    /// At a port for hosts, where the controller does not know the destination.
    Strangers,
    /// At the device of the controller.
    Controller,
    /// The controller knows no cable there: the box is wrong, or the cable has just been lost.
    NoCable,
    /// At a box where the same frame has been before.
    Loop,
    /// It was not followed: there are too many copies or boxes.
    NotFollowed,
}
